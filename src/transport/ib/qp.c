/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The queue pair of a connection: created, connected, destroyed. */
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define ACK_TIME    14 /* 4.096 us * 2^14 = 67 ms until a retransmission */
#define RETRIES     6  /* retransmissions; 7 means endless ones on Soft-RoCE */
#define RNR_TIMER   16 /* 2.56 ms: pause after a receiver-not-ready NAK */
#define RNR_RETRIES 6  /* 7 means endless retries */

/* The completion queue was found empty after the queue pair was destroyed. */
void ripc__ib_qp_drained(struct ripc__ep *ep)
{
	if (!ep->sendq.slots)
		return;
	if (ep->qpn)
		HASH_DELETE(by_qpn, ep->t->by_qpn, ep);
	if (ep->t->last_rx_ep == ep)
		ep->t->last_rx_ep = NULL;
	ep->qpn = 0;
	ripc__verbs_cq_unreserve(&ep->d->cq, ep->sendq.depth);
	ripc__verbs_sendq_fini(&ep->sendq);
	ripc__ib_uc_free(ep);
}

void ripc__ib_qp_destroy(struct ripc__ep *ep)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (!ep->qp)
		return;
	/* The queue pair receives nothing more, so that all its completions can be kept. */
	if (!ep->d->v.gone) {
		(void)ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE);
		ripc__verbs_cq_keep(&ep->d->cq);
	}
	if (ibv_destroy_qp(ep->qp) && !ep->d->v.gone)
		ripc__log(RIPC_LOG_ERROR, "%s: cannot destroy a queue pair: %s", ep->d->v.name,
			  strerror(errno));
	ripc__ib_uc_destroy(ep);
	ep->qp = NULL;
	ripc__verbs_unhold(&ep->held);
	ep->destroyed_round = ep->t->rounds;
	/* Only a connected queue pair receives; the last send of the peer is complete. */
	ripc__ib_srq_unreserve(ep->srq, ep->job.done && !ep->fin);
}

int ripc__ib_qp_init(const struct ripc__ep *ep, struct ibv_qp *qp, unsigned access,
		     const char *what)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = ep->port->num, .qp_access_flags = access};

	return ripc__ib_set_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			       what);
}

int ripc__ib_qp_new(struct ripc__ep *ep)
{
	struct ib_device *d = ep->d;
	struct ibv_qp_init_attr init = {
		.send_cq = d->cq.cq,
		.recv_cq = d->cq.cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = IB_SEND_DEPTH,
			.max_send_sge = 1,
			.max_inline_data = IB_INLINE_BYTES},
	};
	struct ripc__ep *other;
	int rc;

	init.cap.max_send_wr = MIN(init.cap.max_send_wr, (uint32_t)d->v.attr.max_qp_wr);
	rc = ripc__verbs_sendq_init(&ep->sendq, init.cap.max_send_wr, ep->t->opt->signal_every, ep);
	if (rc)
		return rc;
	rc = ripc__verbs_cq_reserve(&d->cq, ep->sendq.depth);
	if (rc) {
		ripc__verbs_sendq_fini(&ep->sendq);
		return rc;
	}
	ep->srq = ripc__ib_srq_reserve(d);
	if (ep->srq) {
		init.srq = ep->srq->srq;
		ep->qp = ripc__ib_make_qp(d, &init);
	}
	if (!ep->qp) {
		rc = ep->srq ? -ENOMEM : -ENOBUFS;
		if (ep->srq)
			ripc__ib_srq_unreserve(ep->srq, false);
		ripc__ib_qp_drained(ep);
		return rc;
	}
	ep->max_inline = MIN(init.cap.max_inline_data, ep->t->opt->inline_bytes);
	ep->qpn = ib_qp_key(d, ep->qp->qp_num);
	/* A destroyed queue pair with this number may have completions left. */
	HASH_FIND(by_qpn, ep->t->by_qpn, &ep->qpn, sizeof(ep->qpn), other);
	if (!other)
		HASH_ADD(by_qpn, ep->t->by_qpn, qpn, sizeof(ep->qpn), ep);
	if (other || !ep->by_qpn.tbl) {
		ep->qpn = 0;
		rc = ripc__fail(other ? -EBUSY : -ENOMEM, "ib: cannot register a queue pair: %s",
				other ? "its number is still in use" : "out of memory");
	} else {
		rc = ripc__ib_qp_init(ep, ep->qp, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
				      "for a connection");
	}
	if (!rc && ep->t->uc && (ep->wireup.active || ep->wireup.theirs.uc_qpn))
		rc = ripc__ib_uc_new(ep);
	if (!rc)
		return 0;
	/* Nothing was posted, so no completion can arrive. */
	ripc__ib_qp_destroy(ep);
	ripc__ib_qp_drained(ep);
	return rc;
}

static uint8_t depth(int device)
{
	return (uint8_t)MIN(MAX(device, 1), IB_READ_DEPTH_MAX);
}

void ripc__ib_qp_params(const struct ripc__ep *ep, struct ripc__wireup_params *q)
{
	*q = (struct ripc__wireup_params){
		.rc_qpn = ep->qp->qp_num,
		.mtu = ep->port->port_addr.mtu,
		.responder_resources = depth(ep->d->v.attr.max_qp_rd_atom),
		.initiator_depth = depth(ep->d->v.attr.max_qp_init_rd_atom),
	};
	if (ep->t->opt->path_mtu && (uint8_t)ep->t->opt->path_mtu < q->mtu)
		q->mtu = (uint8_t)ep->t->opt->path_mtu;
	/* A random PSN, so that packets of an earlier connection are rejected. */
	if (getrandom(&q->rc_psn, sizeof(q->rc_psn), GRND_NONBLOCK) != sizeof(q->rc_psn))
		q->rc_psn = ep->wireup.mine;
	q->rc_psn &= 0xffffff;
	if (ib_uc_used(ep)) {
		q->uc_qpn = ep->uc->qp->qp_num;
		q->uc_psn = q->rc_psn ^ 0x555555;
	} else {
		q->flags = RIPC__WIREUP_SEND_IMM;
	}
}

/* Connects a queue pair to that of the peer. Attributes of RC alone are set for ep->qp only. */
static int connect_qp(const struct ripc__ep *ep, struct ibv_qp *qp, uint32_t theirs_qpn,
		      uint32_t theirs_psn, uint32_t ours_psn)
{
	const struct ripc__wireup_params *ours = &ep->wireup.ours, *theirs = &ep->wireup.theirs;
	bool is_rc = qp == ep->qp;
	int rc, mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)MIN(ours->mtu, theirs->mtu),
		.dest_qp_num = theirs_qpn,
		.rq_psn = theirs_psn,
		.max_dest_rd_atomic = MIN(ours->responder_resources, theirs->initiator_depth),
		.min_rnr_timer = RNR_TIMER,
	};

	if (is_rc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	ripc__ib_ah_attr(ep->port, &ep->ah_entry->port_addr, &attr.ah_attr);
	rc = ripc__ib_set_qp(qp, &attr, mask, "ready to receive");
	if (rc)
		return rc;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = ours_psn,
		.timeout = ACK_TIME,
		.retry_cnt = RETRIES,
		.rnr_retry = RNR_RETRIES,
		.max_rd_atomic = MIN(ours->initiator_depth, theirs->responder_resources),
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (is_rc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ripc__ib_set_qp(qp, &attr, mask, "ready to send");
}

/* In a thread: over RoCE the kernel resolves the neighbour. */
int ripc__ib_qp_ready(struct ripc__verbs_job *job)
{
	struct ripc__ep *ep = (struct ripc__ep *)job;
	const struct ripc__wireup_params *ours = &ep->wireup.ours, *theirs = &ep->wireup.theirs;
	int rc = connect_qp(ep, ep->qp, theirs->rc_qpn, theirs->rc_psn, ours->rc_psn);

	if (rc || !ib_uc_used(ep))
		return rc;
	return connect_qp(ep, ep->uc->qp, theirs->uc_qpn, theirs->uc_psn, ours->uc_psn);
}
