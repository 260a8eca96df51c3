/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/address.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/text.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define VERSION      1
#define HEADER       12
#define ADDR_FIXED   6 /* bytes of a listening address without its IP address */
#define LOOPBACK_BIT 0x01

uint64_t ripc__iwarp_host_id(void)
{
	uint64_t key[2] = {0, 0}, id = 0;
	struct ripc__host host;
	struct utsname name;

	ripc__host_get(&host);
	if (host.known) {
		memcpy(key, host.boot, sizeof(key));
	} else if (!uname(&name)) {
		for (const char *p = name.nodename; *p; p++)
			id = ripc__siphash(key, id ^ (uint8_t)*p);
	}
	return ripc__siphash(key, id ^ host.netns);
}

static size_t ip_len(unsigned family)
{
	return family == 4 ? 4 : 16;
}

static uint8_t *ip_bytes(union ripc__sockaddr *a)
{
	return a->sa.sa_family == AF_INET ? (uint8_t *)&a->in.sin_addr
					  : (uint8_t *)&a->in6.sin6_addr;
}

_Static_assert(HEADER + RIPC__IWARP_ADDRS_MAX * (ADDR_FIXED + 16) <= RIPC__ADDRESS_MAX, "fits");

size_t ripc__iwarp_address_encode(const struct ripc__iwarp_address *a, uint8_t *buf)
{
	uint8_t *p = buf + HEADER;

	memset(buf, 0, HEADER);
	buf[0] = VERSION;
	buf[1] = (uint8_t)a->naddrs;
	ripc__put_le64(buf + 4, a->host);
	for (unsigned i = 0; i < a->naddrs; i++) {
		union ripc__sockaddr ip = a->addrs[i].ip;

		p[0] = ip.sa.sa_family == AF_INET ? 4 : 6;
		p[1] = ripc__sockaddr_is_loopback(&ip) ? LOOPBACK_BIT : 0;
		ripc__put_le16(p + 2, a->addrs[i].tcp);
		ripc__put_le16(p + 4, a->addrs[i].udp);
		memcpy(p + ADDR_FIXED, ip_bytes(&ip), ip_len(p[0]));
		p += ADDR_FIXED + ip_len(p[0]);
	}
	return (size_t)(p - buf);
}

/* Whether the address names no single host, so that no connection to it is possible. */
static bool unusable(const union ripc__sockaddr *a)
{
	if (a->sa.sa_family == AF_INET) {
		uint32_t ip = ntohl(a->in.sin_addr.s_addr);

		return ip == INADDR_ANY || ip >= UINT32_C(0xe0000000);
	}
	return IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr) ||
	       IN6_IS_ADDR_MULTICAST(&a->in6.sin6_addr) || IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr);
}

int ripc__iwarp_address_decode(struct ripc__iwarp_address *a, const uint8_t *buf, size_t len)
{
	const uint8_t *p = buf + HEADER;

	memset(a, 0, sizeof(*a));
	if (len < HEADER || buf[0] != VERSION || buf[1] < 1 || buf[1] > RIPC__IWARP_ADDRS_MAX ||
	    buf[2] || buf[3])
		return -EINVAL;
	a->host = ripc__get_le64(buf + 4);
	a->naddrs = buf[1];
	for (unsigned i = 0; i < a->naddrs; i++) {
		struct ripc__iwarp_listen_addr *addr = &a->addrs[i];
		size_t left = len - (size_t)(p - buf);

		if (left < ADDR_FIXED || (p[0] != 4 && p[0] != 6) ||
		    left < ADDR_FIXED + ip_len(p[0]))
			return -EINVAL;
		addr->ip.sa.sa_family = p[0] == 4 ? AF_INET : AF_INET6;
		memcpy(ip_bytes(&addr->ip), p + ADDR_FIXED, ip_len(p[0]));
		addr->tcp = ripc__get_le16(p + 2);
		addr->udp = ripc__get_le16(p + 4);
		if (!addr->tcp || unusable(&addr->ip) ||
		    (addr->udp && ripc__sockaddr_is_link_local(&addr->ip)) ||
		    (p[1] & LOOPBACK_BIT) != ripc__sockaddr_is_loopback(&addr->ip))
			return -EINVAL;
		p += ADDR_FIXED + ip_len(p[0]);
	}
	return p == buf + len ? 0 : -EINVAL;
}

unsigned ripc__iwarp_address_order(struct ripc__iwarp_address *a, uint64_t host,
				   const unsigned *scopes, unsigned nscopes)
{
	struct ripc__iwarp_address all = *a;

	a->naddrs = 0;
	for (unsigned i = 0; i < all.naddrs && a->host == host; i++)
		if (ripc__sockaddr_is_loopback(&all.addrs[i].ip))
			a->addrs[a->naddrs++] = all.addrs[i];
	for (unsigned i = 0; i < all.naddrs; i++)
		if (!ripc__sockaddr_is_loopback(&all.addrs[i].ip) &&
		    !ripc__sockaddr_is_link_local(&all.addrs[i].ip))
			a->addrs[a->naddrs++] = all.addrs[i];
	for (unsigned i = 0; i < all.naddrs; i++)
		for (unsigned k = 0; k < nscopes && a->naddrs < RIPC__IWARP_ADDRS_MAX; k++) {
			if (!ripc__sockaddr_is_link_local(&all.addrs[i].ip))
				break;
			a->addrs[a->naddrs] = all.addrs[i];
			a->addrs[a->naddrs++].ip.in6.sin6_scope_id = scopes[k];
		}
	return a->naddrs;
}

void ripc__iwarp_address_describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	struct ripc__iwarp_address a;
	size_t at = 0;

	if (ripc__iwarp_address_decode(&a, addr, len)) {
		snprintf(text, textlen, "malformed address");
		return;
	}
	for (unsigned i = 0; i < a.naddrs; i++) {
		union ripc__sockaddr ip = a.addrs[i].ip;
		char one[64];

		ripc__sockaddr_set_port(&ip, a.addrs[i].tcp);
		ripc__sockaddr_text(&ip, one, sizeof(one));
		at = ripc__append(text, textlen, at, "%s%s", i ? " " : "", one);
	}
}
