/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/rdma/jobs.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)

int ripc__verbs_jobs_init(struct ripc__verbs_jobs *jobs, unsigned max)
{
	*jobs = (struct ripc__verbs_jobs){.max = max};
	ripc__list_init(&jobs->waiting);
	ripc__list_init(&jobs->running);
	jobs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (jobs->fd < 0)
		return ripc__fail(-errno, "verbs: cannot create an eventfd: %s", strerror(errno));
	return 0;
}

static void join(struct ripc__verbs_job *job)
{
	pthread_join(job->thread, NULL);
	ripc__list_del(&job->link);
	job->state = RIPC__JOB_IDLE;
	job->jobs->nrunning--;
}

void ripc__verbs_jobs_fini(struct ripc__verbs_jobs *jobs)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&jobs->running)))
		join(ripc__list_entry(n, struct ripc__verbs_job, link));
	if (jobs->fd >= 0)
		close(jobs->fd);
	jobs->fd = -1;
}

/* A job has finished, or another one can start. */
static void request_reap(struct ripc__verbs_jobs *jobs)
{
	atomic_store(&jobs->any, true);
	eventfd_write(jobs->fd, 1);
}

static void *job_main(void *arg)
{
	struct ripc__verbs_job *job = arg;
	int old;

	job->result = job->work(job);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	atomic_store(&job->finished, true);
	/* The job stays until the thread is joined. */
	request_reap(job->jobs);
	return NULL;
}

static int run(struct ripc__verbs_job *job)
{
	struct ripc__verbs_jobs *jobs = job->jobs;
	pthread_attr_t attr;
	int rc = -pthread_attr_init(&attr);

	if (rc)
		return rc;
	atomic_store(&job->finished, false);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = ripc__thread_start(&job->thread, &attr, job_main, job);
	pthread_attr_destroy(&attr);
	if (rc)
		return rc;
	job->state = RIPC__JOB_RUNNING;
	ripc__list_add(&jobs->running, &job->link);
	jobs->nrunning++;
	return 0;
}

int ripc__verbs_job_start(struct ripc__verbs_jobs *jobs, struct ripc__verbs_job *job)
{
	int rc;

	job->jobs = jobs;
	rc = jobs->nrunning < jobs->max ? run(job) : -EAGAIN;
	if (!rc)
		return 0;
	if (!jobs->nrunning)
		return ripc__fail(rc, "verbs: cannot start a thread: %s", strerror(-rc));
	/* The end of another one starts it. */
	job->state = RIPC__JOB_WAITING;
	ripc__list_add(&jobs->waiting, &job->link);
	return 0;
}

int ripc__verbs_job_cancel(struct ripc__verbs_job *job)
{
	switch (job->state) {
	case RIPC__JOB_WAITING:
		ripc__list_del(&job->link);
		job->state = RIPC__JOB_IDLE;
		return -ECANCELED;
	case RIPC__JOB_RUNNING:
		if (!atomic_load(&job->finished))
			pthread_cancel(job->thread);
		join(job);
		request_reap(job->jobs);
		return atomic_load(&job->finished) ? job->result : 0;
	default:
		return 0;
	}
}

void ripc__verbs_jobs_reap(struct ripc__verbs_jobs *jobs)
{
	struct ripc__verbs_job *job, *tmp;
	eventfd_t count;

	if (!atomic_load_explicit(&jobs->any, memory_order_acquire))
		return;
	atomic_store(&jobs->any, false);
	eventfd_read(jobs->fd, &count);
	ripc__list_for_each_entry_safe (job, tmp, &jobs->running, link) {
		if (!atomic_load(&job->finished))
			continue;
		join(job);
		job->done(job, job->result);
	}
	while (jobs->nrunning < jobs->max && !ripc__list_empty(&jobs->waiting)) {
		int rc;

		job = ripc__list_entry(ripc__list_take(&jobs->waiting), struct ripc__verbs_job,
				       link);
		job->state = RIPC__JOB_IDLE;
		rc = ripc__verbs_job_start(jobs, job);
		if (rc)
			job->done(job, rc);
		else if (job->state == RIPC__JOB_WAITING)
			break;
	}
}
