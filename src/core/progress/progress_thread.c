/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/progress/progress_thread.h"
#include "base/thread.h"
#include "core/progress/context.h"
#include "core/progress/descriptors.h"

#include <sys/mman.h>
#include <sys/prctl.h>

/* Bytes for a guard page and thread-local storage. */
#define STACK_EXTRA ((size_t)1 << 20)

static void tick_sleep(struct ripc *ctx, uint64_t tick_ns)
{
	uint64_t until = ripc__clock_ns() + tick_ns;
	struct timespec ts = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};

	sem_clockwait(&ctx->progress.sem, CLOCK_MONOTONIC, &ts);
}

/* A pass, and a sleep if the thread still leads and nothing is left to do. */
static void lead(struct ripc *ctx)
{
	struct ripc__progress *p = &ctx->progress;
	struct ripc__progress_state s;
	bool unmasked;

	ripc__progress(ctx);
	s = ripc__progress_state(p);
	if (s.thread != RIPC__THREAD_LEADING)
		return;
	if (!s.stop && ripc__transports_arm(ctx, false)) {
		/* A peer that sends without a pause keeps the thread here. */
		ripc__lock_yield(ctx);
		return;
	}
	unmasked = ripc__descriptors_mask(ctx, false);
	p->thread_wake_ns = ctx->next_timer_ns;
	s = ripc__progress_step(ctx, RIPC__PROGRESS_BLOCK, NULL).next;
	if (s.thread == RIPC__THREAD_BLOCKED)
		ripc__descriptors_sleep(ctx, unmasked ? p->thread_epfd : p->epfd, p->thread_wake_ns,
					RIPC__PROGRESS_THREAD_WAKE);
}

/* A leader that sleeps for long does so again and again, most likely. */
static void stand_by(struct ripc *ctx)
{
	struct ripc__progress *p = &ctx->progress;

	/* No other thread may be there to run the timer that is next. */
	p->thread_wake_ns = ctx->next_timer_ns;
	if (ripc__progress_state(p).thread == RIPC__THREAD_STANDBY)
		ripc__descriptors_sleep(ctx, p->thread_epfd, p->thread_wake_ns,
					RIPC__PROGRESS_THREAD_WAKE);
	else
		ripc__progress_step(ctx, RIPC__PROGRESS_THREAD_WAKE, NULL);
}

static void RIPC__NO_ANALYSIS run_locked(struct ripc *ctx, enum ripc__progress_event event)
{
	struct ripc__progress_state s;

	ripc__lock(ctx);
	ripc__progress_step(ctx, event, NULL);
	while ((s = ripc__progress_state(&ctx->progress)).thread != RIPC__THREAD_RUNNING) {
		if (s.thread == RIPC__THREAD_LEADING)
			lead(ctx);
		else
			stand_by(ctx);
	}
	/* The application thread that led meanwhile may have left its followers behind. */
	if (s.leader == RIPC__LEADER_NONE && !ripc__list_empty(&ctx->progress.followers))
		ripc__leader_leave(ctx, false, false);
	ripc__unlock(ctx);
}

static void *progress_main(void *arg)
{
	struct ripc *ctx = arg;
	struct ripc__progress_input in = {.wait_poll = ctx->opt.wait == RIPC__WAIT_POLL};

	/* Held-back messages are flushed by this thread within tens of microseconds. */
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	pthread_setname_np(pthread_self(), "ripc-progress");
	for (;;) {
		struct ripc__progress_step step;

		in.long_inflight =
			atomic_load_explicit(&ctx->long_inflight, memory_order_relaxed) > 0;
		step = ripc__progress_step(ctx, RIPC__PROGRESS_TICK, &in);
		if (step.actions & RIPC__DO_QUIT)
			break;
		if (step.actions & RIPC__DO_TICK)
			tick_sleep(ctx, step.tick_ns);
		else
			run_locked(ctx, step.actions & RIPC__DO_LEAD ? RIPC__PROGRESS_LEAD
								     : RIPC__PROGRESS_STAND_BY);
	}
	ripc__progress_step(ctx, RIPC__PROGRESS_EXIT, NULL);
	return NULL;
}

/*
 * pthread_create() reports -EAGAIN for the limit of threads and for a lack of memory alike. Return:
 * the cause, explained.
 */
static int not_started(int rc)
{
	pthread_attr_t attr;
	size_t stack = 0;
	void *p;

	if (rc != -EAGAIN || pthread_attr_init(&attr))
		return ripc__fail(rc, "cannot start the progress thread: %s", ripc_strerror(rc));
	pthread_attr_getstacksize(&attr, &stack);
	pthread_attr_destroy(&attr);
	stack += STACK_EXTRA;
	p = mmap(NULL, stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED)
		return ripc__fail(-ENOMEM,
				  "no memory for the stack of the progress thread: %zu KiB",
				  stack >> 10);
	munmap(p, stack);
	return ripc__fail(rc, "cannot start the progress thread: the limit of threads is reached; "
			      "raise it with ulimit -u, or the cgroup's pids.max");
}

int ripc__progress_thread_start(struct ripc *ctx)
{
	int rc;

	sem_init(&ctx->progress.sem, 0, 0);
	ripc__progress_step(ctx, RIPC__PROGRESS_START, NULL);
	rc = ripc__thread_start(&ctx->progress.thread, NULL, progress_main, ctx);
	if (rc) {
		ripc__progress_step(ctx, RIPC__PROGRESS_EXIT, NULL);
		sem_destroy(&ctx->progress.sem);
		return not_started(rc);
	}
	return 0;
}

void RIPC__NO_ANALYSIS ripc__progress_thread_stop(struct ripc *ctx)
{
	if (ripc__progress_state(&ctx->progress).thread == RIPC__THREAD_OFF)
		return;
	ripc__lock(ctx);
	ripc__progress_step(ctx, RIPC__PROGRESS_STOP, NULL);
	ripc__unlock(ctx);
	pthread_join(ctx->progress.thread, NULL);
	sem_destroy(&ctx->progress.sem);
}
