/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/rdma/pool.h"
#include "base/log.h"
#include "transport/rdma/region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ripc__verbs_slab {
	struct ripc__verbs_slab *next;
	struct ibv_mr *mr; /* NULL: not registered */
	uint8_t *memory;
	size_t bytes;
	uint32_t count; /* of bufs */
	struct ripc__verbs_buf bufs[];
};

void ripc__verbs_pool_init(struct ripc__verbs_pool *pool, struct ripc__verbs_device *device,
			   uint32_t buf_bytes, uint32_t slab_bufs, uint32_t max)
{
	*pool = (struct ripc__verbs_pool){.device = device,
					  .buf_bytes = (buf_bytes + 63) & ~63u,
					  .slab_bufs = slab_bufs,
					  .max = max};
}

void ripc__verbs_pool_fini(struct ripc__verbs_pool *pool)
{
	while (pool->slabs) {
		struct ripc__verbs_slab *slab = pool->slabs;

		pool->slabs = slab->next;
		if (slab->mr && ibv_dereg_mr(slab->mr))
			ripc__log(RIPC_LOG_ERROR, "%s: cannot deregister buffers: %s",
				  pool->device->name, strerror(errno));
		free(slab->memory);
		free(slab);
	}
	pool->free = NULL;
	pool->nfree = pool->count = 0;
}

void ripc__verbs_pool_invalidate(struct ripc__verbs_pool *pool)
{
	pool->free = NULL;
	pool->nfree = 0;
	for (struct ripc__verbs_slab *slab = pool->slabs; slab; slab = slab->next) {
		if (slab->mr)
			ibv_dereg_mr(slab->mr);
		slab->mr = NULL;
		for (uint32_t i = slab->count; i-- > 0;) {
			slab->bufs[i].owner = NULL;
			if (!slab->bufs[i].delivered)
				ripc__verbs_pool_put(&slab->bufs[i]);
		}
	}
}

static int slab_register(struct ripc__verbs_pool *pool, struct ripc__verbs_slab *slab)
{
	int rc = ripc__verbs_reg_mr(pool->device, slab->memory, slab->bytes, IBV_ACCESS_LOCAL_WRITE,
				    &slab->mr);

	for (uint32_t i = 0; !rc && i < slab->count; i++)
		slab->bufs[i].lkey = slab->mr->lkey;
	return rc;
}

int ripc__verbs_pool_renew(struct ripc__verbs_pool *pool)
{
	int rc = 0;

	for (struct ripc__verbs_slab *slab = pool->slabs; slab && !rc; slab = slab->next)
		rc = slab_register(pool, slab);
	return rc;
}

static int pool_grow(struct ripc__verbs_pool *pool)
{
	uint32_t n = pool->slab_bufs;
	struct ripc__verbs_slab *slab;
	int rc;

	if (n > pool->max - pool->count)
		n = pool->max - pool->count;
	if (!n)
		return ripc__fail(-ENOBUFS, "%s: all %u buffers are in use", pool->device->name,
				  pool->max);
	slab = calloc(1, sizeof(*slab) + n * sizeof(slab->bufs[0]));
	if (!slab)
		return ripc__fail(-ENOMEM, "%s: out of memory", pool->device->name);
	slab->count = n;
	/* Whole pages: the device gets access to nothing else. */
	slab->bytes = ((size_t)n * pool->buf_bytes + 4095) & ~(size_t)4095;
	slab->memory = aligned_alloc(4096, slab->bytes);
	if (!slab->memory) {
		free(slab);
		return ripc__fail(-ENOMEM, "%s: out of memory", pool->device->name);
	}
	/* Unwritten bytes are never sent; initialised for memory checkers. */
	memset(slab->memory, 0, slab->bytes);
	rc = slab_register(pool, slab);
	if (rc) {
		free(slab->memory);
		free(slab);
		return rc;
	}
	slab->next = pool->slabs;
	pool->slabs = slab;
	pool->count += n;
	for (uint32_t i = n; i-- > 0;) {
		struct ripc__verbs_buf *buf = &slab->bufs[i];

		buf->pool = pool;
		buf->data = slab->memory + (size_t)i * pool->buf_bytes;
		ripc__verbs_pool_put(buf);
	}
	return 0;
}

int ripc__verbs_pool_reserve(struct ripc__verbs_pool *pool, uint32_t n)
{
	while (pool->nfree < n) {
		int rc = pool_grow(pool);

		if (rc)
			return rc;
	}
	return 0;
}

struct ripc__verbs_buf *ripc__verbs_pool_get(struct ripc__verbs_pool *pool)
{
	struct ripc__verbs_buf *buf = pool->free;

	if (!buf && !pool_grow(pool))
		buf = pool->free;
	if (!buf)
		return NULL;
	pool->free = buf->next;
	pool->nfree--;
	buf->next = NULL;
	return buf;
}

void ripc__verbs_pool_put(struct ripc__verbs_buf *buf)
{
	buf->next = buf->pool->free;
	buf->pool->free = buf;
	buf->pool->nfree++;
}
