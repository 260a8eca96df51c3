/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/memory/detach.h"
#include "base/copy.h"
#include "core/memory/memory_object.h"
#include "core/memory/buffer.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* maximum of region->export_after, for a buffer that was sent to others after its export */
#define EXPORT_AFTER_MAX 1024u

/* Its address has private pages. */
static void region_detached(struct ripc *ctx, struct ripc__region *r)
{
	ripc__cached_mrs_drop(ctx, r);
	ripc__exports_drop(r);
	ripc__memory_object_close(ctx, r);
	ripc__region_set_sharing(r, RIPC__REGION_DETACHED);
	ripc__region_origin_release(ctx, r);
}

/*
 * Detaches the region: moves a mapping to its address and replaces the one there. Other threads may
 * use the buffer: the address is mapped at every moment.
 */
static int region_remap(struct ripc *ctx, struct ripc__region *r, void *by)
{
	if (mremap(by, r->cap, r->cap, MREMAP_MAYMOVE | MREMAP_FIXED, r->base) == MAP_FAILED)
		return -ENOMEM;
	region_detached(ctx, r);
	return 0;
}

/* A private mapping of the region's memory object, at an address or NULL. */
static void *map_private(const struct ripc__region *r, void *at)
{
	return mmap(at, r->cap, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_NORESERVE | (at ? MAP_FIXED : 0), r->fd, 0);
}

static void exports_move(struct ripc__region *from, struct ripc__region *to)
{
	struct ripc__list *n;

	while ((n = ripc__list_take(&from->exports))) {
		ripc__list_entry(n, struct ripc__export, link)->region = to;
		ripc__list_add(&to->exports, n);
	}
	ripc__region_set_sharing(to, from->sharing);
	ripc__region_set_sharing(from, RIPC__REGION_PRIVATE);
}

/*
 * Detaches a buffer of the application from memory that was exported: later writes go to private
 * pages at the same address. A private mapping (copy on write), not a copy: the application may
 * write to other parts of the buffer during a copy, and these writes would be lost. Return: 0, or
 * -ENOMEM and nothing changed.
 */
static int pool_detach(struct ripc *ctx, struct ripc__region *r)
{
	void *own = map_private(r, NULL);

	if (own == MAP_FAILED) {
		ripc__pool_trim(ctx, 0);
		own = map_private(r, NULL);
	}
	if (own != MAP_FAILED) {
		if (!region_remap(ctx, r, own))
			return 0;
		munmap(own, r->cap);
	}
	/*
	 * In place, this takes no addresses (RLIMIT_AS) and no mapping (vm.max_map_count). It is
	 * the last resort, because before Linux 6.12 the address may have no mapping if the kernel
	 * itself is out of memory.
	 */
	own = map_private(r, r->base);
	if (own == MAP_FAILED)
		return -ENOMEM;
	region_detached(ctx, r);
	return 0;
}

/*
 * Makes a detached buffer that is about to be sent whole exportable again, by a copy without the
 * lock. Out of memory: nothing changes.
 */
static void pool_reattach(struct ripc *ctx, struct ripc__region *r)
{
	/* The buffer may have been shortened in place: its class decides. */
	size_t len = r->len > r->cap / 2 ? r->len : r->cap / 2 + 1;
	struct ripc__region *fresh = ripc__pool_get_untouched(ctx, len, RIPC__REGION_APP, NULL);

	if (!fresh)
		return;
	if (fresh->fd >= 0) {
		r->sends++;
		ripc__lock_suspend(ctx);
		ripc__region_prefault(fresh, r->len);
		ripc__copy(fresh->base, r->base, r->len);
		/* Clear data of an earlier owner behind the new contents. */
		if (fresh->prefaulted > r->len && ripc__export_strict(ctx))
			memset(fresh->base + r->len, 0, fresh->prefaulted - r->len);
		ripc__lock_resume(ctx);
		r->sends--;
	}
	ripc__cached_mrs_drop(ctx, fresh);
	/* Another thread used the buffer meanwhile. */
	if (fresh->fd < 0 || r->sends || r->pins || region_remap(ctx, r, fresh->base)) {
		ripc__pool_put(ctx, fresh);
		return;
	}
	ripc__memory_object_move(fresh, r);
	exports_move(fresh, r);
	r->uses_ever = fresh->uses_ever;
	r->prefaulted = fresh->prefaulted;
	ripc__regions_remove(ctx, fresh);
	free(fresh);
}

/*
 * The application keeps its buffer, with private pages from now on; the peers keep the memory
 * object. The memory goes to the pool, at another address, when they have released it and the
 * buffer no longer shows it. The kernel copies a page only when the application writes it.
 */
static int detach_with_object(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__region *object = ripc__regions_new(ctx);
	/* A second mapping: the seals forbid a new one that can be written. */
	void *base = mremap(r->base, 0, r->cap, MREMAP_MAYMOVE);
	void *own = map_private(r, NULL);

	if (!object || base == MAP_FAILED || own == MAP_FAILED)
		goto no_memory;
	object->base = base;
	object->cap = object->len = r->cap;
	object->class = r->class;
	object->prefaulted = r->prefaulted;
	object->uses_ever = r->uses_ever;
	object->state = RIPC__REGION_FREED;
	if (ripc__regions_insert(ctx, object))
		goto no_memory;
	ripc__memory_object_move(r, object);
	exports_move(r, object);
	if (region_remap(ctx, r, own)) {
		exports_move(object, r);
		ripc__memory_object_move(object, r);
		ripc__regions_remove(ctx, object);
		goto no_memory;
	}
	object->pins++;
	r->origin = object;
	ripc__export_refs_outlive(r, object, NULL);
	return 0;
no_memory:
	if (own != MAP_FAILED)
		munmap(own, r->cap);
	if (base != MAP_FAILED)
		munmap(base, r->cap);
	free(object);
	return -ENOMEM;
}

int ripc__region_unexport(struct ripc *ctx, struct ripc__region *region)
{
	/* Whether the memory object may be used again. */
	bool reusable = !ripc__export_strict(ctx) && region->sharing != RIPC__REGION_TAINTED;
	int rc;

	if (region->state == RIPC__REGION_IMPORTED) {
		ripc__export_refs_outlive(region, region, NULL);
		return 0;
	}
	if (region->sharing < RIPC__REGION_EXPORTED ||
	    (reusable && ripc__list_empty(&region->refs)))
		return 0;
	if (reusable && !ripc__export_refs_lost(region))
		return detach_with_object(ctx, region);
	rc = pool_detach(ctx, region);
	if (!rc)
		ripc__export_refs_end_early(region);
	return rc;
}

/* ---- before a send ---- */

void ripc__export_track(struct ripc__lane *lane, struct ripc__region *region, uint64_t seq)
{
	const uint8_t *peer = lane->peer->instance;

	if ((region->fd < 0 && region->sharing != RIPC__REGION_DETACHED) ||
	    region->state != RIPC__REGION_APP)
		return;
	if (memcmp(region->export_peer, peer, sizeof(region->export_peer))) {
		if (region->sharing >= RIPC__REGION_EXPORTED && ripc__export_strict(lane->ctx)) {
			/* Out of memory: retried at the next send. */
			if (ripc__region_unexport(lane->ctx, region))
				return;
			if (region->export_after < EXPORT_AFTER_MAX)
				region->export_after *= 2;
		}
		memcpy(region->export_peer, peer, sizeof(region->export_peer));
		region->peer_streak = 0;
	} else if (region->counted_seq == seq) {
		return;
	}
	memcpy(lane->ctx->memory->last_peer[region->class], peer, sizeof(region->export_peer));
	region->counted_seq = seq;
	region->uses++;
	region->uses_ever++;
	if (region->peer_streak < EXPORT_AFTER_MAX)
		region->peer_streak++;
}

void ripc__export_prepare(struct ripc *ctx, struct ripc__region *r, const struct iovec *item)
{
	if (r->sharing == RIPC__REGION_DETACHED && r->state == RIPC__REGION_APP && !r->sends &&
	    !r->pins && ripc__region_contains(r, item->iov_base, item->iov_len) &&
	    item->iov_len >= r->len &&
	    (!ripc__export_strict(ctx) || r->peer_streak >= r->export_after))
		pool_reattach(ctx, r);
}
