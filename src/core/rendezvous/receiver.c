/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/receiver.h"
#include "base/copy.h"
#include "base/mappings.h"
#include "core/rendezvous/arriving.h"
#include "core/rendezvous/delivery.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/ops.h"
#include "core/memory/message.h"
#include "core/peer/peer.h"
#include "core/service/service.h"
#include "core/memory/bounce.h"
#include "wire/bytes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MAX  (1u << 20) /* bytes of one read; each completion shows that the peer is alive */
#define READ_AHEAD (1u << 20) /* bytes of posted reads, at least two, at which a lane is busy */

#define TO(state) (1u << RIPC__RNDV_##state)

__attribute__((unused)) static const unsigned next_states[RIPC__RNDV_STATES] = {
	[RIPC__RNDV_WAITING] = TO(TRANSFER) | TO(SUSPENDED) | TO(DRAINING),
	[RIPC__RNDV_TRANSFER] = TO(READY) | TO(SUSPENDED) | TO(DRAINING),
	[RIPC__RNDV_READY] = 0,
	[RIPC__RNDV_SUSPENDED] = 0,
	[RIPC__RNDV_DRAINING] = 0,
};

void ripc__rndv_set_state(struct ripc__rndv *r, enum ripc__rndv_state to)
{
	assert(next_states[r->state] & 1u << to);
	r->state = to;
}

/* ---- lookup and memory ---- */

struct ripc__rndv *ripc__rndv_find(struct ripc__peer *p, uint64_t id)
{
	struct ripc__rndv *r;

	ripc__list_for_each_entry (r, &p->lists->rndvs, peer_link)
		if (r->id == id)
			return r;
	return NULL;
}

void ripc__rndv_item_unregister(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	struct ripc__tp *tp;

	if (it->cached_mr) {
		ripc__cached_mr_release(r->ctx, it->cached_mr);
	} else if (it->mr) {
		/* Without a lane, no item is registered. */
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
		tp = &r->ctx->tp[r->lane->tp];
		tp->ops->dereg(tp->t, &it->own);
	}
	it->cached_mr = NULL;
	it->mr = NULL;
}

void ripc__rndv_release(struct ripc__rndv *r)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__rndv_item *it = &r->items[i];

		ripc__rndv_item_unregister(r, it);
		if (it->ret)
			ripc__local_return_unclaim(r->ctx, it->ret);
		else if (it->region)
			ripc__pool_put(r->ctx, it->region);
		else if (it->import_ref)
			ripc__import_ref_release(it->import_ref);
		*it = (struct ripc__rndv_item){0};
	}
}

void ripc__rndv_free(struct ripc__rndv *r)
{
	ripc__rndv_count(r, RIPC__RNDV_UNCOUNTED);
	ripc__list_del(&r->link);
	ripc__list_del(&r->peer_link);
	ripc__list_del(&r->lane_link);
	ripc__service_check_over(r->service);
	if (r->message)
		ripc__message_release(r->message);
	ripc__long_inflight_add(r->ctx, -1);
	free(r);
}

/* ---- transfer ---- */

/* The item has memory here: what lies in the sender's memory is copied. */
static void item_set_memory(struct ripc__rndv_item *it, struct ripc__region *region, uint8_t *base)
{
	if (it->import_ref) {
		ripc__copy(base, it->base, it->len);
		ripc__import_ref_release(it->import_ref);
	}
	it->import_ref = NULL;
	it->region = region;
	it->base = base;
}

bool ripc__rndv_item_claim(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	it->ret = ripc__local_return_claim(r->ctx, r->service, r->peer, ripc__rndv_answered_call(r),
					   it->len);
	if (it->ret)
		item_set_memory(it, it->ret->region, it->ret->base);
	return it->ret;
}

void ripc__rndv_items_claim(struct ripc__rndv *r, unsigned begin, unsigned end)
{
	for (struct ripc__rndv_item *it = r->items + begin; it < r->items + end; it++)
		if (it->len && !it->region && it->how != RIPC__HOW_INLINE &&
		    it->how != RIPC__HOW_WRITTEN)
			ripc__rndv_item_claim(r, it);
}

bool ripc__rndv_item_alloc(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	struct ripc__region *pool;

	if (it->region || ripc__rndv_item_claim(r, it))
		return true;
	/* ripc__pool_get() limits what it touches of one item, before any byte has arrived. */
	pool = r->nitems > 1 && r->memory_bytes > RIPC__UNREAD_MAX
		       ? ripc__pool_get_untouched(r->ctx, it->len, RIPC__REGION_MESSAGE, NULL)
		       : ripc__pool_get(r->ctx, it->len, RIPC__REGION_MESSAGE);
	if (pool)
		item_set_memory(it, pool, pool->base);
	else
		ripc__fail_text(-ENOBUFS,
				"out of memory, or its limit is reached (ulimit -v, ulimit -d)");
	return pool;
}

/* Begins the transfer of an item that is read, or that the sender writes. */
static int item_start(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	if (!ripc__rndv_item_alloc(r, it))
		return -ENOBUFS;
	if (it->how == RIPC__HOW_READ)
		it->mr = ripc__sink_mr(r->ctx, r->lane->tp, it->region, it->base, it->len, &it->own,
				       &it->cached_mr);
	else if (!ripc__reg_with_retry(r->lane, it->base, it->len, RIPC__ACCESS_REMOTE_WRITE,
				       &it->own))
		it->mr = &it->own;
	return it->mr ? 0 : -ENOBUFS;
}

static void send_grant(struct ripc__rndv *r)
{
	uint8_t buf[RIPC__HEADER_MAX], *p;

	p = ripc__header_put(buf, RIPC__GRANT, 0, (uint16_t)r->nitems, 0, 0, 0);
	ripc__put_le64(p, r->id);
	p += 8;
	for (unsigned i = 0; i < r->nitems; i++) {
		const struct ripc__rndv_item *it = &r->items[i];
		struct ripc__desc d = {.len = it->len, .how = RIPC__HOW_INLINE};

		if (it->how == RIPC__HOW_GRANT) {
			d.how = RIPC__HOW_GRANT;
			d.addr = it->own.addr;
			d.key = it->own.key;
		}
		p = ripc__desc_put(p, &d);
	}
	ripc__lane_control(r->lane, buf, (size_t)(p - buf));
}

/* Ends the message and reports the reason to its sender. r may have been freed. */
static void fail_item(struct ripc__rndv *r, const struct ripc__rndv_item *it, const char *what,
		      int rc)
{
	ripc__log(RIPC_LOG_WARN, "%s: %s a long item of %" PRIu64 " bytes from peer %s: %s",
		  ripc__service_text(r->ctx, r->service->id), what, it->len,
		  ripc__instance_text(r->peer->instance), ripc_error_detail());
	ripc__rndv_fail(r, rc);
}

/*
 * As item_start(); a failure ends the message. Return: whether the transfer began; if not, r may
 * have been freed.
 */
static bool item_start_or_fail(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	int rc = item_start(r, it);

	if (!rc)
		return true;
	fail_item(r, it, "no memory for", rc);
	return false;
}

void ripc__rndv_start(struct ripc__rndv *r)
{
	bool reads = false, grants = false;

	ripc__list_del(&r->lane_link);
	ripc__rndv_items_claim(r, 0, r->nitems);
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__rndv_item *it = &r->items[i];

		/* This application may write to its own buffer before it has read the message. */
		if (it->import_ref && ripc__import_is_own(r->ctx, it->import_ref->region) &&
		    !ripc__rndv_item_alloc(r, it)) {
			fail_item(r, it, "no memory for", -ENOBUFS);
			return;
		}
		if (it->how == RIPC__HOW_GRANT && !item_start_or_fail(r, it))
			return;
		reads |= it->how == RIPC__HOW_READ;
		grants |= it->how == RIPC__HOW_GRANT;
	}
	ripc__rndv_set_state(r, RIPC__RNDV_TRANSFER);
	r->granted = grants;
	ripc__rndv_count(r, RIPC__RNDV_COUNTED_AT_SERVICE);
	r->started_ns = ripc__now(r->ctx);
	ripc__lane_monitor(r->lane);
	if (grants)
		send_grant(r);
	if (reads) {
		ripc__list_add(&r->lane->memory->rndvs, &r->lane_link);
		if (r->lane->memory->rndvs.next == &r->lane_link)
			ripc__rndv_post(r);
	} else {
		r->next = r->nitems;
		ripc__rndv_ready_if_complete(r);
	}
}

/*
 * Posts one read. If the memory cannot be registered, idle registrations are released and the post
 * is repeated, because both count against RLIMIT_MEMLOCK. Return: 0; -EAGAIN: the queue is full, or
 * the lane is failing; else the reason, explained.
 */
static int post_read(struct ripc__rndv *r, const struct ripc__rndv_item *it, uint64_t len)
{
	struct ripc__lane *lane = r->lane;
	const struct ripc__transport_ops *ops = r->ctx->tp[lane->tp].ops;
	const struct ripc__transfer x = {
		.kind = RIPC__READ,
		.mr = it->mr,
		.local = it->base + it->posted,
		.len = len,
		.raddr = it->raddr + it->posted,
		.rkey = it->rkey,
		.wr_id = (uint64_t)(uintptr_t)r,
	};
	int rc = 0;

	for (unsigned tries = 0; tries < 2; tries++) {
		rc = ops->transfer(lane->ep, &x);
		/* The lane or its device failed: the lane's end suspends this message. */
		if (rc == -ENOTCONN || rc == -ENODEV)
			return -EAGAIN;
		if (!rc || rc == -EAGAIN)
			break;
		ripc__idle_mrs_release(r->ctx);
	}
	return rc;
}

/*
 * A pool buffer for an item is allocated when its first read is posted, and no earlier than the
 * lane needs it to stay busy. Memory allocated earlier would be other memory, while the buffers of
 * the messages before it, still in the cache, are about to be freed.
 */
bool ripc__rndv_post(struct ripc__rndv *r)
{
	struct ripc__lane *lane = r->lane;
	struct ripc__tp *tp = &r->ctx->tp[lane->tp];
	uint64_t chunk = MIN(CHUNK_MAX, tp->limits.rdma_max);

	for (; r->next < r->nitems; r->next++) {
		struct ripc__rndv_item *it = &r->items[r->next];

		if (it->how == RIPC__HOW_READ && !it->mr) {
			/* The posted reads are taken to be as large as those of this item. */
			if (lane->reads > 1 && lane->reads * MIN(it->len, chunk) >= READ_AHEAD)
				return false;
			if (!item_start_or_fail(r, it))
				return true;
		}
		while (it->how == RIPC__HOW_READ && it->posted < it->len) {
			uint64_t n = MIN(it->len - it->posted, chunk);
			int rc;

			if (lane->reads >= tp->limits.read_depth)
				return false;
			ripc__transfer_posted(r->ctx, lane->tp);
			rc = post_read(r, it, n);
			if (rc == -EAGAIN)
				return false;
			if (rc) {
				fail_item(r, it, "no way to read", -ENOBUFS);
				return true;
			}
			it->posted += n;
			r->reads++;
			lane->reads++;
		}
	}
	ripc__list_del(&r->lane_link);
	return true;
}

/* A read has ended, or the peer's writes. r may have been freed. */
static void end_if_complete(struct ripc__rndv *r)
{
	if (r->state != RIPC__RNDV_DRAINING)
		ripc__rndv_ready_if_complete(r);
	else if (!r->reads && !r->granted)
		ripc__rndv_drop(r, r->status);
}

void ripc__rndv_read_done(const struct ripc__event *ev)
{
	struct ripc__rndv *r = (struct ripc__rndv *)(uintptr_t)ev->wr_id;
	struct ripc__lane *lane = r->lane;

	r->reads--;
	if (ev->status) {
		ripc__lane_fail(lane, ev->status, "a read from the peer's memory failed");
		return;
	}
	end_if_complete(r);
	/* A completion made room for the next read. */
	ripc__rndvs_post(lane);
}

void ripc__rndv_fin(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__rndv *r = ripc__rndv_find(lane->peer, id);

	if (!r || r->lane != lane || !r->granted)
		return;
	r->granted = false;
	end_if_complete(r);
}

void ripc__rndv_cancel(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__rndv *r = ripc__rndv_find(lane->peer, id);

	/* The sender gave the message up when its lane was lost. */
	if (r && r->state == RIPC__RNDV_SUSPENDED) {
		ripc__rndv_drop(r, 0);
		return;
	}
	/* The message has left the list, or is in order behind others: its ACK is due. */
	if (!r || r->lane != lane) {
		ripc__delayed_ack_flush(lane->ctx);
		ripc__rndv_acks_send(lane);
		return;
	}
	/* FIN follows the last granted write. */
	r->granted = false;
	if (r->state == RIPC__RNDV_WAITING || r->state == RIPC__RNDV_TRANSFER)
		ripc__rndv_fail(r, -ECANCELED);
	else
		end_if_complete(r);
}

/* ---- end of lanes, peers and services ---- */

void ripc__rndv_drop_suspended(struct ripc__peer *p, uint64_t below,
			       const struct ripc__rndv *arriving)
{
	struct ripc__rndv *r;
again:
	ripc__list_for_each_entry (r, &p->lists->rndvs, peer_link) {
		if (arriving && r->id == arriving->id)
			return;
		if (r->state == RIPC__RNDV_SUSPENDED && r->id < below &&
		    (!arriving || r->service == arriving->service)) {
			/* The drop may deliver others. */
			ripc__rndv_drop(r, 0);
			goto again;
		}
	}
}

/*
 * Memory of the application may be the reason why the lane failed: the next one would fail in the
 * same way. It is not used again, and the item will go to other memory.
 */
static void give_up_unwritable(struct ripc__rndv *r, struct ripc__mappings *maps)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__rndv_item *it = &r->items[i];

		if (!it->posted || !it->ret || it->region->state != RIPC__REGION_USER ||
		    ripc__mappings_permit(maps, it->base, it->len, true))
			continue;
		ripc__log(RIPC_LOG_ERROR,
			  "%s: %zu bytes at %p, a %s, cannot be written, and are not used "
			  "any more: they must stay mapped until %s",
			  ripc__service_text(r->ctx, r->service->id), (size_t)it->len,
			  (void *)it->base, it->ret->window ? "receive window" : "return buffer",
			  it->ret->window ? "it is removed" : "ripc_buf_unregister()");
		ripc__rndv_item_unregister(r, it);
		it->ret->arriving = false;
		ripc__local_return_revoke(r->ctx, it->ret);
		*it = (struct ripc__rndv_item){0};
	}
}

void ripc__rndv_lane_gone(struct ripc__lane *lane)
{
	struct ripc__mappings maps = {0};
	struct ripc__rndv *r;
	bool room = false;

	ripc__list_for_each_entry (r, &lane->peer->lists->rndvs, peer_link) {
		if (r->lane != lane)
			continue;
		/* The endpoint is closed, so its reads and the peer's writes have ended. */
		if (r->state == RIPC__RNDV_TRANSFER)
			give_up_unwritable(r, &maps);
		r->reads = 0;
		r->granted = false;
		ripc__list_del(&r->lane_link);
		if (r->state == RIPC__RNDV_DRAINING)
			continue;
		ripc__rndv_release(r);
		room |= r->counted != RIPC__RNDV_UNCOUNTED;
		ripc__rndv_count(r, RIPC__RNDV_UNCOUNTED);
		r->lane = NULL;
		ripc__rndv_set_state(r, RIPC__RNDV_SUSPENDED);
		r->awaited = false;
		r->message->flow = NULL;
	}
	ripc__mappings_free(&maps);
again:
	ripc__list_for_each_entry (r, &lane->peer->lists->rndvs, peer_link) {
		/* DRAINING: dropping it may deliver others. */
		if (r->lane == lane) {
			ripc__rndv_drop(r, 0);
			goto again;
		}
	}
	/* Messages of other peers may have waited for it. */
	if (room)
		ripc__rndvs_resume(lane->ctx);
}

bool ripc__rndv_peer_gone(struct ripc__peer *peer)
{
	const struct ripc__rndv *r;
	bool overtaken = false;

	ripc__list_for_each_entry (r, &peer->lists->rndvs, peer_link)
		overtaken |= r->state == RIPC__RNDV_READY;
	ripc__rndv_drop_suspended(peer, UINT64_MAX, NULL);
	return overtaken;
}

void ripc__rndv_service_gone(struct ripc_service *s)
{
	struct ripc__list *n, *tmp;

	/* From the last to the first: dropping one must not deliver a later one. */
	for (n = s->rndvs_in.prev, tmp = n->prev; n != &s->rndvs_in; n = tmp, tmp = n->prev) {
		struct ripc__rndv *r = ripc__list_entry(n, struct ripc__rndv, link);

		if (r->state == RIPC__RNDV_DRAINING)
			continue;
		if (r->state == RIPC__RNDV_READY) {
			s->ctx->stats.dropped_unread++;
			s->stats.dropped_unread++;
			ripc__rndv_drop_ready(r);
		} else if (r->reads || r->granted) {
			/*
			 * Revoking a grant during a write would fail the lane for all services:
			 * wait for FIN, or for the end of the lane.
			 */
			ripc__list_del(&r->lane_link);
			r->status = -EHOSTUNREACH;
			ripc__rndv_set_state(r, RIPC__RNDV_DRAINING);
		} else {
			ripc__rndv_release(r);
			if (r->lane)
				ripc__rndv_ack_failed(r->lane, r->message->flow,
						      ripc__rndv_ack_word(r), -EHOSTUNREACH);
			ripc__rndv_free(r);
		}
	}
	while (ripc__list_take(&s->waiting))
		;
	ripc__rndvs_resume_if_room(s->ctx);
}

void ripc__rndvs_post(struct ripc__lane *lane)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&lane->memory->rndvs)))
		if (!ripc__rndv_post(ripc__list_entry(n, struct ripc__rndv, lane_link)))
			break;
}

void ripc__rndvs_lane_closed(struct ripc__lane *lane)
{
	struct ripc__rndv *r;

	ripc__list_for_each_entry (r, &lane->peer->lists->rndvs, peer_link) {
		struct ripc__message *m = r->message;

		if (!m || !m->flow || m->flow->lane != lane)
			continue;
		m->flow = NULL;
		/* The message may be in the list of a flow, which ends now. */
		ripc__list_del(&r->lane_link);
	}
}
