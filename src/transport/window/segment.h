/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared memory without a name: made, passed on as a descriptor, and mapped only if it cannot be made smaller any more. */
#ifndef RIPC_WINDOW_SEGMENT_H
#define RIPC_WINDOW_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

struct ripc__segment {
	uint8_t *base; /* NULL: not mapped */
	size_t len;    /* bytes */
};

/* Makes one of zeros, sealed against any change of its size, mapped for reading only. Return: its descriptor, or a negative errno. */
int ripc__segment_make(struct ripc__segment *s, size_t len);
/*
 * Maps what a peer made for writing. Return: 0, -EPERM: it is not sealed, -EINVAL: no memory or too small, or what mmap() says.
 * The descriptor stays the caller's.
 */
int ripc__segment_map(struct ripc__segment *s, int fd, size_t len);
void ripc__segment_unmap(struct ripc__segment *s);

#endif
