/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How connections of the simulated network begin and end. */
#include "sim_pair.h"

START_TEST(connect__private_data_both_directions)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct sim_pair_test *sim_pair_test = pair_open(seed, NULL);
		struct pair_event *ev;

		pair_connect(sim_pair_test);
		pair_run(sim_pair_test, RIPC__MS);
		ev = pair_find(&sim_pair_test->side[1], RIPC__EV_REQUEST);
		ck_assert_mem_eq(ev->data, "hello", 5);
		ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_ESTABLISHED), 1);
		ev = pair_find(&sim_pair_test->side[0], RIPC__EV_ESTABLISHED);
		ck_assert_uint_eq(ev->len, 7);
		ck_assert_mem_eq(ev->data, "welcome", 7);
		pair_close(sim_pair_test, 0);
	}
}
END_TEST

START_TEST(connect__bad_address_is_refused)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	struct ripc__ep *ep;
	uint8_t addr[8];
	int rc;

	memcpy(addr, sim_pair_test->side[1].addr, 8);
	addr[7] = 9;
	rc = OPS->connect(sim_pair_test->side[0].t, addr, 8, NULL, 0, NULL, &ep);
	ck_assert_int_eq(rc, -EINVAL);
	ck_assert_int_eq(OPS->connect(sim_pair_test->side[0].t, sim_pair_test->side[1].addr, 7,
				      NULL, 0, NULL, &ep),
			 -EINVAL);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(connect__no_listener)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	int rc;

	OPS->close(sim_pair_test->side[1].t);
	sim_pair_test->side[1].t = NULL;
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, RIPC__MS);
	rc = pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED)->status;
	ck_assert_int_eq(rc, -ECONNREFUSED);
	OPS->ep_close(sim_pair_test->side[0].ep);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(connect__partitioned_times_out)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);

	ck_assert_int_eq(ripc__sim_partition(sim_pair_test->net, sim_pair_test->side[0].instance,
					     sim_pair_test->side[1].instance, true),
			 0);
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, 9000 * RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[0].nevents, 0);
	pair_run(sim_pair_test, 2000 * RIPC__MS);
	ck_assert_int_eq(pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED)->status, -ETIMEDOUT);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(connect__nth_fails_once)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	int rc;

	ripc__sim_fail_connect_at(sim_pair_test->net, 1);
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, RIPC__MS);
	rc = pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED)->status;
	ck_assert_int_eq(rc, -ECONNREFUSED);
	OPS->ep_close(sim_pair_test->side[0].ep);
	sim_pair_test->side[0].nevents = 0;
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, RIPC__MS);
	pair_find(&sim_pair_test->side[0], RIPC__EV_ESTABLISHED);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(connect__slow_set_up)
{
	struct ripc__sim_config config;
	struct sim_pair_test *sim_pair_test;

	ripc__sim_defaults(&config);
	config.setup_delay_ns = 50 * RIPC__MS;
	sim_pair_test = pair_open(1, &config);
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, 49 * RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[0].nevents, 0);
	pair_run(sim_pair_test, 2 * RIPC__MS);
	pair_find(&sim_pair_test->side[0], RIPC__EV_ESTABLISHED);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(accept__after_requester_closed)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);

	sim_pair_test->side[1].accept = false;
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, RIPC__MS);
	OPS->ep_close(sim_pair_test->side[0].ep);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(OPS->accept(sim_pair_test->side[1].t, sim_pair_test->side[1].request, NULL,
				     0, NULL, &sim_pair_test->side[1].ep),
			 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_ESTABLISHED), 0);
	pair_find(&sim_pair_test->side[1], RIPC__EV_CLOSED);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(reject__private_data_arrives)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	struct pair_event *ev;

	sim_pair_test->side[1].accept = false;
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, RIPC__MS);
	OPS->reject(sim_pair_test->side[1].t, sim_pair_test->side[1].request, "no", 2);
	pair_run(sim_pair_test, RIPC__MS);
	ev = pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED);
	ck_assert(ev->reject);
	ck_assert_uint_eq(ev->len, 2);
	ck_assert_mem_eq(ev->data, "no", 2);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(ep_close__peer_event_after_data)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct sim_pair_test *sim_pair_test = pair_connected(seed, NULL);

		for (int i = 0; i < 10; i++) {
			int n = pair_send(&sim_pair_test->side[0], &i, sizeof(i), i == 9);

			ck_assert_int_ge(n, 0);
		}
		OPS->ep_close(sim_pair_test->side[0].ep);
		pair_run(sim_pair_test, RIPC__MS);
		ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_RECV), 10);
		ck_assert_int_eq(sim_pair_test->side[1].events[10].kind, RIPC__EV_CLOSED);
		ck_assert_int_eq(pair_send(&sim_pair_test->side[1], "x", 1, false), -ENOTCONN);
		OPS->ep_close(sim_pair_test->side[1].ep);
		pair_close(sim_pair_test, 0);
	}
}
END_TEST

START_TEST(ep_close__no_event_afterwards)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	while (ripc__sim_step(sim_pair_test->net, RIPC__NEVER))
		;
	/* It has arrived, but was not reported yet. */
	OPS->ep_close(sim_pair_test->side[1].ep);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 0);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(ep_close__received_data_kept)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	sim_pair_test->side[1].keep = true;
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	OPS->ep_close(sim_pair_test->side[1].ep);
	OPS->release(sim_pair_test->side[1].t,
		     pair_find(&sim_pair_test->side[1], RIPC__EV_RECV)->token);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(break__event_on_both_sides)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ck_assert_int_eq(ripc__sim_break(sim_pair_test->net, sim_pair_test->side[1].instance,
					 sim_pair_test->side[0].instance),
			 1);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED)->status, -ECONNRESET);
	ck_assert_int_eq(pair_find(&sim_pair_test->side[1], RIPC__EV_CLOSED)->status, -ECONNRESET);
	ck_assert_int_eq(ripc__sim_break(sim_pair_test->net, sim_pair_test->side[1].instance,
					 sim_pair_test->side[0].instance),
			 0);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(break__a_prefix_arrives)
{
	unsigned fewest = 10, most = 0;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct sim_pair_test *sim_pair_test = pair_connected(seed, NULL);
		unsigned n;

		for (uint8_t i = 0; i < 10; i++)
			ck_assert_int_eq(pair_send(&sim_pair_test->side[0], &i, 1, false), 0);
		ripc__sim_break(sim_pair_test->net, sim_pair_test->side[0].instance,
				sim_pair_test->side[1].instance);
		pair_run(sim_pair_test, RIPC__MS);
		n = pair_count(&sim_pair_test->side[1], RIPC__EV_RECV);
		for (unsigned i = 0; i < n; i++)
			ck_assert_uint_eq(sim_pair_test->side[1].events[i].data[0], i);
		fewest = n < fewest ? n : fewest;
		most = n > most ? n : most;
		pair_close(sim_pair_test, 0);
	}
	ck_assert_uint_eq(fewest, 0);
	ck_assert_uint_eq(most, 10);
}
END_TEST

START_TEST(break_at__the_nth_operation)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ripc__sim_break_at(sim_pair_test->net, sim_pair_test->side[0].instance,
			   sim_pair_test->side[1].instance, 3);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_CLOSED), 0);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_CLOSED), 1);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(conn_break__now_and_then)
{
	struct ripc__sim_config config;
	unsigned sent = 0;

	ripc__sim_defaults(&config);
	config.conn_break = 0.05;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct sim_pair_test *sim_pair_test = pair_connected(seed, NULL);

		ripc__sim_configure(sim_pair_test->net, &config);
		while (!pair_count(&sim_pair_test->side[1], RIPC__EV_CLOSED) && sent < 2000) {
			(void)pair_send(&sim_pair_test->side[0], "x", 1, false);
			sent++;
			pair_run(sim_pair_test, RIPC__MS);
		}
		pair_close(sim_pair_test, 0);
	}
	/* 20 on average. */
	ck_assert_uint_gt(sent, 20 * 5);
	ck_assert_uint_lt(sent, 20 * 60);
}
END_TEST

START_TEST(kill__peer_gets_event)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ck_assert_int_eq(ripc__sim_kill(sim_pair_test->net, sim_pair_test->side[1].instance, false),
			 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED)->status, -ECONNRESET);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 0);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(kill__silent_detected_by_send)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);
	int rc;

	rc = ripc__sim_kill(sim_pair_test->net, sim_pair_test->side[1].instance, true);
	ck_assert_int_eq(rc, 0);
	OPS->close(sim_pair_test->side[1].t);
	sim_pair_test->side[1].t = NULL;
	pair_run(sim_pair_test, 60000 * RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[0].nevents, 0);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, 11000 * RIPC__MS);
	ck_assert_int_eq(pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED)->status, -ETIMEDOUT);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(close__with_a_request_unanswered)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	int rc;

	sim_pair_test->side[1].accept = false;
	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, RIPC__MS);
	OPS->close(sim_pair_test->side[1].t);
	sim_pair_test->side[1].t = NULL;
	pair_run(sim_pair_test, RIPC__MS);
	rc = pair_find(&sim_pair_test->side[0], RIPC__EV_CLOSED)->status;
	ck_assert_int_eq(rc, -ECONNREFUSED);
	pair_close(sim_pair_test, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/sim/conn");
	TCase *tc = tcase_create("conn");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, connect__private_data_both_directions);
	tcase_add_test(tc, connect__bad_address_is_refused);
	tcase_add_test(tc, connect__no_listener);
	tcase_add_test(tc, connect__partitioned_times_out);
	tcase_add_test(tc, connect__nth_fails_once);
	tcase_add_test(tc, connect__slow_set_up);
	tcase_add_test(tc, accept__after_requester_closed);
	tcase_add_test(tc, reject__private_data_arrives);
	tcase_add_test(tc, ep_close__peer_event_after_data);
	tcase_add_test(tc, ep_close__no_event_afterwards);
	tcase_add_test(tc, ep_close__received_data_kept);
	tcase_add_test(tc, break__event_on_both_sides);
	tcase_add_test(tc, break__a_prefix_arrives);
	tcase_add_test(tc, break_at__the_nth_operation);
	tcase_add_test(tc, conn_break__now_and_then);
	tcase_add_test(tc, kill__peer_gets_event);
	tcase_add_test(tc, kill__silent_detected_by_send);
	tcase_add_test(tc, close__with_a_request_unanswered);
	suite_add_tcase(suite, tc);
	return test_main("transport/sim/conn", suite);
}
