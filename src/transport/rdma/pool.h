/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registered buffers of one size, for receives and for copies of sends. Grows by slabs, never
 * shrinks.
 */
#ifndef RIPC_RDMA_POOL_H
#define RIPC_RDMA_POOL_H

#include "transport/rdma/device.h"

struct ripc__verbs_pool;

/* One buffer. Work request ids: see queue.h. */
struct ripc__verbs_buf {
	struct ripc__verbs_pool *pool;
	struct ripc__verbs_buf *next; /* in the free list, or the owner's own */
	uint8_t *data;                /* pool->buf_bytes, aligned to 64 */
	uint32_t lkey;
	bool delivered; /* of the owner: the core reads it, until release() */
	void *owner;    /* of a receive; NULL: release() frees it */
};

struct ripc__verbs_pool {
	struct ripc__verbs_device *device;
	uint32_t buf_bytes;
	uint32_t slab_bufs; /* buffers of a slab */
	uint32_t max;       /* buffers at most */
	uint32_t count;     /* buffers allocated */
	uint32_t nfree;
	struct ripc__verbs_buf *free;
	struct ripc__verbs_slab *slabs;
};

/* @buf_bytes is rounded up to 64. Allocates nothing. */
void ripc__verbs_pool_init(struct ripc__verbs_pool *pool, struct ripc__verbs_device *device,
			   uint32_t buf_bytes, uint32_t slab_bufs, uint32_t max);
/* All buffers are free, or will not be used any more. */
void ripc__verbs_pool_fini(struct ripc__verbs_pool *pool);

/*
 * Deregisters from a device that is gone or about to be closed. No buffer has an owner afterwards,
 * and those that the core does not read are free. Memory stays until fini: the core may read it.
 */
void ripc__verbs_pool_invalidate(struct ripc__verbs_pool *pool);
/* Registers all buffers with the device, opened again. Return: 0 or a negative errno, explained. */
int ripc__verbs_pool_renew(struct ripc__verbs_pool *pool);

/* Makes at least n buffers free. Return: 0, or -ENOMEM, -EPERM, -ENOBUFS (max), explained. */
int ripc__verbs_pool_reserve(struct ripc__verbs_pool *pool, uint32_t n);

/* A buffer; NULL if none is free and it cannot grow, explained. */
struct ripc__verbs_buf *ripc__verbs_pool_get(struct ripc__verbs_pool *pool);
void ripc__verbs_pool_put(struct ripc__verbs_buf *buf);

#endif
