/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sockets that others reach us by: one per IP address of the allowed interfaces, on ports the kernel chooses. Addresses come and
 * go, and a program may start before its network: the kernel tells, and the new ones are listened at. They are those of the
 * network namespace of the thread that makes progress then: one that has left the context's for another must not be it.
 */
#define _GNU_SOURCE /* accept4 */

#include "base/admission.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKLOG         1024 /* a SYN that is dropped comes again after a second */
#define ACCEPTS_A_ROUND 16   /* connections accepted in one progress() at most */
#define DEAF_MS \
	20 /* pause of the listeners when descriptors ran out: idle lanes give way meanwhile */
#define DEAF_LOG_MS 1000
#define LOOK_EVERY_MS \
	1000              /* between two looks at the addresses, at least: there may be thousands */
#define RELOOK_MS     200 /* after a look for which descriptors or memory ran out */
#define LOOPBACKS_MAX 2   /* addresses of the loopback used: 127.0.0.1 and ::1 */

/* The kernel has not enough of something at present. */
static bool is_fd_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS ||
	       err == -ENOSPC;
}

/* @source: what events are to name, where @port will be. */
static int open_tcp(struct soft *t, struct soft_port *port, const union ripc__sockaddr *ip,
		    struct soft_port *source)
{
	socklen_t len = sizeof(port->addr);
	int err, one = 1;

	port->addr = *ip;
	ripc__sockaddr_set_port(&port->addr, 0);
	port->fd = socket(ip->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (port->fd < 0)
		return -errno;
	if (ip->sa.sa_family == AF_INET6)
		setsockopt(port->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(port->fd, &port->addr.sa, ripc__sockaddr_len(&port->addr)) ||
	    listen(port->fd, BACKLOG) || getsockname(port->fd, &port->addr.sa, &len))
		err = -errno;
	else
		err = ripc__soft_watch(t, port->fd, EPOLLIN, source);
	if (err) {
		close(port->fd);
		port->fd = -1;
	}
	return err;
}

/* @mtu: of the interface, 0: it sets no limit. @source: see open_tcp(). */
static int open_udp(struct soft *t, struct soft_port *port, const union ripc__sockaddr *ip,
		    uint32_t mtu, struct soft_port *source)
{
	int index = ripc__udp_open(&t->udp, ip, mtu), err;

	if (index < 0)
		return index;
	port->udp = (unsigned)index;
	port->addr = t->udp.port[index].addr;
	port->fd = t->udp.port[index].fd;
	err = ripc__soft_watch(t, port->fd, EPOLLIN, source);
	if (err) {
		ripc__udp_port_close(&t->udp, port->udp);
		port->fd = -1;
	}
	return err;
}

/* A place for another listener, of @most: a free one, or that of an address that is gone. */
static struct soft_listener *free_listener(struct soft *t, unsigned most)
{
	if (t->nlisteners < most)
		return &t->listeners[t->nlisteners];
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (t->listeners[i].gone)
			return &t->listeners[i];
	return NULL;
}

static void close_listener(struct soft *t, struct soft_listener *l)
{
	ripc__soft_unwatch(t, l->tcp.fd);
	close(l->tcp.fd);
	if (l->udp.fd < 0)
		return;
	ripc__soft_unwatch(t, l->udp.fd);
	ripc__udp_port_close(&t->udp, l->udp.udp);
	if (t->last_rx_port == &l->udp)
		t->last_rx_port = NULL;
}

/* @mtu: see open_udp(). Should it fail, who was at this place stays there. */
static int add_listener(struct soft *t, struct soft_listener *l, const union ripc__sockaddr *ip,
			uint32_t mtu)
{
	struct soft_listener fresh = {
		.tcp = {.source = SOFT_TCP_LISTENER, .fd = -1},
		.udp = {.source = SOFT_UDP, .fd = -1},
		.loopback = ripc__sockaddr_is_loopback(ip),
	};
	int err = open_tcp(t, &fresh.tcp, ip, &l->tcp);

	if (!err && t->datagrams) {
		err = open_udp(t, &fresh.udp, ip, mtu, &l->udp);
		if (err) {
			ripc__soft_unwatch(t, fresh.tcp.fd);
			close(fresh.tcp.fd);
		}
	}
	if (err)
		return err;
	if (l == &t->listeners[t->nlisteners])
		t->nlisteners++;
	else
		close_listener(t, l);
	*l = fresh;
	return 0;
}

static bool has_listener(const struct soft *t, const union ripc__sockaddr *ip)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (ripc__sockaddr_same_ip(&t->listeners[i].tcp.addr, ip))
			return true;
	return false;
}

/* Whether an address of an interface is one to listen at in this pass (loopback or not). */
static bool wanted(const struct ifaddrs *i, const char *names, bool loopback, union ripc__sockaddr *ip)
{
	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	if (names[0] && ripc__list_index(names, i->ifa_name) < 0)
		return false;
	memset(ip, 0, sizeof(*ip));
	if (i->ifa_addr->sa_family == AF_INET)
		memcpy(&ip->in, i->ifa_addr, sizeof(ip->in));
	else if (i->ifa_addr->sa_family == AF_INET6)
		memcpy(&ip->in6, i->ifa_addr, sizeof(ip->in6));
	else
		return false;
	if (ip->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&ip->in6.sin6_addr))
		return false;
	return ripc__sockaddr_is_loopback(ip) == loopback;
}

/* Told once: where so many come, this is how it is. */
static void addr_overflow(struct soft *t, const union ripc__sockaddr *ip)
{
	union ripc__sockaddr bare = *ip;
	char text[64];

	if (t->addr_overflow)
		return;
	t->addr_overflow = true;
	ripc__sockaddr_set_port(&bare, 0);
	ripc__sockaddr_text(&bare, text, sizeof(text));
	ripc__log(RIPC_LOG_WARN,
		  "iwarp/soft: does not listen at %s: there are more addresses than the %u it can "
		  "tell "
		  "others of; the setting interfaces= says which count",
		  text, RIPC__IWARP_ADDRS_MAX - LOOPBACKS_MAX);
}

/*
 * Listens at addresses that are new. @first: the context is being opened. Return: why the last one that failed did so, -ENODEV:
 * none did.
 */
static int add_listeners(struct soft *t, struct ifaddrs *all, bool first)
{
	int err = -ENODEV;

	for (int loopback = 0; loopback < 2; loopback++) {
		unsigned most =
			loopback ? RIPC__IWARP_ADDRS_MAX : RIPC__IWARP_ADDRS_MAX - LOOPBACKS_MAX;

		for (struct ifaddrs *i = all; i; i = i->ifa_next) {
			struct soft_listener *l;
			union ripc__sockaddr ip;
			uint32_t mtu = 0;
			int e;

			if (!wanted(i, t->interfaces, loopback, &ip) || has_listener(t, &ip))
				continue;
			l = free_listener(t, most);
			if (!l) {
				/* Of the loopback's one is as good as all. */
				if (!loopback)
					addr_overflow(t, &ip);
				break;
			}
			/* The core has asked already how long a datagram may be: that of a later interface may be cut in pieces. */
			if (t->datagrams && first && !loopback)
				mtu = ripc__udp_mtu(i->ifa_name);
			e = add_listener(t, l, &ip, mtu);
			t->addrs_changed |= !e && !first;
			err = e ? e : err;
			if (is_fd_shortage(e))
				return e;
		}
	}
	return err;
}

/* Return: 0, or a negative errno: only that there are no descriptors or no memory is a reason to do without us. */
static int open_changes(struct soft *t)
{
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK,
				 .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int err = 0;

	t->changes.source = SOFT_NETLINK;
	t->changes.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (t->changes.fd < 0)
		err = -errno;
	else if (bind(t->changes.fd, (struct sockaddr *)&nl, sizeof(nl)))
		err = -errno;
	else
		err = ripc__soft_watch(t, t->changes.fd, EPOLLIN, &t->changes);
	if (!err)
		return 0;
	if (t->changes.fd >= 0)
		close(t->changes.fd);
	t->changes.fd = -1;
	if (is_fd_shortage(err))
		return err;
	ripc__log(RIPC_LOG_INFO, "iwarp/soft: addresses that come later will not be used: %s",
		  strerror(-err));
	return 0;
}

/* Whether the program was started before its network. "lo" is what Linux calls the loopback, and it stays what it is. */
static bool rescan_later(const struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (!t->listeners[i].loopback)
			return false;
	return t->changes.fd >= 0 && strcmp(t->interfaces, "lo");
}

int ripc__soft_listen(struct soft *t)
{
	struct ifaddrs *all;
	int err;

	t->udp_conn = (struct soft_port){.source = SOFT_UDP, .fd = -1, .udp = RIPC__UDP_CONN};
	ripc__udp_conn_enable(&t->udp, t->epoll_fd, (uintptr_t)&t->udp_conn);
	/* Before the list is made: what comes after it is told. */
	err = open_changes(t);
	if (err)
		return ripc__fail(err, "iwarp/soft: no descriptor for changes of addresses: %s",
				  strerror(-err));
	if (getifaddrs(&all))
		return ripc__fail(-errno, "iwarp/soft: cannot list the network interfaces: %s",
				  strerror(errno));
	err = add_listeners(t, all, true);
	freeifaddrs(all);
	if (is_fd_shortage(err))
		return ripc__fail(err, "iwarp/soft: cannot listen: %s", strerror(-err));
	/* How long a datagram may be is asked once, when nobody knows yet what the network carries. */
	if (rescan_later(t))
		ripc__udp_limit_mtu(&t->udp, RIPC__UDP_MTU_MIN);
	if (t->nlisteners)
		return 0;
	return ripc__fail(err, "iwarp/soft: no usable address on %s%s: %s",
			  t->interfaces[0] ? "interfaces " : "any interface", t->interfaces,
			  strerror(-err));
}

static bool still_there(const struct soft *t, const struct ifaddrs *all, const struct soft_listener *l)
{
	union ripc__sockaddr ip;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (wanted(i, t->interfaces, l->loopback, &ip) &&
		    ripc__sockaddr_same_ip(&l->tcp.addr, &ip))
			return true;
	return false;
}

static void scan_addrs(struct soft *t, uint64_t when_ns)
{
	t->rescan_ns = when_ns;
	t->next_timer_ns = 0;
}

void ripc__soft_rescan_addrs(struct soft *t)
{
	struct ifaddrs *all;

	t->scanned_ns = t->now_ns;
	t->rescan_ns = 0;
	if (getifaddrs(&all)) {
		scan_addrs(t, t->now_ns + RELOOK_MS * RIPC__MS);
		return;
	}
	/* Who is gone listens on, and is there again if the address comes back; only nobody is told of it. */
	for (unsigned i = 0; i < t->nlisteners; i++) {
		struct soft_listener *l = &t->listeners[i];
		bool gone = !still_there(t, all, l);

		t->addrs_changed |= gone != l->gone;
		l->gone = gone;
		if (l->udp.fd >= 0)
			ripc__udp_set_addr_gone(&t->udp, l->udp.udp, gone);
	}
	if (is_fd_shortage(add_listeners(t, all, false)))
		scan_addrs(t, t->now_ns + RELOOK_MS * RIPC__MS);
	freeifaddrs(all);
}

/* What changed is not read but looked at afresh. Messages that were lost come up as an error, and count as well. */
void ripc__soft_addrs_changed(struct soft *t)
{
	uint64_t next_ns = t->scanned_ns + LOOK_EVERY_MS * RIPC__MS;
	uint8_t buf[64];

	for (unsigned i = 0; i < 1024; i++)
		if (recv(t->changes.fd, buf, sizeof(buf), MSG_TRUNC) < 0 && errno != ENOBUFS)
			break;
	if (!t->scanned_ns || t->now_ns >= next_ns)
		ripc__soft_rescan_addrs(t);
	else if (!t->rescan_ns)
		scan_addrs(t, next_ns);
}

void ripc__soft_unlisten(struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (t->listeners[i].tcp.fd >= 0)
			close(t->listeners[i].tcp.fd);
	t->nlisteners = 0;
	t->last_rx_port = NULL;
	if (t->changes.fd >= 0)
		close(t->changes.fd);
	t->changes.fd = -1;
	ripc__udp_close(&t->udp);
}

/* Out of descriptors or memory: a listening socket would be readable for ever. */
static void pause_accept(struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listeners[i].tcp.fd,
			  &(struct epoll_event){.events = 0, .data.ptr = &t->listeners[i].tcp});
	t->accept_paused = true;
	t->accept_resume_ns = t->now_ns + DEAF_MS * RIPC__MS;
	t->next_timer_ns = 0;
}

/* Not each time: the pause is short. */
static void log_accept_paused(struct soft *t, int err)
{
	if (t->accept_logged_ns && t->now_ns - t->accept_logged_ns < DEAF_LOG_MS * RIPC__MS)
		return;
	t->accept_logged_ns = t->now_ns;
	ripc__log(RIPC_LOG_WARN, "iwarp/soft: cannot accept a connection: %s", strerror(err));
}

void ripc__soft_resume_accept(struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listeners[i].tcp.fd,
			  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &t->listeners[i].tcp});
	t->accept_paused = false;
}

/* One connection without a request makes room for a new one. */
static void evict(struct soft *t)
{
	struct ripc__entry entries[SOFT_HALF_OPEN_MAX];
	struct ripc__ep *ep;
	size_t n = 0;

	for (struct ripc__list *l = t->setups.next; l != &t->setups && n < SOFT_HALF_OPEN_MAX;
	     l = l->next) {
		ep = ripc__list_entry(l, struct ripc__ep, timed);
		if (ep->state == SOFT_MPA_REQ_WAIT)
			entries[n++] = (struct ripc__entry){.source = ep->setup->source,
							    .since_ns = ep->setup->since_ns,
							    .object = ep};
	}
	if (!ripc__admission_pick(entries, n, 1))
		return;
	ep = entries[0].object;
	ripc__soft_bad_input(t, ep->setup->peer, "too many connections without a request");
	ripc__soft_ep_defer_free(ep);
}

void ripc__soft_accept(struct soft *t, struct soft_port *port)
{
	unsigned most = ripc__pending_max(SOFT_HALF_OPEN_MAX);

	for (unsigned i = 0; i < ACCEPTS_A_ROUND; i++) {
		union ripc__sockaddr peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(port->fd, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct ripc__ep *ep;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
				ripc__soft_descriptor(t, -errno);
				log_accept_paused(t, errno);
				pause_accept(t);
			}
			return;
		}
		ripc__soft_descriptor(t, fd);
		if (t->nhalf_open >= most)
			evict(t);
		ep = ripc__soft_ep_new(t, false);
		if (!ep) {
			close(fd);
			pause_accept(t);
			return;
		}
		ripc__soft_tune(t, fd);
		ep->fd = fd;
		ripc__sockaddr_text(&peer, ep->setup->peer, sizeof(ep->setup->peer));
		ep->setup->source = ripc__sockaddr_source(&peer);
		ep->watched = EPOLLIN;
		if (ripc__soft_watch(t, fd, EPOLLIN, ep))
			ripc__soft_ep_defer_free(ep);
	}
}
