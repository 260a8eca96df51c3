/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The pool, the regions, and the calls that hand them out. */
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

START_TEST(buf_alloc__no_bytes)
{
	errno = 0;
	ck_assert_ptr_null(ripc_buf_alloc(ctx, 0));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert(ripc_error_detail()[0]);
}
END_TEST

START_TEST(buf_free__interior_and_null)
{
	uint8_t *p = ripc_buf_alloc(ctx, 1000);

	OK(ripc_buf_free(ctx, NULL));
	OK(ripc_buf_free(ctx, p + 999));
	RC(-EINVAL, ripc_buf_free(ctx, p));
	ck_assert(strstr(ripc_error_detail(), "freed before") != NULL);
}
END_TEST

/* A buffer of 1000 bytes takes 1024: the bytes behind the 1000th are not in it, for any call. */
START_TEST(buf_free__beyond_length)
{
	uint8_t *p = ripc_buf_alloc(ctx, 1000);

	ck_assert_ptr_null(ripc__memory_find(ctx, p + 1000, 0));
	ck_assert_ptr_null(ripc__memory_find(ctx, p, 1001));
	RC(-EINVAL, ripc_buf_free(ctx, p + 1000));
	ck_assert(strstr(ripc_error_detail(), "behind the buffer of 1000 bytes") != NULL);
	RC(-EINVAL, ripc_buf_free(ctx, p + 1023));
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p + 1000, 10));
	ck_assert_int_eq(errno, EINVAL);
	/* The length is what was asked for last. */
	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 600), p);
	RC(-EINVAL, ripc_buf_free(ctx, p + 600));
	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 1024), p);
	OK(ripc_buf_free(ctx, p + 1023));
	/* Nor does it become the application's own memory. */
	p = ripc_buf_alloc(ctx, 1000);
	RC(-EEXIST, ripc_buf_register(ctx, p + 1000, 24));
	OK(ripc_buf_free(ctx, p));
	rig_check_memory(ctx);
}
END_TEST

START_TEST(start__beyond_length)
{
	static const struct {
		size_t at, len;
		int rc;
	} cases[] = {{0, 1000, 0},       {999, 1, 0},         {0, 1001, -EINVAL},
		     {1000, 1, -EINVAL}, {500, 501, -EINVAL}, {1023, 5000, -EINVAL}};
	uint8_t *p = ripc_buf_alloc(ctx, 1000);

	rig_fill(p, 1000, 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct iovec item = {p + cases[i].at, cases[i].len};

		RC(cases[i].rc, ripc_send_long(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000));
		if (!cases[i].rc)
			ripc_message_free(rig_take(&rig, 1));
	}
	OK(ripc_buf_free(ctx, p));
	/* An item that is empty is nowhere. */
	OK(ripc_send_long(rig.s[0], RIG_ID(1), &(struct iovec){p + 1000, 0}, 1, NULL, 5000));
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

START_TEST(buf_free__not_a_buffer)
{
	static uint8_t foreign[100];
	struct ripc_message *m;

	RC(-EINVAL, ripc_buf_free(ctx, foreign));
	ck_assert(strstr(ripc_error_detail(), "no buffer of this context") != NULL);
	OK(ripc_buf_register(ctx, foreign, sizeof(foreign)));
	RC(-EINVAL, ripc_buf_free(ctx, foreign + 5));
	ck_assert(strstr(ripc_error_detail(), "registered memory") != NULL);
	OK(ripc_buf_unregister(ctx, foreign));
	OK(rig_long(&rig, 1, 0, 5000, 1, 5000));
	m = rig_take(&rig, 0);
	ck_assert_int_eq(m->placement[0], RIPC_IN_POOL);
	RC(-EINVAL, ripc_buf_free(ctx, m->items[0].iov_base));
	ck_assert(strstr(ripc_error_detail(), "ripc_message_free") != NULL);
	ripc_message_free(m);
	rig_check_memory(ctx);
}
END_TEST

START_TEST(buf_free__other_context)
{
	void *p = ripc_buf_alloc(ctx, 1000);

	RC(-EINVAL, ripc_buf_free(rig.ctx[1], p));
	OK(ripc_buf_free(ctx, p));
}
END_TEST

START_TEST(buf_free__busy_while_sending)
{
	void *p = ripc_buf_alloc(ctx, MIB);
	struct ripc_request *r;

	rig_fill(p, MIB, 9);
	r = rig_begin(&rig, 0, 1, p, MIB);
	RC(-EBUSY, ripc_buf_free(ctx, p));
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, 2 * MIB));
	ck_assert_int_eq(errno, EBUSY);
	OK(ripc_request_wait(&r, 5000));
	OK(ripc_buf_free(ctx, p));
	rig_expect(&rig, 1, MIB, 9);
}
END_TEST

START_TEST(buf_realloc__keeps_contents)
{
	static const size_t sizes[] = {10, 256, 257, 5000, 100, 200000, 3 * MIB, 1000, 1};
	uint8_t *p = NULL;
	size_t had = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		p = ripc_buf_realloc(ctx, p, sizes[i]);
		ck_assert_ptr_nonnull(p);
		rig_verify(p, had < sizes[i] ? had : sizes[i], 5);
		rig_fill(p, sizes[i], 5);
		had = sizes[i];
		rig_check_memory(ctx);
	}
	/* One byte does not hold on to megabytes. */
	ck_assert_uint_eq(ripc__memory_find(ctx, p, 1)->cap, 256);
	OK(ripc_buf_free(ctx, p));
}
END_TEST

START_TEST(buf_realloc__in_place)
{
	uint8_t *p = ripc_buf_alloc(ctx, 300);

	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 512), p);
	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 129), p);
	ck_assert_ptr_ne(ripc_buf_realloc(ctx, p, 513), p);
}
END_TEST

START_TEST(buf_realloc__refused)
{
	uint8_t *p = ripc_buf_alloc(ctx, 300);

	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, 0));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, SIZE_MAX));
	ck_assert_int_eq(errno, ENOMEM);
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, &rig, 10));
	ck_assert_int_eq(errno, EINVAL);
	OK(ripc_window_add(ctx, NULL, p, 300));
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, 400));
	ck_assert_int_eq(errno, EBUSY);
	/* The old one is as it was. */
	OK(ripc_window_remove(ctx, p));
	OK(ripc_buf_free(ctx, p));
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

/* Where registering is expensive, a region keeps its registration as a target of reads. */
static void expensive_registration(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

START_TEST(sink_mr__cached_if_expensive)
{
	struct ripc__sim_counters before, after;
	struct rig r2;

	rig_start(&r2, 2, expensive_registration);
	OK(rig_long(&r2, 0, 1, 200000, 1, 5000));
	rig_expect(&r2, 1, 200000, 1);
	ripc__sim_counters(r2.net, &before);
	ck_assert_uint_eq(before.regions, 1);
	for (uint64_t k = 0; k < 10; k++) {
		OK(rig_long(&r2, 0, 1, 200000, k, 5000));
		rig_expect(&r2, 1, 200000, k);
	}
	ripc__sim_counters(r2.net, &after);
	ck_assert_uint_eq(after.regions, 1);
	rig_end(&r2);
}
END_TEST

/* The source of a pending write stays registered for it, even if the region is freed. */
START_TEST(cached_mr_hold__outlives_region)
{
	struct ripc__sim_counters counters;
	struct ripc__region *region;
	struct ripc__cached_mr *cached_mr;
	static uint8_t own[100];
	struct rig r2;
	unsigned tp;

	rig_start(&r2, 2, expensive_registration);
	rig_connect(&r2, 0, 1);
	tp = rig_lane(&r2, 0, 1)->tp;
	region = ripc__pool_get(r2.ctx[0], 20000, RIPC__REGION_APP);
	cached_mr = ripc__cached_mr_hold(r2.ctx[0], tp, region);
	ck_assert_ptr_nonnull(cached_mr);
	ck_assert_ptr_eq(ripc__cached_mr_hold(r2.ctx[0], tp, region), cached_mr);
	r2.ctx[0]->opt.pool_bytes = 0;
	ripc__pool_put(r2.ctx[0], region);
	for (unsigned i = 0; i < 2; i++) {
		ripc__sim_counters(r2.net, &counters);
		ck_assert_uint_eq(counters.regions, 1);
		ripc__cached_mr_release(r2.ctx[0], cached_mr);
	}
	ripc__sim_counters(r2.net, &counters);
	ck_assert_uint_eq(counters.regions, 0);
	/*
	 * An application's own memory is not registered for this, as it may not be writable; if it
	 * is anyway, that is used.
	 */
	OK(ripc_buf_register(r2.ctx[0], own, sizeof(own)));
	region = ripc__memory_find(r2.ctx[0], own, 1);
	ck_assert_ptr_null(ripc__cached_mr_hold(r2.ctx[0], tp, region));
	OK(ripc_buf_unregister(r2.ctx[0], own));
	rig_end(&r2);
}
END_TEST

/* Regions without pending operations are deregistered, all others stay registered. */
START_TEST(mr_cache_trim__keeps_used)
{
	struct ripc__sim_counters counters;
	struct ripc__region *region[2];
	struct ripc__cached_mr *kept[2];
	struct ripc__mr own;
	struct rig r2;
	unsigned tp;

	rig_start(&r2, 2, expensive_registration);
	rig_connect(&r2, 0, 1);
	tp = rig_lane(&r2, 0, 1)->tp;
	ck_assert(!ripc__mr_cache_trim(r2.ctx[0]));
	for (unsigned i = 0; i < 2; i++)
		region[i] = ripc__pool_get(r2.ctx[0], 20000, RIPC__REGION_APP);
	kept[0] = ripc__cached_mr_hold(r2.ctx[0], tp, region[0]);
	ck_assert_ptr_eq(
		ripc__sink_mr(r2.ctx[0], tp, region[1], region[1]->base, 20000, &own, &kept[1]),
		&kept[1]->mr);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__mr_cache_trim(r2.ctx[0]), i);
		ripc__sim_counters(r2.net, &counters);
		ck_assert_uint_eq(counters.regions, 2 - i);
		ck_assert_ptr_eq(region[1]->cached_mr[tp], kept[1]);
		ripc__cached_mr_release(r2.ctx[0], kept[i]);
	}
	ck_assert(ripc__mr_cache_trim(r2.ctx[0]));
	ck_assert_ptr_null(region[1]->cached_mr[tp]);
	/* A large one is not registered for what is written from it, but used if it is. */
	ripc__pool_put(r2.ctx[0], region[0]);
	ripc__pool_put(r2.ctx[0], region[1]);
	region[0] = ripc__pool_get(r2.ctx[0], RIPC__CACHED_MR_MAX + 1, RIPC__REGION_APP);
	ck_assert_ptr_null(ripc__cached_mr_hold(r2.ctx[0], tp, region[0]));
	ripc__sink_mr(r2.ctx[0], tp, region[0], region[0]->base, 20000, &own, &kept[0]);
	ck_assert_ptr_eq(ripc__cached_mr_hold(r2.ctx[0], tp, region[0]), kept[0]);
	for (unsigned i = 0; i < 2; i++)
		ripc__cached_mr_release(r2.ctx[0], kept[0]);
	ripc__pool_put(r2.ctx[0], region[0]);
	rig_end(&r2);
}
END_TEST

START_TEST(sink_mr__uncached_if_cheap)
{
	struct ripc__sim_counters counters;

	OK(rig_long(&rig, 0, 1, 200000, 1, 5000));
	rig_expect(&rig, 1, 200000, 1);
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.regions, 0);
}
END_TEST

/* Where the peer could write it for so long, it is not kept. */
START_TEST(sink_mr__uncached_if_writable)
{
	struct ripc__sim_counters counters;
	struct rig r2;

	rig_start(&r2, 2, expensive_registration);
	for (unsigned i = 0; i < r2.ctx[1]->ntp; i++)
		r2.ctx[1]->tp[i].limits.caps |= RIPC__CAP_SINK_WRITABLE;
	for (uint64_t k = 0; k < 3; k++) {
		OK(rig_long(&r2, 0, 1, 200000, k, 5000));
		rig_expect(&r2, 1, 200000, k);
		ripc__sim_counters(r2.net, &counters);
		ck_assert_uint_eq(counters.regions, 0);
	}
	rig_end(&r2);
}
END_TEST

START_TEST(memory_fini__frees_app_buffers)
{
	static uint8_t foreign[100];

	for (size_t len = 1; len < 4 * MIB; len *= 3)
		ck_assert_ptr_nonnull(ripc_buf_alloc(ctx, len));
	OK(ripc_buf_register(ctx, foreign, sizeof(foreign)));
	OK(ripc_window_add(ctx, NULL, foreign, 10));
	/* teardown() closes it: a leak checker sees the rest. */
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
	Suite *suite = suite_create("core/memory/buffer");
	TCase *tc = tcase_create("buffer");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, pool_get__classes);
	tcase_add_test(tc, pool_get__most_recent_first);
	tcase_add_test(tc, pool_get__too_large);
	tcase_add_test(tc, pool_put__evicts_lru);
	tcase_add_test(tc, pool_get__reuses_descriptors);
	tcase_add_test(tc, pool_put__limit_0);
	tcase_add_test(tc, regions__random_use);
	tcase_add_test(tc, regions__table_shrinks);
	tcase_add_test(tc, memory_find__borders);
	tcase_add_test(tc, buf_alloc__no_bytes);
	tcase_add_test(tc, buf_free__interior_and_null);
	tcase_add_test(tc, buf_free__beyond_length);
	tcase_add_test(tc, start__beyond_length);
	tcase_add_test(tc, buf_free__not_a_buffer);
	tcase_add_test(tc, buf_free__other_context);
	tcase_add_test(tc, buf_free__busy_while_sending);
	tcase_add_test(tc, buf_realloc__keeps_contents);
	tcase_add_test(tc, buf_realloc__in_place);
	tcase_add_test(tc, buf_realloc__refused);
	tcase_add_test(tc, buf_register__overlap);
	tcase_add_test(tc, buf_register__inside_pool_buffer);
	tcase_add_test(tc, buf_register__refused);
	tcase_add_test(tc, buf_unregister__refused);
	tcase_add_test(tc, range_check__names_overlap);
	tcase_add_test(tc, sink_mr__cached_if_expensive);
	tcase_add_test(tc, cached_mr_hold__outlives_region);
	tcase_add_test(tc, mr_cache_trim__keeps_used);
	tcase_add_test(tc, sink_mr__uncached_if_cheap);
	tcase_add_test(tc, sink_mr__uncached_if_writable);
	tcase_add_test(tc, memory_fini__frees_app_buffers);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/buffer", suite);
}
