/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A lane, peer or service goes while a long message arrives. */
#include "transfers.h"

START_TEST(lane_gone__suspended_then_resent)
{
	struct ripc_request *r;

	rig_restart(&rig, 2, configs[_i] ? configs[_i] : read_slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 1);
	ck_assert_uint_eq(rig.s[1]->arriving_bytes, 0);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 10000));
	rig_expect(&rig, 1, LARGE, 1);
	rig_expect_none(&rig, 1);
}
END_TEST

/*
 * The sender has withdrawn a message, but its CANCEL was lost with the lane: those after it do not
 * wait for it.
 */
START_TEST(lane_gone__cancelled_meanwhile)
{
	struct ripc_request *r;

	rig_restart(&rig, 2, configs[_i] ? configs[_i] : read_slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	RC(_i == 2 ? -ECANCELED : -EPIPE, ripc_request_cancel(&r, 50));
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(rig_long(&rig, 0, 1, 200000, 5, 5000));
	rig_expect(&rig, 1, 200000, 5);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
	rig_expect_none(&rig, 1);
}
END_TEST

/* The next message to any service shows that it is withdrawn. */
START_TEST(lane_gone__cancelled_message_ends)
{
	struct ripc_service *other;
	struct ripc_request *r;
	struct ripc_message *m;
	struct iovec item = {data, 200000};

	rig_restart(&rig, 2, read_slow);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	RC(-EPIPE, ripc_request_cancel(&r, 50));
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_send_long(rig.s[0], 77, &item, 1, NULL, 5000));
	OK(ripc_receive(other, &m, 5000));
	ripc_message_free(m);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
}
END_TEST

/* The same, while an older one to another service is still being sent. */
START_TEST(lane_gone__cancel_behind_older)
{
	struct ripc_service *other;
	struct ripc_request *r[2];
	struct iovec item;
	struct ripc_message *m;

	rig_restart(&rig, 2, read_slow);
	rig_connect(&rig, 0, 1);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	OK(ripc_route_lookup(rig.ctx[0], 77, NULL, 5000));
	item = (struct iovec){data, LARGE};
	OK(ripc_send_async(rig.s[0], 77, &item, 1, NULL, &r[0]));
	r[1] = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	RC(-EPIPE, ripc_request_cancel(&r[1], 50));
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(rig_long(&rig, 0, 1, 1000, 5, 5000));
	rig_expect(&rig, 1, 1000, 5);
	OK(ripc_request_wait(&r[0], 5000));
	OK(ripc_receive(other, &m, 5000));
	ck_assert_uint_eq(m->items[0].iov_len, LARGE);
	ripc_message_free(m);
}
END_TEST

START_TEST(peer_gone__drops_incomplete)
{
	rig_restart(&rig, 2, configs[_i] ? configs[_i] : read_slow);
	rig_connect(&rig, 0, 1);
	rig_begin(&rig, 0, 1, data, 1000);
	rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ripc__sim_kill_context(rig.net, rig.ctx[0], false);
	rig.ctx[0] = NULL;
	rig_expect(&rig, 1, 1000, 1);
	rig_run(&rig, 5000);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
	ck_assert_uint_eq(rig.s[1]->arriving_bytes, 0);
	rig_expect_none(&rig, 1);
}
END_TEST

/* The sender has been notified of the delivery. */
START_TEST(peer_gone__delivers_complete)
{
	rig_restart(&rig, 2, read_slow);
	rig_connect(&rig, 0, 1);
	rig_begin(&rig, 0, 1, data, LARGE);
	rig_begin(&rig, 0, 1, data, 1000);
	rig_run(&rig, 5);
	ripc__sim_kill_context(rig.net, rig.ctx[0], false);
	rig.ctx[0] = NULL;
	rig_run(&rig, 5000);
	rig_expect(&rig, 1, 1000, 1);
	rig_expect_none(&rig, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
}
END_TEST

/* The sender only slept: what it sends again must not come after the later message. */
START_TEST(peer_gone__keeps_order)
{
	struct ripc_request *r[2];

	rig_restart(&rig, 2, read_slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 1, data, 1000);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_READY), 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 20000);
	rig_expect(&rig, 1, 1000, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	RC(-EPIPE, ripc_request_wait(&r[0], 5000));
	OK(ripc_request_wait(&r[1], 5000));
	rig_expect_none(&rig, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(service_gone__during_transfer)
{
	struct ripc_request *r;

	rig_restart(&rig, 2, configs[_i] ? configs[_i] : read_slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	ck_assert_int_eq(rig.ctx[1]->memory->nrecv_windows, 0);
	rig_run(&rig, 50);
	/* It is looked for elsewhere. */
	RC(-EINPROGRESS, ripc_request_test(&r));
	OK(ripc_service_register(rig.ctx[1], RIG_ID(1), 0, &rig.s[1]));
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, LARGE, 1);
}
END_TEST

/* No lane is left that could end the transfer: the call does not wait for one. */
START_TEST(service_gone__suspended)
{
	struct ripc_request *r;

	rig_restart(&rig, 2, configs[_i] ? configs[_i] : read_slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 1);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_service_register(rig.ctx[1], RIG_ID(1), 0, &rig.s[1]));
	OK(ripc_request_wait(&r, 10000));
	rig_expect(&rig, 1, LARGE, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/receiver_gone");
	TCase *tc = tcase_create("rendezvous");

	test_seed();
	tcase_add_checked_fixture(tc, transfers_setup, transfers_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, lane_gone__suspended_then_resent, 0, 3);
	tcase_add_loop_test(tc, lane_gone__cancelled_meanwhile, 0, 3);
	tcase_add_test(tc, lane_gone__cancelled_message_ends);
	tcase_add_test(tc, lane_gone__cancel_behind_older);
	tcase_add_loop_test(tc, peer_gone__drops_incomplete, 0, 3);
	tcase_add_test(tc, peer_gone__delivers_complete);
	tcase_add_test(tc, peer_gone__keeps_order);
	tcase_add_loop_test(tc, service_gone__during_transfer, 0, 3);
	tcase_add_loop_test(tc, service_gone__suspended, 0, 3);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/receiver_gone", suite);
}
