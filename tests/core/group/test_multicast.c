/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages to a group by multicast to the members that acknowledge it, and their MCAST_ACK. */
#include "core/groups.h"

struct rig rig;

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
	Suite *suite = suite_create("core/group/multicast");
	TCase *tc = tcase_create("multicast");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, groups_teardown);
	tcase_set_timeout(tc, 120);
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
	return test_main("core/group/multicast", suite);
}
