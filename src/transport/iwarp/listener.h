/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Listeners of an iWARP transport: one for each IP address of the interfaces in use, on ports
 * chosen by the kernel. The kernel reports added and removed addresses (netlink), and listeners
 * follow. The listener of a removed address stays for its return, but is not advertised, and gives
 * its slot to a new address if no other one is free. Addresses are read in the network namespace of
 * the calling thread: it must be that of the context.
 *
 * An IPv6 link-local address is used only if no interface but the loopback has another one: it
 * names a host on one link, and peers may have to try each of their interfaces.
 */
#ifndef RIPC_IWARP_LISTENER_H
#define RIPC_IWARP_LISTENER_H

#include "transport/iwarp/address.h"
#include "transport/iwarp/udp.h"
#include "transport/reports.h"

#include <net/if.h>

struct iwv_device;
struct rdma_cm_id;

struct ripc__iwarp_listener {
	bool open;                 /* else the slot is free */
	bool gone;                 /* no interface has the address at present */
	const bool *lost;          /* whether its device is lost; NULL: it cannot be */
	union ripc__sockaddr addr; /* with its TCP port */
	char netdev[IF_NAMESIZE];  /* interface of the address */
	int udp;                   /* index in the UDP sockets; < 0: none */
	int tcp;                   /* iwarp/soft: its socket */
	struct rdma_cm_id *id;     /* iwarp/verbs: its identifier, */
	struct iwv_device *nic;    /* and its device */
};

/* How a transport listens. */
struct ripc__iwarp_listen_ops {
	const char *name; /* of the transport, and what it needs, for messages */
	const char *needs;
	/*
	 * The transport listens on sockets of the host: also at loopback and IPv6 link-local
	 * addresses, and an address that moves to another interface stays the same.
	 */
	bool sockets;
	/*
	 * Listens at l->addr and sets its port. Return: 0; -ENODEV, -EADDRNOTAVAIL: not possible at
	 * this address; or another negative errno.
	 */
	int (*open)(struct ripc__transport *t, struct ripc__iwarp_listener *l);
	void (*close)(struct ripc__transport *t, struct ripc__iwarp_listener *l);
};

struct ripc__iwarp_listeners {
	const struct ripc__iwarp_listen_ops *ops;
	struct ripc__transport *t;
	struct ripc__udp *udp;
	struct ripc__reports *reports;
	bool datagrams;         /* a UDP socket is opened beside each listener */
	const char *interfaces; /* setting interfaces; "": all */
	struct ripc__iwarp_listener l[RIPC__IWARP_ADDRS_MAX];
	unsigned n; /* slots that are or were used */
	/* interfaces with an IPv6 link-local address, the last one that reached a peer first */
	unsigned scopes[RIPC__IWARP_ADDRS_MAX];
	unsigned nscopes;
	int changes_fd;      /* addr_changes.h; < 0: none */
	uint64_t scanned_ns; /* time of the last read of the addresses; 0: when opened */
	uint64_t rescan_ns;  /* time of the next one; 0: when a change is reported */
	bool overflow;       /* an address was left out, which was logged */
	bool failed;         /* the last read failed, which was logged */
};

/*
 * Opens all, and watches changes_fd with @data. The members up to interfaces are set, changes_fd is
 * -1. Return: 0 or a negative errno, explained.
 */
int ripc__iwarp_listen(struct ripc__iwarp_listeners *ls, uint64_t data);
/* Closes those of a device; NULL: all. */
void ripc__iwarp_unlisten(struct ripc__iwarp_listeners *ls, const struct iwv_device *nic);
/* Closes the other descriptors; async-signal-safe. */
void ripc__iwarp_listeners_fini(struct ripc__iwarp_listeners *ls);

/* address() of the vtable: those that are present. */
int ripc__iwarp_listen_address(const struct ripc__iwarp_listeners *ls, uint8_t *buf);
/* Whether a listener has the IP address, which is present. */
bool ripc__iwarp_listens_at(struct ripc__iwarp_listeners *ls, const union ripc__sockaddr *ip);
/* A peer was reached at this address: its interface, if link-local, is tried first next time. */
void ripc__iwarp_scope_reached(struct ripc__iwarp_listeners *ls, const union ripc__sockaddr *peer);

/* The addresses are to be read then, or earlier. Return: ls->rescan_ns. */
uint64_t ripc__iwarp_scan_at(struct ripc__iwarp_listeners *ls, uint64_t when_ns);
/* Takes the reports of changes_fd. Return: likewise. */
uint64_t ripc__iwarp_addrs_changed(struct ripc__iwarp_listeners *ls, uint64_t now_ns);
/* Reads the addresses if it is time. Return: time of the next call, RIPC__NEVER: none. */
uint64_t ripc__iwarp_rescan(struct ripc__iwarp_listeners *ls, uint64_t now_ns);

/* Whether the kernel has run out of descriptors or memory. */
bool ripc__iwarp_shortage(int err);

#endif
