/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs in threads: their limit, their results, cancelled ones, and threads that do not start. */
#include "transport/rdma/jobs.h"
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>

#define JOBS 5u

struct waiting {
	struct ripc__verbs_job job;
	sem_t may_end;
	int result;
};

static struct ripc__verbs_jobs jobs;
static struct waiting w[JOBS];
static unsigned ndone, most_threads;
static int start_rc;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return start_rc ? start_rc : __real_pthread_create(thread, attr, run, arg);
}

static int wait_and_end(struct ripc__verbs_job *job)
{
	sem_wait(&((struct waiting *)job)->may_end);
	return ((struct waiting *)job)->result;
}

static void done(struct ripc__verbs_job *job, int result)
{
	ck_assert_int_eq(job->state, RIPC__JOB_IDLE);
	((struct waiting *)job)->result = result;
	ndone++;
}

static void setup(void)
{
	start_rc = 0;
	ndone = most_threads = 0;
	ck_assert_int_eq(ripc__verbs_jobs_init(&jobs, 2), 0);
	for (unsigned i = 0; i < JOBS; i++) {
		w[i] = (struct waiting){.job = {.work = wait_and_end, .done = done},
					.result = -(int)i};
		sem_init(&w[i].may_end, 0, 0);
	}
}

static void teardown(void)
{
	for (unsigned i = 0; i < JOBS; i++)
		sem_post(&w[i].may_end);
	ripc__verbs_jobs_fini(&jobs);
	ck_assert_int_lt(jobs.fd, 0);
}

/* Until so many jobs are done. */
static void reap(unsigned n)
{
	struct pollfd p = {.fd = jobs.fd, .events = POLLIN};

	while (ndone < n) {
		ck_assert_int_eq(poll(&p, 1, 60000), 1);
		ripc__verbs_jobs_reap(&jobs);
		most_threads = jobs.nrunning > most_threads ? jobs.nrunning : most_threads;
	}
}

START_TEST(start__limit)
{
	for (unsigned i = 0; i < JOBS; i++)
		ck_assert_int_eq(ripc__verbs_job_start(&jobs, &w[i].job), 0);
	ck_assert_uint_eq(jobs.nrunning, 2);
	ck_assert_int_eq(w[1].job.state, RIPC__JOB_RUNNING);
	ck_assert_int_eq(w[2].job.state, RIPC__JOB_WAITING);
	ripc__verbs_jobs_reap(&jobs);
	ck_assert_uint_eq(ndone, 0);
	for (unsigned i = 0; i < JOBS; i++) {
		sem_post(&w[i].may_end);
		reap(i + 1);
		ck_assert_int_eq(w[i].result, -(int)i);
	}
	ck_assert_uint_eq(jobs.nrunning, 0);
	ck_assert_uint_eq(most_threads, 2);
	/* A job that is done can be started again. */
	ck_assert_int_eq(ripc__verbs_job_start(&jobs, &w[1].job), 0);
	sem_post(&w[1].may_end);
	reap(JOBS + 1);
	ck_assert_int_eq(w[1].result, -1);
}
END_TEST

START_TEST(cancel__states)
{
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(ripc__verbs_job_start(&jobs, &w[i].job), 0);
	ck_assert_int_eq(ripc__verbs_job_cancel(&w[2].job), -ECANCELED);
	/* It waits, so that nothing is known of its result. */
	ck_assert_int_eq(ripc__verbs_job_cancel(&w[0].job), 0);
	sem_post(&w[1].may_end);
	while (!atomic_load(&w[1].job.finished))
		sched_yield();
	ck_assert_int_eq(ripc__verbs_job_cancel(&w[1].job), -1);
	ck_assert_int_eq(ripc__verbs_job_cancel(&w[1].job), 0);
	ck_assert_int_eq(w[3].job.state, RIPC__JOB_WAITING);
	sem_post(&w[3].may_end);
	reap(1);
	ck_assert_int_eq(w[3].result, -3);
}
END_TEST

START_TEST(cancel__starts_waiting)
{
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(ripc__verbs_job_start(&jobs, &w[i].job), 0);
	ck_assert_int_eq(ripc__verbs_job_cancel(&w[0].job), 0);
	ck_assert_int_eq(ripc__verbs_job_cancel(&w[1].job), 0);
	sem_post(&w[2].may_end);
	reap(1);
	ck_assert_int_eq(w[2].result, -2);
}
END_TEST

/* Without threads a job fails; beside one that runs it waits for its end. */
START_TEST(start__no_thread)
{
	start_rc = EAGAIN;
	ck_assert_int_eq(ripc__verbs_job_start(&jobs, &w[0].job), -EAGAIN);
	ck_assert_int_eq(w[0].job.state, RIPC__JOB_IDLE);
	start_rc = 0;
	ck_assert_int_eq(ripc__verbs_job_start(&jobs, &w[0].job), 0);
	start_rc = EAGAIN;
	ck_assert_int_eq(ripc__verbs_job_start(&jobs, &w[1].job), 0);
	ck_assert_int_eq(w[1].job.state, RIPC__JOB_WAITING);
	sem_post(&w[0].may_end);
	reap(2);
	ck_assert_int_eq(w[0].result, 0);
	ck_assert_int_eq(w[1].result, -EAGAIN);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/rdma/jobs");
	TCase *tc = tcase_create("jobs");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, start__limit);
	tcase_add_test(tc, cancel__states);
	tcase_add_test(tc, cancel__starts_waiting);
	tcase_add_test(tc, start__no_thread);
	suite_add_tcase(suite, tc);
	return test_main("transport/rdma/jobs", suite);
}
