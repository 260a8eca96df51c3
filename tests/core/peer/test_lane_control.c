/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lane's own protocol: each message, and what the peer does with it. */
#include "core/peer/lane_control.h"
#include "core/rig.h"

static struct rig rig;

/* Messages that both sides have sent since seq. */
static void expect_exchange(unsigned sent, unsigned answered, const uint32_t seq[2])
{
	rig_run(&rig, 10);
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->tx_seq - seq[0], sent);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->tx_seq - seq[1], answered);
}

static void sequences(uint32_t seq[2])
{
	rig_run(&rig, 10);
	seq[0] = rig_lane(&rig, 0, 1)->tx_seq;
	seq[1] = rig_lane(&rig, 1, 0)->tx_seq;
}

/* PING has one answer, which ends the wait for it. */
START_TEST(ping__answered)
{
	struct ripc__lane *lane;
	uint32_t seq[2];

	rig_connect(&rig, 0, 1);
	sequences(seq);
	lane = rig_lane(&rig, 0, 1);
	ripc__lock(rig.ctx[0]);
	lane->pinged_ns = ripc__now(rig.ctx[0]);
	ripc__lane_ping(lane);
	ripc__unlock(rig.ctx[0]);
	expect_exchange(1, 1, seq);
	ck_assert_uint_eq(lane->pinged_ns, 0);
}
END_TEST

static void few_buffers(struct ripc__sim_config *config)
{
	config->recv_depth = 8;
}

/* Buffers are returned when half of those that no message holds are due, and not before. */
START_TEST(credit__half_of_free_buffers)
{
	struct ripc__lane *lane;

	rig_end(&rig);
	rig_start(&rig, 2, few_buffers);
	rig_connect(&rig, 0, 1);
	lane = rig_lane(&rig, 0, 1);
	ripc__lock(rig.ctx[0]);
	for (unsigned held = 0; held < 6; held += 2) {
		uint32_t seq = lane->tx_seq, due = (8 - held + 1) / 2;

		lane->rx_held = held;
		lane->rx_credits_due = due - 1;
		ripc__lane_send_credit(lane);
		ck_assert_uint_eq(lane->tx_seq, seq);
		ck_assert_uint_eq(lane->rx_credits_due, due - 1);
	}
	lane->rx_held = 0;
	lane->rx_credits_due = 4;
	ripc__lane_send_credit(lane);
	ck_assert_uint_eq(lane->rx_credits_due, 0);
	ripc__unlock(rig.ctx[0]);
}
END_TEST

/* Credit of a service is a limit in all: the peer takes a higher one, and no lower one. */
START_TEST(credit__limit_of_service)
{
	struct ripc__credit *credit;
	struct ripc__flow *flow;
	uint64_t limit;

	rig_exchange(&rig, 1, 0);
	rig_run(&rig, 10);
	flow = ripc__flow_get(rig_lane(&rig, 0, 1), RIG_ID(0));
	credit = ripc__lane_credit(rig_lane(&rig, 1, 0), RIG_ID(0));
	limit = credit->limit_units;
	for (int step = -1; step <= 1; step++) {
		ripc__lock(rig.ctx[0]);
		flow->advertised_units = limit + (uint64_t)(int64_t)step;
		ripc__flow_send_credit(flow);
		ripc__unlock(rig.ctx[0]);
		rig_run(&rig, 10);
		ck_assert_uint_eq(credit->limit_units, limit + (step > 0));
	}
}
END_TEST

/*
 * Both sides have sent as much as the other can receive. The last receive buffer is reserved, so
 * that each can still give back those of the other.
 */
START_TEST(credit__last_one_is_reserved)
{
	struct ripc_message *m;

	rig_end(&rig);
	rig_start(&rig, 2, few_buffers);
	rig_connect(&rig, 0, 1);
	rig_run(&rig, 10);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc__sim_hold(rig.net, rig_instance(&rig, i), true));
	for (unsigned i = 0; i < 2; i++)
		while (!rig_short(&rig, i, !i, 50, 1, 0))
			;
	for (unsigned i = 0; i < 2; i++)
		OK(ripc__sim_hold(rig.net, rig_instance(&rig, i), false));
	rig_run(&rig, 10);
	for (unsigned i = 0; i < 2; i++)
		while (!ripc_receive(rig.s[i], &m, 0))
			ripc_message_free(m);
	for (unsigned i = 0; i < 2; i++)
		OK(rig_short(&rig, i, !i, 50, 1, 100));
}
END_TEST

static void start(void)
{
	rig_start(&rig, 2, NULL);
}

static void end(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/peer/lane_control");
	TCase *tc = tcase_create("lane_control");

	test_seed();
	tcase_add_checked_fixture(tc, start, end);
	tcase_add_test(tc, ping__answered);
	tcase_add_test(tc, credit__half_of_free_buffers);
	tcase_add_test(tc, credit__limit_of_service);
	tcase_add_test(tc, credit__last_one_is_reserved);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/lane_control", suite);
}
