/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/reliable/unacked.h"
#include "core/peer/lane_control.h"

#include <limits.h>

/* Acknowledged messages that end at once, at most. */
#define SETTLE_AT_ONCE 8
/* Acknowledged messages that end after each post, at most. */
#define SETTLE_PER_POST 8

void ripc__unacked_end(struct ripc *ctx, struct ripc__peer *p, struct ripc__reliable_msg *m,
		       int status, const char *why)
{
	struct ripc__dest *d = m->dest;

	ripc__unacked_remove(ctx, p, m);
	m->owner->end(ctx, m->owner, m, status, why);
	ripc__unacked_continue(ctx, d);
}

/* The first message that is acknowledged and has not ended; NULL: there is none. */
static inline struct ripc__reliable_msg *first_acked(struct ripc__reliable *rel)
{
	struct ripc__reliable_msg *m =
		ripc__list_first_entry(&rel->unacked, struct ripc__reliable_msg, link);

	if (m && m->number < rel->acked)
		return m;
	ripc__list_del(&rel->settle_link);
	return NULL;
}

/*
 * Ends acknowledged messages, first is the first of them: at most max, as long as they are of one
 * owner to one destination. Return: the destination.
 */
static struct ripc__dest *settle_run(struct ripc *ctx, struct ripc__reliable *rel,
				     struct ripc__reliable_msg *first, unsigned max)
{
	struct ripc__peer *p = rel->peer;
	struct ripc__reliable_owner *owner = first->owner;
	struct ripc__dest *d = first->dest;
	struct ripc__reliable_msg *m = first;
	struct ripc__list *next;
	unsigned n = 0;

	if (!owner->delivered) {
		ripc__unacked_remove(ctx, p, m);
		owner->end(ctx, owner, m, 0, NULL);
		return d;
	}
	do {
		next = m->link.next;
		if (rel->resend == &m->link)
			rel->resend = next == &rel->unacked ? NULL : next;
		rel->bytes -= m->len;
		ripc__list_init(&m->link);
		ripc__reliable_free(ctx, m);
		m = ripc__list_entry(next, struct ripc__reliable_msg, link);
	} while (++n < max && next != &rel->unacked && m->number < rel->acked &&
		 m->owner == owner && m->dest == d);
	rel->unacked.next = next;
	next->prev = &rel->unacked;
	p->reliable_unacked -= (uint16_t)n;
	d->reliable_unacked -= n;
	if (!d->reliable_unacked) {
		d->reliable_peer = NULL;
		ripc__reliable_unpin(ctx, d);
	}
	owner->delivered(ctx, owner, n);
	return d;
}

void ripc__unacked_settle(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__reliable *rel = p->reliable;
	struct ripc__reliable_msg *m;

	while (rel && !ripc__list_empty(&rel->settle_link) && (m = first_acked(rel)))
		ripc__unacked_continue(ctx, settle_run(ctx, rel, m, UINT_MAX));
}

void ripc__unacked_settle_some(struct ripc *ctx, struct ripc__reliable *rel)
{
	struct ripc__reliable_msg *m = first_acked(rel);

	if (m)
		settle_run(ctx, rel, m, SETTLE_PER_POST);
}

void ripc__reliable_acked(struct ripc__lane *lane, uint64_t below)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;
	struct ripc__reliable *rel = p->reliable;
	struct ripc__reliable_msg *m;
	struct ripc__dest *d, *tmp;

	if (!rel || below > rel->next || below <= rel->acked)
		return;
	rel->acked = below;
	if (ripc__list_empty(&rel->settle_link))
		ripc__list_add(&ctx->reliable_settling, &rel->settle_link);
	m = first_acked(rel);
	if (m && below - m->number > SETTLE_AT_ONCE && !rel->awaited && !rel->window_full) {
		ripc__timer_at(ctx, ctx->now_ns + RIPC__RELIABLE_ACK_NS);
		return;
	}
	ripc__unacked_settle(ctx, p);
	rel->awaited = !ripc__list_empty(&rel->unacked);
	if (!rel->window_full)
		return;
	rel->window_full = false;
	ripc__list_for_each_entry_safe (d, tmp, &p->lists->dests, link) {
		if (!ripc__list_empty(&d->reliable_pending))
			ripc__reliable_flush_pending(ctx, d);
		ripc__dest_wake(ctx, d);
	}
}

void ripc__reliable_ask(struct ripc *ctx, struct ripc__dest *d)
{
	struct ripc__peer *p = d->reliable_peer;

	if (!p)
		return;
	p->reliable->awaited = true;
	ripc__unacked_settle(ctx, p);
	if (d->reliable_unacked && p->lane)
		ripc__lane_ping(p->lane);
}
