/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Many hosts that call each other's services on a simulated network, in virtual time and one
 * thread. Each host is one context of the library. Faults strike all the time: lost, repeated and
 * delayed datagrams, broken connections, partitions, hosts that die, restart or are suspended,
 * services that move. The applications write the history of all calls.
 *
 * Only contexts with work are polled: those at which something has arrived, whose timer is due or
 * whose application made a call. core/sim/world.h polls all of them at each event.
 */
#ifndef RIPC_TESTS_SCALE_CALL_WORLD_H
#define RIPC_TESTS_SCALE_CALL_WORLD_H

#include "call_history.h"

struct call_world_options {
	uint64_t seed;
	unsigned hosts;
	unsigned services;     /* ids from 1; each has a holder most of the time */
	unsigned calls;        /* of one host, one after the other and at the same time */
	unsigned known;        /* services that one host calls */
	uint64_t think_ns;     /* a host starts a call after this time, on average */
	uint64_t fault_ns;     /* per host: time between two faults, on average; 0: no faults */
	uint64_t hold_max_ns;  /* how long a host is suspended */
	uint64_t split_ns;     /* time between two partitions; 0: none */
	uint64_t split_max_ns; /* how long one lasts */
	unsigned endless;      /* one call of so many has no deadline, */
	unsigned withdrawn;    /* and one of so many is withdrawn */
	double conn_break;     /* as in struct ripc__sim_config */
	double datagram_fault; /* loss, duplication, reordering of datagrams, each */
};

struct call_world_options call_world_defaults(void);

/* Counts of results and faults. */
struct call_world_counts {
	uint64_t started, executed, idempotent, withdrawn, killed;
	uint64_t answered, refused, unanswered; /* results with a reply: 0, an error, -ECANCELED */
	uint64_t unreachable, timed_out, cancelled, etime, epipe, shut_down; /* without */
	uint64_t deaths, closings, restarts, takeovers, moves, pauses, partitions;
	uint64_t breaks, datagrams_lost, datagrams_duplicated;
	uint64_t duplicates, resent, late_replies, expired; /* of contexts alive at the end */
	uint64_t polls, virtual_ns;
};

/*
 * Makes the hosts, runs all calls under faults, then mends all faults and runs until each call has
 * ended. Then closes all contexts. Fails the test if the simulation stops or a context breaks the
 * contract of its transport. The history becomes the caller's.
 */
void call_world_run(const struct call_world_options *opt, struct history *history,
		    struct call_world_counts *counts);

#endif
