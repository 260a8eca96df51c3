/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "../tools/histogram.h"

#include <math.h>
#include <stdlib.h>

#define SAMPLES 50000

static const double percents[] = {0, 1, 10, 50, 90, 99, 99.9, 99.99, 100};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Counts the values, and compares every figure with the exact one of the sorted values. */
static void check_against_exact(uint64_t *values, size_t n)
{
	struct histogram *h = histogram_new();
	double sum = 0;

	ck_assert_ptr_nonnull(h);
	for (size_t i = 0; i < n; i++) {
		histogram_add(h, values[i]);
		sum += (double)values[i];
	}
	qsort(values, n, sizeof(*values), compare);
	ck_assert_uint_eq(histogram_count(h), n);
	ck_assert_uint_eq(histogram_min(h), values[0]);
	ck_assert_uint_eq(histogram_max(h), values[n - 1]);
	ck_assert_double_eq_tol(histogram_mean(h), sum / (double)n, sum / (double)n * 1e-9);
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
		size_t rank = (size_t)ceil(percents[i] / 100 * (double)n);
		uint64_t exact = values[rank ? rank - 1 : 0];
		uint64_t got = histogram_percentile(h, percents[i]);
		uint64_t off = got > exact ? got - exact : exact - got;

		ck_assert_msg(off <= exact / 2048, "p%g is %llu, exact %llu", percents[i],
			      (unsigned long long)got, (unsigned long long)exact);
	}
	histogram_free(h);
}

START_TEST(histogram_add__small_values_are_exact)
{
	struct histogram *h = histogram_new();

	for (uint64_t v = 0; v < 2048; v++)
		histogram_add(h, v);
	for (unsigned i = 1; i <= 2048; i++)
		ck_assert_uint_eq(histogram_percentile(h, 100.0 * i / 2048), i - 1);
	histogram_free(h);
}
END_TEST

START_TEST(histogram_add__every_power_of_two_and_its_neighbours)
{
	for (unsigned bit = 1; bit < 40; bit++) {
		for (int d = -1; d <= 1; d++) {
			struct histogram *h = histogram_new();
			uint64_t v = ((uint64_t)1 << bit) + (uint64_t)d, got;

			/*
			 * Two outliers on either side, so that the clamp to min and max cannot hide
			 * an error.
			 */
			histogram_add(h, 0);
			histogram_add(h, v);
			histogram_add(h, UINT64_C(1) << 41);
			got = histogram_percentile(h, 50);
			ck_assert_uint_le(got > v ? got - v : v - got, v / 2048);
			histogram_free(h);
		}
	}
}
END_TEST

START_TEST(histogram_add__beyond_the_range)
{
	struct histogram *h = histogram_new();

	histogram_add(h, 5);
	histogram_add(h, UINT64_MAX);
	ck_assert_uint_eq(histogram_min(h), 5);
	ck_assert_uint_eq(histogram_max(h), UINT64_MAX);
	ck_assert_uint_eq(histogram_percentile(h, 50), 5);
	ck_assert_uint_eq(histogram_percentile(h, 99), UINT64_MAX);
	histogram_free(h);
}
END_TEST

START_TEST(histogram_merge__equals_adding_all)
{
	struct histogram *a = histogram_new(), *b = histogram_new(), *both = histogram_new();
	uint64_t state = test_seed();
	double mean;

	for (unsigned i = 0; i < 10000; i++) {
		uint64_t v = test_random(&state) >> (24 + test_random(&state) % 40);

		histogram_add(i & 1 ? a : b, v);
		histogram_add(both, v);
	}
	histogram_merge(a, b);
	ck_assert_uint_eq(histogram_count(a), histogram_count(both));
	ck_assert_uint_eq(histogram_min(a), histogram_min(both));
	ck_assert_uint_eq(histogram_max(a), histogram_max(both));
	mean = histogram_mean(both);
	ck_assert_double_eq_tol(histogram_mean(a), mean, mean * 1e-9);
	for (double p = 0; p <= 100; p += 0.5)
		ck_assert_uint_eq(histogram_percentile(a, p), histogram_percentile(both, p));
	histogram_free(a);
	histogram_free(b);
	histogram_free(both);
}
END_TEST

START_TEST(histogram_merge__with_an_empty_one)
{
	struct histogram *a = histogram_new(), *empty = histogram_new();

	histogram_add(a, 7000);
	histogram_merge(a, empty);
	ck_assert_uint_eq(histogram_min(a), 7000);
	histogram_merge(empty, a);
	ck_assert_uint_eq(histogram_min(empty), 7000);
	ck_assert_uint_eq(histogram_max(empty), 7000);
	histogram_free(a);
	histogram_free(empty);
}
END_TEST

START_TEST(histogram_percentile__empty)
{
	struct histogram *h = histogram_new();

	ck_assert_uint_eq(histogram_count(h), 0);
	ck_assert_uint_eq(histogram_min(h), 0);
	ck_assert_uint_eq(histogram_max(h), 0);
	ck_assert_uint_eq(histogram_percentile(h, 50), 0);
	ck_assert_double_eq(histogram_mean(h), 0);
	histogram_free(h);
}
END_TEST

START_TEST(histogram_percentile__one_value)
{
	struct histogram *h = histogram_new();

	histogram_add(h, 123457);
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
		ck_assert_uint_eq(histogram_percentile(h, percents[i]), 123457);
	histogram_free(h);
}
END_TEST

START_TEST(histogram_percentile__uniform)
{
	uint64_t *values = malloc(SAMPLES * sizeof(*values)), state = test_seed();

	for (size_t i = 0; i < SAMPLES; i++)
		values[i] = test_random(&state) % 10000000;
	check_against_exact(values, SAMPLES);
	free(values);
}
END_TEST

START_TEST(histogram_percentile__exponential)
{
	uint64_t *values = malloc(SAMPLES * sizeof(*values)), state = test_seed();

	for (size_t i = 0; i < SAMPLES; i++) {
		double u = (double)((test_random(&state) >> 11) + 1) / 9007199254740993.0;

		values[i] = 5000 + (uint64_t)(-log(u) * 30000);
	}
	check_against_exact(values, SAMPLES);
	free(values);
}
END_TEST

START_TEST(histogram_percentile__all_magnitudes)
{
	uint64_t *values = malloc(SAMPLES * sizeof(*values)), state = test_seed();

	for (size_t i = 0; i < SAMPLES; i++)
		values[i] = test_random(&state) >> (24 + test_random(&state) % 40);
	check_against_exact(values, SAMPLES);
	free(values);
}
END_TEST

START_TEST(histogram_percentile__few_samples)
{
	uint64_t state = test_seed(), values[40];

	for (size_t n = 1; n <= 40; n++) {
		for (size_t i = 0; i < n; i++)
			values[i] = test_random(&state) % 1000000;
		check_against_exact(values, n);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("histogram");
	TCase *add = tcase_create("add"), *merge = tcase_create("merge"),
	      *percentile = tcase_create("percentile");

	test_seed();
	tcase_add_test(add, histogram_add__small_values_are_exact);
	tcase_add_test(add, histogram_add__every_power_of_two_and_its_neighbours);
	tcase_add_test(add, histogram_add__beyond_the_range);
	tcase_add_test(merge, histogram_merge__equals_adding_all);
	tcase_add_test(merge, histogram_merge__with_an_empty_one);
	tcase_add_test(percentile, histogram_percentile__empty);
	tcase_add_test(percentile, histogram_percentile__one_value);
	tcase_add_test(percentile, histogram_percentile__uniform);
	tcase_add_test(percentile, histogram_percentile__exponential);
	tcase_add_test(percentile, histogram_percentile__all_magnitudes);
	tcase_add_test(percentile, histogram_percentile__few_samples);
	suite_add_tcase(suite, add);
	suite_add_tcase(suite, merge);
	suite_add_tcase(suite, percentile);
	return test_main("tools/histogram", suite);
}
