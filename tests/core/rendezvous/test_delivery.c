/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The order of long messages at their receiver, and the messages that do not wait for it. */
#include "transfers.h"

START_TEST(deliver__in_start_order)
{
	enum { N = 30 };
	struct ripc_request *r[N];

	rig_restart(&rig, 2, configs[_i]);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, i % 3 ? 10 + i : 300000 + i);
	for (unsigned i = 0; i < N; i++)
		rig_expect(&rig, 1, i % 3 ? 10 + i : 300000 + i, 1);
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
}
END_TEST

START_TEST(deliver__other_peer_not_blocked)
{
	struct ripc_request *r;
	struct ripc_message *m;

	rig_restart(&rig, 3, read_slow);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 2, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 1);
	OK(rig_long(&rig, 2, 1, 10, 5, 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->source, RIG_ID(2));
	ripc_message_free(m);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, LARGE, 1);
}
END_TEST

START_TEST(deliver__other_service_free)
{
	struct ripc_service *other;
	struct ripc_request *r[2];
	struct iovec item = {data, 10};
	struct ripc_message *m;

	rig_restart(&rig, 2, read_slow);
	rig_connect(&rig, 0, 1);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	OK(ripc_route_lookup(rig.ctx[0], 77, NULL, 5000));
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	OK(ripc_send_async(rig.s[0], 77, &item, 1, NULL, &r[1]));
	OK(ripc_receive(other, &m, 15));
	ripc_message_free(m);
	RC(-EINPROGRESS, ripc_request_test(&r[0]));
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_request_wait(&r[i], 5000));
	rig_expect(&rig, 1, LARGE, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/delivery");
	TCase *tc = tcase_create("rendezvous");

	test_seed();
	tcase_add_checked_fixture(tc, transfers_setup, transfers_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, deliver__in_start_order, 0, 3);
	tcase_add_test(tc, deliver__other_peer_not_blocked);
	tcase_add_test(tc, deliver__other_service_free);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/delivery", suite);
}
