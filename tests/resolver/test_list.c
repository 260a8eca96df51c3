/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names in records, two names with one id, and the list of all services, in virtual time. */
#include "trio.h"

#include "resolver/listing.h"

#include <errno.h>
#include <stdio.h>

/* --- names --- */

static int register_name(struct node *node, uint64_t service, const char *name, bool takeover)
{
	int rc = ripc__rcore_register(node->core, service, name,
				      takeover ? RIPC__REGISTER_TAKE : RIPC__REGISTER, bus->now_ns);

	node_collect(node);
	bus_run(bus, 100);
	return rc;
}

START_TEST(name__is_in_the_record)
{
	struct ripc__record record;

	ck_assert_int_eq(register_name(a, 42, "camera/left", false), 0);
	node_lookup(b, 42);
	bus_run(bus, 10);
	ck_assert(ripc__rcore_peek(b->core, 42, &record, bus->now_ns));
	ck_assert_str_eq(record.name, "camera/left");
	ck_assert_uint_eq(record.name_len, strlen("camera/left"));
	ck_assert(ripc__rcore_peek(a->core, 42, &record, bus->now_ns));
	ck_assert_str_eq(record.name, "camera/left");
	ck_assert_str_eq(ripc__rcore_name(a->core, 42), "camera/left");
	ck_assert_ptr_null(ripc__rcore_name(b->core, 42));
	ck_assert(!ripc__rcore_peek(b->core, 43, &record, bus->now_ns));
}
END_TEST

START_TEST(name__same_is_refused_and_taken_over)
{
	ck_assert_int_eq(register_name(a, 42, "camera/left", false), 0);
	ck_assert_int_eq(register_name(b, 42, "camera/left", false), 0);
	ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), 1);
	ck_assert_str_eq(node_has_event(b, RIPC__CONFLICT, 42)->record.name, "camera/left");
	ck_assert_int_eq(register_name(b, 42, "camera/left", true), 0);
	ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 1);
	ck_assert(!node_holds(a, 42));
}
END_TEST

START_TEST(name__other_is_refused_in_spite_of_takeover)
{
	ck_assert_int_eq(register_name(a, 42, "camera/left", false), 0);
	for (unsigned takeover = 0; takeover < 2; takeover++) {
		ck_assert_int_eq(register_name(b, 42, "camera/right", takeover), 0);
		ck_assert_uint_eq(node_count(b, RIPC__REGISTERED, 42), 0);
		ck_assert_uint_eq(node_count(b, RIPC__CONFLICT, 42), 1 + takeover);
		ck_assert_str_eq(node_has_event(b, RIPC__CONFLICT, 42)->record.name, "camera/left");
	}
	ck_assert(node_holds(a, 42));
	ck_assert_uint_eq(node_count(a, RIPC__CONFLICT, 42), 0);
}
END_TEST

START_TEST(name__none_agrees_with_every_name)
{
	ck_assert_int_eq(node_register(a, 42, true), 0);
	bus_run(bus, 100);
	ck_assert_int_eq(register_name(b, 42, "camera/left", true), 0);
	ck_assert(node_holds(b, 42) && !node_holds(a, 42));
	ck_assert_int_eq(ripc__rcore_register(c->core, 42, NULL, RIPC__REGISTER_TAKE, bus->now_ns),
			 0);
	bus_run(bus, 100);
	ck_assert(node_holds(c, 42) && !node_holds(b, 42));
}
END_TEST

START_TEST(name__too_long_for_a_message)
{
	struct ripc__record_addr addrs[RIPC__RECORD_ADDRS_MAX] = {0};
	struct ripc__rcore_env env = {.instance = {1},
				      .addrs = addrs,
				      .naddrs = RIPC__RECORD_ADDRS_MAX,
				      .resolve_timeout_ms = 100};
	struct ripc__rcore *core;
	char name[RIPC__NAME_MAX + 1];

	for (unsigned i = 0; i < RIPC__RECORD_ADDRS_MAX; i++) {
		addrs[i].transport = (uint8_t)i;
		addrs[i].len = RIPC__ADDRESS_MAX;
	}
	memset(name, 'x', RIPC__NAME_MAX);
	name[RIPC__NAME_MAX] = 0;
	ck_assert_int_eq(ripc__rcore_new(&core, &env), 0);
	ck_assert_int_eq(ripc__rcore_register(core, 42, name, RIPC__REGISTER, 1), -EMSGSIZE);
	ck_assert(!ripc__rcore_holds(core, 42));
	ripc__rcore_free(core);
}
END_TEST

/* --- the list --- */

START_TEST(list__finds_all_with_their_names)
{
	ck_assert_int_eq(register_name(a, 42, "camera/left", false), 0);
	node_register(a, 7, true);
	node_register(b, 9, true);
	bus_run(bus, 1000);
	ripc__rcore_list_begin(c->core, bus->now_ns);
	bus_run(bus, 100);
	ck_assert_uint_eq(c->nlisted, 3);
	ck_assert_ptr_nonnull(node_listed(c, 42, a));
	ck_assert_str_eq(node_listed(c, 42, a)->name, "camera/left");
	ck_assert_uint_eq(node_listed(c, 42, a)->naddrs, 1);
	ck_assert_uint_ge(node_listed(c, 42, a)->since_ms, 1000);
	ck_assert_str_eq(node_listed(c, 7, a)->name, "");
	ck_assert_ptr_nonnull(node_listed(c, 9, b));
}
END_TEST

START_TEST(list__has_services_of_the_asker)
{
	node_register(a, 42, true);
	bus_run(bus, 100);
	ripc__rcore_list_begin(a->core, bus->now_ns);
	ck_assert_uint_eq(a->nlisted, 1);
	ck_assert_ptr_nonnull(node_listed(a, 42, a));
	bus_run(bus, 100);
	ck_assert_uint_eq(a->nlisted, 1);
}
END_TEST

START_TEST(list__has_pages)
{
	char name[RIPC__NAME_MAX + 1];
	unsigned before, n = 300;

	memset(name, 'n', RIPC__NAME_MAX);
	name[RIPC__NAME_MAX] = 0;
	/* In no order, some with long names. */
	for (unsigned i = 0; i < n; i++) {
		uint64_t id = 1 + (i * 7919u) % n;

		if (id % 10)
			node_register(a, id, false);
		else
			ck_assert_int_eq(ripc__rcore_register(a->core, id, name,
							      RIPC__REGISTER_LOCAL, bus->now_ns),
					 0);
	}
	bus_run(bus, 1500);
	before = a->nsent;
	ripc__rcore_list_begin(b->core, bus->now_ns);
	bus_run(bus, 500);
	ck_assert_uint_eq(b->nlisted, n);
	for (uint64_t id = 1; id <= n; id++) {
		const struct ripc__record *r = node_listed(b, id, a);

		ck_assert_ptr_nonnull(r);
		ck_assert_str_eq(r->name, id % 10 ? "" : name);
	}
	/* 21 bytes each, and the names: about 14 pages. */
	ck_assert_uint_ge(a->nsent - before, 5);
	ck_assert_uint_le(a->nsent - before, 20);
}
END_TEST

/* Many contexts answer the first LIST, within a while; a later one is for one context: at once. */
START_TEST(list__spreads_first_answers)
{
	const unsigned n = 30;
	unsigned late[3] = {0};

	node_register(a, 42, false);
	bus_run(bus, 2000);
	for (unsigned i = 0; i < n; i++)
		for (unsigned first = 1; first <= 2; first++) {
			struct ripc__resolver_msg msg =
				foreign_msg(RIPC__RESOLVE_LIST, first, 0, 0x77);
			unsigned before = a->nsent;

			msg.nonce = 1000 + 2 * i + first;
			ck_assert_int_eq(node_input(a, &msg), 0);
			bus_run(bus, 2);
			late[first] += a->nsent == before;
			bus_run(bus, 1000);
			ck_assert_uint_gt(a->nsent, before);
		}
	ck_assert_uint_gt(late[1], n / 2);
	ck_assert_uint_eq(late[2], 0);
}
END_TEST

START_TEST(list__limits_pages_per_second)
{
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_LIST, 2, 0, 0x77);
	unsigned before;

	node_register(a, 42, false);
	bus_run(bus, 2000);
	before = a->nsent;
	for (unsigned i = 0; i < 1000; i++) {
		msg.nonce = 1 + i;
		ck_assert_int_eq(node_input(a, &msg), 0);
		if (i % 2)
			bus_run(bus, 1);
	}
	bus_run(bus, 300);
	ck_assert_uint_le(a->nsent - before, RIPC__LIST_PAGES_PER_S + 2);
	ck_assert_uint_ge(a->nsent - before, RIPC__LIST_PAGES_PER_S / 2);
}
END_TEST

/* The page behind the limit is sent a second later, when its asker may have given up. */
START_TEST(list__more_pages_than_a_second_allows)
{
	enum { SERVICES = (RIPC__LIST_PAGES_PER_S + 4) * 62 };

	for (uint64_t s = 1; s <= SERVICES; s++) {
		node_register(a, s, false);
		a->nevents = 0;
	}
	bus_run(bus, 2000);
	ripc__rcore_list_begin(b->core, bus->now_ns);
	bus_run(bus, 2000);
	ck_assert_uint_eq(b->nlisted, SERVICES);
	ck_assert_uint_eq(ripc__rcore_list_end(b->core), 0);
}
END_TEST

START_TEST(list__drops_answers_to_nothing)
{
	struct ripc__record listed = {.service = 42, .generation = 1};
	struct ripc__resolver_msg msg = foreign_msg(RIPC__RESOLVE_LISTED, 1, 0, 0x77);
	uint8_t entry[RIPC__LISTED_BYTES_MAX];

	msg.listed = entry;
	msg.listed_len = (size_t)ripc__listed_encode(&listed, entry, sizeof(entry));
	ck_assert_int_eq(node_input(a, &msg), 0);
	ck_assert_uint_eq(a->nlisted, 0);
	ripc__rcore_list_begin(a->core, bus->now_ns);
	/* Another nonce than that of the LIST. */
	ck_assert_int_eq(node_input(a, &msg), 0);
	ck_assert_uint_eq(a->nlisted, 0);
	ck_assert_uint_eq(counts(a).ignored, 2);
	ripc__rcore_list_end(a->core);
}
END_TEST

/* One list of b over a network that loses datagrams, until all of the first page's services. */
static void list_begin_until_answered(void)
{
	b->nlisted = 0;
	do {
		ripc__rcore_list_begin(b->core, bus->now_ns);
		bus_run(bus, 100);
	} while (!b->nlisted);
}

START_TEST(list__asks_again_for_a_lost_page)
{
	enum { SERVICES = 500 };

	for (uint64_t id = 1; id <= SERVICES; id++)
		node_register(a, id, false);
	bus_run(bus, 1500);
	bus->loss_percent = 10;
	/* Asked for once each, the nine pages all arrive in 18 % of the rounds. */
	for (unsigned i = 0; i < 8; i++) {
		list_begin_until_answered();
		bus_run(bus, 1900);
		ck_assert_uint_eq(ripc__rcore_list_end(b->core), 0);
		for (uint64_t id = 1; id <= SERVICES; id++)
			ck_assert_ptr_nonnull(node_listed(b, id, a));
	}
}
END_TEST

START_TEST(list__reports_a_missing_page)
{
	unsigned before;

	for (uint64_t id = 1; id <= 200; id++)
		node_register(a, id, false);
	bus_run(bus, 1500);
	list_begin_until_answered();
	bus_run(bus, 1000);
	ck_assert_uint_eq(ripc__rcore_list_end(b->core), 0);
	/* The requests for the second page are lost. */
	before = b->nsent;
	ripc__rcore_list_begin(b->core, bus->now_ns);
	for (b->nlisted = 0; !b->nlisted;)
		bus_run(bus, 1);
	bus_kill(a);
	bus_run(bus, 5000);
	ck_assert_uint_ge(b->nsent - before, 1 + 2);
	ck_assert_uint_le(b->nsent - before, 1 + 3 + RIPC__LIST_REQUESTS);
	ck_assert_uint_eq(ripc__rcore_list_end(b->core), 1);
	ck_assert_uint_eq(ripc__rcore_list_end(b->core), 0);
}
END_TEST

START_TEST(list__repeated_does_not_begin_again)
{
	unsigned before;

	for (uint64_t id = 1; id <= 500; id++)
		node_register(a, id, false);
	bus_run(bus, 1500);
	before = a->nsent;
	for (unsigned i = 0; i < 3; i++) {
		ripc__rcore_list_begin(b->core, bus->now_ns);
		bus_run(bus, 250);
	}
	ck_assert_uint_eq(b->nlisted, 500);
	/* Nine pages, and the first of them twice more. */
	ck_assert_uint_le(a->nsent - before, 9 + 2 + 2);
	ck_assert_uint_eq(ripc__rcore_list_end(b->core), 0);
}
END_TEST

/* --- what was found --- */

static struct ripc__record row(uint64_t service, uint8_t instance, uint64_t generation)
{
	struct ripc__record r = {.service = service, .generation = generation};

	r.instance[0] = instance;
	return r;
}

static unsigned nseen;
static struct ripc__record seen[16];

static void see(void *arg, const struct ripc__record *record)
{
	ck_assert_uint_lt(nseen, 16);
	seen[nseen++] = *record;
}

START_TEST(listing__has_each_once_and_in_order)
{
	struct ripc__listing listing;
	struct ripc__record rows[] = {row(9, 1, 1), row(5, 2, 1), row(5, 1, 3), row(9, 1, 4)};

	ripc__listing_init(&listing, 1);
	for (unsigned i = 0; i < 4; i++)
		ripc__listing_add(&listing, &rows[i]);
	ck_assert_int_eq(ripc__listing_each(&listing, see, NULL), 0);
	ck_assert_uint_eq(nseen, 3);
	ck_assert(seen[0].service == 5 && seen[0].generation == 3);
	ck_assert(seen[1].service == 5 && seen[1].generation == 1);
	ck_assert(seen[2].service == 9 && seen[2].generation == 4);
	ck_assert(listing.complete);
	ripc__listing_fini(&listing);
}
END_TEST

START_TEST(listing__is_bounded)
{
	struct ripc__listing listing;

	ripc__listing_init(&listing, 1);
	for (uint64_t i = 0; i < RIPC__LISTING_MAX + 10; i++) {
		struct ripc__record r = row(1 + i, 1, 1);

		ripc__listing_add(&listing, &r);
	}
	ck_assert_uint_eq(listing.table.count, RIPC__LISTING_MAX);
	ck_assert(!listing.complete);
	ripc__listing_fini(&listing);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/list");
	TCase *tc = tcase(suite, "names");

	test_seed();
	tcase_add_test(tc, name__is_in_the_record);
	tcase_add_test(tc, name__same_is_refused_and_taken_over);
	tcase_add_test(tc, name__other_is_refused_in_spite_of_takeover);
	tcase_add_test(tc, name__none_agrees_with_every_name);
	tcase_add_test(tc, name__too_long_for_a_message);
	tc = tcase(suite, "list");
	tcase_add_test(tc, list__finds_all_with_their_names);
	tcase_add_test(tc, list__has_services_of_the_asker);
	tcase_add_test(tc, list__has_pages);
	tcase_add_test(tc, list__spreads_first_answers);
	tcase_add_test(tc, list__limits_pages_per_second);
	tcase_add_test(tc, list__more_pages_than_a_second_allows);
	tcase_add_test(tc, list__drops_answers_to_nothing);
	tcase_add_test(tc, list__asks_again_for_a_lost_page);
	tcase_add_test(tc, list__reports_a_missing_page);
	tcase_add_test(tc, list__repeated_does_not_begin_again);
	tc = tcase(suite, "listing");
	tcase_add_test(tc, listing__has_each_once_and_in_order);
	tcase_add_test(tc, listing__is_bounded);
	return test_main("resolver/list", suite);
}
