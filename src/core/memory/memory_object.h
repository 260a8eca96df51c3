/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers that are memory objects (memfd) of their own, which can be exported. Lock held. */
#ifndef RIPC_CORE_MEMORY_MEMORY_OBJECT_H
#define RIPC_CORE_MEMORY_MEMORY_OBJECT_H

#include "core/memory/buffer.h"

/* Whether there is room for the descriptor of another object. */
bool ripc__memory_object_room(struct ripc *ctx);
/* Maps a new object of cap bytes. Return: NULL: impossible; else *fd is its descriptor. */
uint8_t *ripc__memory_object_map(struct ripc *ctx, size_t cap, int *fd);
/* Closes the descriptor of a region, if it has one. */
void ripc__memory_object_close(struct ripc *ctx, struct ripc__region *r);

#endif
