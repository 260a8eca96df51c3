/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Immediate data in place of a LONG: its bits, and the message that it stands for. */
#include "harness.h"
#include "wire/immediate.h"

#include <errno.h>

static const struct ripc__long_context last = {0x0102030405060708u, 0x1112131415161718u, 1000};
static uint8_t desc[RIPC__DESC_LEN];

static int decode(struct ripc__header *h, uint32_t word, uint32_t seq, uint64_t newest)
{
	const char *why = NULL;
	int rc = ripc__immediate_decode(h, word, 4096, &last, 0x12345678, seq, newest, desc, &why);

	ck_assert_int_eq(rc == 0, why == NULL);
	return rc;
}

START_TEST(put__bits)
{
	struct ripc__immediate m = {.older = 0xa, .acked = 0x7ffffffffffffdb5u, .buffer = 0xc9e7};

	ck_assert_uint_eq(ripc__immediate_put(&m),
			  0xe7000000u | 0x1b5u << 14 | 1u << 13 | 0xa << 9);
	ck_assert_uint_eq(ripc__immediate_buffer(ripc__immediate_put(&m)), 0xe7);
	m.acked = 0;
	ck_assert_uint_eq(ripc__immediate_put(&m), 0xe7000000u | 0xa << 9);
	ck_assert_uint_eq(ripc__immediate_stamp(0xe7001400, 0x12345679, 0x1f), 0xe70015f9);
}
END_TEST

START_TEST(decode__message)
{
	struct ripc__immediate m = {.older = 3, .buffer = 0x78};
	struct ripc__header h;
	struct ripc__desc d;

	ck_assert_int_eq(
		decode(&h, ripc__immediate_stamp(ripc__immediate_put(&m), 0xabcd, 31), 0xabcd, 0),
		0);
	ck_assert_uint_eq(h.kind, RIPC__LONG);
	ck_assert_uint_eq(h.flags, 0);
	ck_assert_uint_eq(h.nitems, 1);
	ck_assert_uint_eq(h.nreturns, 0);
	ck_assert_uint_eq(h.credits, 31);
	ck_assert_uint_eq(h.seq, 0xabcd);
	ck_assert_uint_eq(h.dest, last.dest);
	ck_assert_uint_eq(h.source, last.source);
	ck_assert_uint_eq(h.u[0], 1001);
	ck_assert_uint_eq(h.u[1], 998);
	ck_assert_uint_eq(h.payload_len, 0);
	ck_assert_ptr_null(h.instance);
	ripc__desc_get(&d, h.items, 0);
	ck_assert_uint_eq(d.addr, 0x12345678);
	ck_assert_uint_eq(d.len, 4096);
	ck_assert_uint_eq(d.key, 0);
	ck_assert_uint_eq(d.how, RIPC__HOW_WRITTEN);
}
END_TEST

START_TEST(decode__seq)
{
	struct ripc__immediate m = {.buffer = 1};
	struct ripc__header h;

	/* Within 16 numbers a wrong one does not decode to the right one. */
	for (uint32_t due = 0xfffffff0; due != 20; due++)
		for (uint32_t skew = 0; skew < 16; skew++) {
			uint32_t word =
				ripc__immediate_stamp(ripc__immediate_put(&m), due + skew, 0);

			ck_assert_int_eq(decode(&h, word, due, 0), 0);
			ck_assert_int_eq(h.seq == due, skew == 0);
		}
}
END_TEST

/* The lower bits of a request name it among the last 1024. */
START_TEST(decode__acked)
{
	const uint64_t newest = 0x123456789abcdef0u;

	for (uint64_t back = 0; back < 2048; back++) {
		struct ripc__immediate m = {.acked = (newest - back) | RIPC__ACK_REUSABLE};
		struct ripc__header h;

		ck_assert_int_eq(decode(&h, ripc__immediate_put(&m), 0, newest), 0);
		ck_assert_uint_eq(h.flags, RIPC__F_ACK);
		ck_assert_uint_eq(h.acked, (newest - back % 1024) | RIPC__ACK_REUSABLE);
	}
}
END_TEST

START_TEST(decode__malformed)
{
	static const struct ripc__long_context nothing;
	struct ripc__header h;
	const char *why[3] = {NULL};

	ck_assert_int_eq(ripc__immediate_decode(&h, 0, 1, &nothing, 1, 0, 0, desc, &why[0]),
			 -EPROTO);
	ck_assert_int_eq(ripc__immediate_decode(&h, 0, 1, &last, 0, 0, 0, desc, &why[1]), -EPROTO);
	ck_assert_int_eq(ripc__immediate_decode(&h, 0, 0, &last, 1, 0, 0, desc, &why[2]), -EPROTO);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(why[i] && *why[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wire/immediate");
	TCase *tc = tcase_create("immediate");

	tcase_add_test(tc, put__bits);
	tcase_add_test(tc, decode__message);
	tcase_add_test(tc, decode__seq);
	tcase_add_test(tc, decode__acked);
	tcase_add_test(tc, decode__malformed);
	suite_add_tcase(suite, tc);
	return test_main("wire/immediate", suite);
}
