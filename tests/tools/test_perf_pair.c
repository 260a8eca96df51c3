/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The device, port and GID of a pair of queue pairs. The verbs are stubs. */
#include "harness.h"
#include "../tools/perf_pair.h"

#include <errno.h>
#include <string.h>

#undef ibv_query_port

#define DEVICES 3
#define PORTS   2

static struct ibv_device devices[DEVICES];
static struct ibv_context contexts[DEVICES];
static enum ibv_port_state ports[DEVICES][PORTS];
static struct ibv_gid_entry gids[4];
static unsigned ndevices, ngids, lists, opened; /* lists, opened: that exist */
static bool refuses[DEVICES];

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	static struct ibv_device *list[DEVICES + 1];

	for (unsigned i = 0; i <= DEVICES; i++)
		list[i] = i < ndevices ? &devices[i] : NULL;
	lists++;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	lists--;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	unsigned i = (unsigned)(device - devices);

	if (refuses[i])
		return NULL;
	opened++;
	contexts[i].device = device;
	return &contexts[i];
}

int ibv_close_device(struct ibv_context *context)
{
	opened--;
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = PORTS;
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *compat_attr)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)compat_attr;

	attr->state = ports[context - contexts][port_num - 1];
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	ck_assert_uint_ge(max_entries, ngids);
	memcpy(entries, gids, ngids * sizeof(gids[0]));
	return ngids;
}

/* No queues can be made: the pair ends with its device. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	errno = ENOSPC;
	return NULL;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	return NULL;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	return NULL;
}

/* Of perf_args.c, which the program does not have. */
const char *perf_qp_name(enum perf_qp qp)
{
	return "";
}

static void setup(void)
{
	for (unsigned i = 0; i < DEVICES; i++) {
		strcpy(devices[i].name, (const char *[]){"made0", "made1", "made2"}[i]);
		devices[i].transport_type = IBV_TRANSPORT_IB;
		for (unsigned k = 0; k < PORTS; k++)
			ports[i][k] = IBV_PORT_ACTIVE;
	}
	gids[0] = (struct ibv_gid_entry){.port_num = 1, .gid.raw = {0xfe, 0x80}};
	ndevices = DEVICES;
	ngids = 1;
}

/* Opens the named device; NULL: any. Return: its index, -1: there is none, or it has no address. */
static int open_pair(struct perf_pair *p, const char *name)
{
	struct perf_args args = {.device = name, .depth = 1};
	struct ibv_context *ctx;

	ck_assert_int_eq(perf_pair_open(p, &args, 64), -1);
	ctx = p->ctx;
	ck_assert_uint_eq(lists, 0);
	ck_assert_uint_eq(opened, ctx != NULL);
	perf_pair_close(p);
	ck_assert_uint_eq(opened, 0);
	return ctx ? (int)(ctx - contexts) : -1;
}

START_TEST(device__named)
{
	struct perf_pair p;

	ck_assert_int_eq(open_pair(&p, NULL), 0);
	ck_assert_int_eq(open_pair(&p, "made0"), 0);
	ck_assert_int_eq(open_pair(&p, "made2"), 2);
	ck_assert_int_eq(open_pair(&p, "made3"), -1);
	ndevices = 0;
	ck_assert_int_eq(open_pair(&p, NULL), -1);
}
END_TEST

/* Devices of iWARP, devices that cannot be opened, and those without a port that is up. */
START_TEST(device__passed_over)
{
	struct perf_pair p;

	devices[0].transport_type = IBV_TRANSPORT_IWARP;
	ck_assert_int_eq(open_pair(&p, NULL), 1);
	ck_assert_int_eq(open_pair(&p, "made0"), -1);
	refuses[1] = true;
	ck_assert_int_eq(open_pair(&p, NULL), 2);
	ck_assert_int_eq(open_pair(&p, "made1"), -1);
	refuses[1] = false;
	ports[1][0] = ports[1][1] = IBV_PORT_DOWN;
	ck_assert_int_eq(open_pair(&p, NULL), 2);
	ck_assert_int_eq(open_pair(&p, "made1"), -1);
}
END_TEST

START_TEST(port__first_that_is_up)
{
	struct perf_pair p;

	ck_assert_int_eq(open_pair(&p, NULL), 0);
	ck_assert_uint_eq(p.port_num, 1);
	ports[0][0] = IBV_PORT_DOWN;
	gids[0].port_num = 2;
	ck_assert_int_eq(open_pair(&p, NULL), 0);
	ck_assert_uint_eq(p.port_num, 2);
}
END_TEST

/* IPv4 first, then RoCE v2; of the port that is used. */
START_TEST(gid__rank)
{
	static const union ibv_gid v6 = {.raw = {0xfd, [15] = 1}},
				   v4 = {.raw = {[10] = 0xff, [11] = 0xff, [15] = 1}};
	struct perf_pair p;

	gids[0] = (struct ibv_gid_entry){.gid = v6, .gid_index = 3, .port_num = 1};
	gids[1] = (struct ibv_gid_entry){
		.gid = v6, .gid_index = 4, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
	gids[2] = (struct ibv_gid_entry){
		.gid = v4, .gid_index = 5, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};
	gids[3] = (struct ibv_gid_entry){.gid = v4, .gid_index = 6, .port_num = 1};
	for (ngids = 1; ngids <= 4; ngids++) {
		ck_assert_int_eq(open_pair(&p, NULL), 0);
		ck_assert_uint_eq(p.gid_index, 2 + (ngids < 4 ? ngids : 3));
		ck_assert_mem_eq(&p.gid, ngids < 3 ? &v6 : &v4, sizeof(v4));
	}
	ngids = 4;
	gids[2].port_num = 2;
	ck_assert_int_eq(open_pair(&p, NULL), 0);
	ck_assert_uint_eq(p.gid_index, 6);
	/* An entry of the table may have an index that no address has room for. */
	gids[3].gid_index = 256;
	ck_assert_int_eq(open_pair(&p, NULL), 0);
	ck_assert_uint_eq(p.gid_index, 4);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tools/perf_pair");
	TCase *tc = tcase_create("device");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, device__named);
	tcase_add_test(tc, device__passed_over);
	tcase_add_test(tc, port__first_that_is_up);
	tcase_add_test(tc, gid__rank);
	suite_add_tcase(suite, tc);
	return test_main("tools/perf_pair", suite);
}
