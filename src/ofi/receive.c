/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Receiving: posted receives, arrived messages and the contents. */
#include "ofi/peer.h"
#include "ofi/provider.h"
#include "ofi/receive_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <utlist.h>

/* A message that has arrived and is not received. */
struct ofi_message {
	struct ofi_arrived arrived; /* first member */
	struct ofi_peer *peer;
	unsigned life;         /* of the peer when it arrived */
	struct ofi_envelope e; /* EAGER or RTS */
	uint8_t contents[];    /* of EAGER; those that have arrived, see ofi_parts */
};

/* ---- completions ---- */

/* Writes the completion that was reserved, and counts it. */
static inline void complete(struct ofi_recv *r, int error)
{
	size_t over = !error && !r->discard && r->len > r->room ? r->len - r->room : 0;

	if (over)
		error = FI_ETRUNC;
	if (r->notify || error) {
		struct ofi_completion *c = ofi_cq_put(r->ep->rx_cq);

		c->entry.op_context = r->posted.context;
		c->entry.flags = r->cq_flags | (r->wire_flags & OFI_F_DATA ? FI_REMOTE_CQ_DATA : 0);
		c->entry.len = MIN(r->len, r->room);
		c->entry.buf = r->niov ? r->iov[0].iov_base : NULL;
		c->entry.data = r->data;
		c->entry.tag = r->peer ? r->tag : r->posted.tag;
		c->source = r->peer ? ofi_peer_address(r->peer) : FI_ADDR_NOTAVAIL;
		c->olen = over;
		c->err = error;
	} else {
		ofi_cq_unreserve(r->ep->rx_cq);
	}
	if (!r->discard)
		ofi_cntr_count(r->ep->rx_cntr, error);
}

/* Completes a receive. libripc may still read its CTS. */
static inline void finish(struct ofi_recv *r, int error)
{
	complete(r, error);
	if (r->long_cts == OFI_CTS_NONE)
		ofi_recv_free(r);
	else
		r->long_cts = OFI_CTS_ABANDONED;
}

void ofi_recv_end(struct ofi_recv *r, int error)
{
	r->ended = true;
	if (r->direct && !ofi_recv_withdraw(r)) {
		r->error = error;
		DL_APPEND(r->ep->withdrawn, r);
		return;
	}
	finish(r, error);
}

void ofi_recv_complete_withdrawn(struct ofi_ep *ep)
{
	struct ofi_recv *r, *tmp;

	DL_FOREACH_SAFE (ep->withdrawn, r, tmp) {
		if (!ofi_recv_withdraw(r))
			continue;
		DL_DELETE(ep->withdrawn, r);
		finish(r, r->error);
	}
}

void ofi_recv_drop(struct ofi_recv *r)
{
	r->notify = false;
	r->discard = true;
	ofi_recv_end(r, 0);
}

/* Copies bytes of contents to their place in the pieces of a receive. */
static void scatter(const struct ofi_recv *r, size_t at, const void *from, size_t len)
{
	struct iovec to[OFI_IOV_MAX];
	unsigned n = ofi_slice(r->iov, r->niov, at, len, to);

	for (unsigned i = 0; i < n; i++) {
		memcpy(to[i].iov_base, from, to[i].iov_len);
		from = (const char *)from + to[i].iov_len;
	}
}

/* ---- matches ---- */

/* The receive takes a message whose envelope is e. Its contents follow. */
static inline void take(struct ofi_recv *r, struct ofi_peer *p, const struct ofi_envelope *e)
{
	r->peer = p;
	r->tag = e->tag;
	r->data = e->data;
	r->len = e->len;
	r->wire_flags = e->flags;
	r->send_id = e->id;
}

static inline void count_matched(struct ofi_peer *p, const struct ofi_envelope *e)
{
	ofi_peer_matched(p, e->kind == OFI_EAGER ? e->len : 0);
}

static void grant_later(struct ofi_recv *r)
{
	struct ofi_peer *p = r->peer;

	/* A CTS for no bytes ends the send. */
	r->granted = r->discard ? 0 : MIN(r->len, r->room);
	DL_APPEND(p->to_grant, r);
	ofi_peer_push(p);
}

void ofi_recv_take(struct ofi_recv *r, struct ofi_arrived *a)
{
	struct ofi_message *m = (struct ofi_message *)a;
	struct ofi_peer *p = m->peer;
	bool incomplete = p->parts.message == m, is_old = m->life != p->life;

	if (incomplete)
		p->parts.message = NULL;
	take(r, p, &m->e);
	if (!is_old)
		count_matched(p, &m->e);
	if (r->discard && (p->lost || is_old || m->e.kind == OFI_EAGER)) {
		if (m->e.kind == OFI_RTS)
			ofi_abort_post(p, p->service, m->e.id);
		ofi_recv_end(r, 0);
	} else if (is_old && m->e.kind != OFI_EAGER) {
		ofi_recv_end(r, FI_EIO);
	} else if (m->e.kind != OFI_EAGER) {
		grant_later(r);
	} else if (incomplete) {
		scatter(r, 0, m->contents, MIN(p->parts.at, r->room));
		p->parts.recv = r;
		if (p->lost)
			ofi_peer_push(p);
	} else {
		scatter(r, 0, m->contents, MIN(m->e.len, r->room));
		ofi_recv_end(r, 0);
	}
	free(m);
}

/* ---- FI_PEEK, FI_CLAIM ---- */

void ofi_recv_peek(struct ofi_recv *r, uint64_t flags)
{
	struct ofi_matching *m = ofi_recv_space(r->ep, r->cq_flags);
	struct ofi_arrived *a;
	struct ofi_message *found;

	ofi_ep_progress(r->ep);
	if (r->ep->arriving)
		ofi_ep_progress(r->ep);
	a = ofi_matching_peek(m, r->posted.source, r->posted.tag, r->posted.ignore);
	found = (struct ofi_message *)a;
	r->niov = 0;
	r->room = SIZE_MAX;
	r->discard = true;
	if (!a) {
		r->room = 0;
		ofi_recv_end(r, FI_ENOMSG);
		return;
	}
	if (flags & FI_DISCARD) {
		ofi_matching_remove(m, a);
		ofi_recv_take(r, a);
		return;
	}
	if (flags & FI_CLAIM)
		ofi_matching_claim(m, a, r->posted.context);
	take(r, found->peer, &found->e);
	ofi_recv_end(r, 0);
}

int ofi_recv_claimed(struct ofi_recv *r, uint64_t flags)
{
	struct ofi_arrived *a =
		ofi_matching_take_claimed(ofi_recv_space(r->ep, r->cq_flags), r->posted.context);

	if (!a) {
		ofi_cq_unreserve(r->ep->rx_cq);
		ofi_recv_free(r);
		return -FI_EINVAL;
	}
	if (flags & FI_DISCARD) {
		r->niov = 0;
		r->room = 0;
		r->discard = true;
	}
	ofi_recv_take(r, a);
	return 0;
}

bool ofi_recv_cancel(struct ofi_ep *ep, const void *context)
{
	struct ofi_posted *p = ofi_matching_cancel(&ep->tagged, context);

	if (!p)
		p = ofi_matching_cancel(&ep->msg, context);
	if (!p)
		return false;
	((struct ofi_recv *)p)->room = 0;
	ofi_recv_end((struct ofi_recv *)p, FI_ECANCELED);
	return true;
}

/* ---- arrivals ---- */

static size_t bytes_of(const struct ripc_message *m)
{
	size_t len = m->items[0].iov_len;

	for (unsigned i = 1; i < m->nitems; i++)
		len += m->items[i].iov_len;
	return len;
}

/*
 * The contents of a message, behind its envelope of head bytes, at most max bytes: to place at of
 * the contents of r, or if it is NULL of to.
 */
static void copy_contents(const struct ripc_message *m, unsigned head, const struct ofi_recv *r,
			  uint8_t *to, size_t at, size_t max)
{
	for (unsigned i = 0; i < m->nitems && max; i++, head = 0) {
		const uint8_t *from = (const uint8_t *)m->items[i].iov_base + head;
		size_t len = m->items[i].iov_len - head;

		len = MIN(len, max);
		if (r && len)
			scatter(r, at, from, len);
		else if (len)
			memcpy(to + at, from, len);
		at += len;
		max -= len;
	}
}

/* The same from the beginning of the contents; most are in one piece. */
static inline void eager_contents(const struct ripc_message *m, unsigned head,
				  const struct ofi_recv *r, uint8_t *to, size_t max)
{
	if (m->nitems == 1 && (!r || r->niov == 1))
		memcpy(r ? r->iov[0].iov_base : to, (const uint8_t *)m->items[0].iov_base + head,
		       max);
	else
		copy_contents(m, head, r, to, 0, max);
}

/* at of len bytes have arrived. */
static void begin_parts(struct ofi_peer *p, struct ofi_recv *r, struct ofi_message *m, size_t at,
			size_t len)
{
	p->parts = (struct ofi_parts){.recv = r, .message = m, .at = at, .len = len};
	ofi_peer_watch(p);
}

/* EAGER or RTS. head: bytes of the envelope; len: of the contents in m. */
static inline void arrive(struct ofi_ep *ep, struct ofi_peer *p, const struct ripc_message *m,
			  const struct ofi_envelope *e, unsigned head, size_t len)
{
	struct ofi_arrived a = {.source = p->service, .tag = e->tag};
	struct ofi_matching *in = e->flags & OFI_F_TAGGED ? &ep->tagged : &ep->msg;
	size_t contents = e->kind == OFI_EAGER ? e->len : 0;
	struct ofi_posted *posted;
	struct ofi_message *kept;
	struct ofi_recv *r;

	/* The send of the last message has ended with an error. */
	if (p->parts.at < p->parts.len)
		ofi_recv_parts_lost(p);
	if (contents > OFI_WINDOW_BYTES || contents < len) {
		ofi_peer_lose(p, FI_EIO, "it sent a message whose length is wrong");
		return;
	}
	p->got_messages++;
	p->got_bytes += (uint32_t)contents;
	/* Twice the window: its own credit began before it knew of this process. */
	if (p->got_messages - p->matched_messages > 2 * OFI_WINDOW_MESSAGES ||
	    p->got_bytes - p->matched_bytes > 2 * OFI_WINDOW_BYTES) {
		ofi_peer_lose(p, FI_EIO, "it sent more messages than it had credit for");
		return;
	}
	if (e->kind == OFI_RTS && !p->first)
		ofi_peer_join(p);
	posted = ofi_matching_find(in, &a);
	if (posted) {
		r = (struct ofi_recv *)posted;
		take(r, p, e);
		count_matched(p, e);
		if (e->kind != OFI_EAGER) {
			grant_later(r);
			return;
		}
		eager_contents(m, head, r, NULL, MIN(len, r->room));
		if (len == contents)
			ofi_recv_end(r, 0);
		else
			begin_parts(p, r, NULL, len, contents);
		return;
	}
	kept = malloc(sizeof(*kept) + contents);
	if (!kept) {
		ofi_peer_lose(p, FI_ENOMEM, "no memory to keep a message of it");
		return;
	}
	kept->arrived = a;
	kept->peer = p;
	kept->life = p->life;
	kept->e = *e;
	eager_contents(m, head, NULL, kept->contents, len);
	if (len < contents)
		begin_parts(p, NULL, kept, len, contents);
	else if (e->kind == OFI_RTS)
		ofi_peer_watch(p);
	ofi_matching_keep(in, &kept->arrived);
}

/* PART. */
static void part(struct ofi_peer *p, const struct ripc_message *m, unsigned head, size_t len)
{
	struct ofi_parts *parts = &p->parts;
	struct ofi_recv *r = parts->recv;

	/* The message began at the process before. */
	if (!parts->len)
		return;
	if (!len || len > parts->len - parts->at) {
		ofi_peer_lose(p, FI_EIO, "it sent more contents than it had announced");
		return;
	}
	if (r || parts->message)
		copy_contents(m, head, r, r ? NULL : parts->message->contents, parts->at, len);
	parts->at += len;
	if (parts->at < parts->len)
		return;
	*parts = (struct ofi_parts){0};
	if (r)
		ofi_recv_end(r, 0);
}

void ofi_recv_parts_lost(struct ofi_peer *p)
{
	struct ofi_recv *r = p->parts.recv;

	/* The kept message is not EAGER any more: the peer refuses its contents. */
	if (p->parts.message)
		p->parts.message->e.kind = OFI_RTS;
	p->parts = (struct ofi_parts){0};
	if (r)
		ofi_recv_end(r, FI_EIO);
}

/* ABORT. */
static void aborted(struct ofi_peer *p, const struct ripc_message *m)
{
	struct ofi_envelope e = {0};
	struct ofi_recv *r;

	ofi_envelope_get(m->items[0].iov_base, m->items[0].iov_len, &e);
	DL_SEARCH_SCALAR(p->granted, r, send_id, e.id);
	if (!r)
		return;
	ofi_recv_ungrant(r);
	ofi_recv_end(r, FI_EIO);
}

static void watch_event(struct ofi_ep *ep, const struct ripc_message *m)
{
	struct ofi_peer *p = ofi_peer_find(ep, m->source);

	if (!p)
		return;
	p->watched = false;
	/* The event may come after a message of the next process. */
	if (memcmp(p->instance, m->instance, OFI_INSTANCE_LEN) != 0 && ofi_peer_holds_service(p)) {
		ofi_peer_watch(p);
		return;
	}
	ofi_aborts_cancel(p);
	ofi_peer_lose(p, FI_EIO, m->nitems ? m->items[0].iov_base : "its endpoint was closed");
}

void ofi_receive_main(struct ofi_ep *ep, const struct ripc_message *m)
{
	struct ofi_envelope e;
	struct ofi_peer *p;
	unsigned head;
	size_t len;

	if (m->event) {
		watch_event(ep, m);
		return;
	}
	head = ofi_envelope_get(m->items[0].iov_base, m->items[0].iov_len, &e);
	if (!head) {
		FI_WARN_SPARSE(&ofi_provider, FI_LOG_EP_DATA,
			       "service %" PRIu64 " sent something that is no message of ripc\n",
			       m->source);
		return;
	}
	len = bytes_of(m) - head;
	if (e.kind == OFI_EAGER && !(e.flags & OFI_F_LEN))
		e.len = len;
	/* Only messages to be received, and those that are to be refused, make a peer. */
	if (e.kind == OFI_EAGER || e.kind == OFI_RTS)
		p = ofi_peer_get(ep, m->source);
	else if (e.kind == OFI_CTS)
		p = ofi_peer_get(ep, e.tag);
	else
		p = ofi_peer_find(ep, m->source);
	if (!p)
		return;
	if (memcmp(p->instance, m->instance, OFI_INSTANCE_LEN) != 0)
		ofi_peer_changed(p, m->instance);
	if (e.flags & OFI_F_CREDIT)
		ofi_peer_credit(p, &e);
	switch (e.kind) {
	case OFI_EAGER:
	case OFI_RTS:
		arrive(ep, p, m, &e, head, len);
		break;
	case OFI_PART:
		part(p, m, head, len);
		break;
	case OFI_CTS:
		ofi_send_cts(p, m->source, &e);
		break;
	case OFI_ABORT:
		ofi_send_refused(p, e.id);
		break;
	default:
		break;
	}
}

/* The empty items at the beginning or the end of a message. */
static unsigned empty_items(const struct ripc_message *m, bool end)
{
	unsigned n = 0;

	while (n < m->nitems && !m->items[end ? m->nitems - 1 - n : n].iov_len)
		n++;
	return n;
}

/* The receive that waits for contents, or NULL. */
static struct ofi_recv *marked(const struct ofi_peer *p, unsigned front, unsigned behind)
{
	struct ofi_recv *r;

	DL_FOREACH (p->granted, r)
		if (OFI_MARK_FRONT(r->mark) == front && OFI_MARK_BEHIND(r->mark) == behind)
			break;
	return r;
}

/* Receives before r have no contents: their sends failed, and ABORT comes behind those of r. */
static void end_failed(struct ofi_peer *p, const struct ofi_recv *r)
{
	while (p->granted != r) {
		struct ofi_recv *failed = p->granted;

		ofi_recv_ungrant(failed);
		ofi_recv_end(failed, FI_EIO);
	}
}

struct ofi_recv *ofi_receive_data(struct ofi_ep *ep, const struct ripc_message *m)
{
	struct ofi_peer *p = m->event ? NULL : ofi_peer_find(ep, m->source);
	unsigned behind = empty_items(m, true);
	struct ofi_recv *r = NULL;
	size_t at = 0;

	/* Contents of the process before have no receive any more. */
	if (p && memcmp(p->previous, m->instance, OFI_INSTANCE_LEN) != 0) {
		if (memcmp(p->instance, m->instance, OFI_INSTANCE_LEN) != 0)
			ofi_peer_changed(p, m->instance);
		r = p->granted;
	}
	if (!r) {
		FI_WARN_SPARSE(&ofi_provider, FI_LOG_EP_DATA,
			       "service %" PRIu64 " sent contents that nobody asked for\n",
			       m->source);
		return NULL;
	}
	if (behind == OFI_ABORT_EMPTY) {
		aborted(p, m);
		return NULL;
	}
	r = marked(p, empty_items(m, false), behind);
	if (!r || bytes_of(m) != r->granted) {
		ofi_peer_lose(p, FI_EIO, "it sent contents of another length than asked for");
		return NULL;
	}
	for (unsigned i = 0; i < m->nitems; i++) {
		if (m->items[i].iov_len &&
		    (!r->direct || m->items[i].iov_base != r->iov[0].iov_base))
			scatter(r, at, m->items[i].iov_base, m->items[i].iov_len);
		at += m->items[i].iov_len;
	}
	end_failed(p, r);
	ofi_recv_ungrant(r);
	return r;
}

/* ---- the end ---- */

static void free_space(struct ofi_matching *m)
{
	struct ofi_posted *p, *ptmp;
	struct ofi_arrived *a, *atmp;

	DL_FOREACH_SAFE (m->posted, p, ptmp)
		ofi_recv_drop((struct ofi_recv *)p);
	DL_FOREACH_SAFE (m->arrived, a, atmp)
		free(a);
	DL_FOREACH_SAFE (m->claimed, a, atmp)
		free(a);
}

void ofi_recv_free_all(struct ofi_ep *ep)
{
	struct ofi_recv *r, *tmp;

	free_space(&ep->tagged);
	free_space(&ep->msg);
	DL_FOREACH_SAFE (ep->withdrawn, r, tmp) {
		DL_DELETE(ep->withdrawn, r);
		ofi_recv_drop(r);
	}
	ofi_recv_free_spare(ep);
}
