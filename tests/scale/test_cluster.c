/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver among many, small enough for every day; bench/scale.sh does the same with ten
 * thousand contexts.
 */
#include "cluster.h"
#include "harness.h"

#define SECOND (1000 * RIPC__MS)

static struct cluster *cluster;
static struct cluster_options opt;
static uint64_t rng;

static void setup(void)
{
	opt = cluster_defaults();
	opt.contexts = 300;
	opt.services = 3000;
	rng = test_seed();
	opt.seed = test_random(&rng);
}

static void teardown(void)
{
	cluster_free(cluster);
	cluster = NULL;
}

/* All start within @within_ns, and need ten services each. */
static void start_all(uint64_t within_ns)
{
	cluster = cluster_new(&opt);
	for (unsigned i = 0; i < opt.contexts; i++) {
		uint64_t at_ns = cluster_now_ns(cluster) + test_random(&rng) % within_ns;

		cluster_start(cluster, i, at_ns);
		for (unsigned k = 0; k < 10; k++)
			cluster_ask(cluster, i, 1 + test_random(&rng) % opt.services, at_ns);
	}
}

static void run(uint64_t ns)
{
	cluster_run(cluster, cluster_now_ns(cluster) + ns);
}

static uint64_t broadcasts(void)
{
	const struct cluster_counts *counts = cluster_counts(cluster);
	uint64_t sum = 0;

	for (unsigned k = 0; k < CLUSTER_KINDS; k++)
		sum += counts->to_all[k];
	return sum;
}

static void check_all_hold(void)
{
	for (unsigned s = 1; s <= opt.services; s++)
		ck_assert(cluster_holds(cluster, cluster_owner(cluster, s), s));
}

/*
 * The shortcut of the simulation: a context gets what it overhears when it looks the service up.
 * With the second seed, a context starts while a claim of the service waits at the hosts.
 */
START_TEST(cluster__overhearing_may_wait)
{
	struct cluster_counts full, lazy;
	uint64_t seed;

	if (_i) {
		rng = 0x2276d4da;
		opt.seed = test_random(&rng);
	}
	seed = rng;
	opt.contexts = 40;
	opt.services = 400;
	opt.loss_ppm = 20000;
	opt.observers = opt.contexts;
	start_all(SECOND);
	run(100 * SECOND);
	full = *cluster_counts(cluster);
	cluster_free(cluster);
	rng = seed;
	opt.observers = 0;
	start_all(SECOND);
	run(100 * SECOND);
	lazy = *cluster_counts(cluster);
	for (unsigned k = 0; k < CLUSTER_KINDS; k++) {
		ck_assert_uint_eq(full.to_all[k], lazy.to_all[k]);
		ck_assert_uint_eq(full.to_one[k], lazy.to_one[k]);
	}
	ck_assert_uint_eq(full.resolved, lazy.resolved);
	ck_assert_uint_eq(full.nregister, lazy.nregister);
}
END_TEST

START_TEST(boot__all_resolved)
{
	const struct cluster_counts *counts;

	start_all(10 * RIPC__MS);
	run(10 * SECOND);
	counts = cluster_counts(cluster);
	ck_assert_uint_eq(cluster_open_asks(cluster), 0);
	ck_assert_uint_eq(counts->registered, opt.services);
	ck_assert_uint_eq(counts->conflicts, 0);
	check_all_hold();
	/* Three probes and a claim for each service, and for each look-up a few requests. */
	ck_assert_uint_le(broadcasts(), 4 * opt.services + 8 * 10 * opt.contexts);
}
END_TEST

START_TEST(boot__loss_10_percent)
{
	opt.loss_ppm = 100000;
	start_all(SECOND);
	run(20 * SECOND);
	ck_assert_uint_eq(cluster_open_asks(cluster), 0);
	check_all_hold();
}
END_TEST

START_TEST(steady__refresh_load_is_low)
{
	start_all(10 * SECOND);
	run(60 * SECOND);
	cluster_forget_counts(cluster);
	run(450 * SECOND);
	/*
	 * A claim of each context every 30 s or less; one refresh in eight of ten records each 45
	 * s.
	 */
	ck_assert_uint_le(broadcasts(), opt.contexts * (450 / 22 + 1 + 10 * 10 / 4));
	ck_assert_uint_eq(cluster_counts(cluster)->unresolved, 0);
}
END_TEST

START_TEST(request_limit__protects_holder)
{
	uint64_t asked_ns;
	uint64_t now_ns;

	opt.contexts = 2000;
	opt.services = 2000;
	cluster = cluster_new(&opt);
	now_ns = cluster_now_ns(cluster);
	for (unsigned i = 0; i < opt.contexts; i++)
		cluster_start(cluster, i, now_ns + test_random(&rng) % (10 * SECOND));
	/* Records overheard at registration have expired by then. */
	run(100 * SECOND);
	cluster_forget_counts(cluster);
	asked_ns = cluster_now_ns(cluster);
	for (unsigned i = 1; i < opt.contexts; i++)
		cluster_ask(cluster, i, 1, asked_ns + test_random(&rng) % (10 * RIPC__MS));
	run(10 * SECOND);
	ck_assert_uint_eq(cluster_open_asks(cluster), 0);
	/* Without a word to all each of them would have to be answered. */
	ck_assert_uint_le(cluster_counts(cluster)->to_one[RIPC__RESOLVE_REPLY], opt.contexts / 2);
}
END_TEST

/* The context that claims a service of another one. */
static unsigned rival_of(unsigned service)
{
	return (cluster_owner(cluster, service) + 1) % opt.contexts;
}

START_TEST(partition__one_holder_after_heal)
{
	start_all(SECOND);
	run(60 * SECOND);
	for (unsigned i = 0; i < opt.contexts; i++)
		cluster_side(cluster, i, i & 1);
	/* The neighbour of each of these is on the other side. */
	for (unsigned s = 1; s <= 100; s++)
		cluster_claim(cluster, rival_of(s), s,
			      cluster_now_ns(cluster) + test_random(&rng) % (30 * SECOND));
	run(60 * SECOND);
	for (unsigned s = 1; s <= 100; s++) {
		ck_assert(cluster_holds(cluster, cluster_owner(cluster, s), s));
		ck_assert(cluster_holds(cluster, rival_of(s), s));
	}
	for (unsigned i = 0; i < opt.contexts; i++)
		cluster_side(cluster, i, 0);
	cluster_forget_counts(cluster);
	/*
	 * Each context has ten services to claim in turn, one in 38 s at most; a claim may be lost.
	 */
	run(1200 * SECOND);
	check_all_hold();
	for (unsigned s = 1; s <= 100; s++)
		ck_assert(!cluster_holds(cluster, rival_of(s), s));
	ck_assert_uint_eq(cluster_counts(cluster)->conflicts, 100);
	ck_assert_uint_eq(cluster_open_asks(cluster), 0);
}
END_TEST

START_TEST(zookeeper__boot_and_restart)
{
	opt.mode = CLUSTER_ZOOKEEPER;
	start_all(SECOND);
	run(30 * SECOND);
	ck_assert_uint_eq(cluster_open_asks(cluster), 0);
	check_all_hold();
	/* Those who die and do not come back are gone for all when their session is. */
	cluster_forget_counts(cluster);
	for (unsigned i = 0; i < 10; i++)
		cluster_start(cluster, i, cluster_now_ns(cluster) + RIPC__MS);
	run(30 * SECOND);
	check_all_hold();
	ck_assert_uint_eq(cluster_counts(cluster)->conflicts, 0);
	ck_assert_uint_eq(broadcasts(), 0);
}
END_TEST

static TCase *tcase(Suite *suite, const char *name)
{
	TCase *tc = tcase_create(name);

	suite_add_tcase(suite, tc);
	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("scale/cluster");
	TCase *tc;

	test_seed();
	tc = tcase(suite, "broadcast");
	tcase_add_loop_test(tc, cluster__overhearing_may_wait, 0, 2);
	tcase_add_test(tc, boot__all_resolved);
	tcase_add_test(tc, boot__loss_10_percent);
	tcase_add_test(tc, steady__refresh_load_is_low);
	tcase_add_test(tc, request_limit__protects_holder);
	tcase_add_test(tc, partition__one_holder_after_heal);
	tc = tcase(suite, "zookeeper");
	tcase_add_test(tc, zookeeper__boot_and_restart);
	return test_main("scale/cluster", suite);
}
