/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "transport/iwarp/soft/region.h"
#include "transport/transport.h"

#include <string.h>

static const uint8_t secret[16] = "0123456789abcde";

START_TEST(region_add__found_by_stag_only)
{
	struct ripc__regions r;
	uint8_t memory[100];
	struct ripc__region *region;

	ripc__regions_init(&r, secret);
	ck_assert_ptr_null(ripc__region_find(&r, 0));
	region = ripc__region_add(&r, memory, sizeof(memory), 3);
	ck_assert_ptr_nonnull(region);
	ck_assert_uint_ne(region->stag, 0);
	ck_assert_ptr_eq(region->base, memory);
	ck_assert_uint_eq(region->len, sizeof(memory));
	ck_assert_uint_eq(region->access, 3);
	ck_assert_uint_eq(region->users, 0);
	ck_assert_ptr_eq(ripc__region_find(&r, region->stag), region);
	for (unsigned bit = 0; bit < 32; bit++)
		ck_assert_ptr_null(ripc__region_find(&r, region->stag ^ UINT32_C(1) << bit));
	ripc__regions_fini(&r);
}
END_TEST

START_TEST(region_add__many_and_distinct)
{
	enum { N = 1000 };
	struct ripc__region *all[N];
	struct ripc__regions r;

	ripc__regions_init(&r, secret);
	for (unsigned i = 0; i < N; i++) {
		all[i] = ripc__region_add(&r, NULL, i, RIPC__ACCESS_REMOTE_READ);
		ck_assert_ptr_nonnull(all[i]);
		/* cannot wrap round */
		ck_assert_uint_le(all[i]->addr, UINT64_MAX - (UINT64_C(1) << 63));
	}
	for (unsigned i = 0; i < N; i++) {
		ck_assert_ptr_eq(ripc__region_find(&r, all[i]->stag), all[i]);
		for (unsigned k = 0; k < i; k++)
			ck_assert_uint_ne(all[i]->addr, all[k]->addr);
	}
	ripc__regions_fini(&r);
}
END_TEST

/* The source of a write has no STag: no number that a peer may send finds it. */
START_TEST(region_add__without_rights)
{
	struct ripc__regions r;
	struct ripc__region *local, *other;

	ripc__regions_init(&r, secret);
	local = ripc__region_add(&r, NULL, 1, 0);
	ck_assert_uint_eq(local->stag, 0);
	ck_assert_ptr_null(ripc__region_find(&r, 0));
	other = ripc__region_add(&r, NULL, 1, RIPC__ACCESS_RESIDENT);
	ck_assert_ptr_nonnull(other);
	ck_assert_uint_eq(r.drawn, 0);
	ripc__region_remove(&r, local);
	ck_assert_uint_eq(r.nlocal, 1);
	ripc__regions_fini(&r); /* frees the other one */
}
END_TEST

START_TEST(region_remove__stag_is_dead_and_not_soon_reused)
{
	struct ripc__regions r;
	struct ripc__region *region;
	uint32_t stag;

	ripc__regions_init(&r, secret);
	region = ripc__region_add(&r, NULL, 1, RIPC__ACCESS_REMOTE_READ);
	stag = region->stag;
	ripc__region_remove(&r, region);
	ck_assert_ptr_null(ripc__region_find(&r, stag));
	for (unsigned i = 0; i < 10000; i++) {
		region = ripc__region_add(&r, NULL, 1, RIPC__ACCESS_REMOTE_READ);
		ck_assert_ptr_null(ripc__region_find(&r, stag));
		ripc__region_remove(&r, region);
	}
	ck_assert_uint_eq(r.table.count, 0);
	ripc__regions_fini(&r);
}
END_TEST

START_TEST(region_add__bounded)
{
	struct ripc__regions r;
	unsigned n = 0;

	ripc__regions_init(&r, secret);
	while (n <= RIPC__REGIONS_MAX &&
	       ripc__region_add(&r, NULL, 1, n % 2 ? RIPC__ACCESS_REMOTE_READ : 0))
		n++;
	ck_assert_uint_eq(n, RIPC__REGIONS_MAX);
	ripc__regions_fini(&r);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("region");
	TCase *tc = tcase_create("region");

	tcase_add_test(tc, region_add__found_by_stag_only);
	tcase_add_test(tc, region_add__many_and_distinct);
	tcase_add_test(tc, region_remove__stag_is_dead_and_not_soon_reused);
	tcase_add_test(tc, region_add__without_rights);
	tcase_add_test(tc, region_add__bounded);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/region", suite);
}
