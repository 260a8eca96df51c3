/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of the resolver core: three contexts on a bus. */
#ifndef RIPC_TESTS_RESOLVER_TRIO_H
#define RIPC_TESTS_RESOLVER_TRIO_H

#include "bus.h"
#include "harness.h"

#include <string.h>

static struct bus *bus;
static struct node *a, *b, *c;

static inline void setup(void)
{
	bus = bus_new(test_seed());
	a = bus_add(bus, 0x10);
	b = bus_add(bus, 0x20);
	c = bus_add(bus, 0x30);
}

static inline void teardown(void)
{
	bus_free(bus);
}

static inline struct ripc__rcore_counts counts(struct node *node)
{
	struct ripc__rcore_counts n;

	ripc__rcore_counts(node->core, &n);
	return n;
}

/* A message of a context that is not on the bus. */
static inline struct ripc__resolver_msg foreign_msg(enum ripc__resolver_kind kind, uint64_t service,
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
static inline unsigned sent(const struct node *node, enum ripc__resolver_kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < node->nsent && i < 64; i++)
		n += node->last[i].msg.kind == kind;
	return n;
}

static inline TCase *tcase(Suite *suite, const char *name)
{
	TCase *tc = tcase_create(name);

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return tc;
}

#endif
