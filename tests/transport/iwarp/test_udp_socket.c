/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The connected UDP socket: used for one peer, invisible to all. */
#define _GNU_SOURCE /* unshare */

#include "transitions.h"
#include "udp_helpers.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RUN 300 /* datagrams after which a socket is connected */

/* A transport that may connect a socket. Return: its epoll descriptor. */
static int open_with_conn(struct ripc__udp *u)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	ck_assert_int_ge(epoll_fd, 0);
	open_one(u, "127.0.0.1");
	u->epoll_fd = epoll_fd;
	return epoll_fd;
}

/* Receives the next datagram of any socket. */
static char receive_byte(struct ripc__udp *u, uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen)
{
	char who[64];
	int ready;

	do {
		struct pollfd fds[2] = {{u->port[0].fd, POLLIN, 0},
					{u->port[RIPC__UDP_CONN].fd, POLLIN, 0}};

		for (unsigned port = 0; port <= RIPC__UDP_CONN; port += RIPC__UDP_CONN)
			if (ripc__udp_receive(u, port, space, from, fromlen, who) == 1)
				return *space;
		ready = poll(fds, 2, TIMEOUT_MS);
	} while (ready > 0);
	ck_abort_msg("nothing came");
	return 0;
}

static bool nothing_received(struct ripc__udp *u)
{
	uint8_t from[RIPC__UDP_FROM];
	uint32_t fromlen;
	char who[64];

	return ripc__udp_receive(u, 0, space, from, &fromlen, who) == -EAGAIN &&
	       ripc__udp_receive(u, RIPC__UDP_CONN, space, from, &fromlen, who) == -EAGAIN;
}

/* n round trips from a to b; each datagram is answered to its source. */
static void exchange(struct ripc__udp *a, struct ripc__udp *b, const uint8_t *to_a,
		     const uint8_t *to_b, size_t len, unsigned n)
{
	uint8_t from[RIPC__UDP_FROM], first[RIPC__UDP_FROM];
	uint32_t fromlen;

	for (unsigned i = 0; i < n; i++) {
		send_to(a, to_b, len, (char)i);
		ck_assert_int_eq(receive_byte(b, from, &fromlen), (char)i);
		if (!i)
			memcpy(first, from, fromlen);
		/* No connected sockets. */
		ck_assert(!memcmp(from, first, fromlen));
		send_to(b, to_a, len, (char)~i);
		ck_assert_int_eq(receive_byte(a, from, &fromlen), (char)~i);
	}
}

static void close_both(struct ripc__udp *a, int epoll_a, struct ripc__udp *b, int epoll_b)
{
	ripc__udp_close(a);
	ripc__udp_close(b);
	close(epoll_a);
	close(epoll_b);
}

/* With one peer a socket is connected, and others notice nothing. */
START_TEST(conn__one_peer)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_conn(&a), eb = open_with_conn(&b);
	uint32_t fromlen;
	size_t len;

	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	ck_assert_uint_eq(address_of(&b, to_b), len);
	exchange(&a, &b, to_a, to_b, len, 100);
	ck_assert(!ripc__udp_conn_sends(&a) && !ripc__udp_conn_sends(&b));
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a) && ripc__udp_conn_sends(&b));
	/* A datagram of another peer is received and answered. */
	send_to(&c, to_a, len, 'c');
	ck_assert_int_eq(receive_byte(&a, from, &fromlen), 'c');
	send_to(&a, from, fromlen, 'x');
	ck_assert_int_eq(receive(&c, from, &fromlen), 'x');
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a));
	/* Without permission there is none. */
	ck_assert(!ripc__udp_conn_sends(&c));
	ripc__udp_close(&c);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* Alternating peers: it is closed, and no datagram is lost; older ones come first. */
START_TEST(conn__several_peers)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], to_c[RIPC__ADDRESS_MAX];
	uint8_t from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_conn(&a), eb = open_with_conn(&b);
	uint32_t fromlen;
	size_t len;

	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	address_of(&b, to_b);
	address_of(&c, to_c);
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a));
	for (char i = 0; i < 10; i++)
		send_to(&b, to_a, len, i);
	for (unsigned i = 0; i < 100; i++) {
		send_to(&a, to_c, len, 'c');
		ck_assert_int_eq(receive(&c, from, &fromlen), 'c');
	}
	ck_assert(!ripc__udp_conn_sends(&a));
	for (char i = 10; i < 20; i++)
		send_to(&b, to_a, len, i);
	for (char i = 0; i < 20; i++)
		ck_assert_int_eq(receive_byte(&a, from, &fromlen), i);
	ck_assert(nothing_received(&a));
	ck_assert_int_lt(a.port[RIPC__UDP_CONN].fd, 0);
	/* A lasting peer gets one again. */
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a));
	ripc__udp_close(&c);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* A mere sender keeps it while few datagrams go to others. */
START_TEST(conn__sends_to_others)
{
	uint8_t to_b[RIPC__ADDRESS_MAX], to_c[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_conn(&a);
	uint32_t fromlen;
	size_t len;

	open_one(&b, "127.0.0.1");
	open_one(&c, "127.0.0.1");
	len = address_of(&b, to_b);
	address_of(&c, to_c);
	for (unsigned every = 20; every; every = every == 20 ? 4 : 0) {
		for (unsigned i = 0; i < RUN * 3; i++) {
			bool other = i >= RUN && i % every == 0;

			send_to(&a, other ? to_c : to_b, len, (char)i);
			ck_assert_int_eq(receive(other ? &c : &b, from, &fromlen), (char)i);
			ck_assert(i != RUN || ripc__udp_conn_sends(&a));
		}
		ck_assert_msg(ripc__udp_conn_sends(&a) == (every == 20), "one of %u to another",
			      every);
	}
	ripc__udp_close(&c);
	ripc__udp_close(&b);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

#define TO(state) (1u << RIPC__UDP_CONN_##state)

DEFINE_SET_STATE(struct ripc__udp_conn, ripc__udp_conn_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__UDP_CONN_STATES] = {
		[RIPC__UDP_CONN_NONE] = TO(PORT_FIRST),
		[RIPC__UDP_CONN_PORT_FIRST] = TO(SHARED) | TO(CLOSING) | TO(NONE),
		[RIPC__UDP_CONN_SHARED] = TO(EXCLUSIVE) | TO(CLOSING) | TO(NONE),
		[RIPC__UDP_CONN_EXCLUSIVE] = TO(CLOSING) | TO(NONE),
		[RIPC__UDP_CONN_CLOSING] = TO(NONE),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* Datagrams that waited in the port come before those of the connected socket. */
START_TEST(conn__older_first)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b;
	int ea = open_with_conn(&a), eb = open_with_conn(&b);
	uint32_t fromlen;
	char who[64];
	size_t len;
	int rc;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	for (char i = 0; i < 20; i++)
		send_to(&b, to_a, len, i);
	for (unsigned i = 0; i < RUN; i++) {
		send_to(&a, to_b, len, 'x');
		ck_assert_int_eq(receive_byte(&b, from, &fromlen), 'x');
	}
	ck_assert(ripc__udp_conn_sends(&a));
	for (char i = 20; i < 40; i++)
		send_to(&b, to_a, len, i);
	for (char i = 0; i < 40; i++) {
		rc = ripc__udp_receive(&a, RIPC__UDP_CONN, space, from, &fromlen, who);
		ck_assert_int_eq(rc, 1);
		ck_assert_int_eq(*space, i);
		ck_assert_uint_eq(a.udp_conn.state,
				  i < 20 ? RIPC__UDP_CONN_PORT_FIRST : RIPC__UDP_CONN_SHARED);
	}
	ck_assert(nothing_received(&a));
	ck_assert_uint_eq(a.udp_conn.state, RIPC__UDP_CONN_EXCLUSIVE);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* Continuous datagrams of others do not delay those of the connected socket. */
START_TEST(conn__alternating_peers)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp_route route = {.len = 1};
	struct ripc__udp a, b, c;
	int ea = open_with_conn(&a);
	uint32_t fromlen;
	unsigned i = 0;
	size_t len;
	char what;

	open_one(&b, "127.0.0.1");
	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	route.fd = a.port[0].fd;
	route.to = b.port[0].addr;
	ripc__udp_conn_open(&a, &route);
	ck_assert(ripc__udp_conn_sends(&a));
	send_to(&b, to_a, len, 'b');
	send_to(&c, to_a, len, 'c');
	do {
		send_to(&c, to_a, len, 'c');
		ck_assert_uint_lt(i++, 100);
		what = receive_byte(&a, from, &fromlen);
	} while (what == 'c');
	ck_assert_int_eq(what, 'b');
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(receive_byte(&a, from, &fromlen), 'c');
	ck_assert(!ripc__udp_conn_sends(&a) && nothing_received(&a));
	ripc__udp_close(&c);
	ripc__udp_close(&b);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

#define WINDOW 70 /* datagrams of the peer: more than a run without source address */

/* Called while the socket exists but is not connected yet. */
static struct {
	struct ripc__udp *peer, *third; /* NULL: none */
	uint8_t to[RIPC__ADDRESS_MAX];
	size_t len;
} window;

int __real_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	if (window.peer) {
		for (unsigned i = 0; i < WINDOW; i++)
			send_to(window.peer, window.to, window.len, 'p');
		for (unsigned i = 0; i < 2; i++)
			send_to(window.third, window.to, window.len, 's');
		window.peer = NULL;
	}
	return __real_connect(fd, to, len);
}

/* The next datagram of a is this one, and its sender the one to answer. */
static void receive_from(struct ripc__udp *u, char what, const struct ripc__udp *sender)
{
	struct ripc__iwarp_address decoded;
	uint8_t from[RIPC__UDP_FROM];
	uint32_t fromlen;

	ck_assert_int_eq(receive_byte(u, from, &fromlen), what);
	ck_assert_int_eq(ripc__iwarp_address_decode(&decoded, from, fromlen), 0);
	ck_assert_uint_eq(decoded.addrs[0].udp, ripc__sockaddr_port(&sender->port[0].addr));
}

/*
 * Datagrams of others that arrive before the socket is connected are not lost, and keep their
 * source, however many of the peer come first.
 */
START_TEST(conn__other_peers_meanwhile)
{
	struct ripc__udp_route route = {.len = 1};
	struct ripc__udp a, b, c;
	int ea = open_with_conn(&a);

	open_one(&b, "127.0.0.1");
	open_one(&c, "127.0.0.1");
	window.peer = &b;
	window.third = &c;
	window.len = address_of(&a, window.to);
	route.fd = a.port[0].fd;
	route.to = b.port[0].addr;
	ripc__udp_conn_open(&a, &route);
	ck_assert(ripc__udp_conn_sends(&a) && !window.peer);
	for (unsigned i = 0; i < WINDOW; i++)
		send_to(&b, window.to, window.len, 'q');
	for (unsigned i = 0; i < WINDOW; i++)
		receive_from(&a, 'p', &b);
	for (unsigned i = 0; i < 2; i++)
		receive_from(&a, 's', &c);
	for (unsigned i = 0; i < WINDOW; i++)
		receive_from(&a, 'q', &b);
	ck_assert(nothing_received(&a));
	ck_assert(ripc__udp_conn_sends(&a));
	for (unsigned i = 0; i < WINDOW; i++) {
		send_to(&b, window.to, window.len, 'r');
		receive_from(&a, 'r', &b);
	}
	send_to(&c, window.to, window.len, 's');
	receive_from(&a, 's', &c);
	ripc__udp_close(&c);
	ripc__udp_close(&b);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

/*
 * The peer dies and another takes its port: the reported error fails no later datagram, and none is
 * lost.
 */
START_TEST(conn__port_of_another)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_conn(&a), eb = open_with_conn(&b), other;
	union ripc__sockaddr ip;
	uint32_t fromlen;
	char byte, who[64];
	size_t len;
	int rc;

	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	address_of(&b, to_b);
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a));
	ip = b.port[0].addr;
	ripc__udp_close(&b);
	close(eb);
	/* Nobody receives it; the kernel reports the error to the next call. */
	send_to(&a, to_b, len, '1');
	send_to(&c, to_a, len, 'c');
	ck_assert_int_eq(receive_byte(&a, from, &fromlen), 'c');
	send_to(&a, to_b, len, '2');
	rc = ripc__udp_receive(&a, RIPC__UDP_CONN, space, from, &fromlen, who);
	ck_assert_int_eq(rc, -EAGAIN);
	send_to(&a, to_b, len, '3');
	/* Before the next call. */
	other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(other, &ip.sa, sizeof(ip.in)), 0);
	send_to(&a, to_b, len, '4');
	ck_assert_int_eq(poll(&(struct pollfd){other, POLLIN, 0}, 1, TIMEOUT_MS), 1);
	ck_assert_int_eq(recv(other, &byte, 1, MSG_DONTWAIT), 1);
	ck_assert_int_eq(byte, '4');
	/* Its datagrams arrive as those of any peer. */
	ck_assert_int_eq(sendto(other, "o", 1, 0, &a.port[0].addr.sa, sizeof(ip.in)), 1);
	ck_assert_int_eq(receive_byte(&a, from, &fromlen), 'o');
	close(other);
	ripc__udp_close(&c);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

/* The peer restarts at its address: it gets a connected socket again, also without receiving. */
START_TEST(conn__reconnect)
{
	uint8_t to_b[RIPC__ADDRESS_MAX];
	struct ripc__udp a, b;
	int ea = open_with_conn(&a), fd;
	struct sockaddr_in ip;
	char byte;
	size_t len;

	open_one(&b, "127.0.0.1");
	len = address_of(&b, to_b);
	ip = b.port[0].addr.in;
	for (unsigned i = 0; i < RUN; i++)
		send_to(&a, to_b, len, 'x');
	ck_assert(ripc__udp_conn_sends(&a));
	ripc__udp_close(&b);
	for (unsigned i = 0; i < 2; i++)
		send_to(&a, to_b, len, 'x');
	ck_assert(!ripc__udp_conn_sends(&a));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&ip, sizeof(ip)), 0);
	for (unsigned i = 0; i < RUN; i++) {
		send_to(&a, to_b, len, 'x');
		ck_assert_int_eq(recv(fd, &byte, 1, MSG_DONTWAIT), 1);
	}
	ck_assert(ripc__udp_conn_sends(&a));
	/* It receives the datagram. */
	ck_assert_int_eq(sendto(fd, "o", 1, 0, &a.port[0].addr.sa, sizeof(ip)), 1);
	ck_assert_int_eq(recv(a.port[RIPC__UDP_CONN].fd, &byte, 1, MSG_DONTWAIT), 1);
	close(fd);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

/* A socket polled directly is not in epoll, but is before a sleep. */
START_TEST(conn__watched_before_sleep)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX];
	struct ripc__udp a, b;
	int ea = open_with_conn(&a), eb = open_with_conn(&b);
	struct epoll_event ev;
	size_t len;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a) && !a.udp_conn.watched);
	ck_assert_int_eq(ripc__udp_arm(&a), 0);
	ck_assert_int_eq(epoll_wait(ea, &ev, 1, 0), 0);
	send_to(&b, to_a, len, 'x');
	ck_assert_int_eq(epoll_wait(ea, &ev, 1, TIMEOUT_MS), 1);
	ck_assert_uint_eq(ev.data.u64, 1);
	close_both(&a, ea, &b, eb);
}
END_TEST

/*
 * The address goes and comes back: the connected socket is closed, and nothing is sent from the
 * address meanwhile.
 */
START_TEST(conn__address_gone)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX];
	struct iovec iov = {"x", 1};
	struct ripc__udp a, b;
	int ea = open_with_conn(&a), eb = open_with_conn(&b);
	size_t len;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a));
	ripc__udp_set_addr_gone(&a, 0, true);
	ck_assert(!ripc__udp_conn_sends(&a));
	ck_assert_int_eq(ripc__udp_send(&a, to_b, len, &iov, 1), -EHOSTUNREACH);
	ripc__udp_set_addr_gone(&a, 0, false);
	exchange(&a, &b, to_a, to_b, len, RUN);
	ck_assert(ripc__udp_conn_sends(&a));
	/* It is closed with its port. */
	ripc__udp_port_close(&a, 0);
	ck_assert_int_lt(a.port[RIPC__UDP_CONN].fd, 0);
	ck_assert_int_eq(ripc__udp_send(&a, to_b, len, &iov, 1), -EHOSTUNREACH);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* A thread in another network namespace sends from that of the context, and connects no socket. */
START_TEST(conn__another_network)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX];
	struct ripc__udp a, b;
	int ea = open_with_conn(&a), eb = open_with_conn(&b);
	size_t len;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		test_skip("no network namespace of our own here");
	} else {
		exchange(&a, &b, to_a, to_b, len, RUN);
		ck_assert(!ripc__udp_conn_sends(&a) && !ripc__udp_conn_sends(&b));
	}
	close_both(&a, ea, &b, eb);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/iwarp/udp_socket");
	TCase *tc = tcase_create("udp_socket");

	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, conn__one_peer);
	tcase_add_test(tc, conn__several_peers);
	tcase_add_test(tc, conn__sends_to_others);
	tcase_add_test(tc, conn__older_first);
	tcase_add_test(tc, conn__alternating_peers);
	tcase_add_test(tc, conn__other_peers_meanwhile);
	tcase_add_test(tc, conn__port_of_another);
	tcase_add_test(tc, conn__reconnect);
	tcase_add_test(tc, conn__watched_before_sleep);
	tcase_add_test(tc, conn__address_gone);
	tcase_add_test(tc, conn__another_network);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/udp_socket", suite);
}
