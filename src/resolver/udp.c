/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end for one network: IPv4 broadcast and IPv6 multicast on every allowed interface. Per
 * family, all contexts of the host share one socket on the resolver's port, which receives
 * broadcasts. A second socket with its own port sends requests and receives the answers. The
 * interfaces are scanned when netlink reports a change.
 */
#define _GNU_SOURCE
#include "resolver/udp.h"

#include "base/addr_changes.h"
#include "base/log.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TARGETS_MAX 64                /* interface and family pairs used */
#define MCAST_ADDR  "ff02::5249:5043" /* link-local, "RIPC"; see doc/protocol.md */
#define LOOPBACK    1                 /* its index, in every network namespace */

/* One interface in one family. */
struct target {
	unsigned ifindex;
	char name[IF_NAMESIZE];
	bool loopback;
	int err; /* negative errno of the last send; 0: it worked */
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} to; /* destination of a broadcast */
};

struct udp {
	struct ripc__backend base;
	uint16_t port;
	struct ripc__udp_socks socks;
	struct target targets[TARGETS_MAX];
	unsigned ntargets;
	bool overflow; /* networks were left out, which was logged */
};

static struct target *add_target(struct udp *u, const struct ifaddrs *ifa)
{
	struct target *t = &u->targets[u->ntargets];

	memset(t, 0, sizeof(*t));
	t->ifindex = if_nametoindex(ifa->ifa_name);
	snprintf(t->name, sizeof(t->name), "%s", ifa->ifa_name);
	t->loopback = ifa->ifa_flags & IFF_LOOPBACK;
	return t;
}

/* Adds the target just filled in, unless it is a duplicate. */
static void retain_target(struct udp *u, socklen_t len)
{
	const struct target *t = &u->targets[u->ntargets];

	if (!t->ifindex)
		return;
	for (unsigned i = 0; i < u->ntargets; i++)
		if (u->targets[i].ifindex == t->ifindex && !memcmp(&u->targets[i].to, &t->to, len))
			return;
	u->ntargets++;
}

static void add_ipv4(struct udp *u, const struct ifaddrs *ifa)
{
	uint32_t addr = ntohl(((struct sockaddr_in *)ifa->ifa_addr)->sin_addr.s_addr);
	uint32_t mask = ifa->ifa_netmask
				? ntohl(((struct sockaddr_in *)ifa->ifa_netmask)->sin_addr.s_addr)
				: ~0u;
	bool has_broadcast = ~mask > 1; /* not a /31 or /32 */
	struct target *t;

	if (ifa->ifa_flags & IFF_LOOPBACK ? addr >> 24 != 127 || !has_broadcast
					  : !(ifa->ifa_flags & IFF_BROADCAST))
		return;
	t = add_target(u, ifa);
	t->to.in.sin_family = AF_INET;
	t->to.in.sin_port = htons(u->port);
	t->to.in.sin_addr.s_addr = has_broadcast ? htonl(addr | ~mask) : htonl(INADDR_BROADCAST);
	retain_target(u, sizeof(t->to.in));
}

/* @option: IPV6_JOIN_GROUP or IPV6_LEAVE_GROUP. Return: whether the socket is or was a member. */
static bool set_member(const struct udp *u, const struct target *t, int option)
{
	struct ipv6_mreq group = {.ipv6mr_multiaddr = t->to.in6.sin6_addr,
				  .ipv6mr_interface = t->ifindex};

	return !setsockopt(u->socks.fd[RIPC__UDP_RECV6], IPPROTO_IPV6, option, &group,
			   sizeof(group)) ||
	       errno == EADDRINUSE;
}

static void add_ipv6(struct udp *u, const struct ifaddrs *ifa)
{
	struct target *t;

	if (!(ifa->ifa_flags & (IFF_MULTICAST | IFF_LOOPBACK)))
		return;
	t = add_target(u, ifa);
	t->to.in6.sin6_family = AF_INET6;
	t->to.in6.sin6_port = htons(u->port);
	t->to.in6.sin6_scope_id = t->ifindex;
	inet_pton(AF_INET6, MCAST_ADDR, &t->to.in6.sin6_addr);
	/* Index 0, of an interface that has just gone, would mean any other one. */
	if (t->ifindex && set_member(u, t, IPV6_JOIN_GROUP))
		retain_target(u, sizeof(t->to.in6));
}

/* A socket keeps the memberships of interfaces that are gone; the kernel limits their number. */
static void leave_former(const struct udp *u, const struct target *former, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned k = 0;

		while (k < u->ntargets && (u->targets[k].to.any.sa_family != AF_INET6 ||
					   u->targets[k].ifindex != former[i].ifindex))
			k++;
		if (former[i].to.any.sa_family == AF_INET6 && k == u->ntargets)
			set_member(u, &former[i], IPV6_LEAVE_GROUP);
	}
}

static bool allows(const struct ripc__udp_socks *s, const char *name)
{
	for (unsigned i = 0; i < s->nallowed; i++)
		if (!strcmp(s->allowed[i].name, name))
			return true;
	return !s->nallowed;
}

static void log_overflow(struct udp *u)
{
	if (!u->overflow)
		ripc__log(RIPC_LOG_WARN,
			  "resolver: udp: only %d networks are used; choose interfaces with "
			  "interfaces (RIPC_INTERFACES)",
			  TARGETS_MAX);
	u->overflow = true;
}

/* Scans the interfaces. Return: 0, or a negative errno: keeps the previous ones. */
static int scan(struct udp *u)
{
	struct target former[TARGETS_MAX];
	unsigned n = u->ntargets;
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return -errno;
	memcpy(former, u->targets, sizeof(former));
	u->ntargets = 0;
	for (struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next) {
		if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP) ||
		    !allows(&u->socks, ifa->ifa_name))
			continue;
		if (u->ntargets == TARGETS_MAX) {
			log_overflow(u);
			break;
		}
		if (ifa->ifa_addr->sa_family == AF_INET && u->socks.fd[RIPC__UDP_SEND4] >= 0)
			add_ipv4(u, ifa);
		else if (ifa->ifa_addr->sa_family == AF_INET6 && u->socks.fd[RIPC__UDP_SEND6] >= 0)
			add_ipv6(u, ifa);
	}
	freeifaddrs(all);
	leave_former(u, former, n);
	return 0;
}

/*
 * Draws the socket anew for each unicast datagram. By default, the kernel would give all datagrams
 * of one sender to the same one, also while its process is stopped. The program does not know how
 * many sockets share the port: the number that it draws is less than 2, 4, 8 ... with a probability
 * of 1/2, 1/4, 1/8 ...; the default holds for a number that no socket has. An error is ignored:
 * some sandboxes know no such programs.
 */
static void draw_receiver(int fd)
{
	static struct sock_filter draw[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM)),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 1),
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0), /* 1, 3, 7 ... */
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_X, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	/* Static, so that its padding is zero: setsockopt() copies the padding, too. */
	static struct sock_fprog program = {sizeof(draw) / sizeof(draw[0]), draw};

	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

/* Return: the descriptor or a negative errno. */
static int open_socket(const struct ripc__backend_env *env, int family, uint16_t port)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, none = 0;
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool v4 = family == AF_INET, ok = fd >= 0;

	if (!ok)
		return -errno;
	if (port)
		ok = !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
		     !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (v4)
		/* Do not receive groups that other sockets of this host have joined. */
		ok = ok && !setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)) &&
		     !setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &none, sizeof(none)) &&
		     !setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one)) &&
		     !bind(fd, (struct sockaddr *)&in, sizeof(in));
	else
		ok = ok && !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) &&
		     !setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one)) &&
		     !bind(fd, (struct sockaddr *)&in6, sizeof(in6));
	if (ok && port)
		draw_receiver(fd);
	return ripc__backend_watch(env->epoll_fd, env->tag, fd, ok);
}

/* Whether the error is more than the lack of one protocol family. */
static bool out_of_resources(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS ||
	       err == -ENOSPC;
}

void ripc__udp_socks_close(const struct ripc__udp_socks *s)
{
	for (unsigned i = 0; i < RIPC__UDP_SOCKS; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
}

static void parse_interfaces(struct ripc__udp_socks *s, const char *names)
{
	while (*names) {
		size_t n = strcspn(names, ",");

		snprintf(s->allowed[s->nallowed++].name, IF_NAMESIZE, "%.*s", (int)n, names);
		names += n + (names[n] == ',');
	}
}

/* Looks up the indices of the allowed interfaces. */
static void renew_indices(struct ripc__udp_socks *s)
{
	for (unsigned i = 0; i < s->nallowed; i++)
		s->allowed[i].index = if_nametoindex(s->allowed[i].name);
}

static bool allows_index(const struct ripc__udp_socks *s, unsigned ifindex)
{
	for (unsigned i = 0; i < s->nallowed; i++)
		if (s->allowed[i].index == ifindex)
			return ifindex;
	return !s->nallowed;
}

int ripc__udp_socks_open(struct ripc__udp_socks *s, const struct ripc__backend_env *env,
			 uint16_t port, bool both, char *why, size_t whylen)
{
	static const int families[] = {AF_INET, AF_INET6};
	int rc[2], *changes = &s->fd[RIPC__UDP_CHANGES];

	parse_interfaces(s, env->opt->interfaces);
	/* Before the indices are looked up, so that no change is missed. */
	*changes = both || s->nallowed ? ripc__addr_changes_open() : -1;
	if (*changes >= 0)
		*changes = ripc__backend_watch(env->epoll_fd, env->tag, *changes, true);
	renew_indices(s);
	for (unsigned i = 0; i < 2; i++) {
		int *receiver = &s->fd[i ? RIPC__UDP_RECV6 : RIPC__UDP_RECV4];
		int *sender = &s->fd[i ? RIPC__UDP_SEND6 : RIPC__UDP_SEND4];

		*receiver = port ? open_socket(env, families[i], port) : -1;
		rc[i] = port && *receiver < 0 ? *receiver : 0;
		*sender = both && rc[i] ? -1 : open_socket(env, families[i], 0);
		if (*sender < 0 && !rc[i])
			rc[i] = *sender;
		if (both && *sender < 0 && *receiver >= 0) {
			close(*receiver);
			*receiver = -1;
		}
	}
	if ((s->fd[RIPC__UDP_SEND4] >= 0 || s->fd[RIPC__UDP_SEND6] >= 0) &&
	    !out_of_resources(rc[0]) && !out_of_resources(rc[1]) && !out_of_resources(*changes))
		return 0;
	ripc__udp_socks_close(s);
	if (out_of_resources(*changes))
		return ripc__reason(*changes, why, whylen,
				    "network interfaces cannot be listed: %s",
				    ripc__epoll_error(*changes));
	return ripc__reason(rc[0] ? rc[0] : rc[1], why, whylen,
			    "no UDP socket on port %u: %s (IPv4), %s (IPv6)", env->opt->port,
			    rc[0] ? ripc__epoll_error(rc[0]) : "opened",
			    rc[1] ? ripc__epoll_error(rc[1]) : "opened");
}

bool ripc__udp_changes(struct ripc__udp_socks *s, int fd)
{
	if (fd != s->fd[RIPC__UDP_CHANGES])
		return false;
	(void)ripc__addr_changes_read(fd, 0, 0);
	renew_indices(s);
	return true;
}

static void udp_close(struct ripc__backend *b)
{
	ripc__udp_socks_close(&((struct udp *)b)->socks);
}

static int udp_open(struct ripc__backend *b, const struct ripc__backend_env *env, char *why,
		    size_t whylen)
{
	struct udp *u = (struct udp *)b;
	int rc;

	u->port = env->opt->port;
	rc = ripc__udp_socks_open(&u->socks, env, u->port, true, why, whylen);
	if (rc)
		return rc;
	rc = scan(u);
	if (rc) {
		snprintf(why, whylen, "network interfaces cannot be listed: %s",
			 ripc__epoll_error(rc));
		udp_close(b);
	}
	return rc;
}

int ripc__udp_send_on(int fd, const struct sockaddr *to, unsigned ifindex, const uint8_t *data,
		      size_t len)
{
	bool v4 = to->sa_family == AF_INET;
	struct in_pktinfo info4 = {.ipi_ifindex = (int)ifindex};
	struct in6_pktinfo info6 = {.ipi6_ifindex = ifindex};
	size_t info_len = v4 ? sizeof(info4) : sizeof(info6);
	union {
		char bytes[CMSG_SPACE(sizeof(info6))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {(void *)data, len};
	struct msghdr hdr = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_name = (void *)to,
		.msg_namelen = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6),
	};

	if (ifindex) {
		struct cmsghdr *c;

		hdr.msg_control = control.bytes;
		hdr.msg_controllen = CMSG_SPACE(info_len);
		c = CMSG_FIRSTHDR(&hdr);
		c->cmsg_level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
		c->cmsg_type = v4 ? IP_PKTINFO : IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(info_len);
		memcpy(CMSG_DATA(c), v4 ? (void *)&info4 : (void *)&info6, info_len);
	}
	return sendmsg(fd, &hdr, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Broadcasts through one interface. The address of an IPv6 group names it. */
static void send_on(struct udp *u, struct target *t, const uint8_t *data, size_t len)
{
	bool v4 = t->to.any.sa_family == AF_INET;

	t->err = ripc__udp_send_on(u->socks.fd[v4 ? RIPC__UDP_SEND4 : RIPC__UDP_SEND6], &t->to.any,
				   v4 ? t->ifindex : 0, data, len);
}

static void udp_send(struct ripc__backend *b, const struct ripc__backend_addr *to, uint64_t service,
		     const uint8_t *data, size_t len)
{
	struct udp *u = (struct udp *)b;
	struct sockaddr_storage ss = {0};
	int fd;

	if (!to) {
		for (unsigned i = 0; i < u->ntargets; i++)
			send_on(u, &u->targets[i], data, len);
		return;
	}
	memcpy(&ss, to->bytes, to->len);
	fd = u->socks.fd[ss.ss_family == AF_INET ? RIPC__UDP_SEND4 : RIPC__UDP_SEND6];
	if (fd >= 0)
		(void)!sendto(fd, data, len, MSG_NOSIGNAL, (struct sockaddr *)&ss, to->len);
}

/*
 * Notes the interface of a datagram, and whether it was unicast to this host: its destination is
 * one of our addresses, not a broadcast or a group.
 */
static unsigned arrival_ifindex(struct msghdr *hdr, struct ripc__backend_addr *from)
{
	unsigned ifindex = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			ifindex = (unsigned)info.ipi_ifindex;
			from->direct = info.ipi_addr.s_addr == info.ipi_spec_dst.s_addr;
		}
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof(info));
			ifindex = info.ipi6_ifindex;
			from->direct = !IN6_IS_ADDR_MULTICAST(&info.ipi6_addr);
		}
	}
	return ifindex;
}

int ripc__udp_recv(struct ripc__udp_socks *s, int fd, bool loopback,
		   struct ripc__backend_addr *from, uint8_t *buf, size_t cap)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			   CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {buf, cap};
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_name = from->bytes,
			     .msg_namelen = sizeof(from->bytes),
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(fd, &hdr, MSG_TRUNC);
	unsigned ifindex;

	if (n < 0)
		return -EAGAIN;
	ifindex = arrival_ifindex(&hdr, from);
	if (!(loopback && ifindex == LOOPBACK) && !allows_index(s, ifindex))
		return -ENOMSG;
	/* The own port receives only answers to own requests. */
	from->direct =
		from->direct && (fd == s->fd[RIPC__UDP_RECV4] || fd == s->fd[RIPC__UDP_RECV6]);
	from->len = (uint8_t)hdr.msg_namelen;
	/* Contexts answer from their own port. */
	from->reusable = true;
	return hdr.msg_namelen > sizeof(from->bytes) || (size_t)n > cap ? -EBADMSG : (int)n;
}

static int udp_recv(struct ripc__backend *b, int fd, struct ripc__backend_addr *from, uint8_t *buf,
		    size_t cap)
{
	struct udp *u = (struct udp *)b;

	if (ripc__udp_changes(&u->socks, fd)) {
		(void)scan(u);
		return -EAGAIN;
	}
	/* An answer of this host, to any of its addresses, arrives on the loopback. */
	return ripc__udp_recv(&u->socks, fd,
			      fd == u->socks.fd[RIPC__UDP_SEND4] ||
				      fd == u->socks.fd[RIPC__UDP_SEND6],
			      from, buf, cap);
}

static bool udp_remote(const struct ripc__backend *b)
{
	const struct udp *u = (const struct udp *)b;

	for (unsigned i = 0; i < u->ntargets; i++)
		if (!u->targets[i].loopback)
			return true;
	return false;
}

/* The names of the interfaces used, without duplicates. */
static void interface_names(const struct udp *u, char *text, size_t len)
{
	static const char *const reach[] = {" (unreachable)", " (IPv4)", " (IPv6)", ""};
	size_t at = 0;

	snprintf(text, len, "no interface");
	for (unsigned i = 0; i < u->ntargets; i++) {
		unsigned families = 0; /* bit 0: IPv4 works, bit 1: IPv6 does */
		bool first = true;

		for (unsigned k = 0; k < u->ntargets; k++) {
			const struct target *t = &u->targets[k];

			if (t->ifindex != u->targets[i].ifindex)
				continue;
			first = first && k >= i;
			if (!t->err)
				families |= t->to.any.sa_family == AF_INET ? 1 : 2;
		}
		if (first)
			at = ripc__append(text, len, at, "%s%s%s", at ? ", " : "",
					  u->targets[i].name, reach[families]);
	}
}

static bool udp_describe_attempt(struct ripc__backend *b, uint64_t service, unsigned requests,
				 char *text, size_t len)
{
	const struct udp *u = (const struct udp *)b;
	char names[160];

	interface_names(u, names, sizeof(names));
	snprintf(text, len, "udp (%u requests on %s, port %u)", requests, names, u->port);
	return false;
}

static bool udp_describe(const struct ripc__backend *b, char *text, size_t len)
{
	const struct udp *u = (const struct udp *)b;
	char names[160], addr[INET6_ADDRSTRLEN];
	bool works = false;
	size_t at;

	interface_names(u, names, sizeof(names));
	at = ripc__append(text, len, 0, "broadcast and multicast on %s, port %u", names, u->port);
	for (unsigned i = 0; i < u->ntargets; i++) {
		const struct target *t = &u->targets[i];
		bool v4 = t->to.any.sa_family == AF_INET;

		works = works || !t->err;
		inet_ntop(t->to.any.sa_family,
			  v4 ? (const void *)&t->to.in.sin_addr
			     : (const void *)&t->to.in6.sin6_addr,
			  addr, sizeof(addr));
		at = ripc__append(text, len, at, "%s%s%s%s%s%s%s", i ? ", " : ": to ", addr,
				  v4 ? "" : "%", v4 ? "" : t->name, t->err ? " (" : "",
				  t->err ? strerror(-t->err) : "", t->err ? ")" : "");
	}
	return works;
}

const struct ripc__backend_ops ripc__backend_udp = {
	.name = "udp",
	.size = sizeof(struct udp),
	.inet = true,
	.open = udp_open,
	.close = udp_close,
	.send = udp_send,
	.recv = udp_recv,
	.remote = udp_remote,
	.describe_attempt = udp_describe_attempt,
	.describe = udp_describe,
	.forked = udp_close,
};
