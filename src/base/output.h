/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Structs that a public function fills. Their first member is the size in bytes that the caller
 * states, which may be that of an earlier or a later version of the library.
 */
#ifndef RIPC_BASE_OUTPUT_H
#define RIPC_BASE_OUTPUT_H

#include <stddef.h>

/* Return: 0; -EINVAL, explained: to is NULL, or its size was not set. type: its name. */
int ripc__check_output(const void *to, const char *type);
/* Copies what fits of the known bytes at from, but for the size, and clears the rest of to. */
void ripc__store_output(void *to, const void *from, size_t known);

#endif
