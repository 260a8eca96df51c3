/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The address of the iWARP transports in resolver records: the addresses a context listens on.
 * doc/protocol.md, section 4. Pure, but for ripc__iwarp_host_id().
 */
#ifndef RIPC_IWARP_ADDRESS_H
#define RIPC_IWARP_ADDRESS_H

#include "transport/net/sockaddr.h"
#include "wire/address.h"

#include <stddef.h>

#define RIPC__IWARP_ADDRS_MAX 11 /* most listening addresses: they fit 256 bytes in any mixture */

/* One listening address. */
struct ripc__iwarp_listen_addr {
	union ripc__sockaddr ip; /* its port is 0 */
	uint16_t tcp, udp;       /* ports, host order; udp 0: takes no datagrams */
};

struct ripc__iwarp_address {
	uint64_t host;   /* same for contexts that share a loopback */
	unsigned naddrs; /* 1 .. RIPC__IWARP_ADDRS_MAX */
	struct ripc__iwarp_listen_addr addrs[RIPC__IWARP_ADDRS_MAX];
};

/*
 * The number by which contexts that share a loopback recognize each other: a hash of the boot id
 * and the network namespace. Without /proc the host's name replaces the boot id. Two hosts of one
 * name may then have the same number: an attempt over a loopback address fails, and the next
 * address is tried.
 */
uint64_t ripc__iwarp_host_id(void);

/* Return: bytes written at buf, RIPC__ADDRESS_MAX at most. */
size_t ripc__iwarp_address_encode(const struct ripc__iwarp_address *a, uint8_t *buf);
/* Any bytes. Return: 0 or -EINVAL. */
int ripc__iwarp_address_decode(struct ripc__iwarp_address *a, const uint8_t *buf, size_t len);

/*
 * Keeps the addresses that are reachable from @host, best first: the loopback on the same host,
 * others, link-local ones. An IPv6 link-local address is tried with each of the scope ids
 * (interface indices), as far as there is room. Return: how many addresses there are.
 */
unsigned ripc__iwarp_address_order(struct ripc__iwarp_address *a, uint64_t host,
				   const unsigned *scopes, unsigned nscopes);

/* describe() of the vtable: any bytes. */
void ripc__iwarp_address_describe(const uint8_t *addr, size_t len, char *text, size_t textlen);

#endif
