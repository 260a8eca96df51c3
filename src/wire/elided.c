/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire/elided.h"

int ripc__elided_decode(struct ripc__header *h, const uint8_t *buf, size_t len,
			const struct ripc__header_context *last, uint32_t seq, uint8_t lens[4],
			const char **why)
{
	const uint8_t *p, *end = buf + len;
	uint32_t word;

	if (len < RIPC__ELIDED_LEN)
		return ripc__malformed(why, "truncated");
	p = buf + RIPC__ELIDED_LEN;
	word = ripc__get_le32(buf);
	if (!ripc__is_elided(buf[0]))
		return ripc__malformed(why, "not a libripc message");
	if (!last->dest)
		return ripc__malformed(why, "elided header, and no full one was before");
	*h = (struct ripc__header){
		.kind = RIPC__SHORT,
		.flags = (uint16_t)ripc__elided_flags(buf[0]),
		.nitems = 1,
		.credits = word >> 8 & 0xff,
		.seq = (seq & 0xffff0000) | word >> 16,
		.dest = last->dest,
		.source = last->source,
		.lens = lens,
		.items = lens,
	};
	if (ripc__call_get(h, &p, end, why))
		return -EPROTO;
	h->returns = h->payload = p;
	h->payload_len = (uint64_t)(end - p);
	ripc__put_le32(lens, (uint32_t)h->payload_len);
	return 0;
}

void ripc__elided_datagram_decode(struct ripc__header *h, const uint8_t *buf, size_t len,
				  const struct ripc__header_context *context, uint64_t first,
				  const uint8_t *instance, uint8_t lens[4])
{
	*h = (struct ripc__header){
		.kind = RIPC__SHORT,
		.flags = RIPC__F_INSTANCE,
		.nitems = 1,
		.number = ripc__elided_datagram_number(buf, first),
		.dest = context->dest,
		.source = context->source,
		.instance = instance,
		.lens = lens,
		.items = lens,
		.returns = buf + RIPC__ELIDED_DATAGRAM_LEN,
		.payload = buf + RIPC__ELIDED_DATAGRAM_LEN,
		.payload_len = len - RIPC__ELIDED_DATAGRAM_LEN,
	};
	ripc__put_le32(lens, (uint32_t)h->payload_len);
}
