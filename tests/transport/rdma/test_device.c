/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lists of devices, and set-up. The verbs are stubs. */
#include "transport/rdma/device.h"
#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port

#define EVENTS_MAX 8

static struct ibv_device hardware = {.name = "made0", .transport_type = IBV_TRANSPORT_IWARP};
static struct ibv_context context;
static struct ibv_pd pds[4];
static unsigned npds;

static struct ibv_async_event events[EVENTS_MAX]; /* that the kernel holds */
static unsigned nevents, acknowledged;

static int query_rc;
static bool no_pd;

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 2;
	return query_rc;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	errno = ENOSPC;
	if (no_pd)
		return NULL;
	pds[npds].context = ctx;
	return &pds[npds++];
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return 0;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	if (nevents) {
		*event = events[--nevents];
		return 0;
	}
	errno = EAGAIN;
	return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	acknowledged++;
}

static struct ripc__verbs_device d;

static void setup(void)
{
	context = (struct ibv_context){.device = &hardware, .async_fd = eventfd(0, 0)};
	npds = nevents = acknowledged = 0;
	ck_assert_int_eq(ripc__verbs_device_adopt(&d, &context, 0), 0);
}

static void teardown(void)
{
	ripc__verbs_device_close(&d);
	close(context.async_fd);
}

/* Events of a context of librdmacm may be the application's. */
START_TEST(close__leaves_events)
{
	events[nevents++] = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
	ripc__verbs_device_close(&d);
	ck_assert_uint_eq(nevents, 1);
	ck_assert_uint_eq(acknowledged, 0);
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
	struct ripc__verbs_device other;

	open_errno = ENODEV;
	ck_assert_int_eq(ripc__verbs_device_open(&other, &listed[0], 0), -ENODEV);
	open_errno = 0;
	query_rc = EIO;
	ck_assert_int_eq(ripc__verbs_device_open(&other, &listed[0], 0), -EIO);
	query_rc = 0;
	no_pd = true;
	ck_assert_int_eq(ripc__verbs_device_open(&other, &listed[0], 0), -ENOSPC);
	ck_assert_ptr_null(other.ctx);
	ck_assert_uint_eq(opened, 0);
	ck_assert_int_eq(ripc__verbs_device_adopt(&other, &context, 0), -ENOSPC);
	ck_assert_ptr_null(other.ctx);
	no_pd = false;
}
END_TEST

START_TEST(open__own)
{
	struct ripc__verbs_device other;

	ck_assert_int_eq(ripc__verbs_device_open(&other, &listed[1], 3), 0);
	ck_assert_str_eq(other.name, "iw0");
	ck_assert_uint_eq(other.index, 3);
	ck_assert(other.own && !other.siw && other.read_sink_remote_write);
	ck_assert(fcntl(other.ctx->async_fd, F_GETFL) & O_NONBLOCK);
	events[nevents++] = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
	ripc__verbs_device_close(&other);
	ck_assert_uint_eq(nevents, 0);
	ripc__verbs_device_close(&other);
	ck_assert_uint_eq(opened, 0);
}
END_TEST

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

START_TEST(forked__closes_descriptors)
{
	struct ripc__verbs_device closed = {.ctx = NULL};

	context.cmd_fd = eventfd(0, 0);
	ripc__verbs_device_forked(&closed);
	ck_assert(is_open(context.cmd_fd) && is_open(context.async_fd));
	ripc__verbs_device_forked(&d);
	ck_assert(!is_open(context.cmd_fd) && !is_open(context.async_fd));
	context.async_fd = eventfd(0, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/rdma/device");
	TCase *tc = tcase_create("device");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, close__leaves_events);
	tcase_add_test(tc, list__kind_first);
	tcase_add_test(tc, list__none);
	tcase_add_test(tc, probe__ports);
	tcase_add_test(tc, open__fails);
	tcase_add_test(tc, open__own);
	tcase_add_test(tc, forked__closes_descriptors);
	suite_add_tcase(suite, tc);
	return test_main("transport/rdma/device", suite);
}
