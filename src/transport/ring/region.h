/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The memory that one peer may read or write: a table per connection, by key. Pure. */
#ifndef RIPC_RING_REGION_H
#define RIPC_RING_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__RING_REGIONS_MAX 65536u /* regions of one connection at most */

/*
 * In addition to enum ripc__access: the peer may not read it directly, its owner serves it. For
 * memory with missing pages: the owner's thread waits for these.
 */
#define RIPC__RING_ACCESS_SERVED (1u << 31)

struct ripc__ring_region {
	uint8_t *base;
	size_t len;    /* bytes */
	uint64_t addr; /* the address that the peer uses for base */
	/* slot in the low 16 bits, a number that changes with each use above; never 0 */
	uint32_t key;
	unsigned access;                  /* of enum ripc__access, and RIPC__RING_ACCESS_SERVED */
	struct ripc__ring_regions *table; /* NULL: its connection is gone */
};

struct ripc__ring_slot {
	struct ripc__ring_region *region; /* NULL: free */
	uint16_t generation;              /* uses of the slot: the upper half of its last key */
	uint32_t next_free;
};

/* All zeros at first. */
struct ripc__ring_regions {
	struct ripc__ring_slot *slots;
	uint32_t cap;
	uint32_t free; /* the first free slot; cap: none */
};

/* Frees the table; the regions stay their owners', without a table. */
void ripc__ring_regions_fini(struct ripc__ring_regions *r);

/* Return: the new region, or NULL: out of memory or slots. */
struct ripc__ring_region *ripc__ring_region_add(struct ripc__ring_regions *r, void *base,
						size_t len, uint64_t addr, unsigned access);
/* Takes it out of its table, if it still has one, and frees it. */
void ripc__ring_region_remove(struct ripc__ring_region *region);
/*
 * The memory at [addr, addr + len) under a key, all from the peer and unchecked; or NULL: not
 * allowed.
 */
uint8_t *ripc__ring_region_find(const struct ripc__ring_regions *r, uint32_t key, uint64_t addr,
				uint64_t len, unsigned access);

#endif
