/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages that are acknowledged, and their end. */
#include "core/reliable/reliables.h"

/* ---- a quarter of the window, which is acknowledged at once ---- */

#define QUARTER (RIPC__RELIABLE_WINDOW / 4)

/* Messages that have not ended; acknowledged: only those that are acknowledged. */
static unsigned in_list(bool acknowledged)
{
	struct ripc__reliable *rel = rig_peer(&rig, 0, 1)->reliable;
	struct ripc__reliable_msg *m;
	unsigned n = 0;

	ripc__list_for_each_entry (m, &rel->unacked, link)
		n += !acknowledged || m->number < rel->acked;
	return n;
}

/* Sends numbers 2 to QUARTER + 10: the peer acknowledges most, none has ended. */
static void send_quarter(void)
{
	restart_deep();
	OK(send_number(RIG_ID(1), 1, 1000));
	rig_run(&rig, 60);
	for (uint64_t n = 2; n <= QUARTER + 10; n++)
		OK(send_number(RIG_ID(1), n, 0));
	ck_assert_uint_eq(unacked(), QUARTER + 9);
	ck_assert_uint_eq(in_list(true), 0);
	ripc__sim_run(rig.net, RIPC__RELIABLE_ACK_NS / 2);
	ck_assert_uint_ge(in_list(true), QUARTER);
	ck_assert_uint_eq(unacked(), QUARTER + 9);
}

/* A few end with each message that is sent on, all after RIPC__RELIABLE_ACK_NS. */
START_TEST(quarter__ends_later)
{
	uint64_t next = QUARTER + 11;
	unsigned left;

	send_quarter();
	left = in_list(true);
	for (unsigned i = 1; i <= 5; i++) {
		OK(send_number(RIG_ID(1), next++, 0));
		ck_assert_uint_eq(in_list(true), left - 8 * i);
	}
	/* The rest is acknowledged after RIPC__RELIABLE_ACK_NS, and ends after as much again. */
	rig_run(&rig, 100);
	ck_assert_uint_eq(unacked(), 0);
	expect_numbers(1, 1, next - 1);
}
END_TEST

/* The memory of the copies is kept for the next messages, until the context is idle. */
START_TEST(memory__freed_when_idle)
{
	const struct ripc__reliable_free *list;

	send_quarter();
	list = &rig.ctx[0]->reliable_free[0];
	rig_run(&rig, 100);
	ck_assert_uint_gt(list->count, QUARTER);
	rig_run(&rig, 3000);
	ck_assert_uint_eq(list->count, 0);
	ck_assert_ptr_null(list->first);
	OK(send_number(RIG_ID(1), QUARTER + 11, 0));
	rig_run(&rig, 100);
	ck_assert_uint_eq(list->count, 1);
	expect_numbers(1, 1, QUARTER + 11);
}
END_TEST

/* One that waits for it: ripc_flush(), a message to the next holder, a window that is full. */
START_TEST(quarter__awaited)
{
	struct ripc__peer *p;

	send_quarter();
	RC(-EAGAIN, ripc_flush(rig.s[0], RIG_ID(1), 0));
	ck_assert_uint_eq(in_list(true), 0);
	ck_assert_uint_gt(in_list(false), 0);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ck_assert_uint_eq(unacked(), 0);

	send_quarter();
	p = rig_peer(&rig, 0, 1);
	p->reliable->bytes += RIPC__RELIABLE_WINDOW_BYTES;
	RC(-EAGAIN, send_number(RIG_ID(1), 1, 0));
	p->reliable->bytes -= RIPC__RELIABLE_WINDOW_BYTES;
	ck_assert_uint_eq(in_list(true), 0);

	send_quarter();
	rig_dest(&rig, 0, 1)->peer = NULL;
	ripc__lock(rig.ctx[0]);
	ripc__reliable_ask(rig.ctx[0], rig_dest(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	rig_dest(&rig, 0, 1)->peer = rig_peer(&rig, 0, 1);
	ck_assert_uint_eq(in_list(true), 0);
	/* Later ones end as soon as they are acknowledged. */
	for (uint64_t n = 0; n < QUARTER; n++)
		OK(send_number(RIG_ID(1), n, 0));
	for (unsigned before = unacked(); unacked() == before;) {
		ripc__sim_run(rig.net, 1000);
		ck_assert_uint_eq(in_list(true), 0);
	}
}
END_TEST

/* The lane is lost: what was acknowledged is not sent again. */
START_TEST(quarter__lane_lost)
{
	struct ripc__reliable *rel;

	send_quarter();
	rel = rig_peer(&rig, 0, 1)->reliable;
	ripc__lock(rig.ctx[0]);
	ripc__reliable_lane_failed(rig_lane(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(in_list(false), 9);
	ck_assert_ptr_eq(rel->resend, ripc__list_first(&rel->unacked));
	rel->resend = NULL;
}
END_TEST

/* The peer closes or dies: what was acknowledged goes to no other holder, and is not unknown. */
START_TEST(quarter__peer_ends)
{
	unsigned rest;

	send_quarter();
	ripc__lock(rig.ctx[0]);
	ripc__reliable_bye(rig_lane(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(rig.ctx[0]->reliable_npending, 9);

	send_quarter();
	rest = in_list(false) - in_list(true);
	ripc__lock(rig.ctx[0]);
	ripc__reliable_unknown(rig.ctx[0], rig_peer(&rig, 0, 1), "for the test");
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, rest);
	ck_assert_uint_eq(unacked(), 0);
}
END_TEST

/* ---- bytes ---- */

/* Messages that are acknowledged take no room in the window, which is bounded in bytes, too. */
START_TEST(window__bytes_of_acknowledged)
{
	uint8_t data[1024] = {0};
	struct iovec item = {data, sizeof(data)};
	struct ripc_message *m;
	unsigned n = RIPC__RELIABLE_WINDOW_BYTES / sizeof(data) + 1;

	restart_deep();
	for (unsigned i = 0; i < n; i++) {
		OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &reliable, 1000));
		OK(ripc_receive(rig.s[1], &m, 1000));
		ripc_message_free(m);
	}
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (unsigned i = 0; i < 16; i++)
		OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &reliable, 0));
	ck_assert_uint_eq(unacked(), 16);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
}
END_TEST

/* ---- numbers ---- */

/* RELIABLE_ACK of a message that was never sent is ignored, as one that came before. */
START_TEST(acked__never_sent)
{
	struct ripc__lane *lane;
	struct ripc__reliable *rel;

	rig_connect(&rig, 0, 1);
	OK(send_number(RIG_ID(1), 1, 0));
	lane = rig_lane(&rig, 0, 1);
	rel = lane->peer->reliable;
	ripc__lock(rig.ctx[0]);
	ripc__reliable_acked(lane, rel->next + 1);
	ripc__reliable_acked(lane, UINT64_MAX);
	ripc__reliable_acked(lane, rel->acked);
	ck_assert_uint_eq(in_list(true), 0);
	ck_assert_uint_eq(in_list(false), 1);
	ripc__reliable_acked(lane, rel->next);
	ck_assert_uint_eq(in_list(false), 0);
	ripc__unlock(rig.ctx[0]);
	rig_run(&rig, 100);
	expect_numbers(1, 1, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/reliable/unacked");
	TCase *tc = tcase_create("unacked");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, reliable_setup, reliable_teardown);
	tcase_add_test(tc, quarter__ends_later);
	tcase_add_test(tc, memory__freed_when_idle);
	tcase_add_test(tc, quarter__awaited);
	tcase_add_test(tc, quarter__lane_lost);
	tcase_add_test(tc, quarter__peer_ends);
	tcase_add_test(tc, acked__never_sent);
	tcase_add_test(tc, window__bytes_of_acknowledged);
	suite_add_tcase(suite, tc);
	return test_main("core/reliable/unacked", suite);
}
