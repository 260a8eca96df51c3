/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Common functions of the sockets: epoll, options, state. */
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
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
