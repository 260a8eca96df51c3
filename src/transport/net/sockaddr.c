/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/net/sockaddr.h"

#include "base/options.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static bool address_of(const struct ifaddrs *i, const char *names, union ripc__sockaddr *ip)
{
	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	if (names[0] && ripc__list_index(names, i->ifa_name) < 0)
		return false;
	memset(ip, 0, sizeof(*ip));
	if (i->ifa_addr->sa_family == AF_INET)
		memcpy(&ip->in, i->ifa_addr, sizeof(ip->in));
	else if (i->ifa_addr->sa_family == AF_INET6)
		memcpy(&ip->in6, i->ifa_addr, sizeof(ip->in6));
	else
		return false;
	return true;
}

bool ripc__sockaddr_is_link_local(const union ripc__sockaddr *a)
{
	return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr);
}

bool ripc__sockaddr_of_interface(const struct ifaddrs *i, const char *names,
				 union ripc__sockaddr *ip)
{
	return address_of(i, names, ip) && !ripc__sockaddr_is_link_local(ip);
}

bool ripc__sockaddr_link_local_of(const struct ifaddrs *i, const char *names,
				  union ripc__sockaddr *ip)
{
	return address_of(i, names, ip) && ripc__sockaddr_is_link_local(ip) &&
	       !(i->ifa_flags & IFF_LOOPBACK);
}

bool ripc__sockaddr_is_loopback(const union ripc__sockaddr *a)
{
	if (a->sa.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

uint64_t ripc__sockaddr_source(const union ripc__sockaddr *a)
{
	/* All neighbours have the subnet fe80::/64. */
	unsigned half = ripc__sockaddr_is_link_local(a) ? 8 : 0;
	uint64_t source = 0;

	if (a->sa.sa_family == AF_INET)
		return UINT64_C(1) << 32 | ntohl(a->in.sin_addr.s_addr);
	for (unsigned i = 0; i < 8; i++)
		source = source << 8 | a->in6.sin6_addr.s6_addr[half + i];
	return source;
}

bool ripc__sockaddr_same_ip(const union ripc__sockaddr *a, const union ripc__sockaddr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr) &&
	       a->in6.sin6_scope_id == b->in6.sin6_scope_id;
}

socklen_t ripc__sockaddr_len(const union ripc__sockaddr *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

void ripc__sockaddr_set_port(union ripc__sockaddr *a, uint16_t port)
{
	if (a->sa.sa_family == AF_INET)
		a->in.sin_port = htons(port);
	else
		a->in6.sin6_port = htons(port);
}

uint16_t ripc__sockaddr_port(const union ripc__sockaddr *a)
{
	return ntohs(a->sa.sa_family == AF_INET ? a->in.sin_port : a->in6.sin6_port);
}

void ripc__sockaddr_text(const union ripc__sockaddr *a, char *text, size_t len)
{
	char ip[INET6_ADDRSTRLEN] = "?", scope[IF_NAMESIZE + 1] = "";
	bool v4 = a->sa.sa_family == AF_INET;

	inet_ntop(a->sa.sa_family,
		  v4 ? (const void *)&a->in.sin_addr : (const void *)&a->in6.sin6_addr, ip,
		  sizeof(ip));
	if (!v4 && a->in6.sin6_scope_id) {
		scope[0] = '%';
		if (!if_indextoname(a->in6.sin6_scope_id, scope + 1))
			snprintf(scope + 1, sizeof(scope) - 1, "%u", a->in6.sin6_scope_id);
	}
	snprintf(text, len, v4 ? "%s%s:%u" : "[%s%s]:%u", ip, scope, ripc__sockaddr_port(a));
}
