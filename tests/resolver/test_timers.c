/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "resolver/timers.h"

enum { N = 5000 };

static struct ripc__timer all[N];
static struct ripc__timers timers;
static uint64_t rng;

static void setup(void)
{
	rng = test_seed();
	ripc__timers_init(&timers);
	ck_assert_ptr_null(ripc__timers_first(&timers));
	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(ripc__timers_add(&timers, &all[i], test_random(&rng) % 10000), 0);
}

static void teardown(void)
{
	ripc__timers_fini(&timers);
}

/* Takes all of them out: they must come in order. */
static void check_order(unsigned count)
{
	uint64_t last = 0;

	for (; count; count--) {
		struct ripc__timer *t = ripc__timers_first(&timers);

		ck_assert_ptr_nonnull(t);
		ck_assert_uint_ge(t->at_ns, last);
		last = t->at_ns;
		ripc__timers_remove(&timers, t);
	}
	ck_assert_ptr_null(ripc__timers_first(&timers));
	ck_assert_uint_le(timers.cap, 64);
}

START_TEST(add__comes_in_order)
{
	check_order(N);
}
END_TEST

START_TEST(set__earlier_and_later)
{
	for (unsigned i = 0; i < 4 * N; i++)
		ripc__timers_set(&timers, &all[test_random(&rng) % N], test_random(&rng) % 10000);
	check_order(N);
}
END_TEST

START_TEST(remove__from_anywhere)
{
	for (unsigned i = 0; i < N; i += 3)
		ripc__timers_remove(&timers, &all[i]);
	check_order(N - (N + 2) / 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/timers");
	TCase *tc = tcase_create("timers");

	test_seed();
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, add__comes_in_order);
	tcase_add_test(tc, set__earlier_and_later);
	tcase_add_test(tc, remove__from_anywhere);
	suite_add_tcase(suite, tc);
	return test_main("resolver/timers", suite);
}
