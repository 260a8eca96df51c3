/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ranges of memory with and without the right to access them. */
#include "base/mappings.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 64 };

static size_t page;
static char *area;

static void protect(unsigned first, unsigned n, int prot)
{
	ck_assert_int_eq(mprotect(area + first * page, n * page, prot), 0);
}

static void setup(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	area = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(area, MAP_FAILED);
}

static void teardown(void)
{
	munmap(area, PAGES * page);
}

/* Each range of pages 1..4, of which page 2 is read-only and page 3 has no rights or is a hole. */
START_TEST(permit__each_range)
{
	struct ripc__mappings maps = {0};

	protect(2, 1, PROT_READ);
	if (_i)
		munmap(area + 3 * page, page);
	else
		protect(3, 1, PROT_NONE);
	for (size_t begin = page; begin < 5 * page; begin += page / 2) {
		for (size_t end = begin + 1; end <= 5 * page; end += page / 2) {
			bool in_2 = begin < 3 * page && end > 2 * page;
			bool in_3 = begin < 4 * page && end > 3 * page;

			ck_assert_int_eq(
				ripc__mappings_permit(&maps, area + begin, end - begin, false),
				!in_3);
			ck_assert_int_eq(
				ripc__mappings_permit(&maps, area + begin, end - begin, true),
				!in_3 && !in_2);
		}
	}
	ck_assert(ripc__mappings_permit(&maps, area + 3 * page, 0, true));
	ripc__mappings_free(&maps);
	ck_assert_ptr_null(maps.list);
}
END_TEST

/* No mapping is before the first one or behind the last one. */
START_TEST(permit__ends_of_memory)
{
	struct ripc__mappings maps = {0};

	ck_assert(!ripc__mappings_permit(&maps, (void *)1, 1, false));
	ck_assert(!ripc__mappings_permit(&maps, (void *)(UINTPTR_MAX - 1), 1, false));
	ck_assert(ripc__mappings_permit(&maps, &maps, sizeof(maps), true));
	ck_assert(ripc__mappings_permit(&maps, "text", 4, false));
	ck_assert(!ripc__mappings_permit(&maps, "text", 4, true));
	ripc__mappings_free(&maps);
}
END_TEST

/* The moment is that of the first call. */
START_TEST(permit__one_moment)
{
	struct ripc__mappings maps = {0};

	ck_assert(ripc__mappings_permit(&maps, area, page, true));
	protect(0, 1, PROT_NONE);
	ck_assert(ripc__mappings_permit(&maps, area, page, true));
	ripc__mappings_free(&maps);
	ck_assert(!ripc__mappings_permit(&maps, area, page, true));
	ripc__mappings_free(&maps);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/mappings");
	TCase *tc = tcase_create("mappings");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, permit__each_range, 0, 2);
	tcase_add_test(tc, permit__ends_of_memory);
	tcase_add_test(tc, permit__one_moment);
	suite_add_tcase(suite, tc);
	return test_main("base/mappings", suite);
}
