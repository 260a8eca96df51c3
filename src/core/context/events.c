/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/context/events.h"
#include "core/group/group.h"
#include "core/memory/bounce.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/memory/standing.h"
#include "core/memory/message.h"
#include "core/call/call.h"
#include "core/message/dispatch.h"
#include "core/message/service.h"
#include "core/watch/watch.h"
#include "core/peer/eviction.h"
#include "core/peer/lane.h"
#include "core/peer/lane_progress.h"
#include "core/peer/peer.h"
#include "core/rendezvous/arriving.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/rendezvous/failover.h"
#include "core/rendezvous/receiver.h"
#include "core/rendezvous/request.h"
#include "core/rendezvous/sender.h"
#include "core/rendezvous/withdrawn.h"
#include "core/reliable/message.h"
#include "core/reliable/reliable.h"

static void resolver_event(struct ripc *ctx, const struct ripc__resolver_event *ev)
{
	switch (ev->kind) {
	case RIPC__RESOLVED:
		ripc__dest_resolved(ctx, &ev->record);
		break;
	case RIPC__UNRESOLVED:
		ripc__dest_unresolved(ctx, ev->service, ev->text);
		break;
	case RIPC__REGISTERED:
		ripc__service_registered(ctx, ev->service);
		break;
	case RIPC__CONFLICT:
		ripc__service_conflict(ctx, ev->service, ev->moved, ev->text);
		break;
	case RIPC__RIVAL:
		ripc__service_split(ctx, ev->service, ev->text);
		break;
	case RIPC__GONE:
		ripc__dest_withdrawn(ctx, ev->service, ev->record.instance);
		break;
	}
}

static bool resolver_awaited(struct ripc *ctx)
{
	return ctx->nawaited || ripc__groups_claiming(ctx);
}

static void timers(struct ripc *ctx)
{
	ripc__lane_timers(ctx);
	ripc__peer_timers(ctx);
	ripc__groups_timers(ctx);
	ripc__reliable_timers(ctx);
	ripc__calls_timers(ctx);
}

static void evict(struct ripc *ctx)
{
	ripc__evict_lanes(ctx, ctx->evict_cause == -EMFILE || ctx->evict_cause == -ENFILE);
	ctx->evict_cause = 0;
}

const struct ripc__progress_ops ripc__progress_ops = {
	.transport_event = ripc__lane_event,
	.resolver_event = resolver_event,
	.resolver_awaited = resolver_awaited,
	.timers = timers,
	.evict = evict,
	.free_dead_lanes = ripc__dead_lanes_free,
	.pass_end = ripc__delayed_ack_timer,
	.before_copy = ripc__delayed_ack_before_copy,
	.idle = ripc__delayed_ack_idle,
};

/* ---- peers and lanes ---- */

static void imported(struct ripc__lane *lane, const struct ripc__event *ev)
{
	ripc__import_add(lane, (void *)(uintptr_t)ev->data, ev->size, ev->status, ev->wr_id);
}

static bool sendable(struct ripc__lane *lane)
{
	ripc__rndvs_post(lane);
	ripc__reliable_flush(lane);
	return ripc__requests_continue(lane);
}

static int send_pending(struct ripc__dest *d)
{
	return ripc__request_issue(ripc__list_entry(d->pending.next, struct ripc_request, link));
}

static void before_control(struct ripc__lane *lane)
{
	if (lane->ctx->delayed_ack.lane == lane)
		ripc__delayed_ack_flush(lane->ctx);
	if (lane->peer->reliable && lane->peer->lane == lane)
		ripc__reliable_send_ack(lane->peer, false);
}

static void dedup_lost(struct ripc *ctx, struct ripc__peer *p)
{
	ripc__requests_unknown(p, "the lane was lost before the ACK, and the peer has lost its "
				  "record of messages: delivery is unknown");
	ripc__reliable_unknown(ctx, p,
			       "the lane was lost and the peer has lost its record of messages");
	ripc__calls_peer_lost(ctx, p, "the peer has lost its record of the request");
	ripc__watch_peer_gave_up(p, "the peer could not reach this context, and gave it up");
	/* Its own messages that were cut short, too, probably: it does not repeat them. */
	if (ripc__rndv_peer_gone(p)) {
		ripc__peer_new_epoch(ctx, p);
		p->lane->epoch_is_old = true;
	}
}

static bool lane_awaits_answer(const struct ripc__lane *lane)
{
	return ripc__local_returns_on_lane(lane, true) || ripc__standing_revoking(lane);
}

static void lane_timer(struct ripc__lane *lane)
{
	ripc__requests_timer(lane);
	ripc__rndvs_timer(lane);
}

static bool lane_in_use(const struct ripc__lane *lane)
{
	return lane->nwatched || ripc__groups_include(lane->ctx, lane->peer) ||
	       ripc__local_returns_on_lane(lane, false);
}

static void lane_idle(struct ripc__lane *lane)
{
	ripc__standing_lane_idle(lane);
	ripc__bounces_trim(lane);
}

static void lane_closed(struct ripc__lane *lane)
{
	ripc__delayed_ack_lane_closed(lane);
	ripc__bounces_lane_gone(lane);
	ripc__standing_lane_gone(lane);
	ripc__exports_lane_gone(lane);
	ripc__imports_lane_gone(lane);
	ripc__messages_lane_closed(lane);
	ripc__rndvs_lane_closed(lane);
	ripc__local_returns_lane_gone(lane->ctx, lane);
}

static void lane_failed(struct ripc__lane *lane)
{
	ripc__rndv_lane_gone(lane);
	ripc__requests_lane_failed(lane);
	ripc__reliable_lane_failed(lane);
}

static void lane_up(struct ripc__lane *lane)
{
	/* The timers close it, and the next one carries the epoch. */
	if (lane->epoch_is_old) {
		ripc__lane_set_sending(lane, RIPC__SENDING_BROKEN);
		ripc__timer_at(lane->ctx, 0);
		return;
	}
	ripc__withdrawn_lane_up(lane);
	ripc__reliable_flush(lane);
	ripc__watch_lane_up(lane);
}

static void peer_unreachable(struct ripc *ctx, struct ripc__peer *p, const char *text)
{
	bool overtaken = ripc__rndv_peer_gone(p);

	ripc__local_returns_peer_gone(ctx, p);
	ripc__requests_unknown(p, text);
	/*
	 * Its calls here are dropped: if it comes back it has to know. It must not repeat messages
	 * that later ones have overtaken. Services that watch it get its end reported: so must
	 * services of it that watch this context.
	 */
	if (overtaken || p->reliable_unacked || !ripc__list_empty(&p->lists->served) ||
	    p->answers || !ripc__list_empty(&p->lists->watches))
		ripc__peer_new_epoch(ctx, p);
	ripc__reliable_unknown(ctx, p, text);
	ripc__calls_peer_lost(ctx, p, text);
	ripc__served_peer_lost(p);
	ripc__watch_peer_lost(ctx, p, text);
}

static void peer_idle(struct ripc__peer *p)
{
	ripc__withdrawn_free(p);
	ripc__reliable_peer_idle(p);
}

static void peer_forgotten(struct ripc *ctx, struct ripc__peer *p)
{
	ripc__local_returns_peer_gone(ctx, p);
	ripc__withdrawn_free(p);
	ripc__reliable_peer_forgotten(ctx, p);
	ripc__served_peer_lost(p);
}

const struct ripc__peer_ops ripc__peer_ops = {
	.message = ripc__dispatch_message,
	.datagram = ripc__dispatch_datagram,
	.call_arrived = ripc__call_arrived,
	.answer_awaited = ripc__call_answer_awaited,
	.write_done = ripc__request_write_done,
	.read_done = ripc__rndv_read_done,
	.imported = imported,
	.sendable = sendable,
	.send_pending = send_pending,
	.flush_reliable = ripc__reliable_flush_pending,
	.flush_watches = ripc__watch_flush,
	.not_found = ripc__watch_not_found,
	.resolve_watched = ripc__watches_resolve,
	.before_control = before_control,
	.lane_timer = lane_timer,
	.lane_idle = lane_idle,
	.lane_awaits_answer = lane_awaits_answer,
	.lane_in_use = lane_in_use,
	.lane_closed = lane_closed,
	.lane_failed = lane_failed,
	.lane_replaced = ripc__groups_lane_replaced,
	.lane_up = lane_up,
	.peer_disconnected = ripc__groups_lane_gone,
	.dedup_lost = dedup_lost,
	.peer_unreachable = peer_unreachable,
	.peer_idle = peer_idle,
	.all_idle = ripc__reliable_memory_free,
	.peer_forgotten = peer_forgotten,
};

const struct ripc__memory_ops ripc__memory_ops = {
	.request_dropped = ripc__request_dropped,
	.call_buffer_free = ripc__calls_check,
	.sent_from = ripc__requests_sent_from,
};
