/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The setting "resolver": its syntax and its parsed form. */
#include "harness.h"

#include "base/resolver_chain.h"

#include <errno.h>
#include <string.h>

START_TEST(next__takes_one_after_the_other)
{
	const char *at = "local,file:/etc/ripc,zookeeper:a:2181,b:2182/x/y,udp";
	static const char *const expected[][2] = {
		{"local", ""},
		{"file", "/etc/ripc"},
		{"zookeeper", "a:2181,b:2182/x/y"},
		{"udp", ""},
	};
	struct ripc__chain_link link;
	char why[256];

	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(ripc__chain_next(&at, &link, why, sizeof(why)), 1);
		ck_assert_str_eq(link.name, expected[i][0]);
		ck_assert_str_eq(link.arg, expected[i][1]);
	}
	ck_assert_int_eq(ripc__chain_next(&at, &link, why, sizeof(why)), 0);
}
END_TEST

START_TEST(next__end_of_ensemble)
{
	static const char *const chains[][2] = {
		{"zookeeper:a:1,b:2,c:3", "a:1,b:2,c:3"},
		{"zookeeper:a:1,b:2,local", "a:1,b:2"},
		{"zookeeper:[::1]:1,[::2]:2/r,udp", "[::1]:1,[::2]:2/r"},
		{"zookeeper:a:1,file:/x", "a:1"},
	};
	struct ripc__chain_link link;
	char why[256];

	for (unsigned i = 0; i < 4; i++) {
		const char *at = chains[i][0];

		ck_assert_int_eq(ripc__chain_next(&at, &link, why, sizeof(why)), 1);
		ck_assert_str_eq(link.arg, chains[i][1]);
		ck_assert_int_eq(ripc__chain_check(chains[i][0], why, sizeof(why)), 0);
	}
}
END_TEST

START_TEST(check__rejects)
{
	static const char *const bad[][2] = {
		{"", "empty"},
		{",", "empty"},
		{"local,", "empty"},
		{"local,,udp", "empty"},
		{"loca", "no back end loca"},
		{"locals", "no back end locals"},
		{"local:", "takes nothing"},
		{"local:x", "takes nothing"},
		{"udp,local,udp", "udp stands there twice"},
		{"file", "absolute path"},
		{"file:", "absolute path"},
		{"file:hosts", "absolute path"},
		{"zookeeper", "with a port"},
		{"zookeeper:", "with a port"},
		{"zookeeper:a", "with a port"},
		{"zookeeper:a:0", "with a port"},
		{"zookeeper:a:65536", "with a port"},
		{"zookeeper::2181", "with a port"},
		{"zookeeper:a:x", "with a port"},
		{"zookeeper:a:1/", "with a port"},
		{"zookeeper:a:1/x/", "with a port"},
		{"zookeeper:a:1//x", "with a port"},
		{"zookeeper:a:1/../x", "with a port"},
		{"zookeeper:a:1,b", "no back end b"},
		{"zookeeper:a:1/x,b:2", "no back end b:2"},
	};
	char why[256];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(ripc__chain_check(bad[i][0], why, sizeof(why)) == -EINVAL, "%s",
			      bad[i][0]);
		ck_assert_msg(strstr(why, bad[i][1]) != NULL, "%s: %s", bad[i][0], why);
	}
}
END_TEST

START_TEST(check__rejects_too_long)
{
	char chain[600] = "file:/", why[256];

	memset(chain + 6, 'x', RIPC__CHAIN_ARG - 2);
	ck_assert_int_eq(ripc__chain_check(chain, why, sizeof(why)), 0);
	strcat(chain, "x");
	ck_assert_int_eq(ripc__chain_check(chain, why, sizeof(why)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "longer than"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/resolver_chain");
	TCase *tc = tcase_create("chain");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, next__takes_one_after_the_other);
	tcase_add_test(tc, next__end_of_ensemble);
	tcase_add_test(tc, check__rejects);
	tcase_add_test(tc, check__rejects_too_long);
	suite_add_tcase(suite, tc);
	return test_main("base/resolver_chain", suite);
}
