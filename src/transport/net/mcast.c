/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "transport/net/mcast.h"

#include "base/iov.h"
#include "base/log.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

static const int families[RIPC__MCAST_FAMILIES] = {
	[RIPC__MCAST_4] = AF_INET,
	[RIPC__MCAST_6] = AF_INET6,
};

void ripc__mcast_init(struct ripc__mcast *m, const char *name, const struct ripc__options *opt)
{
	*m = (struct ripc__mcast){.name = name, .opt = opt, .rx_fd = {-1, -1}};
}

void ripc__mcast_forked(struct ripc__mcast *m)
{
	for (unsigned i = 0; i < RIPC__MCAST_FAMILIES; i++)
		if (m->rx_fd[i] >= 0)
			close(m->rx_fd[i]);
	for (unsigned i = 0; i < m->n; i++)
		if (m->interfaces[i].tx_fd >= 0)
			close(m->interfaces[i].tx_fd);
}

void ripc__mcast_fini(struct ripc__mcast *m)
{
	ripc__mcast_forked(m);
	free(m->groups);
	ripc__mcast_init(m, m->name, m->opt);
}

uint16_t ripc__mcast_port(const struct ripc__options *opt)
{
	return opt->port == 65535 ? 65534 : (uint16_t)(opt->port + 1);
}

void ripc__mcast_address(uint64_t group, int family, uint16_t port, union ripc__sockaddr *to)
{
	static const uint8_t prefix[8] = {0xff, 0x02, 0, 0, 'R', 'I', 'G', 'R'};

	memset(to, 0, sizeof(*to));
	to->sa.sa_family = (sa_family_t)family;
	ripc__sockaddr_set_port(to, port);
	if (family == AF_INET) {
		/* 239.192.0.0/14 leaves 18 bits for a hash of the id. */
		uint64_t mixed = group * UINT64_C(0x9e3779b97f4a7c15) >> 46;

		to->in.sin_addr.s_addr = htonl(0xefc00000u | (uint32_t)mixed);
		return;
	}
	memcpy(to->in6.sin6_addr.s6_addr, prefix, 8);
	for (unsigned i = 0; i < 8; i++)
		to->in6.sin6_addr.s6_addr[8 + i] = (uint8_t)(group >> (56 - 8 * i));
}

/* ---- opening ---- */

static struct ripc__mcast_interface *interface_of(struct ripc__mcast *m, const struct ifaddrs *a)
{
	unsigned index = if_nametoindex(a->ifa_name);

	for (unsigned i = 0; i < m->n; i++)
		if (m->interfaces[i].index == index)
			return &m->interfaces[i];
	if (!index || m->n == RIPC__MCAST_INTERFACES)
		return NULL;
	m->interfaces[m->n] = (struct ripc__mcast_interface){
		.index = index, .loopback = a->ifa_flags & IFF_LOOPBACK, .tx_fd = -1};
	return &m->interfaces[m->n++];
}

static int find_interfaces(struct ripc__mcast *m)
{
	const char *names = m->opt->interfaces;
	struct ripc__mcast_interface *i;
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return -errno;
	for (struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) ||
		    !(a->ifa_flags & (IFF_MULTICAST | IFF_LOOPBACK)) ||
		    (*names && ripc__list_index(names, a->ifa_name) < 0) ||
		    (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6) ||
		    !(i = interface_of(m, a)))
			continue;
		i->has[a->ifa_addr->sa_family == AF_INET ? RIPC__MCAST_4 : RIPC__MCAST_6] = true;
	}
	freeifaddrs(all);
	return m->n ? 0 : -ENODEV;
}

static int rx_fd(const struct ripc__mcast *m, int family)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	union ripc__sockaddr any = {.in6 = {.sin6_family = (sa_family_t)family}};
	int one = 1, none = 0, err;

	if (fd < 0)
		return -errno;
	ripc__sockaddr_set_port(&any, ripc__mcast_port(m->opt));
	/* All contexts of the host share the port; each receives only the groups it joined. */
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	    (family == AF_INET
		     ? !setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &none, sizeof(none)) &&
			       !setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one))
		     : !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) &&
			       !setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one,
					   sizeof(one))) &&
	    !bind(fd, &any.sa, ripc__sockaddr_len(&any))) {
		/* Older kernels lack the option; for_us() checks the interface as well. */
		if (family == AF_INET6)
			(void)setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &none, sizeof(none));
		return fd;
	}
	err = -errno;
	close(fd);
	return err;
}

/*
 * @loop: contexts of this host receive the datagram too. On the loopback interface they always do.
 */
static int tx_fd(const struct ripc__mcast_interface *i, bool loop)
{
	int family = i->has[RIPC__MCAST_4] ? AF_INET : AF_INET6, on = loop, err;
	int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct ip_mreqn from = {.imr_ifindex = (int)i->index};

	if (fd < 0)
		return -errno;
	if (family == AF_INET
		    ? !setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof(from)) &&
			      !setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof(on))
		    : !setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &i->index,
				  sizeof(i->index)) &&
			      !setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &on, sizeof(on)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int open_sockets(struct ripc__mcast *m)
{
	bool lo = false;
	int rc;

	for (unsigned i = 0; i < m->n; i++)
		lo |= m->interfaces[i].loopback;
	for (unsigned k = 0; k < RIPC__MCAST_FAMILIES; k++) {
		bool wanted = false;

		for (unsigned i = 0; i < m->n; i++)
			wanted |= m->interfaces[i].has[k];
		if (!wanted)
			continue;
		rc = m->rx_fd[k] = rx_fd(m, families[k]);
		if (rc < 0)
			return rc;
	}
	for (unsigned i = 0; i < m->n; i++) {
		rc = m->interfaces[i].tx_fd = tx_fd(&m->interfaces[i], !lo && !i);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int ripc__mcast_open(struct ripc__mcast *m)
{
	int rc;

	if (m->n)
		return 0;
	rc = find_interfaces(m);
	if (!rc)
		rc = open_sockets(m);
	if (!rc)
		return 0;
	ripc__mcast_fini(m);
	return ripc__fail(rc, "%s: cannot open UDP multicast sockets on %s: %s", m->name,
			  *m->opt->interfaces ? m->opt->interfaces : "any interface",
			  strerror(-rc));
}

/* ---- groups ---- */

int ripc__mcast_membership(int fd, unsigned interface, const union ripc__sockaddr *to, bool join)
{
	int level = to->sa.sa_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
	struct group_req req = {.gr_interface = interface};
	int rc;

	memcpy(&req.gr_group, to, ripc__sockaddr_len(to));
	rc = setsockopt(fd, level, join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &req, sizeof(req));
	return !rc || errno == EADDRINUSE ? 0 : -errno;
}

/* Joins or leaves on all interfaces. Return: 0, or a negative errno if every interface failed. */
static int membership(const struct ripc__mcast *m, uint64_t group, bool join)
{
	union ripc__sockaddr to;
	int err = -ENODEV;

	for (unsigned i = 0; i < m->n; i++) {
		const struct ripc__mcast_interface *n = &m->interfaces[i];

		for (unsigned k = 0; k < RIPC__MCAST_FAMILIES; k++) {
			int rc;

			if (!n->has[k])
				continue;
			ripc__mcast_address(group, families[k], 1, &to);
			rc = ripc__mcast_membership(m->rx_fd[k], n->index, &to, join);
			if (!rc || err)
				err = rc;
		}
	}
	return err;
}

int ripc__mcast_join(struct ripc__mcast *m, uint64_t group)
{
	int rc;

	if (m->ngroups == m->room) {
		uint64_t *more = realloc(m->groups, (m->room + 16) * sizeof(*more));

		if (!more)
			return ripc__fail(-ENOMEM, "%s: out of memory", m->name);
		m->groups = more;
		m->room += 16;
	}
	rc = membership(m, group, true);
	if (rc)
		return ripc__fail(rc, "%s: cannot join a multicast group: %s", m->name,
				  strerror(-rc));
	m->groups[m->ngroups++] = group;
	return 0;
}

void ripc__mcast_leave(struct ripc__mcast *m, uint64_t group)
{
	union ripc__sockaddr a, b;
	bool shared = false;

	for (unsigned i = 0; i < m->ngroups; i++)
		if (m->groups[i] == group) {
			m->groups[i] = m->groups[--m->ngroups];
			ripc__mcast_address(group, AF_INET, 1, &a);
			for (unsigned k = 0; k < m->ngroups; k++) {
				ripc__mcast_address(m->groups[k], AF_INET, 1, &b);
				shared |= ripc__sockaddr_same_ip(&a, &b);
			}
			/*
			 * Another group uses the same IPv4 address: stay joined. The core drops
			 * messages of groups without members here.
			 */
			if (!shared)
				(void)membership(m, group, false);
			return;
		}
}

/* ---- datagrams ---- */

int ripc__mcast_send(const struct ripc__mcast *m, uint64_t group, const struct iovec *iov,
		     unsigned niov)
{
	union ripc__sockaddr to;
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = niov, .msg_name = &to};
	size_t len = ripc__iov_len(iov, niov);
	bool full = false;
	int rc = -EAGAIN;

	if (len > RIPC__MCAST_MAX)
		return -EMSGSIZE;
	for (unsigned i = 0; i < m->n; i++) {
		const struct ripc__mcast_interface *n = &m->interfaces[i];

		ripc__mcast_address(group, n->has[RIPC__MCAST_4] ? AF_INET : AF_INET6,
				    ripc__mcast_port(m->opt), &to);
		if (!n->has[RIPC__MCAST_4])
			to.in6.sin6_scope_id = n->index;
		msg.msg_namelen = ripc__sockaddr_len(&to);
		if (sendmsg(n->tx_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			rc = 0;
		else
			full |= errno == EAGAIN || errno == ENOBUFS;
	}
	/*
	 * The hosts of a full interface acknowledge multicast: only the sender's lanes bring them
	 * this message. An interface with another error, for example one that is down, reaches no
	 * host.
	 */
	return full ? -EAGAIN : rc;
}

/* Whether a datagram was sent to a group on an interface in use. Any host may send to the port. */
static bool for_us(const struct ripc__mcast *m, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct in6_pktinfo info6;
		struct in_pktinfo info;
		unsigned index;

		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			memcpy(&info, CMSG_DATA(c), sizeof(info));
			index = (unsigned)info.ipi_ifindex;
			if (!IN_MULTICAST(ntohl(info.ipi_addr.s_addr)))
				return false;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&info6, CMSG_DATA(c), sizeof(info6));
			index = (unsigned)info6.ipi6_ifindex;
			if (!IN6_IS_ADDR_MULTICAST(&info6.ipi6_addr))
				return false;
		} else {
			continue;
		}
		for (unsigned i = 0; i < m->n; i++)
			if (m->interfaces[i].index == index)
				return true;
	}
	return false;
}

int ripc__mcast_receive(const struct ripc__mcast *m, int fd, void *space)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			   CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control;
	struct iovec iov = {space, RIPC__MCAST_MAX};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t got;

	do {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		got = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_TRUNC);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -EAGAIN;
	return got > RIPC__MCAST_MAX || !for_us(m, &msg) ? -EMSGSIZE : (int)got;
}
