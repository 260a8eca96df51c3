/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The lock of a context, and the futex on which a follower sleeps until another thread wakes it.
 *
 * Every public call takes and releases the lock, most often uncontended: one locked instruction
 * each, inlined. The lock counts the threads that wait for it, so that a spinning leader releases
 * it only if another thread wants it.
 */
#ifndef RIPC_CORE_PROGRESS_LOCK_H
#define RIPC_CORE_PROGRESS_LOCK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __clang__
#define RIPC__CAPABILITY(x) __attribute__((capability(x)))
#define RIPC__ACQUIRE(...)  __attribute__((acquire_capability(__VA_ARGS__)))
#define RIPC__RELEASE(...)  __attribute__((release_capability(__VA_ARGS__)))
#define RIPC__NO_ANALYSIS   __attribute__((no_thread_safety_analysis))
#else
#define RIPC__CAPABILITY(x)
#define RIPC__ACQUIRE(...)
#define RIPC__RELEASE(...)
#define RIPC__NO_ANALYSIS
#endif

#define RIPC__LIKELY(x)   __builtin_expect(!!(x), 1)
#define RIPC__UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * For tests: called at each step of taking and releasing the lock, so that a test decides which
 * thread goes on. Built with assertions or under the thread sanitizer only: ripc__lock_steps.
 */
enum ripc__lock_step {
	RIPC__STEP_ACQUIRE,   /* before the lock is taken */
	RIPC__STEP_CONTENDED, /* another thread holds it: before the caller is counted */
	RIPC__STEP_WAIT,      /* before the next attempt */
	RIPC__STEP_SLEEP,     /* before the caller sleeps */
	RIPC__STEP_ACQUIRED,  /* after it was taken */
	RIPC__STEP_RELEASE,   /* before it is released */
	RIPC__STEP_RELEASED,  /* after it was released, before sleepers are woken */
	RIPC__STEP_PAUSE,     /* the caller waits for other threads without the lock */
};
extern void (*ripc__lock_hook)(enum ripc__lock_step step);
extern const bool ripc__lock_steps;

#if !defined(NDEBUG) || defined(__SANITIZE_THREAD__)
#define RIPC__LOCK_STEPS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RIPC__LOCK_STEPS 1
#endif
#endif

static inline void ripc__lock_step(enum ripc__lock_step step)
{
#ifdef RIPC__LOCK_STEPS
	if (ripc__lock_hook)
		ripc__lock_hook(step);
#endif
}

/* All zero: free. */
struct RIPC__CAPABILITY("mutex") ripc__lock {
	atomic_uint futex;  /* 0: free; 1: held; 2: held, and threads may sleep for it */
	atomic_uint wanted; /* threads that wait for it */
};

/* Takes the lock, which another thread holds. */
void ripc__lock_wait(struct ripc__lock *lock);
/* Takes the lock, unless that takes until until_ns (base/clock.h). Return: whether it is taken. */
bool ripc__lock_take_until(struct ripc__lock *lock, uint64_t until_ns);
/* Wakes a thread that sleeps for the lock, which was released. */
void ripc__lock_wake(struct ripc__lock *lock);
/*
 * Before and after the memory of a held lock turns to zeros (handle.h), which releases it. The
 * second call wakes all sleepers, as the zeros do not show whether there are any.
 */
void ripc__lock_destroy(struct ripc__lock *lock);
void ripc__lock_destroyed(struct ripc__lock *lock);

static inline void RIPC__NO_ANALYSIS ripc__lock_take(struct ripc__lock *lock)
{
	unsigned futex = 0;

	ripc__lock_step(RIPC__STEP_ACQUIRE);
	if (RIPC__UNLIKELY(!atomic_compare_exchange_strong_explicit(
		    &lock->futex, &futex, 1, memory_order_acquire, memory_order_relaxed)))
		ripc__lock_wait(lock);
	ripc__lock_step(RIPC__STEP_ACQUIRED);
}

static inline void RIPC__NO_ANALYSIS ripc__lock_release(struct ripc__lock *lock)
{
	unsigned futex;

	ripc__lock_step(RIPC__STEP_RELEASE);
	futex = atomic_exchange_explicit(&lock->futex, 0, memory_order_release);
	assert(futex);
	ripc__lock_step(RIPC__STEP_RELEASED);
	if (RIPC__UNLIKELY(futex == 2))
		ripc__lock_wake(lock);
}

/*
 * A follower clears its futex with the lock held, releases the lock, and sleeps until the futex is
 * set or until_ns (RIPC__NEVER: no limit; the clock of base/clock.h). It may wake early for no
 * reason. The thread that sets the futex holds the lock.
 */
void ripc__futex_wait(atomic_uint *futex, uint64_t until_ns);
void ripc__futex_wake(atomic_uint *futex);

#endif
