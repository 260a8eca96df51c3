/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compat/report.h"

#include "ripc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Above the largest errno of Linux; larger numbers share one entry. */
#define ERRNOS 134

static const char *const names[COMPAT_CALLS] = {
	[COMPAT_INIT] = "init",
	[COMPAT_REGISTER] = "ripc_register_service_id",
	[COMPAT_REGISTER_RANDOM] = "ripc_register_random_service_id",
	[COMPAT_REGISTER_MULTICAST] = "ripc_register_multicast_service_id",
	[COMPAT_BUF_ALLOC] = "ripc_buf_alloc",
	[COMPAT_BUF_REALLOC] = "ripc_buf_realloc",
	[COMPAT_REG_RECV_WINDOW] = "ripc_reg_recv_window",
	[COMPAT_SEND_SHORT] = "ripc_send_short",
	[COMPAT_SEND_LONG] = "ripc_send_long",
	[COMPAT_RECEIVE] = "ripc_receive",
};

static _Atomic(bool) reported[COMPAT_CALLS][ERRNOS];

static void print(enum compat_call call, const char *fmt, va_list ap)
{
	char text[800];
	int saved = errno;

	vsnprintf(text, sizeof(text), fmt, ap);
	/* One call: other threads and processes write to standard error too. */
	fprintf(stderr, "libripc-compat: %s(): %s\n", names[call], text);
	errno = saved;
}

void ripc__compat_print(enum compat_call call, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print(call, fmt, ap);
	va_end(ap);
}

struct compat_cause ripc__compat_cause(int rc)
{
	const char *detail = ripc_error_detail();
	struct compat_cause cause;

	snprintf(cause.text, sizeof(cause.text), "%s%s%s", ripc_strerror(rc), *detail ? ": " : "",
		 detail);
	return cause;
}

uint8_t ripc__compat_failed(uint8_t answer, int rc, enum compat_call call, const char *fmt, ...)
{
	unsigned error = -rc < ERRNOS ? (unsigned)-rc : 0;
	va_list ap;

	if (!atomic_exchange(&reported[call][error], true)) {
		va_start(ap, fmt);
		print(call, fmt, ap);
		va_end(ap);
	}
	errno = -rc;
	return answer;
}
