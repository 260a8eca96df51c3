/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Time, chance and datagrams of the simulated network. */
#include "sim_pair.h"

START_TEST(open__needs_a_network)
{
	struct ripc__transport_env env = {.arg = NULL};
	struct ripc__transport *t;

	ck_assert_int_eq(OPS->open(&t, &env), -ENODEV);
	ck_assert_uint_gt(strlen(ripc_error_detail()), 10);
}
END_TEST

static unsigned at_event_calls;

static void at_event(void *arg)
{
	at_event_calls++;
}

START_TEST(step__time_and_events)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	struct ripc__sim_counters counters;
	uint64_t start = ripc__sim_now(sim_pair_test->net), last = start;

	ck_assert(!ripc__sim_step(sim_pair_test->net, start + 1000));
	ck_assert_uint_eq(ripc__sim_now(sim_pair_test->net), start + 1000);
	ck_assert(!ripc__sim_step(sim_pair_test->net, RIPC__NEVER));
	ck_assert_uint_eq(ripc__sim_now(sim_pair_test->net), start + 1000);
	pair_connect(sim_pair_test);
	ripc__sim_at_event(sim_pair_test->net, 2, at_event, NULL);
	for (unsigned n = 1; ripc__sim_step(sim_pair_test->net, RIPC__NEVER); n++) {
		ck_assert_uint_ge(ripc__sim_now(sim_pair_test->net), last);
		last = ripc__sim_now(sim_pair_test->net);
		ripc__sim_counters(sim_pair_test->net, &counters);
		ck_assert_uint_eq(counters.events, n);
		ck_assert_uint_eq(at_event_calls, n >= 2);
		pair_progress(sim_pair_test, &sim_pair_test->side[0]);
		pair_progress(sim_pair_test, &sim_pair_test->side[1]);
	}
	ck_assert_uint_eq(at_event_calls, 1);
	pair_close(sim_pair_test, 0);
}
END_TEST

/* A busy run. Return: a digest of everything both sides saw and when. */
static uint64_t digest(uint64_t seed)
{
	struct ripc__sim_config config;
	uint64_t sum = 14695981039346656037u;
	struct sim_pair_test *sim_pair_test;

	ripc__sim_defaults(&config);
	config.datagram = true;
	config.datagram_loss = config.datagram_duplication = config.datagram_reordering = 0.2;
	config.queue_full = config.hold = config.transient = 0.2;
	sim_pair_test = pair_connected(seed, &config);
	for (uint8_t i = 0; i < 100; i++) {
		struct iovec iov = {&i, 1};

		pair_send(&sim_pair_test->side[i & 1], &i, 1, i % 3 == 0);
		OPS->post_datagram(sim_pair_test->side[0].t, sim_pair_test->side[1].addr,
				   sim_pair_test->side[1].addrlen, &iov, 1);
		pair_run(sim_pair_test, 3000);
	}
	pair_run(sim_pair_test, 10 * RIPC__MS);
	for (int s = 0; s < 2; s++)
		for (unsigned i = 0; i < sim_pair_test->side[s].nevents; i++) {
			const struct pair_event *ev = &sim_pair_test->side[s].events[i];

			sum = (sum ^ ev->at_ns) * 1099511628211u;
			sum = (sum ^ ev->data[0]) * 1099511628211u;
			sum = (sum ^ (uint64_t)ev->kind) * 1099511628211u;
		}
	pair_close(sim_pair_test, 0);
	return sum;
}

START_TEST(seed__same_seed_same_run)
{
	uint64_t seed = test_seed();

	ck_assert_uint_eq(digest(seed), digest(seed));
	ck_assert_uint_ne(digest(seed), digest(seed + 1));
}
END_TEST

START_TEST(datagram__loss_dup_reorder)
{
	struct ripc__sim_config config;
	struct ripc__sim_counters counters;
	unsigned seen[250] = {0}, order = 0;
	struct sim_pair_test *sim_pair_test;

	ripc__sim_defaults(&config);
	config.datagram = true;
	config.datagram_loss = 0.1;
	config.datagram_duplication = 0.1;
	config.datagram_reordering = 0.3;
	sim_pair_test = pair_open(test_seed(), &config);
	for (uint8_t i = 0; i < 250; i++) {
		struct iovec iov[2] = {{&i, 1}, {(void *)(uintptr_t) "tail", 4}};

		ck_assert_int_eq(OPS->post_datagram(sim_pair_test->side[0].t,
						    sim_pair_test->side[1].addr,
						    sim_pair_test->side[1].addrlen, iov, 2),
				 0);
		pair_run(sim_pair_test, 10000);
	}
	pair_run(sim_pair_test, RIPC__MS);
	ripc__sim_counters(sim_pair_test->net, &counters);
	ck_assert_uint_gt(counters.datagrams_lost, 0);
	ck_assert_uint_gt(counters.datagrams_duplicated, 0);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents,
			  250 + counters.datagrams_duplicated - counters.datagrams_lost);
	for (unsigned i = 0; i < sim_pair_test->side[1].nevents; i++) {
		ck_assert_int_eq(sim_pair_test->side[1].events[i].kind, RIPC__EV_DATAGRAM);
		ck_assert_uint_eq(sim_pair_test->side[1].events[i].len, 5);
		ck_assert_mem_eq(sim_pair_test->side[1].events[i].data + 1, "tail", 4);
		seen[sim_pair_test->side[1].events[i].data[0]]++;
		order += i && sim_pair_test->side[1].events[i].data[0] <
				      sim_pair_test->side[1].events[i - 1].data[0];
	}
	for (int i = 0; i < 250; i++)
		ck_assert_uint_le(seen[i], 2);
	ck_assert_uint_gt(order, 0);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(datagram__limits)
{
	struct ripc__sim_config config;
	static char big[1473];
	struct iovec iov = {big, 1473};
	struct sim_pair_test *sim_pair_test;

	ripc__sim_defaults(&config);
	config.datagram = true;
	sim_pair_test = pair_open(1, &config);
	ck_assert_int_eq(OPS->post_datagram(sim_pair_test->side[0].t, sim_pair_test->side[1].addr,
					    sim_pair_test->side[1].addrlen, &iov, 1),
			 -EMSGSIZE);
	ck_assert_int_eq(OPS->post_datagram(sim_pair_test->side[0].t, sim_pair_test->side[1].addr,
					    3, &iov, 1),
			 -EINVAL);
	iov.iov_len = 1472;
	ck_assert_int_eq(OPS->post_datagram(sim_pair_test->side[0].t, sim_pair_test->side[1].addr,
					    sim_pair_test->side[1].addrlen, &iov, 1),
			 0);
	pair_close(sim_pair_test, 0);
}
END_TEST

/* A multicast reaches the transports that joined the group, the sender's included. */
START_TEST(multicast__to_members)
{
	static char big[1473];
	struct iovec iov = {big, 1473};
	struct sim_pair_test *sim_pair_test;
	struct ripc__sim_config config;
	struct pair_side *side;

	ripc__sim_defaults(&config);
	config.multicast = true;
	sim_pair_test = pair_open(1, &config);
	side = sim_pair_test->side;
	ck_assert_int_eq(OPS->post_group(side[0].t, 5, &iov, 1), -EMSGSIZE);
	iov.iov_len = 1472;
	ck_assert_int_eq(OPS->post_group(side[0].t, 5, &iov, 1), 0);
	ck_assert_int_eq(OPS->group_join(side[1].t, 5), 0);
	ck_assert_int_eq(OPS->group_join(side[1].t, 6), 0);
	ck_assert_int_eq(OPS->group_join(side[0].t, 6), 0);
	ck_assert_int_eq(OPS->post_group(side[0].t, 5, &iov, 1), 0);
	iov.iov_len = 10;
	ck_assert_int_eq(OPS->post_group(side[0].t, 6, &iov, 1), 0);
	OPS->group_leave(side[1].t, 6);
	ck_assert_int_eq(OPS->post_group(side[0].t, 6, &iov, 1), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(side[0].nevents, 2);
	ck_assert_uint_eq(side[1].nevents, 2);
	ck_assert_uint_eq(side[1].events[0].kind, RIPC__EV_DATAGRAM);
	ck_assert_uint_eq(side[1].events[0].len + side[1].events[1].len, 1482);
	for (uint64_t group = 10; group < 17; group++)
		ck_assert_int_eq(OPS->group_join(side[1].t, group), 0);
	ck_assert_int_eq(OPS->group_join(side[1].t, 17), -ENOSPC);
	OPS->group_leave(side[1].t, 17);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(port__unicast_broadcast_partition)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	struct ripc__sim_port *port[3];
	uint8_t name[3][16], from[16], buf[32];

	for (int i = 0; i < 3; i++) {
		memset(name[i], 'a' + i, 16);
		ck_assert_int_eq(ripc__sim_port_open(sim_pair_test->net, name[i], &port[i]), 0);
	}
	ck_assert_int_eq(ripc__sim_port_send(port[0], name[1], "one", 3), 0);
	ck_assert_int_eq(ripc__sim_port_recv(port[1], from, buf, sizeof(buf)), -EAGAIN);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(ripc__sim_port_recv(port[1], from, buf, sizeof(buf)), 3);
	ck_assert_mem_eq(from, name[0], 16);
	ck_assert_mem_eq(buf, "one", 3);
	ck_assert_int_eq(ripc__sim_port_recv(port[2], from, buf, sizeof(buf)), -EAGAIN);
	ck_assert_int_eq(ripc__sim_port_send(port[0], NULL, "all", 3), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(ripc__sim_port_recv(port[0], from, buf, sizeof(buf)), -EAGAIN);
	ck_assert_int_eq(ripc__sim_port_recv(port[1], from, buf, sizeof(buf)), 3);
	ck_assert_int_eq(ripc__sim_port_recv(port[2], from, buf, sizeof(buf)), 3);
	ck_assert_int_eq(ripc__sim_partition(sim_pair_test->net, name[0], name[2], true), 0);
	ck_assert_int_eq(ripc__sim_port_send(port[0], NULL, "all", 3), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(ripc__sim_port_recv(port[1], from, buf, sizeof(buf)), 3);
	ck_assert_int_eq(ripc__sim_port_recv(port[2], from, buf, sizeof(buf)), -EAGAIN);
	for (int i = 0; i < 3; i++)
		ripc__sim_port_close(port[i]);
	pair_close(sim_pair_test, 0);
}
END_TEST

static unsigned arrivals[8]; /* by the number of the node */

static void count_arrival(void *arg, uint32_t node)
{
	(void)arg;
	arrivals[node]++;
}

/* The third port, whose number is at arg. */
static size_t audience(void *arg, const void *data, size_t len, const uint32_t **nodes)
{
	ck_assert_uint_eq(len, 3);
	ck_assert_mem_eq(data, "all", 3);
	*nodes = arg;
	return 1;
}

START_TEST(port__audience_arrivals_sides)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	struct ripc__sim *net = sim_pair_test->net;
	uint8_t name[3][16], from[16], buf[32];
	struct ripc__sim_port *port[3];
	uint32_t third;

	memset(arrivals, 0, sizeof(arrivals));
	for (int i = 0; i < 3; i++) {
		memset(name[i], 'a' + i, 16);
		ck_assert_int_eq(ripc__sim_port_open(net, name[i], &port[i]), 0);
	}
	ripc__sim_on_arrival(net, count_arrival, NULL);
	third = (uint32_t)ripc__sim_number(net, name[2]);
	ck_assert_uint_eq(third, 2);
	ripc__sim_audience(net, audience, &third);
	ck_assert_int_eq(ripc__sim_port_send(port[0], NULL, "all", 3), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(ripc__sim_port_recv(port[1], from, buf, sizeof(buf)), -EAGAIN);
	ck_assert_int_eq(ripc__sim_port_recv(port[2], from, buf, sizeof(buf)), 3);
	ck_assert_uint_eq(arrivals[1], 0);
	ck_assert_uint_eq(arrivals[2], 1);
	/* A message to one has no audience. */
	ck_assert_int_eq(ripc__sim_port_send(port[0], name[1], "one", 3), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_int_eq(ripc__sim_port_recv(port[1], from, buf, sizeof(buf)), 3);
	for (unsigned side = 0; side < 2; side++) {
		ck_assert_int_eq(ripc__sim_side(net, name[2], !side), 0);
		ck_assert_int_eq(ripc__sim_port_send(port[0], name[2], "one", 3), 0);
		pair_run(sim_pair_test, RIPC__MS);
		ck_assert_int_eq(ripc__sim_port_recv(port[2], from, buf, sizeof(buf)),
				 side ? 3 : -EAGAIN);
	}
	memset(from, 'x', 16);
	ck_assert_int_eq(ripc__sim_side(net, from, 1), -ENOENT);
	ck_assert_int_eq(ripc__sim_number(net, from), -ENOENT);
	for (int i = 0; i < 3; i++)
		ripc__sim_port_close(port[i]);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(inject__behind_what_was_sent)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "mine", 4, false), 0);
	ck_assert_int_eq(ripc__sim_inject(sim_pair_test->net, sim_pair_test->side[0].instance,
					  sim_pair_test->side[1].instance, "evil", 4),
			 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 2);
	ck_assert_mem_eq(sim_pair_test->side[1].events[0].data, "mine", 4);
	ck_assert_mem_eq(sim_pair_test->side[1].events[1].data, "evil", 4);
	OPS->ep_close(sim_pair_test->side[0].ep);
	/* Its end is on the way, and the sender may have the next connection already. */
	ck_assert_int_eq(ripc__sim_inject(sim_pair_test->net, sim_pair_test->side[0].instance,
					  sim_pair_test->side[1].instance, "evil", 4),
			 -ENOTCONN);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_RECV), 2);
	OPS->ep_close(sim_pair_test->side[1].ep);
	ck_assert_int_eq(ripc__sim_inject(sim_pair_test->net, sim_pair_test->side[0].instance,
					  sim_pair_test->side[1].instance, "evil", 4),
			 -ENOTCONN);
	pair_close(sim_pair_test, 0);
}
END_TEST

static void send_broadcast(void *arg, const uint8_t from[16], const uint8_t to[16], uint8_t *data,
			   size_t *len)
{
	for (size_t i = 0; i < *len; i++)
		data[i] -= 32;
	(*len)--;
}

START_TEST(tamper__changes_messages)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ripc__sim_tamper(sim_pair_test->net, send_broadcast, NULL);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "abc", 3, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[1].events[0].len, 2);
	ck_assert_mem_eq(sim_pair_test->side[1].events[0].data, "AB", 2);
	pair_close(sim_pair_test, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/sim/net");
	TCase *tc = tcase_create("net");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, open__needs_a_network);
	tcase_add_test(tc, step__time_and_events);
	tcase_add_test(tc, seed__same_seed_same_run);
	tcase_add_test(tc, datagram__loss_dup_reorder);
	tcase_add_test(tc, datagram__limits);
	tcase_add_test(tc, multicast__to_members);
	tcase_add_test(tc, port__unicast_broadcast_partition);
	tcase_add_test(tc, port__audience_arrivals_sides);
	tcase_add_test(tc, inject__behind_what_was_sent);
	tcase_add_test(tc, tamper__changes_messages);
	suite_add_tcase(suite, tc);
	return test_main("transport/sim/net", suite);
}
