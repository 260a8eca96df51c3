/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/memory/mapped.h"
#include "core/memory/memory_object.h"
#include "core/memory/buffer.h"

#include <stdlib.h>
#include <sys/mman.h>

#define MMAP_MIN (64u << 10) /* larger buffers are mapped separately */
#define HUGE_MIN (2u << 20)  /* larger buffers use huge pages if available */

void ripc__pool_unmap(struct ripc *ctx, struct ripc__region *r)
{
	ripc__memory_object_close(ctx, r);
	if (r->cap >= MMAP_MIN || r->state == RIPC__REGION_IMPORTED)
		munmap(r->base, r->cap);
	else
		free(r->base);
}

void ripc__region_destroy(struct ripc *ctx, struct ripc__region *r)
{
	ripc__exports_drop(r);
	ripc__cached_mrs_drop(ctx, r);
	ripc__regions_remove(ctx, r);
	ripc__pool_unmap(ctx, r);
	ripc__region_origin_release(ctx, r);
	free(r);
}

static void cache_remove(struct ripc *ctx, struct ripc__region *r)
{
	ripc__list_del(&r->free_link);
	ripc__list_del(&r->lru_link);
	ctx->memory->cached_bytes -= r->cap;
}

void ripc__pool_trim(struct ripc *ctx, uint64_t limit)
{
	struct ripc__memory *m = ctx->memory;

	while (m->cached_bytes > limit) {
		struct ripc__region *r =
			ripc__list_entry(ripc__list_first(&m->lru), struct ripc__region, lru_link);

		cache_remove(ctx, r);
		ripc__region_destroy(ctx, r);
	}
}

static struct ripc__region *pool_create(struct ripc *ctx, unsigned class, bool shared)
{
	struct ripc__region *r = ripc__regions_new(ctx);
	size_t cap = (size_t)1 << class;

	if (!r)
		return NULL;
	r->cap = cap;
	if (shared)
		r->base = ripc__memory_object_map(ctx, r);
	if (!r->base && cap >= MMAP_MIN)
		r->base = mmap(NULL, cap, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	else if (!r->base)
		r->base = aligned_alloc(64, cap);
	if (!r->base || r->base == MAP_FAILED) {
		free(r);
		return NULL;
	}
	if (cap >= HUGE_MIN)
		madvise(r->base, cap, MADV_HUGEPAGE);
	r->class = (uint8_t) class;
	if (ripc__regions_insert(ctx, r)) {
		ripc__pool_unmap(ctx, r);
		free(r);
		return NULL;
	}
	return r;
}

void ripc__region_prefault(struct ripc__region *r, size_t len)
{
	const size_t page = 4096;

	for (size_t at = r->prefaulted; at < len; at += page - at % page)
		((volatile uint8_t *)r->base)[at] = 0;
	if (len > r->prefaulted)
		r->prefaulted = len;
}

/* Of the free buffers of a class, one that this peer has mapped, or the first. */
static struct ripc__list *shared_find(struct ripc__list *class, const uint8_t *instance)
{
	struct ripc__region *r;

	ripc__list_for_each_entry (r, class, free_link)
		if (ripc__export_mapped_by(r, instance))
			return &r->free_link;
	return ripc__list_first(class);
}

/* Makes room for the descriptor of a memory object. Return: whether there is room. */
static bool object_room(struct ripc *ctx)
{
	struct ripc__region *r;

	if (ripc__memory_object_room(ctx))
		return true;
	ripc__list_for_each_entry (r, &ctx->memory->lru, lru_link) {
		if (r->fd < 0)
			continue;
		cache_remove(ctx, r);
		ripc__region_destroy(ctx, r);
		return true;
	}
	return false;
}

struct ripc__region *ripc__pool_get_untouched(struct ripc *ctx, size_t len,
					      enum ripc__region_state state,
					      const uint8_t *instance)
{
	struct ripc__memory *m = ctx->memory;
	unsigned class = RIPC__CLASS_MIN;
	struct ripc__region *r;
	struct ripc__list *n;
	bool shared;

	while (class <= RIPC__CLASS_MAX && ((size_t)1 << class) < len)
		class ++;
	/*
	 * mmap() does not refuse pages that do not exist: the kernel would kill a process when they
	 * are touched.
	 */
	if (class > RIPC__CLASS_MAX || len > ctx->host_bytes)
		return NULL;
	/* Only buffers that the application fills are exported. */
	shared = m->can_export && state == RIPC__REGION_APP && class >= RIPC__MEMFD_CLASS_MIN;
	if (shared)
		n = shared_find(&m->shared[class], instance ? instance : m->last_peer[class]);
	else
		n = ripc__list_first(&m->classes[class]);
	if (!n && shared && !object_room(ctx)) {
		shared = false;
		n = ripc__list_first(&m->classes[class]);
	}
	if (n) {
		r = ripc__list_entry(n, struct ripc__region, free_link);
		cache_remove(ctx, r);
		r->stale_len = r->prefaulted;
	} else {
		r = pool_create(ctx, class, shared);
		if (!r) {
			/* Idle buffers in the cache may hold the missing memory. */
			ripc__pool_trim(ctx, 0);
			r = pool_create(ctx, class, shared);
		}
		if (!r)
			return NULL;
	}
	ripc__region_set_state(r, state);
	r->len = len;
	ripc__export_reset(r);
	return r;
}

struct ripc__region *ripc__pool_get(struct ripc *ctx, size_t len, enum ripc__region_state state)
{
	struct ripc__region *r = ripc__pool_get_untouched(ctx, len, state, NULL);

	if (!r)
		return NULL;
	/*
	 * Memory for a large announced item is allocated as data arrives; a peer's announcement
	 * alone must not consume it.
	 */
	ripc__region_prefault(r, state == RIPC__REGION_MESSAGE && len > RIPC__UNREAD_MAX
					 ? RIPC__UNREAD_MAX
					 : len);
	return r;
}

void ripc__pool_put(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__memory *m = ctx->memory;

	/*
	 * strict: a peer would read the next owner's data. Detached: it occupies twice its size.
	 * Tainted: a peer may still read the present data.
	 */
	if (r->sharing == RIPC__REGION_DETACHED || r->sharing == RIPC__REGION_TAINTED ||
	    (r->sharing == RIPC__REGION_EXPORTED && ripc__export_strict(ctx))) {
		ripc__region_destroy(ctx, r);
		return;
	}
	ripc__region_set_state(r, RIPC__REGION_FREE);
	/* Reuse the most recently used buffer first: it is the most likely to be in the cache. */
	ripc__list_add((r->fd >= 0 ? m->shared : m->classes)[r->class].next, &r->free_link);
	ripc__list_add(&m->lru, &r->lru_link);
	m->cached_bytes += r->cap;
	ripc__pool_trim(ctx, ctx->opt.pool_bytes);
}

void ripc__region_release(struct ripc *ctx, struct ripc__region *r)
{
	if (r->state == RIPC__REGION_IMPORTED)
		ripc__import_settle(r);
	else if (r->state == RIPC__REGION_FREED && !r->pins && !r->sends)
		ripc__pool_put(ctx, r);
}

void ripc__region_origin_release(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__region *origin = r->origin;

	if (!origin)
		return;
	r->origin = NULL;
	origin->pins--;
	ripc__region_release(ctx, origin);
}
