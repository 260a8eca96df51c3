/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The table of regions, also when memory is short: the linker inserts the functions below (--wrap).
 */
#include "core/rig.h"

#include "core/memory/buffer.h"

#include <sys/mman.h>

void *__real_calloc(size_t n, size_t len);
void *__real_realloc(void *p, size_t len);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_realloc(void *p, size_t len);
void __wrap_free(void *p);

static bool counting, no_realloc;
static int allocated; /* blocks of calloc() that are not freed, while counting */

void *__wrap_calloc(size_t n, size_t len)
{
	void *p = __real_calloc(n, len);

	allocated += counting && p;
	return p;
}

void *__wrap_realloc(void *p, size_t len)
{
	return no_realloc ? NULL : __real_realloc(p, len);
}

void __wrap_free(void *p)
{
	allocated -= counting && p;
	__real_free(p);
}

static struct rig rig;
static struct ripc *ctx;
static uint8_t memory[4096];

/* Fills the table, so that the next region makes it grow. */
static unsigned fill_table(void)
{
	unsigned n = 0;

	do
		OK(ripc_buf_register(ctx, memory + n++, 1));
	while (ctx->memory->nregions < ctx->memory->regions_cap);
	return n;
}

static void empty_table(unsigned n)
{
	while (n)
		OK(ripc_buf_unregister(ctx, memory + --n));
}

static void *mapping(void)
{
	void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

START_TEST(import__no_memory)
{
	unsigned n = fill_table();
	struct ripc__region *r;
	void *p = mapping();

	no_realloc = counting = true;
	r = ripc__regions_add(ctx, p, 4096, RIPC__REGION_IMPORTED);
	no_realloc = counting = false;
	ck_assert_ptr_null(r);
	/* The mapping is the caller's. */
	ck_assert_int_eq(allocated, 0);
	ck_assert_ptr_null(ripc__memory_find(ctx, p, 1));
	counting = true;
	r = ripc__regions_add(ctx, p, 4096, RIPC__REGION_IMPORTED);
	counting = false;
	ck_assert_ptr_nonnull(r);
	ck_assert_int_eq(r->state, RIPC__REGION_IMPORTED);
	ck_assert_ptr_eq(ripc__memory_find(ctx, (uint8_t *)p + 4095, 1), r);
	counting = true;
	ripc__region_destroy(ctx, r);
	counting = false;
	ck_assert_int_eq(allocated, 0);
	ck_assert_ptr_null(ripc__memory_find(ctx, p, 1));
	empty_table(n);
}
END_TEST

START_TEST(register__no_memory)
{
	unsigned n = fill_table();
	uint64_t registered = ctx->stats.registered_bytes;
	int rc;

	no_realloc = counting = true;
	rc = ripc_buf_register(ctx, memory + n, 1);
	no_realloc = counting = false;
	ck_assert_int_eq(rc, -ENOMEM);
	ck_assert_int_eq(allocated, 0);
	ck_assert_uint_eq(ctx->stats.registered_bytes, registered);
	OK(ripc_buf_register(ctx, memory + n, 1));
	empty_table(n + 1);
}
END_TEST

START_TEST(alloc__no_memory)
{
	unsigned n = fill_table();
	uint64_t bytes = ctx->stats.pool_bytes;
	void *p;

	no_realloc = counting = true;
	p = ripc_buf_alloc(ctx, 100000);
	no_realloc = counting = false;
	ck_assert_ptr_null(p);
	ck_assert_int_eq(allocated, 0);
	ck_assert_uint_eq(ctx->stats.pool_bytes, bytes);
	p = ripc_buf_alloc(ctx, 100000);
	ck_assert_ptr_nonnull(p);
	OK(ripc_buf_free(ctx, p));
	empty_table(n);
}
END_TEST

/* The table cannot shrink: it stays as it is. */
START_TEST(unregister__no_memory)
{
	size_t cap;

	for (unsigned i = 0; i < 1000; i++)
		OK(ripc_buf_register(ctx, memory + i, 1));
	cap = ctx->memory->regions_cap;
	no_realloc = true;
	for (unsigned i = 0; i < 990; i++)
		OK(ripc_buf_unregister(ctx, memory + i));
	no_realloc = false;
	ck_assert_uint_eq(ctx->memory->regions_cap, cap);
	for (unsigned i = 990; i < 1000; i++)
		ck_assert_ptr_nonnull(ripc__memory_find(ctx, memory + i, 1));
	for (unsigned i = 990; i < 1000; i++)
		OK(ripc_buf_unregister(ctx, memory + i));
	ck_assert_uint_lt(ctx->memory->regions_cap, cap);
}
END_TEST

START_TEST(regions__random_use)
{
	uint64_t rng = test_seed();
	void *p[200] = {NULL};
	size_t has[200];
	static uint8_t foreign[200][512];
	bool known[200] = {false};

	for (int k = 0; k < 20000; k++) {
		unsigned i = test_random(&rng) % 200;
		size_t len = 1 + (test_random(&rng) % 3 ? test_random(&rng) % 2000
							: test_random(&rng) % 300000);

		switch (test_random(&rng) % 4) {
		case 0:
			if (p[i])
				OK(ripc_buf_free(ctx, (char *)p[i] + test_random(&rng) % has[i]));
			p[i] = NULL;
			break;
		case 1:
			if (p[i])
				break;
			p[i] = ripc_buf_alloc(ctx, len);
			has[i] = len;
			break;
		case 2:
			p[i] = ripc_buf_realloc(ctx, p[i], len);
			has[i] = len;
			ck_assert_ptr_nonnull(p[i]);
			break;
		default:
			if (known[i])
				OK(ripc_buf_unregister(ctx, foreign[i]));
			else
				OK(ripc_buf_register(ctx, foreign[i], sizeof(foreign[i])));
			known[i] = !known[i];
			break;
		}
		if (k % 200 == 0)
			rig_check_memory(ctx);
	}
	/* Tables shrink with what is in them. */
	for (unsigned i = 0; i < 200; i++) {
		OK(ripc_buf_free(ctx, p[i]));
		if (known[i])
			OK(ripc_buf_unregister(ctx, foreign[i]));
	}
	rig_check_memory(ctx);
}
END_TEST

START_TEST(regions__table_shrinks)
{
	static uint8_t foreign[1000];
	size_t cap;

	for (unsigned i = 0; i < 1000; i++)
		OK(ripc_buf_register(ctx, foreign + i, 1));
	cap = ctx->memory->regions_cap;
	ck_assert_uint_ge(cap, 1000);
	for (unsigned i = 0; i < 1000; i++)
		OK(ripc_buf_unregister(ctx, foreign + i));
	ck_assert_uint_eq(ctx->memory->nregions, 0);
	ck_assert_uint_le(ctx->memory->regions_cap, 64);
}
END_TEST

START_TEST(memory_find__borders)
{
	static uint8_t foreign[300];
	struct ripc__region *r;

	OK(ripc_buf_register(ctx, foreign + 100, 100));
	r = ripc__memory_find(ctx, foreign + 100, 100);
	ck_assert_ptr_nonnull(r);
	ck_assert_ptr_eq(ripc__memory_find(ctx, foreign + 199, 1), r);
	ck_assert_ptr_eq(ripc__memory_find(ctx, foreign + 150, 50), r);
	ck_assert_ptr_null(ripc__memory_find(ctx, foreign + 99, 1));
	ck_assert_ptr_null(ripc__memory_find(ctx, foreign + 99, 50));
	ck_assert_ptr_null(ripc__memory_find(ctx, foreign + 200, 0));
	ck_assert_ptr_null(ripc__memory_find(ctx, foreign + 150, 51));
	ck_assert_ptr_null(ripc__memory_find(ctx, foreign + 150, SIZE_MAX));
	ck_assert_ptr_null(ripc__memory_find(ctx, NULL, 1));
	ck_assert_ptr_null(ripc__memory_find(ctx, (void *)UINTPTR_MAX, 1));
	OK(ripc_buf_unregister(ctx, foreign + 100));
}
END_TEST

START_TEST(buf_register__overlap)
{
	static uint8_t foreign[400];
	static const struct {
		size_t at, len;
		int rc;
	} cases[] = {{100, 100, -EEXIST}, {99, 2, -EEXIST},  {199, 1, -EEXIST},
		     {199, 100, -EEXIST}, {0, 400, -EEXIST}, {120, 10, -EEXIST},
		     {0, 101, -EEXIST},   {0, 100, 0},       {200, 200, 0}};

	OK(ripc_buf_register(ctx, foreign + 100, 100));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		RC(cases[i].rc, ripc_buf_register(ctx, foreign + cases[i].at, cases[i].len));
	rig_check_memory(ctx);
	OK(ripc_buf_unregister(ctx, foreign));
	OK(ripc_buf_unregister(ctx, foreign + 100));
	OK(ripc_buf_unregister(ctx, foreign + 200));
}
END_TEST

START_TEST(buf_register__inside_pool_buffer)
{
	uint8_t *p = ripc_buf_alloc(ctx, 300);

	RC(-EEXIST, ripc_buf_register(ctx, p + 100, 10));
	/* Also when it lies in the cache. */
	OK(ripc_buf_free(ctx, p));
	RC(-EEXIST, ripc_buf_register(ctx, p + 100, 10));
}
END_TEST

START_TEST(buf_register__refused)
{
	uint8_t byte;

	RC(-EINVAL, ripc_buf_register(ctx, NULL, 10));
	RC(-EINVAL, ripc_buf_register(ctx, &byte, 0));
	RC(-EINVAL, ripc_buf_register(ctx, &byte, SIZE_MAX));
	/* A return buffer in it could not be described. */
	RC(-EINVAL, ripc_buf_register(ctx, (void *)4096, (size_t)1 << 47));
	ck_assert(ripc_error_detail()[0]);
	rig_check_memory(ctx);
}
END_TEST

START_TEST(buf_unregister__refused)
{
	static uint8_t foreign[MIB];
	struct ripc_request *r;
	void *p = ripc_buf_alloc(ctx, 10);

	RC(-EINVAL, ripc_buf_unregister(ctx, foreign));
	RC(-EINVAL, ripc_buf_unregister(ctx, p));
	OK(ripc_buf_register(ctx, foreign, sizeof(foreign)));
	RC(-EINVAL, ripc_buf_unregister(ctx, foreign + 1));
	r = rig_begin(&rig, 0, 1, foreign + 10, MIB - 10);
	RC(-EBUSY, ripc_buf_unregister(ctx, foreign));
	OK(ripc_request_wait(&r, 5000));
	OK(ripc_window_add(ctx, rig.s[0], foreign + 50, 10));
	RC(-EBUSY, ripc_buf_unregister(ctx, foreign));
	OK(ripc_window_remove(ctx, foreign + 50));
	OK(ripc_buf_unregister(ctx, foreign));
	RC(-EINVAL, ripc_buf_unregister(ctx, foreign));
	OK(ripc_buf_free(ctx, p));
}
END_TEST

START_TEST(range_check__names_overlap)
{
	uint8_t *p = ripc_buf_alloc(ctx, MIB);
	struct ripc_request *r;

	OK(ripc_window_add(ctx, NULL, p + 100, 100));
	RC(-EBUSY, ripc_window_add(ctx, NULL, p + 199, 1));
	ck_assert(strstr(ripc_error_detail(), "window") != NULL);
	RC(-EBUSY, ripc_window_add(ctx, NULL, p, 101));
	OK(ripc_window_add(ctx, NULL, p, 100));
	OK(ripc_window_add(ctx, NULL, p + 200, 100));
	r = rig_begin(&rig, 0, 1, p + 1000, MIB - 1000);
	RC(-EBUSY, ripc_window_add(ctx, NULL, p + 2000, 10));
	ck_assert(strstr(ripc_error_detail(), "send") != NULL);
	/* Parts that the send does not read may be used. */
	OK(ripc_window_add(ctx, NULL, p + 900, 100));
	OK(ripc_request_wait(&r, 5000));
	OK(ripc_window_add(ctx, NULL, p + 2000, 10));
	OK(ripc_buf_free(ctx, p));
	ck_assert_uint_eq(ctx->memory->nrecv_windows, 0);
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
	allocated = 0;
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/region");
	TCase *tc = tcase_create("region");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, import__no_memory);
	tcase_add_test(tc, register__no_memory);
	tcase_add_test(tc, alloc__no_memory);
	tcase_add_test(tc, unregister__no_memory);
	tcase_add_test(tc, regions__random_use);
	tcase_add_test(tc, regions__table_shrinks);
	tcase_add_test(tc, memory_find__borders);
	tcase_add_test(tc, buf_register__overlap);
	tcase_add_test(tc, buf_register__inside_pool_buffer);
	tcase_add_test(tc, buf_register__refused);
	tcase_add_test(tc, buf_unregister__refused);
	tcase_add_test(tc, range_check__names_overlap);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/region", suite);
}
