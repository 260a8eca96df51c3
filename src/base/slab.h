/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reference-counted blocks of receive memory; events point into them. Pure. */
#ifndef RIPC_BASE_SLAB_H
#define RIPC_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define RIPC__SLAB_BYTES (256u << 10) /* data of a slab shared by all endpoints */

/* A pool of slabs: keeps a few free ones and limits the memory of all blocks. */
struct ripc__slab_pool {
	/* list of free slabs of RIPC__SLAB_BYTES, at most FREE_SLABS_MAX */
	struct ripc__slab *free;
	unsigned nfree;
	size_t bytes; /* data bytes of all blocks, including free ones */
	size_t max;   /* limit of bytes */
	/* of ripc__slab_reserve(), with a reference; NULL: none */
	struct ripc__slab *current;
	uint32_t used; /* bytes of it */
};

/* One block. The last reference returns it to the pool or frees it. */
struct ripc__slab {
	struct ripc__slab_pool *pool;
	struct ripc__slab *next; /* in the list of free slabs */
	uint32_t refs;           /* > 0 while in use */
	uint32_t cap;            /* bytes at data */
	uint8_t data[] __attribute__((aligned(64)));
};

/* @max: limit of data bytes of all blocks. */
void ripc__slab_pool_init(struct ripc__slab_pool *pool, size_t max);
/* Frees the free slabs and the current one. No other slab may exist. */
void ripc__slab_pool_fini(struct ripc__slab_pool *pool);

/*
 * Returns a block of @cap bytes with one reference. Blocks of other sizes than RIPC__SLAB_BYTES may
 * use twice the limit: without slabs receiving stops, but a message that has begun is completed.
 * Return: NULL: out of memory, or the limit is reached.
 */
struct ripc__slab *ripc__slab_get(struct ripc__slab_pool *pool, size_t cap);
/* Returns a block without references to the pool. */
void ripc__slab_free(struct ripc__slab *slab);
/* Drops a reference. */
static inline void ripc__slab_put(struct ripc__slab *slab)
{
	if (!--slab->refs)
		ripc__slab_free(slab);
}

/*
 * Reserves free space of at least @least bytes at *space, in the current slab. Takes another slab
 * if necessary; reuses the same memory if no other reference exists. Return: bytes at *space; 0: no
 * memory.
 */
uint32_t ripc__slab_reserve(struct ripc__slab_pool *pool, uint32_t least, uint8_t **space);
/* Marks the first n bytes of that space as used. */
static inline void ripc__slab_use(struct ripc__slab_pool *pool, size_t n)
{
	pool->used += (uint32_t)((n + 63) & ~(size_t)63);
}

#endif
