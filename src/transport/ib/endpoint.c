/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Posting on a connection. */
#include "transport/ib/ib.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define INLINE_MAX 1024u
#define SPARE      4u       /* send queue slots reserved for control messages */
#define STARVED_NS 1000000u /* pause after a failed allocation of a bounce buffer */

void ripc__ib_ep_unblock(struct ripc__ep *ep)
{
	if (ep->sendable != IB_SENDABLE_WANTED || ep->state != IB_EP_OPEN || !ib_uc_all_acked(ep))
		return;
	ep->sendable = IB_SENDABLE_DUE;
	ripc__ib_ep_queue_event(ep);
}

/* The result of a post. Return: 0; -ENOTCONN: refused, and the connection is broken. */
static int posted(struct ripc__ep *ep, int rc)
{
	char why[IB_WHY_MAX];

	if (!rc)
		return 0;
	snprintf(why, sizeof(why), "%s: cannot post a work request: %s", ep->d->v.name,
		 strerror(-rc));
	ripc__ib_ep_break(ep, -EIO, why);
	return -ENOTCONN;
}

/* Posts a chain. Return: as posted(). */
static int deliver(struct ripc__ep *ep, struct ibv_send_wr *wr)
{
	return posted(ep, ripc__verbs_post(ep->qp, &ep->sendq, wr));
}

void ripc__ib_flush_held(struct ripc__ep *ep)
{
	struct ibv_send_wr *wr = ripc__verbs_unhold(&ep->held);

	if (wr)
		deliver(ep, wr);
}

static int blocked(struct ripc__ep *ep)
{
	ep->sendable = IB_SENDABLE_WANTED;
	return -EAGAIN;
}

/* No bounce buffer is free, and there may be no completion to free one: a timer retries. */
static int starved(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;

	t->retry_ns = t->now_ns + STARVED_NS;
	return blocked(ep);
}

/* An inline send: the device copies the bytes in this call. */
static inline int send_inline(struct ripc__ep *ep, const uint8_t *bytes, uint32_t len)
{
	struct ripc__verbs_slot *slot = ripc__verbs_sendq_alloc(&ep->sendq, false);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	ripc__verbs_fill_send(&wr, &sge, slot, IBV_WR_SEND, bytes, len);
	return deliver(ep, &wr);
}

/*
 * Whether the first 4 bytes of a message need a packet of their own: they then travel as immediate
 * data. The empty SEND with which a connection ends must not have any.
 */
static bool spills(const struct ripc__ep *ep, size_t len)
{
	return ep->packet && len > ep->packet &&
	       (len - 1) / ep->packet != (len - 1 - 4) / ep->packet;
}

int ripc__ib_post(struct ripc__ep *ep, const void *head, size_t head_len, const struct iovec *items,
		  unsigned n, bool more)
{
	enum ibv_wr_opcode opcode = IBV_WR_SEND;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ripc__verbs_slot *slot;
	uint8_t copy[INLINE_MAX];
	size_t len = ripc__post_len(head_len, items, n);

	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	if (len > IB_SEND_MAX)
		return -EMSGSIZE;
	/* Slots are reserved for control messages. */
	if (ripc__verbs_sendq_space(&ep->sendq) < SPARE || !ib_uc_all_acked(ep))
		return blocked(ep);
	if (!more && !ep->held.n && len <= ep->max_inline && len <= INLINE_MAX) {
		ripc__post_copy(copy, head, head_len, items, n);
		return send_inline(ep, copy, (uint32_t)len);
	}
	slot = ripc__verbs_sendq_alloc_bounce(&ep->sendq, false, &ep->d->bounce);
	if (!slot)
		return starved(ep);
	wr = (struct ibv_send_wr){0};
	if (head_len == sizeof(wr.imm_data) && spills(ep, len)) {
		opcode = IBV_WR_SEND_WITH_IMM;
		memcpy(&wr.imm_data, head, head_len);
		len -= head_len;
		head_len = 0;
	}
	ripc__post_copy(slot->bounce->data, head, head_len, items, n);
	ripc__verbs_fill_send(&wr, &sge, slot, opcode, NULL, len);
	if (ripc__verbs_hold(&ep->t->held, &ep->held, &wr) || !more)
		ripc__ib_flush_held(ep);
	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	return ep->held.n ? 1 : 0;
}

int ripc__ib_send_control(struct ripc__ep *ep, const void *data, size_t len)
{
	struct ripc__verbs_slot *slot;
	struct ibv_send_wr wr = {0};
	struct ibv_sge sge;

	if (ripc__verbs_sendq_space(&ep->sendq) < 2)
		return -EAGAIN;
	ripc__ib_flush_held(ep);
	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	slot = ripc__verbs_sendq_alloc_bounce(&ep->sendq, true, &ep->d->bounce);
	if (!slot)
		return -EAGAIN;
	memcpy(slot->bounce->data, data, len);
	ripc__verbs_fill_send(&wr, &sge, slot, IBV_WR_SEND_WITH_IMM, NULL, len);
	return deliver(ep, &wr);
}

int ripc__ib_transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	static const enum ibv_wr_opcode opcodes[] = {
		[RIPC__READ] = IBV_WR_RDMA_READ,
		[RIPC__WRITE] = IBV_WR_RDMA_WRITE,
		[RIPC__WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct ripc__verbs_slot *slot;
	struct ibv_sge sge = {.addr = (uintptr_t)x->local, .length = (uint32_t)x->len};
	struct ibv_send_wr wr = {
		.opcode = opcodes[x->kind],
		.imm_data = htobe32(x->imm),
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = x->len ? 1 : 0,
		.wr.rdma = {x->raddr, x->rkey},
	};
	bool write = x->kind != RIPC__READ;
	bool uc = write && ib_uc_used(ep);
	bool hold = x->kind == RIPC__WRITE && !uc && x->len <= RIPC__VERBS_HELD_WRITE_MAX;
	int rc;

	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	if (x->len > ep->t->limits.rdma_max)
		return -EMSGSIZE;
	if (ripc__verbs_sendq_space(&ep->sendq) < SPARE || (!write && ep->reads >= ep->read_depth))
		return blocked(ep);
	/* While a send waits for the acknowledgement of UC writes, no more are accepted. */
	if (uc &&
	    (ep->sendable == IB_SENDABLE_WANTED || !ripc__uc_space(&ep->uc->tx, ep->uc->reported) ||
	     !ripc__verbs_sendq_space(&ep->uc->sendq)))
		return blocked(ep);
	rc = ripc__verbs_lkey(&ep->d->v, x->mr, &sge.lkey);
	if (rc)
		return rc;
	/* Earlier sends go first. */
	if (!hold)
		ripc__ib_flush_held(ep);
	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	if (uc) {
		rc = ripc__ib_uc_write(ep, &sge, x);
		ep->rdmas += !rc;
		return rc;
	}
	slot = ripc__verbs_sendq_alloc(&ep->sendq, true);
	slot->kind = write ? IB_SLOT_WRITE : IB_SLOT_READ;
	slot->wr_id = x->wr_id;
	wr.wr_id = ripc__verbs_send_id(slot);
	ep->rdmas++;
	ep->reads += !write;
	if (!hold)
		return deliver(ep, &wr);
	if (ripc__verbs_hold(&ep->t->held, &ep->held, &wr))
		ripc__ib_flush_held(ep);
	return ib_ep_can_post(ep) ? 0 : -ENOTCONN;
}

/*
 * A write of no bytes: it needs no memory and no receive, and it is either acknowledged or breaks
 * the connection. Nothing else detects a dead peer on an idle connection.
 */
static void send_keepalive(struct ripc__ep *ep)
{
	if (ripc__verbs_sendq_space(&ep->sendq) < 2)
		return;
	ripc__ib_flush_held(ep);
	if (ib_ep_can_post(ep))
		posted(ep, ripc__verbs_post_empty(ep->qp, &ep->sendq, IBV_WR_RDMA_WRITE, true));
}

void ripc__ib_retry_starved(struct ripc__transport *t)
{
	struct ripc__ep *ep;

	t->retry_ns = 0;
	ripc__list_for_each_entry (ep, &t->eps, all) {
		if (ep->sendq.unsignaled && ib_ep_can_post(ep))
			send_keepalive(ep);
		ripc__ib_ep_unblock(ep);
	}
}

void ripc__ib_keep_alive(struct ripc__transport *t)
{
	struct ripc__ep *ep;

	t->keepalive_ns = t->now_ns + IB_KEEPALIVE_NS;
	ripc__list_for_each_entry (ep, &t->eps, all) {
		if (ep->state == IB_EP_OPEN && !ep->alive)
			send_keepalive(ep);
		ep->alive = false;
	}
}
