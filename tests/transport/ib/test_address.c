/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ib/address.h"
#include "harness.h"
#include "transport/transport.h"

#include <errno.h>
#include <string.h>

static const uint8_t v4[16] = {[10] = 0xff, [11] = 0xff, 198, 18, 0, 1};
static const uint8_t v6[16] = {0xfd, 0, 0, 0x18, [15] = 1};
static const uint8_t local[16] = {0xfe, 0x80, [15] = 1};

static struct ripc__ib_port_addr roce(const uint8_t gid[16])
{
	struct ripc__ib_port_addr p = {
		.link = RIPC__IB_LINK_V2, .mtu = 5, .qpn = 0x11, .qkey = 0x12345678};

	memcpy(p.gid, gid, 16);
	return p;
}

static struct ripc__ib_port_addr infiniband(uint16_t lid)
{
	struct ripc__ib_port_addr p = {
		.link = RIPC__IB_LINK_IB,
		.mtu = 4,
		.lid = lid,
		.qpn = 0xfffffe,
	};

	memcpy(p.gid, local, 16);
	return p;
}

START_TEST(address_encode__round_trip)
{
	struct ripc__ib_address a = {.count = RIPC__IB_PORTS_MAX}, b;
	uint8_t buf[RIPC__ADDRESS_MAX];
	size_t len;

	for (unsigned i = 0; i < a.count; i++)
		a.port_addrs[i] = i % 3 == 0   ? roce(v4)
				  : i % 3 == 1 ? roce(v6)
					       : infiniband(0xbfff);
	for (; a.count; a.count--) {
		len = ripc__ib_address_encode(a.port_addrs, a.count, buf);
		ck_assert_uint_eq(len, 4 + 28 * a.count);
		ck_assert_int_eq(ripc__ib_address_decode(&b, buf, len), 0);
		ck_assert_uint_eq(b.count, a.count);
		ck_assert_mem_eq(a.port_addrs, b.port_addrs, a.count * sizeof(a.port_addrs[0]));
		ck_assert_int_eq(ripc__ib_address_decode(&b, buf, len - 1), -EINVAL);
		ck_assert_int_eq(ripc__ib_address_decode(&b, buf, len + 1), -EINVAL);
	}
}
END_TEST

/* Each change makes a valid address invalid. */
START_TEST(address_decode__malformed)
{
	static const struct {
		bool ib;
		uint8_t at, value;
	} cases[] = {
		{false, 0, 0},     {false, 0, 2},     {false, 1, 0}, {false, 1, 2},
		{false, 2, 1},     {false, 3, 1},     {false, 4, 0}, {false, 4, 4},
		{false, 5, 0},     {false, 5, 6},     {false, 6, 1}, /* a LID with RoCE */
		{false, 11, 1},                                      /* 25 bits */
		{false, 8, 1},                                       /* reserved for the fabric */
		{false, 8, 0},     {false, 15, 0x80},                /* a controlled Q_Key */
		{false, 16, 0xff},                                   /* a group */
		{true, 7, 0xc0},                                     /* a group */
		{true, 4, 1},
	};
	struct ripc__ib_address a = {.count = 1}, b;
	uint8_t buf[64];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len;

		a.port_addrs[0] = cases[i].ib ? infiniband(1) : roce(v4);
		len = ripc__ib_address_encode(a.port_addrs, a.count, buf);
		ck_assert_int_eq(ripc__ib_address_decode(&b, buf, len), 0);
		if (buf[cases[i].at] == cases[i].value)
			continue;
		buf[cases[i].at] = cases[i].value;
		ck_assert_msg(ripc__ib_address_decode(&b, buf, len) == -EINVAL, "case %u", i);
	}
	a.port_addrs[0] = roce((const uint8_t[16]){0});
	ripc__ib_address_encode(a.port_addrs, a.count, buf);
	ck_assert_int_eq(ripc__ib_address_decode(&b, buf, 32), -EINVAL);
	a.port_addrs[0] = infiniband(0);
	ripc__ib_address_encode(a.port_addrs, a.count, buf);
	ck_assert_int_eq(ripc__ib_address_decode(&b, buf, 32), -EINVAL);
}
END_TEST

START_TEST(address_decode__random)
{
	uint64_t rng = test_seed();
	struct ripc__ib_address a;
	uint8_t buf[RIPC__ADDRESS_MAX];

	for (int i = 0; i < 200000; i++) {
		size_t len = test_random(&rng) % sizeof(buf);

		for (size_t k = 0; k < len; k++)
			buf[k] = (uint8_t)test_random(&rng);
		if (len > 4 && i % 2) {
			buf[0] = 1;
			buf[1] = (uint8_t)((len - 4) / 28);
			buf[2] = buf[3] = 0;
		}
		if (!ripc__ib_address_decode(&a, buf, len))
			ck_assert_uint_le(a.count, RIPC__IB_PORTS_MAX);
	}
}
END_TEST

START_TEST(port_addr_text__kinds)
{
	struct ripc__ib_port_addr p = roce(v4);
	char text[96];

	ripc__ib_port_addr_text(&p, text, sizeof(text));
	ck_assert_str_eq(text, "RoCEv2 198.18.0.1 qp 0x11");
	p = roce(v6);
	p.link = RIPC__IB_LINK_V1;
	ripc__ib_port_addr_text(&p, text, sizeof(text));
	ck_assert_str_eq(text, "RoCEv1 fd00:18::1 qp 0x11");
	p = infiniband(7);
	ripc__ib_port_addr_text(&p, text, sizeof(text));
	ck_assert_str_eq(text, "InfiniBand LID 7 qp 0xfffffe");
	ripc__ib_port_addr_text(&p, text, 5);
	ck_assert_str_eq(text, "Infi");
}
END_TEST

START_TEST(reaches__link_and_family)
{
	struct ripc__ib_port_addr a = roce(v4), b = roce(v6), c = infiniband(3), d = roce(local);

	ck_assert(ripc__ib_reachable(&a, &a));
	ck_assert(!ripc__ib_reachable(&a, &b));
	ck_assert(ripc__ib_reachable(&b, &d));
	ck_assert(!ripc__ib_reachable(&a, &c));
	ck_assert(ripc__ib_reachable(&c, &c));
	b.link = RIPC__IB_LINK_V1;
	ck_assert(!ripc__ib_reachable(&b, &d));
}
END_TEST

/* An IPv4 header from 198.18.0.1 to 198.18.0.2, with its checksum. */
static const uint8_t header[20] = {0x45, 0,    0x02, 0x14, 0xee, 0xa7, 0x40, 0x00, 0x40, 0x11,
				   0xbd, 0xfb, 198,  18,   0,    1,    198,  18,   0,    2};

static void fix_checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	ip[10] = ip[11] = 0;
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	ip[10] = (uint8_t)(~sum >> 8);
	ip[11] = (uint8_t)~sum;
}

START_TEST(grh_source__ipv4)
{
	uint8_t grh[40] = {0}, gid[16];

	memcpy(grh + 20, header, 20);
	ck_assert(ripc__ib_grh_source(grh, gid));
	ck_assert_mem_eq(gid, v4, 16);
	/* The bytes before it may look like IPv6: then the checksum decides. */
	fix_checksum(grh + 20);
	grh[0] = 0x60;
	ck_assert(ripc__ib_grh_source(grh, gid));
	ck_assert_mem_eq(gid, v4, 16);
	grh[30] ^= 1;
	ck_assert(ripc__ib_grh_source(grh, gid));
	ck_assert_mem_ne(gid, v4, 16);
	/* Soft-RoCE within a host: no checksum. */
	grh[0] = 0;
	ck_assert(ripc__ib_grh_source(grh, gid));
	ck_assert_mem_eq(gid, v4, 16);
}
END_TEST

START_TEST(grh_source__ipv6)
{
	uint8_t grh[40] = {0x60}, gid[16];

	memcpy(grh + 8, v6, 16);
	memcpy(grh + 24, local, 16);
	ck_assert(ripc__ib_grh_source(grh, gid));
	ck_assert_mem_eq(gid, v6, 16);
	grh[0] = 0x50;
	ck_assert(!ripc__ib_grh_source(grh, gid));
}
END_TEST

START_TEST(grh_to_group__both_families)
{
	uint8_t grh[40] = {0};

	memcpy(grh + 20, header, 20);
	ck_assert(!ripc__ib_grh_to_group(grh));
	grh[36] = 239;
	ck_assert(ripc__ib_grh_to_group(grh));
	grh[36] = 223;
	ck_assert(!ripc__ib_grh_to_group(grh));
	memset(grh, 0, sizeof(grh));
	grh[0] = 0x60;
	memcpy(grh + 24, v6, 16);
	ck_assert(!ripc__ib_grh_to_group(grh));
	grh[24] = 0xff;
	ck_assert(ripc__ib_grh_to_group(grh));
	grh[0] = 0x50;
	ck_assert(!ripc__ib_grh_to_group(grh));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ib/address");
	TCase *c = tcase_create("address");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, address_encode__round_trip);
	tcase_add_test(c, address_decode__malformed);
	tcase_add_test(c, address_decode__random);
	tcase_add_test(c, port_addr_text__kinds);
	tcase_add_test(c, reaches__link_and_family);
	tcase_add_test(c, grh_source__ipv4);
	tcase_add_test(c, grh_source__ipv6);
	tcase_add_test(c, grh_to_group__both_families);
	suite_add_tcase(s, c);
	return test_main("transport/ib/address", s);
}
