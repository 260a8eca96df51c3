/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes over an unreliable connection: which have arrived. Each carries its number as immediate data, so that the receiver
 * sees it exactly if the whole of it arrived. When all writes have left, the sender asks by a MARK on the reliable
 * connection; the ANSWER names what came, the rest is written again. doc/protocol.md, section 7.4. Pure.
 */
#ifndef RIPC_IB_UC_RETRANSMIT_H
#define RIPC_IB_UC_RETRANSMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__UC_RETRANSMIT_WINDOW 64u /* writes that are not acknowledged at most */
#define RIPC__UC_CONTROL           20u /* bytes of a MARK or ANSWER */

/* Sender. Numbers wrap. */
struct ripc__uc_tx {
	uint32_t base, next; /* the oldest that is not acknowledged; the next one */
	uint64_t unsent;     /* bit n % 64: write n has not left yet */
	uint64_t arrived;    /* bit n % 64: write n was acknowledged, out of order */
	bool asked;          /* a MARK is out */
	uint32_t asked_next; /* it asks for all below */
};

/* Receiver. */
struct ripc__uc_rx {
	uint32_t base;       /* all below have arrived */
	uint64_t arrived;    /* bit n % 64: n has, base <= n < base + 64 */
	bool answer_pending; /* a MARK waits for its ANSWER */
	uint32_t from, upto; /* what it asks for */
};

/* Whether another write may be posted. */
static inline bool ripc__uc_space(const struct ripc__uc_tx *tx)
{
	return tx->next - tx->base < RIPC__UC_RETRANSMIT_WINDOW;
}

uint32_t ripc__uc_write(struct ripc__uc_tx *tx);             /* return: its number */
void ripc__uc_sent(struct ripc__uc_tx *tx, uint32_t number); /* it has left, for the first time or again */
/* Whether a MARK is to be sent now; writes it to buf, and counts it as sent. */
bool ripc__uc_mark(struct ripc__uc_tx *tx, uint8_t buf[RIPC__UC_CONTROL]);

void ripc__uc_received(struct ripc__uc_rx *rx, uint32_t number);
/* The ANSWER that is owed: at once if nothing is missing, or if @late. Return: whether there is one; it is not owed then. */
bool ripc__uc_answer(struct ripc__uc_rx *rx, bool late, uint8_t buf[RIPC__UC_CONTROL]);

/*
 * A MARK or ANSWER came. *again: bit n % 64: to be written again, counted as leaving. Return: 0, or -EPROTO.
 */
int ripc__uc_control(struct ripc__uc_tx *tx, struct ripc__uc_rx *rx, const uint8_t *buf, size_t len,
		     uint64_t *again);

#endif
