/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A simulated network with virtual time for tests: seeded, deterministic, single-threaded. It
 * carries the `sim` transport (transport/transport.h) and the datagrams of the resolver's `sim`
 * back end, with the faults of a real network. core/sim/world.h runs contexts on it.
 *
 * A node is one context, named by its instance id. It exists from the first opening of its
 * transport or its port on.
 */
#ifndef RIPC_TRANSPORT_SIM_H
#define RIPC_TRANSPORT_SIM_H

#include "ripc.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const struct ripc__transport_ops ripc__transport_sim;

struct ripc__sim;      /* the network */
struct ripc__sim_port; /* the resolver port of one context */

/*
 * Configuration of the network. Probabilities are 0.0 .. 1.0. Sizes, depths and caps apply to
 * transports opened afterwards, all other values at once.
 */
struct ripc__sim_config {
	double datagram_loss; /* loss of datagrams and resolver messages */
	double datagram_duplication;
	double datagram_reordering;          /* delay of up to ten times delay_max_ns */
	uint64_t delay_min_ns, delay_max_ns; /* in one direction */
	uint64_t setup_delay_ns;             /* extra delay of the answer to a connection request */
	uint64_t bandwidth;     /* bytes per second that a node can send; 0: not limited */
	double connect_failure; /* connect() ends in EV_CLOSED */
	double conn_break;      /* an operation that arrives breaks its connection instead */
	double reg_failure;     /* reg() returns -ENOMEM */
	/*
	 * most bytes that a node can pin; memory registered without an endpoint is pinned at its
	 * first use; 0: not limited
	 */
	uint64_t memlock;
	double queue_full; /* a post finds the queue full without a cause */
	double hold;       /* a send is delayed although no further one was announced */
	double transient;  /* a received message is valid only until the next progress() */
	/* a blocked connection breaks after this time; 0: never */
	uint64_t give_up_ns;
	unsigned caps_off;    /* bits of enum ripc__cap that the transport lacks */
	bool written;         /* the transport has WRITTEN */
	bool write_imm;       /* the transport has WRITE_IMM; not with target_progress */
	bool datagram;        /* the transport has datagrams */
	bool multicast;       /* the transport has multicast, of datagrams up to datagram_max */
	bool target_progress; /* reads and writes need progress() of their target */
	uint32_t send_max;    /* this and the following as in struct ripc__transport_limits */
	uint32_t datagram_max;
	uint32_t recv_depth;
	uint32_t read_depth;
	uint64_t rdma_max;
	uint32_t queue_depth; /* most posts outstanding on one endpoint, >= 1 */
};

/*
 * Counters. The second part stays 0 while all callers keep to the contract; regions .. packets are
 * gauges.
 */
struct ripc__sim_counters {
	uint64_t events;  /* network events, as counted by ripc__sim_at_event() */
	uint64_t history; /* hash of all events so far: the same in each run with a seed */
	uint64_t sends, writes, reads; /* posted */
	uint64_t datagrams;            /* the same; a multicast counts once per receiver */
	uint64_t written_messages;     /* of the writes, those with immediate data */
	uint64_t datagrams_lost, datagrams_duplicated;
	uint64_t connects, breaks; /* connections requested / broken by a fault */
	uint64_t refused;          /* operations of hostile nodes rejected */
	uint64_t not_ready;        /* sends without a receive at the target: the sender had no
	 * credit */
	/* reads and writes without a valid key, range and right at their target */
	uint64_t bad_remote;
	uint64_t bad_local; /* uses of local memory that was not registered */
	uint64_t bad_call;  /* other violations of the transport contract by a caller */
	uint64_t regions;   /* registered now */
	uint64_t endpoints; /* open now */
	uint64_t packets;   /* received and not yet released */
};

/* Reports that the simulated world makes no progress. Must not return: it fails the test. */
typedef void ripc__sim_fail_fn(void *arg, const char *text);

/*
 * Sets a fast network without faults: 5 .. 20 us in one direction, all capabilities except
 * datagrams.
 */
void ripc__sim_defaults(struct ripc__sim_config *config);
/* @config: NULL for the defaults. Return: the network, or NULL if out of memory. */
struct ripc__sim *ripc__sim_create(uint64_t seed, const struct ripc__sim_config *config,
				   ripc__sim_fail_fn *fail, void *arg);
/* Precondition: all transports and ports are closed. */
void ripc__sim_destroy(struct ripc__sim *net);
/* The configuration in force; ripc__sim_configure() replaces it. */
const struct ripc__sim_config *ripc__sim_config(const struct ripc__sim *net);
void ripc__sim_configure(struct ripc__sim *net, const struct ripc__sim_config *config);
uint64_t ripc__sim_now(const struct ripc__sim *net);
uint64_t ripc__sim_random(struct ripc__sim *net);
void ripc__sim_counters(const struct ripc__sim *net, struct ripc__sim_counters *counters);
/* Number of violations of the contract; *text (may be NULL) describes the first. */
uint64_t ripc__sim_violations(const struct ripc__sim *net, const char **text);
/*
 * Runs the next event of the network, if it is due at or before until_ns. Return: false if there is
 * none; time is then until_ns, unless that is RIPC__NEVER.
 */
bool ripc__sim_step(struct ripc__sim *net, uint64_t until_ns);

/* ---- Faults. An unknown instance returns -ENOENT. ---- */

/* Blocks all traffic between a and b: connections delay their operations, datagrams are lost. */
int ripc__sim_partition(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16], bool on);
/* Puts a node on one side of a partition: nodes of different sides, 0 at first, are partitioned. */
int ripc__sim_side(struct ripc__sim *net, const uint8_t instance[16], unsigned side);
/* Breaks every connection between a and b now. Return: number of connections. */
int ripc__sim_break(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16]);
/* Breaks them when the nth operation (1: the next) between them reaches its target. */
int ripc__sim_break_at(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16], uint64_t n);
/* Makes the nth registration (1: the next) of any node fail with -ENOMEM, once. */
void ripc__sim_fail_reg_at(struct ripc__sim *net, uint64_t nth);
/* Makes the nth posted write (1: the next) of any node fail with -ENOMEM, once. */
void ripc__sim_fail_write_at(struct ripc__sim *net, uint64_t nth);
/* Makes count posted reads of any node, from the nth (1: the next) on, fail with -ENOMEM. */
void ripc__sim_fail_reads(struct ripc__sim *net, uint64_t nth, uint64_t count);
/* Makes the nth connect() (1: the next) of any node end in EV_CLOSED, once. */
void ripc__sim_fail_connect_at(struct ripc__sim *net, uint64_t nth);
/*
 * Kills a node. silently: its host as well, so that no peer is notified; otherwise its connections
 * are reset. The caller then frees the memory of the node.
 */
int ripc__sim_kill(struct ripc__sim *net, const uint8_t instance[16], bool silently);
/* Suspends a node: it reports nothing that arrives, and its context is not polled. */
int ripc__sim_hold(struct ripc__sim *net, const uint8_t instance[16], bool on);
/* Counts violations by this node as refused, not as violations. */
int ripc__sim_hostile(struct ripc__sim *net, const uint8_t instance[16]);
/*
 * Queues a message on the connection from -> to, behind all sent operations. -ENOTCONN: there is
 * none. To inject connection requests and datagrams, open ripc__transport_sim with another
 * instance.
 */
int ripc__sim_inject(struct ripc__sim *net, const uint8_t from[16], const uint8_t to[16],
		     const void *data, size_t len);
/*
 * Passes every message, datagram, private data and resolver message to fn, which may change the
 * *len bytes at data and shorten them. NULL: none.
 */
typedef void ripc__sim_tamper_fn(void *arg, const uint8_t from[16], const uint8_t to[16],
				 uint8_t *data, size_t *len);
void ripc__sim_tamper(struct ripc__sim *net, ripc__sim_tamper_fn *fn, void *arg);
/*
 * Passes every message and datagram that a context posts to fn, before ripc__sim_tamper(). Not
 * those of hostile nodes, and those that a test injects. NULL: none.
 */
typedef void ripc__sim_audit_fn(const uint8_t *data, size_t len);
void ripc__sim_audit(struct ripc__sim *net, ripc__sim_audit_fn *fn);
/* The number of a node: they count from 0 in the order of their first use. -ENOENT: unknown. */
int64_t ripc__sim_number(struct ripc__sim *net, const uint8_t instance[16]);
/*
 * Calls fn for each event or datagram that becomes pending at a node, so that a simulation of many
 * contexts polls only those that have work. fn must not call the library. NULL: none.
 */
typedef void ripc__sim_arrival_fn(void *arg, uint32_t node);
void ripc__sim_on_arrival(struct ripc__sim *net, ripc__sim_arrival_fn *fn, void *arg);
/*
 * Sends a resolver message to all only to the nodes that fn names: those whose behaviour it can
 * change. fn returns their count, and in *nodes their numbers, which it owns. NULL: to all.
 */
typedef size_t ripc__sim_audience_fn(void *arg, const void *data, size_t len,
				     const uint32_t **nodes);
void ripc__sim_audience(struct ripc__sim *net, ripc__sim_audience_fn *fn, void *arg);
/* Calls fn once, without a lock, after the nth network event from now. */
void ripc__sim_at_event(struct ripc__sim *net, uint64_t nth, void (*fn)(void *arg), void *arg);
/*
 * The address of a node's transport, as in a resolver record. Return: bytes written to buf, at most
 * RIPC__ADDRESS_MAX.
 */
int ripc__sim_address(struct ripc__sim *net, const uint8_t instance[16], uint8_t *buf);

/*
 * ---- Resolver datagrams, with the network's loss, delay, duplication, reordering and partitions
 * ----
 */

int ripc__sim_port_open(struct ripc__sim *net, const uint8_t id[16], struct ripc__sim_port **port);
void ripc__sim_port_close(struct ripc__sim_port *port);
/*
 * Sends to one instance, or to all others if to is NULL. Return: 0; the datagram may still be lost.
 */
int ripc__sim_port_send(struct ripc__sim_port *p, const uint8_t *to, const void *data, size_t len);
/* Return: bytes of the next datagram, its sender in from; -EAGAIN if there is none. */
int ripc__sim_port_recv(struct ripc__sim_port *port, uint8_t from[16], void *buf, size_t cap);

#endif
