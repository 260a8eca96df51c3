/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short headers: the SHORT that each stands for, and what is none. */
#include "harness.h"
#include "wire/elided.h"

#include <errno.h>
#include <string.h>

static const struct ripc__header_context last = {0x0102030405060708u, 0x1112131415161718u};

START_TEST(elided_decode__round_trip)
{
	static const struct {
		uint32_t seq, due;
	} numbers[] = {{0, 0},
		       {7, 7},
		       {0xffff, 0xffff},
		       {0x10000, 0x10000},
		       {0x1234abcd, 0x1234abcd},
		       {UINT32_MAX, UINT32_MAX},
		       {6, 7},
		       {0xffff, 0x10000}};

	static const uint16_t flags[] = {0, RIPC__F_RELIABLE, RIPC__F_RELIABLE | RIPC__F_CALL,
					 RIPC__F_RELIABLE | RIPC__F_REPLY};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) * 4; i++)
		for (size_t len = 0; len < 100; len += 33) {
			const struct ripc__call_words call = {77, 0xfffffffe};
			uint8_t buf[RIPC__ELIDED_LEN + RIPC__CALL_EXT + 100], lens[4], *p;
			unsigned flag = flags[i % 4];
			struct ripc__header h;
			const char *why = NULL;
			uint32_t word;

			memset(&h, 0xff, sizeof(h));
			word = ripc__elided_word(flag, numbers[i / 4].seq, (uint32_t)i * 50 & 0xff);
			ripc__put_le32(buf, word);
			p = ripc__call_put(buf + RIPC__ELIDED_LEN, flag, &call);
			ck_assert_int_eq(p - buf, i % 4 < 2 ? 4 : 20);
			ck_assert_int_eq(ripc__elided_decode(&h, buf, (size_t)(p - buf) + len,
							     &last, numbers[i / 4].due, lens, &why),
					 0);
			ck_assert_uint_eq(h.kind, RIPC__SHORT);
			ck_assert_uint_eq(h.flags, flag);
			ck_assert_uint_eq(h.call, i % 4 < 2 ? 0 : call.id);
			ck_assert_uint_eq(h.call_word, i % 4 < 2 ? 0 : call.word);
			ck_assert_uint_eq(h.nitems, 1);
			ck_assert_uint_eq(h.nreturns, 0);
			ck_assert_ptr_null(h.instance);
			ck_assert_uint_eq(h.credits, i * 50 & 0xff);
			ck_assert_uint_eq(h.dest, last.dest);
			ck_assert_uint_eq(h.source, last.source);
			/* A wrong number does not decode to the right one. */
			ck_assert_int_eq(h.seq == numbers[i / 4].due,
					 numbers[i / 4].seq == numbers[i / 4].due);
			ck_assert_ptr_eq(h.payload, p);
			ck_assert_uint_eq(h.payload_len, len);
			ck_assert_uint_eq(ripc__get_le32(h.lens), len);
		}
}
END_TEST

START_TEST(elided_decode__only_elided)
{
	static const struct ripc__header_context nothing;
	uint8_t buf[RIPC__ELIDED_LEN], lens[4], call[RIPC__ELIDED_LEN + RIPC__CALL_EXT] = {0};
	struct ripc__header h;
	const char *why;
	int rc;

	ripc__put_le32(buf, ripc__elided_word(0, 5, 6));
	for (size_t len = 0; len < sizeof(buf); len++) {
		why = NULL;
		ck_assert_int_eq(ripc__elided_decode(&h, buf, len, &last, 5, lens, &why), -EPROTO);
		ck_assert_str_eq(why, "truncated");
	}
	why = NULL;
	rc = ripc__elided_decode(&h, buf, sizeof(buf), &nothing, 5, lens, &why);
	ck_assert_int_eq(rc, -EPROTO);
	ck_assert(why && *why);
	for (unsigned b = 0; b < 256; b++) {
		buf[0] = (uint8_t)b;
		ck_assert_int_eq(ripc__elided_decode(&h, buf, sizeof(buf), &last, 5, lens, &why),
				 b == RIPC__ELIDED_MAGIC || b == RIPC__ELIDED_RELIABLE ? 0
										       : -EPROTO);
		ck_assert_int_eq(ripc__is_elided((uint8_t)b), b >= 0x61 && b <= 0x64);
	}
	/* A call is complete, and has an id and a word of 32 bits. */
	for (unsigned i = 0; i < 5; i++) {
		size_t len = i == 1 ? sizeof(call) - 1 : sizeof(call);

		call[0] = i & 1 ? RIPC__ELIDED_CALL : RIPC__ELIDED_REPLY;
		ripc__put_le64(call + 4, i != 2);
		ripc__put_le64(call + 12, i == 3 ? UINT64_C(1) << 32 : UINT32_MAX);
		ck_assert_int_eq(ripc__elided_decode(&h, call, len, &last, 0, lens, &why),
				 i && i < 4 ? -EPROTO : 0);
	}
}
END_TEST

/* No header begins as an elided one does: the first byte distinguishes them. */
START_TEST(elided_word__bytes)
{
	static const uint8_t want[RIPC__ELIDED_LEN] = {0x61, 0x32, 0x24, 0x23};
	uint8_t buf[RIPC__FAST_HEADER_LEN] = {0};
	const char *why;
	struct ripc__header h;

	ripc__put_le32(buf, ripc__elided_word(0, 0x21222324, 0x32));
	ck_assert_mem_eq(buf, want, sizeof(want));
	ck_assert_int_eq(ripc__header_decode(&h, buf, sizeof(buf), &why), -EPROTO);
	ripc__header_put(buf, RIPC__SHORT, 0, 1, 0, 1, 2);
	ck_assert(!ripc__is_elided(buf[0]));
	ck_assert_uint_eq((RIPC__FAST_HEADER_LEN - RIPC__ELIDED_LEN) % 32, 0);
}
END_TEST

START_TEST(elided_datagram__bytes)
{
	static const uint8_t want[] = {0x65, 1, 2, 3, 4, 5, 6, 7, 0x24, 0x23, 0x22, 0x21, 'x', 'y'};
	static const struct ripc__header_context context = {11, 22};
	static const uint8_t instance[16] = {9};
	uint8_t buf[sizeof(want)] = {0}, lens[4], *payload;
	uint64_t word = ripc__datagram_word(UINT64_C(0x07060504030201));
	struct ripc__header h;
	const char *why;

	payload = ripc__elided_datagram_put(buf, word, UINT64_C(0x1234567821222324));
	payload[0] = 'x';
	payload[1] = 'y';
	ck_assert_mem_eq(buf, want, sizeof(want));
	ck_assert_int_eq(ripc__header_decode(&h, buf, sizeof(buf), &why), -EPROTO);
	ripc__elided_datagram_decode(&h, buf, sizeof(buf), &context, UINT64_C(0x1234567800000001),
				     instance, lens);
	ck_assert_uint_eq(h.kind, RIPC__SHORT);
	ck_assert_uint_eq(h.flags, RIPC__F_INSTANCE);
	ck_assert_uint_eq(h.number, UINT64_C(0x1234567821222324));
	ck_assert_uint_eq(h.dest, 11);
	ck_assert_uint_eq(h.source, 22);
	ck_assert_uint_eq(h.nitems, 1);
	ck_assert_uint_eq(h.nreturns, 0);
	ck_assert_uint_eq(h.credits, 0);
	ck_assert_uint_eq(h.call, 0);
	ck_assert_ptr_eq(h.instance, instance);
	ck_assert_uint_eq(ripc__get_le32(h.lens), 2);
	ck_assert_ptr_eq(h.payload, buf + RIPC__ELIDED_DATAGRAM_LEN);
	ck_assert_uint_eq(h.payload_len, 2);
	/* The first number may have the higher lower half. */
	ck_assert_uint_eq(ripc__elided_datagram_number(buf, UINT64_C(0x1234567821222324)),
			  UINT64_C(0x1234567821222324));
	ck_assert_uint_eq(ripc__elided_datagram_number(buf, UINT64_C(0x1234567821222325)),
			  UINT64_C(0x1234567921222324));
	ck_assert(!ripc__datagram_id_valid(0) && ripc__datagram_id_valid(1));
	ck_assert(ripc__datagram_id_valid((UINT64_C(1) << 56) - 1));
	ck_assert(!ripc__datagram_id_valid(UINT64_C(1) << 56));
	ck_assert_uint_eq((RIPC__FAST_HEADER_LEN + 16 - RIPC__ELIDED_DATAGRAM_LEN) % 8, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wire/elided");
	TCase *tc = tcase_create("elided");

	tcase_add_test(tc, elided_decode__round_trip);
	tcase_add_test(tc, elided_decode__only_elided);
	tcase_add_test(tc, elided_word__bytes);
	tcase_add_test(tc, elided_datagram__bytes);
	suite_add_tcase(suite, tc);
	return test_main("wire/elided", suite);
}
