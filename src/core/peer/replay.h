/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The replay window of one sender: which of its numbers have arrived, so that no message is
 * delivered twice. Short datagrams have one per peer, messages to groups one per sender and group.
 *
 * Without keys anybody can send a datagram in the name of another instance, with any number. If the
 * window simply moved to the highest number, one forged datagram would block the true sender. So
 * the window has two runs of numbers. A number that is neither in a run nor close above it begins a
 * second run beside the main one, and both runs are served:
 *
 *            main run              second run
 *   .......[first ... last].......[first ... last].......
 *     new       seen          new       seen         new
 *
 * - A true jump (loss of many messages, or a sender that had removed this peer): the second run
 *   grows. It becomes the main run after RIPC__RUN_TRUSTED messages with none in the main run
 *   between them. No message is dropped meanwhile.
 * - A forged number: the main run grows on, and the next jump replaces the second run. The sender
 *   loses the message whose number was forged; if the first number of all was, a window of them.
 * - A jump within a run, too, is verified only after RIPC__RUN_TRUSTED messages above the gap.
 *   Until then the window stays within reach of the last verified number.
 *
 * Limits: copies that the network made of messages in a replaced run are delivered again. Without
 * forged numbers that takes two losses of more than a window within RIPC__RUN_TRUSTED messages, and
 * a late copy. An attacker can close the sender's run (doc/protocol.md, section 1.7).
 */
#ifndef RIPC_CORE_PEER_REPLAY_H
#define RIPC_CORE_PEER_REPLAY_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#define RIPC__RUN_TRUSTED 16 /* messages after which a second run becomes the main run */
/* A jump by so many numbers is that of a sender which has begun again, and nothing was lost. */
#define RIPC__REPLAY_RESTART (UINT64_C(1) << 24)
/* After so long without a new message, a number that is too old to be judged begins anew. */
#define RIPC__REPLAY_STALE_NS (5000 * RIPC__MS)

struct ripc__run {
	uint64_t first;      /* lower numbers are not of this run */
	uint64_t last;       /* highest number received */
	uint64_t verified;   /* the sender has come so far; last is at most a window above */
	unsigned unverified; /* messages above verified, but not the next, since that moved */
	int64_t missing;     /* not trusted: numbers that count as lost when it is */
	unsigned count;      /* messages received, up to RIPC__RUN_TRUSTED; 0: no such run */
	bool trusted;        /* RIPC__RUN_TRUSTED messages have come, or one over a lane */
};

struct ripc__replay {
	struct ripc__run run[2]; /* the main run, the second run */
	uint64_t last_new_ns;    /* when the last new message arrived */
	/*
	 * The main run is trusted, run[0].last is verified (run[0].verified may be older), and the
	 * number behind it is new.
	 */
	bool in_order;
};

/* 64-bit words for both runs. Bit number % window of a run's half: that number has arrived. */
#define RIPC__REPLAY_WORDS(window) (2 * (window) / 64)

/*
 * Whether a message with this number is new; then it is remembered.
 *
 * words: 64-bit words of one run; seen has two times as many. The window of a run is 64 * words
 * numbers up to its last. A number below the window may have arrived before: it counts as a
 * duplicate, unless nothing new has come for RIPC__REPLAY_STALE_NS. confirmed: the message came
 * over a lane, so the number is its sender's. *lost: change of how many messages of the sender are
 * missing.
 */
bool ripc__replay_check(struct ripc__replay *r, uint64_t *seen, unsigned words, uint64_t number,
			bool confirmed, uint64_t now_ns, int64_t *lost);

/* The fast path, with a window of 64. Return: false: another number is due, nothing was done. */
static inline bool ripc__replay_next(struct ripc__replay *r, uint64_t *seen, uint64_t number,
				     uint64_t now_ns)
{
	if (!r->in_order || number != r->run[0].last + 1)
		return false;
	r->run[0].last = number;
	seen[0] |= UINT64_C(1) << number % 64;
	r->last_new_ns = now_ns;
	return true;
}

#endif
