/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ib/worker.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int ripc__ib_worker_init(struct ripc__ib_worker *w)
{
	memset(w, 0, sizeof(*w));
	ripc__list_init(&w->todo);
	ripc__list_init(&w->finished);
	atomic_init(&w->any, false);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0)
		return ripc__fail(-errno, "ib: cannot create an eventfd: %s", strerror(errno));
	return 0;
}

void ripc__ib_worker_fini(struct ripc__ib_worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_broadcast(&w->wake);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->nthreads; i++)
		pthread_join(w->threads[i], NULL);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
}

static void *worker_main(void *arg)
{
	struct ripc__ib_worker *w = arg;

	pthread_mutex_lock(&w->lock);
	while (!w->ending) {
		struct ripc__list *n = ripc__list_take(&w->todo);
		struct ripc__ib_job *job;

		if (!n) {
			w->idle++;
			pthread_cond_wait(&w->wake, &w->lock);
			w->idle--;
			continue;
		}
		job = ripc__list_entry(n, struct ripc__ib_job, link);
		w->waiting--;
		pthread_mutex_unlock(&w->lock);
		job->result = job->work(job);
		pthread_mutex_lock(&w->lock);
		ripc__list_add(&w->finished, &job->link);
		atomic_store_explicit(&w->any, true, memory_order_release);
		eventfd_write(w->fd, 1);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static int spawn(struct ripc__ib_worker *w)
{
	int rc = ripc__thread_start(&w->threads[w->nthreads], NULL, worker_main, w);

	w->nthreads += !rc;
	return rc;
}

int ripc__ib_worker_start(struct ripc__ib_worker *w, struct ripc__ib_job *job)
{
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	if (w->idle <= w->waiting && w->nthreads < RIPC__IB_WORKERS)
		rc = spawn(w);
	if (rc && w->nthreads)
		rc = 0;
	if (!rc) {
		ripc__list_add(&w->todo, &job->link);
		w->waiting++;
		pthread_cond_signal(&w->wake);
	}
	pthread_mutex_unlock(&w->lock);
	if (rc)
		return ripc__fail(rc, "ib: cannot start a worker thread: %s", strerror(-rc));
	return 0;
}

void ripc__ib_worker_reap(struct ripc__ib_worker *w)
{
	struct ripc__list *n;
	eventfd_t count;

	if (!atomic_load_explicit(&w->any, memory_order_acquire))
		return;
	pthread_mutex_lock(&w->lock);
	atomic_store_explicit(&w->any, false, memory_order_relaxed);
	eventfd_read(w->fd, &count);
	while ((n = ripc__list_take(&w->finished))) {
		struct ripc__ib_job *job = ripc__list_entry(n, struct ripc__ib_job, link);

		pthread_mutex_unlock(&w->lock);
		job->done(job, job->result);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
}
