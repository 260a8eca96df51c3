/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ib/address.h"
#include "wire/address.h"
#include "wire/bytes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ADDRESS_VERSION 1

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

uint64_t ripc__ib_port_addr_source(const struct ripc__ib_port_addr *port_addr)
{
	uint64_t part = 0;

	for (unsigned i = 8; i < 16; i++)
		part = part << 8 | port_addr->gid[i];
	return part ? part : port_addr->lid;
}

bool ripc__ib_gid_is_v4(const uint8_t gid[16])
{
	return !memcmp(gid, v4_prefix, sizeof(v4_prefix));
}

static void encode_port(const struct ripc__ib_port_addr *p, uint8_t buf[RIPC__IB_PORT_ADDR_LEN])
{
	buf[0] = p->link;
	buf[1] = p->mtu;
	ripc__put_le16(buf + 2, p->lid);
	ripc__put_le32(buf + 4, p->qpn);
	ripc__put_le32(buf + 8, p->qkey);
	memcpy(buf + 12, p->gid, 16);
}

/* Return: whether the port is valid. */
static bool decode_port(struct ripc__ib_port_addr *p, const uint8_t buf[RIPC__IB_PORT_ADDR_LEN])
{
	static const uint8_t none[16];

	p->link = buf[0];
	p->mtu = buf[1];
	p->lid = ripc__get_le16(buf + 2);
	p->qpn = ripc__get_le32(buf + 4);
	p->qkey = ripc__get_le32(buf + 8);
	memcpy(p->gid, buf + 12, 16);
	if (p->link < RIPC__IB_LINK_IB || p->link > RIPC__IB_LINK_V2 || p->mtu < 1 || p->mtu > 5)
		return false;
	/* 0 and 1 are QPs of the fabric; Q_Keys with the top bit set are controlled. */
	if (p->qpn < 2 || p->qpn > 0xffffff || p->qkey >> 31)
		return false;
	/* Unicast LIDs end at 0xbfff; a multicast LID is no peer. */
	if (p->link == RIPC__IB_LINK_IB)
		return p->lid && p->lid < 0xc000;
	return !p->lid && p->gid[0] != 0xff && memcmp(p->gid, none, 16);
}

_Static_assert(RIPC__IB_ADDRESS_HEADER + RIPC__IB_PORTS_MAX * RIPC__IB_PORT_ADDR_LEN <=
		       RIPC__ADDRESS_MAX,
	       "fits");

size_t ripc__ib_address_encode(const struct ripc__ib_port_addr *ports, unsigned count, uint8_t *buf)
{
	uint8_t *to = buf + RIPC__IB_ADDRESS_HEADER;

	buf[0] = ADDRESS_VERSION;
	buf[1] = (uint8_t)count;
	buf[2] = buf[3] = 0;
	for (unsigned i = 0; i < count; i++, to += RIPC__IB_PORT_ADDR_LEN)
		encode_port(&ports[i], to);
	return (size_t)(to - buf);
}

int ripc__ib_address_decode(struct ripc__ib_address *a, const uint8_t *buf, size_t len)
{
	if (len < RIPC__IB_ADDRESS_HEADER || buf[0] != ADDRESS_VERSION || !buf[1] ||
	    buf[1] > RIPC__IB_PORTS_MAX || buf[2] || buf[3] ||
	    len != RIPC__IB_ADDRESS_HEADER + buf[1] * RIPC__IB_PORT_ADDR_LEN)
		return -EINVAL;
	a->count = buf[1];
	for (unsigned i = 0; i < a->count; i++)
		if (!decode_port(&a->port_addrs[i],
				 buf + RIPC__IB_ADDRESS_HEADER + i * RIPC__IB_PORT_ADDR_LEN))
			return -EINVAL;
	return 0;
}

void ripc__ib_port_addr_text(const struct ripc__ib_port_addr *p, char *text, size_t len)
{
	char ip[INET6_ADDRSTRLEN] = "?";
	bool v4 = ripc__ib_gid_is_v4(p->gid);

	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? p->gid + 12 : p->gid, ip, sizeof(ip));
	if (p->link == RIPC__IB_LINK_IB)
		snprintf(text, len, "InfiniBand LID %u qp 0x%x", p->lid, p->qpn);
	else
		snprintf(text, len, "RoCEv%d %s qp 0x%x", p->link == RIPC__IB_LINK_V1 ? 1 : 2, ip,
			 p->qpn);
}

bool ripc__ib_reachable(const struct ripc__ib_port_addr *from, const struct ripc__ib_port_addr *to)
{
	if (from->link != to->link)
		return false;
	if (from->link == RIPC__IB_LINK_IB)
		return true;
	return ripc__ib_gid_is_v4(from->gid) == ripc__ib_gid_is_v4(to->gid);
}

static bool checksum_right(const uint8_t *p)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += ripc__get_be16(p + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static bool is_v6(const uint8_t grh[40])
{
	return grh[0] >> 4 == 6;
}

/*
 * The bytes before an IPv4 header are undefined and may look like IPv6, so the IPv4 header checksum
 * decides. It is not checked otherwise, because Soft-RoCE leaves it 0 within a host.
 */
static bool is_v4(const uint8_t grh[40])
{
	return grh[20] == 0x45 && (!is_v6(grh) || checksum_right(grh + 20));
}

bool ripc__ib_grh_to_group(const uint8_t grh[40])
{
	if (is_v4(grh))
		return grh[36] >> 4 == 0xe;
	return is_v6(grh) && grh[24] == 0xff;
}

bool ripc__ib_grh_source(const uint8_t grh[40], uint8_t gid[16])
{
	const uint8_t *ip = grh + 20;

	if (is_v4(grh)) {
		memcpy(gid, v4_prefix, sizeof(v4_prefix));
		memcpy(gid + 12, ip + 12, 4);
		return true;
	}
	memcpy(gid, grh + 8, 16);
	return is_v6(grh);
}
