/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The cache of the resolver core: contents, lifetimes and limits, in virtual time. */
#include "trio.h"
#include "resolver/cache.h"

#include <errno.h>

/* --- what is learned --- */

START_TEST(request__caches_asker_record)
{
	node_register(a, 1, false);
	b = bus_add(bus, 0x40);
	node_register(b, 2, false);
	c = bus_add(bus, 0x50);
	node_lookup(a, 3);
	bus_run(bus, 10);
	ck_assert(node_finds(b, 1, a));
	ck_assert(node_finds(c, 1, a));
	ck_assert_uint_eq(c->nsent, 0);
}
END_TEST

START_TEST(request__services_take_turns)
{
	node_register(a, 1, false);
	node_register(a, 2, false);
	node_register(a, 3, false);
	c = bus_add(bus, 0x50);
	for (uint64_t i = 100; i < 103; i++)
		node_lookup(a, i);
	bus_run(bus, 1);
	for (uint64_t i = 1; i <= 3; i++)
		ck_assert(node_finds(c, i, a));
}
END_TEST

START_TEST(reply__needs_the_nonce)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0x99);
	struct ripc__record record;

	node_input(b, &msg);
	ck_assert(!core_find(b->core, 42, &record, bus->now_ns));
	node_lookup(b, 42);
	node_input(b, &msg);
	ck_assert(!core_find(b->core, 42, &record, bus->now_ns));
	ck_assert_uint_eq(counts(b).ignored, 2);
	msg.nonce = b->last[0].msg.nonce;
	msg.service = msg.record.service = 43;
	node_input(b, &msg);
	ck_assert_uint_eq(counts(b).ignored, 3);
	msg.service = msg.record.service = 42;
	node_input(b, &msg);
	ck_assert(core_find(b->core, 42, &record, bus->now_ns));
}
END_TEST

START_TEST(reply__duplicate_ignored)
{
	node_register(a, 42, false);
	c = bus_add(bus, 0x40);
	bus->dup_percent = 100;
	node_lookup(c, 42);
	bus_run(bus, 2000);
	ck_assert_uint_eq(node_count(c, RIPC__RESOLVED, 42), 1);
}
END_TEST

START_TEST(gone__event_after_lookup)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	ripc__rcore_unregister(a->core, 42, bus->now_ns);
	bus_run(bus, 10);
	ck_assert_uint_eq(node_count(b, RIPC__GONE, 42), 1);
	ck_assert_mem_eq(node_has_event(b, RIPC__GONE, 42)->record.instance, a->instance, 16);
	ck_assert_uint_eq(c->nevents, 0);
	ck_assert(!node_finds(b, 42, a));
	ck_assert_uint_eq(counts(b).cached, 0);
	ck_assert_uint_eq(counts(c).cached, 0);
	ck_assert_uint_eq(counts(a).held, 0);
}
END_TEST

START_TEST(gone__cancelled_before_its_event)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_GONE, 42, 42, 0x99);
	struct ripc__backend_addr from = {0};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	const char *why;
	int len;

	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	memcpy(msg.record.instance, a->instance, 16);
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	ck_assert_int_eq(ripc__rcore_input(b->core, &from, buf, (size_t)len, bus->now_ns, &why), 0);
	ripc__rcore_lookup_cancel(b->core, 42);
	node_collect(b);
	ck_assert_uint_eq(node_count(b, RIPC__GONE, 42), 0);
	ck_assert_uint_eq(counts(b).cached, 0);
}
END_TEST

START_TEST(gone__of_other_instance_ignored)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_GONE, 42, 42, 0x99);

	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	node_input(b, &msg);
	ck_assert(node_finds(b, 42, a));
	node_input(a, &msg);
	ck_assert(node_holds(a, 42));
}
END_TEST

START_TEST(send_gone__all_services)
{
	node_register(a, 1, false);
	node_register(a, 2, false);
	bus_run(bus, 10);
	ripc__rcore_send_gone(a->core, bus->now_ns);
	bus_kill(a);
	bus_run(bus, 10);
	ck_assert_uint_eq(counts(b).cached, 0);
}
END_TEST

START_TEST(store__restarted_holder_wins)
{
	const struct node_event *event;
	struct node *again;

	node_register(a, 42, false);
	bus_run(bus, 5000);
	node_lookup(b, 42);
	bus_kill(a);
	again = bus_add(bus, 0x08);
	node_register(again, 42, true);
	bus_run(bus, 100);
	ck_assert_uint_eq(node_count(again, RIPC__REGISTERED, 42), 1);
	/* b has looked the service up and is notified of the change; c has not. */
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 2);
	event = node_has_event(b, RIPC__RESOLVED, 42);
	ck_assert_mem_eq(event->record.instance, again->instance, 16);
	ck_assert(node_finds(b, 42, again));
	ck_assert_uint_eq(c->nevents, 0);
	ck_assert(node_finds(c, 42, again));
}
END_TEST

START_TEST(store__stale_record_ignored)
{
	struct ripc__resolver_msg late = foreign_msg(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);

	node_register(a, 42, false);
	bus_run(bus, 1000);
	node_lookup(b, 42);
	late.record.since_ms = 100000;
	node_input(b, &late);
	ck_assert(node_finds(b, 42, a));
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 1);
}
END_TEST

START_TEST(store__higher_generation_wins)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);
	struct ripc__record record;

	msg.record.since_ms = 100000;
	msg.record.generation = 5;
	node_input(b, &msg);
	msg.record.instance[0] = 0x98;
	msg.record.generation = 4;
	msg.record.since_ms = 0;
	node_input(b, &msg);
	ck_assert(core_find(b->core, 42, &record, bus->now_ns));
	ck_assert_uint_eq(record.instance[0], 0x99);
	msg.record.generation = 6;
	node_input(b, &msg);
	ck_assert(core_find(b->core, 42, &record, bus->now_ns));
	ck_assert_uint_eq(record.instance[0], 0x98);
	ck_assert_uint_eq(record.generation, 6);
}
END_TEST

START_TEST(expiry__unused_record_goes)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	ck_assert_uint_eq(counts(b).cached, 1);
	bus_kill(a);
	bus_run(bus, RIPC__TTL_MS);
	ck_assert_uint_eq(counts(b).cached, 0);
	ck_assert_uint_eq(b->nsent, 0);
	ck_assert_uint_eq(b->nevents, 0);
}
END_TEST

START_TEST(expiry__record_in_use_is_refreshed)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	/* By its own requests, or by what it overhears. */
	for (unsigned i = 0; i < 5; i++) {
		ck_assert(node_finds(b, 42, a));
		bus_run(bus, RIPC__TTL_MS / 2);
	}
	ck_assert(node_finds(b, 42, a));
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 1);
	bus_kill(a);
	bus_run(bus, RIPC__TTL_MS + 2000);
	ck_assert_uint_ge(sent(b, RIPC__RESOLVE_REQUEST), 2);
	ck_assert_uint_eq(counts(b).cached, 0);
	ck_assert_uint_eq(counts(b).lookups, 0);
	ck_assert_uint_eq(node_count(b, RIPC__UNRESOLVED, 42), 0);
}
END_TEST

/* A longer lifetime is cut to an hour. */
START_TEST(expiry__after_an_hour)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);

	msg.record.ttl_ms = UINT32_MAX;
	node_input(b, &msg);
	bus_run(bus, RIPC__CACHE_TTL_MAX_MS - 1);
	ck_assert_uint_eq(counts(b).cached, 1);
	bus_run(bus, 2);
	ck_assert_uint_eq(counts(b).cached, 0);
}
END_TEST

START_TEST(refresh__before_expiry)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);
	struct ripc__record record;

	msg.record.ttl_ms = 8000;
	node_input(b, &msg);
	node_lookup(b, 42);
	bus_run(bus, 5999);
	ck_assert_uint_eq(b->nsent, 0);
	bus_run(bus, 2);
	ck_assert_uint_eq(b->nsent, 1);
	/* A user who asks now is served from the cache and starts nothing. */
	node_lookup(b, 42);
	ck_assert_uint_eq(b->nsent, 1);
	msg.kind = RIPC__RESOLVE_REPLY;
	msg.service = 42;
	msg.nonce = b->last[0].msg.nonce;
	node_input(b, &msg);
	ck_assert_uint_eq(counts(b).lookups, 0);
	bus_run(bus, 7000);
	ck_assert(core_find(b->core, 42, &record, bus->now_ns));
}
END_TEST

START_TEST(refresh__only_if_used)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);

	msg.record.ttl_ms = 8000;
	node_input(b, &msg);
	bus_run(bus, 7900);
	ck_assert_uint_eq(b->nsent, 0);
	node_lookup(b, 42);
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 1);
	bus_run(bus, 1);
	ck_assert_uint_eq(b->nsent, 1);
	msg.kind = RIPC__RESOLVE_REPLY;
	msg.service = 42;
	msg.nonce = b->last[0].msg.nonce;
	node_input(b, &msg);
	bus_run(bus, 200);
	ck_assert_uint_eq(counts(b).cached, 1);
}
END_TEST

/* The user looks up once and stays connected. */
START_TEST(refresh__until_cancelled)
{
	unsigned requests;

	node_register(a, 42, false);
	/* So many that its claims of this one, which would do as well, are rare. */
	for (unsigned i = 0; i < 40; i++)
		node_register(a, 100 + i, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	for (unsigned i = 0; i < 20; i++) {
		bus_run(bus, RIPC__TTL_MS);
		ck_assert(node_finds(b, 42, a));
	}
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 1);
	ck_assert_int_eq(ripc__rcore_register(c->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, 100);
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 2);
	ck_assert(node_finds(b, 42, c));
	ripc__rcore_lookup_cancel(b->core, 42);
	ck_assert(node_finds(b, 42, c));
	bus_kill(a);
	bus_kill(c);
	requests = b->nsent;
	bus_run(bus, RIPC__TTL_MS + 1000);
	ck_assert_uint_eq(b->nsent, requests);
	ck_assert(!node_finds(b, 42, c));
}
END_TEST

/* A holder that does not answer one refresh answers the next one. */
START_TEST(refresh__again)
{
	/* So many that it does not claim this one meanwhile, which would do as well. */
	for (unsigned i = 0; i < 100; i++)
		node_register(a, 100 + i, false);
	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	bus_run(bus, RIPC__TTL_MS * 3 / 4 - 1000);
	a->stopped_ns = bus->now_ns + RIPC__TTL_MS / 12 * RIPC__MS;
	bus_run(bus, 2 * RIPC__TTL_MS);
	ck_assert(node_finds(b, 42, a));
	ripc__rcore_unregister(a->core, 42, bus->now_ns);
	bus_run(bus, 1);
	ck_assert_uint_eq(node_count(b, RIPC__GONE, 42), 1);
}
END_TEST

/* The holder of the higher generation is dead: a refresh finds the next one, of generation 1. */
START_TEST(refresh__next_holder_of_a_lower_generation)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	ck_assert_int_eq(ripc__rcore_register(c->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, 1000);
	node_lookup(b, 42);
	ck_assert(node_finds(b, 42, c));
	bus_kill(c);
	node_register(a, 42, true);
	bus_run(bus, RIPC__TTL_MS - 5000);
	ck_assert(node_finds(b, 42, a));
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 2);
}
END_TEST

/* An answer replaces the record of another holder of the same generation that registered later. */
START_TEST(refresh__older_holder)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);

	msg.record.ttl_ms = 8000;
	node_input(b, &msg);
	node_lookup(b, 42);
	bus_run(bus, 6001);
	msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0x98);
	msg.nonce = b->last[0].msg.nonce;
	msg.record.since_ms = 100000;
	node_input(b, &msg);
	ck_assert_uint_eq(node_has_event(b, RIPC__RESOLVED, 42)->record.instance[0], 0x98);
}
END_TEST

/*
 * An answer of a lower generation replaces the record of a higher one if that is confirmed since at
 * least a second.
 */
START_TEST(refresh__lower_generation_must_be_fresher)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);
	const struct node_event *t;

	msg.record.generation = 5;
	msg.record.ttl_ms = 8000;
	node_input(b, &msg);
	node_lookup(b, 42);
	bus_run(bus, 6001);
	ck_assert_uint_eq(b->nsent, 1);
	/* It expires in 1999 ms. */
	msg = foreign_msg(RIPC__RESOLVE_REPLY, 42, 42, 0x98);
	msg.nonce = b->last[0].msg.nonce;
	msg.record.generation = 4;
	msg.record.ttl_ms = 2999 + (unsigned)_i;
	node_input(b, &msg);
	t = node_has_event(b, RIPC__RESOLVED, 42);
	ck_assert_uint_eq(t->record.instance[0], _i ? 0x98 : 0x99);
}
END_TEST

/* Two requests to the holder, 5 ms apart; then as in a look-up to all. */
START_TEST(refresh__of_a_dead_holder)
{
	const struct sent *s;

	/* One refresh in eight goes to all at once. */
	do {
		bus_restart(b, 0x20);
		b->nsent = 0;
		b->last = b->sent;
		node_register(a, 42, false);
		bus_run(bus, 10);
		ripc__rcore_invalidate(b->core, 42, a->instance, bus->now_ns);
		node_lookup(b, 42);
		bus_run(bus, 10);
		bus_restart(a, 0x10);
		bus_run(bus, RIPC__TTL_MS / 4 * 3 + 100);
		ck_assert_uint_gt(b->nsent, 4);
	} while (b->last[1].all);
	s = b->last + 1;
	ck_assert(!s[1].all && s[2].all && s[3].all);
	ck_assert_uint_ge(s[1].at_ns - s[0].at_ns, 5 * RIPC__MS * 3 / 4);
	ck_assert_uint_le(s[1].at_ns - s[0].at_ns, 5 * RIPC__MS * 5 / 4);
}
END_TEST

START_TEST(refresh__unicast_to_holder)
{
	unsigned alone = 0, all = 0, before;

	/* So many that its claims of this one, which would do as well, are rare. */
	for (unsigned i = 0; i < 20; i++)
		node_register(a, 42 + i, false);
	bus_run(bus, 10);
	/* It was overheard; what counts is where its holder answered. */
	ripc__rcore_invalidate(b->core, 42, a->instance, bus->now_ns);
	node_lookup(b, 42);
	bus_run(bus, 10);
	for (unsigned i = 0; i < 60; i++) {
		ck_assert(node_finds(b, 42, a));
		before = b->nsent;
		/* Until a request and its answer, or a claim of its holder. */
		for (unsigned ms = 0; b->nsent == before && ms < RIPC__TTL_MS * 3 / 4; ms += 10)
			bus_run(bus, 10);
		bus_run(bus, 10);
		ck_assert_uint_le(b->nsent - before, 1);
		if (b->nsent == before)
			continue;
		if (b->last[b->nsent < 64 ? b->nsent - 1 : 63].all)
			all++;
		else
			alone++;
	}
	/* Some ask all, so that a second holder does not stay unnoticed. */
	ck_assert_uint_gt(alone, all);
	/* After it has been silent, the request goes to all. */
	bus_kill(a);
	node_register(c, 42, false);
	bus_run(bus, RIPC__TTL_MS + 2000);
	ck_assert(node_finds(b, 42, c));
}
END_TEST

START_TEST(invalidate__of_that_instance_only)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	ripc__rcore_invalidate(b->core, 42, c->instance, bus->now_ns);
	ck_assert(node_finds(b, 42, a));
	ripc__rcore_invalidate(b->core, 42, a->instance, bus->now_ns);
	ck_assert(!node_finds(b, 42, a));
	node_lookup(b, 42);
	ck_assert_uint_eq(b->nsent, 1);
	bus_run(bus, 10);
	ck_assert(node_finds(b, 42, a));
}
END_TEST

START_TEST(invalidate__waiters_still_served)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	ck_assert_int_eq(ripc__rcore_lookup(b->core, 42, bus->now_ns), 0);
	ripc__rcore_invalidate(b->core, 42, a->instance, bus->now_ns);
	bus_kill(a);
	bus_run(bus, 1001);
	ck_assert_uint_eq(node_count(b, RIPC__UNRESOLVED, 42), 1);
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 0);
}
END_TEST

/* --- bounds --- */

START_TEST(flood__of_requests_costs_no_memory)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 1, 0, 0x99);
	struct ripc__rcore_counts before = counts(b), after;

	for (unsigned i = 0; i < 100000; i++) {
		msg.service = 1 + test_random(&bus->rng) % 1000000;
		msg.record.instance[3] = (uint8_t)i;
		node_input(b, &msg);
	}
	after = counts(b);
	ck_assert_mem_eq(&before, &after, sizeof(before));
	ck_assert_uint_eq(b->nsent, 0);
}
END_TEST

START_TEST(flood__of_records_leaves_those_in_use)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REQUEST, 1, 1, 0x99);

	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	msg.record.naddrs = RIPC__RECORD_ADDRS_MAX;
	for (unsigned i = 0; i < msg.record.naddrs; i++) {
		msg.record.addrs[i].transport = (uint8_t)i;
		msg.record.addrs[i].len = RIPC__ADDRESS_MAX;
	}
	for (uint64_t i = 0; i < 100000; i++) {
		msg.record.service = 1000 + i;
		node_input(b, &msg);
		ck_assert_uint_le(counts(b).cached, RIPC__CACHE_OVERHEARD_MAX + 1);
	}
	ck_assert_uint_le(counts(b).cached_bytes, RIPC__CACHE_BYTES_MAX);
	ck_assert_uint_eq(counts(b).cached, RIPC__CACHE_OVERHEARD_MAX + 1);
	ck_assert(node_finds(b, 42, a));
	bus_run(bus, 2 * RIPC__TTL_MS);
	ck_assert_uint_le(counts(b).cached, 2);
}
END_TEST

START_TEST(cache__least_recently_used_goes_first)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_REPLY, 1, 1, 0x99);
	struct ripc__record record;

	for (uint64_t i = 1; i <= RIPC__CACHE_MAX + 100; i++) {
		msg.service = msg.record.service = i;
		ck_assert_int_eq(ripc__rcore_lookup(b->core, i, bus->now_ns), 0);
		msg.nonce = b->last[b->nsent < 64 ? b->nsent - 1 : 63].msg.nonce;
		ck_assert_int_eq(node_input(b, &msg), 0);
		ck_assert(core_find(b->core, 1, &record, bus->now_ns));
		node_lookup(b, 1);
		b->nevents = 0;
	}
	ck_assert_uint_eq(counts(b).cached, RIPC__CACHE_MAX);
	ck_assert_uint_le(counts(b).cached_bytes / RIPC__CACHE_MAX, 512);
	ck_assert(!core_find(b->core, 2, &record, bus->now_ns));
	ck_assert(!core_find(b->core, 101, &record, bus->now_ns));
	ck_assert(core_find(b->core, 102, &record, bus->now_ns));
	ck_assert(core_find(b->core, RIPC__CACHE_MAX + 100, &record, bus->now_ns));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/cache");
	TCase *tc;

	test_seed();
	tc = tcase(suite, "learn");
	tcase_add_test(tc, request__caches_asker_record);
	tcase_add_test(tc, request__services_take_turns);
	tcase_add_test(tc, reply__needs_the_nonce);
	tcase_add_test(tc, reply__duplicate_ignored);
	tcase_add_test(tc, gone__event_after_lookup);
	tcase_add_test(tc, gone__cancelled_before_its_event);
	tcase_add_test(tc, gone__of_other_instance_ignored);
	tcase_add_test(tc, send_gone__all_services);
	tcase_add_test(tc, store__restarted_holder_wins);
	tcase_add_test(tc, store__stale_record_ignored);
	tcase_add_test(tc, store__higher_generation_wins);
	tcase_add_test(tc, expiry__unused_record_goes);
	tcase_add_test(tc, expiry__record_in_use_is_refreshed);
	tcase_add_test(tc, expiry__after_an_hour);
	tcase_add_test(tc, refresh__before_expiry);
	tcase_add_test(tc, refresh__only_if_used);
	tcase_add_test(tc, refresh__until_cancelled);
	tcase_add_test(tc, refresh__again);
	tcase_add_test(tc, refresh__next_holder_of_a_lower_generation);
	tcase_add_test(tc, refresh__older_holder);
	tcase_add_loop_test(tc, refresh__lower_generation_must_be_fresher, 0, 2);
	tcase_add_test(tc, refresh__of_a_dead_holder);
	tcase_add_test(tc, refresh__unicast_to_holder);
	tcase_add_test(tc, invalidate__of_that_instance_only);
	tcase_add_test(tc, invalidate__waiters_still_served);
	tc = tcase(suite, "bounds");
	tcase_add_test(tc, flood__of_requests_costs_no_memory);
	tcase_add_test(tc, flood__of_records_leaves_those_in_use);
	tcase_add_test(tc, cache__least_recently_used_goes_first);
	return test_main("resolver/cache", suite);
}
