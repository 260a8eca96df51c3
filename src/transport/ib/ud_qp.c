/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The UD queue pairs of a port: their receives, and their reset after an error. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>

#define RESET_NS      (100 * RIPC__MS) /* pause before a stopped queue pair is reset */
#define RESET_DOUBLED 6 /* number of times that the pause doubles while resets fail */

static const char *name(const struct ib_ud *u)
{
	return u == &u->port->mcast ? "multicast" : "datagrams";
}

/* Makes a new or empty queue pair ready to receive and send. Return: 0, or an error, explained. */
static int make_ready(const struct ib_ud *u)
{
	const struct ib_port *p = u->port;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = p->num,
				   .qkey = u == &p->ud ? p->port_addr.qkey : IB_GROUP_QKEY};
	int rc = ripc__ib_set_qp(u->qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
				 "for datagrams");

	attr.qp_state = IBV_QPS_RTR;
	if (!rc)
		rc = ripc__ib_set_qp(u->qp, &attr, IBV_QP_STATE, "ready to receive datagrams");
	attr.qp_state = IBV_QPS_RTS;
	if (!rc && u == &p->ud)
		rc = ripc__ib_set_qp(u->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN,
				     "ready to send datagrams");
	return rc;
}

int ripc__ib_ud_open(struct ib_port *p, struct ib_ud *u, uint32_t sends)
{
	struct ib_device *d = p->d;
	uint32_t most = (uint32_t)d->v.attr.max_qp_wr;
	struct ibv_qp_init_attr init = {
		.send_cq = d->cq.cq,
		.recv_cq = d->cq.cq,
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = sends,
			.max_recv_wr = MIN(most, IB_DATAGRAM_RECV),
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = u == &p->ud ? IB_INLINE_BYTES : 0},
	};
	uint32_t bufs = init.cap.max_recv_wr;
	int rc = ripc__verbs_cq_reserve(&d->cq, sends + bufs);

	if (rc)
		return rc;
	u->port = p;
	rc = ripc__verbs_pool_reserve(&d->dgram, bufs);
	if (!rc) {
		errno = 0;
		u->qp = ripc__ib_make_qp(d, &init);
		rc = u->qp ? make_ready(u) : errno ? -errno : -ENOMEM;
	}
	if (rc) {
		if (u->qp)
			ibv_destroy_qp(u->qp);
		u->qp = NULL;
		ripc__verbs_cq_unreserve(&d->cq, sends + bufs);
		return rc;
	}
	u->max_inline = MIN(init.cap.max_inline_data, d->t->opt->inline_bytes);
	u->nrepost = bufs;
	ib_bufs_take(&u->repost, &d->dgram, bufs, u);
	ripc__ib_ud_repost(u);
	return 0;
}

void ripc__ib_ud_stopped(struct ib_ud *u, const char *why)
{
	const struct ib_port *p = u->port;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (u->stopped || !u->qp)
		return;
	u->stopped = true;
	u->retry_ns = p->t->now_ns + RESET_NS;
	ripc__log(RIPC_LOG_WARN,
		  "ib: %s port %u stopped receiving %s: %s; its queue pair will be reset",
		  p->d->v.name, p->num, name(u), why);
	/* Flushes all receives if the device has not done so. */
	ripc__ib_set_qp(u->qp, &attr, IBV_QP_STATE, "flush its receives");
}

/*
 * Makes the queue pair ready again: peers know its number, and it stays attached to its groups. All
 * receives were flushed, and so were the sends, but for those that completed without a signal.
 */
static void reset(struct ib_ud *u)
{
	struct ib_port *p = u->port;
	struct ripc__verbs_sendq *q = &p->sendq;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	if (p->t->now_ns < u->retry_ns)
		return;
	/* ripc__ib_port_readdress() comes first. */
	if (u == &p->ud && p->readdress)
		return;
	if (ripc__ib_set_qp(u->qp, &attr, IBV_QP_STATE, "empty") || make_ready(u)) {
		/* Logged once per outage. */
		if (!u->tries)
			ripc__log(RIPC_LOG_ERROR,
				  "ib: %s port %u cannot receive %s: %s; it is tried again",
				  p->d->v.name, p->num, name(u), ripc_error_detail());
		u->retry_ns = p->t->now_ns + (RESET_NS << u->tries);
		u->tries += u->tries < RESET_DOUBLED;
		return;
	}
	if (u == &p->ud) {
		while (q->head != q->tail)
			ripc__verbs_sendq_retire(q, &q->slots[q->head & (q->depth - 1)]);
		q->unsignaled = 0;
	}
	u->stopped = false;
	u->tries = 0;
	ripc__log(RIPC_LOG_INFO, "ib: %s port %u receives %s again", p->d->v.name, p->num, name(u));
}

void ripc__ib_ud_repost(struct ib_ud *u)
{
	unsigned n;

	if (!u->qp || u->port->d->v.gone)
		return;
	if (u->stopped && !u->posted)
		reset(u);
	while (u->repost && !u->stopped) {
		/*
		 * The full size: a peer may have a larger MTU, any host may send to a group, and an
		 * oversized datagram would stop the queue pair.
		 */
		n = ripc__ib_post_bufs(u->qp, NULL, &u->repost, 0, IB_GRH + 4096);
		u->nrepost -= n;
		u->posted += n;
		if (!n)
			return;
	}
}

void ripc__ib_ud_again(struct ib_ud *u, struct ripc__verbs_buf *buf)
{
	ib_buf_push(&u->repost, buf);
	u->nrepost++;
}

bool ripc__ib_ud_received(struct ib_ud *u, const struct ibv_wc *wc)
{
	u->posted--;
	if (wc->status != IBV_WC_SUCCESS)
		ripc__ib_ud_stopped(u, ibv_wc_status_str(wc->status));
	return wc->status == IBV_WC_SUCCESS && wc->byte_len >= IB_GRH;
}

void ripc__ib_ud_reclaim(struct ib_ud *u)
{
	while (u->delivered) {
		struct ripc__verbs_buf *buf = u->delivered;

		u->delivered = buf->next;
		ripc__ib_ud_again(u, buf);
	}
}
