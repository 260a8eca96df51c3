/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Events of ports and queue pairs, and a device that is removed and comes back while its transport
 * is open. The verbs are stubs, the device file is a temporary one.
 */
#include "base/clock.h"
#include "made_device.h"
#include "ripc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- the transport ---- */

static const struct ripc__transport_ops *const ops = &ripc__transport_ib;
static struct ripc__transport *t;
static struct ripc__options opt;
static uint64_t now_ns;

static void appear(void)
{
	int fd = open(device.dev_path, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

static void setup(void)
{
	static const uint8_t instance[16] = "one";
	struct ripc__transport_env env = {.opt = &opt, .instance = instance};
	char why[256];

	snprintf(device.dev_path, sizeof(device.dev_path), "/tmp/ripc-test-device.%d", getpid());
	appear();
	reported = true;
	ck_assert_int_eq(ripc__options_load(&opt, "", why, sizeof(why)), 0);
	*opt.interfaces = 0;
	ck_assert_msg(!ops->open(&t, &env), "%s", ripc_error_detail());
	now_ns = ripc__clock_ns();
}

static void teardown(void)
{
	ops->close(t);
	unlink(device.dev_path);
	ck_assert_int_eq(objects, 0);
}

/* One pass. Return: the event of the kind, if there is one. */
static struct ripc__event step(enum ripc__ev_kind kind)
{
	struct ripc__event events[16], found = {0};
	uint64_t deadline = RIPC__NEVER;
	unsigned n;

	now_ns += RIPC__MS;
	n = ops->progress(t, events, 16, now_ns, &deadline);
	for (unsigned i = 0; i < n; i++)
		if (events[i].kind == kind)
			found = events[i];
	return found;
}

/* The device receives a datagram in the receive that was posted last. */
static struct ripc__event datagram(void)
{
	struct ripc__event ev;

	ck_assert_uint_gt(nrecv_ids, 0);
	wcs[nwcs++] = (struct ibv_wc){.wr_id = recv_ids[--nrecv_ids],
				      .qp_num = qps[nqps - 1].qp_num,
				      .opcode = IBV_WC_RECV,
				      .wc_flags = IBV_WC_WITH_IMM,
				      .byte_len = IB_GRH + 8,
				      .slid = 9,
				      .src_qp = 17};
	ev = step(RIPC__EV_DATAGRAM);
	ck_assert_int_eq(ev.kind, RIPC__EV_DATAGRAM);
	ck_assert_ptr_nonnull(ev.token);
	return ev;
}

static struct ripc__ib_port_addr address(void)
{
	struct ripc__ib_address a;
	uint8_t buf[RIPC__ADDRESS_MAX];
	int len = ops->address(t, buf, sizeof(buf));

	if (len == -ENODEV)
		return (struct ripc__ib_port_addr){.link = 0};
	ck_assert_int_eq(ripc__ib_address_decode(&a, buf, (size_t)len), 0);
	ck_assert_uint_eq(a.count, 1);
	return a.port_addrs[0];
}

/* The kernel reports an event. Return: whether the record follows. */
static bool happens(struct ibv_async_event ev)
{
	event = ev;
	reported = false;
	now_ns += 5 * RIPC__MS;
	return step(RIPC__EV_ADDRESS).kind == RIPC__EV_ADDRESS;
}

/* It is closed without its file: lost once, it does not come back before. */
static void close_device(void)
{
	for (unsigned i = 0; i < 2; i++) {
		now_ns += 1000 * RIPC__MS;
		ck_assert_int_ne(step(RIPC__EV_ADDRESS).kind, RIPC__EV_ADDRESS);
	}
	ck_assert_int_eq(objects, 0);
	ck_assert_uint_eq(address().link, 0);
	nrecv_ids = 0;
}

static void disappear(void)
{
	ck_assert_int_eq(unlink(device.dev_path), 0);
	/* Without a report, files are checked each second. */
	now_ns += 1000 * RIPC__MS;
	ck_assert_int_eq(step(RIPC__EV_ADDRESS).kind, RIPC__EV_ADDRESS);
	close_device();
}

/* inotify reports the file: here it is in another directory. */
static bool reopened(void)
{
	now_ns += 5 * RIPC__MS;
	t->reopen_ns = now_ns;
	return step(RIPC__EV_ADDRESS).kind == RIPC__EV_ADDRESS;
}

/* The address of a peer with a larger MTU. Return: its length. */
static size_t peer_address(uint8_t *buf)
{
	struct ripc__ib_port_addr a = {.link = RIPC__IB_LINK_IB, .mtu = 5, .lid = 9, .qpn = 17};

	return ripc__ib_address_encode(&a, 1, buf);
}

static struct ripc__ep *connect_ep(void)
{
	uint8_t buf[RIPC__ADDRESS_MAX];
	size_t len = peer_address(buf);
	struct ripc__ep *ep;

	ck_assert_msg(!ops->connect(t, buf, len, "x", 1, NULL, &ep), "%s", ripc_error_detail());
	ep->wireup.until_ns = RIPC__NEVER;
	AWAIT(!step(RIPC__EV_CLOSED).kind && ep->ah_entry->state == IB_AH_READY);
	return ep;
}

START_TEST(event__of_a_queue_pair)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_QP_FATAL,
		IBV_EVENT_QP_REQ_ERR,
		IBV_EVENT_QP_ACCESS_ERR,
		IBV_EVENT_PATH_MIG_ERR,
	};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ripc__ep *ep = connect_ep();

		happens((struct ibv_async_event){.element.qp = ep->qp, .event_type = types[i]});
		ck_assert_int_eq(ep->status, -EIO);
		ops->ep_close(ep);
	}
	happens((struct ibv_async_event){.element.qp = t->ports[0].ud.qp,
					 .event_type = IBV_EVENT_QP_FATAL});
	ck_assert(t->ports[0].ud.stopped);
}
END_TEST

/* A completion queue, a receive queue, or the device itself failed. */
START_TEST(event__of_the_device)
{
	static const enum ibv_event_type types[] = {IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR,
						    IBV_EVENT_DEVICE_FATAL};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		ck_assert(happens((struct ibv_async_event){.event_type = types[i]}));
		ck_assert_uint_eq(address().link, 0);
		close_device();
		ck_assert(reopened());
	}
}
END_TEST

START_TEST(event__of_a_port)
{
	struct ib_port *p = &t->ports[0];
	struct ibv_async_event ev = {.element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR};

	happens(ev);
	ck_assert(p->down);
	ev.event_type = IBV_EVENT_SM_CHANGE;
	happens(ev);
	ck_assert(p->down);
	ev.event_type = IBV_EVENT_PORT_ACTIVE;
	happens(ev);
	ck_assert(!p->down);
	ev.event_type = IBV_EVENT_GID_CHANGE;
	happens(ev);
	ck_assert(!p->down);
	lid++;
	ev.event_type = IBV_EVENT_LID_CHANGE;
	ck_assert(!happens(ev));
	ck_assert(p->down && p->readdress);
	/* Its packets may have become smaller, with nothing else changed. */
	lid--;
	p->readdress = p->down = false;
	mtu = IBV_MTU_512;
	ev.event_type = IBV_EVENT_PORT_ACTIVE;
	happens(ev);
	ck_assert(p->down && p->readdress);
	/* Another port. */
	p->readdress = p->down = false;
	ev.element.port_num = 2;
	ck_assert(!happens(ev));
	ck_assert(!p->down);
}
END_TEST

/*
 * The port has other addresses, which the record gets. The core still holds a datagram and a
 * connection of the first device.
 */
START_TEST(returns__as_before)
{
	struct ripc__ib_port_addr before = address(), after;
	struct ripc__event held;
	struct ripc__ep *ep;
	uint32_t reserved;

	for (unsigned round = 0; round < 2; round++) {
		ep = connect_ep();
		held = datagram();
		disappear();
		ck_assert_int_eq(ep->state, IB_EP_REPORTED);
		/* Nothing is there yet. */
		ck_assert(!reopened());
		appear();
		/* The subnet manager assigns another one. */
		lid++;
		ck_assert(reopened());
		after = address();
		ck_assert_uint_eq(after.lid, lid);
		ck_assert_uint_ne(after.qpn, before.qpn);
		ck_assert_uint_ne(after.qkey, before.qkey);
		before = after;
		reserved = t->devices[0].cq.reserved;
		ops->ep_close(ep);
		step(RIPC__EV_NONE);
		ck_assert(ripc__list_empty(&t->eps));
		ck_assert_uint_eq(t->devices[0].cq.reserved, reserved);
		ops->release(t, datagram().token);
		ops->release(t, held.token);
		ck_assert_uint_eq(t->ports[0].ndelivered, 0);
	}
}
END_TEST

static int send_datagram(size_t len)
{
	static uint8_t bytes[4096];
	struct iovec item = {bytes, len};
	uint8_t buf[RIPC__ADDRESS_MAX];

	return ops->post_datagram(t, buf, peer_address(buf), &item, 1);
}

/* No datagram is longer than a packet of the port, which may be smaller than before. */
START_TEST(returns__with_a_smaller_mtu)
{
	struct ripc__ep *ep = connect_ep();

	ep->ah_entry->confirmed = true;
	ck_assert_int_eq(send_datagram(1024), 0);
	ck_assert_int_eq(send_datagram(1025), -EMSGSIZE);
	disappear();
	appear();
	mtu = IBV_MTU_512;
	ck_assert(reopened());
	ck_assert_uint_eq(address().mtu, IBV_MTU_512);
	ops->ep_close(ep);
	ep = connect_ep();
	ep->ah_entry->confirmed = true;
	ck_assert_int_eq(send_datagram(513), -EMSGSIZE);
	ck_assert_int_eq(send_datagram(512), 0);
	/* With the route in the cache. */
	ck_assert_int_eq(send_datagram(513), -EMSGSIZE);
	ops->ep_close(ep);
}
END_TEST

/* A device that cannot be opened is closed again, and opened when its file changes. */
START_TEST(returns__fails)
{
	disappear();
	appear();
	open_rc = EACCES;
	ck_assert(!reopened());
	ck_assert_int_eq(objects, 0);
	open_rc = 0;
	query_rc = EIO;
	/* The port is not used. */
	ck_assert(reopened());
	ck_assert_uint_eq(address().link, 0);
	query_rc = 0;
	ripc__ib_port_changed(&t->ports[0]);
	ck_assert_int_eq(step(RIPC__EV_ADDRESS).kind, RIPC__EV_ADDRESS);
	ck_assert_uint_eq(address().link, RIPC__IB_LINK_IB);
	ops->release(t, datagram().token);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/ib/async_events");
	TCase *tc = tcase_create("async_events");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, event__of_a_queue_pair);
	tcase_add_test(tc, event__of_the_device);
	tcase_add_test(tc, event__of_a_port);
	tcase_add_test(tc, returns__as_before);
	tcase_add_test(tc, returns__with_a_smaller_mtu);
	tcase_add_test(tc, returns__fails);
	suite_add_tcase(suite, tc);
	return test_main("transport/ib/async_events", suite);
}
