/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state machine of state.h, with the descriptors, the semaphore and the threads that it acts
 * on. Embedded in struct ripc.
 */
#ifndef RIPC_CORE_PROGRESS_PROGRESS_H
#define RIPC_CORE_PROGRESS_PROGRESS_H

#include "base/list.h"
#include "core/progress/state.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

struct ripc;
struct ripc__waiter;

/* Everything but `word` is for the holder of the context's lock. */
struct ripc__progress {
	_Atomic uint32_t word;       /* struct ripc__progress_state */
	struct ripc__waiter *leader; /* the application thread that leads, or NULL */
	struct ripc__list followers; /* struct ripc__waiter */
	uint64_t spin_ns;            /* wait=adaptive: how long a leader spins before it sleeps */
	uint64_t resumed_ns;         /* when RESUME was last considered */
	uint64_t thread_wake_ns;     /* until then the progress thread sleeps on the descriptors */
	int epfd;                    /* a leader sleeps on it; -1 with hooks */
	int thread_epfd;             /* the progress thread does; holds epfd, perhaps masked */
	int wakefd;                  /* eventfd in epfd */
	bool masked;                 /* epfd is masked in thread_epfd */
	sem_t sem;                   /* ends a tick of the progress thread */
	pthread_t thread;
};

union ripc__progress_word {
	uint32_t bits;
	struct ripc__progress_state state;
};

_Static_assert(sizeof(union ripc__progress_word) == sizeof(uint32_t), "one atomic word");

/* Any thread. Lock held: see state.h for the parts that may change meanwhile. */
static inline struct ripc__progress_state ripc__progress_state(const struct ripc__progress *p)
{
	union ripc__progress_word now;

	now.bits = atomic_load_explicit(&p->word, memory_order_relaxed);
	return now.state;
}

/*
 * Makes the transition for an event and executes its actions, but for RIPC__DO_FOLLOWER and what
 * TICK returns: those are the caller's. Lock held, but for TICK and EXIT.
 */
struct ripc__progress_step ripc__progress_step(struct ripc *ctx, enum ripc__progress_event event,
					       const struct ripc__progress_input *in);

/*
 * A pass is due within a millisecond or so although no thread waits. Lock held. Cheap if it was
 * requested before.
 */
void ripc__progress_request(struct ripc *ctx);

/* The same where the next tick of the progress thread is soon enough: cheap when called often. */
void ripc__progress_request_lazy(struct ripc *ctx);

/* An application thread polled without leading: the progress thread goes on ticking. Lock held. */
static inline void ripc__progress_polled(struct ripc *ctx)
{
	ripc__progress_step(ctx, RIPC__PROGRESS_POLLED, NULL);
}

#endif
