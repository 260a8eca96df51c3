/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random calls of many contexts on a bad network, in virtual time: services are registered, taken
 * over, given up, and looked up, while the network loses, duplicates and reorders messages and is
 * split, and contexts die and start again. The model: a call ends in its time; a service with a
 * holder in reach is found; when the network is whole, one holder of each service is left and all
 * contexts find it.
 */
#include "bus.h"
#include "harness.h"
#include "use.h"

#include <string.h>

#define NODES    24
#define SERVICES 12
#define TIMEOUT  (1000 * RIPC__MS) /* of bus_add() */
#define MAX_STOP (100000 * RIPC__MS)

static struct bus *bus;
static uint64_t rng;
static bool attacked; /* by forged messages */
static struct use uses[NODES][SERVICES + 1];
static unsigned calls;
static bool stops;

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&rng) % n);
}

static void take_event(unsigned n, const struct node_event *ev)
{
	struct use *u = &uses[n][ev->service];

	if (ev->kind == RIPC__RESOLVED)
		ck_assert(ev->record.service == ev->service);
	if (ev->kind == RIPC__REGISTERED)
		ck_assert_uint_le(ev->at_ns - u->since_ns,
				  TIMEOUT + RIPC__MS + (stops ? MAX_STOP : 0));
	if (ev->kind == RIPC__RIVAL)
		ck_assert_int_eq(u->held, HELD);
	u->reachable = u->reachable && !attacked;
	use_event(u, ev->kind, n, ev->service, ev->at_ns);
}

static void take_events(unsigned n)
{
	struct node *node = &bus->nodes[n];

	for (unsigned i = 0; i < node->nevents; i++)
		take_event(n, &node->events[i]);
	node->nevents = 0;
}

/* Whether a context has held the service for a while, and its messages surely reach @node. */
static bool holder_in_reach(const struct node *node, uint64_t service)
{
	for (unsigned i = 0; i < NODES && !bus->loss_percent; i++)
		if (uses[i][service].held == HELD && bus->nodes[i].group == node->group &&
		    bus->nodes[i].stopped_ns <= bus->now_ns && node->stopped_ns <= bus->now_ns &&
		    bus->now_ns - uses[i][service].since_ns > 200 * RIPC__MS)
			return true;
	return false;
}

static void run(uint64_t ms)
{
	while (ms--) {
		bus_run(bus, 1);
		for (unsigned n = 0; n < NODES; n++) {
			struct node *node = &bus->nodes[n];

			take_events(n);
			for (uint64_t s = 1; s <= SERVICES; s++) {
				struct use *u = &uses[n][s];

				if (!u->asked_ns)
					continue;
				ck_assert_uint_le(bus->now_ns, u->asked_ns + TIMEOUT + RIPC__MS +
								       (stops ? MAX_STOP : 0));
				u->reachable = u->reachable && holder_in_reach(node, s);
			}
		}
	}
}

static void lookup(unsigned n, uint64_t service)
{
	use_lookup(&uses[n][service], holder_in_reach(&bus->nodes[n], service), bus->now_ns);
	ck_assert_int_eq(node_lookup(&bus->nodes[n], service), 0);
	take_events(n);
}

/* The name of a service of a context: at some, another name has its id. */
static const char *name_of(unsigned n, uint64_t service)
{
	return service % 4 ? NULL : n % 8 == 0 ? "camera/right" : "camera/left";
}

static void call(void)
{
	static const enum ripc__register_how hows[] = {RIPC__REGISTER, RIPC__REGISTER,
						       RIPC__REGISTER_TAKE, RIPC__REGISTER_RANDOM};
	unsigned n = draw(NODES);
	struct node *node = &bus->nodes[n];
	uint64_t service = 1 + draw(SERVICES);
	struct use *u = &uses[n][service];

	calls++;
	if (node->stopped_ns > bus->now_ns)
		return;
	if (stops && !draw(20))
		node->stopped_ns = bus->now_ns + (draw(4) ? draw(3000) : draw(100000)) * RIPC__MS;
	switch (draw(8)) {
	case 0:
	case 1:
		if (u->held != NOTHING)
			break;
		use_register(u, bus->now_ns);
		ck_assert_int_eq(ripc__rcore_register(node->core, service, name_of(n, service),
						      hows[draw(4)], bus->now_ns),
				 0);
		node_collect(node);
		break;
	case 2:
		if (u->held == NOTHING)
			break;
		ripc__rcore_unregister(node->core, service, bus->now_ns);
		u->held = NOTHING;
		break;
	case 3:
		ripc__rcore_lookup_cancel(node->core, service);
		use_cancel(u);
		break;
	case 4:
		if (draw(6))
			break;
		if (draw(2))
			ripc__rcore_send_gone(node->core, bus->now_ns);
		bus_restart(node, (uint8_t)draw(256));
		memset(uses[n], 0, sizeof(uses[n]));
		break;
	default:
		lookup(n, service);
		break;
	}
}

static void set_network(void)
{
	unsigned groups = 1 + draw(3);

	bus->loss_percent = draw(2) ? draw(20) : 0;
	bus->dup_percent = draw(2) ? draw(20) : 0;
	bus->delay_max_ns = bus->delay_min_ns + draw(2) * draw(100) * RIPC__MS;
	for (unsigned i = 0; i < NODES; i++)
		bus->nodes[i].group = draw(groups);
}

/*
 * A message that an attacker has recorded and changed: of any kind, from any context or a new one,
 * about any service, addressed to a context or not.
 */
static void forge(void)
{
	struct node *seen = &bus->nodes[draw(NODES)], *to = &bus->nodes[draw(NODES)];
	struct ripc__resolver_msg msg;

	if (!seen->nsent)
		return;
	msg = seen->last[draw(seen->nsent < BUS_LAST ? seen->nsent : BUS_LAST)].msg;
	if (msg.kind > RIPC__RESOLVE_GONE)
		return;
	if (draw(2))
		memcpy(msg.record.instance, bus->nodes[draw(NODES)].instance, 16);
	if (!draw(4))
		msg.record.instance[1] ^= 1;
	if (draw(2))
		msg.kind = RIPC__RESOLVE_REQUEST + draw(4);
	if (draw(2))
		msg.service = 1 + draw(SERVICES);
	if (msg.kind != RIPC__RESOLVE_REQUEST || draw(2))
		msg.record.service = msg.service;
	if (draw(2))
		msg.record.generation = 1 + draw(5);
	if (draw(2))
		msg.record.since_ms = draw(100000);
	if (draw(2))
		msg.nonce = ripc__dispute_nonce(to->instance);
	msg.nonce = msg.kind == RIPC__RESOLVE_GONE ? 0 : msg.nonce ? msg.nonce : 1;
	msg.flags = msg.kind == RIPC__RESOLVE_REPLY && draw(2) ? RIPC__RESOLVE_VERDICT : 0;
	ck_assert_int_eq(node_input(to, &msg), 0);
	take_events(to->index);
}

static struct node *only_holder(uint64_t service)
{
	struct node *holder = NULL;

	for (unsigned i = 0; i < NODES; i++) {
		if (uses[i][service].held != HELD)
			continue;
		ck_assert_msg(!holder, "service %u is held by %u and %u", (unsigned)service,
			      holder ? holder->index : 0, i);
		holder = &bus->nodes[i];
		ck_assert(node_holds(holder, service));
	}
	return holder;
}

static void check_random_calls(void)
{
	bool held[SERVICES + 1] = {false};
	unsigned before = 0, messages = 0;

	bus = bus_new(rng);
	memset(uses, 0, sizeof(uses));
	while (bus->nnodes < NODES)
		bus_add(bus, (uint8_t)draw(256));
	for (unsigned phase = 0; phase < 10; phase++) {
		set_network();
		for (unsigned i = 0; i < 100; i++) {
			call();
			if (attacked && !draw(3))
				forge();
			run(draw(8) ? draw(10) : draw(1000));
		}
	}
	bus->loss_percent = bus->dup_percent = 0;
	bus->delay_max_ns = bus->delay_min_ns;
	run(stops ? MAX_STOP / RIPC__MS : 1100);
	for (unsigned i = 0; i < NODES; i++) {
		bus->nodes[i].group = 0;
		before += bus->nodes[i].nsent;
		for (uint64_t s = 1; s <= SERVICES; s++)
			held[s] = held[s] || uses[i][s].held == HELD;
	}
	/* Each claims all its services. */
	run(SERVICES * RIPC__CLAIM_INTERVAL_MS * 5 / 4);
	for (unsigned i = 0; i < NODES; i++)
		messages += bus->nodes[i].nsent;
	/* Claims, refreshes with their answers, disputes: about 2 for each service and context. */
	ck_assert_uint_le(messages - before, 8 * NODES * SERVICES);
	for (uint64_t s = 1; s <= SERVICES; s++) {
		struct node *holder = only_holder(s);

		ck_assert_msg(!held[s] || holder || attacked, "service %u has lost all holders",
			      (unsigned)s);
		for (unsigned i = 0; i < NODES; i++)
			lookup(i, s);
		run(1100);
		for (unsigned i = 0; i < NODES && holder; i++)
			ck_assert_msg(node_finds(&bus->nodes[i], s, holder),
				      "node %u does not find service %u at %u", i, (unsigned)s,
				      holder->index);
		for (unsigned i = 0; i < NODES && !holder; i++) {
			struct ripc__record record;

			ck_assert(!core_find(bus->nodes[i].core, s, &record, bus->now_ns));
		}
	}
	bus_free(bus);
}

START_TEST(random__calls)
{
	rng = test_seed() + (uint64_t)_i;
	check_random_calls();
}
END_TEST

/*
 * Without keys forged messages end registrations and mislead look-ups, but not for longer than
 * records live.
 */
START_TEST(random__calls_and_stops)
{
	rng = test_seed() + 2000;
	stops = true;
	check_random_calls();
}
END_TEST

START_TEST(random__calls_and_forged_messages)
{
	rng = test_seed() + 1000;
	attacked = true;
	check_random_calls();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/random");
	TCase *tc = tcase_create("random");

	test_seed();
	tcase_add_loop_test(tc, random__calls, 0, 3);
	tcase_add_test(tc, random__calls_and_forged_messages);
	tcase_add_test(tc, random__calls_and_stops);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("resolver/random", suite);
}
