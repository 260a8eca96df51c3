/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kicks of the ring engine: two threads wake one another RIPC_TEST_CYCLES (100000) times. */
#include "ring_pair.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

/* A kick answers each request once, and only for its cause. */
START_TEST(arm__once)
{
	uint64_t i = 7;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	ring_pair_drain(&r);
	r.b.kicks = 0;
	ring_end_progress(&r, &r.a, &i, sizeof(i));
	ck_assert_uint_eq(r.b.kicks, 0);
	ck_assert(!ripc__ring_idle(&r.b.w));
	ck_assert(ring_end_poll(&r.b));
	ck_assert(ripc__ring_idle(&r.b.w));
	ripc__ring_arm(&r.b.w);
	ring_end_progress(&r, &r.a, &i, sizeof(i));
	ring_end_progress(&r, &r.a, &i, sizeof(i));
	ck_assert_uint_eq(r.b.kicks, 1);
	ck_assert(ring_end_poll(&r.b));
	ck_assert(ring_end_poll(&r.b));
	ripc__ring_arm(&r.b.w);
	/* The request stands: the second one writes nothing. */
	i = r.b.w.arm;
	ripc__ring_arm(&r.b.w);
	ck_assert_uint_eq(r.b.w.arm, i);
	ring_end_progress(&r, &r.a, &i, sizeof(i));
	ck_assert_uint_eq(r.b.kicks, 2);
	/* Credit wakes only a side that waits for room. */
	ripc__ring_arm(&r.a.w);
	while (ring_end_poll(&r.b))
		;
	r.a.kicks = 0;
	while (!ring_end_send(&r.a, &i, sizeof(i)))
		;
	ck_assert(ripc__ring_idle(&r.a.w));
	ripc__ring_arm(&r.a.w);
	while (ring_end_poll(&r.b))
		;
	ck_assert_uint_eq(r.a.kicks, 1);
	ck_assert(!ripc__ring_idle(&r.a.w));
	ring_pair_close(&r);
}
END_TEST

static void late_kick(void *arg)
{
	struct ring_end *to = arg;

	to->kicks++;
}

/* Takes a quarter of the slots, as much as credit is returned for. */
static void take_quarter(struct ring_end *e)
{
	for (unsigned i = 0; i < 16; i++)
		ck_assert(ring_end_poll(e));
}

/*
 * Credit answers a request, also before its kick is seen: a sleeper that needs more credit makes a
 * new request. A request that was not answered stands.
 */
START_TEST(arm__credit_before_kick)
{
	static const struct ripc__ring_backend_ops late_ops = {.kick = late_kick};
	uint64_t i = 7;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	r.b.w.be.ops = &late_ops;
	while (!ring_end_send(&r.a, &i, sizeof(i)))
		;
	ripc__ring_arm(&r.a.w);
	i = r.a.w.arm;
	ring_end_poll(&r.a);
	ripc__ring_arm(&r.a.w);
	ck_assert_uint_eq(r.a.w.arm, i);
	take_quarter(&r.b);
	ck_assert_uint_eq(r.a.kicks, 1);
	/* SENDABLE needs half of the slots. */
	ring_end_poll(&r.a);
	ck_assert_uint_eq(r.a.sendables, 0);
	ripc__ring_arm(&r.a.w);
	take_quarter(&r.b);
	ck_assert_uint_eq(r.a.kicks, 2);
	ring_end_poll(&r.a);
	ck_assert_uint_eq(r.a.sendables, 1);
	ring_pair_close(&r);
}
END_TEST

struct sleeper {
	struct ripc__ring w;
	struct sleeper *peer;
	sem_t bell;
	uint8_t *inbox;
	uint64_t rounds;
	atomic_bool *stop;
	uint64_t slept;
};

static void ring(void *arg)
{
	struct sleeper *to = arg;

	sem_post(&to->bell);
}

static const struct ripc__ring_backend_ops bell_ops = {.kick = ring};

/* Returns each message. Before it waits it sleeps, and only the doorbell wakes it. */
static void *sleeper_main(void *arg)
{
	struct sleeper *s = arg;
	uint8_t buf[RIPC__RING_RECV_BUF_LEN];
	struct ripc__event ev;

	for (uint64_t i = 0; i < s->rounds; i++) {
		struct iovec iov = {&i, sizeof(i)};

		while (!ripc__ring_poll(&s->w, buf, &ev)) {
			struct timespec ts;

			ripc__ring_arm(&s->w);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (!ripc__ring_idle(&s->w))
				continue;
			clock_gettime(CLOCK_REALTIME, &ts);
			ts.tv_sec += 60;
			s->slept++;
			if (sem_timedwait(&s->bell, &ts)) {
				*s->stop = true;
				return NULL;
			}
			ripc__ring_disarm(&s->w);
		}
		ripc__ring_send(&s->w, &iov, 1, sizeof(i), false);
	}
	return NULL;
}

/*
 * Two threads that sleep whenever there is nothing to do, RIPC_TEST_CYCLES (100000) times: no kick
 * is lost.
 */
START_TEST(arm__no_kick_lost)
{
	static struct sleeper s[2];
	struct ring_pair r;
	atomic_bool stop = false;
	pthread_t threads[2];
	uint64_t i = 0;
	struct iovec iov = {&i, sizeof(i)};

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	for (int k = 0; k < 2; k++) {
		struct ripc__ring_backend be = {
			.ops = &bell_ops,
			.arg = &s[!k],
			.inbox = k ? r.b.inbox : r.a.inbox,
			.map = k ? r.a.inbox : r.b.inbox,
		};

		sem_init(&s[k].bell, 0, 0);
		s[k].rounds = test_number("RIPC_TEST_CYCLES", 100000);
		s[k].stop = &stop;
		ripc__ring_init(&s[k].w, &be, &layout_small, 2);
	}
	ripc__ring_send(&s[0].w, &iov, 1, sizeof(i), false);
	for (int k = 0; k < 2; k++)
		ck_assert_int_eq(pthread_create(&threads[k], NULL, sleeper_main, &s[k]), 0);
	for (int k = 0; k < 2; k++)
		pthread_join(threads[k], NULL);
	ck_assert_msg(!stop, "a kick was lost");
	ck_assert_uint_gt(s[0].slept + s[1].slept, 0);
	for (int k = 0; k < 2; k++)
		ripc__ring_fini(&s[k].w);
	ring_pair_close(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ring/arm");
	TCase *c = tcase_create("arm");

	test_seed();
	tcase_set_timeout(c, 300);
	tcase_add_test(c, arm__once);
	tcase_add_test(c, arm__credit_before_kick);
	tcase_add_test(c, arm__no_kick_lost);
	suite_add_tcase(s, c);
	return test_main("transport/ring/arm", s);
}
