/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The fast path of sending: a short message of one item, plain or reliable, to a lane that is up
 * and has room and credit for it. send.c and reliable_send.c send what it refuses, or find the
 * cause. Inline: ripc_send() and ripc_send_short() have it without a call in between.
 *
 * The functions check the item and the service, which may have ended, themselves. Lock held.
 * Return: whether the message was sent; if not, nothing was done.
 */
#ifndef RIPC_CORE_MESSAGE_FAST_SEND_H
#define RIPC_CORE_MESSAGE_FAST_SEND_H

#include "core/message/pair.h"
#include "core/message/send.h"
#include "core/peer/lane_post.h"
#include "core/reliable/send_now.h"
#include "core/rendezvous/delayed_ack.h"

/* Sends a datagram. The caller has checked the service. */
bool ripc__send_one_datagram(struct ripc_service *s, struct ripc__dest *d,
			     const struct iovec *item);

static __always_inline bool ripc__send_one_item(struct ripc *ctx, struct ripc_service *s,
						uint64_t dest, const struct iovec *item, bool more)
{
	struct ripc__lane *lane;
	struct ripc__credit *c;
	struct ripc__dest *d;
	size_t len = item->iov_len;
	uint32_t units;

	if (RIPC__UNLIKELY(!ripc__service_open(s) || ctx->closing || ripc__group_is_name(dest)))
		return false;
	d = ripc__dest_find(ctx, dest);
	lane = ripc__dest_ready(d);
	if (RIPC__UNLIKELY(!lane || ctx->datagrams))
		return d && ctx->datagrams && ripc__send_one_datagram(s, d, item);
	c = d->credit;
	/* A delayed ACK goes with the message or before it: slow path. */
	if (RIPC__UNLIKELY(!c || !ripc__lane_can_send(lane) || ctx->delayed_ack.held ||
			   len > lane->send_max - RIPC__SHORT_FIXED || (!item->iov_base && len)))
		return false;
	units = ripc__units_of(RIPC__FAST_HEADER_LEN + len);
	if (RIPC__UNLIKELY(c->sent_units + units > c->limit_units))
		return false;
	if (RIPC__UNLIKELY(ripc__lane_post_item(lane, 0, NULL, dest, s->id, item, more)))
		return false;
	if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
		ripc__delayed_ack_replied(lane);
	c->sent_units += units;
	ripc__count_short(s, d->peer, len);
	return true;
}

static __always_inline bool ripc__send_reliable_item(struct ripc *ctx, struct ripc_service *s,
						     uint64_t dest, const struct iovec *item,
						     bool more)
{
	struct ripc__pair *pair = ctx->last_pair;
	size_t len = item->iov_len;
	struct ripc__dest *d;

	if (RIPC__UNLIKELY(!ripc__service_open(s) || ctx->closing ||
			   !ripc__pair_is(pair, s, dest) || pair->error ||
			   (!item->iov_base && len) || len > RIPC__RELIABLE_WINDOW_BYTES / 4))
		return false;
	d = ripc__dest_find(ctx, dest);
	if (RIPC__UNLIKELY(!ripc__dest_ready(d)))
		return false;
	/* First, since earlier messages of the pair may end meanwhile. */
	pair->unacked++;
	if (RIPC__UNLIKELY(
		    !ripc__reliable_send_item(d, &pair->owner, 0, s->id, NULL, item, more))) {
		pair->unacked--;
		return false;
	}
	ripc__count_short(s, d->peer, len);
	return true;
}

#endif
