/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/reliable/reliable.h"
#include "core/service/service.h"

#include <stdlib.h>

/*
 * A service to which a message was refused, and later ones are. A sender that finds the service
 * elsewhere does not report that, so the oldest of RIPC__FLOWS_MAX services gives way. The refusals
 * after it exceed the messages that a sender may have unacknowledged, so the sender has received
 * that of the oldest.
 */
struct ripc__refusing {
	UT_hash_handle hh;
	uint64_t id;
};

static void ack_not_due(struct ripc__reliable *rel)
{
	ripc__list_del(&rel->ack_link);
	rel->ack_due_ns = 0;
	rel->rx_unacked = rel->rx_unacked_bytes = 0;
}

/*
 * Sends the acknowledgement after RIPC__RELIABLE_ACK_NS, or at once if a quarter of the window is
 * unacknowledged.
 */
static void ack_later(struct ripc__lane *lane, struct ripc__reliable *rel, uint64_t len)
{
	struct ripc *ctx = lane->ctx;

	rel->rx_unacked++;
	rel->rx_unacked_bytes += (uint32_t)len;
	if (RIPC__UNLIKELY(!rel->ack_due_ns)) {
		rel->ack_due_ns = ctx->now_ns + RIPC__RELIABLE_ACK_NS;
		ripc__list_add(&ctx->reliable_acks, &rel->ack_link);
		ripc__timer_at(ctx, rel->ack_due_ns);
	}
	if (RIPC__UNLIKELY(rel->rx_unacked >= RIPC__RELIABLE_WINDOW / 4 ||
			   rel->rx_unacked_bytes >= RIPC__RELIABLE_WINDOW_BYTES / 4))
		ripc__reliable_send_ack(lane->peer, false);
}

static struct ripc__refusing *is_refusing(const struct ripc__reliable *rel, uint64_t id)
{
	struct ripc__refusing *r;

	HASH_FIND(hh, rel->refusing, &id, sizeof(id), r);
	return r;
}

static void refusing_remove(struct ripc__reliable *rel, uint64_t id)
{
	struct ripc__refusing *r = is_refusing(rel, id);

	if (!r)
		return;
	HASH_DEL(rel->refusing, r);
	free(r);
}

static int refusing_add(struct ripc__reliable *rel, uint64_t id)
{
	struct ripc__refusing *r;

	if (is_refusing(rel, id))
		return 0;
	if (HASH_COUNT(rel->refusing) >= RIPC__FLOWS_MAX)
		refusing_remove(rel, rel->refusing->id);
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->id = id;
	HASH_ADD(hh, rel->refusing, id, sizeof(r->id), r);
	if (r->hh.tbl)
		return 0;
	free(r);
	return -ENOMEM;
}

void ripc__reliable_free_refusals(struct ripc__reliable *rel)
{
	while (rel->refusing)
		refusing_remove(rel, rel->refusing->id);
	free(rel->refused);
}

/*
 * Reports a refusal over the lane of RELIABLE_ACK, which must not come first: it would report the
 * message as delivered. Messages of a context to itself have arrived over the other end. Without a
 * lane, the next RELIABLE_BEGIN has it repeated.
 */
static void refusal_send(const struct ripc__reliable *rel, uint64_t number)
{
	if (rel->peer->lane)
		ripc__lane_notify(rel->peer->lane, RIPC__RELIABLE_REFUSED, 0, 0, number, 0);
}

/* Repeats the refusals from number first on. */
static void refusals_repeat(const struct ripc__reliable *rel, uint64_t first)
{
	uint64_t n = rel->nrefused < RIPC__RELIABLE_WINDOW ? rel->nrefused : RIPC__RELIABLE_WINDOW;

	for (uint64_t i = rel->nrefused - n; i < rel->nrefused; i++)
		if (rel->refused[i % RIPC__RELIABLE_WINDOW] >= first)
			refusal_send(rel, rel->refused[i % RIPC__RELIABLE_WINDOW]);
}

/*
 * Whether the peer may have to send RELIABLE_BEGIN over its lane. Messages of a context to itself
 * arrive over the other end.
 */
static bool begin_is_due(const struct ripc__lane *lane)
{
	return !lane->reliable_rx && !(lane->ctx->tp[lane->tp].limits.caps & RIPC__CAP_SELF);
}

void ripc__reliable_send_ack(struct ripc__peer *p, bool always)
{
	struct ripc__reliable *rel = p->reliable;
	uint64_t rx_next = rel ? rel->rx_next : p->reliable_rx_next;
	struct ripc__lane *lane = p->lane;

	if (!rx_next || (!always && !(rel && rel->ack_due_ns)))
		return;
	if (rel)
		ack_not_due(rel);
	/*
	 * Without a lane, or before RELIABLE_BEGIN came over it, the answer to that replaces it:
	 * refusals that were lost with earlier lanes have to go first.
	 */
	if (!lane || (!always && begin_is_due(lane)))
		return;
	if (rel && begin_is_due(lane))
		refusals_repeat(rel, 0);
	ripc__lane_notify(lane, RIPC__RELIABLE_ACK, 0, 0, rx_next, 0);
}

int ripc__reliable_begin(struct ripc__lane *lane, uint64_t dest, uint64_t number)
{
	struct ripc__reliable *rel = ripc__reliable_of(lane->ctx, lane->peer);
	bool first = !lane->reliable_rx;

	if (!rel)
		return -ENOMEM;
	/* The sender has received all refusals, and has found the service here again. */
	if (dest) {
		refusing_remove(rel, dest);
		return 0;
	}
	if (!rel->rx_next)
		rel->rx_next = number;
	lane->reliable_rx = number;
	/* The first one of a lane: reports which messages of earlier lanes arrived. */
	if (first) {
		/* The acknowledgement goes after the refusals, not before the first one. */
		ack_not_due(rel);
		refusals_repeat(rel, number);
		ripc__reliable_send_ack(lane->peer, true);
	}
	return 0;
}

static int refuse(struct ripc__lane *lane, struct ripc__reliable *rel, uint64_t id, uint64_t number)
{
	if (refusing_add(rel, id))
		return -ENOMEM;
	if (!rel->refused)
		rel->refused = calloc(RIPC__RELIABLE_WINDOW, sizeof(*rel->refused));
	if (!rel->refused)
		return -ENOMEM;
	rel->refused[rel->nrefused++ % RIPC__RELIABLE_WINDOW] = number;
	lane->ctx->stats.dropped_no_service++;
	refusal_send(rel, number);
	return 0;
}

int ripc__reliable_receive(struct ripc__lane *lane, struct ripc__flow *flow, uint64_t len,
			   bool reply)
{
	uint64_t number = lane->reliable_rx;
	struct ripc__reliable *rel;
	bool deliver;

	if (RIPC__UNLIKELY(!number))
		return -EPROTO;
	rel = ripc__reliable_of(lane->ctx, lane->peer);
	if (RIPC__UNLIKELY(!rel))
		return -ENOMEM;
	lane->reliable_rx++;
	if (RIPC__UNLIKELY(number < rel->rx_next)) {
		lane->ctx->stats.duplicates++;
		lane->peer->stats.duplicates++;
		ack_later(lane, rel, len);
		return 0;
	}
	deliver = reply || (flow->service && !(rel->refusing && is_refusing(rel, flow->id)));
	if (RIPC__UNLIKELY(!deliver) && refuse(lane, rel, flow->id, number))
		return -ENOMEM;
	rel->rx_next = number + 1;
	ack_later(lane, rel, len);
	return deliver;
}

void ripc__reliable_undo(struct ripc__lane *lane)
{
	lane->peer->reliable->rx_next--;
}
