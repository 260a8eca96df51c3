/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Listening sockets: one per IP address of the interfaces in use, on ports chosen by the kernel.
 * The kernel reports added and removed addresses (netlink), and listeners follow. Addresses are
 * read in the network namespace of the thread in progress(): it must be that of the context.
 *
 * An IPv6 link-local address is used only if no interface but the loopback has another one: it
 * names a host on one link, and peers may have to try each of their interfaces.
 */
#define _GNU_SOURCE /* accept4 */

#include "base/addr_changes.h"
#include "base/admission.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKLOG         1024 /* the peer repeats a dropped SYN after a second */
#define ACCEPTS_A_ROUND 16   /* connections accepted by one progress() at most */
/* pause of accept() after descriptors ran out, while the core retires idle lanes */
#define DEAF_MS       20
#define DEAF_LOG_MS   1000
#define RELOOK_MS     200 /* retry when descriptors or memory ran out */
#define LOOPBACKS_MAX 2   /* loopback addresses used: 127.0.0.1 and ::1 */

/* Whether the kernel has run out of descriptors or memory. */
static bool is_fd_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS ||
	       err == -ENOSPC;
}

static int open_tcp(struct ripc__transport *t, struct soft_listener *l, unsigned index)
{
	socklen_t len = sizeof(l->addr);
	int err, one = 1;

	l->tcp = socket(l->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->tcp < 0)
		return -errno;
	if (l->addr.sa.sa_family == AF_INET6)
		setsockopt(l->tcp, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(l->tcp, &l->addr.sa, ripc__sockaddr_len(&l->addr)) || listen(l->tcp, BACKLOG) ||
	    getsockname(l->tcp, &l->addr.sa, &len))
		err = -errno;
	else
		err = ripc__soft_watch(t, l->tcp, soft_source(SOFT_TCP_LISTENER, index));
	if (err)
		close(l->tcp);
	return err;
}

/* A slot for another listener, among @most: a free one, or that of an address that is gone. */
static struct soft_listener *free_listener(struct ripc__transport *t, unsigned most)
{
	if (t->nlisteners < most)
		return &t->listeners[t->nlisteners];
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (t->listeners[i].gone)
			return &t->listeners[i];
	return NULL;
}

static void close_listener(struct ripc__transport *t, struct soft_listener *l)
{
	ripc__soft_unwatch(t, l->tcp);
	close(l->tcp);
	if (l->udp >= 0)
		ripc__udp_port_close(&t->udp, (unsigned)l->udp);
}

/* @mtu: of the interface, 0: it sets no limit. On failure the old listener of the slot stays. */
static int add_listener(struct ripc__transport *t, struct soft_listener *l,
			const union ripc__sockaddr *ip, uint32_t mtu)
{
	struct soft_listener fresh = {.udp = -1, .addr = *ip};
	int err;

	ripc__sockaddr_set_port(&fresh.addr, 0);
	err = open_tcp(t, &fresh, (unsigned)(l - t->listeners));
	if (err)
		return err;
	/* A datagram to a link-local address needs the interface, which records do not carry. */
	if (t->datagrams && !ripc__sockaddr_is_link_local(ip)) {
		fresh.udp = ripc__udp_open(&t->udp, ip, mtu);
		if (fresh.udp < 0) {
			close_listener(t, &fresh);
			return fresh.udp;
		}
	}
	if (l == &t->listeners[t->nlisteners])
		t->nlisteners++;
	else
		close_listener(t, l);
	*l = fresh;
	return 0;
}

static bool has_listener(const struct ripc__transport *t, const union ripc__sockaddr *ip)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (ripc__sockaddr_same_ip(&t->listeners[i].addr, ip))
			return true;
	return false;
}

/* An interface that is up, but whose cable is pulled, is not in use. */
static bool link_local_only(const struct ripc__transport *t, const struct ifaddrs *all)
{
	union ripc__sockaddr ip;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (ripc__sockaddr_of_interface(i, t->interfaces, &ip) &&
		    i->ifa_flags & IFF_RUNNING && !ripc__sockaddr_is_loopback(&ip))
			return false;
	return true;
}

/* Whether the transport listens on this address. @link_local: link_local_only(). */
static bool usable(const struct ripc__transport *t, const struct ifaddrs *i, bool link_local,
		   union ripc__sockaddr *ip)
{
	return ripc__sockaddr_of_interface(i, t->interfaces, ip) ||
	       (link_local && i->ifa_flags & IFF_RUNNING &&
		ripc__sockaddr_link_local_of(i, t->interfaces, ip));
}

void ripc__soft_scope_reached(struct ripc__transport *t, const union ripc__sockaddr *peer)
{
	unsigned i = 0;

	if (!ripc__sockaddr_is_link_local(peer))
		return;
	while (i < t->nscopes && t->scopes[i] != peer->in6.sin6_scope_id)
		i++;
	if (i == t->nscopes)
		return;
	memmove(t->scopes + 1, t->scopes, i * sizeof(*t->scopes));
	t->scopes[0] = peer->in6.sin6_scope_id;
}

/* Reads the interfaces through which link-local addresses can be reached. */
static void find_scopes(struct ripc__transport *t, const struct ifaddrs *all)
{
	union ripc__sockaddr ip, first = {.in6 = {.sin6_family = AF_INET6,
						  .sin6_addr.s6_addr = {0xfe, 0x80},
						  .sin6_scope_id = t->scopes[0]}};

	t->nscopes = 0;
	for (const struct ifaddrs *i = all; i && t->nscopes < RIPC__IWARP_ADDRS_MAX;
	     i = i->ifa_next)
		if (i->ifa_flags & IFF_RUNNING &&
		    ripc__sockaddr_link_local_of(i, t->interfaces, &ip))
			t->scopes[t->nscopes++] = ip.in6.sin6_scope_id;
	ripc__soft_scope_reached(t, &first);
}

/* Logged once: the number of addresses rarely changes. */
static void addr_overflow(struct ripc__transport *t, const union ripc__sockaddr *ip)
{
	union ripc__sockaddr bare = *ip;
	char text[64];

	if (t->addr_overflow)
		return;
	t->addr_overflow = true;
	ripc__sockaddr_set_port(&bare, 0);
	ripc__sockaddr_text(&bare, text, sizeof(text));
	ripc__log(RIPC_LOG_WARN,
		  "iwarp/soft: does not listen at %s: only %u addresses fit a resolver record; "
		  "choose interfaces with the setting interfaces",
		  text, RIPC__IWARP_ADDRS_MAX - LOOPBACKS_MAX);
}

/*
 * Listens on new addresses. @first: the context is being opened. Return: the last error, -ENODEV:
 * none.
 */
static int add_listeners(struct ripc__transport *t, struct ifaddrs *all, bool first)
{
	bool link_local = link_local_only(t, all);
	int err = -ENODEV;

	find_scopes(t, all);
	for (int loopback = 0; loopback < 2; loopback++) {
		unsigned most =
			loopback ? RIPC__IWARP_ADDRS_MAX : RIPC__IWARP_ADDRS_MAX - LOOPBACKS_MAX;

		for (struct ifaddrs *i = all; i; i = i->ifa_next) {
			struct soft_listener *l;
			union ripc__sockaddr ip;
			uint32_t mtu = 0;
			int e;

			if (!usable(t, i, link_local, &ip) ||
			    ripc__sockaddr_is_loopback(&ip) != loopback || has_listener(t, &ip))
				continue;
			l = free_listener(t, most);
			if (!l) {
				/* One loopback address is enough. */
				if (!loopback)
					addr_overflow(t, &ip);
				break;
			}
			/*
			 * The core read the datagram limit when the context was opened: datagrams
			 * over a later interface may be fragmented.
			 */
			if (t->datagrams && first && !loopback)
				mtu = ripc__udp_mtu(i->ifa_name);
			e = add_listener(t, l, &ip, mtu);
			t->reports.address |= !e && !first;
			err = e ? e : err;
			if (is_fd_shortage(e))
				return e;
		}
	}
	return err;
}

/* Return: 0, or a negative errno. Only a lack of descriptors or memory fails the transport. */
static int open_changes(struct ripc__transport *t)
{
	int err;

	t->changes_fd = ripc__addr_changes_open();
	err = t->changes_fd < 0 ? t->changes_fd
				: ripc__soft_watch(t, t->changes_fd, soft_source(SOFT_NETLINK, 0));
	if (!err)
		return 0;
	if (t->changes_fd >= 0)
		close(t->changes_fd);
	t->changes_fd = -1;
	if (is_fd_shortage(err))
		return err;
	ripc__log(RIPC_LOG_INFO,
		  "iwarp/soft: cannot watch for new addresses: %s; they will not be used",
		  strerror(-err));
	return 0;
}

/* Whether no network is configured yet. Linux always calls the loopback "lo". */
static bool rescan_later(const struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (!ripc__sockaddr_is_loopback(&t->listeners[i].addr))
			return false;
	return t->changes_fd >= 0 && strcmp(t->interfaces, "lo");
}

int ripc__soft_listen(struct ripc__transport *t)
{
	struct ifaddrs *all;
	int err;

	ripc__udp_watch(&t->udp, t->epoll_fd, SOFT_UDP, 1u << SOFT_SOURCE_BITS);
	/* Before the list is read, so that no change is missed. */
	err = open_changes(t);
	if (err)
		return ripc__fail(err, "iwarp/soft: cannot open a netlink socket: %s",
				  ripc__epoll_error(err));
	if (getifaddrs(&all))
		return ripc__fail(-errno, "iwarp/soft: cannot list the network interfaces: %s",
				  strerror(errno));
	err = add_listeners(t, all, true);
	freeifaddrs(all);
	if (is_fd_shortage(err))
		return ripc__fail(err, "iwarp/soft: cannot listen: %s", ripc__epoll_error(err));
	/*
	 * Wait for the first network: the datagram limit, which depends on its MTU, is read only
	 * once.
	 */
	if (rescan_later(t))
		ripc__udp_limit_mtu(&t->udp, RIPC__UDP_MTU_MIN);
	if (t->nlisteners)
		return 0;
	return ripc__fail(err, "iwarp/soft: no usable address on %s%s: %s",
			  t->interfaces[0] ? "interfaces " : "any interface", t->interfaces,
			  strerror(-err));
}

static bool still_there(const struct ripc__transport *t, const struct ifaddrs *all, bool link_local,
			const struct soft_listener *l)
{
	union ripc__sockaddr ip;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (usable(t, i, link_local, &ip) && ripc__sockaddr_same_ip(&l->addr, &ip))
			return true;
	return false;
}

static void scan_addrs(struct ripc__transport *t, uint64_t when_ns)
{
	if (!t->rescan_ns || when_ns < t->rescan_ns)
		t->rescan_ns = when_ns;
	soft_timer(t, when_ns);
}

void ripc__soft_rescan_addrs(struct ripc__transport *t)
{
	struct ifaddrs *all;
	bool link_local;

	t->scanned_ns = t->now_ns;
	t->rescan_ns = 0;
	if (getifaddrs(&all)) {
		scan_addrs(t, t->now_ns + RELOOK_MS * RIPC__MS);
		return;
	}
	link_local = link_local_only(t, all);
	/* A listener of a gone address stays open for its return, but is not advertised. */
	for (unsigned i = 0; i < t->nlisteners; i++) {
		struct soft_listener *l = &t->listeners[i];
		bool gone = !still_there(t, all, link_local, l);

		t->reports.address |= gone != l->gone;
		l->gone = gone;
		if (l->udp >= 0)
			ripc__udp_set_addr_gone(&t->udp, (unsigned)l->udp, gone);
	}
	if (is_fd_shortage(add_listeners(t, all, false)))
		scan_addrs(t, t->now_ns + RELOOK_MS * RIPC__MS);
	freeifaddrs(all);
}

void ripc__soft_addrs_changed(struct ripc__transport *t)
{
	scan_addrs(t, ripc__addr_changes_read(t->changes_fd, t->scanned_ns, t->now_ns));
}

void ripc__soft_unlisten(struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		close(t->listeners[i].tcp);
	t->nlisteners = 0;
	if (t->changes_fd >= 0)
		close(t->changes_fd);
	t->changes_fd = -1;
	ripc__udp_close(&t->udp);
}

static void watch_listeners(struct ripc__transport *t, uint32_t events)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listeners[i].tcp,
			  &(struct epoll_event){.events = events,
						.data.u64 = soft_source(SOFT_TCP_LISTENER, i)});
}

/* Stops watching the listening sockets, which would stay readable. */
static void pause_accept(struct ripc__transport *t)
{
	watch_listeners(t, 0);
	t->accept_resume_ns = t->now_ns + DEAF_MS * RIPC__MS;
	soft_timer(t, t->accept_resume_ns);
}

/* Logged rarely: the pause is short. */
static void log_accept_paused(struct ripc__transport *t, int err)
{
	if (t->accept_logged_ns && t->now_ns - t->accept_logged_ns < DEAF_LOG_MS * RIPC__MS)
		return;
	t->accept_logged_ns = t->now_ns;
	ripc__log(RIPC_LOG_WARN, "iwarp/soft: cannot accept a connection: %s", strerror(err));
}

void ripc__soft_resume_accept(struct ripc__transport *t)
{
	watch_listeners(t, EPOLLIN);
	t->accept_resume_ns = 0;
}

/* Closes a connection without an MPA request to make room. */
static void evict(struct ripc__transport *t)
{
	struct ripc__entry entries[SOFT_HALF_OPEN_MAX];
	struct ripc__ep *ep;
	size_t n = 0;

	/* All have the same time, so the oldest one has the first deadline. */
	ripc__list_for_each_entry (ep, &t->timed, timed)
		if (ep->state == SOFT_MPA_REQ_WAIT && n < SOFT_HALF_OPEN_MAX)
			entries[n++] = (struct ripc__entry){.source = ep->setup->source,
							    .since_ns = ep->deadline_ns,
							    .object = ep};
	if (!ripc__admission_pick(entries, n, 1))
		return;
	ep = entries[0].object;
	ripc__report_bad_input(&t->reports, ep->setup->peer,
			       "closed: too many connections without an MPA request");
	ripc__soft_ep_defer_free(ep, false);
}

void ripc__soft_accept(struct ripc__transport *t, const struct soft_listener *l)
{
	unsigned most = ripc__pending_max(SOFT_HALF_OPEN_MAX);

	for (unsigned i = 0; i < ACCEPTS_A_ROUND; i++) {
		union ripc__sockaddr peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(l->tcp, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct ripc__ep *ep;

		if (fd < 0) {
			if (is_fd_shortage(-errno)) {
				ripc__report_descriptor(&t->reports, -errno);
				log_accept_paused(t, errno);
				pause_accept(t);
			}
			return;
		}
		ripc__report_descriptor(&t->reports, fd);
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
		if (ripc__soft_ep_watch(ep, EPOLLIN))
			ripc__soft_ep_defer_free(ep, false);
	}
}
