/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/file.h"

#include "auth/keys.h"

#include <errno.h>
#include <string.h>

static char text[32], why[300];

static int read_it(void)
{
	return ripc__file_read(key_path, true, text, sizeof(text), NULL, why, sizeof(why));
}

START_TEST(read__owner_only)
{
	struct stat st;

	keys_write("hello");
	ck_assert_int_eq(ripc__file_read(key_path, true, text, sizeof(text), &st, why, sizeof(why)),
			 5);
	ck_assert_str_eq(text, "hello");
	ck_assert_int_eq(st.st_size, 5);
	ck_assert_int_eq(chmod(key_path, 0400), 0);
	ck_assert_int_eq(read_it(), 5);
}
END_TEST

START_TEST(read__rejects_others_access)
{
	static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0660, 0777};

	keys_write("hello");
	ck_assert_int_eq(chmod(key_path, modes[_i]), 0);
	ck_assert_int_eq(read_it(), -EACCES);
	ck_assert_ptr_nonnull(strstr(why, key_path));
	ck_assert_ptr_nonnull(strstr(why, "others have access"));
}
END_TEST

START_TEST(read__others_may_have_access_to_what_is_no_secret)
{
	struct stat before, after;

	keys_write("hello");
	ck_assert_int_eq(chmod(key_path, 0644), 0);
	ck_assert_int_eq(
		ripc__file_read(key_path, false, text, sizeof(text), &before, why, sizeof(why)), 5);
	ck_assert_int_eq(stat(key_path, &after), 0);
	ck_assert(!ripc__file_differs(&before, &after));
	keys_write("hello, world");
	ck_assert_int_eq(stat(key_path, &after), 0);
	ck_assert(ripc__file_differs(&before, &after));
}
END_TEST

START_TEST(read__no_file)
{
	ck_assert_int_eq(read_it(), -ENOENT);
	ck_assert_ptr_nonnull(strstr(why, key_path));
	ck_assert_int_eq(ripc__file_read(key_dir, true, text, sizeof(text), NULL, why, sizeof(why)),
			 -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "regular file"));
}
END_TEST

START_TEST(read__too_long)
{
	keys_write("1234567890123456789012345678901");
	ck_assert_int_eq(read_it(), 31);
	keys_write("12345678901234567890123456789012");
	ck_assert_int_eq(read_it(), -EFBIG);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/file");
	TCase *tc = tcase_create("file");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, keys_setup, keys_teardown);
	tcase_add_test(tc, read__owner_only);
	tcase_add_loop_test(tc, read__rejects_others_access, 0, 8);
	tcase_add_test(tc, read__others_may_have_access_to_what_is_no_secret);
	tcase_add_test(tc, read__no_file);
	tcase_add_test(tc, read__too_long);
	suite_add_tcase(suite, tc);
	return test_main("base/file", suite);
}
