/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The members of a group and their coordinator: who coordinates when contexts join, part, die and
 * meet again.
 */
#include "core/group/coordinator.h"
#include "core/group/membership.h"
#include "core/groups.h"
#include "transitions.h"
#include "wire/record.h"

#define TO(state) (1u << RIPC__GROUP_##state)

struct rig rig;

static void set_partition(bool on)
{
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 2; k < 4; k++)
			OK(ripc__sim_partition(rig.net, rig_instance(&rig, i),
					       rig_instance(&rig, k), on));
}

DEFINE_SET_STATE(struct ripc__group, ripc__group_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__GROUP_STATES] = {
		[RIPC__GROUP_SEARCHING] = TO(SEARCHING) | TO(CLAIMING) | TO(JOINING),
		[RIPC__GROUP_CLAIMING] = TO(JOINING) | TO(COORDINATING),
		[RIPC__GROUP_JOINING] = TO(SEARCHING) | TO(JOINED),
		[RIPC__GROUP_JOINED] = TO(SEARCHING) | TO(JOINING) | TO(JOINED),
		[RIPC__GROUP_COORDINATING] = TO(SEARCHING) | TO(JOINING),
	};

	rig_start(&rig, 1, NULL);
	check_transitions(set_state, allowed);
}
END_TEST

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

/*
 * A context joins while its JOIN as a sender is not answered yet: it is a member when the call
 * returns, not at its next refresh.
 */
START_TEST(join__sender_unanswered)
{
	struct iovec item = {"x", 1};
	struct ripc__group *g;

	rig_start(&rig, 3, NULL);
	join(2);
	RC(-EAGAIN, ripc_group_send(rig.s[2], GROUP, &item, 1, NULL, 0));
	g = group(2);
	while (!g->join_sent_ns)
		ripc__sim_run(rig.net, 1000);
	ck_assert_int_eq(g->state, RIPC__GROUP_JOINING);
	ck_assert_int_eq(g->joined_role, RIPC__ROLE_SENDER);
	OK(ripc_group_join(rig.s[2], GROUP, 10000));
	rig_run(&rig, 10);
	expect_member_count(0, 3, 3);
	send_all(0, 0, 3);
}
END_TEST

static unsigned held_coordinator;

static void hold_after_join(void *arg)
{
	(void)arg;
	if (held_coordinator < 2 && group(2) && group(2)->join_sent_ns) {
		OK(ripc__sim_hold(rig.net, rig_instance(&rig, held_coordinator), true));
		held_coordinator += 2;
	}
}

/* A call that gives up while its JOIN is not answered leaves no member behind. */
START_TEST(join__given_up)
{
	rig_start(&rig, 3, NULL);
	join(2);
	held_coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	OK(ripc__sim_actor(rig.net, hold_after_join, NULL));
	RC(-ETIMEDOUT, ripc_group_join(rig.s[2], GROUP, 300));
	ripc__sim_actor_remove(rig.net, hold_after_join, NULL);
	rig_run(&rig, 10);
	OK(ripc__sim_hold(rig.net, rig_instance(&rig, held_coordinator - 2), false));
	rig_run(&rig, 100);
	expect_member_count(0, 2, 2);
}
END_TEST

START_TEST(join__refused)
{
	struct iovec item = {"x", 1};
	static const uint64_t groups[] = {0, RIPC_GROUP_LIMIT - 1, UINT64_MAX};

	rig_start(&rig, 1, NULL);
	for (unsigned i = 0; i < 3; i++) {
		RC(-EINVAL, ripc_group_join(rig.s[0], groups[i], 100));
		RC(-EINVAL, ripc_group_leave(rig.s[0], groups[i]));
		RC(-EINVAL, ripc_group_send(rig.s[0], groups[i], &item, 1, NULL, 100));
	}
	RC(-EINVAL, ripc_group_join(NULL, GROUP, 100));
}
END_TEST

/* The name of each group is an id that the resolver takes. */
START_TEST(join__highest_group)
{
	const uint64_t id = RIPC_GROUP_LIMIT - 2;
	struct iovec item = {"x", 1};

	rig_start(&rig, 2, NULL);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_group_join(rig.s[i], id, 10000));
	OK(ripc_group_send(rig.s[0], id, &item, 1, NULL, 1000));
	for (unsigned i = 0; i < 2; i++)
		ripc_message_free(rig_take(&rig, i));
}
END_TEST

/* The last local member of the coordinator leaves, and another one joins before the next pass. */
START_TEST(join__still_coordinator)
{
	rig_start(&rig, 2, NULL);
	join(2);
	ck_assert_int_eq(group(0)->state, RIPC__GROUP_COORDINATING);
	OK(ripc_group_leave(rig.s[0], GROUP));
	OK(ripc_group_join(rig.s[0], GROUP, 0));
	ck_assert_int_eq(group(0)->state, RIPC__GROUP_COORDINATING);
	rig_run(&rig, 100);
	expect_member_count(0, 2, 2);
	send_all(1, 0, 2);
}
END_TEST

/* A coordinator whose list is full ignores further contexts, until others leave. */
START_TEST(join__list_full)
{
	struct ripc__record r = {.service = ripc__group_name(GROUP), .generation = 1};
	struct ripc__group *g;
	uint32_t sent;

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
	rig_connect(&rig, 1, 0);
	rig_run(&rig, 5000);
	sent = rig_lane(&rig, 1, 0)->tx_seq;
	RC(-ETIMEDOUT, ripc_group_join(rig.s[1], GROUP, 300));
	/* Without an answer JOIN is repeated after 5 s, not at each poll. */
	ck_assert_uint_le(rig_lane(&rig, 1, 0)->tx_seq - sent, 2);
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

/* However many services the coordinators have, which they claim in turn. */
START_TEST(coordinator__partition_merges_soon)
{
	struct ripc_service *s;
	unsigned ms = 0;

	rig_start(&rig, 4, NULL);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 40; k++)
			OK(ripc_service_register(rig.ctx[i], 5000 + 100 * i + k, 0, &s));
	join(4);
	set_partition(true);
	send_all(0, 0, 2);
	rig_run(&rig, 60000);
	ck_assert_uint_eq(coordinators(0, 4), 2);
	set_partition(false);
	while (coordinators(0, 4) == 2 && ms++ < 100000)
		rig_run(&rig, 1);
	ck_assert_msg(ms < 60000 / 8, "merged after %u ms", ms);
	rig_run(&rig, 150);
	expect_member_count(0, 4, 4);
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

/* A coordinator that gave way to an older one takes over when that one has gone. */
START_TEST(coordinator__again)
{
	unsigned older;

	rig_start(&rig, 4, NULL);
	join(4);
	set_partition(true);
	rig_run(&rig, 30000);
	set_partition(false);
	for (unsigned ms = 0; ms < 100000 && coordinators(0, 4) == 2; ms++)
		rig_run(&rig, 1);
	rig_run(&rig, 150);
	ck_assert_uint_eq(coordinators(0, 4), 1);
	for (older = 0; group(older)->state != RIPC__GROUP_COORDINATING;)
		older++;
	for (unsigned i = 0; i < 4; i++)
		if (i / 2 == older / 2)
			OK(ripc_group_leave(rig.s[i], GROUP));
	rig_run(&rig, 5000);
	for (unsigned i = 0; i < 4; i++)
		if (i / 2 != older / 2)
			expect_member_count(i, i + 1, 2);
	send_all(older / 2 ? 0 : 2, older / 2 ? 0 : 2, older / 2 ? 2 : 4);
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

/* A context that is closed does not return to its groups, even if its next JOIN is due. */
START_TEST(members__close_while_join_is_due)
{
	unsigned coordinator, other;

	rig_start(&rig, 2, NULL);
	join(2);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	other = !coordinator;
	ripc__group_kick(group(other));
	rig_close(&rig, other);
	rig_run(&rig, 50);
	expect_member_count(coordinator, coordinator + 1, 1);
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

/* A service that ends leaves its groups; another member of the same context stays. */
START_TEST(service__ends_alone)
{
	struct ripc_service *second;

	rig_start(&rig, 2, NULL);
	join(2);
	OK(ripc_service_register(rig.ctx[0], 77, 0, &second));
	OK(ripc_group_join(second, GROUP, 10000));
	OK(ripc_service_unregister(second));
	rig_run(&rig, 100);
	expect_member_count(0, 2, 2);
	send_all(1, 0, 2);
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

int main(void)
{
	Suite *suite = suite_create("core/group/group");
	TCase *tc = tcase_create("group");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, groups_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, join__one_coordinator);
	tcase_add_test(tc, join__repeated);
	tcase_add_test(tc, join__sender_becomes_member);
	tcase_add_test(tc, join__sender_unanswered);
	tcase_add_test(tc, join__given_up);
	tcase_add_test(tc, join__refused);
	tcase_add_test(tc, join__highest_group);
	tcase_add_test(tc, join__still_coordinator);
	tcase_add_test(tc, join__list_full);
	tcase_add_test(tc, coordinator__partition_merge);
	tcase_add_test(tc, coordinator__partition_merges_soon);
	tcase_add_test(tc, coordinator__found_again);
	tcase_add_test(tc, coordinator__again);
	tcase_add_test(tc, member__silent_expires);
	tcase_add_test(tc, group__idle_freed);
	tcase_add_test(tc, members__close);
	tcase_add_test(tc, members__close_while_join_is_due);
	tcase_add_test(tc, groups_include__members_and_coordinator);
	tcase_add_test(tc, members__leave_unnoticed);
	tcase_add_test(tc, members__leave_between_polls);
	tcase_add_test(tc, coordinator__no_member_itself);
	tcase_add_test(tc, service__ends_alone);
	tcase_add_test(tc, service__being_closed);
	suite_add_tcase(suite, tc);
	return test_main("core/group/group", suite);
}
