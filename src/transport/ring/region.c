/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ring/region.h"

#include <stdlib.h>

#define SLOT_MASK (RIPC__RING_REGIONS_MAX - 1)
#define CAP_MIN   64u

void ripc__ring_regions_fini(struct ripc__ring_regions *r)
{
	for (uint32_t i = 0; i < r->cap; i++)
		if (r->slots[i].region)
			r->slots[i].region->table = NULL;
	free(r->slots);
	*r = (struct ripc__ring_regions){0};
}

/* Adds free slots. Return: whether there is one. */
static bool grow(struct ripc__ring_regions *r)
{
	uint32_t cap = r->cap ? 2 * r->cap : CAP_MIN;
	struct ripc__ring_slot *slots;

	if (cap > RIPC__RING_REGIONS_MAX)
		return false;
	slots = realloc(r->slots, cap * sizeof(*slots));
	if (!slots)
		return false;
	for (uint32_t i = r->cap; i < cap; i++)
		slots[i] = (struct ripc__ring_slot){.next_free = i + 1};
	r->slots = slots;
	r->cap = cap;
	return true;
}

struct ripc__ring_region *ripc__ring_region_add(struct ripc__ring_regions *r, void *base,
						size_t len, uint64_t addr, unsigned access)
{
	struct ripc__ring_region *region;
	struct ripc__ring_slot *slot;

	/* The lowest slots are taken first: only these can be read directly. */
	if (r->free == r->cap && !grow(r))
		return NULL;
	region = malloc(sizeof(*region));
	if (!region)
		return NULL;
	slot = &r->slots[r->free];
	if (!++slot->generation)
		slot->generation = 1;
	*region = (struct ripc__ring_region){
		.base = base,
		.len = len,
		.addr = addr,
		.key = (uint32_t)slot->generation << 16 | r->free,
		.access = access,
		.table = r,
	};
	slot->region = region;
	r->free = slot->next_free;
	return region;
}

void ripc__ring_region_remove(struct ripc__ring_region *region)
{
	struct ripc__ring_regions *r = region->table;
	uint32_t slot = region->key & SLOT_MASK;

	if (r) {
		r->slots[slot].region = NULL;
		r->slots[slot].next_free = r->free;
		r->free = slot;
	}
	free(region);
}

uint8_t *ripc__ring_region_find(const struct ripc__ring_regions *r, uint32_t key, uint64_t addr,
				uint64_t len, unsigned access)
{
	uint32_t slot = key & SLOT_MASK;
	const struct ripc__ring_region *region = slot < r->cap ? r->slots[slot].region : NULL;

	if (!region || region->key != key || (region->access & access) != access)
		return NULL;
	if (addr < region->addr || addr - region->addr > region->len ||
	    len > region->len - (addr - region->addr))
		return NULL;
	return region->base + (addr - region->addr);
}
