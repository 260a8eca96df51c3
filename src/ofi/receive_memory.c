/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The memory of receives: spare ones, and ended ones that libripc still holds. */
#include "ofi/endpoint.h"

#include <stdlib.h>
#include <utlist.h>

/* Ended receives whose memory an endpoint keeps for the next ones. */
#define SPARE_RECVS_MAX 1024

struct ofi_recv *ofi_recv_new(struct ofi_ep *ep, const struct iovec *iov, size_t niov,
			      void *context, uint64_t cq_flags, bool notify)
{
	struct ofi_recv *r = ep->spare_recvs;

	if (r) {
		ep->spare_recvs = r->next;
		ep->nspare_recvs--;
	} else {
		r = malloc(sizeof(*r));
		if (!r)
			return NULL;
	}
	/* The rest is set before it is read. */
	r->posted.context = context;
	r->ep = ep;
	r->peer = NULL;
	r->cq_flags = cq_flags;
	r->notify = notify;
	r->discard = r->direct = false;
	r->long_cts = OFI_CTS_NONE;
	r->data = 0;
	r->wire_flags = 0;
	r->len = 0;
	r->niov = 0;
	r->room = 0;
	for (size_t i = 0; i < niov; i++) {
		if (!iov[i].iov_len)
			continue;
		r->iov[r->niov++] = iov[i];
		r->room += iov[i].iov_len;
	}
	return r;
}

void ofi_recv_free(struct ofi_recv *r)
{
	struct ofi_ep *ep = r->ep;

	if (ep->nspare_recvs >= SPARE_RECVS_MAX) {
		free(r);
		return;
	}
	r->next = ep->spare_recvs;
	ep->spare_recvs = r;
	ep->nspare_recvs++;
}

void ofi_recv_free_spare(struct ofi_ep *ep)
{
	struct ofi_recv *r;

	while (ep->spare_recvs) {
		r = ep->spare_recvs;
		ep->spare_recvs = r->next;
		free(r);
	}
	ep->nspare_recvs = 0;
}

void ofi_recv_pin(struct ofi_recv *r)
{
	if (r->long_cts == OFI_CTS_PENDING)
		r->long_cts = OFI_CTS_ABANDONED;
	DL_APPEND(r->ep->pinned, r);
}

/* Frees an ended receive when nothing keeps it. Return: whether it was freed. */
static bool release(struct ofi_recv *r)
{
	if (r->direct) {
		if (ripc_buf_unregister(r->ep->domain->ctx, r->iov[0].iov_base) == -EBUSY)
			return false;
		r->direct = false;
	}
	if (r->long_cts != OFI_CTS_NONE)
		return false;
	ofi_recv_free(r);
	return true;
}

void ofi_recv_release_pinned(struct ofi_ep *ep)
{
	struct ofi_recv *r, *tmp;

	DL_FOREACH_SAFE (ep->pinned, r, tmp) {
		DL_DELETE(ep->pinned, r);
		if (!release(r))
			DL_PREPEND(ep->pinned, r);
	}
}
