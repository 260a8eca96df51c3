/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Windows: which one an item takes, and when it is whose. */
#include "core/rig.h"

static struct rig rig;
static struct ripc *ctx;
static uint8_t *buf, *windows;

static struct ripc__local_return *claim(struct ripc_service *s, size_t len)
{
	return ripc__local_return_claim(ctx, s, NULL, 0, len);
}

START_TEST(claim__first_that_fits)
{
	struct ripc__local_return *w;

	OK(ripc_window_add(ctx, NULL, buf, 100));
	OK(ripc_window_add(ctx, NULL, buf + 100, 1000));
	OK(ripc_window_add(ctx, NULL, buf + 2000, 500));
	ck_assert_ptr_null(claim(rig.s[0], 1001));
	w = claim(rig.s[0], 200);
	ck_assert_ptr_eq(w->base, buf + 100);
	/* That one is taken. */
	ck_assert_ptr_eq(claim(rig.s[0], 200)->base, buf + 2000);
	ck_assert_ptr_null(claim(rig.s[0], 200));
	ck_assert_ptr_eq(claim(rig.s[0], 100)->base, buf);
	ripc__local_return_unclaim(ctx, w);
	ck_assert_ptr_eq(claim(rig.s[0], 1000), w);
}
END_TEST

START_TEST(claim__service_before_context)
{
	OK(ripc_window_add(ctx, NULL, buf, 1000));
	OK(ripc_window_add(ctx, rig.s[0], buf + 1000, 1000));
	ck_assert_ptr_eq(claim(rig.s[0], 1000)->base, buf + 1000);
	ck_assert_ptr_eq(claim(rig.s[0], 1000)->base, buf);
}
END_TEST

START_TEST(claim__other_service)
{
	struct ripc_service *other;

	OK(ripc_service_register(ctx, 77, 0, &other));
	OK(ripc_window_add(ctx, other, buf, 1000));
	ck_assert_ptr_null(claim(rig.s[0], 10));
	ck_assert_ptr_nonnull(claim(other, 10));
}
END_TEST

START_TEST(release__used)
{
	OK(ripc_window_add(ctx, NULL, buf, 1000));
	ripc__local_return_drop(ctx, claim(rig.s[0], 10));
	ck_assert_ptr_null(claim(rig.s[0], 10));
	ck_assert_uint_eq(ctx->memory->nrecv_windows, 0);
	RC(-EINVAL, ripc_window_remove(ctx, buf));
	/* It may be set aside again. */
	OK(ripc_window_add(ctx, NULL, buf, 1000));
}
END_TEST

START_TEST(release__in_freed_buffer)
{
	struct ripc__local_return *w;

	OK(ripc_window_add(ctx, NULL, buf, 1000));
	w = claim(rig.s[0], 10);
	OK(ripc_buf_free(ctx, buf));
	/* The item is still on its way there: the buffer is nobody's. */
	ck_assert_int_eq(w->region->state, RIPC__REGION_FREED);
	RC(-EINVAL, ripc_buf_free(ctx, buf));
	ripc__local_return_unclaim(ctx, w);
	ck_assert_uint_eq(ctx->memory->nrecv_windows, 0);
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
}
END_TEST

START_TEST(drop__by_service)
{
	struct ripc_service *other;

	OK(ripc_service_register(ctx, 77, 0, &other));
	OK(ripc_window_add(ctx, other, buf, 1000));
	OK(ripc_window_add(ctx, NULL, buf + 1000, 1000));
	OK(ripc_window_add(ctx, rig.s[0], buf + 2000, 1000));
	OK(ripc_service_unregister(other));
	ck_assert_uint_eq(ctx->memory->nrecv_windows, 2);
	RC(-EINVAL, ripc_window_remove(ctx, buf));
	OK(ripc_window_remove(ctx, buf + 1000));
	OK(ripc_window_remove(ctx, buf + 2000));
}
END_TEST

START_TEST(add__refused)
{
	static uint8_t foreign[1000];
	struct ripc_message *m;

	RC(-EINVAL, ripc_window_add(ctx, NULL, foreign, 1000));
	RC(-EINVAL, ripc_window_add(ctx, NULL, buf, 0));
	RC(-EINVAL, ripc_window_add(ctx, NULL, buf + 8000, 1000));
	RC(-EINVAL, ripc_window_add(ctx, NULL, NULL, 10));
	RC(-EINVAL, ripc_window_add(rig.ctx[1], NULL, buf, 10));
	RC(-EINVAL, ripc_window_add(rig.ctx[1], rig.s[0], buf, 10));
	ck_assert(strstr(ripc_error_detail(), "another context") != NULL);
	OK(rig_long(&rig, 1, 0, 5000, 1, 5000));
	m = rig_take(&rig, 0);
	RC(-EINVAL, ripc_window_add(ctx, NULL, m->items[0].iov_base, 10));
	ripc_message_free(m);
	/* And it does not report success. */
	ck_assert_uint_eq(ctx->memory->nrecv_windows, 0);
}
END_TEST

/* The next message must not overwrite an item that the application has not seen. */
START_TEST(add__unread_item)
{
	struct ripc_message *m;

	OK(ripc_window_add(ctx, NULL, buf, 5000));
	OK(rig_long(&rig, 1, 0, 5000, 1, 5000));
	RC(-EBUSY, ripc_window_add(ctx, NULL, buf + 4999, 100));
	ck_assert(strstr(ripc_error_detail(), "not received") != NULL);
	OK(ripc_window_add(ctx, NULL, buf + 5000, 3000));
	OK(rig_long(&rig, 1, 0, 3000, 2, 5000));
	m = rig_take(&rig, 0);
	rig_verify(m->items[0].iov_base, 5000, 1);
	/* From now on it is the application's, while the other one is unread. */
	OK(ripc_window_add(ctx, NULL, buf, 5000));
	RC(-EBUSY, ripc_window_add(ctx, NULL, buf + 5000, 1));
	ripc_message_free(m);
	rig_expect(&rig, 0, 3000, 2);
	OK(ripc_window_add(ctx, NULL, buf + 5000, 1));
}
END_TEST

/* The length that was asked for counts, not the size of the buffer's class. */
START_TEST(add__beyond_length)
{
	uint8_t *p = ripc_buf_alloc(ctx, 1000);

	RC(-EINVAL, ripc_window_add(ctx, NULL, p, 1001));
	RC(-EINVAL, ripc_window_add(ctx, NULL, p + 1000, 24));
	RC(-EINVAL, ripc_window_add(ctx, NULL, p + 999, 2));
	OK(ripc_window_add(ctx, NULL, p + 1, 999));
	OK(ripc_window_remove(ctx, p + 1));
	OK(ripc_buf_free(ctx, p));
}
END_TEST

START_TEST(add__context_from_service)
{
	OK(ripc_window_add(NULL, rig.s[0], buf, 10));
	ck_assert_uint_eq(ctx->memory->nrecv_windows, 1);
}
END_TEST

START_TEST(remove__busy_while_receiving)
{
	struct ripc__local_return *w;

	OK(ripc_window_add(ctx, NULL, buf, 1000));
	RC(-EINVAL, ripc_window_remove(ctx, buf + 1));
	w = claim(rig.s[0], 10);
	RC(-EBUSY, ripc_window_remove(ctx, buf));
	ripc__local_return_unclaim(ctx, w);
	OK(ripc_window_remove(ctx, buf));
	RC(-EINVAL, ripc_window_remove(ctx, buf));
}
END_TEST

START_TEST(items__one_window_each)
{
	uint8_t data[3][3000];
	struct iovec items[3];
	struct ripc_message *m;

	for (unsigned i = 0; i < 3; i++) {
		rig_fill(data[i], sizeof(data[i]), i);
		items[i] = (struct iovec){data[i], 2000 + i * 500};
	}
	OK(ripc_window_add(ctx, rig.s[0], buf, 2500));
	OK(ripc_window_add(ctx, rig.s[0], buf + 4000, 2500));
	OK(ripc_send_long(rig.s[1], RIG_ID(0), items, 3, NULL, 5000));
	m = rig_take(&rig, 0);
	ck_assert_ptr_eq(m->items[0].iov_base, buf);
	ck_assert_ptr_eq(m->items[1].iov_base, buf + 4000);
	ck_assert_int_eq(m->placement[0], RIPC_IN_WINDOW);
	ck_assert_int_eq(m->placement[1], RIPC_IN_WINDOW);
	ck_assert_int_eq(m->placement[2], RIPC_IN_POOL);
	for (unsigned i = 0; i < 3; i++)
		rig_verify(m->items[i].iov_base, items[i].iov_len, i);
	ck_assert_uint_eq(ctx->stats.window_items, 2);
	ripc_message_free(m);
	ck_assert_uint_eq(ctx->memory->nrecv_windows, 0);
	rig_verify(buf, 2000, 0);
}
END_TEST

/* Items that come with the message, and others that are read later. */
START_TEST(items__in_order)
{
	static const size_t lens[] = {30000, 200, 40000, 300};
	static uint8_t data[4][40000];
	struct iovec items[4];
	struct ripc_message *m;

	/* Each of them fits into each window. */
	for (unsigned i = 0; i < 4; i++) {
		rig_fill(data[i], sizeof(data[i]), i);
		items[i] = (struct iovec){data[i], lens[i]};
		OK(ripc_window_add(ctx, NULL, windows + i * 50000, 40000));
	}
	OK(ripc_send_long(rig.s[1], RIG_ID(0), items, 4, NULL, 5000));
	m = rig_take(&rig, 0);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_ptr_eq(m->items[i].iov_base, windows + i * 50000);
		rig_verify(m->items[i].iov_base, items[i].iov_len, i);
	}
	ripc_message_free(m);
}
END_TEST

static void slow(struct ripc__sim_config *config)
{
	config->bandwidth = 100 * 1000 * 1000;
}

/* The buffer is freed while an item is on its way: the message is whole, in a copy. */
START_TEST(free__while_receiving)
{
	struct ripc_request *r;
	struct rig r2;
	uint8_t *data = malloc(MIB), *window;

	rig_start(&r2, 2, slow);
	rig_connect(&r2, 1, 0);
	window = ripc_buf_alloc(r2.ctx[0], MIB);
	OK(ripc_window_add(r2.ctx[0], NULL, window, MIB));
	rig_fill(data, MIB, 3);
	r = rig_begin(&r2, 1, 0, data, MIB);
	rig_run(&r2, 3);
	RC(-EBUSY, ripc_window_remove(r2.ctx[0], window));
	OK(ripc_buf_free(r2.ctx[0], window));
	/* Nobody gets it yet. */
	ck_assert_ptr_ne(ripc_buf_alloc(r2.ctx[0], MIB), window);
	OK(ripc_request_wait(&r, 5000));
	ck_assert_int_eq(rig_expect(&r2, 0, MIB, 3), RIPC_IN_POOL);
	ck_assert_int_eq(ripc__memory_find(r2.ctx[0], window, 1)->state, RIPC__REGION_FREE);
	free(data);
	rig_end(&r2);
}
END_TEST

/*
 * A service goes while an item for it is on its way into a window of the whole context: that is
 * still there.
 */
START_TEST(unregister__context_window_kept)
{
	struct ripc_request *r;
	struct rig r2;
	uint8_t *data = calloc(1, MIB), *window;

	rig_start(&r2, 2, slow);
	rig_connect(&r2, 1, 0);
	window = ripc_buf_alloc(r2.ctx[0], MIB);
	OK(ripc_window_add(r2.ctx[0], NULL, window, MIB));
	r = rig_begin(&r2, 1, 0, data, MIB);
	rig_run(&r2, 3);
	RC(-EBUSY, ripc_window_remove(r2.ctx[0], window));
	OK(ripc_service_unregister(r2.s[0]));
	OK(ripc_window_remove(r2.ctx[0], window));
	RC(-ECANCELED, ripc_request_cancel(&r, 1000));
	free(data);
	rig_end(&r2);
}
END_TEST

START_TEST(unregister__drops_own_windows)
{
	struct ripc_request *r;
	struct rig r2;
	uint8_t *data = calloc(1, MIB), *window;

	rig_start(&r2, 2, slow);
	rig_connect(&r2, 1, 0);
	window = ripc_buf_alloc(r2.ctx[0], MIB);
	OK(ripc_window_add(r2.ctx[0], r2.s[0], window, MIB));
	r = rig_begin(&r2, 1, 0, data, MIB);
	rig_run(&r2, 3);
	OK(ripc_service_unregister(r2.s[0]));
	ck_assert_uint_eq(r2.ctx[0]->memory->nrecv_windows, 0);
	OK(ripc_buf_free(r2.ctx[0], window));
	RC(-ECANCELED, ripc_request_cancel(&r, 1000));
	free(data);
	rig_end(&r2);
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
	buf = ripc_buf_alloc(ctx, 8192);
	windows = ripc_buf_alloc(ctx, 200000);
}

static void teardown(void)
{
	struct ripc__region *region = ripc__memory_find_cap(ctx, buf);
	struct ripc__local_return *w;

	/* Regions claimed by the test itself have no operation pending. */
	if (region)
		ripc__list_for_each_entry (w, &region->returns, region_link)
			w->arriving = false;
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/receive_window");
	TCase *tc = tcase_create("window");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, claim__first_that_fits);
	tcase_add_test(tc, claim__service_before_context);
	tcase_add_test(tc, claim__other_service);
	tcase_add_test(tc, release__used);
	tcase_add_test(tc, release__in_freed_buffer);
	tcase_add_test(tc, drop__by_service);
	tcase_add_test(tc, add__refused);
	tcase_add_test(tc, add__unread_item);
	tcase_add_test(tc, add__beyond_length);
	tcase_add_test(tc, add__context_from_service);
	tcase_add_test(tc, remove__busy_while_receiving);
	tcase_add_test(tc, items__one_window_each);
	tcase_add_test(tc, items__in_order);
	tcase_add_test(tc, free__while_receiving);
	tcase_add_test(tc, unregister__context_window_kept);
	tcase_add_test(tc, unregister__drops_own_windows);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/receive_window", suite);
}
