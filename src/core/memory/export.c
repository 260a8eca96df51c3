/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mapped zero copy: the sender's side. Contract in mapped.h. */
#include "core/memory/mapped.h"
#include "core/memory/buffer.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"

#include <stdlib.h>
#include <string.h>

#define REF_BYTES_MAX (256ull << 20) /* bytes that one peer may reference */
#define REF_MIN_NS    (200 * 1000)   /* minimum time of a reference */
#define COPY_NS(len)  ((len) / 8)    /* approximate time of a copy */
#define EXPORT_RETRY_ITEMS \
	64u                /* copied items before a retry, if the peer has not mapped the export */
#define EXPORT_LATE_MAX 4u /* expired references in a row before items are copied */
#define EXPORT_SKIP_MAX 1024u /* maximum of copied items before a retry */
#define EXPORT_AFTER \
	2u /* messages to one peer before an export: data that is sent once is copied */

static struct ripc__export *export_find(struct ripc__region *region, const struct ripc__lane *lane)
{
	struct ripc__export *s;

	ripc__list_for_each_entry (s, &region->exports, link)
		if (s->lane == lane)
			return s;
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
	const struct ripc__export *s;

	ripc__list_for_each_entry (s, &region->exports, link)
		if (s->acked && !memcmp(s->lane->peer->instance, instance, 16))
			return true;
	return false;
}

bool ripc__export_reused(const struct ripc__region *region)
{
	return region->state == RIPC__REGION_APP &&
	       (ripc__export_strict(region->ctx) || region->uses > 1);
}

static void export_drop(struct ripc__export *s)
{
	ripc__lane_notify(s->lane, RIPC__UNMAP, 0, 0, s->export_id, 0);
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

/* Bytes of an export: pages that were never touched may not exist; reading would allocate them. */
static size_t export_len(const struct ripc__region *region)
{
	size_t touched = region->state == RIPC__REGION_IMPORTED ? region->len : region->prefaulted;
	size_t len = (touched + 4095) & ~(size_t)4095;

	return len < region->cap ? len : region->cap;
}

/* Exports the region to the lane's peer. A failure is retried at the next send. */
static void export_new(struct ripc__lane *lane, struct ripc__region *region)
{
	struct ripc__tp *tp = &lane->ctx->tp[lane->tp];
	struct ripc__lane_memory *m = ripc__lane_memory_get(lane);
	struct ripc__export *s = m ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return;
	s->lane = lane;
	s->region = region;
	s->export_id = ++m->last_export_id;
	s->len = export_len(region);
	if (tp->ops->export_fd(lane->ep, region->fd, s->len, s->export_id)) {
		free(s);
		return;
	}
	if (region->sharing == RIPC__REGION_PRIVATE)
		ripc__region_set_sharing(region, RIPC__REGION_EXPORTED);
	ripc__list_add(&region->exports, &s->link);
	ripc__list_add(&m->exports, &s->lane_link);
	m->nexports++;
}

/*
 * The export to the lane's peer, whose MAP_ACK may not have arrived; NULL: there is none. One that
 * the buffer has outgrown is dropped: no item of this message refers to it yet, and UNMAP precedes
 * the message. So is one without MAP_ACK for long: the peer may have been out of memory.
 */
static struct ripc__export *export_current(struct ripc__lane *lane, struct ripc__region *region)
{
	struct ripc__export *s = export_find(region, lane);

	if (!s || (!s->acked && ++s->copied_items < EXPORT_RETRY_ITEMS) ||
	    (s->acked && s->len >= export_len(region)))
		return s;
	export_drop(s);
	return NULL;
}

bool ripc__export_ahead(struct ripc__lane *lane, struct ripc__region *region)
{
	struct ripc__export *s;

	if (!(lane->caps & RIPC__CAP_EXPORT) || region->fd < 0 || ripc__export_strict(lane->ctx))
		return false;
	s = export_current(lane, region);
	if (!s && lane->memory->nexports < RIPC__EXPORTS_MAX)
		export_new(lane, region);
	return s && s->acked;
}

bool ripc__export_applies(const struct ripc__lane *lane, const struct ripc__region *region,
			  size_t len)
{
	/* Memory that a peer may write is not exported. */
	if (!(lane->caps & RIPC__CAP_EXPORT) || len < RIPC__MAPPED_ITEM_MIN || region->fd < 0 ||
	    region->pins || region->sharing == RIPC__REGION_TAINTED)
		return false;
	if (region->state == RIPC__REGION_IMPORTED)
		return region->lane && !region->unmap_pending && !ripc__export_strict(region->ctx);
	return region->state == RIPC__REGION_APP;
}

const struct ripc__export *ripc__export_item(struct ripc__lane *lane, struct ripc__credit *c,
					     struct ripc__region *region, const uint8_t *base,
					     size_t len)
{
	size_t offset = (size_t)(base - region->base);
	struct ripc__export *s;

	if (!ripc__export_applies(lane, region, len) ||
	    lane->memory->ref_bytes + len > REF_BYTES_MAX)
		return NULL;
	if (c->export_skip) {
		c->export_skip--;
		return NULL;
	}
	s = export_current(lane, region);
	if (!s && lane->memory->nexports < RIPC__EXPORTS_MAX &&
	    export_allowed(lane, region, base, len))
		export_new(lane, region);
	return s && s->acked && offset + len <= s->len ? s : NULL;
}

bool ripc__export_is_current(const struct ripc__lane *lane, struct ripc__region *region,
			     uint32_t export_id)
{
	const struct ripc__export *s = export_find(region, lane);

	return s && s->export_id == export_id;
}

void ripc__export_acked(struct ripc__lane *lane, uint64_t export_id)
{
	struct ripc__export *s;

	ripc__list_for_each_entry (s, &lane->memory->exports, lane_link)
		if (s->export_id == export_id)
			s->acked = true;
}

/* The timer completes the request, outside this call. */
static void request_ends_later(const struct ripc__export_ref *ref)
{
	ref->refs->deadline_ns = 0;
	ripc__timer_at(ref->region->ctx, 0);
}

static struct ripc__export_ref *first_ref(struct ripc__list *refs)
{
	return ripc__list_first_entry(refs, struct ripc__export_ref, link);
}

void ripc__export_refs_end_early(struct ripc__region *region)
{
	struct ripc__export_ref *ref;

	while ((ref = first_ref(&region->refs))) {
		request_ends_later(ref);
		ripc__export_ref_end(ref);
	}
}

/* ---- late references ---- */

static bool lane_closed(const struct ripc__lane *lane)
{
	return lane->state == RIPC__LANE_DEAD || !lane->ep;
}

bool ripc__export_refs_lost(const struct ripc__region *region)
{
	const struct ripc__export_ref *ref;

	ripc__list_for_each_entry (ref, &region->refs, link)
		if (lane_closed(ref->lane))
			return true;
	return false;
}

void ripc__export_refs_outlive(struct ripc__region *from, struct ripc__region *to,
			       const struct ripc__export_refs *ended)
{
	struct ripc__export_ref *ref;

	while ((ref = first_ref(&from->refs))) {
		if (ref->refs != ended)
			request_ends_later(ref);
		ripc__export_ref_unlink(ref);
		if (lane_closed(ref->lane)) {
			ripc__region_taint(to);
			ripc__export_ref_free(ref);
			continue;
		}
		ref->region = to;
		to->sends++;
		ripc__list_add(&ref->lane->memory->late_refs, &ref->link);
	}
}

static void late_ref_end(struct ripc__export_ref *late, bool lost)
{
	struct ripc__region *region = late->region;

	ripc__list_del(&late->link);
	ripc__export_ref_free(late);
	if (lost)
		ripc__region_taint(region);
	if (!--region->sends)
		ripc__region_release(region->ctx, region);
}

void ripc__late_ref_release(struct ripc__lane *lane, uint64_t request, uint64_t item, bool lost)
{
	struct ripc__export_ref *late;

	ripc__list_for_each_entry (late, &lane->memory->late_refs, link) {
		if (late->request == request && late->item == item) {
			late_ref_end(late, lost);
			return;
		}
	}
}

/* ---- time ---- */

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

void ripc__exports_lane_gone(struct ripc__lane *lane)
{
	struct ripc__export_ref *late;
	struct ripc__list *n;

	while ((n = ripc__list_first(&lane->memory->exports)))
		export_free(ripc__list_entry(n, struct ripc__export, lane_link));
	/* The peer may be alive, and its application may still read. */
	while ((late = first_ref(&lane->memory->late_refs)))
		late_ref_end(late, true);
}
