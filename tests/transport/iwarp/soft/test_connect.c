/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connection set-up over real loopback sockets: with itself, by hand, with bad input, with older
 * peers.
 */
#include "soft_pair.h"
#include "transport/transfer.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* A plain TCP connection to a listener of the side. */
static int raw_connect(struct side *s)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__iwarp_address decoded;
	union ripc__sockaddr to;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(ripc__iwarp_address_decode(&decoded, addr,
						    (size_t)ops->address(s->t, addr, sizeof(addr))),
			 0);
	to = decoded.addrs[0].ip;
	ck_assert_int_eq(to.sa.sa_family, AF_INET);
	ripc__sockaddr_set_port(&to, decoded.addrs[0].tcp);
	ck_assert_int_eq(connect(fd, &to.sa, sizeof(to.in)), 0);
	return fd;
}

/* Reads the reply frame of a plain connection. */
static struct ripc__mpa raw_frame(int fd, bool reply)
{
	static uint8_t buf[RIPC__MPA_FRAME_MAX];
	struct ripc__mpa frame;
	const char *why;
	size_t len = 0;

	for (uint64_t end_ns = ripc__clock_ns() + TIMEOUT_NS; ripc__clock_ns() < end_ns;) {
		ssize_t n = recv(fd, buf + len, sizeof(buf) - len, MSG_DONTWAIT);

		if (n > 0)
			len += (size_t)n;
		if (ripc__mpa_decode(&frame, reply, buf, len, &why) > 0)
			return frame;
		ck_assert_int_ne(n, 0);
		side_step(&a);
		side_step(&b);
	}
	ck_abort_msg("no MPA frame came");
}

static bool raw_ended(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

START_TEST(soft_connect__private_data_both_directions)
{
	sides_connect(NULL);
	ck_assert_uint_eq(b.privlen, 5);
	ck_assert_mem_eq(b.priv, "hello", 5);
	ck_assert_uint_eq(a.privlen, 7);
	ck_assert_mem_eq(a.priv, "welcome", 7);
	ck_assert(((struct ripc__ep *)a.ep)->engine->conn.ulpdu_max == RIPC__ULPDU_SOFT);
	sides_close();
}
END_TEST

START_TEST(soft_connect__crc_as_both_want)
{
	static const struct {
		const char *active, *passive;
		bool crc;
	} cases[] = {
		{"crc=auto", "crc=auto", false}, {"crc=on", "crc=auto", true},
		{"crc=auto", "crc=on", true},    {"crc=off", "crc=on", true},
		{"crc=off", "crc=off", false},   {"crc=on", "crc=on", true},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ripc__ep *ep;

		ck_assert_int_eq(side_open(&a, cases[i].active), 0);
		ck_assert_int_eq(side_open(&b, cases[i].passive), 0);
		side_connect(&a, &b, &ep);
		UNTIL(a.nestablished && b.nestablished);
		ck_assert_int_eq(a.ep->engine->conn.crc, cases[i].crc);
		ck_assert_int_eq(b.ep->engine->conn.crc, cases[i].crc);
		ck_assert_int_eq(side_post(&a, "x", 1, false), 0);
		UNTIL(b.nrecv);
		side_close(&a);
		side_close(&b);
	}
}
END_TEST

START_TEST(soft_reject__with_private_data)
{
	struct ripc__ep *ep;

	sides_open(NULL);
	b.refuse = true;
	side_connect(&a, &b, &ep);
	UNTIL(a.nclosed);
	ck_assert(a.rejected);
	ck_assert_int_eq(a.closed_status, -ECONNREFUSED);
	ck_assert_uint_eq(a.privlen, 7);
	ck_assert_mem_eq(a.priv, "no room", 7);
	ck_assert_uint_eq(a.nestablished, 0);
	ops->ep_close(ep);
	sides_close();
}
END_TEST

START_TEST(soft_connect__refused)
{
	struct ripc__ep *ep;
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len;

	sides_open(NULL);
	len = ops->address(b.t, addr, sizeof(addr));
	side_close(&b);
	ck_assert_int_eq(side_open(&b, NULL), 0);
	ck_assert_int_eq(ops->connect(a.t, addr, (size_t)len, NULL, 0, &a, &ep), 0);
	UNTIL(a.nclosed);
	ck_assert(!a.rejected);
	ck_assert_int_eq(a.closed_status, -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(a.text, "127.0.0.1:"));
	ck_assert_ptr_nonnull(strstr(a.text, "refused"));
	ck_assert_int_eq(ops->post(ep, NULL, 0, NULL, 0, false), -ENOTCONN);
	ops->ep_close(ep);
	sides_close();
}
END_TEST

START_TEST(soft_connect__malformed_address)
{
	struct ripc__ep *ep;
	uint8_t addr[RIPC__ADDRESS_MAX];
	uint64_t rng = test_seed();
	size_t len;

	sides_open(NULL);
	len = (size_t)ops->address(b.t, addr, sizeof(addr));
	for (size_t part = 0; part < len; part++)
		ck_assert_int_eq(ops->connect(a.t, addr, part, NULL, 0, &a, &ep), -EINVAL);
	addr[4] ^= 1; /* another host: its loopback cannot be reached */
	ck_assert_int_eq(ops->connect(a.t, addr, len, NULL, 0, &a, &ep), -EHOSTUNREACH);
	for (unsigned i = 0; i < 1000; i++) {
		for (size_t k = 0; k < len; k++)
			addr[k] = (uint8_t)test_random(&rng);
		ck_assert_int_eq(ops->connect(a.t, addr, len, NULL, 0, &a, &ep), -EINVAL);
	}
	sides_close();
}
END_TEST

START_TEST(soft_ep_close__at_every_step_of_set_up)
{
	sides_open(NULL);
	b.answer_later = true;
	for (unsigned rounds = 0; rounds < 40; rounds++) {
		struct ripc__ep *ep;

		b.request = NULL;
		side_connect(&a, &b, &ep);
		for (unsigned i = 0; i < rounds / 2; i++) {
			side_step(&a);
			side_step(&b);
		}
		ops->ep_close(ep);
		for (unsigned i = 0; i < 10; i++) {
			side_step(&a);
			side_step(&b);
		}
		if (!b.request)
			continue;
		/* The other end gets EV_CLOSED. */
		if (rounds % 2)
			ops->reject(b.t, b.request, NULL, 0);
		else if (!ops->accept(b.t, b.request, NULL, 0, &b, &b.ep)) {
			unsigned closed = b.nclosed;

			UNTIL(b.nclosed > closed);
			ops->ep_close(b.ep);
		}
	}
	ck_assert_uint_eq(a.nclosed, 0);
	sides_close();
}
END_TEST

/* The core may answer later. Until then a connection that is reset wakes nobody. */
START_TEST(soft_accept__reset_before_the_answer)
{
	const struct linger at_once = {.l_onoff = 1};
	struct pollfd p = {.events = POLLIN};
	struct ripc__ep *ep;

	sides_open(NULL);
	b.answer_later = true;
	side_connect(&a, &b, &ep);
	UNTIL(b.request);
	ck_assert_int_eq(setsockopt(ep->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
	ops->ep_close(ep);
	for (unsigned i = 0; i < 100; i++)
		side_step(&b);
	ck_assert_int_eq(ops->arm(b.t), 0);
	p.fd = test_fd(ops, b.t);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(ops->accept(b.t, b.request, "late", 4, &b, &b.ep), -ECONNRESET);
	ck_assert_uint_eq(b.nclosed, 0);
	sides_close();
}
END_TEST

START_TEST(soft_accept__garbage)
{
	int fd;

	sides_open(NULL);
	fd = raw_connect(&b);
	ck_assert_int_eq(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
	UNTIL(b.ngarbage);
	ck_assert_ptr_nonnull(strstr(b.text, "127.0.0.1:"));
	ck_assert_ptr_nonnull(strstr(b.text, "not an MPA"));
	UNTIL(raw_ended(fd));
	close(fd);
	/* A port scan. */
	close(raw_connect(&b));
	for (unsigned i = 0; i < 200; i++)
		side_step(&b);
	UNTIL(!((struct ripc__transport *)b.t)->nhalf_open);
	ck_assert_uint_eq(b.ngarbage, 1);
	sides_close();
}
END_TEST

START_TEST(soft_accept__garbage_instead_of_fpdus)
{
	struct ripc__mpa request = {.revision = 1};
	uint8_t buf[RIPC__MPA_FRAME_MAX];
	int fd;

	sides_open(NULL);
	fd = raw_connect(&b);
	ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&request, buf)), 0);
	raw_frame(fd, true);
	memset(buf, 0xff, sizeof(buf));
	ck_assert_int_gt(write(fd, buf, sizeof(buf)), 0);
	UNTIL(b.nclosed);
	ck_assert_int_eq(b.closed_status, -EPROTO);
	UNTIL(raw_ended(fd));
	close(fd);
	sides_close();
}
END_TEST

START_TEST(soft_accept__half_open_connections_are_bounded)
{
	int fds[2 * SOFT_HALF_OPEN_MAX];
	struct ripc__ep *ep;

	sides_open(NULL);
	for (unsigned i = 0; i < 2 * SOFT_HALF_OPEN_MAX; i++) {
		fds[i] = raw_connect(&b);
		side_step(&b);
	}
	UNTIL(((struct ripc__transport *)b.t)->nhalf_open == SOFT_HALF_OPEN_MAX && b.ngarbage);
	side_connect(&a, &b, &ep);
	UNTIL(a.nestablished);
	ck_assert_uint_ge(b.ngarbage, 1);
	ck_assert(raw_ended(fds[0]));
	ck_assert(!raw_ended(fds[2 * SOFT_HALF_OPEN_MAX - 1]));
	for (unsigned i = 0; i < 2 * SOFT_HALF_OPEN_MAX; i++)
		close(fds[i]);
	sides_close();
}
END_TEST

/* The time limit of a request is long: the clock is advanced. */
START_TEST(soft_accept__timeout)
{
	struct ripc__event events[4];
	uint64_t deadline = RIPC__NEVER;
	int fd;

	sides_open(NULL);
	fd = raw_connect(&b);
	ck_assert_int_eq(write(fd, "MPA ID", 6), 6);
	UNTIL(((struct ripc__transport *)b.t)->nhalf_open == 1);
	ops->progress(b.t, events, 4, ripc__clock_ns(), &deadline);
	ck_assert_uint_lt(deadline, ripc__clock_ns() + 6000 * RIPC__MS);
	for (unsigned i = 0; i < 40 && !b.ngarbage; i++) {
		uint64_t at_ns = ripc__clock_ns() + 6000 * RIPC__MS;
		unsigned n = ops->progress(b.t, events, 4, at_ns, &deadline);

		for (unsigned k = 0; k < n; k++)
			side_handle(&b, &events[k]);
	}
	ck_assert_uint_eq(b.ngarbage, 1);
	ck_assert_ptr_nonnull(strstr(b.text, "in time"));
	UNTIL(raw_ended(fd));
	close(fd);
	sides_close();
}
END_TEST

START_TEST(soft_accept__out_of_descriptors)
{
	struct rlimit old, tight;
	struct ripc__ep *ep;
	unsigned n = 0;

	sides_open(NULL);
	side_connect(&a, &b, &ep);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	tight = old;
	tight.rlim_cur = (rlim_t)ep->fd + 1;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
	for (unsigned i = 0; i < 100; i++)
		n += side_step(&b);
	/* The connection may be new, or another attempt. */
	for (uint64_t end = ripc__clock_ns() + TIMEOUT_NS;
	     !((struct ripc__transport *)b.t)->accept_resume_ns && ripc__clock_ns() < end;)
		n += side_step(&b);
	ck_assert_uint_eq(n, b.nlow);
	ck_assert_uint_ge(b.nlow, 1);
	ck_assert(((struct ripc__transport *)b.t)->accept_resume_ns);
	/* The epoll descriptor is not readable meanwhile. */
	ck_assert_int_eq(ops->arm(b.t), 0);
	ck_assert_int_eq(poll(&(struct pollfd){.fd = test_fd(ops, b.t), .events = POLLIN}, 1, 0),
			 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	UNTIL(a.nestablished && b.nestablished);
	sides_close();
}
END_TEST

START_TEST(soft_accept__peer_of_revision_1)
{
	struct ripc__mpa request = {.revision = 1, .priv = (const uint8_t *)"basic", .privlen = 5},
			 reply;
	uint8_t buf[RIPC__MPA_FRAME_MAX], fpdu[64];
	struct iovec iov = {"late", 4};
	size_t len;
	int fd;

	sides_open("crc=off");
	fd = raw_connect(&b);
	len = ripc__mpa_encode(&request, buf);
	/* Byte by byte. */
	for (size_t i = 0; i < len; i++) {
		ck_assert_int_eq(write(fd, buf + i, 1), 1);
		side_step(&b);
	}
	reply = raw_frame(fd, true);
	ck_assert_uint_eq(reply.revision, 1);
	ck_assert(!reply.reject && !reply.crc && !reply.enhanced && !reply.soft);
	ck_assert_uint_eq(reply.privlen, 7);
	ck_assert_uint_eq(b.privlen, 5);
	UNTIL(b.nestablished);
	/* The active side sends first. */
	ck_assert_int_ge(ops->post(b.ep, NULL, 0, &iov, 1, false), 0);
	for (unsigned i = 0; i < 100; i++)
		side_step(&b);
	ck_assert_int_lt(recv(fd, fpdu, sizeof(fpdu), MSG_DONTWAIT), 0);
	len = ripc__ddp_put_untagged(fpdu, RIPC__RDMAP_SEND, true, 0, 1, 0, 2);
	memcpy(fpdu + len, "hi\0\0\0\0\0", 8);
	ck_assert_int_eq(write(fd, fpdu, 28), 28);
	UNTIL(b.nrecv);
	ck_assert_mem_eq(b.last, "hi", 2);
	UNTIL(recv(fd, fpdu, sizeof(fpdu), MSG_DONTWAIT) == 28);
	ck_assert_mem_eq(fpdu + 20, "late", 4);
	close(fd);
	UNTIL(b.nclosed);
	sides_close();
}
END_TEST

START_TEST(soft_accept__markers_demanded)
{
	struct ripc__mpa request = {.revision = 1 + (_i & 1), .markers = true, .enhanced = _i & 1},
			 reply;
	uint8_t buf[RIPC__MPA_FRAME_MAX];
	int fd;

	sides_open(NULL);
	fd = raw_connect(&b);
	ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&request, buf)), 0);
	reply = raw_frame(fd, true);
	ck_assert(reply.reject && !reply.markers);
	ck_assert_mem_eq(reply.priv, "this end does not send markers", reply.privlen);
	UNTIL(b.ngarbage);
	ck_assert_uint_eq(b.nrequest, 0);
	close(fd);
	sides_close();
}
END_TEST

/* A plain listening socket at the first address of b. */
static int raw_listener(uint8_t *addr, size_t *len)
{
	struct ripc__iwarp_address address = {.host = ripc__iwarp_host_id(), .naddrs = 1};
	union ripc__sockaddr *ip = &address.addrs[0].ip;
	socklen_t sl = sizeof(ip->in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	ip->in.sin_family = AF_INET;
	ip->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(fd, &ip->sa, sl), 0);
	ck_assert_int_eq(getsockname(fd, &ip->sa, &sl), 0);
	ck_assert_int_eq(listen(fd, 5), 0);
	address.addrs[0].tcp = ripc__sockaddr_port(ip);
	*len = ripc__iwarp_address_encode(&address, addr);
	return fd;
}

static int raw_accept(int listener)
{
	int fd = -1;

	UNTIL((fd = accept(listener, NULL, NULL)) >= 0);
	return fd;
}

/* 0: closes on revision 2; 1: refuses it in revision 1; 2: answers in revision 1. */
START_TEST(soft_connect__peer_knows_revision_1_only)
{
	struct ripc__mpa reply = {.revision = 1,
				  .reply = true,
				  .priv = (const uint8_t *)"old",
				  .privlen = 3},
			 request;
	uint8_t addr[RIPC__ADDRESS_MAX], buf[RIPC__MPA_FRAME_MAX];
	struct ripc__ep *ep;
	size_t len;
	int listener, fd;

	sides_open("crc=off");
	listener = raw_listener(addr, &len);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	fd = raw_accept(listener);
	request = raw_frame(fd, false);
	ck_assert_uint_eq(request.revision, 2);
	ck_assert(request.enhanced && !request.peer_to_peer && !request.markers);
	if (_i < 2) {
		reply.reject = true;
		if (_i == 1)
			ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&reply, buf)), 0);
		shutdown(fd, SHUT_WR);
		reply.reject = false;
		UNTIL(raw_ended(fd));
		close(fd);
		fd = raw_accept(listener);
		request = raw_frame(fd, false);
		ck_assert_uint_eq(request.revision, 1);
		ck_assert(!request.enhanced);
	}
	ck_assert_int_gt(write(fd, buf, ripc__mpa_encode(&reply, buf)), 0);
	UNTIL(a.nestablished);
	ck_assert_uint_eq(a.privlen, 3);
	/* The active side sends the first FPDU by itself: an empty Send. */
	UNTIL(recv(fd, buf, sizeof(buf), MSG_DONTWAIT) == 24);
	ck_assert_mem_eq(buf, "\0\x12\x41\x43", 4);
	close(fd);
	UNTIL(a.nclosed);
	close(listener);
	sides_close();
}
END_TEST

START_TEST(soft_connect__malformed_reply)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	size_t len;
	int listener, fd;

	sides_open(NULL);
	listener = raw_listener(addr, &len);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	fd = raw_accept(listener);
	ck_assert_int_eq(write(fd, "220 mail.example ESMTP\r\n", 24), 24);
	UNTIL(a.nclosed);
	ck_assert_ptr_nonnull(strstr(a.text, "not an MPA set-up frame"));
	close(fd);
	close(listener);
	sides_close();
}
END_TEST

/*
 * One address refuses, another process answers at the other one (first, second): the peer may live.
 */
START_TEST(soft_connect__one_addr_refused)
{
	struct ripc__iwarp_address address;
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	size_t len;
	int listener, nobody, fd;

	sides_open(NULL);
	nobody = raw_listener(addr, &len);
	ck_assert_int_eq(ripc__iwarp_address_decode(&address, addr, len), 0);
	address.addrs[!_i] = address.addrs[0];
	listener = raw_listener(addr, &len);
	{
		struct ripc__iwarp_address other;

		ck_assert_int_eq(ripc__iwarp_address_decode(&other, addr, len), 0);
		address.addrs[_i] = other.addrs[0];
	}
	address.naddrs = 2;
	len = ripc__iwarp_address_encode(&address, addr);
	close(nobody);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	fd = raw_accept(listener);
	ck_assert_int_eq(write(fd, "220 mail.example ESMTP\r\n", 24), 24);
	UNTIL(a.nclosed);
	ck_assert_int_eq(a.closed_status, -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(a.text, "refused"));
	ck_assert_ptr_nonnull(strstr(a.text, "not an MPA set-up frame"));
	close(fd);
	close(listener);
	sides_close();
}
END_TEST

/* All addresses refuse. */
START_TEST(soft_connect__two_addrs_refused)
{
	struct ripc__iwarp_address address, other;
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *ep;
	size_t len;
	int one, two;

	sides_open(NULL);
	one = raw_listener(addr, &len);
	ck_assert_int_eq(ripc__iwarp_address_decode(&address, addr, len), 0);
	two = raw_listener(addr, &len);
	ck_assert_int_eq(ripc__iwarp_address_decode(&other, addr, len), 0);
	address.addrs[address.naddrs++] = other.addrs[0];
	len = ripc__iwarp_address_encode(&address, addr);
	close(one);
	close(two);
	ck_assert_int_eq(ops->connect(a.t, addr, len, "x", 1, &a, &ep), 0);
	UNTIL(a.nclosed);
	ck_assert_int_eq(a.closed_status, -ECONNREFUSED);
	sides_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("connect");
	TCase *tc = tcase_create("connect");

	setenv("RIPC_INTERFACES", "lo", 1);
	tcase_add_test(tc, soft_connect__private_data_both_directions);
	tcase_add_test(tc, soft_connect__crc_as_both_want);
	tcase_add_test(tc, soft_reject__with_private_data);
	tcase_add_test(tc, soft_connect__refused);
	tcase_add_test(tc, soft_connect__malformed_address);
	tcase_add_test(tc, soft_ep_close__at_every_step_of_set_up);
	tcase_add_test(tc, soft_accept__reset_before_the_answer);
	tcase_add_test(tc, soft_accept__garbage);
	tcase_add_test(tc, soft_accept__garbage_instead_of_fpdus);
	tcase_add_test(tc, soft_accept__half_open_connections_are_bounded);
	tcase_add_test(tc, soft_accept__timeout);
	tcase_add_test(tc, soft_accept__out_of_descriptors);
	tcase_add_test(tc, soft_accept__peer_of_revision_1);
	tcase_add_loop_test(tc, soft_accept__markers_demanded, 0, 2);
	tcase_add_loop_test(tc, soft_connect__peer_knows_revision_1_only, 0, 3);
	tcase_add_test(tc, soft_connect__malformed_reply);
	tcase_add_loop_test(tc, soft_connect__one_addr_refused, 0, 2);
	tcase_add_test(tc, soft_connect__two_addrs_refused);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/connect", suite);
}
