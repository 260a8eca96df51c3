/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Retransmission of writes over an unreliable connection. Each write carries its number as
 * immediate data, which the receiver gets only with the complete write. After its writes the sender
 * sends a MARK on the reliable connection. The ANSWER lists the writes received; the others are
 * repeated. doc/protocol.md, section 7.4. Pure.
 */
#ifndef RIPC_IB_UC_RETRANSMIT_H
#define RIPC_IB_UC_RETRANSMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__UC_RETRANSMIT_WINDOW 64u /* unacknowledged writes */
#define RIPC__UC_CONTROL           20u /* bytes of a MARK or ANSWER */

/* Sender. Numbers wrap. */
struct ripc__uc_tx {
	uint32_t base, next; /* the oldest unacknowledged one; the next one */
	uint64_t unsent;     /* bit n % 64: write n has no completion yet */
	uint64_t arrived;    /* bit n % 64: write n was acknowledged, out of order */
	bool asked;          /* a MARK is not yet answered */
	uint32_t asked_next; /* the MARK covers all numbers below */
};

/* Receiver. */
struct ripc__uc_rx {
	uint32_t base;       /* all numbers below were received */
	uint64_t arrived;    /* bit n % 64: n was received, base <= n < base + 64 */
	bool answer_pending; /* a MARK waits for its ANSWER */
	uint32_t from, upto; /* the MARK covers from to upto - 1 */
};

/*
 * Whether another write may be posted. @reported: the end of all writes below was reported; others
 * need their place in the window.
 */
static inline bool ripc__uc_space(const struct ripc__uc_tx *tx, uint32_t reported)
{
	return tx->next - reported < RIPC__UC_RETRANSMIT_WINDOW;
}

uint32_t ripc__uc_write(struct ripc__uc_tx *tx);             /* return: the number of the write */
void ripc__uc_sent(struct ripc__uc_tx *tx, uint32_t number); /* its send completed, again or not */
/* Whether to send a MARK now; encodes it in buf and counts it as sent. */
bool ripc__uc_mark(struct ripc__uc_tx *tx, uint8_t buf[RIPC__UC_CONTROL]);

void ripc__uc_received(struct ripc__uc_rx *rx, uint32_t number);
/*
 * Whether to send an ANSWER now: nothing is missing, or @late. Encodes it and clears the request.
 */
bool ripc__uc_answer(struct ripc__uc_rx *rx, bool late, uint8_t buf[RIPC__UC_CONTROL]);

/*
 * Handles a MARK or ANSWER. *again: bit n % 64: repeat write n, counted as in flight. Return: 0, or
 * -EPROTO.
 */
int ripc__uc_control(struct ripc__uc_tx *tx, struct ripc__uc_rx *rx, const uint8_t *buf, size_t len,
		     uint64_t *again);

#endif
