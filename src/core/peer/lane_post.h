/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One message onto a lane. Every message of a lane gets its sequence number and its returned
 * credits here, and only here its header may be elided. Inline: it is on the fast path of short
 * messages.
 */
#ifndef RIPC_CORE_PEER_LANE_POST_H
#define RIPC_CORE_PEER_LANE_POST_H

#include <assert.h>
#include <sys/cdefs.h>

#include "core/peer/lane.h"
#include "core/peer/peer.h"

/* The transport did not take it. Return: rc. */
int ripc__lane_post_failed(struct ripc__lane *lane, int rc);

/* One credit is kept for the messages that give credit back: see doc/protocol.md, section 1.4. */
static inline bool ripc__lane_has_credit(const struct ripc__lane *lane, bool returns_credit)
{
	return lane->sending < RIPC__SENDING_BLOCKED &&
	       (!lane->uses_credits || lane->tx_credits > (returns_credit ? 0u : 1u));
}

/* Whether ripc__lane_send() would try: there is credit, and nothing waits for room. */
static inline bool ripc__lane_can_send(const struct ripc__lane *lane)
{
	return ripc__list_empty(&lane->control) && ripc__lane_has_credit(lane, false);
}

/* Credits that go back with a message. */
static __always_inline uint32_t ripc__lane_credits(const struct ripc__lane *lane, uint32_t max)
{
	return lane->rx_credits_due < max ? lane->rx_credits_due : max;
}

/* A message with this many credits was posted. */
static __always_inline void ripc__lane_posted(struct ripc__lane *lane, uint32_t credits)
{
	lane->tx_seq++;
	lane->rx_credits_due -= credits;
	lane->tx_credits -= lane->uses_credits;
}

/* Posts a message that has its sequence number and these credits. */
static __always_inline int ripc__lane_post_stamped(struct ripc__lane *lane, const uint8_t *header,
						   size_t len, const struct iovec *items,
						   unsigned n, uint32_t credits, bool more)
{
	int rc = lane->ctx->tp[lane->tp].ops->post(lane->ep, header, len, items, n, more);

	if (RIPC__UNLIKELY(rc < 0))
		return ripc__lane_post_failed(lane, rc);
	ripc__lane_posted(lane, credits);
	if (RIPC__LIKELY(!rc))
		return 0;
	if (rc == 1)
		ripc__progress_request(lane->ctx);
	else
		ripc__progress_request_lazy(lane->ctx);
	return 0;
}

/*
 * Posts a message other than ripc__lane_post_item(): len bytes of header, then n items. The caller
 * has checked the credit. This call overwrites the header: a caller that posts again builds it
 * again. Return: 0, or the error of the transport's post().
 */
static inline int ripc__lane_post(struct ripc__lane *lane, uint8_t *header, size_t len,
				  const struct iovec *items, unsigned n, bool more)
{
	uint32_t credits = ripc__lane_credits(lane, UINT16_MAX);

	assert((ripc__get_le64(header) & ~((uint64_t)RIPC__F_ELIDABLE << 32)) !=
		       RIPC__FAST_HEADER_WORD ||
	       header[30]);
	ripc__header_stamp(header, lane->tx_seq, (uint16_t)credits);
	return ripc__lane_post_stamped(lane, header, len, items, n, credits, more);
}

/*
 * Posts a SHORT of one item without return buffers; flags: of RIPC__F_ELIDABLE. Its header is
 * elided if the last one was of the same services. The caller has checked the credit. Return: as
 * ripc__lane_post().
 */
static __always_inline int ripc__lane_post_item(struct ripc__lane *lane, unsigned flags,
						const struct ripc__call_words *call, uint64_t dest,
						uint64_t source, const struct iovec *item,
						bool more)
{
	uint8_t header[RIPC__FAST_HEADER_LEN + RIPC__CALL_EXT];
	uint32_t credits, len;
	int rc;

	if (RIPC__LIKELY(ripc__header_context_is(&lane->tx_last, dest, source))) {
		credits = ripc__lane_credits(lane, RIPC__ELIDED_CREDITS_MAX);
		ripc__put_le32(header, ripc__elided_word(flags, lane->tx_seq, credits));
		ripc__call_put(header + RIPC__ELIDED_LEN, flags, call);
		len = RIPC__ELIDED_LEN + ripc__call_len(flags);
		return ripc__lane_post_stamped(lane, header, len, item, 1, credits, more);
	}
	credits = ripc__lane_credits(lane, UINT16_MAX);
	ripc__header_put(header, RIPC__SHORT, (uint16_t)flags, 1, 0, dest, source);
	ripc__header_stamp(header, lane->tx_seq, (uint16_t)credits);
	ripc__put_le32(header + RIPC__HEADER_LEN, (uint32_t)item->iov_len);
	ripc__call_put(header + RIPC__FAST_HEADER_LEN, flags, call);
	len = RIPC__FAST_HEADER_LEN + ripc__call_len(flags);
	rc = ripc__lane_post_stamped(lane, header, len, item, 1, credits, more);
	if (!rc)
		lane->tx_last = (struct ripc__header_context){dest, source};
	return rc;
}

/*
 * Posts a write that is a message: word is its immediate data without sequence number and credits.
 * The lane has RIPC__CAP_WRITE_IMM, and the caller has checked the credit. Return: as the
 * transport's transfer().
 */
static inline int ripc__lane_post_write(struct ripc__lane *lane, struct ripc__transfer *x,
					uint32_t word)
{
	uint32_t credits = ripc__lane_credits(lane, RIPC__IMM_CREDITS_MAX);
	int rc;

	x->kind = RIPC__WRITE_IMM;
	x->imm = ripc__immediate_stamp(word, lane->tx_seq, credits);
	rc = lane->ctx->tp[lane->tp].ops->transfer(lane->ep, x);
	if (rc)
		return ripc__lane_post_failed(lane, rc);
	ripc__lane_posted(lane, credits);
	return 0;
}

#endif
