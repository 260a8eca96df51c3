/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads files of settings as a whole. Rejects a file with secrets that other users can access. */
#ifndef RIPC_BASE_FILE_H
#define RIPC_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/*
 * Reads a regular file. @secret: it must belong to this user or to root, with access for its owner
 * only. *st: its status; may be NULL. Return: its bytes, less than @cap, with a 0 appended; or a
 * negative errno with a phrase in why that names the path (-EACCES: others have access, -EFBIG,
 * -EINVAL: not a regular file).
 */
int ripc__file_read(const char *path, bool secret, char *text, size_t cap, struct stat *st,
		    char *why, size_t whylen);

/* Whether a file may have changed between two looks at its status. */
bool ripc__file_differs(const struct stat *a, const struct stat *b);

#endif
