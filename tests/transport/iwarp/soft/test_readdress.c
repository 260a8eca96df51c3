/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Addresses of the host change while contexts are open, in a network namespace. */
#define _GNU_SOURCE /* unshare */

#include "harness.h"

#include <ripc.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define OPTIONS   "transports=iwarp/soft resolver=local interfaces=lo,link0"
#define DATAGRAMS OPTIONS " short=udp"
#define WAIT_MS   60000 /* short time limit */

static bool ip(const char *command)
{
	char udp_conn[512];

	snprintf(udp_conn, sizeof(udp_conn), "PATH=$PATH:/sbin:/usr/sbin; %s", command);
	return !system(udp_conn);
}

/* A network with a loopback and a link without addresses. Return: whether that is possible. */
static bool alone(void)
{
	if (!ip("command -v ip >/dev/null")) {
		test_skip("no program ip (iproute2) here");
		return false;
	}
	if ((unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) ||
	    !ip("ip link set lo up && ip addr flush dev lo && ip addr add 127.0.0.1/32 dev lo && "
		"ip link add link0 type veth peer name link1 && { ip link set link0 addrgenmode "
		"none; ip link set link1 addrgenmode none; } 2>/dev/null; ip link set link1 up && "
		"ip link set link0 up")) {
		test_skip("no network namespace of our own here");
		return false;
	}
	return true;
}

/* Whether a context advertises an address within a time. */
static bool listens(struct ripc *ctx, const char *address, bool there)
{
	char text[512];
	const char *name;

	uint64_t end = 0;

	do {
		size_t size = sizeof(text);

		for (unsigned k = 0; ripc_transport_info(ctx, k, &name, text, size) >= 0; k++)
			if (!strcmp(name, "iwarp/soft") && !strstr(text, address) == !there)
				return true;
	} while (test_pause(&end, WAIT_MS));
	return false;
}

/* Sends one message and receives it. */
static void send_text(struct ripc_service *from, struct ripc_service *to)
{
	struct iovec text = {"hello", 5};
	struct ripc_message *m;

	ck_assert_msg(!ripc_send(from, ripc_service_id(to), &text, 1, NULL, WAIT_MS), "%s",
		      ripc_error_detail());
	ck_assert_msg(!ripc_receive(to, &m, WAIT_MS), "%s", ripc_error_detail());
	ck_assert_uint_eq(m->items[0].iov_len, 5);
	ripc_message_free(m);
}

START_TEST(readdress__a_network_that_comes_later)
{
	struct ripc *a, *b;
	struct ripc_service *sa, *sb;
	struct ripc_route route = {.size = sizeof(route)};

	if (!alone())
		return;
	ck_assert_int_eq(ripc_open(&a, OPTIONS), 0);
	ck_assert_int_eq(ripc_service_register(a, 42, 0, &sa), 0);
	ck_assert(listens(a, "127.0.0.1", true));
	/* Only the new address is left. */
	ck_assert(ip("ip addr add 10.9.8.7/24 dev link0 && ip addr flush dev lo"));
	ck_assert(listens(a, "10.9.8.7", true));
	ck_assert(listens(a, "127.0.0.1", false));
	ck_assert_int_eq(ripc_open(&b, OPTIONS), 0);
	ck_assert_int_eq(ripc_service_register(b, RIPC_ANY_ID, 0, &sb), 0);
	send_text(sb, sa);
	ck_assert_int_eq(ripc_route_get(b, 42, &route), 0);
	ck_assert_msg(strstr(route.address, "10.9.8.7") != NULL, "%s", route.address);
	ck_assert_int_eq(ripc_close(b), 0);
	ck_assert_int_eq(ripc_close(a), 0);
}
END_TEST

START_TEST(readdress__an_address_that_is_known_changes)
{
	struct ripc *a, *b;
	struct ripc_service *sa, *sb;

	if (!alone())
		return;
	ck_assert(ip("ip addr add 10.9.8.7/24 dev link0 && ip addr flush dev lo"));
	ck_assert_int_eq(ripc_open(&a, OPTIONS), 0);
	ck_assert_int_eq(ripc_open(&b, OPTIONS), 0);
	ck_assert_int_eq(ripc_service_register(a, 42, 0, &sa), 0);
	ck_assert_int_eq(ripc_service_register(b, RIPC_ANY_ID, 0, &sb), 0);
	send_text(sb, sa);
	/*
	 * The connection uses addresses that are gone: it breaks, and the next one uses the new
	 * address.
	 */
	ck_assert(ip("ip addr flush dev link0 && ip addr add 10.9.8.6/24 dev link0"));
	ck_assert(listens(a, "10.9.8.6", true));
	ck_assert(listens(a, "10.9.8.7", false));
	for (unsigned tries = 0, came = 0; came < 3; tries++) {
		struct iovec text = {"hello", 5};
		struct ripc_message *m;

		ck_assert_msg(tries < 20, "%s", ripc_error_detail());
		/*
		 * Messages in flight when the connection broke may be lost, or arrive and be
		 * unknown.
		 */
		if (ripc_send_long(sb, 42, &text, 1, NULL, WAIT_MS))
			continue;
		ck_assert_msg(!ripc_receive(sa, &m, WAIT_MS), "%s", ripc_error_detail());
		ripc_message_free(m);
		came++;
	}
	ck_assert_int_eq(ripc_close(b), 0);
	ck_assert_int_eq(ripc_close(a), 0);
}
END_TEST

static bool by_datagram(struct ripc *ctx, uint64_t dest)
{
	struct ripc_route route = {.size = sizeof(route)};

	return !ripc_route_get(ctx, dest, &route) &&
	       strstr(route.reason, "short messages by datagram");
}

/* Repeated: the connection, which confirms the route, takes longer than the first datagram. */
static bool soon_by_datagram(struct ripc *ctx, uint64_t dest)
{
	uint64_t end = 0;

	while (!by_datagram(ctx, dest))
		if (!test_pause(&end, WAIT_MS))
			return false;
	return true;
}

/* Datagrams continue, although their socket is gone and the peer was unreachable. */
START_TEST(readdress__datagrams_go_on)
{
	struct ripc *a, *b;
	struct ripc_service *sa, *sb;
	bool came = false;

	if (!alone())
		return;
	ck_assert(ip("ip addr add 10.9.8.7/24 dev link0 && ip addr flush dev lo"));
	ck_assert_int_eq(ripc_open(&a, DATAGRAMS), 0);
	ck_assert_int_eq(ripc_open(&b, DATAGRAMS), 0);
	ck_assert_int_eq(ripc_service_register(a, 42, 0, &sa), 0);
	ck_assert_int_eq(ripc_service_register(b, RIPC_ANY_ID, 0, &sb), 0);
	send_text(sb, sa);
	ck_assert(soon_by_datagram(b, 42));
	ck_assert(ip("ip addr flush dev link0 && ip addr add 10.9.8.6/24 dev link0"));
	ck_assert(listens(a, "10.9.8.6", true));
	ck_assert(listens(b, "10.9.8.6", true));
	ck_assert(listens(b, "10.9.8.7", false));
	/* A datagram may be lost, as long as it is sent to the right address. */
	for (uint64_t end = 0; !came && test_pause(&end, WAIT_MS);) {
		struct iovec text = {"hello", 5};
		struct ripc_message *m;

		if (ripc_send(sb, 42, &text, 1, NULL, WAIT_MS) || ripc_receive(sa, &m, 300))
			continue;
		ripc_message_free(m);
		/* The connection takes a while. */
		came = by_datagram(b, 42);
	}
	ck_assert_msg(came, "%s", ripc_error_detail());
	ck_assert_int_eq(ripc_close(b), 0);
	ck_assert_int_eq(ripc_close(a), 0);
}
END_TEST

/*
 * A context opened without a network does not know its MTU: its longest datagram arrives all the
 * same.
 */
START_TEST(readdress__the_longest_datagram)
{
	static char bytes[65536];
	struct iovec text = {bytes, 0};
	struct ripc *a, *b;
	struct ripc_service *sa, *sb;
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc_message *m;

	if (!alone())
		return;
	ck_assert_int_eq(ripc_open(&a, DATAGRAMS), 0);
	ck_assert_int_eq(ripc_service_register(a, RIPC_ANY_ID, 0, &sa), 0);
	ck_assert(ip("ip addr add 10.9.8.7/24 dev link0 && ip addr flush dev lo"));
	ck_assert(listens(a, "10.9.8.7", true));
	ck_assert_int_eq(ripc_open(&b, DATAGRAMS), 0);
	ck_assert_int_eq(ripc_service_register(b, 42, 0, &sb), 0);
	send_text(sa, sb);
	ck_assert(soon_by_datagram(a, 42));
	ck_assert_int_eq(ripc_route_get(a, 42, &route), 0);
	ck_assert_uint_lt(route.short_max, 1500);
	text.iov_len = route.short_max;
	ck_assert_int_eq(ripc_send(sa, 42, &text, 1, NULL, WAIT_MS), 0);
	ck_assert_msg(!ripc_receive(sb, &m, WAIT_MS), "%s", ripc_error_detail());
	ck_assert_uint_eq(m->items[0].iov_len, text.iov_len);
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(b), 0);
	ck_assert_int_eq(ripc_close(a), 0);
}
END_TEST

#define DESCRIPTORS 128

/* Out of descriptors when the address appears: it is read again later. */
START_TEST(readdress__without_descriptors)
{
	struct rlimit before, few;
	struct ripc *a;
	int fds[DESCRIPTORS];
	unsigned n = 0;

	if (!alone())
		return;
	ck_assert_int_eq(ripc_open(&a, DATAGRAMS), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	if (few.rlim_cur > DESCRIPTORS)
		few.rlim_cur = DESCRIPTORS;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (n < DESCRIPTORS && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	ck_assert(ip("ip addr add 10.9.8.7/24 dev link0"));
	/* Long enough for a failed attempt, which shows nothing by itself. */
	nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
	while (n)
		close(fds[--n]);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert(listens(a, "10.9.8.7", true));
	ck_assert_int_eq(ripc_close(a), 0);
}
END_TEST

/* More addresses than slots, one after the other: gone ones make room. */
START_TEST(readdress__many_one_after_the_other)
{
	struct ripc *a;

	if (!alone())
		return;
	ck_assert_int_eq(ripc_open(&a, DATAGRAMS), 0);
	for (unsigned i = 1; i < 13; i++) {
		char udp_conn[128], address[32];

		snprintf(address, sizeof(address), "10.9.8.%u", i);
		snprintf(udp_conn, sizeof(udp_conn),
			 "ip addr flush dev link0 && ip addr add %s/24 dev link0", address);
		ck_assert(ip(udp_conn));
		snprintf(address, sizeof(address), "10.9.8.%u:", i);
		ck_assert_msg(listens(a, address, true), "%s", address);
	}
	ck_assert_int_eq(ripc_close(a), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/iwarp/soft/readdress");
	TCase *tc = tcase_create("readdress");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, readdress__a_network_that_comes_later);
	tcase_add_test(tc, readdress__an_address_that_is_known_changes);
	tcase_add_test(tc, readdress__datagrams_go_on);
	tcase_add_test(tc, readdress__the_longest_datagram);
	tcase_add_test(tc, readdress__without_descriptors);
	tcase_add_test(tc, readdress__many_one_after_the_other);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/readdress", suite);
}
