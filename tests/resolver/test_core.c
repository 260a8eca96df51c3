/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The resolver core as a whole: what it refuses, and many contexts at once, in virtual time. */
#include "trio.h"

#include <errno.h>

START_TEST(input__garbage_is_counted)
{
	struct ripc__backend_addr from = {0};
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

START_TEST(new__rejects_oversized_records)
{
	struct ripc__record_addr addr = {.len = RIPC__ADDRESS_MAX + 1};
	struct ripc__rcore_env env = {.addrs = &addr, .naddrs = 1};
	struct ripc__rcore *core;

	ck_assert_int_eq(ripc__rcore_new(&core, &env), -EMSGSIZE);
	env.naddrs = RIPC__RECORD_ADDRS_MAX + 1;
	ck_assert_int_eq(ripc__rcore_new(&core, &env), -EMSGSIZE);
}
END_TEST

/* The record has the present addresses, and none of a transport whose device is gone. */
START_TEST(readdress__replaces_all)
{
	static const struct ripc__record_addr now[2] = {{.transport = 3, .len = 1, .addr = "x"},
							{.transport = 9, .len = 4, .addr = "else"}};
	const struct ripc__record *record;

	for (unsigned n = 0; n <= 2; n++) {
		const struct ripc__record_addr *addrs = now + 2 - n;

		ripc__rcore_readdress(b->core, addrs, n);
		node_register(b, 42 + n, true);
		bus_run(bus, 1000);
		node_lookup(c, 42 + n);
		bus_run(bus, 1000);
		ck_assert_ptr_nonnull(node_has_event(c, RIPC__RESOLVED, 42 + n));
		record = &node_has_event(c, RIPC__RESOLVED, 42 + n)->record;
		ck_assert_uint_eq(record->naddrs, n);
		for (unsigned i = 0; i < n; i++) {
			ck_assert_uint_eq(record->addrs[i].transport, addrs[i].transport);
			ck_assert_uint_eq(record->addrs[i].len, addrs[i].len);
			ck_assert_mem_eq(record->addrs[i].addr, addrs[i].addr, addrs[i].len);
		}
	}
}
END_TEST

/* --- many --- */

START_TEST(churn__200_boot_at_once)
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

/*
 * As a context does: use the cached record, and ask the network if it does not lead to the service.
 */
static void resolve(struct node *node, uint64_t service)
{
	struct ripc__record record;

	if (core_find(node->core, service, &record, bus->now_ns)) {
		bool alive = false;

		for (unsigned i = 0; i < bus->nnodes; i++)
			alive = alive || (!memcmp(bus->nodes[i].instance, record.instance, 16) &&
					  node_holds(&bus->nodes[i], service));
		if (!alive)
			ripc__rcore_invalidate(node->core, service, record.instance, bus->now_ns);
	}
	ck_assert_int_eq(node_lookup(node, service), 0);
}

START_TEST(churn__partition_and_restarts)
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
	bus_run(bus, 4 * RIPC__CLAIM_INTERVAL_MS);
	for (unsigned i = 0; i < nodes; i += 2)
		ck_assert_uint_eq(node_holds(&bus->nodes[i], 1 + i / 2) +
					  node_holds(&bus->nodes[i + 1], 1 + i / 2),
				  1);
	/*
	 * Every other holder dies; its service comes back in a new context, and everybody finds it.
	 */
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

START_TEST(rx_rate__per_second)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REQUEST, .service = 99, .nonce = 1};

	msg.record.instance[0] = 1;
	msg.record.generation = 1;
	for (unsigned i = 0; i < 10000; i++) {
		node_input(b, &msg);
		ck_assert_uint_eq(ripc__rcore_rx_per_s(b->core), 0);
		bus_run(bus, 1);
	}
	node_input(b, &msg);
	ck_assert_uint_ge(ripc__rcore_rx_per_s(b->core), 999);
	ck_assert_uint_le(ripc__rcore_rx_per_s(b->core), 1001);
	/* A silence counts as well. */
	bus_run(bus, 90000);
	node_input(b, &msg);
	ck_assert_uint_eq(ripc__rcore_rx_per_s(b->core), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/core");
	TCase *tc;

	test_seed();
	tc = tcase(suite, "input");
	tcase_add_test(tc, input__garbage_is_counted);
	tcase_add_test(tc, new__rejects_oversized_records);
	tcase_add_test(tc, readdress__replaces_all);
	tc = tcase(suite, "many");
	tcase_add_test(tc, churn__200_boot_at_once);
	tcase_add_test(tc, churn__partition_and_restarts);
	tcase_add_test(tc, rx_rate__per_second);
	return test_main("resolver/core", suite);
}
