/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One message onto a lane. Every message of a lane gets its sequence number and its returned
 * credits here, and only here its header may be elided. Inline: it is on the fast path of short
 * messages.
 */
#ifndef RIPC_CORE_PEER_LANE_POST_H
#define RIPC_CORE_PEER_LANE_POST_H

#include <sys/cdefs.h>

#include "core/peer/lane.h"
#include "core/peer/peer.h"

/* The transport did not take it. Return: rc. */
int ripc__lane_post_failed(struct ripc__lane *lane, int rc);
/* No credit, no room, or other messages wait already. Return: -EAGAIN. */
int ripc__lane_starved(struct ripc__lane *lane);

/* One credit is kept for the messages that give credit back: see doc/protocol.md, section 1.4. */
static inline bool ripc__lane_has_credit(const struct ripc__lane *lane, bool returns_credit)
{
	return !lane->blocked &&
	       (!lane->uses_credits || lane->tx_credits > (returns_credit ? 0u : 1u));
}

/* Whether ripc__lane_send() would try: there is credit, and nothing waits for room. */
static inline bool ripc__lane_can_send(const struct ripc__lane *lane)
{
	return ripc__list_empty(&lane->control) && ripc__lane_has_credit(lane, false);
}

/*
 * Posts a message: len bytes of header, then n items. The caller has checked the credit. This call
 * overwrites the header: a caller that posts again builds it again. Return: 0, or the error of the
 * transport's post().
 */
static __always_inline int ripc__lane_post(struct ripc__lane *lane, uint8_t *header, size_t len,
					   const struct iovec *items, unsigned n, bool more)
{
	const struct ripc__tp *tp = &lane->ctx->tp[lane->tp];
	/* With return buffers the header is longer, so it is not all that precedes the payload. */
	bool one_item =
		len == RIPC__FAST_HEADER_LEN && ripc__get_le64(header) == RIPC__FAST_HEADER_WORD;
	uint64_t dest = ripc__get_le64(header + 8), source = ripc__get_le64(header + 16);
	bool elide = one_item && ripc__header_context_is(&lane->tx_last, dest, source);
	uint32_t credits_max = elide ? RIPC__ELIDED_CREDITS_MAX : UINT16_MAX;
	uint32_t credits = lane->rx_credits_due < credits_max ? lane->rx_credits_due : credits_max;
	int rc;

	if (elide) {
		ripc__put_le32(header, ripc__elided_word(lane->tx_seq, credits));
		len = RIPC__ELIDED_LEN;
	} else if (one_item) {
		ripc__put_le64(header + 24, lane->tx_seq | (uint64_t)credits << 32);
	} else {
		ripc__header_stamp(header, lane->tx_seq, (uint16_t)credits);
	}
	rc = tp->ops->post(lane->ep, header, len, items, n, more);
	if (RIPC__UNLIKELY(rc < 0))
		return ripc__lane_post_failed(lane, rc);
	if (one_item && !elide)
		lane->tx_last = (struct ripc__header_context){true, dest, source};
	lane->tx_seq++;
	lane->rx_credits_due -= credits;
	lane->tx_credits -= lane->uses_credits;
	if (RIPC__LIKELY(!rc))
		return 0;
	if (rc == 1)
		ripc__progress_request(lane->ctx);
	else
		ripc__progress_request_lazy(lane->ctx);
	return 0;
}

#endif
