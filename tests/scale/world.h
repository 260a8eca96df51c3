/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the model of the cluster and that of an ensemble. */
#ifndef RIPC_TESTS_SCALE_WORLD_H
#define RIPC_TESTS_SCALE_WORLD_H

#include "cluster.h"

enum event_kind {
	EVENT_DATAGRAM, /* message arrives at context */
	EVENT_WAKE,     /* the core of context may have something due */
	EVENT_START,
	EVENT_KILL,
	EVENT_ASK,
	EVENT_CLAIM,
	EVENT_USE,   /* the applications use what they found: context */
	EVENT_WRITE, /* the ensemble has worked off an operation */
	EVENT_READ,
	EVENT_EXPIRE, /* the session of context's former life is over */
	EVENT_NOTIFY, /* context is notified that the node of service changed */
	EVENT_REPLY,  /* context is answered from what it has read before */
};

/* Operations of an ensemble. */
enum event_op { OP_NONE, OP_MAKE, OP_TAKE, OP_REMOVE, OP_READ };

/* A datagram, as long as anybody may be handed it. */
struct message {
	unsigned refs;
	unsigned sender;
	unsigned side;
	uint32_t drop; /* chance that a host had no room for it, of 2^32 */
	uint64_t number;
	uint64_t at_ns;         /* when a host with an empty cable would have taken it */
	uint64_t record;        /* service of its record */
	struct message *former; /* the previous message with a record of the same service */
	unsigned kind;
	size_t len;
	uint8_t data[];
};

struct event {
	uint64_t at_ns, order;
	enum event_kind kind;
	enum event_op op;
	unsigned context;
	uint64_t service;
	uint64_t incarnation; /* of the context: events of a former one are void */
	struct message *message;
};

/* A set of contexts. */
struct group {
	unsigned *members;
	unsigned n, cap;
};

struct asked {
	uint64_t service, since_ns;
	bool found;
};

struct context {
	struct cluster *cluster;
	unsigned index;
	unsigned side, former_side; /* of a partition */
	uint64_t side_messages;     /* messages sent when it got this side */
	struct ripc__rcore *core;   /* NULL: dead */
	uint8_t instance[16];
	uint64_t incarnation;      /* how often it has started */
	uint64_t started_messages; /* messages sent when it last started */
	uint64_t wake_ns;          /* of the EVENT_WAKE that counts */
	uint64_t busy_ns;          /* until when it works on datagrams for itself alone */
	struct asked *asked;
	unsigned nasked, cap;
};

struct cluster {
	struct cluster_options opt;
	uint64_t now_ns;
	struct event *heap;
	size_t nheap, cap;
	uint64_t order, messages;
	struct context *contexts;
	struct group *holders;    /* by service: who has registered it, ever */
	struct group *interested; /* by service: who holds it, or has asked for it */
	uint64_t *pairs;          /* all of these, of service and context, as a set */
	size_t npairs, pairs_used;
	struct message **overheard; /* by service: the last message with its record */
	/* by service: its place in the cache of one who overhears everything; 0: not there */
	uint64_t *typical;
	uint64_t nth;                    /* of those places */
	uint64_t *registered_ns;         /* by service: when its registration began */
	uint64_t busy_ns[CLUSTER_SIDES]; /* until when every host processes broadcasts */
	size_t open;
	struct cluster_counts counts;
	size_t resolve_cap, register_cap;
	uint64_t bin, in_bin;
	struct ensemble *ensemble;
};

void *world_alloc(void *old, size_t bytes);
void *world_zeroed(size_t n, size_t size);
uint64_t world_hash(uint64_t a, uint64_t b, uint64_t c);
void world_join(struct group *group, unsigned context);
void world_push(struct cluster *cluster, const struct event *event);

/* Whether the context holds the service, or has asked for it. */
bool world_is_interested(struct cluster *cluster, uint64_t service, unsigned context);

/* Delivers a message to a core, and collects its events. */
void world_input(struct cluster *cluster, struct context *c, unsigned from, const uint8_t *data,
		 size_t len, uint64_t now_ns);

/* --- network.c --- */

/* A datagram of a core, to one or to all; @arg is its context. */
void network_send(void *arg, const struct ripc__backend_addr *to, uint64_t service,
		  const uint8_t *data, size_t len);
/* Delivers the records that the context has overheard of a service new to it. */
void network_store_record(struct cluster *cluster, struct context *c, uint64_t service);
void network_release(struct message *m); /* NULL: nothing */

/* --- ensemble.c --- */

struct ensemble *ensemble_new(struct cluster *cluster);
void ensemble_free(struct ensemble *e);
void ensemble_send(struct context *c, const struct ripc__backend_addr *to,
		   const struct ripc__resolver_msg *msg);
bool ensemble_settled(struct context *c, uint64_t service);
void ensemble_event(struct cluster *cluster, const struct event *event);
void ensemble_died(struct context *c);

#endif
