/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lists of devices, set-up, and asynchronous events when contexts of one process share those of
 * librdmacm: the context that reads an event passes it to the device concerned. The verbs are
 * stubs.
 */
#include "transport/rdma/device.h"
#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port

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

static int query_rc;
static bool no_pd;

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 2;
	return query_rc;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	errno = ENOSPC;
	if (no_pd)
		return NULL;
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

	inject_event((struct ibv_async_event){.element.port_num = 1,
					      .event_type = IBV_EVENT_GID_CHANGE});
	expect_event(&a, RIPC__VERBS_PORT_CHANGED);
	for (unsigned i = 0; i < 2; i++) {
		unsigned k = i ^ (unsigned)_i;
		struct ibv_async_event e = {.element.port_num = 1, .event_type = types[k]};

		inject_event(e);
		expect_event(&a, kinds[k]);
	}
	/* Users of adopted devices need none of them: they are not passed on. */
	ck_assert(!wake_fd_readable(&b));
	expect_no_event(&b);
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
	ck_assert_int_eq(a.pending.async_event, RIPC__VERBS_NONE);
}
END_TEST

/* ---- lists of devices ---- */

#define DEVICES 4

/* Of alternating kinds, InfiniBand first. */
static struct ibv_device listed[DEVICES] = {
	{.name = "ib0", .transport_type = IBV_TRANSPORT_IB},
	{.name = "iw0", .transport_type = IBV_TRANSPORT_IWARP},
	{.name = "ib1", .transport_type = IBV_TRANSPORT_IB},
	{.name = "iw1", .transport_type = IBV_TRANSPORT_IWARP},
};
static int nlisted, list_errno, open_errno;
static unsigned lists, opened;                 /* that exist */
static enum ibv_port_state states[DEVICES][2]; /* of the ports */
static struct ibv_context contexts[DEVICES];

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(DEVICES + 1, sizeof(*list));

	*num_devices = nlisted;
	errno = list_errno;
	if (list_errno || !list) {
		free(list);
		return NULL;
	}
	for (int i = 0; i < nlisted; i++)
		list[i] = &listed[i];
	lists++;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	lists--;
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *ctx = &contexts[device - listed];

	errno = open_errno;
	if (open_errno)
		return NULL;
	*ctx = (struct ibv_context){.device = device, .async_fd = eventfd(0, EFD_CLOEXEC)};
	opened++;
	return ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	opened--;
	return close(ctx->async_fd);
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *port = (struct ibv_port_attr *)attr;

	ck_assert(port_num == 1 || port_num == 2);
	port->state = states[ctx->device - listed][port_num - 1];
	return 0;
}

START_TEST(list__kind_first)
{
	struct ibv_device **list;
	char why[200];

	nlisted = DEVICES;
	ck_assert_int_eq(ripc__verbs_list(RIPC__VERBS_IB, &list, why, sizeof(why)), 2);
	ck_assert(list[0] == &listed[0] && list[1] == &listed[2]);
	ck_assert(list[2] == &listed[1] && list[3] == &listed[3]);
	ibv_free_device_list(list);
	ck_assert_int_eq(ripc__verbs_list(RIPC__VERBS_IWARP, &list, why, sizeof(why)), 2);
	ck_assert(list[0] == &listed[1] && list[1] == &listed[3]);
	ibv_free_device_list(list);
}
END_TEST

START_TEST(list__none)
{
	struct ibv_device **list;
	char why[200];

	list_errno = EPERM;
	ck_assert_int_eq(ripc__verbs_list(RIPC__VERBS_IB, &list, why, sizeof(why)), -EPERM);
	ck_assert_msg(strstr(why, "cannot be listed"), "%s", why);
	/* The kernel has no verbs. */
	list_errno = ENOSYS;
	ck_assert_int_eq(ripc__verbs_list(RIPC__VERBS_IB, &list, why, sizeof(why)), -ENODEV);
	ck_assert_msg(strstr(why, "no RDMA device"), "%s", why);
	list_errno = 0;
	ck_assert_int_eq(ripc__verbs_list(RIPC__VERBS_IB, &list, why, sizeof(why)), -ENODEV);
	ck_assert_ptr_null(list);
	nlisted = 1;
	ck_assert_int_eq(ripc__verbs_list(RIPC__VERBS_IWARP, &list, why, sizeof(why)), -ENODEV);
	ck_assert_str_eq(why, "this host has 1 RDMA device, but no iWARP device");
	ck_assert_ptr_null(list);
	ck_assert_uint_eq(lists, 0);
}
END_TEST

/* One active port of any device of the kind is enough. */
START_TEST(probe__ports)
{
	char why[200];

	nlisted = DEVICES;
	states[1][0] = states[1][1] = IBV_PORT_ACTIVE;
	ck_assert_int_eq(ripc__verbs_probe(RIPC__VERBS_IB, why, sizeof(why)), -ENETDOWN);
	ck_assert_str_eq(why, "ib1: no port is active");
	ck_assert_int_eq(ripc__verbs_probe(RIPC__VERBS_IWARP, why, sizeof(why)), 0);
	states[2][1] = IBV_PORT_ACTIVE;
	ck_assert_int_eq(ripc__verbs_probe(RIPC__VERBS_IB, why, sizeof(why)), 0);
	query_rc = EIO;
	ck_assert_int_eq(ripc__verbs_probe(RIPC__VERBS_IB, why, sizeof(why)), -ENETDOWN);
	query_rc = 0;
	open_errno = EACCES;
	ck_assert_int_eq(ripc__verbs_probe(RIPC__VERBS_IB, why, sizeof(why)), -EACCES);
	ck_assert_str_eq(why, "ib1 cannot be opened: Permission denied (see the rights of "
			      "/dev/infiniband/uverbs*)");
	open_errno = ENOSPC;
	ck_assert_int_eq(ripc__verbs_probe(RIPC__VERBS_IB, why, sizeof(why)), -ENOSPC);
	ck_assert_str_eq(why, "ib1 cannot be opened: No space left on device");
	ck_assert_uint_eq(lists + opened, 0);
}
END_TEST

/* ---- set-up ---- */

START_TEST(open__fails)
{
	struct ripc__verbs_device d;

	open_errno = ENODEV;
	ck_assert_int_eq(ripc__verbs_device_open(&d, &listed[0], 0), -ENODEV);
	open_errno = 0;
	query_rc = EIO;
	ck_assert_int_eq(ripc__verbs_device_open(&d, &listed[0], 0), -EIO);
	query_rc = 0;
	no_pd = true;
	ck_assert_int_eq(ripc__verbs_device_open(&d, &listed[0], 0), -ENOSPC);
	ck_assert_ptr_null(d.ctx);
	ck_assert_uint_eq(opened, 0);
	ck_assert_int_eq(ripc__verbs_device_adopt(&d, &other, 0), -ENOSPC);
	ck_assert_ptr_null(d.ctx);
	ck_assert_int_eq(d.wake_fd, -1);
	no_pd = false;
}
END_TEST

START_TEST(open__own)
{
	struct ripc__verbs_device d;

	ck_assert_int_eq(ripc__verbs_device_open(&d, &listed[1], 3), 0);
	ck_assert_str_eq(d.name, "iw0");
	ck_assert_uint_eq(d.index, 3);
	ck_assert(d.own && !d.siw && d.read_sink_remote_write);
	ck_assert(fcntl(d.ctx->async_fd, F_GETFL) & O_NONBLOCK);
	ripc__verbs_device_close(&d);
	ripc__verbs_device_close(&d);
	ck_assert_uint_eq(opened, 0);
}
END_TEST

START_TEST(removed__path)
{
	struct ibv_device device = {.name = "made1", .dev_path = "/"};
	struct ibv_context ctx = {.device = &device};
	struct ripc__verbs_device d = {.ctx = &ctx};

	ck_assert(!ripc__verbs_device_removed(&d));
	strcpy(device.dev_path, "/nowhere/made1");
	ck_assert(ripc__verbs_device_removed(&d));
	/* It does not come back. */
	strcpy(device.dev_path, "/");
	ck_assert(ripc__verbs_device_removed(&d));
}
END_TEST

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(forked__closes_descriptors)
{
	struct ripc__verbs_device d = {.ctx = &shared, .wake_fd = eventfd(0, 0)};
	struct ripc__verbs_device closed = {.ctx = NULL, .wake_fd = dup(d.wake_fd)};

	shared.cmd_fd = eventfd(0, 0);
	ck_assert(is_open(d.wake_fd) && is_open(shared.cmd_fd) && is_open(shared.async_fd));
	ripc__verbs_device_forked(&d);
	ck_assert(!is_open(d.wake_fd) && !is_open(shared.cmd_fd) && !is_open(shared.async_fd));
	ripc__verbs_device_forked(&closed);
	ck_assert(is_open(closed.wake_fd));
	close(closed.wake_fd);
	shared.async_fd = eventfd(0, 0);
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
	tcase_add_test(tc, list__kind_first);
	tcase_add_test(tc, list__none);
	tcase_add_test(tc, probe__ports);
	tcase_add_test(tc, open__fails);
	tcase_add_test(tc, open__own);
	tcase_add_test(tc, removed__path);
	tcase_add_test(tc, forked__closes_descriptors);
	suite_add_tcase(suite, tc);
	return test_main("transport/rdma/device", suite);
}
