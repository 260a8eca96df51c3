/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The log hook, and the detail string of the calling thread's last error. */
#ifndef RIPC_BASE_LOG_H
#define RIPC_BASE_LOG_H

#include "ripc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>

#define RIPC__DETAIL_MAX 1024 /* bytes of the detail string with its terminating 0 */

/* Whether a line of this level is logged: check before an expensive computation. */
bool ripc__log_enabled(enum ripc_log_level level);

/*
 * Logs one line. Log an error once, where it is first detected. Takes only its own lock; does not
 * block.
 */
void ripc__log(enum ripc_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Sets the calling thread's detail string and returns @err, so that: return ripc__fail(-EINVAL,
 * "...").
 */
int ripc__fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for calls that fail often. text: a string constant. */
int ripc__fail_text(int err, const char *text);

/*
 * Sends the log to standard error, as the setting log= requires, unless the application set a hook.
 */
void ripc__log_to_stderr(enum ripc_log_level level);

/* In the child of fork(): resets the log's lock, whose holder does not exist there. */
void ripc__log_atfork_child(void);

#endif
