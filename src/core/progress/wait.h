/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waiting for a change in a context. A thread that waits becomes the leader (core/progress/state.h)
 * unless another application thread leads; then it sleeps until the leader wakes it or passes the
 * leadership on.
 */
#ifndef RIPC_CORE_PROGRESS_WAIT_H
#define RIPC_CORE_PROGRESS_WAIT_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct ripc;

/* A condition that threads wait for. After each change that may end a wait: ripc__wake(). */
struct ripc__waitq {
	struct ripc__list waiters; /* struct ripc__waiter */
};

void ripc__waitq_init(struct ripc__waitq *q);

void ripc__wake_waiters(struct ripc *ctx, struct ripc__waitq *q);
/* Wakes all threads that wait on q. Lock held. */
static inline void ripc__wake(struct ripc *ctx, struct ripc__waitq *q)
{
	if (!ripc__list_empty(&q->waiters))
		ripc__wake_waiters(ctx, q);
}

/* Wakes every thread that waits in the context. Lock held. */
void ripc__wake_all(struct ripc *ctx);

/*
 * Waits until q is woken or anything else that may matter happens; the caller checks its condition
 * and calls again. Lock held on entry and return, released meanwhile. The caller pins the object
 * that holds q. Return: 0, or -ETIMEDOUT once deadline_ns has passed.
 */
int ripc__wait(struct ripc *ctx, struct ripc__waitq *q, uint64_t deadline_ns);

/*
 * Polls the transports for what the caller waits for, between two passes. Return: whether the
 * caller has it; then the wait ends. Otherwise events may have woken the caller's queue.
 */
typedef bool ripc__poll_fn(struct ripc *ctx, void *arg);

/*
 * ripc__wait() for a caller that takes a message of its own with less work than a pass: a leader
 * that a transport has woken calls poll first.
 */
int ripc__wait_polling(struct ripc *ctx, struct ripc__waitq *q, uint64_t deadline_ns,
		       ripc__poll_fn *poll, void *arg);

/* When a call with this timeout must end: now + timeout, or RIPC__NEVER. */
uint64_t ripc__deadline(struct ripc *ctx, int timeout_ms);
/*
 * The same where reading the clock would cost much: a timeout of 100 ms or more may end 10 ms late.
 */
uint64_t ripc__deadline_far(struct ripc *ctx, int timeout_ms);
bool ripc__deadline_passed(struct ripc *ctx, uint64_t deadline_ns);
/*
 * Milliseconds until a deadline, rounded up; 0: it has passed; UINT32_MAX: there is none
 * (RIPC__NEVER).
 */
uint32_t ripc__remaining_ms(struct ripc *ctx, uint64_t deadline_ns);

/*
 * No application thread leads from now on: a follower takes over, or else the progress thread.
 * slept: the caller slept as the leader. polled: it has made a pass, and not slept since: then the
 * progress thread may lead without being woken. Lock held.
 */
void ripc__leader_leave(struct ripc *ctx, bool slept, bool polled);
/*
 * One poll of a call with timeout 0. A thread that makes such calls all the time polls without
 * waking the progress thread, which then does not lead.
 */
void ripc__poll_nowait(struct ripc *ctx);

/* A descriptor on which the application waits until a call with timeout 0 finds something. */
struct ripc__ready_fd {
	int fd; /* eventfd, or -1: the application has not asked for it */
	/* calls that found nothing since the application slept on it: one that goes on spins */
	unsigned empty_polls;
};

/* Creates the descriptor at the first call. Return: it, or a negative errno. */
int ripc__ready_fd_open(struct ripc *ctx, struct ripc__ready_fd *r, bool readable);
void ripc__ready_fd_set(struct ripc *ctx, struct ripc__ready_fd *r, bool readable);
/* The descriptor, if it exists, becomes readable or not. */
static inline void ripc__ready_fd_signal(struct ripc *ctx, struct ripc__ready_fd *r, bool readable)
{
	if (r->fd >= 0)
		ripc__ready_fd_set(ctx, r, readable);
}
void ripc__ready_fd_close(struct ripc *ctx, struct ripc__ready_fd *r);

/*
 * As ripc__poll_nowait(), for an application that waits on a descriptor. It calls until nothing is
 * left, then sleeps: the progress thread must lead by then, and not at the end of its tick. While
 * the thread leads, there is nothing to poll. An application that spins polls itself.
 */
void ripc__poll_before_sleep(struct ripc *ctx, struct ripc__ready_fd *r);
/* The poll found nothing. */
void ripc__poll_pass_leadership(struct ripc *ctx, struct ripc__ready_fd *r);

#endif
