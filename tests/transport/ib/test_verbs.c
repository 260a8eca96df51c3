/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Connections and the port of datagrams over stubs of the verbs. No device is used. */
#include "base/clock.h"
#include "made_device.h"
#include "ripc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the transport ---- */

static struct ripc__transport t;
static struct ib_device *const d = &t.devices[0];
static struct ib_port *const port = &t.ports[0];
static struct ib_ah_entry peer = {.port = &t.ports[0], .state = IB_AH_READY};

static const struct ripc__options opt = {.inline_bytes = IB_INLINE_BYTES};

static void setup(void)
{
	ripc__list_init(&t.eps);
	ripc__list_init(&t.timed);
	ripc__list_init(&t.event_eps);
	ripc__list_init(&t.held);
	ripc__list_init(&t.dying);
	ripc__list_init(&t.late);
	t.now_ns = 1;
	t.ndevices = t.nports = 1;
	t.opt = &opt;
	d->t = &t;
	snprintf(d->v.name, sizeof(d->v.name), "made0");
	d->v.ctx = &context;
	d->v.attr = (struct ibv_device_attr){
		.max_qp_wr = 1024, .max_srq_wr = IB_SRQ_SIZE, .max_cqe = IB_CQ_ENTRIES};
	d->cq = (struct ripc__verbs_cq){.device = &d->v, .cq = &cq, .entries = IB_CQ_ENTRIES};
	ripc__verbs_pool_init(&d->recv, &d->v, IB_RECV_HEAD + IB_SEND_MAX, 64, UINT32_MAX);
	ripc__verbs_pool_init(&d->bounce, &d->v, IB_SEND_MAX, 64, UINT32_MAX);
	ripc__verbs_pool_init(&d->dgram, &d->v, IB_GRH + 4096, 128, UINT32_MAX);
	*port = (struct ib_port){.t = &t, .d = d, .num = 1, .port_addr = {.mtu = 3}};
}

static void teardown(void)
{
	ripc__verbs_pool_fini(&d->recv);
	ripc__verbs_pool_fini(&d->bounce);
	ripc__verbs_pool_fini(&d->dgram);
	ripc__verbs_sendq_fini(&port->sendq);
	free(d->cq.kept);
}

static struct ripc__ep *ep_new(enum ib_ep_state state)
{
	struct ripc__ep *ep = calloc(1, sizeof(*ep));

	ck_assert_ptr_nonnull(ep);
	ep->t = &t;
	ep->d = d;
	ep->port = port;
	ep->ah_entry = &peer;
	ep->state = state;
	ep->wireup.state = RIPC__WIREUP_ESTABLISHED;
	ripc__list_init(&ep->timed);
	ripc__list_init(&ep->events);
	ripc__list_init(&ep->held.link);
	ripc__list_init(&ep->dying);
	ripc__list_add(&t.eps, &ep->all);
	ck_assert_msg(!ripc__ib_qp_new(ep), "%s", ripc_error_detail());
	/* It was made ready. */
	ep->job.done = (void (*)(struct ripc__verbs_job *, int))abort;
	return ep;
}

/* Handles all completions. Return: events. */
static unsigned poll_all(struct ripc__event ev[64])
{
	struct ibv_wc wc[8];
	unsigned n = 0;
	int got;

	do {
		got = ripc__verbs_cq_poll(&d->cq, wc, 8);
		for (int i = 0; i < got; i++)
			n += ripc__ib_completion(d, &wc[i], ev + n);
	} while (got == 8);
	return n;
}

static void ep_end(struct ripc__ep *ep)
{
	struct ripc__event ev[64];

	ripc__ib_qp_destroy(ep);
	ck_assert_uint_eq(poll_all(ev), 0);
	ripc__ib_qp_drained(ep);
	ripc__list_del(&ep->all);
	ripc__list_del(&ep->events);
	free(ep);
}

/* The device takes a receive of the shared queue. */
static uint64_t take(void)
{
	ck_assert_uint_gt(nsrq_ids, 0);
	return srq_ids[--nsrq_ids];
}

/* ---- shared receives ---- */

/* Messages that were not polled when their queue pair is destroyed return their receives. */
START_TEST(qp_destroy__unpolled_receives)
{
	struct ripc__ep *ep;

	for (unsigned round = 0; round < 20; round++) {
		ep = ep_new(IB_EP_OPEN);
		ck_assert_uint_ge(nsrq_ids, IB_RECV_DEPTH + IB_RECV_SPARE);
		for (unsigned i = 0; i < IB_RECV_DEPTH; i++)
			complete(take(), ep->qp->qp_num, IBV_WC_SUCCESS, 10);
		ep_end(ep);
	}
	ep = ep_new(IB_EP_OPEN);
	ck_assert_uint_ge(nsrq_ids, IB_RECV_DEPTH + IB_RECV_SPARE);
	ck_assert_uint_le(d->recv.count, 128);
	ep_end(ep);
}
END_TEST

/* Peers that die within a message do not use up the receives of others. */
START_TEST(qp_destroy__incomplete_messages)
{
	struct ripc__ep *ep;

	for (unsigned round = 0; round < 200; round++) {
		ep = ep_new(IB_EP_OPEN);
		ck_assert_uint_ge(nsrq_ids, IB_RECV_DEPTH + IB_RECV_SPARE);
		take();
		ep_end(ep);
	}
}
END_TEST

/* Without losses the queue is full at last, and no more memory is used. */
START_TEST(qp_destroy__bounded)
{
	for (unsigned round = 0; round < 3000; round++)
		ep_end(ep_new(IB_EP_OPEN));
	ck_assert_uint_eq(nsrqs, 1);
	ck_assert_uint_le(nsrq_ids, IB_SRQ_SIZE);
	ck_assert_uint_le(d->recv.count, IB_SRQ_SIZE + 64);
	ck_assert_uint_eq(d->cq.reserved, IB_SRQ_SIZE);
}
END_TEST

/* Nothing is lost if the peer's last send arrived. */
START_TEST(qp_destroy__after_last_send)
{
	struct ripc__event ev[64];

	for (unsigned round = 0; round < 200; round++) {
		struct ripc__ep *ep = ep_new(IB_EP_OPEN);

		complete(take(), ep->qp->qp_num, IBV_WC_SUCCESS, 0);
		ck_assert_uint_eq(poll_all(ev), 0);
		ck_assert_int_eq(ep->status, -ECONNRESET);
		ep_end(ep);
	}
	ck_assert_uint_le(d->recv.count, 64);
}
END_TEST

/* ---- set-up ---- */

/* A peer that does not wait for our RTU: EV_RECV would come before EV_ESTABLISHED. */
START_TEST(received__before_established)
{
	struct ripc__ep *ep = ep_new(IB_EP_CONNECTING);
	unsigned before = nsrq_ids;
	struct ripc__event ev[64];

	ep->wireup.state = RIPC__WIREUP_QP_SETUP;
	complete(take(), ep->qp->qp_num, IBV_WC_SUCCESS, 10);
	ck_assert_uint_eq(poll_all(ev), 0);
	ck_assert_int_eq(ep->state, IB_EP_BROKEN);
	ck_assert_int_eq(ep->status, -EPROTO);
	ripc__ib_srq_repost(d, ep->srq);
	ck_assert_uint_eq(nsrq_ids, before);
	ep_end(ep);
}
END_TEST

/* A peer that cannot accept is alive: its rejection has no private data. */
START_TEST(wireup__rejections)
{
	struct ripc__wireup_message m = {.kind = RIPC__WIREUP_REJ, .to = 7, .priv = (uint8_t *)"x"};

	for (unsigned with = 0; with < 2; with++) {
		struct ripc__ep *ep = ep_new(IB_EP_CONNECTING);

		ep->wireup.active = true;
		ep->wireup.mine = 7;
		ep->wireup.state = RIPC__WIREUP_REQ_SENT;
		HASH_ADD(by_number, t.by_number, wireup.mine, sizeof(ep->wireup.mine), ep);
		m.privlen = (uint8_t)with;
		ripc__ib_wireup_received(port, &peer, &m);
		ck_assert_int_eq(ep->state, IB_EP_BROKEN);
		ck_assert_int_eq(ep->status, with ? -ECONNREFUSED : -EHOSTUNREACH);
		ck_assert_int_eq(ep->rejected, with);
		HASH_DELETE(by_number, t.by_number, ep);
		ep_end(ep);
	}
}
END_TEST

/* ---- bounce buffers ---- */

/* Sends without a signal hold the last buffers: the sender that waits gets one. */
START_TEST(post__starved)
{
	static uint8_t bytes[1000];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct ripc__ep *a = ep_new(IB_EP_OPEN), *b = ep_new(IB_EP_OPEN);
	struct ripc__event ev[64];

	d->bounce.max = 4;
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(ripc__ib_post(a, NULL, 0, &iov, 1, false), 0);
	ck_assert_int_eq(ripc__ib_post(b, NULL, 0, &iov, 1, false), -EAGAIN);
	ck_assert_uint_ne(t.retry_ns, 0);
	ck_assert(!(sent.send_flags & IBV_SEND_SIGNALED));
	ripc__ib_retry_starved(&t);
	ck_assert(sent.send_flags & IBV_SEND_SIGNALED);
	ck_assert_uint_eq(nsent, 5);
	ck_assert(!ripc__list_empty(&b->events));
	/* Once is enough. */
	ripc__ib_retry_starved(&t);
	ck_assert_uint_eq(nsent, 5);
	complete(sent.wr_id, a->qp->qp_num, IBV_WC_SUCCESS, 0);
	ck_assert_uint_eq(poll_all(ev), 0);
	ck_assert_int_eq(ripc__ib_post(b, NULL, 0, &iov, 1, false), 0);
	ep_end(a);
	ep_end(b);
}
END_TEST

/* ---- datagrams ---- */

static void port_open(void)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD};

	port->ud.port = port;
	port->ud.qp = ibv_create_qp(NULL, &attr);
	port->ud.max_inline = IB_INLINE_BYTES;
	ck_assert_int_eq(ripc__verbs_sendq_init(&port->sendq, 16, 0, port), 0);
	ck_assert_int_eq(ripc__verbs_pool_reserve(&d->dgram, 32), 0);
	ib_bufs_take(&port->ud.repost, &d->dgram, 32, &port->ud);
	port->ud.nrepost = 32;
	ripc__ib_ud_repost(&port->ud);
	ck_assert_uint_eq(nrecv_ids, 32);
}

/*
 * A failed receive stops the queue pair. It is not posted to, since the receives would be flushed
 * again endlessly, and datagrams are not counted as sent. It is reset, and keeps its number.
 */
START_TEST(port__stopped)
{
	struct iovec iov = {"x", 1};
	struct ripc__event ev[64];
	uint32_t qpn;

	port_open();
	qpn = port->ud.qp->qp_num;
	ck_assert_int_eq(ripc__ib_port_post(port, NULL, 9, 9, &iov, 1, 1, true), 0);
	complete(recv_ids[--nrecv_ids], qpn, IBV_WC_LOC_LEN_ERR, 0);
	ck_assert_uint_eq(poll_all(ev), 0);
	ck_assert_int_eq(ud_state, IBV_QPS_ERR);
	ck_assert_uint_eq(states, 1);
	ck_assert_int_eq(ripc__ib_port_post(port, NULL, 9, 9, &iov, 1, 1, true), -EAGAIN);
	ck_assert_uint_eq(poll_all(ev), 0);
	ripc__ib_ud_repost(&port->ud);
	ck_assert_uint_eq(nrecv_ids, 0);
	ck_assert_uint_eq(states, 1);
	t.now_ns += 1000 * RIPC__MS;
	ripc__ib_ud_repost(&port->ud);
	ck_assert_int_eq(ud_state, IBV_QPS_RTS);
	ck_assert_uint_eq(nrecv_ids, 32);
	ck_assert_uint_eq(port->ud.qp->qp_num, qpn);
	ck_assert_uint_eq(ripc__verbs_sendq_space(&port->sendq), 16);
	ck_assert_int_eq(ripc__ib_port_post(port, NULL, 9, 9, &iov, 1, 1, true), 0);
	ck_assert(!port->down);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/ib/verbs");
	TCase *tc = tcase_create("verbs");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, qp_destroy__unpolled_receives);
	tcase_add_test(tc, qp_destroy__incomplete_messages);
	tcase_add_test(tc, qp_destroy__bounded);
	tcase_add_test(tc, qp_destroy__after_last_send);
	tcase_add_test(tc, received__before_established);
	tcase_add_test(tc, wireup__rejections);
	tcase_add_test(tc, post__starved);
	tcase_add_test(tc, port__stopped);
	suite_add_tcase(suite, tc);
	return test_main("transport/ib/verbs", suite);
}
