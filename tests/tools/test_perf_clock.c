/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The name of the clock that a process reads, on kernels that report more or less. */
#include "harness.h"
#include "../tools/perf_clock.h"

#include <stdio.h>
#include <string.h>

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

static bool stubbed;
static const char *boot_id; /* what the kernel reports; NULL: nothing */

FILE *__wrap_fopen(const char *path, const char *mode)
{
	FILE *file;

	if (!stubbed)
		return __real_fopen(path, mode);
	ck_assert_str_eq(path, "/proc/sys/kernel/random/boot_id");
	file = boot_id ? tmpfile() : NULL;
	if (file) {
		fputs(boot_id, file);
		rewind(file);
	}
	return file;
}

static const char *name_with(const char *id)
{
	static char name[256];
	unsigned descriptors = test_descriptors();

	boot_id = id;
	stubbed = true;
	strcpy(name, "unchanged");
	perf_clock_name(name, sizeof(name));
	stubbed = false;
	ck_assert_uint_eq(test_descriptors(), descriptors);
	return name;
}

START_TEST(name__differs_by_boot)
{
	char first[256];

	strcpy(first, name_with("1e8d-11\n"));
	ck_assert_msg(!strncmp(first, "1e8d-11 ", 8), "%s", first);
	ck_assert_str_eq(name_with("1e8d-11\n"), first);
	ck_assert_str_ne(name_with("1e8d-12\n"), first);
}
END_TEST

/* Without a boot id the name is empty, because two machines would have the same one. */
START_TEST(name__no_boot_id)
{
	ck_assert_str_eq(name_with(NULL), "");
	ck_assert_str_eq(name_with(""), "");
	ck_assert_str_eq(name_with("\n"), "");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tools/perf_clock");
	TCase *tc = tcase_create("name");

	tcase_add_test(tc, name__differs_by_boot);
	tcase_add_test(tc, name__no_boot_id);
	suite_add_tcase(suite, tc);
	return test_main("tools/perf_clock", suite);
}
