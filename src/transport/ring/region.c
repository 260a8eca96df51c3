/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ring/region.h"

#include <stdlib.h>

#define SLOT_MASK (RIPC__RING_REGIONS_MAX - 1)
#define CAP_MIN   64u

void ripc__ring_regions_fini(struct ripc__ring_regions *r)
{
	for (uint32_t i = 0; i < r->cap; i++)
		if (r->slots[i])
			r->slots[i]->table = NULL;
	free(r->slots);
	free(r->generations);
	free(r->free);
	*r = (struct ripc__ring_regions){0};
}

static int grow(struct ripc__ring_regions *r)
{
	uint32_t cap = r->cap ? 2 * r->cap : CAP_MIN;
	void *slots, *generations, *list;

	if (cap > RIPC__RING_REGIONS_MAX)
		return -1;
	slots = realloc(r->slots, cap * sizeof(*r->slots));
	if (slots)
		r->slots = slots;
	generations = realloc(r->generations, cap * sizeof(*r->generations));
	if (generations)
		r->generations = generations;
	list = realloc(r->free, cap * sizeof(*r->free));
	if (list)
		r->free = list;
	if (!slots || !generations || !list)
		return -1;
	/* The lowest slots are taken first: only these can be read directly. */
	for (uint32_t i = cap; i-- > r->cap;) {
		r->slots[i] = NULL;
		r->generations[i] = 0;
		r->free[r->nfree++] = i;
	}
	r->cap = cap;
	return 0;
}

struct ripc__ring_region *ripc__ring_region_add(struct ripc__ring_regions *r, void *base,
						size_t len, uint64_t addr, unsigned access)
{
	struct ripc__ring_region *region;
	uint32_t slot;

	if (!r->nfree && grow(r))
		return NULL;
	region = malloc(sizeof(*region));
	if (!region)
		return NULL;
	slot = r->free[--r->nfree];
	if (!++r->generations[slot])
		r->generations[slot] = 1;
	*region = (struct ripc__ring_region){
		.base = base,
		.len = len,
		.addr = addr,
		.key = (uint32_t)r->generations[slot] << 16 | slot,
		.access = access,
		.table = r,
	};
	r->slots[slot] = region;
	return region;
}

void ripc__ring_region_remove(struct ripc__ring_region *region)
{
	struct ripc__ring_regions *r = region->table;

	if (r) {
		r->slots[region->key & SLOT_MASK] = NULL;
		r->free[r->nfree++] = region->key & SLOT_MASK;
	}
	free(region);
}

uint8_t *ripc__ring_region_find(const struct ripc__ring_regions *r, uint32_t key, uint64_t addr,
				uint64_t len, unsigned access)
{
	uint32_t slot = key & SLOT_MASK;
	const struct ripc__ring_region *region = slot < r->cap ? r->slots[slot] : NULL;

	if (!region || region->key != key || (region->access & access) != access)
		return NULL;
	if (addr < region->addr || addr - region->addr > region->len ||
	    len > region->len - (addr - region->addr))
		return NULL;
	return region->base + (addr - region->addr);
}
