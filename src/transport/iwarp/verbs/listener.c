/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Listeners: one for each IP address of the devices in use. The kernel reports added and removed
 * addresses, and listeners follow. The listener of a removed address stays for its return, but is
 * not advertised. Connections of such an address end when the peer counts as silent.
 */
#include "base/addr_changes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "transport/iwarp/verbs/verbs.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#define BACKLOG    128
#define PORT_TRIES 16   /* librdmacm chooses a port that TCP may use already */
#define RETRY_MS   1000 /* retry when descriptors or memory ran out, or a device is new */

/* @netdev: the address must be on this interface; NULL: on any one, and in use. */
static struct iwv_listener *find(struct ripc__transport *t, const union ripc__sockaddr *ip,
				 const char *netdev)
{
	for (unsigned i = 0; i < t->nlisteners; i++) {
		struct iwv_listener *l = &t->listeners[i];

		if (l->id && ripc__sockaddr_same_ip(&l->addr, ip) &&
		    (netdev ? !strcmp(l->netdev, netdev) : !l->gone))
			return l;
	}
	return NULL;
}

bool ripc__iwv_is_ours(struct ripc__transport *t, const union ripc__sockaddr *ip)
{
	return find(t, ip, NULL);
}

static void listener_close(struct ripc__transport *t, struct iwv_listener *l)
{
	if (l->id)
		rdma_destroy_id(l->id);
	l->id = NULL;
	if (l->udp >= 0)
		ripc__udp_port_close(&t->udp, (unsigned)l->udp);
	l->udp = -1;
}

void ripc__iwv_unlisten(struct ripc__transport *t, const struct iwv_device *nic)
{
	for (unsigned i = 0; i < t->nlisteners; i++)
		if (!nic || t->listeners[i].nic == nic)
			listener_close(t, &t->listeners[i]);
}

/* Creates an identifier bound to the address. -ENODEV: no iWARP device has it. */
static int bind_id(struct ripc__transport *t, union ripc__sockaddr *ip, struct rdma_cm_id **id)
{
	int rc = 0;

	ripc__sockaddr_set_port(ip, 0);
	if (rdma_create_id(t->channel, id, NULL, RDMA_PS_TCP))
		return -errno;
	if (rdma_bind_addr(*id, &ip->sa))
		rc = -errno;
	else if (!(*id)->verbs || (*id)->verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		rc = -ENODEV;
	if (rc)
		rdma_destroy_id(*id);
	return rc;
}

/* A closed slot, a new one, or that of a removed address, which is closed. NULL: none. */
static struct iwv_listener *free_slot(struct ripc__transport *t)
{
	struct iwv_listener *l;

	for (l = t->listeners; l < t->listeners + t->nlisteners; l++)
		if (!l->id)
			return l;
	if (t->nlisteners < RIPC__IWARP_ADDRS_MAX)
		return l;
	for (l = t->listeners; l < t->listeners + t->nlisteners; l++)
		if (l->gone) {
			listener_close(t, l);
			return l;
		}
	return NULL;
}

/* @mtu: of the interface, 0: it sets no limit. */
static int add_listener(struct ripc__transport *t, struct iwv_listener *l, const char *netdev,
			union ripc__sockaddr *ip, uint32_t mtu)
{
	struct iwv_device *nic;
	int rc = 0;

	*l = (struct iwv_listener){.udp = -1};
	for (int tries = 0; tries < PORT_TRIES; tries++) {
		rc = bind_id(t, ip, &l->id);
		if (rc) {
			l->id = NULL;
			return rc;
		}
		if (!rdma_listen(l->id, BACKLOG))
			break;
		rc = -errno;
		listener_close(t, l);
		if (rc != -EADDRINUSE)
			break;
	}
	if (!l->id)
		return rc;
	nic = ripc__iwv_device_find(t, l->id->verbs);
	rc = nic ? 0 : ripc__iwv_device_open(t, l->id->verbs, &nic);
	if (!rc && t->datagrams) {
		l->udp = ripc__udp_open(&t->udp, ip, mtu);
		rc = l->udp < 0 ? l->udp : 0;
	}
	if (rc) {
		listener_close(t, l);
		return rc;
	}
	l->nic = nic;
	l->addr = *ip;
	ripc__sockaddr_set_port(&l->addr, ntohs(rdma_get_src_port(l->id)));
	snprintf(l->netdev, sizeof(l->netdev), "%s", netdev);
	if (l == &t->listeners[t->nlisteners])
		t->nlisteners++;
	return 0;
}

static bool usable(const struct ripc__transport *t, const struct ifaddrs *i,
		   union ripc__sockaddr *ip)
{
	/* librdmacm finds no route over the loopback. */
	return ripc__sockaddr_of_interface(i, t->opt->interfaces, ip) &&
	       !ripc__sockaddr_is_loopback(ip);
}

/* An address was added, or removed, after the context was opened. */
static void log_change(struct ripc__transport *t, const struct iwv_listener *l)
{
	char text[64];

	t->addrs_changed = true;
	ripc__sockaddr_text(&l->addr, text, sizeof(text));
	ripc__log(RIPC_LOG_INFO, "iwarp/verbs: %s on %s %s %s", l->nic->dev.name, l->netdev,
		  l->gone ? "has lost the address" : "listens at", text);
}

/* @first: the context is being opened. Return: 0, or the last error; -ENODEV: none. */
static int add_listeners(struct ripc__transport *t, const struct ifaddrs *all, bool first)
{
	int err = -ENODEV;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		union ripc__sockaddr ip;
		struct iwv_listener *l;
		int rc;

		if (!usable(t, i, &ip) || find(t, &ip, i->ifa_name))
			continue;
		l = free_slot(t);
		if (!l)
			break;
		/* The core has read the datagram limit when the context was opened. */
		rc = add_listener(t, l, i->ifa_name, &ip,
				  t->datagrams && first ? ripc__udp_mtu(i->ifa_name) : 0);
		if (rc && rc != -ENODEV && rc != -EADDRNOTAVAIL)
			err = rc;
		if (!rc && !first)
			log_change(t, l);
	}
	return err;
}

int ripc__iwv_listen(struct ripc__transport *t)
{
	struct ifaddrs *all;
	int err;

	/* Before the list is read, so that no change is missed. */
	t->changes_fd = ripc__addr_changes_open();
	err = t->changes_fd < 0 ? t->changes_fd : iwv_watch(t, t->changes_fd, IWV_ADDR_CHANGES, 0);
	if (err)
		return ripc__fail(err, "iwarp/verbs: cannot watch for address changes: %s",
				  ripc__epoll_error(err));
	/* Without it a device that comes back is used after the next change of an address. */
	t->devices_fd = ripc__verbs_files_watch();
	if (t->devices_fd >= 0)
		(void)iwv_watch(t, t->devices_fd, IWV_DEVICES, 0);
	if (getifaddrs(&all))
		return ripc__fail(-errno, "iwarp/verbs: cannot list the network interfaces: %s",
				  strerror(errno));
	err = add_listeners(t, all, true);
	freeifaddrs(all);
	if (t->nlisteners)
		return 0;
	return ripc__fail(err, "iwarp/verbs: no iWARP device with an address on %s%s: %s",
			  t->opt->interfaces[0] ? "interfaces " : "any interface",
			  t->opt->interfaces, strerror(-err));
}

static bool still_there(const struct ripc__transport *t, const struct ifaddrs *all,
			const struct iwv_listener *l)
{
	union ripc__sockaddr ip;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (usable(t, i, &ip) && ripc__sockaddr_same_ip(&l->addr, &ip) &&
		    !strcmp(l->netdev, i->ifa_name))
			return true;
	return false;
}

static void scan_addrs(struct ripc__transport *t, uint64_t when_ns)
{
	if (!t->rescan_ns || when_ns < t->rescan_ns)
		iwv_set_deadline(t, &t->rescan_ns, when_ns);
}

void ripc__iwv_rescan_addrs(struct ripc__transport *t)
{
	struct ifaddrs *all;
	int err = 0;

	t->scanned_ns = t->now_ns;
	t->rescan_ns = 0;
	if (getifaddrs(&all)) {
		err = -errno;
	} else {
		for (unsigned i = 0; i < t->nlisteners; i++) {
			struct iwv_listener *l = &t->listeners[i];
			bool gone = !still_there(t, all, l);

			if (!l->id || gone == l->gone)
				continue;
			l->gone = gone;
			if (l->udp >= 0)
				ripc__udp_set_addr_gone(&t->udp, (unsigned)l->udp, gone);
			log_change(t, l);
		}
		err = add_listeners(t, all, false);
		freeifaddrs(all);
	}
	if (!err || err == -ENODEV)
		return;
	ripc__log(RIPC_LOG_WARN, "iwarp/verbs: cannot listen at a new address: %s", strerror(-err));
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		scan_addrs(t, t->now_ns + RETRY_MS * RIPC__MS);
}

void ripc__iwv_addrs_changed(struct ripc__transport *t)
{
	scan_addrs(t, ripc__addr_changes_read(t->changes_fd, t->scanned_ns, t->now_ns));
}

void ripc__iwv_devices_changed(struct ripc__transport *t)
{
	(void)ripc__verbs_files_changed(t->devices_fd);
	scan_addrs(t, t->now_ns + RETRY_MS * RIPC__MS);
}
