/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two that hold one service, and claims, in virtual time. */
#include "trio.h"

#include <errno.h>

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

/*
 * The holder is not known to the other context, and answers its probes late: it keeps the service.
 */
START_TEST(heal__late_answer_to_a_probe)
{
	struct node *older = _i & 1 ? b : a, *younger = _i & 1 ? a : b;

	/* Record and claim do not arrive. */
	older->group = 1;
	node_register(older, 42, true);
	bus_run(bus, 2000);
	older->group = 0;
	older->stopped_ns = bus->now_ns + (_i & 2 ? 100 : 5000) * RIPC__MS;
	node_register(younger, 42, true);
	bus_run(bus, 61);
	ck_assert_uint_eq(node_count(younger, RIPC__REGISTERED, 42), 1);
	bus_run(bus, 5000);
	ck_assert(node_holds(older, 42));
	ck_assert_uint_eq(node_count(older, RIPC__CONFLICT, 42), 0);
	ck_assert_uint_eq(node_count(older, RIPC__RIVAL, 42), 1);
	ck_assert(!node_holds(younger, 42));
	ck_assert_uint_eq(node_count(younger, RIPC__CONFLICT, 42), 1);
	ck_assert_mem_eq(node_has_event(younger, RIPC__CONFLICT, 42)->record.instance,
			 older->instance, 16);
}
END_TEST

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

/* A single duplicate among many services is found in the time of one round, if it is quiet. */
START_TEST(heal__one_of_many_services)
{
	enum { SERVICES = 100 };
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 777, 999, 0x01);
	unsigned before;

	a->group = 1;
	for (uint64_t s = 1; s <= SERVICES; s++) {
		node_register(a, s, false);
		node_register(b, s < SERVICES ? 1000 + s : s, false);
	}
	bus_run(bus, 1000);
	a->group = 0;
	before = a->nsent;
	bus_run(bus, RIPC__CLAIM_INTERVAL_MS + RIPC__CLAIM_ROUND_MS * 5 / 4);
	ck_assert_uint_eq(node_holds(a, SERVICES) + node_holds(b, SERVICES), 1);
	ck_assert_uint_le(a->nsent - before, 3 * SERVICES);
	/* Not while other contexts send much. */
	before = a->nsent;
	for (unsigned i = 0; i < 120000 / 2; i++) {
		node_input(a, &msg);
		bus_run(bus, 2);
	}
	ck_assert_uint_le(a->nsent - before, 10);
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

int main(void)
{
	Suite *suite = suite_create("resolver/claim_two_holders");
	TCase *tc;

	test_seed();
	tc = tcase(suite, "two holders");
	tcase_add_loop_test(tc, heal__late_answer_to_a_probe, 0, 4);
	tcase_add_loop_test(tc, heal__older_wins_by_claim, 0, 2);
	tcase_add_loop_test(tc, heal__older_wins_by_request, 0, 4);
	tcase_add_loop_test(tc, heal__third_sees_two_replies, 0, 2);
	tcase_add_test(tc, heal__many_services);
	tcase_add_test(tc, heal__one_of_many_services);
	tcase_add_loop_test(tc, heal__three_holders, 0, 6);
	tcase_add_test(tc, redirect__to_a_dead_holder);
	tcase_add_test(tc, redirect__until_the_next_holder);
	tcase_add_test(tc, redirect__until_a_probe);
	tcase_add_test(tc, heal__same_age_one_remains);
	tcase_add_test(tc, claim__higher_generation_wins);
	tcase_add_test(tc, claim__forged_are_rate_limited);
	return test_main("resolver/claim_two_holders", suite);
}
