/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conditions under which an item is mapped in the strict mode, as ripc_buf_alloc(3) states
 * them: one case for each sentence. Virtual time makes it independent of the receiver's speed.
 */
#include "virtual_time.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1024)
#define LEN (256 * KIB)

static void setup(void)
{
	world_open(3, "handover=strict");
}

/* Sends one message, which the receiver frees at once. Return: where its item lay. */
static unsigned sent_to(unsigned to, void *p, size_t len)
{
	struct ripc_request *r = start_to(to, p, len);
	struct ripc_message *m = take_at(to);
	unsigned placement = m->placement[0];

	ck_assert_uint_eq(m->items[0].iov_len, len);
	ck_assert(!memcmp(m->items[0].iov_base, p, len));
	ripc_message_free(m);
	finish(r);
	return placement;
}

static uint8_t *buffer(size_t len)
{
	uint8_t *p = ripc_buf_alloc(ctx[0], len);

	ck_assert_ptr_nonnull(p);
	memset(p, 7, len);
	return p;
}

/* Sends to context `to` until an item is mapped. Return: how many were copied before; 100: all. */
static unsigned copied_before(unsigned to, void *p, size_t len)
{
	unsigned n = 0;

	while (n < 100 && sent_to(to, p, len) != RIPC_IN_SENDER_MEMORY)
		n++;
	return n;
}

static void release(void *p)
{
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}

START_TEST(import__from_third_message)
{
	uint8_t *p = buffer(LEN);

	ck_assert_uint_eq(copied_before(1, p, LEN), 2);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(sent_to(1, p, LEN), RIPC_IN_SENDER_MEMORY);
	release(p);
}
END_TEST

START_TEST(import__only_buffers_over_32_kib)
{
	uint8_t *small = buffer(32 * KIB), *large = buffer(32 * KIB + 1);

	ck_assert_uint_eq(copied_before(1, small, 32 * KIB), 100);
	ck_assert_uint_eq(copied_before(1, large, 32 * KIB + 1), 2);
	release(small);
	release(large);
}
END_TEST

START_TEST(import__only_items_from_16_kib)
{
	uint8_t *p = buffer(LEN);

	ck_assert_uint_eq(copied_before(1, p, LEN), 2);
	ck_assert_uint_eq(sent_to(1, p + 1, 16 * KIB), RIPC_IN_SENDER_MEMORY);
	ck_assert_uint_eq(sent_to(1, p + 1, 16 * KIB - 1), RIPC_IN_POOL);
	release(p);
}
END_TEST

START_TEST(import__no_registered_memory)
{
	uint8_t *own = malloc(LEN);

	ck_assert_ptr_nonnull(own);
	memset(own, 7, LEN);
	ck_assert_int_eq(ripc_buf_register(ctx[0], own, LEN), 0);
	ck_assert_uint_eq(copied_before(1, own, LEN), 100);
	ck_assert_int_eq(ripc_buf_unregister(ctx[0], own), 0);
	free(own);
}
END_TEST

START_TEST(import__64_buffers_per_context)
{
	uint8_t *p[RIPC__MEMFDS_MAX], *last;

	for (unsigned i = 0; i < RIPC__MEMFDS_MAX; i++)
		p[i] = buffer(64 * KIB);
	last = buffer(64 * KIB);
	ck_assert_uint_eq(copied_before(1, last, 64 * KIB), 100);
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX; i++)
		ck_assert_uint_eq(copied_before(1, p[i], 64 * KIB), 2);
	/* Freed buffers that were mapped are gone: there is room again. */
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX; i++)
		release(p[i]);
	release(last);
	last = buffer(LEN);
	ck_assert_uint_eq(copied_before(1, last, LEN), 2);
	release(last);
}
END_TEST

START_TEST(import__not_alternating_peers)
{
	uint8_t *p = buffer(LEN);

	for (unsigned i = 0; i < 20; i++) {
		ck_assert_uint_eq(sent_to(1, p, LEN), RIPC_IN_POOL);
		ck_assert_uint_eq(sent_to(2, p, LEN), RIPC_IN_POOL);
	}
	release(p);
}
END_TEST

START_TEST(import__copies_double_per_change)
{
	uint8_t *p = buffer(LEN);

	ck_assert_uint_eq(copied_before(1, p, LEN), 2);
	ck_assert_uint_ge(copied_before(2, p, LEN), 4);
	ck_assert_uint_ge(copied_before(1, p, LEN), 8);
	ck_assert_uint_lt(copied_before(2, p, LEN), 100);
	release(p);
}
END_TEST

START_TEST(import__not_one_use_buffers)
{
	for (unsigned i = 0; i < 20; i++) {
		uint8_t *p = buffer(LEN);

		ck_assert_uint_eq(sent_to(1, p, LEN), RIPC_IN_POOL);
		release(p);
	}
}
END_TEST

START_TEST(import__recycled_memory_whole)
{
	uint8_t *p = buffer(LEN), *again;

	/* Never sent: its memory goes to the cache. */
	release(p);
	again = buffer(LEN);
	ck_assert_ptr_eq(again, p);
	ck_assert_uint_eq(copied_before(1, again, LEN / 2), 100);
	ck_assert_uint_lt(copied_before(1, again, LEN), 4);
	ck_assert_uint_eq(sent_to(1, again, LEN / 2), RIPC_IN_SENDER_MEMORY);
	release(again);
}
END_TEST

START_TEST(import__not_with_return_buffer)
{
	struct ripc_send_options options = {.size = sizeof(options), .nreturn_buffers = 1};
	struct iovec item = {"x", 1}, back;
	uint8_t *p = buffer(LEN), *q = buffer(LEN);
	struct ripc_message *m;

	ck_assert_int_eq(ripc_window_add(ctx[0], service[0], p + LEN / 2, LEN / 2), 0);
	ck_assert_uint_eq(copied_before(1, p, LEN / 2), 100);
	ck_assert_int_eq(ripc_window_remove(ctx[0], p + LEN / 2), 0);
	ck_assert_uint_lt(copied_before(1, p, LEN / 2), 4);
	/* Detached for a window: the next export must be of a whole buffer. */
	ck_assert_int_eq(ripc_window_add(ctx[0], service[0], p + LEN / 2, LEN / 2), 0);
	ck_assert_int_eq(ripc_window_remove(ctx[0], p + LEN / 2), 0);
	ck_assert_uint_eq(copied_before(1, p, LEN / 2), 100);
	ck_assert_uint_lt(copied_before(1, p, LEN), 4);

	back = (struct iovec){q + LEN / 2, LEN / 2};
	options.return_buffers = &back;
	ck_assert_int_eq(ripc_send_short(service[0], test_ids() + 1, &item, 1, &options, 1000), 0);
	m = take_at(1);
	ripc_message_free(m);
	ck_assert_uint_eq(copied_before(1, q, LEN / 2), 100);
	release(p);
	release(q);
}
END_TEST

START_TEST(import__not_into_return_buffer)
{
	struct ripc_send_options options = {.size = sizeof(options), .nreturn_buffers = 1};
	uint8_t *p = buffer(LEN), *target = ripc_buf_alloc(ctx[1], LEN);
	struct iovec item = {"x", 1}, back = {target, LEN};
	struct ripc_message *m;

	options.return_buffers = &back;
	ck_assert_uint_eq(copied_before(1, p, LEN), 2);
	ck_assert_int_eq(ripc_window_add(ctx[1], service[1], target, LEN), 0);
	ck_assert_uint_eq(sent_to(1, p, LEN), RIPC_IN_WINDOW);
	ck_assert_uint_eq(sent_to(1, p, LEN), RIPC_IN_SENDER_MEMORY);
	ck_assert_int_eq(ripc_send_short(service[1], test_ids(), &item, 1, &options, 1000), 0);
	m = take_at(0);
	ripc_message_free(m);
	ck_assert_uint_eq(sent_to(1, p, LEN), RIPC_IN_RETURN_BUFFER);
	ck_assert_uint_eq(sent_to(1, p, LEN), RIPC_IN_SENDER_MEMORY);
	release(p);
}
END_TEST

/* Sends until an item is mapped, which the receiver keeps. Return: how many were copied before. */
static unsigned copied_before_a_kept_one(uint8_t *p)
{
	for (unsigned n = 0; n < 100; n++) {
		struct ripc_request *r = start_to(1, p, LEN);
		struct ripc_message *m = take_at(1);
		bool in_place = m->placement[0] == RIPC_IN_SENDER_MEMORY;

		/* A mapped item's request completes although the message is kept. */
		if (in_place)
			finish(r);
		ripc_message_free(m);
		if (in_place)
			return n;
		finish(r);
	}
	return 100;
}

START_TEST(import__less_if_receiver_keeps)
{
	uint8_t *p = buffer(LEN);
	unsigned n;

	ck_assert_uint_eq(copied_before_a_kept_one(p), 2);
	n = copied_before_a_kept_one(p);
	ck_assert_uint_ge(n, 8);
	ck_assert_uint_lt(n, 16);
	ck_assert_uint_ge(copied_before_a_kept_one(p), 16);
	/* An item that is freed in time ends that. */
	ck_assert_uint_lt(copied_before(1, p, LEN), 100);
	ck_assert_uint_eq(copied_before_a_kept_one(p), 0);
	n = copied_before_a_kept_one(p);
	ck_assert_uint_ge(n, 8);
	ck_assert_uint_lt(n, 16);
	release(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("in_place");
	TCase *t = tcase_create("in_place");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, world_close);
	tcase_add_test(t, import__from_third_message);
	tcase_add_test(t, import__only_buffers_over_32_kib);
	tcase_add_test(t, import__only_items_from_16_kib);
	tcase_add_test(t, import__no_registered_memory);
	tcase_add_test(t, import__64_buffers_per_context);
	tcase_add_test(t, import__not_alternating_peers);
	tcase_add_test(t, import__copies_double_per_change);
	tcase_add_test(t, import__not_one_use_buffers);
	tcase_add_test(t, import__recycled_memory_whole);
	tcase_add_test(t, import__not_with_return_buffer);
	tcase_add_test(t, import__not_into_return_buffer);
	tcase_add_test(t, import__less_if_receiver_keeps);
	suite_add_tcase(s, t);
	return test_main("transport/shm/import", s);
}
