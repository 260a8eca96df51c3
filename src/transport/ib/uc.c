/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes over UC; lost ones are repeated. A send waits until all writes before it are acknowledged,
 * so that it arrives after them. uc_retransmit.c decides which writes to repeat.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdlib.h>

#define LATE_NS (20 * RIPC__MS) /* time after its MARK at which a missing write counts as lost */

static int recv_post(struct ripc__ep *ep)
{
	/* Bit 1 distinguishes it from other receives: ripc__ib_completion(). */
	struct ibv_recv_wr *bad, wr = {.wr_id = (uintptr_t)ep | 2};

	return ibv_post_recv(ep->uc->qp, &wr, &bad);
}

int ripc__ib_uc_new(struct ripc__ep *ep)
{
	struct ib_device *d = ep->d;
	struct ibv_qp_init_attr init = {
		.send_cq = d->cq.cq,
		.recv_cq = d->cq.cq,
		.qp_type = IBV_QPT_UC,
		.cap = {.max_send_wr = RIPC__UC_RETRANSMIT_WINDOW,
			.max_recv_wr = RIPC__UC_RETRANSMIT_WINDOW,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ib_uc *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return ripc__fail(-ENOMEM, "ib: out of memory");
	ripc__list_init(&u->late);
	rc = ripc__verbs_sendq_init(&u->sendq, RIPC__UC_RETRANSMIT_WINDOW, 0, ep);
	if (!rc)
		rc = ripc__verbs_cq_reserve(&d->cq, 2 * RIPC__UC_RETRANSMIT_WINDOW);
	if (rc) {
		ripc__verbs_sendq_fini(&u->sendq);
		free(u);
		return rc;
	}
	ep->uc = u;
	u->qp = ripc__ib_make_qp(d, &init);
	rc = u->qp ? ripc__ib_qp_init(ep, u->qp, IBV_ACCESS_REMOTE_WRITE, "for writes")
		   : -EOPNOTSUPP;
	for (unsigned i = 0; !rc && i < RIPC__UC_RETRANSMIT_WINDOW; i++)
		if (recv_post(ep))
			rc = ripc__fail(-EIO, "%s: cannot post a receive", d->v.name);
	if (!rc)
		return 0;
	ripc__ib_uc_destroy(ep);
	ripc__ib_uc_free(ep);
	return rc;
}

void ripc__ib_uc_destroy(struct ripc__ep *ep)
{
	if (!ib_uc_used(ep))
		return;
	ibv_destroy_qp(ep->uc->qp);
	ep->uc->qp = NULL;
	ripc__list_del(&ep->uc->late);
}

void ripc__ib_uc_free(struct ripc__ep *ep)
{
	if (!ep->uc)
		return;
	ripc__verbs_cq_unreserve(&ep->d->cq, 2 * RIPC__UC_RETRANSMIT_WINDOW);
	ripc__verbs_sendq_fini(&ep->uc->sendq);
	free(ep->uc);
	ep->uc = NULL;
}

static int write_post(struct ripc__ep *ep, uint32_t number)
{
	struct ib_write *w = &ep->uc->writes[number % RIPC__UC_RETRANSMIT_WINDOW];
	struct ripc__verbs_slot *slot = ripc__verbs_sendq_alloc(&ep->uc->sendq, true);
	struct ibv_send_wr wr = {
		.wr_id = ripc__verbs_send_id(slot),
		.sg_list = &w->sge,
		.num_sge = w->sge.length ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(number),
		.wr.rdma = {w->raddr, w->rkey},
	};

	slot->kind = IB_SLOT_UC;
	slot->wr_id = number;
	if (!ripc__verbs_post(ep->uc->qp, &ep->uc->sendq, &wr))
		return 0;
	ripc__ib_ep_break(ep, -EIO, "cannot post a write");
	return -ENOTCONN;
}

int ripc__ib_uc_write(struct ripc__ep *ep, const struct ibv_sge *sge,
		      const struct ripc__transfer *x)
{
	struct ib_uc *u = ep->uc;
	uint32_t number = ripc__uc_write(&u->tx);

	u->writes[number % RIPC__UC_RETRANSMIT_WINDOW] = (struct ib_write){
		.wr_id = x->wr_id, .raddr = x->raddr, .sge = *sge, .rkey = x->rkey};
	return write_post(ep, number);
}

void ripc__ib_uc_step(struct ripc__ep *ep)
{
	struct ib_uc *u = ep->uc;
	uint8_t buf[RIPC__UC_CONTROL];
	struct ripc__uc_tx tx = u->tx;
	struct ripc__uc_rx rx = u->rx;

	if (!ib_ep_can_post(ep) || !u->qp)
		return;
	/* If the send queue is full, the next completion repeats this call. */
	if (ripc__uc_answer(&u->rx, u->late_ns <= ep->t->now_ns, buf)) {
		if (ripc__ib_send_control(ep, buf, sizeof(buf)))
			u->rx = rx;
		else
			ripc__list_del(&u->late);
	}
	if (ripc__uc_mark(&u->tx, buf) && ripc__ib_send_control(ep, buf, sizeof(buf)))
		u->tx = tx;
}

void ripc__ib_uc_sent(struct ripc__ep *ep, const struct ripc__verbs_slot *slot,
		      const struct ibv_wc *wc)
{
	struct ib_uc *u = ep->uc;

	ripc__uc_sent(&u->tx, (uint32_t)slot->wr_id);
	while (ripc__verbs_sendq_retire(&u->sendq, slot))
		;
	if (wc->status != IBV_WC_SUCCESS)
		ripc__ib_ep_break(ep, -ECONNRESET, ibv_wc_status_str(wc->status));
	ripc__ib_uc_step(ep);
}

void ripc__ib_uc_received(struct ripc__ep *ep, const struct ibv_wc *wc)
{
	if (!ib_uc_used(ep))
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			ripc__ib_ep_break(ep, -ECONNRESET, ibv_wc_status_str(wc->status));
		return;
	}
	ripc__uc_received(&ep->uc->rx, be32toh(wc->imm_data));
	if (recv_post(ep))
		ripc__ib_ep_break(ep, -EIO, "cannot post a receive");
	ripc__ib_uc_step(ep);
}

void ripc__ib_uc_control(struct ripc__ep *ep, const uint8_t *data, uint32_t len)
{
	struct ib_uc *u = ep->uc;
	uint64_t again;

	if (!ib_uc_used(ep) || ripc__uc_control(&u->tx, &u->rx, data, len, &again)) {
		ripc__ib_ep_break(ep, -EPROTO, "the peer sent a malformed MARK or ANSWER");
		return;
	}
	for (uint32_t n = u->tx.base; n != u->tx.next && ib_ep_can_post(ep); n++)
		if (again >> (n % RIPC__UC_RETRANSMIT_WINDOW) & 1)
			write_post(ep, n);
	if (u->rx.answer_pending && ripc__list_empty(&u->late)) {
		u->late_ns = ep->t->now_ns + LATE_NS;
		ripc__list_add(&ep->t->late, &u->late);
	}
	if (u->reported != u->tx.base)
		ripc__ib_ep_queue_event(ep);
	ripc__ib_uc_step(ep);
}

uint64_t ripc__ib_uc_timers(struct ripc__transport *t, uint64_t now_ns)
{
	uint64_t next = RIPC__NEVER;
	struct ib_uc *u, *tmp;

	ripc__list_for_each_entry_safe (u, tmp, &t->late, late) {
		uint64_t at = u->late_ns > now_ns ? u->late_ns : now_ns + RIPC__MS;

		if (now_ns >= u->late_ns)
			ripc__ib_uc_step(u->sendq.owner);
		if (!u->rx.answer_pending)
			ripc__list_del(&u->late);
		else if (at < next)
			next = at;
	}
	return next;
}

unsigned ripc__ib_uc_events(struct ripc__ep *ep, struct ripc__event *events, unsigned max)
{
	struct ib_uc *u = ep->uc;
	unsigned n = 0;

	for (; u->reported != u->tx.base && n < max; u->reported++) {
		ep->rdmas--;
		events[n] = ib_event(ep, RIPC__EV_WRITE_DONE);
		events[n++].wr_id = u->writes[u->reported % RIPC__UC_RETRANSMIT_WINDOW].wr_id;
	}
	return n;
}
