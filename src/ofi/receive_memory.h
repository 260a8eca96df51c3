/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The memory of receives: an endpoint keeps that of ended ones for the next ones. Lock held. */
#ifndef OFI_RECEIVE_MEMORY_H
#define OFI_RECEIVE_MEMORY_H

#include "ofi/endpoint.h"

#include <stdlib.h>

/* Ended receives whose memory an endpoint keeps for the next ones. */
#define SPARE_RECVS_MAX 1024

/* A receive with these buffers, in no list, to be matched or freed. NULL: out of memory. */
static inline struct ofi_recv *ofi_recv_new(struct ofi_ep *ep, const struct iovec *iov, size_t niov,
					    void *context, uint64_t cq_flags, bool notify)
{
	struct ofi_recv *r = ep->spare_recvs;
	size_t room = 0;
	unsigned n = 0;

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
	r->discard = r->ended = r->direct = false;
	r->long_cts = OFI_CTS_NONE;
	r->data = 0;
	r->wire_flags = 0;
	r->len = 0;
	for (size_t i = 0; i < niov; i++) {
		if (!iov[i].iov_len)
			continue;
		r->iov[n++] = iov[i];
		room += iov[i].iov_len;
	}
	r->niov = n;
	r->room = room;
	return r;
}

static inline void ofi_recv_free(struct ofi_recv *r)
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

static inline void ofi_recv_free_spare(struct ofi_ep *ep)
{
	struct ofi_recv *r;

	while (ep->spare_recvs) {
		r = ep->spare_recvs;
		ep->spare_recvs = r->next;
		free(r);
	}
	ep->nspare_recvs = 0;
}

#endif
