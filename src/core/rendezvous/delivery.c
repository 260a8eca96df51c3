/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/delivery.h"
#include "base/copy.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/memory/message.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"
#include "core/rendezvous/arriving.h"
#include "core/rendezvous/dedup.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/service/service.h"

#include <string.h>

/*
 * Frees the struct of a complete message. Return: the message, for its service; NULL: it was for a
 * call.
 */
static struct ripc__message *take_message(struct ripc__rndv *r)
{
	struct ripc__message *m = r->message;
	struct ripc *ctx = r->ctx;

	r->message = NULL;
	ripc__rndv_free(r);
	return m->call_role == RIPC__CALL_NONE || ctx->peer_ops->call_arrived(m) ? m : NULL;
}

static void deliver(struct ripc_service *s, struct ripc__rndv *r)
{
	struct ripc__message *m = take_message(r);

	if (m)
		ripc__service_deliver(s, m);
}

/* Delivers the oldest messages of a peer that are complete. An answer has no place among them. */
static void deliver_ready(struct ripc_service *s, struct ripc__peer *p)
{
	struct ripc__rndv *r, *tmp;

	ripc__list_for_each_entry_safe (r, tmp, &p->lists->rndvs, peer_link) {
		if (r->service != s || ripc__rndv_is_answer(r))
			continue;
		if (r->state != RIPC__RNDV_READY)
			return;
		deliver(s, r);
	}
}

void ripc__rndv_drop_ready(struct ripc__rndv *r)
{
	struct ripc__message *m = take_message(r);

	if (m)
		ripc__message_release(m);
}

void ripc__rndv_ack_failed(struct ripc__lane *lane, struct ripc__flow *flow, uint64_t word,
			   int status)
{
	ripc__lane_notify(lane, RIPC__ACK, 0, 0, word, (uint32_t)status);
	if (status != -EHOSTUNREACH || !flow)
		return;
	flow->refused = true;
	ripc__lane_barrier(lane);
}

void ripc__rndv_drop(struct ripc__rndv *r, int status)
{
	struct ripc_service *s = r->service;
	struct ripc__peer *p = r->peer;

	ripc__rndv_release(r);
	if (status && r->lane)
		ripc__rndv_ack_failed(r->lane, r->message->flow, ripc__rndv_ack_word(r), status);
	ripc__rndv_free(r);
	deliver_ready(s, p);
	ripc__rndv_resume(s);
	ripc__rndvs_resume_if_room(s->ctx);
	ripc__wake(s->ctx, &s->drained);
}

void ripc__rndv_fail(struct ripc__rndv *r, int status)
{
	ripc__list_del(&r->lane_link);
	r->status = status;
	if (status == -ENOBUFS) {
		r->ctx->stats.dropped_no_memory++;
		ripc__dedup_mark_failed(r->peer, r->id);
	}
	ripc__rndv_set_state(r, RIPC__RNDV_DRAINING);
	if (!r->reads && !r->granted)
		ripc__rndv_drop(r, status);
}

/*
 * The item stays in the sender's memory. ack_due: its RELEASE carries the ACK.
 */
static void set_mapped(struct ripc__message *m, unsigned item, struct ripc__import_ref *ref,
		       bool ack_due)
{
	((uint8_t *)m->pub.placement)[item] = RIPC_IN_SENDER_MEMORY;
	m->pool[item] = ref->region;
	ref->message = m;
	if (ack_due)
		ripc__import_ack_delay(ref);
}

/*
 * One item has arrived: updates its memory, and sets its address in the message. ack_due: see
 * set_mapped().
 */
static void item_deliver(struct ripc__rndv *r, unsigned i, bool ack_due)
{
	struct ripc__rndv_item *it = &r->items[i];
	struct iovec *iov = (struct iovec *)r->message->pub.items;
	uint8_t *placement = (uint8_t *)r->message->pub.placement;

	ripc__rndv_item_unregister(r, it);
	iov[i].iov_base = it->base ? it->base : (void *)"";
	iov[i].iov_len = it->len;
	placement[i] = RIPC_IN_RECEIVE_BUFFER;
	if (it->ret) {
		r->message->pool[i] = it->region;
		it->region->unread++;
		ripc__list_queue(&r->ctx->memory->unread, &r->message->held);
		placement[i] = it->ret->window ? RIPC_IN_WINDOW : RIPC_IN_RETURN_BUFFER;
		r->ctx->stats.window_items += it->ret->window;
		ripc__local_return_drop(r->ctx, it->ret);
	} else if (it->region) {
		placement[i] = RIPC_IN_POOL;
		r->ctx->stats.pool_items++;
		r->message->pool[i] = it->region;
	} else if (it->import_ref) {
		set_mapped(r->message, i, it->import_ref, ack_due);
	}
}

/*
 * The application freed the buffer around a receive window or return buffer during the transfer:
 * the message gets a copy, and the buffer is freed. Return: false: out of memory.
 */
static bool item_copy_out(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	struct ripc__region *copy;

	if (!it->region || it->region->state != RIPC__REGION_FREED)
		return true;
	copy = ripc__pool_get(r->ctx, it->len, RIPC__REGION_MESSAGE);
	if (!copy)
		return false;
	ripc__copy(copy->base, it->base, it->len);
	ripc__rndv_item_unregister(r, it);
	if (it->ret)
		ripc__local_return_drop(r->ctx, it->ret);
	it->ret = NULL;
	it->region = copy;
	it->base = copy->base;
	return true;
}

void ripc__rndv_ack_kept(struct ripc__lane *lane, uint64_t word)
{
	ripc__lane_notify(lane, RIPC__ACK, 0, 0, word, (uint64_t)RIPC__ACK_KEPT << 32);
}

void ripc__rndv_ack_request(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__rndv *r = ripc__rndv_find(lane->peer, id);

	if (r && r->lane == lane)
		r->ack_requested = true;
	ripc__import_acks_back_off(lane);
	ripc__rndv_acks_send(lane);
}

void ripc__rndv_acks_send(struct ripc__lane *lane)
{
	uint64_t id;

	while ((id = ripc__import_ack_take(lane)))
		ripc__rndv_ack_kept(lane, id);
}

static void count_received(struct ripc__peer *p, uint64_t id, uint64_t bytes)
{
	ripc__dedup_mark(p, id);
	p->stats.long_received++;
	p->stats.bytes_received += bytes;
}

void ripc__mapped_deliver(struct ripc__lane *lane, struct ripc__message *m,
			  struct ripc__import_ref *ref, bool ack_now)
{
	bool ack_due = !ack_now && ripc__import_ack_may_wait(lane);
	uint64_t id = ref->request;

	set_mapped(m, 0, ref, ack_due);
	count_received(lane->peer, id, m->long_bytes);
	if (!ack_due)
		ripc__rndv_ack_kept(lane, id);
	ripc__service_deliver(m->flow->service, m);
}

void ripc__rndv_ready(struct ripc__rndv *r)
{
	struct ripc_service *s = r->service;
	struct ripc__peer *p = r->peer;
	struct ripc__lane *lane = r->lane;
	uint64_t word = ripc__rndv_ack_word(r);
	bool kept = false, transferred = r->ack_requested, ack_due;

	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__rndv_item *it = &r->items[i];

		if (!item_copy_out(r, it)) {
			ripc__rndv_fail(r, -ENOBUFS);
			return;
		}
		kept |= it->import_ref != NULL;
		transferred |= !it->import_ref && it->how != RIPC__HOW_INLINE;
	}
	/* Most messages are freed soon: then RELEASE is the ACK. */
	ack_due = kept && !transferred && ripc__import_ack_may_wait(lane);
	for (unsigned i = 0; i < r->nitems; i++)
		item_deliver(r, i, ack_due);
	ripc__rndv_count(r, RIPC__RNDV_COUNTED_READY);
	ripc__rndv_set_state(r, RIPC__RNDV_READY);
	count_received(p, r->id, r->bytes);
	if (kept && !ack_due)
		ripc__rndv_ack_kept(lane, word);
	r->lane = NULL;
	if (ripc__rndv_is_answer(r))
		deliver(s, r);
	else
		deliver_ready(s, p);
	if (!kept)
		ripc__delayed_ack_queue(lane, word, s);
	ripc__rndv_resume(s);
	ripc__rndvs_resume_if_room(s->ctx);
}

void ripc__rndv_ready_if_complete(struct ripc__rndv *r)
{
	if (r->state == RIPC__RNDV_TRANSFER && !r->reads && !r->granted && r->next == r->nitems)
		ripc__rndv_ready(r);
}
