/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The receives of a port's queue pair for datagrams, and its reset after an error. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#define RESET_NS (100 * RIPC__MS) /* pause before a stopped queue pair is reset */

void ripc__ib_port_stopped(struct ib_port *p, const char *why)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (p->stopped || !p->qp)
		return;
	p->stopped = true;
	p->retry_ns = p->t->now_ns + RESET_NS;
	ripc__log(RIPC_LOG_WARN,
		  "ib: %s port %u stopped receiving datagrams: %s; its queue pair will be reset",
		  p->d->v.name, p->num, why);
	/* Flushes all receives if the device has not done so. */
	ripc__ib_set_qp(p->qp, &attr, IBV_QP_STATE, "flush its receives");
}

/*
 * Makes the queue pair ready again: peers know its number. All receives were flushed, and so were
 * the sends, but for those that completed without a signal.
 */
static void port_reset(struct ib_port *p)
{
	struct ripc__verbs_sendq *q = &p->sendq;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	if (p->t->now_ns < p->retry_ns)
		return;
	p->retry_ns = p->t->now_ns + RESET_NS;
	if (p->readdress && !ripc__ib_port_readdress(p))
		return;
	if (ripc__ib_set_qp(p->qp, &attr, IBV_QP_STATE, "empty") ||
	    ripc__ib_ud_ready(p, p->qp, p->port_addr.qkey, true))
		return;
	while (q->head != q->tail)
		ripc__verbs_sendq_retire(q, &q->slots[q->head & (q->depth - 1)]);
	q->unsignaled = 0;
	p->stopped = false;
	ripc__log(RIPC_LOG_INFO, "ib: %s port %u receives datagrams again", p->d->v.name, p->num);
}

void ripc__ib_port_repost(struct ib_port *p)
{
	unsigned n;

	if (p->stopped && !p->posted && !p->d->v.gone)
		port_reset(p);
	while (p->repost && p->qp && !p->stopped && !p->d->v.gone) {
		/*
		 * The full size: a peer may have a larger MTU, and an oversized datagram would stop
		 * the queue pair.
		 */
		n = ripc__ib_post_bufs(p->qp, &p->repost, IB_GRH + 4096);
		p->nrepost -= n;
		p->posted += n;
		if (!n)
			return;
	}
}
