/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One thread enters a call while another one closes the context or ends the service. Both are led
 * through all interleavings of their steps around the lock (enum ripc__lock_step): each is stopped
 * at each of its steps while the other goes on to each of its own. The call always returns
 * -ESHUTDOWN or its normal result. With the sanitizers it also touches no freed memory.
 *
 * The threads are passed on without any memory ordering, so that the thread sanitizer checks the
 * ordering of the library.
 */
#define _GNU_SOURCE
#include "core/memory/buffer.h"
#include "core/progress/context.h"
#include "core/rendezvous/sender.h"
#include "core/message/service.h"
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>

#define OPTIONS   "transports=self resolver=local"
#define BUF_BYTES ((size_t)1000)
#define STEPS_MAX 200

/* ---- a world without a network, in virtual time ---- */

/* The objects that the calls work on. */
static struct world {
	struct ripc *ctx;
	struct ripc_service *s, *other;
	struct ripc_request *request;
	void *buf;              /* of ripc_buf_alloc() */
	void *free;             /* likewise, with nothing in it */
	uint8_t mine[2 * 4096]; /* the first half is registered */
} w;

static _Atomic uint64_t now_ns;

static uint64_t now(void *arg)
{
	(void)arg;
	return atomic_load_explicit(&now_ns, memory_order_relaxed);
}

static void paused(void);

/* No event ever comes: time advances, and a thread may close the context. */
static void idle(void *arg, uint64_t deadline_ns)
{
	uint64_t at = now(NULL), next = at + RIPC__MS;

	(void)arg;
	paused();
	atomic_store_explicit(&now_ns, MIN(next, deadline_ns), memory_order_relaxed);
	sched_yield();
	/* A waiting thread is counted, so the context stays. */
	ripc__poll(w.ctx);
}

/* The ids of contexts differ from those of the same test in another process of this host. */
static uint64_t random_number(void *arg)
{
	static _Atomic uint64_t state;
	uint64_t x = atomic_load_explicit(&state, memory_order_relaxed);

	(void)arg;
	x = x ? x : test_ids();
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	atomic_store_explicit(&state, x, memory_order_relaxed);
	return x;
}

static const struct ripc__hooks hooks = {.now = now, .idle = idle, .random = random_number};

static void open_world(void)
{
	static uint8_t byte;
	struct iovec item = {&byte, 1};

	atomic_store(&now_ns, 1000 * RIPC__MS);
	ck_assert_int_eq(ripc__open_hooked(&w.ctx, OPTIONS, &hooks), 0);
	ck_assert_int_eq(ripc_service_register(w.ctx, test_ids(), 0, &w.s), 0);
	ck_assert_int_eq(ripc_service_register(w.ctx, test_ids() + 1, 0, &w.other), 0);
	w.buf = ripc_buf_alloc(w.ctx, BUF_BYTES);
	w.free = ripc_buf_alloc(w.ctx, BUF_BYTES);
	ck_assert(w.buf && w.free);
	ck_assert_int_eq(ripc_buf_register(w.ctx, w.mine, 4096), 0);
	ck_assert_int_eq(ripc_window_add(w.ctx, NULL, w.buf, 100), 0);
	/* To nobody: it stays under way. */
	ck_assert_int_eq(ripc_send_async(w.other, test_ids() + 9, &item, 1, NULL, &w.request), 0);
}

/* ---- the calls ---- */

static char text[200];

static int call_send(void)
{
	return ripc_send(w.s, test_ids() + 1, &(struct iovec){text, 10}, 1, NULL, 10);
}

static int call_send_short(void)
{
	return ripc_send_short(w.s, test_ids() + 1, &(struct iovec){text, 10}, 1, NULL, 10);
}

static int call_send_short_nobody(void)
{
	return ripc_send_short(w.s, test_ids() + 9, &(struct iovec){text, 10}, 1, NULL, -1);
}

static int call_send_long(void)
{
	return ripc_send_long(w.s, test_ids() + 1, &(struct iovec){text, 10}, 1, NULL, 10);
}

static int call_start(void)
{
	struct ripc_request *r;

	return ripc_send_async(w.s, test_ids() + 9, &(struct iovec){text, 10}, 1, NULL, &r);
}

static int receive(int timeout_ms)
{
	struct ripc_message *m;

	return ripc_receive(w.s, &m, timeout_ms);
}

static int call_receive(void)
{
	return receive(-1);
}

static int call_receive_now(void)
{
	return receive(0);
}

static int call_register(void)
{
	struct ripc_service *s;

	return ripc_service_register(w.ctx, test_ids() + 2, 0, &s);
}

static int call_unregister(void)
{
	return ripc_service_unregister(w.s);
}

static int call_service_fd(void)
{
	int fd = ripc_service_fd(w.s);

	return fd < 0 ? fd : 0;
}

static int call_service_stats(void)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	return ripc_service_stats(w.s, &stats);
}

static int call_service_id(void)
{
	uint64_t id = ripc_service_id(w.s);

	return id == test_ids() ? 0 : id ? -EBADMSG : -ESHUTDOWN;
}

static int call_group_join(void)
{
	return ripc_group_join(w.s, test_ids(), 10);
}

static int call_group_leave(void)
{
	return ripc_group_leave(w.s, test_ids());
}

static int call_group_send(void)
{
	return ripc_group_send(w.s, test_ids(), &(struct iovec){text, 10}, 1, NULL, 10);
}

static int call_group_stats(void)
{
	struct ripc_group_stats stats = {.size = sizeof(stats)};

	return ripc_group_stats(w.ctx, test_ids(), NULL, &stats);
}

static int call_buf_alloc(void)
{
	return ripc_buf_alloc(w.ctx, BUF_BYTES) ? 0 : -errno;
}

static int call_buf_realloc(void)
{
	return ripc_buf_realloc(w.ctx, w.free, 10 * BUF_BYTES) ? 0 : -errno;
}

static int call_buf_free(void)
{
	return ripc_buf_free(w.ctx, w.free);
}

static int call_buf_register(void)
{
	return ripc_buf_register(w.ctx, w.mine + 4096, 4096);
}

static int call_buf_unregister(void)
{
	return ripc_buf_unregister(w.ctx, w.mine);
}

static int call_window_add(void)
{
	return ripc_window_add(w.ctx, NULL, w.free, 100);
}

static int call_window_add_service(void)
{
	return ripc_window_add(NULL, w.s, w.free, 100);
}

static int call_window_remove(void)
{
	return ripc_window_remove(w.ctx, w.buf);
}

static int call_lookup(void)
{
	struct ripc_route route = {.size = sizeof(route)};

	return ripc_route_lookup(w.ctx, test_ids() + 9, &route, -1);
}

static int call_query(void)
{
	struct ripc_route route = {.size = sizeof(route)};

	return ripc_route_get(w.ctx, test_ids() + 9, &route);
}

static int call_limits(void)
{
	struct ripc_limits limits = {.size = sizeof(limits)};

	return ripc_route_limits(w.ctx, test_ids() + 9, &limits);
}

static int call_stats(void)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	return ripc_context_stats(w.ctx, &stats);
}

static int call_peer_stats(void)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	return ripc_peer_stats(w.ctx, test_ids() + 9, &stats);
}

static int call_transports(void)
{
	const char *name;
	int rc = ripc_transport_info(w.ctx, 0, &name, text, sizeof(text));

	return rc < 0 ? rc : 0;
}

static int call_resolvers(void)
{
	const char *name;
	int rc = ripc_resolver_info(w.ctx, 0, &name, text, sizeof(text));

	return rc < 0 ? rc : 0;
}

static int call_request_test(void)
{
	return ripc_request_test(&w.request);
}

static int call_request_wait(void)
{
	return ripc_request_wait(&w.request, -1);
}

static int call_request_cancel(void)
{
	return ripc_request_cancel(&w.request, 10);
}

static int call_close(void)
{
	return ripc_close(w.ctx);
}

static const struct {
	const char *name;
	int (*call)(void);
	int rc[3]; /* what it may return beside -ESHUTDOWN */
	bool of_service;
} calls[] = {
	{"send", call_send, {0}, true},
	{"send_short", call_send_short, {0}, true},
	{"send_short to nobody", call_send_short_nobody, {-EHOSTUNREACH}, true},
	{"send_long", call_send_long, {0, -ETIMEDOUT}, true},
	{"start", call_start, {0}, true},
	{"receive", call_receive, {-ESHUTDOWN}, true},
	{"receive at once", call_receive_now, {-EAGAIN}, true},
	{"register", call_register, {0}, false},
	{"unregister", call_unregister, {0}, true},
	{"service_fd", call_service_fd, {0}, true},
	{"service_stats", call_service_stats, {0}, true},
	{"service_id", call_service_id, {0}, true},
	{"group_join", call_group_join, {0, -ETIMEDOUT}, true},
	{"group_leave", call_group_leave, {-ENOENT}, true},
	{"group_send", call_group_send, {-EHOSTUNREACH}, true},
	{"group_stats", call_group_stats, {-ENOENT}, false},
	{"buf_alloc", call_buf_alloc, {0}, false},
	{"buf_realloc", call_buf_realloc, {0}, false},
	{"buf_free", call_buf_free, {0}, false},
	{"buf_register", call_buf_register, {0}, false},
	{"buf_unregister", call_buf_unregister, {0}, false},
	{"recv_window_add", call_window_add, {0}, false},
	{"recv_window_add of a service", call_window_add_service, {0}, true},
	{"window_remove", call_window_remove, {0}, false},
	{"lookup", call_lookup, {-EHOSTUNREACH}, false},
	{"query", call_query, {0, -ENOENT}, false},
	{"limits", call_limits, {-ENOENT}, false},
	{"stats", call_stats, {0}, false},
	{"peer_stats", call_peer_stats, {-ENOENT}, false},
	{"transports", call_transports, {0}, false},
	{"resolvers", call_resolvers, {0}, false},
	{"request_test", call_request_test, {-EINPROGRESS}, false},
	{"request_wait", call_request_wait, {-ESHUTDOWN}, false},
	{"request_cancel", call_request_cancel, {-ECANCELED}, false},
	{"close", call_close, {0, -EINVAL}, false},
};
#define CALLS (int)(sizeof(calls) / sizeof(calls[0]))

static bool allowed(int call, int rc)
{
	for (unsigned i = 0; i < 3; i++)
		if (rc == calls[call].rc[i] && (i == 0 || rc))
			return true;
	return rc == -ESHUTDOWN;
}

/* ---- the order of steps ---- */

enum who { CALLER, CLOSER };

/*
 * One goes to a step of its own, then the other to one of its own, then the first on to its end,
 * then all do what they like.
 */
enum turn { FIRST, SECOND, FIRST_AGAIN, BOTH };

struct actor {
	unsigned stop; /* at this step it waits for its next turn */
	unsigned steps;
	bool stopped;       /* it came to that */
	_Atomic bool stuck; /* it sleeps for the lock, or has ended: it will not give the turn on */
	int rc;
	int (*call)(void);
};

static struct actor actors[2];
static enum who first;
static _Atomic int turn; /* enum turn */
static _Thread_local struct actor *self_actor;

static bool is_my_turn(void)
{
	int t = atomic_load_explicit(&turn, memory_order_relaxed);

	return t == BOTH || (t == SECOND) == (self_actor != &actors[first]);
}

/* The thread that has the turn passes it on. */
static void pass_turn(void)
{
	int t = atomic_load_explicit(&turn, memory_order_relaxed);

	if (t != BOTH && is_my_turn())
		atomic_store_explicit(&turn, t + 1, memory_order_relaxed);
}

static void await_turn(void)
{
	const struct actor *other = &actors[self_actor == &actors[0]];

	while (!is_my_turn() && !atomic_load_explicit(&other->stuck, memory_order_relaxed))
		sched_yield();
}

/* This thread cannot go on without the other one. */
static void paused(void)
{
	if (self_actor)
		pass_turn();
}

static void step(enum ripc__lock_step at)
{
	if (!self_actor)
		return;
	atomic_store_explicit(&self_actor->stuck, at == RIPC__STEP_SLEEP, memory_order_relaxed);
	if (at == RIPC__STEP_SLEEP || at == RIPC__STEP_PAUSE) {
		paused();
		return;
	}
	if (self_actor->steps++ != self_actor->stop || self_actor->stopped)
		return;
	self_actor->stopped = true;
	pass_turn();
	await_turn();
}

static void *act(void *arg)
{
	self_actor = arg;
	await_turn();
	/* Stopped before it has read the handle. */
	step(RIPC__STEP_ACQUIRE);
	self_actor->rc = self_actor->call();
	atomic_store_explicit(&self_actor->stuck, true, memory_order_relaxed);
	pass_turn();
	self_actor = NULL;
	return NULL;
}

static int close_context(void)
{
	return ripc_close(w.ctx);
}

static int end_service(void)
{
	return ripc_service_unregister(w.s);
}

/* Return: whether both came to their steps. */
static bool run(int call, int (*end)(void), enum who begins, unsigned caller_stop,
		unsigned closer_stop, bool *caller_stopped)
{
	pthread_t threads[2];

	open_world();
	memset(actors, 0, sizeof(actors));
	actors[CALLER] = (struct actor){.stop = caller_stop, .call = calls[call].call};
	actors[CLOSER] = (struct actor){.stop = closer_stop, .call = end};
	first = begins;
	atomic_store(&turn, FIRST);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_msg(allowed(call, actors[CALLER].rc),
		      "%s, stopped at step %u, while the other one stopped at %u: %d (%s)",
		      calls[call].name, caller_stop, closer_stop, actors[CALLER].rc,
		      ripc_strerror(actors[CALLER].rc));
	/* One that had not begun when all was over. */
	if (begins == CALLER && !caller_stop && !actors[CLOSER].stopped && end == close_context &&
	    calls[call].call != call_close)
		ck_assert_msg(actors[CALLER].rc == -ESHUTDOWN, "%s after the end: %d",
			      calls[call].name, actors[CALLER].rc);
	if (end != close_context && calls[call].call != call_close)
		ripc_close(w.ctx);
	*caller_stopped = actors[CALLER].stopped;
	return actors[CALLER].stopped && actors[CLOSER].stopped;
}

static void interleave(int call, int (*end)(void))
{
	unsigned runs = 0;

	ripc__lock_hook = step;
	for (unsigned begins = 0; begins < 2; begins++)
		for (unsigned i = 0; i < STEPS_MAX; i++) {
			bool caller_stopped = false;

			for (unsigned j = 0; j < STEPS_MAX; j++, runs++)
				if (!run(call, end, (enum who)begins, i, j, &caller_stopped))
					break;
			if (!caller_stopped)
				break;
		}
	ripc__lock_hook = NULL;
	/* Neither of them has as few steps as that. */
	ck_assert_uint_ge(runs, 8);
}

START_TEST(close__while_another_thread_enters)
{
	interleave(_i, close_context);
}
END_TEST

START_TEST(unregister__while_another_thread_enters)
{
	if (calls[_i].of_service)
		interleave(_i, end_service);
}
END_TEST

START_TEST(enter__needs_the_steps_of_the_lock)
{
	test_skip("the library was built without steps: with --enable-debug it has them");
}
END_TEST

/* ---- memory ---- */

#define SMALL   ((size_t)600) /* bytes of a small object */
#define OBJECTS 1000u

static void check_bytes(const char *p, int want)
{
	for (size_t i = 0; i < SMALL; i++)
		ck_assert_int_eq(p[i], want);
}

static size_t resident(char *p, size_t len)
{
	unsigned char pages[OBJECTS];
	size_t n = 0;

	ck_assert_int_eq(mincore(p, len, pages), 0);
	for (size_t i = 0; i < len / 4096; i++)
		n += pages[i] & 1;
	return n;
}

/*
 * Small objects share pages. An ended one reads as zeros, its neighbours do not change, and a page
 * goes back when its last object has ended.
 */
START_TEST(free__small)
{
	static char *p[OBJECTS];
	char *low = (char *)UINTPTR_MAX, *high = NULL;

	for (unsigned i = 0; i < OBJECTS; i++) {
		p[i] = ripc__handle_alloc(SMALL);
		ck_assert(p[i] && (uintptr_t)p[i] % 64 == 0);
		check_bytes(p[i], 0);
		memset(p[i], 1 + (int)(i % 100), SMALL);
		low = p[i] < low ? p[i] : low;
		high = p[i] > high ? p[i] : high;
	}
	low = (char *)((uintptr_t)low & ~(uintptr_t)4095);
	ck_assert_int_lt(high - low, OBJECTS * 4096 / 4);
	for (unsigned i = 0; i < OBJECTS; i += 2)
		ripc__handle_free(p[i], SMALL);
	for (unsigned i = 0; i < OBJECTS; i++)
		check_bytes(p[i], i % 2 ? 1 + (int)(i % 100) : 0);
	for (unsigned i = 1; i < OBJECTS; i += 2)
		ripc__handle_free(p[i], SMALL);
	/* The next object lies on the last page. */
	ck_assert_uint_le(resident(low, (size_t)(high - low)), 1);
	for (unsigned i = 0; i < OBJECTS; i++)
		check_bytes(p[i], 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/handle");
	TCase *tc = tcase_create("enter");

	tcase_set_timeout(tc, 120);
	if (ripc__lock_steps) {
		tcase_add_loop_test(tc, close__while_another_thread_enters, 0, CALLS);
		tcase_add_loop_test(tc, unregister__while_another_thread_enters, 0, CALLS);
	} else {
		tcase_add_test(tc, enter__needs_the_steps_of_the_lock);
	}
	tcase_add_test(tc, free__small);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/handle", suite);
}
