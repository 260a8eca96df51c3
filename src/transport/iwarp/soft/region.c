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
		free(r->slots[i].region);
	free(r->slots);
	r->slots = NULL;
	r->cap = r->nfree = 0;
}

static bool grow(struct ripc__regions *r)
{
	uint32_t cap = r->cap ? 2 * r->cap : FIRST_CAP;
	struct ripc__region_slot *slots;

	if (cap > RIPC__REGIONS_MAX)
		return false;
	slots = realloc(r->slots, cap * sizeof(*slots));
	if (!slots)
		return false;
	for (uint32_t i = r->cap; i < cap; i++)
		slots[i] = (struct ripc__region_slot){.next_free = i + 1};
	r->slots = slots;
	r->free_head = r->cap;
	r->free_tail = cap - 1;
	r->nfree = cap - r->cap;
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
	slot = r->free_head;
	r->free_head = r->slots[slot].next_free;
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
	r->slots[slot].region = region;
	return region;
}

void ripc__region_remove(struct ripc__regions *r, struct ripc__region *region)
{
	uint32_t slot = region->stag & SLOT_MASK;

	r->slots[slot].region = NULL;
	if (r->nfree++)
		r->slots[r->free_tail].next_free = slot;
	else
		r->free_head = slot;
	r->free_tail = slot;
	ripc__list_del(&region->grant);
	free(region);
}

struct ripc__region *ripc__region_find(const struct ripc__regions *r, uint32_t stag)
{
	uint32_t slot = stag & SLOT_MASK;
	struct ripc__region *region = slot < r->cap ? r->slots[slot].region : NULL;

	return region && region->stag == stag ? region : NULL;
}
