/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of all memory of a context, by address. Public part: buffer.h. Lock held. */
#ifndef RIPC_CORE_MEMORY_REGION_H
#define RIPC_CORE_MEMORY_REGION_H

#include "core/memory/buffer.h"

/* Bytes of memory; a pool buffer has more than the application asked for. */
static inline size_t ripc__region_size(const struct ripc__region *r)
{
	return r->state == RIPC__REGION_USER ? r->len : r->cap;
}

/* A region that is not in the table, with empty lists. Return: NULL: out of memory. */
struct ripc__region *ripc__regions_new(struct ripc *ctx);
/* Return: 0 or -ENOMEM. */
int ripc__regions_insert(struct ripc *ctx, struct ripc__region *r);
void ripc__regions_remove(struct ripc *ctx, struct ripc__region *r);
/* Ends its cached registrations: those in use end with their last user. */
void ripc__cached_mrs_drop(struct ripc *ctx, struct ripc__region *r);
/* Unmaps or frees the memory of a region of the pool or of a peer. */
void ripc__pool_unmap(struct ripc *ctx, struct ripc__region *r);

#endif
