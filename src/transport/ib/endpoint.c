/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Posting on a connection. */
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define INLINE_MAX 1024u
#define SPARE      4u       /* places of the send queue for what the transport says itself */
#define STARVED_NS 1000000u /* after that a post that found no memory is to be tried again */

void ripc__ib_ep_unblock(struct ripc__ep *ep)
{
	if (!ep->want_sendable || ep->state != IB_EP_OPEN || !ib_uc_all_acked(ep))
		return;
	ep->want_sendable = false;
	ep->sendable = true;
	ripc__ib_ep_queue_event(ep);
}

static void push_failed(struct ripc__ep *ep, int rc)
{
	char why[IB_WHY_MAX];

	snprintf(why, sizeof(why), "%s: a work request was refused: %s", ep->d->v.name, strerror(rc));
	ripc__ib_ep_break(ep, -EIO, why);
}

/* Hands the chain to the device. Return: 0, or -ENOTCONN: refused, and the connection is broken. */
static int deliver(struct ripc__ep *ep, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(ep->qp, wr, &bad);
	uint32_t n = 0;

	if (!rc)
		return 0;
	for (; bad; bad = bad->next)
		n++;
	ripc__verbs_sendq_unalloc(&ep->sendq, n);
	push_failed(ep, rc < 0 ? -rc : rc);
	return -ENOTCONN;
}

void ripc__ib_flush_held(struct ripc__ep *ep)
{
	uint32_t n = ep->nheld;

	if (!n)
		return;
	ep->nheld = 0;
	ripc__list_del(&ep->held);
	for (uint32_t i = 0; i + 1 < n; i++)
		ep->held_wr[i].next = &ep->held_wr[i + 1];
	ep->held_wr[n - 1].next = NULL;
	deliver(ep, ep->held_wr);
}

static int blocked(struct ripc__ep *ep)
{
	ep->want_sendable = true;
	return -EAGAIN;
}

/* No memory for a copy: nothing that completes need bring it back. */
static int starved(struct ripc__ep *ep)
{
	struct ib *t = ep->t;

	t->starved = true;
	t->starved_ns = t->now_ns + STARVED_NS;
	return blocked(ep);
}

static void gather(uint8_t *p, const struct iovec *iov, unsigned niov)
{
	for (unsigned i = 0; i < niov; i++) {
		if (iov[i].iov_len)
			memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
}

/* Small, and nothing is held back before it: the device takes it out of the call itself. */
static inline int send_inline(struct ripc__ep *ep, const uint8_t *bytes, uint32_t len)
{
	struct ripc__verbs_slot *slot = ripc__verbs_sendq_alloc(&ep->sendq, false);
	struct ibv_sge sge = {(uintptr_t)bytes, len, 0};
	struct ibv_send_wr wr = {
		.wr_id = ripc__verbs_send_id(slot),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | (slot->signaled ? IBV_SEND_SIGNALED : 0u),
	};

	slot->kind = IB_SLOT_SEND;
	return deliver(ep, &wr);
}

int ripc__ib_post_send(struct ripc__ep *ep, const struct iovec *iov, unsigned niov, bool more)
{
	struct ripc__verbs_slot *slot;
	uint8_t copy[INLINE_MAX];
	size_t len = 0;

	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	for (unsigned i = 0; i < niov; i++)
		len += iov[i].iov_len;
	if (len > IB_SEND_MAX)
		return -EMSGSIZE;
	/* Places are kept for what the transport says itself. */
	if (ripc__verbs_sendq_space(&ep->sendq) < SPARE || !ib_uc_all_acked(ep))
		return blocked(ep);
	if (!more && !ep->nheld && len <= ep->max_inline && len <= INLINE_MAX) {
		gather(copy, iov, niov);
		return send_inline(ep, copy, (uint32_t)len);
	}
	slot = ripc__verbs_sendq_alloc(&ep->sendq, false);
	slot->kind = IB_SLOT_SEND;
	slot->bounce = ripc__verbs_pool_get(&ep->d->bounce);
	if (!slot->bounce) {
		ripc__verbs_sendq_unalloc(&ep->sendq, 1);
		return starved(ep);
	}
	gather(slot->bounce->data, iov, niov);
	ep->held_sge[ep->nheld] =
		(struct ibv_sge){(uintptr_t)slot->bounce->data, (uint32_t)len, slot->bounce->lkey};
	ep->held_wr[ep->nheld] = (struct ibv_send_wr){
		.wr_id = ripc__verbs_send_id(slot),
		.sg_list = &ep->held_sge[ep->nheld],
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = slot->signaled ? IBV_SEND_SIGNALED : 0,
	};
	if (!ep->nheld++)
		ripc__list_add(&ep->t->held, &ep->held);
	if (!more || ep->nheld == IB_HELD_MAX)
		ripc__ib_flush_held(ep);
	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	return ep->nheld ? 1 : 0;
}

/* head_len is a constant wherever it is called. */
static inline __attribute__((always_inline)) int post_headed(struct ripc__ep *ep, const uint8_t *head,
							     size_t head_len, const void *payload,
							     size_t len, bool more)
{
	uint8_t copy[INLINE_MAX];
	size_t all = head_len + len;

	/* What is not inline, and what waits for more, is no shorter this way. */
	if (all > ep->max_inline || all > INLINE_MAX || more || ep->state != IB_EP_OPEN ||
	    ep->nheld || ripc__verbs_sendq_space(&ep->sendq) < SPARE || !ib_uc_all_acked(ep))
		return -EAGAIN;
	memcpy(copy, head, head_len);
	if (len)
		memcpy(copy + head_len, payload, len);
	return send_inline(ep, copy, (uint32_t)all);
}

int ripc__ib_post_message(struct ripc__ep *ep, const uint8_t *head, const void *payload, size_t len,
			  bool more)
{
	return post_headed(ep, head, RIPC__POST_HEADER_LEN, payload, len, more);
}

int ripc__ib_post_short(struct ripc__ep *ep, const uint8_t *head, const void *payload, size_t len,
			bool more)
{
	return post_headed(ep, head, RIPC__BRIEF_LEN, payload, len, more);
}

int ripc__ib_send_control(struct ripc__ep *ep, const void *data, size_t len)
{
	struct ripc__verbs_slot *slot;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED};

	if (ripc__verbs_sendq_space(&ep->sendq) < 2)
		return -EAGAIN;
	ripc__ib_flush_held(ep);
	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	slot = ripc__verbs_sendq_alloc(&ep->sendq, true);
	slot->kind = IB_SLOT_SEND;
	slot->bounce = ripc__verbs_pool_get(&ep->d->bounce);
	if (!slot->bounce) {
		ripc__verbs_sendq_unalloc(&ep->sendq, 1);
		return -EAGAIN;
	}
	memcpy(slot->bounce->data, data, len);
	sge = (struct ibv_sge){(uintptr_t)slot->bounce->data, (uint32_t)len, slot->bounce->lkey};
	wr.wr_id = ripc__verbs_send_id(slot);
	return deliver(ep, &wr);
}

static int post_rdma(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local, size_t len,
		     uint64_t raddr, uint32_t rkey, uint64_t wr_id, bool write)
{
	uintptr_t base = (uintptr_t)mr->base, at = (uintptr_t)local;
	struct ripc__verbs_slot *slot;
	struct ibv_sge sge = {.addr = at, .length = (uint32_t)len};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
		.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {raddr, rkey},
	};
	int rc;

	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	if (len > ep->t->limits.rdma_max)
		return -EMSGSIZE;
	if (len && (at < base || at - base > mr->len || len > mr->len - (at - base)))
		return -EINVAL;
	if (ripc__verbs_sendq_space(&ep->sendq) < SPARE || (!write && ep->reads >= ep->read_depth))
		return blocked(ep);
	/* A send that waits for the writes to be acknowledged waits for no more of them. */
	if (write && ib_uc_used(ep) &&
	    (ep->want_sendable || !ripc__uc_space(&ep->uc->tx) ||
	     !ripc__verbs_sendq_space(&ep->uc->sendq)))
		return blocked(ep);
	rc = ripc__verbs_lkey(&ep->d->v, mr, &sge.lkey);
	if (rc)
		return rc;
	/* What was sent before it stays before it. */
	ripc__ib_flush_held(ep);
	if (!ib_ep_can_post(ep))
		return -ENOTCONN;
	if (write && ib_uc_used(ep)) {
		rc = ripc__ib_uc_write(ep, &sge, raddr, rkey, wr_id);
		ep->rdmas += !rc;
		return rc;
	}
	slot = ripc__verbs_sendq_alloc(&ep->sendq, true);
	slot->kind = write ? IB_SLOT_WRITE : IB_SLOT_READ;
	slot->wr_id = wr_id;
	wr.wr_id = ripc__verbs_send_id(slot);
	rc = deliver(ep, &wr);
	if (rc)
		return rc;
	ep->rdmas++;
	ep->reads += !write;
	return 0;
}

int ripc__ib_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	return post_rdma(ep, mr, local, len, raddr, rkey, wr_id, true);
}

int ripc__ib_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
		       uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	return post_rdma(ep, mr, local, len, raddr, rkey, wr_id, false);
}

/*
 * A write of nothing: it touches no memory and needs no receive, but it is acknowledged, or the connection breaks. Nothing
 * else tells of a peer that has died while all was quiet.
 */
static void send_keepalive(struct ripc__ep *ep)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ripc__verbs_slot *slot;

	if (ripc__verbs_sendq_space(&ep->sendq) < 2)
		return;
	ripc__ib_flush_held(ep);
	if (!ib_ep_can_post(ep))
		return;
	slot = ripc__verbs_sendq_alloc(&ep->sendq, true);
	slot->kind = IB_SLOT_SEND;
	wr.wr_id = ripc__verbs_send_id(slot);
	deliver(ep, &wr);
}

void ripc__ib_keep_alive(struct ib *t)
{
	struct ripc__list *n;

	t->keepalive_ns = t->now_ns + IB_KEEPALIVE_NS;
	ripc__list_for_each (n, &t->eps) {
		struct ripc__ep *ep = ripc__list_entry(n, struct ripc__ep, all);

		if (ep->state == IB_EP_OPEN && !ep->alive)
			send_keepalive(ep);
		ep->alive = false;
	}
}
