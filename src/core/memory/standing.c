/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/standing.h"
#include "core/memory/bounce.h"
#include "core/peer/lane.h"

#include <stdlib.h>

#define IDLE_NS (1000 * RIPC__MS) /* an idle lane keeps its standing buffers for this time */

bool ripc__standing_possible(const struct ripc__lane *lane)
{
	const struct ripc__tp *tp = &lane->ctx->tp[lane->tp];

	return lane->state == RIPC__LANE_UP && lane->caps & RIPC__CAP_WRITE &&
	       lane->caps & RIPC__CAP_STANDING &&
	       !(tp->limits.caps & (RIPC__CAP_SAME_HOST | RIPC__CAP_SELF)) &&
	       (!(tp->limits.caps & RIPC__CAP_CHEAP_REG) || tp->limits.caps & RIPC__CAP_WRITTEN);
}

/* Gives it memory that the peer can write. Return: false: none. */
static bool expose(struct ripc__lane *lane, struct ripc__local_return *r)
{
	struct ripc *ctx = lane->ctx;

	if (!(ctx->tp[lane->tp].limits.caps & RIPC__CAP_CHEAP_REG)) {
		r->bounce = ripc__bounce_get(lane, r->len, RIPC__ACCESS_REMOTE_WRITE);
		return r->bounce;
	}
	r->region = ripc__pool_get(ctx, r->len, RIPC__REGION_MESSAGE);
	if (!r->region)
		return false;
	r->base = r->region->base;
	if (!ripc__reg_with_retry(lane, r->base, r->len,
				  RIPC__ACCESS_REMOTE_WRITE | RIPC__ACCESS_RESIDENT, &r->mr))
		return true;
	ripc__pool_put(ctx, r->region);
	return false;
}

struct ripc__local_return *ripc__standing_new(struct ripc__flow *flow, size_t len)
{
	struct ripc__lane *lane = flow->lane;
	struct ripc *ctx = lane->ctx;
	struct ripc__local_return *r;

	if (lane->memory->standing_bytes + len > RIPC__STANDING_LANE_MAX ||
	    ctx->memory->standing_bytes + len > RIPC__STANDING_CTX_MAX ||
	    !ripc__lane_memory_get(lane))
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->len = len;
	r->flow = flow;
	if (ripc__local_return_index(ctx, r)) {
		free(r);
		return NULL;
	}
	if (!expose(lane, r)) {
		ripc__local_return_unindex(ctx, r);
		free(r);
		return NULL;
	}
	r->lane = lane;
	r->peer = lane->peer;
	ripc__list_add(&lane->memory->standing, &r->link);
	flow->nstanding++;
	lane->memory->standing_bytes += len;
	ctx->memory->standing_bytes += len;
	return r;
}

struct ripc__local_return *ripc__standing_find(const struct ripc__lane *lane, uint32_t low)
{
	struct ripc__local_return *r;

	ripc__list_for_each_entry (r, &lane->memory->standing, link)
		if ((r->id & RIPC__IMM_BUFFER_MASK) == low)
			return r;
	return NULL;
}

bool ripc__standing_written(struct ripc *ctx, const struct ripc__local_return *r, size_t len)
{
	const struct ripc__tp *tp = &ctx->tp[r->lane->tp];

	return r->bounce || tp->ops->written(tp->t, &r->mr) >= len;
}

struct ripc__region *ripc__standing_take(struct ripc *ctx, struct ripc__local_return *r)
{
	struct ripc__region *region = r->region;

	r->flow->nstanding--;
	r->flow->lane->memory->standing_bytes -= r->len;
	ctx->memory->standing_bytes -= r->len;
	ripc__local_return_unexpose(ctx, r);
	ripc__local_return_unindex(ctx, r);
	ripc__list_del(&r->link);
	free(r);
	return region;
}

void ripc__standing_drop(struct ripc *ctx, struct ripc__local_return *r)
{
	struct ripc__region *region = ripc__standing_take(ctx, r);

	if (region)
		ripc__pool_put(ctx, region);
}

void ripc__standing_lane_idle(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__local_return *r, *tmp;

	if (ripc__list_empty(&lane->memory->standing))
		return;
	if (ctx->now_ns < lane->memory->standing_used_ns + IDLE_NS) {
		ripc__timer_at(ctx, lane->memory->standing_used_ns + IDLE_NS);
		return;
	}
	ripc__list_for_each_entry_safe (r, tmp, &lane->memory->standing, link) {
		r->flow->medium_items = 0;
		r->flow->standing_len = 0;
		if (!r->revoking)
			ripc__lane_notify(lane, RIPC__REVOKE, 0, r->flow->id, r->id, 0);
		r->revoking = true;
	}
	ripc__lane_monitor(lane);
}

bool ripc__standing_revoking(const struct ripc__lane *lane)
{
	const struct ripc__local_return *r;

	ripc__list_for_each_entry (r, &lane->memory->standing, link)
		if (r->revoking)
			return true;
	return false;
}

void ripc__standing_lane_gone(struct ripc__lane *lane)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&lane->memory->standing)))
		ripc__standing_drop(lane->ctx,
				    ripc__list_entry(n, struct ripc__local_return, link));
}
