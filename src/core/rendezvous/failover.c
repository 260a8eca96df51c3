/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/failover.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/memory/buffer.h"
#include "core/rendezvous/request.h"
#include "core/rendezvous/selection.h"

void ripc__requests_bye(struct ripc__lane *lane)
{
	struct ripc_request *r;

	ripc__list_for_each_entry (r, &lane->peer->lists->requests, peer_link) {
		/*
		 * The ACK may be lost with an earlier lane. A request that is not in transfer over
		 * this lane may have been delivered over an earlier one.
		 */
		if (r->lane == lane && r->state != RIPC__REQUEST_WRITING &&
		    r->delivery != RIPC__DELIVERY_EARLIER && !r->acked)
			r->delivery = RIPC__DELIVERY_NONE;
	}
}

static void lane_failed(struct ripc_request *r, struct ripc__mappings *maps)
{
	char text[RIPC__DETAIL_MAX];

	/* The peer may be alive, and its application may still read. */
	if (!ripc__request_unexport(r)) {
		ripc__log(RIPC_LOG_WARN, "no memory to copy items for %s when its lane was lost",
			  ripc__service_text(r->ctx, r->dest_id));
		for (unsigned i = 0; i < r->nitems; i++)
			if (r->items[i].ref)
				ripc__region_taint(r->items[i].region);
		/* The application gets them back when they are detached: not below. */
		r->tainted = true;
	}
	ripc__request_unselect(r, true);
	if (r->cancelling) {
		/*
		 * The peer cannot access the memory any more, but it may have delivered the message
		 * before.
		 */
		bool unknown =
			ripc__request_maybe_delivered(r) && r->state != RIPC__REQUEST_GRANTED;

		ripc__request_done(r, unknown ? -EPIPE : -ECANCELED,
				   unknown ? "the lane was lost before the ACK: delivery is unknown"
					   : "withdrawn when the lane was lost");
		return;
	}
	if (r->acked && !r->ack_status && !r->tainted) {
		ripc__request_done(r, 0, NULL);
		return;
	}
	/* Its memory may be the reason: another lane would fail in the same way. */
	if (ripc__request_unreadable(r, maps, text, sizeof(text))) {
		ripc__request_done(r, -EFAULT, text);
		return;
	}
	ripc__request_requeue(r);
}

/* Flushes requests of this peer whose services have moved: they do not wait for its next lane. */
static void flush_moved_dests(struct ripc *ctx, const struct ripc__peer *p)
{
	struct ripc__dest *d, *tmp;

	HASH_ITER (hh, ctx->dests, d, tmp) {
		struct ripc__list *n = ripc__list_first(&d->pending);

		if (n && d->peer && d->peer != p &&
		    ripc__list_entry(n, struct ripc_request, link)->peer == p)
			ripc__dest_flush(ctx, d);
	}
}

void ripc__requests_lane_failed(struct ripc__lane *lane)
{
	struct ripc__peer *p = lane->peer;
	struct ripc__mappings maps = {0};
	struct ripc__list *n;

	/* From the last to the first: each goes to the head of its destination. */
	for (n = p->lists->requests.prev; n != &p->lists->requests;) {
		struct ripc_request *r = ripc__list_entry(n, struct ripc_request, peer_link);

		n = n->prev;
		if (r->lane == lane)
			lane_failed(r, &maps);
	}
	ripc__mappings_free(&maps);
	if (p->nrequests)
		flush_moved_dests(lane->ctx, p);
}

void ripc__requests_unknown(struct ripc__peer *p, const char *why)
{
	struct ripc_request *r, *tmp;

	/* Also requests of services that have moved or are unknown by now. */
	ripc__list_for_each_entry_safe (r, tmp, &p->lists->requests, peer_link)
		if (ripc__request_maybe_delivered(r) && r->state == RIPC__REQUEST_PENDING)
			ripc__request_done(r, -EPIPE, why);
}
