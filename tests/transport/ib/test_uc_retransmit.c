/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes over a lossy link, control messages over a reliable one. */
#include "transport/ib/uc_retransmit.h"
#include "harness.h"
#include "wire/bytes.h"

#include <errno.h>
#include <string.h>

static struct ripc__uc_tx tx;
static struct ripc__uc_rx rx;
static uint8_t buf[RIPC__UC_CONTROL];
static uint64_t again;

static void init(uint32_t first)
{
	memset(&tx, 0, sizeof(tx));
	memset(&rx, 0, sizeof(rx));
	tx.base = tx.next = rx.base = first;
}

/* One MARK and its ANSWER. */
static void ask(bool late)
{
	ck_assert(ripc__uc_mark(&tx, buf));
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), 0);
	ck_assert(ripc__uc_answer(&rx, late, buf));
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), 0);
}

START_TEST(mark__when_all_sent)
{
	init(0);
	ck_assert(!ripc__uc_mark(&tx, buf));
	ripc__uc_write(&tx);
	ripc__uc_write(&tx);
	ripc__uc_sent(&tx, 0);
	ck_assert(!ripc__uc_mark(&tx, buf));
	ripc__uc_sent(&tx, 1);
	ck_assert(ripc__uc_mark(&tx, buf));
	/* One MARK at a time. */
	ck_assert(!ripc__uc_mark(&tx, buf));
}
END_TEST

START_TEST(answer__waits_for_what_is_missing)
{
	init(UINT32_MAX);
	for (int i = 0; i < 3; i++)
		ripc__uc_sent(&tx, ripc__uc_write(&tx));
	ripc__uc_received(&rx, UINT32_MAX);
	ripc__uc_received(&rx, 1);
	ck_assert(!ripc__uc_answer(&rx, true, buf));
	ck_assert(ripc__uc_mark(&tx, buf));
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), 0);
	ck_assert(!ripc__uc_answer(&rx, false, buf));
	ck_assert(ripc__uc_answer(&rx, true, buf));
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), 0);
	ck_assert_uint_eq(again, 1);
	ck_assert_uint_eq(tx.base, 0);
	ripc__uc_sent(&tx, 0);
	ripc__uc_received(&rx, 0);
	ask(false);
	ck_assert_uint_eq(again, 0);
	ck_assert_uint_eq(tx.base, 2);
	ck_assert_uint_eq(rx.base, 2);
}
END_TEST

/*
 * Random losses, windows of all sizes, wrapping numbers: every write is acknowledged, and only
 * after it arrived.
 */
START_TEST(uc__lossy)
{
	uint64_t rng = test_seed();
	bool here[256] = {false};
	uint32_t first = (uint32_t)-1000, done = first;

	init(first);
	for (int round = 0; round < 20000; round++) {
		unsigned loss = (unsigned)(test_random(&rng) % 60);
		uint32_t n = (uint32_t)(test_random(&rng) % 65);

		while (n-- && ripc__uc_space(&tx, tx.base)) {
			uint32_t number = ripc__uc_write(&tx);

			here[number % 256] = test_random(&rng) % 100 >= loss;
			if (here[number % 256])
				ripc__uc_received(&rx, number);
			ripc__uc_sent(&tx, number);
		}
		if (tx.base == tx.next)
			continue;
		ask(true);
		for (uint32_t i = 0; i < 64; i++) {
			uint32_t number = tx.base + i;

			if (!(again >> (number % 64) & 1))
				continue;
			ck_assert(!here[number % 256]);
			here[number % 256] = test_random(&rng) % 100 >= loss;
			if (here[number % 256])
				ripc__uc_received(&rx, number);
			/* Duplicates. */
			if (here[number % 256] && test_random(&rng) % 4 == 0)
				ripc__uc_received(&rx, number);
			ripc__uc_sent(&tx, number);
		}
		for (; done != tx.base; done++)
			ck_assert(here[done % 256]);
		ck_assert_uint_le(tx.next - tx.base, RIPC__UC_RETRANSMIT_WINDOW);
	}
	ck_assert_uint_gt(done - first, 10000);
}
END_TEST

START_TEST(control__malformed)
{
	uint64_t rng = test_seed();

	init(5);
	ripc__uc_sent(&tx, ripc__uc_write(&tx));
	ck_assert(ripc__uc_mark(&tx, buf));
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf) - 1, &again), -EPROTO);
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), 0);
	/* A second MARK before the first is answered. */
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), -EPROTO);
	ck_assert(ripc__uc_answer(&rx, true, buf));
	buf[8]++;
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), -EPROTO);
	buf[8]--;
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), 0);
	/* An ANSWER without a MARK. */
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), -EPROTO);
	for (int i = 0; i < 100000; i++) {
		for (unsigned k = 0; k < sizeof(buf); k++)
			buf[k] = (uint8_t)(test_random(&rng) % (k % 4 ? 2 : 256));
		if (!ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again))
			ripc__uc_answer(&rx, true, buf);
		ck_assert_uint_le(tx.next - tx.base, RIPC__UC_RETRANSMIT_WINDOW);
	}
}
END_TEST

/* A MARK begins at the base or up to a window below it, and covers a window at most. */
START_TEST(control__bounds_of_mark)
{
	static const struct {
		int32_t from, upto; /* from the base */
		bool valid;
	} cases[] = {
		{0, 1, true},   {0, 64, true},     {0, 65, false},   {0, 0, false},
		{1, 2, false},  {-1, 0, true},     {-1, 63, true},   {-1, 64, false},
		{-64, 0, true}, {-64, 1, false},   {-65, -1, false}, {-64, -63, true},
		{-63, 1, true}, {-65, -64, false},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		init(5);
		ripc__put_le32(buf, 1);
		ripc__put_le32(buf + 4, 5 + (uint32_t)cases[i].from);
		ripc__put_le32(buf + 8, 5 + (uint32_t)cases[i].upto);
		ripc__put_le64(buf + 12, 0);
		ck_assert_msg(!ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again) ==
				      cases[i].valid,
			      "case %u", i);
		ck_assert(rx.answer_pending == cases[i].valid);
	}
	init(5);
	ripc__put_le32(buf, 3);
	ripc__put_le32(buf + 4, 5);
	ripc__put_le32(buf + 8, 6);
	ck_assert_int_eq(ripc__uc_control(&tx, &rx, buf, sizeof(buf), &again), -EPROTO);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ib/uc_retransmit");
	TCase *c = tcase_create("window");

	tcase_add_test(c, mark__when_all_sent);
	tcase_add_test(c, answer__waits_for_what_is_missing);
	tcase_add_test(c, uc__lossy);
	tcase_add_test(c, control__malformed);
	tcase_add_test(c, control__bounds_of_mark);
	tcase_set_timeout(c, 60);
	suite_add_tcase(s, c);
	return test_main("transport/ib/uc_retransmit", s);
}
