/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads files with secrets. Rejects a file that other users can access. */
#ifndef RIPC_AUTH_SECRET_H
#define RIPC_AUTH_SECRET_H

#include <stddef.h>
#include <sys/stat.h>

/*
 * Reads a regular file that belongs to this user or to root, with access for its owner only. *st:
 * its status; may be NULL. Return: its bytes, less than @cap, with a 0 appended; or a negative
 * errno with a phrase in why that names the path (-EACCES: others have access, -EFBIG, -EINVAL: not
 * a regular file).
 */
int ripc__secret_read(const char *path, char *text, size_t cap, struct stat *st, char *why,
		      size_t whylen);

#endif
