/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The window engine: short messages of one or two slots, which are most of all. Inline, as whoever
 * sends or takes them has nothing else to do; what does not go so, the functions of engine.h do.
 */
#ifndef RIPC_RING_FAST_PATH_H
#define RIPC_RING_FAST_PATH_H

#include "transport/transport.h"
#include "transport/ring/internal.h"

/* Of the payload, beside the head in the first slot. */
#define RING_FIRST_PAYLOAD (RIPC__RING_SLOT_BODY - RIPC__POST_HEADER_LEN)

/*
 * A message was posted. Looking whether the peer sleeps costs a full fence: several in a row share
 * it. Return: 0 or 2, as ripc__ring_send().
 */
int ripc__ring_notify(struct ripc__ring *w, bool more);

/*
 * ripc__ring_send() for a head of RIPC__POST_HEADER_LEN bytes and a payload, by the shortest way
 * there is. Negative, whatever the number: it is not sent, and ripc__ring_send() does it or says
 * why not.
 */
int ripc__ring_send_slow(struct ripc__ring *w, const uint8_t *head, const uint8_t *payload,
			 size_t len, bool more);

/*
 * Takes the next message if it is a send, all of whose slots or bytes fit into cap bytes, and there
 * is no other work. Return: whether it did; *len: bytes of it. What it leaves, faults among it, is
 * for ripc__ring_poll().
 */
bool ripc__ring_recv_slots(struct ripc__ring *w, uint8_t *buf, size_t cap, uint32_t *len);

/* Fewer bytes than a slot has. What is behind them in the slot is of a message to the same peer. */
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

/*
 * The peer looks at the first slot of a message all the time, and each look takes the line away
 * from whoever writes it. So that slot is written last and at once, not before the others and then
 * again for its word.
 */
static inline void ring_first_slot_barrier(void)
{
	__atomic_signal_fence(__ATOMIC_RELEASE);
}

/*
 * The head was just written in words of 8 bytes: wider loads would wait until these stores are in
 * the cache.
 */
static inline void ring_copy_head(uint8_t *to, const uint8_t *head)
{
	for (unsigned i = 0; i < RIPC__POST_HEADER_LEN / 8; i++) {
		uint64_t word;

		memcpy(&word, head + 8 * i, sizeof(word));
		__atomic_store_n((uint64_t *)(void *)(to + 8 * i), word, __ATOMIC_RELAXED);
	}
	memcpy(to + 32, head + 32, RIPC__POST_HEADER_LEN - 32);
}

/* Whether ripc__ring_send_fast() sends so much itself. */
static inline bool ripc__ring_fits_fast(const struct ripc__ring *w, size_t len)
{
	return len <= RING_FIRST_PAYLOAD + RIPC__RING_SLOT_BODY && w->tx + 2 <= w->tx_fast_end;
}

/*
 * The same as ripc__ring_send_slow(). It calls nothing and so has nothing to save, but where it
 * ends with a call.
 */
static inline int ripc__ring_send_fast(struct ripc__ring *w, const uint8_t *head,
				       const uint8_t *payload, size_t len, bool more)
{
	uint64_t tx = w->tx, next = tx + 1;
	uint8_t *ring, *first;

	if (__builtin_expect(!ripc__ring_fits_fast(w, len), 0))
		return ripc__ring_send_slow(w, head, payload, len, more);
	ring = w->be.map + RIPC__RING_SLOTS_OFF;
	first = ring + (tx & w->mask) * RIPC__RING_SLOT_LEN;
	if (len > RING_FIRST_PAYLOAD) {
		uint8_t *second = ring + (next & w->mask) * RIPC__RING_SLOT_LEN;

		__atomic_store_n((uint64_t *)(void *)second,
				 htole64(w->more_word | (uint32_t)(next + 1)), __ATOMIC_RELAXED);
		ring_copy_tail(second + 8, payload + RING_FIRST_PAYLOAD, len - RING_FIRST_PAYLOAD);
		next++;
		ring_first_slot_barrier();
		ring_copy_head(first + 8, head);
		memcpy(first + 8 + RIPC__POST_HEADER_LEN, payload, RING_FIRST_PAYLOAD);
	} else {
		ring_copy_head(first + 8, head);
		ring_copy_tail(first + 8 + RIPC__POST_HEADER_LEN, payload, len);
	}
	w->tx = next;
	__atomic_store_n((uint64_t *)(void *)first,
			 htole64(w->send_word | (uint32_t)(tx + 1) |
				 (uint64_t)(uint32_t)(RIPC__POST_HEADER_LEN + len) << 32),
			 __ATOMIC_RELEASE);
	if (more)
		return ripc__ring_notify(w, true);
	/* The peer says that it will sleep, then looks; we write, then look whether it said so. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(ring_load(w, RIPC__RING_ARM_OFF) != w->last_kick_arm, 0))
		return ripc__ring_notify(w, false);
	w->unnotified = 0;
	return 0;
}

/*
 * ripc__ring_recv_slots() for a message of one or two slots, into room for two, where no credit is
 * to be told to the peer. Return: 1 it did; 0 nothing has come; -1 something has. It calls nothing,
 * either.
 */
static inline int ripc__ring_recv_fast(struct ripc__ring *w, uint8_t *buf, uint32_t *len)
{
	const uint8_t *ring = w->be.inbox + RIPC__RING_SLOTS_OFF;
	uint64_t rx = w->rx;
	const uint8_t *first = ring + (rx & w->mask) * RIPC__RING_SLOT_LEN;
	uint64_t word;
	uint32_t bytes;

	rx++;
	/* Both lines are fetched at the same time, not one after the other has come. */
	__builtin_prefetch(ring + (rx & w->mask) * RIPC__RING_SLOT_LEN);
	word = le64toh(__atomic_load_n((const uint64_t *)(const void *)first, __ATOMIC_ACQUIRE));
	bytes = (uint16_t)(word >> 32);
	if ((uint32_t)word != (uint32_t)rx)
		return 0;
	if (__builtin_expect((word ^ w->send_word) >> 48 || bytes > 2 * RIPC__RING_SLOT_BODY ||
				     w->work || !w->open || rx - w->rx_advertised > w->mask / 4,
			     0))
		return -1;
	memcpy(buf, first + 8, RIPC__RING_SLOT_BODY);
	if (bytes > RIPC__RING_SLOT_BODY)
		memcpy(buf + RIPC__RING_SLOT_BODY,
		       ring + (rx++ & w->mask) * RIPC__RING_SLOT_LEN + 8, RIPC__RING_SLOT_BODY);
	w->rx = rx;
	w->armed = false;
	*len = bytes;
	return 1;
}

#endif
