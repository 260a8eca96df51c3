/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Look-ups: requests, answers, failures, in virtual time. */
#include "trio.h"

#include <errno.h>

/* --- look-ups --- */

START_TEST(lookup__finds_holder_with_one_request)
{
	node_register(a, 42, true);
	bus_run(bus, 100);
	b->nsent = 0;
	/* b overheard the claim of a; c was born deaf to it. */
	ck_assert(node_finds(b, 42, a));
	c = bus_add(bus, 0x40);
	ck_assert_int_eq(node_lookup(c, 42), 0);
	ck_assert_uint_eq(node_count(c, RIPC__RESOLVED, 42), 0);
	bus_run(bus, 2000);
	ck_assert_uint_eq(node_count(c, RIPC__RESOLVED, 42), 1);
	ck_assert(node_finds(c, 42, a));
	ck_assert_uint_eq(c->nsent, 1);
	ck_assert_uint_eq(b->nsent, 0);
	ck_assert_uint_eq(counts(c).lookups, 0);
}
END_TEST

/* Holders that do not know of each other answer: the one of the highest generation is kept. */
START_TEST(lookup__several_holders)
{
	static const struct {
		uint8_t instance, generation, kept;
	} answers[] = {{0x97, 5, 0x97}, {0x98, 6, 0x98}, {0x96, 4, 0x98}};
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0);
	struct ripc__record record;

	node_lookup(b, 42);
	msg.nonce = b->last[0].msg.nonce;
	for (unsigned i = 0; i < 3; i++) {
		msg.record.instance[0] = answers[i].instance;
		msg.record.generation = answers[i].generation;
		node_input(b, &msg);
		ck_assert(core_find(b->core, 42, &record, bus->now_ns));
		ck_assert_uint_eq(record.instance[0], answers[i].kept);
	}
}
END_TEST

START_TEST(lookup__is_coalesced)
{
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(node_lookup(b, 42), 0);
	ck_assert_uint_eq(b->nsent, 1);
	ck_assert_uint_eq(counts(b).lookups, 1);
	bus_run(bus, 2000);
	ck_assert_uint_eq(node_count(b, RIPC__UNRESOLVED, 42), 1);
}
END_TEST

START_TEST(lookup__is_served_from_the_cache)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 1);
	ck_assert_uint_eq(b->nsent, 0);
}
END_TEST

START_TEST(lookup__own_service_at_once)
{
	node_register(a, 42, false);
	a->nsent = 0;
	node_lookup(a, 42);
	ck_assert_uint_eq(node_count(a, RIPC__RESOLVED, 42), 1);
	ck_assert_mem_eq(node_has_event(a, RIPC__RESOLVED, 42)->record.instance, a->instance, 16);
	ck_assert_uint_eq(a->nsent, 0);
	ck_assert(node_finds(a, 42, a));
}
END_TEST

START_TEST(lookup__own_service_after_probe)
{
	node_register(a, 42, true);
	node_lookup(a, 42);
	ck_assert_uint_eq(node_count(a, RIPC__RESOLVED, 42), 0);
	bus_run(bus, 100);
	ck_assert_uint_eq(node_count(a, RIPC__RESOLVED, 42), 1);
	ck_assert_uint_eq(counts(a).lookups, 0);
}
END_TEST

START_TEST(lookup__retries_with_back_off_then_fails)
{
	static const uint64_t at_ms[] = {0, 5, 20, 60, 160, 410, 660, 910};
	uint64_t start = bus->now_ns;
	const struct node_event *t;

	node_lookup(b, 42);
	bus_run(bus, 1001);
	t = node_has_event(b, RIPC__UNRESOLVED, 42);
	ck_assert_ptr_nonnull(t);
	ck_assert_uint_eq(t->at_ns, start + 1000 * RIPC__MS);
	ck_assert_uint_eq(t->requests, b->nsent);
	ck_assert_uint_ge(b->nsent, 7);
	ck_assert_uint_eq(b->last[0].at_ns, start);
	for (unsigned i = 1; i < 7; i++) {
		ck_assert_uint_ge(b->last[i].at_ns - start, at_ms[i] * RIPC__MS / 4 * 3);
		ck_assert_uint_le(b->last[i].at_ns - start, at_ms[i] * RIPC__MS / 4 * 5);
		ck_assert_uint_eq(b->last[i].msg.nonce, b->last[0].msg.nonce);
	}
	/* Two contexts do not ask in step. */
	node_lookup(c, 42);
	bus_run(bus, 1000);
	ck_assert_uint_ne(c->last[1].at_ns - c->last[0].at_ns, b->last[1].at_ns - b->last[0].at_ns);
}
END_TEST

START_TEST(lookup__survives_loss)
{
	node_register(a, 42, false);
	c = bus_add(bus, 0x40);
	bus->loss_percent = 50;
	node_lookup(c, 42);
	bus->loss_percent = 100;
	bus_run(bus, 300);
	bus->loss_percent = 0;
	bus_run(bus, 700);
	ck_assert_uint_eq(node_count(c, RIPC__RESOLVED, 42), 1);
}
END_TEST

START_TEST(lookup__negative_cache)
{
	unsigned n;

	node_lookup(b, 42);
	bus_run(bus, 1001);
	n = b->nsent;
	node_lookup(b, 42);
	ck_assert_uint_eq(node_count(b, RIPC__UNRESOLVED, 42), 2);
	ck_assert_uint_eq(b->nsent, n);
	bus_run(bus, 100);
	ck_assert_uint_eq(counts(b).lookups, 0);
	node_lookup(b, 42);
	ck_assert_uint_eq(b->nsent, n + 1);
}
END_TEST

START_TEST(lookup__failure_is_forgotten_when_the_service_appears)
{
	node_lookup(b, 42);
	bus_run(bus, 1001);
	node_register(a, 42, false);
	bus_run(bus, 1);
	node_lookup(b, 42);
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 1);
}
END_TEST

START_TEST(lookup__too_many)
{
	for (uint64_t i = 1; i <= RIPC__LOOKUPS_MAX; i++)
		ck_assert_int_eq(node_lookup(b, i), 0);
	ck_assert_int_eq(node_lookup(b, 99999), -EAGAIN);
	ck_assert_int_eq(node_lookup(b, 5), 0);
	ripc__rcore_lookup_cancel(b->core, 7);
	ck_assert_int_eq(node_lookup(b, 99999), 0);
	/* Failures that are only kept make room. */
	bus_kill(a);
	bus_kill(c);
	bus_run(bus, 1001);
	ck_assert_int_eq(node_lookup(b, 99998), 0);
	ck_assert_uint_le(counts(b).lookups, RIPC__LOOKUPS_MAX);
	bus_run(bus, 2000);
	ck_assert_uint_eq(counts(b).lookups, 0);
}
END_TEST

START_TEST(lookup_cancel__stops_requests)
{
	node_lookup(b, 42);
	ripc__rcore_lookup_cancel(b->core, 42);
	bus_run(bus, 2000);
	ck_assert_uint_eq(b->nsent, 1);
	ck_assert_uint_eq(b->nevents, 0);
	ck_assert_uint_eq(counts(b).lookups, 0);
}
END_TEST

START_TEST(lookup_cancel__pending_event)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	ck_assert_int_eq(ripc__rcore_lookup(b->core, 42, bus->now_ns), 0);
	ripc__rcore_lookup_cancel(b->core, 42);
	ck_assert_int_eq(ripc__rcore_lookup(a->core, 42, bus->now_ns), 0);
	ripc__rcore_lookup_cancel(a->core, 42);
	bus_run(bus, 2000);
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 0);
	ck_assert_uint_eq(node_count(a, RIPC__RESOLVED, 42), 0);
	/* A failure is cached and expires, although nobody was notified of it. */
	ck_assert_int_eq(ripc__rcore_lookup(b->core, 43, bus->now_ns), 0);
	bus->now_ns += 1000 * RIPC__MS;
	ripc__rcore_advance(b->core, bus->now_ns);
	ripc__rcore_lookup_cancel(b->core, 43);
	bus_run(bus, 1000);
	ck_assert_uint_eq(counts(b).lookups, 0);
	ck_assert_uint_eq(node_count(b, RIPC__UNRESOLVED, 43), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/lookup");
	TCase *tc;

	test_seed();
	tc = tcase(suite, "lookup");
	tcase_add_test(tc, lookup__finds_holder_with_one_request);
	tcase_add_test(tc, lookup__several_holders);
	tcase_add_test(tc, lookup__is_coalesced);
	tcase_add_test(tc, lookup__is_served_from_the_cache);
	tcase_add_test(tc, lookup__own_service_at_once);
	tcase_add_test(tc, lookup__own_service_after_probe);
	tcase_add_test(tc, lookup__retries_with_back_off_then_fails);
	tcase_add_test(tc, lookup__survives_loss);
	tcase_add_test(tc, lookup__negative_cache);
	tcase_add_test(tc, lookup__failure_is_forgotten_when_the_service_appears);
	tcase_add_test(tc, lookup__too_many);
	tcase_add_test(tc, lookup_cancel__stops_requests);
	tcase_add_test(tc, lookup_cancel__pending_event);
	return test_main("resolver/lookup", suite);
}
