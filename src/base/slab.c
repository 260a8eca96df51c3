/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/slab.h"

#include <stdlib.h>

#define FREE_SLABS_MAX 4 /* free slabs kept for the next use */

void ripc__slab_pool_init(struct ripc__slab_pool *pool, size_t max)
{
	*pool = (struct ripc__slab_pool){.max = max};
}

void ripc__slab_pool_fini(struct ripc__slab_pool *pool)
{
	if (pool->current)
		ripc__slab_put(pool->current);
	pool->current = NULL;
	while (pool->free) {
		struct ripc__slab *slab = pool->free;

		pool->free = slab->next;
		free(slab);
	}
	pool->nfree = 0;
}

struct ripc__slab *ripc__slab_get(struct ripc__slab_pool *pool, size_t cap)
{
	struct ripc__slab *slab = pool->free;

	if (cap == RIPC__SLAB_BYTES && slab) {
		pool->free = slab->next;
		pool->nfree--;
		slab->refs = 1;
		return slab;
	}
	if (pool->bytes + cap > (cap == RIPC__SLAB_BYTES ? pool->max : 2 * pool->max))
		return NULL;
	slab = aligned_alloc(64, (sizeof(*slab) + cap + 63) & ~(size_t)63);
	if (!slab)
		return NULL;
	slab->pool = pool;
	slab->next = NULL;
	slab->refs = 1;
	slab->cap = (uint32_t)cap;
	pool->bytes += cap;
	return slab;
}

void ripc__slab_free(struct ripc__slab *slab)
{
	struct ripc__slab_pool *pool = slab->pool;

	if (slab->cap == RIPC__SLAB_BYTES && pool->nfree < FREE_SLABS_MAX) {
		slab->next = pool->free;
		pool->free = slab;
		pool->nfree++;
		return;
	}
	pool->bytes -= slab->cap;
	free(slab);
}

uint32_t ripc__slab_reserve(struct ripc__slab_pool *pool, uint32_t least, uint8_t **space)
{
	struct ripc__slab *slab = pool->current;

	/* No other reference: the same memory is still in the cache. */
	if (slab && slab->refs == 1)
		pool->used = 0;
	if (slab && RIPC__SLAB_BYTES - pool->used < least) {
		ripc__slab_put(slab);
		slab = NULL;
	}
	if (!slab) {
		pool->used = 0;
		pool->current = slab = ripc__slab_get(pool, RIPC__SLAB_BYTES);
		if (!slab)
			return 0;
	}
	*space = slab->data + pool->used;
	return RIPC__SLAB_BYTES - pool->used;
}
