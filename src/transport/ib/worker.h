/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Worker threads for verbs calls that may block. Over RoCE, creating an address handle or
 * connecting a queue pair resolves the neighbour, which takes up to a second. No entry of a
 * transport may block that long.
 */
#ifndef RIPC_IB_WORKER_H
#define RIPC_IB_WORKER_H

#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define RIPC__IB_WORKERS 4u /* most threads: an unreachable host delays few others */

struct ripc__ib_job {
	struct ripc__list link;
	int (*work)(struct ripc__ib_job *job); /* in a worker thread: uses only memory of the job */
	void (*done)(struct ripc__ib_job *job, int result); /* called by ripc__ib_worker_reap() */
	int result;
};

struct ripc__ib_worker {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct ripc__list todo, finished; /* of jobs */
	atomic_bool any;                  /* finished is not empty */
	bool ending;
	unsigned nthreads, idle, waiting; /* threads; idle threads; jobs without a thread */
	pthread_t threads[RIPC__IB_WORKERS];
	int fd; /* eventfd: readable when a job is finished; < 0: not open */
};

/* Return: 0 or a negative errno, explained. Threads start with the first job. */
int ripc__ib_worker_init(struct ripc__ib_worker *w);
/* Waits for running jobs; done() is not called. */
void ripc__ib_worker_fini(struct ripc__ib_worker *w);

/* Return: 0, or a negative errno: no thread. The job stays valid until done(). */
int ripc__ib_worker_start(struct ripc__ib_worker *w, struct ripc__ib_job *job);
/* Calls done() of all finished jobs. */
void ripc__ib_worker_reap(struct ripc__ib_worker *w);

#endif
