/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/immediate.h"

#define ACKS (1u << 13)

uint32_t ripc__immediate_put(const struct ripc__immediate *m)
{
	uint32_t acked = (uint32_t)m->acked & RIPC__IMM_ACKED_MASK;

	return (m->older & RIPC__IMM_OLDER_MAX) << 9 | (m->acked ? ACKS | acked << 14 : 0) |
	       (m->buffer & RIPC__IMM_BUFFER_MASK) << 24;
}

int ripc__immediate_decode(struct ripc__header *h, uint32_t word, uint32_t len,
			   const struct ripc__long_context *last, uint32_t buffer, uint32_t seq,
			   uint64_t newest, uint8_t desc[RIPC__DESC_LEN], const char **why)
{
	struct ripc__desc d = {.addr = buffer, .len = len, .how = RIPC__HOW_WRITTEN};
	uint64_t request = last->request + 1, acked = word >> 14 & RIPC__IMM_ACKED_MASK;

	if (!last->request)
		return ripc__malformed(why,
				       "write in place of a long message, and none was before");
	if (!buffer)
		return ripc__malformed(why, "write into an unknown standing buffer");
	if (!len)
		return ripc__malformed(why, "item length out of bounds");
	ripc__desc_put(desc, &d);
	*h = (struct ripc__header){
		.kind = RIPC__LONG,
		.nitems = 1,
		.credits = word >> 4 & RIPC__IMM_CREDITS_MAX,
		.seq = (seq & ~RIPC__IMM_SEQ_MASK) | (word & RIPC__IMM_SEQ_MASK),
		.dest = last->dest,
		.source = last->source,
		.u = {request, request - (word >> 9 & RIPC__IMM_OLDER_MAX)},
		.items = desc,
		.returns = desc + RIPC__DESC_LEN,
		.payload = desc + RIPC__DESC_LEN,
	};
	if (word & ACKS) {
		h->flags = RIPC__F_ACK;
		/* At most RIPC__REQUESTS_MAX follow one another without an ACK. */
		h->acked =
			(newest - ((newest - acked) & RIPC__IMM_ACKED_MASK)) | RIPC__ACK_REUSABLE;
	}
	return 0;
}
