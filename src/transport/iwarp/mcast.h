/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * UDP multicast for groups: addresses, sockets, sending, receiving. Nothing waits. The sockets are opened with the first group. Every
 * interface in use hears, by IPv4 and IPv6; it speaks by IPv4 if it has an address of that, else by IPv6.
 */
#ifndef RIPC_IWARP_MCAST_H
#define RIPC_IWARP_MCAST_H

#include "base/options.h"
#include "transport/iwarp/address.h"

#include <sys/uio.h>

#define RIPC__MCAST_MAX        1400 /* bytes of a datagram at most: not fragmented on Ethernet */
#define RIPC__MCAST_INTERFACES 8    /* used at most */

enum { RIPC__MCAST_4, RIPC__MCAST_6, RIPC__MCAST_FAMILIES }; /* sockets to hear */

/* An interface in use. */
struct ripc__mcast_interface {
	unsigned index;
	bool has[RIPC__MCAST_FAMILIES]; /* addresses of the family */
	bool loopback;
	int tx_fd; /* socket, < 0: none */
};

struct ripc__mcast {
	const char *name; /* of the transport, for messages */
	const struct ripc__options *opt;
	bool open;
	int rx_fd[RIPC__MCAST_FAMILIES]; /* < 0: not open */
	unsigned n;
	struct ripc__mcast_interface interfaces[RIPC__MCAST_INTERFACES];
	uint64_t *groups; /* joined */
	unsigned ngroups, room;
};

void ripc__mcast_init(struct ripc__mcast *m, const char *name, const struct ripc__options *opt);
void ripc__mcast_fini(struct ripc__mcast *m);
/* In the child of fork(): closes descriptors; async-signal-safe. */
void ripc__mcast_forked(struct ripc__mcast *m);

/* Opens the sockets, if they are not. Return: 0, or a negative errno, explained; nothing stays open. */
int ripc__mcast_open(struct ripc__mcast *m);

/* As the entries of the vtable, once it is open. */
int ripc__mcast_join(struct ripc__mcast *m, uint64_t group);
void ripc__mcast_leave(struct ripc__mcast *m, uint64_t group);
int ripc__mcast_send(const struct ripc__mcast *m, uint64_t group, const struct iovec *iov,
		     unsigned niov);

/* Takes a datagram from one of the hearing sockets into space, RIPC__MCAST_MAX bytes. Return: its bytes; -EAGAIN: there is none;
 * -EMSGSIZE: one that is too long, or did not come to a group on an interface in use, was dropped. */
int ripc__mcast_receive(const struct ripc__mcast *m, int fd, void *space);

/* Where a group is on the network: doc/protocol.md. family AF_INET or AF_INET6; the scope is left open. */
void ripc__mcast_address(uint64_t group, int family, uint16_t port, union ripc__sockaddr *to);

#endif
