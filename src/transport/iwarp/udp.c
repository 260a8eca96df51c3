/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/udp.h"
#include "base/hash.h"
#include "base/iov.h"
#include "base/log.h"
#include "transport/transport.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COPY_MAX \
	512u /* datagrams up to this size are copied: cheaper than gathering in the kernel */
#define RECEIVE_TRIES   4u   /* retries after an error of an earlier datagram */
#define CONN_RUN        256u /* datagrams in a row to one peer: connect a socket */
#define UDP_OVERHEAD    48u  /* bytes of IPv6 and UDP header */
#define EMPTY_POLLS_MAX 512u /* empty polls after which only epoll reports the sockets */

void ripc__udp_init(struct ripc__udp *u, const char *name, struct ripc__slab_pool *slabs,
		    uintptr_t tag, int epoll_fd, uint64_t data, uint64_t step)
{
	*u = (struct ripc__udp){
		.name = name,
		.host = ripc__iwarp_host_id(),
		.max = RIPC__UDP_MAX,
		.epoll_fd = epoll_fd,
		.data = data,
		.step = step,
		.rx = {.slabs = slabs, .tag = tag},
		.empty_polls = EMPTY_POLLS_MAX,
		.empty_takes = EMPTY_POLLS_MAX,
	};
	u->port[RIPC__UDP_CONN].fd = -1;
}

int ripc__udp_port_watch(const struct ripc__udp *u, unsigned i)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = u->data + i * u->step};

	return epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->port[i].fd, &ev);
}

uint32_t ripc__udp_mtu(const char *interface)
{
	struct ifreq ifr = {0};
	uint32_t mtu = RIPC__UDP_MTU_MIN;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return mtu;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", interface);
	if (!ioctl(fd, SIOCGIFMTU, &ifr) && ifr.ifr_mtu > (int)mtu)
		mtu = (uint32_t)ifr.ifr_mtu;
	close(fd);
	return mtu;
}

int ripc__udp_open(struct ripc__udp *u, const union ripc__sockaddr *ip, uint32_t mtu)
{
	struct ripc__udp_port *port = u->port;
	socklen_t len = sizeof(port->addr);
	int one = 1, err;

	while (port < &u->port[u->n] && port->fd >= 0)
		port++;
	if (port == &u->port[RIPC__UDP_PORTS])
		return -ENOBUFS;
	port->gone = false;
	port->addr = *ip;
	ripc__sockaddr_set_port(&port->addr, 0);
	port->burst = 1;
	port->fd = socket(ip->sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (port->fd < 0)
		return -errno;
	if (ip->sa.sa_family == AF_INET6)
		setsockopt(port->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(port->fd, &port->addr.sa, ripc__sockaddr_len(&port->addr)) ||
	    getsockname(port->fd, &port->addr.sa, &len) ||
	    (u->epoll_fd >= 0 && ripc__udp_port_watch(u, (unsigned)(port - u->port)))) {
		err = -errno;
		close(port->fd);
		port->fd = -1;
		return err;
	}
	if (mtu)
		ripc__udp_limit_mtu(u, mtu);
	if (port == &u->port[u->n])
		u->n++;
	return (int)(port - u->port);
}

void ripc__udp_limit_mtu(struct ripc__udp *u, uint32_t mtu)
{
	u->max = MIN(u->max, mtu - UDP_OVERHEAD);
}

/* Drops routes from a closed socket: its number may be used again. */
static void routes_drop(struct ripc__udp *u, int fd)
{
	for (unsigned i = 0; i < RIPC__UDP_ROUTES; i++)
		if (u->routes[i].fd == fd)
			u->routes[i].len = 0;
	u->last_route = NULL;
}

void ripc__udp_set_addr_gone(struct ripc__udp *u, unsigned i, bool gone)
{
	if (gone && !u->port[i].gone) {
		if (u->udp_conn.port == i)
			ripc__udp_conn_end(u);
		routes_drop(u, u->port[i].fd);
	}
	u->port[i].gone = gone;
}

void ripc__udp_port_close(struct ripc__udp *u, unsigned i)
{
	if (u->udp_conn.port == i)
		ripc__udp_conn_close(u);
	routes_drop(u, u->port[i].fd);
	/* A child of fork() may keep it open, and epoll would go on reporting it. */
	epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, u->port[i].fd, NULL);
	close(u->port[i].fd);
	u->port[i].fd = -1;
}

void ripc__udp_close(struct ripc__udp *u)
{
	/*
	 * Not removed from epoll, because in a child of fork() that would change the parent's epoll
	 * set.
	 */
	if (u->port[RIPC__UDP_CONN].fd >= 0) {
		close(u->port[RIPC__UDP_CONN].fd);
		ripc__udp_conn_set_state(&u->udp_conn, RIPC__UDP_CONN_NONE);
	}
	u->port[RIPC__UDP_CONN].fd = -1;
	while (u->n)
		if (u->port[--u->n].fd >= 0)
			close(u->port[u->n].fd);
}

/* The socket to send from: of the family of the destination, and loopback like it. */
static int socket_for(const struct ripc__udp *u, const union ripc__sockaddr *to)
{
	bool loopback = ripc__sockaddr_is_loopback(to);

	for (unsigned i = 0; i < u->n; i++)
		if (u->port[i].fd >= 0 && !u->port[i].gone &&
		    u->port[i].addr.sa.sa_family == to->sa.sa_family &&
		    ripc__sockaddr_is_loopback(&u->port[i].addr) == loopback)
			return u->port[i].fd;
	return -1;
}

/* The cache slot of an address, which may hold another one. NULL: the address is too long. */
static struct ripc__udp_route *route_of(struct ripc__udp *u, const uint8_t *addr, size_t addrlen)
{
	if (addrlen > RIPC__UDP_ROUTE_LEN)
		return NULL;
	return &u->routes[ripc__hash_quick(addr, addrlen) >> 32 & (RIPC__UDP_ROUTES - 1)];
}

/*
 * @to: NULL if the socket is connected. Return: 0, -EAGAIN: lost or no room, -EFAULT,
 * -EHOSTUNREACH.
 */
static int send_to(int fd, union ripc__sockaddr *to, const struct iovec *iov, unsigned niov,
		   size_t len)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)iov,
		.msg_iovlen = niov,
		.msg_name = to,
		.msg_namelen = to ? ripc__sockaddr_len(to) : 0,
	};
	uint8_t copy[COPY_MAX];
	ssize_t sent;

	if (len <= sizeof(copy)) {
		ripc__iov_gather(copy, iov, niov);
		sent = sendto(fd, copy, len, MSG_NOSIGNAL | MSG_DONTWAIT, msg.msg_name,
			      msg.msg_namelen);
	} else {
		sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	if (sent >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS ? -EAGAIN
	       : errno == EFAULT                   ? -EFAULT
						   : -EHOSTUNREACH;
}

/* Sends along a cached route. Return: as send_to(). */
static int send_by(struct ripc__udp *u, struct ripc__udp_route *route, const struct iovec *iov,
		   unsigned niov, size_t len)
{
	if (route != u->last_route) {
		u->last_route = route;
		u->udp_conn.run = 0;
	} else if (++u->udp_conn.run >= CONN_RUN) {
		u->udp_conn.run = 0;
		ripc__udp_conn_open(u, route);
	}
	if (route->fd == u->port[RIPC__UDP_CONN].fd) {
		int rc = send_to(route->fd, NULL, iov, niov, len);

		if (rc != -EHOSTUNREACH) {
			u->udp_conn.other_peers -= u->udp_conn.other_peers > 0;
			return rc;
		}
		/*
		 * The error is of an earlier datagram: its target does not listen any more, or the
		 * address is gone. This datagram is sent without the connected socket, so no such
		 * error is reported for it.
		 */
		ripc__udp_conn_end(u);
	} else if (u->port[RIPC__UDP_CONN].fd >= 0) {
		ripc__udp_conn_other(u);
	}
	return send_to(route->fd, &route->to, iov, niov, len);
}

int ripc__udp_send(struct ripc__udp *u, const uint8_t *addr, size_t addrlen,
		   const struct iovec *iov, unsigned niov)
{
	struct ripc__udp_route *route = u->last_route;
	struct ripc__iwarp_address address;
	size_t len = ripc__iov_len(iov, niov);
	int rc;

	if (len > u->max)
		return -EMSGSIZE;
	if (!addrlen)
		return ripc__fail(-EINVAL, "%s: empty address of the peer", u->name);
	if (!route || route->len != addrlen || memcmp(route->addr, addr, addrlen))
		route = route_of(u, addr, addrlen);
	if (route && route->len == addrlen && !memcmp(route->addr, addr, addrlen)) {
		rc = send_by(u, route, iov, niov, len);
		if (rc != -EHOSTUNREACH)
			return rc;
	}
	if (ripc__iwarp_address_decode(&address, addr, addrlen))
		return ripc__fail(-EINVAL, "%s: malformed address of the peer: %zu bytes", u->name,
				  addrlen);
	ripc__iwarp_address_order(&address, u->host, NULL, 0);
	for (unsigned i = 0; i < address.naddrs; i++) {
		union ripc__sockaddr to = address.addrs[i].ip;
		int fd = address.addrs[i].udp ? socket_for(u, &to) : -1;

		if (fd < 0)
			continue;
		ripc__sockaddr_set_port(&to, address.addrs[i].udp);
		rc = send_to(fd, &to, iov, niov, len);
		if (rc == -EHOSTUNREACH)
			continue;
		if (!rc && route) {
			*route = (struct ripc__udp_route){
				.fd = fd, .len = (uint8_t)addrlen, .to = to};
			memcpy(route->addr, addr, addrlen);
			/* The slot held another peer. */
			u->udp_conn.run = 0;
			ripc__udp_conn_join(u, route);
			if (u->port[RIPC__UDP_CONN].fd >= 0 &&
			    route->fd != u->port[RIPC__UDP_CONN].fd)
				ripc__udp_conn_other(u);
		}
		return rc;
	}
	return ripc__fail(-EHOSTUNREACH,
			  "%s: no address of the peer that is reachable from here takes datagrams",
			  u->name);
}

/* The address to answer to, with a single socket. Usually it is that of the last datagram. */
static uint32_t answer_to(struct ripc__udp *u, const union ripc__sockaddr *sender,
			  uint8_t from[RIPC__UDP_FROM])
{
	struct ripc__udp_sender *last = &u->last;

	if (memcmp(&last->ip, sender, ripc__sockaddr_len(sender))) {
		struct ripc__iwarp_address a = {.host = u->host, .naddrs = 1};

		last->ip = *sender;
		a.addrs[0].ip = *sender;
		/* The TCP port is unknown and unused; 0 would be invalid. */
		a.addrs[0].tcp = a.addrs[0].udp = ripc__sockaddr_port(sender);
		last->fromlen = (uint32_t)ripc__iwarp_address_encode(&a, last->from);
	}
	memcpy(from, last->from, RIPC__UDP_FROM);
	return last->fromlen;
}

int ripc__udp_receive_from(struct ripc__udp *u, unsigned i, void *space,
			   union ripc__sockaddr *sender)
{
	socklen_t len = sizeof(*sender);
	ssize_t got;

	for (unsigned tries = 0; tries < RECEIVE_TRIES; tries++) {
		got = recvfrom(u->port[i].fd, space, RIPC__UDP_MAX, MSG_DONTWAIT | MSG_TRUNC,
			       sender ? &sender->sa : NULL, sender ? &len : NULL);
		if (got >= 0 || errno == EAGAIN)
			break;
	}
	if (got < 0)
		return -EAGAIN;
	return got > (ssize_t)RIPC__UDP_MAX ? -EMSGSIZE : (int)got;
}

int ripc__udp_receive(struct ripc__udp *u, unsigned i, void *space, uint8_t from[RIPC__UDP_FROM],
		      uint32_t *fromlen, char who[64])
{
	union ripc__sockaddr sender;
	int got;

	if (u->port[RIPC__UDP_CONN].fd >= 0 && (i == RIPC__UDP_CONN || i == u->udp_conn.port)) {
		got = ripc__udp_conn_receive(u, i, space, &sender);
	} else {
		/* Datagrams for a closed connected socket arrive at its port. */
		if (i == RIPC__UDP_CONN)
			i = u->udp_conn.port;
		got = ripc__udp_receive_from(u, i, space, &sender);
	}
	if (got >= 0)
		*fromlen = answer_to(u, &sender, from);
	else if (got == -EMSGSIZE)
		ripc__sockaddr_text(&sender, who, 64);
	return got;
}

unsigned ripc__udp_receive_events(struct ripc__udp *u, unsigned i, struct ripc__event *events,
				  unsigned max)
{
	struct ripc__udp_rx *rx = &u->rx;
	unsigned n = 0, before = rx->n, *burst = &u->port[i].burst;

	while (n < max && n < *burst && rx->n < RIPC__UDP_EVENTS_MAX) {
		uint8_t *space, *from = rx->from[rx->n];
		uint32_t fromlen = 0;
		char who[64];
		int got;

		if (!ripc__slab_reserve(rx->slabs, RIPC__UDP_MAX, &space))
			break;
		got = ripc__udp_receive(u, i, space, from, &fromlen, who);
		if (got == -EMSGSIZE) {
			snprintf(rx->bad, sizeof(rx->bad), "%s: datagram too long", who);
			events[n++] =
				(struct ripc__event){.kind = RIPC__EV_BAD_INPUT, .text = rx->bad};
			continue;
		}
		if (got < 0)
			break;
		rx->n++;
		rx->slabs->current->refs++;
		events[n++] = (struct ripc__event){
			.kind = RIPC__EV_DATAGRAM,
			.data = space,
			.len = (uint32_t)got,
			.token = (void *)((uintptr_t)rx->slabs->current | rx->tag),
			.from = from,
			.fromlen = fromlen,
		};
		/* An empty datagram has an address of its own, too. */
		ripc__slab_use(rx->slabs, got ? (size_t)got : 1);
	}
	/*
	 * With bursts one call receives several datagrams; with single ones a second receive that
	 * finds none would delay the message.
	 */
	*burst = rx->n - before < *burst ? rx->n - before + (rx->n == before) : *burst * 2;
	if (n) {
		u->last_rx_port = i;
		u->empty_polls = u->empty_takes = 0;
	}
	return n;
}

unsigned ripc__udp_poll(struct ripc__udp *u, struct ripc__event *events, unsigned max)
{
	unsigned n = 0;

	if (u->empty_polls >= EMPTY_POLLS_MAX)
		/* A connected socket that is not in epoll is polled here. */
		return ripc__udp_arm(u) ? ripc__udp_receive_events(u, RIPC__UDP_CONN, events, max)
					: 0;
	u->empty_polls++;
	if (u->port[RIPC__UDP_CONN].fd >= 0)
		n = ripc__udp_receive_events(u, RIPC__UDP_CONN, events, max);
	for (unsigned i = 0; i < u->n; i++)
		if (u->port[i].fd >= 0)
			n += ripc__udp_receive_events(u, i, events + n, max - n);
	return n;
}

bool ripc__udp_poll_one(struct ripc__udp *u, struct ripc__event *ev)
{
	/* The core has used the source of the previous datagram. */
	u->rx.n = 0;
	if (u->empty_takes >= EMPTY_POLLS_MAX)
		return false;
	u->empty_takes++;
	return ripc__udp_receive_events(u, u->last_rx_port, ev, 1);
}
