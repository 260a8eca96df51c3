/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The list of hosts of a file: which lines are accepted, and what is found in them. */
#define _GNU_SOURCE
#include "resolver/host_list.h"
#include "base/name.h"
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ripc__host_list list;

static void setup(void)
{
	char dir[] = "/tmp/ripc-test-XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(dir));
	memset(&list, 0, sizeof(list));
	snprintf(list.path, sizeof(list.path), "%s/hosts", dir);
	list.port = 7475;
}

static void teardown(void)
{
	unlink(list.path);
	*strrchr(list.path, '/') = 0;
	ck_assert_int_eq(rmdir(list.path), 0);
	ripc__host_list_free(&list);
}

static void write_list(const char *text)
{
	FILE *file = fopen(list.path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static void load(const char *text)
{
	write_list(text);
	ck_assert_int_eq(ripc__host_list_load(&list), 0);
}

/* "address port, ..." of a service. */
static const char *found(uint64_t service)
{
	static char text[4096];
	const struct ripc__host_entry *e;
	unsigned n = ripc__host_list_find(&list, service, &e);

	*text = 0;
	for (unsigned i = 0; i < n; i++, e++) {
		bool v4 = e->host.any.sa_family == AF_INET;
		char one[INET6_ADDRSTRLEN];

		inet_ntop(e->host.any.sa_family,
			  v4 ? (const void *)&e->host.in.sin_addr : &e->host.in6.sin6_addr, one,
			  sizeof(one));
		sprintf(text + strlen(text), "%s%s %u", i ? ", " : "", one,
			ntohs(v4 ? e->host.in.sin_port : e->host.in6.sin6_port));
	}
	return text;
}

START_TEST(load__finds_the_hosts_of_a_service)
{
	load("# a comment\n43 192.0.2.8 2001:db8::1 [2001:db8::8]:65535\n"
	     "\n042\t192.0.2.7:1 # another\n0x2b 192.0.2.9\r\n* [2001:db8::2] 192.0.2.1\n"
	     "\"camera/left\" 192.0.2.2");
	ck_assert_uint_eq(list.bad_lines, 0);
	ck_assert_str_eq(found(42), "192.0.2.7 1");
	ck_assert_str_eq(found(43),
			 "192.0.2.8 7475, 2001:db8::1 7475, 2001:db8::8 65535, 192.0.2.9 7475");
	ck_assert_str_eq(found(0), "2001:db8::2 7475, 192.0.2.1 7475");
	ck_assert_str_eq(found(ripc__name_id("camera/left", 11)), "192.0.2.2 7475");
	ck_assert_str_eq(found(41), "");
	ck_assert_str_eq(found(44), "");
}
END_TEST

START_TEST(load__names)
{
	static const char *const names[] = {"#", "a#1", "left camera", "\"", "a\"b", "a\"b c # d"};
	char line[64];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(line, sizeof(line), " \"%s\"\t192.0.2.1#\"\n", names[i]);
		load(line);
		ck_assert_msg(!list.bad_lines, "%s", names[i]);
		ck_assert_str_eq(found(ripc__name_id(names[i], strlen(names[i]))),
				 "192.0.2.1 7475");
	}
}
END_TEST

/* The same link-local address on two links is two hosts. */
START_TEST(load__link_local_hosts)
{
	const struct ripc__host_entry *e, **hosts;

	load("42 fe80::1%eth0 [fe80::1%eth1]:7000 192.0.2.1\n43 fe80::1%eth0 "
	     "fe80::1%fifteen_letters\n");
	ck_assert_uint_eq(list.bad_lines, 0);
	ck_assert_str_eq(found(42), "fe80::1 7475, fe80::1 7000, 192.0.2.1 7475");
	ck_assert_uint_eq(ripc__host_list_find(&list, 42, &e), 3);
	ck_assert_str_eq(e[0].interface, "eth0");
	ck_assert_str_eq(e[1].interface, "eth1");
	ck_assert_str_eq(e[2].interface, "");
	ck_assert_uint_eq(ripc__host_list_hosts(&list, &hosts), 4);
	free(hosts);
}
END_TEST

static const char *const bad[] = {
	"42",
	"42 host",
	"0 192.0.2.1",
	"-1 192.0.2.1",
	"42x 192.0.2.1",
	"18446744073709551615 192.0.2.1",
	"18446744073709551616 192.0.2.1",
	"\"\" 192.0.2.1",
	"\"a 192.0.2.1",
	"42 192.0.2.1:0",
	"42 192.0.2.1:65536",
	"42 192.0.2.1:+1",
	"42 192.0.2.1:",
	"42 [2001:db8::1",
	"42 [2001:db8::1]x",
	"42 0.0.0.0",
	"42 224.0.0.1",
	"42 ::",
	"42 ff02::1",
	"42 fe80::1",
	"42 fe80::1%",
	"42 [fe80::1]%lo:7475",
	"42 fe80::1%sixteen_letters_",
	"42 2001:db8::1%lo",
	"42 192.0.2.1%lo",
	"42 192.0.2.1 host",
};

START_TEST(load__bad_line_is_ignored)
{
	char text[256];

	snprintf(text, sizeof(text), "1 192.0.2.1\n%s\n2 192.0.2.2\n", bad[_i]);
	load(text);
	ck_assert_msg(list.bad_lines == 1, "%s", bad[_i]);
	ck_assert_int_eq(strncmp(list.first_bad, "2: ", 3), 0);
	ck_assert_uint_eq(list.nentries, 2);
	ck_assert_str_eq(found(2), "192.0.2.2 7475");
}
END_TEST

START_TEST(load__number_of_hosts_is_limited)
{
	char text[4096] = "7";

	for (unsigned i = 0; i < 64; i++)
		sprintf(text + strlen(text), " 192.0.2.%u", i + 1);
	load(text);
	ck_assert_uint_eq(list.nentries, 64);
	strcat(text, " 192.0.2.65");
	load(text);
	ck_assert_uint_eq(list.nentries, 0);
	ck_assert_uint_eq(list.bad_lines, 1);
}
END_TEST

START_TEST(hosts__each_once)
{
	const struct ripc__host_entry **hosts;

	load("1 192.0.2.1 192.0.2.2\n2 192.0.2.1\n3 192.0.2.1:1 192.0.2.2\n");
	ck_assert_uint_eq(ripc__host_list_hosts(&list, &hosts), 3);
	free(hosts);
	load("");
	ck_assert_uint_eq(ripc__host_list_hosts(&list, &hosts), 0);
	free(hosts);
}
END_TEST

START_TEST(refresh__keeps_the_list_without_a_file)
{
	char text[200];

	load("1 192.0.2.1\n");
	unlink(list.path);
	ripc__host_list_refresh(&list);
	ck_assert_str_eq(found(1), "192.0.2.1 7475");
	ck_assert(ripc__host_list_describe(&list, text, sizeof(text)));
	ck_assert_ptr_nonnull(strstr(text, "cannot be read: No such file"));
	/* It is read again even if it looks as before. */
	write_list("1 192.0.2.3\n");
	ripc__host_list_refresh(&list);
	ck_assert_str_eq(found(1), "192.0.2.3 7475");
	ck_assert(ripc__host_list_describe(&list, text, sizeof(text)));
	ck_assert_ptr_null(strstr(text, "cannot"));
	ck_assert_int_eq(ripc__host_list_load(&list), 0);
	*strrchr(list.path, '/') = 0;
	ck_assert_int_eq(ripc__host_list_load(&list), -EINVAL);
	strcat(list.path, "/hosts");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/host_list");
	TCase *tc = tcase_create("host_list");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, load__finds_the_hosts_of_a_service);
	tcase_add_test(tc, load__names);
	tcase_add_test(tc, load__link_local_hosts);
	tcase_add_loop_test(tc, load__bad_line_is_ignored, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, load__number_of_hosts_is_limited);
	tcase_add_test(tc, hosts__each_once);
	tcase_add_test(tc, refresh__keeps_the_list_without_a_file);
	suite_add_tcase(suite, tc);
	return test_main("resolver/host_list", suite);
}
