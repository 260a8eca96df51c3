/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "watchdog.h"

#include "board.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK_MS     20
#define THREADS_MAX 8

static struct watched {
	_Atomic(const char *) call; /* NULL: none */
	_Atomic uint64_t limit;     /* the tick at which it hangs */
	atomic_bool used;
} watched[THREADS_MAX];

static _Thread_local struct watched *self;
static _Atomic uint64_t ticks;
static atomic_bool stopped;
static pthread_t thread;

uint64_t watchdog_ms(void)
{
	return ticks * TICK_MS;
}

static void *watchdog_main(void *arg)
{
	while (!stopped) {
		board_pause(TICK_MS);
		ticks++;
		for (struct watched *w = watched; w < watched + THREADS_MAX; w++) {
			const char *call = w->call;

			if (!call || ticks <= w->limit)
				continue;
			board_fault("hangs: %s", call);
			/* With a core file, if the limits permit it. */
			abort();
		}
	}
	return arg;
}

void watchdog_start(void)
{
	stopped = false;
	if (pthread_create(&thread, NULL, watchdog_main, NULL))
		abort();
}

void watchdog_stop(void)
{
	stopped = true;
	pthread_join(thread, NULL);
}

void watchdog_join(void)
{
	for (self = watched; atomic_exchange(&self->used, true); self++)
		if (self + 1 == watched + THREADS_MAX)
			abort();
}

void watchdog_leave(void)
{
	self->used = false;
	self = NULL;
}

void watchdog_begin(const char *call, int timeout_ms)
{
	uint64_t ms = (uint64_t)timeout_ms + WATCHDOG_GRACE_MS;

	self->limit = ticks + ms / TICK_MS;
	self->call = call;
}

void watchdog_end(void)
{
	self->call = NULL;
}
