/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UDP sockets of the resolver, for the back ends udp and file, in both families. */
#ifndef RIPC_RESOLVER_UDP_H
#define RIPC_RESOLVER_UDP_H

#include "base/options.h"
#include "resolver/backend.h"

#include <net/if.h>
#include <sys/socket.h>

enum { RIPC__UDP_RECV4, RIPC__UDP_SEND4, RIPC__UDP_RECV6, RIPC__UDP_SEND6, RIPC__UDP_SOCKS };

struct ripc__udp_socks {
	int fd[RIPC__UDP_SOCKS]; /* < 0: not open */
	/* names of the interfaces allowed; empty: all */
	char interfaces[sizeof(((struct ripc__options *)0)->interfaces)];
	/* the interface of the last datagram; 0: none. Its name takes three system calls. */
	unsigned ifindex;
	char ifname[IF_NAMESIZE];
};

/*
 * Opens, in the context's epoll set, a sender of each family, and unless @port is 0 a receiver on
 * that port, which all contexts of the host share. @both: a family has a receiver or no sender.
 * Return: 0; or a negative errno, with a sentence in why: nothing is open.
 */
int ripc__udp_socks_open(struct ripc__udp_socks *s, const struct ripc__backend_env *env,
			 uint16_t port, bool both, char *why, size_t whylen);
void ripc__udp_socks_close(const struct ripc__udp_socks *s);
/* Whether the error is more than the lack of one protocol family. */
bool ripc__udp_out_of_resources(int err);

/* Whether a datagram that arrived at an interface may be used. */
bool ripc__udp_allowed(struct ripc__udp_socks *s, unsigned ifindex, bool loopback);

/*
 * Receives one datagram. *ifindex: its interface, 0: unknown. Return: bytes; -EAGAIN: none;
 * -EBADMSG: it is longer than @cap, or its sender is no IP address.
 */
int ripc__udp_recv(const struct ripc__udp_socks *s, int fd, struct ripc__mcast_sender *from,
		   uint8_t *buf, size_t cap, unsigned *ifindex);

/*
 * Sends a datagram to an IP address. ifindex: the interface, 0: by the route. Return: 0 or a
 * negative errno.
 */
int ripc__udp_send_on(int fd, const struct sockaddr *to, unsigned ifindex, const uint8_t *data,
		      size_t len);

#endif
