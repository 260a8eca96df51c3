/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/peer.h"
#include "ofi/provider.h"

#include <inttypes.h>
#include <stdlib.h>
#include <utlist.h>

/* Contents that every lane carries behind an envelope. */
#define EAGER_GUARANTEED (RIPC_SHORT_GUARANTEED - OFI_ENVELOPE_MAX)
/* The receiver copies a part while the sender writes the next one. */
#define PART_MAX 8192
/* A lane with shorter short messages carries no messages in parts. */
#define PART_MIN 4096
/* Peers are made by messages from the network, too. */
#define PEERS_MAX 1000000

struct ofi_peer *ofi_peer_find(struct ofi_ep *ep, uint64_t service)
{
	struct ofi_peer *p = ep->recent;

	if (p && p->service == service)
		return p;
	HASH_FIND(hh, ep->peers, &service, sizeof(service), p);
	return p;
}

struct ofi_peer *ofi_peer_get_other(struct ofi_ep *ep, uint64_t service)
{
	struct ofi_peer *p = ofi_peer_find(ep, service);

	if (!p) {
		if (HASH_COUNT(ep->peers) >= PEERS_MAX)
			return NULL;
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		p->ep = ep;
		p->service = service;
		p->address = FI_ADDR_NOTAVAIL;
		p->generation = UINT64_MAX;
		p->eager_max = ofi_settings.eager_max;
		p->part_max = PART_MAX;
		HASH_ADD(hh, ep->peers, service, sizeof(p->service), p);
		if (!p->hh.tbl) {
			free(p);
			return NULL;
		}
	}
	ep->recent = p;
	return p;
}

fi_addr_t ofi_peer_address_again(struct ofi_peer *p)
{
	p->generation = p->ep->av->generation;
	p->address = ofi_av_address(p->ep->av, p->service);
	return p->address;
}

void ofi_peer_join(struct ofi_peer *p)
{
	struct ofi_peer *other, *tmp;

	p->first = p;
	HASH_ITER (hh, p->ep->peers, other, tmp) {
		if (other == p || other->first != other ||
		    memcmp(other->instance, p->instance, OFI_INSTANCE_LEN) != 0)
			continue;
		/* A lost one without return buffers does not count. */
		if (other->lost && !other->granted && !p->ep->withdrawn)
			continue;
		other->shared = true;
		p->first = other;
	}
}

/* ---- posting ---- */

bool ofi_peer_holds_service(const struct ofi_peer *p)
{
	struct ripc_route route = {.size = sizeof(route)};

	return p->life && !ripc_route_get(p->ep->domain->ctx, p->service, &route) &&
	       !memcmp(route.instance, p->instance, OFI_INSTANCE_LEN);
}

int ofi_peer_post_failed(struct ofi_peer *p, int rc)
{
	if (rc == -ENOMEM)
		return -EAGAIN;
	if (rc == -EPIPE && ofi_peer_holds_service(p))
		return -EAGAIN;
	if (rc != -EHOSTUNREACH || p->reached)
		return rc;
	if (!p->search_end_ms)
		p->search_end_ms =
			ofi_deadline_ms(0) + ofi_settings.connect_timeout_s * INT64_C(1000);
	return ofi_deadline_ms(0) < p->search_end_ms ? -EAGAIN : rc;
}

int ofi_peer_post(struct ofi_peer *p, struct ofi_envelope *e, const struct iovec *iov,
		  unsigned niov, size_t len, bool more)
{
	uint8_t bytes[OFI_ENVELOPE_MAX + OFI_ONE_ITEM_MAX];
	struct iovec items[OFI_IOV_MAX + 1];
	unsigned nitems = 1;
	int rc;

	if (ofi_peer_credit_due(p, 16))
		e->flags |= OFI_F_CREDIT;
	e->matched_messages = p->matched_messages;
	e->matched_bytes = p->matched_bytes;
	items[0].iov_base = bytes;
	items[0].iov_len = ofi_envelope_put(bytes, e);
	if (len <= OFI_ONE_ITEM_MAX) {
		for (unsigned i = 0; i < niov; i++) {
			memcpy(bytes + items[0].iov_len, iov[i].iov_base, iov[i].iov_len);
			items[0].iov_len += iov[i].iov_len;
		}
	} else {
		memcpy(items + 1, iov, niov * sizeof(*iov));
		nitems += niov;
	}
	rc = ofi_peer_post_items(p, items, nitems, more);
	if (rc)
		return rc;
	if (e->flags & OFI_F_CREDIT) {
		p->reported_messages = e->matched_messages;
		p->reported_bytes = e->matched_bytes;
	}
	return 0;
}

bool ofi_peer_lower_eager(struct ofi_peer *p, size_t len)
{
	struct ripc_limits limits = {.size = sizeof(limits)};
	size_t max = EAGER_GUARANTEED;

	if (!ripc_route_limits(p->ep->domain->ctx, p->service, &limits) &&
	    limits.short_max > RIPC_SHORT_GUARANTEED)
		max = limits.short_max - OFI_ENVELOPE_MAX;
	/* The route has changed meanwhile. */
	if (max >= len)
		max = EAGER_GUARANTEED;
	if (max >= p->part_max)
		return false;
	p->part_max = max;
	if (max < PART_MIN)
		p->eager_max = max;
	return true;
}

void ofi_peer_activate(struct ofi_peer *p)
{
	if (!p->prev)
		DL_APPEND(p->ep->active, p);
}

static void deactivate(struct ofi_peer *p)
{
	if (!p->prev)
		return;
	DL_DELETE(p->ep->active, p);
	p->prev = NULL;
}

static void end_sends(struct ofi_peer *p, int error)
{
	struct ofi_send *s, *tmp;

	DL_FOREACH_SAFE (p->queue, s, tmp) {
		DL_DELETE(p->queue, s);
		s->notify = error;
		ofi_send_end(s, error);
	}
	HASH_ITER (hh, p->ep->sends, s, tmp) {
		if (s->peer != p)
			continue;
		HASH_DEL(p->ep->sends, s);
		s->notify = error;
		ofi_send_end(s, error);
	}
	/* Contents wait for the next holder of the data service. ep_close() ends them later. */
	while (error && p->sending) {
		int rc;

		s = p->sending;
		rc = ofi_request_cancel(p->ep->domain, &s->request);
		DL_DELETE(p->sending, s);
		ofi_send_end(s, rc ? error : 0);
	}
}

static void end_recv(struct ofi_recv *r, int error)
{
	if (error)
		ofi_recv_end(r, error);
	else
		ofi_recv_drop(r);
}

static void end_recvs(struct ofi_peer *p, int error)
{
	struct ofi_recv *r, *tmp;

	if (p->parts.recv) {
		r = p->parts.recv;
		p->parts.recv = NULL;
		end_recv(r, error);
	}
	DL_FOREACH_SAFE (p->to_grant, r, tmp) {
		DL_DELETE(p->to_grant, r);
		/* The peer may be alive. */
		if (error)
			ofi_abort_post(p, p->service, r->send_id);
		end_recv(r, error);
	}
	DL_FOREACH_SAFE (p->granted, r, tmp) {
		ofi_recv_ungrant(r);
		if (error)
			ofi_recv_refuse(r);
		end_recv(r, error);
	}
}

void ofi_peer_end(struct ofi_peer *p, int error)
{
	end_sends(p, error);
	end_recvs(p, error);
	deactivate(p);
}

/* If it is due. Return: as ofi_peer_post(). */
static int post_credit(struct ofi_peer *p)
{
	struct ofi_envelope e = {.kind = OFI_CREDIT, .flags = OFI_F_CREDIT};

	return ofi_peer_credit_due(p, 4) ? ofi_peer_post(p, &e, NULL, 0, 0, false) : 0;
}

/* Of a lost peer, once the delay is over. It may be alive, and go on to send. */
static void end_operations(struct ofi_peer *p)
{
	if (ofi_deadline_ms(0) < p->end_ms) {
		ofi_peer_activate(p);
		return;
	}
	ofi_peer_end(p, p->lost);
	if (post_credit(p) == -EAGAIN)
		ofi_peer_activate(p);
}

void ofi_peer_push(struct ofi_peer *p)
{
	int rc = 0;

	if (p->lost) {
		end_operations(p);
		return;
	}
	while (!rc && p->to_grant)
		rc = ofi_recv_grant(p->to_grant);
	if (!rc || rc == -EAGAIN) {
		rc = 0;
		while (!rc && p->queue)
			rc = ofi_send_post(p->queue);
	}
	if (!rc)
		rc = post_credit(p);
	if (rc && rc != -EAGAIN)
		ofi_peer_lose(p, -rc, ripc_error_detail());
	if (p->lost || p->queue || (p->to_grant && ofi_peer_may_grant(p)) ||
	    ofi_peer_credit_due(p, 4))
		ofi_peer_activate(p);
	else
		deactivate(p);
}

/* ---- credit ---- */

void ofi_peer_credit(struct ofi_peer *p, const struct ofi_envelope *e)
{
	uint32_t messages = e->matched_messages, bytes = e->matched_bytes;

	/* Messages were sent to a new process of the peer before one came from it. */
	if ((int32_t)(messages - p->sent_messages) > 0)
		p->sent_messages = messages;
	if ((int32_t)(bytes - p->sent_bytes) > 0)
		p->sent_bytes = bytes;
	/* Old reports change nothing. */
	if (p->sent_messages - messages <= p->sent_messages - p->credit_messages)
		p->credit_messages = messages;
	if (p->sent_bytes - bytes <= p->sent_bytes - p->credit_bytes)
		p->credit_bytes = bytes;
}

/* ---- loss ---- */

void ofi_peer_watch(struct ofi_peer *p)
{
	if (!p->watched && !ripc_watch(p->ep->main, p->service))
		p->watched = true;
}

void ofi_peer_lose(struct ofi_peer *p, int error, const char *why)
{
	if (p->lost)
		return;
	FI_WARN(&ofi_provider, FI_LOG_EP_DATA, "peer %" PRIu64 " is lost: %s\n", p->service, why);
	p->lost = error;
	p->end_ms = ofi_deadline_ms(OFI_LOSS_DELAY_MS);
	ofi_peer_activate(p);
}

void ofi_peer_changed(struct ofi_peer *p, const uint8_t instance[OFI_INSTANCE_LEN])
{
	static const uint8_t none[OFI_INSTANCE_LEN];

	if (memcmp(p->instance, none, OFI_INSTANCE_LEN) != 0) {
		FI_INFO(&ofi_provider, FI_LOG_EP_DATA, "peer %" PRIu64 " was started again\n",
			p->service);
		ofi_peer_end(p, p->lost ? p->lost : FI_EIO);
		ofi_recv_parts_lost(p);
		ofi_aborts_cancel(p);
		memcpy(p->previous, p->instance, OFI_INSTANCE_LEN);
		p->life++;
		p->lost = 0;
		p->watched = false;
		p->eager_max = ofi_settings.eager_max;
		p->part_max = PART_MAX;
		p->sent_messages = p->sent_bytes = p->credit_messages = p->credit_bytes = 0;
		p->got_messages = p->got_bytes = p->matched_messages = p->matched_bytes = 0;
		p->reported_messages = p->reported_bytes = 0;
		/* Others refer to a first one that is shared. */
		if (p->first != p || !p->shared)
			p->first = NULL;
	}
	memcpy(p->instance, instance, OFI_INSTANCE_LEN);
}

void ofi_peers_free(struct ofi_ep *ep)
{
	struct ofi_peer *p, *tmp;

	ep->recent = NULL;
	HASH_ITER (hh, ep->peers, p, tmp) {
		HASH_DEL(ep->peers, p);
		free(p);
	}
}
