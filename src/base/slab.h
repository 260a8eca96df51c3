/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counted blocks of memory that bytes are received into and that events point into. Pure. */
#ifndef RIPC_BASE_SLAB_H
#define RIPC_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define RIPC__SLAB_BYTES (256u << 10) /* data of a slab shared by all endpoints */

/* A pool of them: it keeps a few free slabs and bounds the memory of all blocks together. */
struct ripc__slab_pool {
	struct ripc__slab *free; /* list of free slabs of RIPC__SLAB_BYTES, at most SLABS_KEPT */
	unsigned nfree;
	size_t bytes; /* data bytes of all blocks that exist, the free ones too */
	size_t max;   /* what bytes may become */
};

/* One block. Freed, or back in the pool, with its last reference. */
struct ripc__slab {
	struct ripc__slab_pool *pool;
	struct ripc__slab *next; /* in the list of free slabs */
	uint32_t refs;           /* > 0 while in use */
	uint32_t cap;            /* bytes at data */
	uint8_t data[] __attribute__((aligned(64)));
};

/* @max: bytes that all blocks together may take. */
void ripc__slab_pool_init(struct ripc__slab_pool *pool, size_t max);
/* Frees the free slabs; those still referenced must not exist any more. */
void ripc__slab_pool_fini(struct ripc__slab_pool *pool);

/*
 * A block of cap bytes with one reference. Blocks of other sizes than RIPC__SLAB_BYTES may exceed the bound up to its
 * double: without slabs nothing is received any more, but a message that has begun should come to its end.
 * Return: it, or NULL: out of memory, or the bound is reached.
 */
struct ripc__slab *ripc__slab_get(struct ripc__slab_pool *pool, size_t cap);
/* Without references: back into the pool. */
void ripc__slab_free(struct ripc__slab *slab);
/* Drops a reference. */
static inline void ripc__slab_put(struct ripc__slab *slab)
{
	if (!--slab->refs)
		ripc__slab_free(slab);
}

/*
 * Free space to receive into: at least least bytes at *space, the end of the slab in *slab of which *used are taken. Takes another
 * slab if need be, and the same memory again once nobody else refers to it. Return: bytes there; 0: no memory.
 */
uint32_t ripc__slab_reserve(struct ripc__slab_pool *pool, struct ripc__slab **slab, uint32_t *used,
			    uint32_t least, uint8_t **space);

#endif
