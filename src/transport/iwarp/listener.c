/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/listener.h"

#include "base/addr_changes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define RETRY_MS      200 /* retry when descriptors or memory ran out */
#define LOOPBACKS_MAX 2   /* loopback addresses used: 127.0.0.1 and ::1 */

bool ripc__iwarp_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS ||
	       err == -ENOSPC;
}

static void listener_close(struct ripc__iwarp_listeners *ls, struct ripc__iwarp_listener *l)
{
	ls->ops->close(ls->t, l);
	if (l->udp >= 0)
		ripc__udp_port_close(ls->udp, (unsigned)l->udp);
	l->open = l->gone = false;
}

void ripc__iwarp_unlisten(struct ripc__iwarp_listeners *ls, const struct iwv_device *nic)
{
	for (unsigned i = 0; i < ls->n; i++)
		if (ls->l[i].open && (!nic || ls->l[i].nic == nic))
			listener_close(ls, &ls->l[i]);
}

void ripc__iwarp_listeners_fini(struct ripc__iwarp_listeners *ls)
{
	if (ls->changes_fd >= 0)
		close(ls->changes_fd);
	ls->changes_fd = -1;
	ripc__udp_close(ls->udp);
}

/* @netdev: the address must be on this interface; NULL: on any one, and present. */
static struct ripc__iwarp_listener *find(struct ripc__iwarp_listeners *ls,
					 const union ripc__sockaddr *ip, const char *netdev)
{
	for (unsigned i = 0; i < ls->n; i++) {
		struct ripc__iwarp_listener *l = &ls->l[i];

		if (l->open && ripc__sockaddr_same_ip(&l->addr, ip) &&
		    (netdev ? ls->ops->sockets || !strcmp(l->netdev, netdev) : !l->gone))
			return l;
	}
	return NULL;
}

bool ripc__iwarp_listens_at(struct ripc__iwarp_listeners *ls, const union ripc__sockaddr *ip)
{
	return find(ls, ip, NULL);
}

int ripc__iwarp_listen_address(const struct ripc__iwarp_listeners *ls, uint8_t *buf)
{
	struct ripc__iwarp_address a = {.host = ls->udp->host};

	for (unsigned i = 0; i < ls->n; i++) {
		const struct ripc__iwarp_listener *l = &ls->l[i];

		if (!l->open || l->gone || (l->lost && *l->lost))
			continue;
		a.addrs[a.naddrs++] = (struct ripc__iwarp_listen_addr){
			.ip = l->addr,
			.tcp = ripc__sockaddr_port(&l->addr),
			.udp = l->udp < 0 ? 0 : ripc__sockaddr_port(&ls->udp->port[l->udp].addr),
		};
	}
	return a.naddrs ? (int)ripc__iwarp_address_encode(&a, buf) : -ENODEV;
}

/* ---- link-local addresses ---- */

/* An interface that is up, but whose cable is pulled, is not in use. */
static bool link_local_only(const struct ripc__iwarp_listeners *ls, const struct ifaddrs *all)
{
	union ripc__sockaddr ip;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (ripc__sockaddr_of_interface(i, ls->interfaces, &ip) &&
		    i->ifa_flags & IFF_RUNNING && !ripc__sockaddr_is_loopback(&ip))
			return false;
	return ls->ops->sockets;
}

void ripc__iwarp_scope_reached(struct ripc__iwarp_listeners *ls, const union ripc__sockaddr *peer)
{
	unsigned i = 0;

	if (!ripc__sockaddr_is_link_local(peer))
		return;
	while (i < ls->nscopes && ls->scopes[i] != peer->in6.sin6_scope_id)
		i++;
	if (i == ls->nscopes)
		return;
	memmove(ls->scopes + 1, ls->scopes, i * sizeof(*ls->scopes));
	ls->scopes[0] = peer->in6.sin6_scope_id;
}

/* Reads the interfaces through which link-local addresses can be reached. */
static void find_scopes(struct ripc__iwarp_listeners *ls, const struct ifaddrs *all)
{
	union ripc__sockaddr ip, first = {.in6 = {.sin6_family = AF_INET6,
						  .sin6_addr.s6_addr = {0xfe, 0x80},
						  .sin6_scope_id = ls->scopes[0]}};

	ls->nscopes = 0;
	for (const struct ifaddrs *i = all; i && ls->nscopes < RIPC__IWARP_ADDRS_MAX;
	     i = i->ifa_next)
		if (i->ifa_flags & IFF_RUNNING &&
		    ripc__sockaddr_link_local_of(i, ls->interfaces, &ip))
			ls->scopes[ls->nscopes++] = ip.in6.sin6_scope_id;
	ripc__iwarp_scope_reached(ls, &first);
}

/* ---- reading the addresses ---- */

/* Whether the transport listens on this address. @link_local: link_local_only(). */
static bool usable(const struct ripc__iwarp_listeners *ls, const struct ifaddrs *i, bool link_local,
		   union ripc__sockaddr *ip)
{
	/* librdmacm finds no route over the loopback. */
	if (ripc__sockaddr_of_interface(i, ls->interfaces, ip))
		return ls->ops->sockets || !ripc__sockaddr_is_loopback(ip);
	return link_local && i->ifa_flags & IFF_RUNNING &&
	       ripc__sockaddr_link_local_of(i, ls->interfaces, ip);
}

/*
 * A slot for another listener, among @most: a free one, or that of an address that is gone, which
 * is closed. NULL: none.
 */
static struct ripc__iwarp_listener *free_slot(struct ripc__iwarp_listeners *ls, unsigned most)
{
	struct ripc__iwarp_listener *l = ls->l, *end = l + ls->n;

	while (l < end && l->open)
		l++;
	if (l < end || ls->n < most)
		return l;
	for (l = ls->l; l < end; l++)
		if (l->gone) {
			listener_close(ls, l);
			return l;
		}
	return NULL;
}

/* @mtu: of the interface, 0: it sets no limit. */
static int add(struct ripc__iwarp_listeners *ls, struct ripc__iwarp_listener *l, const char *netdev,
	       const union ripc__sockaddr *ip, uint32_t mtu)
{
	int rc;

	*l = (struct ripc__iwarp_listener){.addr = *ip, .udp = -1};
	snprintf(l->netdev, sizeof(l->netdev), "%s", netdev);
	ripc__sockaddr_set_port(&l->addr, 0);
	rc = ls->ops->open(ls->t, l);
	if (rc)
		return rc;
	/* A datagram to a link-local address needs the interface, which records do not carry. */
	if (ls->datagrams && !ripc__sockaddr_is_link_local(ip)) {
		rc = l->udp = ripc__udp_open(ls->udp, ip, mtu);
		if (rc < 0) {
			listener_close(ls, l);
			return rc;
		}
	}
	l->open = true;
	if (l == &ls->l[ls->n])
		ls->n++;
	return 0;
}

/* Logged once: the number of addresses rarely changes. */
static void addr_overflow(struct ripc__iwarp_listeners *ls, const union ripc__sockaddr *ip,
			  unsigned most)
{
	union ripc__sockaddr bare = *ip;
	char text[64];

	if (ls->overflow)
		return;
	ls->overflow = true;
	ripc__sockaddr_set_port(&bare, 0);
	ripc__sockaddr_text(&bare, text, sizeof(text));
	ripc__log(RIPC_LOG_WARN,
		  "%s: does not listen at %s: only %u addresses fit a resolver record; choose "
		  "interfaces with the setting interfaces",
		  ls->ops->name, text, most);
}

/* An address was added, has returned, or was removed, after the context was opened. */
static void changed(struct ripc__iwarp_listeners *ls, const struct ripc__iwarp_listener *l)
{
	char text[64];

	ls->reports->address = true;
	ripc__sockaddr_text(&l->addr, text, sizeof(text));
	ripc__log(RIPC_LOG_INFO, "%s: %s %s on %s", ls->ops->name,
		  l->gone ? "has lost the address" : "listens at", text, l->netdev);
}

/* Listens on new addresses. @first: the context is being opened. Return: as scan(). */
static int add_all(struct ripc__iwarp_listeners *ls, const struct ifaddrs *all, bool link_local,
		   bool first)
{
	int err = -ENODEV;

	for (int loopback = 0; loopback < 2; loopback++) {
		unsigned most =
			RIPC__IWARP_ADDRS_MAX - (ls->ops->sockets && !loopback ? LOOPBACKS_MAX : 0);

		for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
			struct ripc__iwarp_listener *l;
			union ripc__sockaddr ip;
			uint32_t mtu = 0;
			int rc;

			if (!usable(ls, i, link_local, &ip) ||
			    ripc__sockaddr_is_loopback(&ip) != loopback ||
			    find(ls, &ip, i->ifa_name))
				continue;
			l = free_slot(ls, most);
			if (!l) {
				/* One loopback address is enough. */
				if (!loopback)
					addr_overflow(ls, &ip, most);
				break;
			}
			/*
			 * The core read the datagram limit when the context was opened: datagrams
			 * over a later interface may be fragmented.
			 */
			if (ls->datagrams && first && !loopback)
				mtu = ripc__udp_mtu(i->ifa_name);
			rc = add(ls, l, i->ifa_name, &ip, mtu);
			if (rc && rc != -ENODEV && rc != -EADDRNOTAVAIL)
				err = rc;
			if (!rc && !first)
				changed(ls, l);
			if (ripc__iwarp_shortage(rc))
				return rc;
		}
	}
	return err;
}

static bool still_there(const struct ripc__iwarp_listeners *ls, const struct ifaddrs *all,
			bool link_local, const struct ripc__iwarp_listener *l)
{
	union ripc__sockaddr ip;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (usable(ls, i, link_local, &ip) && ripc__sockaddr_same_ip(&l->addr, &ip) &&
		    (ls->ops->sockets || !strcmp(l->netdev, i->ifa_name)))
			return true;
	return false;
}

/* Updates the listeners. Return: the last error, -ENODEV: none, or there is no address. */
static int scan(struct ripc__iwarp_listeners *ls, bool first)
{
	struct ifaddrs *all;
	bool link_local;
	int err;

	if (getifaddrs(&all))
		return -errno;
	link_local = link_local_only(ls, all);
	for (unsigned i = 0; i < ls->n; i++) {
		struct ripc__iwarp_listener *l = &ls->l[i];
		bool gone = l->open && !still_there(ls, all, link_local, l);

		if (gone == l->gone)
			continue;
		l->gone = gone;
		if (l->udp >= 0)
			ripc__udp_set_addr_gone(ls->udp, (unsigned)l->udp, gone);
		changed(ls, l);
	}
	find_scopes(ls, all);
	err = add_all(ls, all, link_local, first);
	freeifaddrs(all);
	return err;
}

/* Return: 0, or a negative errno. Only a lack of descriptors or memory fails the transport. */
static int open_changes(struct ripc__iwarp_listeners *ls, uint64_t data)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = data};
	int err;

	ls->changes_fd = ripc__addr_changes_open();
	err = ls->changes_fd < 0 ? ls->changes_fd : 0;
	if (!err && epoll_ctl(ls->udp->epoll_fd, EPOLL_CTL_ADD, ls->changes_fd, &ev))
		err = -errno;
	if (!err)
		return 0;
	if (ls->changes_fd >= 0)
		close(ls->changes_fd);
	ls->changes_fd = -1;
	if (ripc__iwarp_shortage(err))
		return err;
	ripc__log(RIPC_LOG_INFO, "%s: cannot watch for new addresses: %s; they will not be used",
		  ls->ops->name, strerror(-err));
	return 0;
}

/* Whether no network is configured yet. Linux always calls the loopback "lo". */
static bool rescan_later(const struct ripc__iwarp_listeners *ls)
{
	for (unsigned i = 0; i < ls->n; i++)
		if (!ripc__sockaddr_is_loopback(&ls->l[i].addr))
			return false;
	return ls->changes_fd >= 0 && strcmp(ls->interfaces, "lo");
}

/* The interfaces that were looked at, each with the reason why it is of no use. */
static void reasons(const struct ripc__iwarp_listeners *ls, char *text, size_t len)
{
	const char *names = ls->interfaces;
	struct ifaddrs *all;
	size_t at = 0;

	snprintf(text, len, "there is no interface");
	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		/* Each interface has one entry of this family, also without an address. */
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET)
			at = ripc__append(text, len, at, "%s%s %s", at ? ", " : "", i->ifa_name,
					  *names && ripc__list_index(names, i->ifa_name) < 0
						  ? "is not named"
					  : i->ifa_flags & IFF_UP ? "has none"
								  : "is down");
	freeifaddrs(all);
}

int ripc__iwarp_listen(struct ripc__iwarp_listeners *ls, uint64_t data)
{
	/* Before the list is read, so that no change is missed. */
	int err = open_changes(ls, data);
	char seen[300];

	if (!err)
		err = scan(ls, true);
	/*
	 * Wait for the first network: the datagram limit, which depends on its MTU, is read only
	 * once.
	 */
	if (rescan_later(ls))
		ripc__udp_limit_mtu(ls->udp, RIPC__UDP_MTU_MIN);
	if (ls->n && !(ls->ops->sockets && ripc__iwarp_shortage(err)))
		return 0;
	if (ls->ops->sockets && err == -ENODEV) {
		reasons(ls, seen, sizeof(seen));
		return ripc__fail(err, "%s: no %s%s%s: %s; %s", ls->ops->name, ls->ops->needs,
				  ls->interfaces[0] ? " on interfaces " : "", ls->interfaces, seen,
				  ls->interfaces[0] ? "correct interfaces (RIPC_INTERFACES)"
						    : "bring an interface up (ip link set DEV up), "
						      "or give it an address (ip address add)");
	}
	return ripc__fail(err, "%s: no %s on %s%s: %s", ls->ops->name, ls->ops->needs,
			  ls->interfaces[0] ? "interfaces " : "any interface", ls->interfaces,
			  ripc__epoll_error(err));
}

uint64_t ripc__iwarp_scan_at(struct ripc__iwarp_listeners *ls, uint64_t when_ns)
{
	if (!ls->rescan_ns || when_ns < ls->rescan_ns)
		ls->rescan_ns = when_ns;
	return ls->rescan_ns;
}

uint64_t ripc__iwarp_addrs_changed(struct ripc__iwarp_listeners *ls, uint64_t now_ns)
{
	return ripc__iwarp_scan_at(ls,
				   ripc__addr_changes_read(ls->changes_fd, ls->scanned_ns, now_ns));
}

uint64_t ripc__iwarp_rescan(struct ripc__iwarp_listeners *ls, uint64_t now_ns)
{
	int err;

	if (ls->rescan_ns && ls->rescan_ns <= now_ns) {
		ls->scanned_ns = now_ns;
		ls->rescan_ns = 0;
		err = scan(ls, false);
		if (err == -ENODEV)
			err = 0;
		if (err && !ls->failed)
			ripc__log(RIPC_LOG_WARN, "%s: cannot listen at a new address: %s",
				  ls->ops->name, strerror(-err));
		ls->failed = err;
		if (ripc__iwarp_shortage(err))
			ls->rescan_ns = now_ns + RETRY_MS * RIPC__MS;
	}
	return ls->rescan_ns ? ls->rescan_ns : RIPC__NEVER;
}
