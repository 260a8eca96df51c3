/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The limit of a cgroup, read from files as the kernel writes them. */
#include "base/memory_limit.h"
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/ripc-cgroup-XXXXXX", of_process[sizeof(root) + 16];
static char made[32][64]; /* files and directories, some more than once */
static unsigned nmade;

static void put(const char *path, const char *text)
{
	char *full = made[nmade++];
	FILE *f;

	ck_assert_uint_le(nmade, sizeof(made) / sizeof(made[0]));
	snprintf(full, sizeof(made[0]), "%s%s", root, path);
	if (!text) {
		ck_assert_int_eq(mkdir(full, 0700), 0);
		return;
	}
	f = fopen(full, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

static uint64_t limit(const char *groups)
{
	put("/groups", groups);
	return ripc__memory_limit(of_process, root);
}

START_TEST(limit__least_of_all_levels)
{
	/* The root of all cgroups has no such file. */
	put("/a", NULL);
	put("/a/b", NULL);
	put("/a/b/memory.max", "max\n");
	ck_assert_uint_eq(limit("0::/a/b\n"), UINT64_MAX);
	put("/a/memory.max", "1000000\n");
	ck_assert_uint_eq(limit("0::/a/b\n"), 1000000);
	put("/a/b/memory.max", "2000000\n");
	ck_assert_uint_eq(limit("0::/a/b\n"), 1000000);
	put("/a/b/memory.max", "4096\n");
	ck_assert_uint_eq(limit("0::/a/b\n"), 4096);
	ck_assert_uint_eq(limit("0::/a\n"), 1000000);
	ck_assert_uint_eq(limit("0::/\n"), UINT64_MAX);
	/* In a container it is the root of what the process can see. */
	put("/memory.max", "8192\n");
	ck_assert_uint_eq(limit("0::/\n"), 8192);
	/* Beside cgroups of version 1. */
	ck_assert_uint_eq(limit("9:name=systemd:/a\n4:memory:/b\n0::/a/b\n"), 4096);
}
END_TEST

START_TEST(limit__none)
{
	ck_assert_uint_eq(ripc__memory_limit(of_process, root), UINT64_MAX);
	ck_assert_uint_eq(limit(""), UINT64_MAX);
	ck_assert_uint_eq(limit("4:memory:/b\n"), UINT64_MAX);
	ck_assert_uint_eq(limit("0::/gone\n"), UINT64_MAX);
	ck_assert_uint_eq(limit("0::/../other\n"), UINT64_MAX);
}
END_TEST

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(of_process, sizeof(of_process), "%s/groups", root);
}

static void teardown(void)
{
	while (nmade)
		(void)remove(made[--nmade]);
	ck_assert_int_eq(remove(root), 0);
}

int main(void)
{
	Suite *suite = suite_create("base/memory_limit");
	TCase *tc = tcase_create("limit");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, limit__least_of_all_levels);
	tcase_add_test(tc, limit__none);
	suite_add_tcase(suite, tc);
	return test_main("base/memory_limit", suite);
}
