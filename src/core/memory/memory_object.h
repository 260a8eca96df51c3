/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers that are memory objects (memfd) of their own, which can be exported. Lock held. */
#ifndef RIPC_CORE_MEMORY_MEMORY_OBJECT_H
#define RIPC_CORE_MEMORY_MEMORY_OBJECT_H

#include "core/memory/buffer.h"

bool ripc__memory_object_room(struct ripc *ctx);
/*
 * Maps a new object of r->cap bytes for a region, which gets its descriptor. Return: NULL:
 * impossible.
 */
uint8_t *ripc__memory_object_map(struct ripc *ctx, struct ripc__region *r);
/* The object of one region becomes that of another one, which had none. */
void ripc__memory_object_move(struct ripc__region *from, struct ripc__region *to);
/* Keeps the descriptor of a peer's object. Return: whether there was room; if not, it is open. */
bool ripc__memory_object_keep(struct ripc *ctx, struct ripc__region *import, int fd);
/* The buffer of this context that is the object of the import; NULL: it is another process's. */
struct ripc__region *ripc__memory_object_own(struct ripc *ctx, const struct ripc__region *import);
/* Closes the descriptor of a region, if it has one. */
void ripc__memory_object_close(struct ripc *ctx, struct ripc__region *r);
/*
 * In the child of fork(), also without the lock: closes all descriptors. Async-signal-safe. A
 * thread that has the lock may be changing the table of regions, but not these.
 */
void ripc__memory_objects_forked(struct ripc *ctx);

#endif
