/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ticker.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define LATE_NS  50000

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Calls the function if its deadline has passed. */
static void tick(struct ticker *t)
{
	const uint64_t now = now_ns();
	uint64_t late, missed;

	if (now < t->next_ns)
		return;
	late = now - t->next_ns;
	missed = late / t->period_ns;
	late -= missed * t->period_ns;
	t->next_ns += (missed + 1) * t->period_ns;
	if (late > t->late_max_ns)
		t->late_max_ns = late;
	t->late += late > LATE_NS;
	t->fn(t->arg, missed);
}

static void on_idle(uv_idle_t *idle)
{
	tick(idle->data);
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
	struct ticker *t = poll->data;
	uint64_t expirations;

	(void)status;
	(void)events;
	if (read(t->fd, &expirations, sizeof(expirations)) == sizeof(expirations))
		tick(t);
}

static int start_timerfd(struct ticker *t, uv_loop_t *loop)
{
	struct itimerspec when = {
		.it_interval = {(time_t)(t->period_ns / NS_PER_S), (long)(t->period_ns % NS_PER_S)},
		.it_value = {(time_t)(t->next_ns / NS_PER_S), (long)(t->next_ns % NS_PER_S)},
	};
	int rc;

	t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (t->fd < 0)
		return -errno;
	if (timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &when, NULL))
		rc = -errno;
	else
		rc = uv_poll_init(loop, &t->poll, t->fd);
	if (rc) {
		close(t->fd);
		t->fd = -1;
		return rc;
	}
	t->poll.data = t;
	return uv_poll_start(&t->poll, UV_READABLE, on_timer);
}

int ticker_start(struct ticker *t, uv_loop_t *loop, double rate, ticker_fn *fn, void *arg)
{
	t->fn = fn;
	t->arg = arg;
	t->fd = -1;
	t->period_ns = (uint64_t)(NS_PER_S / rate);
	t->next_ns = now_ns() + t->period_ns;
	if (rate <= TICKER_SPIN_HZ)
		return start_timerfd(t, loop);
	uv_idle_init(loop, &t->idle);
	t->idle.data = t;
	return uv_idle_start(&t->idle, on_idle);
}

void ticker_stop(struct ticker *t)
{
	if (!t->fn)
		return;
	if (t->poll.data)
		uv_poll_stop(&t->poll);
	if (t->idle.data)
		uv_idle_stop(&t->idle);
}

void ticker_free(struct ticker *t)
{
	if (t->fn && t->fd >= 0)
		close(t->fd);
}
