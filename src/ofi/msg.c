/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The calls of fi_msg(3) and fi_tagged(3). post_now() is the fast path of most sends; send.c has
 * the others. receive.c has what receives do when they are posted.
 */
#include "ofi/peer.h"
#include "ofi/provider.h"
#include "ofi/receive_memory.h"

#include <rdma/fi_tagged.h>

#define RECV_FLAGS (FI_COMPLETION | FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MORE)
/* post_now() takes messages with these flags, which change nothing there. */
#define POST_NOW_FLAGS \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_REMOTE_CQ_DATA)

static struct ofi_ep *ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct ofi_ep, fid);
}

/*
 * Posts a message of one piece, in one item, that need not wait. Return: 0: it was posted and is
 * complete; else it was not.
 */
static inline __attribute__((always_inline)) int post_now(struct ofi_ep *ep, const void *buf,
							  size_t len, const struct ofi_call *c)
{
	uint8_t bytes[OFI_ENVELOPE_MAX + OFI_ONE_ITEM_MAX];
	struct ofi_envelope e = {.kind = OFI_EAGER, .flags = ofi_call_wire_flags(c)};
	struct iovec item = {.iov_base = bytes};
	struct ofi_peer *p;
	uint64_t service;
	int rc;

	if (!(ep->enabled & FI_SEND) || c->flags & ~POST_NOW_FLAGS || len > OFI_ONE_ITEM_MAX)
		return -EAGAIN;
	service = ofi_av_service(ep->av, c->dest);
	p = service ? ofi_peer_get(ep, service) : NULL;
	if (!p || p->queue || p->lost || len > p->part_max || !ofi_peer_may_send(p) ||
	    !ofi_peer_may_send_eager(p, len) || ofi_peer_credit_due(p, 16) ||
	    (c->notify && ofi_cq_reserve(ep->tx_cq)))
		return -EAGAIN;
	e.tag = c->tag;
	e.data = c->data;
	item.iov_len = ofi_envelope_put(bytes, &e);
	if (len)
		memcpy(bytes + item.iov_len, buf, len);
	item.iov_len += len;
	rc = ofi_peer_post_items(p, &item, 1, false);
	if (rc) {
		if (c->notify)
			ofi_cq_unreserve(ep->tx_cq);
		/* libripc reports the error of an earlier message once. */
		if (rc != -EAGAIN && rc != -EMSGSIZE)
			ofi_peer_lose(p, -rc, ripc_error_detail());
		return rc;
	}
	p->sent_messages++;
	p->sent_bytes += (uint32_t)len;
	if (c->notify)
		ofi_send_completed(ep, c->context, FI_SEND | c->kind, c->tag, 0);
	ofi_cntr_count(ep->tx_cntr, 0);
	return 0;
}

static inline __attribute__((always_inline)) ssize_t send_one(struct fid_ep *fid, const void *buf,
							      size_t len, const struct ofi_call *c)
{
	struct ofi_ep *ep = ep_of(fid);
	ssize_t rc = 0;

	ofi_lock(ep->domain);
	if (post_now(ep, buf, len, c)) {
		/* Only here they are in memory. */
		const struct iovec iov = {(void *)buf, len};
		const struct ofi_call call = *c;

		rc = ofi_send_start(ep, &iov, 1, &call);
	}
	ofi_unlock(ep->domain);
	return rc;
}

/* The flags of a call without flags: those of the endpoint. */
static inline uint64_t default_flags(struct fid_ep *fid, uint64_t extra)
{
	return (ep_of(fid)->tx_op_flags & ~FI_REMOTE_CQ_DATA) | extra;
}

static inline bool notifies(struct fid_ep *fid, uint64_t flags)
{
	return !(ep_of(fid)->selective & FI_SEND) || flags & FI_COMPLETION;
}

static inline __attribute__((always_inline)) ssize_t send_default(struct fid_ep *fid,
								  const void *buf, size_t len,
								  fi_addr_t dest, uint64_t tag,
								  uint64_t data, void *context,
								  uint64_t kind, uint64_t extra)
{
	uint64_t flags = default_flags(fid, extra);
	const struct ofi_call c = {dest, tag, data, context, kind, flags, notifies(fid, flags)};

	return send_one(fid, buf, len, &c);
}

static ssize_t send_flags(struct fid_ep *fid, const struct iovec *iov, size_t niov, fi_addr_t dest,
			  uint64_t tag, uint64_t data, void *context, uint64_t kind, uint64_t flags)
{
	const struct ofi_call c = {dest, tag, data, context, kind, flags, notifies(fid, flags)};
	struct ofi_ep *ep = ep_of(fid);
	ssize_t rc;

	ofi_lock(ep->domain);
	rc = ofi_send_start(ep, iov, niov, &c);
	ofi_unlock(ep->domain);
	return rc;
}

static inline __attribute__((always_inline)) ssize_t inject_any(struct fid_ep *fid, const void *buf,
								size_t len, fi_addr_t dest,
								uint64_t tag, uint64_t data,
								uint64_t kind, uint64_t extra)
{
	const struct ofi_call c = {dest, tag, data, fid->fid.context, kind, FI_INJECT | extra,
				   false};

	return send_one(fid, buf, len, &c);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
			void *context)
{
	return send_default(fid, buf, len, dest, 0, 0, context, FI_MSG, 0);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, void *context)
{
	return send_flags(fid, iov, count, dest, 0, 0, context, FI_MSG, default_flags(fid, 0));
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *m, uint64_t flags)
{
	return send_flags(fid, m->msg_iov, m->iov_count, m->addr, 0, m->data, m->context, FI_MSG,
			  flags);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	return inject_any(fid, buf, len, dest, 0, 0, FI_MSG, 0);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, void *context)
{
	return send_default(fid, buf, len, dest, 0, data, context, FI_MSG, FI_REMOTE_CQ_DATA);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest)
{
	return inject_any(fid, buf, len, dest, 0, data, FI_MSG, FI_REMOTE_CQ_DATA);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			   fi_addr_t dest, uint64_t tag, void *context)
{
	return send_default(fid, buf, len, dest, tag, 0, context, FI_TAGGED, 0);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t dest, uint64_t tag, void *context)
{
	return send_flags(fid, iov, count, dest, tag, 0, context, FI_TAGGED, default_flags(fid, 0));
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags)
{
	return send_flags(fid, m->msg_iov, m->iov_count, m->addr, m->tag, m->data, m->context,
			  FI_TAGGED, flags);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			     uint64_t tag)
{
	return inject_any(fid, buf, len, dest, tag, 0, FI_TAGGED, 0);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
	return send_default(fid, buf, len, dest, tag, data, context, FI_TAGGED, FI_REMOTE_CQ_DATA);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
				 fi_addr_t dest, uint64_t tag)
{
	return inject_any(fid, buf, len, dest, tag, data, FI_TAGGED, FI_REMOTE_CQ_DATA);
}

/* ---- receives ---- */

static inline __attribute__((always_inline)) ssize_t post_receive(
	struct ofi_ep *ep, const struct iovec *iov, size_t niov, fi_addr_t source, uint64_t tag,
	uint64_t ignore, void *context, uint64_t kind, uint64_t flags)
{
	struct ofi_arrived *a;
	struct ofi_recv *r;
	uint64_t service = 0;
	int rc;

	if (flags & ~RECV_FLAGS)
		return ofi_refused("a receive with these flags");
	if (!(ep->enabled & FI_RECV))
		return ep->enabled ? -FI_EOPNOTSUPP : -FI_EOPBADSTATE;
	if (niov > OFI_IOV_MAX)
		return -FI_EINVAL;
	if (ep->caps & FI_DIRECTED_RECV && source != FI_ADDR_UNSPEC) {
		service = ofi_av_service(ep->av, source);
		if (!service)
			return -FI_EINVAL;
	}
	rc = ofi_cq_reserve(ep->rx_cq);
	if (rc)
		return rc;
	r = ofi_recv_new(ep, iov, niov, context, FI_RECV | kind,
			 !(ep->selective & FI_RECV) || flags & FI_COMPLETION);
	if (!r) {
		ofi_cq_unreserve(ep->rx_cq);
		return -FI_ENOMEM;
	}
	r->posted.source = service;
	r->posted.tag = tag;
	r->posted.ignore = ignore;
	if (flags & FI_PEEK) {
		ofi_recv_peek(r, flags);
		return 0;
	}
	if (flags & FI_CLAIM)
		return ofi_recv_claimed(r, flags);
	a = ofi_matching_post(ofi_recv_space(ep, kind), &r->posted);
	if (a)
		ofi_recv_take(r, a);
	return 0;
}

/* Inlined, the call of one piece has no loop over pieces. */
static inline __attribute__((always_inline)) ssize_t recv_any(struct fid_ep *fid,
							      const struct iovec *iov, size_t niov,
							      fi_addr_t source, uint64_t tag,
							      uint64_t ignore, void *context,
							      uint64_t kind, uint64_t flags)
{
	struct ofi_ep *ep = ep_of(fid);
	ssize_t rc;

	ofi_lock(ep->domain);
	rc = post_receive(ep, iov, niov, source, tag, ignore, context, kind, flags);
	ofi_unlock(ep->domain);
	return rc;
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source,
			void *context)
{
	struct iovec iov = {buf, len};

	return recv_any(fid, &iov, 1, source, 0, 0, context, FI_MSG, ep_of(fid)->rx_op_flags);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t source, void *context)
{
	return recv_any(fid, iov, count, source, 0, 0, context, FI_MSG, ep_of(fid)->rx_op_flags);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *m, uint64_t flags)
{
	return recv_any(fid, m->msg_iov, m->iov_count, m->addr, 0, 0, m->context, FI_MSG, flags);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t source,
			   uint64_t tag, uint64_t ignore, void *context)
{
	struct iovec iov = {buf, len};

	return recv_any(fid, &iov, 1, source, tag, ignore, context, FI_TAGGED,
			ep_of(fid)->rx_op_flags);
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t source, uint64_t tag, uint64_t ignore, void *context)
{
	return recv_any(fid, iov, count, source, tag, ignore, context, FI_TAGGED,
			ep_of(fid)->rx_op_flags);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags)
{
	return recv_any(fid, m->msg_iov, m->iov_count, m->addr, m->tag, m->ignore, m->context,
			FI_TAGGED, flags);
}

struct fi_ops_msg ofi_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

struct fi_ops_tagged ofi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
