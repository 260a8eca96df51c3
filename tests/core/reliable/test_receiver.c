/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The receiver: acknowledgements, and messages that are refused. */
#include "core/reliable/reliables.h"

/* Without ripc_flush() the acknowledgement comes by itself, and soon. */
START_TEST(ack__delayed)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	rig_run(&rig, 60);
	ck_assert_uint_eq(unacked(), 0);
	ck_assert(rig_lane(&rig, 0, 1));
	expect_numbers(1, 1, 1);
}
END_TEST

/* Within one context, where messages arrive over the other end of its lane. */
START_TEST(ack__self)
{
	struct ripc_service *other;
	uint64_t n;

	OK(ripc_service_register(rig.ctx[0], 77, 0, &other));
	for (n = 1; n <= 3; n++)
		OK(send_number(77, n, 1000));
	OK(ripc_flush(rig.s[0], 77, 1000));
	OK(send_number(77, n, 1000));
	rig_run(&rig, 60);
	ck_assert_uint_eq(ripc__peer_find(rig.ctx[0], rig_instance(&rig, 0))->reliable_unacked, 0);
	for (n = 1; n <= 4; n++)
		ck_assert_uint_eq(take_number(other), n);
}
END_TEST

/* A service that is closed while messages are on their way, and registered in the same process. */
START_TEST(service__registered_again)
{
	uint64_t n, got = 0;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	expect_numbers(1, 1, 1);
	for (unsigned k = 0; k < 10; k++) {
		uint64_t first = 2 + 20 * k;

		for (n = first; n < first + 10; n++)
			OK(send_number(RIG_ID(1), n, 5000));
		ripc__sim_run(rig.net, 1 + k * 3000);
		while ((n = take_number(rig.s[1]))) {
			ck_assert_uint_gt(n, got);
			got = n;
		}
		OK(ripc_service_unregister(rig.s[1]));
		OK(ripc_service_register(rig.ctx[1], RIG_ID(1), 0, &rig.s[1]));
		for (n = first + 10; n < first + 20; n++)
			OK(send_number(RIG_ID(1), n, 5000));
		OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
		while ((n = take_number(rig.s[1]))) {
			ck_assert_uint_gt(n, got);
			got = n;
		}
		ck_assert_uint_eq(got, first + 19);
	}
	ck_assert_uint_gt(rig_stats(&rig, 1).dropped_no_service, 0);
}
END_TEST

/*
 * A message is refused, and the service is registered again before the sender receives the refusal:
 * later messages are refused too, on this lane and the next, until the sender sends RELIABLE_BEGIN
 * for the service.
 */
START_TEST(service__refused_until_sender_knows)
{
	struct ripc__flow flow = {.id = RIG_ID(1)}, other = {.id = 77};
	struct ripc__lane *lane;

	rig_connect(&rig, 0, 1);
	lane = rig_lane(&rig, 1, 0);
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), -EPROTO);
	OK(ripc__reliable_begin(lane, 0, 500));
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 0);
	flow.service = other.service = rig.s[1];
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 0);
	ck_assert_int_eq(ripc__reliable_receive(lane, &other, 100, false), 1);
	lane->reliable_rx = 0;
	OK(ripc__reliable_begin(lane, 0, 503));
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 0);
	OK(ripc__reliable_begin(lane, RIG_ID(1), 0));
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 1);
}
END_TEST

/*
 * A refusal is lost with its lane. On the next one the receiver has a message of its own to send
 * again, in front of which it would acknowledge what was received: the message that was refused is
 * not among that.
 */
START_TEST(refusal__lost_with_its_lane)
{
	struct iovec item = {"mine", 4};
	struct ripc_service *other;
	unsigned i;

	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_send_short(other, RIG_ID(0), &item, 1, &reliable, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	OK(ripc_flush(other, RIG_ID(0), 1000));
	expect_numbers(1, 1, 1);
	OK(ripc_service_unregister(rig.s[1]));
	/* Not acknowledged before the third operation, which is the refusal. */
	OK(ripc_send_short(other, RIG_ID(0), &item, 1, &reliable, 1000));
	OK(send_number(RIG_ID(1), 2, 1000));
	ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), 3);
	rig_run(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_service, 1);
	i = rig_open(&rig, NULL);
	OK(ripc_service_unregister(rig.s[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), 0, &rig.s[i]));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	ck_assert_uint_eq(take_number(rig.s[i]), 2);
	OK(ripc_service_register(rig.ctx[1], RIG_ID(i), 0, &rig.s[1]));
}
END_TEST

/*
 * More services than a peer may name end while a message to each is on its way. The record of the
 * oldest refusals is not needed any more, and its bound breaks no lane.
 */
START_TEST(refusal__of_many_services)
{
	struct ripc_service *s;

	rig_connect(&rig, 0, 1);
	for (unsigned k = 0; k < RIPC__FLOWS_MAX + 10; k++) {
		OK(ripc_service_register(rig.ctx[1], 10000 + k, 0, &s));
		OK(send_number(10000 + k, 1, 1000));
		OK(ripc_service_unregister(s));
		rig_run(&rig, 1);
	}
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ck_assert_uint_ge(rig_stats(&rig, 1).dropped_no_service, RIPC__FLOWS_MAX + 10);
	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	expect_numbers(1, 1, 1);
}
END_TEST

static struct ripc__ep *full; /* has no room */

static int post_unless_full(struct ripc__ep *ep, const void *head, size_t head_len,
			    const struct iovec *items, unsigned n, bool more)
{
	return ep == full ? -EAGAIN : ripc__transport_self.post(ep, head, head_len, items, n, more);
}

/*
 * A message of a context to itself is refused, and the end of the lane at which it has arrived has
 * no room: the acknowledgement, over the other end, does not pass the refusal.
 */
START_TEST(refused__own_message)
{
	struct ripc *ctx = rig.ctx[0];
	struct ripc__transport_ops ops;
	struct ripc__lane *passive;
	struct ripc_service *own;
	struct ripc__tp *tp;

	OK(ripc_service_register(ctx, 77, 0, &own));
	OK(send_number(77, 1, 1000));
	OK(ripc_flush(rig.s[0], 77, 1000));
	ck_assert_uint_eq(take_number(own), 1);
	ripc__list_for_each_entry (passive, &ctx->lanes, link)
		if (passive->peer == rig_peer(&rig, 0, 0) && !passive->active)
			break;
	ck_assert(!passive->active);
	tp = &ctx->tp[passive->tp];
	ops = *tp->ops;
	ops.post = post_unless_full;
	tp->ops = &ops;
	/* It is not there for a moment. */
	HASH_DEL(ctx->services, own);
	ripc__flow_get(passive, 77)->service = NULL;
	full = passive->ep;
	OK(send_number(77, 2, 0));
	while (!ctx->stats.dropped_no_service)
		ripc__poll(ctx);
	HASH_ADD(hh, ctx->services, id, sizeof(own->id), own);
	rig_run(&rig, 100);
	full = NULL;
	passive->sending = RIPC__SENDING_FREE;
	ripc__lock(ctx);
	ripc__lane_flush_control(passive);
	ripc__unlock(ctx);
	rig_run(&rig, 1000);
	ck_assert_uint_eq(take_number(own), 2);
	tp->ops = &ripc__transport_self;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/reliable/receiver");
	TCase *tc = tcase_create("receiver");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, reliable_setup, reliable_teardown);
	tcase_add_test(tc, ack__delayed);
	tcase_add_test(tc, ack__self);
	tcase_add_test(tc, service__registered_again);
	tcase_add_test(tc, service__refused_until_sender_knows);
	tcase_add_test(tc, refusal__lost_with_its_lane);
	tcase_add_test(tc, refusal__of_many_services);
	tcase_add_test(tc, refused__own_message);
	suite_add_tcase(suite, tc);
	return test_main("core/reliable/receiver", suite);
}
