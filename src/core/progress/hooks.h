/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For tests: contexts without a thread and without a clock of their own, driven in one thread and
 * in virtual time. The public calls work as ever; where one would sleep, it calls hooks->idle
 * instead, which moves the simulated world on (the time, the network and all other contexts in it)
 * and returns.
 */
#ifndef RIPC_CORE_PROGRESS_HOOKS_H
#define RIPC_CORE_PROGRESS_HOOKS_H

#include "ripc.h"

struct ripc__hooks {
	/* The virtual time in nanoseconds, > 0. */
	uint64_t (*now)(void *arg);
	/*
	 * Called with no lock held instead of sleeping: let the world go on until something
	 * happened or deadline_ns (RIPC__NEVER: none) is reached. Calls ripc__poll() of all
	 * contexts, the caller's too. If nothing can ever happen any more and there is no deadline,
	 * it must fail the test.
	 */
	void (*idle)(void *arg, uint64_t deadline_ns);
	/*
	 * Stands in for the kernel's random source wherever the context or its resolver draws from
	 * that (instance id, ids for RIPC_ANY_ID, nonces, jitter), so that the same seed gives the
	 * same run.
	 */
	uint64_t (*random)(void *arg);
	/*
	 * the simulated network: given to all three, to the transports (env.arg) and the resolver
	 * (env.sim). NULL: the real ones, in virtual time
	 */
	void *arg;
};

/* ripc_open() with hooks; the struct is copied. The context has no agent thread. */
int ripc__open_hooked(struct ripc **ctx, const char *options, const struct ripc__hooks *hooks);

/* One round of progress. Return: the time by which it wants the next one even if nothing arrives. */
uint64_t ripc__poll(struct ripc *ctx);

/*
 * Forgets a context as if its process had been killed: nothing is sent, no good-bye; memory is
 * freed.
 */
void ripc__kill(struct ripc *ctx);

#endif
