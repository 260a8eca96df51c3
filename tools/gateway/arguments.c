/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "arguments.h"
#include "plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *prefix, *type, *key; /* key of MAIN; NULL: there is no MAIN */
	bool sided;                      /* the key is in the group in or out */
} types[] = {
	{"signal", "signal", "signal", false}, {"file", "file", "uri", false},
	{"stdio", "stdio", NULL, false},       {"socket", "socket", "address", true},
	{"ripc", "ripc", "service", true},     {"group", "ripc", "group", true},
};

static bool is_number(const char *text)
{
	char *end;

	if (!*text || isspace((unsigned char)*text))
		return false;
	strtod(text, &end);
	return !*end && strspn(text, "0123456789+-.eE") == strlen(text);
}

/* A number as it is; else a string. */
static void write_value(FILE *out, const char *value, bool as_text)
{
	if (as_text || !is_number(value))
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
			 "argument %u: '%s' is not signal:FORM, file:PATH, stdio, "
			 "socket:HOST:PORT, ripc:SERVICE or group:ID",
			 number, head);
		return false;
	}
	fprintf(out, "node%u={type=\"%s\";", number, types[i].type);
	if (types[i].key) {
		if (types[i].sided)
			fprintf(out, "%s={", number == 1 ? "in" : "out");
		fprintf(out, "%s=", types[i].key);
		write_value(out, main_value + 1, strcmp(types[i].key, "group") != 0);
		if (types[i].sided)
			fputs("};", out);
	}
	while ((key = strsep(&rest, ","))) {
		char *value = strchr(key, '=');

		if (!value || !isalpha((unsigned char)*key)) {
			snprintf(error, PLAN_ERROR_MAX, "argument %u: '%s' is not KEY=VALUE",
				 number, key);
			return false;
		}
		*value++ = '\0';
		fprintf(out, "%s=", key);
		write_value(out, value, false);
	}
	fputs("};\n", out);
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
				 "argument %u: quotes, backslashes and line breaks need a "
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
