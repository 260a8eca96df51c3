/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lock and the futex of a waiter, with contending threads: also under the thread sanitizer. */
#define _GNU_SOURCE /* gettid */
#include "base/clock.h"
#include "core/progress/lock.h"
#include "transitions.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS  5000

static struct ripc__lock lock;
static atomic_uint futex;
/* The fault a thread found: check's own assertions are for the main thread. */
static _Atomic(const char *) failure;

/* A thread that never gets the lock or a wake-up is ended by the time-out of the test case. */
static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, run, arg), 0);
	return thread;
}

static void end(pthread_t thread)
{
	const char *text;

	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	text = atomic_load(&failure);
	ck_assert_msg(!text, "%s", text);
}

static void check_free(void)
{
	ck_assert_uint_eq(atomic_load(&lock.futex), 0);
	ck_assert_uint_eq(atomic_load(&lock.wanted), 0);
}

static void await(const atomic_uint *value, unsigned wanted)
{
	while (atomic_load(value) != wanted)
		sched_yield();
}

/* Whether the thread with this id sleeps, by /proc. */
static bool sleeps(pid_t tid)
{
	char path[64], line[512] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	file = fopen(path, "r");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
	fclose(file);
	/* Behind the name, which may hold anything. */
	state = strrchr(line, ')');
	ck_assert_ptr_nonnull(state);
	return state[1] && state[2] == 'S';
}

static void await_sleep(atomic_int *tid)
{
	while (!atomic_load(tid) || !sleeps(atomic_load(tid)))
		sched_yield();
}

/* ---- the lock ---- */

START_TEST(lock_take__unopposed)
{
	for (unsigned i = 0; i < 3; i++) {
		ripc__lock_take(&lock);
		ck_assert_uint_eq(atomic_load(&lock.futex), 1);
		ck_assert_uint_eq(atomic_load(&lock.wanted), 0);
		ripc__lock_release(&lock);
		check_free();
	}
}
END_TEST

/* Changed with the lock held only: the sanitizer checks that each holder sees the last writes. */
static struct {
	unsigned count, inside;
	uint64_t twice[2];
} guarded;

static void *add(void *arg)
{
	const unsigned *yield_every = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		ripc__lock_take(&lock);
		if (guarded.inside++ || guarded.twice[0] != guarded.twice[1])
			atomic_store(&failure, "two hold it at a time");
		guarded.twice[0]++;
		/* Others come while it is held. */
		if (i % *yield_every == 0)
			sched_yield();
		guarded.twice[1]++;
		guarded.count++;
		guarded.inside--;
		ripc__lock_release(&lock);
	}
	return NULL;
}

START_TEST(lock_take__one_at_a_time)
{
	static unsigned yield_every[] = {1, 7, 1000};
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		threads[i] = start(add, &yield_every[_i]);
	for (unsigned i = 0; i < THREADS; i++)
		end(threads[i]);
	ck_assert_uint_eq(guarded.count, THREADS * ROUNDS);
	ck_assert_uint_eq(guarded.twice[0], THREADS * ROUNDS);
	check_free();
}
END_TEST

static unsigned release(unsigned from, unsigned arg)
{
	(void)arg;
	atomic_store(&lock.futex, from);
	ripc__lock_release(&lock);
	return atomic_load(&lock.futex);
}

/* Builds with assertions refuse the release of a free lock. */
START_TEST(lock_release__held_only)
{
	static const int after[] = {REFUSED, 0, 0};

	check_event(release, 0, 3, after);
}
END_TEST

static atomic_int sleeper;
static atomic_uint entered;

static void *enter(void *arg)
{
	errno = EDOM;
	atomic_store(&sleeper, gettid());
	ripc__lock_take(&lock);
	if (errno != EDOM)
		atomic_store(&failure, "errno was changed");
	atomic_fetch_add(&entered, 1);
	ripc__lock_release(&lock);
	return NULL;
}

/* A waiting thread sleeps, is counted meanwhile, and is woken by the release of the holder. */
START_TEST(lock_wait__sleeps_until_it_is_released)
{
	pthread_t thread;

	ripc__lock_take(&lock);
	thread = start(enter, NULL);
	await(&lock.wanted, 1);
	await(&lock.futex, 2);
	await_sleep(&sleeper);
	ck_assert_uint_eq(atomic_load(&entered), 0);
	ripc__lock_release(&lock);
	end(thread);
	ck_assert_uint_eq(atomic_load(&entered), 1);
	check_free();
}
END_TEST

static void *give_up(void *arg)
{
	return ripc__lock_take_until(&lock, ripc__clock_ns() + 2000000) ? arg : NULL;
}

static void *take_in_time(void *arg)
{
	if (!ripc__lock_take_until(&lock, RIPC__NEVER))
		return NULL;
	ripc__lock_release(&lock);
	return arg;
}

/* A thread that gives up leaves the lock to its holder, and to those that sleep for it. */
START_TEST(lock_take_until__gives_up)
{
	pthread_t threads[3];
	void *taken;

	ripc__lock_take(&lock);
	threads[0] = start(enter, NULL);
	threads[1] = start(take_in_time, &lock);
	threads[2] = start(give_up, &lock);
	ck_assert_int_eq(pthread_join(threads[2], &taken), 0);
	ck_assert_ptr_null(taken);
	await(&lock.wanted, 2);
	ripc__lock_release(&lock);
	end(threads[0]);
	ck_assert_int_eq(pthread_join(threads[1], &taken), 0);
	ck_assert_ptr_nonnull(taken);
	check_free();
	ck_assert(ripc__lock_take_until(&lock, 0));
	ripc__lock_release(&lock);
}
END_TEST

/* One release wakes one: each of the others must be woken by the one before it. */
START_TEST(lock_wait__all_of_many_get_it)
{
	pthread_t threads[THREADS];

	for (unsigned round = 0; round < 50; round++) {
		atomic_store(&entered, 0);
		ripc__lock_take(&lock);
		for (unsigned i = 0; i < THREADS; i++)
			threads[i] = start(enter, NULL);
		await(&lock.wanted, THREADS);
		ck_assert_uint_eq(atomic_load(&entered), 0);
		ripc__lock_release(&lock);
		for (unsigned i = 0; i < THREADS; i++)
			end(threads[i]);
		ck_assert_uint_eq(atomic_load(&entered), THREADS);
		check_free();
	}
}
END_TEST

/* The count of those that wait is what a thread that spins goes by when it lets others in. */
static void *yield_lock(void *arg)
{
	while (atomic_load(&entered) < THREADS) {
		ripc__lock_take(&lock);
		while (!atomic_load(&lock.wanted) && atomic_load(&entered) < THREADS)
			sched_yield();
		ripc__lock_release(&lock);
		/* Any thread may get the lock after a release. */
		sched_yield();
	}
	return NULL;
}

START_TEST(lock_wait__spinner_yields)
{
	pthread_t spinner = start(yield_lock, NULL), threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		threads[i] = start(enter, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		end(threads[i]);
	end(spinner);
	check_free();
}
END_TEST

/* ---- the word ---- */

static atomic_uint awake;

static void *wait_on_futex(void *arg)
{
	const uint64_t *until_ns = arg;

	errno = EDOM;
	ripc__lock_take(&lock);
	atomic_store(&futex, 0);
	ripc__lock_release(&lock);
	atomic_store(&sleeper, gettid());
	/* It may return for no reason. */
	while (!atomic_load(&futex) && ripc__clock_ns() < *until_ns)
		ripc__futex_wait(&futex, *until_ns);
	if (errno != EDOM)
		atomic_store(&failure, "errno was changed");
	atomic_store(&awake, 1);
	return NULL;
}

START_TEST(futex_wake__wakes_sleeper)
{
	/* RIPC__NEVER, and a time so far away that only the word can end it. */
	uint64_t until_ns = _i ? ripc__clock_ns() + UINT64_C(3600) * 1000 * RIPC__MS : RIPC__NEVER;
	pthread_t thread = start(wait_on_futex, &until_ns);

	await_sleep(&sleeper);
	ck_assert_uint_eq(atomic_load(&awake), 0);
	ripc__lock_take(&lock);
	ripc__futex_wake(&futex);
	ripc__lock_release(&lock);
	end(thread);
	ck_assert_uint_eq(atomic_load(&futex), 1);
}
END_TEST

START_TEST(futex_wait__already_set)
{
	ripc__futex_wake(&futex);
	ck_assert_uint_eq(atomic_load(&futex), 1);
	/* Would not return else. */
	ripc__futex_wait(&futex, RIPC__NEVER);
}
END_TEST

START_TEST(futex_wait__timeout)
{
	uint64_t until_ns = ripc__clock_ns() + 20 * RIPC__MS;

	while (ripc__clock_ns() < until_ns)
		ripc__futex_wait(&futex, until_ns);
	ck_assert_uint_eq(atomic_load(&futex), 0);
	/* Over already: the kernel is asked, and returns at once. */
	ripc__futex_wait(&futex, until_ns);
	ripc__futex_wait(&futex, 1);
}
END_TEST

/* Two threads wake each other in turn, each on a futex of its own: no wake-up is lost. */
static atomic_uint futexes[2];

static void *ping_pong(void *arg)
{
	size_t me = (size_t)arg;

	for (unsigned i = 0; i < 2000; i++) {
		while (!atomic_load_explicit(&futexes[me], memory_order_acquire))
			ripc__futex_wait(&futexes[me], RIPC__NEVER);
		ripc__lock_take(&lock);
		atomic_store_explicit(&futexes[me], 0, memory_order_relaxed);
		guarded.count++;
		ripc__futex_wake(&futexes[!me]);
		ripc__lock_release(&lock);
	}
	return NULL;
}

START_TEST(futex_wake__ping_pong)
{
	pthread_t threads[2];

	for (size_t i = 0; i < 2; i++)
		threads[i] = start(ping_pong, (void *)i);
	ripc__lock_take(&lock);
	ripc__futex_wake(&futexes[0]);
	ripc__lock_release(&lock);
	for (unsigned i = 0; i < 2; i++)
		end(threads[i]);
	ck_assert_uint_eq(guarded.count, 4000);
	check_free();
}
END_TEST

/* For CK_FORK=no. */
static void setup(void)
{
	memset(&lock, 0, sizeof(lock));
	memset(&guarded, 0, sizeof(guarded));
	atomic_store(&futex, 0);
	atomic_store(&futexes[0], 0);
	atomic_store(&futexes[1], 0);
	atomic_store(&entered, 0);
	atomic_store(&awake, 0);
	atomic_store(&sleeper, 0);
	atomic_store(&failure, NULL);
}

int main(void)
{
	Suite *suite = suite_create("core/progress/lock");
	TCase *tc = tcase_create("lock");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, lock_take__unopposed);
	tcase_add_loop_test(tc, lock_take__one_at_a_time, 0, 3);
	tcase_add_test(tc, lock_release__held_only);
	tcase_add_test(tc, lock_wait__sleeps_until_it_is_released);
	tcase_add_test(tc, lock_take_until__gives_up);
	tcase_add_test(tc, lock_wait__all_of_many_get_it);
	tcase_add_test(tc, lock_wait__spinner_yields);
	tcase_add_loop_test(tc, futex_wake__wakes_sleeper, 0, 2);
	tcase_add_test(tc, futex_wait__already_set);
	tcase_add_test(tc, futex_wait__timeout);
	tcase_add_test(tc, futex_wake__ping_pong);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/lock", suite);
}
