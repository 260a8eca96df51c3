/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The progress thread, with real threads on the loopback: it leads when no application thread does,
 * and an idle process uses no CPU. Latencies are not measured; time limits are generous.
 */
#include "core/progress/context.h"
#include "core/numbers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char *const modes[] = {"wait=adaptive", "wait=poll", "wait=block"};

struct pair {
	struct ripc *a, *b;
	struct ripc_service *sa, *sb;
};

static void pair_open(struct pair *p, const char *options)
{
	OK(ripc_open(&p->a, options));
	OK(ripc_open(&p->b, options));
	OK(ripc_service_register(p->a, ID(0), 0, &p->sa));
	OK(ripc_service_register(p->b, ID(1), 0, &p->sb));
	OK(ripc_route_lookup(p->a, ID(1), NULL, PATIENCE_MS));
}

static void pair_close(struct pair *p)
{
	OK(ripc_close(p->a));
	OK(ripc_close(p->b));
}

static int create_rc; /* threads are not created, for this reason; 0: they are */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return create_rc ? create_rc : __real_pthread_create(thread, attr, run, arg);
}

/* The error names the cause: EAGAIN is the limit of threads while there is memory. */
START_TEST(start__fails)
{
	static const char limit[] = "the limit of threads is reached";
	struct ripc *ctx;

	create_rc = EAGAIN;
	ck_assert_int_eq(ripc_open(&ctx, NULL), -EAGAIN);
	ck_assert_msg(strstr(ripc_error_detail(), limit), "%s", ripc_error_detail());
	create_rc = EPERM;
	ck_assert_int_eq(ripc_open(&ctx, NULL), -EPERM);
	ck_assert_msg(!strstr(ripc_error_detail(), limit), "%s", ripc_error_detail());
	create_rc = 0;
	OK(ripc_open(&ctx, NULL));
	OK(ripc_close(ctx));
}
END_TEST

/* No application thread is in the library on either side: the message arrives nevertheless. */
START_TEST(progress__app_computes)
{
	enum { LEN = 20 << 20 };
	struct pair p;
	uint8_t *data = calloc(1, LEN);
	struct iovec item = {data, LEN};
	struct ripc_request *request;
	struct ripc_message *m;
	struct pollfd fd = {.events = POLLIN};

	pair_open(&p, modes[_i]);
	fd.fd = ripc_service_fd(p.sb);
	ck_assert_int_ge(fd.fd, 0);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(poll(&fd, 1, 0), 0);
		OK(ripc_send_async(p.sa, ID(1), &item, 1, NULL, &request));
		ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
		OK(ripc_receive(p.sb, &m, 0));
		ck_assert_uint_eq(m->items[0].iov_len, LEN);
		ripc_message_free(m);
		ck_assert_int_eq(poll(&fd, 1, 0), 0);
		OK(ripc_request_wait(&request, PATIENCE_MS));
	}
	pair_close(&p);
	free(data);
}
END_TEST

/*
 * An application that waits on the service's descriptor: its last poll, which finds nothing, leaves
 * the lead to the progress thread at once. While that leads, polls do not take it back.
 * Many polls without a message are those of a thread that spins: it stays active.
 */
START_TEST(pass_leadership__before_sleep)
{
	struct iovec item = {"x", 1};
	struct ripc__progress_state s;
	struct ripc_message *m;
	struct pollfd fd = {.events = POLLIN};
	struct pair p;
	int active = 0;

	pair_open(&p, modes[_i]);
	fd.fd = ripc_service_fd(p.sb);
	/* It has led before. */
	for (int i = 0; i < 3; i++) {
		OK(ripc_send_short(p.sa, ID(1), &item, 1, NULL, PATIENCE_MS));
		OK(ripc_receive(p.sb, &m, PATIENCE_MS));
		ripc_message_free(m);
		ck_assert_int_eq(ripc_receive(p.sb, &m, 0), -EAGAIN);
		ck_assert_uint_eq(ripc__progress_state(&p.b->progress).app_active, 0);
	}
	for (int i = 0; i < 20; i++) {
		OK(ripc_send_short(p.sa, ID(1), &item, 1, NULL, PATIENCE_MS));
		ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
		OK(ripc_receive(p.sb, &m, 0));
		ripc_message_free(m);
		ck_assert_int_eq(ripc_receive(p.sb, &m, 0), -EAGAIN);
		s = ripc__progress_state(&p.b->progress);
		ck_assert_uint_eq(s.app_active, 0);
		ck_assert_uint_ne(s.thread, RIPC__THREAD_LONG_TICK);
	}
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(ripc_receive(p.sb, &m, 0), -EAGAIN);
		active += ripc__progress_state(&p.b->progress).app_active;
	}
	if (_i != 2)
		ck_assert_int_gt(active, 0);
	pair_close(&p);
}
END_TEST

/* A leader sleeps: a registration by another thread does not wait for it. */
START_TEST(request__leader_asleep)
{
	struct waiter w = {.timeout_ms = PATIENCE_MS};
	struct ripc_service *from;
	uint64_t start;
	pthread_t thread;
	struct ripc *ctx;

	OK(ripc_open(&ctx, "wait=block resolver=local"));
	OK(ripc_service_register(ctx, ID(0), 0, &w.s));
	pthread_create(&thread, NULL, waiter_main, &w);
	for (int i = 0; i < 3; i++) {
		AWAIT(ripc__progress_state(&ctx->progress).leader == RIPC__LEADER_ASLEEP);
		start = now_ms();
		OK(ripc_service_register(ctx, ID(1), 0, &from));
		/* It takes 60 ms; or, with a lost wake-up, until the leader's next timer. */
		ck_assert_uint_lt(now_ms() - start, PATIENCE_MS / 12);
		if (i < 2)
			OK(ripc_service_unregister(from));
	}
	OK(send_number(from, ID(0), 1));
	pthread_join(thread, NULL);
	OK(w.rc);
	OK(ripc_close(ctx));
}
END_TEST

static bool thread_blocked(const struct ripc *ctx)
{
	return ripc__progress_state(&ctx->progress).thread == RIPC__THREAD_BLOCKED;
}

/* Application threads come and go, the progress thread leads between them: none is lost. */
START_TEST(progress__takes_leadership)
{
	struct pair p;
	struct pollfd fd = {.events = POLLIN};
	uint64_t number, rng = test_seed();

	pair_open(&p, modes[_i]);
	fd.fd = ripc_service_fd(p.sb);
	for (uint64_t i = 0; i < 300; i++) {
		unsigned pauses = test_random(&rng) % 5;

		if (!pauses)
			AWAIT(thread_blocked(p.a) && thread_blocked(p.b));
		for (uint64_t end = 0; pauses > 1; pauses--)
			ck_assert(test_pause(&end, PATIENCE_MS));
		OK(send_number(p.sa, ID(1), i));
		if (test_random(&rng) & 1)
			ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
		OK(receive_number(p.sb, &number, PATIENCE_MS));
		ck_assert_uint_eq(number, i);
	}
	pair_close(&p);
}
END_TEST

enum { PINGS = 30 };

static void *echo_all_but_last(void *arg)
{
	struct pair *p = arg;
	struct ripc_message *m;

	for (int i = 0; i < PINGS; i++) {
		OK(ripc_receive(p->sb, &m, PATIENCE_MS));
		if (i < PINGS - 1)
			OK(ripc_send_long(p->sb, m->source, m->items, 1, NULL, PATIENCE_MS));
		ripc_message_free(m);
	}
	return NULL;
}

/* A receiver that always answered stops calling: the progress thread sends the delayed ACK. */
START_TEST(progress__sends_delayed_ack)
{
	struct iovec item = {"ping", 4};
	struct ripc_message *m;
	struct pair p;
	pthread_t thread;
	uint64_t start = 0;

	pair_open(&p, modes[_i]);
	pthread_create(&thread, NULL, echo_all_but_last, &p);
	for (int i = 0; i < PINGS; i++) {
		start = now_ms();
		OK(ripc_send_long(p.sa, ID(1), &item, 1, NULL, PATIENCE_MS));
		if (i == PINGS - 1)
			break;
		OK(ripc_receive(p.sa, &m, PATIENCE_MS));
		ripc_message_free(m);
	}
	ck_assert_uint_lt(now_ms() - start, PATIENCE_MS / 4);
	pthread_join(thread, NULL);
	pair_close(&p);
}
END_TEST

static atomic_bool stretch_ticks;  /* long ticks end by a post only */
static atomic_uint nstretched;     /* so many did */
static struct ripc *_Atomic stale; /* see __wrap_sem_clockwait(); NULL: none */

int __real_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);
int __wrap_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);
int __wrap_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
	const long shortest_ns = (long)RIPC__TICK_NS << RIPC__TICK_SHIFT_POLL_MIN;
	struct timespec now, far = *until;

	clock_gettime(clock, &now);
	if (stretch_ticks &&
	    (until->tv_sec - now.tv_sec) * 1000000000 + until->tv_nsec - now.tv_nsec >
		    shortest_ns * 3 / 2) {
		far.tv_sec += 10 * PATIENCE_MS / 1000;
		nstretched++;
	} else if (stale && sem == &stale->progress.sem) {
		/* A thread polled after the TICK, and left before the message was held back. */
		ripc__progress_polled(stale);
		stale = NULL;
	}
	return __real_sem_clockwait(sem, clock, &far);
}

/*
 * A thread that led for long leaves a held-back message behind: the progress thread cuts its long
 * tick short. With _i = 1 the next TICK finds app_active set: that tick is short as well.
 */
START_TEST(progress__short_tick_on_request)
{
	static const struct ripc_send_options more = {.size = sizeof(more), .flags = RIPC_MORE};
	struct pollfd fd = {.events = POLLIN};
	struct pair p;
	uint64_t number = 0, until;
	struct iovec item = {&number, sizeof(number)};

	pair_open(&p, "wait=poll");
	fd.fd = ripc_service_fd(p.sb);
	stretch_ticks = true;
	for (uint64_t i = 1; i <= 5; i++) {
		unsigned before = nstretched;

		for (until = now_ms() + PATIENCE_MS; nstretched == before && now_ms() < until;)
			ck_assert_int_eq(receive_number(p.sa, &number, 20), -ETIMEDOUT);
		ck_assert_uint_gt(nstretched, before);
		/* The thread polls after that TICK, too. */
		ck_assert_int_eq(receive_number(p.sa, &number, 20), -ETIMEDOUT);
		number = i;
		if (_i)
			stale = p.a;
		OK(ripc_send_short(p.sa, ID(1), &item, 1, &more, PATIENCE_MS));
		ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
		OK(receive_number(p.sb, &number, 0));
		ck_assert_uint_eq(number, i);
		ck_assert_ptr_null(stale);
	}
	pair_close(&p);
	stretch_ticks = false;
}
END_TEST

/* A timer that the next tick sees in time does not cut a long tick short; an earlier one does. */
START_TEST(progress__long_tick_before_timer)
{
	struct pair p;
	uint64_t number, now, until = now_ms() + PATIENCE_MS;
	unsigned before = nstretched;

	pair_open(&p, "wait=poll");
	stretch_ticks = true;
	while (nstretched == before && now_ms() < until)
		ck_assert_int_eq(receive_number(p.sa, &number, 20), -ETIMEDOUT);
	ripc__lock(p.a);
	ck_assert_int_eq(ripc__progress_state(&p.a->progress).thread, RIPC__THREAD_LONG_TICK);
	now = ripc__now(p.a);
	p.a->next_timer_ns = now + 1000 * RIPC__MS;
	ripc__timer_at(p.a, now + 50 * RIPC__MS);
	ck_assert_uint_eq(p.a->next_timer_ns, now + 50 * RIPC__MS);
	ck_assert_int_eq(ripc__progress_state(&p.a->progress).thread, RIPC__THREAD_LONG_TICK);
	ripc__timer_at(p.a, now + 5 * RIPC__MS);
	ck_assert_int_ne(ripc__progress_state(&p.a->progress).thread, RIPC__THREAD_LONG_TICK);
	ripc__unlock(p.a);
	stretch_ticks = false;
	pair_close(&p);
}
END_TEST

static atomic_bool no_mask;  /* the descriptors cannot be masked */
static atomic_uint nrefused; /* so often it was tried */

bool __real_ripc__descriptors_mask(struct ripc *ctx, bool masked);
bool __wrap_ripc__descriptors_mask(struct ripc *ctx, bool masked);
bool __wrap_ripc__descriptors_mask(struct ripc *ctx, bool masked)
{
	if (!no_mask || !masked)
		return __real_ripc__descriptors_mask(ctx, masked);
	nrefused++;
	return false;
}

static bool was_refused(struct ripc *ctx, unsigned n)
{
	ripc__lock(ctx);
	/* The leader may have read the kick that was to wake the progress thread. */
	if (ripc__progress_state(&ctx->progress).thread == RIPC__THREAD_WAKING)
		ripc__progress_step(ctx, RIPC__PROGRESS_NOTIFY, NULL);
	ripc__unlock(ctx);
	return nrefused >= n;
}

/* A leader sleeps for long, and masking fails: the progress thread goes on ticking beside it. */
START_TEST(standby__no_mask)
{
	struct waiter w = {.timeout_ms = PATIENCE_MS};
	struct ripc_service *from;
	pthread_t thread;
	struct ripc *ctx;

	OK(ripc_open(&ctx, "wait=block resolver=local"));
	OK(ripc_service_register(ctx, ID(0), 0, &w.s));
	OK(ripc_service_register(ctx, ID(1), 0, &from));
	no_mask = true;
	pthread_create(&thread, NULL, waiter_main, &w);
	AWAIT(was_refused(ctx, 3));
	OK(send_number(from, ID(0), 1));
	pthread_join(thread, NULL);
	OK(w.rc);
	OK(ripc_close(ctx));
}
END_TEST

static uint64_t cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

static long switches(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_nvcsw;
}

/* Two seconds of nothing. */
static void check_idle(void)
{
	uint64_t cpu = cpu_ms();
	long before = switches();

	sleep(2);
	ck_assert_uint_lt(cpu_ms() - cpu, 200);
	ck_assert_int_lt(switches() - before, 1000);
}

/* The leader, if any, and the progress thread sleep on the descriptors. */
static bool at_rest(const struct ripc *ctx)
{
	struct ripc__progress_state s = ripc__progress_state(&ctx->progress);

	return thread_blocked(ctx) ||
	       (s.leader == RIPC__LEADER_ASLEEP && s.thread == RIPC__THREAD_STANDBY);
}

/* With threads that wait, then with none in the library. */
START_TEST(idle__no_cpu)
{
	static const char *const quiet[] = {"wait=adaptive", "wait=block"};
	struct waiter w[4];
	pthread_t threads[4];
	struct pair p;
	uint64_t number;

	/* Where it is permitted: look-ups of other programs wake this one. */
	test_own_network();
	pair_open(&p, quiet[_i]);
	OK(send_number(p.sa, ID(1), 7));
	OK(receive_number(p.sb, &number, PATIENCE_MS));
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct waiter){.timeout_ms = 3500};
		OK(ripc_service_register(i & 1 ? p.a : p.b, ID(10 + i), 0, &w[i].s));
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
	AWAIT(at_rest(p.a) && at_rest(p.b));
	check_idle();
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].rc, -ETIMEDOUT);
	}
	AWAIT(thread_blocked(p.a) && thread_blocked(p.b));
	check_idle();
	pair_close(&p);
}
END_TEST

static struct ripc *_Atomic streaming; /* its transports always have more to do; NULL: none */
static atomic_uint npasses;            /* so often the progress thread asked */

bool __real_ripc__transports_arm(struct ripc *ctx);
bool __wrap_ripc__transports_arm(struct ripc *ctx);
bool __wrap_ripc__transports_arm(struct ripc *ctx)
{
	if (ctx != streaming)
		return __real_ripc__transports_arm(ctx);
	npasses++;
	return true;
}

static void *stats_main(void *arg)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc *ctx = arg;

	OK(ripc_context_stats(ctx, &stats));
	streaming = NULL;
	return NULL;
}

/* A peer sends without a pause: the progress thread leads on, and lets other threads in. */
START_TEST(progress__lets_others_in)
{
	struct ripc *ctx;
	pthread_t thread;

	OK(ripc_open(&ctx, "resolver=local"));
	AWAIT(thread_blocked(ctx));
	streaming = ctx;
	ripc__lock(ctx);
	ripc__timer_at(ctx, ripc__now(ctx));
	ripc__unlock(ctx);
	AWAIT(npasses > 100);
	pthread_create(&thread, NULL, stats_main, ctx);
	AWAIT(!streaming);
	pthread_join(thread, NULL);
	OK(ripc_close(ctx));
}
END_TEST

/* An open context alone does nothing, either. */
START_TEST(idle__an_open_context)
{
	struct ripc *ctx;

	OK(ripc_open(&ctx, NULL));
	AWAIT(thread_blocked(ctx));
	check_idle();
	OK(ripc_close(ctx));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/progress_thread");
	TCase *tc = tcase_create("progress_thread");

	test_seed();
	tcase_add_checked_fixture(tc, numbers_setup, NULL);
	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, start__fails);
	tcase_add_loop_test(tc, progress__app_computes, 0, 3);
	tcase_add_loop_test(tc, pass_leadership__before_sleep, 0, 3);
	tcase_add_loop_test(tc, progress__takes_leadership, 0, 3);
	tcase_add_loop_test(tc, progress__sends_delayed_ack, 0, 3);
	tcase_add_loop_test(tc, idle__no_cpu, 0, 2);
	tcase_add_test(tc, idle__an_open_context);
	tcase_add_test(tc, progress__lets_others_in);
	tcase_add_test(tc, request__leader_asleep);
	tcase_add_loop_test(tc, progress__short_tick_on_request, 0, 2);
	tcase_add_test(tc, progress__long_tick_before_timer);
	suite_add_tcase(suite, tc);
	tc = tcase_create("standby");
	tcase_add_checked_fixture(tc, numbers_setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, standby__no_mask);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/progress_thread", suite);
}
