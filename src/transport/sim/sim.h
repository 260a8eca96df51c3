/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A simulated network with virtual time: seeded, deterministic, single-threaded. For tests. It
 * carries the `sim` transport (transport/transport.h) and the datagrams of the resolver's `sim`
 * back end, with the faults of a real network. core/sim/world.h runs contexts on it.
 *
 * Whoever takes part is a node, named by its instance id; it appears when its transport or its port
 * is first opened.
 */
#ifndef RIPC_TRANSPORT_SIM_H
#define RIPC_TRANSPORT_SIM_H

#include "ripc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ripc__sim;      /* the network */
struct ripc__sim_port; /* where the resolver of one context is attached to it */

/*
 * How the network behaves. Probabilities are 0.0 .. 1.0. Sizes, depths and caps bind the transports
 * opened afterwards, everything else takes effect at once.
 */
struct ripc__sim_config {
	double datagram_loss; /* of datagrams and resolver messages */
	double datagram_duplication;
	double datagram_reordering;          /* late by up to ten times delay_max_ns */
	uint64_t delay_min_ns, delay_max_ns; /* one way */
	uint64_t setup_delay_ns;             /* added to the answer to a connection request */
	uint64_t bandwidth;     /* bytes per second that a node sends at most; 0: not limited */
	double connect_failure; /* connect() that ends in EV_CLOSED */
	double reg_failure;     /* reg() that returns -ENOMEM */
	/*
	 * bytes that a node can have pinned; registered without an endpoint they are at their first
	 * use; 0: not limited
	 */
	uint64_t memlock;
	double queue_full; /* posts that find the queue full for no reason */
	double hold;       /* sends held back although no more were announced */
	double transient;  /* received messages whose memory lasts until the next progress() only */
	/* a connection that gets nothing through for so long breaks; 0: never */
	uint64_t give_up_ns;
	unsigned caps_off;    /* of enum ripc__cap: what the transport does not offer */
	bool datagram;        /* the transport offers datagrams too */
	bool target_progress; /* reads and writes wait for the progress() of their target */
	uint32_t send_max;    /* as in struct ripc__transport_limits, like the following */
	uint32_t datagram_max;
	uint32_t recv_depth;
	uint32_t read_depth;
	uint64_t rdma_max;
	uint32_t queue_depth; /* posts outstanding on one endpoint, >= 1 */
};

/*
 * What happened so far. The second part must stay 0 while everybody keeps to the contract; regions
 * .. packets are gauges.
 */
struct ripc__sim_counters {
	uint64_t events; /* network events, as counted by ripc__sim_at_event() */
	uint64_t sends, writes, reads, datagrams; /* posted */
	uint64_t datagrams_lost, datagrams_duplicated;
	uint64_t connects, breaks; /* connections asked for / broken by a fault */
	uint64_t refused;          /* operations of hostile nodes refused */
	uint64_t not_ready;        /* sends that met no receive: the sender had no credit */
	/* reads and writes without a valid key, range and right at their target */
	uint64_t bad_remote;
	uint64_t bad_local; /* local memory that was not registered when the device used it */
	uint64_t bad_call;  /* other breaches of the transport contract by its caller */
	uint64_t regions;   /* registered now */
	uint64_t endpoints; /* open now */
	uint64_t packets;   /* received and not yet released */
};

/*
 * Reports that the simulated world stands still or turns round in circles. Must not return (fail
 * the test).
 */
typedef void ripc__sim_fail_fn(void *arg, const char *text);

/* Fills in a fast network without faults: 5 .. 20 us one way, everything offered but datagrams. */
void ripc__sim_defaults(struct ripc__sim_config *config);
/* @config may be NULL for the defaults. Return: the network, or NULL if out of memory. */
struct ripc__sim *ripc__sim_create(uint64_t seed, const struct ripc__sim_config *config,
				   ripc__sim_fail_fn *fail, void *arg);
/* All transports and ports must be closed before. */
void ripc__sim_destroy(struct ripc__sim *net);
/* The configuration in force; ripc__sim_configure() replaces it. */
const struct ripc__sim_config *ripc__sim_config(const struct ripc__sim *net);
void ripc__sim_configure(struct ripc__sim *net, const struct ripc__sim_config *config);
uint64_t ripc__sim_now(const struct ripc__sim *net);
uint64_t ripc__sim_random(struct ripc__sim *net);
void ripc__sim_counters(const struct ripc__sim *net, struct ripc__sim_counters *counters);
/* Breaches of the contract so far; *text (may be NULL) describes the first. */
uint64_t ripc__sim_violations(const struct ripc__sim *net, const char **text);
/*
 * Moves the network alone on by one event, but not beyond until_ns. Return: false if there is none
 * (time is then until_ns, unless that is RIPC__NEVER).
 */
bool ripc__sim_step(struct ripc__sim *net, uint64_t until_ns);

/* ---- Faults. Instances that take no part return -ENOENT. ---- */

/* Nothing passes between a and b; connections hold what they carry back, datagrams are lost. */
int ripc__sim_partition(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16], bool on);
/* Breaks every connection between a and b now. Return: how many. */
int ripc__sim_break(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16]);
/* The same when the nth operation (1: the next) between them reaches its target. */
int ripc__sim_break_at(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16], uint64_t nth);
/* Makes the nth registration (1: the next) of any node fail with -ENOMEM, once. */
void ripc__sim_fail_reg_at(struct ripc__sim *net, uint64_t nth);
/* Makes the nth write that is posted (1: the next), by any node, fail with -ENOMEM, once. */
void ripc__sim_fail_write_at(struct ripc__sim *net, uint64_t nth);
/* Makes count reads that are posted, from the nth (1: the next) on, by any node, fail with -ENOMEM. */
void ripc__sim_fail_reads(struct ripc__sim *net, uint64_t nth, uint64_t count);
/* Makes the nth connect() (1: the next) of any node end in EV_CLOSED, once. */
void ripc__sim_fail_connect_at(struct ripc__sim *net, uint64_t nth);
/*
 * A node dies. silently: its host with it, nobody is told; otherwise its connections are reset.
 * Free what it holds afterwards.
 */
int ripc__sim_kill(struct ripc__sim *net, const uint8_t instance[16], bool silently);
/*
 * A node that is held makes no progress: nothing that arrives is reported, and its context is not
 * polled.
 */
int ripc__sim_hold(struct ripc__sim *net, const uint8_t instance[16], bool on);
/* What a hostile node does wrong is counted as refused, not as a violation. */
int ripc__sim_hostile(struct ripc__sim *net, const uint8_t instance[16]);
/*
 * Puts a message on the connection from -> to, behind everything that was sent on it. -ENOTCONN:
 * there is none. To inject connection requests and datagrams, open ripc__transport_sim with an
 * instance of your own and use it.
 */
int ripc__sim_inject(struct ripc__sim *net, const uint8_t from[16], const uint8_t to[16],
		     const void *data, size_t len);
/*
 * Every message, datagram, private data and resolver message passes fn on its way; it may change
 * *len bytes (not lengthen them) at data, and cut them. NULL: none.
 */
typedef void ripc__sim_tamper_fn(void *arg, const uint8_t from[16], const uint8_t to[16],
				 uint8_t *data, size_t *len);
void ripc__sim_tamper(struct ripc__sim *net, ripc__sim_tamper_fn *fn, void *arg);
/* Calls fn once, with no lock held, when the nth network event from now has happened. */
void ripc__sim_at_event(struct ripc__sim *net, uint64_t nth, void (*fn)(void *arg), void *arg);
/*
 * The address of a node's transport, as in a resolver record. Return: bytes written at buf, of
 * RIPC__ADDRESS_MAX.
 */
int ripc__sim_address(struct ripc__sim *net, const uint8_t instance[16], uint8_t *buf);

/*
 * ---- Resolver datagrams: subject to the network's loss, delay, duplication, reordering and
 * partitions. ----
 */

int ripc__sim_port_open(struct ripc__sim *net, const uint8_t instance[16],
			struct ripc__sim_port **port);
void ripc__sim_port_close(struct ripc__sim_port *port);
/* To one instance, or to all others if to is NULL. Return: 0 (it may still be lost). */
int ripc__sim_port_send(struct ripc__sim_port *port, const uint8_t *to, const void *data, size_t len);
/*
 * Return: bytes of the next datagram that has arrived, its sender in from; -EAGAIN if there is
 * none.
 */
int ripc__sim_port_recv(struct ripc__sim_port *port, uint8_t from[16], void *buf, size_t cap);

#endif
