/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups: who keeps them when contexts part, die and meet again; numbers; messages over lanes and
 * by multicast; messages that have no business there.
 */
#include "core/group/coordinator.h"
#include "core/group/group.h"
#include "core/group/membership.h"
#include "core/rig.h"
#include "wire/bytes.h"
#include "wire/record.h"

#define GROUP 77

static struct rig rig;
static bool hostile; /* the test sends malformed messages */

static void join(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(ripc_group_join(rig.s[i], GROUP, 10000));
	rig_run(&rig, 100);
}

static struct ripc__group *group(unsigned i)
{
	return ripc__group_find(rig.ctx[i], GROUP);
}

static struct ripc_group_stats stats(unsigned i)
{
	struct ripc_group_stats s = {.size = sizeof(s)};

	OK(ripc_group_stats(rig.ctx[i], GROUP, NULL, &s));
	return s;
}

static void expect_member_count(unsigned from, unsigned to, unsigned want)
{
	for (unsigned i = from; i < to; i++)
		ck_assert_uint_eq(stats(i).members, want);
}

static unsigned coordinators(unsigned from, unsigned to)
{
	unsigned n = 0;

	for (unsigned i = from; i < to; i++)
		n += group(i)->state == RIPC__GROUP_COORDINATING;
	return n;
}

static void send_all(unsigned from, unsigned first, unsigned last)
{
	uint8_t data[40];

	rig_fill(data, sizeof(data), 9);
	OK(ripc_group_send(rig.s[from], GROUP, &(struct iovec){data, sizeof(data)}, 1, NULL, 5000));
	for (unsigned i = first; i < last; i++)
		rig_expect(&rig, i, sizeof(data), 9);
}

static void set_partition(bool on)
{
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 2; k < 4; k++)
			OK(ripc__sim_partition(rig.net, rig_instance(&rig, i),
					       rig_instance(&rig, k), on));
}

/* ---- who keeps it ---- */

START_TEST(join__one_coordinator)
{
	rig_start(&rig, 4, NULL);
	join(4);
	expect_member_count(0, 4, 4);
	ck_assert_uint_eq(coordinators(0, 4), 1);
	send_all(2, 0, 4);
}
END_TEST

/* Members repeat their JOIN: the list stays the same, and is not sent again. */
START_TEST(join__repeated)
{
	uint64_t version;

	rig_start(&rig, 3, NULL);
	join(3);
	rig_run(&rig, 1000);
	version = group(0)->version;
	rig_run(&rig, 60000);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(group(i)->version, version);
}
END_TEST

START_TEST(coordinator__partition_merge)
{
	rig_start(&rig, 4, NULL);
	join(4);
	set_partition(true);
	send_all(0, 0, 2);
	rig_run(&rig, 30000);
	expect_member_count(0, 4, 2);
	ck_assert_uint_eq(coordinators(0, 2), 1);
	ck_assert_uint_eq(coordinators(2, 4), 1);
	send_all(0, 0, 2);
	send_all(3, 2, 4);
	set_partition(false);
	for (unsigned ms = 0; ms < 100000 && coordinators(0, 4) == 2; ms++)
		rig_run(&rig, 1);
	/* The coordinator that resigns notifies its members: they move at once. */
	rig_run(&rig, 150);
	expect_member_count(0, 4, 4);
	ck_assert_uint_eq(coordinators(0, 4), 1);
	send_all(1, 0, 4);
}
END_TEST

/* The lane to the coordinator breaks: no member is lost, and no later message. */
START_TEST(coordinator__found_again)
{
	rig_start(&rig, 4, NULL);
	join(4);
	for (unsigned i = 1; i < 4; i++) {
		if (rig_lane(&rig, 0, i))
			ck_assert_int_ge(ripc__sim_break(rig.net, rig_instance(&rig, 0),
							 rig_instance(&rig, i)),
					 1);
		rig_run(&rig, 100);
		send_all(0, 0, 4);
		rig_run(&rig, 5000);
		expect_member_count(0, 4, 4);
		send_all(i, 0, 4);
	}
	ck_assert_uint_eq(coordinators(0, 4), 1);
}
END_TEST

/* The member is silent, although its lanes look intact. */
START_TEST(member__silent_expires)
{
	rig_start(&rig, 4, NULL);
	join(4);
	ripc__sim_kill_context(rig.net, rig.ctx[3], true);
	rig.ctx[3] = NULL;
	rig_run(&rig, 30000);
	expect_member_count(0, 3, 3);
	ripc__sim_kill_context(rig.net, rig.ctx[0], true);
	rig.ctx[0] = NULL;
	rig_run(&rig, 30000);
	expect_member_count(1, 3, 2);
	ck_assert_uint_eq(coordinators(1, 3), 1);
	send_all(2, 1, 3);
}
END_TEST

/* A datagram from a sender that somebody made up. Return: whether it was taken. */
static bool forge_multicast(uint64_t sender, uint64_t number)
{
	uint8_t instance[16] = {1}, lens[4] = {0};
	uint64_t before = stats(0).received;
	struct ripc__header h = {.dest = GROUP,
				 .source = 7,
				 .nitems = 1,
				 .u = {number},
				 .instance = instance,
				 .lens = lens,
				 .payload = lens};

	ripc__put_le64(instance + 8, sender);
	ripc__group_receive(rig.ctx[0], 0, NULL, &h);
	return stats(0).received > before;
}

static bool has_sender(uint64_t sender)
{
	uint8_t instance[16] = {1};
	struct ripc_group_stats s = {.size = sizeof(s)};

	ripc__put_le64(instance + 8, sender);
	return !ripc_group_stats(rig.ctx[0], GROUP, instance, &s);
}

/* Forged senders take half of the table; the senders received last stay. */
START_TEST(senders__forged_flood)
{
	enum { HALF = RIPC__MCAST_SENDERS_MAX / 2 };

	rig_start(&rig, 1, NULL);
	join(1);
	for (uint64_t i = 0; i < HALF; i++)
		ck_assert(forge_multicast(i, 1));
	for (uint64_t i = HALF; i < 2 * HALF; i++)
		ck_assert(!forge_multicast(i, 1));
	ck_assert_uint_eq(stats(0).senders, HALF);
	rig_run(&rig, RIPC__IDLE_MS / 2);
	ck_assert(forge_multicast(3, 2));
	ck_assert(!forge_multicast(HALF, 1));
	rig_run(&rig, RIPC__IDLE_MS / 2 + 1);
	for (uint64_t i = HALF; i < 2 * HALF - 1; i++)
		ck_assert(forge_multicast(i, 1));
	/* All but one were silent for long. */
	ck_assert(!forge_multicast(2 * HALF - 1, 1));
	ck_assert_uint_eq(stats(0).senders, HALF);
	for (uint64_t i = 0; i < 2 * HALF; i++)
		ck_assert_int_eq(has_sender(i), i == 3 || (i >= HALF && i < 2 * HALF - 1));
	ck_assert(forge_multicast(3, 3));
	ck_assert(!forge_multicast(3, 3));
}
END_TEST

/* Unused state is freed: of a sender that sends no more, and of a member that has left. */
START_TEST(group__idle_freed)
{
	rig_start(&rig, 3, NULL);
	join(2);
	send_all(2, 0, 2);
	rig_run(&rig, 50000);
	ck_assert_ptr_null(group(2));
	ck_assert_uint_eq(HASH_COUNT(group(0)->members), 1);
	OK(ripc_group_leave(rig.s[0], GROUP));
	OK(ripc_group_leave(rig.s[1], GROUP));
	rig_run(&rig, 10000);
	ck_assert_ptr_null(group(0));
	ck_assert_ptr_null(group(1));
}
END_TEST

/* A context that is closed leaves its groups: the others do not wait for its silence. */
START_TEST(members__close)
{
	unsigned coordinator = 0, other;

	rig_start(&rig, 4, NULL);
	join(4);
	while (group(coordinator)->state != RIPC__GROUP_COORDINATING)
		coordinator++;
	other = coordinator ? 0 : 1;
	rig_close(&rig, other);
	rig_run(&rig, 50);
	for (unsigned i = 0; i < 4; i++)
		if (i != other)
			expect_member_count(i, i + 1, 3);
	rig_close(&rig, coordinator);
	rig_run(&rig, 50);
	for (unsigned i = 0; i < 4; i++)
		if (i != other && i != coordinator)
			expect_member_count(i, i + 1, 2);
}
END_TEST

/* Lanes to coordinators, members and senders of groups are in use. */
START_TEST(groups_include__members_and_coordinator)
{
	unsigned coordinator, other;

	rig_start(&rig, 4, NULL);
	join(2);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	other = !coordinator;
	send_all(2, 0, 2);
	rig_connect(&rig, 3, coordinator);
	rig_connect(&rig, 3, other);
	/* A sender is known to the coordinator alone. */
	ck_assert(ripc__groups_include(rig.ctx[coordinator], rig_peer(&rig, coordinator, other)));
	ck_assert(ripc__groups_include(rig.ctx[coordinator], rig_peer(&rig, coordinator, 2)));
	ck_assert(!ripc__groups_include(rig.ctx[coordinator], rig_peer(&rig, coordinator, 3)));
	ck_assert(ripc__groups_include(rig.ctx[other], rig_peer(&rig, other, coordinator)));
	ck_assert(!ripc__groups_include(rig.ctx[other], rig_peer(&rig, other, 2)));
	ck_assert(ripc__groups_include(rig.ctx[2], rig_peer(&rig, 2, coordinator)));
	ck_assert(ripc__groups_include(rig.ctx[2], rig_peer(&rig, 2, other)));
	ck_assert(!ripc__groups_include(rig.ctx[3], rig_peer(&rig, 3, coordinator)));
	/* A coordinator that is no member any more. */
	ripc__lock(rig.ctx[2]);
	ripc__member_free(group(2), ripc__member_find(group(2), rig_instance(&rig, coordinator)));
	ck_assert(ripc__groups_include(rig.ctx[2], rig_peer(&rig, 2, coordinator)));
	ripc__unlock(rig.ctx[2]);
}
END_TEST

/*
 * The last members leave while no lane exists to notify the sender: it removes them before their
 * records expire.
 */
START_TEST(members__leave_unnoticed)
{
	rig_start(&rig, 4, NULL);
	join(2);
	send_all(3, 0, 2);
	expect_member_count(3, 4, 2);
	set_partition(true);
	rig_run(&rig, 5000);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_group_leave(rig.s[i], GROUP));
	rig_run(&rig, 15000);
	expect_member_count(3, 4, 0);
	set_partition(false);
	OK(ripc_group_join(rig.s[1], GROUP, 10000));
	rig_run(&rig, 5000);
	expect_member_count(3, 4, 1);
	send_all(3, 1, 2);
}
END_TEST

/*
 * A member leaves between two searches of a sender for the coordinator: the next list of members
 * lacks it.
 */
START_TEST(members__leave_between_polls)
{
	struct ripc__group *g;
	unsigned coordinator;

	rig_start(&rig, 3, NULL);
	join(2);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	send_all(2, 0, 2);
	expect_member_count(2, 3, 2);
	g = group(2);
	g->state = RIPC__GROUP_SEARCHING;
	g->next_ns = RIPC__NEVER;
	OK(ripc_group_leave(rig.s[!coordinator], GROUP));
	rig_run(&rig, 100);
	ck_assert_int_eq(g->state, RIPC__GROUP_SEARCHING);
	expect_member_count(2, 3, 2);
	ripc__group_kick(g);
	rig_run(&rig, 5000);
	expect_member_count(2, 3, 1);
	send_all(2, coordinator, coordinator + 1);
	expect_member_count(coordinator, coordinator + 1, 1);
}
END_TEST

/*
 * A sender claimed the name while its last local member left: until its next pass it coordinates
 * without being a member. A context that joins then gets the list without it.
 */
START_TEST(coordinator__no_member_itself)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	struct ripc__group *g;
	struct ripc__header h = {.kind = RIPC__JOIN, .dest = GROUP, .u = {RIPC__ROLE_MEMBER}};
	const char *why;

	rig_start(&rig, 3, NULL);
	OK(ripc_group_join(rig.s[0], GROUP, 10000));
	OK(ripc_group_join(rig.s[1], GROUP, 10000));
	rig_connect(&rig, 2, 0);
	OK(ripc_group_leave(rig.s[0], GROUP));
	g = group(0);
	ck_assert_int_eq(g->state, RIPC__GROUP_COORDINATING);
	h.payload = record;
	ripc__lock(rig.ctx[2]);
	h.payload_len =
		(uint32_t)ripc__group_own_record(ripc__group_get(rig.ctx[2], GROUP), record);
	ripc__unlock(rig.ctx[2]);
	ck_assert_uint_gt(h.payload_len, 0);
	ripc__lock(rig.ctx[0]);
	OK(ripc__group_control(rig_lane(&rig, 0, 2), &h, &why));
	ripc__unlock(rig.ctx[0]);
	ck_assert_ptr_nonnull(ripc__member_find(g, rig_instance(&rig, 2)));
	rig_run(&rig, 100);
	ck_assert_uint_eq(rig_stats(&rig, 2).bad_messages, 0);
	ck_assert_uint_eq(rig_stats(&rig, 2).lanes_lost, 0);
}
END_TEST

/* ---- sending over lanes ---- */

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

/* While a service is being closed, calls on it are refused and change nothing. */
static int closing_rc[3];

static void call_closing(void *arg)
{
	struct iovec item = {"x", 1};

	(void)arg;
	if (rig.s[0]->state == RIPC__SERVICE_ACTIVE)
		return;
	closing_rc[0] = ripc_group_send(rig.s[0], GROUP, &item, 1, NULL, 0);
	closing_rc[1] = ripc_group_join(rig.s[0], GROUP, 0);
	closing_rc[2] = ripc_group_leave(rig.s[0], GROUP);
}

static void narrow(struct ripc__sim_config *config)
{
	config->bandwidth = 200 * 1000 * 1000;
}

START_TEST(service__being_closed)
{
	uint8_t *data = calloc(1, 4 * MIB);
	struct ripc_request *r;

	rig_start(&rig, 2, narrow);
	rig_connect(&rig, 1, 0);
	r = rig_begin(&rig, 1, 0, data, 4 * MIB);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(rig.s[0], RIPC__RNDV_TRANSFER), 1);
	OK(ripc__sim_actor(rig.net, call_closing, NULL));
	OK(ripc_service_unregister(rig.s[0]));
	ripc__sim_actor_remove(rig.net, call_closing, NULL);
	rig.s[0] = NULL;
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(closing_rc[i], -ESHUTDOWN);
	ck_assert_ptr_null(group(0));
	RC(-ECANCELED, ripc_request_cancel(&r, 5000));
	free(data);
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

/* ---- numbers ---- */

static void inject(unsigned from, unsigned to, unsigned kind, uint64_t a, uint64_t b,
		   const uint8_t *tail, size_t len)
{
	uint8_t buf[2000], *p = ripc__header_put(buf, (uint8_t)kind, 0, kind == RIPC__GROUP, 0,
						 GROUP, RIG_ID(from));

	ripc__put_le64(p, a);
	p += 8;
	if (kind == RIPC__GROUP) {
		ripc__put_le32(p, (uint32_t)len);
		p += 4;
	} else if (kind != RIPC__MCAST_ACK) {
		ripc__put_le64(p, b);
		p += 8;
	}
	if (len)
		memcpy(p, tail, len);
	rig_inject(&rig, from, to, buf, (size_t)(p - buf) + len, 0);
	rig_run(&rig, 50);
}

static void number(uint64_t n)
{
	inject(0, 1, RIPC__GROUP, n, 0, (const uint8_t *)"x", 1);
}

static void expect_stats(uint64_t received, uint64_t lost, uint64_t duplicates)
{
	ck_assert_uint_eq(stats(1).received, received);
	ck_assert_uint_eq(stats(1).lost, lost);
	ck_assert_uint_eq(stats(1).duplicates, duplicates);
	ck_assert_uint_eq(rig_stats(&rig, 1).queued, received);
}

START_TEST(receive__sequence_numbers)
{
	const uint64_t n = UINT64_C(1) << 40;

	rig_start(&rig, 2, NULL);
	OK(ripc_group_join(rig.s[1], GROUP, 10000));
	rig_connect(&rig, 0, 1);
	number(n);
	expect_stats(1, 0, 0);
	number(n);
	expect_stats(1, 0, 1);
	/* Messages before the first received one are not waited for. */
	number(n - 1);
	expect_stats(1, 0, 2);
	number(n + 1);
	number(n + 5);
	expect_stats(3, 3, 2);
	number(n + 3);
	expect_stats(4, 2, 2);
	number(n + 3);
	expect_stats(4, 2, 3);
	number(n + 5 + RIPC__MCAST_DEDUP_WINDOW - 1);
	expect_stats(5, RIPC__MCAST_DEDUP_WINDOW, 3);
	/* Too old for the window: it may have been received before. */
	number(n + 4);
	expect_stats(5, RIPC__MCAST_DEDUP_WINDOW, 4);
	number(n + 6);
	expect_stats(6, RIPC__MCAST_DEDUP_WINDOW - 1, 4);
	number(n + 6 + 3 * RIPC__MCAST_DEDUP_WINDOW);
	expect_stats(7, 3 * RIPC__MCAST_DEDUP_WINDOW, 4);
	/* It has forgotten the group meanwhile, and begins anew. */
	number(n + (UINT64_C(1) << 30));
	expect_stats(8, 3 * RIPC__MCAST_DEDUP_WINDOW, 4);
	number(n + (UINT64_C(1) << 30) + 1);
	expect_stats(9, 3 * RIPC__MCAST_DEDUP_WINDOW, 4);
}
END_TEST

/* ---- forgeries: multicast in the name of another ---- */

/* A multicast that seems to be of 1, or is. Return: whether it was taken. */
static bool multicast(uint64_t n)
{
	uint8_t lens[4] = {0};
	uint64_t before = stats(0).received;
	struct ripc__header h = {.dest = GROUP,
				 .source = RIG_ID(1),
				 .nitems = 1,
				 .u = {n},
				 .instance = rig.ctx[1]->instance,
				 .lens = lens,
				 .payload = lens};
	struct ripc_message *m;

	ripc__lock(rig.ctx[0]);
	ripc__group_receive(rig.ctx[0], 0, NULL, &h);
	ripc__unlock(rig.ctx[0]);
	while (!ripc_receive(rig.s[0], &m, 0))
		ripc_message_free(m);
	return stats(0).received > before;
}

/* The number of the sender's next message, over whatever it goes. */
static uint64_t next_number(void)
{
	return group(1)->number + 1;
}

static bool sent_over_lane(void)
{
	uint64_t before = stats(0).received;
	struct ripc_message *m;

	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){"x", 1}, 1, NULL, 5000));
	rig_run(&rig, 1);
	while (!ripc_receive(rig.s[0], &m, 0))
		ripc_message_free(m);
	return stats(0).received > before;
}

static const struct {
	uint64_t ahead, more; /* of the first lie, and for each further one */
	unsigned each;        /* one after so many messages; 0: one only */
	bool first;           /* before the first message */
} forgeries[] = {
	{1 << 23, 0, 0, false},
	{1 << 23, 0, 0, true},
	{1 << 23, 1, 3, false},
	{1 << 23, 1 << 23, 3, true},
	{UINT64_C(1) << 40, 1 << 20, 1, false},
	{RIPC__MCAST_DEDUP_WINDOW - 1, 0, 0, false},
	{RIPC__MCAST_DEDUP_WINDOW - 1, 0, 5, false},
	{RIPC__MCAST_DEDUP_WINDOW - 1, 0, 0, true},
	{RIPC__MCAST_DEDUP_WINDOW + 1, 0, 5, false},
	{1, 0, 5, false},
};

#define NFORGERIES (sizeof(forgeries) / sizeof(forgeries[0]))

#define MESSAGES 5000

/* Even by multicast alone, with all members reachable by it. */
START_TEST(forgery__victim_still_received)
{
	unsigned dropped = 0, n = 0;
	unsigned most;
	bool lane = _i & 1;

	rig_start(&rig, 2, NULL);
	OK(ripc_group_join(rig.s[0], GROUP, 10000));
	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){"x", 1}, 1, NULL, 5000));
	ripc_message_free(rig_take(&rig, 0));
	if (forgeries[_i / 2].first) {
		struct ripc__mcast_sender *s;

		/* As if nothing had come of it yet. */
		HASH_FIND(hh, group(0)->senders, rig.ctx[1]->instance, 16, s);
		ck_assert_ptr_nonnull(s);
		s->replay = (struct ripc__replay){0};
		n += multicast(next_number() + forgeries[_i / 2].ahead);
	}
	for (unsigned i = 1; i <= MESSAGES; i++) {
		uint64_t ahead = forgeries[_i / 2].ahead + n * forgeries[_i / 2].more;

		dropped += !(lane ? sent_over_lane() : multicast(++group(1)->number));
		if (forgeries[_i / 2].each ? i % forgeries[_i / 2].each == 0 : i == 100 && !n)
			n += multicast(group(1)->number + ahead);
	}
	most = n + (forgeries[_i / 2].first ? RIPC__MCAST_DEDUP_WINDOW : 0) + n / 4;
	ck_assert_msg(dropped <= most, "%u forgeries, %u messages dropped", n, dropped);
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
	inject(0, 1, RIPC__MCAST_ACK, next_number(), 0, NULL, 0);
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

/* ---- unauthenticated peers ---- */

static size_t record_of(const uint8_t instance[16], uint8_t *buf)
{
	struct ripc__record r = {.service = ripc__group_name(GROUP), .generation = 1};
	int len;

	memcpy(r.instance, instance, 16);
	len = ripc__record_encode(&r, buf, RIPC__RECORD_BYTES_MAX);
	ck_assert_int_gt(len, 0);
	return (size_t)len;
}

/* Only the group's coordinator is believed, and only about itself. */
START_TEST(control__not_from_coordinator)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX], nobody[16] = {1, 2, 3};
	size_t len;

	hostile = true;
	rig_start(&rig, 4, NULL);
	join(3);
	rig_connect(&rig, 3, 1);
	len = record_of(nobody, record);
	inject(3, 1, RIPC__MEMBER, 1, 5, record, len);
	expect_member_count(0, 3, 3);
	len = record_of(rig_instance(&rig, 0), record);
	inject(3, 1, RIPC__MEMBER, 0, 5, record, len);
	inject(3, 1, RIPC__COORDINATOR, 0, 0, NULL, 0);
	inject(3, 1, RIPC__MCAST_ACK, 1, 0, NULL, 0);
	expect_member_count(0, 3, 3);
	ck_assert_uint_eq(group(1)->state, RIPC__GROUP_JOINED);
	rig_connect(&rig, 3, 0);
	inject(3, 0, RIPC__JOIN, RIPC__ROLE_MEMBER, 0, record, len);
	expect_member_count(0, 3, 3);
	ck_assert_uint_ge(rig_stats(&rig, 0).bad_messages, 1);
	send_all(1, 0, 3);
}
END_TEST

/* The coordinator reports the departure of a context that this one does not know. */
START_TEST(member__unknown_leaves)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX], nobody[16] = {1, 2, 3};
	unsigned coordinator;

	rig_start(&rig, 3, NULL);
	join(3);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	inject(coordinator, 2, RIPC__MEMBER, 0, 5, record, record_of(nobody, record));
	ck_assert_uint_eq(group(2)->version, 5);
	expect_member_count(2, 3, 3);
}
END_TEST

START_TEST(group_control__no_group)
{
	static const uint64_t groups[] = {0, RIPC_GROUP_LIMIT, UINT64_MAX};
	struct ripc__header h = {.kind = RIPC__COORDINATOR};
	const char *why = NULL;

	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 3; i++) {
		h.dest = groups[i];
		RC(-EPROTO, ripc__group_control(rig_lane(&rig, 0, 1), &h, &why));
		ck_assert_str_eq(why, "of no possible group");
	}
	h.dest = RIPC_GROUP_LIMIT - 1;
	OK(ripc__group_control(rig_lane(&rig, 0, 1), &h, &why));
}
END_TEST

START_TEST(group_control__malformed)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len;

	hostile = true;
	rig_start(&rig, 2, NULL);
	join(1);
	for (unsigned i = 0; i < 3; i++) {
		rig_connect(&rig, 1, 0);
		len = record_of(rig_instance(&rig, 1), record);
		inject(1, 0, RIPC__JOIN, i == 2 ? 3 : RIPC__ROLE_MEMBER, 0, record,
		       i ? len - (i & 1) : 0);
		ck_assert_uint_eq(rig_stats(&rig, 0).bad_messages, i + 1);
		rig_run(&rig, 3000);
	}
	expect_member_count(0, 1, 1);
}
END_TEST

/* A sender that joins is a member as soon as the coordinator answers, not at its next refresh. */
START_TEST(join__sender_becomes_member)
{
	uint64_t start;

	rig_start(&rig, 3, NULL);
	join(2);
	send_all(2, 0, 2);
	start = ripc__sim_now(rig.net);
	OK(ripc_group_join(rig.s[2], GROUP, 10000));
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 100 * RIPC__MS);
	rig_run(&rig, 10);
	expect_member_count(0, 3, 3);
	send_all(0, 0, 3);
	RC(-EALREADY, ripc_group_join(rig.s[2], GROUP, 10000));
	expect_member_count(2, 3, 3);
}
END_TEST

START_TEST(join__refused)
{
	struct iovec item = {"x", 1};
	static const uint64_t groups[] = {0, RIPC_GROUP_LIMIT, UINT64_MAX};

	rig_start(&rig, 1, NULL);
	for (unsigned i = 0; i < 3; i++) {
		RC(-EINVAL, ripc_group_join(rig.s[0], groups[i], 100));
		RC(-EINVAL, ripc_group_leave(rig.s[0], groups[i]));
		RC(-EINVAL, ripc_group_send(rig.s[0], groups[i], &item, 1, NULL, 100));
	}
	RC(-EINVAL, ripc_group_join(NULL, GROUP, 100));
	OK(ripc_group_join(rig.s[0], RIPC_GROUP_LIMIT - 1, 10000));
}
END_TEST

/* A coordinator whose list is full ignores further contexts, until others leave. */
START_TEST(join__list_full)
{
	struct ripc__record r = {.service = ripc__group_name(GROUP), .generation = 1};
	struct ripc__group *g;

	rig_start(&rig, 2, NULL);
	join(1);
	g = group(0);
	ripc__lock(rig.ctx[0]);
	for (uint64_t i = 0; i < RIPC__MEMBERS_MAX; i++) {
		ripc__put_le64(r.instance, i);
		ck_assert_ptr_nonnull(ripc__member_put(g, &r, RIPC__ROLE_MEMBER));
	}
	/* One that is known already needs no room. */
	ck_assert_ptr_nonnull(ripc__member_put(g, &r, RIPC__ROLE_MEMBER));
	ripc__unlock(rig.ctx[0]);
	expect_member_count(0, 1, RIPC__MEMBERS_MAX + 1);
	RC(-ETIMEDOUT, ripc_group_join(rig.s[1], GROUP, 300));
	expect_member_count(0, 1, RIPC__MEMBERS_MAX + 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ripc__lock(rig.ctx[0]);
	for (uint64_t i = 0; i < RIPC__MEMBERS_MAX; i++) {
		ripc__put_le64(r.instance, i);
		ripc__member_free(g, ripc__member_find(g, r.instance));
	}
	ripc__unlock(rig.ctx[0]);
	OK(ripc_group_join(rig.s[1], GROUP, 10000));
	rig_run(&rig, 50);
	expect_member_count(0, 2, 2);
}
END_TEST

START_TEST(deliver__items)
{
	char text[] = "one two";
	struct iovec items[] = {{text, 3}, {NULL, 0}, {text + 3, 4}};
	struct ripc_message *m;

	rig_start(&rig, 2, NULL);
	join(2);
	OK(ripc_group_send(rig.s[0], GROUP, items, 3, NULL, 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_mem_eq(m->items[i].iov_base, items[i].iov_base ? items[i].iov_base : "",
				 items[i].iov_len);
	ck_assert_uint_eq(m->items[0].iov_len, 3);
	ck_assert_uint_eq(m->items[1].iov_len, 0);
	ck_assert_uint_eq(m->items[2].iov_len, 4);
	ripc_message_free(m);
}
END_TEST

/* A long message that nobody has taken yet is bounded by itself, and leaves the group its room. */
START_TEST(deliver__after_long_message)
{
	uint8_t data[40];

	rig_start(&rig, 2, NULL);
	join(2);
	rig_fill(data, sizeof(data), 3);
	OK(rig_long(&rig, 0, 1, MIB, 2, 5000));
	OK(ripc_group_send(rig.s[0], GROUP, &(struct iovec){data, sizeof(data)}, 1, NULL, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(stats(1).dropped, 0);
	rig_expect(&rig, 1, MIB, 2);
	rig_expect(&rig, 1, sizeof(data), 3);
}
END_TEST

/* Small ones travel with the bytes at once, and cost more memory than they have bytes. */
START_TEST(deliver__after_many_small_long)
{
	enum { SENDERS = 3, EACH = 450 };
	uint8_t data[40];
	unsigned n = 0;

	rig_start(&rig, SENDERS + 1, NULL);
	for (unsigned i = 0; i <= SENDERS; i++)
		rig.ctx[i]->opt.service_window = 65536;
	join(1);
	for (unsigned i = 1; i <= SENDERS; i++)
		for (unsigned k = 0; k < EACH; k++)
			OK(rig_long(&rig, i, 0, 8, k, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig.s[0]->queued, SENDERS * EACH);
	ck_assert_uint_gt(rig.s[0]->queued * RIPC__CREDIT_UNIT, 65536);
	rig_fill(data, sizeof(data), 3);
	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){data, sizeof(data)}, 1, NULL, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(stats(0).dropped, 0);
	while (n < SENDERS * EACH) {
		struct ripc_message *m;

		OK(ripc_receive(rig.s[0], &m, 5000));
		ck_assert(m->is_long);
		ripc_message_free(m);
		n++;
	}
	rig_expect(&rig, 0, sizeof(data), 3);
}
END_TEST

static void teardown(void)
{
	for (unsigned i = 0; i < rig.n; i++)
		if (rig.ctx[i] && !hostile)
			ck_assert_uint_eq(rig_stats(&rig, i).bad_messages, 0);
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/group/group");
	TCase *tc = tcase_create("group");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, join__one_coordinator);
	tcase_add_test(tc, join__repeated);
	tcase_add_test(tc, join__sender_becomes_member);
	tcase_add_test(tc, join__refused);
	tcase_add_test(tc, join__list_full);
	tcase_add_test(tc, coordinator__partition_merge);
	tcase_add_test(tc, coordinator__found_again);
	tcase_add_test(tc, member__silent_expires);
	tcase_add_test(tc, senders__forged_flood);
	tcase_add_test(tc, group__idle_freed);
	tcase_add_test(tc, members__close);
	tcase_add_test(tc, groups_include__members_and_coordinator);
	tcase_add_test(tc, members__leave_unnoticed);
	tcase_add_test(tc, members__leave_between_polls);
	tcase_add_test(tc, coordinator__no_member_itself);
	tcase_add_loop_test(tc, send__waits_for_lanes, 0, 2);
	tcase_add_test(tc, send__member_connects);
	tcase_add_test(tc, send__other_thread);
	tcase_add_loop_test(tc, send__service_closes, 0, 2);
	tcase_add_test(tc, send__no_wait_progresses);
	tcase_add_test(tc, send__no_members);
	tcase_add_test(tc, send__nobody_reached);
	tcase_add_test(tc, send__no_wait);
	tcase_add_test(tc, send__unreachable_member);
	tcase_add_test(tc, send__silent_member);
	tcase_add_test(tc, service__being_closed);
	tcase_add_test(tc, multicast__replaces_lanes);
	tcase_add_test(tc, multicast__acknowledged_rarely);
	tcase_add_test(tc, multicast__lost_by_network);
	tcase_add_test(tc, multicast__too_long);
	tcase_add_test(tc, multicast__not_to_one_member);
	tcase_add_test(tc, multicast__own_comes_back);
	tcase_add_test(tc, multicast__listens_while_member);
	tcase_add_test(tc, multicast__too_many_groups);
	tcase_add_test(tc, deliver__items);
	tcase_add_test(tc, deliver__after_long_message);
	tcase_add_test(tc, deliver__after_many_small_long);
	tcase_add_test(tc, receive__sequence_numbers);
	tcase_add_loop_test(tc, forgery__victim_still_received, 0, 2 * NFORGERIES);
	tcase_add_test(tc, mcast_ack__of_forgery);
	tcase_add_test(tc, mcast_ack__unknown);
	tcase_add_test(tc, control__not_from_coordinator);
	tcase_add_test(tc, member__unknown_leaves);
	tcase_add_test(tc, group_control__no_group);
	tcase_add_test(tc, group_control__malformed);
	suite_add_tcase(suite, tc);
	return test_main("core/group/group", suite);
}
