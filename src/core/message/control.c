/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/message/control.h"
#include "core/call/call.h"
#include "core/group/group.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/memory/remote_returns.h"
#include "core/peer/connect.h"
#include "core/peer/datagram_context.h"
#include "core/peer/eviction.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/lane_progress.h"
#include "core/peer/peer.h"
#include "core/reliable/reliable.h"
#include "core/rendezvous/ack.h"
#include "core/rendezvous/delivery.h"
#include "core/rendezvous/failover.h"
#include "core/rendezvous/receiver.h"
#include "core/rendezvous/request.h"
#include "core/rendezvous/sender.h"
#include "core/service/service.h"
#include "core/watch/watch.h"

/* There is more credit for a service. */
static void continue_sending(struct ripc__lane *lane, struct ripc__dest *d)
{
	if (!d)
		return;
	ripc__dest_flush(lane->ctx, d);
	ripc__reliable_flush(lane);
	ripc__dest_wake(lane->ctx, d);
}

static void receive_credit(struct ripc__lane *lane, const struct ripc__header *h)
{
	struct ripc__credit *c = ripc__credit_find(lane, h->source);

	if (!c || h->u[0] <= c->limit_units)
		return;
	c->limit_units = h->u[0];
	continue_sending(lane, ripc__dest_at(lane->ctx, h->source, lane->peer));
}

static void receive_flow_end(struct ripc__lane *lane, const struct ripc__header *h)
{
	struct ripc__dest *d;

	if (!ripc__flow_ended(lane, h->source, h->u[0])) {
		ripc__lane_protocol_error(lane, "FLOW_END counts more units than were sent");
		return;
	}
	d = ripc__dest_at(lane->ctx, h->source, lane->peer);
	if (d)
		d->wanted_limit_units = 0;
	continue_sending(lane, d);
}

/*
 * A connection request that was to replace this lane has crossed with it, if the lane carries
 * messages in both directions.
 */
static void receive_pong(struct ripc__lane *lane, uint64_t pinged_ns)
{
	const struct ripc__pending_conn *pending_conn = lane->peer->pending_conn;

	if (!pinged_ns && lane->barriers)
		lane->barriers--;
	if (pending_conn && lane->peer->lane == lane && pinged_ns >= pending_conn->since_ns)
		ripc__pending_conn_resolve(lane->ctx, lane->peer, false);
}

static void receive_revoked(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__local_return *r = ripc__local_return_find(lane->ctx, id);

	if (r && ripc__lane_same(r->lane, lane) && r->revoking)
		ripc__local_return_revoked(lane->ctx, r);
}

/* The owner revokes buffers that are not stored here when the lane is idle. */
static void receive_standing(struct ripc__lane *lane, const struct ripc__header *h)
{
	struct ripc__dest *d = ripc__dest_at(lane->ctx, h->source, lane->peer);
	struct ripc__desc desc;

	if (!d || lane->peer->lane != lane)
		return;
	for (unsigned i = 0; i < h->nreturns; i++) {
		ripc__desc_get(&desc, h->returns, i);
		ripc__remote_return_add(d, &desc, 0, true);
	}
}

static void receive_context(struct ripc__lane *lane, const struct ripc__header *h)
{
	const struct ripc__header_context services = {h->dest, h->source};

	if (!h->dest || !h->source || !ripc__datagram_id_valid(h->u[0]))
		ripc__lane_protocol_error(lane, "header context with an invalid id or service");
	else if (ripc__peer_datagrams(lane->ctx, lane->peer) &&
		 ripc__datagram_context_received(lane, h->u[0], &services, h->u[1]))
		ripc__lane_notify(lane, RIPC__DATAGRAM_CONTEXT_ACK, 0, 0, h->u[0], 0);
}

/* The receivers of the messages that have one word and need nothing else of their header. */
static void (*const word_receivers[RIPC__KIND_END])(struct ripc__lane *lane, uint64_t word) = {
	[RIPC__MAP_ACK] = ripc__export_acked,
	[RIPC__UNMAP] = ripc__import_unmap,
	[RIPC__FIN] = ripc__rndv_fin,
	[RIPC__CANCEL] = ripc__rndv_cancel,
	[RIPC__ACK_REQUEST] = ripc__rndv_ack_request,
	[RIPC__PING] = ripc__lane_pong,
	[RIPC__PONG] = receive_pong,
	[RIPC__REVOKED] = receive_revoked,
	[RIPC__DATAGRAM_CONTEXT_ACK] = ripc__datagram_context_acked,
	[RIPC__RELIABLE_ACK] = ripc__reliable_acked,
	[RIPC__RELIABLE_REFUSED] = ripc__reliable_refused,
	[RIPC__CALL_CANCEL] = ripc__request_cancelled,
};

void ripc__control_receive(struct ripc__lane *lane, const struct ripc__header *h)
{
	const char *why = NULL;

	if (word_receivers[h->kind]) {
		word_receivers[h->kind](lane, h->u[0]);
		return;
	}
	switch (h->kind) {
	case RIPC__ACK:
		ripc__request_acked(lane, h->u[0], (int)(int32_t)(uint32_t)h->u[1],
				    h->u[1] >> 32 & RIPC__ACK_KEPT);
		break;
	case RIPC__RELEASE:
		ripc__request_release_item(lane, h->u[0], h->u[1]);
		break;
	case RIPC__GRANT:
		if (ripc__request_grant(lane, h, &why))
			ripc__lane_protocol_error(lane, why);
		break;
	case RIPC__CREDIT:
		receive_credit(lane, h);
		break;
	case RIPC__FLOW_END:
		receive_flow_end(lane, h);
		break;
	case RIPC__REVOKE:
		ripc__remote_return_revoke(lane, ripc__dest_at(lane->ctx, h->source, lane->peer),
					   h->u[0]);
		break;
	case RIPC__STANDING_GRANT:
		receive_standing(lane, h);
		break;
	case RIPC__DATAGRAM_CONTEXT:
		receive_context(lane, h);
		break;
	case RIPC__NOSERVICE:
		ripc__dest_refused(lane->ctx, h->source, lane->peer);
		break;
	case RIPC__GROUP:
		ripc__group_receive(lane->ctx, lane->tp, lane, h);
		break;
	case RIPC__MCAST_ACK:
		ripc__mcast_acked(lane, h);
		break;
	case RIPC__JOIN:
	case RIPC__MEMBER:
	case RIPC__COORDINATOR:
		if (ripc__group_control(lane, h, &why))
			ripc__lane_protocol_error(lane, why);
		break;
	case RIPC__GOAWAY:
		ripc__lane_goaway(lane, h->u[0]);
		break;
	case RIPC__RELIABLE_BEGIN:
		if (ripc__reliable_begin(lane, h->dest, h->u[0]))
			ripc__lane_fail(lane, -ENOMEM, "no memory for reliable messages");
		break;
	case RIPC__CALL_STATE:
		ripc__call_state_received(lane, h->u[0], h->u[1]);
		break;
	case RIPC__WATCH:
		ripc__watch_received(lane, h->dest);
		break;
	case RIPC__WATCH_END:
		ripc__watch_ended(lane, h->source);
		break;
	case RIPC__BYE:
		ripc__requests_bye(lane);
		ripc__reliable_bye(lane);
		ripc__lane_fail(lane, -ECONNRESET, "the peer closed its context");
		break;
	default:
		break;
	}
}
