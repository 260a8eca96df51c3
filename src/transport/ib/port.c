/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices and ports: selection, GIDs, queue pairs, receive buffers. */
#include "base/log.h"
#include "base/text.h"
#include "transport/ib/ib.h"

#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#define GIDS_MAX 1024 /* most entries of the GID table that are read */

int ripc__ib_set_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what)
{
	int rc = ibv_modify_qp(qp, attr, mask);

	if (!rc)
		return 0;
	rc = rc < 0 ? -rc : rc;
	return ripc__fail(-rc, "%s: cannot make a queue pair %s: %s",
			  ibv_get_device_name(qp->context->device), what, strerror(rc));
}

struct ibv_qp *ripc__ib_make_qp(struct ib_device *d, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr wanted = *attr;
	struct ibv_qp *qp = ibv_create_qp(d->v.pd, attr);

	if (!qp && wanted.cap.max_inline_data) {
		*attr = wanted;
		attr->cap.max_inline_data = 0;
		errno = 0;
		qp = ibv_create_qp(d->v.pd, attr);
	}
	if (!qp)
		ripc__fail(errno ? -errno : -ENOMEM, "%s: cannot create a queue pair: %s",
			   d->v.name, strerror(errno ? errno : ENOMEM));
	return qp;
}

/* ---- receives ---- */

unsigned ripc__ib_post_bufs(struct ibv_qp *qp, struct ibv_srq *srq, struct ripc__verbs_buf **list,
			    uint32_t head, uint32_t len)
{
	struct ibv_recv_wr wr[IB_REPOST], *bad;
	struct ibv_sge sge[IB_REPOST];
	unsigned n = 0;

	while (*list && n < IB_REPOST) {
		struct ripc__verbs_buf *buf = *list;

		*list = buf->next;
		sge[n] = (struct ibv_sge){(uintptr_t)buf->data + head, len, buf->lkey};
		wr[n] = (struct ibv_recv_wr){
			.wr_id = ripc__verbs_recv_id(buf), .sg_list = &sge[n], .num_sge = 1};
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!n || !(qp ? ibv_post_recv(qp, wr, &bad) : ibv_post_srq_recv(srq, wr, &bad)))
		return n;
	n = (unsigned)(bad - wr);
	for (; bad; bad = bad->next)
		ib_buf_push(list, (struct ripc__verbs_buf *)(uintptr_t)bad->wr_id);
	return n;
}

void ripc__ib_srq_repost(struct ib_device *d, struct ib_srq *srq)
{
	while (srq->repost && !d->v.gone) {
		unsigned n =
			ripc__ib_post_bufs(NULL, srq->srq, &srq->repost, IB_RECV_HEAD, IB_SEND_MAX);

		srq->nrepost -= n;
		if (!n)
			return;
	}
}

void ripc__ib_release(struct ripc__transport *t, void *token)
{
	struct ripc__verbs_buf *buf = token;
	struct ib_device *d = &t->devices[buf->pool->device->index];

	buf->delivered = false;
	if (!buf->owner) {
		/* The device was closed in the meantime. */
		ripc__verbs_pool_put(buf);
	} else if (buf->pool == &d->dgram) {
		struct ib_ud *u = buf->owner;

		ripc__ib_ud_again(u, buf);
		u->port->ndelivered--;
		if (u->nrepost >= IB_REPOST)
			ripc__ib_ud_repost(u);
	} else {
		struct ib_srq *srq = buf->owner;

		ib_buf_push(&srq->repost, buf);
		if (++srq->nrepost >= IB_REPOST)
			ripc__ib_srq_repost(d, srq);
	}
}

static struct ib_srq *srq_new(struct ib_device *d)
{
	struct ib_srq *srq = &d->srqs[d->nsrqs];
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = IB_SRQ_SIZE, .max_sge = 1}};

	if (d->nsrqs == IB_SRQS_MAX) {
		ripc__fail(-ENOBUFS,
			   "%s: cannot accept more connections: all shared receive queues are full",
			   d->v.name);
		return NULL;
	}
	attr.attr.max_wr = MIN(attr.attr.max_wr, (uint32_t)d->v.attr.max_srq_wr);
	*srq = (struct ib_srq){.size = attr.attr.max_wr};
	/* For all: how many of them are lost is unknown. */
	if (ripc__verbs_cq_reserve(&d->cq, srq->size))
		return NULL;
	errno = 0;
	srq->srq = ibv_create_srq(d->v.pd, &attr);
	if (!srq->srq) {
		ripc__verbs_cq_unreserve(&d->cq, srq->size);
		ripc__fail(errno ? -errno : -ENOMEM, "%s: cannot create a shared receive queue: %s",
			   d->v.name, strerror(errno));
		return NULL;
	}
	d->nsrqs++;
	return srq;
}

/* Replaces receives that may be lost, as far as the queue has room for them and memory is left. */
static void srq_top_up(struct ib_device *d, struct ib_srq *srq)
{
	while (srq->lost && !srq->repost) {
		if (!d->recv.nfree && ripc__verbs_pool_reserve(&d->recv, 1))
			return;
		ib_bufs_take(&srq->repost, &d->recv, 1, srq);
		srq->nrepost++;
		srq->lost--;
		ripc__ib_srq_repost(d, srq);
	}
	/* A full queue lacks none. */
	srq->lost = srq->repost ? 0 : srq->lost;
}

/* Posts buffers for the reserved receives and for one batch of reposts. */
static int srq_fill(struct ib_device *d, struct ib_srq *srq)
{
	uint32_t want = srq->reserved + IB_REPOST;
	int rc;

	if (srq->bufs < want) {
		rc = ripc__verbs_pool_reserve(&d->recv, want - srq->bufs);
		if (rc)
			return rc;
		ib_bufs_take(&srq->repost, &d->recv, want - srq->bufs, srq);
		srq->nrepost += want - srq->bufs;
		srq->bufs = want;
	}
	ripc__ib_srq_repost(d, srq);
	srq_top_up(d, srq);
	return 0;
}

struct ib_srq *ripc__ib_srq_reserve(struct ib_device *d)
{
	struct ib_srq *srq = NULL;

	for (unsigned i = 0; i < d->nsrqs && !srq; i++)
		if (d->srqs[i].reserved + IB_RECV_DEPTH + IB_RECV_SPARE + IB_REPOST <=
		    d->srqs[i].size)
			srq = &d->srqs[i];
	if (!srq)
		srq = srq_new(d);
	if (!srq)
		return NULL;
	srq->reserved += IB_RECV_DEPTH + IB_RECV_SPARE;
	if (!srq_fill(d, srq))
		return srq;
	srq->reserved -= IB_RECV_DEPTH + IB_RECV_SPARE;
	return NULL;
}

void ripc__ib_srq_unreserve(struct ib_srq *srq, bool lost)
{
	srq->reserved -= IB_RECV_DEPTH + IB_RECV_SPARE;
	srq->lost += lost;
}

/* Creates the queue pair for datagrams. */
static int datagram_qp(struct ib_port *p)
{
	uint32_t sends = MIN(IB_DATAGRAM_SEND, (uint32_t)p->d->v.attr.max_qp_wr);
	int rc;

	rc = ripc__verbs_sendq_init(&p->sendq, sends, p->t->opt->signal_every, p);
	if (rc)
		return rc;
	if (getrandom(&p->port_addr.qkey, sizeof(uint32_t), 0) != sizeof(uint32_t))
		return ripc__fail(-EIO, "ib: cannot draw a Q_Key: getrandom() failed");
	/* Q_Keys with the top bit set are controlled. */
	p->port_addr.qkey &= 0x7fffffff;
	rc = ripc__ib_ud_open(p, &p->ud, sends);
	if (!rc)
		p->port_addr.qpn = p->ud.qp->qp_num;
	return rc;
}

bool ripc__ib_select_path(struct ripc__transport *t, const struct ripc__ib_address *a, unsigned n,
			  struct ib_port **port, const struct ripc__ib_port_addr **port_addr)
{
	for (unsigned i = 0; i < a->count; i++)
		for (unsigned k = 0; k < t->nports; k++) {
			struct ib_port *p = &t->ports[k];

			if (p->down || !ripc__ib_reachable(&p->port_addr, &a->port_addrs[i]) || n--)
				continue;
			*port = p;
			*port_addr = &a->port_addrs[i];
			return true;
		}
	return false;
}

int ripc__ib_no_path(void)
{
	return ripc__fail(-EHOSTUNREACH, "ib: no path to the peer: all ports differ in link layer "
					 "or address family, or are down");
}

/* ---- selection of ports ---- */

static uint64_t rate_mbit(const struct ibv_port_attr *a)
{
	static const struct {
		uint8_t code;
		uint32_t mbit;
	} speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
		      {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
	static const uint8_t widths[][2] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	uint64_t rate = 2500;

	for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
		if (speeds[i].code == a->active_speed)
			rate = speeds[i].mbit;
	for (unsigned i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		if (widths[i][0] == a->active_width)
			return rate * widths[i][1];
	return rate;
}

/* Rank of a GID as address of a RoCE port; 0: unusable. */
static int gid_rank(const struct ibv_gid_entry *g)
{
	int rank = g->gid_type == IBV_GID_TYPE_ROCE_V2   ? 10
		   : g->gid_type == IBV_GID_TYPE_ROCE_V1 ? 1
							 : 0;

	if (!rank)
		return 0;
	if (ripc__ib_gid_is_v4(g->gid.raw))
		return rank + 3;
	return g->gid.raw[0] == 0xfe && (g->gid.raw[1] & 0xc0) == 0x80 ? rank : rank + 2;
}

/* Chooses the GID of a RoCE port. Return: 0, or -ENODEV with why. */
static int choose_gid(struct ib_port *p, char *why, size_t whylen)
{
	const struct ripc__options *opt = p->t->opt;
	struct ibv_gid_entry *table = calloc(GIDS_MAX, sizeof(*table));
	int best = 0, rank;
	ssize_t n;

	if (!table)
		return ripc__fail(-ENOMEM, "ib: out of memory");
	n = ibv_query_gid_table(p->d->v.ctx, table, GIDS_MAX, 0);
	snprintf(why, whylen, "%s port %u: %s", p->d->v.name, p->num,
		 opt->gid_index == RIPC__GID_INDEX_AUTO
			 ? "no GID is on an interface in use; see the setting interfaces"
			 : "the GID of the setting gid_index does not exist");
	for (ssize_t i = 0; i < n; i++) {
		const struct ibv_gid_entry *g = &table[i];
		char netdev[IF_NAMESIZE] = "";

		if (g->port_num != p->num)
			continue;
		if (opt->gid_index != RIPC__GID_INDEX_AUTO && g->gid_index != opt->gid_index)
			continue;
		rank = gid_rank(g);
		if (rank <= best || g->gid_index > 255)
			continue;
		if (g->ndev_ifindex)
			if_indextoname(g->ndev_ifindex, netdev);
		if (*opt->interfaces && ripc__list_index(opt->interfaces, netdev) < 0)
			continue;
		best = rank;
		p->gid_index = (uint8_t)g->gid_index;
		memcpy(p->port_addr.gid, g->gid.raw, 16);
		memcpy(p->netdev, netdev, sizeof(p->netdev));
		p->port_addr.link =
			g->gid_type == IBV_GID_TYPE_ROCE_V2 ? RIPC__IB_LINK_V2 : RIPC__IB_LINK_V1;
	}
	free(table);
	return best ? 0 : -ENODEV;
}

/* An InfiniBand port has no GID interface, so an interface of its device must be in use. */
static bool ib_port_allowed(const struct ib_port *p)
{
	const char *names = p->t->opt->interfaces;
	bool allowed = !*names;
	char path[160];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/net", p->d->v.name);
	d = allowed ? NULL : opendir(path);
	while (d && (e = readdir(d)))
		allowed |= ripc__list_index(names, e->d_name) >= 0;
	if (d)
		closedir(d);
	return allowed;
}

int ripc__ib_port_query(struct ib_port *p, char *why, size_t whylen)
{
	struct ibv_port_attr a;
	union ibv_gid gid;

	if (ibv_query_port(p->d->v.ctx, p->num, &a))
		return ripc__reason(-EIO, why, whylen, "cannot query %s port %u", p->d->v.name,
				    p->num);
	if (a.state != IBV_PORT_ACTIVE)
		return ripc__reason(-ENETDOWN, why, whylen, "%s port %u is %s", p->d->v.name,
				    p->num, ibv_port_state_str(a.state));
	p->rate = rate_mbit(&a);
	p->max_msg = a.max_msg_sz;
	p->port_addr.mtu = (uint8_t)a.active_mtu;
	if (a.link_layer == IBV_LINK_LAYER_ETHERNET)
		return choose_gid(p, why, whylen);
	if (!ib_port_allowed(p))
		return ripc__reason(-ENODEV, why, whylen,
				    "%s belongs to no interface in use; see the setting interfaces",
				    p->d->v.name);
	p->port_addr.link = RIPC__IB_LINK_IB;
	p->port_addr.lid = a.lid;
	if (!ibv_query_gid(p->d->v.ctx, p->num, 0, &gid))
		memcpy(p->port_addr.gid, gid.raw, 16);
	return 0;
}

/* ---- opening ---- */

int ripc__ib_watch(struct ripc__transport *t, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return ripc__fail(-errno, "ib: cannot add a descriptor to epoll: %s",
				  ripc__epoll_error(errno));
	return 0;
}

static int device_queues(struct ib_device *d)
{
	int rc = ripc__verbs_cq_init(&d->cq, &d->v, IB_CQ_ENTRIES);

	if (!rc)
		rc = ripc__ib_watch(d->t, d->cq.channel->fd);
	if (!rc)
		rc = ripc__ib_watch(d->t, d->v.ctx->async_fd);
	return rc;
}

void ripc__ib_device_close(struct ib_device *d)
{
	/* Deregisters before the protection domain is destroyed. */
	ripc__verbs_pool_invalidate(&d->recv);
	ripc__verbs_pool_invalidate(&d->bounce);
	ripc__verbs_pool_invalidate(&d->dgram);
	for (unsigned i = 0; i < d->nsrqs; i++)
		if (ibv_destroy_srq(d->srqs[i].srq) && !d->v.gone)
			ripc__log(RIPC_LOG_ERROR, "%s: cannot destroy a shared receive queue: %s",
				  d->v.name, strerror(errno));
	d->nsrqs = 0;
	ripc__verbs_cq_fini(&d->cq);
	ripc__verbs_device_close(&d->v);
}

static void device_close(struct ib_device *d)
{
	ripc__ib_device_close(d);
	ripc__verbs_pool_fini(&d->recv);
	ripc__verbs_pool_fini(&d->bounce);
	ripc__verbs_pool_fini(&d->dgram);
}

/* Opens a device and its usable ports; closes it again if there is none. */
static int device_open(struct ripc__transport *t, struct ibv_device *device, char *why,
		       size_t whylen)
{
	struct ib_device *d = &t->devices[t->ndevices];
	unsigned before = t->nports;
	int rc;

	*d = (struct ib_device){.t = t};
	ripc__verbs_pool_init(&d->recv, &d->v, IB_RECV_HEAD + IB_SEND_MAX, 64, UINT32_MAX);
	ripc__verbs_pool_init(&d->bounce, &d->v, IB_SEND_MAX, 64, UINT32_MAX);
	ripc__verbs_pool_init(&d->dgram, &d->v, IB_GRH + 4096, 128, UINT32_MAX);
	rc = ripc__verbs_device_open(&d->v, device, t->ndevices);
	if (rc)
		return ripc__reason(rc, why, whylen, "%s", ripc_error_detail());
	rc = -ENODEV;
	for (unsigned i = 1; i <= d->v.attr.phys_port_cnt && t->nports < RIPC__IB_PORTS_MAX; i++) {
		struct ib_port *p = &t->ports[t->nports];
		int err;

		*p = (struct ib_port){.t = t, .d = d, .num = (uint8_t)i};
		err = ripc__ib_port_query(p, why, whylen);
		if (err)
			rc = err;
		else
			t->nports++;
	}
	if (t->nports > before) {
		rc = device_queues(d);
		if (rc)
			snprintf(why, whylen, "%s", ripc_error_detail());
		else
			t->ndevices++;
	}
	if (rc) {
		t->nports = before;
		device_close(d);
	}
	return rc;
}

static int compare_rate(const void *a, const void *b)
{
	const struct ib_port *p = a, *q = b;

	return p->rate < q->rate ? 1 : p->rate > q->rate ? -1 : p < q ? -1 : 1;
}

int ripc__ib_ports_open(struct ripc__transport *t)
{
	char why[IB_WHY_MAX] = "";
	struct ibv_device **list;
	int n, rc = 0;

	ripc__verbs_fork_safe();
	n = ripc__verbs_list(RIPC__VERBS_IB, &list, why, sizeof(why));
	if (n < 0)
		return ripc__fail(n, "%s", why);
	for (int i = 0; i < n && t->ndevices < RIPC__VERBS_DEVICES_MAX; i++) {
		int err = device_open(t, list[i], why, sizeof(why));

		if (err)
			rc = err;
	}
	ibv_free_device_list(list);
	if (!t->nports)
		return ripc__fail(rc ? rc : -ENODEV, "%s", why);
	qsort(t->ports, t->nports, sizeof(t->ports[0]), compare_rate);
	for (unsigned i = 0; i < t->nports; i++) {
		struct ib_port *p = &t->ports[i];
		char text[96];

		rc = datagram_qp(p);
		if (rc)
			return rc;
		ripc__ib_port_addr_text(&p->port_addr, text, sizeof(text));
		ripc__log(RIPC_LOG_INFO, "ib: %s port %u%s%s: %s, GID %u, MTU %u", p->d->v.name,
			  p->num, *p->netdev ? " on " : "", p->netdev, text, p->gid_index,
			  ripc__ib_mtu_bytes(p->port_addr.mtu));
	}
	return 0;
}

void ripc__ib_device_reopen(struct ib_device *d, struct ibv_device *device)
{
	struct ripc__transport *t = d->t;
	int rc = ripc__verbs_device_open(&d->v, device, d->v.index);

	if (!rc)
		rc = device_queues(d);
	if (!rc)
		rc = ripc__verbs_pool_renew(&d->recv);
	if (!rc)
		rc = ripc__verbs_pool_renew(&d->bounce);
	if (!rc)
		rc = ripc__verbs_pool_renew(&d->dgram);
	for (unsigned i = 0; i < t->nports && !rc; i++)
		if (t->ports[i].d == d)
			rc = datagram_qp(&t->ports[i]);
	if (rc) {
		ripc__log(RIPC_LOG_WARN, "ib: %s is there again, but cannot be used: %s", d->v.name,
			  ripc_error_detail());
		d->v.gone = true;
	}
}

void ripc__ib_port_close(struct ib_port *p)
{
	if (p->ud.qp)
		ibv_destroy_qp(p->ud.qp);
	p->ud = (struct ib_ud){.port = p};
	p->ndelivered = 0;
	ripc__verbs_sendq_fini(&p->sendq);
}

void ripc__ib_ports_close(struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->nports; i++)
		ripc__ib_port_close(&t->ports[i]);
	ripc__verbs_regions_fini(&t->regions);
	for (unsigned i = 0; i < t->ndevices; i++)
		device_close(&t->devices[i]);
	t->nports = t->ndevices = 0;
}
