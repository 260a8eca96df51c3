/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Event and completion queues: limits, waiting, and endpoints that are closed meanwhile. */
#define _GNU_SOURCE /* gettid */
#include "side.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct side a, b;
static int tid;
static bool done;

static void begin(void)
{
	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
}

static void end(void)
{
	side_close(&a);
	side_close(&b);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void on_signal(int number)
{
}

static void *wait_for_events(void *objects)
{
	struct fid **fids = objects;
	struct fid_cq *cq = container_of(fids[1], struct fid_cq, fid);
	struct fid_cntr *cntr = container_of(fids[2], struct fid_cntr, fid);
	struct fid_eq *eq = container_of(fids[0], struct fid_eq, fid);
	struct fi_cq_tagged_entry e;
	uint32_t number = 0;
	char text[8];
	ssize_t n;

	__atomic_store_n(&tid, gettid(), __ATOMIC_RELEASE);
	ck_assert_int_eq(fi_eq_sread(eq, &number, text, sizeof(text), -1, 0), -FI_EINTR);
	ck_assert_int_eq(fi_cq_sread(cq, &e, 1, NULL, -1), -FI_EINTR);
	ck_assert_int_eq(fi_cntr_wait(cntr, 1, -1), -FI_EINTR);
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	/* One more signal may be on its way. */
	do
		n = fi_eq_sread(eq, &number, text, sizeof(text), -1, 0);
	while (n == -FI_EINTR);
	ck_assert_int_eq(n, 4);
	ck_assert_uint_eq(number, 7);
	ck_assert_str_eq(text, "abc");
	return NULL;
}

/* fi_eq(3), fi_cq(3): a thread that waits returns if it is signaled. */
START_TEST(waiting__ends_with_a_signal_or_in_time)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid *fids[3];
	uint32_t number;
	pthread_t thread;
	uint64_t start_ms;
	char text[8];

	sigaction(SIGUSR1, &action, NULL);
	ck_assert_int_eq(fi_eq_open(a.fabric, &attr, &eq, NULL), 0);
	ck_assert_int_eq(fi_cq_open(a.domain, &cq_attr, &cq, NULL), 0);
	ck_assert_int_eq(fi_cntr_open(a.domain, &cntr_attr, &cntr, NULL), 0);
	fids[0] = &eq->fid;
	fids[1] = &cq->fid;
	fids[2] = &cntr->fid;
	pthread_create(&thread, NULL, wait_for_events, fids);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		AWAIT(__atomic_load_n(&tid, __ATOMIC_ACQUIRE) && test_sleeps(tid));
		pthread_kill(thread, SIGUSR1);
	}
	ck_assert_int_eq(fi_eq_write(eq, 7, "abc", 4, 0), 4);
	pthread_join(thread, NULL);
	start_ms = now_ms();
	ck_assert_int_eq(fi_eq_sread(eq, &number, text, sizeof(text), 20, 0), -FI_EAGAIN);
	ck_assert_uint_ge(now_ms() - start_ms, 20);
	ck_assert_int_eq(fi_eq_sread(eq, &number, text, sizeof(text), 0, 0), -FI_EAGAIN);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(fi_close(fids[i]), 0);
}
END_TEST

START_TEST(events__are_read_in_order)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
	struct pollfd p = {.events = POLLIN};
	struct fid_eq *eq;
	uint32_t number;
	char text[8];

	ck_assert_int_eq(fi_eq_open(a.fabric, &attr, &eq, NULL), 0);
	ck_assert_int_eq(fi_control(&eq->fid, FI_GETWAIT, &p.fd), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(fi_eq_read(eq, &number, text, sizeof(text), 0), -FI_EAGAIN);
	ck_assert_int_eq(fi_eq_write(eq, 1, "abcdefgh", 8, 0), 8);
	ck_assert_int_eq(fi_eq_write(eq, 2, NULL, 0, 0), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	/* Neither takes the event. */
	ck_assert_int_eq(fi_eq_read(eq, &number, text, 7, 0), -FI_ETOOSMALL);
	ck_assert_int_eq(fi_eq_read(eq, &number, text, sizeof(text), FI_PEEK), 8);
	ck_assert_int_eq(fi_eq_read(eq, &number, text, sizeof(text), 0), 8);
	ck_assert_uint_eq(number, 1);
	ck_assert_mem_eq(text, "abcdefgh", 8);
	ck_assert_int_eq(fi_eq_read(eq, &number, text, sizeof(text), 0), 0);
	ck_assert_uint_eq(number, 2);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	/* An unread one is freed. */
	ck_assert_int_eq(fi_eq_write(eq, 3, "x", 1, 0), 1);
	ck_assert_int_eq(fi_close(&eq->fid), 0);
	attr.flags = 0;
	ck_assert_int_eq(fi_eq_open(a.fabric, &attr, &eq, NULL), 0);
	ck_assert_int_eq(fi_eq_write(eq, 1, "x", 1, 0), -FI_EINVAL);
	ck_assert_int_eq(fi_close(&eq->fid), 0);
}
END_TEST

START_TEST(counter__wakes_its_wait_object)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
	struct pollfd p = {.events = POLLIN};
	struct fid_cntr *cntr;
	struct fid *fids[1];

	ck_assert_int_eq(fi_cntr_open(a.domain, &attr, &cntr, NULL), 0);
	fids[0] = &cntr->fid;
	ck_assert_int_eq(fi_control(&cntr->fid, FI_GETWAIT, &p.fd), 0);
	ck_assert_int_eq(fi_trywait(a.fabric, fids, 1), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(fi_cntr_add(cntr, 3), 0);
	ck_assert_int_eq(fi_trywait(a.fabric, fids, 1), -FI_EAGAIN);
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	ck_assert_uint_eq(fi_cntr_read(cntr), 3);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(fi_cntr_set(cntr, 1), 0);
	ck_assert_int_eq(fi_cntr_adderr(cntr, 2), 0);
	ck_assert_uint_eq(fi_cntr_read(cntr), 1);
	ck_assert_uint_eq(fi_cntr_readerr(cntr), 2);
	ck_assert_int_eq(fi_cntr_seterr(cntr, 0), 0);
	ck_assert_uint_eq(fi_cntr_readerr(cntr), 0);
	ck_assert_int_eq(fi_close(&cntr->fid), 0);
}
END_TEST

/* A completion of a long send makes the descriptor of the domain readable, also for queues of
 * other endpoints. */
START_TEST(wait_object__without_endpoints_is_not_readable)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
	static char out[1 << 20], in[1 << 20];
	struct fid *fids[1];
	struct pollfd p = {.events = POLLIN};
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t to_b, to_a;

	ck_assert_int_eq(fi_cq_open(a.domain, &attr, &cq, NULL), 0);
	ck_assert_int_eq(fi_endpoint(a.domain, a.info, &ep, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ck_assert_int_eq(fi_close(&ep->fid), 0);
	ck_assert_int_eq(fi_control(&cq->fid, FI_GETWAIT, &p.fd), 0);
	to_b = side_insert(&a, &b);
	to_a = side_insert(&b, &a);
	ck_assert_int_eq(fi_recv(b.ep, in, sizeof(in), NULL, to_a, NULL), 0);
	ck_assert_int_eq(fi_send(a.ep, out, sizeof(out), NULL, to_b, NULL), 0);
	side_wait(&b, &a);
	/* The completion is there and nobody takes it. */
	fids[0] = &cq->fid;
	for (unsigned i = 0; i < 20; i++) {
		ck_assert_int_eq(fi_trywait(a.fabric, fids, 1), 0);
		ck_assert_int_eq(poll(&p, 1, 10), 0);
	}
	side_wait(&a, &b);
	ck_assert_int_eq(fi_cq_signal(cq), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 1);
	ck_assert_int_eq(fi_close(&cq->fid), 0);
}
END_TEST

START_TEST(completion_queue__of_any_size)
{
	static const size_t sizes[] = {1, 16385, UINT64_C(1) << 32, SIZE_MAX};
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_ep *ep;
	struct fid_cq *cq;
	char c;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		attr.size = sizes[i];
		ck_assert_int_eq(fi_cq_open(a.domain, &attr, &cq, NULL), 0);
		ck_assert_int_eq(fi_endpoint(a.domain, a.info, &ep, NULL), 0);
		ck_assert_int_eq(fi_ep_bind(ep, &a.av->fid, 0), 0);
		ck_assert_int_eq(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ck_assert_int_eq(fi_enable(ep), 0);
		ck_assert_int_eq(fi_recv(ep, &c, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
		ck_assert_int_eq(fi_close(&ep->fid), 0);
		ck_assert_int_eq(fi_close(&cq->fid), 0);
	}
}
END_TEST

static void *close_endpoint(void *ep)
{
	ck_assert_int_eq(fi_close(ep), 0);
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* An injected message to an endpoint that is not there keeps fi_close() waiting. */
START_TEST(close__does_not_hold_up_other_endpoints)
{
	uint64_t start_ms, longest_ms = 0, ms;
	struct side c, gone;
	pthread_t thread;
	fi_addr_t to;

	side_open(&gone, NULL, FI_WAIT_NONE);
	to = side_insert(&a, &gone);
	side_close(&gone);
	side_open(&c, &a, FI_WAIT_NONE);
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to), 0);
	start_ms = now_ms();
	pthread_create(&thread, NULL, close_endpoint, &a.ep->fid);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		ms = now_ms();
		side_progress(&c);
		ms = now_ms() - ms;
		if (ms > longest_ms)
			longest_ms = ms;
	}
	pthread_join(thread, NULL);
	a.ep = NULL;
	ck_assert_uint_ge(now_ms() - start_ms, 900);
	ck_assert_uint_lt(longest_ms, 600);
	side_close(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/queues");
	TCase *tc = tcase_create("queues");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, waiting__ends_with_a_signal_or_in_time);
	tcase_add_test(tc, events__are_read_in_order);
	tcase_add_test(tc, counter__wakes_its_wait_object);
	tcase_add_test(tc, wait_object__without_endpoints_is_not_readable);
	tcase_add_test(tc, completion_queue__of_any_size);
	tcase_add_test(tc, close__does_not_hold_up_other_endpoints);
	suite_add_tcase(s, tc);
	return test_main("ofi/queues", s);
}
