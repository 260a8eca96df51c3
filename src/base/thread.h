/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The library's own threads. They block all signals, which are for threads of the application. */
#ifndef RIPC_BASE_THREAD_H
#define RIPC_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * attr: NULL: the default. Threads that the new one starts block all signals, too. Return: 0 or a
 * negative errno.
 */
static inline int ripc__thread_start(pthread_t *thread, const pthread_attr_t *attr,
				     void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

#endif
