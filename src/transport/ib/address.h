/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The address of the ib transport in resolver records: the ports of a context. doc/protocol.md,
 * section 4.3. Pure.
 */
#ifndef RIPC_IB_ADDRESS_H
#define RIPC_IB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__IB_PORTS_MAX      8   /* most ports in one address */
#define RIPC__IB_PORT_ADDR_LEN  28u /* bytes of one port in an address */
#define RIPC__IB_ADDRESS_HEADER 4u  /* header bytes before the first port */

enum ripc__ib_link {
	RIPC__IB_LINK_IB = 1, /* InfiniBand */
	RIPC__IB_LINK_V1 = 2, /* RoCE version 1: Ethernet, GIDs are not routed */
	RIPC__IB_LINK_V2 = 3, /* RoCE version 2: UDP */
};

/* One port with its UD queue pair. */
struct ripc__ib_port_addr {
	uint8_t link; /* enum ripc__ib_link */
	uint8_t mtu;  /* 1 to 5: 256 to 4096 bytes, as enum ibv_mtu */
	uint16_t lid; /* InfiniBand; RoCE: 0 */
	uint32_t qpn; /* 24 bits */
	uint32_t qkey;
	uint8_t gid[16];
};

struct ripc__ib_address {
	unsigned count; /* 1 to RIPC__IB_PORTS_MAX, best first */
	struct ripc__ib_port_addr port_addrs[RIPC__IB_PORTS_MAX];
};

static inline uint32_t ripc__ib_mtu_bytes(uint8_t mtu)
{
	return 128u << mtu;
}

/* The source of a request for base/admission.h: the interface part of the GID, or the LID. */
uint64_t ripc__ib_port_addr_source(const struct ripc__ib_port_addr *port_addr);
/* Whether a RoCE GID holds an IPv4 address. */
bool ripc__ib_gid_is_v4(const uint8_t gid[16]);

/* @count: of ports, 1 to RIPC__IB_PORTS_MAX. Return: bytes written, RIPC__ADDRESS_MAX at most. */
size_t ripc__ib_address_encode(const struct ripc__ib_port_addr *ports, unsigned count,
			       uint8_t *buf);
/* Any bytes. Return: 0 or -EINVAL. */
int ripc__ib_address_decode(struct ripc__ib_address *a, const uint8_t *buf, size_t len);

/* Text for logs, such as "RoCEv2 10.0.0.1 qp 0x11". */
void ripc__ib_port_addr_text(const struct ripc__ib_port_addr *p, char *text, size_t len);

/* Whether a datagram can reach one port from the other: same link layer and address family. */
bool ripc__ib_reachable(const struct ripc__ib_port_addr *from, const struct ripc__ib_port_addr *to);

/*
 * Reads the sender's GID from the 40 bytes before a datagram: an IPv6-like header (InfiniBand, RoCE
 * v1, v2 over IPv6), or an IPv4 header in the last 20 bytes. Return: whether there is one.
 */
bool ripc__ib_grh_source(const uint8_t grh[40], uint8_t gid[16]);
/* Whether these bytes name a multicast destination. */
bool ripc__ib_grh_to_group(const uint8_t grh[40]);

#endif
