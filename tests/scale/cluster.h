/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Thousands of resolver cores in one process and in virtual time: the library's code, over a model
 * of its environment.
 *
 * A broadcast is delivered only to contexts whose behaviour it can change: those that hold its
 * service, have looked it up, or are witnesses. The others merely overhear it; they get the
 * overheard message, with its time, when they look the service up themselves. With every context a
 * witness the result is the same (test_crowd.c), but takes longer.
 *
 * Hosts process datagrams one by one, datagram_ns each, and lose those that do not fit their queue.
 * The ZooKeeper ensemble is a model (ensemble.c): two queues, for reads and for writes, and the
 * messages of watches.
 */
#ifndef RIPC_TESTS_SCALE_CLUSTER_H
#define RIPC_TESTS_SCALE_CLUSTER_H

#include "base/clock.h"
#include "resolver/core.h"

#define CLUSTER_KINDS 5 /* of resolver messages, from 1 */
#define CLUSTER_SIDES 2 /* of a partition */

enum cluster_mode { CLUSTER_BROADCAST, CLUSTER_ZOOKEEPER };

struct cluster_options {
	uint64_t seed;
	enum cluster_mode mode;
	unsigned contexts;
	unsigned services; /* in all, dealt out evenly; ids from 1 */
	unsigned loss_ppm; /* of the datagrams received, per million */
	uint64_t delay_min_ns, delay_max_ns;
	uint64_t datagram_ns; /* a host needs for one datagram, in its kernel and in the library */
	unsigned queue;       /* datagrams that wait at a host */
	unsigned observers;   /* contexts that are handed everything */
	uint64_t write_ns, read_ns; /* ZooKeeper: the ensemble needs for one of these */
	uint64_t session_ms;        /* ZooKeeper: after which a dead context's nodes go */
};

/* Values as of a small cluster in one room. */
struct cluster_options cluster_defaults(void);

/* Events since the last cluster_forget_counts(). */
struct cluster_counts {
	uint64_t to_all[CLUSTER_KINDS]; /* by kind */
	uint64_t to_one[CLUSTER_KINDS];
	uint64_t ensemble; /* ZooKeeper: messages to and from the ensemble, without heartbeats */
	uint64_t bytes;    /* sent, without headers of the network */
	/* datagrams that met a full queue, as far as they were handed to anybody */
	uint64_t rx_dropped;
	uint64_t peak_all; /* most messages to all in one tenth of a second */
	uint64_t registered, conflicts, resolved, unresolved;
	uint32_t *resolve_us,
		*register_us; /* from the first call to the outcome; sorted by cluster_counts() */
	size_t nresolve, nregister;
};

struct cluster;

/* Ends the program when there is no memory: this is a tool. */
struct cluster *cluster_new(const struct cluster_options *opt);
void cluster_free(struct cluster *cluster);

uint64_t cluster_now_ns(const struct cluster *cluster);

/* At @at_ns the context (re)starts as a new instance, and registers its services. */
void cluster_start(struct cluster *cluster, unsigned context, uint64_t at_ns);

/* At @at_ns the context dies without a word. */
void cluster_kill(struct cluster *cluster, unsigned context, uint64_t at_ns);

/*
 * At @at_ns the application needs the service, and asks until it is found. From then on it uses it
 * all the time.
 */
void cluster_ask(struct cluster *cluster, unsigned context, uint64_t service, uint64_t at_ns);

/* At @at_ns the context registers a service that others may hold. */
void cluster_claim(struct cluster *cluster, unsigned context, uint64_t service, uint64_t at_ns);

/* From now on contexts of different sides do not reach each other. */
void cluster_side(struct cluster *cluster, unsigned context, unsigned side);

void cluster_run(struct cluster *cluster, uint64_t until_ns);

/* Of the counts; the arrays are valid until the next call that changes anything. */
const struct cluster_counts *cluster_counts(struct cluster *cluster);
void cluster_forget_counts(struct cluster *cluster);

/* The @percent of sorted values, or 0 without any. */
uint32_t cluster_percentile(const uint32_t *sorted, size_t n, double percent);

bool cluster_holds(struct cluster *cluster, unsigned context, uint64_t service);

/* Whether the context knows the service at @holder. Counts as a use of it. */
bool cluster_knows(struct cluster *cluster, unsigned context, uint64_t service, unsigned holder);

/* Asks that have not been answered. */
size_t cluster_open_asks(const struct cluster *cluster);

/* The context that services are dealt to. */
unsigned cluster_owner(const struct cluster *cluster, uint64_t service);

/* Memory of one context's core: it is ended to see what it gives back. */
size_t cluster_memory(struct cluster *cluster, unsigned context);

#endif
