/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sockets that others reach us by: one per IP address of the allowed interfaces, on ports the kernel chooses. Addresses come and
 * go, and a program may start before its network: the kernel tells, and the new ones are listened at.
 */
#define _GNU_SOURCE /* accept4 */

#include "core/clock.h"
#include "core/log.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKLOG         128
#define ACCEPTS_A_ROUND 16  /* connections accepted in one progress() at most */
#define DEAF_MS         200 /* pause of the listeners when descriptors ran out */
#define LOOPBACKS_MAX   2   /* addresses of the loopback used: 127.0.0.1 and ::1 */

static int open_tcp(struct soft *t, struct soft_port *port, const union ripc__sockaddr *ip)
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
		err = ripc__soft_watch(t, port->fd, EPOLLIN, port);
	if (err) {
		close(port->fd);
		port->fd = -1;
	}
	return err;
}

/* @mtu: of the interface, 0: it sets no limit. */
static int open_udp(struct soft *t, struct soft_port *port, const union ripc__sockaddr *ip,
		    uint32_t mtu)
{
	int index = ripc__udp_open(&t->udp, ip, mtu);

	if (index < 0)
		return index;
	port->udp = (unsigned)index;
	port->addr = t->udp.port[index].addr;
	port->fd = t->udp.port[index].fd;
	return ripc__soft_watch(t, port->fd, EPOLLIN, port);
}

/* A place for another listener, of @most: a free one, or that of an address that is gone. */
static struct soft_listener *place_for(struct soft *t, unsigned most)
{
	if (t->nlisteners < most)
		return &t->listeners[t->nlisteners];
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (t->listeners[i].gone && t->listeners[i].udp.fd < 0)
			return &t->listeners[i];
	return NULL;
}

/* @mtu: see open_udp(). */
static int add_listener(struct soft *t, struct soft_listener *l, const union ripc__sockaddr *ip,
			uint32_t mtu)
{
	bool fresh = l == &t->listeners[t->nlisteners];
	int err;

	if (!fresh) {
		ripc__soft_unwatch(t, l->tcp.fd);
		if (l->tcp.fd >= 0)
			close(l->tcp.fd);
	}
	/* Should it fail, nobody is at this place. */
	memset(l, 0, sizeof(*l));
	l->gone = true;
	l->tcp.source = SOFT_TCP_LISTENER;
	l->udp.source = SOFT_UDP;
	l->tcp.fd = l->udp.fd = -1;
	err = open_tcp(t, &l->tcp, ip);
	if (!err && t->datagrams) {
		err = open_udp(t, &l->udp, ip, mtu);
		if (err) {
			ripc__soft_unwatch(t, l->tcp.fd);
			close(l->tcp.fd);
			l->tcp.fd = -1;
		}
	}
	if (err) {
		memset(&l->tcp.addr, 0, sizeof(l->tcp.addr));
		return err;
	}
	l->loopback = ripc__sockaddr_is_loopback(ip);
	l->gone = false;
	t->nlisteners += fresh;
	return 0;
}

static bool known(const struct soft *t, const union ripc__sockaddr *ip)
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

/* Listens at addresses that are new. @first: the context is being opened. Return: how many, or a negative errno if there were none. */
static int add_listeners(struct soft *t, struct ifaddrs *all, bool first)
{
	int err = -ENODEV, added = 0;

	for (int loopback = 0; loopback < 2; loopback++) {
		unsigned most = loopback ? RIPC__PLACES_MAX : RIPC__PLACES_MAX - LOOPBACKS_MAX;

		for (struct ifaddrs *i = all; i; i = i->ifa_next) {
			struct soft_listener *l = place_for(t, most);
			union ripc__sockaddr ip;
			uint32_t mtu = 0;
			int e;

			if (!l)
				break;
			if (!wanted(i, t->interfaces, loopback, &ip) || known(t, &ip))
				continue;
			/* The core has asked already how long a datagram may be: that of a later interface may be cut in pieces. */
			if (t->datagrams && first && !loopback)
				mtu = ripc__udp_mtu(i->ifa_name);
			e = add_listener(t, l, &ip, mtu);
			added += !e;
			err = e ? e : err;
			if (e == -EMFILE || e == -ENFILE || e == -ENOMEM)
				return e;
		}
	}
	return added ? added : err;
}

/* Return: 0, or a negative errno: only that there are no descriptors or no memory is a reason to do without us. */
static int open_changes(struct soft *t)
{
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK,
				 .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int err = 0;

	t->changes.source = SOFT_CHANGES;
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
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS)
		return err;
	ripc__log(RIPC_LOG_INFO, "iwarp/soft: addresses that come later will not be used: %s",
		  strerror(-err));
	return 0;
}

int ripc__soft_listen(struct soft *t)
{
	struct ifaddrs *all;
	int err;

	ripc__udp_init(&t->udp, "iwarp/soft", t->host);
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
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		return ripc__fail(err, "iwarp/soft: cannot listen: %s", strerror(-err));
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

/* What changed is not read but looked at afresh. Messages that were lost come up as an error, and count as well. */
void ripc__soft_readdress(struct soft *t)
{
	struct ifaddrs *all;
	uint8_t buf[64];

	for (unsigned i = 0; i < 1024; i++)
		if (recv(t->changes.fd, buf, sizeof(buf), MSG_TRUNC) < 0 && errno != ENOBUFS)
			break;
	if (getifaddrs(&all))
		return;
	/* Who is gone listens on, and is there again if the address comes back; only nobody is told of it. */
	for (unsigned i = 0; i < t->nlisteners; i++) {
		struct soft_listener *l = &t->listeners[i];
		bool gone = l->tcp.fd < 0 || !still_there(t, all, l);

		t->readdressed |= gone != l->gone;
		l->gone = gone;
	}
	t->readdressed |= add_listeners(t, all, false) > 0;
	freeifaddrs(all);
}

void ripc__soft_unlisten(struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (t->listeners[i].tcp.fd >= 0)
			close(t->listeners[i].tcp.fd);
	t->nlisteners = 0;
	if (t->changes.fd >= 0)
		close(t->changes.fd);
	t->changes.fd = -1;
	ripc__udp_close(&t->udp);
}

/* Out of descriptors or memory: a listening socket would be readable for ever. */
static void deafen(struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listeners[i].tcp.fd,
			  &(struct epoll_event){.events = 0, .data.ptr = &t->listeners[i].tcp});
	t->deaf = true;
	t->deaf_until_ns = t->now_ns + DEAF_MS * RIPC__MS;
	t->next_timer_ns = 0;
}

void ripc__soft_undeafen(struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listeners[i].tcp.fd,
			  &(struct epoll_event){.events = EPOLLIN, .data.ptr = &t->listeners[i].tcp});
	t->deaf = false;
}

/* The oldest connection that has not said yet what it wants makes room for a new one. */
static void evict(struct soft *t)
{
	for (struct soft_link *l = t->setups.next; l != &t->setups; l = l->next) {
		struct ripc__ep *ep = soft_of(l, struct ripc__ep, timed);

		if (ep->state == SOFT_ACCEPTED) {
			ripc__soft_garbage(t, ep->setup->peer,
					   "too many connections without a request");
			ripc__soft_ep_bury(ep);
			return;
		}
	}
}

void ripc__soft_accept(struct soft *t, struct soft_port *port)
{
	for (unsigned i = 0; i < ACCEPTS_A_ROUND; i++) {
		union ripc__sockaddr peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(port->fd, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct ripc__ep *ep;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
				ripc__log(RIPC_LOG_WARN, "iwarp/soft: cannot accept a connection: %s",
					  strerror(errno));
				deafen(t);
			}
			return;
		}
		if (t->nhalf_open >= SOFT_HALF_OPEN_MAX)
			evict(t);
		ep = ripc__soft_ep_new(t, false);
		if (!ep) {
			close(fd);
			deafen(t);
			return;
		}
		ripc__soft_tune(t, fd);
		ep->fd = fd;
		ripc__sockaddr_text(&peer, ep->setup->peer, sizeof(ep->setup->peer));
		ep->watched = EPOLLIN;
		if (ripc__soft_watch(t, fd, EPOLLIN, ep))
			ripc__soft_ep_bury(ep);
	}
}
