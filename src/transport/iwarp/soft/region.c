/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/region.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 20 /* low bits of an STag: the slot; the others are drawn */
#define SLOT_MASK (RIPC__REGIONS_MAX - 1)
#define FIRST_CAP 64

static uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

uint64_t ripc__siphash(const uint64_t key[2], uint64_t number)
{
	uint64_t v[4] = {
		key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d),
		key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573),
	};
	const uint64_t words[2] = {number, UINT64_C(8) << 56};

	for (unsigned w = 0; w < 2; w++) {
		v[3] ^= words[w];
		sip_round(v);
		sip_round(v);
		v[0] ^= words[w];
	}
	v[2] ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

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

struct ripc__region *ripc__region_add(struct ripc__regions *r, void *base, size_t len, unsigned access)
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
	do
		region->stag = (uint32_t)ripc__siphash(r->secret, r->drawn++) << SLOT_BITS | slot;
	while (!region->stag);
	/* 2^62 offsets to draw from, and no region can wrap round. */
	region->addr = (random >> 2) & ~UINT64_C(4095);
	r->slots[slot] = region;
	return region;
}

void ripc__region_remove(struct ripc__regions *r, struct ripc__region *region)
{
	uint32_t slot = region->stag & SLOT_MASK;

	r->slots[slot] = NULL;
	r->free[(r->free_head + r->nfree++) & (r->cap - 1)] = slot;
	free(region);
}

struct ripc__region *ripc__region_find(const struct ripc__regions *r, uint32_t stag)
{
	uint32_t slot = stag & SLOT_MASK;

	if (slot >= r->cap || !r->slots[slot] || r->slots[slot]->stag != stag)
		return NULL;
	return r->slots[slot];
}
