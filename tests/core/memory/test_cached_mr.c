/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Registrations that outlive one transfer. */
#include "core/rig.h"

static struct rig rig;
static struct ripc *ctx;

/* Where registering is expensive, a region keeps its registration as a target of reads. */
static void expensive_registration(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

START_TEST(sink_mr__cached_if_expensive)
{
	struct ripc__sim_counters before, after;
	struct rig r2;

	rig_start(&r2, 2, expensive_registration);
	OK(rig_long(&r2, 0, 1, 200000, 1, 5000));
	rig_expect(&r2, 1, 200000, 1);
	ripc__sim_counters(r2.net, &before);
	ck_assert_uint_eq(before.regions, 1);
	for (uint64_t k = 0; k < 10; k++) {
		OK(rig_long(&r2, 0, 1, 200000, k, 5000));
		rig_expect(&r2, 1, 200000, k);
	}
	ripc__sim_counters(r2.net, &after);
	ck_assert_uint_eq(after.regions, 1);
	rig_end(&r2);
}
END_TEST

/* The source of a pending write stays registered for it, even if the region is freed. */
START_TEST(cached_mr_hold__outlives_region)
{
	struct ripc__sim_counters counters;
	struct ripc__region *region;
	struct ripc__cached_mr *cached_mr;
	static uint8_t own[100];
	struct rig r2;
	unsigned tp;

	rig_start(&r2, 2, expensive_registration);
	rig_connect(&r2, 0, 1);
	tp = rig_lane(&r2, 0, 1)->tp;
	region = ripc__pool_get(r2.ctx[0], 20000, RIPC__REGION_APP);
	cached_mr = ripc__cached_mr_hold(r2.ctx[0], tp, region);
	ck_assert_ptr_nonnull(cached_mr);
	ck_assert_ptr_eq(ripc__cached_mr_hold(r2.ctx[0], tp, region), cached_mr);
	r2.ctx[0]->opt.pool_bytes = 0;
	ripc__pool_put(r2.ctx[0], region);
	for (unsigned i = 0; i < 2; i++) {
		ripc__sim_counters(r2.net, &counters);
		ck_assert_uint_eq(counters.regions, 1);
		ripc__cached_mr_release(r2.ctx[0], cached_mr);
	}
	ripc__sim_counters(r2.net, &counters);
	ck_assert_uint_eq(counters.regions, 0);
	/*
	 * An application's own memory is not registered for this, as it may not be writable; if it
	 * is anyway, that is used.
	 */
	OK(ripc_buf_register(r2.ctx[0], own, sizeof(own)));
	region = ripc__memory_find(r2.ctx[0], own, 1);
	ck_assert_ptr_null(ripc__cached_mr_hold(r2.ctx[0], tp, region));
	OK(ripc_buf_unregister(r2.ctx[0], own));
	rig_end(&r2);
}
END_TEST

/* Regions without pending operations are deregistered, all others stay registered. */
START_TEST(mr_cache_trim__keeps_used)
{
	struct ripc__sim_counters counters;
	struct ripc__region *region[2];
	struct ripc__cached_mr *kept[2];
	struct ripc__mr own;
	struct rig r2;
	unsigned tp;

	rig_start(&r2, 2, expensive_registration);
	rig_connect(&r2, 0, 1);
	tp = rig_lane(&r2, 0, 1)->tp;
	ck_assert(!ripc__mr_cache_trim(r2.ctx[0]));
	for (unsigned i = 0; i < 2; i++)
		region[i] = ripc__pool_get(r2.ctx[0], 20000, RIPC__REGION_APP);
	kept[0] = ripc__cached_mr_hold(r2.ctx[0], tp, region[0]);
	ck_assert_ptr_eq(
		ripc__sink_mr(r2.ctx[0], tp, region[1], region[1]->base, 20000, &own, &kept[1]),
		&kept[1]->mr);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__mr_cache_trim(r2.ctx[0]), i);
		ripc__sim_counters(r2.net, &counters);
		ck_assert_uint_eq(counters.regions, 2 - i);
		ck_assert_ptr_eq(region[1]->cached_mr[tp], kept[1]);
		ripc__cached_mr_release(r2.ctx[0], kept[i]);
	}
	ck_assert(ripc__mr_cache_trim(r2.ctx[0]));
	ck_assert_ptr_null(region[1]->cached_mr[tp]);
	/* A large one is not registered for what is written from it, but used if it is. */
	ripc__pool_put(r2.ctx[0], region[0]);
	ripc__pool_put(r2.ctx[0], region[1]);
	region[0] = ripc__pool_get(r2.ctx[0], RIPC__CACHED_MR_MAX + 1, RIPC__REGION_APP);
	ck_assert_ptr_null(ripc__cached_mr_hold(r2.ctx[0], tp, region[0]));
	ripc__sink_mr(r2.ctx[0], tp, region[0], region[0]->base, 20000, &own, &kept[0]);
	ck_assert_ptr_eq(ripc__cached_mr_hold(r2.ctx[0], tp, region[0]), kept[0]);
	for (unsigned i = 0; i < 2; i++)
		ripc__cached_mr_release(r2.ctx[0], kept[0]);
	ripc__pool_put(r2.ctx[0], region[0]);
	rig_end(&r2);
}
END_TEST

START_TEST(sink_mr__uncached_if_cheap)
{
	struct ripc__sim_counters counters;

	OK(rig_long(&rig, 0, 1, 200000, 1, 5000));
	rig_expect(&rig, 1, 200000, 1);
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.regions, 0);
}
END_TEST

/* Where the peer could write it for so long, it is not kept. */
START_TEST(sink_mr__uncached_if_writable)
{
	struct ripc__sim_counters counters;
	struct rig r2;

	rig_start(&r2, 2, expensive_registration);
	for (unsigned i = 0; i < r2.ctx[1]->ntp; i++)
		r2.ctx[1]->tp[i].limits.caps |= RIPC__CAP_SINK_WRITABLE;
	for (uint64_t k = 0; k < 3; k++) {
		OK(rig_long(&r2, 0, 1, 200000, k, 5000));
		rig_expect(&r2, 1, 200000, k);
		ripc__sim_counters(r2.net, &counters);
		ck_assert_uint_eq(counters.regions, 0);
	}
	rig_end(&r2);
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/cached_mr");
	TCase *tc = tcase_create("cached_mr");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, sink_mr__cached_if_expensive);
	tcase_add_test(tc, cached_mr_hold__outlives_region);
	tcase_add_test(tc, mr_cache_trim__keeps_used);
	tcase_add_test(tc, sink_mr__uncached_if_cheap);
	tcase_add_test(tc, sink_mr__uncached_if_writable);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/cached_mr", suite);
}
