/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages between contexts: round trips of every kind, and every way to break their headers. */
#include "headers.h"
#include "wire/bytes.h"

#include <errno.h>
#include <string.h>

/* _i: the kind. */
START_TEST(decode__round_trip_header)
{
	for (int round = 0; round < 300; round++) {
		struct made m;
		struct ripc__header h;
		struct ripc__desc d;
		const char *why;

		make(&m, (unsigned)_i, 1 + (unsigned)(test_random(&rng) % RIPC_ITEMS_MAX),
		     (unsigned)(test_random(&rng) % (RIPC_RETURN_BUFFERS_MAX + 1)), round & 1);
		ck_assert_int_eq(ripc__header_decode(&h, m.buf, m.len, &why), 0);
		ck_assert_uint_eq(h.kind, kinds[_i].kind);
		ck_assert_uint_eq(h.flags, m.flags);
		ck_assert_uint_eq(h.nitems, m.nitems);
		ck_assert_uint_eq(h.nreturns, m.nreturns);
		ck_assert_uint_eq(h.credits, m.credits);
		ck_assert_uint_eq(h.seq, m.seq);
		ck_assert_uint_eq(h.number, m.number);
		ck_assert_uint_eq(h.dest, m.dest);
		ck_assert_uint_eq(h.source, m.source);
		ck_assert_uint_eq(h.u[0], m.u[0]);
		ck_assert_uint_eq(h.u[1], m.u[1]);
		ck_assert(h.instance ==
			  (m.flags & RIPC__F_INSTANCE ? m.buf + RIPC__HEADER_LEN : NULL));
		ck_assert(h.acked == (m.flags & RIPC__F_ACK ? m.acked : 0));
		ck_assert_uint_eq(h.call, m.call);
		ck_assert_uint_eq(h.call_word, m.call_word);
		for (unsigned i = 0; i < m.nitems; i++) {
			if (kinds[_i].lens) {
				ck_assert_uint_eq(ripc__get_le32(h.lens + 4 * i), m.items[i].len);
			} else {
				ripc__desc_get(&d, h.items, i);
				same_desc(&d, &m.items[i]);
			}
		}
		for (unsigned i = 0; i < m.nreturns; i++) {
			ripc__desc_get(&d, h.returns, i);
			same_desc(&d, &m.returns[i]);
		}
		ck_assert_ptr_eq(h.payload, m.buf + m.payload_at);
		ck_assert_uint_eq(h.payload_len, m.payload_len);
	}
}
END_TEST

START_TEST(decode__every_truncation)
{
	struct made m;

	make(&m, (unsigned)_i, 5, 3, true);
	for (size_t len = 0; len < m.len; len++)
		ck_assert_int_eq(decode(m.buf, len), -EPROTO);
	/* Nor may anything follow. */
	m.buf[m.len] = 0;
	ck_assert_int_eq(decode(m.buf, m.len + 1), kinds[_i].record ? 0 : -EPROTO);
}
END_TEST

START_TEST(decode__every_mutation_of_a_byte)
{
	struct made m;

	make(&m, (unsigned)_i, 3, 2, true);
	for (size_t at = 0; at < m.len; at++) {
		uint8_t was = m.buf[at];

		for (unsigned v = 0; v < 256; v++) {
			m.buf[at] = (uint8_t)v;
			if (at < 3 && v != was)
				ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
			else
				(void)decode(m.buf, m.len);
		}
		m.buf[at] = was;
	}
	ck_assert_int_eq(decode(m.buf, m.len), 0);
}
END_TEST

START_TEST(decode__header_alone_has_32_bytes)
{
	struct made m;

	make(&m, KINDS - 1, 0, 0, false);
	ck_assert_uint_eq(m.len, 32);
	ck_assert_int_eq(decode(m.buf, 31), -EPROTO);
	ck_assert_int_eq(decode(m.buf, 0), -EPROTO);
	ck_assert_int_eq(decode(m.buf, 32), 0);
}
END_TEST

START_TEST(decode__only_known_kinds)
{
	struct made m;

	make(&m, KINDS - 1, 0, 0, false);
	for (unsigned v = 0; v < 256; v++) {
		bool known = v == RIPC__BYE || v == RIPC__NOSERVICE || v == RIPC__WATCH ||
			     v == RIPC__WATCH_END;

		/* Others have more behind the header, or do not exist. */
		m.buf[3] = (uint8_t)v;
		ck_assert_int_eq(decode(m.buf, m.len), known ? 0 : -EPROTO);
	}
}
END_TEST

START_TEST(decode__unknown_flags)
{
	struct made m;

	make(&m, KINDS - 1, 0, 0, false);
	for (unsigned bit = 1; bit < 16; bit++) {
		ripc__put_le16(m.buf + 4, (uint16_t)(1u << bit));
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
}
END_TEST

START_TEST(decode__f_instance_where_allowed)
{
	for (unsigned k = 0; k < KINDS; k++) {
		struct made m;

		make_minimal(&m, k, 1, 0);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 4, RIPC__F_INSTANCE);
		memmove(m.buf + 48, m.buf + 32, m.len - 32);
		memset(m.buf + 32, 7, 16);
		ck_assert_int_eq(decode(m.buf, m.len + 16), kinds[k].instance ? 0 : -EPROTO);
	}
}
END_TEST

/* Flags of SHORT and LONG, which exclude one another in part, and a call has an id. */
START_TEST(decode__call_flags)
{
	static const struct {
		uint16_t flags;
		bool in_short, in_long;
	} cases[] = {
		{RIPC__F_RELIABLE, true, false},
		{RIPC__F_CALL, false, true},
		{RIPC__F_REPLY, false, true},
		{RIPC__F_CALL | RIPC__F_REPLY, false, false},
		{RIPC__F_RELIABLE | RIPC__F_CALL, true, false},
		{RIPC__F_RELIABLE | RIPC__F_REPLY, true, false},
		{RIPC__F_RELIABLE | RIPC__F_CALL | RIPC__F_REPLY, false, false},
		{RIPC__F_ACK_NOW, false, true},
		{RIPC__F_ACK_NOW | RIPC__F_CALL, false, true},
		{RIPC__F_ACK_NOW | RIPC__F_RELIABLE, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool call = cases[i].flags & (RIPC__F_CALL | RIPC__F_REPLY);

		for (unsigned k = 0; k < KINDS; k++) {
			bool ok = kinds[k].kind == RIPC__SHORT
					  ? cases[i].in_short
					  : kinds[k].kind == RIPC__LONG && cases[i].in_long;
			struct made m;
			size_t ext = call ? RIPC__CALL_EXT : 0;
			/* Behind the length of the item of a SHORT. */
			size_t at = kinds[k].lens ? 36 : 32;

			make_minimal(&m, k, 1, 0);
			ripc__put_le16(m.buf + 4, cases[i].flags);
			if (call && m.len >= at) {
				memmove(m.buf + at + ext, m.buf + at, m.len - at);
				memset(m.buf + at, 7, 12);
				memset(m.buf + at + 12, 0, 4);
			}
			ck_assert_int_eq(decode(m.buf, m.len + ext), ok ? 0 : -EPROTO);
			if (!ok || !call)
				continue;
			ck_assert_int_eq(decode(m.buf, m.len + ext - 1), -EPROTO);
			ripc__put_le64(m.buf + at, 0);
			ck_assert_int_eq(decode(m.buf, m.len + ext), -EPROTO);
			ripc__put_le64(m.buf + at, 1);
			ripc__put_le64(m.buf + at + 8, UINT64_C(1) << 32);
			ck_assert_int_eq(decode(m.buf, m.len + ext), -EPROTO);
		}
	}
	/* No return buffers with a reliable short message. */
	for (unsigned k = 0; k < KINDS; k++) {
		struct made m;

		if (kinds[k].kind != RIPC__SHORT)
			continue;
		make_minimal(&m, k, 1, 1);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 4, RIPC__F_RELIABLE);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
}
END_TEST

/* Nor beside an instance id: datagrams end no requests. */
START_TEST(decode__f_ack_only_where_allowed)
{
	for (unsigned k = 0; k < KINDS; k++) {
		struct made m;

		make_minimal(&m, k, 1, 0);
		ripc__put_le16(m.buf + 4, RIPC__F_ACK);
		memmove(m.buf + 40, m.buf + 32, m.len - 32);
		memset(m.buf + 32, 7, 8);
		ck_assert_int_eq(decode(m.buf, m.len + 8), kinds[k].acked ? 0 : -EPROTO);
		ripc__put_le16(m.buf + 4, RIPC__F_ACK | RIPC__F_INSTANCE);
		memmove(m.buf + 56, m.buf + 40, m.len - 32);
		memset(m.buf + 32, 7, 24);
		ck_assert_int_eq(decode(m.buf, m.len + 24), -EPROTO);
	}
}
END_TEST

START_TEST(decode__random_bytes)
{
	for (int i = 0; i < 100000; i++) {
		uint8_t buf[600];
		size_t len = test_random(&rng) % sizeof(buf);

		for (size_t k = 0; k < len; k++)
			buf[k] = (uint8_t)test_random(&rng);
		/* Most get past the first checks. */
		if (i & 3 && len >= 32) {
			ripc__header_put(buf, (uint8_t)(test_random(&rng) % RIPC__KIND_END),
					 test_random(&rng) & 1, (uint16_t)(test_random(&rng) % 6),
					 (uint16_t)(test_random(&rng) % 3), 1, 2);
		}
		(void)decode(buf, len);
	}
}
END_TEST

START_TEST(header_put__bytes)
{
	static const uint8_t want[RIPC__HEADER_LEN] = {
		0x72, 0x70, 5,    13,   1,    0,    2,    0,    8,    7,    6,
		5,    4,    3,    2,    1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
		0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x32, 0x31, 3,    0};
	uint8_t buf[RIPC__HEADER_LEN], *end;

	memset(buf, 0xff, sizeof(buf));
	end = ripc__header_put(buf, 13, 1, 2, 3, 0x0102030405060708u, 0x1112131415161718u);
	ck_assert_ptr_eq(end, buf + RIPC__HEADER_LEN);
	/* Neither sequence nor credits yet. */
	ck_assert_uint_eq(ripc__get_le32(buf + 24), 0);
	ck_assert_uint_eq(ripc__get_le16(buf + 28), 0);
	ripc__header_stamp(buf, 0x21222324, 0x3132);
	ck_assert_mem_eq(buf, want, sizeof(want));
}
END_TEST

START_TEST(control_put__words_of_the_kind)
{
	static const struct {
		unsigned kind, words;
	} cases[] = {{RIPC__BYE, 0}, {RIPC__PING, 1}, {RIPC__ACK, 2}, {RIPC__RELEASE, 2}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint8_t buf[RIPC__CONTROL_MAX];
		unsigned words = cases[i].words;
		size_t len = ripc__control_put(buf, cases[i].kind, 5, 6, words > 0 ? 7 : 0,
					       words > 1 ? 8 : 0);
		struct ripc__header h;
		const char *why;

		ck_assert_uint_eq(len, RIPC__HEADER_LEN + 8 * words);
		ck_assert_int_eq(ripc__header_decode(&h, buf, len, &why), 0);
		ck_assert_uint_eq(h.kind, cases[i].kind);
		ck_assert_uint_eq(h.dest, 5);
		ck_assert_uint_eq(h.source, 6);
		ck_assert(words < 1 || h.u[0] == 7);
		ck_assert(words < 2 || h.u[1] == 8);
	}
}
END_TEST

START_TEST(desc_put__bytes)
{
	static const uint8_t want[RIPC__DESC_LEN] = {
		8,    7,    6,    5,    4,    3,    2,    1,    0x18, 0x17, 0x16, 0x15,
		0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31};
	struct ripc__desc d = {0x0102030405060708u, 0x1112131415161718u, 0x21222324, 0x31323334},
			  back;
	uint8_t buf[2 * RIPC__DESC_LEN];

	ck_assert_ptr_eq(ripc__desc_put(buf + RIPC__DESC_LEN, &d), buf + 2 * RIPC__DESC_LEN);
	ck_assert_mem_eq(buf + RIPC__DESC_LEN, want, sizeof(want));
	ripc__desc_get(&back, buf, 1);
	same_desc(&d, &back);
}
END_TEST

/* The largest headers fit what others reserve for them. */
START_TEST(sizes__largest_header)
{
	struct made m;

	make_minimal(&m, 1, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX);
	ck_assert_uint_eq(m.payload_at, RIPC__HEADER_MAX);
	make(&m, 0, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX, true);
	ck_assert_uint_le(m.payload_at, RIPC__SHORT_HEADER_MAX);
	do
		make(&m, 0, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX, false);
	while (m.flags != RIPC__F_ACK);
	ck_assert_uint_eq(m.payload_at, RIPC__SHORT_HEADER_MAX);
	ck_assert_uint_ge(RIPC__MSG_MIN_MAX, RIPC__SHORT_HEADER_MAX + RIPC_SHORT_GUARANTEED);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wire/header");
	TCase *tc = tcase_create("header");

	test_seed();
	tcase_add_checked_fixture(tc, headers_setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, decode__round_trip_header, 0, KINDS);
	tcase_add_loop_test(tc, decode__every_truncation, 0, KINDS);
	tcase_add_loop_test(tc, decode__every_mutation_of_a_byte, 0, KINDS);
	tcase_add_test(tc, decode__header_alone_has_32_bytes);
	tcase_add_test(tc, decode__only_known_kinds);
	tcase_add_test(tc, decode__unknown_flags);
	tcase_add_test(tc, decode__f_instance_where_allowed);
	tcase_add_test(tc, decode__call_flags);
	tcase_add_test(tc, decode__f_ack_only_where_allowed);
	tcase_add_test(tc, decode__random_bytes);
	tcase_add_test(tc, header_put__bytes);
	tcase_add_test(tc, control_put__words_of_the_kind);
	tcase_add_test(tc, desc_put__bytes);
	tcase_add_test(tc, sizes__largest_header);
	suite_add_tcase(suite, tc);
	return test_main("wire/header", suite);
}
