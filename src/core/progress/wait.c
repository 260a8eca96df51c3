/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/progress/wait.h"
#include "core/context/context.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SPIN_MAX_NS \
	(100 * 1000) /* adaptive: longest spin before sleeping; a loaded round trip is shorter */
#define SPIN_MIN_NS (2 * 1000)
#define TICK_NS     RIPC__MS /* how soon the agent looks after a context that nobody drives any more */
#define TICK_SHIFT \
	2 /* up to TICK_NS << this while there is always a driver and no long message under way */
#define TICK_SHIFT_POLL \
	5 /* likewise where waiting threads poll: they asked for a processor of their own */
#define TICKS_EVEN   8 /* ticks of one length before they grow */
#define EPOLL_EVENTS 4
#define TICKS_QUIET  10 /* ticks in one sleep of the driver after which the agent sleeps, too */
#define OFTEN_NS \
	(20 * RIPC__MS) /* drivers that leave twice in so short a time do not wake for nothing: it ticks */

/* A thread inside ripc__wait(), or the agent. */
struct ripc__waiter {
	struct ripc__list link;  /* in ctx->waiters */
	struct ripc__list queue; /* in the waitq */
	atomic_uint word;        /* where a follower sleeps */
	bool woken;
	bool sleeping;     /* on word */
	bool asleep;       /* on the descriptors: it is, or was, the driver */
	uint64_t until_ns; /* and for how long */
};

void ripc__waitq_init(struct ripc__waitq *q)
{
	q->generation = 0;
	ripc__list_init(&q->waiters);
}

static void poke(struct ripc *ctx)
{
	uint64_t one = 1;
	ssize_t n;

	/* Once is enough until somebody has woken. */
	if (ctx->wakefd < 0 || ctx->poked)
		return;
	ctx->poked = true;
	n = write(ctx->wakefd, &one, sizeof(one));
	(void)n;
}

static void rouse(struct ripc *ctx, struct ripc__waiter *w)
{
	w->woken = true;
	if (w == ctx->driver) {
		if (w->asleep)
			poke(ctx);
	} else if (w->sleeping) {
		ripc__word_set(&w->word);
	}
}

void ripc__wake(struct ripc *ctx, struct ripc__waitq *q)
{
	struct ripc__list *n;

	q->generation++;
	ripc__list_for_each (n, &q->waiters)
		rouse(ctx, ripc__list_entry(n, struct ripc__waiter, queue));
}

void ripc__wake_all(struct ripc *ctx)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &ctx->waiters)
		rouse(ctx, ripc__list_entry(n, struct ripc__waiter, link));
	if (ctx->driver)
		rouse(ctx, ctx->driver);
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

static void RIPC__NO_ANALYSIS follow(struct ripc *ctx, struct ripc__waiter *w, uint64_t until_ns)
{
	atomic_store_explicit(&w->word, 0, memory_order_relaxed);
	w->sleeping = true;
	ripc__unlock(ctx);
	ripc__word_sleep(&w->word, until_ns);
	ripc__lock(ctx);
	w->sleeping = false;
}

/* Lets others have the lock between two rounds. */
static inline void RIPC__NO_ANALYSIS yield_lock(struct ripc *ctx)
{
	if (RIPC__LIKELY(!ripc__lock_wanted(ctx)))
		return;
	ripc__unlock(ctx);
	/* One that waits has to wake up first, perhaps on this very processor. */
	sched_yield();
	ripc__lock(ctx);
}

/* Whether what happens to the descriptors wakes the agent. Return: it does as it was told. */
static bool agent_hears(struct ripc *ctx, bool hears)
{
	struct epoll_event ev = {.events = hears ? EPOLLIN : 0};

	if (ctx->agent_mute == !hears)
		return true;
	if (epoll_ctl(ctx->agent_epfd, EPOLL_CTL_MOD, ctx->epfd, &ev))
		return false;
	ctx->agent_mute = !hears;
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
	bool agent = self == ctx->agent_waiter, resolver = false;
	uint64_t now, count;
	int epfd, n;

	if (ctx->driver == self && arm_all(ctx))
		return;
	if (until_ns != RIPC__NEVER) {
		now = ripc__now(ctx);
		timespec_of(&ts, until_ns > now ? until_ns - now : 0);
		timeout = &ts;
	}
	self->asleep = true;
	self->until_ns = until_ns;
	if (ctx->driver == self) {
		ctx->driver_asleep = true;
		ctx->sleeps++;
	}
	epfd = agent && (ctx->driver != self || agent_hears(ctx, true)) ? ctx->agent_epfd : ctx->epfd;
	ripc__unlock(ctx);
	n = sleep_on(epfd, ev, EPOLL_EVENTS, timeout);
	if (epfd != ctx->epfd && n > 0)
		n = epoll_wait(ctx->epfd, ev, EPOLL_EVENTS, 0);
	ripc__lock(ctx);
	self->asleep = false;
	if (ctx->driver == self)
		ctx->driver_asleep = false;
	for (int i = 0; i < n; i++) {
		if (ev[i].data.u32 == RIPC__EPOLL_WAKE) {
			ssize_t got = read(ctx->wakefd, &count, sizeof(count));

			(void)got;
			ctx->poked = false;
			/* It may have been meant for the one who took over from us. */
			if (ctx->driver && ctx->driver != self && ctx->driver_asleep)
				poke(ctx);
		} else if (ev[i].data.u32 == RIPC__EPOLL_RESOLVER) {
			resolver = true;
		}
	}
	if (resolver)
		ctx->resolver_readable = true;
	else if (n >= 0 && n < EPOLL_EVENTS && ctx->driver == self)
		ctx->resolver_asked_ns = ripc__now(ctx);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The agent may sleep on the descriptors, with the timers of before it was replaced, and hear nothing. */
static void agent_rouse(struct ripc *ctx)
{
	struct ripc__waiter *agent = ctx->agent_waiter;

	if (!agent || !agent->asleep)
		return;
	agent_hears(ctx, true);
	poke(ctx);
}

/*
 * The agent sleeps where it would as the driver: it is the driver again, without having been woken. Not if it would oversleep; and not
 * again and again, since all that this takes would stand between each message and its answer: then it had better tick.
 */
static bool give_back(struct ripc *ctx)
{
	struct ripc__waiter *agent = ctx->agent_waiter;
	uint64_t before = ctx->gave_ns;

	if (!agent || !agent->asleep || ctx->agent_stop)
		return false;
	ctx->gave_ns = ctx->now_ns;
	if (ctx->now_ns - before < OFTEN_NS || ctx->next_timer_ns < agent->until_ns ||
	    arm_all(ctx) || !agent_hears(ctx, true))
		return false;
	atomic_store_explicit(&ctx->driven, false, memory_order_relaxed);
	atomic_store_explicit(&ctx->driver_asleep, true, memory_order_relaxed);
	ctx->driver = agent;
	return true;
}

/* Nobody drives any more: somebody else who waits does, or the agent must look after the context. slept: things go slowly. */
static void hand_over(struct ripc *ctx, bool slept)
{
	struct ripc__list *n = ripc__list_first(&ctx->waiters);

	if (!slept)
		atomic_store_explicit(&ctx->warm, true, memory_order_relaxed);
	else if (!n && give_back(ctx))
		return;
	/* Before the driver, which the agent's look at both is ordered against: see agent_watch(). */
	atomic_store_explicit(&ctx->driven, true, memory_order_relaxed);
	ctx->driver = NULL;
	if (n)
		rouse(ctx, ripc__list_entry(n, struct ripc__waiter, link));
	else
		agent_rouse(ctx);
}

static void take_over(struct ripc *ctx, struct ripc__waiter *w)
{
	/* The agent sleeps on, or else sees on its next look that it is not the driver any more. */
	if (ctx->driver && ctx->driver->asleep && !agent_hears(ctx, false))
		poke(ctx);
	atomic_store_explicit(&ctx->driver, w, memory_order_release);
	atomic_store_explicit(&ctx->driver_asleep, false, memory_order_relaxed);
}

/* Drives until w is woken. fresh: ctx->now_ns is; looked: see ctx->looked. Return: 0 or -ETIMEDOUT. */
static int RIPC__NO_ANALYSIS drive(struct ripc *ctx, struct ripc__waiter *w, uint64_t deadline_ns,
				   bool fresh, bool looked)
{
	uint64_t start = fresh ? ctx->now_ns : ripc__now(ctx);
	uint64_t spin_until = start + (ctx->opt.wait == RIPC__WAIT_BLOCK ? 0 : ctx->spin_ns);
	unsigned round = 0;
	bool slept = false, first = !looked;
	int rc = 0;

	looked = true;
	take_over(ctx, w);
	ctx->now_ns = start;
	for (;;) {
		/* Most of what is waited for comes over the lanes there are. */
		if (round & 15)
			ripc__round_part(ctx);
		else if (round || first)
			ripc__round(ctx);
		if (w->woken)
			break;
		/* Its receiver is not this thread: he has to wake up first. */
		if (RIPC__UNLIKELY(ctx->done.lane))
			ripc__done_unanswered(ctx);
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
				/* What arrived is dated by when it was seen, not by when the sleep began. */
				ctx->now_ns = ripc__now(ctx);
				slept = true;
				round = 16;
				if (w->woken) {
					looked = false;
					break;
				}
				continue;
			}
		}
		round++;
		yield_lock(ctx);
		if (w->woken) {
			looked = false;
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
	/* What others asked the driver for since its last round, the agent has to do: it must not sleep on. */
	if (ctx->driver == w)
		hand_over(ctx, slept && looked);
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
	bool fresh = ctx->now_fresh, looked = ctx->looked;
	int rc = 0;

	/* What it sends may bring something at once, from this very context. */
	looked &= !ctx->done.lane;
	ctx->now_fresh = ctx->looked = false;
	ripc__done_unanswered(ctx);
	if (ctx->hooks.now)
		return wait_hooked(ctx, deadline_ns);
	ctx->waiting++;
	ripc__list_add(&q->waiters, &w.queue);
	if (!ctx->driver || ctx->driver == ctx->agent_waiter) {
		ripc__list_init(&w.link);
		rc = drive(ctx, &w, deadline_ns, fresh, looked);
	} else {
		ripc__list_add(&ctx->waiters, &w.link);
		while (!w.woken && !rc) {
			follow(ctx, &w, deadline_ns);
			if (deadline_ns != RIPC__NEVER && !w.woken && ripc__now(ctx) >= deadline_ns)
				rc = -ETIMEDOUT;
		}
		ripc__list_del(&w.link);
		/* Woken to drive, but the caller may find that it is done: then the next one must, or the agent. */
		if (!ctx->driver)
			hand_over(ctx, false);
	}
	ripc__list_del(&w.queue);
	ctx->waiting--;
	return rc;
}

/*
 * A driver that sleeps for long does so again and again, most likely: the agent lies down where it can become the driver without being
 * woken (see give_back()), until a timer that nobody may be there to look after.
 */
static void RIPC__NO_ANALYSIS agent_rest(struct ripc *ctx, struct ripc__waiter *self)
{
	ripc__lock(ctx);
	if (ctx->driver && ctx->driver_asleep && !ctx->agent_stop && agent_hears(ctx, false))
		sleep_on_descriptors(ctx, self, ctx->next_timer_ns);
	/* It drives from now on. */
	if (ctx->driver == self)
		ctx->driver = NULL;
	ripc__unlock(ctx);
}

/*
 * The agent. While an application thread drives it only ticks, to notice soon when nobody does; while that thread sleeps
 * for long the agent sleeps as well, until the thread leaves the library. It looks without the lock: taking it a thousand
 * times a second would make a spinning driver wait for it.
 */
static void agent_watch(struct ripc *ctx, struct ripc__waiter *self, unsigned *quiet, unsigned *ticks)
{
	struct timespec ts;
	unsigned shift, most, sleeps = ctx->sleeps;

	/* Of one that sleeps and leaves in turns the agent would have to be told each time; a sign of life now and then is no such thing. */
	if (sleeps - ctx->sleeps_seen > (*quiet < TICKS_QUIET - 1 ? 0 : 2))
		*quiet = 0;
	ctx->sleeps_seen = sleeps;
	*quiet = ctx->driver && ctx->driver_asleep && !ctx->warm ? *quiet + 1 : 0;
	ctx->warm = false;
	ctx->driven = false;
	if (*quiet > TICKS_QUIET) {
		agent_rest(ctx, self);
		/* If the driver sleeps on, as for a sign of life now and then, one tick is enough. */
		*quiet = ctx->driven ? 0 : TICKS_QUIET - 1;
		return;
	}
	/* A thread that has been driving for some time goes on to, most likely: each tick may take its processor away. */
	most = ctx->opt.wait == RIPC__WAIT_POLL ? TICK_SHIFT_POLL : TICK_SHIFT;
	/* What `driven` tells may be from before something was held back: the tick after this one is short as well. */
	if (atomic_exchange(&ctx->held_back, false) && *ticks > TICKS_EVEN - 3)
		*ticks = TICKS_EVEN - 3;
	shift = ctx->unfinished ? 0 : ++*ticks / TICKS_EVEN;
	/* Whoever is not seen here sees that this is a longer tick: look_soon(). */
	atomic_store(&ctx->dozing, shift > 0);
	if (shift && atomic_load(&ctx->held_back))
		shift = 0;
	timespec_of(&ts, ripc__clock_ns() + (TICK_NS << (shift < most ? shift : most)));
	sem_clockwait(&ctx->agent_sem, CLOCK_MONOTONIC, &ts);
	atomic_store_explicit(&ctx->dozing, false, memory_order_relaxed);
}

static void RIPC__NO_ANALYSIS agent_drive(struct ripc *ctx, struct ripc__waiter *self)
{
	ripc__lock(ctx);
	while (!ctx->agent_stop && !ctx->driver && !ctx->driven) {
		ctx->driver = self;
		ripc__progress(ctx);
		if (!ctx->agent_stop && ctx->driver == self)
			sleep_on_descriptors(ctx, self, ctx->next_timer_ns);
		if (ctx->driver == self)
			ctx->driver = NULL;
	}
	if (!ctx->driver && !ripc__list_empty(&ctx->waiters))
		hand_over(ctx, false);
	ripc__unlock(ctx);
}

static void *agent_main(void *arg)
{
	struct ripc *ctx = arg;
	struct ripc__waiter self = {.woken = false};
	unsigned quiet = 0, ticks = 0;

	/* Held-back messages are flushed by this thread within tens of microseconds. */
	prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	pthread_setname_np(pthread_self(), "ripc-agent");
	ripc__list_init(&self.link);
	ripc__list_init(&self.queue);
	ctx->agent_waiter = &self;
	while (!ctx->agent_stop) {
		if (ctx->driver || ctx->driven) {
			agent_watch(ctx, &self, &quiet, &ticks);
		} else {
			quiet = ticks = 0;
			agent_drive(ctx, &self);
		}
	}
	ctx->agent_waiter = NULL;
	return NULL;
}

/*
 * If the agent ticks, its ticks are short from now on: whoever drives may leave at any time. Of many calls between two of its looks
 * the first alone costs anything.
 */
static void look_soon(struct ripc *ctx)
{
	if (atomic_load_explicit(&ctx->held_back, memory_order_relaxed))
		return;
	atomic_store(&ctx->held_back, true);
	if (atomic_exchange(&ctx->dozing, false))
		sem_post(&ctx->agent_sem);
}

void ripc__agent_need(struct ripc *ctx)
{
	/* The driver looks again before it sleeps; for others ripc__progress() sees to it. */
	if (ctx->in_progress)
		ctx->needed = true;
	if (!ctx->agent_started)
		return;
	look_soon(ctx);
	if (ctx->in_progress)
		return;
	if (ctx->driver) {
		/* A driver that sleeps does not know of the new deadline. */
		if (ctx->driver_asleep)
			poke(ctx);
	} else {
		agent_rouse(ctx);
	}
}

void ripc__agent_soon(struct ripc *ctx)
{
	if (!ctx->agent_started || ctx->in_progress || ctx->driver) {
		ripc__agent_need(ctx);
		return;
	}
	/* As if a thread had just driven: the agent ticks, and need not be woken for each of many messages. */
	ctx->driven = true;
	look_soon(ctx);
	agent_rouse(ctx);
}

int ripc__agent_start(struct ripc *ctx)
{
	sigset_t all, old;
	int rc;

	sem_init(&ctx->agent_sem, 0, 0);
	/* The application's signals are for its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* The agent reads it: set before there is one. */
	ctx->agent_started = true;
	rc = pthread_create(&ctx->agent, NULL, agent_main, ctx);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		ctx->agent_started = false;
		sem_destroy(&ctx->agent_sem);
		return ripc__fail(-rc, "no background thread: %s", ripc_strerror(rc));
	}
	return 0;
}

void RIPC__NO_ANALYSIS ripc__agent_stop(struct ripc *ctx)
{
	if (!ctx->agent_started)
		return;
	ripc__lock(ctx);
	ctx->agent_stop = true;
	sem_post(&ctx->agent_sem);
	agent_hears(ctx, true);
	poke(ctx);
	ripc__unlock(ctx);
	pthread_join(ctx->agent, NULL);
	sem_destroy(&ctx->agent_sem);
	ctx->agent_started = false;
}
