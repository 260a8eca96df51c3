/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/bounce.h"
#include "core/peer/lane.h"

#include <stdlib.h>
#include <string.h>

#define STAGE_MIN 4096u

static unsigned way(unsigned access)
{
	return access & RIPC__ACCESS_REMOTE_WRITE ? 1 : 0;
}

static void unregister(struct ripc__stage *st)
{
	struct ripc__lane *lane = st->lane;
	struct ripc__tp *tp = &st->ctx->tp[lane->tp];

	if (tp->t)
		tp->ops->dereg(tp->t, &st->mr);
	lane->staged_bytes[way(st->mr.access)] -= st->region->cap;
	st->ctx->memory.staged_bytes -= st->region->cap;
	ripc__list_del(&st->link);
	st->lane = NULL;
}

static void stage_free(struct ripc__stage *st)
{
	ripc__pool_put(st->ctx, st->region);
	free(st);
}

static bool room(const struct ripc__lane *lane, size_t cap, unsigned access)
{
	return lane->staged_bytes[way(access)] + cap <= RIPC__STAGE_LANE_MAX &&
	       lane->ctx->memory.staged_bytes + cap <= RIPC__STAGE_ALL_MAX;
}

static struct ripc__stage *stage_new(struct ripc__lane *lane, size_t cap, unsigned access)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__tp *tp = &ctx->tp[lane->tp];
	struct ripc__stage *st;

	/* Idle ones of other sizes do not stand in the way. */
	if (!room(lane, cap, access))
		ripc__stages_trim(lane);
	if (!room(lane, cap, access))
		return NULL;
	st = calloc(1, sizeof(*st));
	if (!st)
		return NULL;
	st->ctx = ctx;
	st->region = ripc__pool_get(ctx, cap, RIPC__REGION_MESSAGE);
	if (!st->region) {
		free(st);
		return NULL;
	}
	/* The peer must not see what an earlier owner left. */
	memset(st->region->base, 0, st->region->cap);
	if (tp->ops->reg(tp->t, lane->ep, st->region->base, st->region->cap, access, &st->mr)) {
		stage_free(st);
		return NULL;
	}
	st->lane = lane;
	lane->staged_bytes[way(access)] += st->region->cap;
	ctx->memory.staged_bytes += st->region->cap;
	ripc__list_add(&lane->stages, &st->link);
	return st;
}

struct ripc__stage *ripc__stage_get(struct ripc__lane *lane, size_t len, unsigned access)
{
	struct ripc__stage *st = NULL;
	struct ripc__list *n;
	size_t cap = STAGE_MIN;

	if (len > RIPC__STAGE_ITEM_MAX || lane->ctx->tp[lane->tp].limits.caps & RIPC__CAP_CHEAP_REG)
		return NULL;
	while (cap < len)
		cap *= 2;
	ripc__list_for_each (n, &lane->stages) {
		st = ripc__list_entry(n, struct ripc__stage, link);
		if (!st->busy && st->region->cap == cap && st->mr.access == access)
			break;
		st = NULL;
	}
	if (!st)
		st = stage_new(lane, cap, access);
	if (st)
		st->busy = true;
	return st;
}

void ripc__stage_put(struct ripc__stage *st)
{
	st->busy = false;
	if (!st->lane) {
		stage_free(st);
		return;
	}
	/* The most recently used one is the warmest: it goes first. */
	ripc__list_del(&st->link);
	ripc__list_add(st->lane->stages.next, &st->link);
	/* A lane that carries nothing but return buffers is looked at by nobody else: its stages go when it stays idle. */
	ripc__lane_watch(st->lane);
}

void ripc__stages_trim(struct ripc__lane *lane)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &lane->stages) {
		struct ripc__stage *st = ripc__list_entry(n, struct ripc__stage, link);

		if (st->busy)
			continue;
		unregister(st);
		stage_free(st);
	}
}

bool ripc__stages_relieve(struct ripc *ctx)
{
	uint64_t before = ctx->memory.staged_bytes + ctx->memory.cached_bytes;
	struct ripc__list *n;
	bool any;

	ripc__list_for_each (n, &ctx->lanes)
		ripc__stages_trim(ripc__list_entry(n, struct ripc__lane, link));
	ripc__pool_trim(ctx, 0);
	any = ctx->memory.staged_bytes + ctx->memory.cached_bytes != before;
	return ripc__locals_trim(ctx) || any;
}

int ripc__stages_reg(struct ripc__lane *lane, void *base, size_t len, unsigned access,
		     struct ripc__mr *mr)
{
	struct ripc__tp *tp = &lane->ctx->tp[lane->tp];
	int rc = tp->ops->reg(tp->t, lane->ep, base, len, access, mr);

	if (rc && rc != -ENOTCONN && ripc__stages_relieve(lane->ctx))
		rc = tp->ops->reg(tp->t, lane->ep, base, len, access, mr);
	return rc;
}

void ripc__stages_lane_gone(struct ripc__lane *lane)
{
	struct ripc__list *n, *tmp;

	ripc__stages_trim(lane);
	ripc__list_for_each_safe (n, tmp, &lane->stages)
		unregister(ripc__list_entry(n, struct ripc__stage, link));
}
