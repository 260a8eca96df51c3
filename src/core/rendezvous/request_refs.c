/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/request_refs.h"
#include "core/memory/detach.h"
#include "core/memory/late_ref.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/sender.h"

bool ripc__request_unexport(struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++)
		if (r->items[i].ref.lane && ripc__region_unexport(r->ctx, r->items[i].region))
			return false;
	return true;
}

void ripc__request_refs_begin(struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		if (it->how != RIPC__HOW_MAPPED)
			continue;
		it->ref.request = r->id;
		it->ref.item = i;
		it->ref.len = it->len;
		ripc__export_ref_begin(&it->ref, &r->refs, r->lane, it->region);
	}
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
	for (unsigned i = 0; i < r->nitems && !kept; i++)
		ripc__export_ref_end(&r->items[i].ref);
	/* The application does not get the memory back: its receiver may keep it. */
	for (unsigned i = 0; i < r->nitems && r->free_items && kept; i++)
		if (r->items[i].ref.lane)
			ripc__refs_outlive_request(r->items[i].region, &r->refs);
	if (r->refs.count) {
		r->refs.deadline_ns = r->ctx->now_ns + ripc__export_ref_max_ns(r->bytes);
		ripc__timer_at(r->ctx, r->refs.deadline_ns);
	} else {
		restart_timers(r);
	}
}

void ripc__request_release_item(struct ripc__lane *lane, uint64_t id, uint64_t item)
{
	struct ripc_request *r = ripc__request_find(lane->peer, id);
	bool lost = item & RIPC__RELEASE_LOST;

	item &= ~RIPC__RELEASE_LOST;
	if (!r || r->lane != lane || item >= r->nitems || !r->items[item].ref.lane) {
		ripc__late_ref_release(lane, id, item, lost);
		return;
	}
	if (lost) {
		r->items[item].region->tainted = true;
		/* Without memory, the timer tries again. */
		if (r->items[item].region->state != RIPC__REGION_IMPORTED &&
		    ripc__region_unexport(r->ctx, r->items[item].region))
			return;
	}
	ripc__export_ref_end(&r->items[item].ref);
	restart_timers(r);
	if (!r->acked || r->refs.count || r->writes)
		return;
	r->credit->export_backoff = 0;
	ripc__request_conclude(r);
}

/* Return: a request whose time is over, or NULL. */
static struct ripc_request *next_due(struct ripc__lane *lane)
{
	struct ripc__list *n;

	lane->ref_round++;
	ripc__list_for_each (n, &lane->peer->lists->requests) {
		struct ripc_request *r = ripc__list_entry(n, struct ripc_request, peer_link);
		uint64_t end;

		if (r->lane != lane)
			continue;
		if (!r->acked && r->credit)
			r->credit->unacked_round = lane->ref_round;
		if (!r->acked || r->writes || r->refs.deadline_ns == RIPC__NEVER)
			continue;
		end = r->refs.deadline_ns;
		/* Earlier requests come first. */
		if (end && r->refs.count && r->credit->unacked_round == lane->ref_round)
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
		if (r->items[i].ref.lane && ripc__export_reused(r->items[i].region))
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
			r->refs.deadline_ns = lane->ctx->now_ns + 10 * RIPC__MS;
			continue;
		}
		ripc__request_conclude(r);
	}
}
