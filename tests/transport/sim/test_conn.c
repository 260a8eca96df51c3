/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How connections of the simulated network begin and end. */
#include "rig.h"

START_TEST(connect__both_sides_hear_with_private_data)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct rig *rig = rig_open(seed, NULL);
		struct rig_event *ev;

		rig_connect(rig);
		rig_run(rig, RIPC__MS);
		ev = rig_find(&rig->side[1], RIPC__EV_REQUEST);
		ck_assert_mem_eq(ev->data, "hello", 5);
		ck_assert_uint_eq(rig_count(&rig->side[1], RIPC__EV_ESTABLISHED), 1);
		ev = rig_find(&rig->side[0], RIPC__EV_ESTABLISHED);
		ck_assert_uint_eq(ev->len, 7);
		ck_assert_mem_eq(ev->data, "welcome", 7);
		rig_close(rig, 0);
	}
}
END_TEST

START_TEST(connect__bad_address_is_refused)
{
	struct rig *rig = rig_open(1, NULL);
	struct ripc__ep *ep;
	uint8_t addr[8];

	memcpy(addr, rig->side[1].addr, 8);
	addr[7] = 9;
	ck_assert_int_eq(OPS->connect(rig->side[0].t, addr, 8, NULL, 0, NULL, &ep), -EINVAL);
	ck_assert_int_eq(OPS->connect(rig->side[0].t, rig->side[1].addr, 7, NULL, 0, NULL, &ep),
			 -EINVAL);
	rig_close(rig, 0);
}
END_TEST

START_TEST(connect__nobody_there)
{
	struct rig *rig = rig_open(1, NULL);

	OPS->close(rig->side[1].t);
	rig->side[1].t = NULL;
	rig_connect(rig);
	rig_run(rig, RIPC__MS);
	ck_assert_int_eq(rig_find(&rig->side[0], RIPC__EV_CLOSED)->status, -ECONNREFUSED);
	OPS->ep_close(rig->side[0].ep);
	rig_close(rig, 0);
}
END_TEST

START_TEST(connect__partitioned_gives_up)
{
	struct rig *rig = rig_open(1, NULL);

	ck_assert_int_eq(
		ripc__sim_partition(rig->net, rig->side[0].instance, rig->side[1].instance, true), 0);
	rig_connect(rig);
	rig_run(rig, 9000 * RIPC__MS);
	ck_assert_uint_eq(rig->side[0].nevents, 0);
	rig_run(rig, 2000 * RIPC__MS);
	ck_assert_int_eq(rig_find(&rig->side[0], RIPC__EV_CLOSED)->status, -ETIMEDOUT);
	rig_close(rig, 0);
}
END_TEST

START_TEST(connect__nth_fails_once)
{
	struct rig *rig = rig_open(1, NULL);

	ripc__sim_fail_connect_at(rig->net, 1);
	rig_connect(rig);
	rig_run(rig, RIPC__MS);
	ck_assert_int_eq(rig_find(&rig->side[0], RIPC__EV_CLOSED)->status, -ECONNREFUSED);
	OPS->ep_close(rig->side[0].ep);
	rig->side[0].nevents = 0;
	rig_connect(rig);
	rig_run(rig, RIPC__MS);
	rig_find(&rig->side[0], RIPC__EV_ESTABLISHED);
	rig_close(rig, 0);
}
END_TEST

START_TEST(connect__slow_set_up)
{
	struct ripc__sim_config config;
	struct rig *rig;

	ripc__sim_defaults(&config);
	config.setup_delay_ns = 50 * RIPC__MS;
	rig = rig_open(1, &config);
	rig_connect(rig);
	rig_run(rig, 49 * RIPC__MS);
	ck_assert_uint_eq(rig->side[0].nevents, 0);
	rig_run(rig, 2 * RIPC__MS);
	rig_find(&rig->side[0], RIPC__EV_ESTABLISHED);
	rig_close(rig, 0);
}
END_TEST

START_TEST(accept__after_the_asker_left)
{
	struct rig *rig = rig_open(1, NULL);

	rig->side[1].accept = false;
	rig_connect(rig);
	rig_run(rig, RIPC__MS);
	OPS->ep_close(rig->side[0].ep);
	rig_run(rig, RIPC__MS);
	ck_assert_int_eq(
		OPS->accept(rig->side[1].t, rig->side[1].request, NULL, 0, NULL, &rig->side[1].ep), 0);
	rig_run(rig, RIPC__MS);
	ck_assert_uint_eq(rig_count(&rig->side[1], RIPC__EV_ESTABLISHED), 0);
	rig_find(&rig->side[1], RIPC__EV_CLOSED);
	rig_close(rig, 0);
}
END_TEST

START_TEST(reject__private_data_arrives)
{
	struct rig *rig = rig_open(1, NULL);
	struct rig_event *ev;

	rig->side[1].accept = false;
	rig_connect(rig);
	rig_run(rig, RIPC__MS);
	OPS->reject(rig->side[1].t, rig->side[1].request, "no", 2);
	rig_run(rig, RIPC__MS);
	ev = rig_find(&rig->side[0], RIPC__EV_CLOSED);
	ck_assert(ev->reject);
	ck_assert_uint_eq(ev->len, 2);
	ck_assert_mem_eq(ev->data, "no", 2);
	rig_close(rig, 0);
}
END_TEST

START_TEST(ep_close__peer_hears_after_the_data)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct rig *rig = rig_connected(seed, NULL);

		for (int i = 0; i < 10; i++)
			ck_assert_int_ge(rig_send(&rig->side[0], &i, sizeof(i), i == 9), 0);
		OPS->ep_close(rig->side[0].ep);
		rig_run(rig, RIPC__MS);
		ck_assert_uint_eq(rig_count(&rig->side[1], RIPC__EV_RECV), 10);
		ck_assert_int_eq(rig->side[1].events[10].kind, RIPC__EV_CLOSED);
		ck_assert_int_eq(rig_send(&rig->side[1], "x", 1, false), -ENOTCONN);
		OPS->ep_close(rig->side[1].ep);
		rig_close(rig, 0);
	}
}
END_TEST

START_TEST(ep_close__nothing_names_it_afterwards)
{
	struct rig *rig = rig_connected(1, NULL);

	ck_assert_int_eq(rig_send(&rig->side[0], "x", 1, false), 0);
	while (ripc__sim_step(rig->net, RIPC__NEVER))
		;
	/* It has arrived, but was not reported yet. */
	OPS->ep_close(rig->side[1].ep);
	rig_run(rig, RIPC__MS);
	ck_assert_uint_eq(rig->side[1].nevents, 0);
	rig_close(rig, 0);
}
END_TEST

START_TEST(ep_close__received_data_stays_until_released)
{
	struct rig *rig = rig_connected(1, NULL);

	rig->side[1].keep = true;
	ck_assert_int_eq(rig_send(&rig->side[0], "x", 1, false), 0);
	rig_run(rig, RIPC__MS);
	OPS->ep_close(rig->side[1].ep);
	OPS->release(rig->side[1].t, rig_find(&rig->side[1], RIPC__EV_RECV)->token);
	rig_close(rig, 0);
}
END_TEST

START_TEST(break__both_sides_are_told)
{
	struct rig *rig = rig_connected(1, NULL);

	ck_assert_int_eq(ripc__sim_break(rig->net, rig->side[1].instance, rig->side[0].instance), 1);
	rig_run(rig, RIPC__MS);
	ck_assert_int_eq(rig_find(&rig->side[0], RIPC__EV_CLOSED)->status, -ECONNRESET);
	ck_assert_int_eq(rig_find(&rig->side[1], RIPC__EV_CLOSED)->status, -ECONNRESET);
	ck_assert_int_eq(ripc__sim_break(rig->net, rig->side[1].instance, rig->side[0].instance), 0);
	rig_close(rig, 0);
}
END_TEST

START_TEST(break__a_prefix_arrives)
{
	unsigned fewest = 10, most = 0;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct rig *rig = rig_connected(seed, NULL);
		unsigned n;

		for (uint8_t i = 0; i < 10; i++)
			ck_assert_int_eq(rig_send(&rig->side[0], &i, 1, false), 0);
		ripc__sim_break(rig->net, rig->side[0].instance, rig->side[1].instance);
		rig_run(rig, RIPC__MS);
		n = rig_count(&rig->side[1], RIPC__EV_RECV);
		for (unsigned i = 0; i < n; i++)
			ck_assert_uint_eq(rig->side[1].events[i].data[0], i);
		fewest = n < fewest ? n : fewest;
		most = n > most ? n : most;
		rig_close(rig, 0);
	}
	ck_assert_uint_eq(fewest, 0);
	ck_assert_uint_eq(most, 10);
}
END_TEST

START_TEST(break_at__the_nth_operation)
{
	struct rig *rig = rig_connected(1, NULL);

	ripc__sim_break_at(rig->net, rig->side[0].instance, rig->side[1].instance, 3);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(rig_send(&rig->side[0], "x", 1, false), 0);
	rig_run(rig, RIPC__MS);
	ck_assert_uint_eq(rig_count(&rig->side[1], RIPC__EV_CLOSED), 0);
	ck_assert_int_eq(rig_send(&rig->side[0], "x", 1, false), 0);
	rig_run(rig, RIPC__MS);
	ck_assert_uint_eq(rig_count(&rig->side[1], RIPC__EV_CLOSED), 1);
	rig_close(rig, 0);
}
END_TEST

START_TEST(kill__peer_is_told)
{
	struct rig *rig = rig_connected(1, NULL);

	ck_assert_int_eq(ripc__sim_kill(rig->net, rig->side[1].instance, false), 0);
	rig_run(rig, RIPC__MS);
	ck_assert_int_eq(rig_find(&rig->side[0], RIPC__EV_CLOSED)->status, -ECONNRESET);
	ck_assert_uint_eq(rig->side[1].nevents, 0);
	rig_close(rig, 0);
}
END_TEST

START_TEST(kill__silently_is_found_by_sending)
{
	struct rig *rig = rig_connected(1, NULL);

	ck_assert_int_eq(ripc__sim_kill(rig->net, rig->side[1].instance, true), 0);
	OPS->close(rig->side[1].t);
	rig->side[1].t = NULL;
	rig_run(rig, 60000 * RIPC__MS);
	ck_assert_uint_eq(rig->side[0].nevents, 0);
	ck_assert_int_eq(rig_send(&rig->side[0], "x", 1, false), 0);
	rig_run(rig, 11000 * RIPC__MS);
	ck_assert_int_eq(rig_find(&rig->side[0], RIPC__EV_CLOSED)->status, -ETIMEDOUT);
	rig_close(rig, 0);
}
END_TEST

START_TEST(close__with_a_request_unanswered)
{
	struct rig *rig = rig_open(1, NULL);

	rig->side[1].accept = false;
	rig_connect(rig);
	rig_run(rig, RIPC__MS);
	OPS->close(rig->side[1].t);
	rig->side[1].t = NULL;
	rig_run(rig, RIPC__MS);
	ck_assert_int_eq(rig_find(&rig->side[0], RIPC__EV_CLOSED)->status, -ECONNREFUSED);
	rig_close(rig, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/sim/conn");
	TCase *tc = tcase_create("conn");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, connect__both_sides_hear_with_private_data);
	tcase_add_test(tc, connect__bad_address_is_refused);
	tcase_add_test(tc, connect__nobody_there);
	tcase_add_test(tc, connect__partitioned_gives_up);
	tcase_add_test(tc, connect__nth_fails_once);
	tcase_add_test(tc, connect__slow_set_up);
	tcase_add_test(tc, accept__after_the_asker_left);
	tcase_add_test(tc, reject__private_data_arrives);
	tcase_add_test(tc, ep_close__peer_hears_after_the_data);
	tcase_add_test(tc, ep_close__nothing_names_it_afterwards);
	tcase_add_test(tc, ep_close__received_data_stays_until_released);
	tcase_add_test(tc, break__both_sides_are_told);
	tcase_add_test(tc, break__a_prefix_arrives);
	tcase_add_test(tc, break_at__the_nth_operation);
	tcase_add_test(tc, kill__peer_is_told);
	tcase_add_test(tc, kill__silently_is_found_by_sending);
	tcase_add_test(tc, close__with_a_request_unanswered);
	suite_add_tcase(suite, tc);
	return test_main("transport/sim/conn", suite);
}
