/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* IPv4 and IPv6 socket addresses of the transports. Pure, but for ripc__sockaddr_text(). */
#ifndef RIPC_NET_SOCKADDR_H
#define RIPC_NET_SOCKADDR_H

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An IPv4 or IPv6 socket address. */
union ripc__sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/*
 * Whether the transports may listen on this address: the interface is up and in @names (comma
 * separated; "": all), and the address is IPv4, or IPv6 and not link-local. Fills *ip.
 */
bool ripc__sockaddr_of_interface(const struct ifaddrs *i, const char *names,
				 union ripc__sockaddr *ip);
/*
 * As ripc__sockaddr_of_interface(), for an IPv6 link-local address of another interface than the
 * loopback. *ip has the scope id.
 */
bool ripc__sockaddr_link_local_of(const struct ifaddrs *i, const char *names,
				  union ripc__sockaddr *ip);

bool ripc__sockaddr_is_link_local(const union ripc__sockaddr *a); /* IPv6 only */
bool ripc__sockaddr_is_loopback(const union ripc__sockaddr *a);
/*
 * The source of a connection for base/admission.h: the IPv4 address, the subnet (upper half) of the
 * IPv6 address, or the interface id (lower half) of a link-local one.
 */
uint64_t ripc__sockaddr_source(const union ripc__sockaddr *a);
/* Addresses with different scope ids differ. */
bool ripc__sockaddr_same_ip(const union ripc__sockaddr *a, const union ripc__sockaddr *b);
socklen_t ripc__sockaddr_len(const union ripc__sockaddr *a);
void ripc__sockaddr_set_port(union ripc__sockaddr *a, uint16_t port);
uint16_t ripc__sockaddr_port(const union ripc__sockaddr *a);
/* "127.0.0.1:4711", "[::1]:4711", "[fe80::1%eth0]:4711". 64 bytes suffice. */
void ripc__sockaddr_text(const union ripc__sockaddr *a, char *text, size_t len);

#endif
