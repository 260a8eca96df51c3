/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The arguments that all sends have: bounds of options, items and return buffers, and the texts. */
#include "core/service/items.h"
#include "harness.h"
#include "wire/header.h"

#include <errno.h>
#include <string.h>

#define LEN_MAX (((size_t)1 << RIPC__LEN_BITS) - 1)

static uint8_t byte;
static uint64_t bytes;

/* rc, and a reason with this text. */
static void expect(int want, int rc, const char *text)
{
	ck_assert_int_eq(rc, want);
	if (want)
		ck_assert_msg(strstr(ripc_error_detail(), text) != NULL, "%s: no %s",
			      ripc_error_detail(), text);
}

static void expect_items(int want, const struct iovec *items, unsigned n, const char *text)
{
	expect(want, ripc__check_items(items, n, NULL, &bytes), text);
	expect(want, ripc__check_long_items(items, n, NULL, &bytes), text);
}

static void expect_options(int want, const struct ripc_send_options *o, const char *text)
{
	struct iovec item = {&byte, 1};

	expect(want, ripc__check_items(&item, 1, o, &bytes), text);
	expect(want, ripc__check_long_items(&item, 1, o, &bytes), text);
}

START_TEST(options_size__bounds)
{
	static unsigned char options[65537];

	expect(-EINVAL, ripc__check_options_size(options, 15, 16, "some"), "struct some is 15");
	expect(0, ripc__check_options_size(options, 16, 16, "some"), "");
	expect(0, ripc__check_options_size(options, 65536, 16, "some"), "");
	expect(-EINVAL, ripc__check_options_size(options, 65537, 16, "some"), "is 65537");
	memset(options, 1, 16);
	options[40] = 1;
	expect(0, ripc__check_options_size(options, 40, 16, "some"), "");
	expect(-EOPNOTSUPP, ripc__check_options_size(options, 41, 16, "some"),
	       "byte 40 of struct some is not zero: this version knows 16 bytes");
	options[16] = 1;
	expect(-EOPNOTSUPP, ripc__check_options_size(options, 41, 16, "some"), "byte 16");
}
END_TEST

START_TEST(items__number)
{
	struct iovec items[RIPC_ITEMS_MAX + 1];

	for (unsigned i = 0; i <= RIPC_ITEMS_MAX; i++)
		items[i] = (struct iovec){&byte, i + 1};
	expect_items(-EINVAL, items, 0, "message of 0 items: must have 1 to 64");
	expect_items(0, items, 1, "");
	ck_assert_uint_eq(bytes, 1);
	expect_items(0, items, RIPC_ITEMS_MAX, "");
	ck_assert_uint_eq(bytes, 64 * 65 / 2);
	expect_items(-EINVAL, items, RIPC_ITEMS_MAX + 1, "message of 65 items");
	expect_items(-EINVAL, NULL, 1, "no array of items");
}
END_TEST

START_TEST(items__memory)
{
	struct iovec items[2] = {{&byte, 1}, {NULL, 0}};

	expect_items(0, items, 2, "");
	ck_assert_uint_eq(bytes, 1);
	items[1].iov_len = 1;
	expect_items(-EINVAL, items, 2, "item 1: 1 bytes at (nil): there is no memory");
	items[1] = (struct iovec){&byte, LEN_MAX};
	items[0].iov_len = 0;
	expect_items(0, items, 2, "");
	ck_assert_uint_eq(bytes, LEN_MAX);
	items[1].iov_len++;
	expect_items(-EINVAL, items, 2, "an item has less than 2^47 bytes");
	/* The last byte of the address space. */
	items[1] = (struct iovec){(void *)(UINTPTR_MAX - 7), 7};
	expect_items(0, items, 2, "");
	items[1].iov_len = 8;
	expect_items(-EINVAL, items, 2, "they exceed the address space");
}
END_TEST

START_TEST(items__sum)
{
	struct iovec items[2] = {{&byte, LEN_MAX / 2}, {&byte, LEN_MAX / 2 + 1}};

	expect_items(0, items, 2, "");
	ck_assert_uint_eq(bytes, LEN_MAX);
	items[0].iov_len++;
	expect_items(-EINVAL, items, 2, "message of 140737488355328 bytes");
}
END_TEST

START_TEST(options__size)
{
	struct {
		struct ripc_send_options o;
		uint64_t more;
	} later = {.o.size = sizeof(later)};
	struct ripc_send_options o = {.size = sizeof(o)};

	expect_options(0, &o, "");
	o.size--;
	expect_options(-EINVAL, &o, "struct ripc_send_options is");
	expect_options(0, &later.o, "");
	later.more = 1;
	expect_options(-EOPNOTSUPP, &later.o, "of struct ripc_send_options is not zero");
}
END_TEST

START_TEST(options__flags)
{
	struct ripc_send_options o = {.size = sizeof(o), .flags = RIPC_RELIABLE | RIPC_MORE};
	struct iovec item = {&byte, 1};

	expect_options(0, &o, "");
	o.flags |= RIPC_FREE_ITEMS;
	expect(0, ripc__check_long_items(&item, 1, &o, &bytes), "");
	expect(-EOPNOTSUPP, ripc__check_items(&item, 1, &o, &bytes),
	       "takes no other than RIPC_RELIABLE, RIPC_MORE (0x3)");
	o.flags = 1u << 30;
	expect_options(-EOPNOTSUPP, &o, "flags 0x40000000");
}
END_TEST

START_TEST(options__return_buffers)
{
	struct iovec buffers[RIPC_RETURN_BUFFERS_MAX + 1];
	struct ripc_send_options o = {.size = sizeof(o),
				      .return_buffers = buffers,
				      .nreturn_buffers = RIPC_RETURN_BUFFERS_MAX};

	expect_options(0, &o, "");
	o.nreturn_buffers++;
	expect_options(-EINVAL, &o, "17 return buffers: at most 16");
	o.nreturn_buffers = 1;
	o.return_buffers = NULL;
	expect_options(-EINVAL, &o, "no array of them");
	o.nreturn_buffers = 0;
	expect_options(0, &o, "");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/service/items");
	TCase *tc = tcase_create("items");

	tcase_add_test(tc, options_size__bounds);
	tcase_add_test(tc, items__number);
	tcase_add_test(tc, items__memory);
	tcase_add_test(tc, items__sum);
	tcase_add_test(tc, options__size);
	tcase_add_test(tc, options__flags);
	tcase_add_test(tc, options__return_buffers);
	suite_add_tcase(suite, tc);
	return test_main("core/service/items", suite);
}
