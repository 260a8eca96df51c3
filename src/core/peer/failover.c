/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A lane that fails: its work goes to the next lane. Contract in lane.h. */
#include "core/peer/attempt.h"
#include "core/peer/connect.h"
#include "core/peer/lane.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"

#include <stdio.h>

void ripc__lane_fail(struct ripc__lane *lane, int status, const char *text)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;
	enum ripc__lane_state old_state = lane->state;
	bool main_lane = p->lane == lane;
	struct ripc__dest *d, *tmp;
	char copy[256];

	if (old_state == RIPC__LANE_DEAD)
		return;
	/* text may lie in memory that is freed below. */
	snprintf(copy, sizeof(copy), "%s", text && *text ? text : ripc_strerror(status));
	ripc__lane_close(lane);
	if (old_state == RIPC__LANE_CONNECTING) {
		ripc__peer_attempt_failed(ctx, p, lane->tp, status, RIPC__REFUSE_NONE, copy);
		return;
	}
	if (old_state == RIPC__LANE_UP) {
		ctx->stats.lanes_lost++;
		p->stats.lanes_lost++;
		ripc__log(RIPC_LOG_INFO, "lane to peer %s over %s is down: %s",
			  ripc__instance_text(p->instance), ctx->tp[lane->tp].ops->name, copy);
	}
	/* No peer can reach our memory over this lane any more: it can be freed. */
	ctx->peer_ops->lane_failed(lane);
	p->used_ns = ripc__now(ctx);
	if (!main_lane) {
		ripc__pending_conn_resolve(ctx, p, !p->lane);
		if (!p->lane && ripc__peer_has_work(p))
			ripc__peer_connect(ctx, p);
		return;
	}
	if (p->contact == RIPC__CONTACT_PROBING && status == -ETIMEDOUT && !p->pending_conn) {
		/* The attempts beside it go on until then. */
		p->contact =
			p->used_ns < p->unreachable_ns ? RIPC__CONTACT_LOST : RIPC__CONTACT_DEAD;
		ripc__timer_at(ctx, p->used_ns);
	} else {
		p->contact = RIPC__CONTACT_LOST;
		p->unreachable_ns = 0;
		ripc__attempts_clear(p);
	}
	ctx->peer_ops->peer_disconnected(ctx, p);
	if (ripc__pending_conn_resolve(ctx, p, true))
		return;
	/*
	 * With datagrams possibly no sender waits for the lane, but the peer's liveness must be
	 * known.
	 */
	if (ripc__peer_has_work(p) || (ctx->datagrams && old_state == RIPC__LANE_UP))
		ripc__peer_connect(ctx, p);
	ripc__list_for_each_entry_safe (d, tmp, &p->lists->dests, link)
		ripc__dest_wake(ctx, d);
}

void ripc__lane_protocol_error(struct ripc__lane *lane, const char *why)
{
	struct ripc *ctx = lane->ctx;

	ctx->stats.bad_messages++;
	lane->peer->stats.bad_messages++;
	ripc__log(RIPC_LOG_WARN, "peer %s over %s broke the protocol: %s; the lane is closed",
		  ripc__instance_text(lane->peer->instance), ctx->tp[lane->tp].ops->name, why);
	ripc__lane_fail(lane, -EPROTO, why);
}
