/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/replenish.h"
#include "core/memory/bounce.h"
#include "core/memory/standing.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

#define LEN_MIN     (16u << 10)  /* bytes of the smallest buffer */
#define LEN_MAX     (256u << 10) /* bytes of the largest; a rendezvous costs little above */
#define BUFFERS_MAX 4u           /* buffers for one service that a peer has */
#define ITEMS_MIN   2u           /* medium items before the first grant */
/* Unread bytes at the service above which the sender gets no new buffers and has to wait. */
#define UNREAD_MAX (4u << 20)

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

	while (got < n && (buffers[got] = ripc__standing_new(flow, flow->standing_len))) {
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

	if (!cap || !flow->service || !ripc__standing_possible(lane))
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
