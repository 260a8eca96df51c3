/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages between contexts and lane set-up: what is accepted lies within its bytes, adds up, and
 * can be put again.
 */
#include "fuzz.h"
#include "wire/bytes.h"
#include "wire/elided.h"
#include "wire/hello.h"

#include <stdlib.h>
#include <string.h>

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void header(const uint8_t *data, size_t size)
{
	uint8_t copy[RIPC__HEADER_MAX + 16], *p;
	struct ripc__header h;
	const char *why = NULL;
	struct ripc__call_words call;
	struct ripc__desc d;
	uint64_t payload = 0;

	if (ripc__header_decode(&h, data, size, &why)) {
		check(why && *why);
		return;
	}
	call = (struct ripc__call_words){h.call, h.call_word};
	check(h.kind && h.kind < RIPC__KIND_END);
	check(h.nitems <= RIPC_ITEMS_MAX && h.nreturns <= RIPC_RETURN_BUFFERS_MAX);
	check(h.payload >= data && h.payload + h.payload_len == data + size);
	p = ripc__header_put(copy, h.kind, h.flags, h.nitems, h.nreturns, h.dest, h.source);
	if (h.instance)
		ripc__number_stamp(copy, h.number);
	else
		ripc__header_stamp(copy, h.seq, h.credits);
	if (h.instance) {
		memcpy(p, h.instance, 16);
		p += 16;
	}
	if (h.flags & RIPC__F_ACK) {
		check((h.kind == RIPC__SHORT || h.kind == RIPC__LONG) && !h.instance);
		ripc__put_le64(p, h.acked);
		p += RIPC__ACK_WORD;
	}
	check(!ripc__call_len(h.flags) ||
	      ((h.kind == RIPC__SHORT || h.kind == RIPC__LONG) && !h.instance));
	/* Behind the lengths of a SHORT. */
	if (h.kind == RIPC__LONG)
		p = ripc__call_put(p, h.flags, &call);
	/* The fixed words stand before the items. */
	check(h.lens >= data + (p - copy));
	for (unsigned i = 0; p - copy < h.lens - data; i++, p += 8) {
		check(i < 2);
		ripc__put_le64(p, h.u[i]);
	}
	for (unsigned i = 0; i < h.nitems; i++) {
		if (h.kind == RIPC__SHORT || h.kind == RIPC__GROUP) {
			payload += ripc__get_le32(h.lens + 4 * i);
			ripc__put_le32(p, ripc__get_le32(h.lens + 4 * i));
			p += 4;
			continue;
		}
		ripc__desc_get(&d, h.items, i);
		if (h.kind == RIPC__LONG) {
			check(d.how <= RIPC__HOW_MAPPED);
			payload += d.how == RIPC__HOW_INLINE ? d.len : 0;
		}
		p = ripc__desc_put(p, &d);
	}
	if (h.kind == RIPC__SHORT)
		p = ripc__call_put(p, h.flags, &call);
	for (unsigned i = 0; i < h.nreturns; i++) {
		ripc__desc_get(&d, h.returns, i);
		p = ripc__desc_put(p, &d);
	}
	check(payload == h.payload_len || h.kind == RIPC__JOIN || h.kind == RIPC__MEMBER);
	check((size_t)(p - copy) + h.payload_len == size);
	check(!memcmp(copy, data, (size_t)(p - copy)));
}

/* An accepted elided message is a SHORT with one item, the whole rest, and can be encoded again. */
static void check_elided(const uint8_t *data, size_t size)
{
	static const struct ripc__header_context last = {1, 2}, nothing;
	struct ripc__header h;
	const char *why = NULL;
	uint8_t lens[4];

	check(ripc__elided_decode(&h, data, size, &nothing, 0, lens, &why) && why && *why);
	why = NULL;
	if (ripc__elided_decode(&h, data, size, &last, 0x12345678, lens, &why)) {
		check(why && *why);
		return;
	}
	check(h.kind == RIPC__SHORT && h.nitems == 1 && !h.nreturns && !h.instance);
	check(h.dest == 1 && h.source == 2 && h.seq >> 16 == 0x1234);
	check(h.payload == data + RIPC__ELIDED_LEN + ripc__call_len(h.flags) &&
	      h.payload + h.payload_len == data + size);
	check(ripc__get_le32(h.lens) == h.payload_len);
	check(ripc__get_le32(data) == ripc__elided_word(h.flags, h.seq, h.credits));
	check(!ripc__call_len(h.flags) ||
	      (h.call == ripc__get_le64(data + RIPC__ELIDED_LEN) &&
	       h.call_word == ripc__get_le64(data + RIPC__ELIDED_LEN + 8)));
	/* One or the other. */
	check(ripc__header_decode(&h, data, size, &why));
}

/* A datagram with a short header has one item, the whole rest, and can be encoded again. */
static void check_elided_datagram(const uint8_t *data, size_t size)
{
	static const struct ripc__header_context context = {1, 2};
	static const uint8_t instance[16];
	uint8_t copy[RIPC__ELIDED_DATAGRAM_LEN], lens[4];
	uint64_t first = UINT64_C(0xfedcba9876543210);
	struct ripc__header h;
	const char *why = NULL;

	if (size < RIPC__ELIDED_DATAGRAM_LEN || data[0] != RIPC__ELIDED_DATAGRAM)
		return;
	ripc__elided_datagram_decode(&h, data, size, &context, first, instance, lens);
	check(h.kind == RIPC__SHORT && h.nitems == 1 && !h.nreturns && h.instance == instance);
	check(h.dest == 1 && h.source == 2 && h.number - first <= UINT32_MAX);
	check(h.payload + h.payload_len == data + size && ripc__get_le32(h.lens) == h.payload_len);
	ripc__elided_datagram_put(copy, ripc__datagram_word(ripc__get_le64(data) >> 8), h.number);
	check(!memcmp(copy, data, sizeof(copy)));
	/* One or the other. */
	check(ripc__header_decode(&h, data, size, &why));
}

static void hello(const uint8_t *data, size_t size)
{
	uint8_t copy[RIPC__HELLO_LEN];
	struct ripc__hello h;
	const char *why = NULL;

	if (ripc__hello_decode(&h, data, size, &why)) {
		check(why && *why);
		return;
	}
	check(size >= RIPC__HELLO_LEN && h.refusal < RIPC__REFUSE_END);
	ripc__hello_encode(&h, copy);
	/* All but what is reserved. */
	check(!memcmp(copy, data, 6) && !memcmp(copy + 8, data + 8, 56));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	header(data, size);
	check_elided(data, size);
	check_elided_datagram(data, size);
	hello(data, size);
	return 0;
}
