/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Registration, and two that hold one service, in virtual time. */
#include "trio.h"

#include <errno.h>

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
	bus_run(bus, 100);
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

/* --- two holders --- */

/* Both hold 42 on their own side; @older for two seconds longer. */
static void split(struct node *older, struct node *younger)
{
	older->group = 0;
	younger->group = 1;
	node_register(older, 42, true);
	bus_run(bus, 2000);
	node_register(younger, 42, true);
	bus_run(bus, 1000);
	ck_assert(node_holds(older, 42) && node_holds(younger, 42));
	older->group = younger->group = c->group = 2;
}

static void check_older_kept(struct node *older, struct node *younger)
{
	ck_assert(node_holds(older, 42));
	ck_assert_uint_eq(node_count(older, RIPC__CONFLICT, 42), 0);
	ck_assert_uint_eq(node_count(older, RIPC__RIVAL, 42), 1);
	ck_assert_mem_eq(node_has_event(older, RIPC__RIVAL, 42)->record.instance, younger->instance,
			 16);
	ck_assert_uint_eq(node_count(younger, RIPC__RIVAL, 42), 1);
	ck_assert(!node_holds(younger, 42));
	ck_assert_uint_eq(node_count(younger, RIPC__CONFLICT, 42), 1);
	ck_assert_mem_eq(node_has_event(younger, RIPC__CONFLICT, 42)->record.instance,
			 older->instance, 16);
	ck_assert(node_finds(c, 42, older));
	ck_assert(node_finds(younger, 42, older));
}

START_TEST(heal__older_wins_by_claim)
{
	struct node *older = _i ? b : a, *younger = _i ? a : b;

	split(older, younger);
	bus_run(bus, 2 * RIPC__CLAIM_INTERVAL_MS);
	node_lookup(c, 42);
	bus_run(bus, 100);
	check_older_kept(older, younger);
}
END_TEST

START_TEST(heal__older_wins_by_request)
{
	struct node *older = _i & 1 ? b : a, *younger = _i & 1 ? a : b;

	split(older, younger);
	/* The request of a holder carries its record to the other one. */
	node_lookup(_i & 2 ? older : younger, 77);
	bus_run(bus, 10);
	node_lookup(c, 42);
	bus_run(bus, 100);
	check_older_kept(older, younger);
}
END_TEST

START_TEST(heal__third_sees_two_replies)
{
	struct node *older = _i ? b : a, *younger = _i ? a : b;

	c->group = 3;
	split(older, younger);
	node_lookup(c, 42);
	bus_run(bus, 100);
	check_older_kept(older, younger);
}
END_TEST

/* After the first one of many duplicates is found, the others follow soon. */
START_TEST(heal__many_services)
{
	enum { SERVICES = 100 };
	unsigned both = 0;

	a->group = 1;
	for (uint64_t s = 1; s <= SERVICES; s++) {
		node_register(a, s, false);
		node_register(b, s, false);
	}
	bus_run(bus, 1000);
	a->group = 0;
	bus->loss_percent = 1;
	bus_run(bus, RIPC__CLAIM_INTERVAL_MS * 3 / 2);
	for (uint64_t s = 1; s <= SERVICES; s++) {
		ck_assert(node_holds(a, s) || node_holds(b, s));
		both += node_holds(a, s) && node_holds(b, s);
	}
	/* Those whose messages were lost. */
	ck_assert_uint_le(both, 5);
	ck_assert_uint_le(a->nsent + b->nsent, 10 * SERVICES);
}
END_TEST

/* A verdict is about two holders: the third one does not give up, too. */
START_TEST(heal__three_holders)
{
	struct node *nodes[] = {a, b, c};
	unsigned holders = 0;

	for (unsigned i = 0; i < 3; i++)
		nodes[i]->group = i;
	for (unsigned i = 0; i < 3; i++) {
		node_register(nodes[(_i / 2 + (_i % 2 ? i : 3 - i)) % 3], 42, true);
		bus_run(bus, 2000);
	}
	a->group = b->group = c->group = 3;
	bus_run(bus, 3 * RIPC__CLAIM_INTERVAL_MS);
	for (unsigned i = 0; i < 3; i++)
		holders += node_holds(nodes[i], 42);
	ck_assert_uint_eq(holders, 1);
	ck_assert(node_holds(nodes[(_i / 2 + (_i % 2 ? 0 : 3)) % 3], 42));
}
END_TEST

/* 42 moved from a to b, which died without GONE; c holds it now, and a knows that or not. */
static void move_and_die(bool known)
{
	node_register(a, 42, true);
	bus_run(bus, 1000);
	ck_assert_int_eq(ripc__rcore_register(b->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, 1000);
	ck_assert_uint_eq(node_count(a, RIPC__CONFLICT, 42), 1);
	ck_assert(node_holds(b, 42));
	bus_kill(b);
	a->group = known ? 0 : 1;
	node_register(c, 42, true);
	bus_run(bus, 1000);
	ck_assert_uint_eq(node_count(c, RIPC__REGISTERED, 42), 1);
	a->group = 0;
}

/* The record by which a redirects requests to b does not end the registration of c. */
START_TEST(redirect__to_a_dead_holder)
{
	struct node *d;

	move_and_die(false);
	d = bus_add(bus, 0x40);
	node_lookup(d, 42);
	bus_run(bus, 100);
	ck_assert(node_holds(c, 42));
	ck_assert(node_finds(d, 42, c));
	ck_assert_uint_eq(node_count(c, RIPC__CONFLICT, 42), 0);
}
END_TEST

START_TEST(redirect__until_the_next_holder)
{
	struct node *d;
	unsigned before;

	move_and_die(true);
	d = bus_add(bus, 0x40);
	before = a->nsent;
	node_lookup(d, 42);
	bus_run(bus, 100);
	ck_assert(node_finds(d, 42, c));
	ck_assert_uint_eq(a->nsent, before);
}
END_TEST

/* A PROBE shows that the service has no holder, or another one. */
START_TEST(redirect__until_a_probe)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_PROBE, 42, 42, 0x99);
	unsigned before;

	move_and_die(false);
	c->group = 1;
	for (unsigned i = 0; i < 2; i++) {
		before = a->nsent;
		node_lookup(bus_add(bus, (uint8_t)(0x40 + i)), 42);
		bus_run(bus, 1);
		ck_assert_uint_eq(a->nsent - before, !i);
		node_input(a, &msg);
	}
}
END_TEST

START_TEST(heal__same_age_one_remains)
{
	/*
	 * Registered within a millisecond of each other, seen with delays: still only one of them
	 * judges.
	 */
	for (unsigned i = 0; i < 100; i++) {
		uint64_t service = 1000 + i;
		struct node *holder;

		bus->delay_max_ns = bus->delay_min_ns + 1;
		bus->delay_max_ns += test_random(&bus->rng) % (20 * RIPC__MS);
		a->group = 0;
		b->group = 1;
		node_register(a, service, false);
		bus->now_ns += test_random(&bus->rng) % (3 * RIPC__MS);
		node_register(b, service, false);
		bus_run(bus, 100);
		b->group = 0;
		for (unsigned k = 0; k < 8; k++) {
			node_lookup(a, 10000 + i * 8 + k);
			node_lookup(b, 20000 + i * 8 + k);
		}
		bus_run(bus, 100);
		ck_assert_uint_eq(node_holds(a, service) + node_holds(b, service), 1);
		holder = node_holds(a, service) ? a : b;
		ripc__rcore_unregister(holder->core, service, bus->now_ns);
		for (unsigned k = 0; k < 8; k++) {
			ripc__rcore_lookup_cancel(a->core, 10000 + i * 8 + k);
			ripc__rcore_lookup_cancel(b->core, 20000 + i * 8 + k);
		}
	}
}
END_TEST

START_TEST(claim__higher_generation_wins)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 42, 42, 0x01);

	node_register(b, 42, false);
	msg.record.generation = 0;
	node_input(b, &msg);
	ck_assert(node_holds(b, 42));
	msg.record.generation = 2;
	node_input(b, &msg);
	ck_assert(!node_holds(b, 42));
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), 1);
}
END_TEST

START_TEST(claim__forged_are_rate_limited)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0x01);

	node_register(b, 42, false);
	bus_run(bus, 10);
	b->nsent = 0;
	msg.record.since_ms = 0;
	for (unsigned i = 0; i < 10000; i++)
		node_input(b, &msg);
	ck_assert_uint_eq(b->nsent, 1);
	ck_assert(node_holds(b, 42));
	/* Each rival is notified once; late messages of the previous holder are no conflict. */
	node_collect(b);
	ck_assert_uint_eq(node_count(b, RIPC__RIVAL, 42), 0);
	bus_run(bus, 1000);
	for (unsigned i = 0; i < 10000; i++)
		node_input(b, &msg);
	node_collect(b);
	ck_assert_uint_eq(node_count(b, RIPC__RIVAL, 42), 1);
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
	tcase_add_loop_test(tc, register__verdict_while_probing, 0, 2);
	tcase_add_test(tc, register__two_at_once_one_wins);
	tcase_add_test(tc, register__many_at_once_with_loss);
	tcase_add_test(tc, unregister__with_event_pending);
	tcase_add_test(tc, requested__by_many_broadcasts);
	tcase_add_loop_test(tc, takeover__of_the_highest_generation, 0, 2);
	tcase_add_test(tc, takeover__ends_in_time);
	tcase_add_loop_test(tc, takeover__waits_for_the_name, 0, 2);
	tcase_add_loop_test(tc, takeover__stopped_holder, 0, 2);
	tcase_add_test(tc, takeover__stopped_holder_unknown);
	tcase_add_loop_test(tc, takeover__silent_holder, 0, 3);
	tc = tcase(suite, "two holders");
	tcase_add_loop_test(tc, heal__older_wins_by_claim, 0, 2);
	tcase_add_loop_test(tc, heal__older_wins_by_request, 0, 4);
	tcase_add_loop_test(tc, heal__third_sees_two_replies, 0, 2);
	tcase_add_test(tc, heal__many_services);
	tcase_add_loop_test(tc, heal__three_holders, 0, 6);
	tcase_add_test(tc, redirect__to_a_dead_holder);
	tcase_add_test(tc, redirect__until_the_next_holder);
	tcase_add_test(tc, redirect__until_a_probe);
	tcase_add_test(tc, heal__same_age_one_remains);
	tcase_add_test(tc, claim__higher_generation_wins);
	tcase_add_test(tc, claim__forged_are_rate_limited);
	return test_main("resolver/claim", suite);
}
