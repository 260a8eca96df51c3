/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One connection: its queue pair, receives and completions. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/iwarp/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINGER_MS 3000  /* time for the last sends */
#define ANSWER_MS 15000 /* SoftiWARP gives up a request after 10 s */
#define CQ_SHARE  (CONN_TX_DEPTH + CONN_READS_MAX + CONN_RECV_BUFS)

struct iwv_conn *ripc__iwv_conn_new(struct ripc__transport *t, struct ripc__ep *ep,
				    enum iwv_conn_state state)
{
	struct iwv_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->t = t;
	conn->ep = ep;
	conn->state = state;
	conn->read_depth = t->read_depth;
	ripc__list_init(&conn->link);
	ripc__list_init(&conn->held.link);
	ripc__list_add(&t->conns, &conn->link);
	ep->conn = conn;
	return conn;
}

static int create_qp(struct iwv_conn *conn, uint32_t inline_max)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = conn->cq->cq,
		.recv_cq = conn->cq->cq,
		.qp_type = IBV_QPT_RC,
		.cap =
			{
				.max_send_wr = CONN_TX_DEPTH + CONN_READS_MAX,
				.max_recv_wr = CONN_RECV_WRS,
				.max_send_sge = 1,
				.max_recv_sge = 1,
				.max_inline_data = inline_max,
			},
	};

	if (rdma_create_qp(conn->id, conn->nic->dev.pd, &attr))
		return errno ? -errno : -EIO;
	conn->qp = conn->id->qp;
	return 0;
}

static int post_recv(struct iwv_conn *conn, struct ripc__verbs_buf *buf)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)buf->data, .length = CONN_SEND_MAX, .lkey = buf->lkey};
	struct ibv_recv_wr wr = {.wr_id = ripc__verbs_recv_id(buf), .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;
	int rc = ibv_post_recv(conn->qp, &wr, &bad);

	return rc > 0 ? -rc : rc;
}

int ripc__iwv_conn_qp(struct iwv_conn *conn)
{
	/* SoftiWARP takes 80 bytes. */
	static const uint32_t inline_sizes[] = {CONN_INLINE_MAX, 128, 80, 64, 0};
	struct iwv_device *nic = conn->nic;
	int rc = -EINVAL;

	conn->cq = ripc__iwv_device_cq(nic, CQ_SHARE);
	if (!conn->cq)
		return -ENOBUFS;
	rc = ripc__verbs_sendq_init(&conn->tx, CONN_TX_DEPTH, conn->t->opt->signal_every, conn);
	if (!rc)
		rc = ripc__verbs_sendq_init(&conn->rd, CONN_READS_MAX, 0, conn);
	if (!rc)
		rc = ripc__verbs_pool_reserve(&nic->big, CONN_RECV_BUFS);
	if (rc)
		return rc;
	conn->tx.sigpipe = conn->rd.sigpipe = nic->dev.siw;
	/* No query returns the inline limit: the first queue pair probes it. */
	rc = nic->inline_known ? create_qp(conn, nic->inline_max) : -EINVAL;
	for (unsigned i = 0; i < sizeof(inline_sizes) / sizeof(*inline_sizes) && !nic->inline_known;
	     i++) {
		rc = create_qp(conn, inline_sizes[i]);
		nic->inline_known = !rc;
		nic->inline_max = MIN(inline_sizes[i], conn->t->opt->inline_bytes);
	}
	if (rc)
		return ripc__fail(rc, "%s: cannot create a queue pair: %s", nic->dev.name,
				  strerror(-rc));
	while (conn->nbufs < CONN_RECV_BUFS) {
		struct ripc__verbs_buf *buf = ripc__verbs_pool_get(&nic->big);

		if (!buf)
			return -ENOBUFS;
		buf->owner = conn;
		conn->bufs[conn->nbufs++] = buf;
		rc = post_recv(conn, buf);
		if (rc)
			return ripc__fail(rc, "%s: cannot post a receive: %s", nic->dev.name,
					  strerror(-rc));
	}
	return 0;
}

/* Discards sends held back; their slots go with the queue. */
static void detach(struct iwv_conn *conn)
{
	ripc__verbs_unhold(&conn->held);
	if (conn->ep)
		conn->ep->conn = NULL;
	conn->ep = NULL;
}

/* A cancelled call may have sent the request: an event may follow. */
static void cancel_connect(struct iwv_conn *conn)
{
	if (ripc__verbs_job_cancel(&conn->job))
		conn->cm_event_due = false;
}

static void destroy_qp(struct iwv_conn *conn)
{
	if (!conn->qp)
		return;
	ripc__verbs_cq_keep(conn->cq);
	rdma_destroy_qp(conn->id);
	conn->qp = NULL;
}

/*
 * Completions left in the queue point to the buffers, so these are kept until the queue was found
 * empty.
 */
void ripc__iwv_conn_release(struct iwv_conn *conn)
{
	struct ripc__transport *t = conn->t;

	detach(conn);
	cancel_connect(conn);
	conn->deadline_ns = 0;
	if (conn->id) {
		if (conn->established && !conn->nic->dev.gone)
			rdma_disconnect(conn->id);
		destroy_qp(conn);
		rdma_destroy_id(conn->id);
	}
	conn->id = NULL;
	ripc__iwv_conn_set_state(conn, IWV_DESTROYED);
	conn->qp_destroyed_round = t->rounds;
	ripc__list_del(&conn->link);
	ripc__list_add(&t->destroyed, &conn->link);
}

void ripc__iwv_conn_drop(struct iwv_conn *conn)
{
	detach(conn);
	cancel_connect(conn);
	if (!conn->cm_event_due) {
		ripc__iwv_conn_release(conn);
		return;
	}
	/*
	 * The first message of the peer may come before the event. Reads, writes and the use of
	 * keys end now.
	 */
	if (conn->state == IWV_UP)
		destroy_qp(conn);
	ripc__iwv_conn_set_state(conn, IWV_DROPPED);
	iwv_set_deadline(conn->t, &conn->deadline_ns, ripc__clock_ns() + ANSWER_MS * RIPC__MS);
}

void ripc__iwv_conn_linger(struct iwv_conn *conn)
{
	/* Its completion covers all sends before it. */
	if (ripc__verbs_post_empty(conn->qp, &conn->tx, IBV_WR_SEND, true)) {
		ripc__iwv_conn_drop(conn);
		return;
	}
	detach(conn);
	ripc__iwv_conn_set_state(conn, IWV_LINGERING);
	iwv_set_deadline(conn->t, &conn->deadline_ns, ripc__clock_ns() + LINGER_MS * RIPC__MS);
}

static void conn_free(struct iwv_conn *conn)
{
	for (unsigned i = 0; i < conn->nbufs; i++) {
		conn->bufs[i]->owner = NULL;
		if (!conn->bufs[i]->delivered)
			ripc__verbs_pool_put(conn->bufs[i]);
	}
	if (conn->nic) {
		ripc__verbs_sendq_fini(&conn->tx);
		ripc__verbs_sendq_fini(&conn->rd);
		if (conn->cq)
			ripc__verbs_cq_unreserve(conn->cq, CQ_SHARE);
		conn->nic->nconns--;
	}
	ripc__list_del(&conn->link);
	free(conn);
}

void ripc__iwv_conns_reap(struct ripc__transport *t)
{
	struct iwv_conn *conn, *tmp;

	ripc__list_for_each_entry_safe (conn, tmp, &t->destroyed, link)
		if (conn->qp_destroyed_round < t->rounds)
			conn_free(conn);
}

void ripc__iwv_release(struct ripc__transport *t, void *token)
{
	struct ripc__verbs_buf *buf = token;
	struct iwv_conn *conn;
	int rc;

	if ((uintptr_t)token & TOKEN_SLAB) {
		ripc__slab_put((struct ripc__slab *)((uintptr_t)token & ~(uintptr_t)TOKEN_SLAB));
		return;
	}
	conn = buf->owner;
	buf->delivered = false;
	if (!conn)
		ripc__verbs_pool_put(buf);
	if (!conn || !conn->qp || !conn->ep || iwv_ep_lost(conn->ep))
		return;
	rc = post_recv(conn, buf);
	if (rc)
		ripc__iwv_ep_break(conn->ep, rc, "cannot post a receive");
}

/* A work request failed, which ends the connection. */
static void broken(struct iwv_conn *conn, const struct ibv_wc *wc, const char *what)
{
	char why[WHY_MAX];

	if (conn->state == IWV_LINGERING) {
		ripc__iwv_conn_release(conn);
		return;
	}
	if (!conn->ep)
		return;
	/* Flushed: the connection manager may know the cause. */
	conn->t->full_pass = true;
	/* While connecting it does: a rejection flushes the receives, often before its event. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR && conn->ep->initiator && conn->state != IWV_UP) {
		conn->flushed = true;
		return;
	}
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		snprintf(why, sizeof(why), "%s: connection lost", conn->nic->dev.name);
	else
		snprintf(why, sizeof(why), "%s: %s failed: %s (vendor 0x%x)", conn->nic->dev.name,
			 what, ibv_wc_status_str(wc->status), wc->vendor_err);
	ripc__iwv_ep_break(conn->ep, -ECONNRESET, why);
}

static unsigned received(const struct ibv_wc *wc, struct ripc__event *ev)
{
	struct ripc__verbs_buf *buf = ripc__verbs_wc_buf(wc);
	struct iwv_conn *conn = buf->owner;
	struct ripc__ep *ep = conn->ep;
	unsigned n = 0;

	if (wc->status) {
		broken(conn, wc, "a receive");
		return 0;
	}
	if (!ep || ep->state == IWV_EP_CLOSED)
		return 0;
	if (conn->state == IWV_ACCEPTED) {
		ripc__iwv_conn_set_state(conn, IWV_UP);
		if (!iwv_ep_lost(ep))
			ripc__iwv_ep_set_state(ep, IWV_EP_UP);
		ev[n++] = (struct ripc__event){
			.kind = RIPC__EV_ESTABLISHED, .user = ep->user, .ep = ep};
	}
	if (conn->state != IWV_UP) {
		ripc__iwv_ep_break(ep, -EPROTO,
				   "the peer sent before the connection was established");
		return 0;
	}
	/* A send of no bytes is no message: doc/protocol.md, section 5.1. */
	if (!wc->byte_len) {
		ripc__iwv_release(conn->t, buf);
		return n;
	}
	buf->delivered = true;
	ev[n++] = (struct ripc__event){
		.kind = RIPC__EV_RECV,
		.user = ep->user,
		.ep = ep,
		.data = buf->data,
		.len = wc->byte_len,
		.token = buf,
	};
	return n;
}

unsigned ripc__iwv_completion(const struct ibv_wc *wc, struct ripc__event *ev)
{
	struct ripc__verbs_slot *slot = ripc__verbs_wc_slot(wc), *s;
	struct iwv_conn *conn;
	unsigned n = 0;
	bool read;

	if (!slot)
		return received(wc, ev);
	conn = slot->queue->owner;
	read = slot->queue == &conn->rd;
	if (wc->status) {
		broken(conn, wc, read ? "a read" : "a send or write");
		return 0;
	}
	/* Reads and writes are all signaled, so at most one of the retired slots is reported. */
	while ((s = ripc__verbs_sendq_retire(slot->queue, slot))) {
		if (s->kind == RIPC__EV_NONE || s != slot || !conn->ep ||
		    conn->ep->state == IWV_EP_CLOSED)
			continue;
		ev[n++] = (struct ripc__event){.kind = (enum ripc__ev_kind)s->kind,
					       .user = conn->ep->user,
					       .ep = conn->ep,
					       .wr_id = s->wr_id};
	}
	if (conn->state == IWV_LINGERING && conn->tx.head == conn->tx.tail)
		ripc__iwv_conn_release(conn);
	return n;
}
