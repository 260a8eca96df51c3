/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Registration and takeover of services, in virtual time. */
#include "trio.h"

#include <errno.h>

#define KNOWN_HOLDER_MS (RIPC__PROBES_KNOWN * RIPC__PROBE_INTERVAL_MS)

/* --- registration --- */

START_TEST(register__probes_three_times)
{
	uint64_t start = bus->now_ns;

	ck_assert_int_eq(node_register(a, 42, true), 0);
	bus_run(bus, 59);
	ck_assert_uint_eq(a->nevents, 0);
	ck_assert(!node_finds(b, 42, a));
	bus_run(bus, 2);
	ck_assert_uint_eq(node_count(a, RIPC__REGISTERED, 42), 1);
	ck_assert_uint_eq(a->nsent, 4);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(a->last[i].msg.kind, RIPC__RESOLVE_PROBE);
		ck_assert_uint_eq(a->last[i].at_ns, start + i * 20 * RIPC__MS);
	}
	ck_assert_int_eq(a->last[3].msg.kind, RIPC__RESOLVE_REQUEST);
	ck_assert(node_finds(b, 42, a));
}
END_TEST

START_TEST(register__immediate_if_local)
{
	node_register(a, 42, false);
	ck_assert_uint_eq(node_count(a, RIPC__REGISTERED, 42), 1);
	ck_assert_uint_eq(sent(a, RIPC__RESOLVE_PROBE), 0);
}
END_TEST

START_TEST(register_random__sends_nothing)
{
	for (uint64_t i = 0; i < 100; i++)
		ck_assert_int_eq(node_register_random(a, 42 + i), 0);
	bus_run(bus, 1000);
	ck_assert_uint_eq(a->nsent, 0);
	/* The next request names the service that was registered last. */
	node_lookup(a, 7);
	ck_assert_uint_eq(a->nsent, 1);
	ck_assert_uint_eq(a->last[0].msg.record.service, 42 + 99);
	bus_run(bus, 1);
	ck_assert(node_finds(b, 42 + 99, a));
	/* Others are found by asking. */
	node_lookup(b, 42);
	bus_run(bus, 2);
	ck_assert(node_finds(b, 42, a));
}
END_TEST

START_TEST(register_random__duplicate_is_found_by_a_claim)
{
	node_register_random(a, 42);
	bus_run(bus, 1000);
	node_register_random(b, 42);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 1);
	/* Each claims its services every 30 s, more or less. */
	bus_run(bus, 40000);
	ck_assert(node_holds(a, 42));
	ck_assert(!node_holds(b, 42));
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), 1);
}
END_TEST

START_TEST(register_random__duplicate_is_found_by_a_request)
{
	node_register_random(a, 42);
	bus_run(bus, 1000);
	node_register_random(b, 42);
	node_lookup(b, 7);
	bus_run(bus, 10);
	ck_assert(node_holds(a, 42));
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), 1);
}
END_TEST

START_TEST(register__twice_in_one_context)
{
	node_register(a, 42, true);
	ck_assert_int_eq(node_register(a, 42, true), -EADDRINUSE);
	bus_run(bus, 100);
	ck_assert_int_eq(node_register(a, 42, true), -EADDRINUSE);
	ck_assert_uint_eq(node_count(a, RIPC__REGISTERED, 42), 1);
}
END_TEST

START_TEST(register__held_elsewhere)
{
	node_register(a, 42, true);
	bus_run(bus, 100);
	node_register(b, 42, true);
	bus_run(bus, 100);
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), 1);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 0);
	ck_assert_mem_eq(node_has_event(b, RIPC__CONFLICT, 42)->record.instance, a->instance, 16);
	ck_assert_uint_eq(node_has_event(b, RIPC__CONFLICT, 42)->record.naddrs, 1);
	ck_assert_uint_eq(counts(b).held, 0);
	ck_assert(node_holds(a, 42));
	ck_assert(node_finds(b, 42, a));
	/* It may be tried again. */
	bus_kill(a);
	ck_assert_int_eq(node_register(b, 42, true), 0);
	bus_run(bus, KNOWN_HOLDER_MS + 1);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 1);
}
END_TEST

/* The process of a known holder does not run for a while. */
START_TEST(register__held_by_a_busy_context)
{
	node_register(a, 42, true);
	bus_run(bus, 100);
	a->stopped_ns = bus->now_ns + (KNOWN_HOLDER_MS - 1) * RIPC__MS;
	node_register(b, 42, true);
	bus_run(bus, KNOWN_HOLDER_MS + 1);
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), 1);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 0);
	ck_assert_uint_eq(sent(b, RIPC__RESOLVE_PROBE), 3);
	/* One that has given the service up is not waited for. */
	ripc__rcore_unregister(a->core, 42, bus->now_ns);
	bus_run(bus, 1);
	node_register(b, 42, true);
	bus_run(bus, 61);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 1);
}
END_TEST

/* As by a back end that kept our record, and then that of a takeover. */
START_TEST(register__verdict_while_probing)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0x99);

	node_register(b, 42, true);
	bus_run(bus, 30);
	msg.record.generation = 2;
	msg.nonce = ripc__dispute_nonce(_i ? a->instance : b->instance);
	msg.flags = RIPC__RESOLVE_VERDICT;
	node_input(b, &msg);
	bus_run(bus, 100);
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), !_i);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), (unsigned)_i);
}
END_TEST

START_TEST(register__two_at_once_one_wins)
{
	/* In both orders, and with every distance of the two. */
	for (unsigned i = 0; i < 130; i++) {
		uint64_t service = 100 + i;
		struct node *first = i & 1 ? a : b, *second = i & 1 ? b : a;

		node_register(first, service, true);
		bus_run(bus, i / 2);
		node_register(second, service, true);
		bus_run(bus, 200);
		ck_assert_uint_eq(node_holds(a, service) + node_holds(b, service), 1);
		ck_assert_uint_eq(node_count(a, RIPC__REGISTERED, service) +
					  node_count(b, RIPC__REGISTERED, service),
				  1);
		ck_assert_uint_eq(node_count(a, RIPC__CONFLICT, service) +
					  node_count(b, RIPC__CONFLICT, service),
				  1);
		if (i < 2)
			ck_assert(node_holds(a, service)); /* the smaller instance id */
	}
}
END_TEST

START_TEST(register__many_at_once_with_loss)
{
	unsigned nodes = 20;

	bus->loss_percent = 20;
	bus->dup_percent = 20;
	bus->delay_min_ns = RIPC__MS / 10;
	bus->delay_max_ns = 10 * RIPC__MS;
	while (bus->nnodes < nodes)
		bus_add(bus, (uint8_t)test_random(&bus->rng));
	for (uint64_t service = 1; service <= 30; service++) {
		for (unsigned i = 0; i < nodes; i++) {
			node_register(&bus->nodes[i], service, true);
			bus_run(bus, test_random(&bus->rng) % 10);
		}
	}
	/* Long enough for claims to settle what the probes left open. */
	bus_run(bus, 40 * RIPC__CLAIM_INTERVAL_MS);
	for (uint64_t service = 1; service <= 30; service++) {
		unsigned holders = 0, losers = 0;

		for (unsigned i = 0; i < nodes; i++) {
			holders += node_holds(&bus->nodes[i], service);
			losers += node_count(&bus->nodes[i], RIPC__CONFLICT, service);
		}
		ck_assert_msg(holders == 1, "%u: %u holders", (unsigned)service, holders);
		ck_assert_uint_eq(losers, nodes - 1);
	}
}
END_TEST

START_TEST(unregister__with_event_pending)
{
	ck_assert_int_eq(ripc__rcore_register(a->core, 42, NULL, RIPC__REGISTER_LOCAL, bus->now_ns),
			 0);
	ck_assert_int_eq(ripc__rcore_lookup(a->core, 42, bus->now_ns), 0);
	ripc__rcore_unregister(a->core, 42, bus->now_ns);
	ck_assert(!node_holds(a, 42));
	/* The application has not been notified yet, and the id can be registered again. */
	ck_assert_int_eq(ripc__rcore_register(a->core, 42, NULL, RIPC__REGISTER_LOCAL, bus->now_ns),
			 0);
	node_collect(a);
	ck_assert_uint_eq(node_count(a, RIPC__RESOLVED, 42), 1);
	ck_assert_uint_eq(node_count(a, RIPC__REGISTERED, 42), 1);
	/* Pending operations are freed with the core: the leak checker verifies that. */
	ck_assert_int_eq(ripc__rcore_lookup(a->core, 42, bus->now_ns), 0);
	ripc__rcore_unregister(a->core, 42, bus->now_ns);
}
END_TEST

/* Requests of so many askers at one moment. */
static unsigned request_many(unsigned n)
{
	unsigned all = 0, sent = b->nsent;

	for (unsigned i = 0; i < n; i++) {
		struct ripc__resolver_msg msg = {
			.kind = RIPC__RESOLVE_REQUEST, .service = 42, .nonce = 1 + i};

		msg.record.instance[0] = 1;
		msg.record.instance[1] = (uint8_t)i;
		msg.record.instance[2] = (uint8_t)(i >> 8);
		msg.record.generation = 1;
		node_input(b, &msg);
		all += b->nsent > sent && b->last[b->nsent < 64 ? b->nsent - 1 : 63].all;
		sent = b->nsent;
	}
	return all;
}

START_TEST(requested__by_many_broadcasts)
{
	node_register(b, 42, false);
	bus_run(bus, 100);
	ck_assert_uint_eq(request_many(RIPC__ANNOUNCE_LIMIT - 1), 0);
	bus_run(bus, 100);
	ck_assert_uint_eq(request_many(1000), 1);
	/* Further requests are not answered for a while, but for one repetition. */
	bus_run(bus, RIPC__PROBE_INTERVAL_MS - 1);
	ck_assert_uint_eq(request_many(1000), 0);
	bus_run(bus, 2);
	ck_assert(b->last[63].all);
}
END_TEST

/* There is no higher generation: the holder keeps the service. */
START_TEST(takeover__of_the_highest_generation)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0x99);

	ck_assert_int_eq(ripc__rcore_register(b->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	msg.nonce = b->last[0].msg.nonce;
	msg.record.generation = UINT64_MAX - (unsigned)_i;
	node_input(b, &msg);
	bus_run(bus, 100);
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), !_i);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), (unsigned)_i);
}
END_TEST

/* A hostile holder answers each probe with a higher generation. */
START_TEST(takeover__ends_in_time)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0x99);

	ck_assert_int_eq(ripc__rcore_register(b->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	msg.nonce = b->last[0].msg.nonce;
	for (unsigned i = 0; i < 200; i++) {
		msg.record.generation++;
		node_input(b, &msg);
		bus_run(bus, 10);
	}
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 1);
}
END_TEST

/* The holder is busy. It loses the service, but not to another name with the same id. */
START_TEST(takeover__of_a_busy_context)
{
	ck_assert_int_eq(
		ripc__rcore_register(a->core, 42, "left", RIPC__REGISTER_LOCAL, bus->now_ns), 0);
	bus_run(bus, 100);
	a->stopped_ns = bus->now_ns + 400 * RIPC__MS;
	ck_assert_int_eq(ripc__rcore_register(b->core, 42, _i ? "right" : "left",
					      RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, _i ? 500 : 61);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), !_i);
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), (unsigned)_i);
}
END_TEST

/* A takeover from a process of this host, which keeps the name after it has lost the service. */
START_TEST(takeover__waits_for_the_name)
{
	bool released = _i;

	node_register(a, 42, false);
	bus_run(bus, 100);
	b->name_bound = true;
	ck_assert_int_eq(
		ripc__rcore_register(b->core, 42, NULL, RIPC__REGISTER_TAKE_NAME, bus->now_ns), 0);
	bus_run(bus, 500);
	ck_assert_uint_eq(node_count(a, RIPC__CONFLICT, 42), 1);
	ck_assert(node_finds(c, 42, b));
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 0);
	b->name_bound = !released;
	bus_run(bus, 5);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), released);
	/* It waits no longer than a look-up. */
	bus_run(bus, 500);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 1);
}
END_TEST

/* The holder is stopped during the takeover. It does not take the service back. */
START_TEST(takeover__stopped_holder)
{
	node_register(a, 42, true);
	bus_run(bus, 1000);
	if (_i)
		ck_assert_int_eq(
			ripc__rcore_register(b->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			0);
	bus_run(bus, 1000);
	(_i ? b : a)->group = 1;
	ck_assert_int_eq(ripc__rcore_register(c->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, 1000);
	ck_assert_uint_eq(node_count(c, RIPC__REGISTERED, 42), 1);
	(_i ? b : a)->group = 0;
	bus_run(bus, 2 * RIPC__CLAIM_INTERVAL_MS);
	ck_assert(node_holds(c, 42));
	ck_assert(!node_holds(_i ? b : a, 42));
}
END_TEST

/* The same, and no context knows its record. */
START_TEST(takeover__stopped_holder_unknown)
{
	a->group = 1;
	node_register(a, 42, true);
	bus_run(bus, 1000);
	ck_assert_int_eq(ripc__rcore_register(c->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, 1000);
	ck_assert_uint_eq(node_count(c, RIPC__REGISTERED, 42), 1);
	a->group = 0;
	bus_run(bus, 2 * RIPC__CLAIM_INTERVAL_MS);
	ck_assert(node_holds(c, 42));
	ck_assert(!node_holds(a, 42));
}
END_TEST

static void take_over(struct node *n)
{
	ck_assert_int_eq(ripc__rcore_register(n->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, 1000);
	ck_assert_uint_eq(node_count(n, RIPC__REGISTERED, 42), 1);
}

/*
 * A context takes the service over, gives it up and takes it over again, while the former holder is
 * stopped: the former holder loses it.
 */
START_TEST(takeover__twice)
{
	take_over(a);
	a->group = 1;
	take_over(b);
	ripc__rcore_unregister(b->core, 42, bus->now_ns);
	bus_run(bus, 1000);
	b->nevents = 0;
	take_over(b);
	a->group = 0;
	bus_run(bus, 2 * RIPC__CLAIM_INTERVAL_MS);
	ck_assert(node_holds(b, 42));
	ck_assert(!node_holds(a, 42));
}
END_TEST

/*
 * The holder on this host has not answered a probe: it may be slow, and is waited for, also if its
 * record is known (2).
 */
START_TEST(takeover__silent_holder)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 42, 42, 0x99);

	if (_i == 2)
		node_input(b, &msg);
	b->name_bound = true;
	ck_assert_int_eq(
		ripc__rcore_register(b->core, 42, NULL, RIPC__REGISTER_TAKE_NAME, bus->now_ns), 0);
	bus_run(bus, 900);
	node_lookup(c, 42);
	bus_run(bus, 50);
	ck_assert(!node_finds(c, 42, b));
	if (_i == 1) {
		ripc__rcore_unregister(b->core, 42, bus->now_ns);
		bus_run(bus, 1000);
		ck_assert_uint_eq(counts(b).held, 0);
	} else {
		bus_run(bus, 100);
		ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 1);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/claim");
	TCase *tc;

	test_seed();
	tc = tcase(suite, "register");
	tcase_add_test(tc, register__probes_three_times);
	tcase_add_test(tc, register__immediate_if_local);
	tcase_add_test(tc, register_random__sends_nothing);
	tcase_add_test(tc, register_random__duplicate_is_found_by_a_claim);
	tcase_add_test(tc, register_random__duplicate_is_found_by_a_request);
	tcase_add_test(tc, register__twice_in_one_context);
	tcase_add_test(tc, register__held_elsewhere);
	tcase_add_test(tc, register__held_by_a_busy_context);
	tcase_add_loop_test(tc, register__verdict_while_probing, 0, 2);
	tcase_add_test(tc, register__two_at_once_one_wins);
	tcase_add_test(tc, register__many_at_once_with_loss);
	tcase_add_test(tc, unregister__with_event_pending);
	tcase_add_test(tc, requested__by_many_broadcasts);
	tcase_add_loop_test(tc, takeover__of_the_highest_generation, 0, 2);
	tcase_add_test(tc, takeover__ends_in_time);
	tcase_add_loop_test(tc, takeover__of_a_busy_context, 0, 2);
	tcase_add_loop_test(tc, takeover__waits_for_the_name, 0, 2);
	tcase_add_loop_test(tc, takeover__stopped_holder, 0, 2);
	tcase_add_test(tc, takeover__stopped_holder_unknown);
	tcase_add_test(tc, takeover__twice);
	tcase_add_loop_test(tc, takeover__silent_holder, 0, 3);
	return test_main("resolver/claim", suite);
}
