/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vtable of iwarp/verbs: open and close, memory, progress. */
#include "transport/iwarp/verbs/verbs.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRANSPORT_ID     5 /* in resolver records, doc/protocol.md section 4 */
#define EPOLL_EVENTS     32
#define WCS              16
#define EPOLL_EVERY      32u  /* passes between two epoll calls while completions arrive */
#define EMPTY_ROUNDS_MAX 512u /* passes without a completion after which each pass calls epoll */
/* bytes of received datagrams held by the core at most */
#define SLAB_MEMORY (UINT64_C(64) << 20)
#define RESCAN_NS   (1000 * RIPC__MS) /* after a change of device files: its address comes later */

/*
 * Set in a child of fork() whose parent used librdmacm. librdmacm keeps one context per device for
 * the whole process; the child has closed its descriptors, whose numbers may be reused.
 */
static volatile sig_atomic_t orphan;

static void free_deferred(struct ripc__transport *t)
{
	ripc__list_free(&t->deferred_free, struct ripc__ep, link);
}

static void vt_close(struct ripc__transport *t)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&t->eps)))
		ripc__iwv_ep_free(ripc__list_entry(n, struct ripc__ep, link));
	free_deferred(t);
	while ((n = ripc__list_first(&t->conns)))
		ripc__iwv_conn_release(ripc__list_entry(n, struct iwv_conn, link));
	/* The completion queues are not polled any more. */
	t->rounds++;
	ripc__iwv_conns_reap(t);
	ripc__verbs_regions_fini(&t->regions);
	ripc__iwv_nics_close(t);
	if (t->channel)
		rdma_destroy_event_channel(t->channel);
	ripc__iwarp_listeners_fini(&t->listen);
	if (t->devices_fd >= 0)
		close(t->devices_fd);
	ripc__slab_pool_fini(&t->slabs);
	ripc__verbs_jobs_fini(&t->jobs);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	free(t);
}

static int open_channel(struct ripc__transport *t)
{
	int rc;

	t->channel = rdma_create_event_channel();
	if (!t->channel)
		return ripc__fail(errno ? -errno : -ENODEV,
				  "iwarp/verbs: cannot open the connection manager: %s; load the "
				  "module rdma_ucm and check /dev/infiniband/rdma_cm",
				  strerror(errno));
	rc = ripc__verbs_nonblocking(t->channel->fd, "iwarp/verbs", "the event channel");
	return rc ? rc : iwv_watch(t, t->channel->fd, IWV_CM, 0);
}

static int vt_open(struct ripc__transport **out, const struct ripc__transport_env *env)
{
	struct ripc__transport *t;
	char why[256];
	int rc;

	if (orphan)
		return ripc__fail(-EOWNERDEAD,
				  "iwarp/verbs: librdmacm cannot be used in the forked "
				  "child of a process that was using it");
	rc = ripc__verbs_probe(RIPC__VERBS_IWARP, why, sizeof(why));
	if (rc)
		return ripc__fail(rc, "iwarp/verbs: %s", why);
	t = calloc(1, sizeof(*t));
	if (!t)
		return ripc__fail(-ENOMEM, "iwarp/verbs: out of memory");
	ripc__list_init(&t->conns);
	ripc__list_init(&t->destroyed);
	ripc__list_init(&t->held);
	ripc__list_init(&t->eps);
	ripc__list_init(&t->deferred_free);
	ripc__list_init(&t->regions);
	ripc__slab_pool_init(&t->slabs, SLAB_MEMORY);
	t->opt = env->opt;
	t->listen = (struct ripc__iwarp_listeners){
		.ops = &ripc__iwv_listen_ops,
		.t = t,
		.udp = &t->udp,
		.reports = &t->reports,
		.datagrams = env->opt->shorts == RIPC__SHORT_UDP,
		.interfaces = t->opt->interfaces,
		.changes_fd = -1,
	};
	/* Without it a device that comes back is used after the next change of an address. */
	t->devices_fd = ripc__verbs_files_watch();
	t->read_depth = CONN_READS_MAX;
	t->next_timer_ns = RIPC__NEVER;
	t->now_ns = ripc__clock_ns();
	t->rounds = EMPTY_ROUNDS_MAX + 1;
	rc = ripc__verbs_jobs_init(&t->jobs, UINT_MAX);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!rc && t->epoll_fd < 0)
		rc = ripc__fail(-errno, "iwarp/verbs: cannot create an epoll descriptor: %s",
				strerror(errno));
	ripc__udp_init(&t->udp, "iwarp/verbs", &t->slabs, TOKEN_SLAB, t->epoll_fd, IWV_UDP,
		       1u << 8);
	if (!rc)
		rc = iwv_watch(t, t->jobs.fd, IWV_CONNECT_DONE, 0);
	if (!rc)
		rc = open_channel(t);
	if (!rc && t->devices_fd >= 0)
		(void)iwv_watch(t, t->devices_fd, IWV_DEVICES, 0);
	if (!rc)
		rc = ripc__iwarp_listen(&t->listen, IWV_ADDR_CHANGES);
	if (rc) {
		vt_close(t);
		return rc;
	}
	if (!t->read_depth)
		t->read_depth = 1;
	*out = t;
	return 0;
}

static void vt_limits(struct ripc__transport *t, struct ripc__transport_limits *limits)
{
	*limits = (struct ripc__transport_limits){
		.fd = t->epoll_fd,
		.caps = RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_WRITE |
			(t->listen.datagrams ? RIPC__CAP_DATAGRAM | RIPC__CAP_POLL_CALL : 0) |
			(t->sink_writable ? RIPC__CAP_SINK_WRITABLE : 0),
		.send_max = CONN_SEND_MAX,
		.datagram_max = t->listen.datagrams ? t->udp.max : 0,
		.recv_depth = CONN_RECV_DEPTH,
		.read_depth = t->read_depth,
		.rdma_max = CONN_RDMA_MAX,
		.eager_datagram = t->listen.datagrams,
	};
}

static int vt_address(struct ripc__transport *t, uint8_t *buf, size_t cap)
{
	return ripc__iwarp_listen_address(&t->listen, buf);
}

static int vt_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		  unsigned access, struct ripc__mr *mr)
{
	if (ep && (!ep->conn || !ep->conn->nic || iwv_ep_lost(ep)))
		return ripc__fail(-ENOTCONN, "iwarp/verbs: the connection is lost");
	return ripc__verbs_reg(&t->regions, ep ? &ep->conn->nic->dev : NULL, base, len, access, mr);
}

static int vt_post_datagram(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			    const struct iovec *iov, unsigned niov)
{
	return ripc__udp_send(&t->udp, addr, addrlen, iov, niov);
}

static void vt_flush(struct ripc__transport *t)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&t->held)))
		ripc__iwv_flush_held(ripc__list_entry(n, struct iwv_conn, held.link));
}

/* Polls all descriptors except completion channels. */
static unsigned full_pass(struct ripc__transport *t, struct ripc__event *events, unsigned max)
{
	struct epoll_event ready[EPOLL_EVENTS];
	int count = epoll_wait(t->epoll_fd, ready, EPOLL_EVENTS, 0);
	unsigned n = 0;

	for (int i = 0; i < count && n < max; i++) {
		unsigned index = (unsigned)(ready[i].data.u64 >> 8);

		switch ((enum iwv_source)(ready[i].data.u64 & 0xff)) {
		case IWV_CM:
			n += ripc__iwv_cm(t, events + n, max - n);
			break;
		case IWV_UDP:
			n += ripc__udp_receive_events(&t->udp, index, events + n, max - n);
			break;
		case IWV_CONNECT_DONE:
			ripc__verbs_jobs_reap(&t->jobs);
			break;
		case IWV_ADDR_CHANGES:
			iwv_timer(t, ripc__iwarp_addrs_changed(&t->listen, t->now_ns));
			break;
		case IWV_DEVICES:
			(void)ripc__verbs_files_changed(t->devices_fd);
			iwv_timer(t, ripc__iwarp_scan_at(&t->listen, t->now_ns + RESCAN_NS));
			break;
		case IWV_CQ:
			break;
		}
	}
	return n;
}

/* The queue failed, and the device waits for its connections to end. */
static bool cq_lost(const struct iwv_device *nic, unsigned k)
{
	return nic->dev.gone && nic->cq[k].state == RIPC__CQ_BROKEN;
}

/* Polls all completion queues. *empty: each was found empty. */
static unsigned reap(struct ripc__transport *t, struct ripc__event *events, unsigned max,
		     bool *empty)
{
	struct ibv_wc wc[WCS];
	unsigned n = 0;

	*empty = true;
	for (unsigned i = 0; i < t->nnics; i++) {
		struct iwv_device *nic = t->nic[i];

		for (unsigned k = 0; nic->dev.ctx && k < nic->ncqs; k++) {
			int got = WCS, want = WCS;

			if (cq_lost(nic, k))
				continue;
			while (got == want) {
				/* A completion yields two events at most. */
				want = (int)((max - n) / 2 < WCS ? (max - n) / 2 : WCS);
				if (!want) {
					*empty = false;
					return n;
				}
				got = ripc__verbs_cq_poll(&nic->cq[k], wc, want);
				if (got < 0)
					ripc__iwv_device_lost(nic, ripc_error_detail());
				if (got > 0) {
					t->last_wc_round = t->rounds;
					t->active = &nic->cq[k];
				}
				for (int j = 0; j < got; j++)
					n += ripc__iwv_completion(&wc[j], events + n);
			}
		}
	}
	return n;
}

/* Whether a deadline is over. */
static bool due(struct ripc__transport *t, uint64_t deadline_ns)
{
	if (deadline_ns > t->now_ns)
		iwv_timer(t, deadline_ns);
	return deadline_ns && deadline_ns <= t->now_ns;
}

static void timers(struct ripc__transport *t)
{
	struct ripc__ep *ep, *next_ep;
	struct iwv_conn *conn, *next_conn;

	ripc__iwv_stale_close(t);
	t->next_timer_ns = t->stale ? t->stale_ns : RIPC__NEVER;
	iwv_timer(t, ripc__iwarp_rescan(&t->listen, t->now_ns));
	ripc__list_for_each_entry_safe (ep, next_ep, &t->eps, link)
		if (due(t, ep->deadline_ns))
			ripc__iwv_ep_failed(ep, -EHOSTUNREACH, "no answer");
	ripc__list_for_each_entry_safe (conn, next_conn, &t->conns, link)
		if (due(t, conn->deadline_ns))
			ripc__iwv_conn_release(conn);
}

static bool busy(const struct ripc__transport *t)
{
	return t->full_pass || t->nbroken || ripc__reports_pending(&t->reports) ||
	       !ripc__list_empty(&t->destroyed);
}

static unsigned vt_progress(struct ripc__transport *t, struct ripc__event *events, unsigned max,
			    uint64_t now_ns, uint64_t *deadline_ns)
{
	bool was_armed = t->was_armed, empty = false;
	unsigned n = 0;

	t->now_ns = now_ns;
	t->rounds++;
	t->udp.rx.n = 0;
	free_deferred(t);
	vt_flush(t);
	if (t->listen.datagrams)
		n += ripc__udp_poll(&t->udp, events, max);
	if (n)
		t->last_wc_round = t->rounds;
	/* Most sleeps end with a completion: epoll, a system call, would delay the answer. */
	t->was_armed = false;
	if (was_armed)
		n += reap(t, events + n, max - n, &empty);
	/*
	 * While completions arrive, epoll is called rarely. Deadlines are checked in time.
	 */
	if (t->full_pass || now_ns >= t->next_timer_ns || (was_armed && !n) ||
	    t->rounds - t->last_wc_round > EMPTY_ROUNDS_MAX || t->rounds % EPOLL_EVERY == 0) {
		t->full_pass = false;
		n += full_pass(t, events + n, max - n);
	}
	n += reap(t, events + n, max - n, &empty);
	if (empty) {
		/* Messages received before the end have been reported already. */
		if (t->nbroken || t->nstalled)
			n += ripc__iwv_ep_events(t, events + n, max - n);
		ripc__iwv_conns_reap(t);
		for (unsigned i = 0; i < t->nnics; i++)
			ripc__iwv_device_free(t->nic[i]);
	}
	if (now_ns >= t->next_timer_ns)
		timers(t);
	if (ripc__reports_pending(&t->reports))
		n += ripc__reports_take(&t->reports, events + n, max - n);
	*deadline_ns = MIN(*deadline_ns, t->next_timer_ns);
	if (busy(t))
		*deadline_ns = now_ns;
	return n;
}

/* Whether a completion may yield two events: EV_ESTABLISHED before EV_RECV. */
static bool opens(const struct ibv_wc *wc)
{
	const struct iwv_conn *conn = wc->wr_id & 1 ? NULL : ripc__verbs_wc_buf(wc)->owner;

	return conn && conn->state == IWV_ACCEPTED;
}

static bool vt_take(struct ripc__transport *t, void *room, size_t cap, struct ripc__event *ev)
{
	struct ripc__event two[2];
	struct ibv_wc wc;

	if (t->listen.datagrams)
		return ripc__udp_poll_one(&t->udp, ev);
	if (!t->active || !ripc__verbs_cq_poll_one(t->active, &wc))
		return false;
	t->last_wc_round = t->rounds;
	if (opens(&wc)) {
		ripc__verbs_cq_push_back(t->active, &wc);
		return false;
	}
	if (!ripc__iwv_completion(&wc, two))
		return false;
	*ev = two[0];
	/* A small message is copied, and its buffer is posted again at once. */
	if (ev->token && ev->len <= cap) {
		memcpy(room, ev->data, ev->len);
		ev->data = room;
		ripc__iwv_release(t, ev->token);
		ev->token = NULL;
	}
	return true;
}

static int vt_arm(struct ripc__transport *t)
{
	vt_flush(t);
	if (busy(t))
		return 1;
	for (unsigned i = 0; i < t->nnics; i++) {
		struct iwv_device *nic = t->nic[i];

		for (unsigned k = 0; nic->dev.ctx && k < nic->ncqs; k++)
			if (!cq_lost(nic, k) && ripc__verbs_cq_arm(&nic->cq[k]))
				return 1;
	}
	if (ripc__udp_arm(&t->udp))
		return 1;
	t->was_armed = true;
	return 0;
}

static void vt_forked(struct ripc__transport *t)
{
	orphan = 1;
	for (unsigned i = 0; i < t->nnics; i++) {
		struct iwv_device *nic = t->nic[i];

		for (unsigned k = 0; k < nic->ncqs; k++)
			ripc__verbs_cq_forked(&nic->cq[k]);
		ripc__verbs_device_forked(&nic->dev);
	}
	close(t->channel->fd);
	ripc__iwarp_listeners_fini(&t->listen);
	close(t->devices_fd);
	close(t->jobs.fd);
	close(t->epoll_fd);
}

const struct ripc__transport_ops ripc__transport_iwarp = {
	.name = "iwarp/verbs",
	.id = TRANSPORT_ID,
	.compat_id = 3,
	.open = vt_open,
	.close = vt_close,
	.limits = vt_limits,
	.address = vt_address,
	.describe = ripc__iwarp_address_describe,
	.reg = vt_reg,
	.dereg = ripc__verbs_dereg,
	.connect = ripc__iwv_connect,
	.accept = ripc__iwv_accept,
	.reject = ripc__iwv_reject,
	.ep_close = ripc__iwv_ep_close,
	.post = ripc__iwv_post,
	.transfer = ripc__iwv_transfer,
	.post_datagram = vt_post_datagram,
	.progress = vt_progress,
	.poll_one = vt_take,
	.release = ripc__iwv_release,
	.arm = vt_arm,
	.forked = vt_forked,
};
