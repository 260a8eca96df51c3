/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vtable of ib: open and close, memory, progress. */
#include "transport/ib/ib.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "wire/header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TRANSPORT_ID  4               /* in resolver records, doc/protocol.md section 4 */
#define WCS           32              /* completions polled by one call */
#define DISCONNECT_NS (50 * RIPC__MS) /* time limit of close() for acknowledged DISCs */

/* ---- progress ---- */

static void repost_receives(struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->nports; i++) {
		struct ib_port *p = &t->ports[i];

		if (p->readdress)
			ripc__ib_port_readdress(p);
		if (p->ud.repost)
			ripc__ib_ud_repost(&p->ud);
		if (p->mcast.repost)
			ripc__ib_ud_repost(&p->mcast);
	}
	for (unsigned i = 0; i < t->ndevices; i++)
		for (unsigned k = 0; k < t->devices[i].nsrqs; k++)
			if (t->devices[i].srqs[k].repost)
				ripc__ib_srq_repost(&t->devices[i], &t->devices[i].srqs[k]);
}

/* Takes back buffers without a token, which the core read in the last pass. */
static void reclaim_buffers(struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->nports; i++) {
		ripc__ib_ud_reclaim(&t->ports[i].ud);
		ripc__ib_ud_reclaim(&t->ports[i].mcast);
	}
}

static unsigned poll_device(struct ib_device *d, struct ripc__event *ev, unsigned max, bool *full)
{
	struct ibv_wc wc[WCS];
	unsigned n = 0;
	int want, got;

	do {
		want = (int)MIN((max - n) / 2, WCS);
		if (!want) {
			*full = true;
			return n;
		}
		got = d->v.gone ? 0 : ripc__verbs_cq_poll(&d->cq, wc, want);
		if (got < 0) {
			ripc__ib_device_lost(d, ripc_error_detail());
			got = 0;
		}
		for (int i = 0; i < got; i++)
			n += ripc__ib_completion(d, &wc[i], ev + n);
	} while (got == want);
	if (!ripc__list_empty(&d->t->dying) || !ripc__list_empty(&d->t->event_eps))
		ripc__ib_cq_drained(d->t, d);
	return n;
}

static void ib_flush(struct ripc__transport *t)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&t->held)))
		ripc__ib_flush_held(ripc__list_entry(n, struct ripc__ep, held.link));
}

/* The earlier one of @next and the time at which a stopped queue pair is reset. */
static uint64_t when_reset(const struct ib_port *p, const struct ib_ud *u, uint64_t next)
{
	return u->stopped && !u->posted && !p->d->v.gone && u->retry_ns < next ? u->retry_ns : next;
}

static unsigned ib_progress(struct ripc__transport *t, struct ripc__event *events, unsigned max,
			    uint64_t now_ns, uint64_t *deadline_ns)
{
	bool full = false, was_armed = t->was_armed;
	uint64_t next, late;
	unsigned n = 0;

	t->now_ns = now_ns;
	t->rounds++;
	t->was_armed = false;
	reclaim_buffers(t);
	repost_receives(t);
	ib_flush(t);
	ripc__verbs_jobs_reap(&t->jobs);
	for (unsigned i = 0; i < t->ndevices; i++)
		n += poll_device(&t->devices[(t->rounds + i) % t->ndevices], events + n, max - n,
				 &full);
	/* An event other than a completion may have ended the sleep. */
	if ((was_armed && !n) || now_ns >= t->async_poll_ns)
		ripc__ib_async_events(t, was_armed && !n);
	if (t->retry_ns && now_ns >= t->retry_ns)
		ripc__ib_retry_starved(t);
	if (now_ns >= t->keepalive_ns)
		ripc__ib_keep_alive(t);
	next = ripc__ib_timers(t, now_ns);
	late = ripc__ib_uc_timers(t, now_ns);
	next = MIN(next, late);
	if (!ripc__list_empty(&t->eps))
		next = MIN(next, t->keepalive_ns);
	if (!ripc__list_empty(&t->event_eps))
		n += ripc__ib_ep_events(t, events + n, max - n);
	if (ripc__reports_pending(&t->reports))
		n += ripc__reports_take(&t->reports, events + n, max - n);
	if (t->retry_ns)
		next = MIN(next, t->retry_ns);
	if (full || !ripc__list_empty(&t->event_eps) || ripc__reports_pending(&t->reports))
		next = now_ns;
	/* A removed device is closed as soon as its connections are gone. */
	for (unsigned i = 0; i < t->ndevices; i++)
		if (t->devices[i].v.gone && t->devices[i].v.ctx)
			next = MIN(next, t->async_poll_ns);
	if (t->reopen_ns)
		next = MIN(next, t->reopen_ns);
	for (unsigned i = 0; i < t->nports; i++) {
		next = when_reset(&t->ports[i], &t->ports[i].ud, next);
		next = when_reset(&t->ports[i], &t->ports[i].mcast, next);
	}
	/* Completions wake lingering endpoints, but their deadline does not. */
	if (!ripc__list_empty(&t->dying))
		next = MIN(next, now_ns + RIPC__MS);
	*deadline_ns = MIN(*deadline_ns, next);
	return n;
}

static int ib_arm(struct ripc__transport *t)
{
	int more = 0;

	/* Posts the sends held back in this pass. */
	ib_flush(t);
	repost_receives(t);
	t->was_armed = true;
	for (unsigned i = 0; i < t->ndevices; i++) {
		struct ib_device *d = &t->devices[i];
		int rc = d->v.gone ? 0 : ripc__verbs_cq_arm(&d->cq);

		if (rc < 0)
			ripc__ib_device_lost(d, ripc_error_detail());
		more |= rc != 0;
	}
	return more || !ripc__list_empty(&t->event_eps);
}

/* ---- opening and closing ---- */

/* Lets closed connections deliver their last sends and notify their peers. */
static void send_disconnects(struct ripc__transport *t)
{
	uint64_t now = ripc__clock_ns(), until = now + DISCONNECT_NS, deadline = RIPC__NEVER;
	struct ripc__event events[16];

	while (!ripc__ib_eps_closed(t) && now < until) {
		unsigned n = ib_progress(t, events, 16, now, &deadline);

		for (unsigned i = 0; i < n; i++) {
			if (events[i].kind == RIPC__EV_REQUEST)
				ripc__ib_reject(t, events[i].request, NULL, 0);
			else if (events[i].token)
				ripc__ib_release(t, events[i].token);
		}
		now = ripc__clock_ns();
	}
}

static void close_descriptors(struct ripc__transport *t)
{
	if (t->inotify_fd >= 0)
		close(t->inotify_fd);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	for (unsigned i = 0; i < 2; i++)
		if (t->member_fd[i] >= 0)
			close(t->member_fd[i]);
}

static void ib_close(struct ripc__transport *t)
{
	if (t->nports)
		send_disconnects(t);
	ripc__verbs_jobs_fini(&t->jobs);
	ripc__ib_eps_free(t);
	ripc__ib_ah_cache_close(t);
	ripc__ib_mcast_close(t);
	ripc__ib_ports_close(t);
	close_descriptors(t);
	free(t);
}

static void set_limits(struct ripc__transport *t)
{
	const struct ripc__options *opt = t->opt;
	struct ripc__transport_limits *l = &t->limits;

	t->uc = opt->ib_qp == RIPC__IB_QP_UC;
	*l = (struct ripc__transport_limits){
		.fd = t->epoll_fd,
		.caps = RIPC__CAP_CONNECTED | RIPC__CAP_DATAGRAM | RIPC__CAP_WRITE |
			(t->uc ? 0 : RIPC__CAP_READ | RIPC__CAP_WRITE_IMM),
		.send_max = IB_SEND_MAX,
		.recv_depth = IB_RECV_DEPTH,
		.read_depth = IB_READ_DEPTH_MAX,
		.rdma_max = IB_RDMA_MAX,
		.datagram_max = UINT32_MAX,
	};
	for (unsigned i = 0; i < t->nports; i++) {
		const struct ib_port *p = &t->ports[i];
		uint32_t mtu = ripc__ib_mtu_bytes(p->port_addr.mtu);
		int depth = p->d->v.attr.max_qp_init_rd_atom;

		l->datagram_max = MIN(l->datagram_max, mtu);
		l->rdma_max = MIN(l->rdma_max, p->max_msg);
		if (depth >= 1 && (uint32_t)depth < l->read_depth)
			l->read_depth = (uint32_t)depth;
	}
	/*
	 * The setting is about sending: peers may send datagrams. The longest header does not fit
	 * into an MTU of 256 bytes.
	 */
	l->eager_datagram = opt->shorts != RIPC__SHORT_RDMA && l->datagram_max > RIPC__SHORT_FIXED;
	/* If one packet of a UC write is lost, the whole write is repeated. */
	if (t->uc && l->rdma_max > IB_UC_WRITE_MAX)
		l->rdma_max = IB_UC_WRITE_MAX;
	if (opt->multicast == RIPC__MULTICAST_ON && ripc__ib_mcast_supported(t))
		l->caps |= RIPC__CAP_MULTICAST;
}

static int ib_open(struct ripc__transport **out, const struct ripc__transport_env *env)
{
	struct ripc__transport *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return ripc__fail(-ENOMEM, "ib: out of memory");
	t->now_ns = ripc__clock_ns();
	t->next_timer_ns = RIPC__NEVER;
	ripc__list_init(&t->eps);
	ripc__list_init(&t->timed);
	ripc__list_init(&t->event_eps);
	ripc__list_init(&t->held);
	ripc__list_init(&t->dying);
	ripc__list_init(&t->late);
	ripc__list_init(&t->regions);
	t->inotify_fd = t->member_fd[0] = t->member_fd[1] = -1;
	t->opt = env->opt;
	rc = ripc__verbs_jobs_init(&t->jobs, IB_JOBS_MAX);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!rc && t->epoll_fd < 0)
		rc = ripc__fail(-errno, "ib: cannot create an epoll descriptor: %s",
				strerror(errno));
	if (!rc)
		rc = ripc__ib_watch(t, t->jobs.fd);
	if (!rc)
		rc = t->inotify_fd = ripc__verbs_files_watch();
	if (rc >= 0)
		rc = ripc__ib_watch(t, t->inotify_fd);
	if (!rc)
		rc = ripc__ib_ports_open(t);
	if (rc) {
		ib_close(t);
		return rc;
	}
	set_limits(t);
	*out = t;
	return 0;
}

/* ---- limits and addresses ---- */

static void ib_limits(struct ripc__transport *t, struct ripc__transport_limits *limits)
{
	*limits = t->limits;
}

static int ib_address(struct ripc__transport *t, uint8_t *buf, size_t cap)
{
	struct ripc__ib_port_addr ports[RIPC__IB_PORTS_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < t->nports; i++)
		if (t->ports[i].port_addr.link)
			ports[n++] = t->ports[i].port_addr;
	return n ? (int)ripc__ib_address_encode(ports, n, buf) : -ENODEV;
}

static void ib_describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	struct ripc__ib_address a;
	size_t at = 0;

	if (ripc__ib_address_decode(&a, addr, len)) {
		snprintf(text, textlen, "malformed address");
		return;
	}
	for (unsigned i = 0; i < a.count; i++) {
		char one[96];

		ripc__ib_port_addr_text(&a.port_addrs[i], one, sizeof(one));
		at = ripc__append(text, textlen, at, "%s%s", i ? ", " : "", one);
	}
}

static int ib_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		  unsigned access, struct ripc__mr *mr)
{
	if (ep && !ep->qp)
		return ripc__fail(-ENOTCONN, "ib: the connection is lost");
	return ripc__verbs_reg(&t->regions, ep ? &ep->d->v : NULL, base, len, access, mr);
}

static void ib_forked(struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->ndevices; i++) {
		ripc__verbs_cq_forked(&t->devices[i].cq);
		ripc__verbs_device_forked(&t->devices[i].v);
	}
	if (t->jobs.fd >= 0)
		close(t->jobs.fd);
	close_descriptors(t);
}

const struct ripc__transport_ops ripc__transport_ib = {
	.name = "ib",
	.id = TRANSPORT_ID,
	.open = ib_open,
	.close = ib_close,
	.limits = ib_limits,
	.address = ib_address,
	.describe = ib_describe,
	.reg = ib_reg,
	.dereg = ripc__verbs_dereg,
	.connect = ripc__ib_connect,
	.accept = ripc__ib_accept,
	.reject = ripc__ib_reject,
	.ep_close = ripc__ib_ep_close,
	.post = ripc__ib_post,
	.transfer = ripc__ib_transfer,
	.post_datagram = ripc__ib_post_datagram,
	.group_join = ripc__ib_group_join,
	.group_leave = ripc__ib_group_leave,
	.post_group = ripc__ib_post_group,
	.progress = ib_progress,
	.poll_one = ripc__ib_take,
	.release = ripc__ib_release,
	.arm = ib_arm,
	.forked = ib_forked,
};
