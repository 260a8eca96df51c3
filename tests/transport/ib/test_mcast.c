/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Multicast over a port whose receiving queue pair fails: in the lab, or on a host with RoCE. */
#include "base/clock.h"
#include "base/log.h"
#include "harness.h"
#include "ripc.h"
#include "transport/ib/ib.h"
#include "transport/net/mcast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_NS (UINT64_C(60) * 1000 * RIPC__MS)
#define RESEND_NS   (100 * RIPC__MS) /* datagrams may be lost */

static const struct ripc__transport_ops *const ops = &ripc__transport_ib;
static struct ripc__options opt;
static struct ripc__transport *tx, *rx;
static unsigned received[4]; /* by number in the datagram */
static char logged[2000];

static void note(void *arg, enum ripc_log_level level, const char *text)
{
	size_t len = strlen(logged);

	snprintf(logged + len, sizeof(logged) - len, "%s\n", text);
}

/* Return: whether a device receives multicast. */
static bool open_both(void)
{
	static const uint8_t instances[2][16] = {"one", "another"};
	struct ripc__transport_env env = {.opt = &opt, .instance = instances[0]};
	struct ripc__transport_limits limits;
	char why[256];

	ck_assert_int_eq(ripc__options_load(&opt, "multicast=on", why, sizeof(why)), 0);
	if (ops->open(&tx, &env)) {
		test_skip("%s", ripc_error_detail());
		return false;
	}
	env.instance = instances[1];
	ck_assert_msg(!ops->open(&rx, &env), "%s", ripc_error_detail());
	ops->limits(rx, &limits);
	if (limits.caps & RIPC__CAP_MULTICAST)
		return true;
	test_skip("no port of RoCE version 2: multicast is not received");
	return false;
}

static void step(struct ripc__transport *t)
{
	uint64_t deadline = RIPC__NEVER;
	struct ripc__event events[16];
	unsigned n = ops->progress(t, events, 16, ripc__clock_ns(), &deadline);

	for (unsigned i = 0; i < n; i++) {
		if (events[i].kind != RIPC__EV_DATAGRAM)
			continue;
		ck_assert_uint_eq(events[i].len, 8);
		if (t == rx)
			received[*(const uint8_t *)events[i].data]++;
		if (events[i].token)
			ops->release(t, events[i].token);
	}
}

/* Sends the number to the group until it is received. Return: false: it was not. */
static bool send_until_received(uint64_t group, uint8_t number, uint64_t ns)
{
	uint64_t now = ripc__clock_ns(), until = now + ns, next = 0;
	uint8_t text[8] = {number};

	received[number] = 0;
	while (!received[number] && now < until) {
		if (now >= next) {
			ops->post_group(tx, group, &(struct iovec){text, sizeof(text)}, 1);
			next = now + RESEND_NS;
		}
		step(tx);
		step(rx);
		now = ripc__clock_ns();
	}
	return received[number];
}

/* Sends it to the receiving queue pair by unicast. */
static bool post_until_sent(uint8_t number, uint64_t ns)
{
	uint64_t now = ripc__clock_ns(), until = now + ns, next = 0;
	uint8_t text[8] = {number}, addr[RIPC__ADDRESS_MAX];
	int len = ops->address(rx, addr, sizeof(addr));

	ck_assert_int_gt(len, 0);
	received[number] = 0;
	while (!received[number] && now < until) {
		if (now >= next) {
			ops->post_datagram(tx, addr, (size_t)len,
					   &(struct iovec){text, sizeof(text)}, 1);
			next = now + RESEND_NS;
		}
		step(tx);
		step(rx);
		now = ripc__clock_ns();
	}
	return received[number];
}

/* Groups at different addresses are separate. */
static uint64_t other_group(uint64_t group)
{
	union ripc__sockaddr one, other;
	uint64_t next = group;

	ripc__mcast_address(group, AF_INET, 1, &one);
	do
		ripc__mcast_address(++next, AF_INET, 1, &other);
	while (one.in.sin_addr.s_addr == other.in.sin_addr.s_addr);
	return next;
}

static struct ib_port *mcast_port(void)
{
	struct ripc__transport *t = (struct ripc__transport *)rx;

	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].mcast.qp)
			return &t->ports[i];
	ck_abort_msg("no port receives");
	return NULL;
}

static bool lost; /* receives of a destroyed queue pair never complete */

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	if (lost && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		attr = &reset;
	return __real_ibv_modify_qp(qp, attr, mask);
}

static void stop(struct ib_port *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	ck_assert_int_eq(ibv_modify_qp(p->mcast.qp, &attr, IBV_QP_STATE), 0);
}

/* All groups are received again without a call of the core, and the outage is logged. */
START_TEST(received__stopped_qp_is_reset)
{
	uint64_t group = test_seed();
	struct ib_port *p;

	ripc_log_set(note, NULL, RIPC_LOG_WARN);
	if (!open_both())
		return;
	ck_assert_int_eq(ops->group_join(rx, group), 0);
	ck_assert_int_eq(ops->group_join(rx, group + 1), 0);
	p = mcast_port();
	ck_assert(send_until_received(group, 1, PATIENCE_NS));
	/* It stops twice. */
	for (int i = 0; i < 2; i++) {
		*logged = 0;
		stop(p);
		ck_assert_msg(send_until_received(group, 1, PATIENCE_NS), "round %d", i);
		ck_assert_msg(send_until_received(group + 1, 2, PATIENCE_NS), "round %d", i);
		ck_assert_msg(strstr(logged, "stopped receiving multicast"), "%s", logged);
		ck_assert(!p->mcast.stopped);
		ck_assert(!p->down);
	}
	ops->close(rx);
	ops->close(tx);
}
END_TEST

/* An adapter may report the error before receives are flushed, or instead. */
START_TEST(stopped__reported_as_event)
{
	uint64_t group = test_seed() + 2, next = other_group(group);
	struct ib_port *p;

	if (!open_both())
		return;
	ck_assert_int_eq(ops->group_join(rx, group), 0);
	p = mcast_port();
	ripc__ib_ud_stopped(&p->mcast, "queue pair: fatal error");
	ck_assert(p->mcast.stopped);
	/* A group joined meanwhile is received, one left is not. */
	ck_assert_int_eq(ops->group_join(rx, next), 0);
	ops->group_leave(rx, group);
	ck_assert(send_until_received(next, 1, PATIENCE_NS));
	ck_assert(!p->mcast.stopped);
	ck_assert(!send_until_received(group, 2, 10 * RESEND_NS));
	ops->close(rx);
	ops->close(tx);
}
END_TEST

/*
 * The adapter may still write to its receives: it is not reset, which is logged once, and
 * everything else continues.
 */
START_TEST(stopped__receives_never_come_back)
{
	uint64_t group = test_seed() + 4, next = other_group(group);
	const char *text = "stopped receiving multicast";
	struct ib_port *p;

	ripc_log_set(note, NULL, RIPC_LOG_WARN);
	if (!open_both())
		return;
	ck_assert_int_eq(ops->group_join(rx, group), 0);
	p = mcast_port();
	ck_assert(send_until_received(group, 1, PATIENCE_NS));
	lost = true;
	*logged = 0;
	ripc__ib_ud_stopped(&p->mcast, "queue pair: fatal error");
	/* A new number: an older datagram may still arrive. */
	ck_assert(!send_until_received(group, 0, 20 * RESEND_NS));
	ck_assert(p->mcast.stopped);
	ck_assert_uint_gt(p->mcast.posted, 0);
	ck_assert_int_eq(ops->group_join(rx, next), 0);
	ck_assert(!send_until_received(next, 2, 10 * RESEND_NS));
	ops->group_leave(rx, group);
	ck_assert(!p->down);
	ck_assert(post_until_sent(3, PATIENCE_NS));
	ck_assert_msg(strstr(logged, text) != NULL, "%s", logged);
	ck_assert_msg(!strstr(strstr(logged, text) + 1, text), "%s", logged);
	lost = false;
	ops->close(rx);
	ops->close(tx);
	/* No object stays with the device. */
	ck_assert(open_both());
	ck_assert_int_eq(ops->group_join(rx, next), 0);
	ck_assert(send_until_received(next, 1, PATIENCE_NS));
	ops->close(rx);
	ops->close(tx);
}
END_TEST

/* Groups that were left, or only sent to, take no room from others. */
START_TEST(groups__many)
{
	const uint64_t first = test_seed() + 100, end = first + 1100;
	uint8_t text[8] = {0};

	if (!open_both())
		return;
	for (uint64_t group = first; group < end; group++) {
		ck_assert_msg(!ops->group_join(rx, group), "%s", ripc_error_detail());
		ops->group_leave(rx, group);
		ck_assert_int_eq(ops->post_group(tx, group, &(struct iovec){text, sizeof(text)}, 1),
				 0);
		step(tx);
	}
	ck_assert_int_eq(ops->group_join(rx, end), 0);
	ck_assert(send_until_received(end, 1, PATIENCE_NS));
	ops->close(rx);
	ops->close(tx);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/ib/mcast");
	TCase *tc = tcase_create("mcast");

	tcase_set_timeout(tc, 200);
	tcase_add_test(tc, received__stopped_qp_is_reset);
	tcase_add_test(tc, stopped__reported_as_event);
	tcase_add_test(tc, stopped__receives_never_come_back);
	tcase_add_test(tc, groups__many);
	suite_add_tcase(suite, tc);
	return test_main("transport/ib/mcast", suite);
}
