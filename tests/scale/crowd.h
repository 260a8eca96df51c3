/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Thousands of resolver cores in one process and in virtual time: the code that decides in the library, over a model of
 * what is around it.
 *
 * What is said to all is handed only to those whose behaviour it can change: whoever holds its service, has looked it up, or is
 * a witness. The others merely overhear it; they are given what they overheard, with the time at which they did, when they
 * look the service up themselves. With every context a witness the outcome is the same (test_crowd.c); it only takes longer.
 *
 * Hosts take datagrams one by one, datagram_ns each, and what does not fit their queue is lost. The ZooKeeper
 * ensemble is a model (ensemble.c): two queues, for reads and for writes, and the messages that watches cause.
 */
#ifndef RIPC_TESTS_SCALE_CROWD_H
#define RIPC_TESTS_SCALE_CROWD_H

#include "base/clock.h"
#include "resolver/core.h"

#define CROWD_KINDS 5 /* of resolver messages, from 1 */
#define CROWD_SIDES 2 /* of a partition */

enum crowd_mode { CROWD_BROADCAST, CROWD_ZOOKEEPER };

struct crowd_options {
	uint64_t seed;
	enum crowd_mode mode;
	unsigned contexts;
	unsigned services; /* in all, dealt out evenly; ids from 1 */
	unsigned loss_ppm; /* of the datagrams heard, per million */
	uint64_t delay_min_ns, delay_max_ns;
	uint64_t datagram_ns; /* a host needs for one datagram, in its kernel and in the library */
	unsigned queue;       /* datagrams that wait at a host */
	unsigned witnesses;   /* contexts that are handed everything */
	uint64_t write_ns, read_ns; /* ZooKeeper: the ensemble needs for one of these */
	uint64_t session_ms;        /* ZooKeeper: after which a dead context's nodes go */
};

/* Values as of a small cluster in one room. */
struct crowd_options crowd_defaults(void);

/* What happened since the last crowd_forget_counts(). */
struct crowd_counts {
	uint64_t to_all[CROWD_KINDS]; /* by kind */
	uint64_t to_one[CROWD_KINDS];
	uint64_t ensemble; /* ZooKeeper: messages to and from the ensemble, without heartbeats */
	uint64_t bytes;    /* sent, without headers of the network */
	uint64_t heard_lost; /* datagrams that met a full queue, as far as they were handed to anybody */
	uint64_t peak_all; /* most messages to all in one tenth of a second */
	uint64_t registered, conflicts, resolved, unresolved;
	uint32_t *resolve_us,
		*register_us; /* from the first call to the outcome; sorted by crowd_counts() */
	size_t nresolve, nregister;
};

struct crowd;

/* Ends the program when there is no memory: this is a tool. */
struct crowd *crowd_new(const struct crowd_options *opt);
void crowd_free(struct crowd *crowd);

uint64_t crowd_now_ns(const struct crowd *crowd);

/* At @at_ns the context (re)starts as a new instance, and registers its services. */
void crowd_start(struct crowd *crowd, unsigned context, uint64_t at_ns);

/* At @at_ns the context dies without a word. */
void crowd_kill(struct crowd *crowd, unsigned context, uint64_t at_ns);

/* At @at_ns the application needs the service, and asks until it is found. From then on it uses it all the time. */
void crowd_ask(struct crowd *crowd, unsigned context, uint64_t service, uint64_t at_ns);

/* At @at_ns the context registers a service that others may hold. */
void crowd_claim(struct crowd *crowd, unsigned context, uint64_t service, uint64_t at_ns);

/* From now on contexts of different sides do not hear each other. */
void crowd_side(struct crowd *crowd, unsigned context, unsigned side);

void crowd_run(struct crowd *crowd, uint64_t until_ns);

/* Of the counts; the arrays are valid until the next call that changes anything. */
const struct crowd_counts *crowd_counts(struct crowd *crowd);
void crowd_forget_counts(struct crowd *crowd);

/* The @percent of sorted values, or 0 without any. */
uint32_t crowd_percentile(const uint32_t *sorted, size_t n, double percent);

bool crowd_holds(struct crowd *crowd, unsigned context, uint64_t service);

/* Whether the context knows the service at @holder. Counts as a use of it. */
bool crowd_knows(struct crowd *crowd, unsigned context, uint64_t service, unsigned holder);

/* Asks that have not been answered. */
size_t crowd_open_asks(const struct crowd *crowd);

/* The context that services are dealt to. */
unsigned crowd_owner(const struct crowd *crowd, uint64_t service);

/* Memory of one context's core: it is ended to see what it gives back. */
size_t crowd_weigh(struct crowd *crowd, unsigned context);

#endif
