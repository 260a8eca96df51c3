/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE /* unshare */

#include "harness.h"
#include "transport/iwarp/udp.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
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

/* From which port of the sender a datagram came: that of the socket with this index, or -1. */
static int sent_from(const struct ripc__udp *sender, struct ripc__udp *server)
{
	uint8_t from[RIPC__UDP_FROM];
	uint32_t fromlen;

	receive(server, from, &fromlen);
	for (unsigned i = 0; i < sender->n; i++)
		if (ripc__sockaddr_port(&sender->port[i].addr) ==
		    ripc__sockaddr_port(&server->last.ip))
			return (int)i;
	return -1;
}

/* A socket whose address is gone is not sent from, and the next one is; nor is one that was closed, whose index comes again. */
START_TEST(send__addresses_that_go)
{
	union ripc__sockaddr ip = {
		.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	struct ripc__udp server, a;
	struct iovec iov = {"x", 1};
	uint8_t to[RIPC__ADDRESS_MAX];
	size_t len;

	open_one(&server, "127.0.0.1");
	open_one(&a, "127.0.0.1");
	ck_assert_int_eq(ripc__udp_open(&a, &ip, 0), 1);
	len = address_of(&server, to);
	send_to(&a, to, len, 'x');
	ck_assert_int_eq(sent_from(&a, &server), 0);
	ripc__udp_gone(&a, 0, true);
	send_to(&a, to, len, 'x');
	ck_assert_int_eq(sent_from(&a, &server), 1);
	ripc__udp_shut(&a, 1);
	ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), -EHOSTUNREACH);
	ck_assert_int_eq(ripc__udp_open(&a, &ip, 0), 1);
	send_to(&a, to, len, 'x');
	ck_assert_int_eq(sent_from(&a, &server), 1);
	ripc__udp_shut(&a, 1);
	ripc__udp_gone(&a, 0, false);
	send_to(&a, to, len, 'x');
	ck_assert_int_eq(sent_from(&a, &server), 0);
	ripc__udp_close(&a);
	ripc__udp_close(&server);
}
END_TEST

/* Peers that differ in the last bytes of their addresses only are remembered beside each other. */
START_TEST(send__many_peers)
{
	uint8_t to[RIPC__ADDRESS_MAX];
	struct ripc__udp a, peers[8];
	unsigned known = 0;
	size_t len;

	open_one(&a, "127.0.0.1");
	for (unsigned i = 0; i < 8; i++) {
		open_one(&peers[i], "127.0.0.1");
		len = address_of(&peers[i], to);
		send_to(&a, to, len, 'x');
	}
	for (unsigned i = 0; i < RIPC__UDP_WAYS; i++)
		known += a.ways[i].len > 0;
	ck_assert_uint_gt(known, 1);
	ripc__udp_close(&a);
	for (unsigned i = 0; i < 8; i++)
		ripc__udp_close(&peers[i]);
}
END_TEST

/* An empty address is that of nobody, and nothing is sent to whatever descriptor 0 is. */
START_TEST(send__empty_address)
{
	struct sockaddr_in ip = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), far, saved;
	struct ripc__iwarp_address nowhere = {.host = HOST, .nplaces = 1};
	struct iovec iov = {"x", 1};
	uint8_t to[RIPC__ADDRESS_MAX];
	socklen_t iplen = sizeof(ip);
	struct ripc__udp u;
	size_t len;
	char byte;

	ck_assert(listener >= 0 && near >= 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&ip, iplen), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&ip, &iplen), 0);
	ck_assert_int_eq(connect(near, (struct sockaddr *)&ip, iplen), 0);
	far = accept(listener, NULL, NULL);
	ck_assert_int_ge(far, 0);
	saved = dup(0);
	ck_assert_int_eq(dup2(near, 0), 0);
	open_one(&u, "127.0.0.1");
	/* One that takes no datagrams, so that what is remembered of it is nothing. */
	nowhere.places[0].ip = u.port[0].addr;
	nowhere.places[0].loopback = true;
	nowhere.places[0].tcp = 1;
	len = ripc__iwarp_address_encode(&nowhere, to, sizeof(to));
	ck_assert_int_eq(ripc__udp_send(&u, to, len, &iov, 1), -EHOSTUNREACH);
	ck_assert_int_eq(ripc__udp_send(&u, to, 0, &iov, 1), -EINVAL);
	ck_assert_int_eq(recv(far, &byte, 1, MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EAGAIN);
	if (saved >= 0) {
		dup2(saved, 0);
		close(saved);
	} else {
		close(0);
	}
	ripc__udp_close(&u);
	close(far);
	close(near);
	close(listener);
}
END_TEST

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

/* The MTU of who sends may be larger than ours. */
START_TEST(receive__longer_than_ours)
{
	static uint8_t large[8000];
	uint8_t to[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct iovec iov = {large, sizeof(large)};
	struct ripc__udp server, a;
	uint32_t fromlen;
	char who[64];
	size_t len;

	open_one(&server, "127.0.0.1");
	open_one(&a, "127.0.0.1");
	ripc__udp_cap(&server, RIPC__UDP_MTU_MIN);
	len = address_of(&server, to);
	ck_assert_int_eq(ripc__udp_send(&server, to, len, &iov, 1), -EMSGSIZE);
	ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), 0);
	ck_assert_int_eq(poll(&(struct pollfd){server.port[0].fd, POLLIN, 0}, 1, PATIENCE), 1);
	ck_assert_int_eq(ripc__udp_receive(&server, 0, space, from, &fromlen, who),
			 (int)sizeof(large));
	ripc__udp_close(&a);
	ripc__udp_close(&server);
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

/* ---- lines ---- */

#define RUN 300 /* datagrams after which there is a line */

/* One that may have lines. Return: what they are watched at. */
static int open_with_lines(struct ripc__udp *u)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	ck_assert_int_ge(epoll_fd, 0);
	open_one(u, "127.0.0.1");
	ripc__udp_lines(u, epoll_fd, 1);
	return epoll_fd;
}

static bool has_line(const struct ripc__udp *u)
{
	return u->port[RIPC__UDP_LINE].fd >= 0 && !u->line.over;
}

/* The next datagram, wherever it came to. */
static char hear(struct ripc__udp *u, uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen)
{
	struct timespec nap = {.tv_nsec = 100000};
	char who[64];

	for (unsigned i = 0; i < PATIENCE * 10; i++) {
		for (unsigned port = 0; port <= RIPC__UDP_LINE; port += RIPC__UDP_LINE)
			if (ripc__udp_receive(u, port, space, from, fromlen, who) == 1)
				return *space;
		nanosleep(&nap, NULL);
	}
	ck_abort_msg("nothing came");
	return 0;
}

static bool silent(struct ripc__udp *u)
{
	uint8_t from[RIPC__UDP_FROM];
	uint32_t fromlen;
	char who[64];

	return ripc__udp_receive(u, 0, space, from, &fromlen, who) == -EAGAIN &&
	       ripc__udp_receive(u, RIPC__UDP_LINE, space, from, &fromlen, who) == -EAGAIN;
}

/* Round trips, n, from a to b, whose addresses are these. What comes is answered to where it came from. */
static void talk(struct ripc__udp *a, struct ripc__udp *b, const uint8_t *to_a, const uint8_t *to_b,
		 size_t len, unsigned n)
{
	uint8_t from[RIPC__UDP_FROM], first[RIPC__UDP_FROM];
	uint32_t fromlen;

	for (unsigned i = 0; i < n; i++) {
		send_to(a, to_b, len, (char)i);
		ck_assert_int_eq(hear(b, from, &fromlen), (char)i);
		if (!i)
			memcpy(first, from, fromlen);
		/* Lines are not to be seen. */
		ck_assert(!memcmp(from, first, fromlen));
		send_to(b, to_a, len, (char)~i);
		ck_assert_int_eq(hear(a, from, &fromlen), (char)~i);
	}
}

static void close_both(struct ripc__udp *a, int epoll_a, struct ripc__udp *b, int epoll_b)
{
	ripc__udp_close(a);
	ripc__udp_close(b);
	close(epoll_a);
	close(epoll_b);
}

/* Who speaks with one peer has one, and it is neither seen nor felt by others. */
START_TEST(line__one_peer)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_lines(&a), eb = open_with_lines(&b);
	uint32_t fromlen;
	size_t len;

	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	ck_assert_uint_eq(address_of(&b, to_b), len);
	talk(&a, &b, to_a, to_b, len, 100);
	ck_assert(!has_line(&a) && !has_line(&b));
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a) && has_line(&b));
	/* A stranger is heard, and answered. */
	send_to(&c, to_a, len, 'c');
	ck_assert_int_eq(hear(&a, from, &fromlen), 'c');
	send_to(&a, from, fromlen, 'x');
	ck_assert_int_eq(receive(&c, from, &fromlen), 'x');
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a));
	/* One without lines has none. */
	ck_assert(!has_line(&c));
	ripc__udp_close(&c);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* Several that take turns: it is over, and all that was on its way comes, what is older first. */
START_TEST(line__several_peers)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], to_c[RIPC__ADDRESS_MAX];
	uint8_t from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_lines(&a), eb = open_with_lines(&b);
	uint32_t fromlen;
	size_t len;

	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	address_of(&b, to_b);
	address_of(&c, to_c);
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a));
	for (char i = 0; i < 10; i++)
		send_to(&b, to_a, len, i);
	for (unsigned i = 0; i < 100; i++) {
		send_to(&a, to_c, len, 'c');
		ck_assert_int_eq(receive(&c, from, &fromlen), 'c');
	}
	ck_assert(!has_line(&a));
	for (char i = 10; i < 20; i++)
		send_to(&b, to_a, len, i);
	for (char i = 0; i < 20; i++)
		ck_assert_int_eq(hear(&a, from, &fromlen), i);
	ck_assert(silent(&a));
	ck_assert_int_lt(a.port[RIPC__UDP_LINE].fd, 0);
	/* The next one who stays has one again. */
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a));
	ripc__udp_close(&c);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* Who only sends keeps the line while few go to others, and not when many do. */
START_TEST(line__sends_to_others)
{
	uint8_t to_b[RIPC__ADDRESS_MAX], to_c[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_lines(&a);
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
			ck_assert(i != RUN || has_line(&a));
		}
		ck_assert_msg(has_line(&a) == (every == 20), "one of %u to another", every);
	}
	ripc__udp_close(&c);
	ripc__udp_close(&b);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

/* What lay in the port before there was a line comes before what came by the line. */
START_TEST(line__older_first)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b;
	int ea = open_with_lines(&a), eb = open_with_lines(&b);
	uint32_t fromlen;
	char who[64];
	size_t len;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	for (char i = 0; i < 20; i++)
		send_to(&b, to_a, len, i);
	for (unsigned i = 0; i < RUN; i++) {
		send_to(&a, to_b, len, 'x');
		ck_assert_int_eq(hear(&b, from, &fromlen), 'x');
	}
	ck_assert(has_line(&a));
	for (char i = 20; i < 40; i++)
		send_to(&b, to_a, len, i);
	for (char i = 0; i < 40; i++) {
		ck_assert_int_eq(ripc__udp_receive(&a, RIPC__UDP_LINE, space, from, &fromlen, who), 1);
		ck_assert_int_eq(*space, i);
	}
	ck_assert(silent(&a));
	close_both(&a, ea, &b, eb);
}
END_TEST

/* Others, of whom more is always there, do not keep what came by the line waiting. */
START_TEST(line__others_all_the_time)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp_way way = {.len = 1};
	struct ripc__udp a, b, c;
	int ea = open_with_lines(&a);
	uint32_t fromlen;
	unsigned i = 0;
	size_t len;
	char what;

	open_one(&b, "127.0.0.1");
	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	way.fd = a.port[0].fd;
	way.to = b.port[0].addr;
	ripc__udp_line_open(&a, &way);
	ck_assert(has_line(&a));
	send_to(&b, to_a, len, 'b');
	send_to(&c, to_a, len, 'c');
	do {
		send_to(&c, to_a, len, 'c');
		ck_assert_uint_lt(i++, 100);
		what = hear(&a, from, &fromlen);
	} while (what == 'c');
	ck_assert_int_eq(what, 'b');
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(hear(&a, from, &fromlen), 'c');
	ck_assert(!has_line(&a) && silent(&a));
	ripc__udp_close(&c);
	ripc__udp_close(&b);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

#define WINDOW 70 /* datagrams of the peer: more than would be asked who sent them */

/* What happens while the socket of a line is there and not connected yet. */
static struct {
	struct ripc__udp *peer, *stranger; /* NULL: nothing does */
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
			send_to(window.stranger, window.to, window.len, 's');
		window.peer = NULL;
	}
	return __real_connect(fd, to, len);
}

/* The next that a hears is this, and who sent it is who is to be answered. */
static void hear_of(struct ripc__udp *u, char what, const struct ripc__udp *sender)
{
	struct ripc__iwarp_address decoded;
	uint8_t from[RIPC__UDP_FROM];
	uint32_t fromlen;

	ck_assert_int_eq(hear(u, from, &fromlen), what);
	ck_assert_int_eq(ripc__iwarp_address_decode(&decoded, from, fromlen), 0);
	ck_assert_uint_eq(decoded.places[0].udp, ripc__sockaddr_port(&sender->port[0].addr));
}

/*
 * What others send while the socket is there, but not yet connected, may come to it: it is not lost, and theirs, however much of the
 * peer is before it.
 */
START_TEST(line__others_meanwhile)
{
	struct ripc__udp_way way = {.len = 1};
	struct ripc__udp a, b, c;
	int ea = open_with_lines(&a);

	open_one(&b, "127.0.0.1");
	open_one(&c, "127.0.0.1");
	window.peer = &b;
	window.stranger = &c;
	window.len = address_of(&a, window.to);
	way.fd = a.port[0].fd;
	way.to = b.port[0].addr;
	ripc__udp_line_open(&a, &way);
	ck_assert(has_line(&a) && !window.peer);
	for (unsigned i = 0; i < WINDOW; i++)
		send_to(&b, window.to, window.len, 'q');
	for (unsigned i = 0; i < WINDOW; i++)
		hear_of(&a, 'p', &b);
	for (unsigned i = 0; i < 2; i++)
		hear_of(&a, 's', &c);
	for (unsigned i = 0; i < WINDOW; i++)
		hear_of(&a, 'q', &b);
	ck_assert(silent(&a));
	ck_assert(has_line(&a));
	for (unsigned i = 0; i < WINDOW; i++) {
		send_to(&b, window.to, window.len, 'r');
		hear_of(&a, 'r', &b);
	}
	send_to(&c, window.to, window.len, 's');
	hear_of(&a, 's', &c);
	ripc__udp_close(&c);
	ripc__udp_close(&b);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

/* The peer dies, and another takes its port: what is told of that is no error of what is sent or received later, and nothing of it is lost. */
START_TEST(line__port_of_another)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX], from[RIPC__UDP_FROM];
	struct ripc__udp a, b, c;
	int ea = open_with_lines(&a), eb = open_with_lines(&b), other;
	union ripc__sockaddr ip;
	uint32_t fromlen;
	char byte, who[64];
	size_t len;

	open_one(&c, "127.0.0.1");
	len = address_of(&a, to_a);
	address_of(&b, to_b);
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a));
	ip = b.port[0].addr;
	ripc__udp_close(&b);
	close(eb);
	/* Nobody hears it; the kernel tells the line, which is asked or sent by next. */
	send_to(&a, to_b, len, '1');
	send_to(&c, to_a, len, 'c');
	ck_assert_int_eq(hear(&a, from, &fromlen), 'c');
	send_to(&a, to_b, len, '2');
	ck_assert_int_eq(ripc__udp_receive(&a, RIPC__UDP_LINE, space, from, &fromlen, who), -EAGAIN);
	send_to(&a, to_b, len, '3');
	/* Before anybody asks. */
	other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(other, &ip.sa, sizeof(ip.in)), 0);
	send_to(&a, to_b, len, '4');
	ck_assert_int_eq(poll(&(struct pollfd){other, POLLIN, 0}, 1, PATIENCE), 1);
	ck_assert_int_eq(recv(other, &byte, 1, MSG_DONTWAIT), 1);
	ck_assert_int_eq(byte, '4');
	/* What it has to say comes as that of anybody. */
	ck_assert_int_eq(sendto(other, "o", 1, 0, &a.port[0].addr.sa, sizeof(ip.in)), 1);
	ck_assert_int_eq(hear(&a, from, &fromlen), 'o');
	close(other);
	ripc__udp_close(&c);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

/* The peer starts again, and has its address again: it has a line again, which is not waited for by who never listens. */
START_TEST(line__again)
{
	uint8_t to_b[RIPC__ADDRESS_MAX];
	struct ripc__udp a, b;
	int ea = open_with_lines(&a), fd;
	struct sockaddr_in ip;
	char byte;
	size_t len;

	open_one(&b, "127.0.0.1");
	len = address_of(&b, to_b);
	ip = b.port[0].addr.in;
	for (unsigned i = 0; i < RUN; i++)
		send_to(&a, to_b, len, 'x');
	ck_assert(has_line(&a));
	ripc__udp_close(&b);
	for (unsigned i = 0; i < 2; i++)
		send_to(&a, to_b, len, 'x');
	ck_assert(!has_line(&a));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&ip, sizeof(ip)), 0);
	for (unsigned i = 0; i < RUN; i++) {
		send_to(&a, to_b, len, 'x');
		ck_assert_int_eq(recv(fd, &byte, 1, MSG_DONTWAIT), 1);
	}
	ck_assert(has_line(&a));
	/* It is heard by it. */
	ck_assert_int_eq(sendto(fd, "o", 1, 0, &a.port[0].addr.sa, sizeof(ip)), 1);
	ck_assert_int_eq(recv(a.port[RIPC__UDP_LINE].fd, &byte, 1, MSG_DONTWAIT), 1);
	close(fd);
	ripc__udp_close(&a);
	close(ea);
}
END_TEST

/* One that is asked all the time is not watched, and is before a sleep. */
START_TEST(line__watched_before_a_sleep)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX];
	struct ripc__udp a, b;
	int ea = open_with_lines(&a), eb = open_with_lines(&b);
	struct epoll_event ev;
	size_t len;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a) && !a.line.watched);
	ck_assert_int_eq(ripc__udp_arm(&a), 0);
	ck_assert_int_eq(epoll_wait(ea, &ev, 1, 0), 0);
	send_to(&b, to_a, len, 'x');
	ck_assert_int_eq(epoll_wait(ea, &ev, 1, PATIENCE), 1);
	ck_assert_uint_eq(ev.data.u64, 1);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* The address goes, and comes back: the line ends with it, and nothing is sent from it meanwhile. */
START_TEST(line__address_gone)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX];
	struct iovec iov = {"x", 1};
	struct ripc__udp a, b;
	int ea = open_with_lines(&a), eb = open_with_lines(&b);
	size_t len;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a));
	ripc__udp_gone(&a, 0, true);
	ck_assert(!has_line(&a));
	ck_assert_int_eq(ripc__udp_send(&a, to_b, len, &iov, 1), -EHOSTUNREACH);
	ripc__udp_gone(&a, 0, false);
	talk(&a, &b, to_a, to_b, len, RUN);
	ck_assert(has_line(&a));
	/* With its port it goes at once. */
	ripc__udp_shut(&a, 0);
	ck_assert_int_lt(a.port[RIPC__UDP_LINE].fd, 0);
	ck_assert_int_eq(ripc__udp_send(&a, to_b, len, &iov, 1), -EHOSTUNREACH);
	close_both(&a, ea, &b, eb);
}
END_TEST

/* A thread that has gone to another network sends from where the context is, and makes no line where it is. */
START_TEST(line__another_network)
{
	uint8_t to_a[RIPC__ADDRESS_MAX], to_b[RIPC__ADDRESS_MAX];
	struct ripc__udp a, b;
	int ea = open_with_lines(&a), eb = open_with_lines(&b);
	size_t len;

	len = address_of(&a, to_a);
	address_of(&b, to_b);
	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		test_skip("no network namespace of our own here");
	} else {
		talk(&a, &b, to_a, to_b, len, RUN);
		ck_assert(!has_line(&a) && !has_line(&b));
	}
	close_both(&a, ea, &b, eb);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp");
	TCase *tc = tcase_create("udp");

	tcase_add_test(tc, send__addresses_that_go);
	tcase_add_test(tc, send__many_peers);
	tcase_add_test(tc, send__empty_address);
	tcase_add_test(tc, receive__whom_to_answer);
	tcase_add_test(tc, receive__whom_to_answer_ipv6);
	tcase_add_test(tc, receive__longer_than_ours);
	tcase_add_test(tc, receive__nothing_and_too_much);
	tcase_add_test(tc, line__one_peer);
	tcase_add_test(tc, line__several_peers);
	tcase_add_test(tc, line__sends_to_others);
	tcase_add_test(tc, line__older_first);
	tcase_add_test(tc, line__others_all_the_time);
	tcase_add_test(tc, line__others_meanwhile);
	tcase_add_test(tc, line__port_of_another);
	tcase_add_test(tc, line__again);
	tcase_add_test(tc, line__watched_before_a_sleep);
	tcase_add_test(tc, line__address_gone);
	tcase_add_test(tc, line__another_network);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("iwarp/test_udp", suite);
}
