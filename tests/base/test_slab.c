/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "base/slab.h"

START_TEST(slab_get__reuses_free_ones)
{
	struct ripc__slab_pool pool;
	struct ripc__slab *a, *b;

	ripc__slab_pool_init(&pool, 4 * RIPC__SLAB_BYTES);
	a = ripc__slab_get(&pool, RIPC__SLAB_BYTES);
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq((uintptr_t)a->data % 64, 0);
	a->refs++;
	ripc__slab_put(a);
	b = ripc__slab_get(&pool, RIPC__SLAB_BYTES);
	ck_assert_ptr_ne(a, b);
	ripc__slab_put(a);
	ck_assert_ptr_eq(ripc__slab_get(&pool, RIPC__SLAB_BYTES), a);
	ck_assert_uint_eq(pool.bytes, 2 * RIPC__SLAB_BYTES);
	ripc__slab_put(a);
	ripc__slab_put(b);
	ck_assert_uint_eq(pool.nfree, 2);
	ripc__slab_pool_fini(&pool);
}
END_TEST

START_TEST(slab_get__bounded)
{
	struct ripc__slab_pool pool;
	struct ripc__slab *slabs[2], *other;

	ripc__slab_pool_init(&pool, 2 * RIPC__SLAB_BYTES);
	slabs[0] = ripc__slab_get(&pool, RIPC__SLAB_BYTES);
	slabs[1] = ripc__slab_get(&pool, RIPC__SLAB_BYTES);
	ck_assert_ptr_nonnull(slabs[1]);
	ck_assert_ptr_null(ripc__slab_get(&pool, RIPC__SLAB_BYTES));
	/* A message that has begun still finds memory, up to the double. */
	other = ripc__slab_get(&pool, RIPC__SLAB_BYTES + 64);
	ck_assert_ptr_nonnull(other);
	ck_assert_ptr_null(ripc__slab_get(&pool, RIPC__SLAB_BYTES - 1));
	ripc__slab_put(other);
	ck_assert_uint_eq(pool.bytes, 2 * RIPC__SLAB_BYTES);
	ripc__slab_put(slabs[0]);
	slabs[0] = ripc__slab_get(&pool, RIPC__SLAB_BYTES);
	ck_assert_ptr_nonnull(slabs[0]);
	ripc__slab_put(slabs[0]);
	ripc__slab_put(slabs[1]);
	ripc__slab_pool_fini(&pool);
}
END_TEST

START_TEST(slab_put__keeps_few)
{
	struct ripc__slab_pool pool;
	struct ripc__slab *slabs[20];

	ripc__slab_pool_init(&pool, 20 * RIPC__SLAB_BYTES);
	for (unsigned i = 0; i < 20; i++)
		slabs[i] = ripc__slab_get(&pool, RIPC__SLAB_BYTES);
	for (unsigned i = 0; i < 20; i++)
		ripc__slab_put(slabs[i]);
	ck_assert_uint_lt(pool.nfree, 10);
	ck_assert_uint_eq(pool.bytes, pool.nfree * RIPC__SLAB_BYTES);
	ripc__slab_pool_fini(&pool);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("slab");
	TCase *tc = tcase_create("slab");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, slab_get__reuses_free_ones);
	tcase_add_test(tc, slab_get__bounded);
	tcase_add_test(tc, slab_put__keeps_few);
	suite_add_tcase(suite, tc);
	return test_main("base/slab", suite);
}
