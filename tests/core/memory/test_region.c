/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of regions when memory is short. The linker inserts the functions below (--wrap). */
#include "core/rig.h"

#include "core/memory/region.h"

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
	r = ripc__region_import(ctx, p, 4096);
	no_realloc = counting = false;
	ck_assert_ptr_null(r);
	/* The mapping is the caller's. */
	ck_assert_int_eq(allocated, 0);
	ck_assert_ptr_null(ripc__memory_find(ctx, p, 1));
	counting = true;
	r = ripc__region_import(ctx, p, 4096);
	counting = false;
	ck_assert_ptr_nonnull(r);
	ck_assert_int_eq(r->state, RIPC__REGION_IMPORTED);
	ck_assert_ptr_eq(ripc__memory_find(ctx, (uint8_t *)p + 4095, 1), r);
	counting = true;
	ripc__region_unmap(ctx, r);
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

static void setup(void)
{
	rig_start(&rig, 1, NULL);
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
	suite_add_tcase(suite, tc);
	return test_main("core/memory/region", suite);
}
