/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The rules of the resolver core, one by one, in virtual time. */
#include "bus.h"
#include "harness.h"
#include "resolver/cache.h"

#include <errno.h>
#include <string.h>

static struct bus *bus;
static struct node *a, *b, *c;

static void setup(void)
{
	bus = bus_new(test_seed());
	a = bus_add(bus, 0x10);
	b = bus_add(bus, 0x20);
	c = bus_add(bus, 0x30);
}

static void teardown(void)
{
	bus_free(bus);
}

static struct ripc__rcore_counts counts(struct node *node)
{
	struct ripc__rcore_counts n;

	ripc__rcore_counts(node->core, &n);
	return n;
}

/* A message of a context that is not on the bus. */
static struct ripc__resolver_msg stranger(enum ripc__resolver_kind kind, uint64_t service,
					  uint64_t holds, uint8_t instance)
{
	struct ripc__resolver_msg msg = {.kind = kind, .service = service, .nonce = 77};

	msg.record.service = holds;
	msg.record.instance[0] = instance;
	msg.record.instance[1] = 1;
	msg.record.generation = 1;
	msg.record.ttl_ms = 60000;
	msg.record.since_ms = 5;
	return msg;
}

/* How many of the datagrams recorded are of this kind. */
static unsigned sent(const struct node *node, enum ripc__resolver_kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < node->nsent && i < 64; i++)
		n += node->last[i].msg.kind == kind;
	return n;
}

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
	ck_assert_mem_eq(node_told(a, RIPC__RESOLVED, 42)->record.instance, a->instance, 16);
	ck_assert_uint_eq(a->nsent, 0);
	ck_assert(node_finds(a, 42, a));
}
END_TEST

START_TEST(lookup__own_service_when_the_probing_is_over)
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
	const struct told *t;

	node_lookup(b, 42);
	bus_run(bus, 1001);
	t = node_told(b, RIPC__UNRESOLVED, 42);
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

START_TEST(lookup__failure_is_kept_briefly)
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
	ripc__rcore_forget(b->core, 7);
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

START_TEST(forget__sends_no_more)
{
	node_lookup(b, 42);
	ripc__rcore_forget(b->core, 42);
	bus_run(bus, 2000);
	ck_assert_uint_eq(b->nsent, 1);
	ck_assert_uint_eq(b->ntold, 0);
	ck_assert_uint_eq(counts(b).lookups, 0);
}
END_TEST

START_TEST(forget__what_is_not_yet_told)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	ck_assert_int_eq(ripc__rcore_lookup(b->core, 42, bus->now_ns), 0);
	ripc__rcore_forget(b->core, 42);
	ck_assert_int_eq(ripc__rcore_lookup(a->core, 42, bus->now_ns), 0);
	ripc__rcore_forget(a->core, 42);
	bus_run(bus, 2000);
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 0);
	ck_assert_uint_eq(node_count(a, RIPC__RESOLVED, 42), 0);
	/* The failure of one is kept, and goes in time although nobody was told. */
	ck_assert_int_eq(ripc__rcore_lookup(b->core, 43, bus->now_ns), 0);
	bus->now_ns += 1000 * RIPC__MS;
	ripc__rcore_advance(b->core, bus->now_ns);
	ripc__rcore_forget(b->core, 43);
	bus_run(bus, 1000);
	ck_assert_uint_eq(counts(b).lookups, 0);
	ck_assert_uint_eq(node_count(b, RIPC__UNRESOLVED, 43), 0);
}
END_TEST

/* --- what is learned --- */

START_TEST(request__teaches_who_asks)
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
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REPLY, 42, 42, 0x99);
	struct ripc__record record;

	node_input(b, &msg);
	ck_assert(!ripc__rcore_find(b->core, 42, &record, bus->now_ns));
	node_lookup(b, 42);
	node_input(b, &msg);
	ck_assert(!ripc__rcore_find(b->core, 42, &record, bus->now_ns));
	ck_assert_uint_eq(counts(b).ignored, 2);
	msg.nonce = b->last[0].msg.nonce;
	msg.service = msg.record.service = 43;
	node_input(b, &msg);
	ck_assert_uint_eq(counts(b).ignored, 3);
	msg.service = msg.record.service = 42;
	node_input(b, &msg);
	ck_assert(ripc__rcore_find(b->core, 42, &record, bus->now_ns));
}
END_TEST

START_TEST(reply__second_one_is_no_second_event)
{
	node_register(a, 42, false);
	c = bus_add(bus, 0x40);
	bus->dup_percent = 100;
	node_lookup(c, 42);
	bus_run(bus, 2000);
	ck_assert_uint_eq(node_count(c, RIPC__RESOLVED, 42), 1);
}
END_TEST

START_TEST(gone__is_told_to_those_who_asked)
{
	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	ripc__rcore_unregister(a->core, 42, bus->now_ns);
	bus_run(bus, 10);
	ck_assert_uint_eq(node_count(b, RIPC__GONE, 42), 1);
	ck_assert_mem_eq(node_told(b, RIPC__GONE, 42)->record.instance, a->instance, 16);
	ck_assert_uint_eq(c->ntold, 0);
	ck_assert(!node_finds(b, 42, a));
	ck_assert_uint_eq(counts(b).cached, 0);
	ck_assert_uint_eq(counts(c).cached, 0);
	ck_assert_uint_eq(counts(a).held, 0);
}
END_TEST

START_TEST(gone__of_another_instance_means_nothing)
{
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_GONE, 42, 42, 0x99);

	node_register(a, 42, false);
	bus_run(bus, 10);
	node_lookup(b, 42);
	node_input(b, &msg);
	ck_assert(node_finds(b, 42, a));
	node_input(a, &msg);
	ck_assert(node_holds(a, 42));
}
END_TEST

START_TEST(farewell__tells_all)
{
	node_register(a, 1, false);
	node_register(a, 2, false);
	bus_run(bus, 10);
	ripc__rcore_farewell(a->core, bus->now_ns);
	bus_kill(a);
	bus_run(bus, 10);
	ck_assert_uint_eq(counts(b).cached, 0);
}
END_TEST

START_TEST(store__restarted_holder_replaces_the_old_one)
{
	struct node *again;

	node_register(a, 42, false);
	bus_run(bus, 5000);
	node_lookup(b, 42);
	bus_kill(a);
	again = bus_add(bus, 0x08);
	node_register(again, 42, true);
	bus_run(bus, 100);
	ck_assert_uint_eq(node_count(again, RIPC__REGISTERED, 42), 1);
	/* b had asked: it is told of the change. c had not. */
	ck_assert_uint_eq(node_count(b, RIPC__RESOLVED, 42), 2);
	ck_assert_mem_eq(node_told(b, RIPC__RESOLVED, 42)->record.instance, again->instance, 16);
	ck_assert(node_finds(b, 42, again));
	ck_assert_uint_eq(c->ntold, 0);
	ck_assert(node_finds(c, 42, again));
}
END_TEST

START_TEST(store__late_word_of_a_dead_holder_changes_nothing)
{
	struct ripc__resolver_msg late = stranger(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);

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
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);
	struct ripc__record record;

	msg.record.since_ms = 100000;
	msg.record.generation = 5;
	node_input(b, &msg);
	msg.record.instance[0] = 0x98;
	msg.record.generation = 4;
	msg.record.since_ms = 0;
	node_input(b, &msg);
	ck_assert(ripc__rcore_find(b->core, 42, &record, bus->now_ns));
	ck_assert_uint_eq(record.instance[0], 0x99);
	msg.record.generation = 6;
	node_input(b, &msg);
	ck_assert(ripc__rcore_find(b->core, 42, &record, bus->now_ns));
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
	ck_assert_uint_eq(b->ntold, 0);
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

START_TEST(refresh__asks_before_the_record_expires)
{
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);
	struct ripc__record record;

	msg.record.ttl_ms = 8000;
	node_input(b, &msg);
	ck_assert(ripc__rcore_find(b->core, 42, &record, bus->now_ns));
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
	ck_assert(ripc__rcore_find(b->core, 42, &record, bus->now_ns));
}
END_TEST

START_TEST(refresh__late_when_it_was_not_used_before)
{
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REQUEST, 9, 42, 0x99);

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

START_TEST(invalidate__does_not_strand_who_waits)
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

/* --- registration --- */

START_TEST(register__probes_three_times)
{
	uint64_t start = bus->now_ns;

	ck_assert_int_eq(node_register(a, 42, true), 0);
	bus_run(bus, 59);
	ck_assert_uint_eq(a->ntold, 0);
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

START_TEST(register__at_once_where_the_kernel_decides)
{
	node_register(a, 42, false);
	ck_assert_uint_eq(node_count(a, RIPC__REGISTERED, 42), 1);
	ck_assert_uint_eq(sent(a, RIPC__RESOLVE_PROBE), 0);
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
	ck_assert_mem_eq(node_told(b, RIPC__CONFLICT, 42)->record.instance, a->instance, 16);
	ck_assert_uint_eq(node_told(b, RIPC__CONFLICT, 42)->record.naddrs, 1);
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
	bus_run(bus, 40 * RIPC__CLAIM_GAP_MS);
	for (uint64_t service = 1; service <= 30; service++) {
		unsigned holders = 0, losers = 0;

		for (unsigned i = 0; i < nodes; i++) {
			holders += node_holds(&bus->nodes[i], service);
			losers += node_count(&bus->nodes[i], RIPC__CONFLICT, service);
		}
		ck_assert_msg(holders == 1, "service %u has %u holders", (unsigned)service, holders);
		ck_assert_uint_eq(losers, nodes - 1);
	}
}
END_TEST

START_TEST(unregister__before_what_is_pending_is_told)
{
	ck_assert_int_eq(ripc__rcore_register(a->core, 42, false, bus->now_ns), 0);
	ck_assert_int_eq(ripc__rcore_lookup(a->core, 42, bus->now_ns), 0);
	ripc__rcore_unregister(a->core, 42, bus->now_ns);
	ck_assert(!node_holds(a, 42));
	/* Not yet told, and the id can be used again. */
	ck_assert_int_eq(ripc__rcore_register(a->core, 42, false, bus->now_ns), 0);
	node_collect(a);
	ck_assert_uint_eq(node_count(a, RIPC__RESOLVED, 42), 1);
	ck_assert_uint_eq(node_count(a, RIPC__REGISTERED, 42), 1);
	/* What is pending when the core ends is freed with it: the leak checker sees to that. */
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
	ck_assert(!node_holds(younger, 42));
	ck_assert_uint_eq(node_count(younger, RIPC__CONFLICT, 42), 1);
	ck_assert_mem_eq(node_told(younger, RIPC__CONFLICT, 42)->record.instance, older->instance, 16);
	ck_assert(node_finds(c, 42, older));
	ck_assert(node_finds(younger, 42, older));
}

START_TEST(heal__older_keeps_by_claims)
{
	struct node *older = _i ? b : a, *younger = _i ? a : b;

	split(older, younger);
	bus_run(bus, 2 * RIPC__CLAIM_GAP_MS);
	node_lookup(c, 42);
	bus_run(bus, 100);
	check_older_kept(older, younger);
}
END_TEST

START_TEST(heal__older_keeps_when_one_asks)
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

START_TEST(heal__a_third_one_sees_two_answers)
{
	struct node *older = _i ? b : a, *younger = _i ? a : b;

	c->group = 3;
	split(older, younger);
	node_lookup(c, 42);
	bus_run(bus, 100);
	check_older_kept(older, younger);
}
END_TEST

START_TEST(heal__same_age_leaves_one)
{
	/* Registered within a millisecond of each other, seen with delays: still only one of them judges. */
	for (unsigned i = 0; i < 100; i++) {
		uint64_t service = 1000 + i;

		bus->delay_max_ns = bus->delay_min_ns + 1 + test_random(&bus->rng) % (20 * RIPC__MS);
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
		ripc__rcore_unregister((node_holds(a, service) ? a : b)->core, service, bus->now_ns);
		for (unsigned k = 0; k < 8; k++) {
			ripc__rcore_forget(a->core, 10000 + i * 8 + k);
			ripc__rcore_forget(b->core, 20000 + i * 8 + k);
		}
	}
}
END_TEST

START_TEST(claim__higher_generation_takes_it)
{
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REQUEST, 42, 42, 0x01);

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

START_TEST(claim__forged_ones_make_no_storm)
{
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REPLY, 42, 42, 0x01);

	node_register(b, 42, false);
	bus_run(bus, 10);
	b->nsent = 0;
	msg.record.since_ms = 0;
	for (unsigned i = 0; i < 10000; i++)
		node_input(b, &msg);
	ck_assert_uint_eq(b->nsent, 1);
	ck_assert(node_holds(b, 42));
}
END_TEST

/* --- bounds --- */

START_TEST(flood__of_requests_costs_no_memory)
{
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REQUEST, 1, 0, 0x99);
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
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REQUEST, 1, 1, 0x99);

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
		ck_assert_uint_le(counts(b).cached, RIPC__CACHE_HEARD_MAX + 1);
	}
	ck_assert_uint_le(counts(b).cached_bytes, RIPC__CACHE_BYTES_MAX);
	ck_assert_uint_eq(counts(b).cached, RIPC__CACHE_HEARD_MAX + 1);
	ck_assert(node_finds(b, 42, a));
	bus_run(bus, 2 * RIPC__TTL_MS);
	ck_assert_uint_le(counts(b).cached, 2);
}
END_TEST

START_TEST(cache__least_recently_used_goes_first)
{
	struct ripc__resolver_msg msg = stranger(RIPC__RESOLVE_REPLY, 1, 1, 0x99);
	struct ripc__record record;

	for (uint64_t i = 1; i <= RIPC__CACHE_MAX + 100; i++) {
		msg.service = msg.record.service = i;
		ck_assert_int_eq(ripc__rcore_lookup(b->core, i, bus->now_ns), 0);
		msg.nonce = b->last[b->nsent < 64 ? b->nsent - 1 : 63].msg.nonce;
		ck_assert_int_eq(node_input(b, &msg), 0);
		b->ntold = 0;
		ck_assert(ripc__rcore_find(b->core, 1, &record, bus->now_ns));
	}
	ck_assert_uint_eq(counts(b).cached, RIPC__CACHE_MAX);
	ck_assert_uint_le(counts(b).cached_bytes / RIPC__CACHE_MAX, 512);
	ck_assert(!ripc__rcore_find(b->core, 2, &record, bus->now_ns));
	ck_assert(!ripc__rcore_find(b->core, 101, &record, bus->now_ns));
	ck_assert(ripc__rcore_find(b->core, 102, &record, bus->now_ns));
	ck_assert(ripc__rcore_find(b->core, RIPC__CACHE_MAX + 100, &record, bus->now_ns));
}
END_TEST

START_TEST(input__garbage_is_counted)
{
	struct ripc__sender from = {0};
	uint8_t bytes[256];
	const char *why = NULL;

	for (unsigned i = 0; i < 1000; i++) {
		for (unsigned k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)test_random(&bus->rng);
		ck_assert_int_lt(ripc__rcore_input(b->core, &from, bytes, i % sizeof(bytes),
						   bus->now_ns, &why),
				 0);
		ck_assert_ptr_nonnull(why);
	}
	ck_assert_uint_eq(counts(b).bad, 1000);
}
END_TEST

START_TEST(new__refuses_records_that_do_not_fit)
{
	struct ripc__record_addr addr = {.len = RIPC__ADDRESS_MAX + 1};
	struct ripc__rcore_env env = {.addrs = &addr, .naddrs = 1};
	struct ripc__rcore *core;

	ck_assert_int_eq(ripc__rcore_new(&core, &env), -EMSGSIZE);
	env.naddrs = RIPC__RECORD_ADDRS_MAX + 1;
	ck_assert_int_eq(ripc__rcore_new(&core, &env), -EMSGSIZE);
}
END_TEST

/* --- many --- */

START_TEST(storm__two_hundred_boot_at_once)
{
	unsigned nodes = 200, missed = 0;

	bus->loss_percent = 10;
	bus->dup_percent = 5;
	bus->delay_min_ns = RIPC__MS / 20;
	bus->delay_max_ns = 3 * RIPC__MS;
	while (bus->nnodes < nodes)
		bus_add(bus, (uint8_t)test_random(&bus->rng));
	for (unsigned i = 0; i < nodes; i++) {
		node_register(&bus->nodes[i], 1 + i, true);
		for (unsigned k = 1; k <= 3; k++)
			node_lookup(&bus->nodes[i], 1 + (i + k * 7) % nodes);
	}
	bus_run(bus, 1000);
	for (unsigned i = 0; i < nodes; i++) {
		struct node *node = &bus->nodes[i];

		ck_assert_uint_eq(node_count(node, RIPC__REGISTERED, 1 + i), 1);
		for (unsigned k = 1; k <= 3; k++) {
			unsigned other = (i + k * 7) % nodes;

			/* One in some ten thousand meets a loss in every try. */
			for (unsigned try = 0;
			     try < 4 && !node_finds(node, 1 + other, &bus->nodes[other]); try++) {
				missed++;
				node_lookup(node, 1 + other);
				bus_run(bus, 1100);
			}
			ck_assert(node_finds(node, 1 + other, &bus->nodes[other]));
		}
		/* Probes, claims and a few requests: a storm would be hundreds. */
		ck_assert_uint_le(
			sent(node, RIPC__RESOLVE_REQUEST) + sent(node, RIPC__RESOLVE_PROBE), 40);
	}
	ck_assert_uint_le(missed, 6);
}
END_TEST

/* What a context does: it tries the record it has, and if that leads nowhere it asks. */
static void resolve(struct node *node, uint64_t service)
{
	struct ripc__record record;

	if (ripc__rcore_find(node->core, service, &record, bus->now_ns)) {
		bool alive = false;

		for (unsigned i = 0; i < bus->nnodes; i++)
			alive = alive || (!memcmp(bus->nodes[i].instance, record.instance, 16) &&
					  node_holds(&bus->nodes[i], service));
		if (!alive)
			ripc__rcore_invalidate(node->core, service, record.instance, bus->now_ns);
	}
	ck_assert_int_eq(node_lookup(node, service), 0);
}

START_TEST(storm__partition_and_restarts)
{
	unsigned nodes = 40;

	bus->loss_percent = 5;
	bus->delay_max_ns = 2 * RIPC__MS;
	while (bus->nnodes < nodes)
		bus_add(bus, (uint8_t)test_random(&bus->rng));
	for (unsigned i = 0; i < nodes; i++)
		bus->nodes[i].group = i & 1;
	/* Services 1 .. 20, each held on both sides of the partition. */
	for (unsigned i = 0; i < nodes; i++) {
		node_register(&bus->nodes[i], 1 + i / 2, true);
		bus_run(bus, test_random(&bus->rng) % 100);
	}
	bus_run(bus, 1000);
	for (unsigned i = 0; i < nodes; i++) {
		ck_assert(node_holds(&bus->nodes[i], 1 + i / 2));
		bus->nodes[i].group = 0;
	}
	bus_run(bus, 4 * RIPC__CLAIM_GAP_MS);
	for (unsigned i = 0; i < nodes; i += 2)
		ck_assert_uint_eq(node_holds(&bus->nodes[i], 1 + i / 2) +
					  node_holds(&bus->nodes[i + 1], 1 + i / 2),
				  1);
	/* Every other holder dies; its service comes back in a new context, and everybody finds it. */
	for (uint64_t service = 1; service <= 20; service += 2) {
		for (unsigned i = 0; i < nodes; i++)
			if (node_holds(&bus->nodes[i], service))
				bus_kill(&bus->nodes[i]);
		node_register(bus_add(bus, (uint8_t)test_random(&bus->rng)), service, true);
	}
	bus_run(bus, 1000);
	for (uint64_t service = 1; service <= 20; service++) {
		struct node *holder = NULL;

		for (unsigned i = 0; i < bus->nnodes; i++)
			if (node_holds(&bus->nodes[i], service))
				holder = &bus->nodes[i];
		ck_assert_ptr_nonnull(holder);
		for (unsigned i = 0; i < bus->nnodes; i++)
			if (bus->nodes[i].core)
				resolve(&bus->nodes[i], service);
		bus_run(bus, 1000);
		for (unsigned i = 0; i < bus->nnodes; i++)
			if (bus->nodes[i].core)
				ck_assert(node_finds(&bus->nodes[i], service, holder));
	}
}
END_TEST

static TCase *tcase(Suite *suite, const char *name)
{
	TCase *tc = tcase_create(name);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return tc;
}

int main(void)
{
	Suite *suite = suite_create("resolver/core");
	TCase *tc = tcase(suite, "lookup");

	test_seed();
	tcase_add_test(tc, lookup__finds_holder_with_one_request);
	tcase_add_test(tc, lookup__is_coalesced);
	tcase_add_test(tc, lookup__is_served_from_the_cache);
	tcase_add_test(tc, lookup__own_service_at_once);
	tcase_add_test(tc, lookup__own_service_when_the_probing_is_over);
	tcase_add_test(tc, lookup__retries_with_back_off_then_fails);
	tcase_add_test(tc, lookup__survives_loss);
	tcase_add_test(tc, lookup__failure_is_kept_briefly);
	tcase_add_test(tc, lookup__failure_is_forgotten_when_the_service_appears);
	tcase_add_test(tc, lookup__too_many);
	tcase_add_test(tc, forget__sends_no_more);
	tcase_add_test(tc, forget__what_is_not_yet_told);

	tc = tcase(suite, "learn");
	tcase_add_test(tc, request__teaches_who_asks);
	tcase_add_test(tc, request__services_take_turns);
	tcase_add_test(tc, reply__needs_the_nonce);
	tcase_add_test(tc, reply__second_one_is_no_second_event);
	tcase_add_test(tc, gone__is_told_to_those_who_asked);
	tcase_add_test(tc, gone__of_another_instance_means_nothing);
	tcase_add_test(tc, farewell__tells_all);
	tcase_add_test(tc, store__restarted_holder_replaces_the_old_one);
	tcase_add_test(tc, store__late_word_of_a_dead_holder_changes_nothing);
	tcase_add_test(tc, store__higher_generation_wins);
	tcase_add_test(tc, expiry__unused_record_goes);
	tcase_add_test(tc, expiry__record_in_use_is_refreshed);
	tcase_add_test(tc, refresh__asks_before_the_record_expires);
	tcase_add_test(tc, refresh__late_when_it_was_not_used_before);
	tcase_add_test(tc, invalidate__of_that_instance_only);
	tcase_add_test(tc, invalidate__does_not_strand_who_waits);

	tc = tcase(suite, "register");
	tcase_add_test(tc, register__probes_three_times);
	tcase_add_test(tc, register__at_once_where_the_kernel_decides);
	tcase_add_test(tc, register__twice_in_one_context);
	tcase_add_test(tc, register__held_elsewhere);
	tcase_add_test(tc, register__two_at_once_one_wins);
	tcase_add_test(tc, register__many_at_once_with_loss);
	tcase_add_test(tc, unregister__before_what_is_pending_is_told);

	tc = tcase(suite, "two holders");
	tcase_add_loop_test(tc, heal__older_keeps_by_claims, 0, 2);
	tcase_add_loop_test(tc, heal__older_keeps_when_one_asks, 0, 4);
	tcase_add_loop_test(tc, heal__a_third_one_sees_two_answers, 0, 2);
	tcase_add_test(tc, heal__same_age_leaves_one);
	tcase_add_test(tc, claim__higher_generation_takes_it);
	tcase_add_test(tc, claim__forged_ones_make_no_storm);

	tc = tcase(suite, "bounds");
	tcase_add_test(tc, flood__of_requests_costs_no_memory);
	tcase_add_test(tc, flood__of_records_leaves_those_in_use);
	tcase_add_test(tc, cache__least_recently_used_goes_first);
	tcase_add_test(tc, input__garbage_is_counted);
	tcase_add_test(tc, new__refuses_records_that_do_not_fit);

	tc = tcase(suite, "many");
	tcase_add_test(tc, storm__two_hundred_boot_at_once);
	tcase_add_test(tc, storm__partition_and_restarts);
	return test_main("resolver/core", suite);
}
