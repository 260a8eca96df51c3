/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Credit per service: when a receiver advertises its window again, what is kept of a parked flow,
 * and which credit belongs to which lane.
 */
#include "core/round_trips.h"

#define SERVICE UINT64_C(77777)

static struct ripc *ctx;        /* the receiver */
static struct ripc__lane *lane; /* from it to the sender */
static uint64_t window;         /* units */

static void RIPC__NO_ANALYSIS setup(void)
{
	rig_start(&rig, 3, NULL);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 2, 1);
	rig_run(&rig, 50);
	ctx = rig.ctx[1];
	lane = rig_lane(&rig, 1, 0);
	window = ctx->opt.service_window / RIPC__CREDIT_UNIT;
	ripc__lock(ctx);
}

static void RIPC__NO_ANALYSIS teardown(void)
{
	ctx->delayed_ack = (struct ripc__delayed_ack){.lane = NULL};
	ripc__unlock(ctx);
	rig_end(&rig);
}

/* ---- receiving ---- */

/* A new flow has the whole window, a quarter of which is consumed before the next CREDIT. */
START_TEST(advertise__quarter_of_window)
{
	struct ripc__flow *f = ripc__flow_lookup(lane, SERVICE);
	uint32_t sent = lane->tx_seq, quarter = (uint32_t)window / 4;

	ck_assert_uint_eq(f->advertised_units, window);
	ck_assert_uint_eq(f->advertise_at_units, quarter);
	ripc__flow_consume(f, quarter - 1);
	ck_assert_ptr_null(ctx->delayed_ack.lane);
	/* The application probably replies: the CREDIT waits for that, */
	ripc__flow_consume(f, 1);
	ck_assert_ptr_eq(ctx->delayed_ack.lane, lane);
	ck_assert_ptr_eq(ctx->delayed_ack.credit_due, f);
	ripc__flow_consume(f, quarter - 1);
	ck_assert_uint_eq(lane->tx_seq, sent);
	ck_assert_uint_eq(f->advertised_units, window);
	/* but not longer than for another quarter. */
	ripc__flow_consume(f, 1);
	ck_assert_uint_eq(lane->tx_seq, sent + 1);
	ck_assert_ptr_null(ctx->delayed_ack.credit_due);
	ck_assert_uint_eq(f->advertised_units, 2 * quarter + window);
	ck_assert_uint_eq(f->advertise_at_units, 3 * quarter);
}
END_TEST

/* The reasons to send a CREDIT at once. */
enum { SAME_HOST, LARGE_MESSAGES, OTHER_LANE, OTHER_FLOW, OBSTACLES };

START_TEST(advertise__at_once)
{
	struct ripc__flow *f = ripc__flow_lookup(lane, SERVICE);
	struct ripc__flow *other = ripc__flow_lookup(lane, SERVICE + 1);
	uint32_t sent = lane->tx_seq;
	const struct ripc__delayed_ack before[OBSTACLES] = {
		[OTHER_LANE] = {.lane = rig_lane(&rig, 1, 2)},
		[OTHER_FLOW] = {.lane = lane, .credit_due = other},
	};

	if (_i == SAME_HOST)
		ctx->tp[lane->tp].limits.caps |= RIPC__CAP_SAME_HOST;
	if (_i == LARGE_MESSAGES)
		lane->send_max = (uint32_t)(window / 2 * RIPC__CREDIT_UNIT + 1);
	ctx->delayed_ack = before[_i];
	ripc__flow_consume(f, (uint32_t)window / 4);
	ck_assert_uint_gt(lane->tx_seq, sent);
	ck_assert_uint_eq(f->advertised_units, window / 4 + window);
	ctx->delayed_ack.credit_due = NULL;
	/* With half of the window there is room for each message. */
	if (_i == LARGE_MESSAGES) {
		lane->send_max--;
		sent = lane->tx_seq;
		ripc__flow_consume(f, (uint32_t)window / 4);
		ck_assert_uint_eq(lane->tx_seq, sent);
		ck_assert_ptr_eq(ctx->delayed_ack.credit_due, f);
	}
}
END_TEST

/* The same flow again: its CREDIT waits on. */
START_TEST(advertise__waits_on)
{
	struct ripc__flow *f = ripc__flow_lookup(lane, SERVICE);
	uint32_t sent = lane->tx_seq;

	ctx->delayed_ack = (struct ripc__delayed_ack){.lane = lane, .credit_due = f};
	ripc__flow_consume(f, (uint32_t)window / 4);
	ck_assert_uint_eq(lane->tx_seq, sent);
	ck_assert_ptr_eq(ctx->delayed_ack.credit_due, f);
}
END_TEST

/* A flow is parked with its counters, and the next message finds them again. */
START_TEST(park__keeps_counters)
{
	struct ripc__flow *f;

	ck_assert_uint_eq(lane->flows.count, 0);
	/* There is nothing to park. */
	ripc__flow_park(lane);
	ck_assert(!lane->flow_parked);
	f = ripc__flow_lookup(lane, SERVICE);
	f->arrived_units = 100;
	ripc__flow_consume(f, 100);
	f->source = 5;
	ripc__flow_park(lane);
	ck_assert(lane->flow_parked);
	ck_assert_ptr_null(ripc__flow_find(lane, SERVICE));
	ripc__flow_park(lane);
	ripc__flows_relearn(lane, 5);
	f = ripc__flow_get(lane, SERVICE);
	ck_assert(!lane->flow_parked);
	ck_assert_uint_eq(f->id, SERVICE);
	ck_assert_ptr_eq(f->lane, lane);
	ck_assert_uint_eq(f->arrived_units, 100);
	ck_assert_uint_eq(f->consumed_units, 100);
	ck_assert_uint_eq(f->advertised_units, window);
	ck_assert_uint_eq(f->advertise_at_units, window / 4);
	ck_assert_uint_eq(f->source, 0);
	ck_assert_ptr_eq(ripc__flow_find(lane, SERVICE), f);
	/* Another service first: the parked one is there, too. */
	ripc__flow_park(lane);
	ck_assert_uint_eq(ripc__flow_lookup(lane, SERVICE + 1)->arrived_units, 0);
	ck_assert_uint_eq(ripc__flow_find(lane, SERVICE)->arrived_units, 100);
	ck_assert_uint_eq(lane->flows.count, 2);
	/* Two are not parked. */
	ripc__flow_park(lane);
	ck_assert(!lane->flow_parked);
}
END_TEST

/* A flow that something refers to is not parked. */
START_TEST(park__not_in_use)
{
	struct ripc__flow *f = ripc__flow_lookup(lane, SERVICE);

	f->arrived_units = 1;
	ripc__flow_park(lane);
	ck_assert(!lane->flow_parked);
	f->consumed_units = 1;
	f->watched = true;
	ripc__flow_park(lane);
	ck_assert(!lane->flow_parked);
	f->watched = false;
	f->standing_len = 4096;
	ripc__flow_park(lane);
	ck_assert(!lane->flow_parked);
	f->standing_len = 0;
	ctx->delayed_ack.lane = lane;
	ripc__flow_park(lane);
	ck_assert(!lane->flow_parked);
	ctx->delayed_ack.lane = rig_lane(&rig, 1, 2);
	ripc__flow_park(lane);
	ck_assert(lane->flow_parked);
}
END_TEST

/* A peer may send to so many services over one lane. */
START_TEST(lookup__bounded)
{
	for (uint64_t i = 0; i < RIPC__FLOWS_MAX; i++)
		ck_assert_ptr_nonnull(ripc__flow_lookup(lane, SERVICE + i));
	ck_assert_ptr_null(ripc__flow_lookup(lane, SERVICE + RIPC__FLOWS_MAX));
	ck_assert_ptr_nonnull(ripc__flow_get(lane, SERVICE));
	ck_assert_ptr_nonnull(ripc__flow_lookup(lane, SERVICE + RIPC__FLOWS_MAX - 1));
	/* A service that this context holds does not count. */
	ck_assert_ptr_nonnull(ripc__flow_lookup(lane, RIG_ID(1)));
	/* Each lane has its own. */
	ck_assert_ptr_nonnull(ripc__flow_lookup(rig_lane(&rig, 1, 2), SERVICE + RIPC__FLOWS_MAX));
}
END_TEST

/* A service that is closed, or one of a peer that is looked up again. */
START_TEST(flows__forget_services)
{
	struct ripc__lane *lanes[2] = {lane, rig_lane(&rig, 1, 2)};
	struct ripc__flow *f[2], *other = ripc__flow_lookup(lane, SERVICE);

	for (unsigned i = 0; i < 2; i++) {
		f[i] = ripc__flow_lookup(lanes[i], RIG_ID(1));
		f[i]->service = rig.s[1];
		f[i]->source = RIG_ID(0);
	}
	other->service = rig.s[1];
	other->source = RIG_ID(2);
	ripc__flows_relearn(lane, RIG_ID(0));
	ck_assert_uint_eq(f[0]->source, 0);
	ck_assert_uint_eq(f[1]->source, RIG_ID(0));
	ck_assert_uint_eq(other->source, RIG_ID(2));
	ripc__flows_drop(ctx, rig.s[1]);
	ck_assert_ptr_null(f[0]->service);
	ck_assert_ptr_null(f[1]->service);
	ck_assert_ptr_eq(other->service, rig.s[1]);
	other->service = NULL;
}
END_TEST

/* The flow of a service that has ended goes when nothing of it is left. */
START_TEST(flows__trimmed_when_unused)
{
	struct ripc__flow *ended = ripc__flow_lookup(lane, SERVICE), *there;

	/* Its service is there again, and has not received yet. */
	there = ripc__flow_lookup(lane, RIG_ID(1));
	there->service = NULL;
	ended->arrived_units = 2;
	ended->consumed_units = 1;
	ripc__flows_trim(lane);
	ck_assert_ptr_eq(ripc__flow_find(lane, SERVICE), ended);
	ck_assert_ptr_eq(ripc__flow_find(lane, RIG_ID(1)), there);
	ended->consumed_units = 2;
	ripc__flows_trim(lane);
	ck_assert_ptr_null(ripc__flow_find(lane, SERVICE));
	ck_assert_ptr_eq(ripc__flow_find(lane, RIG_ID(1)), there);
}
END_TEST

/* ---- sending ---- */

/* Each lane has a credit of its own for a service, with the window of its peer. */
START_TEST(credit__per_lane)
{
	struct ripc__lane *second = rig_lane(&rig, 1, 2);
	size_t before = ctx->credits.count;
	struct ripc__credit *c[4];

	ck_assert_ptr_null(ripc__credit_find(lane, SERVICE));
	for (unsigned i = 0; i < 4; i++) {
		struct ripc__lane *l = i % 2 ? second : lane;
		uint64_t id = SERVICE + i / 2;

		l->service_window = 100 + i;
		c[i] = ripc__lane_credit(l, id);
		ck_assert_uint_eq(c[i]->id, id);
		ck_assert_ptr_eq(c[i]->lane, l);
		ck_assert_uint_eq(c[i]->sent_units, 0);
		ck_assert_uint_eq(c[i]->limit_units, 100 + i);
		ck_assert_ptr_eq(ripc__credit_find(l, id), c[i]);
		ck_assert_ptr_eq(ripc__lane_credit(l, id), c[i]);
	}
	ck_assert_uint_eq(ctx->credits.count, before + 4);
	/* A destination is folded into one of them. */
	ck_assert_ptr_null(ripc__credit_holder(ctx, SERVICE));
	for (unsigned i = 0; i < 2; i++) {
		c[i]->holds = true;
		ck_assert_ptr_eq(ripc__credit_holder(ctx, SERVICE), c[i]);
		c[i]->holds = false;
	}
	ck_assert_ptr_null(ripc__credit_holder(ctx, SERVICE));
	/* They end with their lane. */
	ripc__lane_fail(lane, -ECONNRESET, "as the test wants it");
	ck_assert_uint_eq(ctx->credits.count, before + 2);
	ck_assert_ptr_null(ripc__credit_find(lane, SERVICE));
	ck_assert_ptr_null(ripc__credit_find(lane, SERVICE + 1));
	ck_assert_ptr_eq(ripc__credit_find(second, SERVICE), c[1]);
}
END_TEST

/* ---- CREDIT behind a reply ---- */

/* CREDIT for what was received follows the reply, and brings no message for the ACK. */
START_TEST(queue__credit_after_reply)
{
	unsigned n = 40, len = 8000, credits;
	uint32_t there, back;

	for (int i = 0; i < 2 * RIPC__STREAK_MIN; i++)
		round_trip(100);
	there = sent(0);
	back = sent(1);
	for (unsigned i = 0; i < n; i++)
		round_trip(len);
	credits = n * 2 * len / (rig.ctx[0]->opt.service_window / 4) + 1;
	ck_assert_uint_gt(sent(0) - there, n);
	ck_assert_uint_le(sent(0) - there, n + credits);
	ck_assert_uint_gt(sent(1) - back, n);
	ck_assert_uint_le(sent(1) - back, n + credits);
}
END_TEST

/* It does not wait when half of the window is used. */
START_TEST(queue__credit_does_not_wait_long)
{
	struct ripc__flow *flow;
	struct ripc_request *r;
	uint32_t back, units;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	flow = rig_lane(&rig, 1, 0)->flow;
	back = sent(1);
	units = (uint32_t)(flow->advertise_at_units - flow->consumed_units);
	ripc__flow_consume(flow, units);
	ck_assert_uint_eq(sent(1), back);
	ck_assert(is_delayed(1));
	ripc__flow_consume(flow, rig.ctx[1]->opt.service_window / RIPC__CREDIT_UNIT / 4);
	/* The ACK and the CREDIT. */
	ck_assert_uint_eq(sent(1), back + 2);
	OK(ripc_request_wait(&r, 5000));
}
END_TEST

/* Nor is it forgotten when there is no reply. */
START_TEST(idle__sends_credit)
{
	struct ripc__flow *flow;
	struct ripc_request *r;
	struct ripc_message *m;
	uint64_t advertised;

	fill_streak();
	r = ping(100);
	flow = rig_lane(&rig, 1, 0)->flow;
	advertised = flow->advertised_units;
	ripc__flow_consume(flow, (uint32_t)(flow->advertise_at_units - flow->consumed_units));
	ck_assert_uint_eq(flow->advertised_units, advertised);
	RC(-ETIMEDOUT, ripc_receive(rig.s[1], &m, 1));
	ck_assert_uint_gt(flow->advertised_units, advertised);
	OK(ripc_request_wait(&r, 5000));
}
END_TEST

/* Short messages of context 0 until context 1 has a CREDIT to send. */
static void until_credit_due(void)
{
	unsigned most = rig.ctx[1]->opt.service_window / 4 / 1000 + 1;

	for (unsigned i = 0; i < most && !rig.ctx[1]->delayed_ack.lane; i++) {
		OK(rig_short(&rig, 0, 1, 1000, 3, 0));
		rig_expect(&rig, 1, 1000, 3);
	}
	ck_assert_ptr_nonnull(rig.ctx[1]->delayed_ack.lane);
	ck_assert_ptr_nonnull(rig.ctx[1]->delayed_ack.credit_due);
}

/* Without an ACK that is delayed: the reply to a short message leaves first. */
START_TEST(credit__follows_short_reply)
{
	uint64_t advertised = 0;
	uint32_t back;

	round_trip(100);
	until_credit_due();
	advertised = rig_lane(&rig, 1, 0)->flow->advertised_units;
	back = sent(1);
	OK(rig_short(&rig, 1, 0, 50, 2, 0));
	ck_assert_uint_eq(sent(1), back + 2);
	ck_assert_uint_gt(rig_lane(&rig, 1, 0)->flow->advertised_units, advertised);
	rig_expect(&rig, 0, 50, 2);
	/* Only replies to long messages are counted. */
	ck_assert_int_eq(reply_streak(1), 1);
}
END_TEST

/* A receiver that does not reply sends it with its next call, or for half of the window. */
START_TEST(credit__needs_no_reply)
{
	struct ripc__flow *flow;
	struct ripc_message *m;
	uint64_t advertised;

	round_trip(100);
	until_credit_due();
	flow = rig_lane(&rig, 1, 0)->flow;
	advertised = flow->advertised_units;
	RC(-EAGAIN, ripc_receive(rig.s[1], &m, 0));
	ck_assert_uint_gt(flow->advertised_units, advertised);
	ck_assert_int_eq(reply_streak(1), 1);
	until_credit_due();
	advertised = flow->advertised_units;
	ripc__flow_consume(flow, rig.ctx[1]->opt.service_window / RIPC__CREDIT_UNIT / 4);
	ck_assert_uint_gt(flow->advertised_units, advertised);
	/* Nothing of it is left. */
	advertised = flow->advertised_units;
	OK(rig_short(&rig, 1, 0, 50, 2, 0));
	ck_assert_uint_eq(flow->advertised_units, advertised);
}
END_TEST

/* Not if a message may need more than half of the window: its sender would wait for the CREDIT. */
START_TEST(credit__at_once_in_small_window)
{
	struct ripc__flow *flow;
	uint64_t advertised, half = rig.ctx[1]->opt.service_window / 2;

	round_trip(100);
	flow = rig_lane(&rig, 1, 0)->flow;
	rig_lane(&rig, 1, 0)->send_max = (uint32_t)half + 1;
	advertised = flow->advertised_units;
	ripc__flow_consume(flow, (uint32_t)(flow->advertise_at_units - flow->consumed_units));
	ck_assert_uint_gt(flow->advertised_units, advertised);
	rig_lane(&rig, 1, 0)->send_max = (uint32_t)half;
	advertised = flow->advertised_units;
	ripc__flow_consume(flow, (uint32_t)(flow->advertise_at_units - flow->consumed_units));
	ck_assert_uint_eq(flow->advertised_units, advertised);
}
END_TEST

/* A flow is freed with its lane. */
START_TEST(credit__not_after_lane)
{
	struct ripc__lane *back;
	struct ripc__flow *flow;

	round_trip(100);
	back = rig_lane(&rig, 1, 0);
	flow = back->flow;
	back->state = RIPC__LANE_RETIRING;
	ripc__flow_consume(flow, (uint32_t)(flow->advertise_at_units - flow->consumed_units));
	ck_assert_ptr_null(rig.ctx[1]->delayed_ack.lane);
	back->state = RIPC__LANE_UP;
	until_credit_due();
	ck_assert_ptr_eq(rig.ctx[1]->delayed_ack.lane, back);
	rig_close(&rig, 0);
	rig_run(&rig, 5);
	ck_assert_ptr_null(rig.ctx[1]->delayed_ack.lane);
}
END_TEST

/* A CREDIT that is due already does not keep a long message's ACK from being delayed. */
START_TEST(credit__with_delayed_ack)
{
	struct ripc_request *r;
	uint32_t back;

	fill_streak();
	until_credit_due();
	back = sent(1);
	r = ping(100);
	ck_assert(is_delayed(1));
	answer(&r);
	ck_assert_uint_eq(sent(1), back + 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/flow");
	TCase *tc = tcase_create("flow");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, advertise__quarter_of_window);
	tcase_add_loop_test(tc, advertise__at_once, 0, OBSTACLES);
	tcase_add_test(tc, advertise__waits_on);
	tcase_add_test(tc, park__keeps_counters);
	tcase_add_test(tc, park__not_in_use);
	tcase_add_test(tc, lookup__bounded);
	tcase_add_test(tc, flows__forget_services);
	tcase_add_test(tc, flows__trimmed_when_unused);
	tcase_add_test(tc, credit__per_lane);
	suite_add_tcase(suite, tc);
	tc = tcase_create("reply");
	tcase_add_checked_fixture(tc, round_trips_setup, round_trips_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, queue__credit_after_reply);
	tcase_add_test(tc, queue__credit_does_not_wait_long);
	tcase_add_test(tc, idle__sends_credit);
	tcase_add_test(tc, credit__follows_short_reply);
	tcase_add_test(tc, credit__needs_no_reply);
	tcase_add_test(tc, credit__at_once_in_small_window);
	tcase_add_test(tc, credit__not_after_lane);
	tcase_add_test(tc, credit__with_delayed_ack);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/flow", suite);
}
