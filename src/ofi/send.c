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
		piece = MIN(piece, len);
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
		size_t left = s->len - s->posted, len = MIN(left, p->part_max);
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
		rc = ofi_peer_post(p, &e, iov, n, len, s->more && len == s->len);
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
	int rc = ofi_peer_post(p, &e, NULL, 0, 0, s->more);

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

struct ofi_abort {
	struct ofi_request request;
	struct ofi_abort *prev, *next;
	struct ofi_peer *peer;
	uint8_t bytes[OFI_ENVELOPE_MAX];
};

static void abort_done(struct ofi_request *request, int status)
{
	struct ofi_abort *a = container_of(request, struct ofi_abort, request);

	DL_DELETE(a->peer->aborts, a);
	free(a);
}

void ofi_abort_post(struct ofi_peer *p, uint64_t service, uint64_t id)
{
	const struct ofi_envelope e = {.kind = OFI_ABORT, .flags = OFI_F_ID, .id = id};
	struct ofi_abort *a = calloc(1, sizeof(*a));
	struct iovec items[1 + OFI_ABORT_EMPTY] = {{0}};

	if (!a)
		return;
	items[0] = (struct iovec){a->bytes, ofi_envelope_put(a->bytes, &e)};
	a->peer = p;
	a->request.done = abort_done;
	a->request.count = &p->ep->requests;
	if (ofi_request_start(p->ep->domain, &a->request, p->ep->main, service, items,
			      1 + OFI_ABORT_EMPTY, NULL)) {
		free(a);
		return;
	}
	DL_APPEND(p->aborts, a);
	/* libripc keeps messages to a service that nobody holds. */
	ofi_peer_watch(p);
}

void ofi_aborts_cancel(struct ofi_peer *p)
{
	while (p->aborts) {
		struct ofi_request *r = &p->aborts->request;

		abort_done(r, ofi_request_cancel(p->ep->domain, r));
	}
}

static void contents_done(struct ofi_request *request, int status)
{
	struct ofi_send *s = container_of(request, struct ofi_send, request);
	struct ofi_peer *p = s->peer;

	DL_DELETE(p->sending, s);
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
		ofi_abort_post(p, s->data_service, s->id);
	}
	ofi_send_end(s, -status);
}

void ofi_send_cts(struct ofi_peer *p, uint64_t data_service, const struct ofi_envelope *e)
{
	struct ofi_ep *ep = p->ep;
	struct iovec iov[OFI_IOV_MAX + OFI_MARK_EMPTY_MAX] = {{0}};
	struct ofi_send *s;
	unsigned n;
	int rc;

	HASH_FIND(hh, ep->sends, &e->id, sizeof(e->id), s);
	if (!s || s->peer != p || e->len > s->len) {
		FI_WARN(&ofi_provider, FI_LOG_EP_DATA,
			"service %" PRIu64 " asks for a message that is not offered to it\n",
			data_service);
		if (e->len)
			ofi_abort_post(p, data_service, e->id);
		return;
	}
	HASH_DEL(ep->sends, s);
	if (!e->len) {
		ofi_send_end(s, 0);
		return;
	}
	n = OFI_MARK_FRONT(e->mark);
	n += ofi_slice(s->iov, s->niov, 0, e->len, iov + n);
	n += OFI_MARK_BEHIND(e->mark);
	DL_APPEND(p->sending, s);
	s->life = p->life;
	s->data_service = data_service;
	s->request.done = contents_done;
	s->request.count = &ep->requests;
	rc = ofi_request_start(ep->domain, &s->request, ep->main, data_service, iov, n, NULL);
	if (rc)
		contents_done(&s->request, rc);
}

void ofi_send_refused(struct ofi_peer *p, uint64_t id)
{
	struct ofi_ep *ep = p->ep;
	struct ofi_send *s;

	HASH_FIND(hh, ep->sends, &id, sizeof(id), s);
	if (!s || s->peer != p)
		return;
	HASH_DEL(ep->sends, s);
	ofi_send_end(s, FI_EIO);
}

/* ---- the start ---- */

/* Sets the pieces of a send, without empty ones; inject: to a copy. */
static ssize_t set_contents(struct ofi_send *s, const struct iovec *iov, size_t niov, bool inject)
{
	char *to;

	for (size_t i = 0; i < niov; i++) {
		if (!iov[i].iov_len)
			continue;
		if (iov[i].iov_len > (inject ? OFI_INJECT_MAX : OFI_MESSAGE_MAX) - s->len)
			return -FI_EMSGSIZE;
		s->iov[s->niov++] = iov[i];
		s->len += iov[i].iov_len;
	}
	if (!inject || !s->len)
		return 0;
	to = s->copy = malloc(s->len);
	if (!to)
		return -FI_ENOMEM;
	for (unsigned i = 0; i < s->niov; i++) {
		memcpy(to, s->iov[i].iov_base, s->iov[i].iov_len);
		to += s->iov[i].iov_len;
	}
	s->iov[0] = (struct iovec){s->copy, s->len};
	s->niov = 1;
	return 0;
}

static bool may_inject(const struct ofi_peer *p)
{
	const struct ofi_send *s;
	unsigned queued;

	DL_COUNT(p->queue, s, queued);
	return queued < INJECTED_MAX;
}

ssize_t ofi_send_start(struct ofi_ep *ep, const struct iovec *iov, size_t niov,
		       const struct ofi_call *c)
{
	bool inject = c->flags & FI_INJECT;
	struct ofi_peer *p;
	struct ofi_send *s;
	uint64_t service;
	ssize_t rc;

	if (c->flags & ~SEND_FLAGS)
		return ofi_refused("a send with these flags");
	if (!(ep->enabled & FI_SEND))
		return ep->enabled ? -FI_EOPNOTSUPP : -FI_EOPBADSTATE;
	service = ofi_av_service(ep->av, c->dest);
	if (!service || niov > OFI_IOV_MAX)
		return -FI_EINVAL;
	p = ofi_peer_get(ep, service);
	s = p ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return -FI_ENOMEM;
	s->ep = ep;
	s->peer = p;
	s->context = c->context;
	s->cq_flags = FI_SEND | c->kind;
	s->notify = c->notify;
	s->matched = c->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
	s->more = c->flags & FI_MORE;
	s->wire_flags = ofi_call_wire_flags(c);
	s->tag = c->tag;
	s->data = c->data;
	rc = set_contents(s, iov, niov, inject);
	if (!rc)
		rc = inject && !may_inject(p) ? -FI_EAGAIN : ofi_cq_reserve(ep->tx_cq);
	if (!rc) {
		DL_APPEND(p->queue, s);
		ofi_peer_push(p);
		return 0;
	}
	free(s->copy);
	free(s);
	if (rc == -FI_EAGAIN)
		ofi_ep_progress(ep);
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
