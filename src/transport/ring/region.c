/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ring/region.h"

#include <stdlib.h>

#define SLOT_MASK (RIPC__WIN_REGIONS_MAX - 1)
#define CAP_MIN   64u

void ripc__win_regions_init(struct ripc__win_regions *r)
{
	*r = (struct ripc__win_regions){0};
}

void ripc__win_regions_fini(struct ripc__win_regions *r)
{
	for (uint32_t i = 0; i < r->cap; i++)
		if (r->slots[i])
			r->slots[i]->table = NULL;
	free(r->slots);
	free(r->uses);
	free(r->free);
	*r = (struct ripc__win_regions){0};
}

static int grow(struct ripc__win_regions *r)
{
	uint32_t cap = r->cap ? 2 * r->cap : CAP_MIN;
	void *slots, *uses, *list;

	if (cap > RIPC__WIN_REGIONS_MAX)
		return -1;
	slots = realloc(r->slots, cap * sizeof(*r->slots));
	if (slots)
		r->slots = slots;
	uses = realloc(r->uses, cap * sizeof(*r->uses));
	if (uses)
		r->uses = uses;
	list = realloc(r->free, cap * sizeof(*r->free));
	if (list)
		r->free = list;
	if (!slots || !uses || !list)
		return -1;
	/* The lowest slots are taken first: only these can be read directly. */
	for (uint32_t i = cap; i-- > r->cap;) {
		r->slots[i] = NULL;
		r->uses[i] = 0;
		r->free[r->nfree++] = i;
	}
	r->cap = cap;
	return 0;
}

struct ripc__win_region *ripc__win_region_add(struct ripc__win_regions *r, void *base, size_t len,
					      uint64_t addr, unsigned access)
{
	struct ripc__win_region *region;
	uint32_t slot;

	if (!r->nfree && grow(r))
		return NULL;
	region = malloc(sizeof(*region));
	if (!region)
		return NULL;
	slot = r->free[--r->nfree];
	if (!++r->uses[slot])
		r->uses[slot] = 1;
	*region = (struct ripc__win_region){
		.base = base,
		.len = len,
		.addr = addr,
		.key = (uint32_t)r->uses[slot] << 16 | slot,
		.access = access,
		.table = r,
	};
	r->slots[slot] = region;
	return region;
}

void ripc__win_region_remove(struct ripc__win_region *region)
{
	struct ripc__win_regions *r = region->table;

	if (r) {
		r->slots[region->key & SLOT_MASK] = NULL;
		r->free[r->nfree++] = region->key & SLOT_MASK;
	}
	free(region);
}

uint8_t *ripc__win_region_find(const struct ripc__win_regions *r, uint32_t key, uint64_t addr,
			       uint64_t len, unsigned access)
{
	uint32_t slot = key & SLOT_MASK;
	const struct ripc__win_region *region = slot < r->cap ? r->slots[slot] : NULL;

	if (!region || region->key != key || (region->access & access) != access)
		return NULL;
	if (addr < region->addr || addr - region->addr > region->len ||
	    len > region->len - (addr - region->addr))
		return NULL;
	return region->base + (addr - region->addr);
}
