/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "../tools/perf_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_host(const char *address, const char *want)
{
	char host[64];

	perf_socket_host(address, host, sizeof(host));
	ck_assert_str_eq(host, want);
}

START_TEST(perf_socket_host__one_address)
{
	check_host("10.0.0.1:4000", "10.0.0.1");
	check_host("10.0.0.1", "10.0.0.1");
	check_host("[fd00::7]:4000", "fd00::7");
	check_host("fd00::7", "fd00::7");
	check_host("[fe80::1%eth0]:4000", "fe80::1%eth0");
}
END_TEST

START_TEST(perf_socket_host__prefers_non_loopback)
{
	check_host("127.0.0.1:1 [::1]:2 10.0.0.1:3", "10.0.0.1");
	check_host("10.0.0.1:1 127.0.0.1:2", "10.0.0.1");
	check_host("[::1]:1 127.0.0.1:2", "::1");
	check_host("127.0.0.1:1 [::1]:2", "127.0.0.1");
}
END_TEST

START_TEST(perf_socket_host__no_address)
{
	check_host("", "127.0.0.1");
	check_host("this context", "127.0.0.1");
	check_host("300.0.0.1:4000 host:1", "127.0.0.1");
}
END_TEST

START_TEST(perf_socket_host__any_bytes)
{
	static const char alphabet[] = "0123456789abcdef.:[]% ,x";
	uint64_t state = test_seed();
	char text[128], host[64];

	for (unsigned i = 0; i < 20000; i++) {
		size_t len = test_random(&state) % (sizeof(text) - 1);

		for (size_t k = 0; k < len; k++)
			text[k] = alphabet[test_random(&state) % (sizeof(alphabet) - 1)];
		text[len] = 0;
		perf_socket_host(text, host, sizeof(host));
		ck_assert_uint_lt(strlen(host), sizeof(host));
		ck_assert_uint_gt(strlen(host), 1);
	}
}
END_TEST

/* Two connected sockets, the first one's descriptor accepted. */
static void connect_pair(struct perf_socket *a, struct perf_socket *b, enum perf_wait wait)
{
	uint64_t port = 0;
	int listener = perf_socket_listen(PERF_TCP, "127.0.0.1", &port);

	ck_assert_int_ge(listener, 0);
	ck_assert_uint_gt(port, 0);
	*a = *b = (struct perf_socket){.protocol = PERF_TCP, .wait = wait, .patience_ms = 50};
	ck_assert_int_eq(perf_socket_connect(b, "127.0.0.1", port), 0);
	a->fd = perf_socket_accept(listener, 5000);
	ck_assert_int_ge(a->fd, 0);
	ck_assert_int_eq(perf_socket_prepare(a), 0);
	close(listener);
}

START_TEST(perf_socket_send__complete)
{
	static const enum perf_wait waits[] = {PERF_POLL, PERF_BLOCK};
	struct perf_socket a, b;
	char buf[8];

	connect_pair(&a, &b, waits[_i]);
	ck_assert_int_eq(perf_socket_send(&a, "abc", 3), 0);
	ck_assert_int_eq(perf_socket_send(&a, "defgh", 5), 0);
	ck_assert_int_eq(perf_socket_receive_all(&b, buf, 8), 0);
	ck_assert_int_eq(memcmp(buf, "abcdefgh", 8), 0);
	perf_socket_close(&a);
	perf_socket_close(&b);
	ck_assert_int_eq(a.fd, -1);
}
END_TEST

START_TEST(perf_socket_receive__timeout_and_eof)
{
	static const enum perf_wait waits[] = {PERF_POLL, PERF_BLOCK};
	struct perf_socket a, b;
	char byte;

	connect_pair(&a, &b, waits[_i]);
	ck_assert_int_eq(perf_socket_receive(&b, &byte, 1), -ETIMEDOUT);
	ck_assert_int_eq(perf_socket_receive_all(&b, &byte, 1), -ETIMEDOUT);
	perf_socket_close(&a);
	ck_assert_int_eq(perf_socket_receive(&b, &byte, 1), 0);
	ck_assert_int_eq(perf_socket_receive_all(&b, &byte, 1), -EPIPE);
	perf_socket_close(&b);
}
END_TEST

START_TEST(perf_socket_connect__refused)
{
	struct perf_socket s = {.protocol = PERF_TCP, .wait = PERF_POLL, .patience_ms = 50};
	uint64_t port = 0;
	int listener = perf_socket_listen(PERF_TCP, "127.0.0.1", &port);

	close(listener);
	ck_assert_int_eq(perf_socket_connect(&s, "127.0.0.1", port), -ECONNREFUSED);
	ck_assert_int_eq(s.fd, -1);
	ck_assert_int_eq(perf_socket_connect(&s, "nonsense", port), -EINVAL);
}
END_TEST

START_TEST(perf_socket_accept__timeout)
{
	uint64_t port = 0;
	int listener = perf_socket_listen(PERF_TCP, "127.0.0.1", &port);

	ck_assert_int_eq(perf_socket_accept(listener, 10), -ETIMEDOUT);
	close(listener);
}
END_TEST

START_TEST(perf_fill__every_number_and_size_has_its_pattern)
{
	unsigned char buf[40];

	for (size_t len = 1; len <= sizeof(buf); len++) {
		perf_fill(buf, len, 7);
		ck_assert(perf_check(buf, len, 7));
		for (size_t i = 0; i < len; i++) {
			buf[i] ^= 1;
			ck_assert(!perf_check(buf, len, 7));
			buf[i] ^= 1;
		}
		if (len >= 8)
			ck_assert(!perf_check(buf, len, 8));
	}
	ck_assert(perf_check(buf, 0, 1));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("perf_socket");
	TCase *host = tcase_create("host"), *sockets = tcase_create("sockets"),
	      *payload = tcase_create("payload");

	test_seed();
	tcase_add_test(host, perf_socket_host__one_address);
	tcase_add_test(host, perf_socket_host__prefers_non_loopback);
	tcase_add_test(host, perf_socket_host__no_address);
	tcase_add_test(host, perf_socket_host__any_bytes);
	tcase_add_loop_test(sockets, perf_socket_send__complete, 0, 2);
	tcase_add_loop_test(sockets, perf_socket_receive__timeout_and_eof, 0, 2);
	tcase_add_test(sockets, perf_socket_connect__refused);
	tcase_add_test(sockets, perf_socket_accept__timeout);
	tcase_add_test(payload, perf_fill__every_number_and_size_has_its_pattern);
	suite_add_tcase(suite, host);
	suite_add_tcase(suite, sockets);
	suite_add_tcase(suite, payload);
	return test_main("tools/perf_socket", suite);
}
