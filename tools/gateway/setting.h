/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Settings of a configuration, read with a check of their type and range. A fault is kept in the
 * reader as a sentence with file and line; further ones are ignored.
 */
#ifndef RIPC_GATEWAY_SETTING_H
#define RIPC_GATEWAY_SETTING_H

#include "plan.h"

#include <libconfig.h>

struct reader {
	struct plan *plan;
	const char *file;
	char *error; /* PLAN_ERROR_MAX bytes */
	bool failed;
};

/* A word of the configuration and its value in an enum; the last word is NULL. */
struct word {
	const char *text;
	int value;
};

/* Only the first error is kept. */
void setting_fail(struct reader *r, unsigned line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

unsigned setting_line(const config_setting_t *s);

/* Warns of every key of a group that is not in @keys, which a NULL ends. */
void setting_check_keys(struct reader *r, const config_setting_t *group, const char *const *keys);

/* These leave *@value as it is if the key is missing. */
void setting_number(struct reader *r, const config_setting_t *group, const char *key, double min,
		    double max, double *value);
void setting_integer(struct reader *r, const config_setting_t *group, const char *key, int64_t min,
		     int64_t max, uint64_t *value);

/* Return: @value if the key is missing. */
bool setting_bool(struct reader *r, const config_setting_t *group, const char *key, bool value);

/* Return: the text, of 1 to @max bytes, or NULL if the key is missing or the value is no text. */
const char *setting_text(struct reader *r, const config_setting_t *group, const char *key,
			 size_t max);

/* Return: the value of a word; @otherwise if the key is missing. */
int setting_word(struct reader *r, const config_setting_t *group, const char *key,
		 const struct word *words, int otherwise);

#endif
