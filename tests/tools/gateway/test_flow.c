/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Losses, reordered samples, duplicates and restarts, as the sequences of samples show them. */
#include "../tools/gateway/flow.h"
#include "../tools/histogram.h"
#include "harness.h"

static struct flow flow;

static void setup(void)
{
	flow = (struct flow){0};
	ck_assert(flow_init(&flow));
}

static void teardown(void)
{
	flow_free(&flow);
}

static void add(uint64_t sequence)
{
	const struct sample sample = {.sequence = sequence};

	flow_add(&flow, &sample);
}

static void expect(uint64_t lost, uint64_t reordered, uint64_t duplicates, uint64_t restarts)
{
	ck_assert_uint_eq(flow.lost, lost);
	ck_assert_uint_eq(flow.reordered, reordered);
	ck_assert_uint_eq(flow.duplicates, duplicates);
	ck_assert_uint_eq(flow.restarts, restarts);
}

/* From @first, which may wrap: each sample that is late is counted once as lost, once as late. */
START_TEST(sequence__late)
{
	const uint32_t first = _i ? UINT32_MAX - 1 : 7;

	add(first);
	expect(0, 0, 0, 0);
	add(first + 3);
	expect(2, 0, 0, 0);
	add(first + 1);
	expect(1, 1, 0, 0);
	add(first + 1);
	expect(1, 1, 1, 0);
	add(first + 3);
	expect(1, 1, 2, 0);
	add(first + 2);
	expect(0, 2, 2, 0);
	add(first);
	expect(0, 2, 3, 0);
	add(first + 4);
	expect(0, 2, 3, 0);
}
END_TEST

/* The last 64 sequences are known; older ones count as duplicates, but for 0, a restart. */
START_TEST(sequence__window)
{
	add(1000);
	add(1064);
	expect(63, 0, 0, 0);
	add(1001);
	expect(62, 1, 0, 0);
	add(1000);
	expect(62, 1, 1, 0);
	add(1065);
	add(1065 + 63);
	expect(62 + 62, 1, 1, 0);
	add(1065);
	expect(62 + 62, 1, 2, 0);
	add(0);
	expect(62 + 62, 1, 2, 1);
	add(1);
	expect(62 + 62, 1, 2, 1);
	add(1);
	expect(62 + 62, 1, 3, 1);
}
END_TEST

START_TEST(sequence__restart_nearby)
{
	add(5);
	add(6);
	add(0);
	expect(0, 0, 0, 1);
	add(1);
	expect(0, 0, 0, 1);
}
END_TEST

/* 0 is a restart also where it is one too old to be known. */
START_TEST(sequence__restart_at_the_window)
{
	add(10);
	add(63);
	add(0);
	expect(51, 1, 0, 0);
	add(64);
	add(64 + 63);
	expect(51 + 62, 1, 0, 0);
	teardown();
	setup();
	add(10);
	add(64);
	add(0);
	expect(53, 0, 0, 1);
}
END_TEST

START_TEST(times__negative)
{
	const struct sample samples[] = {
		{.sequence = 0, .origin_ns = 1000, .received_ns = 1000},
		{.sequence = 1, .origin_ns = 1001, .received_ns = 1000},
		{.sequence = 2, .origin_ns = 1001, .received_ns = 1500},
	};

	for (unsigned i = 0; i < 3; i++)
		flow_add(&flow, &samples[i]);
	ck_assert_uint_eq(flow.negative, 1);
	ck_assert_uint_eq(flow.samples, 3);
	ck_assert_uint_eq(histogram_count(flow.latency), 2);
	ck_assert_uint_eq(histogram_count(flow.gap), 2);
	ck_assert_uint_eq(histogram_max(flow.gap), 500);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tools/gateway/flow");
	TCase *tc = tcase_create("flow");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, sequence__late, 0, 2);
	tcase_add_test(tc, sequence__window);
	tcase_add_test(tc, sequence__restart_nearby);
	tcase_add_test(tc, sequence__restart_at_the_window);
	tcase_add_test(tc, times__negative);
	suite_add_tcase(suite, tc);
	return test_main("tools/gateway/flow", suite);
}
