/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* iwarp/soft over real loopback sockets: messages, datagrams, wake-ups. */
#define _GNU_SOURCE /* memmem */
#include "soft_pair.h"
#include "transport/transfer.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned sends;

/* Counts calls. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	sends++;
	return syscall(SYS_sendmsg, fd, msg, flags);
}

static int unwatchable = -1; /* cannot be added to an epoll set */

int epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *ev)
{
	if (op == EPOLL_CTL_ADD && fd == unwatchable) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epoll_fd, op, fd, ev);
}

START_TEST(soft_open__listens_on_the_loopback_only)
{
	struct ripc__iwarp_address decoded;
	uint8_t addr[RIPC__ADDRESS_MAX];
	char text[256];

	ck_assert_int_eq(side_open(&a, "interfaces=lo"), 0);
	ck_assert_int_eq(ripc__iwarp_address_decode(&decoded, addr,
						    (size_t)ops->address(a.t, addr, sizeof(addr))),
			 0);
	for (unsigned i = 0; i < decoded.naddrs; i++)
		ck_assert(ripc__sockaddr_is_loopback(&decoded.addrs[i].ip));
	ops->describe(addr, (size_t)ops->address(a.t, addr, sizeof(addr)), text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "127.0.0.1:"));
	ops->describe((const uint8_t *)"nonsense", 8, text, sizeof(text));
	ck_assert_str_eq(text, "malformed address");
	side_close(&a);
}
END_TEST

/* The error names the interfaces that were looked at, and the remedy. */
START_TEST(soft_open__interface_without_address)
{
	static const char *const texts[] = {"lo is not named; correct interfaces (RIPC_INTERFACES)",
					    "no usable address: lo is down; bring an interface up"};
	struct ripc__options opt;
	struct ripc__transport_env env = {.opt = &opt};
	struct ripc__transport *t;
	char why[256];

	ck_assert_int_eq(ripc__options_load(&opt, NULL, why, sizeof(why)), 0);
	/* A new network has only the loopback. */
	if (unshare(CLONE_NEWNET)) {
		ck_assert_int_eq(errno, EPERM);
		return;
	}
	strcpy(opt.interfaces, _i ? "" : "nosuch0");
	ck_assert_int_eq(ops->open(&t, &env), -ENODEV);
	ck_assert_msg(strstr(ripc_error_detail(), texts[_i]) != NULL, "%s", ripc_error_detail());
	ck_assert(_i || strstr(ripc_error_detail(), "interfaces nosuch0"));
}
END_TEST

START_TEST(soft_limits__as_promised)
{
	struct ripc__transport_limits l;

	ck_assert_int_eq(side_open(&a, NULL), 0);
	ops->limits(a.t, &l);
	ck_assert_uint_eq(l.send_max, 33792);
	ck_assert_uint_eq(l.recv_depth, 0);
	ck_assert_uint_ge(l.read_depth, 1);
	ck_assert_uint_eq(l.datagram_max, 0);
	ck_assert(!(l.caps & RIPC__CAP_DATAGRAM));
	side_close(&a);
}
END_TEST

START_TEST(soft_post_send__all_sizes)
{
	/* From the beginning of a page. */
	uint8_t *source = side_pattern(RIPC__SEND_MAX + 4096, 3), *p = source;
	static const size_t sizes[] = {1,   2,   3,   4,    5,    63,   64,    65,
				       300, 512, 513, 1000, 4096, 8191, 16384, 33792};

	p += -(uintptr_t)p % 4096;
	sides_connect(_i ? "crc=on" : "crc=off");
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = sizes[i], first = len % 4096 ? len / 2 : 0;
		struct iovec iov[3] = {{p, first}, {NULL, 0}, {p + first, len - first}};
		struct side *from = i % 2 ? &a : &b, *to = i % 2 ? &b : &a;
		unsigned before = to->nrecv;

		ck_assert_int_ge(ops->post(from->ep, NULL, 0, iov, 3, false), 0);
		UNTIL(to->nrecv > before);
		ck_assert_uint_eq(to->last_len, len);
		ck_assert_mem_eq(to->last, p, len);
	}
	ck_assert_int_eq(ops->post(a.ep, NULL, 0, &(struct iovec){p, RIPC__SEND_MAX + 1}, 1, false),
			 -EMSGSIZE);
	/* An empty send is no message. */
	ck_assert_int_eq(ops->post(a.ep, NULL, 0, NULL, 0, false), 0);
	ck_assert_int_eq(ops->post(a.ep, NULL, 0, &(struct iovec){p, 7}, 1, false), 0);
	UNTIL(b.last_len == 7);
	ck_assert_uint_eq(b.nrecv, sizeof(sizes) / sizeof(sizes[0]) -
					   sizeof(sizes) / sizeof(sizes[0]) / 2 + 1);
	sides_close();
	free(source);
}
END_TEST

START_TEST(soft_post_send__more_is_held_back_until_progress)
{
	uint8_t p[100] = "x";

	sides_connect(NULL);
	ck_assert_int_eq(side_post(&a, p, 100, true), 1);
	ck_assert_int_eq(side_post(&a, p, 100, true), 1);
	for (unsigned i = 0; i < 100; i++)
		side_step(&b);
	ck_assert_uint_eq(b.nrecv, 0);
	side_step(&a);
	for (uint64_t end = ripc__clock_ns() + TIMEOUT_NS; b.nrecv < 2 && ripc__clock_ns() < end;)
		side_step(&b);
	ck_assert_uint_eq(b.nrecv, 2);
	/* Without more, sends held back are sent too. */
	ck_assert_int_eq(side_post(&a, p, 100, true), 1);
	ck_assert_int_eq(side_post(&a, p, 100, false), 0);
	for (uint64_t end = ripc__clock_ns() + TIMEOUT_NS; b.nrecv < 4 && ripc__clock_ns() < end;)
		side_step(&b);
	ck_assert_uint_eq(b.nrecv, 4);
	/* ep_close() flushes them, too. */
	ck_assert_int_eq(side_post(&a, p, 100, true), 1);
	ops->ep_close(a.ep);
	UNTIL(b.nclosed);
	ck_assert_uint_eq(b.nrecv, 5);
	sides_close();
}
END_TEST

START_TEST(soft_post_send__slow_reader)
{
	uint8_t p[3000] = {0};
	uint32_t number = 0;
	int err;

	sides_connect(_i ? "crc=on" : "crc=off");
	b.in_order = true;
	do {
		memcpy(p, &number, 4);
		err = side_post(&a, p, sizeof(p), false);
		number += err >= 0;
		ck_assert_uint_lt(number, 1000000);
	} while (err >= 0);
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_gt(number, 300);
	for (unsigned i = 0; i < 1000; i++)
		side_step(&a);
	ck_assert_uint_eq(a.nsendable, 0);
	LIVE_UNTIL(b.nrecv == number);
	LIVE_UNTIL(a.nsendable);
	ck_assert_uint_eq(a.nsendable, 1);
	memcpy(p, &number, 4);
	ck_assert_int_ge(side_post(&a, p, sizeof(p), false), 0);
	LIVE_UNTIL(b.nrecv == number + 1);
	sides_close();
}
END_TEST

START_TEST(soft_post_send__many_in_order)
{
	uint32_t number = 0;

	sides_connect(NULL);
	a.in_order = b.in_order = true;
	b.max = 3;
	for (; number < 50000; number++) {
		uint8_t p[64] = {0};
		int err;

		memcpy(p, &number, 4);
		/* The socket buffer depends on free kernel memory. */
		LIVE_UNTIL((err = side_post(&a, p, sizeof(p), number % 7 == 0)) != -EAGAIN);
		ck_assert_int_ge(err, 0);
		LIVE_UNTIL((err = side_post(&b, p, sizeof(p), false)) != -EAGAIN);
		ck_assert_int_ge(err, 0);
		if (number % 100 == 0) {
			side_step(&a);
			side_step(&b);
		}
	}
	LIVE_UNTIL(a.nrecv == number && b.nrecv == number);
	sides_close();
}
END_TEST

START_TEST(soft_progress__data_before_closed_and_max_kept)
{
	uint8_t p[40] = {0};

	sides_connect(NULL);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_ge(side_post(&a, p, sizeof(p), false), 0);
	ops->ep_close(a.ep);
	b.max = 1;
	UNTIL(b.nclosed);
	ck_assert_uint_eq(b.nrecv, 100);
	ck_assert(!b.closed_before_data);
	ck_assert_int_eq(side_post(&b, p, 1, false), -ENOTCONN);
	for (unsigned i = 0; i < 100; i++)
		side_step(&b);
	ck_assert_uint_eq(b.nclosed, 1);
	ops->ep_close(b.ep);
	sides_close();
}
END_TEST

START_TEST(soft_release__token_outlives_the_endpoint)
{
	const char text[] = "still here";

	sides_connect(NULL);
	b.hold = true;
	ck_assert_int_eq(side_post(&a, text, sizeof(text), false), 0);
	UNTIL(b.nrecv);
	ops->ep_close(b.ep);
	UNTIL(a.nclosed);
	for (unsigned i = 0; i < 100; i++)
		side_step(&b);
	ck_assert_ptr_nonnull(memmem(((struct ripc__slab *)b.held[0])->data, RIPC__SLAB_BYTES, text,
				     sizeof(text)));
	sides_close();
}
END_TEST

/* A receiver that keeps all slabs must copy instead: no endpoint starves. */
START_TEST(soft_release__kept_messages_stop_nobody)
{
	uint8_t p[8000] = {0};
	uint32_t number = 0;

	sides_connect(NULL);
	((struct ripc__transport *)b.t)->pool.max = 16 * RIPC__SLAB_BYTES;
	b.hold = b.in_order = true;
	for (unsigned i = 0; i < 2000; i++) {
		memcpy(p, &number, 4);
		if (side_post(&a, p, sizeof(p), false) >= 0)
			number++;
		side_step(&a);
		side_step(&b);
	}
	UNTIL(b.nrecv == number);
	ck_assert(!((struct ripc__transport *)b.t)->starved_retry_ns);
	/* 2000 such messages fill more than 60 slabs. */
	ck_assert_uint_gt(number, 1000);
	ck_assert_uint_lt(b.nheld, number / 2);
	ck_assert_uint_le(((struct ripc__transport *)b.t)->pool.bytes, 8 * RIPC__SLAB_BYTES);
	ck_assert_uint_eq(b.nclosed, 0);
	sides_close();
}
END_TEST

START_TEST(soft_progress__many_endpoints)
{
	enum { N = 150 };
	struct ripc__ep *eps[N];
	unsigned round;

	sides_open(NULL);
	/* With room for one event every endpoint gets its turn. */
	if (_i)
		a.max = b.max = 1;
	for (unsigned i = 0; i < N; i++) {
		side_connect(&a, &b, &eps[i]);
		UNTIL(a.nestablished == i + 1 && b.nestablished == i + 1);
	}
	ck_assert_uint_lt(sizeof(struct ripc__ep), 8192);
	for (round = 0; round < 3; round++) {
		for (unsigned i = 0; i < N; i++)
			ck_assert_int_ge(
				ops->post(eps[i], NULL, 0, &(struct iovec){"x", 1}, 1, false), 0);
		UNTIL(b.nrecv == (round + 1) * N);
	}
	for (unsigned i = 0; i < N; i += 2)
		ops->ep_close(eps[i]);
	UNTIL(b.nclosed == N / 2);
	sides_close();
}
END_TEST

START_TEST(soft_fd__readable_when_there_is_something)
{
	struct pollfd p;

	sides_connect(NULL);
	for (unsigned i = 0; i < 2000; i++) {
		side_step(&a);
		side_step(&b);
	}
	ck_assert_int_eq(ops->arm(b.t), 0);
	p = (struct pollfd){.fd = test_fd(ops, b.t), .events = POLLIN};
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(side_post(&a, "wake", 4, false), 0);
	ck_assert_int_eq(poll(&p, 1, 5000), 1);
	UNTIL(b.nrecv);
	/* Held back: no event follows, but arm() flushes it. */
	ck_assert_int_eq(side_post(&a, "wake", 4, true), 1);
	ck_assert_int_eq(ops->arm(a.t), 0);
	ck_assert_int_eq(poll(&p, 1, 5000), 1);
	sides_close();
}
END_TEST

/* Each side sleeps on its descriptor only: a transfer larger than the socket buffers completes. */
START_TEST(soft_arm__writable_socket_wakes)
{
	size_t len = 32u << 20;
	uint8_t *src = side_pattern(len, 2), *dst = calloc(1, len);
	struct ripc__mr ms, md;

	sides_connect(NULL);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, 0, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, len, RIPC__ACCESS_REMOTE_WRITE, &md), 0);
	ck_assert_int_eq(test_write(ops, a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	ck_assert_int_ge(side_post(&a, "end", 3, false), 0);
	for (unsigned i = 0; i < 1000000 && !b.nrecv; i++) {
		struct pollfd p[2] = {
			{.fd = test_fd(ops, a.t), .events = POLLIN},
			{.fd = test_fd(ops, b.t), .events = POLLIN},
		};
		int ready;

		sides_live();
		ready = ops->arm(a.t) | ops->arm(b.t) << 1;

		ck_assert_int_ge(poll(p, 2, ready ? 0 : 5000), ready ? 0 : 1);
		if (p[0].revents || (ready & 1))
			side_step(&a);
		if (p[1].revents || (ready & 2))
			side_step(&b);
	}
	ck_assert_uint_eq(b.nrecv, 1);
	ck_assert_mem_eq(dst, src, len);
	sides_close();
	free(src);
	free(dst);
}
END_TEST

/* a is active, and its socket is full. */
static void fill_a(void)
{
	static const uint8_t p[3000];

	sides_connect(NULL);
	ck_assert_int_ge(side_post(&b, "warm", 4, false), 0);
	LIVE_UNTIL(a.nrecv);
	ck_assert(a.ep->polling != SOFT_IDLE);
	/* Repeated, if the kernel granted memory meanwhile. */
	for (unsigned tries = 0; ripc__list_empty(&a.ep->blocked); tries++) {
		ck_assert_uint_lt(tries, 1000);
		while (side_post(&a, p, sizeof(p), false) >= 0)
			;
		for (unsigned i = 0; i < 20; i++)
			side_step(&a);
	}
	ripc__soft_ep_activate(a.ep);
	ck_assert(a.ep->polling != SOFT_IDLE);
}

START_TEST(soft_progress__tries_a_full_socket_once)
{
	fill_a();
	sends = 0;
	for (unsigned i = 0; i < 100; i++)
		side_step(&a);
	/* As blocked, ready and active, with some bytes accepted by the kernel. */
	ck_assert_uint_ge(sends, 100);
	ck_assert_uint_le(sends, 400);
	sides_close();
}
END_TEST

START_TEST(soft_arm__socket_with_room_wakes_nobody)
{
	struct pollfd p;

	fill_a();
	for (unsigned i = 0; ops->arm(a.t); i++) {
		ck_assert_uint_lt(i, 1000);
		side_step(&a);
	}
	ck_assert(a.ep->watched & EPOLLOUT);
	for (uint64_t end = ripc__clock_ns() + TIMEOUT_NS; !ripc__list_empty(&a.ep->blocked);) {
		ck_assert_uint_lt(ripc__clock_ns(), end);
		for (unsigned i = 0; i < 100; i++)
			side_step(&b);
		/* Not a round that calls epoll. */
		((struct ripc__transport *)a.t)->rounds = 0;
		side_step(&a);
	}
	sides_live();
	ck_assert(a.ep->watched & EPOLLOUT);
	((struct ripc__transport *)a.t)->rounds = 0;
	side_step(&a);
	ck_assert_int_eq(ops->arm(a.t), 0);
	p = (struct pollfd){.fd = test_fd(ops, a.t), .events = POLLIN};
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	sides_close();
}
END_TEST

START_TEST(soft_post_datagram__there_and_back)
{
	struct ripc__transport_limits l;
	uint8_t addr[RIPC__ADDRESS_MAX], *p;
	struct iovec iov[2] = {{"ping", 4}, {"!", 1}};
	int len;

	sides_open("short=udp");
	ops->limits(a.t, &l);
	ck_assert(l.caps & RIPC__CAP_DATAGRAM);
	ck_assert_uint_ge(l.datagram_max, 1024);
	len = ops->address(b.t, addr, sizeof(addr));
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, iov, 2), 0);
	UNTIL(b.ndatagram);
	ck_assert_uint_eq(b.last_len, 5);
	ck_assert_mem_eq(b.last, "ping!", 5);
	ck_assert_int_eq(ops->post_datagram(b.t, b.from, b.fromlen, iov, 1), 0);
	UNTIL(a.ndatagram);
	ck_assert_uint_eq(a.last_len, 4);
	p = side_pattern(l.datagram_max + 1, 4);
	iov[0] = (struct iovec){p, l.datagram_max};
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, iov, 1), 0);
	UNTIL(b.ndatagram == 2);
	ck_assert_uint_eq(b.last_len, l.datagram_max);
	ck_assert_mem_eq(b.last, p, l.datagram_max);
	iov[0].iov_len++;
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, iov, 1), -EMSGSIZE);
	ck_assert_int_eq(ops->post_datagram(a.t, addr, 7, iov, 0), -EINVAL);
	sides_close();
	free(p);
}
END_TEST

#define EXCHANGES \
	100000u /* time until the connected socket is in epoll again; a delayed test starts over */

static uint8_t addr_a[RIPC__ADDRESS_MAX], addr_b[RIPC__ADDRESS_MAX];
static size_t len_a, len_b;
static struct iovec x = {"x", 1};

/* Datagrams both ways until a has a connected socket outside epoll. */
static const struct ripc__udp *exchange(void)
{
	const struct ripc__udp *u = &((struct ripc__transport *)a.t)->udp;

	for (unsigned i = 0; i < EXCHANGES; i++) {
		unsigned at_a = a.ndatagram, at_b = b.ndatagram;

		if (u->port[RIPC__UDP_CONN].fd >= 0 && !u->udp_conn.watched)
			return u;
		ck_assert_int_eq(ops->post_datagram(a.t, addr_b, len_b, &x, 1), 0);
		UNTIL(b.ndatagram > at_b);
		ck_assert_int_eq(ops->post_datagram(b.t, addr_a, len_a, &x, 1), 0);
		UNTIL(a.ndatagram > at_a);
	}
	ck_abort_msg("there is no line, or it is watched for ever");
}

static void line_open(void)
{
	struct ripc__transport *t;

	sides_open("short=udp");
	/* Address changes of this machine must not wake it. */
	t = (struct ripc__transport *)a.t;
	if (t->listen.changes_fd >= 0)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, t->listen.changes_fd, NULL);
	len_a = (size_t)ops->address(a.t, addr_a, sizeof(addr_a));
	len_b = (size_t)ops->address(b.t, addr_b, sizeof(addr_b));
}

/*
 * A socket connected to the only peer is polled in each round without epoll, and added to epoll
 * when polling stops.
 */
START_TEST(soft_post_datagram__connected)
{
	const struct ripc__udp *u;
	struct pollfd p;
	unsigned before;

	line_open();
	u = exchange();
	p = (struct pollfd){.fd = test_fd(ops, a.t), .events = POLLIN};
	/* A polling thread never sleeps. */
	for (unsigned i = 0; i < 2000; i++)
		side_step(&a);
	ck_assert(u->udp_conn.watched);
	before = a.ndatagram;
	ck_assert_int_eq(ops->post_datagram(b.t, addr_a, len_a, &x, 1), 0);
	ck_assert_int_eq(poll(&p, 1, 20000), 1);
	UNTIL(a.ndatagram == before + 1);
	exchange();
	ck_assert_int_eq(ops->arm(a.t), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	before = a.ndatagram;
	ck_assert_int_eq(ops->post_datagram(b.t, addr_a, len_a, &x, 1), 0);
	ck_assert_int_eq(poll(&p, 1, 20000), 1);
	UNTIL(a.ndatagram == before + 1);
	sides_close();
}
END_TEST

/* A socket that cannot be added to epoll is polled for ever. */
START_TEST(soft_post_datagram__no_epoll)
{
	const struct ripc__udp *u;
	unsigned before;

	line_open();
	u = exchange();
	unwatchable = u->port[RIPC__UDP_CONN].fd;
	for (unsigned i = 0; i < 2000; i++)
		side_step(&a);
	ck_assert(!u->udp_conn.watched);
	ck_assert_int_eq(ops->arm(a.t), 1);
	before = a.ndatagram;
	ck_assert_int_eq(ops->post_datagram(b.t, addr_a, len_a, &x, 1), 0);
	UNTIL(a.ndatagram == before + 1);
	unwatchable = -1;
	sides_close();
}
END_TEST

START_TEST(soft_post_datagram__not_asked_for)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct iovec iov = {"x", 1};
	int len;

	sides_open(NULL);
	len = ops->address(b.t, addr, sizeof(addr));
	ck_assert_int_eq(ops->post_datagram(a.t, addr, (size_t)len, &iov, 1), -EHOSTUNREACH);
	sides_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("soft");
	TCase *tc = tcase_create("soft");

	setenv("RIPC_INTERFACES", "lo", 1);
	tcase_add_test(tc, soft_open__listens_on_the_loopback_only);
	tcase_add_loop_test(tc, soft_open__interface_without_address, 0, 2);
	tcase_add_test(tc, soft_limits__as_promised);
	tcase_add_loop_test(tc, soft_post_send__all_sizes, 0, 2);
	tcase_add_test(tc, soft_post_send__more_is_held_back_until_progress);
	tcase_add_loop_test(tc, soft_post_send__slow_reader, 0, 2);
	tcase_add_test(tc, soft_post_send__many_in_order);
	tcase_add_test(tc, soft_progress__data_before_closed_and_max_kept);
	tcase_add_test(tc, soft_release__token_outlives_the_endpoint);
	tcase_add_test(tc, soft_release__kept_messages_stop_nobody);
	tcase_add_loop_test(tc, soft_progress__many_endpoints, 0, 2);
	tcase_add_test(tc, soft_fd__readable_when_there_is_something);
	tcase_add_test(tc, soft_arm__writable_socket_wakes);
	tcase_add_test(tc, soft_progress__tries_a_full_socket_once);
	tcase_add_test(tc, soft_arm__socket_with_room_wakes_nobody);
	tcase_add_test(tc, soft_post_datagram__there_and_back);
	tcase_add_test(tc, soft_post_datagram__connected);
	tcase_add_test(tc, soft_post_datagram__no_epoll);
	tcase_add_test(tc, soft_post_datagram__not_asked_for);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/soft", suite);
}
