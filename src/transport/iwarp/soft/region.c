/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/region.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 20 /* low bits of an STag: the slot; the others are random */
#define SLOT_MASK (RIPC__REGIONS_MAX - 1)
#define FIRST_CAP 64

void ripc__regions_init(struct ripc__regions *r, const uint8_t secret[16])
{
	memset(r, 0, sizeof(*r));
	memcpy(r->secret, secret, sizeof(r->secret));
}

void ripc__regions_fini(struct ripc__regions *r)
{
	for (uint32_t i = 0; i < r->cap; i++)
		free(r->slots[i]);
	free(r->slots);
	free(r->free);
	r->slots = NULL;
	r->free = NULL;
	r->cap = r->nfree = 0;
}

static bool grow(struct ripc__regions *r)
{
	uint32_t cap = r->cap ? 2 * r->cap : FIRST_CAP;
	struct ripc__region **slots;
	uint32_t *ring;

	if (cap > RIPC__REGIONS_MAX)
		return false;
	slots = realloc(r->slots, cap * sizeof(*slots));
	if (!slots)
		return false;
	memset(slots + r->cap, 0, (cap - r->cap) * sizeof(*slots));
	r->slots = slots;
	ring = realloc(r->free, cap * sizeof(*ring));
	if (!ring)
		return false;
	r->free = ring;
	r->free_head = 0;
	r->nfree = cap - r->cap;
	for (uint32_t i = 0; i < r->nfree; i++)
		ring[i] = r->cap + i;
	r->cap = cap;
	return true;
}

struct ripc__region *ripc__region_add(struct ripc__regions *r, void *base, size_t len,
				      unsigned access)
{
	struct ripc__region *region;
	uint64_t random;
	uint32_t slot;

	if (!r->nfree && !grow(r))
		return NULL;
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	slot = r->free[r->free_head];
	r->free_head = (r->free_head + 1) & (r->cap - 1);
	r->nfree--;
	random = ripc__siphash(r->secret, r->drawn++);
	region->base = base;
	region->len = len;
	region->access = access;
	ripc__list_init(&region->grant);
	do
		region->stag = (uint32_t)ripc__siphash(r->secret, r->drawn++) << SLOT_BITS | slot;
	while (!region->stag);
	/* Random in 2^62: no region can wrap round. */
	region->addr = (random >> 2) & ~UINT64_C(4095);
	r->slots[slot] = region;
	return region;
}

void ripc__region_remove(struct ripc__regions *r, struct ripc__region *region)
{
	uint32_t slot = region->stag & SLOT_MASK;

	r->slots[slot] = NULL;
	r->free[(r->free_head + r->nfree++) & (r->cap - 1)] = slot;
	ripc__list_del(&region->grant);
	free(region);
}

struct ripc__region *ripc__region_find(const struct ripc__regions *r, uint32_t stag)
{
	uint32_t slot = stag & SLOT_MASK;

	if (slot >= r->cap || !r->slots[slot] || r->slots[slot]->stag != stag)
		return NULL;
	return r->slots[slot];
}
