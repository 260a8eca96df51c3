/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Multicast over a port, with the queue pair that hears taken from under it: in the lab, or on a host with RoCE. */
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
static struct ripc__transport *speaks, *hears;
static unsigned heard[4]; /* by the number in the datagram */
static char logged[2000];

static void note(void *arg, enum ripc_log_level level, const char *text)
{
	size_t len = strlen(logged);

	snprintf(logged + len, sizeof(logged) - len, "%s\n", text);
}

/* Return: whether there is a device that hears multicast. */
static bool open_both(void)
{
	static const uint8_t instances[2][16] = {"one", "another"};
	struct ripc__transport_env env = {.opt = &opt, .instance = instances[0]};
	struct ripc__transport_limits limits;
	char why[256];

	ck_assert_int_eq(ripc__options_load(&opt, "multicast=on", why, sizeof(why)), 0);
	if (ops->probe(&env, why, sizeof(why))) {
		test_skip("%s", why);
		return false;
	}
	ck_assert_msg(!ops->open(&speaks, &env), "%s", ripc_error_detail());
	env.instance = instances[1];
	ck_assert_msg(!ops->open(&hears, &env), "%s", ripc_error_detail());
	ops->limits(hears, &limits);
	if (limits.caps & RIPC__CAP_MULTICAST)
		return true;
	test_skip("no port is RoCE version 2: none hears multicast");
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
		if (t == hears)
			heard[*(const uint8_t *)events[i].data]++;
		if (events[i].token)
			ops->release(t, events[i].token);
	}
}

/* Says the number to the group until it is heard; return: false: it is not, for so long. */
static bool send_until_received(uint64_t group, uint8_t number, uint64_t ns)
{
	uint64_t now = ripc__clock_ns(), until = now + ns, next = 0;
	uint8_t text[8] = {number};

	heard[number] = 0;
	while (!heard[number] && now < until) {
		if (now >= next) {
			ops->post_group(speaks, group, &(struct iovec){text, sizeof(text)}, 1);
			next = now + RESEND_NS;
		}
		step(speaks);
		step(hears);
		now = ripc__clock_ns();
	}
	return heard[number];
}

/* The same to the one that hears alone. */
static bool post_until_sent(uint8_t number, uint64_t ns)
{
	uint64_t now = ripc__clock_ns(), until = now + ns, next = 0;
	uint8_t text[8] = {number}, addr[RIPC__ADDRESS_MAX];
	int len = ops->address(hears, addr, sizeof(addr));

	ck_assert_int_gt(len, 0);
	heard[number] = 0;
	while (!heard[number] && now < until) {
		if (now >= next) {
			ops->post_datagram(speaks, addr, (size_t)len,
					   &(struct iovec){text, sizeof(text)}, 1);
			next = now + RESEND_NS;
		}
		step(speaks);
		step(hears);
		now = ripc__clock_ns();
	}
	return heard[number];
}

/* A group at another address: what is sent to one is not heard by the other. */
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
	struct ib *t = (struct ib *)hears;

	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].mcast.qp)
			return &t->ports[i];
	ck_abort_msg("no port hears");
	return NULL;
}

static bool lost; /* receives of a queue pair that is ended never come back */

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

/* All groups are heard again, without a word of the core, and that they were not is said. */
START_TEST(received__stopped_qp_is_replaced)
{
	uint64_t group = test_seed();
	struct ib_port *p;

	ripc_log_set(note, NULL, RIPC_LOG_WARN);
	if (!open_both())
		return;
	ck_assert_int_eq(ops->group_join(hears, group), 0);
	ck_assert_int_eq(ops->group_join(hears, group + 1), 0);
	p = mcast_port();
	ck_assert(send_until_received(group, 1, PATIENCE_NS));
	/* The second time there is a wait before it. */
	for (int i = 0; i < 2; i++) {
		*logged = 0;
		stop(p);
		ck_assert_msg(send_until_received(group, 1, PATIENCE_NS), "round %d", i);
		ck_assert_msg(send_until_received(group + 1, 2, PATIENCE_NS), "round %d", i);
		ck_assert_msg(strstr(logged, "no longer hears multicast"), "%s", logged);
		ck_assert(!p->mcast.stopped);
		ck_assert(!p->down);
	}
	ops->close(hears);
	ops->close(speaks);
}
END_TEST

/* As an adapter reports it, which may do so before any receive comes back, or instead. */
START_TEST(stopped__reported_as_event)
{
	uint64_t group = test_seed() + 2, next = other_group(group);
	struct ib_port *p;

	if (!open_both())
		return;
	ck_assert_int_eq(ops->group_join(hears, group), 0);
	p = mcast_port();
	ripc__ib_mcast_stopped(p, "queue pair: fatal error");
	ck_assert(p->mcast.stopped);
	/* One that is joined meanwhile is heard, too; one that is left no more. */
	ck_assert_int_eq(ops->group_join(hears, next), 0);
	ops->group_leave(hears, group);
	ck_assert(send_until_received(next, 1, PATIENCE_NS));
	ck_assert(!p->mcast.stopped);
	ck_assert(!send_until_received(group, 2, 10 * RESEND_NS));
	ops->close(hears);
	ops->close(speaks);
}
END_TEST

/* Its memory is the adapter's for all that is known: it is not replaced, which is said once, and all else goes on. */
START_TEST(stopped__receives_never_come_back)
{
	uint64_t group = test_seed() + 4, next = other_group(group);
	const char *said = "no longer hears multicast";
	struct ib_port *p;

	ripc_log_set(note, NULL, RIPC_LOG_WARN);
	if (!open_both())
		return;
	ck_assert_int_eq(ops->group_join(hears, group), 0);
	p = mcast_port();
	ck_assert(send_until_received(group, 1, PATIENCE_NS));
	lost = true;
	*logged = 0;
	ripc__ib_mcast_stopped(p, "queue pair: fatal error");
	/* A number that nothing said before: what was still on its way is not it. */
	ck_assert(!send_until_received(group, 0, 20 * RESEND_NS));
	ck_assert(p->mcast.stopped);
	ck_assert_uint_gt(p->mcast.posted, 0);
	ck_assert_int_eq(ops->group_join(hears, next), 0);
	ck_assert(!send_until_received(next, 2, 10 * RESEND_NS));
	ops->group_leave(hears, group);
	ck_assert(!p->down);
	ck_assert(post_until_sent(3, PATIENCE_NS));
	ck_assert_msg(strstr(logged, said) && !strstr(strstr(logged, said) + 1, said), "%s", logged);
	lost = false;
	ops->close(hears);
	ops->close(speaks);
	/* Nothing of it stays with the device. */
	ck_assert(open_both());
	ck_assert_int_eq(ops->group_join(hears, next), 0);
	ck_assert(send_until_received(next, 1, PATIENCE_NS));
	ops->close(hears);
	ops->close(speaks);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/ib/mcast");
	TCase *tc = tcase_create("mcast");

	tcase_set_timeout(tc, 200);
	tcase_add_test(tc, received__stopped_qp_is_replaced);
	tcase_add_test(tc, stopped__reported_as_event);
	tcase_add_test(tc, stopped__receives_never_come_back);
	suite_add_tcase(suite, tc);
	return test_main("transport/ib/mcast", suite);
}
