/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UDP sockets of the resolver, for the back ends udp and file. */
#ifndef RIPC_RESOLVER_UDP_H
#define RIPC_RESOLVER_UDP_H

#include "resolver/backend.h"

#include <sys/socket.h>

/*
 * Opens a socket of one family in the context's epoll set. @port: shared by all contexts of the
 * host; 0: a port of its own. Return: the descriptor or a negative errno.
 */
int ripc__udp_socket(const struct ripc__backend_env *env, int family, uint16_t port);

/*
 * Receives one datagram. *ifindex: its interface, 0: unknown. Return: bytes; -EAGAIN: none;
 * -EBADMSG: it is longer than @cap, or its sender is no IP address.
 */
int ripc__udp_recv(int fd, struct ripc__mcast_sender *from, uint8_t *buf, size_t cap,
		   unsigned *ifindex);

/*
 * Sends a datagram to an IP address. ifindex: the interface, 0: by the route. Return: 0 or a
 * negative errno.
 */
int ripc__udp_send_on(int fd, const struct sockaddr *to, unsigned ifindex, const uint8_t *data,
		      size_t len);

#endif
