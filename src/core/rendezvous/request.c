/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/request.h"
#include "core/memory/detach.h"
#include "core/memory/remote_returns.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/ack.h"
#include "core/rendezvous/selection.h"
#include "core/rendezvous/sender.h"
#include "core/rendezvous/withdrawn.h"
#include "core/service/items.h"
#include "core/service/service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNEXPORT_RETRY_NS (10 * RIPC__MS) /* without memory to detach an item */

#define MAPPED_ALONE (1u << RIPC__HOW_MAPPED) /* r->hows: no item is in a return buffer */

#define TO(state) (1u << RIPC__REQUEST_##state)

__attribute__((unused)) static const unsigned next_states[RIPC__REQUEST_STATES] = {
	[RIPC__REQUEST_PENDING] = TO(WRITING) | TO(DONE),
	[RIPC__REQUEST_WRITING] = TO(SENT) | TO(PENDING) | TO(DONE),
	[RIPC__REQUEST_SENT] = TO(GRANTED) | TO(PENDING) | TO(DONE),
	[RIPC__REQUEST_GRANTED] = TO(SENT) | TO(PENDING) | TO(DONE),
	[RIPC__REQUEST_DONE] = 0,
};

void ripc__request_set_state(struct ripc_request *r, enum ripc__request_state to)
{
	assert(next_states[r->state] & 1u << to);
	r->state = to;
}

/* The smallest size class with room for nitems. */
static unsigned size_class(unsigned nitems)
{
	return nitems > 1 ? 32 - (unsigned)__builtin_clz(nitems - 1) : 0;
}

/* Memory for a request with nitems items, not cleared; NULL: out of memory. */
static struct ripc_request *request_get(struct ripc *ctx, unsigned nitems)
{
	unsigned size = size_class(nitems);
	struct ripc_request *r = ctx->request_free[size];

	if (!r)
		return ripc__handle_block_alloc(&ctx->request_blocks,
						sizeof(*r) + sizeof(r->items[0]) * (1u << size));
	ctx->request_free[size] = r->next_free;
	return r;
}

static void request_put(struct ripc *ctx, struct ripc_request *r, unsigned nitems)
{
	unsigned size = size_class(nitems);

	__atomic_store_n(&r->ctx, NULL, __ATOMIC_RELAXED);
	r->next_free = ctx->request_free[size];
	ctx->request_free[size] = r;
}

/*
 * Sets up the items, which are zeros. Memory that was freed to the pool may belong to another user;
 * memory behind a buffer does not belong to the application. Return: 0, or -EINVAL, explained.
 */
static int init_items(struct ripc *ctx, struct ripc__request_item *to,
		      const struct ripc__prepared *from, bool free_items)
{
	const struct iovec *items = from->items;

	for (unsigned i = 0; i < from->nitems; i++) {
		struct ripc__region *r =
			items[i].iov_len ? ripc__memory_find_cap(ctx, items[i].iov_base) : NULL;
		bool inside = r && ripc__region_contains(r, items[i].iov_base, items[i].iov_len);

		to[i].base = items[i].iov_base;
		to[i].len = items[i].iov_len;
		to[i].region = inside ? r : NULL;
		to[i].copied = from->copied >> i & 1;
		if (r && (r->state == RIPC__REGION_FREE || r->state == RIPC__REGION_FREED))
			return ripc__fail(-EINVAL, "item %u: the buffer at %p was freed before", i,
					  items[i].iov_base);
		if (free_items && items[i].iov_len &&
		    (!r || r->state != RIPC__REGION_APP || r->pins || r->unread))
			return ripc__fail(-EINVAL,
					  "item %u: the memory at %p is not a buffer of "
					  "ripc_buf_alloc(), or a window or return buffer is in it",
					  i, items[i].iov_base);
		if (r && r->state != RIPC__REGION_USER && !inside)
			return ripc__fail(-EINVAL,
					  "item %u: %zu bytes at %p reach beyond the buffer of %zu "
					  "bytes at %p",
					  i, items[i].iov_len, items[i].iov_base, r->len,
					  (void *)r->base);
	}
	return 0;
}

/* Answers come first, then each in its order. */
static void pending_insert(struct ripc_request *r)
{
	bool answer = r->ext.flags & RIPC__F_REPLY;
	struct ripc_request *next;

	ripc__list_for_each_entry (next, &r->dest->pending, link)
		if ((next->ext.flags ^ r->ext.flags) & RIPC__F_REPLY
			    ? answer
			    : next->start_seq > r->start_seq)
			break;
	ripc__list_add(&next->link, &r->link);
}

/* Return: a request that is not issued yet; NULL: *rc has the reason, explained. */
static struct ripc_request *request_new(struct ripc_service *s, uint64_t dest,
					const struct ripc__prepared *items, uint64_t bytes,
					const struct ripc_send_options *o,
					const struct ripc__request_ext *ext, int *rc)
{
	unsigned nitems = items->nitems;
	struct ripc *ctx = s->ctx;
	struct ripc_request *r;
	struct ripc__dest *d;

	*rc = ripc__service_closing(s);
	if (*rc)
		return NULL;
	r = request_get(ctx, nitems);
	d = r ? ripc__dest_get(ctx, dest) : NULL;
	if (!d) {
		if (r)
			request_put(ctx, r, nitems);
		*rc = ripc__fail(-ENOMEM, "no memory for a request to %s",
				 ripc__service_text(ctx, dest));
		return NULL;
	}
	memset(r, 0, sizeof(*r) + nitems * sizeof(r->items[0]));
	r->ctx = ctx;
	r->service = s;
	r->dest = d;
	r->source = s->id;
	r->dest_id = dest;
	r->bytes = bytes;
	r->refs.deadline_ns = RIPC__NEVER;
	r->nitems = nitems;
	r->copied = items->copied;
	if (o) {
		r->nreturns = o->nreturn_buffers;
		r->free_items = o->flags & RIPC_FREE_ITEMS;
	}
	*rc = init_items(ctx, r->items, items, r->free_items);
	if (!*rc && r->nreturns)
		*rc = ripc__local_returns_add(s, o, ext ? ext->call : 0, r->returns);
	if (*rc) {
		request_put(ctx, r, nitems);
		return NULL;
	}
	if (ext)
		r->ext = *ext;
	return r;
}

int ripc__request_start(struct ripc_service *s, uint64_t dest, const struct ripc__prepared *items,
			uint64_t bytes, const struct ripc_send_options *o,
			const struct ripc__request_ext *ext, struct ripc_request **out)
{
	struct ripc *ctx = s->ctx;
	struct ripc_request *r;
	int rc;

	r = request_new(s, dest, items, bytes, o, ext, &rc);
	if (!r) {
		ripc__prepared_drop(ctx, items);
		return rc;
	}
	*out = r;
	r->start_seq = ctx->requests_started++;
	ripc__list_init(&r->peer_link);
	ripc__waitq_init(&r->waitq);
	ripc__completion_init(&r->completion, RIPC_COMPLETION_REQUEST);
	for (unsigned i = 0; i < r->nitems; i++)
		if (r->items[i].region)
			r->items[i].region->sends++;
	r->dest->users++;
	s->nrequests++;
	ripc__long_inflight_add(ctx, 1);
	ripc__list_add(&ctx->requests, &r->ctx_link);
	if (r->ext.flags & RIPC__F_REPLY)
		pending_insert(r);
	else
		ripc__list_add(&r->dest->pending, &r->link);
	ripc__dest_flush(ctx, r->dest);
	return 0;
}

bool ripc__request_unreadable(const struct ripc_request *r, struct ripc__mappings *maps, char *text,
			      size_t len)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		const struct ripc__request_item *it = &r->items[i];

		/* Memory of the library is always there. */
		if ((it->region && it->region->state != RIPC__REGION_USER) ||
		    ripc__mappings_permit(maps, it->base, it->len, false))
			continue;
		snprintf(text, len, "%s: item %u: %zu bytes at %p cannot be read",
			 ripc__service_text(r->ctx, r->dest_id), i, it->len, (void *)it->base);
		return true;
	}
	return false;
}

uint64_t ripc__requests_sent_from(struct ripc *ctx, const void *p, size_t len)
{
	const uint8_t *begin = p, *end = begin + len;
	const struct ripc_request *r;

	ripc__list_for_each_entry (r, &ctx->requests, ctx_link) {
		for (unsigned i = 0; r->state != RIPC__REQUEST_DONE && i < r->nitems; i++) {
			const struct ripc__request_item *it = &r->items[i];

			if (begin < it->base + it->len && it->base < end)
				return r->dest_id;
		}
	}
	return 0;
}

void ripc__request_settled(struct ripc_request *r)
{
	struct ripc__dest *d = r->dest;

	if (!r->unacked)
		return;
	r->unacked = false;
	/* The timers flush the lane. Not now: the caller may go through a list of requests. */
	if (!--d->long_unacked && d->long_held) {
		d->long_held = false;
		ripc__timer_at(r->ctx, 0);
	}
}

void ripc__request_done(struct ripc_request *r, int status, const char *detail)
{
	struct ripc *ctx = r->ctx;
	struct ripc_service *s = r->service;
	struct ripc__peer *p = r->peer;
	bool withdrawn = p && status && !r->acked && ripc__request_maybe_delivered(r);

	if (r->state == RIPC__REQUEST_DONE)
		return;
	/* A cancellation by the library reports the reason for it. */
	if (r->error && status == -ECANCELED)
		status = r->error;
	else
		r->error = 0;
	for (unsigned i = 0; i < r->nitems && !status && r->hows != MAPPED_ALONE; i++)
		ctx->stats.return_buffer_writes +=
			r->items[i].remote_return && !r->items[i].remote_return->pooled;
	if (r->lane) {
		if (r->state == RIPC__REQUEST_WRITING && r->lane->state == RIPC__LANE_UP)
			r->credit->sent_units -= r->units;
		ripc__request_unselect(r, r->state != RIPC__REQUEST_WRITING);
	}
	if (r->tainted && !ripc__request_unexport(r))
		ripc__log(RIPC_LOG_ERROR,
			  "%s: no memory to detach the items of a message that peer %s "
			  "may read: it will read the bytes that are written there next, too",
			  ripc__service_text(ctx, r->dest_id),
			  p ? ripc__instance_text(p->instance) : "");
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		if (it->copied || (it->region && r->free_items && !status))
			ripc__region_set_state(it->region, RIPC__REGION_FREED);
		if (it->region && !--it->region->sends)
			ripc__region_release(ctx, it->region);
		it->region = NULL;
		it->copied = false;
	}
	if (!status) {
		s->stats.long_sent++;
		s->stats.bytes_sent += r->bytes;
		if (r->peer) {
			r->peer->stats.long_sent++;
			r->peer->stats.bytes_sent += r->bytes;
		}
	} else if (status == -ECANCELED) {
		ctx->stats.cancelled++;
	}
	if (status)
		ripc__local_returns_undo(ctx, r->returns, r->nreturns);
	r->status = status;
	if (!r->error && (r->detail || detail)) {
		free(r->detail);
		r->detail = detail ? strdup(detail) : NULL;
	}
	ripc__request_set_state(r, RIPC__REQUEST_DONE);
	ripc__list_del(&r->link);
	ripc__request_unlink(r);
	if (withdrawn)
		ripc__withdrawn_add(p, r->id);
	if (r->ext.flags & RIPC__F_REPLY)
		ripc__remote_returns_drop_call(r->dest, r->ext.call);
	r->lane = NULL;
	if (r->unacked)
		ripc__request_settled(r);
	r->dest->users--;
	r->dest->used_ns = ctx->now_ns;
	r->dest = NULL;
	r->service = NULL;
	s->nrequests--;
	ripc__long_inflight_add(ctx, -1);
	ripc__wake(ctx, &r->waitq);
	ripc__wake(ctx, &s->drained);
	if (r->published)
		ripc__completion_add(ctx, &r->completion);
	if (r->ext.ended)
		r->ext.ended(r, p);
}

void ripc__request_requeue(struct ripc_request *r)
{
	r->lane = NULL;
	r->writes = 0;
	r->refs.deadline_ns = RIPC__NEVER;
	r->acked = false;
	r->ack_status = 0;
	ripc__request_settled(r);
	ripc__request_set_state(r, RIPC__REQUEST_PENDING);
	ripc__list_del(&r->link);
	pending_insert(r);
}

void ripc__request_free(struct ripc_request *r)
{
	if (r->lane)
		ripc__request_unselect(r, false);
	ripc__list_del(&r->ctx_link);
	ripc__completion_remove(r->ctx, &r->completion);
	free(r->detail);
	request_put(r->ctx, r, r->nitems);
}

/* ---- items that the peer reads in place ---- */

bool ripc__request_unexport(struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__region *region = r->items[i].region;

		if ((r->items[i].ref ||
		     (r->tainted && region && region->sharing == RIPC__REGION_TAINTED &&
		      region->state == RIPC__REGION_APP)) &&
		    ripc__region_unexport(r->ctx, region))
			return false;
	}
	r->tainted = false;
	return true;
}

void ripc__request_refs_timer(struct ripc_request *r)
{
	r->refs.deadline_ns = ripc__now_read(r->ctx) + ripc__export_ref_max_ns(r->bytes);
	ripc__timer_at(r->ctx, r->refs.deadline_ns);
}

void ripc__request_refs_end(struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++)
		ripc__export_ref_end(r->items[i].ref);
}

/*
 * A service receives messages in order, so an exported one may wait behind others. Its time begins
 * when the receiver last released one of those.
 */
static void restart_timers(const struct ripc_request *r)
{
	for (struct ripc__list *n = r->peer_link.next; n != &r->peer->lists->requests;
	     n = n->next) {
		struct ripc_request *q = ripc__list_entry(n, struct ripc_request, peer_link);
		uint64_t end = r->ctx->now_ns + ripc__export_ref_max_ns(q->bytes);

		/* 0: it was unexported together with others. */
		if (q->lane == r->lane && q->credit == r->credit && q->refs.count &&
		    q->refs.deadline_ns && q->refs.deadline_ns < end)
			q->refs.deadline_ns = end;
	}
}

void ripc__request_refs_acked(struct ripc_request *r, bool kept)
{
	if (!kept)
		ripc__request_refs_end(r);
	/* The application does not get the memory back: its receiver may keep it. */
	kept = kept && r->refs.count && !ripc__export_strict(r->ctx);
	for (unsigned i = 0; i < r->nitems && kept; i++)
		if (r->items[i].ref && (r->free_items || r->items[i].copied))
			ripc__export_refs_outlive(r->items[i].region, r->items[i].region, &r->refs);
	if (r->refs.count)
		ripc__request_refs_timer(r);
	else
		restart_timers(r);
}

/*
 * The peer has released the item. lost: another process, to which the peer has forwarded it, may
 * still read it. Return: false: out of memory, the timer tries again.
 */
static bool item_released(struct ripc_request *r, struct ripc__request_item *it, bool lost)
{
	if (lost) {
		ripc__region_taint(it->region);
		if (it->region->state != RIPC__REGION_IMPORTED &&
		    ripc__region_unexport(r->ctx, it->region))
			return false;
	}
	ripc__export_ref_end(it->ref);
	return true;
}

void ripc__request_release_item(struct ripc__lane *lane, uint64_t id, uint64_t item)
{
	struct ripc_request *r = ripc__request_find(lane->peer, id);
	bool lost = item & RIPC__RELEASE_LOST, ack = item & RIPC__RELEASE_ACK;
	bool in_place, released = true, ends;

	item &= ~(RIPC__RELEASE_LOST | RIPC__RELEASE_ACK);
	if (r && (r->lane != lane || item >= r->nitems))
		r = NULL;
	in_place = r && r->items[item].ref;
	if (in_place)
		released = item_released(r, &r->items[item], lost);
	else
		ripc__late_ref_release(lane, id, item, lost);
	if (!r)
		return;
	ends = released && !r->refs.count;
	if (in_place && ends)
		r->credit->export_backoff = 0;
	ack &= !r->acked;
	/* The ACK does so, too, if no other item is in use. */
	if (in_place && released && !(ends && ack))
		restart_timers(r);
	if (ack)
		ripc__request_ack(r, 0, true);
	else if (ends && r->acked && !r->writes)
		ripc__request_conclude(r);
}

void ripc__request_unexport_later(struct ripc_request *r)
{
	r->refs.deadline_ns = r->ctx->now_ns + UNEXPORT_RETRY_NS;
	ripc__timer_at(r->ctx, r->refs.deadline_ns);
}

/* Return: a request whose time is over, or NULL. */
static struct ripc_request *next_due(struct ripc__lane *lane)
{
	struct ripc_request *r;

	lane->ref_round++;
	ripc__list_for_each_entry (r, &lane->peer->lists->requests, peer_link) {
		uint64_t end;
		bool behind;

		if (r->lane != lane)
			continue;
		behind = r->credit && r->credit->unacked_round == lane->ref_round;
		if (!r->acked && r->credit)
			r->credit->unacked_round = lane->ref_round;
		end = r->refs.deadline_ns;
		if (end == RIPC__NEVER || r->writes)
			continue;
		if (!r->acked && lane->ctx->now_ns >= end) {
			/* The ACK waits for RELEASE; it sets the time anew. */
			r->refs.deadline_ns = RIPC__NEVER;
			ripc__lane_notify(lane, RIPC__ACK_REQUEST, 0, 0, r->id, 0);
			continue;
		}
		/* Earlier requests come first. */
		if (end && r->refs.count && behind)
			end = r->refs.deadline_ns =
				lane->ctx->now_ns + ripc__export_ref_max_ns(r->bytes);
		if (lane->ctx->now_ns >= end)
			return r;
		ripc__timer_at(lane->ctx, end);
	}
	return NULL;
}

/* Whether the peer still reads a buffer that the application uses for each message. */
static bool reused_item_is_kept(const struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++)
		if (r->items[i].ref && ripc__export_reused(r->items[i].region))
			return true;
	return false;
}

void ripc__requests_timer(struct ripc__lane *lane)
{
	struct ripc_request *r;

	while (lane->state == RIPC__LANE_UP && (r = next_due(lane))) {
		if (reused_item_is_kept(r))
			ripc__export_back_off(r->ctx, r->credit);
		if (!ripc__request_unexport(r)) {
			/* No error: the copy takes longer. */
			ripc__request_unexport_later(r);
			continue;
		}
		ripc__request_conclude(r);
	}
}
