/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "transport/iwarp/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static struct ripc__iwarp_listen_addr listen_addr(const char *ip, uint16_t tcp, uint16_t udp)
{
	struct ripc__iwarp_listen_addr p = {.tcp = tcp, .udp = udp};

	if (inet_pton(AF_INET, ip, &p.ip.in.sin_addr) == 1) {
		p.ip.sa.sa_family = AF_INET;
	} else {
		ck_assert_int_eq(inet_pton(AF_INET6, ip, &p.ip.in6.sin6_addr), 1);
		p.ip.sa.sa_family = AF_INET6;
	}
	return p;
}

static const struct ripc__iwarp_address *sample(void)
{
	static struct ripc__iwarp_address a;

	a = (struct ripc__iwarp_address){.host = 42, .naddrs = 4};
	a.addrs[0] = listen_addr("192.0.2.1", 1000, 0);
	a.addrs[1] = listen_addr("2001:db8::1", 1001, 2001);
	a.addrs[2] = listen_addr("127.0.0.1", 1002, 0);
	a.addrs[3] = listen_addr("::1", 1003, 65535);
	return &a;
}

START_TEST(iwarp_address_encode__round_trip)
{
	uint8_t buf[256];
	size_t len = ripc__iwarp_address_encode(sample(), buf);
	struct ripc__iwarp_address a;

	ck_assert_uint_eq(len, 12 + 10 + 22 + 10 + 22);
	ck_assert_mem_eq(buf, "\1\4\0\0\x2a\0\0\0\0\0\0\0\4\0\xe8\3\0\0\xc0\0\2\1", 22);
	ck_assert_int_eq(ripc__iwarp_address_decode(&a, buf, len), 0);
	ck_assert_mem_eq(&a, sample(), sizeof(a));
}
END_TEST

START_TEST(iwarp_address_encode__longest_fits)
{
	struct ripc__iwarp_address a = {.naddrs = RIPC__IWARP_ADDRS_MAX};
	uint8_t buf[256];

	for (unsigned i = 0; i < RIPC__IWARP_ADDRS_MAX; i++)
		a.addrs[i] = listen_addr("2001:db8::2", 1, 1);
	ck_assert_uint_le(ripc__iwarp_address_encode(&a, buf), 256);
	ck_assert_uint_gt(ripc__iwarp_address_encode(&a, buf), 0);
}
END_TEST

START_TEST(iwarp_address_decode__every_cut_and_surplus)
{
	uint8_t buf[256] = {0};
	size_t len = ripc__iwarp_address_encode(sample(), buf);
	struct ripc__iwarp_address a;

	for (size_t part = 0; part <= sizeof(buf); part++) {
		int rc = ripc__iwarp_address_decode(&a, buf, part);

		ck_assert_int_eq(rc, part == len ? 0 : -EINVAL);
	}
}
END_TEST

START_TEST(iwarp_address_decode__unusable_addresses)
{
	static const char *const bad[] = {"0.0.0.0", "224.0.0.1", "255.255.255.255",
					  "::",      "ff02::1",   "::ffff:127.0.0.1"};
	uint8_t buf[256];
	struct ripc__iwarp_address a = {.naddrs = 1};
	size_t len;
	int rc;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a.naddrs = 1;
		a.addrs[0] = listen_addr(bad[i], 1, 0);
		ck_assert_int_eq(
			ripc__iwarp_address_decode(&a, buf, ripc__iwarp_address_encode(&a, buf)),
			-EINVAL);
	}
	a.naddrs = 1;
	a.addrs[0] = listen_addr("192.0.2.1", 0, 0);
	rc = ripc__iwarp_address_decode(&a, buf, ripc__iwarp_address_encode(&a, buf));
	ck_assert_int_eq(rc, -EINVAL);
	/* Datagrams are not sent to a link-local address. */
	a.naddrs = 1;
	a.addrs[0] = listen_addr("fe80::1", 1, 1);
	rc = ripc__iwarp_address_decode(&a, buf, ripc__iwarp_address_encode(&a, buf));
	ck_assert_int_eq(rc, -EINVAL);
	/* A loopback address not marked as such would be tried from other hosts. */
	a.naddrs = 1;
	a.addrs[0] = listen_addr("127.0.0.1", 1, 0);
	len = ripc__iwarp_address_encode(&a, buf);
	buf[13] = 0;
	ck_assert_int_eq(ripc__iwarp_address_decode(&a, buf, len), -EINVAL);
}
END_TEST

START_TEST(iwarp_address_decode__random_bytes)
{
	uint64_t rng = test_seed();
	uint8_t buf[256], again[256];
	size_t good = ripc__iwarp_address_encode(sample(), buf);

	for (unsigned i = 0; i < 20000; i++) {
		struct ripc__iwarp_address a;
		size_t len = i % 2 ? good : test_random(&rng) % 257;

		ripc__iwarp_address_encode(sample(), buf);
		for (unsigned k = 0; k < 3; k++)
			buf[test_random(&rng) % sizeof(buf)] = (uint8_t)test_random(&rng);
		if (ripc__iwarp_address_decode(&a, buf, len))
			continue;
		ck_assert_uint_ge(a.naddrs, 1);
		ck_assert_uint_le(a.naddrs, RIPC__IWARP_ADDRS_MAX);
		ck_assert_uint_eq(ripc__iwarp_address_encode(&a, again), len);
	}
}
END_TEST

START_TEST(iwarp_address_order__loopback_on_the_same_host_only)
{
	struct ripc__iwarp_address a = *sample();

	ck_assert_uint_eq(ripc__iwarp_address_order(&a, 42, NULL, 0), 4);
	ck_assert_uint_eq(a.addrs[0].tcp, 1002);
	ck_assert_uint_eq(a.addrs[1].tcp, 1003);
	ck_assert_uint_eq(a.addrs[2].tcp, 1000);
	a = *sample();
	ck_assert_uint_eq(ripc__iwarp_address_order(&a, 43, NULL, 0), 2);
	ck_assert_uint_eq(a.addrs[0].tcp, 1000);
	ck_assert_uint_eq(a.addrs[1].tcp, 1001);
	a = *sample();
	a.addrs[0] = a.addrs[2];
	a.naddrs = 1;
	ck_assert_uint_eq(ripc__iwarp_address_order(&a, 43, NULL, 0), 0);
}
END_TEST

START_TEST(iwarp_address_order__link_local_through_each_interface)
{
	static const unsigned scopes[20] = {7, 3};
	struct ripc__iwarp_address a = {.host = 42, .naddrs = 3};
	uint8_t buf[256];

	a.addrs[0] = listen_addr("fe80::1", 1000, 0);
	a.addrs[1] = listen_addr("192.0.2.1", 1001, 0);
	a.addrs[2] = listen_addr("fe80::2", 1002, 0);
	/* The scope id means nothing to other hosts, and is not in the record. */
	a.addrs[0].ip.in6.sin6_scope_id = 99;
	ck_assert_int_eq(ripc__iwarp_address_decode(&a, buf, ripc__iwarp_address_encode(&a, buf)),
			 0);
	ck_assert_uint_eq(a.addrs[0].ip.in6.sin6_scope_id, 0);
	ck_assert_uint_eq(ripc__iwarp_address_order(&a, 42, scopes, 2), 5);
	ck_assert_uint_eq(a.addrs[0].tcp, 1001);
	for (unsigned i = 1; i < 5; i++) {
		ck_assert_uint_eq(a.addrs[i].tcp, i < 3 ? 1000 : 1002);
		ck_assert_uint_eq(a.addrs[i].ip.in6.sin6_scope_id, scopes[(i - 1) % 2]);
	}
	/* More interfaces than there is room for. */
	ck_assert_uint_eq(ripc__iwarp_address_order(&a, 42, scopes, 20), RIPC__IWARP_ADDRS_MAX);
	ck_assert_uint_eq(ripc__iwarp_address_order(&a, 42, NULL, 0), 1);
	ck_assert_uint_eq(a.addrs[0].tcp, 1001);
}
END_TEST

START_TEST(sockaddr_text__both_families)
{
	struct ripc__iwarp_listen_addr p = listen_addr("127.0.0.1", 0, 0);
	char text[64];

	ripc__sockaddr_set_port(&p.ip, 80);
	ripc__sockaddr_text(&p.ip, text, sizeof(text));
	ck_assert_str_eq(text, "127.0.0.1:80");
	p = listen_addr("2001:db8::5", 0, 0);
	ripc__sockaddr_set_port(&p.ip, 65535);
	ripc__sockaddr_text(&p.ip, text, sizeof(text));
	ck_assert_str_eq(text, "[2001:db8::5]:65535");
	ck_assert_uint_eq(ripc__sockaddr_port(&p.ip), 65535);
	/* Interface 1 of every network namespace is the loopback. */
	p = listen_addr("fe80::5", 0, 0);
	p.ip.in6.sin6_scope_id = 1;
	ripc__sockaddr_text(&p.ip, text, sizeof(text));
	ck_assert_str_eq(text, "[fe80::5%lo]:0");
	p.ip.in6.sin6_scope_id = 4000000000;
	ripc__sockaddr_text(&p.ip, text, sizeof(text));
	ck_assert_str_eq(text, "[fe80::5%4000000000]:0");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("address");
	TCase *tc = tcase_create("address");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, iwarp_address_encode__round_trip);
	tcase_add_test(tc, iwarp_address_encode__longest_fits);
	tcase_add_test(tc, iwarp_address_decode__every_cut_and_surplus);
	tcase_add_test(tc, iwarp_address_decode__unusable_addresses);
	tcase_add_test(tc, iwarp_address_decode__random_bytes);
	tcase_add_test(tc, iwarp_address_order__loopback_on_the_same_host_only);
	tcase_add_test(tc, iwarp_address_order__link_local_through_each_interface);
	tcase_add_test(tc, sockaddr_text__both_families);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/address", suite);
}
