/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of reliable short messages: what they hold, and the memory that is kept for the next. */
#include "core/reliable/message.h"
#include "core/rig.h"
#include "wire/bytes.h"

static struct rig rig;
static struct ripc *ctx;

static void setup(void)
{
	rig_start(&rig, 1, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

static unsigned kept(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < RIPC__RELIABLE_FREE_LISTS; i++)
		n += ctx->reliable_free[i].count;
	return n;
}

/* One item needs no length; several have theirs in front. */
START_TEST(new__contents)
{
	struct iovec items[3] = {{"abc", 3}, {NULL, 0}, {"defgh", 5}};
	const struct ripc__call_words call = {7, 8};
	struct ripc__reliable_msg *m = ripc__reliable_new(ctx, 0, 42, NULL, items, 1), *next;
	static const uint8_t lens[12] = {3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0};

	ck_assert_uint_eq(m->len, RIPC__HEADER_LEN + 4 + 3);
	ck_assert_uint_eq(m->flags, RIPC__F_RELIABLE);
	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_eq(m->source, 42);
	ck_assert_uint_eq(m->number, 0);
	ck_assert_ptr_null(m->dest);
	ck_assert_mem_eq(m->bytes, "abc", 3);
	next = ripc__reliable_new(ctx, RIPC__F_CALL, 42, &call, items, 3);
	ck_assert_uint_eq(next->len, RIPC__HEADER_LEN + RIPC__CALL_EXT + 12 + 8);
	ck_assert_uint_eq(next->flags, RIPC__F_RELIABLE | RIPC__F_CALL);
	ck_assert_uint_eq(next->nitems, 3);
	ck_assert_mem_eq(&next->call, &call, sizeof(call));
	ck_assert_mem_eq(next->bytes, lens, 12);
	ck_assert_mem_eq(next->bytes + 12, "abcdefgh", 8);
	ck_assert_uint_eq(next->order, m->order + 1);
	ripc__reliable_free(ctx, m);
	ripc__reliable_free(ctx, next);
	ck_assert_uint_eq(kept(), 2);
}
END_TEST

/* Each length up to the largest room is taken from its list again; longer copies are not kept. */
START_TEST(free__kept_by_length)
{
	static uint8_t data[8192];

	for (size_t len = 1; len < sizeof(data) - 64; len += 37) {
		struct iovec item = {data, len};
		struct ripc__reliable_msg *m = ripc__reliable_new(ctx, 0, 1, NULL, &item, 1), *next;
		bool is_kept = m->len <= ripc__reliable_classes[2].room;
		unsigned before = kept();

		memset(m->bytes, 0xee, len);
		ripc__reliable_free(ctx, m);
		ck_assert_uint_eq(kept(), before + is_kept);
		if (!is_kept)
			continue;
		next = ripc__reliable_new(ctx, 0, 1, NULL, &item, 1);
		ck_assert_ptr_eq(next, m);
		ck_assert_uint_eq(kept(), before);
		ripc__reliable_free(ctx, next);
	}
	ripc__reliable_memory_free(ctx);
	ck_assert_uint_eq(kept(), 0);
}
END_TEST

START_TEST(class__bounds)
{
	ck_assert_uint_eq(ripc__reliable_class(0), 0);
	for (unsigned i = 0; i < RIPC__RELIABLE_FREE_LISTS; i++) {
		ck_assert_uint_eq(ripc__reliable_class(ripc__reliable_classes[i].room), i);
		ck_assert_uint_eq(ripc__reliable_class(ripc__reliable_classes[i].room + 1), i + 1);
	}
}
END_TEST

/* No more than the bound are kept. */
START_TEST(free__bounded)
{
	struct ripc__reliable_msg *m[300];
	static uint8_t data[1000];
	struct iovec item = {data, sizeof(data)};
	unsigned bound = ripc__reliable_classes[1].max;

	ck_assert_uint_gt(sizeof(m) / sizeof(*m), bound);
	for (unsigned i = 0; i < 300; i++)
		m[i] = ripc__reliable_new(ctx, 0, 1, NULL, &item, 1);
	for (unsigned i = 0; i < 300; i++) {
		ripc__reliable_free(ctx, m[i]);
		ck_assert_uint_eq(ctx->reliable_free[1].count, i < bound ? i + 1 : bound);
	}
}
END_TEST

/* reserve() makes one only if there is none, and none of a length that is not kept. */
START_TEST(reserve__once)
{
	ck_assert(ripc__reliable_reserve(ctx, 100));
	ck_assert(ripc__reliable_reserve(ctx, 100));
	ck_assert_uint_eq(kept(), 1);
	ck_assert(!ripc__reliable_reserve(ctx, ripc__reliable_classes[2].room + 1));
	ck_assert_uint_eq(kept(), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/reliable/message");
	TCase *tc = tcase_create("message");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, new__contents);
	tcase_add_test(tc, free__kept_by_length);
	tcase_add_test(tc, class__bounds);
	tcase_add_test(tc, free__bounded);
	tcase_add_test(tc, reserve__once);
	suite_add_tcase(suite, tc);
	return test_main("core/reliable/message", suite);
}
