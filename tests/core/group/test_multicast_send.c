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

/* ---- sending by multicast ---- */

static void multicasts(struct ripc__sim_config *config)
{
	config->multicast = true;
}

static void small_multicasts(struct ripc__sim_config *config)
{
	config->multicast = true;
	config->datagram_max = 120;
}

/* Members 0 to 2 and a sender, 3, with a lane to each. */
static void start_multicast(void (*change)(struct ripc__sim_config *config))
{
	rig_start(&rig, 4, change);
	join(3);
	for (unsigned i = 0; i < 3; i++)
		rig_connect(&rig, 3, i);
}

/* Messages of the sender that came to the members more than once. */
static uint64_t duplicates(void)
{
	return stats(0).duplicates + stats(1).duplicates + stats(2).duplicates;
}

static void send_len(size_t len)
{
	uint8_t data[RIPC_GROUP_MESSAGE_MAX];

	rig_fill(data, len, 5);
	OK(ripc_group_send(rig.s[3], GROUP, &(struct iovec){data, len}, 1, NULL, 5000));
	for (unsigned i = 0; i < 3; i++)
		rig_expect(&rig, i, len, 5);
	rig_run(&rig, 1);
}

static uint64_t posted_sends(void)
{
	struct ripc__sim_counters c;

	ripc__sim_counters(rig.net, &c);
	return c.sends;
}

/* A member that acknowledges multicast gets nothing over its lane, as long as that is recent. */
START_TEST(multicast__replaces_lanes)
{
	uint64_t sends;

	start_multicast(multicasts);
	send_len(100);
	ck_assert_uint_eq(stats(3).multicasts, 1);
	ck_assert_uint_eq(duplicates(), 3);
	sends = posted_sends();
	for (unsigned i = 0; i < 10; i++)
		send_len(100);
	ck_assert_uint_eq(stats(3).multicasts, 11);
	ck_assert_uint_eq(stats(3).sent, 11);
	ck_assert_uint_eq(duplicates(), 3);
	ck_assert_uint_eq(posted_sends(), sends);
	rig_run(&rig, 4001);
	send_len(100);
	ck_assert_uint_eq(duplicates(), 6);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(stats(i).received, 12);
		ck_assert_uint_eq(stats(i).lost, 0);
		rig_expect_none(&rig, i);
	}
}
END_TEST

/* Members acknowledge once a second, however many messages come. */
START_TEST(multicast__acknowledged_rarely)
{
	struct ripc__member *m;
	uint64_t until = 0;
	unsigned acks = 0;

	start_multicast(multicasts);
	for (unsigned i = 0; i < 350; i++) {
		send_len(10);
		rig_run(&rig, 9);
		HASH_FIND(hh, group(3)->members, rig.ctx[0]->instance, 16, m);
		ck_assert_ptr_nonnull(m);
		acks += m->mcast_until_ns != until;
		until = m->mcast_until_ns;
	}
	ck_assert_uint_eq(acks, 4);
	ck_assert_uint_eq(duplicates(), 3);
}
END_TEST

/* A network that drops multicast: lanes carry all messages, and the attempts become rare. */
START_TEST(multicast__lost_by_network)
{
	struct ripc__sim_config config;
	uint64_t first;
	unsigned rare = 0;

	start_multicast(multicasts);
	config = *ripc__sim_config(rig.net);
	config.datagram_loss = 1;
	ripc__sim_configure(rig.net, &config);
	send_len(10);
	first = group(3)->number;
	for (unsigned i = 1; i < 300; i++)
		send_len(10);
	for (uint64_t n = first + 64; n < first + 300; n++)
		rare += n % 64 == 0;
	ck_assert_uint_ge(rare, 3);
	ck_assert_uint_eq(stats(3).multicasts, 64 + rare);
	ck_assert_uint_eq(stats(3).unreached, 0);
	/* One that arrives makes them frequent again. */
	config.datagram_loss = 0;
	ripc__sim_configure(rig.net, &config);
	for (unsigned i = 0; i < 64; i++)
		send_len(10);
	first = stats(3).multicasts;
	for (unsigned i = 0; i < 10; i++)
		send_len(10);
	ck_assert_uint_eq(stats(3).multicasts, first + 10);
}
END_TEST

/* A pause in which all acknowledgements expire does not make multicast rare. */
START_TEST(multicast__after_pause)
{
	start_multicast(multicasts);
	for (unsigned i = 0; i < 100; i++)
		send_len(10);
	ck_assert_uint_eq(stats(3).multicasts, 100);
	rig_run(&rig, 5000);
	for (unsigned i = 0; i < 10; i++)
		send_len(10);
	ck_assert_uint_eq(stats(3).multicasts, 110);
}
END_TEST

/* A message that does not fit a datagram goes over the lanes, also to members that acknowledge. */
START_TEST(multicast__too_long)
{
	start_multicast(small_multicasts);
	for (unsigned i = 0; i < 3; i++) {
		send_len(10);
		ck_assert_uint_eq(stats(3).multicasts, i + 1);
		send_len(200);
		ck_assert_uint_eq(stats(3).multicasts, i + 1);
	}
	ck_assert_uint_eq(duplicates(), 3);
	ck_assert_uint_eq(stats(3).sent, 6);
}
END_TEST

/* For one member a lane is cheaper. */
START_TEST(multicast__not_to_one_member)
{
	rig_start(&rig, 2, multicasts);
	join(1);
	rig_connect(&rig, 1, 0);
	send_all(1, 0, 1);
	ck_assert_uint_eq(stats(1).multicasts, 0);
	ck_assert_uint_eq(stats(0).received, 1);
	ck_assert_uint_eq(stats(0).duplicates, 0);
}
END_TEST

/* A sender that is a member gets its message once, although its multicast comes back. */
START_TEST(multicast__own_comes_back)
{
	start_multicast(multicasts);
	OK(ripc_group_join(rig.s[3], GROUP, 10000));
	rig_run(&rig, 100);
	for (unsigned i = 0; i < 3; i++) {
		send_all(3, 0, 4);
		rig_run(&rig, 10);
	}
	ck_assert_uint_eq(stats(3).multicasts, 3);
	ck_assert_uint_eq(stats(3).received, 0);
	ck_assert_uint_eq(stats(3).duplicates, 0);
	rig_expect_none(&rig, 3);
}
END_TEST

/* Its transport receives the group's multicast as long as a context has local members. */
START_TEST(multicast__listens_while_member)
{
	struct ripc__sim_counters before, after;
	struct ripc_service *more;

	start_multicast(multicasts);
	OK(ripc_service_register(rig.ctx[1], 78, 0, &more));
	OK(ripc_group_join(more, GROUP, 10000));
	send_len(10);
	for (unsigned left = 2; left > 0; left--) {
		OK(ripc_group_leave(left == 2 ? more : rig.s[1], GROUP));
		rig_run(&rig, 100);
		ripc__sim_counters(rig.net, &before);
		send_all(3, 2, 3);
		rig_run(&rig, 1);
		ripc__sim_counters(rig.net, &after);
		ck_assert_uint_eq(after.datagrams - before.datagrams, left + 1);
	}
	rig_expect(&rig, 1, 40, 9);
	rig_expect_none(&rig, 1);
}
END_TEST

/* A transport can receive a few groups only: lanes carry the others. */
START_TEST(multicast__too_many_groups)
{
	rig_start(&rig, 3, multicasts);
	for (uint64_t g = 1; g < 12; g++)
		for (unsigned i = 0; i < 2; i++)
			OK(ripc_group_join(rig.s[i], 1000 + g, 10000));
	join(2);
	for (unsigned i = 0; i < 2; i++)
		rig_connect(&rig, 2, i);
	for (unsigned i = 0; i < 3; i++)
		send_all(2, 0, 2);
	ck_assert_uint_eq(stats(2).multicasts, 3);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(stats(i).received, 3);
		ck_assert_uint_eq(stats(i).duplicates, 0);
	}
}
END_TEST

/* MCAST_ACK for a forged message does not count as an answer to ours. */
START_TEST(mcast_ack__of_forgery)
{
	struct ripc__member *m;

	rig_start(&rig, 2, NULL);
	OK(ripc_group_join(rig.s[0], GROUP, 10000));
	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){"x", 1}, 1, NULL, 5000));
	HASH_FIND(hh, group(1)->members, rig.ctx[0]->instance, 16, m);
	ck_assert_ptr_nonnull(m);
	inject(0, 1, RIPC__MCAST_ACK, group(1)->number + 1, 0, NULL, 0);
	inject(0, 1, RIPC__MCAST_ACK, 1, 0, NULL, 0);
	ck_assert_uint_eq(m->mcast_until_ns, 0);
	inject(0, 1, RIPC__MCAST_ACK, group(1)->number, 0, NULL, 0);
	ck_assert_uint_gt(m->mcast_until_ns, 0);
	m->mcast_until_ns = 0;
	inject(0, 1, RIPC__MCAST_ACK, group(1)->number - RIPC__MCAST_DEDUP_WINDOW, 0, NULL, 0);
	ck_assert_uint_eq(m->mcast_until_ns, 0);
	inject(0, 1, RIPC__MCAST_ACK, group(1)->number - RIPC__MCAST_DEDUP_WINDOW + 1, 0, NULL, 0);
	ck_assert_uint_gt(m->mcast_until_ns, 0);
}
END_TEST

/* For a group that is not used here, and from a context that is no member. */
START_TEST(mcast_ack__unknown)
{
	rig_start(&rig, 3, NULL);
	rig_connect(&rig, 0, 1);
	inject(0, 1, RIPC__MCAST_ACK, 1, 0, NULL, 0);
	ck_assert_ptr_null(group(1));
	OK(ripc_group_join(rig.s[1], GROUP, 10000));
	inject(0, 1, RIPC__MCAST_ACK, group(1)->number, 0, NULL, 0);
	ck_assert_uint_eq(HASH_COUNT(group(1)->members), 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
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
	tcase_add_loop_test(tc, send__service_closes, 0, 2);
	tcase_add_test(tc, send__no_wait_progresses);
	tcase_add_test(tc, send__no_wait);
	tcase_add_test(tc, send__unreachable_member);
	tcase_add_test(tc, send__no_members);
	tcase_add_test(tc, send__nobody_reached);
	tcase_add_test(tc, send__silent_member);
	tcase_add_test(tc, multicast__replaces_lanes);
	tcase_add_test(tc, multicast__acknowledged_rarely);
	tcase_add_test(tc, multicast__lost_by_network);
	tcase_add_test(tc, multicast__after_pause);
	tcase_add_test(tc, multicast__too_long);
	tcase_add_test(tc, multicast__not_to_one_member);
	tcase_add_test(tc, multicast__own_comes_back);
	tcase_add_test(tc, multicast__listens_while_member);
	tcase_add_test(tc, multicast__too_many_groups);
	tcase_add_test(tc, mcast_ack__of_forgery);
	tcase_add_test(tc, mcast_ack__unknown);
	suite_add_tcase(suite, tc);
	return test_main("core/group/multicast_send", suite);
}
