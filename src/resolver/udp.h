/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* UDP sockets of the resolver, for the back ends that speak it (udp, file). */
#ifndef RIPC_RESOLVER_UDP_H
#define RIPC_RESOLVER_UDP_H

#include "resolver/backend.h"

/*
 * A socket of one family that wakes the context. @port: shared with all instances of the host; 0: one of its own.
 * Return: the descriptor or a negative errno.
 */
int ripc__udp_socket(const struct ripc__backend_env *env, int family, uint16_t port);

/*
 * Takes one datagram. *ifindex: the interface it came in by, 0 if the kernel did not say. Return: bytes, which may be more than
 * @cap if it was cut; -EAGAIN: none.
 */
int ripc__udp_recv(int fd, struct ripc__mcast_sender *from, uint8_t *buf, size_t cap,
		   unsigned *ifindex);

#endif
