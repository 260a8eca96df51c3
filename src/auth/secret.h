/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files with secrets: read only if nobody else can. */
#ifndef RIPC_AUTH_SECRET_H
#define RIPC_AUTH_SECRET_H

#include <stddef.h>
#include <sys/stat.h>

/*
 * Reads a regular file that belongs to this user or to root and that only its owner can read or write. *st: what was read; may be NULL.
 * Return: its bytes, less than @cap, and a 0 is put behind them; or a negative errno with one phrase in why that names the
 * path (-EACCES: others have access, -EFBIG, -EINVAL: no regular file, ...).
 */
int ripc__secret_read(const char *path, char *text, size_t cap, struct stat *st, char *why,
		      size_t whylen);

#endif
