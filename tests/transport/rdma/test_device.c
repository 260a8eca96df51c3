/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Asynchronous events when contexts of one process share those of librdmacm: the context that reads
 * an event passes it to the device concerned. The verbs are stubs.
 */
#include "transport/rdma/device.h"
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 8

static struct ibv_device hardware = {.name = "made0", .transport_type = IBV_TRANSPORT_IWARP};
static struct ibv_context shared, other;
static struct ibv_pd pds[4];
static unsigned npds;

/* Events the kernel holds. */
static struct {
	struct ibv_context *ctx;
	struct ibv_async_event event;
} events[EVENTS_MAX];
static unsigned nevents, acknowledged;

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	pds[npds].context = context;
	return &pds[npds++];
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	for (unsigned i = 0; i < nevents; i++)
		if (events[i].ctx == context) {
			*event = events[i].event;
			events[i] = events[--nevents];
			return 0;
		}
	errno = EAGAIN;
	return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	acknowledged++;
}

static struct ripc__verbs_device a, b, c; /* a and b share a context */

static void setup(void)
{
	shared = (struct ibv_context){.device = &hardware, .async_fd = eventfd(0, 0)};
	other = (struct ibv_context){.device = &hardware, .async_fd = eventfd(0, 0)};
	npds = nevents = acknowledged = 0;
	ck_assert_int_eq(ripc__verbs_device_adopt(&a, &shared, 0), 0);
	ck_assert_int_eq(ripc__verbs_device_adopt(&b, &shared, 0), 0);
	ck_assert_int_eq(ripc__verbs_device_adopt(&c, &other, 0), 0);
}

static void teardown(void)
{
	ripc__verbs_device_close(&a);
	ripc__verbs_device_close(&b);
	ripc__verbs_device_close(&c);
	close(shared.async_fd);
	close(other.async_fd);
}

static void inject_event(struct ibv_async_event event)
{
	events[nevents].ctx = &shared;
	events[nevents++].event = event;
}

static bool wake_fd_readable(const struct ripc__verbs_device *d)
{
	struct pollfd p = {.fd = d->wake_fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* d gets this event only. */
static void expect_event(struct ripc__verbs_device *d, enum ripc__verbs_async async_event)
{
	struct ripc__verbs_event ev;

	ck_assert(ripc__verbs_event(d, &ev));
	ck_assert_int_eq(ev.async_event, async_event);
	ck_assert_ptr_nonnull(ev.text);
	ck_assert_int_eq(d->gone, async_event == RIPC__VERBS_DEVICE_GONE);
	ck_assert(!ripc__verbs_event(d, &ev));
	ck_assert(!wake_fd_readable(d));
}

static void expect_no_event(struct ripc__verbs_device *d)
{
	struct ripc__verbs_event ev;

	ck_assert(!ripc__verbs_event(d, &ev));
	ck_assert(!d->gone);
	ck_assert(!wake_fd_readable(d));
}

START_TEST(event__of_a_completion_queue)
{
	struct ibv_cq cq = {.context = &shared, .cq_context = &b};

	inject_event((struct ibv_async_event){.element.cq = &cq, .event_type = IBV_EVENT_CQ_ERR});
	expect_no_event(_i ? &c : &a);
	if (!_i)
		ck_assert(wake_fd_readable(&b));
	expect_event(&b, RIPC__VERBS_DEVICE_GONE);
	expect_no_event(&a);
	ck_assert_uint_eq(acknowledged, 1);
}
END_TEST

START_TEST(event__of_a_queue_pair)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_QP_FATAL,
		IBV_EVENT_QP_REQ_ERR,
		IBV_EVENT_QP_ACCESS_ERR,
		IBV_EVENT_PATH_MIG_ERR,
	};
	struct ibv_qp qp = {.context = &shared, .pd = b.pd};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		inject_event((struct ibv_async_event){.element.qp = &qp, .event_type = types[i]});
		expect_no_event(&a);
		ck_assert(wake_fd_readable(&b));
		expect_event(&b, RIPC__VERBS_QP_FATAL);
	}
	ck_assert_uint_eq(acknowledged, 4);
}
END_TEST

START_TEST(event__of_a_receive_queue)
{
	struct ibv_srq srq = {.context = &shared, .pd = a.pd};
	struct ibv_async_event event;

	event = (struct ibv_async_event){.element.srq = &srq, .event_type = IBV_EVENT_SRQ_ERR};
	inject_event(event);
	expect_no_event(&b);
	expect_event(&a, RIPC__VERBS_DEVICE_GONE);
}
END_TEST

/* Both get it; a transport with its own context does not. */
START_TEST(event__of_the_device)
{
	inject_event((struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
	expect_event(_i ? &a : &b, RIPC__VERBS_DEVICE_GONE);
	ck_assert(wake_fd_readable(_i ? &b : &a));
	expect_event(_i ? &b : &a, RIPC__VERBS_DEVICE_GONE);
	expect_no_event(&c);
	ck_assert_uint_eq(acknowledged, 1);
}
END_TEST

START_TEST(event__of_a_port)
{
	static const enum ibv_event_type types[] = {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE};
	static const enum ripc__verbs_async kinds[] = {RIPC__VERBS_PORT_DOWN, RIPC__VERBS_PORT_UP};
	struct ripc__verbs_event ev;

	inject_event((struct ibv_async_event){.element.port_num = 1,
					      .event_type = IBV_EVENT_GID_CHANGE});
	expect_event(&a, RIPC__VERBS_PORT_CHANGED);
	for (unsigned i = 0; i < 2; i++) {
		unsigned k = i ^ (unsigned)_i;
		struct ibv_async_event e = {.element.port_num = 1, .event_type = types[k]};

		inject_event(e);
		expect_event(&a, kinds[k]);
	}
	/* Events read for it, in order, and the last state of the port. */
	ck_assert(wake_fd_readable(&b));
	ck_assert(ripc__verbs_event(&b, &ev));
	ck_assert_int_eq(ev.async_event, kinds[1 - _i]);
	ck_assert_uint_eq(ev.port, 1);
	ck_assert(wake_fd_readable(&b));
	expect_event(&b, RIPC__VERBS_PORT_CHANGED);
}
END_TEST

/* Objects of the application on the same context. */
START_TEST(event__of_unknown_object)
{
	struct ibv_pd pd = {.context = &shared};
	struct ibv_qp qp = {.context = &shared, .pd = &pd};
	struct ibv_cq cq = {.context = &shared, .cq_context = &pd};

	inject_event((struct ibv_async_event){.element.qp = &qp, .event_type = IBV_EVENT_QP_FATAL});
	inject_event((struct ibv_async_event){.element.cq = &cq, .event_type = IBV_EVENT_CQ_ERR});
	expect_no_event(&a);
	expect_no_event(&b);
	ck_assert_uint_eq(acknowledged, 2);
}
END_TEST

/* Events left unread by close(). */
START_TEST(close__hands_over)
{
	struct ibv_qp qp = {.context = &shared, .pd = b.pd};

	inject_event((struct ibv_async_event){.element.qp = &qp, .event_type = IBV_EVENT_QP_FATAL});
	ripc__verbs_device_close(&a);
	ck_assert_int_eq(a.wake_fd, -1);
	expect_event(&b, RIPC__VERBS_QP_FATAL);
	/* Nothing is passed on to a closed device. */
	inject_event((struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
	expect_event(&b, RIPC__VERBS_DEVICE_GONE);
	ck_assert_uint_eq(a.pending_mask, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/rdma/device");
	TCase *tc = tcase_create("device");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, event__of_a_completion_queue, 0, 2);
	tcase_add_test(tc, event__of_a_queue_pair);
	tcase_add_test(tc, event__of_a_receive_queue);
	tcase_add_loop_test(tc, event__of_the_device, 0, 2);
	tcase_add_loop_test(tc, event__of_a_port, 0, 2);
	tcase_add_test(tc, event__of_unknown_object);
	tcase_add_test(tc, close__hands_over);
	suite_add_tcase(suite, tc);
	return test_main("transport/rdma/device", suite);
}
