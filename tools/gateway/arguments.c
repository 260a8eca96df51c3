/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "arguments.h"
#include "plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *prefix, *type, *key; /* key of MAIN; NULL: there is no MAIN */
	const char *out_key;             /* the key is in the group in, this one in out; or NULL */
} types[] = {
	{"signal", "signal", "signal", NULL},
	{"file", "file", "uri", NULL},
	{"stdio", "stdio", NULL, NULL},
	{"socket", "socket", "address", "address"},
	{"ripc", "ripc", "service", "service"},
	{"group", "ripc", "group", "group"},
	{"zeromq", "zeromq", "subscribe", "publish"},
	{"nanomsg", "nanomsg", "endpoints", "endpoints"},
};

static bool is_number(const char *text)
{
	char *end;

	if (!*text || isspace((unsigned char)*text))
		return false;
	strtod(text, &end);
	return !*end && strspn(text, "0123456789+-.eE") == strlen(text);
}

/* A number or a truth value as it is; else a string. */
static void write_value(FILE *out, const char *value, bool as_text)
{
	if (!as_text && (!strcmp(value, "true") || !strcmp(value, "false")))
		fprintf(out, "%s;", value);
	else if (as_text || !is_number(value))
		fprintf(out, "\"%s\";", value);
	else
		fprintf(out, "%s%s;", value, strpbrk(value, ".eE") ? "" : "L");
}

static bool write_node(FILE *out, unsigned number, char *argument, char *error)
{
	char *rest = argument, *head = strsep(&rest, ","), *key, *main_value = strchr(head, ':');
	size_t len = main_value ? (size_t)(main_value - head) : strlen(head), i = 0;
	const size_t ntypes = sizeof(types) / sizeof(types[0]);

	while (i < ntypes && (strlen(types[i].prefix) != len || memcmp(types[i].prefix, head, len)))
		i++;
	if (i == ntypes || !main_value != !types[i].key) {
		snprintf(error, PLAN_ERROR_MAX,
			 "arguments:%u: '%s' is not signal:FORM, file:PATH, stdio, "
			 "socket:HOST:PORT, ripc:SERVICE, group:ID, zeromq:URL or nanomsg:URL",
			 number, head);
		return false;
	}
	fprintf(out, "node%u={type=\"%s\";", number, types[i].type);
	if (types[i].key) {
		const char *main_key = types[i].key;

		if (types[i].out_key) {
			fprintf(out, "%s={", number == 1 ? "in" : "out");
			main_key = number == 1 ? main_key : types[i].out_key;
		}
		fprintf(out, "%s=", main_key);
		write_value(out, main_value + 1, strcmp(types[i].key, "group") != 0);
	}
	while ((key = strsep(&rest, ","))) {
		char *value = strchr(key, '=');

		if (!value || !isalpha((unsigned char)*key)) {
			snprintf(error, PLAN_ERROR_MAX, "arguments:%u: '%s' is not KEY=VALUE",
				 number, key);
			return false;
		}
		*value++ = '\0';
		fprintf(out, "%s=", key);
		write_value(out, value, false);
	}
	fputs(types[i].out_key ? "};};\n" : "};\n", out);
	return true;
}

bool arguments_write(FILE *out, unsigned n, char *const *arguments, char *error)
{
	fputs("nodes={", out);
	for (unsigned i = 0; i < n; i++) {
		char *copy;
		bool ok;

		if (strpbrk(arguments[i], "\"\\\n")) {
			snprintf(error, PLAN_ERROR_MAX,
				 "arguments:%u: quotes, backslashes and line breaks need a "
				 "configuration file",
				 i + 1);
			return false;
		}
		copy = strdup(arguments[i]);
		if (!copy) {
			snprintf(error, PLAN_ERROR_MAX, "out of memory");
			return false;
		}
		ok = write_node(out, i + 1, copy, error);
		free(copy);
		if (!ok)
			return false;
	}
	fputs("};paths=({in=\"node1\";out=[", out);
	for (unsigned i = 1; i < n; i++)
		fprintf(out, "%s\"node%u\"", i > 1 ? "," : "", i + 1);
	fputs("];});\n", out);
	return true;
}
