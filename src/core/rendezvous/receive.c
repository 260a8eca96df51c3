/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/receive.h"
#include "base/copy.h"
#include "core/memory/bounce.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/memory/message.h"
#include "core/memory/standing.h"
#include "core/peer/lane.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"
#include "core/rendezvous/arriving.h"
#include "core/rendezvous/dedup.h"
#include "core/rendezvous/delivery.h"
#include "core/rendezvous/receiver.h"
#include "core/service/service.h"

#include <stdlib.h>
#include <string.h>

/* Answers a message that is not received here: no standing buffer was used for it. */
static void reply_ack(struct ripc__lane *lane, struct ripc__flow *flow, uint64_t id, int status)
{
	ripc__rndv_ack_failed(lane, flow, id | RIPC__ACK_REUSABLE, status);
}

/*
 * Finds the return buffer that the message used. This peer must have been able to write it, for
 * this service. A standing buffer is for items that are written, not for inline ones.
 */
static struct ripc__local_return *claim_used_return(struct ripc__rndv *r, uint64_t id, uint64_t len,
						    bool inlined)
{
	struct ripc__local_return *ret = ripc__local_return_find(r->ctx, id);

	if (!ret || !ripc__lane_same(ret->lane, r->lane) ||
	    (ret->flow ? inlined || ret->flow->id != r->service->id
		       : ret->service != r->service || ret->call != ripc__rndv_answered_call(r)) ||
	    ret->arriving || len > ret->len)
		return NULL;
	ret->arriving = true;
	return ret;
}

/*
 * The item was written into a standing buffer. A pool buffer becomes the message's unless the
 * application has set memory aside for the item. A bounce buffer is copied, and the ACK lets the
 * peer use it again. Return: 0, -ENOBUFS, or -EPROTO.
 */
static int item_take_standing(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	struct ripc__local_return *buffer = it->ret;
	struct ripc__region *region;
	int rc = 0;

	it->ret = NULL;
	if (!ripc__standing_written(r->ctx, buffer, it->len))
		rc = -EPROTO;
	else if (buffer->bounce && !ripc__rndv_item_alloc(r, it))
		rc = -ENOBUFS;
	else if (buffer->bounce)
		ripc__copy_pieces(it->base, buffer->bounce->region->base, it->len);
	if (buffer->bounce && ripc__standing_stays(buffer->flow)) {
		buffer->arriving = false;
		r->standing_stays = true;
		return rc;
	}
	region = ripc__standing_take(r->ctx, buffer);
	if (!region)
		return rc;
	if (!rc && !ripc__rndv_item_claim(r, it)) {
		it->region = region;
		it->base = region->base;
		return 0;
	}
	if (!rc)
		ripc__copy_pieces(it->base, region->base, it->len);
	ripc__pool_put(r->ctx, region);
	return rc;
}

/* Sets up an item whose bytes have arrived already. Return: 0, -ENOBUFS, or -EPROTO. */
static int item_local(struct ripc__rndv *r, struct ripc__rndv_item *it, uint64_t return_id,
		      const uint8_t *bytes)
{
	if (!it->len)
		return 0;
	if (return_id) {
		it->ret = claim_used_return(r, return_id, it->len, bytes);
		if (!it->ret)
			return -EPROTO;
		if (it->ret->flow)
			return item_take_standing(r, it);
		it->base = it->ret->base;
		it->region = it->ret->region;
		if (!bytes && it->ret->bounce)
			bytes = it->ret->bounce->region->base;
	} else if (!ripc__rndv_item_alloc(r, it)) {
		return -ENOBUFS;
	}
	if (bytes)
		ripc__copy_pieces(it->base, bytes, it->len);
	return 0;
}

static int items_decode(struct ripc__rndv *r, const struct ripc__header *h, bool *transfers)
{
	const uint8_t *payload = h->payload;
	unsigned claimed = 0;
	int rc = 0;

	*transfers = false;
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__rndv_item *it = &r->items[i];
		struct ripc__desc d;

		ripc__desc_get(&d, h->items, i);
		it->how = (uint8_t)d.how;
		it->len = d.len;
		/* A message larger than the memory of this host is refused at once. */
		if (d.len > r->ctx->host_bytes || r->bytes > r->ctx->host_bytes - d.len) {
			rc = rc ? rc : -ENOBUFS;
			continue;
		}
		r->bytes += d.len;
		r->memory_bytes += d.how == RIPC__HOW_MAPPED ? 0 : d.len;
		/* Items take windows in order: before this one those that are transferred later. */
		if (d.how == RIPC__HOW_INLINE || d.how == RIPC__HOW_WRITTEN) {
			ripc__rndv_items_claim(r, claimed, i);
			claimed = i;
		}
		switch (d.how) {
		case RIPC__HOW_INLINE:
			if (!rc)
				rc = item_local(r, it, d.addr, payload);
			payload += d.len;
			break;
		case RIPC__HOW_WRITTEN:
			if (!rc)
				rc = d.addr ? item_local(r, it, d.addr, NULL) : -EPROTO;
			break;
		case RIPC__HOW_MAPPED:
			*transfers = true;
			if (!(r->lane->caps & RIPC__CAP_EXPORT))
				rc = -EPROTO;
			if (!rc)
				rc = ripc__import_ref_new(r->lane, d.key, d.addr, d.len, r->id, i,
							  &it->import_ref, &it->base);
			break;
		default:
			it->raddr = d.addr;
			it->rkey = d.key;
			*transfers = true;
			if (!(r->lane->caps &
			      (d.how == RIPC__HOW_READ ? RIPC__CAP_READ : RIPC__CAP_WRITE)))
				rc = -EPROTO;
			break;
		}
		if (rc == -EPROTO)
			return rc;
	}
	return rc;
}

/*
 * Inserts r into the lists, in place of a suspended message with the same id. Return: -EPROTO: a
 * message with this id is in transfer.
 */
static int rndv_insert(struct ripc__rndv *r)
{
	struct ripc__rndv *old = ripc__rndv_find(r->peer, r->id);

	if (!old) {
		ripc__list_add(&r->service->rndvs_in, &r->link);
		ripc__list_add(&r->peer->lists->rndvs, &r->peer_link);
		return 0;
	}
	if (old->state != RIPC__RNDV_SUSPENDED || old->service != r->service)
		return -EPROTO;
	ripc__list_add(&old->link, &r->link);
	ripc__list_add(&old->peer_link, &r->peer_link);
	ripc__rndv_free(old);
	return 0;
}

/*
 * Length of the longest item that is neither in the message itself nor in a return buffer of the
 * application; 0: there is none.
 */
static uint64_t longest_item(const struct ripc__rndv *r)
{
	uint64_t len = 0;

	for (unsigned i = 0; i < r->nitems; i++) {
		const struct ripc__rndv_item *it = &r->items[i];

		if (it->how != RIPC__HOW_INLINE && (!it->ret || it->ret->window) && it->len > len)
			len = it->len;
	}
	return len;
}

/* Sets what the message has from its header. */
static void message_fill(struct ripc__message *m, struct ripc__lane *lane, struct ripc__flow *flow,
			 const struct ripc__header *h, uint32_t units)
{
	m->flow = flow;
	m->units = units;
	m->pub.is_long = 1;
	m->pub.source = h->source;
	m->pub.dest = h->dest;
	m->pub.nreturn_buffers = h->nreturns;
	memcpy(m->pub.instance, lane->peer->instance, 16);
}

/*
 * Receives a message of one mapped item without a struct ripc__rndv if nothing delays it: no
 * message before it, no memory set aside, no transfer. A lane with EXPORT has no standing buffers.
 * Return: false: it is for receive_long().
 */
static bool receive_mapped(struct ripc__lane *lane, struct ripc__flow *flow,
			   const struct ripc__header *h, uint32_t units)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__import_ref *ref;
	struct ripc__message *m;
	struct ripc__desc d;
	uint8_t *base;

	ripc__desc_get(&d, h->items, 0);
	if (d.how != RIPC__HOW_MAPPED || h->nitems != 1 ||
	    h->flags & (RIPC__F_CALL | RIPC__F_REPLY) || !(lane->caps & RIPC__CAP_EXPORT) ||
	    !lane->peer->dedup_bitmap || !ripc__list_empty(&flow->service->rndvs_in) ||
	    !ripc__list_empty(&ctx->memory->returns) || ctx->memory->nrecv_windows ||
	    ripc__rndv_must_wait(flow->service, d.len) ||
	    ripc__import_ref_new(lane, d.key, d.addr, d.len, h->u[0], 0, &ref, &base))
		return false;
	/* It is copied out of a buffer of this context. */
	m = ref->region->object ? NULL : ripc__message_new(ctx, 1);
	if (!m) {
		ripc__import_ref_cancel(ref);
		return false;
	}
	message_fill(m, lane, flow, h, units);
	*(struct iovec *)m->pub.items = (struct iovec){base, d.len};
	m->long_bytes = d.len;
	ripc__mapped_deliver(lane, m, ref, h->flags & RIPC__F_ACK_NOW);
	return true;
}

/* Whether a call waits for this answer, and no other to it is under way from this peer. */
static bool is_awaited(const struct ripc__rndv *r)
{
	uint64_t call = ripc__rndv_answered_call(r);
	const struct ripc__rndv *other;

	if (!call ||
	    !r->ctx->peer_ops->answer_awaited(r->ctx, r->peer, r->message->pub.source, call))
		return false;
	ripc__list_for_each_entry (other, &r->peer->lists->rndvs, peer_link)
		if (other->awaited && ripc__rndv_answered_call(other) == call)
			return false;
	return true;
}

static void receive_long(struct ripc__lane *lane, struct ripc__flow *flow, struct ripc_service *s,
			 const struct ripc__header *h, uint32_t units)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__rndv *r = malloc(sizeof(*r) + h->nitems * sizeof(r->items[0]));
	struct ripc__message *m = r ? ripc__message_new(ctx, h->nitems) : NULL;
	uint64_t longest;
	bool transfers;
	int rc;

	if (!m || !ripc__peer_lists(lane->peer) || !ripc__lane_memory_get(lane) ||
	    !ripc__dedup_begin(lane->peer)) {
		if (m)
			ripc__message_release(m);
		free(r);
		ctx->stats.dropped_no_memory++;
		ripc__flow_consume(flow, units);
		ripc__dedup_mark_failed(lane->peer, h->u[0]);
		reply_ack(lane, flow, h->u[0], -ENOBUFS);
		return;
	}
	ripc__long_inflight_add(ctx, 1);
	*r = (struct ripc__rndv){
		.ctx = ctx,
		.service = s,
		.peer = lane->peer,
		.lane = lane,
		.id = h->u[0],
		.nitems = h->nitems,
		.ack_requested = h->flags & RIPC__F_ACK_NOW,
		.message = m,
	};
	memset(r->items, 0, h->nitems * sizeof(r->items[0]));
	ripc__list_init(&r->link);
	ripc__list_init(&r->peer_link);
	ripc__list_init(&r->lane_link);
	message_fill(m, lane, flow, h, units);
	if (h->flags & (RIPC__F_CALL | RIPC__F_REPLY))
		ripc__message_set_call(
			m, h->flags & RIPC__F_CALL ? RIPC__CALL_REQUEST_ARRIVING : RIPC__CALL_REPLY,
			h->call, (uint32_t)h->call_word, lane->peer);
	/* Answers to calls have no order. */
	if (!ripc__rndv_is_answer(r))
		ripc__rndv_drop_suspended(r->peer, UINT64_MAX, r);
	rc = rndv_insert(r);
	if (!rc)
		rc = items_decode(r, h, &transfers);
	m->long_bytes = r->bytes;
	if (rc == -EPROTO) {
		ripc__rndv_release(r);
		ripc__rndv_free(r);
		ripc__lane_protocol_error(lane,
					  "LONG names a buffer, key or item that does not match");
		return;
	}
	if (rc) {
		ripc__rndv_fail(r, rc);
		return;
	}
	longest = longest_item(r);
	if (!transfers) {
		ripc__rndv_set_state(r, RIPC__RNDV_TRANSFER);
		r->next = r->nitems;
		ripc__rndv_ready(r);
	} else if (is_awaited(r)) {
		/*
		 * The application may receive nothing before its call ends, so no room would come.
		 */
		r->awaited = true;
		ripc__rndv_start(r);
	} else {
		ripc__rndv_wait(r);
	}
	if (longest && lane->state == RIPC__LANE_UP)
		ripc__standing_replenish(flow, longest);
}

/*
 * The service that receives the message; NULL: it is refused. One that was taken over still
 * receives what had begun to arrive when a lane was lost: later messages may be complete.
 */
static struct ripc_service *receiving_service(const struct ripc__flow *flow,
					      const struct ripc__header *h)
{
	const struct ripc__rndv *r;

	if (flow->service)
		return ripc__flow_refuses(flow) && !(h->flags & RIPC__F_REPLY) ? NULL
									       : flow->service;
	r = ripc__rndv_find(flow->lane->peer, h->u[0]);
	return r && r->state == RIPC__RNDV_SUSPENDED && r->service->id == flow->id ? r->service
										   : NULL;
}

void ripc__rndv_receive(struct ripc__lane *lane, struct ripc__flow *flow,
			const struct ripc__header *h, const struct ripc__event *ev, uint32_t units)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;
	uint64_t id = h->u[0], below = h->u[1];
	struct ripc_service *s;

	if (!below || below > id || id - below >= RIPC__REQUESTS_MAX) {
		ripc__lane_protocol_error(lane, "long message with an id out of bounds");
	} else {
		if (below > p->dedup_base)
			ripc__dedup_advance(p, below);
		/* The sender has given them up since. */
		if (RIPC__UNLIKELY(!ripc__list_empty(&p->lists->rndvs)))
			ripc__rndv_drop_suspended(p, p->dedup_base, NULL);
		if (ripc__dedup_seen(p, id)) {
			/* A repetition over a new lane: the ACK was lost with the old one. */
			ctx->stats.duplicates++;
			p->stats.duplicates++;
			ripc__flow_consume(flow, units);
			reply_ack(lane, flow, id, ripc__dedup_failed(p, id) ? -ENOBUFS : 0);
		} else if (!(s = receiving_service(flow, h))) {
			ctx->stats.dropped_no_service++;
			ripc__flow_consume(flow, units);
			reply_ack(lane, flow, id, -EHOSTUNREACH);
		} else if (s != flow->service || !receive_mapped(lane, flow, h, units)) {
			receive_long(lane, flow, s, h, units);
		}
	}
	/* Inline items have been copied, and other items have their own buffers. */
	ripc__event_release(ctx, lane->tp, ev);
	if (lane->state == RIPC__LANE_UP)
		ripc__lane_repost(lane);
}
