/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The window engine: short messages of one or two slots, which are most of all. Inline, as whoever sends or takes them has nothing
 * else to do; what does not go so, the functions of engine.h do.
 */
#ifndef RIPC_WINDOW_ENGINE_PLAIN_H
#define RIPC_WINDOW_ENGINE_PLAIN_H

#include "transport/transport.h"
#include "transport/ring/engine_private.h"

/* Of the payload, beside the head in the first slot. */
#define WIN_FIRST (RIPC__WIN_BODY - RIPC__HEAD_LEN)

/* A message was posted. Looking whether the peer sleeps costs a full fence: several in a row share it. Return: 0 or 2, as ripc__win_send(). */
int ripc__win_say(struct ripc__win *w, bool more);

/*
 * ripc__win_send() for a head of RIPC__HEAD_LEN bytes and a payload, by the shortest way there is. Negative, whatever the number: it
 * is not sent, and ripc__win_send() does it or says why not.
 */
int ripc__win_send_any(struct ripc__win *w, const uint8_t *head, const uint8_t *payload, size_t len,
		       bool more);

/*
 * Takes the next message if it is a send, all of whose slots or bytes fit into cap bytes, and there is no other work. Return: whether it did;
 * *len: bytes of it. What it leaves, faults among it, is for ripc__win_next().
 */
bool ripc__win_take(struct ripc__win *w, uint8_t *buf, size_t cap, uint32_t *len);

/* Fewer bytes than a slot has. What is behind them in the slot is of a message to the same peer. */
static inline void win_put_tail(uint8_t *to, const uint8_t *from, size_t n)
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
 * The peer looks at the first slot of a message all the time, and each look takes the line away from whoever writes it. So that slot
 * is written last and at once, not before the others and then again for its word.
 */
static inline void win_first_last(void)
{
	__atomic_signal_fence(__ATOMIC_RELEASE);
}

/* The same as ripc__win_send_any(). It calls nothing and so has nothing to save, but where it ends with a call. */
static inline int ripc__win_send_plain(struct ripc__win *w, const uint8_t *head,
				       const uint8_t *payload, size_t len, bool more)
{
	uint64_t tx = w->tx, next = tx + 1;
	uint8_t *ring, *first;

	if (__builtin_expect(len > WIN_FIRST + RIPC__WIN_BODY || tx + 2 > w->tx_plain, 0))
		return ripc__win_send_any(w, head, payload, len, more);
	ring = w->be.map + RIPC__WIN_SLOTS_AT;
	first = ring + (tx & w->mask) * RIPC__WIN_SLOT;
	if (len > WIN_FIRST) {
		uint8_t *second = ring + (next & w->mask) * RIPC__WIN_SLOT;

		__atomic_store_n((uint64_t *)(void *)second,
				 htole64(w->more_word | (uint32_t)(next + 1)), __ATOMIC_RELAXED);
		win_put_tail(second + 8, payload + WIN_FIRST, len - WIN_FIRST);
		next++;
		win_first_last();
		memcpy(first + 8, head, RIPC__HEAD_LEN);
		memcpy(first + 8 + RIPC__HEAD_LEN, payload, WIN_FIRST);
	} else {
		memcpy(first + 8, head, RIPC__HEAD_LEN);
		win_put_tail(first + 8 + RIPC__HEAD_LEN, payload, len);
	}
	w->tx = next;
	__atomic_store_n((uint64_t *)(void *)first,
			 htole64(w->send_word | (uint32_t)(tx + 1) |
				 (uint64_t)(uint32_t)(RIPC__HEAD_LEN + len) << 32),
			 __ATOMIC_RELEASE);
	if (more)
		return ripc__win_say(w, true);
	/* The peer says that it will sleep, then looks; we write, then look whether it said so. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(win_load(w, RIPC__WIN_ARM_AT) != w->kicked, 0))
		return ripc__win_say(w, false);
	w->unsaid = 0;
	return 0;
}

/*
 * ripc__win_take() for a message of one or two slots, into room for two, where no credit is to be told to the peer. Return: 1 it did; 0
 * nothing has come; -1 something has. It calls nothing, either.
 */
static inline int ripc__win_take_two(struct ripc__win *w, uint8_t *buf, uint32_t *len)
{
	const uint8_t *ring = w->be.inbox + RIPC__WIN_SLOTS_AT;
	uint64_t rx = w->rx;
	const uint8_t *first = ring + (rx & w->mask) * RIPC__WIN_SLOT;
	uint64_t word;
	uint32_t bytes;

	rx++;
	/* Both lines are fetched at the same time, not one after the other has come. */
	__builtin_prefetch(ring + (rx & w->mask) * RIPC__WIN_SLOT);
	word = le64toh(__atomic_load_n((const uint64_t *)(const void *)first, __ATOMIC_ACQUIRE));
	bytes = (uint16_t)(word >> 32);
	if ((uint32_t)word != (uint32_t)rx)
		return 0;
	if (__builtin_expect((word ^ w->send_word) >> 48 || bytes > 2 * RIPC__WIN_BODY || w->work ||
				     !w->open || rx - w->rx_told > w->mask / 4,
			     0))
		return -1;
	memcpy(buf, first + 8, RIPC__WIN_BODY);
	if (bytes > RIPC__WIN_BODY)
		memcpy(buf + RIPC__WIN_BODY, ring + (rx++ & w->mask) * RIPC__WIN_SLOT + 8,
		       RIPC__WIN_BODY);
	w->rx = rx;
	w->armed = false;
	*len = bytes;
	return 1;
}

#endif
