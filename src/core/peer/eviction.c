/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/eviction.h"

#include "base/admission.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/lane_post.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"

#include <stdlib.h>
#include <sys/resource.h>

#define PENDING_MAX 1024 /* unconfirmed incoming set-ups */

enum { RANK_UNUSED, RANK_USED, RANK_BUSY };

bool ripc__lane_retiring(struct ripc *ctx, const struct ripc__peer *p)
{
	struct ripc__lane *lane;

	if (!p->nlanes)
		return false;
	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		if (lane->peer == p && lane->state == RIPC__LANE_RETIRING)
			return true;
	return false;
}

/* Whether a request, transfer or export depends on the lane. */
static bool lane_in_use(const struct ripc__lane *lane)
{
	const struct ripc__peer *p = lane->peer;

	if (!ripc__lane_can_send(lane) || lane->reads || !ripc__list_empty(&p->lists->rndvs) ||
	    lane->memory->nexports || lane->memory->nimports || p->pending_conn)
		return true;
	return lane->ctx->peer_ops->lane_in_use(lane);
}

/* The eviction rank, if lanes up to max_rank may be evicted. */
static uint32_t lane_rank(const struct ripc__lane *lane, uint32_t max_rank)
{
	uint32_t rank = RANK_UNUSED;

	if (lane->evict_seq != lane->tx_seq + lane->rx_seq)
		rank = RANK_USED;
	if (lane_in_use(lane))
		rank = RANK_BUSY;
	return rank > max_rank || ripc__peer_has_tx_work(lane->peer) ? RIPC__RANK_NEVER : rank;
}

/*
 * Sends GOAWAY: from now on the lane carries only what the peer sent before it read that. Later
 * messages of this side wait for another lane. Return: whether the lane is retiring.
 */
static bool retire_lane(struct ripc__lane *lane, bool answer)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;

	ripc__lane_send_goaway(lane, answer);
	if (lane->state != RIPC__LANE_UP || !ripc__list_empty(&lane->control))
		return false;
	ripc__log(RIPC_LOG_DEBUG,
		  "lane to peer %s over %s is retired: it is idle, and descriptors run low %s",
		  ripc__instance_text(p->instance), ctx->tp[lane->tp].ops->name,
		  answer ? "at the peer" : "here");
	ripc__lane_set_state(lane, RIPC__LANE_RETIRING);
	lane->last_rx_ns = ripc__now(ctx);
	ripc__timer_at(ctx, lane->last_rx_ns + RIPC__RETIRE_NS);
	ripc__progress_request(ctx);
	if (p->lane != lane)
		return true;
	ripc__peer_lane_ends(p);
	ctx->peer_ops->peer_disconnected(ctx, p);
	/* A peer that connected by itself is resolved. */
	p->contact = RIPC__CONTACT_LOST;
	/* Not the time that a probe had. */
	p->unreachable_ns = 0;
	p->used_ns = lane->last_rx_ns;
	return true;
}

void ripc__lane_goaway(struct ripc__lane *lane, bool answer)
{
	if (!answer && lane->state == RIPC__LANE_UP && retire_lane(lane, true))
		return;
	if (!answer && lane->state == RIPC__LANE_RETIRING && ripc__lane_answer_goaway(lane))
		return;
	ripc__lane_fail(lane, -ESHUTDOWN, "it was idle, and descriptors ran low");
}

/* Retires up to nwanted lanes with at most this rank. Return: their number. */
static size_t retire_lanes(struct ripc *ctx, size_t nwanted, uint32_t max_rank)
{
	size_t n = 0, victims, count = 0;
	struct ripc__entry *entries;
	struct ripc__lane *lane;

	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		n++;
	entries = nwanted ? malloc((n ? n : 1) * sizeof(*entries)) : NULL;
	if (!entries)
		return 0;
	n = 0;
	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		if (lane->state != RIPC__LANE_UP || lane->peer->lane != lane ||
		    ctx->tp[lane->tp].limits.caps & RIPC__CAP_SELF)
			continue;
		entries[n++] = (struct ripc__entry){
			.source = lane->active || lane->peer->addrs_len ? ripc__source_unique(lane)
									: lane->peer->source,
			.since_ns = lane->last_rx_ns,
			.rank = lane_rank(lane, max_rank),
			.object = lane,
		};
		lane->evict_seq = lane->tx_seq + lane->rx_seq;
	}
	victims = ripc__admission_pick(entries, n, nwanted);
	for (size_t i = 0; i < victims; i++) {
		lane = entries[i].object;
		/* Retiring another lane may have changed this one. */
		if (lane->state != RIPC__LANE_UP || lane->peer->lane != lane)
			continue;
		count++;
		if (entries[i].rank == RANK_BUSY || !retire_lane(lane, false))
			ripc__lane_fail(lane, -ENOBUFS, "no room is left for lanes to other peers");
	}
	free(entries);
	return count;
}

void ripc__evict_lanes(struct ripc *ctx, bool exhausted)
{
	struct ripc__lane *lane, *tmp;
	struct rlimit limit = {.rlim_cur = 1024};
	size_t nwanted, nretiring = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	/* Free half the reserve, or all of it: unauthenticated peers take each free descriptor. */
	nwanted = ripc__descriptor_reserve(limit.rlim_cur) / (exhausted ? 1 : 2);
	ripc__list_for_each_entry_safe (lane, tmp, &ctx->lanes, link) {
		if (lane->state != RIPC__LANE_RETIRING)
			continue;
		if (exhausted)
			ripc__lane_fail(lane, -ETIMEDOUT, "it did not close an idle lane");
		else
			nretiring++;
	}
	/*
	 * While descriptors remain, lanes in use stay: the application may hold most descriptors
	 * itself, and closing lanes would not help.
	 */
	if (nretiring < nwanted &&
	    !retire_lanes(ctx, nwanted - nretiring, exhausted ? RANK_USED : RANK_UNUSED) &&
	    exhausted)
		retire_lanes(ctx, nwanted, RANK_BUSY);
}

void ripc__evict_pending(struct ripc *ctx)
{
	unsigned max_rank = ripc__pending_max(PENDING_MAX);
	struct ripc__entry *entries;
	struct ripc__lane *lane;
	size_t n = 0;

	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		n += lane->state == RIPC__LANE_ACCEPTING;
	if (!n || n < max_rank)
		return;
	entries = malloc(n * sizeof(*entries));
	if (!entries)
		return;
	n = 0;
	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		if (lane->state == RIPC__LANE_ACCEPTING)
			entries[n++] = (struct ripc__entry){.source = lane->peer->source,
							    .since_ns = lane->last_rx_ns,
							    .object = lane};
	}
	n = ripc__admission_pick(entries, n, n - max_rank + 1);
	for (size_t i = 0; i < n; i++)
		ripc__lane_fail(entries[i].object, -ETIMEDOUT,
				"too many set-ups are not confirmed");
	free(entries);
}
