/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ring engine: the distance between the two processors, and cache lines that are fetched before
 * they are needed.
 *
 * Processors that share a cache pass a line on in 20 to 50 ns, others in 100 to 200. bulk.c chooses
 * its copies by that. The engine measures the distance, as the time of one store into a line that
 * the peer has read last: a virtual machine does not state it, and threads move.
 */
#include "base/clock.h"
#include "transport/ring/fast_path.h"

#define CLAIM_SLOTS 8u  /* claimed at once; a power of two */
#define FAR_NS      80u /* a store between far processors takes longer */
#define FAR_SCORE   3u  /* limit of far_score */
/* The distance is measured in each of the first rounds of the slots, then in one of ROUNDS. */
#define FIRST_ROUNDS 4u
#define ROUNDS       16u

/* word: in a line that the peer has read last, and that may be overwritten. */
static void __attribute__((noinline)) measure(struct ripc__ring *ring, uint64_t *word)
{
	uint64_t begin, stored, end;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	begin = ripc__clock_ns();
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	stored = ripc__clock_ns();
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	end = ripc__clock_ns();
	/* A single measurement may have been interrupted, or the line was in no cache. */
	if (stored - begin > end - stored + FAR_NS)
		ring->far_score += ring->far_score < FAR_SCORE;
	else
		ring->far_score -= ring->far_score > 0;
}

void ripc__ring_claim(struct ripc__ring *ring)
{
	uint64_t at = (ring->tx & ~(CLAIM_SLOTS - 1ull)) + CLAIM_SLOTS;
	uint64_t round = at >> ring->layout.slot_bits;
	uint8_t *slot =
		ring->be.map + RIPC__RING_SLOTS_OFF + (at & ring->mask) * RIPC__RING_SLOT_LEN;

	ring->tx_claim = (uint32_t)at;
	/* The peer may still read further ones. */
	if (at + CLAIM_SLOTS > ring->tx_fast_end)
		return;
	if (__builtin_expect(!(at & ring->mask), 0) && round &&
	    (round <= FIRST_ROUNDS || !(round % ROUNDS)))
		measure(ring, (uint64_t *)(void *)(slot + RIPC__RING_SLOT_LEN - 8));
		/* The end of the body: the slot word stays, so nothing has arrived there. */
#pragma GCC unroll 8
	for (unsigned i = 1; i <= CLAIM_SLOTS; i++)
		__atomic_store_n((uint64_t *)(void *)(slot + i * RIPC__RING_SLOT_LEN - 8), 0,
				 __ATOMIC_RELAXED);
}
