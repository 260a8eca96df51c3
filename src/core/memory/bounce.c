/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/bounce.h"
#include "core/memory/buffer.h"
#include "core/peer/lane.h"

#include <stdlib.h>
#include <string.h>

#define BOUNCE_MIN 4096u

static unsigned direction(unsigned access)
{
	return access & RIPC__ACCESS_REMOTE_WRITE ? 1 : 0;
}

static void bounce_dereg(struct ripc__bounce *st)
{
	struct ripc__lane *lane = st->lane;
	struct ripc__tp *tp = &lane->ctx->tp[lane->tp];

	if (tp->t)
		tp->ops->dereg(tp->t, &st->mr);
	lane->memory->bounce_bytes[direction(st->mr.access)] -= st->region->cap;
	lane->ctx->memory->bounce_bytes -= st->region->cap;
	ripc__list_del(&st->link);
	st->lane = NULL;
}

static void bounce_free(struct ripc__bounce *st)
{
	ripc__pool_put(st->region->ctx, st->region);
	free(st);
}

static bool has_room(const struct ripc__lane *lane, size_t cap, unsigned access)
{
	return lane->memory->bounce_bytes[direction(access)] + cap <= RIPC__BOUNCE_LANE_MAX &&
	       lane->ctx->memory->bounce_bytes + cap <= RIPC__BOUNCE_CTX_MAX;
}

static struct ripc__bounce *bounce_new(struct ripc__lane *lane, size_t cap, unsigned access)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__tp *tp = &ctx->tp[lane->tp];
	struct ripc__bounce *st;

	/* Free idle buffers of other sizes first. */
	if (!has_room(lane, cap, access))
		ripc__bounces_trim(lane);
	if (!has_room(lane, cap, access) || !ripc__lane_memory_get(lane))
		return NULL;
	st = calloc(1, sizeof(*st));
	if (!st)
		return NULL;
	st->region = ripc__pool_get(ctx, cap, RIPC__REGION_MESSAGE);
	if (!st->region) {
		free(st);
		return NULL;
	}
	/* The peer must not read data of an earlier owner. */
	memset(st->region->base, 0, st->region->cap);
	if (tp->ops->reg(tp->t, lane->ep, st->region->base, st->region->cap, access, &st->mr)) {
		bounce_free(st);
		return NULL;
	}
	st->lane = lane;
	lane->memory->bounce_bytes[direction(access)] += st->region->cap;
	ctx->memory->bounce_bytes += st->region->cap;
	ripc__list_add(&lane->memory->bounces, &st->link);
	return st;
}

struct ripc__bounce *ripc__bounce_get(struct ripc__lane *lane, size_t len, unsigned access)
{
	struct ripc__bounce *st;
	size_t cap = BOUNCE_MIN;

	if (len > RIPC__BOUNCE_ITEM_MAX ||
	    lane->ctx->tp[lane->tp].limits.caps & RIPC__CAP_CHEAP_REG)
		return NULL;
	while (cap < len)
		cap *= 2;
	ripc__list_for_each_entry (st, &lane->memory->bounces, link)
		if (!st->busy && st->region->cap == cap && st->mr.access == access)
			break;
	if (ripc__list_node(st, link) == &lane->memory->bounces)
		st = bounce_new(lane, cap, access);
	if (st)
		st->busy = true;
	return st;
}

void ripc__bounce_put(struct ripc__bounce *st)
{
	st->busy = false;
	if (!st->lane) {
		bounce_free(st);
		return;
	}
	/* Reuse the most recently used buffer first: it is the most likely to be in the cache. */
	ripc__list_del(&st->link);
	ripc__list_add(st->lane->memory->bounces.next, &st->link);
	/*
	 * Only return buffers use this lane, so nothing else monitors it: its bounce buffers are
	 * freed when it is idle.
	 */
	ripc__lane_monitor(st->lane);
}

void ripc__bounces_trim(struct ripc__lane *lane)
{
	struct ripc__bounce *st, *tmp;

	ripc__list_for_each_entry_safe (st, tmp, &lane->memory->bounces, link) {
		if (st->busy)
			continue;
		bounce_dereg(st);
		bounce_free(st);
	}
}

bool ripc__idle_mrs_release(struct ripc *ctx)
{
	uint64_t before = ctx->memory->bounce_bytes + ctx->memory->cached_bytes;
	struct ripc__lane *lane;
	bool any;

	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		ripc__bounces_trim(lane);
	ripc__pool_trim(ctx, 0);
	any = ctx->memory->bounce_bytes + ctx->memory->cached_bytes != before;
	return ripc__mr_cache_trim(ctx) || any;
}

int ripc__reg_with_retry(struct ripc__lane *lane, void *base, size_t len, unsigned access,
			 struct ripc__mr *mr)
{
	struct ripc__tp *tp = &lane->ctx->tp[lane->tp];
	int rc = tp->ops->reg(tp->t, lane->ep, base, len, access, mr);

	if (rc && rc != -ENOTCONN && rc != -ENODEV && ripc__idle_mrs_release(lane->ctx))
		rc = tp->ops->reg(tp->t, lane->ep, base, len, access, mr);
	return rc == -ENODEV ? -ENOTCONN : rc;
}

void ripc__bounces_lane_gone(struct ripc__lane *lane)
{
	struct ripc__bounce *st, *tmp;

	ripc__bounces_trim(lane);
	ripc__list_for_each_entry_safe (st, tmp, &lane->memory->bounces, link)
		bounce_dereg(st);
}
