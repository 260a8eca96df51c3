/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "setting.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void setting_fail(struct reader *r, unsigned line, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (r->failed)
		return;
	r->failed = true;
	n = snprintf(r->error, PLAN_ERROR_MAX, "%.255s:%u: ", r->file, line);
	va_start(ap, fmt);
	vsnprintf(r->error + n, PLAN_ERROR_MAX - (size_t)n, fmt, ap);
	va_end(ap);
}

unsigned setting_line(const config_setting_t *s)
{
	return config_setting_source_line(s);
}

void setting_check_keys(struct reader *r, const config_setting_t *group, const char *const *keys)
{
	for (int i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned)i);
		const char *name = config_setting_name(s);
		char *out = r->plan->warnings;
		size_t len = strlen(out);
		const char *const *k = keys;

		while (*k && strcmp(*k, name))
			k++;
		if (!*k)
			snprintf(out + len, PLAN_ERROR_MAX - len,
				 "%.255s:%u: %.63s: unknown key, it has no effect\n", r->file,
				 setting_line(s), name);
	}
}

void setting_number(struct reader *r, const config_setting_t *group, const char *key, double min,
		    double max, double *value)
{
	const config_setting_t *s = config_setting_get_member(group, key);

	if (!s)
		return;
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		*value = (double)config_setting_get_int64(s);
		break;
	case CONFIG_TYPE_FLOAT:
		*value = config_setting_get_float(s);
		break;
	default:
		setting_fail(r, setting_line(s), "%s must be a number", key);
		return;
	}
	if (!(*value >= min && *value <= max))
		setting_fail(r, setting_line(s), "%s is %g, but must be from %g to %g", key, *value,
			     min, max);
}

void setting_integer(struct reader *r, const config_setting_t *group, const char *key, int64_t min,
		     int64_t max, uint64_t *value)
{
	const config_setting_t *s = config_setting_get_member(group, key);
	long long v;

	if (!s)
		return;
	if (config_setting_type(s) != CONFIG_TYPE_INT &&
	    config_setting_type(s) != CONFIG_TYPE_INT64) {
		setting_fail(r, setting_line(s), "%s must be a whole number", key);
		return;
	}
	v = config_setting_get_int64(s);
	if (v < min || v > max)
		setting_fail(r, setting_line(s), "%s is %lld, but must be from %lld to %lld", key,
			     v, (long long)min, (long long)max);
	else
		*value = (uint64_t)v;
}

bool setting_bool(struct reader *r, const config_setting_t *group, const char *key, bool value)
{
	const config_setting_t *s = config_setting_get_member(group, key);

	if (!s)
		return value;
	if (config_setting_type(s) != CONFIG_TYPE_BOOL)
		setting_fail(r, setting_line(s), "%s must be true or false", key);
	return config_setting_get_bool(s);
}

const char *setting_text(struct reader *r, const config_setting_t *group, const char *key,
			 size_t max)
{
	const config_setting_t *s = config_setting_get_member(group, key);
	const char *text = s ? config_setting_get_string(s) : NULL;

	if (s && (!text || !*text || strlen(text) > max)) {
		setting_fail(r, setting_line(s), "%s must be a text of 1 to %zu bytes in quotes",
			     key, max);
		return NULL;
	}
	return text;
}

int setting_word(struct reader *r, const config_setting_t *group, const char *key,
		 const struct word *words, int otherwise)
{
	const config_setting_t *s = config_setting_get_member(group, key);
	const char *text = s ? config_setting_get_string(s) : NULL;
	char list[256] = "";

	if (!s)
		return otherwise;
	for (; words->text; words++) {
		const size_t len = strlen(list);

		if (text && !strcmp(text, words->text))
			return words->value;
		snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", words->text);
	}
	setting_fail(r, setting_line(s), "%s is \"%.63s\", but must be one of %s", key,
		     text ? text : "", list);
	return otherwise;
}
