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

int main(void)
{
	Suite *suite = suite_create("core/reliable/receiver");
	TCase *tc = tcase_create("receiver");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, reliable_setup, reliable_teardown);
	tcase_add_test(tc, ack__delayed);
	tcase_add_test(tc, service__registered_again);
	tcase_add_test(tc, service__refused_until_sender_knows);
	suite_add_tcase(suite, tc);
	return test_main("core/reliable/receiver", suite);
}
