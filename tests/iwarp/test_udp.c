/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "transport/iwarp/udp.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define HOST     77
#define PATIENCE 60000 /* milliseconds */

/* One socket on the loopback. */
static void open_one(struct ripc__udp *u, const char *ip)
{
	union ripc__sockaddr a = {0};

	if (strchr(ip, ':')) {
		a.sa.sa_family = AF_INET6;
		ck_assert_int_eq(inet_pton(AF_INET6, ip, &a.in6.sin6_addr), 1);
	} else {
		a.sa.sa_family = AF_INET;
		ck_assert_int_eq(inet_pton(AF_INET, ip, &a.in.sin_addr), 1);
	}
	ripc__udp_init(u, "test", HOST);
	ck_assert_int_eq(ripc__udp_open(u, &a, 0), 0);
}

/* As it is in resolver records. Return: bytes. */
static size_t address_of(const struct ripc__udp *u, uint8_t addr[RIPC__ADDRESS_MAX])
{
	struct ripc__iwarp_address a = {.host = HOST, .nplaces = 1};

	a.places[0].ip = u->port[0].addr;
	a.places[0].loopback = true;
	a.places[0].tcp = 1;
	a.places[0].udp = ripc__sockaddr_port(&u->port[0].addr);
	return ripc__iwarp_address_encode(&a, addr, RIPC__ADDRESS_MAX);
}

static void send_to(struct ripc__udp *u, const uint8_t *addr, size_t len, char what)
{
	struct iovec iov = {&what, 1};

	ck_assert_int_eq(ripc__udp_send(u, addr, len, &iov, 1), 0);
}

static char space[65536];

/* Return: what came; from: who is to be answered. */
static char receive(struct ripc__udp *u, uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen)
{
	char who[64];

	ck_assert_int_eq(poll(&(struct pollfd){u->port[0].fd, POLLIN, 0}, 1, PATIENCE), 1);
	ck_assert_int_eq(ripc__udp_receive(u, 0, space, from, fromlen, who), 1);
	return *space;
}

/* Each of two senders, in turn and one after the other, gets the answer to what it has sent. */
static void answers_reach_their_senders(const char *ip)
{
	static const char order[] = "aabbababba";
	struct ripc__udp server, a, b;
	uint8_t to[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM], nobody[RIPC__UDP_FROM];
	uint32_t fromlen, none;
	size_t len;
	char who[64];

	open_one(&server, ip);
	open_one(&a, ip);
	open_one(&b, ip);
	len = address_of(&server, to);
	for (const char *p = order; *p; p++) {
		struct ripc__udp *sender = *p == 'a' ? &a : &b, *other = *p == 'a' ? &b : &a;

		send_to(sender, to, len, *p);
		ck_assert_int_eq(receive(&server, from, &fromlen), *p);
		send_to(&server, from, fromlen, 'x');
		ck_assert_int_eq(receive(sender, nobody, &none), 'x');
		ck_assert_int_eq(ripc__udp_receive(other, 0, space, nobody, &none, who), -EAGAIN);
	}
	ripc__udp_close(&a);
	ripc__udp_close(&b);
	ripc__udp_close(&server);
}

START_TEST(receive__whom_to_answer)
{
	answers_reach_their_senders("127.0.0.1");
}
END_TEST

START_TEST(receive__whom_to_answer_ipv6)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool there = fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof(any));

	if (fd >= 0)
		close(fd);
	if (there)
		answers_reach_their_senders("::1");
	else
		test_skip("no IPv6 on the loopback");
}
END_TEST

START_TEST(receive__nothing_and_too_much)
{
	uint8_t to[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	static uint8_t large[20000];
	struct ripc__udp server, a;
	struct iovec iov = {large, sizeof(large)};
	uint32_t fromlen;
	char who[64] = "";
	size_t len;
	int rc;

	open_one(&server, "127.0.0.1");
	open_one(&a, "127.0.0.1");
	len = address_of(&server, to);
	ck_assert_int_eq(ripc__udp_receive(&server, 0, large, from, &fromlen, who), -EAGAIN);
	ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), -EMSGSIZE);
	/* Others may send anything. */
	ck_assert_int_eq(sendto(a.port[0].fd, large, sizeof(large), 0, &server.port[0].addr.sa,
				sizeof(server.port[0].addr.in)),
			 (int)sizeof(large));
	ck_assert_int_eq(poll(&(struct pollfd){server.port[0].fd, POLLIN, 0}, 1, PATIENCE), 1);
	rc = ripc__udp_receive(&server, 0, large, from, &fromlen, who);
	ck_assert_int_eq(rc, -EMSGSIZE);
	ck_assert_msg(!strncmp(who, "127.0.0.1:", 10), "%s", who);
	ripc__udp_close(&a);
	ripc__udp_close(&server);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp");
	TCase *tc = tcase_create("udp");

	tcase_add_test(tc, receive__whom_to_answer);
	tcase_add_test(tc, receive__whom_to_answer_ipv6);
	tcase_add_test(tc, receive__nothing_and_too_much);
	suite_add_tcase(suite, tc);
	return test_main("iwarp/test_udp", suite);
}
