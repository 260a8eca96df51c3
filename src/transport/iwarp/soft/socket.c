/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The socket of an endpoint: epoll, options, polling. progress() polls those of endpoints that
 * received or sent recently without epoll. Endpoints without traffic for a second have no engine,
 * only the numbers that it starts with again: a post or input restores it.
 */
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int ripc__soft_watch(struct ripc__transport *t, int fd, uint64_t data)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = data};

	return epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* Adds an endpoint to epoll, or changes its events. */
static int watch(struct ripc__ep *ep, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u64 = (uintptr_t)ep};

	ep->watched = events;
	return epoll_ctl(ep->t->epoll_fd, op, ep->fd, &ev) ? -errno : 0;
}

int ripc__soft_ep_watch(struct ripc__ep *ep, uint32_t events)
{
	return watch(ep, EPOLL_CTL_ADD, events);
}

void ripc__soft_watch_for(struct ripc__ep *ep, uint32_t events)
{
	(void)watch(ep, EPOLL_CTL_MOD, events);
}

/*
 * Disables Nagle's algorithm. Unacknowledged data and keepalive probes detect a dead host. A
 * receive window that stays closed counts as dead as well, even if window probes are acknowledged:
 * such a process would not answer a PING either.
 */
void ripc__soft_tune(const struct ripc__transport *t, int fd)
{
	const int one = 1, idle_s = 15, interval_s = 5, probes = 3;
	const unsigned timeout_ms = t->peer_timeout_ms;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

uint64_t ripc__soft_tcp_progress(struct ripc__ep *ep)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(ep->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return 0;
	return info.tcpi_bytes_received + info.tcpi_bytes_acked;
}

void ripc__soft_unwatch(struct ripc__transport *t, int fd)
{
	if (fd >= 0)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void ripc__soft_drop_socket(struct ripc__ep *ep)
{
	ripc__soft_unwatch(ep->t, ep->fd);
	if (ep->fd >= 0)
		close(ep->fd);
	ep->fd = -1;
	ep->watched = 0;
}

/* ---- polling ---- */

void ripc__soft_rewatch(struct ripc__ep *ep)
{
	ep->recent_rx = 0;
	if (ep->polling != SOFT_SPINNING)
		return;
	ep->polling = SOFT_ACTIVE;
	(void)ripc__soft_ep_watch(ep, ep->watched);
}

static void make_idle(struct ripc__ep *ep)
{
	ripc__soft_rewatch(ep);
	ep->polling = SOFT_IDLE;
	if (ep->t->last_rx_ep == ep)
		ep->t->last_rx_ep = NULL;
}

void ripc__soft_ep_activate(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;
	unsigned oldest = 0;

	ep->empty_polls = 0;
	if (ep->polling != SOFT_IDLE)
		return;
	ep->polling = SOFT_ACTIVE;
	if (t->nactive < SOFT_ACTIVE_MAX) {
		t->active_ep[t->nactive++] = ep;
		return;
	}
	for (unsigned i = 1; i < SOFT_ACTIVE_MAX; i++)
		if (t->active_ep[i]->empty_polls > t->active_ep[oldest]->empty_polls)
			oldest = i;
	make_idle(t->active_ep[oldest]);
	t->active_ep[oldest] = ep;
}

void ripc__soft_ep_deactivate(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;

	if (ep->polling == SOFT_IDLE)
		return;
	make_idle(ep);
	for (unsigned i = 0; i < t->nactive; i++) {
		if (t->active_ep[i] == ep) {
			t->active_ep[i] = t->active_ep[--t->nactive];
			return;
		}
	}
}

void ripc__soft_ep_spin(struct ripc__ep *ep)
{
	ripc__soft_unwatch(ep->t, ep->fd);
	ep->polling = SOFT_SPINNING;
}

void ripc__soft_trim(struct ripc__ep *ep)
{
	if (!ep->engine || ep->state != SOFT_OPEN || ep->error || ep->rx != SOFT_RX_OPEN ||
	    ep->want_sendable || !ripc__list_empty(&ep->ready) || !ripc__list_empty(&ep->held) ||
	    !ripc__list_empty(&ep->blocked) || !ripc__engine_save(ep->engine, &ep->saved))
		return;
	ripc__soft_ep_deactivate(ep);
	free(ep->engine);
	ep->engine = NULL;
	free(ep->setup);
	ep->setup = NULL;
}

bool ripc__soft_restore(struct ripc__ep *ep)
{
	ep->engine = malloc(sizeof(*ep->engine));
	if (ep->engine)
		ripc__engine_restore(ep->engine, &ep->t->regions, &ep->t->pool, &ep->saved);
	return ep->engine;
}
