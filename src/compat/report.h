/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Failures on standard error. libripc never prints. This library does, as that of 2012 did, because
 * programs of that time ignore results and would lose data silently. A failure is reported once per
 * call and errno, so that a loop of failures does not fill a disk. Calls that may fail in a correct
 * program, such as ripc_buf_unregister(), are not reported.
 */
#ifndef RIPC_COMPAT_REPORT_H
#define RIPC_COMPAT_REPORT_H

#include <stdint.h>

enum compat_call {
	COMPAT_INIT,
	COMPAT_REGISTER,
	COMPAT_REGISTER_RANDOM,
	COMPAT_REGISTER_MULTICAST,
	COMPAT_BUF_ALLOC,
	COMPAT_BUF_REALLOC,
	COMPAT_REG_RECV_WINDOW,
	COMPAT_SEND_SHORT,
	COMPAT_SEND_LONG,
	COMPAT_RECEIVE,
	COMPAT_CALLS
};

/* Prints "libripc-compat: CALL(): TEXT". */
void ripc__compat_print(enum compat_call call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The cause of a failed call of ripc.h as a text of at most 600 bytes: ripc_strerror() and
 * ripc_error_detail().
 */
struct compat_cause {
	char text[600];
};
struct compat_cause ripc__compat_cause(int rc);

/*
 * Sets errno from a negative errno. Prints if @call fails this way for the first time. Return:
 * @answer.
 */
uint8_t ripc__compat_failed(uint8_t answer, int rc, enum compat_call call, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
