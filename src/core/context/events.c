/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/context/events.h"
#include "core/group/group.h"
#include "core/message/send.h"
#include "core/message/service.h"
#include "core/peer/eviction.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/delayed_ack.h"

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
	for (struct ripc_service *s = ctx->services; s; s = s->hh.next)
		if (s->state == RIPC__SERVICE_CLAIMING)
			return true;
	if (ripc__groups_claiming(ctx))
		return true;
	for (struct ripc__dest *d = ctx->dests; d; d = d->hh.next)
		if (d->state == RIPC__DEST_RESOLVING)
			return true;
	return false;
}

static void timers(struct ripc *ctx)
{
	ripc__lane_timers(ctx);
	ripc__peer_timers(ctx);
	ripc__groups_timers(ctx);
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
	.idle = ripc__delayed_ack_idle,
	.fast_path_flush = ripc__fast_path_flush,
};
