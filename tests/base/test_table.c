/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdlib.h>

enum { N = 20000 };

static struct ripc__node nodes[N];
static struct ripc__table table;

static void setup(void)
{
	ripc__table_init(&table, test_seed());
}

static void teardown(void)
{
	ripc__table_fini(&table);
}

START_TEST(find__empty_table)
{
	ck_assert_ptr_null(ripc__table_find(&table, 1));
}
END_TEST

START_TEST(add__grows_and_remove__shrinks)
{
	for (unsigned i = 0; i < N; i++) {
		nodes[i].id = (uint64_t)i << 40;
		ripc__table_add(&table, &nodes[i]);
	}
	ck_assert_uint_eq(table.count, N);
	ck_assert_uint_ge(table.nbuckets, N);
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(ripc__table_find(&table, (uint64_t)i << 40), &nodes[i]);
	ck_assert_ptr_null(ripc__table_find(&table, 1));
	for (unsigned i = 0; i < N; i++) {
		ripc__table_remove(&table, &nodes[i]);
		ck_assert_ptr_null(ripc__table_find(&table, (uint64_t)i << 40));
		if (i + 1 < N)
			ck_assert_ptr_eq(ripc__table_find(&table, (uint64_t)(N - 1) << 40),
					 &nodes[N - 1]);
	}
	ck_assert_uint_eq(table.count, 0);
	ck_assert_uint_le(table.nbuckets, 16);
}
END_TEST

static void seen(struct ripc__node *node, void *arg)
{
	bool *flags = arg;

	ck_assert(!flags[node->id]);
	flags[node->id] = true;
}

START_TEST(each__visits_every_node_once)
{
	bool *flags = calloc(1000, sizeof(*flags));

	for (unsigned i = 0; i < 1000; i++) {
		nodes[i].id = i;
		ripc__table_add(&table, &nodes[i]);
	}
	ripc__table_each(&table, seen, flags);
	for (unsigned i = 0; i < 1000; i++)
		ck_assert(flags[i]);
	free(flags);
}
END_TEST

START_TEST(next__finds_all_of_an_id)
{
	unsigned found = 0;

	for (unsigned i = 0; i < 1000; i++) {
		nodes[i].id = i % 100;
		ripc__table_add(&table, &nodes[i]);
	}
	for (struct ripc__node *n = ripc__table_find(&table, 7); n; n = ripc__table_next(n)) {
		ck_assert_uint_eq(n->id, 7);
		found++;
	}
	ck_assert_uint_eq(found, 10);
}
END_TEST

/* With different secrets the same ids lie differently: nobody outside can make them collide. */
START_TEST(secret__spreads_buckets)
{
	struct ripc__table other;
	unsigned same = 0;

	ripc__table_init(&other, table.secret ^ 0x1234567);
	for (unsigned i = 0; i < 512; i++) {
		nodes[i].id = i;
		nodes[1000 + i].id = i;
		ripc__table_add(&table, &nodes[i]);
		ripc__table_add(&other, &nodes[1000 + i]);
	}
	ck_assert_uint_eq(table.nbuckets, other.nbuckets);
	for (unsigned i = 0; i < table.nbuckets; i++)
		same += table.buckets[i] && other.buckets[i] &&
			table.buckets[i]->id == other.buckets[i]->id;
	ck_assert_uint_lt(same, 50);
	ripc__table_fini(&other);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/table");
	TCase *tc = tcase_create("table");

	test_seed();
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, find__empty_table);
	tcase_add_test(tc, add__grows_and_remove__shrinks);
	tcase_add_test(tc, each__visits_every_node_once);
	tcase_add_test(tc, next__finds_all_of_an_id);
	tcase_add_test(tc, secret__spreads_buckets);
	suite_add_tcase(suite, tc);
	return test_main("base/table", suite);
}
