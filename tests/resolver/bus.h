/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A network of resolver cores in virtual time: seeded loss, duplication, delay (and so reordering),
 * partitions, deaths.
 */
#ifndef RIPC_TESTS_RESOLVER_BUS_H
#define RIPC_TESTS_RESOLVER_BUS_H

#include "base/clock.h"
#include "resolver/find.h"

#define BUS_NODES_MAX 256
#define NODE_EVENTS   8192
#define BUS_LAST      64 /* datagrams of each node that are kept */

struct bus;

/* An event that a core delivered. */
struct node_event {
	enum ripc__resolver_ev_kind kind;
	uint64_t service;
	uint64_t at_ns;
	unsigned requests;
	struct ripc__record record;
};

/* The datagram that a core sent last. */
struct sent {
	uint64_t at_ns;
	bool all;
	struct ripc__resolver_msg msg;
};

struct node {
	struct bus *bus;
	unsigned index;
	struct ripc__rcore *core; /* NULL: dead */
	uint8_t instance[16];
	unsigned group;            /* nodes receive only from their own group */
	uint64_t stopped_ns;       /* it does nothing before this time, like a stopped process */
	struct node_event *events; /* the first NODE_EVENTS of them */
	unsigned nevents;
	struct sent sent[2 * BUS_LAST];
	struct sent *last; /* within sent[]: the last datagrams, oldest first */
	unsigned nsent;    /* of all kinds, since the start; last[] holds up to BUS_LAST */
	bool name_bound;   /* another process of its host has the names of all services */
	/* services that a list found, each of each holder once */
	struct ripc__record *listed;
	unsigned nlisted;
};

struct bus {
	uint64_t now_ns;
	uint64_t rng;
	unsigned loss_percent, dup_percent;
	uint64_t delay_min_ns, delay_max_ns;
	struct node nodes[BUS_NODES_MAX];
	unsigned nnodes;
	struct datagram **heap;
	size_t nheap, cap;
	uint64_t order; /* of sending, to break ties of time */
};

struct bus *bus_new(uint64_t seed);
void bus_free(struct bus *bus);

/* Adds a context whose instance id begins with @first; the other bytes are random. */
struct node *bus_add(struct bus *bus, uint8_t first);

/* It dies without a word; its place stays. */
void bus_kill(struct node *node);

/* The same, and another context takes its place, with other random bytes in its instance id. */
void bus_restart(struct node *node, uint8_t first);

/* Lets @ms pass. */
void bus_run(struct bus *bus, uint64_t ms);

/* The calls, at the present time; events are collected at once. */
int node_register(struct node *node, uint64_t service, bool probe);
int node_register_random(struct node *node, uint64_t service);
int node_lookup(struct node *node, uint64_t service);
void node_collect(struct node *node);
int node_input(struct node *node, const struct ripc__resolver_msg *msg);

/* The number of these events, and the last one of them or NULL. */
unsigned node_count(const struct node *node, enum ripc__resolver_ev_kind kind, uint64_t service);
const struct node_event *node_has_event(const struct node *node, enum ripc__resolver_ev_kind kind,
					uint64_t service);

/* Whether it finds the service at @holder. */
bool node_finds(struct node *node, uint64_t service, const struct node *holder);
bool node_holds(struct node *node, uint64_t service);

/* The service of @holder that a list found, or NULL. */
const struct ripc__record *node_listed(const struct node *node, uint64_t service,
				       const struct node *holder);

#endif
