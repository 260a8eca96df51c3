/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/standing.h"
#include "core/memory/bounce.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

#include <stdlib.h>

#define IDLE_NS     (1000 * RIPC__MS) /* an idle lane keeps its standing buffers for this time */
#define LEN_MIN     (16u << 10)       /* bytes of the smallest buffer */
#define LEN_MAX     (256u << 10)      /* bytes of the largest; a rendezvous costs little above */
#define BUFFERS_MAX 4u                /* buffers for one service that a peer has */
#define ITEMS_MIN   2u                /* medium items before the first grant */
/* Unread bytes at the service above which the sender gets no new buffers and has to wait. */
#define UNREAD_MAX (4u << 20)

/* Whether buffers can be granted over the lane. */
static bool is_possible(const struct ripc__lane *lane)
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

/* A new buffer of len bytes, exposed to the peer. Return: NULL: no memory, or at a bound. */
static struct ripc__local_return *standing_new(struct ripc__flow *flow, size_t len)
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

/* The length of buffers for items of this length on the lane. Return: 0: none. */
static uint32_t standing_len(const struct ripc__lane *lane, uint64_t len)
{
	uint32_t most = lane->ctx->tp[lane->tp].limits.caps & RIPC__CAP_CHEAP_REG
				? LEN_MAX
				: RIPC__BOUNCE_ITEM_MAX;
	uint32_t cap = LEN_MIN;

	if (len > most)
		return 0;
	while (cap < len)
		cap *= 2;
	return cap;
}

static bool too_much_unread(const struct ripc__flow *flow)
{
	const struct ripc_service *s = flow->service;

	return s->queued_bytes + s->queued_long_bytes + s->arriving_bytes +
		       flow->lane->peer->lists->ready_bytes >
	       UNREAD_MAX;
}

bool ripc__standing_stays(const struct ripc__flow *flow)
{
	return flow->service && !too_much_unread(flow);
}

/* Buffers of the present length that the peer has not used. */
static unsigned count_buffers(const struct ripc__flow *flow)
{
	const struct ripc__local_return *r;
	unsigned count = 0;

	ripc__list_for_each_entry (r, &flow->lane->memory->standing, link)
		count += r->flow == flow && r->len == flow->standing_len && !r->revoking;
	return count;
}

static void send_buffers(struct ripc__flow *flow, unsigned n)
{
	struct ripc__local_return *buffers[BUFFERS_MAX];
	uint8_t buf[RIPC__HEADER_LEN + BUFFERS_MAX * RIPC__DESC_LEN], *p = buf + RIPC__HEADER_LEN;
	unsigned got = 0;

	while (got < n && (buffers[got] = standing_new(flow, flow->standing_len))) {
		struct ripc__desc d = ripc__local_return_desc(buffers[got++]);

		p = ripc__desc_put(p, &d);
	}
	if (!got)
		return;
	ripc__header_put(buf, RIPC__STANDING_GRANT, 0, 0, (uint16_t)got, 0, flow->id);
	if (!ripc__lane_control_later(flow->lane, buf, (size_t)(p - buf)))
		while (got)
			ripc__standing_drop(flow->lane->ctx, buffers[--got]);
}

void ripc__standing_replenish(struct ripc__flow *flow, uint64_t len)
{
	struct ripc__lane *lane = flow->lane;
	uint32_t cap = standing_len(lane, len);
	struct ripc__lane_memory *m;
	unsigned most, have;

	if (!cap || !flow->service || !is_possible(lane))
		return;
	m = ripc__lane_memory_get(lane);
	if (!m)
		return;
	m->standing_used_ns = lane->ctx->now_ns;
	if (flow->medium_items < ITEMS_MIN && ++flow->medium_items < ITEMS_MIN)
		return;
	if (cap > flow->standing_len)
		flow->standing_len = cap;
	most = RIPC__STANDING_LANE_MAX / flow->standing_len;
	if (most > BUFFERS_MAX)
		most = BUFFERS_MAX;
	have = count_buffers(flow);
	if (have > most / 2 || too_much_unread(flow))
		return;
	send_buffers(flow, most - have);
	ripc__lane_monitor(lane);
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
