/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Failures on standard error. libripc never prints; this library does, as that of 2012 did, because
 * programs of that time do not check: without a line their data is gone and nobody knows why. A
 * failure is reported once per call and errno, so a loop that fails in every round fills no disk.
 * Calls that may fail in a healthy program, such as ripc_buf_unregister(), are not reported.
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
 * The cause of a failed call of ripc.h as a text: ripc_strerror() and ripc_error_detail(). At most
 * 600 bytes.
 */
struct compat_cause {
	char text[600];
};
struct compat_cause ripc__compat_cause(int rc);

/*
 * Sets errno to that of a negative errno. Prints if @call fails this way for the first time.
 * Return: @answer.
 */
uint8_t ripc__compat_failed(uint8_t answer, int rc, enum compat_call call, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
