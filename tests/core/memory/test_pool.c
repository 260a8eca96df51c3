/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers of the pool: their classes, their order, and what is kept of them. */
#include "core/rig.h"

static struct rig rig;
static struct ripc *ctx;

START_TEST(pool_get__classes)
{
	static const struct {
		size_t len, cap;
	} cases[] = {{1, 256},     {255, 256},         {256, 256},        {257, 512},
		     {4096, 4096}, {4097, 8192},       {65536, 65536},    {131072, 131072},
		     {MIB, MIB},   {MIB + 1, 2 * MIB}, {5 * MIB, 8 * MIB}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t *p = ripc_buf_alloc(ctx, cases[i].len);
		struct ripc__region *r = ripc__memory_find(ctx, p, cases[i].len);

		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % 64, 0);
		ck_assert_ptr_nonnull(r);
		ck_assert_uint_eq(r->cap, cases[i].cap);
		ck_assert_uint_eq(r->len, cases[i].len);
		ck_assert_uint_ge(r->prefaulted, cases[i].len);
		memset(p, 1, cases[i].len);
		rig_check_memory(ctx);
		OK(ripc_buf_free(ctx, p));
		rig_check_memory(ctx);
	}
}
END_TEST

START_TEST(pool_get__most_recent_first)
{
	void *a = ripc_buf_alloc(ctx, 1000), *b = ripc_buf_alloc(ctx, 1000);

	OK(ripc_buf_free(ctx, a));
	OK(ripc_buf_free(ctx, b));
	ck_assert_ptr_eq(ripc_buf_alloc(ctx, 900), b);
	ck_assert_ptr_eq(ripc_buf_alloc(ctx, 513), a);
}
END_TEST

START_TEST(pool_get__too_large)
{
	errno = 0;
	ck_assert_ptr_null(ripc_buf_alloc(ctx, ((size_t)1 << RIPC__CLASS_MAX) + 1));
	ck_assert_int_eq(errno, ENOMEM);
	/* More than the host has, by one byte: it is not even tried. */
	errno = 0;
	ck_assert_ptr_null(ripc_buf_alloc(ctx, (size_t)ctx->host_bytes + 1));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_ptr_null(ripc_buf_alloc(ctx, SIZE_MAX));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert(strstr(ripc_error_detail(), "no memory for a buffer of") != NULL);
	rig_check_memory(ctx);
}
END_TEST

/* The cache holds 64 KiB: what was used least recently goes. */
START_TEST(pool_put__evicts_lru)
{
	unsigned i = rig_open(&rig, "pool_bytes=65536");
	void *p[20], *again;

	ctx = rig.ctx[i];
	for (int k = 0; k < 20; k++)
		p[k] = ripc_buf_alloc(ctx, 4096);
	ck_assert_uint_eq(ctx->memory->cached_bytes, 0);
	for (int k = 0; k < 20; k++) {
		OK(ripc_buf_free(ctx, p[k]));
		rig_check_memory(ctx);
	}
	ck_assert_uint_eq(ctx->memory->cached_bytes, 65536);
	/* The first four are gone, the rest is there. */
	for (int k = 0; k < 4; k++)
		ck_assert_ptr_null(ripc__memory_find(ctx, p[k], 1));
	for (int k = 4; k < 20; k++)
		ck_assert_ptr_nonnull(ripc__memory_find(ctx, p[k], 1));
	/*
	 * One that alone is more than the bound is not kept, and neither is anything else for its
	 * sake.
	 */
	again = ripc_buf_alloc(ctx, 65537);
	OK(ripc_buf_free(ctx, again));
	rig_check_memory(ctx);
	ck_assert_uint_le(ctx->stats.pool_bytes, 65536);
}
END_TEST

static bool is_object(void *p)
{
	return ripc__memory_find(ctx, p, 1)->fd >= 0;
}

/* Idle buffers of another class give their descriptors to those that need one. */
START_TEST(pool_get__reuses_descriptors)
{
	void *p[RIPC__MEMFDS_MAX], *small, *without, *with;

	ctx->memory->can_export = true;
	small = ripc_buf_alloc(ctx, 32 * KIB);
	ck_assert(!is_object(small));
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX; i++) {
		p[i] = ripc_buf_alloc(ctx, 64 * KIB);
		ck_assert(is_object(p[i]));
	}
	OK(ripc_buf_free(ctx, small));
	/* All descriptors are in use. */
	without = ripc_buf_alloc(ctx, 128 * KIB);
	ck_assert(!is_object(without));
	OK(ripc_buf_free(ctx, without));
	ck_assert_ptr_eq(ripc_buf_alloc(ctx, 128 * KIB), without);
	OK(ripc_buf_free(ctx, without));
	for (unsigned i = 0; i < 3; i++)
		OK(ripc_buf_free(ctx, p[i]));
	rig_check_memory(ctx);
	/* The least recently used one of those that have one goes. */
	with = ripc_buf_alloc(ctx, 128 * KIB);
	ck_assert_ptr_ne(with, without);
	ck_assert(is_object(with));
	ck_assert_uint_eq(ctx->memory->cached_bytes, (32 + 128 + 2 * 64) * KIB);
	ck_assert_ptr_null(ripc__memory_find(ctx, p[0], 1));
	rig_check_memory(ctx);
	/* One of the same class is reused as it is. */
	ck_assert_ptr_eq(ripc_buf_alloc(ctx, 64 * KIB), p[2]);
	ck_assert_ptr_eq(ripc_buf_alloc(ctx, 64 * KIB), p[1]);
	ck_assert(!is_object(ripc_buf_alloc(ctx, 64 * KIB)));
	rig_check_memory(ctx);
}
END_TEST

START_TEST(pool_put__limit_0)
{
	unsigned i = rig_open(&rig, "pool_bytes=0");
	void *p;

	ctx = rig.ctx[i];
	p = ripc_buf_alloc(ctx, 100);
	ck_assert_uint_eq(ctx->stats.pool_bytes, 256);
	OK(ripc_buf_free(ctx, p));
	ck_assert_uint_eq(ctx->stats.pool_bytes, 0);
	ck_assert_uint_eq(ctx->memory->nregions, 0);
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/pool");
	TCase *tc = tcase_create("pool");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, pool_get__classes);
	tcase_add_test(tc, pool_get__most_recent_first);
	tcase_add_test(tc, pool_get__too_large);
	tcase_add_test(tc, pool_put__evicts_lru);
	tcase_add_test(tc, pool_get__reuses_descriptors);
	tcase_add_test(tc, pool_put__limit_0);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/pool", suite);
}
