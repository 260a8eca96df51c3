/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A send: its start, EAGER, RTS and the contents. */
#include "ofi/peer.h"
#include "ofi/provider.h"

#include <inttypes.h>
#include <stdlib.h>
#include <utlist.h>

#define SEND_FLAGS (OFI_TX_OP_FLAGS | FI_PRIORITY)
/* Inject calls get -FI_EAGAIN while so many sends wait: their contents are in memory of ours. */
#define INJECTED_MAX 1024

void ofi_send_end(struct ofi_send *s, int error)
{
	if (s->notify || error)
		ofi_send_completed(s->ep, s->context, s->cq_flags, s->tag, error);
	else
		ofi_cq_unreserve(s->ep->tx_cq);
	ofi_cntr_count(s->ep->tx_cntr, error);
	free(s->copy);
	free(s);
}

/* ---- posting ---- */

unsigned ofi_slice(const struct iovec *iov, unsigned niov, size_t at, size_t len,
		   struct iovec to[OFI_IOV_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; len && i < niov; i++) {
		size_t piece = iov[i].iov_len;

		if (at >= piece) {
			at -= piece;
			continue;
		}
		piece -= at;
		if (piece > len)
			piece = len;
		to[n++] = (struct iovec){(char *)iov[i].iov_base + at, piece};
		len -= piece;
		at = 0;
	}
	return n;
}

/*
 * Posts what is left of an EAGER message, the last parts as PART. Return: 0; -EAGAIN, -EMSGSIZE:
 * again, the limits may be lower; other: the peer is lost.
 */
static int post_eager(struct ofi_send *s)
{
	struct ofi_peer *p = s->peer;
	struct iovec iov[OFI_IOV_MAX];
	int rc;

	do {
		size_t left = s->len - s->posted, len = left < p->part_max ? left : p->part_max;
		struct ofi_envelope e = {.kind = OFI_PART};
		unsigned n = ofi_slice(s->iov, s->niov, s->posted, len, iov);

		if (!s->posted)
			e = (struct ofi_envelope){
				.kind = OFI_EAGER,
				.flags = s->wire_flags | (len < s->len ? OFI_F_LEN : 0),
				.tag = s->tag,
				.data = s->data,
				.len = s->len,
			};
		rc = ofi_peer_post(p, s->ep->main, &e, iov, n, len, s->more && len == s->len);
		if (rc == -EMSGSIZE && ofi_peer_lower_eager(p, len) && s->posted)
			rc = 0;
		else if (!rc) {
			if (!s->posted) {
				p->sent_messages++;
				p->sent_bytes += (uint32_t)s->len;
			}
			s->posted += len;
		}
	} while (!rc && s->posted < s->len);
	return rc;
}

static int post_rts(struct ofi_send *s)
{
	struct ofi_peer *p = s->peer;
	struct ofi_envelope e = {
		.kind = OFI_RTS,
		.flags = s->wire_flags | OFI_F_LEN | OFI_F_ID | (s->niov > 1 ? OFI_F_PIECES : 0),
		.tag = s->tag,
		.data = s->data,
		.len = s->len,
		.id = s->id,
	};
	int rc = ofi_peer_post(p, s->ep->main, &e, NULL, 0, 0, s->more);

	if (!rc) {
		p->sent_messages++;
		ofi_peer_watch(p);
	}
	return rc;
}

int ofi_send_post(struct ofi_send *s)
{
	struct ofi_ep *ep = s->ep;
	struct ofi_peer *p = s->peer;
	int rc;

	if (!s->posted && !ofi_peer_may_send(p)) {
		ofi_peer_watch(p);
		return -EAGAIN;
	}
	if (s->posted || (!s->matched && ofi_peer_may_send_eager(p, s->len))) {
		size_t part_max = p->part_max;

		rc = post_eager(s);
		if (rc == -EMSGSIZE && p->part_max < part_max)
			return ofi_send_post(s);
		if (rc)
			return rc;
		DL_DELETE(p->queue, s);
		ofi_send_end(s, 0);
		return 0;
	}
	s->id = ++ep->next_id;
	HASH_ADD(hh, ep->sends, id, sizeof(s->id), s);
	if (!s->hh.tbl)
		return -EAGAIN;
	rc = post_rts(s);
	if (rc) {
		HASH_DEL(ep->sends, s);
		return rc;
	}
	DL_DELETE(p->queue, s);
	return 0;
}

/* ---- contents ---- */

static void contents_done(struct ofi_request *request, int status)
{
	struct ofi_send *s = container_of(request, struct ofi_send, request);
	struct ofi_peer *p = s->peer;
	struct ofi_envelope e = {.kind = OFI_ABORT, .flags = OFI_F_ID, .id = s->id};

	if (s->ep->closing) {
		s->notify = false;
		status = 0;
	}
	if (status && s->life == p->life) {
		FI_WARN(&ofi_provider, FI_LOG_EP_DATA,
			"%zu bytes were not delivered to peer %" PRIu64 ": %s\n", s->len,
			p->service, ripc_strerror(status));
		if (status == -EPIPE || status == -EHOSTUNREACH)
			ofi_peer_lose(p, -status, ripc_strerror(status));
		if (p->lost) {
			DL_APPEND(p->queue, s);
			ofi_peer_push(p);
			return;
		}
		ofi_peer_post(p, s->ep->main, &e, NULL, 0, 0, false);
	}
	ofi_send_end(s, -status);
}

void ofi_send_cts(struct ofi_ep *ep, uint64_t data_service, const struct ofi_envelope *e)
{
	struct iovec iov[OFI_IOV_MAX];
	struct ofi_send *s;
	unsigned n;
	int rc;

	HASH_FIND(hh, ep->sends, &e->id, sizeof(e->id), s);
	if (!s || s->peer->service != e->tag || e->len > s->len) {
		FI_WARN(&ofi_provider, FI_LOG_EP_DATA,
			"service %" PRIu64 " asks for a message that was not offered to it\n",
			data_service);
		return;
	}
	HASH_DEL(ep->sends, s);
	if (!e->len) {
		ofi_send_end(s, 0);
		return;
	}
	n = ofi_slice(s->iov, s->niov, 0, e->len, iov);
	s->life = s->peer->life;
	s->request.done = contents_done;
	s->request.count = &ep->requests;
	rc = ofi_request_start(ep->domain, &s->request, ep->main, data_service, iov, n, NULL);
	if (rc)
		contents_done(&s->request, rc);
}

/* ---- the start ---- */

/* Fills s from the arguments of a call. Empty pieces are left out. */
static inline ssize_t prepare(struct ofi_send *s, struct ofi_ep *ep, const struct iovec *iov,
			      size_t niov, fi_addr_t dest, uint64_t flags)
{
	uint64_t service;

	if (flags & ~SEND_FLAGS)
		return ofi_refused("a send with these flags");
	if (!(ep->enabled & FI_SEND))
		return ep->enabled ? -FI_EOPNOTSUPP : -FI_EOPBADSTATE;
	if (niov > OFI_IOV_MAX)
		return -FI_EINVAL;
	service = ofi_av_service(ep->av, dest);
	if (!service)
		return -FI_EINVAL;
	s->len = 0;
	s->niov = 0;
	for (size_t i = 0; i < niov; i++) {
		if (!iov[i].iov_len)
			continue;
		if (iov[i].iov_len > OFI_MESSAGE_MAX - s->len)
			return -FI_EMSGSIZE;
		s->iov[s->niov++] = iov[i];
		s->len += iov[i].iov_len;
	}
	if (flags & FI_INJECT && s->len > OFI_INJECT_MAX)
		return -FI_EMSGSIZE;
	s->peer = ofi_peer_get(ep, service);
	return s->peer ? 0 : -FI_ENOMEM;
}

/* Appends a copy of the send to the queue of its peer. */
static ssize_t enqueue(const struct ofi_send *from, bool inject)
{
	struct ofi_peer *p = from->peer;
	struct ofi_send *s;

	if (inject) {
		const struct ofi_send *other;
		unsigned queued;

		DL_COUNT(p->queue, other, queued);
		if (queued >= INJECTED_MAX)
			return -FI_EAGAIN;
	}
	s = malloc(sizeof(*s));
	if (!s)
		return -FI_ENOMEM;
	*s = *from;
	if (inject && s->len) {
		size_t len = 0;

		s->copy = malloc(s->len);
		if (!s->copy) {
			free(s);
			return -FI_ENOMEM;
		}
		for (unsigned i = 0; i < s->niov; i++) {
			memcpy((char *)s->copy + len, s->iov[i].iov_base, s->iov[i].iov_len);
			len += s->iov[i].iov_len;
		}
		s->iov[0] = (struct iovec){s->copy, s->len};
		s->niov = 1;
	}
	DL_APPEND(p->queue, s);
	ofi_peer_push(p);
	return 0;
}

ssize_t ofi_send_start(struct ofi_send *s, struct ofi_ep *ep, const struct iovec *iov, size_t niov,
		       fi_addr_t dest, uint64_t flags)
{
	ssize_t rc = prepare(s, ep, iov, niov, dest, flags);

	if (!rc)
		rc = ofi_cq_reserve(ep->tx_cq);
	if (rc == -FI_EAGAIN)
		ofi_ep_progress(ep);
	if (rc)
		return rc;
	s->ep = ep;
	s->copy = NULL;
	s->posted = 0;
	s->matched = flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
	s->more = flags & FI_MORE;
	rc = enqueue(s, flags & FI_INJECT);
	if (rc)
		ofi_cq_unreserve(ep->tx_cq);
	return rc;
}

bool ofi_send_cancel(struct ofi_ep *ep, const void *context)
{
	struct ofi_peer *p;
	struct ofi_send *s;

	DL_FOREACH (ep->active, p) {
		DL_FOREACH (p->queue, s) {
			if (s->context != context || s->copy || s->posted)
				continue;
			DL_DELETE(p->queue, s);
			ofi_send_end(s, FI_ECANCELED);
			return true;
		}
	}
	return false;
}
