/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * JSON (RFC 8259) in the syntax of libconfig. Line breaks stay where they are, so that the lines of
 * libconfig's settings are those of the JSON text.
 */
#ifndef RIPC_GATEWAY_JSON_H
#define RIPC_GATEWAY_JSON_H

#include <stdbool.h>

/* An object is JSON: no text of libconfig begins with a brace. */
bool json_begins(const char *text);

/*
 * Translates a JSON object into settings: arrays become lists, as libconfig's arrays hold one type
 * only. @file: its name in messages; *@settings: for free(); @error: PLAN_ERROR_MAX bytes.
 * Return: 0, -EINVAL, -ENOMEM, or -ENOTSUP without jansson; @error is a sentence then.
 */
int json_to_libconfig(const char *file, const char *text, char **settings, char *error);

#endif
