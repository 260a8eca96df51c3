/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/memory/buffer.h"
#include "base/host.h"
#include "core/progress/context.h"
#include "core/memory/mapped.h"
#include "core/memory/ops.h"
#include "core/service/service.h"
#include "core/memory/bounce.h"
#include "wire/header.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MMAP_MIN (64u << 10) /* larger buffers are mapped separately */
#define HUGE_MIN (2u << 20)  /* larger buffers use huge pages if available */

void ripc__memory_init(struct ripc *ctx)
{
	struct ripc__memory *m = ctx->memory;

	for (unsigned i = 0; i <= RIPC__CLASS_MAX; i++) {
		ripc__list_init(&m->classes[i]);
		ripc__list_init(&m->shared[i]);
	}
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX; i++)
		m->fds[i] = -1;
	ripc__list_init(&m->lru);
	ripc__list_init(&m->recv_windows);
	ripc__list_init(&m->returns);
	m->next_return_id = 1;
}

/* Index of the first region whose base is above p. */
static size_t region_above(const struct ripc__memory *m, const uint8_t *p)
{
	size_t lo = 0, hi = m->nregions;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->regions[mid]->base > p)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Bytes of memory; a pool buffer has more than the application asked for. */
static size_t region_size(const struct ripc__region *r)
{
	return r->state == RIPC__REGION_USER ? r->len : r->cap;
}

struct ripc__region *ripc__memory_find_cap(struct ripc *ctx, const void *ptr)
{
	struct ripc__memory *m = ctx->memory;
	const uint8_t *p = ptr;
	size_t i = region_above(m, p);
	struct ripc__region *r = i ? m->regions[i - 1] : NULL;

	return r && (size_t)(p - r->base) < region_size(r) ? r : NULL;
}

struct ripc__region *ripc__memory_find(struct ripc *ctx, const void *ptr, size_t len)
{
	struct ripc__region *r = ripc__memory_find_cap(ctx, ptr);

	return r && ripc__region_contains(r, ptr, len) ? r : NULL;
}

static int region_insert(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__memory *m = ctx->memory;
	size_t i;

	if (m->nregions == m->regions_cap) {
		size_t cap = m->regions_cap ? 2 * m->regions_cap : 64;
		struct ripc__region **grown = realloc(m->regions, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		m->regions = grown;
		m->regions_cap = cap;
	}
	i = region_above(m, r->base);
	memmove(m->regions + i + 1, m->regions + i, (m->nregions - i) * sizeof(*m->regions));
	m->regions[i] = r;
	m->nregions++;
	return 0;
}

static void region_remove(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__memory *m = ctx->memory;
	size_t i = region_above(m, r->base) - 1;

	memmove(m->regions + i, m->regions + i + 1, (m->nregions - i - 1) * sizeof(*m->regions));
	m->nregions--;
	if (m->regions_cap > 64 && m->nregions < m->regions_cap / 4) {
		struct ripc__region **less =
			realloc(m->regions, m->regions_cap / 2 * sizeof(*less));

		if (less) {
			m->regions = less;
			m->regions_cap /= 2;
		}
	}
}

static void cached_mr_free(struct ripc *ctx, struct ripc__cached_mr *cached_mr)
{
	struct ripc__tp *tp = &ctx->tp[cached_mr->tp];

	if (tp->t)
		tp->ops->dereg(tp->t, &cached_mr->mr);
	free(cached_mr);
}

static void cached_mrs_drop(struct ripc *ctx, struct ripc__region *r)
{
	for (unsigned i = 0; i < ctx->ntp; i++) {
		if (!r->cached_mr[i])
			continue;
		/*
		 * The device transfers data of these pages even if the region is mapped elsewhere.
		 */
		r->cached_mr[i]->dropped = true;
		if (!r->cached_mr[i]->users)
			cached_mr_free(ctx, r->cached_mr[i]);
		r->cached_mr[i] = NULL;
	}
}

/* ---- buffers that are memory objects (memfd) ---- */

static int *memfd_slot(struct ripc *ctx, int fd)
{
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX; i++)
		if (ctx->memory->fds[i] == fd)
			return &ctx->memory->fds[i];
	return NULL;
}

/*
 * Seals prevent a peer from shrinking the object, which would raise SIGBUS in processes that map
 * it, and from writing: ours is the last writable mapping. Kernels before 5.1 lack
 * F_SEAL_FUTURE_WRITE.
 */
static uint8_t *memfd_map(struct ripc *ctx, size_t cap, int *out)
{
	struct rlimit limit;
	int *slot = memfd_slot(ctx, -1), fd;
	void *base = MAP_FAILED;

	/* Above this limit ftruncate() raises SIGXFSZ. */
	if (!slot || (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < cap))
		return NULL;
	fd = memfd_create("ripc-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, (off_t)cap))
		base = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base != MAP_FAILED &&
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		munmap(base, cap);
		base = MAP_FAILED;
	}
	if (base == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	*out = *slot = fd;
	return base;
}

static void memfd_close(struct ripc *ctx, struct ripc__region *r)
{
	int *slot = r->fd >= 0 ? memfd_slot(ctx, r->fd) : NULL;

	if (!slot)
		return;
	*slot = -1;
	close(r->fd);
	r->fd = -1;
}

static struct ripc__region *region_new(struct ripc *ctx)
{
	struct ripc__region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->ctx = ctx;
	r->fd = -1;
	ripc__list_init(&r->free_link);
	ripc__list_init(&r->lru_link);
	ripc__list_init(&r->exports);
	ripc__list_init(&r->refs);
	ripc__list_init(&r->import_refs);
	ripc__list_init(&r->lane_link);
	return r;
}

struct ripc__region *ripc__region_import(struct ripc *ctx, void *base, size_t len)
{
	struct ripc__region *r = region_new(ctx);

	if (!r)
		return NULL;
	r->base = base;
	r->len = r->cap = len;
	r->state = RIPC__REGION_IMPORTED;
	if (!region_insert(ctx, r))
		return r;
	free(r);
	return NULL;
}

void ripc__region_unmap(struct ripc *ctx, struct ripc__region *r)
{
	cached_mrs_drop(ctx, r);
	region_remove(ctx, r);
	munmap(r->base, r->cap);
	free(r);
}

/*
 * Moves a mapping to the region's address and replaces the one there. Other threads may use the
 * buffer: the address is mapped at every moment.
 */
static int region_remap(struct ripc *ctx, struct ripc__region *r, void *by)
{
	if (mremap(by, r->cap, r->cap, MREMAP_MAYMOVE | MREMAP_FIXED, r->base) == MAP_FAILED)
		return -ENOMEM;
	cached_mrs_drop(ctx, r);
	ripc__exports_drop(r);
	memfd_close(ctx, r);
	r->exported = false;
	return 0;
}

/*
 * A private mapping (copy on write), not a copy: the application may write to other parts of the
 * buffer during a copy, and these writes would be lost.
 */
int ripc__pool_detach(struct ripc *ctx, struct ripc__region *r)
{
	void *own =
		mmap(NULL, r->cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, r->fd, 0);

	if (own == MAP_FAILED)
		return -ENOMEM;
	if (region_remap(ctx, r, own)) {
		munmap(own, r->cap);
		return -ENOMEM;
	}
	r->detached = true;
	return 0;
}

void ripc__pool_reattach(struct ripc *ctx, struct ripc__region *r)
{
	/* The buffer may have been shortened in place: its class decides. */
	size_t len = r->len > r->cap / 2 ? r->len : r->cap / 2 + 1;
	struct ripc__region *fresh = ripc__pool_get_untouched(ctx, len, RIPC__REGION_APP);
	int fd;

	if (!fresh)
		return;
	if (fresh->fd >= 0) {
		r->sends++;
		ripc__lock_suspend(ctx);
		ripc__region_prefault(fresh, r->len);
		memcpy(fresh->base, r->base, r->len);
		/* Clear data of an earlier owner behind the new contents. */
		if (fresh->prefaulted > r->len)
			memset(fresh->base + r->len, 0, fresh->prefaulted - r->len);
		ripc__lock_resume(ctx);
		r->sends--;
	}
	cached_mrs_drop(ctx, fresh);
	fd = fresh->fd;
	/* Another thread used the buffer meanwhile. */
	if (fd < 0 || r->sends || r->pins || region_remap(ctx, r, fresh->base)) {
		ripc__pool_put(ctx, fresh);
		return;
	}
	r->fd = fd;
	r->prefaulted = fresh->prefaulted;
	r->detached = false;
	ctx->stats.pool_bytes -= fresh->cap;
	region_remove(ctx, fresh);
	free(fresh);
}

static void pool_unmap(struct ripc *ctx, struct ripc__region *r)
{
	memfd_close(ctx, r);
	if (r->cap >= MMAP_MIN || r->state == RIPC__REGION_IMPORTED)
		munmap(r->base, r->cap);
	else
		free(r->base);
}

/* Destroys a pool buffer that is neither in use nor in the cache. */
static void pool_destroy(struct ripc *ctx, struct ripc__region *r)
{
	ctx->stats.pool_bytes -= r->cap;
	ripc__exports_drop(r);
	cached_mrs_drop(ctx, r);
	region_remove(ctx, r);
	pool_unmap(ctx, r);
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
		pool_destroy(ctx, r);
	}
}

static struct ripc__region *pool_create(struct ripc *ctx, unsigned class, bool shared)
{
	struct ripc__region *r = region_new(ctx);
	size_t cap = (size_t)1 << class;

	if (!r)
		return NULL;
	if (shared)
		r->base = memfd_map(ctx, cap, &r->fd);
	if (r->base) {
		if (cap >= HUGE_MIN)
			madvise(r->base, cap, MADV_HUGEPAGE);
	} else if (cap >= MMAP_MIN) {
		r->base = mmap(NULL, cap, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (r->base == MAP_FAILED)
			r->base = NULL;
		else if (cap >= HUGE_MIN)
			madvise(r->base, cap, MADV_HUGEPAGE);
	} else {
		r->base = aligned_alloc(64, cap);
	}
	if (!r->base) {
		free(r);
		return NULL;
	}
	r->cap = cap;
	r->class = (uint8_t) class;
	if (region_insert(ctx, r)) {
		pool_unmap(ctx, r);
		free(r);
		return NULL;
	}
	ctx->stats.pool_bytes += cap;
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

struct ripc__region *ripc__pool_get_untouched(struct ripc *ctx, size_t len,
					      enum ripc__region_state state)
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
	n = ripc__list_first(shared ? &m->shared[class] : &m->classes[class]);
	if (!n && shared && !memfd_slot(ctx, -1)) {
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
	r->state = state;
	r->len = len;
	r->free_pending = false;
	ripc__export_reset(r);
	return r;
}

struct ripc__region *ripc__pool_get(struct ripc *ctx, size_t len, enum ripc__region_state state)
{
	struct ripc__region *r = ripc__pool_get_untouched(ctx, len, state);

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

	/* A peer would read the next owner's data, or the buffer occupies twice its size. */
	if (r->exported || r->detached) {
		pool_destroy(ctx, r);
		return;
	}
	r->state = RIPC__REGION_FREE;
	r->free_pending = false;
	/* Reuse the most recently used buffer first: it is the most likely to be in the cache. */
	ripc__list_add((r->fd >= 0 ? m->shared : m->classes)[r->class].next, &r->free_link);
	ripc__list_add(&m->lru, &r->lru_link);
	m->cached_bytes += r->cap;
	ripc__pool_trim(ctx, ctx->opt.pool_bytes);
}

void ripc__region_release(struct ripc *ctx, struct ripc__region *r)
{
	if (r->state == RIPC__REGION_IMPORTED)
		ripc__import_settle(ctx, r);
	else if (r->free_pending && !r->pins && !r->sends)
		ripc__pool_put(ctx, r);
}

/* Registers the whole region. Return: NULL: it cannot be registered. */
static struct ripc__cached_mr *cached_mr_get(struct ripc *ctx, unsigned tp,
					     struct ripc__region *region)
{
	struct ripc__tp *t = &ctx->tp[tp];
	struct ripc__cached_mr *cached_mr = region->cached_mr[tp];

	if (cached_mr)
		return cached_mr;
	cached_mr = calloc(1, sizeof(*cached_mr));
	if (!cached_mr)
		return NULL;
	ctx->ops->before_copy(ctx, region_size(region));
	if (t->ops->reg(t->t, NULL, region->base, region_size(region), RIPC__ACCESS_LOCAL_WRITE,
			&cached_mr->mr)) {
		free(cached_mr);
		return NULL;
	}
	cached_mr->tp = tp;
	region->cached_mr[tp] = cached_mr;
	return cached_mr;
}

struct ripc__mr *ripc__sink_mr(struct ripc *ctx, unsigned tp, struct ripc__region *region,
			       void *base, size_t len, struct ripc__mr *own,
			       struct ripc__cached_mr **cached)
{
	struct ripc__tp *t = &ctx->tp[tp];

	*cached = NULL;
	/*
	 * Memory that a peer can write while registered must not stay registered for the next
	 * owner.
	 */
	if (t->limits.caps & (RIPC__CAP_CHEAP_REG | RIPC__CAP_SINK_WRITABLE)) {
		if (t->ops->reg(t->t, NULL, base, len, RIPC__ACCESS_LOCAL_WRITE, own))
			return NULL;
		return own;
	}
	*cached = cached_mr_get(ctx, tp, region);
	if (!*cached)
		return NULL;
	(*cached)->users++;
	return &(*cached)->mr;
}

struct ripc__cached_mr *ripc__cached_mr_hold(struct ripc *ctx, unsigned tp,
					     struct ripc__region *region)
{
	/*
	 * An application's region is registered whole only if it is small and writable: imported
	 * memory is read-only, and a large region would count against RLIMIT_MEMLOCK with bytes
	 * that are not sent.
	 */
	bool small = (region->state == RIPC__REGION_APP || region->state == RIPC__REGION_MESSAGE) &&
		     region->cap <= RIPC__CACHED_MR_MAX;

	if (ctx->tp[tp].limits.caps & (RIPC__CAP_CHEAP_REG | RIPC__CAP_SINK_WRITABLE) ||
	    !(small ? cached_mr_get(ctx, tp, region) : region->cached_mr[tp]))
		return NULL;
	region->cached_mr[tp]->users++;
	return region->cached_mr[tp];
}

void ripc__cached_mr_release(struct ripc *ctx, struct ripc__cached_mr *cached_mr)
{
	if (!--cached_mr->users && cached_mr->dropped)
		cached_mr_free(ctx, cached_mr);
}

bool ripc__mr_cache_trim(struct ripc *ctx)
{
	bool any = false;

	for (size_t i = 0; i < ctx->memory->nregions; i++)
		for (unsigned tp = 0; tp < ctx->ntp; tp++) {
			struct ripc__cached_mr **cached_mr =
				&ctx->memory->regions[i]->cached_mr[tp];

			if (!*cached_mr || (*cached_mr)->users)
				continue;
			cached_mr_free(ctx, *cached_mr);
			*cached_mr = NULL;
			any = true;
		}
	return any;
}

static bool overlap(const uint8_t *a, size_t alen, const uint8_t *b, size_t blen)
{
	return a < b + blen && b < a + alen;
}

int ripc__range_check(struct ripc *ctx, const struct ripc__region *region, const void *ptr,
		      size_t len)
{
	struct ripc__list *n;
	const uint8_t *p = ptr;
	uint64_t dest;

	if (region->pins) {
		ripc__list_for_each (n, &ctx->memory->recv_windows) {
			struct ripc__recv_window *w =
				ripc__list_entry(n, struct ripc__recv_window, link);

			if (overlap(p, len, w->base, w->len))
				return ripc__fail(-EBUSY, "memory at %p overlaps a window at %p",
						  ptr, (void *)w->base);
		}
		ripc__list_for_each (n, &ctx->memory->returns) {
			struct ripc__local_return *r =
				ripc__list_entry(n, struct ripc__local_return, link);

			if (overlap(p, len, r->base, r->len))
				return ripc__fail(
					-EBUSY,
					"memory at %p overlaps a return buffer offered at %p", ptr,
					(void *)r->base);
		}
	}
	dest = region->sends ? ctx->memory_ops->sent_from(ctx, ptr, len) : 0;
	if (dest)
		return ripc__fail(-EBUSY,
				  "memory at %p is read by a send to service %llu under way", ptr,
				  (unsigned long long)dest);
	return 0;
}

void ripc__memory_set_export(struct ripc *ctx)
{
	/* Exported buffers are memfds, whose pages may be refused one by one. */
	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].t && ctx->tp[i].limits.caps & RIPC__CAP_EXPORT)
			ctx->memory->can_export = !ripc__host_no_overcommit();
}

void ripc__memory_fini(struct ripc *ctx)
{
	struct ripc__memory *m = ctx->memory;
	struct ripc__list *n;

	while ((n = ripc__list_first(&m->recv_windows))) {
		ripc__list_del(n);
		free(ripc__list_entry(n, struct ripc__recv_window, link));
	}
	while ((n = ripc__list_first(&m->returns))) {
		struct ripc__local_return *r = ripc__list_entry(n, struct ripc__local_return, link);

		ripc__list_del(n);
		if (r->bounce)
			ripc__bounce_put(r->bounce);
		free(r);
	}
	for (size_t i = 0; i < m->nregions; i++) {
		struct ripc__region *r = m->regions[i];

		for (unsigned k = 0; k < RIPC__TP_MAX; k++)
			free(r->cached_mr[k]);
		ripc__import_free(r);
		if (r->state != RIPC__REGION_USER)
			pool_unmap(ctx, r);
		free(r);
	}
	free(m->regions);
	free(m->return_index);
	memset(m, 0, sizeof(*m));
}

/* ---- memory registered by the application ---- */

/* Lock held. */
static int register_region(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__memory *m = ctx->memory;
	size_t i = region_above(m, r->base);

	if ((i && r->base < m->regions[i - 1]->base + region_size(m->regions[i - 1])) ||
	    (i < m->nregions && m->regions[i]->base < r->base + r->len))
		return ripc__fail(-EEXIST,
				  "%zu bytes at %p overlap memory that is registered already",
				  r->len, (void *)r->base);
	if (region_insert(ctx, r))
		return ripc__fail(-ENOMEM, "no memory to register %zu bytes", r->len);
	ctx->stats.registered_bytes += r->len;
	return 0;
}

int ripc__buf_register(struct ripc *ctx, void *base, size_t len)
{
	struct ripc__region *r;
	int rc;

	if (!base || !len || len >> RIPC__LEN_BITS || (uintptr_t)base + len < (uintptr_t)base)
		return ripc__fail(-EINVAL, "%zu bytes at %p cannot be registered", len, base);
	r = region_new(ctx);
	if (!r)
		return ripc__fail(-ENOMEM, "no memory to register %zu bytes", len);
	r->base = base;
	r->len = len;
	r->state = RIPC__REGION_USER;
	ripc__lock(ctx);
	rc = ripc__check_open(ctx);
	if (!rc)
		rc = register_region(ctx, r);
	ripc__unlock(ctx);
	if (rc)
		free(r);
	return rc;
}

int ripc__buf_unregister(struct ripc *ctx, void *base)
{
	struct ripc__region *r;
	int rc;

	ripc__lock(ctx);
	rc = ripc__check_open(ctx);
	r = rc ? NULL : ripc__memory_find(ctx, base, 0);
	if (rc) {
		/* Another thread unregistered it meanwhile. */
	} else if (!r || r->state != RIPC__REGION_USER || r->base != base) {
		rc = ripc__fail(-EINVAL, "no registered memory begins at %p", base);
	} else if (r->sends) {
		rc = ripc__fail(-EBUSY, "a send that is under way reads from the memory at %p",
				base);
	} else if (r->pins) {
		rc = ripc__fail(-EBUSY,
				"memory at %p is set aside as a window or offered to a peer", base);
	} else {
		cached_mrs_drop(ctx, r);
		region_remove(ctx, r);
		ctx->stats.registered_bytes -= r->len;
		free(r);
	}
	ripc__unlock(ctx);
	return rc;
}
