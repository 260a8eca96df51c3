/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"
#include "json.h"
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool json_begins(const char *text)
{
	return text[strspn(text, " \t\r\n")] == '{';
}

#ifdef HAVE_JANSSON
#include <jansson.h>

/* A translation. jansson has checked the text, so that it is read without checks of its syntax. */
struct json {
	const char *in;
	char *out; /* twice the length of the text: each byte becomes two at most */
	unsigned line, depth;
	const char *fault;
};

static void put(struct json *j, const char *text)
{
	const size_t len = strlen(text);

	memcpy(j->out, text, len + 1);
	j->out += len;
}

static unsigned four_digits(struct json *j)
{
	const char digits[] = {j->in[0], j->in[1], j->in[2], j->in[3], 0};

	j->in += 4;
	return (unsigned)strtoul(digits, NULL, 16);
}

static void put_utf8(struct json *j, unsigned c)
{
	char *out = j->out;

	if (c < 0x80) {
		j->out += sprintf(out, "\\x%02x", c);
		return;
	}
	if (c >= 0x10000) {
		*out++ = (char)(0xf0 | c >> 18);
		*out++ = (char)(0x80 | (c >> 12 & 0x3f));
	} else if (c >= 0x800) {
		*out++ = (char)(0xe0 | c >> 12);
	}
	*out++ = c >= 0x800 ? (char)(0x80 | (c >> 6 & 0x3f)) : (char)(0xc0 | c >> 6);
	*out++ = (char)(0x80 | (c & 0x3f));
	j->out = out;
}

/* An escape sequence behind its backslash. */
static void translate_escape(struct json *j)
{
	const char same[] = {'\\', *j->in, 0};
	unsigned c;

	switch (*j->in++) {
	case 'b':
		put(j, "\\x08");
		break;
	case '/':
		put(j, "/");
		break;
	case 'u':
		c = four_digits(j);
		if (c >= 0xd800 && c < 0xdc00) {
			j->in += 2;
			c = 0x10000 + ((c - 0xd800) << 10) + (four_digits(j) - 0xdc00);
		}
		put_utf8(j, c);
		break;
	default:
		put(j, same);
	}
}

static void translate_string(struct json *j)
{
	*j->out++ = *j->in++;
	while (*j->in != '"') {
		if (*j->in != '\\') {
			*j->out++ = *j->in++;
			continue;
		}
		j->in++;
		translate_escape(j);
	}
	*j->out++ = *j->in++;
}

/* A text before a colon is a name, which libconfig has without quotes. */
static void translate_text(struct json *j)
{
	const char *name = j->in + 1, *end = name + strcspn(name, "\"\\"), *next;
	const char *const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*";
	size_t valid = 0;

	for (next = end; *next == '\\'; next += strcspn(next, "\"\\"))
		next += 2;
	next++;
	if (next[strspn(next, " \t\r\n")] != ':') {
		translate_string(j);
		return;
	}
	while (strchr(letters, name[valid]) || (valid && strchr("-_0123456789", name[valid])))
		valid++;
	if (!valid || *end == '\\' || name + valid != end) {
		j->fault = "a key must begin with a letter, and have only letters, digits, - and _";
		return;
	}
	memcpy(j->out, name, valid);
	j->out += valid;
	j->in = next;
}

/* libconfig needs an L behind an integer of more than 32 bits. */
static void translate_number(struct json *j)
{
	const size_t len = strspn(j->in, "-+.eE0123456789");

	memcpy(j->out, j->in, len);
	j->out += len;
	if (len > 9 && strcspn(j->in, ".eE") >= len)
		*j->out++ = 'L';
	j->in += len;
}

static void translate_other(struct json *j)
{
	char c = *j->in++;

	j->line += c == '\n';
	/* The outermost object has no braces in libconfig. */
	if (c == '{' && !j->depth++)
		c = ' ';
	else if (c == '}' && !--j->depth)
		c = ' ';
	*j->out++ = c == '[' ? '(' : c == ']' ? ')' : c;
}

static void translate(struct json *j)
{
	while (*j->in && !j->fault) {
		if (*j->in == '"')
			translate_text(j);
		else if (strchr("-0123456789", *j->in))
			translate_number(j);
		else if (*j->in == 'n')
			j->fault = "null is not a value of any key";
		else
			translate_other(j);
	}
	*j->out = 0;
}

int json_to_libconfig(const char *file, const char *text, char **settings, char *error)
{
	struct json j = {.in = text, .line = 1};
	json_error_t fault;
	json_t *checked = json_loads(text, JSON_REJECT_DUPLICATES, &fault);

	if (!checked) {
		snprintf(error, PLAN_ERROR_MAX, "%.255s:%d: %s", file, fault.line, fault.text);
		return -EINVAL;
	}
	json_decref(checked);
	*settings = j.out = malloc(2 * strlen(text) + 1);
	if (!j.out) {
		snprintf(error, PLAN_ERROR_MAX, "%.255s:1: out of memory", file);
		return -ENOMEM;
	}
	translate(&j);
	if (!j.fault)
		return 0;
	snprintf(error, PLAN_ERROR_MAX, "%.255s:%u: %s", file, j.line, j.fault);
	free(*settings);
	return -EINVAL;
}
#else
int json_to_libconfig(const char *file, const char *text, char **settings, char *error)
{
	(void)text;
	(void)settings;
	snprintf(error, PLAN_ERROR_MAX, "%.255s:1: JSON is not read: built without libjansson-dev",
		 file);
	return -ENOTSUP;
}
#endif
