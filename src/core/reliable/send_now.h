/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sends a reliable message of one item that need not wait for anything. Inline, because all that
 * happens before the post is part of the message's latency; the copy is made after it.
 */
#ifndef RIPC_CORE_RELIABLE_SEND_NOW_H
#define RIPC_CORE_RELIABLE_SEND_NOW_H

#include "core/peer/lane_post.h"
#include "core/reliable/unacked.h"

/* Whether a message of len bytes with these flags can go to d at once, over its lane. */
static inline bool ripc__reliable_may_send(const struct ripc__dest *d, unsigned flags, size_t len)
{
	const struct ripc__peer *p = d->peer;
	const struct ripc__reliable *rel = p->reliable;
	const struct ripc__lane *lane = p->lane;
	const struct ripc__credit *c = d->credit;

	return rel && c && !rel->resend && ripc__list_empty(&d->reliable_pending) &&
	       (!d->reliable_unacked || d->reliable_peer == p) &&
	       p->reliable_unacked < RIPC__RELIABLE_WINDOW &&
	       rel->bytes + len <= RIPC__RELIABLE_WINDOW_BYTES && len <= lane->send_max &&
	       c->sent_units + ripc__units_for(flags, len) <= c->limit_units &&
	       lane->reliable_tx == rel->next && lane->silence != RIPC__SILENCE_IDLE &&
	       ripc__lane_can_send(lane);
}

/*
 * A message of len bytes was posted: counts it and makes its copy, for which there is memory. The
 * arguments are those of ripc__reliable_send_item().
 */
static __always_inline struct ripc__reliable_msg *ripc__reliable_sent(
	struct ripc__dest *d, struct ripc__reliable_owner *owner, unsigned flags, uint64_t source,
	const struct ripc__call_words *call, const struct iovec *item, size_t len)
{
	struct ripc__lane *lane = d->peer->lane;
	struct ripc__reliable *rel = lane->peer->reliable;
	struct ripc__reliable_msg *m = ripc__reliable_take(lane->ctx, len);

	lane->reliable_tx++;
	d->credit->sent_units += ripc__units_for(flags, len);
	m->owner = owner;
	m->dest = d;
	ripc__unacked_add(rel, d, m);
	m->source = source;
	m->flags = (uint16_t)flags;
	m->nitems = 1;
	if (ripc__call_len(flags))
		m->call = *call;
	if (item->iov_len)
		memcpy(m->bytes, item->iov_base, item->iov_len);
	if (!ripc__list_empty(&rel->settle_link))
		ripc__unacked_settle_some(lane->ctx, rel);
	return m;
}

/*
 * Builds a message of one item and posts it over the lane of d's peer, which is up. flags, call: as
 * ripc__reliable_new(). owner is not read, which saves time. The caller has done what
 * owner->before_post() does. Return: NULL: nothing was done; ripc__reliable_new() and
 * ripc__reliable_post() send it or find the cause.
 */
static __always_inline struct ripc__reliable_msg *ripc__reliable_send_item(
	struct ripc__dest *d, struct ripc__reliable_owner *owner, unsigned flags, uint64_t source,
	const struct ripc__call_words *call, const struct iovec *item, bool more)
{
	size_t len = RIPC__FAST_HEADER_LEN + ripc__call_len(flags) + item->iov_len;
	struct ripc__lane *lane = d->peer->lane;

	flags |= RIPC__F_RELIABLE;
	if (RIPC__UNLIKELY(!ripc__reliable_may_send(d, flags, len) ||
			   !ripc__reliable_reserve(lane->ctx, len) ||
			   ripc__lane_post_item(lane, flags, call, d->id, source, item, more)))
		return NULL;
	return ripc__reliable_sent(d, owner, flags, source, call, item, len);
}

#endif
