/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Destinations that are not there, for calls with timeout 0. */
#include "core/rig.h"

static struct rig rig;
static struct ripc *ctx;

/* A message to the service, or a look-up, without waiting. */
static int try_at_once(uint64_t id, bool lookup)
{
	struct iovec item = {"x", 1};

	return lookup ? ripc_route_lookup(ctx, id, NULL, 0)
		      : ripc_send_short(rig.s[0], id, &item, 1, NULL, 0);
}

/*
 * Nobody holds the service, or its holder accepts no connection (_i & 1) while the application
 * waits for it: calls report it, however rarely they are repeated, and find the service when it is
 * there.
 */
START_TEST(unreachable__reported_at_once)
{
	static const unsigned periods_ms[] = {1, 300, 1000, 7000};
	struct ripc__sim_config config = rig.config;
	uint64_t id = _i & 1 ? RIG_ID(1) : 4711;
	struct ripc_service *late;
	unsigned tries = 0;

	if (_i & 1)
		ck_assert_int_ge(ripc_completion_fd(ctx), 0);
	config.connect_failure = _i & 1;
	ripc__sim_configure(rig.net, &config);
	RC(-EAGAIN, try_at_once(id, _i & 2));
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned k = 0; k < 5; k++) {
			rig_run(&rig, i || k ? periods_ms[i] : 3000);
			RC(-EHOSTUNREACH, try_at_once(id, _i & 2));
		}
	}
	ripc__sim_configure(rig.net, &rig.config);
	if (!(_i & 1))
		OK(ripc_service_register(rig.ctx[1], id, 0, &late));
	for (; try_at_once(id, _i & 2); tries++) {
		ck_assert_uint_lt(tries, 2500);
		rig_run(&rig, 1);
	}
	/* The lane ends later: that is no failure yet. */
	ck_assert_ptr_nonnull(ripc__dest_find(ctx, id)->peer->lane);
	rig_fail_lane(&rig, 0, 1);
	RC(-EAGAIN, try_at_once(id, _i & 2));
}
END_TEST

/* -EHOSTUNREACH announces no SENDABLE; -EAGAIN does, also when the look-up failed. */
START_TEST(unreachable__not_sendable)
{
	struct ripc_completion c = {.size = sizeof(c)};

	ck_assert_int_ge(ripc_completion_fd(ctx), 0);
	RC(-EAGAIN, try_at_once(4711, false));
	OK(ripc_completion_next(ctx, &c, 5000));
	ck_assert_uint_eq(c.kind, RIPC_COMPLETION_SENDABLE);
	ck_assert_uint_eq(c.dest, 4711);
	RC(-EHOSTUNREACH, try_at_once(4711, false));
	RC(-ETIMEDOUT, ripc_completion_next(ctx, &c, 5000));
}
END_TEST

/* A service that moves has a holder all the time. */
START_TEST(moved__not_unreachable)
{
	struct ripc_service *s;
	unsigned third = rig_open(&rig, NULL), sent = 0;

	rig_connect(&rig, 0, 1);
	OK(ripc_service_register(rig.ctx[third], RIG_ID(1), RIPC_TAKEOVER, &s));
	for (unsigned ms = 0; ms < 1000; ms++) {
		int rc = try_at_once(RIG_ID(1), false);
		struct ripc_message *m;

		ck_assert(!rc || rc == -EAGAIN);
		rig_run(&rig, 1);
		while (!ripc_receive(s, &m, 0)) {
			ripc_message_free(m);
			sent++;
		}
	}
	ck_assert_uint_gt(sent, 500);
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
	Suite *suite = suite_create("core/peer/dest_unreachable");
	TCase *tc = tcase_create("dest_in_vain");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, unreachable__reported_at_once, 0, 4);
	tcase_add_test(tc, unreachable__not_sendable);
	tcase_add_test(tc, moved__not_unreachable);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/dest_unreachable", suite);
}
