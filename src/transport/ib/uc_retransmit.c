/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ib/uc_retransmit.h"
#include "wire/bytes.h"

#include <errno.h>

enum control { UC_MARK = 1, UC_ANSWER = 2 };

static uint64_t bit(uint32_t number)
{
	return UINT64_C(1) << (number % RIPC__UC_RETRANSMIT_WINDOW);
}

uint32_t ripc__uc_write(struct ripc__uc_tx *tx)
{
	tx->unsent |= bit(tx->next);
	tx->arrived &= ~bit(tx->next);
	return tx->next++;
}

void ripc__uc_sent(struct ripc__uc_tx *tx, uint32_t number)
{
	tx->unsent &= ~bit(number);
}

static void control_put(uint8_t *buf, enum control kind, uint32_t from, uint32_t upto, uint64_t map)
{
	ripc__put_le32(buf, kind);
	ripc__put_le32(buf + 4, from);
	ripc__put_le32(buf + 8, upto);
	ripc__put_le64(buf + 12, map);
}

bool ripc__uc_mark(struct ripc__uc_tx *tx, uint8_t buf[RIPC__UC_CONTROL])
{
	/*
	 * Waits until all writes are sent: on a slow link a MARK would overtake them and report
	 * them lost.
	 */
	if (tx->asked || tx->unsent || tx->base == tx->next)
		return false;
	tx->asked = true;
	tx->asked_next = tx->next;
	control_put(buf, UC_MARK, tx->base, tx->next, 0);
	return true;
}

void ripc__uc_received(struct ripc__uc_rx *rx, uint32_t number)
{
	/* A repeated write arrived twice. */
	if (number - rx->base >= RIPC__UC_RETRANSMIT_WINDOW)
		return;
	rx->arrived |= bit(number);
	while (rx->arrived & bit(rx->base)) {
		rx->arrived &= ~bit(rx->base);
		rx->base++;
	}
}

bool ripc__uc_answer(struct ripc__uc_rx *rx, bool late, uint8_t buf[RIPC__UC_CONTROL])
{
	uint64_t map = 0;
	bool all = true;

	if (!rx->answer_pending)
		return false;
	for (uint32_t n = rx->from; n != rx->upto; n++)
		if ((int32_t)(n - rx->base) < 0 || rx->arrived & bit(n))
			map |= bit(n);
		else
			all = false;
	if (!all && !late)
		return false;
	rx->answer_pending = false;
	control_put(buf, UC_ANSWER, rx->from, rx->upto, map);
	return true;
}

static int answered(struct ripc__uc_tx *tx, uint32_t from, uint32_t upto, uint64_t map,
		    uint64_t *again)
{
	if (!tx->asked || from != tx->base || upto != tx->asked_next)
		return -EPROTO;
	tx->asked = false;
	for (uint32_t n = from; n != upto; n++)
		if (map & bit(n))
			tx->arrived |= bit(n);
		else if (!(tx->arrived & bit(n)))
			*again |= bit(n);
	tx->unsent |= *again;
	while (tx->base != upto && tx->arrived & bit(tx->base))
		tx->base++;
	return 0;
}

int ripc__uc_control(struct ripc__uc_tx *tx, struct ripc__uc_rx *rx, const uint8_t *buf, size_t len,
		     uint64_t *again)
{
	uint32_t kind, from, upto;

	*again = 0;
	if (len != RIPC__UC_CONTROL)
		return -EPROTO;
	kind = ripc__get_le32(buf);
	from = ripc__get_le32(buf + 4);
	upto = ripc__get_le32(buf + 8);
	if (kind == UC_ANSWER)
		return answered(tx, from, upto, ripc__get_le64(buf + 12), again);
	/* One MARK at a time. It begins at the base or up to a window below. */
	if (kind != UC_MARK || rx->answer_pending || upto == from ||
	    upto - from > RIPC__UC_RETRANSMIT_WINDOW ||
	    rx->base - from > RIPC__UC_RETRANSMIT_WINDOW)
		return -EPROTO;
	rx->answer_pending = true;
	rx->from = from;
	rx->upto = upto;
	return 0;
}
