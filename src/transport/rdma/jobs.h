/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Verbs calls that may block, each in a thread. Over RoCE, creating an address handle or connecting
 * a queue pair resolves the neighbour, which takes up to a second. SoftiWARP connects its TCP
 * socket within rdma_connect(), which takes minutes if the host does not answer. No entry of a
 * transport may block that long.
 */
#ifndef RIPC_RDMA_JOBS_H
#define RIPC_RDMA_JOBS_H

#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ripc__verbs_jobs;

enum ripc__job_state { RIPC__JOB_IDLE, RIPC__JOB_WAITING, RIPC__JOB_RUNNING };

/* All zeros at first. */
struct ripc__verbs_job {
	struct ripc__list link;
	struct ripc__verbs_jobs *jobs;
	int (*work)(struct ripc__verbs_job *job); /* in its thread: uses only memory of the job */
	void (*done)(struct ripc__verbs_job *job, int result); /* of ripc__verbs_jobs_reap() */
	enum ripc__job_state state;
	pthread_t thread; /* RUNNING */
	int result;
	atomic_bool finished; /* RUNNING: the thread ends, and result is valid */
};

struct ripc__verbs_jobs {
	struct ripc__list waiting, running; /* of jobs */
	unsigned nrunning, max;             /* threads; most threads */
	atomic_bool any;                    /* something changed since the last reap */
	int fd;                             /* eventfd: readable if so; < 0: not open */
};

/* @max: an unreachable host delays others only if all threads wait. Return: 0 or < 0, explained. */
int ripc__verbs_jobs_init(struct ripc__verbs_jobs *jobs, unsigned max);
/* Waits for running jobs; done() is not called. */
void ripc__verbs_jobs_fini(struct ripc__verbs_jobs *jobs);

/*
 * Starts a job that is IDLE; while all threads run it waits. Return: 0, or a negative errno,
 * explained: no thread. The job stays valid until done().
 */
int ripc__verbs_job_start(struct ripc__verbs_jobs *jobs, struct ripc__verbs_job *job);
/*
 * In any state; done() is not called afterwards. Its thread is cancelled, which must be safe where
 * work() waits. Return: < 0: the job did nothing, or failed; 0: else.
 */
int ripc__verbs_job_cancel(struct ripc__verbs_job *job);
/* Calls done() of all finished jobs. They are IDLE. */
void ripc__verbs_jobs_reap(struct ripc__verbs_jobs *jobs);

#endif
