/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages to a group over lanes. test_multicast.c has those that members acknowledge. */
#include "core/groups.h"

struct rig rig;

static void slow_setup(struct ripc__sim_config *config)
{
	config->setup_delay_ns = 20 * RIPC__MS;
}

/* No sender waits for a lane any more. */
static void expect_none_wanted(void)
{
	for (unsigned i = 0; i < 3; i++)
		if (rig.ctx[i] && rig_peer(&rig, 3, i))
			ck_assert_uint_eq(rig_peer(&rig, 3, i)->wanted, 0);
}

static unsigned breaks_left;

/* Breaks connections of the sender that are being set up. */
static void break_attempts(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 3; i++) {
		struct ripc__peer *p = rig_peer(&rig, 3, i);

		if (breaks_left && p && p->out &&
		    ripc__sim_break(rig.net, rig_instance(&rig, 3), rig_instance(&rig, i)))
			breaks_left--;
	}
}

/* A message waits for lanes that are being set up, with one attempt or more. */
START_TEST(send__waits_for_lanes)
{
	unsigned coordinator;

	rig_start(&rig, 4, slow_setup);
	join(3);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	ck_assert_ptr_null(rig_lane(&rig, 3, !coordinator));
	breaks_left = _i ? 2 : 0;
	OK(ripc__sim_actor(rig.net, break_attempts, NULL));
	send_all(3, 0, 3);
	ripc__sim_actor_remove(rig.net, break_attempts, NULL);
	ck_assert_uint_eq(breaks_left, 0);
	ck_assert_uint_eq(stats(3).unreached, 0);
	ck_assert_uint_eq(stats(3).sent, 1);
	expect_none_wanted();
}
END_TEST

/* The same while a member connects by itself. */
START_TEST(send__member_connects)
{
	struct iovec item = {"x", 1};
	uint8_t data[100] = {0};
	struct ripc_request *r;
	struct ripc_message *m;
	struct ripc__peer *p;
	unsigned other;

	rig_start(&rig, 4, slow_setup);
	join(2);
	other = group(0)->state == RIPC__GROUP_COORDINATING ? 1 : 0;
	RC(-EAGAIN, ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 0));
	rig_run(&rig, 200);
	expect_member_count(3, 4, 2);
	ck_assert_ptr_null(rig_lane(&rig, 3, other));
	r = rig_begin(&rig, other, 3, data, sizeof(data));
	/* In half of the cases the accepting side has its lane at once: then once more. */
	while (!(p = rig_peer(&rig, 3, other)) || p->lane ||
	       !ripc__peer_connecting(rig.ctx[3], p)) {
		if (p && p->lane)
			ripc__sim_break(rig.net, rig_instance(&rig, 3), rig_instance(&rig, other));
		ripc__sim_run(rig.net, 10000);
	}
	ck_assert(!p->out && !p->retry_ns);
	send_all(3, 0, 2);
	ck_assert_uint_eq(stats(3).unreached, 0);
	expect_none_wanted();
	m = rig_take(&rig, 3);
	ripc_message_free(m);
	OK(ripc_request_wait(&r, 5000));
}
END_TEST

static int other_rc;

static void send_meanwhile(void *arg)
{
	struct iovec item = {"y", 1};
	struct ripc__group *g = group(3);

	if (g && g->sending && !other_rc) {
		other_rc = ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 0);
		ck_assert(strstr(ripc_error_detail(), "another thread") != NULL);
	}
}

/* One message at a time: another thread's is refused meanwhile if it does not wait. */
START_TEST(send__other_thread)
{
	rig_start(&rig, 4, slow_setup);
	join(3);
	other_rc = 0;
	OK(ripc__sim_actor(rig.net, send_meanwhile, NULL));
	send_all(3, 0, 3);
	ripc__sim_actor_remove(rig.net, send_meanwhile, NULL);
	ck_assert_int_eq(other_rc, -EAGAIN);
	ck_assert_uint_eq(stats(3).sent, 1);
	send_all(3, 0, 3);
	ck_assert_uint_eq(stats(3).sent, 2);
}
END_TEST

/* The other thread sends all the time. */
START_TEST(send__other_thread_all_the_time)
{
	struct iovec item = {"x", 1};
	struct ripc_group_stats before;

	rig_start(&rig, 4, NULL);
	join(3);
	send_all(3, 0, 3);
	before = stats(3);
	group(3)->sending = true;
	RC(-ETIMEDOUT, ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 50));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "group 77: another thread"));
	group(3)->sending = false;
	ck_assert_uint_eq(stats(3).sent, before.sent);
	send_all(3, 0, 3);
}
END_TEST

static bool while_sending; /* or before the members are known */

static void close_meanwhile(void *arg)
{
	struct ripc__group *g = group(3);

	if (g && g->users && g->sending == while_sending)
		rig.s[3]->state = RIPC__SERVICE_CLOSING;
}

/* The service is closed while it sends: the call ends at once. */
START_TEST(send__service_closes)
{
	struct iovec item = {"x", 1};
	uint64_t start;

	rig_start(&rig, 4, slow_setup);
	join(3);
	if (_i) {
		RC(-EAGAIN, ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 0));
		rig_run(&rig, 200);
		expect_member_count(3, 4, 3);
	}
	while_sending = _i;
	start = ripc__sim_now(rig.net);
	OK(ripc__sim_actor(rig.net, close_meanwhile, NULL));
	RC(-ESHUTDOWN, ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 5000));
	ripc__sim_actor_remove(rig.net, close_meanwhile, NULL);
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 15 * RIPC__MS);
	rig.s[3]->state = RIPC__SERVICE_ACTIVE;
	ck_assert_uint_eq(stats(3).sent, 0);
	ck_assert(!group(3)->sending);
	expect_none_wanted();
	/* It went to those that had a lane. */
	rig_run(&rig, 50);
	for (unsigned i = 0; i < 3; i++) {
		struct ripc_message *m;

		while (!ripc_receive(rig.s[i], &m, 0))
			ripc_message_free(m);
	}
	send_all(3, 0, 3);
}
END_TEST

/* Calls without waiting make one pass each: they suffice to find the group and to connect. */
START_TEST(send__no_wait_progresses)
{
	struct iovec item = {"x", 1};
	unsigned n, done = 0;

	rig_start(&rig, 4, NULL);
	join(3);
	for (n = 0; n < 10000 && done < 3; n++) {
		uint64_t unreached = group(3) ? stats(3).unreached : 0;
		int rc = ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 0);

		ck_assert(!rc || rc == -EAGAIN);
		/* To all, three times in a row. */
		done = !rc && stats(3).unreached == unreached ? done + 1 : 0;
		for (unsigned i = 0; i < 3; i++)
			ripc__poll(rig.ctx[i]);
		ripc__sim_step(rig.net, ripc__sim_now(rig.net) + RIPC__MS);
	}
	ck_assert_uint_lt(n, 10000);
	expect_none_wanted();
}
END_TEST

/* The same without waiting: it goes to those that have a lane, and the others are counted. */
START_TEST(send__no_wait)
{
	struct iovec item = {"x", 1};

	rig_start(&rig, 4, NULL);
	join(3);
	RC(-EAGAIN, ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 0));
	rig_run(&rig, 100);
	expect_member_count(3, 4, 3);
	OK(ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 0));
	ck_assert_uint_eq(stats(3).unreached, 2);
	rig_run(&rig, 100);
	OK(ripc_group_send(rig.s[3], GROUP, &item, 1, NULL, 0));
	ck_assert_uint_eq(stats(3).unreached, 2);
}
END_TEST

/* One member cannot be reached: the others get the message, and later ones do not wait for it. */
START_TEST(send__unreachable_member)
{
	struct ripc__sim_counters before, after;
	struct ripc__sim_config config;
	uint64_t start;

	rig_start(&rig, 4, NULL);
	join(3);
	rig_connect(&rig, 3, 0);
	rig_connect(&rig, 3, 1);
	OK(ripc_group_join(rig.s[3], GROUP, 10000));
	rig_run(&rig, 10);
	ck_assert_ptr_null(rig_lane(&rig, 3, 2));
	config = *ripc__sim_config(rig.net);
	config.connect_failure = 1;
	ripc__sim_configure(rig.net, &config);
	start = ripc__sim_now(rig.net);
	send_all(3, 0, 2);
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 4000 * RIPC__MS);
	ck_assert_uint_eq(stats(3).unreached, 1);
	ripc__sim_counters(rig.net, &before);
	start = ripc__sim_now(rig.net);
	OK(ripc_group_send(rig.s[3], GROUP, &(struct iovec){"x", 1}, 1, NULL, 5000));
	ck_assert_uint_eq(ripc__sim_now(rig.net), start);
	ck_assert_uint_eq(stats(3).unreached, 2);
	for (unsigned i = 0; i < 2; i++)
		ripc_message_free(rig_take(&rig, i));
	ripc__sim_counters(rig.net, &after);
	ck_assert_uint_eq(after.connects, before.connects);
	expect_none_wanted();
	/* After a while it is tried again. */
	config.connect_failure = 0;
	ripc__sim_configure(rig.net, &config);
	rig_run(&rig, 600);
	send_all(3, 0, 3);
	ck_assert_uint_eq(stats(3).unreached, 2);
}
END_TEST

/* A group that has no members yet, or no more. */
START_TEST(send__no_members)
{
	struct iovec item = {"x", 1};

	rig_start(&rig, 2, NULL);
	RC(-EAGAIN, ripc_group_send(rig.s[1], GROUP, &item, 1, NULL, 0));
	ck_assert(strstr(ripc_error_detail(), "no member was found") != NULL);
	RC(-EHOSTUNREACH, ripc_group_send(rig.s[1], GROUP, &item, 1, NULL, 300));
	ck_assert(strstr(ripc_error_detail(), "no member was found") != NULL);
	join(1);
	send_all(1, 0, 1);
	OK(ripc_group_leave(rig.s[0], GROUP));
	rig_run(&rig, 15000);
	/* The list of members is known, and is empty. */
	ripc__lock(rig.ctx[1]);
	group(1)->state = RIPC__GROUP_JOINED;
	ripc__unlock(rig.ctx[1]);
	expect_member_count(1, 2, 0);
	RC(-EHOSTUNREACH, ripc_group_send(rig.s[1], GROUP, &item, 1, NULL, 5000));
	ck_assert(strstr(ripc_error_detail(), "has no members") != NULL);
	ck_assert_uint_eq(stats(1).sent, 1);
}
END_TEST

/* No member can be reached: an error, and the message does not count as sent. */
START_TEST(send__nobody_reached)
{
	struct ripc__sim_config config;
	struct iovec item = {"x", 1};

	rig_start(&rig, 2, NULL);
	join(1);
	send_all(1, 0, 1);
	ripc__sim_break(rig.net, rig_instance(&rig, 1), rig_instance(&rig, 0));
	config = *ripc__sim_config(rig.net);
	config.connect_failure = 1;
	ripc__sim_configure(rig.net, &config);
	rig_run(&rig, 1);
	ripc__lock(rig.ctx[1]);
	group(1)->state = RIPC__GROUP_JOINED;
	ripc__unlock(rig.ctx[1]);
	RC(-EAGAIN, ripc_group_send(rig.s[1], GROUP, &item, 1, NULL, 0));
	ck_assert(strstr(ripc_error_detail(), "without waiting") != NULL);
	ripc__lock(rig.ctx[1]);
	group(1)->state = RIPC__GROUP_JOINED;
	ripc__unlock(rig.ctx[1]);
	RC(-EHOSTUNREACH, ripc_group_send(rig.s[1], GROUP, &item, 1, NULL, 1000));
	ck_assert(strstr(ripc_error_detail(), "none of its 1 members") != NULL);
	ck_assert_uint_eq(stats(1).sent, 1);
	ck_assert_uint_eq(stats(1).unreached, 2);
	ck_assert_uint_eq(rig_stats(&rig, 1).short_sent, 1);
}
END_TEST

/*
 * A member that died silently takes no more messages: the coordinator that sends to it finds that
 * out while it waits, long before the member's JOIN is missing.
 */
START_TEST(send__silent_member)
{
	uint64_t start = 0;
	struct iovec item = {"x", 1};
	unsigned n = 0;

	rig_start(&rig, 3, NULL);
	join(3);
	ck_assert_int_eq(group(0)->state, RIPC__GROUP_COORDINATING);
	send_all(0, 0, 3);
	ripc__sim_kill_context(rig.net, rig.ctx[2], true);
	rig.ctx[2] = NULL;
	while (stats(0).members == 3) {
		struct ripc_message *m;

		ck_assert_uint_lt(n++, 1000);
		start = ripc__sim_now(rig.net);
		OK(ripc_group_send(rig.s[0], GROUP, &item, 1, NULL, 12000));
		while (!ripc_receive(rig.s[1], &m, 0))
			ripc_message_free(m);
		while (!ripc_receive(rig.s[0], &m, 0))
			ripc_message_free(m);
	}
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
	ck_assert_uint_gt(ripc__sim_now(rig.net) - start, 1000 * RIPC__MS);
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 8000 * RIPC__MS);
	ck_assert_uint_eq(stats(0).unreached, 0);
	ck_assert_uint_eq(stats(0).sent, n + 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/group/multicast_send");
	TCase *tc = tcase_create("send");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, groups_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, send__waits_for_lanes, 0, 2);
	tcase_add_test(tc, send__member_connects);
	tcase_add_test(tc, send__other_thread);
	tcase_add_test(tc, send__other_thread_all_the_time);
	tcase_add_loop_test(tc, send__service_closes, 0, 2);
	tcase_add_test(tc, send__no_wait_progresses);
	tcase_add_test(tc, send__no_wait);
	tcase_add_test(tc, send__unreachable_member);
	tcase_add_test(tc, send__no_members);
	tcase_add_test(tc, send__nobody_reached);
	tcase_add_test(tc, send__silent_member);
	suite_add_tcase(suite, tc);
	return test_main("core/group/multicast_send", suite);
}
