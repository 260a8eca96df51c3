/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mapped zero copy: the sender's side. Contract in mapped.h. */
#define _GNU_SOURCE
#include "core/memory/mapped.h"
#include "core/memory/memory_object.h"
#include "core/memory/ops.h"
#include "core/memory/region.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REF_BYTES_MAX (256ull << 20) /* bytes that one peer may reference */
#define REF_MIN_NS    (200 * 1000)   /* minimum time of a reference */
#define COPY_NS(len)  ((len) / 8)    /* approximate time of a copy */
#define EXPORT_RETRY_ITEMS \
	64u                /* copied items before a retry, if the peer has not mapped the export */
#define EXPORT_LATE_MAX 4u /* expired references in a row before items are copied */
#define EXPORT_SKIP_MAX 1024u /* maximum of copied items before a retry */
#define EXPORT_AFTER \
	2u /* messages to one peer before an export: data that is sent once is copied */
#define EXPORT_AFTER_MAX \
	1024u /* maximum of that number, for a buffer that was sent to others after
	 * its export */

static struct ripc__export *export_find(struct ripc__region *region, const struct ripc__lane *lane)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &region->exports) {
		struct ripc__export *s = ripc__list_entry(n, struct ripc__export, link);

		if (s->lane == lane)
			return s;
	}
	return NULL;
}

static void export_free(struct ripc__export *s)
{
	ripc__list_del(&s->link);
	ripc__list_del(&s->lane_link);
	s->lane->memory->nexports--;
	free(s);
}

bool ripc__export_strict(const struct ripc *ctx)
{
	return ctx->opt.mapped_mode == RIPC__MAPPED_STRICT;
}

bool ripc__export_mapped_by(const struct ripc__region *region, const uint8_t *instance)
{
	const struct ripc__list *n;

	ripc__list_for_each (n, &region->exports) {
		const struct ripc__export *s = ripc__list_entry(n, struct ripc__export, link);

		if (s->acked && !memcmp(s->lane->peer->instance, instance, 16))
			return true;
	}
	return false;
}

bool ripc__export_reused(const struct ripc__region *region)
{
	return region->state == RIPC__REGION_APP &&
	       (ripc__export_strict(region->ctx) || region->uses > 1);
}

static void export_drop(struct ripc__export *s)
{
	s->lane->ctx->memory_ops->unmap(s->lane, s->export_id);
	export_free(s);
}

void ripc__exports_drop(struct ripc__region *region)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&region->exports)))
		export_drop(ripc__list_entry(n, struct ripc__export, link));
}

void ripc__export_reset(struct ripc__region *region)
{
	memset(region->export_peer, 0, sizeof(region->export_peer));
	region->peer_streak = 0;
	region->export_after = EXPORT_AFTER;
	region->counted_seq = UINT64_MAX;
	region->uses = 0;
}

void ripc__export_track(struct ripc__lane *lane, struct ripc__region *region, uint64_t seq)
{
	const uint8_t *peer = lane->peer->instance;

	if ((region->fd < 0 && !region->detached) || region->state != RIPC__REGION_APP)
		return;
	if (memcmp(region->export_peer, peer, sizeof(region->export_peer))) {
		if (region->exported && ripc__export_strict(lane->ctx)) {
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

void ripc__export_prepare(struct ripc *ctx, const struct iovec *items, unsigned nitems)
{
	for (unsigned i = 0; i < nitems; i++) {
		const struct iovec *item = &items[i];
		struct ripc__region *r =
			item->iov_len >= RIPC__MAPPED_ITEM_MIN
				? ripc__memory_find(ctx, item->iov_base, item->iov_len)
				: NULL;

		if (r && r->detached && !r->free_pending && r->state == RIPC__REGION_APP &&
		    !r->sends && !r->pins && item->iov_len >= r->len &&
		    (!ripc__export_strict(ctx) || r->peer_streak >= r->export_after))
			ripc__pool_reattach(ctx, r);
	}
}

/*
 * Whether the buffer is worth an export, and with strict, whether this peer may see all other data
 * in it. Memory that is used again is: it was sent before, or others of its kind come back.
 */
static bool export_allowed(struct ripc__lane *lane, struct ripc__region *region,
			   const uint8_t *base, size_t len)
{
	size_t stale_len = region->stale_len < region->len ? region->stale_len : region->len;

	if (!ripc__export_strict(lane->ctx))
		return region->state == RIPC__REGION_IMPORTED || region->uses_ever > 1 ||
		       (lane->memory->nexports && region->cap <= lane->ctx->opt.pool_bytes);
	if (memcmp(region->export_peer, lane->peer->instance, sizeof(region->export_peer)) ||
	    region->peer_streak < region->export_after)
		return false;
	/* Earlier owners' data that the application may not have overwritten. */
	if (stale_len && (base > region->base || base + len < region->base + stale_len))
		return false;
	/* No data of use lies above its end. */
	if (region->prefaulted > region->len)
		memset(region->base + region->len, 0, region->prefaulted - region->len);
	region->stale_len = 0;
	return true;
}

/* Exports the region to the lane's peer. A failure is retried at the next send. */
static void export_new(struct ripc__lane *lane, struct ripc__region *region)
{
	struct ripc__tp *tp = &lane->ctx->tp[lane->tp];
	/* Pages that were never touched may not exist yet; reading would allocate them. */
	size_t touched = region->state == RIPC__REGION_IMPORTED ? region->len : region->prefaulted;
	size_t len = (touched + 4095) & ~(size_t)4095;
	struct ripc__lane_memory *m = ripc__lane_memory_get(lane);
	struct ripc__export *s = m ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return;
	s->lane = lane;
	s->region = region;
	s->export_id = ++m->last_export_id;
	s->len = len < region->cap ? len : region->cap;
	if (tp->ops->export_fd(lane->ep, region->fd, s->len, s->export_id)) {
		free(s);
		return;
	}
	region->exported = true;
	ripc__list_add(&region->exports, &s->link);
	ripc__list_add(&m->exports, &s->lane_link);
	m->nexports++;
}

void ripc__export_ahead(struct ripc__lane *lane, struct ripc__region *region)
{
	if (lane->caps & RIPC__CAP_EXPORT && region->fd >= 0 && !ripc__export_strict(lane->ctx) &&
	    lane->memory->nexports < RIPC__EXPORTS_MAX && !export_find(region, lane))
		export_new(lane, region);
}

/* Whether a peer may get the memory of the region. */
static bool exportable(const struct ripc__region *region)
{
	/* Memory that a peer may write is not exported. */
	if (region->fd < 0 || region->pins || region->tainted)
		return false;
	if (region->state == RIPC__REGION_IMPORTED)
		return region->lane && !region->unmap_pending && !ripc__export_strict(region->ctx);
	return region->state == RIPC__REGION_APP;
}

bool ripc__export_applies(const struct ripc__lane *lane, const struct ripc__region *region,
			  size_t len)
{
	return lane->caps & RIPC__CAP_EXPORT && len >= RIPC__MAPPED_ITEM_MIN && exportable(region);
}

bool ripc__export_item(struct ripc__lane *lane, struct ripc__credit *c, struct ripc__region *region,
		       const uint8_t *base, size_t len, uint64_t *at, uint32_t *export_id)
{
	size_t offset = (size_t)(base - region->base);
	struct ripc__export *s;

	if (!ripc__export_applies(lane, region, len) ||
	    lane->memory->ref_bytes + len > REF_BYTES_MAX)
		return false;
	if (c->export_skip) {
		c->export_skip--;
		return false;
	}
	s = export_find(region, lane);
	/* The peer may have been out of memory when it received the export. */
	if (s && !s->acked && ++s->copied_items < EXPORT_RETRY_ITEMS)
		return false;
	if (s && (!s->acked || offset + len > s->len)) {
		export_drop(s);
		s = NULL;
	}
	if (!s) {
		if (lane->memory->nexports < RIPC__EXPORTS_MAX &&
		    export_allowed(lane, region, base, len))
			export_new(lane, region);
		return false;
	}
	*at = offset;
	*export_id = s->export_id;
	return true;
}

void ripc__export_acked(struct ripc__lane *lane, uint64_t export_id)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->memory->exports) {
		struct ripc__export *s = ripc__list_entry(n, struct ripc__export, lane_link);

		if (s->export_id == export_id)
			s->acked = true;
	}
}

void ripc__export_ref_begin(struct ripc__export_ref *ref, struct ripc__export_refs *refs,
			    struct ripc__lane *lane, struct ripc__region *region)
{
	ripc__list_add(&region->refs, &ref->link);
	ref->lane = lane;
	ref->refs = refs;
	refs->count++;
	lane->memory->ref_bytes += ref->len;
}

void ripc__export_ref_end(struct ripc__export_ref *ref)
{
	if (!ref->lane)
		return;
	ripc__list_del(&ref->link);
	ref->lane->memory->ref_bytes -= ref->len;
	ref->lane = NULL;
	/* A reference with a lane has both. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	ref->refs->count--;
}

uint64_t ripc__export_ref_max_ns(uint64_t bytes)
{
	return REF_MIN_NS + COPY_NS(bytes);
}

void ripc__export_back_off(const struct ripc *ctx, struct ripc__credit *c)
{
	/* Several expired references at one time count once. */
	if (c->export_skip)
		return;
	/*
	 * The first messages are late for other reasons, too: a receiver that passes them on copies
	 * them until its own peer has mapped the memory.
	 */
	if (c->export_backoff < EXPORT_LATE_MAX) {
		c->export_backoff =
			ripc__export_strict(ctx) ? EXPORT_LATE_MAX : c->export_backoff + 1u;
		if (!ripc__export_strict(ctx))
			return;
	}
	c->export_backoff *= 2;
	if (c->export_backoff > EXPORT_SKIP_MAX)
		c->export_backoff = EXPORT_SKIP_MAX;
	c->export_skip = c->export_backoff;
}

/* A reference ends before its request, which the timer completes, outside this call. */
static void ref_end_early(struct ripc *ctx, struct ripc__export_ref *ref)
{
	ripc__export_ref_end(ref);
	ref->refs->deadline_ns = 0;
	ripc__timer_at(ctx, 0);
}

static void refs_end_early(struct ripc *ctx, struct ripc__region *region)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&region->refs)))
		ref_end_early(ctx, ripc__list_entry(n, struct ripc__export_ref, link));
}

/* ---- late references ---- */

static bool lane_closed(const struct ripc__lane *lane)
{
	/* References in a list have a lane. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	return lane->state == RIPC__LANE_DEAD || !lane->ep;
}

static bool any_ref_lost(const struct ripc__region *region)
{
	const struct ripc__list *n;

	ripc__list_for_each (n, &region->refs)
		if (lane_closed(ripc__list_entry(n, struct ripc__export_ref, link)->lane))
			return true;
	return false;
}

static void late_refs_free(struct ripc__list *late_refs)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(late_refs))) {
		ripc__list_del(n);
		free(ripc__list_entry(n, struct ripc__late_ref, link));
	}
}

/* Return: a late reference for each reference to the region; NULL: out of memory. */
static struct ripc__list *late_refs_new(const struct ripc__region *region,
					struct ripc__list *late_refs)
{
	const struct ripc__list *n;

	ripc__list_init(late_refs);
	ripc__list_for_each (n, &region->refs) {
		struct ripc__late_ref *late = calloc(1, sizeof(*late));

		if (late) {
			ripc__list_add(late_refs, &late->link);
			continue;
		}
		late_refs_free(late_refs);
		return NULL;
	}
	return late_refs;
}

/*
 * The references to one region become late references of another one, which may be the same.
 * ended: the caller ends the request of these.
 */
static void refs_outlive_requests(struct ripc__region *from, struct ripc__region *to,
				  struct ripc__list *late_refs,
				  const struct ripc__export_refs *ended)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&from->refs))) {
		struct ripc__export_ref *ref = ripc__list_entry(n, struct ripc__export_ref, link);
		struct ripc__late_ref *late =
			ripc__list_entry(ripc__list_first(late_refs), struct ripc__late_ref, link);

		ripc__list_del(&late->link);
		if (lane_closed(ref->lane)) {
			to->tainted = true;
			free(late);
		} else {
			late->lane = ref->lane;
			late->region = to;
			late->request = ref->request;
			late->item = ref->item;
			late->len = ref->len;
			ref->lane->memory->ref_bytes += ref->len;
			ripc__list_add(&ref->lane->memory->late_refs, &late->link);
			to->sends++;
		}
		if (ref->refs == ended)
			ripc__export_ref_end(ref);
		else
			ref_end_early(from->ctx, ref);
	}
}

static int keep_refs(struct ripc__region *region, struct ripc__export_refs *ended)
{
	struct ripc__list late_refs;

	if (!late_refs_new(region, &late_refs))
		return -ENOMEM;
	refs_outlive_requests(region, region, &late_refs, ended);
	return 0;
}

void ripc__refs_outlive_request(struct ripc__region *region, struct ripc__export_refs *refs)
{
	if (!ripc__export_strict(region->ctx))
		keep_refs(region, refs);
}

static void late_ref_end(struct ripc__late_ref *late, bool lost)
{
	struct ripc__region *region = late->region;

	ripc__list_del(&late->link);
	late->lane->memory->ref_bytes -= late->len;
	free(late);
	region->tainted |= lost;
	if (!--region->sends)
		ripc__region_release(region->ctx, region);
}

void ripc__late_ref_release(struct ripc__lane *lane, uint64_t request, uint64_t item, bool lost)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->memory->late_refs) {
		struct ripc__late_ref *late = ripc__list_entry(n, struct ripc__late_ref, link);

		if (late->request == request && late->item == item) {
			late_ref_end(late, lost);
			return;
		}
	}
}

void ripc__exports_lane_gone(struct ripc__lane *lane)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&lane->memory->exports)))
		export_free(ripc__list_entry(n, struct ripc__export, lane_link));
	/* The peer may be alive, and its application may still read. */
	while ((n = ripc__list_first(&lane->memory->late_refs)))
		late_ref_end(ripc__list_entry(n, struct ripc__late_ref, link), true);
}

/* ---- detached buffers ---- */

/*
 * Moves a mapping to the region's address and replaces the one there. Other threads may use the
 * buffer: the address is mapped at every moment.
 */
static int region_remap(struct ripc *ctx, struct ripc__region *r, void *by)
{
	if (mremap(by, r->cap, r->cap, MREMAP_MAYMOVE | MREMAP_FIXED, r->base) == MAP_FAILED)
		return -ENOMEM;
	ripc__cached_mrs_drop(ctx, r);
	ripc__exports_drop(r);
	ripc__memory_object_close(ctx, r);
	r->exported = false;
	r->tainted = false;
	return 0;
}

static void exports_move(struct ripc__region *from, struct ripc__region *to)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&from->exports))) {
		ripc__list_del(n);
		ripc__list_entry(n, struct ripc__export, link)->region = to;
		ripc__list_add(&to->exports, n);
	}
	to->exported |= from->exported;
	from->exported = false;
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

	if (!fresh)
		return;
	if (fresh->fd >= 0) {
		r->sends++;
		ripc__lock_suspend(ctx);
		ripc__region_prefault(fresh, r->len);
		memcpy(fresh->base, r->base, r->len);
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
	ripc__memory_object_move(ctx, fresh, r);
	exports_move(fresh, r);
	r->uses_ever = fresh->uses_ever;
	r->prefaulted = fresh->prefaulted;
	r->detached = false;
	ctx->stats.pool_bytes -= fresh->cap;
	ripc__regions_remove(ctx, fresh);
	free(fresh);
}

/*
 * The application keeps its buffer, with private pages from now on; the peers keep the memory
 * object. It goes to the pool, at another address, when they have released it.
 */
static int detach_with_object(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__region *object = ripc__regions_new(ctx);
	/* A second mapping: the seals forbid a new one that can be written. */
	void *base = mremap(r->base, 0, r->cap, MREMAP_MAYMOVE);
	struct ripc__list late_refs;
	void *own;

	if (!object || base == MAP_FAILED)
		goto no_memory;
	object->base = base;
	object->cap = object->len = r->cap;
	object->class = r->class;
	object->prefaulted = r->prefaulted;
	object->uses_ever = r->uses_ever;
	object->tainted = r->tainted;
	object->state = RIPC__REGION_APP;
	own = mmap(NULL, r->cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, r->fd, 0);
	if (own == MAP_FAILED)
		goto no_memory;
	if (!late_refs_new(r, &late_refs)) {
		munmap(own, r->cap);
		goto no_memory;
	}
	if (ripc__regions_insert(ctx, object)) {
		late_refs_free(&late_refs);
		munmap(own, r->cap);
		goto no_memory;
	}
	ctx->stats.pool_bytes += object->cap;
	ripc__memory_object_move(ctx, r, object);
	exports_move(r, object);
	if (region_remap(ctx, r, own)) {
		exports_move(object, r);
		ripc__memory_object_move(ctx, object, r);
		ripc__regions_remove(ctx, object);
		ctx->stats.pool_bytes -= object->cap;
		late_refs_free(&late_refs);
		munmap(own, r->cap);
		goto no_memory;
	}
	r->detached = true;
	object->free_pending = true;
	/* Not freed before the last of them is made. */
	object->sends++;
	refs_outlive_requests(r, object, &late_refs, NULL);
	if (!--object->sends)
		ripc__region_release(ctx, object);
	return 0;
no_memory:
	if (base != MAP_FAILED)
		munmap(base, r->cap);
	free(object);
	return -ENOMEM;
}

int ripc__region_unexport(struct ripc *ctx, struct ripc__region *region)
{
	int rc;

	if (region->state == RIPC__REGION_IMPORTED)
		return keep_refs(region, NULL);
	if (!ripc__export_strict(ctx) && ripc__list_empty(&region->refs))
		return 0;
	if (!region->exported)
		return 0;
	if (!ripc__export_strict(ctx) && !region->tainted && !any_ref_lost(region))
		return detach_with_object(ctx, region);
	rc = ripc__pool_detach(ctx, region);
	if (!rc)
		refs_end_early(ctx, region);
	return rc;
}
