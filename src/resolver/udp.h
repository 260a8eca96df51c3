/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UDP sockets of the resolver, for the back ends udp and file, in both families. */
#ifndef RIPC_RESOLVER_UDP_H
#define RIPC_RESOLVER_UDP_H

#include "base/options.h"
#include "resolver/backend.h"

#include <net/if.h>
#include <sys/socket.h>

enum {
	RIPC__UDP_RECV4,
	RIPC__UDP_SEND4,
	RIPC__UDP_RECV6,
	RIPC__UDP_SEND6,
	RIPC__UDP_CHANGES, /* netlink: changes of interfaces and addresses */
	RIPC__UDP_SOCKS
};

/* An interface that may be used. */
struct ripc__udp_interface {
	char name[IF_NAMESIZE];
	unsigned index; /* 0: there is none of this name */
};

struct ripc__udp_socks {
	int fd[RIPC__UDP_SOCKS]; /* < 0: not open */
	/* of the setting interfaces, which has a comma between two names */
	struct ripc__udp_interface allowed[sizeof(((struct ripc__options *)0)->interfaces) / 2];
	unsigned nallowed; /* 0: all interfaces */
};

/*
 * Opens, in the context's epoll set, a sender of each family, and unless @port is 0 a receiver on
 * that port, which all contexts of the host share. @both: a family has a receiver or no sender.
 * Changes are reported if @both is set or interfaces are named. Some sandboxes report none: there
 * the interfaces stay as they were. Return: 0; or a negative errno, with a sentence in why: nothing
 * is open.
 */
int ripc__udp_socks_open(struct ripc__udp_socks *s, const struct ripc__backend_env *env,
			 uint16_t port, bool both, char *why, size_t whylen);
void ripc__udp_socks_close(const struct ripc__udp_socks *s);

/* Whether @fd is the one for changes: reads them all, and renews the indices of interfaces. */
bool ripc__udp_changes(struct ripc__udp_socks *s, int fd);

/*
 * Receives one datagram. @loopback: from the loopback, too, whichever interfaces are allowed.
 * Return: bytes; -EAGAIN: none; -ENOMSG: it arrived at an interface that is not allowed; -EBADMSG:
 * it is longer than @cap, or its sender is no IP address.
 */
int ripc__udp_recv(struct ripc__udp_socks *s, int fd, bool loopback,
		   struct ripc__backend_addr *from, uint8_t *buf, size_t cap);

/*
 * Sends a datagram to an IP address. ifindex: the interface, 0: by the route. Return: 0 or a
 * negative errno.
 */
int ripc__udp_send_on(int fd, const struct sockaddr *to, unsigned ifindex, const uint8_t *data,
		      size_t len);

#endif
