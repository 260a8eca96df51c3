/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/reliable/send_now.h"
#include "core/reliable/unacked.h"
#include "core/peer/lane_control.h"
#include "wire/bytes.h"

#include <stdio.h>
#include <stdlib.h>

struct ripc__reliable *ripc__reliable_of(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__reliable *rel = p->reliable;

	if (RIPC__LIKELY(rel != NULL))
		return rel;
	/* Requests of calls are added there. */
	rel = ripc__peer_lists(p) ? calloc(1, sizeof(*rel)) : NULL;
	if (!rel)
		return NULL;
	ripc__list_init(&rel->unacked);
	ripc__list_init(&rel->ack_link);
	ripc__list_init(&rel->settle_link);
	rel->peer = p;
	rel->next = p->lane && p->lane->reliable_tx ? p->lane->reliable_tx : ripc__seq_begin(ctx);
	rel->rx_next = p->reliable_rx_next;
	p->reliable = rel;
	ripc__trim_plan(ctx);
	return rel;
}

/* Posts the copy of a message. Return: as ripc__lane_send(). */
static int post_copy(struct ripc__lane *lane, struct ripc__reliable_msg *m, bool more)
{
	size_t lens = m->nitems == 1 ? 0 : m->nitems * 4u;
	uint8_t head[RIPC__SHORT_HEADER_MAX], *p;
	struct iovec payload;
	int rc;

	if (m->owner->before_post && (rc = m->owner->before_post(m->owner, &m->call.word, lane)))
		return rc;
	payload.iov_base = m->bytes + lens;
	if (m->nitems == 1) {
		payload.iov_len = m->len - RIPC__FAST_HEADER_LEN - ripc__call_len(m->flags);
		return ripc__lane_send_item(lane, m->flags, &m->call, m->dest->id, m->source,
					    &payload, more);
	}
	p = ripc__header_put(head, RIPC__SHORT, m->flags, m->nitems, 0, m->dest->id, m->source);
	memcpy(p, m->bytes, lens);
	p = ripc__call_put(p + lens, m->flags, &m->call);
	payload.iov_len = m->len - (size_t)(p - head);
	return ripc__lane_send(lane, head, (size_t)(p - head), &payload, 1, more);
}

/*
 * Posts a message with a number over a lane. Return: 0; -EAGAIN; -EMSGSIZE: the lane is too small
 * for it; or the error of before_post().
 */
static int post(struct ripc__lane *lane, struct ripc__reliable_msg *m, uint64_t number, bool more)
{
	struct ripc__dest *d = m->dest;
	struct ripc__credit *c = d->peer == lane->peer ? d->credit : NULL;
	uint32_t units = ripc__units_for(m->flags, m->len);
	int rc;

	if (m->len > lane->send_max)
		return -EMSGSIZE;
	if (!c) {
		c = ripc__lane_credit(lane, d->id);
		if (!c)
			return -EAGAIN;
		if (d->peer == lane->peer)
			d->credit = c;
	}
	if (RIPC__UNLIKELY(c->sent_units + units > c->limit_units))
		return ripc__lane_stalled(lane);
	if (RIPC__UNLIKELY(lane->reliable_tx != number)) {
		ripc__lane_notify(lane, RIPC__RELIABLE_BEGIN, 0, 0, number, 0);
		lane->reliable_tx = number;
	}
	rc = post_copy(lane, m, more);
	if (rc)
		return rc;
	lane->reliable_tx++;
	c->sent_units += units;
	if (RIPC__UNLIKELY(lane->silence == RIPC__SILENCE_IDLE))
		ripc__lane_monitor(lane);
	return 0;
}

/* Whether no message to d is unacknowledged; if one is, d is woken when none is any more. */
static bool dest_done(struct ripc *ctx, struct ripc__dest *d)
{
	if (d->reliable_unacked && !d->reliable_peer->reliable->awaited)
		ripc__reliable_ask(ctx, d);
	return !d->reliable_unacked;
}

static bool window_is_full(const struct ripc__reliable *rel, const struct ripc__reliable_msg *m)
{
	unsigned unacked = rel->peer->reliable_unacked;

	return unacked >= RIPC__RELIABLE_WINDOW ||
	       (unacked && rel->bytes + m->len > RIPC__RELIABLE_WINDOW_BYTES);
}

/* ripc__reliable_post() for the first message of those that wait. */
static int post_new(struct ripc__dest *d, struct ripc__reliable_msg *m, bool more)
{
	struct ripc__peer *p = d->peer;
	struct ripc__lane *lane = p->lane;
	struct ripc__reliable *rel = ripc__reliable_of(lane->ctx, p);
	int rc;

	if (!rel)
		return ripc__fail(-ENOMEM, "no memory to send to %s",
				  ripc__service_text(lane->ctx, d->id));
	/* The messages at the former holder must be acknowledged first. */
	if (d->reliable_peer != p && !dest_done(lane->ctx, d))
		return -EAGAIN;
	if (rel->resend) {
		ripc__reliable_flush(lane);
		if (rel->resend || p->lane != lane)
			return -EAGAIN;
	}
	if (window_is_full(rel, m))
		ripc__unacked_settle(lane->ctx, p);
	if (window_is_full(rel, m)) {
		rel->window_full = true;
		ripc__lane_monitor(lane);
		return -EAGAIN;
	}
	m->dest = d;
	rc = post(lane, m, rel->next, more);
	if (rc == -EMSGSIZE)
		return ripc__fail(-EMSGSIZE,
				  "reliable short message to %s: with its header it has "
				  "%u bytes, and a lane over %s takes %u; use ripc_send_long()",
				  ripc__service_text(lane->ctx, d->id), m->len,
				  lane->ctx->tp[lane->tp].ops->name, lane->send_max);
	if (rc)
		return rc;
	ripc__unacked_add(rel, d, m);
	return 0;
}

int ripc__reliable_post(struct ripc__dest *d, struct ripc__reliable_msg *m, bool more)
{
	/* An answer does not wait for others, which may wait for credit. */
	return ripc__list_empty(&d->reliable_pending) ||
			       (m->flags & RIPC__F_REPLY && !d->reliable_refused)
		       ? post_new(d, m, more)
		       : -EAGAIN;
}

void ripc__reliable_flush(struct ripc__lane *lane)
{
	struct ripc__peer *p = lane->peer;
	struct ripc__reliable *rel = p->reliable;

	if (!rel || p->lane != lane)
		return;
	while (rel->resend && lane->state == RIPC__LANE_UP) {
		struct ripc__reliable_msg *m =
			ripc__list_entry(rel->resend, struct ripc__reliable_msg, link);
		int rc = post(lane, m, m->number, rel->resend->next != &rel->unacked);

		if (rc == -EAGAIN)
			return;
		/* The previous lane, which may have taken longer ones, may have delivered it. */
		if (rc) {
			ripc__unacked_end(lane->ctx, p, m, -EPIPE,
					  rc == -EMSGSIZE
						  ? "the lane was lost, and the next one does not "
						    "take so long a message"
						  : "its time was up after the lane was lost");
			continue;
		}
		lane->ctx->stats.resent++;
		rel->resend = rel->resend->next == &rel->unacked ? NULL : rel->resend->next;
	}
}

/* ---- messages that wait for their destination ---- */

static void pending_insert(struct ripc *ctx, struct ripc__dest *d, struct ripc__reliable_msg *m)
{
	struct ripc__list *at;

	m->number = 0;
	m->dest = d;
	if (ripc__list_empty(&d->reliable_pending)) {
		d->reliable_until_ns = ripc__now(ctx) + ctx->opt.peer_timeout_ms * RIPC__MS;
		ripc__timer_at(ctx, d->reliable_until_ns);
	}
	/* Answers come first. Most messages are new: behind all others. */
	for (at = d->reliable_pending.prev; at != &d->reliable_pending; at = at->prev) {
		const struct ripc__reliable_msg *o =
			ripc__list_entry(at, struct ripc__reliable_msg, link);
		bool answer = o->flags & RIPC__F_REPLY;

		if ((o->flags ^ m->flags) & RIPC__F_REPLY ? answer : o->order < m->order)
			break;
	}
	ripc__list_add(at->next, &m->link);
	ctx->reliable_npending++;
	ripc__reliable_pin(d);
}

static void pending_remove(struct ripc *ctx, struct ripc__reliable_msg *m)
{
	ripc__list_del(&m->link);
	ctx->reliable_npending--;
	ripc__reliable_unpin(ctx, m->dest);
}

void ripc__reliable_queue(struct ripc *ctx, struct ripc__dest *d, struct ripc__reliable_msg *m)
{
	pending_insert(ctx, d, m);
	ripc__reliable_flush_pending(ctx, d);
}

static void requeue(struct ripc *ctx, struct ripc__peer *p, struct ripc__reliable_msg *m)
{
	struct ripc__dest *d = m->dest;

	/* Pinned again before its removal releases it. */
	ripc__reliable_pin(d);
	ripc__unacked_remove(ctx, p, m);
	pending_insert(ctx, d, m);
	ripc__reliable_unpin(ctx, d);
	if (m->owner->requeued)
		m->owner->requeued(m->owner);
}

void ripc__reliable_flush_pending(struct ripc *ctx, struct ripc__dest *d)
{
	struct ripc__reliable_msg *m;
	int rc;

	while ((m = ripc__list_first_entry(&d->reliable_pending, struct ripc__reliable_msg,
					   link))) {
		if (ripc__dest_reach(ctx, d))
			return;
		/*
		 * The peer refuses all messages until it receives RELIABLE_BEGIN for the service.
		 */
		if (d->reliable_refused) {
			if (!dest_done(ctx, d))
				return;
			ripc__lane_notify(d->peer->lane, RIPC__RELIABLE_BEGIN, d->id, 0, 0, 0);
			d->reliable_refused = false;
		}
		ripc__list_del(&m->link);
		rc = post_new(d, m, false);
		if (rc == -EAGAIN || rc == -ENOMEM) {
			ripc__list_add(d->reliable_pending.next, &m->link);
			return;
		}
		ctx->reliable_npending--;
		ripc__reliable_unpin(ctx, d);
		if (rc)
			m->owner->end(ctx, m->owner, m, rc == -EMSGSIZE ? -EHOSTUNREACH : rc,
				      "the new holder of its service cannot take it");
	}
}

void ripc__reliable_withdraw(struct ripc *ctx, struct ripc__reliable_msg *m)
{
	struct ripc__dest *d = m->dest;

	if (m->number)
		ripc__unacked_remove(ctx, d->reliable_peer, m);
	else
		pending_remove(ctx, m);
	ripc__unacked_continue(ctx, d);
}

/* ---- events ---- */

void ripc__reliable_refused(struct ripc__lane *lane, uint64_t number)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;
	struct ripc__reliable_msg *m;

	if (!p->reliable)
		return;
	ripc__list_for_each_entry (m, &p->reliable->unacked, link) {
		struct ripc__dest *d = m->dest;

		if (m->number < number)
			continue;
		if (m->number > number)
			return;
		/* Elsewhere than at this peer, no call waits for it. */
		if (m->flags & RIPC__F_REPLY) {
			ripc__lane_protocol_error(lane, "refusal of an answer");
			return;
		}
		requeue(ctx, p, m);
		d->reliable_refused = true;
		ripc__dest_refused(ctx, d->id, p);
		ripc__dest_flush(ctx, d);
		return;
	}
}

void ripc__reliable_bye(struct ripc__lane *lane)
{
	struct ripc__peer *p = lane->peer;
	struct ripc__reliable *rel = p->reliable;

	ripc__unacked_settle(lane->ctx, p);
	/* From the last to the first: each goes to the head of its destination. */
	while (rel && !ripc__list_empty(&rel->unacked)) {
		struct ripc__reliable_msg *m =
			ripc__list_entry(rel->unacked.prev, struct ripc__reliable_msg, link);

		/* The calls of the peer have ended. */
		if (m->flags & RIPC__F_REPLY) {
			ripc__unacked_remove(lane->ctx, p, m);
			m->owner->end(lane->ctx, m->owner, m, 0, NULL);
		} else {
			requeue(lane->ctx, p, m);
		}
	}
}

void ripc__reliable_lane_failed(struct ripc__lane *lane)
{
	struct ripc__reliable *rel = lane->peer->reliable;

	ripc__unacked_settle(lane->ctx, lane->peer);
	if (rel &&
	    (!lane->peer->lane || lane->peer->lane == lane || !lane->peer->lane->reliable_tx))
		rel->resend = ripc__list_first(&rel->unacked);
}

/* The first message below a number that is not sent again to its peer; NULL: none. */
static struct ripc__reliable_msg *first_unknown(const struct ripc__reliable *rel, uint64_t end)
{
	struct ripc__reliable_msg *m;

	ripc__list_for_each_entry (m, &rel->unacked, link) {
		if (m->number >= end)
			return NULL;
		/* The caller drops an answer that it has. */
		if (!(m->flags & RIPC__F_REPLY && rel->peer->lane))
			return m;
	}
	return NULL;
}

void ripc__reliable_unknown(struct ripc *ctx, struct ripc__peer *p, const char *why)
{
	struct ripc__reliable *rel = p->reliable;
	struct ripc__reliable_msg *m;
	uint64_t end = rel ? rel->next : 0;

	ripc__unacked_settle(ctx, p);
	/* Messages that the callbacks post stay in the list. */
	while (rel && (m = first_unknown(rel, end))) {
		ctx->stats.reliable_unknown++;
		ripc__unacked_end(ctx, p, m, -EPIPE, why);
	}
}

void ripc__reliable_peer_idle(struct ripc__peer *p)
{
	struct ripc__reliable *rel = p->reliable;

	if (!rel || !ripc__list_empty(&rel->unacked) || rel->ack_due_ns || rel->refused ||
	    rel->refusing || (p->lane->reliable_tx && p->lane->reliable_tx != rel->next))
		return;
	/* The next number is that of the lane. On another lane it is higher than all before. */
	ripc__seq_end(p->lane->ctx, rel->next);
	p->reliable_rx_next = rel->rx_next;
	ripc__list_del(&rel->settle_link);
	free(rel);
	p->reliable = NULL;
}

void ripc__reliable_peer_forgotten(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__reliable *rel = p->reliable;

	if (!rel)
		return;
	/* The context is being closed. */
	ripc__list_free(&rel->unacked, struct ripc__reliable_msg, link);
	ripc__list_del(&rel->ack_link);
	ripc__list_del(&rel->settle_link);
	ripc__seq_end(ctx, rel->next);
	ripc__reliable_free_refusals(rel);
	free(rel);
	p->reliable = NULL;
}

/* Ends the messages that have waited for a holder for peer_timeout_ms. */
static void pending_expire(struct ripc *ctx, struct ripc__dest *d)
{
	struct ripc__reliable_msg *m, *tmp;
	char why[RIPC__DETAIL_MAX];

	d->reliable_until_ns = ctx->now_ns + ctx->opt.peer_timeout_ms * RIPC__MS;
	/* There is a holder, without credit at present. */
	if (ripc__dest_ready(d))
		return;
	ripc__dest_unreachable(ctx, d);
	snprintf(why, sizeof(why), "%s", ripc_error_detail());
	ripc__reliable_pin(d);
	ripc__list_for_each_entry_safe (m, tmp, &d->reliable_pending, link) {
		if (m->owner->waits)
			continue;
		pending_remove(ctx, m);
		m->owner->end(ctx, m->owner, m, -EHOSTUNREACH, why);
	}
	ripc__reliable_unpin(ctx, d);
	ripc__dest_wake(ctx, d);
}

void ripc__reliable_timers(struct ripc *ctx)
{
	struct ripc__reliable *rel, *tmp;
	struct ripc__dest *d, *dtmp;

	ripc__list_for_each_entry_safe (rel, tmp, &ctx->reliable_acks, ack_link) {
		if (rel->ack_due_ns <= ctx->now_ns)
			ripc__reliable_send_ack(rel->peer, false);
		else
			ripc__timer_at(ctx, rel->ack_due_ns);
	}
	while ((rel = ripc__list_first_entry(&ctx->reliable_settling, struct ripc__reliable,
					     settle_link)))
		ripc__unacked_settle(ctx, rel->peer);
	if (!ctx->reliable_npending)
		return;
	HASH_ITER (hh, ctx->dests, d, dtmp) {
		if (ripc__list_empty(&d->reliable_pending))
			continue;
		if (d->reliable_until_ns <= ctx->now_ns)
			pending_expire(ctx, d);
		ripc__timer_at(ctx, d->reliable_until_ns);
	}
}

void ripc__reliable_close(struct ripc *ctx)
{
	for (struct ripc__dest *d = ctx->dests; d; d = d->hh.next)
		ripc__list_free(&d->reliable_pending, struct ripc__reliable_msg, link);
	ripc__reliable_memory_free(ctx);
}
