/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of payload at all distances of target and source. */
#include "base/copy.h"
#include "harness.h"

#include <stdlib.h>

#define ROOM 20480

static const size_t lens[] = {0,    1,    31,   64,   65,   127,  128,   2047,  2048,
			      2049, 4095, 4096, 4097, 6144, 8191, 12000, 16384, 17001};

static void check(void (*copy)(void *to, const void *from, size_t len))
{
	uint8_t *from = aligned_alloc(4096, ROOM), *to = aligned_alloc(4096, ROOM);

	ck_assert(from && to);
	for (size_t i = 0; i < ROOM; i++)
		from[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
		for (size_t distance = 1; distance < 70; distance++) {
			memset(to, 0xee, ROOM);
			copy(to + distance, from, lens[l]);
			ck_assert_uint_eq(to[distance - 1], 0xee);
			ck_assert_mem_eq(to + distance, from, lens[l]);
			ck_assert_uint_eq(to[distance + lens[l]], 0xee);
		}
	}
	free(from);
	free(to);
}

/* Fills the rest of the last line, and no further one. */
START_TEST(copy_streaming_lines__whole_lines)
{
	uint8_t *from = aligned_alloc(4096, 4096), *to = aligned_alloc(4096, 4096);

	ck_assert(from && to);
	for (size_t len = 0; len < 700; len++) {
		size_t lines = (len + 63) & ~(size_t)63;

		for (size_t at = 0; at < 64; at += 21) {
			for (size_t i = 0; i < len; i++)
				from[at + i] = (uint8_t)(i * 7 + len);
			memset(to, 0xee, 1024);
			ripc__copy_streaming_lines(to + 64, from + at, len);
			ck_assert_uint_eq(to[63], 0xee);
			ck_assert_mem_eq(to + 64, from + at, len);
			for (size_t i = len; i < lines; i++)
				ck_assert(!to[64 + i] || to[64 + i] == 0xee);
			ck_assert_uint_eq(to[64 + lines], 0xee);
		}
	}
	free(from);
	free(to);
}
END_TEST

static void copy_streaming(void *to, const void *from, size_t len)
{
	if (len >= RIPC__CACHE_LINE)
		ripc__copy_streaming(to, from, len);
	else
		memcpy(to, from, len);
}

/* The first copies measure, and so do some of the later ones. */
static void copy_to_reader(void *to, const void *from, size_t len)
{
	static struct ripc__copy_choice choice;

	if (len >= 16384)
		ripc__copy_to_reader(&choice, to, from, len);
	else
		memcpy(to, from, len);
}

START_TEST(copy__whole_and_nothing_else)
{
	check(ripc__copy);
	check(ripc__copy_pieces);
	check(copy_streaming);
	check(copy_to_reader);
}
END_TEST

/* Three or four measurements in a row that differ change the choice, and no single one does. */
START_TEST(copy_measured__choice)
{
	struct ripc__copy_choice c = {0};

	ck_assert(ripc__copy_is_streaming(&c));
	for (unsigned i = 0; i < 10; i++)
		ripc__copy_measured(&c, 200, 100);
	ck_assert(!ripc__copy_is_streaming(&c));
	for (unsigned i = 0; i < 2; i++) {
		ripc__copy_measured(&c, 100, 200);
		ck_assert(!ripc__copy_is_streaming(&c));
	}
	ripc__copy_measured(&c, 100, 100);
	ck_assert(ripc__copy_is_streaming(&c));
	for (unsigned i = 0; i < 10; i++)
		ripc__copy_measured(&c, 100, 200);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(ripc__copy_is_streaming(&c));
		ripc__copy_measured(&c, 200, 100);
	}
	ck_assert(ripc__copy_is_streaming(&c));
	ripc__copy_measured(&c, 200, 100);
	ck_assert(!ripc__copy_is_streaming(&c));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/copy");
	TCase *tc = tcase_create("copy");

	tcase_add_test(tc, copy__whole_and_nothing_else);
	tcase_add_test(tc, copy_measured__choice);
	tcase_add_test(tc, copy_streaming_lines__whole_lines);
	suite_add_tcase(suite, tc);
	return test_main("base/copy", suite);
}
