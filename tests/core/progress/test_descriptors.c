/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The descriptors that threads sleep on: those of transports and resolver, and the one that wakes
 * the sleeper. A sleep reports which ones are readable. No sleep here lasts: its time is over.
 */
#include "core/progress/descriptors.h"
#include "core/progress/context.h"
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TRANSPORTS 5 /* one more than the events that a sleep reads at once */

static struct ripc ctx;
static int transport_fd[TRANSPORTS], resolver_fd;
static uint64_t now_ns;

uint64_t __wrap_ripc__now(struct ripc *of);
uint64_t __wrap_ripc__now(struct ripc *of)
{
	(void)of;
	return now_ns;
}

int __wrap_ripc__resolver_fd(struct ripc__resolver *r);
int __wrap_ripc__resolver_fd(struct ripc__resolver *r)
{
	(void)r;
	return resolver_fd;
}

static bool old_kernel; /* without epoll_pwait2(): the limit of a sleep is noted */
static int limit_ms;

int __real_epoll_pwait2(int epfd, struct epoll_event *ev, int max, const struct timespec *timeout,
			const sigset_t *mask);
int __wrap_epoll_pwait2(int epfd, struct epoll_event *ev, int max, const struct timespec *timeout,
			const sigset_t *mask);
int __wrap_epoll_pwait2(int epfd, struct epoll_event *ev, int max, const struct timespec *timeout,
			const sigset_t *mask)
{
	if (!old_kernel)
		return __real_epoll_pwait2(epfd, ev, max, timeout, mask);
	errno = ENOSYS;
	return -1;
}

int __real_epoll_wait(int epfd, struct epoll_event *ev, int max, int timeout_ms);
int __wrap_epoll_wait(int epfd, struct epoll_event *ev, int max, int timeout_ms);
int __wrap_epoll_wait(int epfd, struct epoll_event *ev, int max, int timeout_ms)
{
	limit_ms = timeout_ms;
	return old_kernel ? 0 : __real_epoll_wait(epfd, ev, max, timeout_ms);
}

static void set_readable(int fd, bool readable)
{
	uint64_t n = 1;

	if (readable)
		ck_assert_int_eq(write(fd, &n, sizeof(n)), sizeof(n));
	else
		ck_assert_int_eq(read(fd, &n, sizeof(n)), sizeof(n));
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void set_state(enum ripc__leader_state leader, enum ripc__thread_state thread)
{
	union ripc__progress_word w = {.state = {.leader = leader & 3, .thread = thread & 7}};

	atomic_store(&ctx.progress.word, w.bits);
	ctx.resolver_poll = RIPC__RESOLVER_QUIET;
	ctx.resolver_polled_ns = 0;
}

static void setup(void)
{
	memset(&ctx, 0, sizeof(ctx));
	now_ns = 1000 * RIPC__MS;
	resolver_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (unsigned i = 0; i < TRANSPORTS; i++) {
		transport_fd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		ctx.tp[i].t = (struct ripc__transport *)&transport_fd[i];
		ctx.tp[i].limits.fd = transport_fd[i];
	}
	/* One without a descriptor, and one that is not open. */
	ctx.tp[TRANSPORTS].t = (struct ripc__transport *)&transport_fd[0];
	ctx.tp[TRANSPORTS].limits.fd = -1;
	ctx.ntp = TRANSPORTS + 2;
	ck_assert_int_eq(ripc__descriptors_open(&ctx), 0);
}

static void teardown(void)
{
	ripc__descriptors_close(&ctx);
	close(resolver_fd);
	for (unsigned i = 0; i < TRANSPORTS; i++)
		close(transport_fd[i]);
}

/* A leader sleeps on the descriptors, or the progress thread in this state. */
static bool sleep_leader(void)
{
	bool by_transport;

	set_state(RIPC__LEADER_ASLEEP, RIPC__THREAD_TICKING);
	ctx.now_ns = 0;
	ripc__lock(&ctx);
	by_transport =
		ripc__descriptors_sleep(&ctx, ctx.progress.epfd, now_ns, RIPC__PROGRESS_WAKE);
	ripc__unlock(&ctx);
	ck_assert_int_eq(ripc__progress_state(&ctx.progress).leader, RIPC__LEADER_SPINNING);
	ck_assert_uint_eq(ctx.now_ns, now_ns);
	return by_transport;
}

static void sleep_thread(enum ripc__thread_state state)
{
	set_state(state == RIPC__THREAD_BLOCKED ? RIPC__LEADER_THREAD : RIPC__LEADER_SPINNING,
		  state);
	ripc__lock(&ctx);
	ripc__descriptors_sleep(&ctx, ctx.progress.thread_epfd, 0, RIPC__PROGRESS_THREAD_WAKE);
	ripc__unlock(&ctx);
}

/* The sleeper looks at the resolver's descriptor: it is readable, or need not be polled now. */
START_TEST(sleep__resolver)
{
	ck_assert(!sleep_leader());
	ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_QUIET);
	ck_assert_uint_eq(ctx.resolver_polled_ns, now_ns);
	set_readable(transport_fd[0], true);
	ck_assert(sleep_leader());
	ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_QUIET);
	ck_assert_uint_eq(ctx.resolver_polled_ns, now_ns);
	/* A kick, which is read. */
	set_readable(ctx.progress.wakefd, true);
	ck_assert(!sleep_leader());
	ck_assert(sleep_leader());
	set_readable(resolver_fd, true);
	ck_assert(!sleep_leader());
	ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_READABLE);
	ck_assert_uint_eq(ctx.resolver_polled_ns, 0);
	/* It is not read: that is for the resolver. */
	ck_assert(is_readable(resolver_fd));
}
END_TEST

/* So many descriptors are readable that the resolver's may be one more. */
START_TEST(sleep__many_readable)
{
	for (unsigned i = 0; i < TRANSPORTS; i++) {
		set_readable(transport_fd[i], true);
		sleep_leader();
		ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_QUIET);
		ck_assert_uint_eq(ctx.resolver_polled_ns, i + 2 < TRANSPORTS ? now_ns : 0);
	}
}
END_TEST

/* The progress thread, whose descriptors are nested, sees the same, if it leads afterwards. */
START_TEST(sleep__progress_thread)
{
	sleep_thread(RIPC__THREAD_BLOCKED);
	ck_assert_int_eq(ripc__progress_state(&ctx.progress).thread, RIPC__THREAD_LEADING);
	ck_assert_uint_eq(ctx.resolver_polled_ns, now_ns);
	set_readable(resolver_fd, true);
	sleep_thread(RIPC__THREAD_BLOCKED);
	ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_READABLE);
	ck_assert_uint_eq(ctx.resolver_polled_ns, 0);
	set_readable(resolver_fd, false);
	/* Another thread leads meanwhile, and polls for itself. */
	ck_assert(ripc__descriptors_mask(&ctx, true));
	sleep_thread(RIPC__THREAD_STANDBY);
	ck_assert_int_eq(ripc__progress_state(&ctx.progress).thread, RIPC__THREAD_RUNNING);
	ck_assert_uint_eq(ctx.resolver_polled_ns, 0);
}
END_TEST

/* A readable descriptor does not wake the progress thread while its descriptors are masked. */
START_TEST(mask__hides_events)
{
	set_readable(resolver_fd, true);
	for (unsigned i = 0; i < 4; i++) {
		bool masked = i % 2;

		ck_assert(ripc__descriptors_mask(&ctx, masked));
		ck_assert(ripc__descriptors_mask(&ctx, masked));
		ck_assert_int_eq(ctx.progress.masked, masked);
		ck_assert_int_eq(is_readable(ctx.progress.thread_epfd), !masked);
		sleep_thread(RIPC__THREAD_BLOCKED);
		ck_assert_int_eq(ctx.resolver_poll == RIPC__RESOLVER_READABLE, !masked);
		/* For a leader they never are. */
		sleep_leader();
		ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_READABLE);
	}
	/* It cannot be changed: the state stays. */
	close(ctx.progress.thread_epfd);
	ctx.progress.thread_epfd = -1;
	ck_assert(!ripc__descriptors_mask(&ctx, false));
	ck_assert(ctx.progress.masked);
	ck_assert(ripc__descriptors_mask(&ctx, true));
}
END_TEST

/* A kick ends the sleep, and is read by it: the next sleep is not ended. */
START_TEST(sleep__kicked)
{
	set_state(RIPC__LEADER_ASLEEP, RIPC__THREAD_TICKING);
	ripc__lock(&ctx);
	ripc__progress_step(&ctx, RIPC__PROGRESS_NOTIFY, NULL);
	ck_assert(ripc__progress_state(&ctx.progress).kicked);
	ck_assert(is_readable(ctx.progress.epfd));
	/* Without a limit: it does not sleep. */
	ripc__descriptors_sleep(&ctx, ctx.progress.epfd, RIPC__NEVER, RIPC__PROGRESS_WAKE);
	ck_assert(!ripc__progress_state(&ctx.progress).kicked);
	ck_assert(!is_readable(ctx.progress.epfd));
	ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_QUIET);
	ck_assert_uint_eq(ctx.resolver_polled_ns, now_ns);
	ripc__unlock(&ctx);
}
END_TEST

/* Without epoll_pwait2() a sleep does not end early: its limit is rounded up to milliseconds. */
START_TEST(sleep__old_kernel)
{
	static const struct {
		uint64_t ns;
		int ms;
	} cases[] = {{0, 0},
		     {1, 1},
		     {RIPC__MS, 1},
		     {RIPC__MS + 1, 2},
		     {1500 * RIPC__MS - 1, 1500},
		     {5000000 * RIPC__MS, 1000000}};

	old_kernel = true;
	for (unsigned i = 0; i <= sizeof(cases) / sizeof(cases[0]); i++) {
		bool always = i == sizeof(cases) / sizeof(cases[0]);

		set_state(RIPC__LEADER_ASLEEP, RIPC__THREAD_TICKING);
		ripc__lock(&ctx);
		ripc__descriptors_sleep(&ctx, ctx.progress.epfd,
					always ? RIPC__NEVER : now_ns + cases[i].ns,
					RIPC__PROGRESS_WAKE);
		ripc__unlock(&ctx);
		ck_assert_int_eq(limit_ms, always ? -1 : cases[i].ms);
	}
	old_kernel = false;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/descriptors");
	TCase *tc = tcase_create("descriptors");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, sleep__resolver);
	tcase_add_test(tc, sleep__many_readable);
	tcase_add_test(tc, sleep__progress_thread);
	tcase_add_test(tc, mask__hides_events);
	tcase_add_test(tc, sleep__kicked);
	tcase_add_test(tc, sleep__old_kernel);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/descriptors", suite);
}
