/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/progress/lock.h"
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifdef TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* Sleeps while *futex is value. Keeps the application's errno. */
static void futex_wait(atomic_uint *futex, unsigned value, uint64_t until_ns)
{
	struct timespec ts, *until = NULL;
	int saved = errno;

	if (until_ns != RIPC__NEVER) {
		ts.tv_sec = (time_t)(until_ns / 1000000000u);
		ts.tv_nsec = (long)(until_ns % 1000000000u);
		until = &ts;
	}
	/* WAIT_BITSET: until is a time of CLOCK_MONOTONIC, not a duration. */
	syscall(SYS_futex, futex, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, until, NULL,
		FUTEX_BITSET_MATCH_ANY);
	errno = saved;
}

static void futex_wake(atomic_uint *futex, int count)
{
	int saved = errno;

	syscall(SYS_futex, futex, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
	errno = saved;
}

void (*ripc__lock_hook)(enum ripc__lock_step step);
#ifdef RIPC__LOCK_STEPS
const bool ripc__lock_steps = true;
#else
const bool ripc__lock_steps = false;
#endif

void ripc__lock_wait(struct ripc__lock *lock)
{
	ripc__lock_step(RIPC__STEP_CONTENDED);
	atomic_fetch_add_explicit(&lock->wanted, 1, memory_order_relaxed);
	ripc__lock_step(RIPC__STEP_WAIT);
	/* Taken as 2: other threads may sleep, and have to be woken. */
	while (atomic_exchange_explicit(&lock->futex, 2, memory_order_acquire)) {
		ripc__lock_step(RIPC__STEP_SLEEP);
		futex_wait(&lock->futex, 2, RIPC__NEVER);
	}
	atomic_fetch_sub_explicit(&lock->wanted, 1, memory_order_relaxed);
}

bool ripc__lock_take_until(struct ripc__lock *lock, uint64_t until_ns)
{
	bool taken;

	atomic_fetch_add_explicit(&lock->wanted, 1, memory_order_relaxed);
	while (!(taken = !atomic_exchange_explicit(&lock->futex, 2, memory_order_acquire)) &&
	       ripc__clock_ns() < until_ns)
		futex_wait(&lock->futex, 2, until_ns);
	atomic_fetch_sub_explicit(&lock->wanted, 1, memory_order_relaxed);
	return taken;
}

void ripc__lock_wake(struct ripc__lock *lock)
{
	futex_wake(&lock->futex, 1);
}

void ripc__lock_destroy(struct ripc__lock *lock)
{
#ifdef TSAN
	/* ThreadSanitizer does not see that the kernel zeroes the lock. */
	__tsan_release(&lock->futex);
#endif
}

void ripc__lock_destroyed(struct ripc__lock *lock)
{
	ripc__lock_step(RIPC__STEP_RELEASED);
	futex_wake(&lock->futex, INT_MAX);
}

void ripc__futex_wait(atomic_uint *futex, uint64_t until_ns)
{
	if (!atomic_load_explicit(futex, memory_order_acquire))
		futex_wait(futex, 0, until_ns);
}

void ripc__futex_wake(atomic_uint *futex)
{
	atomic_store_explicit(futex, 1, memory_order_release);
	futex_wake(futex, 1);
}
