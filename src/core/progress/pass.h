/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A pass: the events of the transports and of the resolver, and the timers. A full pass has all of
 * them, a partial pass only those of transports over which messages come. Passes do not nest: a
 * pass within another, as from a callback, does nothing. Lock held.
 */
#ifndef RIPC_CORE_PROGRESS_PASS_H
#define RIPC_CORE_PROGRESS_PASS_H

#include <stdbool.h>

struct ripc;
struct ripc__event;

/* NONE --begins--> RUNNING --ripc__progress_request()--> REQUESTED; both --ends--> NONE */
enum ripc__pass_state {
	RIPC__PASS_NONE,
	RIPC__PASS_RUNNING,
	RIPC__PASS_REQUESTED, /* it runs, and another one is due afterwards */
};

/*
 * Reads the clock and makes a full pass. If a leader sleeps meanwhile, arms the transports again,
 * and requests another pass if one is due before the leader wakes.
 */
void ripc__progress(struct ripc *ctx);

/*
 * A full pass. The caller has set ctx->now_ns, or it is recent enough. Return: whether another pass
 * was requested in it.
 */
bool ripc__full_pass(struct ripc *ctx);

/* A partial pass, between two full ones and not instead of them. */
void ripc__partial_pass(struct ripc *ctx);

/* Dispatches an event of a transport's poll_one(), between two passes. */
void ripc__dispatch_event(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);

/*
 * Arms the transports: from now on their descriptors turn readable for everything that arrives.
 * Return: something has arrived already, do not sleep; then some may not be armed, unless all.
 */
bool ripc__transports_arm(struct ripc *ctx, bool all);

#endif
