/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The entry that gives way in a full table: attackers, hosts with few connections, and entries that
 * are in use.
 */
#include "base/admission.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ripc__entry entries[4096];
static size_t n;

static void add(uint64_t source, uint64_t since_ns, uint32_t rank)
{
	ck_assert_uint_lt(n, 4096);
	entries[n] = (struct ripc__entry){
		.source = source, .since_ns = since_ns, .rank = rank, .object = (void *)(n + 1)};
	n++;
}

static size_t count(size_t victims, uint64_t source)
{
	size_t found = 0;

	for (size_t i = 0; i < victims; i++)
		found += entries[i].source == source;
	return found;
}

static void setup(void)
{
	n = 0;
}

START_TEST(pick__empty)
{
	ck_assert_uint_eq(ripc__admission_pick(entries, 0, 5), 0);
	add(1, 1, 0);
	ck_assert_uint_eq(ripc__admission_pick(entries, 1, 0), 0);
}
END_TEST

START_TEST(pick__oldest_of_largest_source)
{
	for (unsigned i = 0; i < 10; i++)
		add(7, 100 + i, 0);
	add(8, 1, 0);
	ck_assert_uint_eq(ripc__admission_pick(entries, n, 3), 3);
	ck_assert_uint_eq(count(3, 7), 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(entries[i].since_ns, 100 + i);
}
END_TEST

/* Down to as many as the next one has, then both alike. */
START_TEST(pick__equalizes_sources)
{
	for (unsigned i = 0; i < 30; i++)
		add(1, i, 0);
	for (unsigned i = 0; i < 10; i++)
		add(2, i, 0);
	add(3, 0, 0);
	ck_assert_uint_eq(ripc__admission_pick(entries, n, 30), 30);
	ck_assert_uint_eq(count(30, 1), 25);
	ck_assert_uint_eq(count(30, 2), 5);
}
END_TEST

START_TEST(pick__lowest_rank_first)
{
	add(1, 1, 2);
	add(1, 2, 1);
	add(1, 9, 0);
	ck_assert_uint_eq(ripc__admission_pick(entries, n, 2), 2);
	ck_assert_uint_eq(entries[0].rank, 0);
	ck_assert_uint_eq(entries[1].rank, 1);
}
END_TEST

START_TEST(pick__rank_never_is_counted)
{
	for (unsigned i = 0; i < 20; i++)
		add(1, i, RIPC__RANK_NEVER);
	add(1, 100, 0);
	for (unsigned i = 0; i < 5; i++)
		add(2, i, 0);
	ck_assert_uint_eq(ripc__admission_pick(entries, n, 1), 1);
	ck_assert_uint_eq(entries[0].source, 1);
	ck_assert_uint_eq(entries[0].rank, 0);
	ck_assert_uint_eq(ripc__admission_pick(entries, n, 100), 6);
}
END_TEST

/*
 * A table of 64 in virtual time: one address opens a connection every microsecond, another one
 * every millisecond that is done 200 us later. None of these is displaced.
 */
START_TEST(flood__one_source_evicts_only_itself)
{
	uint64_t served = 0, opened = 0;

	for (uint64_t us = 1; us < 30000; us++) {
		if (us % 1000 == 0) {
			opened++;
			add(2, us, 0);
		}
		add(1, us, 0);
		if (us % 1000 == 200)
			for (size_t i = 0; i < n; i++)
				if (entries[i].source == 2) {
					served++;
					entries[i] = entries[--n];
					i--;
				}
		while (n > 64) {
			ck_assert_uint_eq(ripc__admission_pick(entries, n, 1), 1);
			ck_assert_uint_eq(entries[0].source, 1);
			entries[0] = entries[--n];
		}
	}
	ck_assert_uint_eq(served, opened);
}
END_TEST

START_TEST(descriptors__reserve_follows_limit)
{
	struct rlimit old, tight;

	ck_assert_uint_eq(ripc__descriptor_reserve(16), 4);
	ck_assert_uint_eq(ripc__descriptor_reserve(1024), 128);
	ck_assert_uint_eq(ripc__descriptor_reserve(1 << 20), 256);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	tight.rlim_cur = 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
	ck_assert(!ripc__descriptors_low(55));
	ck_assert(ripc__descriptors_low(56));
	ck_assert(ripc__descriptors_low(-1));
	ck_assert_uint_eq(ripc__pending_max(64), 8);
	ck_assert_uint_eq(ripc__pending_max(4), 4);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
}
END_TEST

START_TEST(pending__rank_by_what_arrived)
{
	int s[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	ck_assert_uint_eq(ripc__pending_rank(s[0]), 0);
	ck_assert_int_eq(write(s[1], "x", 1), 1);
	ck_assert_uint_eq(ripc__pending_rank(s[0]), RIPC__RANK_NEVER);
	/* The byte is still there. */
	ck_assert_uint_eq(ripc__pending_rank(s[0]), RIPC__RANK_NEVER);
	close(s[0]);
	close(s[1]);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	close(s[1]);
	ck_assert_uint_eq(ripc__pending_rank(s[0]), RIPC__RANK_NEVER);
	close(s[0]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/admission");
	TCase *tc = tcase_create("admission");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, pick__empty);
	tcase_add_test(tc, pick__oldest_of_largest_source);
	tcase_add_test(tc, pick__equalizes_sources);
	tcase_add_test(tc, pick__lowest_rank_first);
	tcase_add_test(tc, pick__rank_never_is_counted);
	tcase_add_test(tc, flood__one_source_evicts_only_itself);
	tcase_add_test(tc, descriptors__reserve_follows_limit);
	tcase_add_test(tc, pending__rank_by_what_arrived);
	suite_add_tcase(suite, tc);
	return test_main("base/admission", suite);
}
