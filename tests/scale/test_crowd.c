/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The resolver among many, small enough for every day; bench/scale.sh does the same with ten thousand contexts. */
#include "crowd.h"
#include "harness.h"

#define SECOND (1000 * RIPC__MS)

static struct crowd *crowd;
static struct crowd_options opt;
static uint64_t rng;

static void setup(void)
{
	opt = crowd_defaults();
	opt.contexts = 300;
	opt.services = 3000;
	rng = test_seed();
	opt.seed = test_random(&rng);
}

static void teardown(void)
{
	crowd_free(crowd);
	crowd = NULL;
}

/* All start within @within_ns, and need ten services each. */
static void start_all(uint64_t within_ns)
{
	crowd = crowd_new(&opt);
	for (unsigned i = 0; i < opt.contexts; i++) {
		uint64_t at_ns = crowd_now_ns(crowd) + test_random(&rng) % within_ns;

		crowd_start(crowd, i, at_ns);
		for (unsigned k = 0; k < 10; k++)
			crowd_ask(crowd, i, 1 + test_random(&rng) % opt.services, at_ns);
	}
}

static void run(uint64_t ns)
{
	crowd_run(crowd, crowd_now_ns(crowd) + ns);
}

static uint64_t said_to_all(void)
{
	const struct crowd_counts *counts = crowd_counts(crowd);
	uint64_t sum = 0;

	for (unsigned k = 0; k < CROWD_KINDS; k++)
		sum += counts->to_all[k];
	return sum;
}

static void check_all_hold(void)
{
	for (unsigned s = 1; s <= opt.services; s++)
		ck_assert(crowd_holds(crowd, crowd_owner(crowd, s), s));
}

/* The shortcut of the simulation: who is merely in earshot need not be handed what he overhears. */
START_TEST(crowd__overhearing_may_wait)
{
	struct crowd_counts full, lazy;
	uint64_t seed = rng;

	opt.contexts = 40;
	opt.services = 400;
	opt.loss_ppm = 20000;
	opt.witnesses = opt.contexts;
	start_all(SECOND);
	run(100 * SECOND);
	full = *crowd_counts(crowd);
	crowd_free(crowd);
	rng = seed;
	opt.witnesses = 0;
	start_all(SECOND);
	run(100 * SECOND);
	lazy = *crowd_counts(crowd);
	for (unsigned k = 0; k < CROWD_KINDS; k++) {
		ck_assert_uint_eq(full.to_all[k], lazy.to_all[k]);
		ck_assert_uint_eq(full.to_one[k], lazy.to_one[k]);
	}
	ck_assert_uint_eq(full.resolved, lazy.resolved);
	ck_assert_uint_eq(full.nregister, lazy.nregister);
}
END_TEST

START_TEST(boot__all_is_found)
{
	const struct crowd_counts *counts;

	start_all(10 * RIPC__MS);
	run(10 * SECOND);
	counts = crowd_counts(crowd);
	ck_assert_uint_eq(crowd_open_asks(crowd), 0);
	ck_assert_uint_eq(counts->registered, opt.services);
	ck_assert_uint_eq(counts->conflicts, 0);
	check_all_hold();
	/* Three probes and a claim for each service, and for each look-up a few requests. */
	ck_assert_uint_le(said_to_all(), 4 * opt.services + 8 * 10 * opt.contexts);
}
END_TEST

START_TEST(boot__with_every_tenth_datagram_lost)
{
	opt.loss_ppm = 100000;
	start_all(SECOND);
	run(20 * SECOND);
	ck_assert_uint_eq(crowd_open_asks(crowd), 0);
	check_all_hold();
}
END_TEST

START_TEST(steady__records_in_use_cost_the_others_little)
{
	start_all(10 * SECOND);
	run(60 * SECOND);
	crowd_forget_counts(crowd);
	run(450 * SECOND);
	/* A claim of each context every 30 s or less; one refresh in eight of ten records each 45 s. */
	ck_assert_uint_le(said_to_all(), opt.contexts * (450 / 22 + 1 + 10 * 10 / 4));
	ck_assert_uint_eq(crowd_counts(crowd)->unresolved, 0);
}
END_TEST

START_TEST(herd__does_not_drown_its_holder)
{
	uint64_t asked_ns;

	opt.contexts = 2000;
	opt.services = 2000;
	crowd = crowd_new(&opt);
	for (unsigned i = 0; i < opt.contexts; i++)
		crowd_start(crowd, i, crowd_now_ns(crowd) + test_random(&rng) % (10 * SECOND));
	/* What was overheard at its registration is forgotten by then. */
	run(100 * SECOND);
	crowd_forget_counts(crowd);
	asked_ns = crowd_now_ns(crowd);
	for (unsigned i = 1; i < opt.contexts; i++)
		crowd_ask(crowd, i, 1, asked_ns + test_random(&rng) % (10 * RIPC__MS));
	run(10 * SECOND);
	ck_assert_uint_eq(crowd_open_asks(crowd), 0);
	/* Without a word to all each of them would have to be answered. */
	ck_assert_uint_le(crowd_counts(crowd)->to_one[RIPC__RESOLVE_REPLY], opt.contexts / 2);
}
END_TEST

START_TEST(partition__heals_to_one_holder_each)
{
	start_all(SECOND);
	run(60 * SECOND);
	for (unsigned i = 0; i < opt.contexts; i++)
		crowd_side(crowd, i, i & 1);
	/* The neighbour of each of these is on the other side. */
	for (unsigned s = 1; s <= 100; s++)
		crowd_claim(crowd, (crowd_owner(crowd, s) + 1) % opt.contexts, s,
			    crowd_now_ns(crowd) + test_random(&rng) % (30 * SECOND));
	run(60 * SECOND);
	for (unsigned s = 1; s <= 100; s++) {
		ck_assert(crowd_holds(crowd, crowd_owner(crowd, s), s));
		ck_assert(crowd_holds(crowd, (crowd_owner(crowd, s) + 1) % opt.contexts, s));
	}
	for (unsigned i = 0; i < opt.contexts; i++)
		crowd_side(crowd, i, 0);
	crowd_forget_counts(crowd);
	/* Each context has ten services to claim in turn, one in 38 s at most; a claim may be lost. */
	run(1200 * SECOND);
	check_all_hold();
	for (unsigned s = 1; s <= 100; s++)
		ck_assert(!crowd_holds(crowd, (crowd_owner(crowd, s) + 1) % opt.contexts, s));
	ck_assert_uint_eq(crowd_counts(crowd)->conflicts, 100);
	ck_assert_uint_eq(crowd_open_asks(crowd), 0);
}
END_TEST

START_TEST(zookeeper__boot_and_restart)
{
	opt.mode = CROWD_ZOOKEEPER;
	start_all(SECOND);
	run(30 * SECOND);
	ck_assert_uint_eq(crowd_open_asks(crowd), 0);
	check_all_hold();
	/* Those who die and do not come back are gone for all when their session is. */
	crowd_forget_counts(crowd);
	for (unsigned i = 0; i < 10; i++)
		crowd_start(crowd, i, crowd_now_ns(crowd) + RIPC__MS);
	run(30 * SECOND);
	check_all_hold();
	ck_assert_uint_eq(crowd_counts(crowd)->conflicts, 0);
	ck_assert_uint_eq(said_to_all(), 0);
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
	Suite *suite = suite_create("scale/crowd");
	TCase *tc;

	test_seed();
	tc = tcase(suite, "broadcast");
	tcase_add_test(tc, crowd__overhearing_may_wait);
	tcase_add_test(tc, boot__all_is_found);
	tcase_add_test(tc, boot__with_every_tenth_datagram_lost);
	tcase_add_test(tc, steady__records_in_use_cost_the_others_little);
	tcase_add_test(tc, herd__does_not_drown_its_holder);
	tcase_add_test(tc, partition__heals_to_one_holder_each);
	tc = tcase(suite, "zookeeper");
	tcase_add_test(tc, zookeeper__boot_and_restart);
	return test_main("scale/crowd", suite);
}
