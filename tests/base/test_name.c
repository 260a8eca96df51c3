/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of services and their ids. The golden values were computed by another implementation. */
#include "base/name.h"
#include "harness.h"
#include "ripc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

START_TEST(id__golden)
{
	static const struct {
		const char *name;
		uint64_t id;
	} cases[] = {
		{"camera/left", UINT64_C(0x4eebdd7a4a807ced)},
		{"camera/right", UINT64_C(0x5e9f700b30b1256f)},
		{"a", UINT64_C(0x780238c4b027c773)},
		{"12345678", UINT64_C(0x63b1ea38b90991ce)},
		{"gr\xc3\xb6\xc3\x9f"
		 "e",
		 UINT64_C(0x7b14bd8aebdb54b7)},
	};
	char longest[RIPC_NAME_MAX + 1];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_uint_eq(ripc_id(cases[i].name), cases[i].id);
	memset(longest, 'x', RIPC_NAME_MAX);
	longest[RIPC_NAME_MAX] = 0;
	ck_assert_uint_eq(ripc_id(longest), UINT64_C(0x5bfd37b38acb7272));
}
END_TEST

START_TEST(id__is_in_its_subspace)
{
	uint64_t rng = test_seed();
	char name[32];

	for (unsigned i = 0; i < 10000; i++) {
		uint64_t id;

		snprintf(name, sizeof(name), "%llx", (unsigned long long)test_random(&rng));
		id = ripc_id(name);
		ck_assert_uint_eq(id >> 62, 1);
		ck_assert_uint_lt(id, RIPC_ID_LIMIT);
	}
}
END_TEST

START_TEST(id__refuses_with_the_fault)
{
	static const struct {
		const char *name, *fault;
	} cases[] = {
		{NULL, "there is none"},
		{"", "it is empty"},
		{"\x80", "it is not UTF-8"},
		{"a\xc3", "it is not UTF-8"},            /* cut short */
		{"\xc0\xaf", "it is not UTF-8"},         /* overlong */
		{"\xe0\x80\xaf", "it is not UTF-8"},     /* overlong */
		{"\xf0\x80\x80\xaf", "it is not UTF-8"}, /* overlong */
		{"\xed\xa0\x80", "it is not UTF-8"},     /* surrogate */
		{"\xf4\x90\x80\x80", "it is not UTF-8"}, /* above U+10FFFF */
		{"\xf5\x80\x80\x80", "it is not UTF-8"},
		{"\xff", "it is not UTF-8"},
	};
	char longer[RIPC_NAME_MAX + 2];

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_uint_eq(ripc_id(cases[i].name), 0);
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), cases[i].fault));
	}
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	ck_assert_uint_eq(ripc_id(longer), 0);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "longer than 255 bytes"));
}
END_TEST

START_TEST(fault__accepts_utf8)
{
	static const char *const names[] = {
		"\x7f",         "\xc2\x80",         "\xe0\xa0\x80",    "\xed\x9f\xbf",
		"\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ck_assert_ptr_null(ripc__name_fault(names[i], strlen(names[i])));
	ck_assert_ptr_nonnull(ripc__name_fault("a\0b", 3));
}
END_TEST

START_TEST(text__hides_control_characters)
{
	char text[RIPC__NAME_MAX + 1];

	ripc__name_text("a\nb\x1b[31m\x7f\xc3\xb6", text);
	ck_assert_str_eq(text, "a?b?[31m?\xc3\xb6");
}
END_TEST

START_TEST(id_text__with_the_name)
{
	uint64_t id = ripc__name_id("id/text", 7);
	char named[64];

	ck_assert_str_eq(ripc__id_text(42, NULL), "service 42");
	ck_assert_str_eq(ripc__id_text(42, "a\nb"), "service 42 (\"a?b\")");
	ck_assert_int_eq(strncmp(ripc__id_text(id, NULL), "service ", 8), 0);
	ck_assert_ptr_null(strstr(ripc__id_text(id, NULL), "id/text"));
	ripc__name_remember(id, "id/text", 7);
	snprintf(named, sizeof(named), "service %" PRIu64 " (\"id/text\")", id);
	ck_assert_str_eq(ripc__id_text(id, NULL), named);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/name");
	TCase *tc = tcase_create("name");

	test_seed();
	tcase_add_test(tc, id__golden);
	tcase_add_test(tc, id__is_in_its_subspace);
	tcase_add_test(tc, id__refuses_with_the_fault);
	tcase_add_test(tc, fault__accepts_utf8);
	tcase_add_test(tc, text__hides_control_characters);
	tcase_add_test(tc, id_text__with_the_name);
	suite_add_tcase(suite, tc);
	return test_main("base/name", suite);
}
