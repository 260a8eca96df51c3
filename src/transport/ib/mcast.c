/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Multicast groups over RoCE v2.
 * A second UD queue pair of each port receives, with a well-known Q_Key. It is created with the
 * first group that is joined. The adapter delivers groups to attached queue pairs; a socket that
 * joins the same address makes the host and the network forward them. Sends use the UD queue pair
 * of the port.
 */
#include "base/clock.h"
#include "base/iov.h"
#include "base/log.h"
#include "transport/ib/ib.h"
#include "transport/net/mcast.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_QPN 0xffffffu /* the multicast QP number */
/* bytes: the RoCE MTU for 1500-byte Ethernet, so that every port can receive them */
#define GROUP_MTU  1024u
#define GROUP_HOPS 1 /* the default of IP multicast */
/* Most groups joined or sent to. If all are joined, lanes carry messages of further groups. */
#define GROUPS_MAX 1024u

/* A group that was joined or sent to. */
struct ib_group {
	uint64_t id;
	UT_hash_handle hh;
	bool wanted;                            /* joined by the core */
	unsigned joined;                        /* bit mask of ports */
	struct ibv_ah *ah[RIPC__IB_PORTS_MAX];  /* NULL: not created yet */
	uint32_t sent_upto[RIPC__IB_PORTS_MAX]; /* tail of the send queue after the last send */
};

static bool port_supports_mcast(const struct ib_port *p)
{
	return p->port_addr.link == RIPC__IB_LINK_V2 && *p->netdev &&
	       ripc__ib_mtu_bytes(p->port_addr.mtu) >= GROUP_MTU;
}

bool ripc__ib_mcast_supported(const struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->nports; i++)
		if (port_supports_mcast(&t->ports[i]))
			return true;
	return false;
}

static int family(const struct ib_port *p)
{
	return ripc__ib_gid_is_v4(p->port_addr.gid) ? AF_INET : AF_INET6;
}

/* The MGID of a group on a port: the address of UDP multicast. */
static union ibv_gid address(const struct ib_port *p, uint64_t id)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
	union ripc__sockaddr to;

	ripc__mcast_address(id, family(p), 1, &to);
	if (to.sa.sa_family == AF_INET)
		memcpy(gid.raw + 12, &to.in.sin_addr, 4);
	else
		memcpy(gid.raw, &to.in6.sin6_addr, 16);
	return gid;
}

static void ah_destroy(struct ib_group *g, unsigned port)
{
	if (g->ah[port])
		ibv_destroy_ah(g->ah[port]);
	g->ah[port] = NULL;
}

/* Whether a work request may refer to an address handle, which must outlive its completion. */
static bool in_flight(const struct ripc__transport *t, const struct ib_group *g)
{
	for (unsigned i = 0; i < t->nports; i++)
		if (g->ah[i] && (int32_t)(g->sent_upto[i] - t->ports[i].sendq.head) > 0)
			return true;
	return false;
}

/* Removes a group that is only sent to. The next send creates it again. Return: whether it did. */
static bool evict(struct ripc__transport *t)
{
	struct ib_group *g, *tmp;

	HASH_ITER (hh, t->groups, g, tmp) {
		if (g->wanted || in_flight(t, g))
			continue;
		for (unsigned i = 0; i < t->nports; i++)
			ah_destroy(g, i);
		HASH_DEL(t->groups, g);
		free(g);
		return true;
	}
	return false;
}

static struct ib_group *group_get(struct ripc__transport *t, uint64_t id)
{
	struct ib_group *g;

	HASH_FIND(hh, t->groups, &id, sizeof(id), g);
	if (g)
		return g;
	if (HASH_COUNT(t->groups) >= GROUPS_MAX && !evict(t)) {
		ripc__fail(-ENOBUFS,
			   "ib: multicast group limit reached: %u; lanes carry further groups",
			   GROUPS_MAX);
		return NULL;
	}
	g = calloc(1, sizeof(*g));
	if (g) {
		g->id = id;
		HASH_ADD(hh, t->groups, id, sizeof(g->id), g);
		if (g->hh.tbl)
			return g;
		free(g);
	}
	ripc__fail(-ENOMEM, "ib: out of memory");
	return NULL;
}

/* ---- queue pair and membership ---- */

/* Makes the host and its network deliver the group's address. Return: 0 or a negative errno. */
static int membership(struct ripc__transport *t, const struct ib_port *p, uint64_t id, bool join)
{
	unsigned index = if_nametoindex(p->netdev);
	int *fd = &t->member_fd[family(p) != AF_INET];
	union ripc__sockaddr to;

	if (!index)
		return -ENODEV;
	if (*fd < 0)
		*fd = socket(family(p), SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return -errno;
	ripc__mcast_address(id, family(p), 1, &to);
	return ripc__mcast_membership(*fd, index, &to, join);
}

/* Whether another joined group has the same address on this port. */
static bool mgid_shared(struct ripc__transport *t, const struct ib_port *p,
			const struct ib_group *g)
{
	unsigned bit = 1u << (p - t->ports);
	union ibv_gid mine = address(p, g->id), other;

	for (const struct ib_group *o = t->groups; o; o = o->hh.next) {
		if (o == g || !(o->joined & bit))
			continue;
		other = address(p, o->id);
		if (!memcmp(&mine, &other, sizeof(mine)))
			return true;
	}
	return false;
}

/* Return: 0, or a negative errno, explained. */
static int port_join(struct ripc__transport *t, struct ib_port *p, struct ib_group *g)
{
	union ibv_gid gid = address(p, g->id);
	int rc = p->mcast.qp ? 0 : ripc__ib_ud_open(p, &p->mcast, 1);

	if (rc)
		return rc;
	rc = membership(t, p, g->id, true);
	if (rc)
		return ripc__fail(rc, "ib: cannot join a multicast group on %s: %s", p->netdev,
				  strerror(-rc));
	rc = abs(ibv_attach_mcast(p->mcast.qp, &gid, 0));
	if (!rc) {
		g->joined |= 1u << (p - t->ports);
		return 0;
	}
	if (!mgid_shared(t, p, g))
		(void)membership(t, p, g->id, false);
	return ripc__fail(-rc, "ib: cannot attach %s port %u to a multicast group: %s",
			  p->d->v.name, p->num, strerror(rc));
}

static void port_leave(struct ripc__transport *t, struct ib_port *p, struct ib_group *g)
{
	union ibv_gid gid = address(p, g->id);
	unsigned bit = 1u << (p - t->ports);

	if (!(g->joined & bit))
		return;
	g->joined &= ~bit;
	if (mgid_shared(t, p, g))
		return;
	if (p->mcast.qp)
		ibv_detach_mcast(p->mcast.qp, &gid, 0);
	(void)membership(t, p, g->id, false);
}

int ripc__ib_group_join(struct ripc__transport *t, uint64_t id)
{
	struct ib_group *g = group_get(t, id);
	int rc = g ? -ENODEV : -ENOBUFS;

	if (!g)
		return rc;
	g->wanted = true;
	for (unsigned i = 0; i < t->nports; i++) {
		int err;

		if (!port_supports_mcast(&t->ports[i]))
			continue;
		err = port_join(t, &t->ports[i], g);
		if (err)
			rc = err;
	}
	if (g->joined)
		return 0;
	g->wanted = false;
	return rc == -ENODEV ? ripc__fail(rc, "ib: no port can receive multicast") : rc;
}

void ripc__ib_group_leave(struct ripc__transport *t, uint64_t id)
{
	struct ib_group *g;

	HASH_FIND(hh, t->groups, &id, sizeof(id), g);
	for (unsigned i = 0; g && i < t->nports; i++)
		port_leave(t, &t->ports[i], g);
	if (g)
		g->wanted = false;
}

void ripc__ib_mcast_detach(struct ib_port *p)
{
	struct ripc__transport *t = p->t;

	for (struct ib_group *g = t->groups; g; g = g->hh.next) {
		port_leave(t, p, g);
		ah_destroy(g, (unsigned)(p - t->ports));
	}
}

void ripc__ib_mcast_attach(struct ib_port *p)
{
	struct ripc__transport *t = p->t;

	if (!port_supports_mcast(p))
		return;
	for (struct ib_group *g = t->groups; g; g = g->hh.next) {
		if (g->wanted && port_join(t, p, g))
			ripc__log(RIPC_LOG_ERROR, "%s", ripc_error_detail());
	}
}

/* ---- receiving ---- */

unsigned ripc__ib_mcast_received(struct ib_port *p, const struct ibv_wc *wc, struct ripc__event *ev)
{
	struct ripc__verbs_buf *buf = ripc__verbs_wc_buf(wc);

	/*
	 * Any host may send to the Q_Key by unicast: drop datagrams that were not sent to a group.
	 */
	if (!ripc__ib_ud_received(&p->mcast, wc) || !(wc->wc_flags & IBV_WC_GRH) ||
	    !ripc__ib_grh_to_group(buf->data)) {
		ripc__ib_ud_again(&p->mcast, buf);
		return 0;
	}
	*ev = (struct ripc__event){
		.kind = RIPC__EV_DATAGRAM,
		.data = buf->data + IB_GRH,
		.len = wc->byte_len - IB_GRH,
	};
	ib_buf_push(&p->mcast.delivered, buf);
	return 1;
}

/* ---- sending ---- */

/* The Ethernet address follows from the IP address, so there is nothing to resolve. */
static struct ibv_ah *group_ah(struct ripc__transport *t, struct ib_group *g, struct ib_port *p)
{
	struct ibv_ah **ah = &g->ah[p - t->ports];
	struct ibv_ah_attr attr = {
		.port_num = p->num,
		.is_global = 1,
		.grh = {.dgid = address(p, g->id),
			.sgid_index = p->gid_index,
			.hop_limit = GROUP_HOPS},
	};

	if (!*ah)
		*ah = ibv_create_ah(p->d->v.pd, &attr);
	return *ah;
}

int ripc__ib_post_group(struct ripc__transport *t, uint64_t id, const struct iovec *iov,
			unsigned niov)
{
	struct ib_group *g;
	bool full = false;
	int rc = -EAGAIN;
	size_t len = ripc__iov_len(iov, niov);

	if (len > GROUP_MTU)
		return -EMSGSIZE;
	g = group_get(t, id);
	if (!g)
		return -EAGAIN;
	for (unsigned i = 0; i < t->nports; i++) {
		struct ib_port *p = &t->ports[i];
		struct ibv_ah *ah;
		int err;

		if (!port_supports_mcast(p) || p->down)
			continue;
		ah = group_ah(t, g, p);
		err = ah ? ripc__ib_port_post(p, ah, GROUP_QPN, IB_GROUP_QKEY, iov, niov, len,
					      false)
			 : -ENOTCONN;
		g->sent_upto[i] = p->sendq.tail;
		rc = err ? rc : 0;
		full |= err == -EAGAIN;
	}
	/* Members behind a full port acknowledge multicast: lanes bring them this message. */
	return full ? -EAGAIN : rc;
}

void ripc__ib_mcast_port_close(struct ib_port *p)
{
	ripc__ib_mcast_detach(p);
	if (p->mcast.qp)
		ibv_destroy_qp(p->mcast.qp);
	p->mcast = (struct ib_ud){.port = p};
}

void ripc__ib_mcast_close(struct ripc__transport *t)
{
	struct ib_group *g, *tmp;

	for (unsigned i = 0; i < t->nports; i++)
		ripc__ib_mcast_port_close(&t->ports[i]);
	HASH_ITER (hh, t->groups, g, tmp) {
		HASH_DEL(t->groups, g);
		free(g);
	}
}
