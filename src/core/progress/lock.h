/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The lock of a context, and the word on which one of its threads sleeps until another wakes it.
 *
 * Every call takes and releases the lock, most often unopposed: that is one locked instruction
 * each, without a call. It tells how many wait for it, so that a thread that spins with it can let
 * go only when that is of use.
 */
#ifndef RIPC_CORE_PROGRESS_LOCK_H
#define RIPC_CORE_PROGRESS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __clang__
#define RIPC__CAPABILITY(x) __attribute__((capability(x)))
#define RIPC__ACQUIRE(...)  __attribute__((acquire_capability(__VA_ARGS__)))
#define RIPC__RELEASE(...)  __attribute__((release_capability(__VA_ARGS__)))
#define RIPC__REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
#define RIPC__NO_ANALYSIS   __attribute__((no_thread_safety_analysis))
#else
#define RIPC__CAPABILITY(x)
#define RIPC__ACQUIRE(...)
#define RIPC__RELEASE(...)
#define RIPC__REQUIRES(...)
#define RIPC__NO_ANALYSIS
#endif

#define RIPC__LIKELY(x)   __builtin_expect(!!(x), 1)
#define RIPC__UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * For tests: called at each step of a thread on its way to the lock, with it, and away from it,
 * so that a test decides who goes on. Built with assertions or under the thread sanitizer only;
 * ripc__lock_steps says whether it is.
 */
enum ripc__lock_step {
	RIPC__STEP_ACQUIRE,   /* the lock is about to be taken */
	RIPC__STEP_CONTENDED, /* somebody else holds it: is about to be counted */
	RIPC__STEP_WAIT,      /* is about to try again */
	RIPC__STEP_SLEEP,     /* is about to sleep for it */
	RIPC__STEP_ACQUIRED,  /* it was taken */
	RIPC__STEP_RELEASE,   /* it is about to be released */
	RIPC__STEP_RELEASED,  /* it was released; those who sleep are not woken yet */
	RIPC__STEP_PAUSE,     /* a thread waits for others without it */
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
#else
	(void)step;
#endif
}

/* All zero: free. */
struct RIPC__CAPABILITY("mutex") ripc__lock {
	atomic_uint futex;  /* 0 free; 1 held; 2 held, and somebody may sleep for it */
	atomic_uint wanted; /* threads that wait for it */
};

/* The lock is held by somebody else: waits for it. */
void ripc__lock_wait(struct ripc__lock *lock);
/* It was released, and somebody may sleep for it. */
void ripc__lock_wake(struct ripc__lock *lock);
/*
 * Its memory ends while it is held (handle.h), which releases it. Before that, and after it: others
 * may sleep for it, and zeros do not tell.
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
	bool sleepers;

	ripc__lock_step(RIPC__STEP_RELEASE);
	sleepers = atomic_exchange_explicit(&lock->futex, 0, memory_order_release) == 2;
	ripc__lock_step(RIPC__STEP_RELEASED);
	if (RIPC__UNLIKELY(sleepers))
		ripc__lock_wake(lock);
}

/*
 * A thread clears its word under the lock, releases the lock and sleeps until the word is set, or
 * until_ns (RIPC__NEVER: without end; the clock of core/clock.h) or for no reason at all. Whoever
 * sets it holds the lock, under which the word lives and dies.
 */
void ripc__futex_wait(atomic_uint *futex, uint64_t until_ns);
void ripc__futex_wake(atomic_uint *futex);

#endif
