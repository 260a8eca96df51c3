/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Datagrams: destination, source, and the address to answer to. */
#include "udp_helpers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Two senders, alternating and one after the other: each gets its answer. */
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

/* The port of the sender that a datagram came from: its index, or -1. */
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

/*
 * A socket without an address is not sent from, the next one is; nor is a closed one whose index is
 * used again.
 */
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
	ripc__udp_set_addr_gone(&a, 0, true);
	send_to(&a, to, len, 'x');
	ck_assert_int_eq(sent_from(&a, &server), 1);
	ripc__udp_port_close(&a, 1);
	ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), -EHOSTUNREACH);
	ck_assert_int_eq(ripc__udp_open(&a, &ip, 0), 1);
	send_to(&a, to, len, 'x');
	ck_assert_int_eq(sent_from(&a, &server), 1);
	ripc__udp_port_close(&a, 1);
	ripc__udp_set_addr_gone(&a, 0, false);
	send_to(&a, to, len, 'x');
	ck_assert_int_eq(sent_from(&a, &server), 0);
	ripc__udp_close(&a);
	ripc__udp_close(&server);
}
END_TEST

/* Peers whose addresses differ in the last bytes are cached separately. */
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
	for (unsigned i = 0; i < RIPC__UDP_ROUTES; i++)
		known += a.routes[i].len > 0;
	ck_assert_uint_gt(known, 1);
	ripc__udp_close(&a);
	for (unsigned i = 0; i < 8; i++)
		ripc__udp_close(&peers[i]);
}
END_TEST

/* An empty address is invalid: nothing is sent to descriptor 0. */
START_TEST(send__empty_address)
{
	struct sockaddr_in ip = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), far, saved;
	struct ripc__iwarp_address nowhere = {.host = HOST, .naddrs = 1};
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
	/* A peer without datagrams: an empty route is cached. */
	nowhere.addrs[0].ip = u.port[0].addr;
	nowhere.addrs[0].tcp = 1;
	len = ripc__iwarp_address_encode(&nowhere, to);
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

ssize_t __real_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t addrlen);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t addrlen);

static int send_errno; /* every datagram is refused with it; 0: none */

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t addrlen)
{
	errno = send_errno;
	return send_errno ? -1 : __real_sendto(fd, buf, len, flags, to, addrlen);
}

/* A queue without room is reported, for the first datagram to a peer and for later ones. */
START_TEST(send__no_room)
{
	uint8_t to[RIPC__ADDRESS_MAX];
	struct ripc__udp server, a;
	struct iovec iov = {"x", 1};
	size_t len;

	open_one(&server, "127.0.0.1");
	open_one(&a, "127.0.0.1");
	len = address_of(&server, to);
	for (unsigned i = 0; i < 2; i++) {
		send_errno = EAGAIN;
		ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), -EAGAIN);
		send_errno = ENOBUFS;
		ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), -EAGAIN);
		send_errno = 0;
		ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), 0);
	}
	ripc__udp_close(&a);
	ripc__udp_close(&server);
}
END_TEST

START_TEST(receive__reply_address)
{
	answers_reach_their_senders("127.0.0.1");
}
END_TEST

START_TEST(receive__reply_address_ipv6)
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

/* The MTU of the sender may be larger. */
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
	ripc__udp_limit_mtu(&server, RIPC__UDP_MTU_MIN);
	len = address_of(&server, to);
	ck_assert_int_eq(ripc__udp_send(&server, to, len, &iov, 1), -EMSGSIZE);
	ck_assert_int_eq(ripc__udp_send(&a, to, len, &iov, 1), 0);
	ck_assert_int_eq(poll(&(struct pollfd){server.port[0].fd, POLLIN, 0}, 1, TIMEOUT_MS), 1);
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
	/* Any host may send anything. */
	ck_assert_int_eq(sendto(a.port[0].fd, large, sizeof(large), 0, &server.port[0].addr.sa,
				sizeof(server.port[0].addr.in)),
			 (int)sizeof(large));
	ck_assert_int_eq(poll(&(struct pollfd){server.port[0].fd, POLLIN, 0}, 1, TIMEOUT_MS), 1);
	rc = ripc__udp_receive(&server, 0, large, from, &fromlen, who);
	ck_assert_int_eq(rc, -EMSGSIZE);
	ck_assert_msg(!strncmp(who, "127.0.0.1:", 10), "%s", who);
	ripc__udp_close(&a);
	ripc__udp_close(&server);
}
END_TEST

/* A burst doubles while it is filled. A datagram that is too long is reported in its place. */
START_TEST(receive_events__burst)
{
	static uint8_t large[RIPC__UDP_MAX + 1];
	struct ripc__slab_pool slabs;
	struct ripc__event events[8] = {0};
	struct ripc__udp server, client;
	uint8_t to[RIPC__ADDRESS_MAX];
	size_t len;

	ripc__slab_pool_init(&slabs, 1u << 20);
	open_one(&server, "127.0.0.1");
	server.rx = (struct ripc__udp_rx){.slabs = &slabs, .tag = 1};
	open_one(&client, "127.0.0.1");
	len = address_of(&server, to);
	for (char i = 0; i < 3; i++)
		send_to(&client, to, len, i);
	ck_assert_int_eq(sendto(client.port[0].fd, large, sizeof(large), 0, &server.port[0].addr.sa,
				ripc__sockaddr_len(&server.port[0].addr)),
			 (int)sizeof(large));
	for (char i = 3; i < 5; i++)
		send_to(&client, to, len, i);
	for (char i = 0; i < 5;) {
		unsigned want = i == 0 ? 1 : i == 1 ? 2 : 3;

		ck_assert_uint_eq(ripc__udp_receive_events(&server, 0, events, 8), want);
		for (unsigned k = 0; k < want; k++) {
			const struct ripc__event *ev = &events[k];

			if (i == 3 && !k) {
				ck_assert_int_eq(ev->kind, RIPC__EV_BAD_INPUT);
				ck_assert_ptr_nonnull(strstr(ev->text, "127.0.0.1"));
				continue;
			}
			ck_assert_int_eq(ev->kind, RIPC__EV_DATAGRAM);
			ck_assert_uint_eq(ev->len, 1);
			ck_assert_int_eq(*(const char *)ev->data, i++);
			ck_assert_ptr_eq(ev->token, (void *)((uintptr_t)slabs.current | 1));
			ck_assert_ptr_eq(ev->from, server.rx.from[server.rx.n - (want - k)]);
			ripc__slab_put(slabs.current);
		}
	}
	ck_assert_uint_eq(server.rx.n, 5);
	/* No more than there are sources for. */
	server.rx.n = RIPC__UDP_EVENTS_MAX;
	send_to(&client, to, len, 5);
	ck_assert_uint_eq(ripc__udp_receive_events(&server, 0, events, 8), 0);
	server.rx.n = 0;
	ck_assert_uint_eq(ripc__udp_receive_events(&server, 0, events, 8), 1);
	ripc__slab_put(slabs.current);
	ripc__udp_close(&client);
	ripc__udp_close(&server);
	ripc__slab_pool_fini(&slabs);
}
END_TEST

static void send_bytes(const struct ripc__udp *from, const struct ripc__udp *to, size_t len)
{
	static const uint8_t bytes[RIPC__UDP_MAX];

	ck_assert_int_eq(sendto(from->port[0].fd, bytes, len, 0, &to->port[0].addr.sa,
				ripc__sockaddr_len(&to->port[0].addr)),
			 (ssize_t)len);
}

/* The longest datagram fits at the very end of a slab, and the next one starts another slab. */
START_TEST(receive_events__slab_end)
{
	struct ripc__slab_pool slabs;
	struct ripc__slab *tokens[32];
	const unsigned full = RIPC__SLAB_BYTES / RIPC__UDP_MAX;
	struct ripc__udp server, client;
	struct ripc__event ev;

	ripc__slab_pool_init(&slabs, 1u << 20);
	open_one(&server, "127.0.0.1");
	server.rx.slabs = &slabs;
	open_one(&client, "127.0.0.1");
	/* All of them are held. */
	for (unsigned i = 0; i < full + 2; i++) {
		send_bytes(&client, &server, i == full + 1 ? 0 : RIPC__UDP_MAX - (i < full - 1));
		ck_assert_int_eq(
			poll(&(struct pollfd){server.port[0].fd, POLLIN, 0}, 1, TIMEOUT_MS), 1);
		ck_assert_uint_eq(ripc__udp_receive_events(&server, 0, &ev, 1), 1);
		tokens[i] = ev.token;
		ck_assert(ev.data >= tokens[i]->data);
		ck_assert_uint_le((size_t)(ev.data - tokens[i]->data) + ev.len, tokens[i]->cap);
		ck_assert_uint_le(slabs.used, RIPC__SLAB_BYTES);
	}
	ck_assert_ptr_eq(tokens[full - 1], tokens[0]);
	ck_assert_ptr_ne(tokens[full], tokens[0]);
	/* The address of an empty datagram is not that of its successor. */
	ck_assert_uint_gt(slabs.used, RIPC__UDP_MAX);
	for (unsigned i = 0; i < full + 2; i++)
		ripc__slab_put(tokens[i]);
	ripc__udp_close(&client);
	ripc__udp_close(&server);
	ripc__slab_pool_fini(&slabs);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("udp");
	TCase *tc = tcase_create("udp");

	tcase_add_test(tc, receive_events__burst);
	tcase_add_test(tc, receive_events__slab_end);
	tcase_add_test(tc, send__addresses_that_go);
	tcase_add_test(tc, send__many_peers);
	tcase_add_test(tc, send__empty_address);
	tcase_add_test(tc, send__no_room);
	tcase_add_test(tc, receive__reply_address);
	tcase_add_test(tc, receive__reply_address_ipv6);
	tcase_add_test(tc, receive__longer_than_ours);
	tcase_add_test(tc, receive__nothing_and_too_much);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/udp", suite);
}
