/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/immediate.h"
#include "core/memory/standing.h"
#include "core/peer/peer.h"
#include "core/rendezvous/delayed_ack.h"

#include <errno.h>

_Static_assert(RIPC__IMM_ACKED_MASK + 1 >= RIPC__REQUESTS_MAX,
	       "the lower bits name one of the requests without an ACK");

bool ripc__immediate_of(const struct ripc_request *r, uint32_t *word)
{
	const struct ripc__delayed_ack *ack = &r->ctx->delayed_ack;
	const struct ripc__long_context *last = &r->lane->memory->tx_long;
	const struct ripc__request_item *it = &r->items[0];
	struct ripc__immediate m = {0};
	uint64_t base;

	if (r->nitems != 1 || r->nreturns || r->ext.flags || it->how != RIPC__HOW_WRITTEN ||
	    !it->remote_return->pooled || it->posted ||
	    it->len > r->ctx->tp[r->lane->tp].limits.rdma_max)
		return false;
	base = ripc__oldest_request(r->peer);
	if (last->dest != r->dest_id || last->source != r->source || last->request + 1 != r->id ||
	    r->id - base > RIPC__IMM_OLDER_MAX)
		return false;
	m.older = (uint32_t)(r->id - base);
	m.buffer = it->remote_return->desc.how;
	if (ack->held && ack->lane == r->lane && !(ack->word & RIPC__ACK_REUSABLE))
		return false;
	if (ripc__delayed_ack_piggybacks(r->lane, 0))
		m.acked = ack->word;
	*word = ripc__immediate_put(&m);
	return true;
}

void ripc__immediate_sent(const struct ripc_request *r)
{
	/* Without memory the next LONG is sent in full. */
	struct ripc__lane_memory *m = ripc__lane_memory_get(r->lane);

	if (m)
		m->tx_long = (struct ripc__long_context){r->dest_id, r->source, r->id};
}

int ripc__immediate_get(const struct ripc__lane *lane, const struct ripc__event *ev,
			struct ripc__header *h, uint8_t desc[RIPC__DESC_LEN], const char **why)
{
	const struct ripc__local_return *buffer =
		ripc__standing_find(lane, ripc__immediate_buffer(ev->imm));

	if (!(lane->caps & RIPC__CAP_WRITE_IMM)) {
		*why = "write with immediate data that was not agreed";
		return -EPROTO;
	}
	return ripc__immediate_decode(h, ev->imm, ev->len, &lane->memory->rx_long,
				      buffer ? buffer->id : 0, lane->rx_seq,
				      lane->peer->next_request_id - 1, desc, why);
}

bool ripc__immediate_received(struct ripc__lane *lane, const struct ripc__header *h)
{
	struct ripc__lane_memory *m;

	if (!(lane->caps & RIPC__CAP_WRITE_IMM))
		return true;
	m = ripc__lane_memory_get(lane);
	if (m)
		m->rx_long = (struct ripc__long_context){h->dest, h->source, h->u[0]};
	return m;
}
