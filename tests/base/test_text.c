/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/text.h"
#include "harness.h"

#include <errno.h>

START_TEST(append__in_turns)
{
	char text[16];
	size_t at = ripc__append(text, sizeof(text), 0, "%s", "a");

	at = ripc__append(text, sizeof(text), at, "%s%d", "-", 42);
	ck_assert_uint_eq(at, 4);
	ck_assert_str_eq(text, "a-42");
}
END_TEST

/* A text that does not fit is cut off, and nothing is written behind it. */
START_TEST(append__full)
{
	char text[8] = "xxxxxxx";
	size_t at = ripc__append(text, 4, 0, "12345");

	ck_assert_uint_ge(at, 4);
	ck_assert_str_eq(text, "123");
	ck_assert_uint_eq(ripc__append(text, 4, at, "6"), at);
	ck_assert_str_eq(text, "123");
	ck_assert_str_eq(text + 4, "xxx");
}
END_TEST

START_TEST(reason__returns_code)
{
	char why[8];

	ck_assert_int_eq(ripc__reason(-ENOENT, why, sizeof(why), "%s is missing", "it"), -ENOENT);
	ck_assert_str_eq(why, "it is m");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/text");
	TCase *tc = tcase_create("text");

	tcase_add_test(tc, append__in_turns);
	tcase_add_test(tc, append__full);
	tcase_add_test(tc, reason__returns_code);
	suite_add_tcase(suite, tc);
	return test_main("base/text", suite);
}
