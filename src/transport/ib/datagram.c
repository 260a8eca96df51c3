/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Datagrams over the UD queue pair of a port. Short messages carry the sender's Q_Key as immediate
 * data, so that the receiver can answer. Wire-up messages carry no immediate data.
 */
#include "base/hash.h"
#include "base/iov.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define INLINE_MAX       1024u
#define PROBE_NS         UINT64_C(10000000) /* interval after the first PROBE; doubles */
#define PROBE_LONGEST_NS UINT64_C(320000000)

/* ---- sending ---- */

int ripc__ib_port_post(struct ib_port *p, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		       const struct iovec *iov, unsigned niov, size_t len, bool message)
{
	uint8_t copy[INLINE_MAX];
	struct ripc__verbs_slot *slot;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	int rc;

	if (p->down)
		return -ENOTCONN;
	if (p->ud.stopped || !ripc__verbs_sendq_space(&p->sendq))
		return -EAGAIN;
	if (len <= p->ud.max_inline && len <= sizeof(copy))
		slot = ripc__verbs_sendq_alloc(&p->sendq, false);
	else
		slot = ripc__verbs_sendq_alloc_bounce(&p->sendq, false, &p->d->bounce);
	if (!slot)
		return -EAGAIN;
	slot->kind = IB_SLOT_DATAGRAM;
	ripc__iov_gather(slot->bounce ? slot->bounce->data : copy, iov, niov);
	ripc__verbs_fill_send(&wr, &sge, slot, message ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, copy,
			      len);
	wr.imm_data = htobe32(p->port_addr.qkey);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	rc = ripc__verbs_post(p->ud.qp, &p->sendq, &wr);
	return rc == -ENOMEM || rc == -EAGAIN ? -EAGAIN : rc ? -ENOTCONN : 0;
}

/* Posts the gathered bytes to r, whose state is IB_AH_READY. */
static int post(struct ib_ah_entry *r, const struct iovec *iov, unsigned niov, size_t len,
		bool message)
{
	r->sent = true;
	r->sent_upto = r->port->sendq.tail + 1;
	return ripc__ib_port_post(r->port, r->ah, r->port_addr.qpn, r->port_addr.qkey, iov, niov,
				  len, message);
}

int ripc__ib_post_wireup(struct ib_ah_entry *r, struct ripc__wireup_message *m)
{
	uint8_t buf[RIPC__WIREUP_MAX];
	struct iovec iov = {buf, 0};

	if (r->state != IB_AH_READY)
		return r->state == IB_AH_FAILED ? -EHOSTUNREACH : -EAGAIN;
	m->qkey = r->port->port_addr.qkey;
	iov.iov_len = ripc__wireup_encode(m, buf);
	return post(r, &iov, 1, iov.iov_len, false);
}

/* Sends a PROBE to the peer port, unless the last one was sent recently. */
static void send_probe(struct ripc__transport *t, struct ib_ah_entry *r)
{
	struct ripc__wireup_message m = {.kind = RIPC__WIREUP_PROBE};

	if (r->state != IB_AH_READY || t->now_ns < r->probe_ns)
		return;
	r->probe_gap_ns = r->probe_gap_ns ? r->probe_gap_ns * 2 : PROBE_NS;
	r->probe_gap_ns = MIN(r->probe_gap_ns, PROBE_LONGEST_NS);
	r->probe_ns = t->now_ns + r->probe_gap_ns;
	ripc__ib_post_wireup(r, &m);
}

/*
 * The cache slot of an address, which may hold another one. NULL: the address is too long to cache.
 */
static struct ib_route *route_of(struct ripc__transport *t, const uint8_t *addr, size_t addrlen)
{
	if (!addrlen || addrlen > IB_ROUTE_ADDRESS)
		return NULL;
	return &t->routes[ripc__hash_quick(addr, addrlen) >> 32 & (IB_ROUTES - 1)];
}

static bool route_matches(const struct ripc__transport *t, const struct ib_route *route,
			  const uint8_t *addr, size_t addrlen)
{
	return route->len == addrlen && route->route_gen == t->route_gen &&
	       !memcmp(route->addr, addr, addrlen);
}

static int post_to_ah(struct ib_ah_entry *r, uint32_t qkey, uint32_t most, const struct iovec *iov,
		      unsigned niov, size_t len)
{
	if (len > most)
		return -EMSGSIZE;
	r->used = true;
	r->port_addr.qkey = qkey;
	return post(r, iov, niov, len, true);
}

int ripc__ib_post_datagram(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			   const struct iovec *iov, unsigned niov)
{
	struct ib_route *route = t->last_route;
	const struct ripc__ib_port_addr *port_addr, *best = NULL;
	struct ripc__ib_address address;
	struct ib_port *port, *best_port = NULL;
	struct ib_ah_entry *r;
	size_t len = ripc__iov_len(iov, niov);

	if (len > t->limits.datagram_max)
		return -EMSGSIZE;
	if (route && route_matches(t, route, addr, addrlen))
		return post_to_ah(route->ah_entry, route->qkey, route->most, iov, niov, len);
	route = route_of(t, addr, addrlen);
	if (route && route_matches(t, route, addr, addrlen)) {
		t->last_route = route;
		return post_to_ah(route->ah_entry, route->qkey, route->most, iov, niov, len);
	}
	if (ripc__ib_address_decode(&address, addr, addrlen))
		return ripc__fail(-EINVAL, "ib: malformed address of the peer: %zu bytes", addrlen);
	for (unsigned n = 0; ripc__ib_select_path(t, &address, n, &port, &port_addr); n++) {
		r = ripc__ib_ah_find(t, port, port_addr);
		/* Prefer a port that has answered a wire-up or a probe. */
		if (r && r->confirmed && r->state == IB_AH_READY) {
			/* limits.datagram_max is of the port as it was opened. */
			uint32_t most =
				ripc__ib_mtu_bytes(MIN(port->port_addr.mtu, port_addr->mtu));

			if (route) {
				*route = (struct ib_route){.route_gen = t->route_gen,
							   .ah_entry = r,
							   .qkey = port_addr->qkey,
							   .most = most,
							   .len = (uint8_t)addrlen};
				memcpy(route->addr, addr, addrlen);
			}
			return post_to_ah(r, port_addr->qkey, most, iov, niov, len);
		}
		if (!best || (r && r->state != IB_AH_FAILED)) {
			best = port_addr;
			best_port = port;
		}
	}
	if (!best)
		return ripc__ib_no_path();
	r = ripc__ib_ah_get(t, best_port, best);
	if (r)
		send_probe(t, r);
	return -EAGAIN;
}

/* ---- receiving ---- */

/* The source of a datagram from its GRH. Return: false: the header is malformed. */
static bool source(const struct ib_port *p, const struct ibv_wc *wc, const uint8_t *grh,
		   struct ripc__ib_port_addr *from)
{
	*from = (struct ripc__ib_port_addr){
		.link = p->port_addr.link, .mtu = p->port_addr.mtu, .qpn = wc->src_qp};
	if (p->port_addr.link == RIPC__IB_LINK_IB)
		from->lid = wc->slid;
	if (wc->wc_flags & IBV_WC_GRH)
		return ripc__ib_grh_source(grh, from->gid);
	return p->port_addr.link == RIPC__IB_LINK_IB;
}

static void wireup(struct ib_port *p, const struct ripc__ib_port_addr *from, const uint8_t *data,
		   size_t len)
{
	struct ripc__transport *t = p->t;
	struct ripc__wireup_message m, answer = {.kind = RIPC__WIREUP_PROBED};
	struct ripc__ib_port_addr port_addr = *from;
	struct ib_ah_entry *r;
	const char *why;
	char who[96];

	if (ripc__wireup_decode(&m, data, len, &why)) {
		ripc__ib_port_addr_text(from, who, sizeof(who));
		ripc__report_bad_input(&t->reports, who, why);
		return;
	}
	port_addr.qkey = m.qkey;
	r = ripc__ib_ah_get(t, p, &port_addr);
	if (!r)
		return;
	r->confirmed = true;
	r->probe_gap_ns = r->probe_ns = 0;
	if (m.kind == RIPC__WIREUP_PROBE)
		ripc__ib_post_wireup(r, &answer);
	else if (m.kind != RIPC__WIREUP_PROBED)
		ripc__ib_wireup_received(p, r, &m);
}

/*
 * Fills the event of a completed receive, but for the token. @addr: room for the address of its
 * source. Return: whether it brought a message.
 */
static bool receive(struct ib_port *p, const struct ibv_wc *wc, uint8_t *addr,
		    struct ripc__event *ev)
{
	const uint8_t *data = ripc__verbs_wc_buf(wc)->data;
	struct ripc__ib_port_addr from;
	char who[96];

	if (!ripc__ib_ud_received(&p->ud, wc))
		return false;
	if (!source(p, wc, data, &from)) {
		snprintf(who, sizeof(who), "%s port %u, qp 0x%x", p->d->v.name, p->num, wc->src_qp);
		ripc__report_bad_input(&p->t->reports, who, "datagram with a malformed GRH");
		return false;
	}
	if (!(wc->wc_flags & IBV_WC_WITH_IMM)) {
		wireup(p, &from, data + IB_GRH, wc->byte_len - IB_GRH);
		return false;
	}
	from.qkey = be32toh(wc->imm_data) & 0x7fffffff;
	ev->kind = RIPC__EV_DATAGRAM;
	ev->data = data + IB_GRH;
	ev->len = wc->byte_len - IB_GRH;
	ev->from = addr;
	ev->fromlen = (uint32_t)ripc__ib_address_encode(&from, 1, addr);
	ev->token = NULL;
	return true;
}

unsigned ripc__ib_datagram_received(struct ib_port *p, const struct ibv_wc *wc,
				    struct ripc__event *ev)
{
	struct ripc__verbs_buf *buf = ripc__verbs_wc_buf(wc);

	/* The address overwrites the GRH. */
	if (!receive(p, wc, buf->data, ev)) {
		ripc__ib_ud_again(&p->ud, buf);
		return 0;
	}
	if (p->ndelivered < IB_DATAGRAM_RECV / 2) {
		p->ndelivered++;
		buf->delivered = true;
		ev->token = buf;
		return 1;
	}
	/* The application holds half of the buffers: the core must copy the data. */
	ib_buf_push(&p->ud.delivered, buf);
	return 1;
}

bool ripc__ib_datagram_take(struct ib_port *p, const struct ibv_wc *wc, void *room,
			    struct ripc__event *ev)
{
	bool any = receive(p, wc, p->t->from, ev);

	if (any) {
		memcpy(room, ev->data, ev->len);
		ev->data = room;
	}
	ripc__ib_ud_again(&p->ud, ripc__verbs_wc_buf(wc));
	if (p->ud.nrepost >= IB_REPOST)
		ripc__ib_ud_repost(&p->ud);
	return any;
}
