/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vtable of iwarp/soft: open and close, memory, progress. */
#include "transport/iwarp/soft/soft.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRANSPORT_ID    3 /* in resolver records, doc/protocol.md section 4 */
#define EPOLL_EVENTS    64
#define EPOLL_EVERY     32u  /* passes between two epoll calls while endpoints are active */
#define EMPTY_POLLS_MAX 512u /* empty polls after which an endpoint becomes idle */
#define BLOCKED_RETRIES 8u   /* endpoints with a full socket that are retried in one pass */
/* Memory of the core that a peer may write: payload is received there before it is checked. */
#define GRANTED (RIPC__ACCESS_REMOTE_WRITE | RIPC__ACCESS_RESIDENT)

static void free_deferred(struct ripc__transport *t)
{
	while (!ripc__list_empty(&t->deferred_free))
		ripc__soft_ep_free(ripc__list_entry(t->deferred_free.next, struct ripc__ep, timed));
}

static void soft_close(struct ripc__transport *t)
{
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->eps, all) {
		if (ep->state != SOFT_FREED)
			ripc__soft_ep_defer_free(ep, false);
		if (ep->fd >= 0)
			ripc__soft_ep_end_linger(ep);
	}
	free_deferred(t);
	ripc__iwarp_unlisten(&t->listen, NULL);
	ripc__iwarp_listeners_fini(&t->listen);
	ripc__mcast_fini(&t->mcast);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	ripc__soft_release_round(t);
	ripc__slab_pool_fini(&t->pool);
	ripc__regions_fini(&t->regions);
	free(t);
}

static int soft_open(struct ripc__transport **out, const struct ripc__transport_env *env)
{
	struct ripc__list *lists[6];
	uint8_t secret[16] = {0};
	struct ripc__transport *t;
	int err;

	t = calloc(1, sizeof(*t));
	if (!t)
		return ripc__fail(-ENOMEM, "iwarp/soft: out of memory");
	lists[0] = &t->eps, lists[1] = &t->timed, lists[2] = &t->ready, lists[3] = &t->held;
	lists[4] = &t->blocked, lists[5] = &t->deferred_free;
	for (unsigned i = 0; i < 6; i++)
		ripc__list_init(lists[i]);
	t->crc = env->opt->crc;
	t->peer_timeout_ms = env->opt->peer_timeout_ms;
	t->multicast = env->opt->multicast == RIPC__MULTICAST_ON;
	ripc__mcast_init(&t->mcast, "iwarp/soft", env->opt);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = t->epoll_fd < 0
		      ? ripc__fail(-errno, "iwarp/soft: cannot create an epoll descriptor: %s",
				   strerror(errno))
		      : 0;
	ripc__udp_init(&t->udp, "iwarp/soft", &t->pool, 0, t->epoll_fd, SOFT_UDP,
		       1u << SOFT_SOURCE_BITS);
	t->listen = (struct ripc__iwarp_listeners){
		.ops = &ripc__soft_listen_ops,
		.t = t,
		.udp = &t->udp,
		.reports = &t->reports,
		.datagrams = env->opt->shorts == RIPC__SHORT_UDP,
		.interfaces = env->opt->interfaces,
		.changes_fd = -1,
	};
	t->now_ns = ripc__clock_ns();
	ripc__slab_pool_init(&t->pool, SOFT_SLAB_MEMORY);
	if (!err && getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		err = ripc__fail(-EIO, "iwarp/soft: cannot draw a secret: getrandom() failed");
	if (!err)
		err = ripc__iwarp_listen(&t->listen, soft_source(SOFT_NETLINK, 0));
	ripc__regions_init(&t->regions, secret);
	if (err) {
		soft_close(t);
		return err;
	}
	*out = t;
	return 0;
}

static void soft_limits(struct ripc__transport *t, struct ripc__transport_limits *limits)
{
	*limits = (struct ripc__transport_limits){
		.fd = t->epoll_fd,
		.eager_datagram = t->listen.datagrams,
		.caps = RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_WRITE |
			RIPC__CAP_POLL_CALL | RIPC__CAP_CHEAP_REG | RIPC__CAP_TARGET_PROGRESS |
			RIPC__CAP_WRITTEN | (t->listen.datagrams ? RIPC__CAP_DATAGRAM : 0) |
			(t->multicast ? RIPC__CAP_MULTICAST : 0),
		.send_max = RIPC__SEND_MAX,
		.datagram_max = t->listen.datagrams ? t->udp.max : 0,
		.recv_depth = 0,
		.read_depth = RIPC__READS_MAX,
		.rdma_max = SOFT_RDMA_MAX,
	};
}

static int soft_address(struct ripc__transport *t, uint8_t *buf, size_t cap)
{
	return ripc__iwarp_listen_address(&t->listen, buf);
}

static int soft_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		    unsigned access, struct ripc__mr *mr)
{
	struct ripc__region *region = ripc__region_add(&t->regions, base, len, access);
	bool remote = access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE);

	if (!region)
		return ripc__fail(
			-ENOMEM,
			"iwarp/soft: cannot register memory: out of memory, or limit of %u regions",
			RIPC__REGIONS_MAX);
	if (ep && (access & GRANTED) == GRANTED)
		ripc__list_add(ep->grants.next, &region->link);
	*mr = (struct ripc__mr){
		.base = base,
		.len = len,
		.addr = region->addr,
		.key = remote ? region->stag : 0,
		.access = access,
		.priv = region,
	};
	return 0;
}

/*
 * A transfer in progress cannot continue: neither may the rest of a read response be read from this
 * memory, nor bytes of a write be placed in it. Its connection is terminated.
 */
static void soft_dereg(struct ripc__transport *t, struct ripc__mr *mr)
{
	struct ripc__region *region = mr->priv;
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->eps, all) {
		if (!region->users)
			break;
		if (!soft_ep_running(ep) || !ep->engine)
			continue;
		ripc__engine_revoke(ep->engine, region);
		if (ep->engine->status)
			ripc__list_queue(&t->ready, &ep->ready);
	}
	ripc__region_remove(&t->regions, region);
	mr->priv = NULL;
	mr->key = 0;
}

static uint64_t soft_written(struct ripc__transport *t, const struct ripc__mr *mr)
{
	return ((const struct ripc__region *)mr->priv)->written;
}

static void soft_flush(struct ripc__transport *t)
{
	while (!ripc__list_empty(&t->held))
		ripc__soft_transmit(ripc__list_entry(t->held.next, struct ripc__ep, held),
				    SIZE_MAX);
}

/* Handles epoll events of an endpoint. */
static unsigned endpoint_ready(struct ripc__ep *ep, uint32_t what, struct ripc__event *events,
			       unsigned max)
{
	if (soft_ep_running(ep)) {
		if (what & EPOLLOUT)
			ripc__soft_watch_for(ep, ep->watched & ~(uint32_t)EPOLLOUT);
		return ripc__soft_serve(ep, events, max);
	}
	if (ep->state < SOFT_BROKEN)
		return ripc__soft_setup_step(ep, events);
	if (ep->fd >= 0)
		ripc__soft_ep_drain(ep);
	return 0;
}

static int soft_post_datagram(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			      const struct iovec *iov, unsigned niov)
{
	return ripc__udp_send(&t->udp, addr, addrlen, iov, niov);
}

static unsigned poll_all(struct ripc__transport *t, struct ripc__event *events, unsigned max)
{
	struct epoll_event ready[EPOLL_EVENTS];
	int count = epoll_wait(t->epoll_fd, ready, EPOLL_EVENTS, 0);
	unsigned n = 0;

	t->inactive_ready = false;
	for (int i = 0; i < count; i++) {
		uint64_t data = ready[i].data.u64;
		enum soft_source source = data & ((1u << SOFT_SOURCE_BITS) - 1);
		unsigned index = (unsigned)(data >> SOFT_SOURCE_BITS);
		struct ripc__ep *ep = source == SOFT_ENDPOINT ? (void *)(uintptr_t)data : NULL;

		if (n == max) {
			/* epoll would report it last again; the ready list serves it first. */
			if (ep && soft_ep_running(ep))
				ripc__list_queue(&t->ready, &ep->ready);
			continue;
		}
		switch (source) {
		case SOFT_ENDPOINT:
			t->inactive_ready |= ep->polling == SOFT_IDLE;
			n += endpoint_ready(ep, ready[i].events, events + n, max - n);
			break;
		case SOFT_TCP_LISTENER:
			ripc__soft_accept(t, &t->listen.l[index]);
			break;
		case SOFT_UDP:
			n += ripc__udp_receive_events(&t->udp, index, events + n, max - n);
			break;
		case SOFT_NETLINK:
			soft_timer(t, ripc__iwarp_addrs_changed(&t->listen, t->now_ns));
			break;
		case SOFT_MCAST:
			n += ripc__soft_groups(t, t->mcast.rx_fd[index], events + n, max - n);
			break;
		}
	}
	return n;
}

static unsigned poll_active(struct ripc__transport *t, struct ripc__event *events, unsigned max)
{
	unsigned n = 0;

	/* The last one takes the slot of an endpoint that becomes idle. */
	for (unsigned i = t->nactive; i-- && n < max;) {
		struct ripc__ep *ep = t->active_ep[i];

		if (ep->empty_polls > EMPTY_POLLS_MAX)
			ripc__soft_ep_deactivate(ep);
		else
			n += ripc__soft_serve(ep, events + n, max - n);
	}
	return t->listen.datagrams ? n + ripc__udp_poll(&t->udp, events + n, max - n) : n;
}

/* Serves each endpoint in the ready list once; it may be queued again. */
static unsigned serve_ready(struct ripc__transport *t, struct ripc__event *events, unsigned max)
{
	struct ripc__list mark;
	unsigned n = 0;

	ripc__list_init(&mark);
	ripc__list_queue(&t->ready, &mark);
	while (t->ready.next != &mark && n < max)
		n += ripc__soft_serve(ripc__list_entry(t->ready.next, struct ripc__ep, ready),
				      events + n, max - n);
	ripc__list_del(&mark);
	return n;
}

static void retry_blocked(struct ripc__transport *t)
{
	/* An endpoint that stays blocked is moved to the end of the list. */
	struct ripc__list *last = t->blocked.prev, *l = NULL;

	for (unsigned i = 0; i < BLOCKED_RETRIES && !ripc__list_empty(&t->blocked) && l != last;
	     i++) {
		struct ripc__ep *ep;

		l = t->blocked.next;
		ep = ripc__list_entry(l, struct ripc__ep, blocked);
		ripc__list_del(l);
		if (ep->polling != SOFT_IDLE)
			ripc__soft_transmit(ep, 1u << 20);
		else
			ripc__list_queue(&t->ready, &ep->ready);
		if (ep->want_sendable || ripc__engine_unparsed(ep->engine))
			ripc__list_queue(&t->ready, &ep->ready);
	}
}

/* Whether a time, if it is not 0, has come. */
static bool due(struct ripc__transport *t, uint64_t when_ns)
{
	if (when_ns > t->now_ns)
		soft_timer(t, when_ns);
	return when_ns && when_ns <= t->now_ns;
}

static void timers(struct ripc__transport *t)
{
	t->next_timer_ns = RIPC__NEVER;
	ripc__soft_ep_timers(t);
	if (due(t, t->accept_resume_ns))
		ripc__soft_resume_accept(t);
	soft_timer(t, ripc__iwarp_rescan(&t->listen, t->now_ns));
	/* No slab may be released: the core may hold none. */
	if (due(t, t->starved_retry_ns))
		ripc__soft_resume_starved(t);
}

static unsigned soft_progress(struct ripc__transport *t, struct ripc__event *events, unsigned max,
			      uint64_t now_ns, uint64_t *deadline_ns)
{
	unsigned n = 0;
	uint64_t next;
	bool idle_polled;

	t->now_ns = now_ns;
	t->rounds++;
	t->polls++;
	t->udp.rx.n = 0;
	if (t->nheld_slabs)
		ripc__soft_release_round(t);
	free_deferred(t);
	soft_flush(t);
	retry_blocked(t);
	/*
	 * Idle endpoints come first every EPOLL_EVERY passes, so that active ones that always fill
	 * the array do not starve them. While idle ones have input, they are polled as often as
	 * active ones.
	 */
	idle_polled = t->inactive_ready || t->rounds % EPOLL_EVERY == 0;
	if (idle_polled)
		n += poll_all(t, events, max);
	if (!ripc__list_empty(&t->ready))
		n += serve_ready(t, events + n, max - n);
	n += poll_active(t, events + n, max - n);
	if (n < max && !t->nactive && !idle_polled)
		n += poll_all(t, events + n, max - n);
	if (now_ns >= t->next_timer_ns)
		timers(t);
	next = t->next_timer_ns;
	if (ripc__reports_pending(&t->reports))
		n += ripc__reports_take(&t->reports, events + n, max - n);
	if (!ripc__list_empty(&t->ready) || ripc__reports_pending(&t->reports))
		next = now_ns;
	*deadline_ns = MIN(*deadline_ns, next);
	return n;
}

static bool soft_receiving(struct ripc__transport *t)
{
	bool receiving = t->receiving;

	t->receiving = false;
	return receiving;
}

static bool soft_take(struct ripc__transport *t, void *room, size_t cap, struct ripc__event *ev)
{
	t->polls++;
	if (t->listen.datagrams)
		return ripc__udp_poll_one(&t->udp, ev);
	if (!t->last_rx_ep || t->last_rx_ep->state != SOFT_OPEN ||
	    !ripc__soft_serve(t->last_rx_ep, ev, 1))
		return false;
	/* A small message is copied: its slab can be used again at once. */
	if (ev->kind == RIPC__EV_RECV && ev->len <= cap && ev->token) {
		memcpy(room, ev->data, ev->len);
		ev->data = room;
		ripc__slab_put(ev->token);
		ev->token = NULL;
	}
	return true;
}

static void soft_release(struct ripc__transport *t, void *token)
{
	ripc__slab_put(token);
	if (t->starved_retry_ns)
		ripc__soft_resume_starved(t);
}

static int soft_arm(struct ripc__transport *t)
{
	struct ripc__ep *ep;

	soft_flush(t);
	if (!ripc__list_empty(&t->ready) || ripc__reports_pending(&t->reports) ||
	    ripc__udp_arm(&t->udp))
		return 1;
	for (unsigned i = 0; i < t->nactive; i++) {
		ep = t->active_ep[i];
		ripc__soft_rewatch(ep);
		/* All is sent: EPOLLOUT would end each sleep at once. */
		if ((ep->watched & EPOLLOUT) && ripc__list_empty(&ep->blocked))
			ripc__soft_watch_for(ep, ep->watched & ~(uint32_t)EPOLLOUT);
	}
	ripc__list_for_each_entry (ep, &t->blocked, blocked)
		if (!(ep->watched & EPOLLOUT))
			ripc__soft_watch_for(ep, ep->watched | EPOLLOUT);
	return 0;
}

static void soft_forked(struct ripc__transport *t)
{
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->fd >= 0)
			close(ep->fd);
	for (unsigned i = 0; i < t->listen.n; i++)
		if (t->listen.l[i].open)
			close(t->listen.l[i].tcp);
	ripc__iwarp_listeners_fini(&t->listen);
	ripc__mcast_forked(&t->mcast);
	close(t->epoll_fd);
}

const struct ripc__transport_ops ripc__transport_soft = {
	.name = "iwarp/soft",
	.id = TRANSPORT_ID,
	.compat_id = 5,
	.open = soft_open,
	.close = soft_close,
	.limits = soft_limits,
	.address = soft_address,
	.describe = ripc__iwarp_address_describe,
	.reg = soft_reg,
	.dereg = soft_dereg,
	.written = soft_written,
	.connect = ripc__soft_connect,
	.accept = ripc__soft_admit,
	.reject = ripc__soft_reject,
	.ep_close = ripc__soft_ep_close,
	.trim = ripc__soft_trim,
	.post = ripc__soft_post,
	.transfer = ripc__soft_transfer,
	.bytes_transferred = ripc__soft_tcp_progress,
	.post_datagram = soft_post_datagram,
	.group_join = ripc__soft_group_join,
	.group_leave = ripc__soft_group_leave,
	.post_group = ripc__soft_post_group,
	.progress = soft_progress,
	.receiving = soft_receiving,
	.poll_one = soft_take,
	.release = soft_release,
	.arm = soft_arm,
	.forked = soft_forked,
};
