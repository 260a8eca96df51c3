/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Grants: the CTS of a receive, and its return buffer.
 *
 * Contents of one piece at both ends and of direct_size bytes or more are placed by libripc, in a
 * return buffer that the CTS offers. All other contents are copied from a buffer of libripc:
 * - EAGER, at most eager_size bytes: to copy them takes less time than to register their memory;
 * - of several pieces at one end: each item fills one return buffer, so the pieces of the sender
 *   would have to end where those of the receiver do, and neither RTS nor CTS carries lengths;
 * - of one of several endpoints of a context: see may_be_direct().
 */
#include "ofi/peer.h"
#include "ofi/provider.h"
#include "ofi/receive_memory.h"

#include <utlist.h>

bool ofi_recv_withdraw(struct ofi_recv *r)
{
	if (r->direct && ripc_buf_unregister(r->ep->domain->ctx, r->iov[0].iov_base) == -EBUSY)
		return false;
	r->direct = false;
	return true;
}

static void cts_done(struct ofi_request *request, int status)
{
	struct ofi_recv *r = container_of(request, struct ofi_recv, request);
	bool abandoned = r->long_cts == OFI_CTS_ABANDONED;

	r->long_cts = OFI_CTS_NONE;
	if (abandoned)
		ofi_recv_free(r);
	else if (status && !r->ended && !r->ep->closing)
		ofi_peer_lose(r->peer, -status, "a request for contents was not delivered");
}

/* Posts a CTS that asks for contents. Return: as ripc_send_async(). */
static int post_cts(struct ofi_recv *r, const struct ofi_envelope *e)
{
	struct iovec item = {r->cts, ofi_envelope_put(r->cts, e)};
	struct iovec buffer = {r->iov[0].iov_base, r->granted};
	int rc;

	r->request.done = cts_done;
	r->request.count = &r->ep->requests;
	rc = ofi_request_start(r->ep->domain, &r->request, r->ep->data, r->peer->service, &item, 1,
			       r->direct ? &buffer : NULL);
	if (!rc)
		r->long_cts = OFI_CTS_PENDING;
	return rc;
}

/*
 * Contents from one context take the first return buffer that is long enough, whatever their
 * service. Those of one peer arrive in the order of its CTS, so none of them arrives while its own
 * return buffer is unused: contents without one may have used it. Two peers of one context have no
 * common order; then none of them gets return buffers.
 */
static bool may_be_direct(const struct ofi_recv *r)
{
	return r->granted >= ofi_settings.direct_min && r->niov == 1 &&
	       !(r->wire_flags & OFI_F_PIECES) && !r->peer->first->shared;
}

int ofi_recv_grant(struct ofi_recv *r)
{
	struct ofi_peer *p = r->peer;
	struct ofi_ep *ep = r->ep;
	struct ofi_envelope e = {
		.kind = OFI_CTS,
		.flags = OFI_F_CREDIT | OFI_F_TAGGED | OFI_F_LEN | OFI_F_ID,
		.tag = ep->main_id,
		.len = r->granted,
		.id = r->send_id,
		.matched_messages = p->matched_messages,
		.matched_bytes = p->matched_bytes,
	};
	int rc;

	if (!r->granted) {
		rc = ofi_peer_post(p, &e, NULL, 0, 0, false);
		if (rc)
			return rc;
		DL_DELETE(p->to_grant, r);
		ofi_recv_end(r, 0);
		return 0;
	}
	if (!ofi_peer_may_grant(p))
		return -EAGAIN;
	e.mark = r->mark = (uint8_t)__builtin_ctz(~p->marks);
	r->direct = may_be_direct(r) &&
		    !ripc_buf_register(ep->domain->ctx, r->iov[0].iov_base, r->granted);
	rc = post_cts(r, &e);
	if (rc) {
		ofi_recv_withdraw(r);
		return rc == -ENOMEM ? -EAGAIN : rc;
	}
	DL_DELETE(p->to_grant, r);
	DL_APPEND(p->granted, r);
	p->marks |= 1u << r->mark;
	ep->granted++;
	ofi_peer_watch(p);
	return 0;
}

void ofi_recv_refuse(struct ofi_recv *r)
{
	struct ofi_peer *p = r->peer;

	if (r->long_cts != OFI_CTS_PENDING)
		return;
	r->long_cts = OFI_CTS_NONE;
	if (ofi_request_cancel(r->ep->domain, &r->request))
		ofi_abort_post(p, p->service, r->send_id);
}

void ofi_recv_ungrant(struct ofi_recv *r)
{
	struct ofi_peer *p = r->peer;

	DL_DELETE(p->granted, r);
	p->marks &= ~(1u << r->mark);
	r->ep->granted--;
	if (p->to_grant)
		ofi_peer_activate(p);
}
