/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/progress/wait.h"
#include "core/progress/context.h"
#include "core/progress/descriptors.h"

#include <assert.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SPIN_MAX_NS   (100 * 1000) /* wait=adaptive: longest spin; a loaded round trip is shorter */
#define SPIN_MIN_NS   (2 * 1000)
#define STREAM_NS     (20 * 1000) /* spin after payload of an unfinished message */
#define FULL_INTERVAL 16          /* one pass of so many is a full one; a power of two */
/* Calls with timeout 0: one poll of so many is a full pass */
#define NOWAIT_FULL_INTERVAL 32
/* and calls at shorter intervals take the lead from the progress thread. */
#define NOWAIT_INTERVAL_NS RIPC__MS

/* A thread inside ripc__wait(). */
struct ripc__waiter {
	struct ripc__list link;  /* of a follower, in ctx->progress.followers */
	struct ripc__list queue; /* in the waitq */
	ripc__poll_fn *poll;     /* or NULL */
	void *poll_arg;
	atomic_uint futex; /* a follower sleeps on it */
	bool woken;
	bool on_futex; /* it does */
};

void ripc__waitq_init(struct ripc__waitq *q)
{
	ripc__list_init(&q->waiters);
}

static void notify_leader(struct ripc *ctx)
{
	/* A leader that spins wakes itself for each message: no call for that. */
	if (ripc__progress_leader_asleep(ripc__progress_state(&ctx->progress)))
		ripc__progress_step(ctx, RIPC__PROGRESS_NOTIFY, NULL);
}

static void wake_waiter(struct ripc *ctx, struct ripc__waiter *w)
{
	w->woken = true;
	if (w == ctx->progress.leader)
		notify_leader(ctx);
	else if (w->on_futex)
		ripc__futex_wake(&w->futex);
}

void ripc__wake_waiters(struct ripc *ctx, struct ripc__waitq *q)
{
	struct ripc__waiter *w;

	ripc__list_for_each_entry (w, &q->waiters, queue)
		wake_waiter(ctx, w);
}

void ripc__wake_all(struct ripc *ctx)
{
	struct ripc__waiter *w;

	ripc__list_for_each_entry (w, &ctx->progress.followers, link)
		wake_waiter(ctx, w);
	if (ctx->progress.leader)
		ctx->progress.leader->woken = true;
	notify_leader(ctx);
}

uint64_t ripc__deadline(struct ripc *ctx, int timeout_ms)
{
	if (timeout_ms < 0)
		return RIPC__NEVER;
	/* Most callers wait at once, and use the same time. */
	return ripc__now_read(ctx) + (uint64_t)timeout_ms * RIPC__MS;
}

#define FAR_MS 100

/* Not before the present time, and less than 10 ms, a tick of the kernel, after it. Cheap. */
static uint64_t clock_coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec + 10 * RIPC__MS;
}

/* The present time, or that of the coarse clock if the deadline is far. */
static uint64_t now_for(struct ripc *ctx, uint64_t deadline_ns)
{
	uint64_t coarse_ns = ctx->hooks.now ? RIPC__NEVER : clock_coarse_ns();

	return deadline_ns > coarse_ns && deadline_ns - coarse_ns > FAR_MS * RIPC__MS
		       ? coarse_ns
		       : ripc__now(ctx);
}

uint64_t ripc__deadline_far(struct ripc *ctx, int timeout_ms)
{
	if (timeout_ms < FAR_MS || ctx->hooks.now)
		return ripc__deadline(ctx, timeout_ms);
	return clock_coarse_ns() + (uint64_t)timeout_ms * RIPC__MS;
}

bool ripc__deadline_passed(struct ripc *ctx, uint64_t deadline_ns)
{
	return deadline_ns != RIPC__NEVER && now_for(ctx, deadline_ns) >= deadline_ns;
}

uint32_t ripc__remaining_ms(struct ripc *ctx, uint64_t deadline_ns)
{
	uint64_t now, ms;

	if (deadline_ns == RIPC__NEVER)
		return UINT32_MAX;
	now = now_for(ctx, deadline_ns);
	if (now >= deadline_ns)
		return 0;
	ms = (deadline_ns - now + RIPC__MS - 1) / RIPC__MS;
	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX - 1;
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

/* The progress thread leads again without being woken. Return: whether it does. */
static bool resume_thread(struct ripc *ctx)
{
	struct ripc__progress *p = &ctx->progress;
	uint64_t last = p->resumed_ns;

	if (ripc__progress_state(p).thread != RIPC__THREAD_STANDBY)
		return false;
	/* Leaving is counted even if it does not resume: frequent leavers let the thread tick. */
	p->resumed_ns = ctx->now_ns;
	if (!ripc__progress_may_resume(ripc__progress_state(p), ctx->now_ns, last,
				       p->thread_wake_ns, ctx->next_timer_ns))
		return false;
	/* A transport may have left a kick unread to deliver the message first. */
	if (ripc__transports_arm(ctx, false)) {
		ripc__full_pass(ctx);
		if (ripc__transports_arm(ctx, false) || ctx->next_timer_ns < p->thread_wake_ns)
			return false;
	}
	if (!ripc__descriptors_mask(ctx, false))
		return false;
	ripc__progress_step(ctx, RIPC__PROGRESS_RESUME, NULL);
	return true;
}

void ripc__leader_leave(struct ripc *ctx, bool slept, bool polled)
{
	struct ripc__progress *p = &ctx->progress;
	struct ripc__list *n = ripc__list_first(&p->followers);
	struct ripc__progress_input in = {.followers = n != NULL, .slept = slept};

	p->leader = NULL;
	if (polled && !n && resume_thread(ctx))
		return;
	if (ripc__progress_step(ctx, RIPC__PROGRESS_LEAVE, &in).actions & RIPC__DO_FOLLOWER) {
		assert(n);
		wake_waiter(ctx, ripc__list_entry(n, struct ripc__waiter, link));
	}
}

#define EMPTY_POLLS_MAX 4 /* an application with more of them in a row spins */

void ripc__ready_fd_set(struct ripc *ctx, struct ripc__ready_fd *r, bool readable)
{
	eventfd_t count;

	/* The progress thread leads: the application sleeps, so it is not one that polls. */
	if (readable && ripc__progress_state(&ctx->progress).leader == RIPC__LEADER_THREAD)
		r->empty_polls = 0;
	if (readable)
		eventfd_write(r->fd, 1);
	else
		eventfd_read(r->fd, &count);
}

int ripc__ready_fd_open(struct ripc *ctx, struct ripc__ready_fd *r, bool readable)
{
	if (r->fd >= 0)
		return r->fd;
	r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->fd < 0)
		return -errno;
	if (readable)
		ripc__ready_fd_set(ctx, r, true);
	return r->fd;
}

void ripc__ready_fd_close(struct ripc *ctx, struct ripc__ready_fd *r)
{
	if (r->fd < 0)
		return;
	/* Wakes threads in poll(2): for the kernel they use the descriptor until they return. */
	ripc__ready_fd_set(ctx, r, true);
	close(r->fd);
	r->fd = -1;
}

void ripc__poll_before_sleep(struct ripc *ctx, struct ripc__ready_fd *r)
{
	if (r->fd < 0 || r->empty_polls >= EMPTY_POLLS_MAX ||
	    ripc__progress_state(&ctx->progress).leader != RIPC__LEADER_THREAD)
		ripc__poll_nowait(ctx);
}

void ripc__poll_pass_leadership(struct ripc *ctx, struct ripc__ready_fd *r)
{
	if (r->fd < 0 || r->empty_polls >= EMPTY_POLLS_MAX)
		return;
	r->empty_polls++;
	if (!ctx->hooks.now)
		ripc__progress_step(ctx, RIPC__PROGRESS_PASS_LEAD, NULL);
}

void ripc__poll_nowait(struct ripc *ctx)
{
	struct ripc__progress_state s = ripc__progress_state(&ctx->progress);
	uint64_t last_ns = ctx->nowait_ns;

	if (ctx->hooks.now || ctx->pass != RIPC__PASS_NONE || ctx->closing ||
	    (s.leader != RIPC__LEADER_NONE && s.leader != RIPC__LEADER_THREAD)) {
		ripc__progress(ctx);
		return;
	}
	if (s.leader == RIPC__LEADER_NONE) {
		/* Only full passes read the clock, as the first one after a tick. */
		if (!s.app_active) {
			ripc__progress_polled(ctx);
			ctx->poll_count = 0;
		}
		if (ctx->poll_count++ % NOWAIT_FULL_INTERVAL) {
			ripc__now_stale_begin(ctx);
			ripc__partial_pass(ctx);
			ripc__now_stale_end(ctx);
		} else {
			ctx->now_ns = ripc__now(ctx);
			ripc__full_pass(ctx);
		}
		return;
	}
	ctx->nowait_ns = ripc__now(ctx);
	if (ctx->nowait_ns - last_ns > NOWAIT_INTERVAL_NS) {
		ripc__progress(ctx);
		return;
	}
	ripc__progress_step(ctx, RIPC__PROGRESS_TAKE, NULL);
	ctx->now_ns = ctx->nowait_ns;
	ripc__full_pass(ctx);
	ripc__leader_leave(ctx, false, false);
}

/*
 * As the leader, until a descriptor is readable, a timer is due, or deadline_ns. Then ctx->now_ns
 * is the present time. Return: whether it slept and transports alone woke it.
 */
static bool sleep_leader(struct ripc *ctx, uint64_t deadline_ns)
{
	uint64_t until_ns = deadline_ns < ctx->next_timer_ns ? deadline_ns : ctx->next_timer_ns;

	if (ripc__transports_arm(ctx, false)) {
		ctx->now_ns = ripc__now(ctx);
		return false;
	}
	ripc__progress_step(ctx, RIPC__PROGRESS_SLEEP, NULL);
	return ripc__descriptors_sleep(ctx, ctx->progress.epfd, until_ns, RIPC__PROGRESS_WAKE);
}

/*
 * A message woke the leader: polls for it without a pass. The kick stays unread until the next
 * pass, so a progress thread that stands by must not sleep before that. Return: whether w has what
 * it waits for.
 */
static bool poll_awake(struct ripc *ctx, const struct ripc__waiter *w)
{
	if (!w->poll || ctx->closing || (!w->poll(ctx, w->poll_arg) && !w->woken))
		return false;
	if (ripc__progress_state(&ctx->progress).thread == RIPC__THREAD_STANDBY)
		ripc__full_pass(ctx);
	return true;
}

/* wait=adaptive: the leader spins as long as that pays. Messages that came soon come soon again. */
static void adapt_spin(struct ripc *ctx, uint64_t start_ns, bool slept)
{
	uint64_t *spin_ns = &ctx->progress.spin_ns;

	if (!slept || ripc__now(ctx) - start_ns < 2 * SPIN_MAX_NS)
		*spin_ns = SPIN_MAX_NS;
	else
		*spin_ns = *spin_ns / 2 > SPIN_MIN_NS ? *spin_ns / 2 : SPIN_MIN_NS;
}

/* Whether a transport is in the middle of a message. */
static bool receiving(struct ripc *ctx)
{
	bool any = false;

	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].t && ctx->tp[i].ops->receiving)
			any |= ctx->tp[i].ops->receiving(ctx->tp[i].t);
	return any;
}

/*
 * Leads until w is woken. fresh: ctx->now_ns is the present time; polled: a full pass has just been
 * made. Return: 0 or -ETIMEDOUT.
 */
static int RIPC__NO_ANALYSIS lead(struct ripc *ctx, struct ripc__waiter *w, uint64_t deadline_ns,
				  bool fresh, bool polled)
{
	uint64_t start = fresh ? ctx->now_ns : ripc__now(ctx);
	uint64_t sleep_ns = start + (ctx->opt.wait == RIPC__WAIT_BLOCK ? 0 : ctx->progress.spin_ns);
	unsigned pass = 0;
	bool slept = false, first = !polled;
	int rc = 0;

	polled = true;
	ripc__progress_step(ctx, RIPC__PROGRESS_TAKE, NULL);
	ctx->progress.leader = w;
	ctx->now_ns = start;
	for (;;) {
		/* Most messages come over lanes that are up. */
		if (pass % FULL_INTERVAL)
			ripc__partial_pass(ctx);
		else if (pass || first)
			ripc__full_pass(ctx);
		if (w->woken)
			break;
		/* The receiver of the message is a follower, and has to wake up first. */
		if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
			ctx->ops->idle(ctx);
		/* Reading the clock would be a good part of a pass. */
		if (!(pass % FULL_INTERVAL)) {
			/* Events of the first pass may have read it since. */
			uint64_t now = pass ? ripc__now(ctx) : ctx->now_ns;

			ctx->now_ns = now;
			if (now >= deadline_ns) {
				rc = -ETIMEDOUT;
				break;
			}
			if (now >= sleep_ns && ctx->opt.wait == RIPC__WAIT_ADAPTIVE &&
			    receiving(ctx))
				sleep_ns = now + STREAM_NS;
			if (now >= sleep_ns && ctx->opt.wait != RIPC__WAIT_POLL) {
				bool by_message = sleep_leader(ctx, deadline_ns);

				slept = true;
				pass = FULL_INTERVAL;
				if (w->woken) {
					polled = false;
					break;
				}
				if (by_message && poll_awake(ctx, w))
					break;
				continue;
			}
		}
		pass++;
		ripc__lock_yield(ctx);
		if (w->woken) {
			polled = false;
			break;
		}
	}
	if (ctx->opt.wait == RIPC__WAIT_ADAPTIVE && (pass || slept))
		adapt_spin(ctx, start, slept);
	/* Requests since the last pass are the progress thread's: then it must not sleep on. */
	ripc__leader_leave(ctx, slept && polled, polled);
	return rc;
}

static int wait_hooked(struct ripc *ctx, uint64_t deadline_ns)
{
	struct ripc__hooks hooks = ctx->hooks;

	if (ripc__now(ctx) >= deadline_ns)
		return -ETIMEDOUT;
	ripc__lock_suspend(ctx);
	hooks.idle(hooks.arg, deadline_ns);
	ripc__lock_resume(ctx);
	return 0;
}

static int follow(struct ripc *ctx, struct ripc__waiter *w, uint64_t deadline_ns)
{
	int rc = 0;

	ripc__list_add(&ctx->progress.followers, &w->link);
	while (!w->woken && !rc) {
		sleep_follower(ctx, w, deadline_ns);
		if (deadline_ns != RIPC__NEVER && !w->woken && ripc__now(ctx) >= deadline_ns)
			rc = -ETIMEDOUT;
	}
	ripc__list_del(&w->link);
	/* The caller may be done, and not wait again: then another thread has to lead. */
	if (ripc__progress_state(&ctx->progress).leader == RIPC__LEADER_NONE)
		ripc__leader_leave(ctx, false, false);
	return rc;
}

int ripc__wait(struct ripc *ctx, struct ripc__waitq *q, uint64_t deadline_ns)
{
	return ripc__wait_polling(ctx, q, deadline_ns, NULL, NULL);
}

int RIPC__NO_ANALYSIS ripc__wait_polling(struct ripc *ctx, struct ripc__waitq *q,
					 uint64_t deadline_ns, ripc__poll_fn *poll, void *arg)
{
	struct ripc__waiter w = {.poll = poll, .poll_arg = arg};
	bool fresh = ctx->now_age == RIPC__NOW_FRESH, polled = ctx->polled;
	int rc;

	/* Sending the ACK may bring a message at once, from this very context: poll again. */
	polled &= !ctx->delayed_ack.lane;
	ripc__now_passes(ctx);
	ctx->polled = false;
	ctx->ops->idle(ctx);
	if (ctx->hooks.now)
		return wait_hooked(ctx, deadline_ns);
	ctx->waiting++;
	ripc__list_add(&q->waiters, &w.queue);
	rc = ctx->progress.leader ? follow(ctx, &w, deadline_ns)
				  : lead(ctx, &w, deadline_ns, fresh, polled);
	ripc__list_del(&w.queue);
	ctx->waiting--;
	return rc;
}
