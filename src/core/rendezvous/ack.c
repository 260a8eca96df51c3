/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/ack.h"
#include "core/memory/remote_returns.h"
#include "core/peer/lane.h"
#include "core/peer/lane_progress.h"
#include "core/peer/peer.h"
#include "core/rendezvous/selection.h"

#include <stdio.h>

static int ack_status_of(int status)
{
	switch (status) {
	case 0:
	case -ECANCELED:
	case -ENOBUFS:
	case -EHOSTUNREACH:
		return status;
	default:
		/* Other values from the network mean a failure without a known reason. */
		return -EIO;
	}
}

/* Ends a request whose ACK has a status. lane: its lane. */
static void __attribute__((noinline))
conclude_failed(struct ripc_request *r, struct ripc__lane *lane)
{
	char text[160];

	if (r->ack_status == -EHOSTUNREACH && !r->cancelling) {
		/*
		 * The service is not at this peer any more: the message is sent to its new
		 * location.
		 */
		ripc__request_unselect(r, true);
		r->delivery = RIPC__DELIVERY_NONE;
		ripc__request_unlink(r);
		ripc__request_requeue(r);
		if (r->dest->peer == lane->peer)
			ripc__dest_refused(r->ctx, r->dest_id, lane->peer);
		else
			ripc__dest_flush(r->ctx, r->dest);
	} else {
		int status = r->ack_status == -EHOSTUNREACH ? -ECANCELED : r->ack_status;

		snprintf(text, sizeof(text), "%s at peer %s: the message was %s",
			 ripc__service_text(r->ctx, r->dest_id),
			 ripc__instance_text(lane->peer->instance),
			 status == -ECANCELED ? "withdrawn"
			 : status == -ENOBUFS ? "refused: no memory for it there"
					      : "not received: the receiver could not fetch it");
		ripc__request_done(r, status, text);
	}
}

void ripc__request_conclude(struct ripc_request *r)
{
	struct ripc__lane *lane = r->lane;

	if (r->tainted && !ripc__request_unexport(r)) {
		ripc__request_unexport_later(r);
		return;
	}
	if (r->ack_status)
		conclude_failed(r, lane);
	else
		ripc__request_done(r, 0, NULL);
	if (lane->sending == RIPC__SENDING_STARVED)
		ripc__lane_flush(lane);
}

void ripc__request_conclude_if_idle(struct ripc_request *r)
{
	if (r->writes)
		return;
	if (r->refs.count && r->cancelling)
		ripc__request_unexport(r);
	if (!r->refs.count)
		ripc__request_conclude(r);
}

/* The standing buffers that it was written into may be used again. */
static void release_standing(struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		if (!it->remote_return || !it->remote_return->pooled)
			continue;
		ripc__remote_return_release(r->lane, r->dest, it->remote_return, false);
		it->remote_return = NULL;
	}
}

static bool awaits_ack(const struct ripc_request *r)
{
	return !r->acked && (r->state == RIPC__REQUEST_SENT || r->state == RIPC__REQUEST_GRANTED);
}

void ripc__request_ack(struct ripc_request *r, int status, bool kept)
{
	if (!awaits_ack(r))
		return;
	r->acked = true;
	r->ack_status = ack_status_of(status);
	if (!r->ack_status)
		ripc__request_settled(r);
	/* Later requests wait for this one, even if the peer is back: its writes may go on. */
	if (r->unacked && r->ack_status == -EHOSTUNREACH)
		r->dest->long_peer = NULL;
	ripc__request_refs_acked(r, kept && !r->ack_status);
	ripc__request_conclude_if_idle(r);
}

void ripc__request_acked(struct ripc__lane *lane, uint64_t word, int status, bool kept)
{
	struct ripc_request *r = ripc__request_find(lane->peer, word & ~RIPC__ACK_REUSABLE);

	if (!r || r->lane != lane)
		return;
	if (word & RIPC__ACK_REUSABLE && awaits_ack(r))
		release_standing(r);
	ripc__request_ack(r, status, kept);
}
