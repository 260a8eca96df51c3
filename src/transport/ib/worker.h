/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads for the few verbs calls that may wait for the network: with RoCE, making an address handle or a connection looks
 * for the neighbour, and the kernel gives it a second. No entry of a transport may wait that long.
 */
#ifndef RIPC_IB_WORKER_H
#define RIPC_IB_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RIPC__IB_WORKERS 4u /* threads at most: a host that does not answer holds up few others */

struct ripc__ib_job {
	struct ripc__ib_job *next;
	int (*work)(struct ripc__ib_job *job); /* in a thread: touches nothing but what the job owns */
	void (*done)(struct ripc__ib_job *job, int result); /* in ripc__ib_worker_reap() */
	int result;
};

struct ripc__ib_worker {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct ripc__ib_job *action, **todo_end;
	struct ripc__ib_job *finished, **finished_end;
	atomic_bool any; /* finished is not empty */
	bool ending;
	unsigned nthreads, idle, waiting; /* threads; those without a job; jobs without a thread */
	pthread_t threads[RIPC__IB_WORKERS];
	int fd; /* eventfd: readable when a job is finished; < 0: not open */
};

/* Starts no thread yet. Return: 0 or a negative errno, explained. */
int ripc__ib_worker_init(struct ripc__ib_worker *w);
/* Waits for the jobs that have begun; calls done() of none. */
void ripc__ib_worker_fini(struct ripc__ib_worker *w);

/* Return: 0, or a negative errno: no thread. The job stays the caller's and in place until done(). */
int ripc__ib_worker_start(struct ripc__ib_worker *w, struct ripc__ib_job *job);
/* Calls done() of all finished jobs. */
void ripc__ib_worker_reap(struct ripc__ib_worker *w);

#endif
