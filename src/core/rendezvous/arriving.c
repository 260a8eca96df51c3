/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/arriving.h"
#include "core/memory/buffer.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/delivery.h"
#include "core/service/message.h"
#include "core/service/service.h"

#define SLOW_NS (1000 * RIPC__MS) /* a transfer of this age counts for its peer alone */

/* Bytes of a message that is being fetched, as the service counts them. */
static uint64_t share(uint64_t bytes)
{
	return bytes < RIPC__PEER_ARRIVING_MAX ? bytes : RIPC__PEER_ARRIVING_MAX;
}

void ripc__rndv_count(struct ripc__rndv *r, enum ripc__rndv_count to)
{
	struct ripc__peer_lists *lists = r->peer->lists;
	bool was_full = lists->arriving_bytes >= RIPC__PEER_ARRIVING_MAX;

	if (r->counted == to)
		return;
	if (r->counted != RIPC__RNDV_UNCOUNTED)
		lists->arriving_bytes -= r->memory_bytes;
	if (r->counted == RIPC__RNDV_COUNTED_AT_SERVICE)
		r->service->arriving_bytes -= share(r->bytes);
	if (r->counted == RIPC__RNDV_COUNTED_SLOW)
		r->ctx->rndvs_slow_bytes -= r->memory_bytes;
	if (r->counted == RIPC__RNDV_COUNTED_READY)
		lists->ready_bytes -= r->memory_bytes;
	r->counted = to;
	if (to != RIPC__RNDV_UNCOUNTED)
		lists->arriving_bytes += r->memory_bytes;
	if (to == RIPC__RNDV_COUNTED_AT_SERVICE)
		r->service->arriving_bytes += share(r->bytes);
	if (to == RIPC__RNDV_COUNTED_SLOW)
		r->ctx->rndvs_slow_bytes += r->memory_bytes;
	if (to == RIPC__RNDV_COUNTED_READY)
		lists->ready_bytes += r->memory_bytes;
	/* Messages of this peer may wait at any service. Not now: callers are in a list of them. */
	if (was_full && lists->arriving_bytes < RIPC__PEER_ARRIVING_MAX)
		r->ctx->rndvs_have_room = true;
}

bool ripc__rndv_must_wait(const struct ripc_service *s, uint64_t bytes)
{
	uint64_t queued = s->queued_bytes + s->queued_long_bytes;
	uint64_t unread = queued + s->arriving_bytes;

	return unread && (unread + share(bytes) > RIPC__UNREAD_MAX ||
			  (queued && queued + bytes > RIPC__UNREAD_MAX));
}

/* Whether all earlier messages of its peer to the service were delivered. */
static bool is_next(const struct ripc__rndv *r)
{
	const struct ripc__rndv *first;

	ripc__list_for_each_entry (first, &r->peer->lists->rndvs, peer_link)
		if (first->service == r->service && !ripc__rndv_is_answer(first))
			return first == r;
	return false;
}

/* The next message to start, whose peer has the next turn then. NULL: none may be started. */
static struct ripc__rndv *take_startable(struct ripc_service *s)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &s->waiting) {
		struct ripc__flow *flow = ripc__list_entry(n, struct ripc__flow, wait_link);
		struct ripc__rndv *r =
			ripc__list_first_entry(&flow->waiting, struct ripc__rndv, lane_link);

		if (!r) {
			ripc__list_del(n);
			continue;
		}
		if (r->memory_bytes && r->peer->lists->arriving_bytes >= RIPC__PEER_ARRIVING_MAX &&
		    !is_next(r))
			continue;
		/* Smaller messages of other peers would delay this one for ever. */
		if (ripc__rndv_must_wait(s, r->bytes))
			return NULL;
		ripc__list_del(n);
		ripc__list_add(&s->waiting, n);
		return r;
	}
	return NULL;
}

void ripc__rndv_resume(struct ripc_service *s)
{
	struct ripc__rndv *r;

	/*
	 * A failed start drops the message, which calls this function again: the loop below
	 * continues.
	 */
	if (s->resuming || ripc__list_empty(&s->waiting))
		return;
	s->resuming = true;
	/* A start may end other messages: read the list anew in each round. */
	while ((r = take_startable(s)))
		ripc__rndv_start(r);
	s->resuming = false;
}

/* Whether its peer has sent none to the service behind it. */
static bool is_last(const struct ripc__rndv *r)
{
	const struct ripc__list *n;

	for (n = r->peer_link.next; n != &r->peer->lists->rndvs; n = n->next) {
		const struct ripc__rndv *later = ripc__list_entry(n, struct ripc__rndv, peer_link);

		if (later->service == r->service && !ripc__rndv_is_answer(later))
			return false;
	}
	return true;
}

void ripc__rndv_refuse_waiting(struct ripc_service *s)
{
	struct ripc__list *n, *tmp;

	s->resuming = true;
	ripc__list_for_each_safe (n, tmp, &s->waiting) {
		struct ripc__list *waiting =
			&ripc__list_entry(n, struct ripc__flow, wait_link)->waiting;

		while (!ripc__list_empty(waiting)) {
			struct ripc__rndv *r =
				ripc__list_entry(waiting->prev, struct ripc__rndv, lane_link);

			if (!is_last(r))
				break;
			ripc__rndv_drop(r, -EHOSTUNREACH);
		}
		if (ripc__list_empty(waiting))
			ripc__list_del(n);
	}
	s->resuming = false;
}

void ripc__rndv_wait(struct ripc__rndv *r)
{
	struct ripc__flow *flow = r->message->flow;

	ripc__list_add(&flow->waiting, &r->lane_link);
	ripc__list_queue(&r->service->waiting, &flow->wait_link);
	ripc__rndv_resume(r->service);
}

void ripc__rndvs_resume(struct ripc *ctx)
{
	ctx->rndvs_have_room = true;
	if (ctx->rndvs_resuming)
		return;
	ctx->rndvs_resuming = true;
	/* Each further round follows a message that ended without a transfer. */
	while (ctx->rndvs_have_room) {
		ctx->rndvs_have_room = false;
		for (struct ripc_service *s = ctx->services; s; s = s->hh.next)
			ripc__rndv_resume(s);
	}
	ctx->rndvs_resuming = false;
}

void ripc__rndvs_timer(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__rndv *r;
	bool room = false;

	ripc__list_for_each_entry (r, &lane->peer->lists->rndvs, peer_link) {
		if (r->lane != lane || r->counted != RIPC__RNDV_COUNTED_AT_SERVICE ||
		    ctx->now_ns < r->started_ns + SLOW_NS ||
		    ctx->rndvs_slow_bytes + r->memory_bytes > ctx->host_bytes / 8)
			continue;
		ripc__rndv_count(r, RIPC__RNDV_COUNTED_SLOW);
		room = true;
	}
	if (room)
		ripc__rndvs_resume(ctx);
}
