/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Credit per service: when a receiver advertises its window again, what is kept of a parked flow,
 * and which credit belongs to which lane.
 */
#include "core/rendezvous/delayed_ack.h"
#include "core/rig.h"

#define SERVICE UINT64_C(77777)

static struct rig rig;
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
	tcase_add_test(tc, credit__per_lane);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/flow", suite);
}
