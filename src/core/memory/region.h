/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of all memory of a context, by address. Public part: buffer.h. Lock held. */
#ifndef RIPC_CORE_MEMORY_REGION_H
#define RIPC_CORE_MEMORY_REGION_H

#include "core/memory/buffer.h"

/* A region that is not in the table, with empty lists. Return: NULL: out of memory. */
struct ripc__region *ripc__regions_new(struct ripc *ctx);
/* Both count its bytes, unless they are a peer's. Return: 0 or -ENOMEM. */
int ripc__regions_insert(struct ripc *ctx, struct ripc__region *r);
void ripc__regions_remove(struct ripc *ctx, struct ripc__region *r);
/* A region of this memory, in the table. Return: NULL: out of memory. */
struct ripc__region *ripc__regions_add(struct ripc *ctx, void *base, size_t len,
				       enum ripc__region_state state);
/* Ends its cached registrations: those in use end with their last user. */
void ripc__cached_mrs_drop(struct ripc *ctx, struct ripc__region *r);
/* Unmaps or frees the memory of a region of the pool or of a peer. */
void ripc__pool_unmap(struct ripc *ctx, struct ripc__region *r);
/* Ends a region of the pool, which is not in the cache, or of a peer. Nothing uses it. */
void ripc__region_destroy(struct ripc *ctx, struct ripc__region *r);

#endif
