/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texts in buffers of a fixed size: what does not fit is cut off, and each ends with a 0. */
#ifndef RIPC_BASE_TEXT_H
#define RIPC_BASE_TEXT_H

#include <stddef.h>

/* The value of a hexadecimal digit in lower case; -1: it is none. */
static inline int ripc__hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Writes to text[at...len-1]. Return: the new end; >= len: the text is full. */
size_t ripc__append(char *text, size_t len, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Writes the reason of an error. Return: rc. */
int ripc__reason(int rc, char *why, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * As strerror(), of a step that makes descriptors or waits on them: the limits behind EMFILE,
 * ENFILE and the ENOSPC of epoll_ctl() are named. @err: positive or negative.
 */
const char *ripc__epoll_error(int err);

#endif
