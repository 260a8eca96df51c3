/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/endpoint.h"
#include "ofi/address.h"
#include "ofi/peer.h"
#include "ofi/provider.h"

#include <poll.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <utlist.h>

/* Messages that one call takes before it looks at its completions. */
#define MESSAGES_PER_CALL 64
/* fi_close(): time to post sends that are complete for the application. */
#define LINGER_MS 1000

static struct ofi_ep *ep_of(struct fid *fid)
{
	return container_of(fid, struct ofi_ep, fid.fid);
}

/*
 * A single message is reported at once: an attempt to receive another one, in vain, would take
 * longer than the message. When messages come in consecutive calls, a call takes many. Before a
 * thread sleeps on a wait object, no message may be left.
 */
void ofi_ep_progress(struct ofi_ep *ep)
{
	unsigned n = 0, max = ep->arriving || ep->domain->drain ? MESSAGES_PER_CALL : 1;
	struct ripc_message *m;
	struct ofi_recv *r;
	struct ofi_peer *p, *tmp;

	while (n < max && !ripc_receive(ep->main, &m, 0)) {
		ofi_receive_main(ep, m);
		ripc_message_free(m);
		n++;
	}
	ep->arriving = n;
	/* Contents without a receive would keep a thread from sleeping. */
	while ((ep->granted || ep->withdrawn || (ep->domain->drain && !n)) &&
	       !ripc_receive(ep->data, &m, 0)) {
		r = ofi_receive_data(ep, m);
		ripc_message_free(m);
		if (r)
			ofi_recv_end(r, 0);
	}
	if (ep->withdrawn)
		ofi_recv_complete_withdrawn(ep);
	if (ep->domain->requests || ep->domain->drain)
		ofi_requests_reap(ep->domain);
	DL_FOREACH_SAFE (ep->active, p, tmp)
		ofi_peer_push(p);
}

/* ---- closing ---- */

/* Posts sends that the application has in the past: injected ones. */
static bool has_injected(const struct ofi_ep *ep)
{
	const struct ofi_peer *p;
	const struct ofi_send *s;

	DL_FOREACH (ep->active, p)
		DL_FOREACH (p->queue, s)
			if (s->copy || !s->len)
				return true;
	for (s = ep->sends; s; s = s->hh.next)
		if (s->copy)
			return true;
	return false;
}

static void unbind(struct ofi_ep *ep)
{
	if (ep->tx_cq)
		ofi_sources_unbind(&ep->tx_cq->sources, ep);
	if (ep->rx_cq)
		ofi_sources_unbind(&ep->rx_cq->sources, ep);
	if (ep->tx_cntr)
		ofi_sources_unbind(&ep->tx_cntr->sources, ep);
	if (ep->rx_cntr)
		ofi_sources_unbind(&ep->rx_cntr->sources, ep);
	ep->tx_cntr = ep->rx_cntr = NULL;
	if (ep->av)
		ep->av->refs--;
}

/* Other threads use the domain meanwhile. Lock held. */
static void pause_unlocked(struct ofi_domain *d)
{
	ofi_unlock(d);
	poll(NULL, 0, 1);
	ofi_lock(d);
}

static int ep_close(struct fid *fid)
{
	struct ofi_ep *ep = ep_of(fid);
	struct ofi_domain *d = ep->domain;
	struct ofi_peer *p, *tmp;
	int64_t deadline_ms = ofi_deadline_ms(LINGER_MS);
	bool in_child;

	ofi_lock(d);
	while (ep->enabled && has_injected(ep) && ofi_deadline_ms(0) < deadline_ms) {
		ofi_ep_progress(ep);
		pause_unlocked(d);
	}
	ep->closing = true;
	unbind(ep);
	HASH_ITER (hh, ep->peers, p, tmp)
		ofi_peer_end(p, 0);
	/*
	 * Both return when no peer can read or write memory of the service, and its requests are
	 * done. So the application has its memory back.
	 */
	ripc_service_unregister(ep->main);
	ripc_service_unregister(ep->data);
	ofi_requests_reap(d);
	ofi_recv_free_all(ep);
	ofi_peers_free(ep);
	d->refs--;
	/* In a child of fork(), where the context cannot be used, they are never done. */
	in_child = ep->requests;
	ofi_unlock(d);
	if (!in_child)
		free(ep);
	return 0;
}

/* ---- set-up ---- */

static int bind_av(struct ofi_ep *ep, struct ofi_av *av)
{
	if (ep->av)
		return -FI_EINVAL;
	if (av->domain != ep->domain)
		return -FI_EDOMAIN;
	ep->av = av;
	av->refs++;
	return 0;
}

static int bind_cq(struct ofi_ep *ep, struct ofi_cq *cq, uint64_t flags)
{
	int rc;

	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) ||
	    !(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EBADFLAGS;
	if ((flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	rc = ofi_sources_add(&cq->sources, ep);
	if (rc)
		return rc;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->selective |= flags & FI_SELECTIVE_COMPLETION ? FI_SEND : 0;
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->selective |= flags & FI_SELECTIVE_COMPLETION ? FI_RECV : 0;
	}
	return 0;
}

static int bind_cntr(struct ofi_ep *ep, struct ofi_cntr *cntr, uint64_t flags)
{
	int rc;

	if (flags & ~(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_EBADFLAGS;
	if ((flags & FI_SEND && ep->tx_cntr) || (flags & FI_RECV && ep->rx_cntr))
		return -FI_EINVAL;
	/* Nothing is counted of RMA. */
	if (!(flags & (FI_SEND | FI_RECV)))
		return 0;
	rc = ofi_sources_add(&cntr->sources, ep);
	if (rc)
		return rc;
	if (flags & FI_SEND)
		ep->tx_cntr = cntr;
	if (flags & FI_RECV)
		ep->rx_cntr = cntr;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct ofi_ep *ep = ep_of(fid);
	int rc = 0;

	ofi_lock(ep->domain);
	switch (bfid->fclass) {
	case FI_CLASS_AV:
		rc = bind_av(ep, container_of(bfid, struct ofi_av, fid.fid));
		break;
	case FI_CLASS_CQ:
		rc = bind_cq(ep, container_of(bfid, struct ofi_cq, sources.fid), flags);
		break;
	case FI_CLASS_CNTR:
		rc = bind_cntr(ep, container_of(bfid, struct ofi_cntr, sources.fid), flags);
		break;
	case FI_CLASS_EQ:
		break;
	default:
		rc = ofi_refused("fi_ep_bind of this object");
	}
	ofi_unlock(ep->domain);
	return rc;
}

static int enable(struct ofi_ep *ep)
{
	const uint64_t both = FI_SEND | FI_RECV;
	/* Without a direction it has both. */
	uint64_t directions = ep->caps & both ? ep->caps & both : both;

	if (!ep->av)
		return -FI_ENOAV;
	if ((directions & FI_SEND && !ep->tx_cq) || (directions & FI_RECV && !ep->rx_cq))
		return -FI_ENOCQ;
	ep->enabled = directions;
	return 0;
}

/* FI_GETOPSFLAG: flags names the direction, and becomes the op_flags. */
static int get_op_flags(const struct ofi_ep *ep, uint64_t *flags)
{
	if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
		return -FI_EINVAL;
	*flags = *flags & FI_TRANSMIT ? ep->tx_op_flags : ep->rx_op_flags;
	return 0;
}

/* FI_SETOPSFLAG: flags names the directions, and has the op_flags for them. */
static int set_op_flags(struct ofi_ep *ep, uint64_t flags)
{
	uint64_t directions = flags & (FI_TRANSMIT | FI_RECV);

	flags &= ~(FI_TRANSMIT | FI_RECV);
	if (!directions)
		return -FI_EINVAL;
	if ((directions & FI_TRANSMIT && flags & ~OFI_TX_OP_FLAGS) ||
	    (directions & FI_RECV && flags & ~OFI_RX_OP_FLAGS))
		return -FI_EBADFLAGS;
	if (directions & FI_TRANSMIT)
		ep->tx_op_flags = flags;
	if (directions & FI_RECV)
		ep->rx_op_flags = flags;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct ofi_ep *ep = ep_of(fid);
	int rc;

	ofi_lock(ep->domain);
	switch (command) {
	case FI_ENABLE:
		rc = enable(ep);
		break;
	case FI_GETOPSFLAG:
		rc = get_op_flags(ep, arg);
		break;
	case FI_SETOPSFLAG:
		rc = set_op_flags(ep, *(const uint64_t *)arg);
		break;
	default:
		rc = ofi_refused("fi_control of an endpoint");
	}
	ofi_unlock(ep->domain);
	return rc;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct ofi_ep *ep = ep_of(fid);
	bool found;

	ofi_lock(ep->domain);
	found = ofi_recv_cancel(ep, context) || ofi_send_cancel(ep, context);
	ofi_unlock(ep->domain);
	return found ? 0 : -FI_ENOENT;
}

static int ep_getname(fid_t fid, void *address, size_t *len)
{
	const struct ofi_ep *ep = ep_of(fid);
	uint8_t bytes[OFI_ADDRESS_LEN];
	size_t room = *len;

	ofi_address_put(bytes, ep->main_id);
	*len = OFI_ADDRESS_LEN;
	if (address)
		memcpy(address, bytes, MIN(room, OFI_ADDRESS_LEN));
	return room < OFI_ADDRESS_LEN ? -FI_ETOOSMALL : 0;
}

/*
 * Calls that are not served. There are none for scalable and passive endpoints, which cannot be
 * opened, and no tables of atomics and collectives: fi_getinfo() offers neither, and no key and no
 * collective group can be made that these calls need.
 */
OFI_REFUSED(int, ep_setname, "fi_setname", fid_t fid, void *address, size_t len)

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	return -FI_ENOPROTOOPT;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	return -FI_ENOPROTOOPT;
}

OFI_REFUSED(int, ep_getpeer, "fi_getpeer", struct fid_ep *ep, void *address, size_t *len)
OFI_REFUSED(int, ep_connect, "fi_connect", struct fid_ep *ep, const void *address,
	    const void *param, size_t len)
OFI_REFUSED(int, ep_accept, "fi_accept", struct fid_ep *ep, const void *param, size_t len)
OFI_REFUSED(int, ep_shutdown, "fi_shutdown", struct fid_ep *ep, uint64_t flags)

static ssize_t ep_size_left(struct fid_ep *ep)
{
	return OFI_QUEUE_SIZE;
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = ofi_no_ops_open,
};

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.rx_size_left = ep_size_left,
	.tx_size_left = ep_size_left,
};

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = ep_setname,
	.getname = ep_getname,
	.getpeer = ep_getpeer,
	.connect = ep_connect,
	.accept = ep_accept,
	.shutdown = ep_shutdown,
};

/* Calls with the same parameters share a function. */
OFI_REFUSED(ssize_t, rma_read, "fi_ops_rma.read", struct fid_ep *ep, void *buf, size_t len,
	    void *desc, fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
OFI_REFUSED(ssize_t, rma_vector, "fi_ops_rma.readv, writev", struct fid_ep *ep,
	    const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr, uint64_t addr,
	    uint64_t key, void *context)
OFI_REFUSED(ssize_t, rma_msg, "fi_ops_rma.readmsg, writemsg", struct fid_ep *ep,
	    const struct fi_msg_rma *msg, uint64_t flags)
OFI_REFUSED(ssize_t, rma_write, "fi_ops_rma.write", struct fid_ep *ep, const void *buf, size_t len,
	    void *desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
OFI_REFUSED(ssize_t, rma_inject, "fi_ops_rma.inject", struct fid_ep *ep, const void *buf,
	    size_t len, fi_addr_t dest_addr, uint64_t addr, uint64_t key)
OFI_REFUSED(ssize_t, rma_writedata, "fi_ops_rma.writedata", struct fid_ep *ep, const void *buf,
	    size_t len, void *desc, uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
	    void *context)
OFI_REFUSED(ssize_t, rma_injectdata, "fi_ops_rma.injectdata", struct fid_ep *ep, const void *buf,
	    size_t len, uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key)

static struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_vector,
	.readmsg = rma_msg,
	.write = rma_write,
	.writev = rma_vector,
	.writemsg = rma_msg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};

/* The service of the source address in info; without one, its id is drawn. */
static int register_main(struct ofi_ep *ep, struct ofi_domain *d, const struct fi_info *info)
{
	uint64_t id = 0;
	int rc;

	if (info->src_addr &&
	    (info->src_addrlen != OFI_ADDRESS_LEN || !ofi_address_get(info->src_addr, &id)))
		return -FI_EINVAL;
	if (id >= RIPC_ID_LIMIT) {
		FI_WARN(&ofi_provider, FI_LOG_EP_CTRL,
			"src_addr: an address that an endpoint drew cannot be used again\n");
		return -FI_EADDRNOTAVAIL;
	}
	rc = ripc_service_register(d->ctx, id ? id : RIPC_ANY_ID, 0, &ep->main);
	if (rc == -EADDRINUSE && ofi_address_is_preferred(info->src_addr)) {
		FI_WARN(&ofi_provider, FI_LOG_EP_CTRL, "the endpoint draws its address: %s\n",
			ripc_error_detail());
		rc = ripc_service_register(d->ctx, RIPC_ANY_ID, 0, &ep->main);
	}
	return rc;
}

int ofi_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
		      void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, fid);
	struct ofi_ep *ep = calloc(1, sizeof(*ep));
	int rc;

	if (!ep)
		return -FI_ENOMEM;
	rc = register_main(ep, d, info);
	if (!rc) {
		rc = ripc_service_register(d->ctx, RIPC_ANY_ID, 0, &ep->data);
		if (rc)
			ripc_service_unregister(ep->main);
	}
	if (rc) {
		FI_WARN(&ofi_provider, FI_LOG_EP_CTRL, "cannot open an endpoint: %s\n",
			ripc_error_detail());
		free(ep);
		return rc;
	}
	ep->domain = d;
	ep->main_id = ripc_service_id(ep->main);
	/* A number that no earlier endpoint with this address gave to its messages. */
	ep->next_id = ripc_service_id(ep->data);
	ep->caps = info->caps;
	ep->tx_op_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_op_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fi_ops};
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.msg = &ofi_msg_ops;
	ep->fid.tagged = &ofi_tagged_ops;
	ep->fid.rma = &rma_ops;
	ofi_domain_get(d);
	*fid = &ep->fid;
	return 0;
}
