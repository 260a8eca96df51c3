/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * UDP multicast of groups: addresses, sockets, sending, receiving. No call blocks.
 * Every interface in use receives over IPv4 and IPv6. It sends over IPv4 if it has an IPv4 address,
 * otherwise over IPv6.
 */
#ifndef RIPC_NET_MCAST_H
#define RIPC_NET_MCAST_H

#include "base/options.h"
#include "transport/net/sockaddr.h"

#include <sys/uio.h>

#define RIPC__MCAST_MAX        1400 /* bytes of a datagram: avoids fragments on Ethernet */
#define RIPC__MCAST_INTERFACES 8

enum { RIPC__MCAST_4, RIPC__MCAST_6, RIPC__MCAST_FAMILIES }; /* index of receive sockets */

/* An interface in use. */
struct ripc__mcast_interface {
	unsigned index;
	bool has[RIPC__MCAST_FAMILIES]; /* whether the interface has addresses of the family */
	bool loopback;
	int tx_fd; /* socket; < 0: none */
};

struct ripc__mcast {
	const char *name; /* name of the transport, for messages */
	const struct ripc__options *opt;
	int rx_fd[RIPC__MCAST_FAMILIES]; /* < 0: not open */
	unsigned n;                      /* 0: not open */
	struct ripc__mcast_interface interfaces[RIPC__MCAST_INTERFACES];
	uint64_t *groups; /* ids of the joined groups */
	unsigned ngroups, room;
};

void ripc__mcast_init(struct ripc__mcast *m, const char *name, const struct ripc__options *opt);
void ripc__mcast_fini(struct ripc__mcast *m);
/* In the child of fork(): closes the descriptors. Async-signal-safe. */
void ripc__mcast_forked(struct ripc__mcast *m);

/*
 * Opens the sockets once. Return: 0, or a negative errno with an error detail; then no socket is
 * open.
 */
int ripc__mcast_open(struct ripc__mcast *m);

/* Contracts as the entries of the vtable. Precondition: the sockets are open. */
int ripc__mcast_join(struct ripc__mcast *m, uint64_t group);
void ripc__mcast_leave(struct ripc__mcast *m, uint64_t group);
int ripc__mcast_send(const struct ripc__mcast *m, uint64_t group, const struct iovec *iov,
		     unsigned niov);

/*
 * Receives a datagram from a receive socket into space, which has RIPC__MCAST_MAX bytes. Return:
 * its length; -EAGAIN: none is queued; -EMSGSIZE: dropped, because it was too long or was not sent
 * to a group on an interface in use.
 */
int ripc__mcast_receive(const struct ripc__mcast *m, int fd, void *space);

/*
 * The port of multicast: the one above the resolver's, because the resolver's sockets receive every
 * datagram to its own port; 65534 for 65535.
 */
uint16_t ripc__mcast_port(const struct ripc__options *opt);

/*
 * Computes the multicast address of a group as in doc/protocol.md. family: AF_INET or AF_INET6. The
 * IPv6 scope stays 0.
 */
void ripc__mcast_address(uint64_t group, int family, uint16_t port, union ripc__sockaddr *to);

/*
 * Joins or leaves a multicast address on one interface. Return: 0, also if the socket had joined it
 * already, or a negative errno.
 */
int ripc__mcast_membership(int fd, unsigned interface, const union ripc__sockaddr *to, bool join);

#endif
