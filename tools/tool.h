/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the command line tools: messages, numbers, settings, signals, clocks. */
#ifndef RIPC_TOOLS_TOOL_H
#define RIPC_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of all tools; their man pages list them. */
enum tool_exit {
	TOOL_OK = 0,
	TOOL_NO_ANSWER = 1, /* the service was reached, but what was asked of it did not succeed */
	TOOL_UNREACHABLE = 2, /* the service was not found, or could not be connected */
	TOOL_ERROR = 3,       /* wrong usage, or the library could not be opened */
};

/* First bytes of a ping; a service that answers pings sends the message back unchanged. */
#define TOOL_PING_MAGIC     "RIPCPING"
#define TOOL_PING_MAGIC_LEN 8

/* Settings for ripc_open(), collected from the command line. Zero it first. */
struct tool_settings {
	char text[2048]; /* "key=value key=value" */
	size_t len;
};

/* The name that begins every message. */
extern const char *tool_name;

/*
 * The first call of each main(). Gives closed standard streams a descriptor that cannot be used;
 * otherwise one of the library would take its place, and get what is printed.
 */
void tool_begin(const char *name);

/* Prints "NAME: text" on the standard error stream. */
void tool_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * The same for a failed library call: "NAME: text: ripc_strerror(err): ripc_error_detail()". A
 * service that the text ends with is not named again.
 */
void tool_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* TOOL_UNREACHABLE or TOOL_ERROR, whichever suits the error of a library call. */
int tool_exit_of(int err);

/* Decimal or 0x hexadecimal, nothing behind it. Return: false if it is no such number. */
bool tool_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/*
 * The same for an option. Complains with the range, which is that of --help and of the man page.
 * @unit: "milliseconds", or "a number"
 */
bool tool_parse_range(const char *option, const char *unit, const char *text, uint64_t min,
		      uint64_t max, uint64_t *value);

/* A number of bytes with an optional K, M or G (powers of 1024). */
bool tool_parse_size(const char *text, uint64_t max, uint64_t *value);

/*
 * A service: a number is its id, anything else its name. With @any, also "any" for RIPC_ANY_ID.
 * *name: @text if it is a name, else NULL. Complains when it is none.
 */
bool tool_parse_service(const char *text, bool any, uint64_t *id, const char **name);

/*
 * As the library writes it: service 42, or with a name service 4950... ("camera/left"). Control
 * characters become '?'. @name: or NULL, or empty. Static, for one thread.
 */
#define TOOL_SERVICE_TEXT 320
const char *tool_service_text(uint64_t id, const char *name);

/* Registers a service as tool_parse_service() gave it. Return: as ripc_service_register(). */
struct ripc;
struct ripc_service;
struct ripc_route;
int tool_register(struct ripc *ctx, uint64_t id, const char *name, struct ripc_service **service);

/* As ripc_route_lookup(), for all of the time; a signal that sets tool_stopped ends it soon. */
int tool_route_lookup(struct ripc *ctx, uint64_t id, struct ripc_route *route, uint64_t timeout_ms);

/* Copies the name of a service; control characters become '?'. @text takes 256 bytes. */
void tool_name_text(const char *name, char text[256]);

/*
 * Adds key=value; with @value NULL, @key is the whole setting as the user wrote it. Complains and
 * returns false when there is no '=' in it, or no room.
 */
bool tool_settings_add(struct tool_settings *settings, const char *key, const char *value);

/*
 * The file that an option names, or standard output for "-". Tools open it before they start to
 * work, so that no work is lost to a wrong name. The contents of the file stay until
 * tool_output_begin(). Prints an error and returns NULL if it cannot be written.
 */
FILE *tool_output_open(const char *option, const char *path);

/* Truncates the file. Call before the first byte is written. */
void tool_output_begin(FILE *file);

/* Closes it, unless it is standard output. Complains and returns false if not all was written. */
bool tool_output_close(FILE *file, const char *option, const char *path);

/*
 * Closes standard output. The last call of each main(). Return: @rc, the exit code of the tool, or,
 * after an error message, TOOL_ERROR if not all output could be written. Ends the process by
 * SIGPIPE if that was caught.
 */
int tool_finish(int rc);

/*
 * Sets tool_stopped on SIGINT and SIGTERM, of which a second one ends the process, and on SIGPIPE,
 * by which tool_finish() ends it.
 */
void tool_catch_signals(void);
extern volatile int tool_stopped;

/*
 * From now on the calling thread gets SIGPIPE as soon as nobody reads standard output any more. For
 * work that prints little, or late.
 */
void tool_watch_output(void);

/* Monotonic time. */
uint64_t tool_now_ns(void);

/* Processor time used by the process so far, user and system. */
double tool_cpu_s(void);

/* @text takes 37 bytes: an instance id as people write it. */
void tool_instance_text(const uint8_t instance[16], char text[37]);

#endif
