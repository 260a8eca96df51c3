/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers: allocated, resized, freed, registered, and refused where they are in use. */
#include "conf.h"

static void alloc_free(struct conf *c)
{
	struct ripc *ctx = conf_open(c);
	uint8_t *buf[100];
	size_t len[100];

	for (int i = 0; i < 100; i++) {
		len[i] = 1 + conf_random(c, i % 10 ? 10000 : 2 * MIB);
		buf[i] = ripc_buf_alloc(ctx, len[i]);
		CHECK(buf[i], "%zu: %s", len[i], ripc_error_detail());
		EXPECT_EQ(0, (uintptr_t)buf[i] % 64);
		memset(buf[i], i, len[i]);
	}
	for (int n = 100; n; n--) {
		int i = (int)conf_random(c, (uint64_t)n);

		EXPECT_OK(ripc_buf_free(ctx, buf[i] + conf_random(c, len[i])));
		buf[i] = buf[n - 1];
		len[i] = len[n - 1];
	}
	errno = 0;
	CHECK(!ripc_buf_alloc(ctx, 0), "0 bytes");
	EXPECT_EQ(EINVAL, errno);
	CHECK(!ripc_buf_alloc(ctx, SIZE_MAX), "all bytes");
	CHECK(!ripc_buf_alloc(ctx, SIZE_MAX / 2), "half of all bytes");
}

static void alloc_distinct(struct conf *c)
{
	struct ripc *ctx = conf_open(c);
	uint8_t *buf[50];

	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 50; i++) {
			buf[i] = ripc_buf_alloc(ctx, 100 + i * 37);
			CHECK(buf[i], "%s", ripc_error_detail());
			conf_fill(buf[i], 100 + i * 37, i);
		}
		for (unsigned i = 0; i < 50; i++) {
			conf_verify(buf[i], 100 + i * 37, i, "buffer");
			EXPECT_OK(ripc_buf_free(ctx, buf[i]));
		}
	}
}

static void free_refused(struct conf *c)
{
	struct ripc *ctx = conf_open(c), *other = conf_open(c);
	uint8_t *buf = ripc_buf_alloc(ctx, 1000);
	uint8_t foreign[10];

	CHECK(buf, "%s", ripc_error_detail());
	EXPECT_OK(ripc_buf_free(ctx, NULL));
	EXPECT_ERROR(-EINVAL, ripc_buf_free(ctx, foreign));
	EXPECT_ERROR(-EINVAL, ripc_buf_free(other, buf));
	EXPECT_OK(ripc_buf_free(ctx, buf + 999));
	EXPECT_ERROR(-EINVAL, ripc_buf_free(ctx, buf));
	EXPECT_ERROR(-EINVAL, ripc_buf_free(ctx, buf + 5));
}

static void realloc_keeps(struct conf *c)
{
	struct ripc *ctx = conf_open(c);
	uint8_t *buf = ripc_buf_realloc(ctx, NULL, 10), foreign[10];
	size_t have = 10;

	CHECK(buf, "%s", ripc_error_detail());
	conf_fill(buf, 10, 1);
	for (int i = 0; i < 60; i++) {
		size_t len = 1 + conf_random(c, i % 7 ? 3000 : MIB);
		uint8_t *moved = ripc_buf_realloc(ctx, buf, len);

		CHECK(moved, "%zu: %s", len, ripc_error_detail());
		conf_verify(moved, have < len ? have : len, 1, "moved buffer");
		conf_fill(moved, len, 1);
		if (moved != buf && (moved > buf + have || moved + len < buf))
			EXPECT_ERROR(-EINVAL, ripc_buf_free(ctx, buf));
		buf = moved;
		have = len;
	}
	errno = 0;
	CHECK(!ripc_buf_realloc(ctx, foreign, 10), "foreign memory");
	EXPECT_EQ(EINVAL, errno);
	errno = 0;
	CHECK(!ripc_buf_realloc(ctx, buf, 0), "0 bytes");
	EXPECT_EQ(EINVAL, errno);
	CHECK(!ripc_buf_realloc(ctx, buf, SIZE_MAX / 2), "half of all bytes");
	conf_verify(buf, have, 1, "buffer after a failure");
	EXPECT_OK(ripc_buf_free(ctx, buf));
	errno = 0;
	CHECK(!ripc_buf_realloc(ctx, buf, 10), "freed memory");
	EXPECT_EQ(EINVAL, errno);
}

static void register_refused(struct conf *c)
{
	struct ripc *ctx = conf_open(c);
	static uint8_t memory[40000];
	struct ripc_stats stats = {.size = sizeof(stats)};

	EXPECT_OK(ripc_buf_register(ctx, memory + 10000, 10000));
	EXPECT_OK(ripc_context_stats(ctx, &stats));
	EXPECT_EQ(10000, stats.registered_bytes);
	EXPECT_ERROR(-EEXIST, ripc_buf_register(ctx, memory + 10000, 10000));
	EXPECT_ERROR(-EEXIST, ripc_buf_register(ctx, memory, 10001));
	EXPECT_ERROR(-EEXIST, ripc_buf_register(ctx, memory + 19999, 1));
	EXPECT_ERROR(-EEXIST, ripc_buf_register(ctx, memory, 40000));
	EXPECT_ERROR(-EINVAL, ripc_buf_register(ctx, memory, 0));
	EXPECT_ERROR(-EINVAL, ripc_buf_register(ctx, NULL, 100));
	EXPECT_ERROR(-EINVAL, ripc_buf_register(ctx, memory, SIZE_MAX));
	EXPECT_OK(ripc_buf_register(ctx, memory, 10000));
	EXPECT_OK(ripc_buf_register(ctx, memory + 20000, 100));
	EXPECT_ERROR(-EINVAL, ripc_buf_unregister(ctx, memory + 5));
	EXPECT_ERROR(-EINVAL, ripc_buf_unregister(ctx, memory + 30000));
	EXPECT_OK(ripc_buf_unregister(ctx, memory + 10000));
	EXPECT_OK(ripc_buf_unregister(ctx, memory));
	EXPECT_OK(ripc_buf_unregister(ctx, memory + 20000));
	EXPECT_ERROR(-EINVAL, ripc_buf_unregister(ctx, memory));
	EXPECT_OK(ripc_context_stats(ctx, &stats));
	EXPECT_EQ(0, stats.registered_bytes);
}

static void busy_while_sent(struct conf *c)
{
	struct ripc *ctx = conf_open(c);
	struct ripc_service *service = conf_register(c, ctx, conf_id(c));
	struct ripc_request *request[2];
	static uint8_t memory[10000];
	uint8_t *buf = ripc_buf_alloc(ctx, 10000);
	struct iovec item[2] = {{buf + 100, 9000}, {memory + 100, 9000}};

	CHECK(buf, "%s", ripc_error_detail());
	EXPECT_OK(ripc_buf_register(ctx, memory, sizeof(memory)));
	/* To nobody: so they are under way for as long as we like. */
	for (int i = 0; i < 2; i++)
		EXPECT_OK(ripc_send_async(service, conf_id(c), &item[i], 1, NULL, &request[i]));
	EXPECT_ERROR(-EBUSY, ripc_buf_free(ctx, buf));
	errno = 0;
	CHECK(!ripc_buf_realloc(ctx, buf, 20 * MIB), "buffer in use");
	EXPECT_EQ(EBUSY, errno);
	EXPECT_ERROR(-EBUSY, ripc_buf_unregister(ctx, memory));
	EXPECT_ERROR(-EBUSY, ripc_window_add(ctx, NULL, buf, 10000));
	EXPECT_ERROR(-EBUSY, ripc_window_add(ctx, service, memory, 10000));
	for (int i = 0; i < 2; i++) {
		EXPECT_RC(-ECANCELED, ripc_request_cancel(&request[i], c->patience_ms));
		CHECK(!request[i], "request not gone");
	}
	EXPECT_OK(ripc_buf_free(ctx, buf));
	EXPECT_OK(ripc_buf_unregister(ctx, memory));
}

static void pool_is_reused(struct conf *c)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct conf_pair p;
	uint64_t after_first = 0;

	conf_pair(c, &p);
	for (int round = 0; round < 30; round++) {
		struct conf_plan plan = conf_plan_one(100000, (uint64_t)round);

		EXPECT_OK(conf_send_long(c, p.sa, p.idb, 100000, (uint64_t)round, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, true);
		EXPECT_OK(ripc_context_stats(p.b, &stats));
		if (round == 2)
			after_first = stats.pool_bytes;
	}
	CHECK(stats.pool_bytes <= after_first + MIB, "%llu, then %llu",
	      (unsigned long long)after_first, (unsigned long long)stats.pool_bytes);
}

static void pool_limit(struct conf *c)
{
	struct ripc *ctx = conf_open_with(c, "pool_bytes=0");
	struct ripc_stats before = {.size = sizeof(before)}, stats = {.size = sizeof(stats)};
	void *buf[10];

	EXPECT_OK(ripc_context_stats(ctx, &before));
	for (int i = 0; i < 10; i++) {
		buf[i] = ripc_buf_alloc(ctx, 300000);
		CHECK(buf[i], "%s", ripc_error_detail());
	}
	EXPECT_OK(ripc_context_stats(ctx, &stats));
	CHECK(stats.pool_bytes >= before.pool_bytes + 3000000, "%llu",
	      (unsigned long long)stats.pool_bytes);
	for (int i = 0; i < 10; i++)
		EXPECT_OK(ripc_buf_free(ctx, buf[i]));
	/* Nothing unused is kept. */
	AWAIT_STAT(c, ctx, pool_bytes, before.pool_bytes);
}

const struct conf_case conf_buffer[] = {
	{"alloc_free", alloc_free, 0},
	{"alloc_distinct", alloc_distinct, 0},
	{"free_refused", free_refused, 0},
	{"realloc_keeps", realloc_keeps, 0},
	{"register_refused", register_refused, 0},
	{"busy_while_sent", busy_while_sent, 0},
	{"pool_is_reused", pool_is_reused, 0},
	{"pool_limit", pool_limit, 0},
	{0},
};
