/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that wait and lead on the loopback: no thread sleeps for ever, and one always leads. */
#include "core/numbers.h"
#include "core/progress/context.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A sanitizer makes every pass slower by as much. */
#define SLOWER 1
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#undef SLOWER
#define SLOWER 10
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#undef SLOWER
#define SLOWER 10
#endif
#endif

static const char *const modes[] = {"wait=adaptive", "wait=poll", "wait=block"};

/* ---- tokens that go round ---- */

#define RING    6
#define RING_MS 15000 /* a machine that is busy otherwise passes fewer */
#define RING_STOP \
	(UINT64_C(1) << 63) /* ends the ring; the low bits count the threads it has yet to reach */

/* Threads in a ring, each waiting on a service of its own, pass a token on. */
struct ring {
	struct ripc *ctx[2];
	struct ripc_service *s[RING];
	uint64_t passes, until_ms; /* of one token, whichever comes first */
	int rc[RING];
};

struct member {
	struct ring *ring;
	unsigned index;
};

static void *member_main(void *arg)
{
	struct member *me = arg;
	struct ring *ring = me->ring;
	uint64_t number = 0;
	int rc;

	while (!(rc = receive_number(ring->s[me->index], &number, PATIENCE_MS))) {
		uint64_t next = number + 1;

		if (number & RING_STOP)
			next = number - 1;
		else if (number >= ring->passes || now_ms() >= ring->until_ms)
			next = RING_STOP | (RING - 2);
		/* The last thread passes nothing on. */
		if (number != RING_STOP)
			rc = send_number(ring->s[me->index], ID((me->index + 1) % RING), next);
		if (rc || next & RING_STOP || number == RING_STOP)
			break;
	}
	ring->rc[me->index] = rc;
	return NULL;
}

static void run_ring(const char *options, unsigned contexts, uint64_t passes)
{
	struct ring ring = {.passes = passes, .until_ms = now_ms() + RING_MS};
	struct member members[RING];
	pthread_t threads[RING];

	for (unsigned i = 0; i < contexts; i++)
		OK(ripc_open(&ring.ctx[i], options));
	for (unsigned i = 0; i < RING; i++) {
		OK(ripc_service_register(ring.ctx[i % contexts], ID(i), 0, &ring.s[i]));
		members[i] = (struct member){&ring, i};
	}
	for (unsigned i = 0; i < RING; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, member_main, &members[i]), 0);
	OK(send_number(ring.s[0], ID(1), 1));
	for (unsigned i = 0; i < RING; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < RING; i++)
		ck_assert_msg(!ring.rc[i], "thread %u: %s", i, ripc_strerror(ring.rc[i]));
	for (unsigned i = 0; i < contexts; i++)
		OK(ripc_close(ring.ctx[i]));
}

/* With wait=poll no leader sleeps: fewer passes show that it yields the lock. */
static unsigned scaled_passes(int mode)
{
	return strcmp(modes[mode], "wait=poll") ? SLOWER : 10 * SLOWER;
}

/* A wake-up that is lost in one of 10^5 shows as a thread that waits for a minute. */
START_TEST(wait__no_wake_up_is_lost_in_one_context)
{
	run_ring(modes[_i], 1, 100000 / scaled_passes(_i));
}
END_TEST

START_TEST(wait__no_wake_up_is_lost_between_contexts)
{
	run_ring(modes[_i], 2, 20000 / scaled_passes(_i));
}
END_TEST

/* ---- leaders that leave ---- */

/* The first thread leads until its timeout; then the second one has to lead. */
START_TEST(pass_leadership__leader_timeout)
{
	struct ripc *a, *b;
	struct ripc_service *from, *s[2];

	OK(ripc_open(&a, modes[_i]));
	OK(ripc_open(&b, modes[_i]));
	OK(ripc_service_register(a, ID(0), 0, &from));
	OK(ripc_service_register(b, ID(1), 0, &s[0]));
	OK(ripc_service_register(b, ID(2), 0, &s[1]));
	for (int i = 0; i < 20; i++) {
		struct waiter w[2] = {{.s = s[0], .timeout_ms = 5 + i},
				      {.s = s[1], .timeout_ms = PATIENCE_MS}};
		pthread_t threads[2];

		pthread_create(&threads[0], NULL, waiter_main, &w[0]);
		AWAIT(ripc__progress_state(&b->progress).leader >= RIPC__LEADER_SPINNING ||
		      w[0].done);
		pthread_create(&threads[1], NULL, waiter_main, &w[1]);
		pthread_join(threads[0], NULL);
		ck_assert_int_eq(w[0].rc, -ETIMEDOUT);
		OK(send_number(from, ID(2), (uint64_t)i));
		pthread_join(threads[1], NULL);
		OK(w[1].rc);
		ck_assert_uint_eq(w[1].number, (uint64_t)i);
	}
	OK(ripc_close(a));
	OK(ripc_close(b));
}
END_TEST

static unsigned waiting(struct ripc *ctx)
{
	unsigned n;

	ripc__lock(ctx);
	n = ctx->waiting;
	ripc__unlock(ctx);
	return n;
}

static void interrupted(int number)
{
	(void)number;
}

/* A signal interrupts the sleep of a follower, which goes on waiting. */
START_TEST(wait__interrupted_follower)
{
	struct sigaction action = {.sa_handler = interrupted};
	struct ripc *ctx;
	struct ripc_service *from;
	struct waiter w[2] = {{.timeout_ms = PATIENCE_MS}, {.timeout_ms = PATIENCE_MS}};
	pthread_t threads[2];

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	OK(ripc_open(&ctx, modes[_i]));
	OK(ripc_service_register(ctx, ID(2), 0, &from));
	for (unsigned i = 0; i < 2; i++) {
		OK(ripc_service_register(ctx, ID(i), 0, &w[i].s));
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
		/* The first one leads. */
		AWAIT(waiting(ctx) == i + 1);
	}
	for (unsigned i = 0; i < 20; i++) {
		pthread_kill(threads[1], SIGUSR1);
		AWAIT(waiting(ctx) == 2);
	}
	for (unsigned i = 0; i < 2; i++) {
		OK(send_number(from, ID(i), i));
		pthread_join(threads[i], NULL);
		OK(w[i].rc);
	}
	OK(ripc_close(ctx));
}
END_TEST

START_TEST(wait__each_thread_own_timeout)
{
	enum { N = 8 };
	struct ripc *ctx;
	struct waiter w[N];
	pthread_t threads[N];

	OK(ripc_open(&ctx, modes[_i]));
	for (unsigned i = 0; i < N; i++) {
		w[i] = (struct waiter){.timeout_ms = (int)(20 + 30 * ((i * 5) % N))};
		OK(ripc_service_register(ctx, ID(i), 0, &w[i].s));
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].rc, -ETIMEDOUT);
		/* Not before its time; when after it, depends on the machine. */
		ck_assert_uint_ge(w[i].took_ms + 1, (uint64_t)w[i].timeout_ms);
	}
	OK(ripc_close(ctx));
}
END_TEST

START_TEST(wait__several_on_one_service)
{
	enum { N = 6 };
	struct ripc *ctx;
	struct ripc_service *s, *from;
	struct waiter w[N];
	pthread_t threads[N];
	uint64_t seen = 0;

	OK(ripc_open(&ctx, modes[_i]));
	OK(ripc_service_register(ctx, ID(0), 0, &s));
	OK(ripc_service_register(ctx, ID(1), 0, &from));
	for (unsigned i = 0; i < N; i++) {
		w[i] = (struct waiter){.s = s, .timeout_ms = PATIENCE_MS};
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
	}
	for (uint64_t i = 0; i < N; i++)
		OK(send_number(from, ID(0), i));
	for (unsigned i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		OK(w[i].rc);
		seen |= UINT64_C(1) << w[i].number;
	}
	ck_assert_uint_eq(seen, (1u << N) - 1);
	OK(ripc_close(ctx));
}
END_TEST

START_TEST(wake_all__close_ends_waits)
{
	enum { N = 6 };
	struct ripc *ctx;
	struct waiter w[N];
	pthread_t threads[N];

	OK(ripc_open(&ctx, modes[_i]));
	for (unsigned i = 0; i < N; i++) {
		w[i] = (struct waiter){.timeout_ms = -1};
		OK(ripc_service_register(ctx, ID(i), 0, &w[i].s));
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
	}
	AWAIT(waiting(ctx) == N);
	OK(ripc_close(ctx));
	for (unsigned i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].rc, -ESHUTDOWN);
	}
}
END_TEST

struct poller {
	int fd, rc;
	atomic_int tid; /* 0: not started yet */
};

static void *poller_main(void *arg)
{
	struct poller *p = arg;
	struct pollfd fd = {.fd = p->fd, .events = POLLIN};

	p->tid = (int)syscall(SYS_gettid);
	p->rc = poll(&fd, 1, PATIENCE_MS / 2);
	return NULL;
}

/* _i: a service is unregistered, or the context is closed. A thread in poll(2) returns at once. */
START_TEST(close__ends_polls)
{
	struct poller p[2] = {{0}};
	struct ripc *ctx;
	struct ripc_service *s;
	uint64_t start;
	pthread_t threads[2];

	OK(ripc_open(&ctx, "transports=self resolver=local"));
	OK(ripc_service_register(ctx, ID(0), 0, &s));
	p[0].fd = ripc_service_fd(s);
	p[1].fd = ripc_completion_fd(ctx);
	for (int i = 0; i <= _i; i++) {
		ck_assert_int_ge(p[i].fd, 0);
		pthread_create(&threads[i], NULL, poller_main, &p[i]);
		AWAIT(p[i].tid && test_sleeps(p[i].tid));
	}
	start = now_ms();
	OK(_i ? ripc_close(ctx) : ripc_service_unregister(s));
	for (int i = 0; i <= _i; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(p[i].rc, 1);
	}
	ck_assert_uint_lt(now_ms() - start, PATIENCE_MS / 4);
	if (!_i)
		OK(ripc_close(ctx));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/wait_threads");
	TCase *tc = tcase_create("wait");

	test_seed();
	tcase_add_checked_fixture(tc, numbers_setup, NULL);
	tcase_set_timeout(tc, 600);
	tcase_add_loop_test(tc, wait__no_wake_up_is_lost_in_one_context, 0, 3);
	tcase_add_loop_test(tc, wait__no_wake_up_is_lost_between_contexts, 0, 3);
	tcase_add_loop_test(tc, pass_leadership__leader_timeout, 0, 3);
	tcase_add_loop_test(tc, wait__interrupted_follower, 0, 3);
	tcase_add_loop_test(tc, wait__each_thread_own_timeout, 0, 3);
	tcase_add_loop_test(tc, wait__several_on_one_service, 0, 3);
	tcase_add_loop_test(tc, wake_all__close_ends_waits, 0, 3);
	tcase_add_loop_test(tc, close__ends_polls, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/wait_threads", suite);
}
