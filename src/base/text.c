/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/text.h"
#include "ripc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t ripc__append(char *text, size_t len, size_t at, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (at >= len)
		return at;
	va_start(ap, fmt);
	n = vsnprintf(text + at, len - at, fmt, ap);
	va_end(ap);
	return at + (size_t)n;
}

int ripc__reason(int rc, char *why, size_t len, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, len, fmt, ap);
	va_end(ap);
	return rc;
}

const char *ripc__epoll_error(int err)
{
	switch (abs(err)) {
	case ENOSPC:
		return "fs.epoll.max_user_watches is reached; raise it with sysctl";
	case EMFILE:
	case ENFILE:
		return ripc_strerror(err);
	default:
		return strerror(abs(err));
	}
}
