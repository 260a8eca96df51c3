/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For tests: contexts without a progress thread and without a clock of their own, in one thread and
 * in virtual time. Where a public call would sleep, it calls hooks->idle() instead, which advances
 * the simulated world (the time, the network and all other contexts) and returns.
 */
#ifndef RIPC_CORE_PROGRESS_HOOKS_H
#define RIPC_CORE_PROGRESS_HOOKS_H

#include "ripc.h"

struct ripc__backend_ops;
struct ripc__transport_ops;

struct ripc__hooks {
	/* The virtual time in nanoseconds, > 0. */
	uint64_t (*now)(void *arg);
	/*
	 * Called instead of sleeping, without the lock: advance the world to its next event, at
	 * most to deadline_ns (RIPC__NEVER: none). Calls ripc__poll() for all contexts, also the
	 * caller's. It must fail the test if no event is left and there is no deadline.
	 */
	void (*idle)(void *arg, uint64_t deadline_ns);
	/*
	 * Replaces the kernel's random source in the context and its resolver (instance id, ids for
	 * RIPC_ANY_ID, nonces, jitter), so that the same seed gives the same run.
	 */
	uint64_t (*random)(void *arg);
	/* Passed to the three functions, to the transports (env.arg) and to the back end. */
	void *arg;
	/*
	 * A simulated network: transports, up to a NULL, beside `self`, and the resolver's only
	 * back end. NULL: the real ones, in virtual time.
	 */
	const struct ripc__transport_ops *const *transports;
	const struct ripc__backend_ops *backend;
};

/* ripc_open() with hooks, which are copied; NULL: none. With them there is no progress thread. */
int ripc__open_hooked(struct ripc **ctx, const char *options, const struct ripc__hooks *hooks);

/* Makes a pass. Return: when the next one is due even if nothing arrives. */
uint64_t ripc__poll(struct ripc *ctx);

/* Frees a context as if its process had been killed: it sends nothing, not even BYE. */
void ripc__kill(struct ripc *ctx);

#endif
