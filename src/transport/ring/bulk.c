/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ring engine: the sender's side of the bulk ring.
 *
 * The peer has read the lines of the bulk ring a round ago. A store must first fetch each line from
 * the peer's cache, and the peer then fetches it from this processor's. Between processors that are
 * far apart both take longer than the path through memory: stores go around the cache. Between near
 * ones they do so for messages of 8 KiB and more, and from 2 KiB on if the peer has sent nothing
 * since the last message. Such messages flow faster, but each arrives later. For all others the
 * lines of the next message are prefetched when the last one was sent.
 */
#include "base/copy.h"
#include "transport/ring/fast_path.h"

/* bytes from which stores go around the cache */
#define STREAM_MIN_NEAR 8192u
#define STREAM_MIN_FLOW 2048u
#define STREAM_MIN_FAR  RIPC__CACHE_LINE

/* unanswered: nothing has arrived since the last message in the bulk ring. */
static inline bool streams(const struct ripc__ring *ring, uint64_t len, bool unanswered)
{
	return len >= (ripc__ring_is_far(ring) ? STREAM_MIN_FAR
		       : unanswered            ? STREAM_MIN_FLOW
					       : STREAM_MIN_NEAR);
}

static void copy(struct ripc__ring *ring, uint64_t off, const uint8_t *src, uint64_t len)
{
	if (!ring->be.map)
		ring->be.ops->copy(ring->be.arg, ring->bulk_off + off, src, len);
	else if (streams(ring, len, false))
		ripc__copy_streaming(ring->be.map + ring->bulk_off + off, src, len);
	else
		ripc__copy(ring->be.map + ring->bulk_off + off, src, len);
}

void ripc__ring_copy_to_bulk(struct ripc__ring *ring, uint64_t at, const uint8_t *src, uint64_t len)
{
	uint64_t off = (ring->tx_bulk + at) & ring->bulk_mask, n = ring->bulk_mask + 1 - off;

	if (n > len)
		n = len;
	copy(ring, off, src, n);
	if (len > n)
		copy(ring, 0, src + n, len - n);
}

/* Fetches the lines of the next len bytes, up to the end of the ring. */
static inline void fetch_lines(const struct ripc__ring *ring, uint64_t len)
{
	uint64_t off = ring->tx_bulk & ring->bulk_mask, left = ring->bulk_mask + 1 - off;
	const uint8_t *line = ring->be.map + ring->bulk_off + off;
	const uint8_t *end = line + (len < left ? len : left);

	for (; line < end; line += RIPC__CACHE_LINE)
		ripc__prefetch_write(line);
}

int ripc__ring_send_bulk(struct ripc__ring *ring, const void *head, size_t head_len,
			 const struct iovec *item, bool more)
{
	uint64_t len = item->iov_len, off = ring->tx_bulk & ring->bulk_mask, tx = ring->tx;
	bool stream = streams(ring, len, (uint32_t)ring->rx == ring->rx_bulk_mark);
	uint8_t *slot, *to;

	if (tx + RING_INLINE_SLOTS > ring->tx_fast_end || len > RIPC__RING_SEND_MAX - head_len ||
	    off + len > ring->bulk_mask + 1 ||
	    ring->tx_bulk + len - ring->tx_bulk_consumed > ring->bulk_mask + 1)
		return -EAGAIN;
	slot = ring->be.map + ring_slot_off(ring, tx);
	to = ring->be.map + ring->bulk_off + off;
	ring->rx_bulk_mark = (uint32_t)ring->rx;
	ring->tx_bulk += ring_bulk_len(len);
	ring->tx = tx + 1;
	if (stream)
		ripc__copy_streaming_lines(to, item->iov_base, len);
	else
		ripc__copy(to, item->iov_base, len);
	ripc__put_le32(slot + 8, (uint32_t)len);
	ring_copy_head(slot + 12, head, head_len);
	__atomic_store_n(
		(uint64_t *)(void *)slot,
		htole64(ring_slot_word(tx, (uint32_t)head_len + 4, RING_MSG_BULK, ring->epoch)),
		__ATOMIC_RELEASE);
	if (!stream)
		fetch_lines(ring, len);
	ripc__ring_claim_due(ring);
	return ripc__ring_notify(ring, more);
}
