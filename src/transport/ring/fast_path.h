/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ring engine, inside: slot words, writes into the peer's segment, and the one body that writes
 * a message into slots, and the one that reads it out. These two are inline: tx.c and rx.c use them
 * for every message, and a transport for short messages without a call in between.
 */
#ifndef RIPC_RING_FAST_PATH_H
#define RIPC_RING_FAST_PATH_H

#include "base/copy.h"
#include "transport/ring/ring.h"
#include "wire/bytes.h"

#include <errno.h>

/* Kinds of slot words: numbers of the wire, which the version in the hello covers. */
enum ring_msg_kind {
	RING_MSG_MORE = 1,       /* a further slot of a message */
	RING_MSG_SEND = 2,       /* body: the message */
	RING_MSG_BULK = 3,       /* u32 len in the bulk ring, behind the bytes that follow here */
	RING_MSG_READ = 4,       /* u64 addr, u64 len, u32 key, u16 tag */
	RING_MSG_DATA = 5,       /* u32 len in the bulk ring, u16 tag: the next bytes of a read */
	RING_MSG_READ_ERROR = 6, /* u16 tag: the read is not allowed */
	RING_MSG_WRITE = 7,      /* u64 addr, u32 len in the bulk ring, u32 key */
	RING_MSG_BYE = 8,
};

/* bytes that one DATA or WRITE carries at most, and at most a quarter of the bulk ring */
#define RING_CHUNK_MAX     32768u
#define RING_RESERVE_SLOTS 32u /* slots that stay free for sends while data is moved */

static inline uint64_t ring_slot_word(uint64_t index, uint32_t len, enum ring_msg_kind kind,
				      uint8_t epoch)
{
	return (uint32_t)(index + 1) | (uint64_t)len << 32 | (uint64_t)kind << 48 |
	       (uint64_t)epoch << 56;
}

/* A word of our own segment. */
static inline uint64_t ring_load(const struct ripc__ring *ring, uint64_t at)
{
	return le64toh(__atomic_load_n((const uint64_t *)(const void *)(ring->be.inbox + at),
				       __ATOMIC_ACQUIRE));
}

static inline void ring_copy(struct ripc__ring *ring, uint64_t at, const void *src, size_t len)
{
	if (ring->be.map)
		memcpy(ring->be.map + at, src, len);
	else
		ring->be.ops->copy(ring->be.arg, at, src, len);
}

static inline void ring_fence(struct ripc__ring *ring)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (ring->be.ops->fence)
		ring->be.ops->fence(ring->be.arg);
}

/* Stores one aligned word, whole. */
static inline void ring_store(struct ripc__ring *ring, uint64_t at, uint64_t v)
{
	v = htole64(v);
	if (ring->be.map)
		__atomic_store_n((uint64_t *)(void *)(ring->be.map + at), v, __ATOMIC_RELEASE);
	else
		ring->be.ops->copy(ring->be.arg, at, &v, sizeof(v));
}

static inline uint64_t ring_slot_off(const struct ripc__ring *ring, uint64_t index)
{
	return RIPC__RING_SLOTS_OFF + (index & ring->mask) * RIPC__RING_SLOT_LEN;
}

/* At least the slots of the longest message that is sent in slots; a power of two. */
#define RING_INLINE_SLOTS 4u
/* bytes of a message in the bulk ring that may stand in its slot */
#define RING_BULK_HEAD_MAX (RIPC__RING_SLOT_BODY - 4)

/* Bytes of the bulk ring that a message of len bytes takes. */
static inline uint64_t ring_bulk_len(uint64_t len)
{
	return (len + 63) & ~UINT64_C(63);
}

static inline uint32_t ring_slot_count(uint32_t len)
{
	return len ? (len + RIPC__RING_SLOT_BODY - 1) / RIPC__RING_SLOT_BODY : 1;
}

/* Allocates ring->transfers if there are none. Return: false: out of memory. */
bool ripc__ring_may_transfer(struct ripc__ring *ring);

/* Copies len bytes into the bulk ring, at bytes behind the end of the last message. */
void ripc__ring_copy_to_bulk(struct ripc__ring *ring, uint64_t at, const uint8_t *src,
			     uint64_t len);

/* Kicks the peer if it has requested that. @credit: only credit was written. */
void ripc__ring_kick_if_armed(struct ripc__ring *ring, bool credit);

/* Whether there is room for so much; reads the peer's credit again if necessary. */
bool ripc__ring_has_room(struct ripc__ring *ring, uint32_t slots, uint32_t bulk);

/* ---- messages in slots ---- */

/* ripc__ring_recv_fast() receives messages of at most so many bytes. */
#define RIPC__RING_RECV_FAST_MAX RIPC__RING_INLINE_MAX

/*
 * Wakes the peer if it sleeps, after a message was written. The check costs a full fence, so
 * several messages with @more set share one. Return: 0 or 2, as ripc__ring_send().
 */
int ripc__ring_notify(struct ripc__ring *ring, bool more);

/*
 * Brings the cache lines of slots that come soon to this processor, a few at a time, and now and
 * then measures how far apart the processors are (distance.c).
 *
 * The peer has read them a round ago, so a store must first get them from its cache. A store
 * alone could do so in the background, but each message ends with a locked instruction, which waits
 * for it. Stores to several lines travel at the same time.
 */
void ripc__ring_claim(struct ripc__ring *ring);
static inline void ripc__ring_claim_due(struct ripc__ring *ring)
{
	if (__builtin_expect((int32_t)((uint32_t)ring->tx - ring->tx_claim) >= 0, 0))
		ripc__ring_claim(ring);
}
/* Whether a cache line travels long between this processor and the peer's. */
static inline bool ripc__ring_is_far(const struct ripc__ring *ring)
{
	return ring->far_score >= 2;
}

/*
 * ripc__ring_send() for a header that ring_copy_head() takes and a payload that is too long for
 * slots (bulk.c). Return: 0 or 2; -EAGAIN: nothing was done, ripc__ring_send() must do it.
 */
int ripc__ring_send_bulk(struct ripc__ring *ring, const void *head, size_t head_len,
			 const struct iovec *item, bool more);
/*
 * ripc__ring_poll() if the next message is in the bulk ring and nothing else is to be done. Return:
 * false: it is not so, or the engine has failed.
 */
bool ripc__ring_recv_bulk(struct ripc__ring *ring, uint8_t *buf, struct ripc__event *ev);

/* Copies at most RIPC__RING_SLOT_BODY bytes, without a call. */
static inline void ring_copy_tail(uint8_t *to, const uint8_t *from, size_t n)
{
	if (n >= 32) {
		memcpy(to, from, 32);
		memcpy(to + n - 32, from + n - 32, 32);
	} else if (n >= 16) {
		memcpy(to, from, 16);
		memcpy(to + n - 16, from + n - 16, 16);
	} else if (n >= 8) {
		memcpy(to, from, 8);
		memcpy(to + n - 8, from + n - 8, 8);
	} else {
		while (n--)
			*to++ = *from++;
	}
}

/* Copies one word of a header, see ring_copy_head(). */
static inline void ring_copy_word(uint8_t *to, const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELAXED);
}

/*
 * Copies a header of one of the lengths RIPC__POST_* in the words in which it was just written:
 * wider loads would wait until these stores have reached the cache.
 */
static inline void ring_copy_head(uint8_t *to, const uint8_t *head, size_t len)
{
	if (len == RIPC__POST_SHORT_HEADER_LEN) {
		memcpy(to, head, RIPC__POST_SHORT_HEADER_LEN);
		return;
	}
	if (len == RIPC__POST_CALL_HEADER_LEN) {
		memcpy(to, head, 4);
		ring_copy_word(to + 4, head + 4);
		ring_copy_word(to + 12, head + 12);
		return;
	}
	ring_copy_word(to, head);
	ring_copy_word(to + 8, head + 8);
	ring_copy_word(to + 16, head + 16);
	ring_copy_word(to + 24, head + 24);
	memcpy(to + 32, head + 32, RIPC__POST_HEADER_LEN - 32);
}

/* Marks a slot, the @number-th counted from 1, as a further one of a message. */
static inline void ring_store_more(struct ripc__ring *ring, uint8_t *slot, uint64_t number)
{
	__atomic_store_n((uint64_t *)(void *)slot, htole64(ring->more_word | (uint32_t)number),
			 __ATOMIC_RELAXED);
}

/*
 * Writes the next message into slots: @head_len bytes of @head, see ring_copy_head(), then @len
 * bytes of @payload, at most RIPC__RING_INLINE_MAX in all. @ring: slot 0, in the peer's segment or
 * in local memory; it has @mask + 1 slots, and enough of them are free. @word: the slot word of the
 * message without its number.
 */
static inline void __attribute__((always_inline))
ring_put(struct ripc__ring *ring, uint8_t *slots, uint64_t mask, const uint8_t *head,
	 size_t head_len, const uint8_t *payload, size_t len, uint64_t word)
{
	/* Bytes of the payload that fit into the first slot. */
	const size_t first_payload = RIPC__RING_SLOT_BODY - head_len;
	uint64_t tx = ring->tx, next = tx + 1;
	uint8_t *first = slots + (tx & mask) * RIPC__RING_SLOT_LEN;

	if (len > first_payload) {
		const uint8_t *from = payload + first_payload;
		uint8_t *slot = slots + (next & mask) * RIPC__RING_SLOT_LEN;

		len -= first_payload;
		while (__builtin_expect(len > RIPC__RING_SLOT_BODY, 0)) {
			memcpy(slot + 8, from, RIPC__RING_SLOT_BODY);
			ring_store_more(ring, slot, ++next);
			from += RIPC__RING_SLOT_BODY;
			len -= RIPC__RING_SLOT_BODY;
			slot = slots + (next & mask) * RIPC__RING_SLOT_LEN;
		}
		ring_store_more(ring, slot, ++next);
		ring_copy_tail(slot + 8, from, len);
		/*
		 * The peer polls the first slot, and each poll takes its cache line away. So that
		 * slot is written last, in one go.
		 */
		__atomic_signal_fence(__ATOMIC_RELEASE);
		ring_copy_head(first + 8, head, head_len);
		memcpy(first + 8 + head_len, payload, first_payload);
	} else {
		ring_copy_head(first + 8, head, head_len);
		ring_copy_tail(first + 8 + head_len, payload, len);
	}
	ring->tx = next;
	__atomic_store_n((uint64_t *)(void *)first, htole64(word | (uint32_t)(tx + 1)),
			 __ATOMIC_RELEASE);
}

/*
 * Reads the @len bytes of the message that begins in slot @rx out of its slots. @ring: slot 0.
 * @to: room for len bytes in whole slots. Return: the number of the slot after the message.
 */
static inline uint64_t __attribute__((always_inline))
ring_take(const uint8_t *slots, uint64_t mask, uint64_t rx, uint8_t *to, uint32_t len)
{
	const uint8_t *end = to + len;

	memcpy(to, slots + (rx & mask) * RIPC__RING_SLOT_LEN + 8, RIPC__RING_SLOT_BODY);
	while (rx++, (to += RIPC__RING_SLOT_BODY) < end)
		memcpy(to, slots + (rx & mask) * RIPC__RING_SLOT_LEN + 8, RIPC__RING_SLOT_BODY);
	return rx;
}

/* Whether ripc__ring_send_fast() can send a message of @len bytes, with its header. */
static inline bool ripc__ring_fits_fast(const struct ripc__ring *ring, size_t len)
{
	return len <= RIPC__RING_INLINE_MAX && ring->tx + RING_INLINE_SLOTS <= ring->tx_fast_end;
}

/*
 * ripc__ring_send() for a header that ring_copy_head() takes and a payload, after
 * ripc__ring_fits_fast() was true. Return: 0 or 2.
 */
static inline int __attribute__((always_inline))
ripc__ring_send_fast(struct ripc__ring *ring, const uint8_t *head, size_t head_len,
		     const uint8_t *payload, size_t len, bool more)
{
	ring_put(ring, ring->be.map + RIPC__RING_SLOTS_OFF, ring->mask, head, head_len, payload,
		 len, ring->send_word | (uint64_t)(uint32_t)(head_len + len) << 32);
	ripc__ring_claim_due(ring);
	if (more)
		return ripc__ring_notify(ring, true);
	/* The peer asks for a kick and then polls; we write and then check for its request. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(ring_load(ring, RIPC__RING_ARM_OFF) != ring->last_kick_arm, 0))
		return ripc__ring_notify(ring, false);
	ring->unnotified = 0;
	return 0;
}

/*
 * Receives the next message if it is a short one and nothing else is to be done. @buf: room for
 * RIPC__RING_RECV_FAST_MAX bytes. Return: 1 received; 0 nothing has arrived; -1 something has, for
 * ripc__ring_poll().
 */
static inline int ripc__ring_recv_fast(struct ripc__ring *ring, uint8_t *buf, uint32_t *len)
{
	const uint8_t *slots = ring->be.inbox + RIPC__RING_SLOTS_OFF;
	uint64_t rx = ring->rx, mask = ring->mask, word;
	uint32_t bytes;

	/* Both cache lines are fetched at the same time. */
	__builtin_prefetch(slots + ((rx + 1) & mask) * RIPC__RING_SLOT_LEN);
	word = le64toh(__atomic_load_n(
		(const uint64_t *)(const void *)(slots + (rx & mask) * RIPC__RING_SLOT_LEN),
		__ATOMIC_ACQUIRE));
	bytes = (uint16_t)(word >> 32);
	if ((uint32_t)word != (uint32_t)(rx + 1))
		return 0;
	if (__builtin_expect((word ^ ring->send_word) >> 48 || bytes > RIPC__RING_RECV_FAST_MAX ||
				     ring->work || rx >= ring->rx_fast_end,
			     0))
		return -1;
	ring->rx = ring_take(slots, mask, rx, buf, bytes);
	ring->armed = false;
	*len = bytes;
	return 1;
}

#endif
