/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages between contexts and lane set-up: what is accepted lies within its bytes, adds up, and
 * can be put again.
 */
#include "fuzz.h"
#include "wire/bytes.h"
#include "wire/header.h"
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
	uint8_t check_elided[RIPC__HEADER_MAX + 16], *p;
	struct ripc__header h;
	const char *why = NULL;
	struct ripc__desc d;
	uint64_t payload = 0;

	if (ripc__header_decode(&h, data, size, &why)) {
		check(why && *why);
		return;
	}
	check(strcmp(ripc__kind_name(h.kind), "unknown") != 0);
	check(h.nitems <= RIPC_ITEMS_MAX && h.nreturns <= RIPC_RETURN_BUFFERS_MAX);
	check(h.payload >= data && h.payload + h.payload_len == data + size);
	p = ripc__header_put(check_elided, h.kind, h.flags, h.nitems, h.nreturns, h.dest, h.source);
	if (h.instance)
		ripc__number_stamp(check_elided, h.number);
	else
		ripc__header_stamp(check_elided, h.seq, h.credits);
	if (h.instance) {
		memcpy(p, h.instance, 16);
		p += 16;
	}
	if (h.flags & RIPC__F_ACK) {
		check((h.kind == RIPC__SHORT || h.kind == RIPC__LONG) && !h.instance);
		ripc__put_le64(p, h.acked);
		p += RIPC__ACK_WORD;
	}
	if (h.flags & (RIPC__F_CALL | RIPC__F_REPLY)) {
		check((h.kind == RIPC__SHORT || h.kind == RIPC__LONG) && !h.instance);
		ripc__put_le64(p, h.call);
		ripc__put_le64(p + 8, h.call_word);
		p += RIPC__CALL_EXT;
	}
	/* The fixed words stand before the items. */
	check(h.lens >= data + (p - check_elided));
	for (unsigned i = 0; p - check_elided < h.lens - data; i++, p += 8) {
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
	for (unsigned i = 0; i < h.nreturns; i++) {
		ripc__desc_get(&d, h.returns, i);
		p = ripc__desc_put(p, &d);
	}
	check(payload == h.payload_len || h.kind == RIPC__JOIN || h.kind == RIPC__MEMBER);
	check((size_t)(p - check_elided) + h.payload_len == size);
	check(!memcmp(check_elided, data, (size_t)(p - check_elided)));
}

/* An accepted elided message is a SHORT with one item, the whole rest, and can be encoded again. */
static void check_elided(const uint8_t *data, size_t size)
{
	static const struct ripc__header_context last = {true, 1, 2}, nothing;
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
	check(h.payload == data + RIPC__ELIDED_LEN && h.payload + h.payload_len == data + size);
	check(ripc__get_le32(h.lens) == h.payload_len);
	check(ripc__get_le32(data) == ripc__elided_word(h.seq, h.credits));
	/* One or the other. */
	check(ripc__header_decode(&h, data, size, &why));
}

static void hello(const uint8_t *data, size_t size)
{
	uint8_t check_elided[RIPC__HELLO_LEN];
	struct ripc__hello h;
	const char *why = NULL;

	if (ripc__hello_decode(&h, data, size, &why)) {
		check(why && *why);
		return;
	}
	check(size >= RIPC__HELLO_LEN && h.refusal < RIPC__REFUSE_END);
	ripc__hello_encode(&h, check_elided);
	/* All but what is reserved. */
	check(!memcmp(check_elided, data, 6) && !memcmp(check_elided + 8, data + 8, 56));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	header(data, size);
	check_elided(data, size);
	hello(data, size);
	return 0;
}
