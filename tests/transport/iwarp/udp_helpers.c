/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "udp_helpers.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

char space[65536];

void open_one(struct ripc__udp *u, const char *ip)
{
	union ripc__sockaddr a = {0};

	if (strchr(ip, ':')) {
		a.sa.sa_family = AF_INET6;
		ck_assert_int_eq(inet_pton(AF_INET6, ip, &a.in6.sin6_addr), 1);
	} else {
		a.sa.sa_family = AF_INET;
		ck_assert_int_eq(inet_pton(AF_INET, ip, &a.in.sin_addr), 1);
	}
	ripc__udp_init(u, "test", NULL, 0, -1, 1, 0);
	u->host = HOST;
	ck_assert_int_eq(ripc__udp_open(u, &a, 0), 0);
}

size_t address_of(const struct ripc__udp *u, uint8_t addr[RIPC__ADDRESS_MAX])
{
	struct ripc__iwarp_address a = {.host = HOST, .naddrs = 1};

	a.addrs[0].ip = u->port[0].addr;
	a.addrs[0].tcp = 1;
	a.addrs[0].udp = ripc__sockaddr_port(&u->port[0].addr);
	return ripc__iwarp_address_encode(&a, addr);
}

void send_to(struct ripc__udp *u, const uint8_t *addr, size_t len, char what)
{
	struct iovec iov = {&what, 1};

	ck_assert_int_eq(ripc__udp_send(u, addr, len, &iov, 1), 0);
}

char receive(struct ripc__udp *u, uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen)
{
	char who[64];

	ck_assert_int_eq(poll(&(struct pollfd){u->port[0].fd, POLLIN, 0}, 1, TIMEOUT_MS), 1);
	ck_assert_int_eq(ripc__udp_receive(u, 0, space, from, fromlen, who), 1);
	return *space;
}
