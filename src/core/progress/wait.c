/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/progress/wait.h"
#include "core/progress/context.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SPIN_MAX_NS \
	(100 * 1000) /* adaptive: longest spin before sleeping; a loaded round trip is shorter */
#define SPIN_MIN_NS (2 * 1000)
/* how soon the agent looks after a context that nobody drives any more */
#define TICK_NS     RIPC__MS
#define TICK_SHIFT_MAX \
	2 /* up to TICK_NS << this while there is always a driver and no long message under way */
#define TICK_SHIFT_MAX_POLL \
	5 /* likewise where waiting threads poll: they asked for a processor of their own */
#define TICKS_PER_STEP 8 /* ticks of one length before they grow */
#define EPOLL_EVENTS   4
#define IDLE_TICKS_MAX 10 /* ticks in one sleep of the driver after which the agent sleeps, too */
/* drivers that leave twice in so short a time do not wake for nothing: it ticks */
#define RESUME_INTERVAL_NS \
	(20 * RIPC__MS)

/* A thread inside ripc__wait(), or the agent. */
struct ripc__waiter {
	struct ripc__list link;  /* in ctx->waiters */
	struct ripc__list queue; /* in the waitq */
	atomic_uint futex;       /* where a follower sleeps */
	bool woken;
	bool on_futex;     /* on word */
	bool asleep;       /* on the descriptors: it is, or was, the driver */
	uint64_t until_ns; /* and for how long */
};

void ripc__waitq_init(struct ripc__waitq *q)
{
	q->generation = 0;
	ripc__list_init(&q->waiters);
}

static void kick(struct ripc *ctx)
{
	uint64_t one = 1;
	ssize_t n;

	/* Once is enough until somebody has woken. */
	if (ctx->wakefd < 0 || ctx->wake_pending)
		return;
	ctx->wake_pending = true;
	n = write(ctx->wakefd, &one, sizeof(one));
	(void)n;
}

static void wake_waiter(struct ripc *ctx, struct ripc__waiter *w)
{
	w->woken = true;
	if (w == ctx->leader) {
		if (w->asleep)
			kick(ctx);
	} else if (w->on_futex) {
		ripc__futex_wake(&w->futex);
	}
}

void ripc__wake(struct ripc *ctx, struct ripc__waitq *q)
{
	struct ripc__list *n;

	q->generation++;
	ripc__list_for_each (n, &q->waiters)
		wake_waiter(ctx, ripc__list_entry(n, struct ripc__waiter, queue));
}

void ripc__wake_all(struct ripc *ctx)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &ctx->waiters)
		wake_waiter(ctx, ripc__list_entry(n, struct ripc__waiter, link));
	if (ctx->leader)
		wake_waiter(ctx, ctx->leader);
}

uint64_t ripc__deadline(struct ripc *ctx, int timeout_ms)
{
	if (timeout_ms < 0)
		return RIPC__NEVER;
	/* Most callers wait at once: one look at the clock does for both. */
	ctx->now_ns = ripc__now(ctx);
	ctx->now_fresh = true;
	return ctx->now_ns + (uint64_t)timeout_ms * RIPC__MS;
}

static void timespec_of(struct timespec *ts, uint64_t ns)
{
	ts->tv_sec = (time_t)(ns / 1000000000u);
	ts->tv_nsec = (long)(ns % 1000000000u);
}

static void RIPC__NO_ANALYSIS sleep_follower(struct ripc *ctx, struct ripc__waiter *w,
					     uint64_t until_ns)
{
	atomic_store_explicit(&w->futex, 0, memory_order_relaxed);
	w->on_futex = true;
	ripc__unlock(ctx);
	ripc__futex_wait(&w->futex, until_ns);
	ripc__lock(ctx);
	w->on_futex = false;
}

/* Lets others have the lock between two rounds. */
static inline void RIPC__NO_ANALYSIS yield_lock(struct ripc *ctx)
{
	if (RIPC__LIKELY(!ripc__lock_contended(ctx)))
		return;
	ripc__unlock(ctx);
	/* One that waits has to wake up first, perhaps on this very processor. */
	sched_yield();
	ripc__lock(ctx);
}

/* Whether what happens to the descriptors wakes the agent. Return: it does as it was told. */
static bool arm_progress(struct ripc *ctx, bool armed)
{
	struct epoll_event ev = {.events = armed ? EPOLLIN : 0};

	if (ctx->progress_disarmed == !armed)
		return true;
	if (epoll_ctl(ctx->progress_epfd, EPOLL_CTL_MOD, ctx->epfd, &ev))
		return false;
	ctx->progress_disarmed = !armed;
	return true;
}

/* One that is about to sleep is told of all that comes. Return: something is there already. */
static bool arm_all(struct ripc *ctx)
{
	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].t && ctx->tp[i].ops->arm(ctx->tp[i].t))
			return true;
	return false;
}

static int sleep_on(int epfd, struct epoll_event *ev, int max, const struct timespec *timeout)
{
	int n = epoll_pwait2(epfd, ev, max, timeout, NULL);

	/* Kernels before 5.11, and sandboxes that do not know the call. */
	if (n < 0 && (errno == ENOSYS || errno == EPERM))
		n = epoll_wait(epfd, ev, max,
			       !timeout ? -1
			       : timeout->tv_sec > 1000
				       ? 1000000
				       : (int)(timeout->tv_sec * 1000 +
					       (timeout->tv_nsec + 999999) / 1000000));
	return n;
}

/* Sleeps on the descriptors until one is readable or until_ns. Releases the lock meanwhile. */
static void RIPC__NO_ANALYSIS sleep_on_descriptors(struct ripc *ctx, struct ripc__waiter *self,
						   uint64_t until_ns)
{
	struct epoll_event ev[EPOLL_EVENTS];
	struct timespec ts, *timeout = NULL;
	bool progress_thread = self == ctx->progress_waiter, resolver = false;
	uint64_t now, count;
	int epfd, n;

	if (ctx->leader == self && arm_all(ctx))
		return;
	if (until_ns != RIPC__NEVER) {
		now = ripc__now(ctx);
		timespec_of(&ts, until_ns > now ? until_ns - now : 0);
		timeout = &ts;
	}
	self->asleep = true;
	self->until_ns = until_ns;
	if (ctx->leader == self) {
		ctx->leader_asleep = true;
		ctx->leader_sleeps++;
	}
	epfd = progress_thread && (ctx->leader != self || arm_progress(ctx, true))
		       ? ctx->progress_epfd
		       : ctx->epfd;
	ripc__unlock(ctx);
	n = sleep_on(epfd, ev, EPOLL_EVENTS, timeout);
	if (epfd != ctx->epfd && n > 0)
		n = epoll_wait(ctx->epfd, ev, EPOLL_EVENTS, 0);
	ripc__lock(ctx);
	self->asleep = false;
	if (ctx->leader == self)
		ctx->leader_asleep = false;
	for (int i = 0; i < n; i++) {
		if (ev[i].data.u32 == RIPC__EPOLL_WAKE) {
			ssize_t got = read(ctx->wakefd, &count, sizeof(count));

			(void)got;
			ctx->wake_pending = false;
			/* It may have been meant for the one who took over from us. */
			if (ctx->leader && ctx->leader != self && ctx->leader_asleep)
				kick(ctx);
		} else if (ev[i].data.u32 == RIPC__EPOLL_RESOLVER) {
			resolver = true;
		}
	}
	if (resolver)
		ctx->resolver_readable = true;
	else if (n >= 0 && n < EPOLL_EVENTS && ctx->leader == self)
		ctx->resolver_polled_ns = ripc__now(ctx);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * The agent may sleep on the descriptors, with the timers of before it was replaced, and hear
 * nothing.
 */
static void kick_progress(struct ripc *ctx)
{
	struct ripc__waiter *progress_thread = ctx->progress_waiter;

	if (!progress_thread || !progress_thread->asleep)
		return;
	arm_progress(ctx, true);
	kick(ctx);
}

/*
 * The agent sleeps where it would as the driver: it is the driver again, without having been woken.
 * Not if it would oversleep; and not again and again, since all that this takes would stand between
 * each message and its answer: then it had better tick.
 */
static bool resume_progress(struct ripc *ctx)
{
	struct ripc__waiter *progress_thread = ctx->progress_waiter;
	uint64_t before = ctx->resumed_ns;

	if (!progress_thread || !progress_thread->asleep || ctx->progress_stop)
		return false;
	ctx->resumed_ns = ctx->now_ns;
	if (ctx->now_ns - before < RESUME_INTERVAL_NS ||
	    ctx->next_timer_ns < progress_thread->until_ns || arm_all(ctx) ||
	    !arm_progress(ctx, true))
		return false;
	atomic_store_explicit(&ctx->app_active, false, memory_order_relaxed);
	atomic_store_explicit(&ctx->leader_asleep, true, memory_order_relaxed);
	ctx->leader = progress_thread;
	return true;
}

/*
 * Nobody drives any more: somebody else who waits does, or the agent must look after the context.
 * slept: things go slowly.
 */
static void pass_leadership(struct ripc *ctx, bool slept)
{
	struct ripc__list *n = ripc__list_first(&ctx->waiters);

	if (!slept)
		atomic_store_explicit(&ctx->app_spun, true, memory_order_relaxed);
	else if (!n && resume_progress(ctx))
		return;
	/*
	 * Before the driver, which the agent's look at both is ordered against: see
	 * progress_tick().
	 */
	atomic_store_explicit(&ctx->app_active, true, memory_order_relaxed);
	ctx->leader = NULL;
	if (n)
		wake_waiter(ctx, ripc__list_entry(n, struct ripc__waiter, link));
	else
		kick_progress(ctx);
}

static void take_leadership(struct ripc *ctx, struct ripc__waiter *w)
{
	/* The agent sleeps on, or else sees on its next look that it is not the driver any more. */
	if (ctx->leader && ctx->leader->asleep && !arm_progress(ctx, false))
		kick(ctx);
	atomic_store_explicit(&ctx->leader, w, memory_order_release);
	atomic_store_explicit(&ctx->leader_asleep, false, memory_order_relaxed);
}

/* Drives until w is woken. fresh: ctx->now_ns is; looked: see ctx->looked. Return: 0 or -ETIMEDOUT. */
static int RIPC__NO_ANALYSIS lead(struct ripc *ctx, struct ripc__waiter *w, uint64_t deadline_ns,
				  bool fresh, bool polled)
{
	uint64_t start = fresh ? ctx->now_ns : ripc__now(ctx);
	uint64_t spin_until = start + (ctx->opt.wait == RIPC__WAIT_BLOCK ? 0 : ctx->spin_ns);
	unsigned round = 0;
	bool slept = false, first = !polled;
	int rc = 0;

	polled = true;
	take_leadership(ctx, w);
	ctx->now_ns = start;
	for (;;) {
		/* Most of what is waited for comes over the lanes there are. */
		if (round & 15)
			ripc__partial_pass(ctx);
		else if (round || first)
			ripc__full_pass(ctx);
		if (w->woken)
			break;
		/* Its receiver is not this thread: he has to wake up first. */
		if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
			ctx->ops->idle(ctx);
		/* The clock is not read in every round: it would be a good part of one. */
		if (!(round & 15)) {
			/* Events of the first round may have read it since. */
			uint64_t now = round ? ripc__now(ctx) : ctx->now_ns;

			ctx->now_ns = now;
			if (now >= deadline_ns) {
				rc = -ETIMEDOUT;
				break;
			}
			if (ctx->opt.wait != RIPC__WAIT_POLL && now >= spin_until) {
				sleep_on_descriptors(ctx, w, earlier(deadline_ns, ctx->next_timer_ns));
				/*
				 * What arrived is dated by when it was seen, not by when the sleep
				 * began.
				 */
				ctx->now_ns = ripc__now(ctx);
				slept = true;
				round = 16;
				if (w->woken) {
					polled = false;
					break;
				}
				continue;
			}
		}
		round++;
		yield_lock(ctx);
		if (w->woken) {
			polled = false;
			break;
		}
	}
	if (ctx->opt.wait == RIPC__WAIT_ADAPTIVE && (round || slept)) {
		/* Spin as long as that pays: what came soon is expected to come soon again. */
		if (!slept || ripc__now(ctx) - start < 2 * SPIN_MAX_NS)
			ctx->spin_ns = SPIN_MAX_NS;
		else
			ctx->spin_ns =
				ctx->spin_ns / 2 > SPIN_MIN_NS ? ctx->spin_ns / 2 : SPIN_MIN_NS;
	}
	/*
	 * What others asked the driver for since its last round, the agent has to do: it must not
	 * sleep on.
	 */
	if (ctx->leader == w)
		pass_leadership(ctx, slept && polled);
	return rc;
}

static int RIPC__NO_ANALYSIS wait_hooked(struct ripc *ctx, uint64_t deadline_ns)
{
	struct ripc__hooks hooks = ctx->hooks;

	if (ripc__now(ctx) >= deadline_ns)
		return -ETIMEDOUT;
	ctx->waiting++;
	ripc__unlock(ctx);
	hooks.idle(hooks.arg, deadline_ns);
	ripc__lock(ctx);
	ctx->waiting--;
	return 0;
}

int RIPC__NO_ANALYSIS ripc__wait(struct ripc *ctx, struct ripc__waitq *q, uint64_t deadline_ns)
{
	struct ripc__waiter w = {.woken = false};
	bool fresh = ctx->now_fresh, polled = ctx->polled;
	int rc = 0;

	/* What it sends may bring something at once, from this very context. */
	polled &= !ctx->delayed_ack.lane;
	ctx->now_fresh = ctx->polled = false;
	ctx->ops->idle(ctx);
	if (ctx->hooks.now)
		return wait_hooked(ctx, deadline_ns);
	ctx->waiting++;
	ripc__list_add(&q->waiters, &w.queue);
	if (!ctx->leader || ctx->leader == ctx->progress_waiter) {
		ripc__list_init(&w.link);
		rc = lead(ctx, &w, deadline_ns, fresh, polled);
	} else {
		ripc__list_add(&ctx->waiters, &w.link);
		while (!w.woken && !rc) {
			sleep_follower(ctx, &w, deadline_ns);
			if (deadline_ns != RIPC__NEVER && !w.woken && ripc__now(ctx) >= deadline_ns)
				rc = -ETIMEDOUT;
		}
		ripc__list_del(&w.link);
		/*
		 * Woken to drive, but the caller may find that it is done: then the next one must,
		 * or the agent.
		 */
		if (!ctx->leader)
			pass_leadership(ctx, false);
	}
	ripc__list_del(&w.queue);
	ctx->waiting--;
	return rc;
}

/*
 * A driver that sleeps for long does so again and again, most likely: the agent lies down where it
 * can become the driver without being woken (see resume_progress()), until a timer that nobody may
 * be there to look after.
 */
static void RIPC__NO_ANALYSIS progress_sleep(struct ripc *ctx, struct ripc__waiter *self)
{
	ripc__lock(ctx);
	if (ctx->leader && ctx->leader_asleep && !ctx->progress_stop && arm_progress(ctx, false))
		sleep_on_descriptors(ctx, self, ctx->next_timer_ns);
	/* It drives from now on. */
	if (ctx->leader == self)
		ctx->leader = NULL;
	ripc__unlock(ctx);
}

/*
 * The agent. While an application thread drives it only ticks, to notice soon when nobody does;
 * while that thread sleeps for long the agent sleeps as well, until the thread leaves the library.
 * It looks without the lock: taking it a thousand times a second would make a spinning driver wait
 * for it.
 */
static void progress_tick(struct ripc *ctx, struct ripc__waiter *self, unsigned *idle_ticks,
			  unsigned *ticks)
{
	struct timespec ts;
	unsigned shift, shift_max, leader_sleeps = ctx->leader_sleeps;

	/*
	 * Of one that sleeps and leaves in turns the agent would have to be told each time; a sign
	 * of life now and then is no such thing.
	 */
	if (leader_sleeps - ctx->leader_sleeps_seen > (*idle_ticks < IDLE_TICKS_MAX - 1 ? 0 : 2))
		*idle_ticks = 0;
	ctx->leader_sleeps_seen = leader_sleeps;
	*idle_ticks = ctx->leader && ctx->leader_asleep && !ctx->app_spun ? *idle_ticks + 1 : 0;
	ctx->app_spun = false;
	ctx->app_active = false;
	if (*idle_ticks > IDLE_TICKS_MAX) {
		progress_sleep(ctx, self);
		/* If the driver sleeps on, as for a sign of life now and then, one tick is enough. */
		*idle_ticks = ctx->app_active ? 0 : IDLE_TICKS_MAX - 1;
		return;
	}
	/*
	 * A thread that has been driving for some time goes on to, most likely: each tick may take
	 * its processor away.
	 */
	shift_max = ctx->opt.wait == RIPC__WAIT_POLL ? TICK_SHIFT_MAX_POLL : TICK_SHIFT_MAX;
	/*
	 * What `driven` tells may be from before something was held back: the tick after this one
	 * is short as well.
	 */
	if (atomic_exchange(&ctx->poll_requested, false) && *ticks > TICKS_PER_STEP - 3)
		*ticks = TICKS_PER_STEP - 3;
	shift = ctx->long_inflight ? 0 : ++*ticks / TICKS_PER_STEP;
	/* Whoever is not seen here sees that this is a longer tick: request_poll(). */
	atomic_store(&ctx->long_tick, shift > 0);
	if (shift && atomic_load(&ctx->poll_requested))
		shift = 0;
	timespec_of(&ts, ripc__clock_ns() + (TICK_NS << (shift < shift_max ? shift : shift_max)));
	sem_clockwait(&ctx->progress_sem, CLOCK_MONOTONIC, &ts);
	atomic_store_explicit(&ctx->long_tick, false, memory_order_relaxed);
}

static void RIPC__NO_ANALYSIS progress_lead(struct ripc *ctx, struct ripc__waiter *self)
{
	ripc__lock(ctx);
	while (!ctx->progress_stop && !ctx->leader && !ctx->app_active) {
		ctx->leader = self;
		ripc__progress(ctx);
		if (!ctx->progress_stop && ctx->leader == self)
			sleep_on_descriptors(ctx, self, ctx->next_timer_ns);
		if (ctx->leader == self)
			ctx->leader = NULL;
	}
	if (!ctx->leader && !ripc__list_empty(&ctx->waiters))
		pass_leadership(ctx, false);
	ripc__unlock(ctx);
}

static void *progress_main(void *arg)
{
	struct ripc *ctx = arg;
	struct ripc__waiter self = {.woken = false};
	unsigned idle_ticks = 0, ticks = 0;

	/* Held-back messages are flushed by this thread within tens of microseconds. */
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	pthread_setname_np(pthread_self(), "ripc-progress");
	ripc__list_init(&self.link);
	ripc__list_init(&self.queue);
	ctx->progress_waiter = &self;
	while (!ctx->progress_stop) {
		if (ctx->leader || ctx->app_active) {
			progress_tick(ctx, &self, &idle_ticks, &ticks);
		} else {
			idle_ticks = ticks = 0;
			progress_lead(ctx, &self);
		}
	}
	ctx->progress_waiter = NULL;
	return NULL;
}

/*
 * If the agent ticks, its ticks are short from now on: whoever drives may leave at any time. Of
 * many calls between two of its looks the first alone costs anything.
 */
static void request_poll(struct ripc *ctx)
{
	if (atomic_load_explicit(&ctx->poll_requested, memory_order_relaxed))
		return;
	atomic_store(&ctx->poll_requested, true);
	if (atomic_exchange(&ctx->long_tick, false))
		sem_post(&ctx->progress_sem);
}

void ripc__progress_request(struct ripc *ctx)
{
	/* The driver looks again before it sleeps; for others ripc__progress() sees to it. */
	if (ctx->in_progress)
		ctx->progress_needed = true;
	if (!ctx->progress_started)
		return;
	request_poll(ctx);
	if (ctx->in_progress)
		return;
	if (ctx->leader) {
		/* A driver that sleeps does not know of the new deadline. */
		if (ctx->leader_asleep)
			kick(ctx);
	} else {
		kick_progress(ctx);
	}
}

void ripc__progress_request_lazy(struct ripc *ctx)
{
	if (!ctx->progress_started || ctx->in_progress || ctx->leader) {
		ripc__progress_request(ctx);
		return;
	}
	/*
	 * As if a thread had just driven: the agent ticks, and need not be woken for each of many
	 * messages.
	 */
	ctx->app_active = true;
	request_poll(ctx);
	kick_progress(ctx);
}

int ripc__progress_thread_start(struct ripc *ctx)
{
	sigset_t all, old;
	int rc;

	sem_init(&ctx->progress_sem, 0, 0);
	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* The agent reads it: set before there is one. */
	ctx->progress_started = true;
	rc = pthread_create(&ctx->progress_thread, NULL, progress_main, ctx);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		ctx->progress_started = false;
		sem_destroy(&ctx->progress_sem);
		return ripc__fail(-rc, "no background thread: %s", ripc_strerror(rc));
	}
	return 0;
}

void RIPC__NO_ANALYSIS ripc__progress_thread_stop(struct ripc *ctx)
{
	if (!ctx->progress_started)
		return;
	ripc__lock(ctx);
	ctx->progress_stop = true;
	sem_post(&ctx->progress_sem);
	arm_progress(ctx, true);
	kick(ctx);
	ripc__unlock(ctx);
	pthread_join(ctx->progress_thread, NULL);
	sem_destroy(&ctx->progress_sem);
	ctx->progress_started = false;
}
