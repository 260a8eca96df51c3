/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waiting, and who drives the context meanwhile.
 *
 * At any time at most one thread is the driver: it makes progress, spins or sleeps on the context's
 * descriptors. A thread that waits becomes the driver if there is none; other waiting threads sleep
 * on a condition of their own until the driver finds something for them or hands its role over.
 * When no application thread is in the library the agent thread drives.
 */
#ifndef RIPC_CORE_PROGRESS_WAIT_H
#define RIPC_CORE_PROGRESS_WAIT_H

#include "base/list.h"

#include <pthread.h>
#include <stdint.h>

struct ripc;

/* What threads wait for. Every change that could end somebody's wait is told with ripc__wake(). */
struct ripc__waitq {
	uint32_t generation;       /* grows with every wake */
	struct ripc__list waiters; /* struct ripc__waiter */
};

void ripc__waitq_init(struct ripc__waitq *q);

/* Wakes all that wait. Lock held. */
void ripc__wake(struct ripc *ctx, struct ripc__waitq *q);

/* Wakes every thread that waits in the context. Lock held. */
void ripc__wake_all(struct ripc *ctx);

/*
 * Waits until q is woken or something else happened that may matter; the caller checks its
 * condition and calls again. Lock held on entry and return, released meanwhile. The object that
 * holds q must be pinned by the caller. Return: 0, or -ETIMEDOUT once deadline_ns has passed.
 */
int ripc__wait(struct ripc *ctx, struct ripc__waitq *q, uint64_t deadline_ns);

/* When a call with this timeout must end: now + timeout, or RIPC__NEVER. */
uint64_t ripc__deadline(struct ripc *ctx, int timeout_ms);

/* The agent. */
int ripc__progress_thread_start(struct ripc *ctx);
void ripc__progress_thread_stop(struct ripc *ctx);

/*
 * Somebody must make progress within a millisecond or so although nobody waits. Lock held. Cheap if
 * the agent knows already.
 */
void ripc__progress_request(struct ripc *ctx);

/* The same, where a tick of the agent is soon enough: cheap when it is said often. Lock held. */
void ripc__progress_request_lazy(struct ripc *ctx);

#endif
