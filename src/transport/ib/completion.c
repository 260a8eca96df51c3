/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Completions of all queue pairs of a device. */
#include "base/log.h"
#include "transport/ib/ib.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void send_failed(struct ripc__ep *ep, const struct ibv_wc *wc)
{
	char why[IB_WHY_MAX], who[96];

	ripc__ib_port_addr_text(&ep->ah_entry->port_addr, who, sizeof(who));
	snprintf(why, sizeof(why), "%s to %s: %s", ep->d->v.name, who,
		 ibv_wc_status_str(wc->status));
	ripc__ib_ep_break(ep,
			  wc->status == IBV_WC_RETRY_EXC_ERR ||
					  wc->status == IBV_WC_RNR_RETRY_EXC_ERR
				  ? -ETIMEDOUT
				  : -ECONNRESET,
			  why);
}

static unsigned send_completed(struct ib_device *d, struct ripc__verbs_slot *slot,
			       const struct ibv_wc *wc, struct ripc__event *ev)
{
	struct ripc__ep *ep = slot->queue->owner;
	struct ripc__verbs_slot *s;
	unsigned n = 0;

	while ((s = ripc__verbs_sendq_retire(&ep->sendq, slot))) {
		if (s->kind == IB_SLOT_SEND)
			continue;
		ep->rdmas--;
		ep->reads -= s->kind == IB_SLOT_READ;
		/* Reads and writes are all signaled; after a failure none is reported. */
		if (s != slot || wc->status != IBV_WC_SUCCESS || ib_ep_closed(ep) || !ep->qp)
			continue;
		ev[n] = ib_event(ep, s->kind == IB_SLOT_READ ? RIPC__EV_READ_DONE
							     : RIPC__EV_WRITE_DONE);
		ev[n++].wr_id = s->wr_id;
	}
	ep->alive = true;
	if (wc->status != IBV_WC_SUCCESS)
		send_failed(ep, wc);
	if (ep->uc)
		ripc__ib_uc_step(ep);
	ripc__ib_ep_unblock(ep);
	return n;
}

static void datagram_sent(struct ib_port *p, struct ripc__verbs_slot *slot, const struct ibv_wc *wc)
{
	while (ripc__verbs_sendq_retire(&p->sendq, slot))
		;
	if (wc->status == IBV_WC_SUCCESS || wc->status == IBV_WC_WR_FLUSH_ERR || p->down)
		return;
	/* A failed send puts a UD queue pair into the SQE state, from which it can be recovered. */
	ripc__log(RIPC_LOG_WARN, "%s port %u: cannot send a datagram: %s", p->d->v.name, p->num,
		  ibv_wc_status_str(wc->status));
	if (ripc__ib_set_qp(
		    p->ud.qp,
		    &(struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE},
		    IBV_QP_STATE | IBV_QP_CUR_STATE, "ready to send again"))
		ripc__ib_ud_stopped(&p->ud, ibv_wc_status_str(wc->status));
}

static struct ripc__ep *find(struct ib_device *d, uint32_t qp_num)
{
	uint32_t qpn = ib_qp_key(d, qp_num);
	struct ripc__ep *ep = d->t->last_rx_ep;

	if (ep && ep->qpn == qpn)
		return ep;
	HASH_FIND(by_qpn, d->t->by_qpn, &qpn, sizeof(qpn), ep);
	d->t->last_rx_ep = ep;
	return ep;
}

static unsigned received(struct ib_device *d, struct ripc__verbs_buf *buf, const struct ibv_wc *wc,
			 struct ripc__event *ev)
{
	struct ripc__ep *ep = find(d, wc->qp_num);
	unsigned n = 0;
	uint8_t *data = buf->data + IB_RECV_HEAD;
	uint32_t len = wc->byte_len;
	bool imm, written;

	if (!ep || !ep->qp || ib_ep_closed(ep) || wc->status != IBV_WC_SUCCESS) {
		ripc__ib_release(d->t, buf);
		if (ep && wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR)
			send_failed(ep, wc);
		return 0;
	}
	ep->alive = true;
	ripc__ib_ep_received(ep);
	/* The peer may send only after our RTU, which follows EV_ESTABLISHED. */
	if (ep->state == IB_EP_CONNECTING) {
		ripc__ib_release(d->t, buf);
		ripc__ib_ep_break(ep, -EPROTO,
				  "the peer sent before the connection was established");
		return 0;
	}
	written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	imm = wc->wc_flags & IBV_WC_WITH_IMM;
	if (imm && !written && ib_uc_used(ep)) {
		ripc__ib_uc_control(ep, data, len);
		ripc__ib_release(d->t, buf);
		return 0;
	}
	if (!len && !imm) {
		ep->fin = true;
		ripc__ib_release(d->t, buf);
		ripc__ib_ep_break(ep, -ECONNRESET, "the peer has closed the connection");
		return 0;
	}
	if (imm && !written) {
		data -= sizeof(wc->imm_data);
		len += (uint32_t)sizeof(wc->imm_data);
		memcpy(data, &wc->imm_data, sizeof(wc->imm_data));
	}
	if (ep->state == IB_EP_ESTABLISHED) {
		ripc__ib_ep_established(ep);
		ev[n++] = ib_event(ep, RIPC__EV_ESTABLISHED);
	}
	ev += n++;
	*ev = ib_event(ep, written ? RIPC__EV_WRITTEN : RIPC__EV_RECV);
	ev->data = data;
	ev->len = len;
	if (written) {
		ev->imm = be32toh(wc->imm_data);
		/* The receive was used, its buffer was not. */
		ripc__ib_release(d->t, buf);
	} else {
		ev->token = buf;
		buf->delivered = true;
	}
	return n;
}

/* The UD queue pair of a completed receive; NULL: any other completion. */
static const struct ib_ud *ud_of(const struct ib_device *d, const struct ibv_wc *wc)
{
	const struct ripc__verbs_buf *buf = ripc__verbs_wc_buf(wc);

	return wc->wr_id & 3 || buf->pool != &d->dgram ? NULL : buf->owner;
}

unsigned ripc__ib_completion(struct ib_device *d, const struct ibv_wc *wc, struct ripc__event *ev)
{
	struct ripc__verbs_slot *slot = ripc__verbs_wc_slot(wc);
	const struct ib_ud *u;

	d->t->active = d;
	if (slot && slot->kind == IB_SLOT_DATAGRAM) {
		datagram_sent(slot->queue->owner, slot, wc);
		return 0;
	}
	if (slot && slot->kind == IB_SLOT_UC) {
		ripc__ib_uc_sent(slot->queue->owner, slot, wc);
		return 0;
	}
	if (slot)
		return send_completed(d, slot, wc, ev);
	if (wc->wr_id & 2) {
		ripc__ib_uc_received((struct ripc__ep *)(uintptr_t)(wc->wr_id & ~UINT64_C(3)), wc);
		return 0;
	}
	u = ud_of(d, wc);
	if (!u)
		return received(d, ripc__verbs_wc_buf(wc), wc, ev);
	return u == &u->port->mcast ? ripc__ib_mcast_received(u->port, wc, ev)
				    : ripc__ib_datagram_received(u->port, wc, ev);
}

/*
 * The common case: a small message of an open connection. It is copied to @room, and its buffer is
 * posted again at once. Return: whether it was this case.
 */
static bool small(struct ib_device *d, const struct ibv_wc *wc, void *room, size_t cap,
		  struct ripc__event *ev)
{
	struct ripc__verbs_buf *buf = ripc__verbs_wc_buf(wc);
	struct ripc__ep *ep;

	if (wc->wr_id & 3 || wc->status != IBV_WC_SUCCESS || wc->wc_flags & IBV_WC_WITH_IMM ||
	    !wc->byte_len || wc->byte_len > cap || buf->pool != &d->recv)
		return false;
	ep = find(d, wc->qp_num);
	if (!ep || ep->state != IB_EP_OPEN)
		return false;
	ep->alive = true;
	memcpy(room, buf->data + IB_RECV_HEAD, wc->byte_len);
	ev->kind = RIPC__EV_RECV;
	ev->user = ep->user;
	ev->ep = ep;
	ev->data = room;
	ev->len = wc->byte_len;
	ev->token = NULL;
	ripc__ib_release(d->t, buf);
	return true;
}

/* Whether a completion may yield two events: EV_ESTABLISHED before EV_RECV. */
static bool opens(struct ib_device *d, const struct ibv_wc *wc)
{
	const struct ripc__ep *ep;

	if (wc->wr_id & 3 || ripc__verbs_wc_buf(wc)->pool != &d->recv)
		return false;
	ep = find(d, wc->qp_num);
	return ep && ep->state != IB_EP_OPEN && ep->state != IB_EP_LINGERING;
}

bool ripc__ib_take(struct ripc__transport *t, void *room, size_t cap, struct ripc__event *ev)
{
	struct ib_device *d = t->active;
	struct ripc__event two[2];
	const struct ib_ud *u;
	struct ibv_wc wc;

	if (!d || d->v.gone || !ripc__verbs_cq_poll_one(&d->cq, &wc))
		return false;
	if (small(d, &wc, room, cap, ev))
		return true;
	u = ud_of(d, &wc);
	if (u && u == &u->port->ud && wc.byte_len <= IB_GRH + cap)
		return ripc__ib_datagram_take(u->port, &wc, room, ev);
	if (opens(d, &wc)) {
		ripc__verbs_cq_push_back(&d->cq, &wc);
		return false;
	}
	if (!ripc__ib_completion(d, &wc, two))
		return false;
	*ev = two[0];
	return true;
}
