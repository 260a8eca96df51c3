/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sockets that others reach us by: one per IP address of the allowed interfaces, on ports the kernel chooses. */
#define _GNU_SOURCE /* accept4 */

#include "core/clock.h"
#include "core/log.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <ifaddrs.h>
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

static int add_listener(struct soft *t, const union ripc__sockaddr *ip, const char *interface)
{
	struct soft_listener *l = &t->listeners[t->nlisteners];
	int err;

	l->loopback = ripc__sockaddr_is_loopback(ip);
	l->tcp.source = SOFT_TCP_LISTENER;
	l->udp.source = SOFT_UDP;
	l->udp.fd = -1;
	err = open_tcp(t, &l->tcp, ip);
	if (err)
		return err;
	if (t->datagrams) {
		err = open_udp(t, &l->udp, ip, l->loopback ? 0 : ripc__udp_mtu(interface));
		if (err) {
			close(l->tcp.fd);
			return err;
		}
	}
	t->nlisteners++;
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

int ripc__soft_listen(struct soft *t, const struct ripc__options *opt)
{
	struct ifaddrs *all;
	int err = -ENODEV;

	ripc__udp_init(&t->udp, "iwarp/soft", t->host);
	if (getifaddrs(&all))
		return ripc__fail(-errno, "iwarp/soft: cannot list the network interfaces: %s",
				  strerror(errno));
	for (int loopback = 0; loopback < 2; loopback++) {
		unsigned most = loopback ? RIPC__PLACES_MAX : RIPC__PLACES_MAX - LOOPBACKS_MAX;

		for (struct ifaddrs *i = all; i && t->nlisteners < most; i = i->ifa_next) {
			union ripc__sockaddr ip;
			int e;

			if (!wanted(i, opt->interfaces, loopback, &ip) || known(t, &ip))
				continue;
			e = add_listener(t, &ip, i->ifa_name);
			if (e == -EMFILE || e == -ENFILE || e == -ENOMEM) {
				freeifaddrs(all);
				return ripc__fail(e, "iwarp/soft: cannot listen: %s", strerror(-e));
			}
			err = e ? e : err;
		}
	}
	freeifaddrs(all);
	if (t->nlisteners)
		return 0;
	return ripc__fail(err, "iwarp/soft: no usable address on %s%s: %s",
			  opt->interfaces[0] ? "interfaces " : "any interface", opt->interfaces,
			  strerror(-err));
}

void ripc__soft_unlisten(struct soft *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		close(t->listeners[i].tcp.fd);
	t->nlisteners = 0;
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
