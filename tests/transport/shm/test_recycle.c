/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mapped zero copy of programs that allocate a buffer for each message, and of those that pass
 * messages on. Virtual time makes the counts independent of the receiver's speed.
 */
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"

#include "virtual_time.h"

#include <errno.h>
#include <string.h>

#define LEN ((size_t)256 * 1024)

static void setup(void)
{
	world_open(3, "");
}

static void setup_strict(void)
{
	world_open(3, "handover=strict");
}

static uint8_t *buffer(unsigned byte)
{
	uint8_t *p = ripc_buf_alloc(ctx[0], LEN);

	ck_assert_ptr_nonnull(p);
	memset(p, (int)byte, LEN);
	return p;
}

static void release(void *p)
{
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}

static bool all(const struct ripc_message *m, unsigned byte)
{
	const uint8_t *p = m->items[0].iov_base;

	return *p == (uint8_t)byte && !memcmp(p, p + 1, m->items[0].iov_len - 1);
}

static bool mapped(const struct ripc_message *m)
{
	return m->placement[0] == RIPC_IN_SENDER_MEMORY;
}

/* Allocates, sends and frees n buffers. Return: how many were read in place. */
static unsigned sent_afresh(unsigned to, unsigned n)
{
	unsigned in_place = 0;

	for (unsigned i = 0; i < n; i++) {
		uint8_t *p = buffer(i);
		struct ripc_request *r = start_to(to, p, LEN);
		struct ripc_message *m = take_at(to);

		ck_assert(all(m, i));
		in_place += mapped(m);
		ripc_message_free(m);
		finish(r);
		release(p);
	}
	return in_place;
}

START_TEST(recycle__fresh_buffers_in_place)
{
	ck_assert_uint_ge(sent_afresh(1, 100), 97);
	/* The other peer maps the same memory. */
	ck_assert_uint_ge(sent_afresh(2, 100), 97);
	ck_assert_uint_eq(sent_afresh(1, 100), 100);
}
END_TEST

START_TEST(recycle__kept_messages_in_place)
{
	struct ripc_message *kept[4] = {NULL};
	unsigned in_place = 0;

	for (unsigned i = 0; i < 100; i++) {
		unsigned slot = i % 4;
		uint8_t *p = buffer(i);
		struct ripc_request *r = start_to(1, p, LEN);
		struct ripc_message *m = take_at(1);

		in_place += mapped(m);
		/* The receiver keeps it for longer than the sender waits. */
		finish(r);
		release(p);
		for (unsigned k = 0; k < 4; k++)
			ck_assert(!kept[k] || all(kept[k], i - 1 - (i - 1 - k) % 4));
		ripc_message_free(kept[slot]);
		kept[slot] = m;
	}
	ck_assert_uint_ge(in_place, 90);
	for (unsigned k = 0; k < 4; k++)
		ripc_message_free(kept[k]);
}
END_TEST

START_TEST(recycle__first_of_named_service)
{
	struct ripc_request *r;
	struct ripc_message *m;
	uint8_t *p;

	/* Without a connection it is like any other buffer. */
	p = ripc_buf_alloc_for(ctx[0], LEN, test_ids() + 1);
	ck_assert_ptr_nonnull(p);
	memset(p, 1, LEN);
	r = start_to(1, p, LEN);
	m = take_at(1);
	ck_assert(!mapped(m));
	ripc_message_free(m);
	finish(r);
	release(p);
	p = ripc_buf_alloc_for(ctx[0], 2 * LEN, test_ids() + 1);
	ck_assert_ptr_nonnull(p);
	memset(p, 2, 2 * LEN);
	pass(STEP * 100);
	r = start_to(1, p, 2 * LEN);
	m = take_at(1);
	ck_assert(mapped(m) && all(m, 2));
	ripc_message_free(m);
	finish(r);
	release(p);
	ck_assert_ptr_null(ripc_buf_alloc_for(ctx[0], 0, test_ids() + 1));
}
END_TEST

START_TEST(recycle__named_service_gets_its_memory)
{
	struct ripc_request *r;
	struct ripc_message *m;
	uint8_t *p, *q;

	ck_assert_uint_ge(sent_afresh(1, 10), 7);
	p = buffer(0);
	ck_assert_uint_ge(sent_afresh(2, 10), 7);
	release(p);
	/* The memory that only the first peer has mapped. */
	q = ripc_buf_alloc_for(ctx[0], LEN, test_ids() + 1);
	ck_assert_ptr_eq(q, p);
	memset(q, 1, LEN);
	r = start_to(1, q, LEN);
	m = take_at(1);
	ck_assert(mapped(m));
	ripc_message_free(m);
	finish(r);
	release(q);
}
END_TEST

/* A peer holds a message out of a buffer that was freed: its memory is not used before. */
START_TEST(recycle__not_while_it_is_read)
{
	struct ripc_request *r;
	struct ripc_message *m;
	uint64_t bytes;
	uint8_t *p;

	ck_assert_uint_ge(sent_afresh(1, 10), 7);
	bytes = ctx[0]->stats.pool_bytes;
	p = buffer(7);
	r = start_to(1, p, LEN);
	m = take_at(1);
	ck_assert(mapped(m));
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), -EBUSY);
	finish(r);
	release(p);
	for (unsigned i = 0; i < 8; i++) {
		p = buffer(9);
		ck_assert(all(m, 7));
		if (i % 2)
			release(p);
	}
	sent_afresh(2, 20);
	ck_assert(all(m, 7));
	ripc_message_free(m);
	pass(STEP * 100);
	/* And then it is. */
	ck_assert_uint_ge(ctx[0]->stats.pool_bytes, bytes);
	ck_assert_uint_ge(sent_afresh(1, 20), 17);
}
END_TEST

/* ---- passing on ---- */

/* Context 0 sends to 1, which passes it on to 2. Return: the message there; *m: that of 1. */
static struct ripc_message *passed_on(uint8_t *p, struct ripc_message **m, struct ripc_request **r,
				      struct ripc_request **on)
{
	struct iovec item;

	*r = start_to(1, p, LEN);
	*m = take_at(1);
	item = (*m)->items[0];
	ck_assert_int_eq(ripc_send_async(service[1], test_ids() + 2, &item, 1, NULL, on), 0);
	return take_at(2);
}

START_TEST(forward__pipeline_in_place)
{
	unsigned first = 0, second = 0;

	for (unsigned i = 0; i < 100; i++) {
		struct ripc_request *r, *on;
		uint8_t *p = buffer(i);
		struct ripc_message *m, *last = passed_on(p, &m, &r, &on);

		first += mapped(m);
		second += mapped(last);
		ck_assert(all(last, i));
		ripc_message_free(last);
		finish(on);
		ripc_message_free(m);
		finish(r);
		release(p);
	}
	ck_assert_uint_ge(first, 95);
	ck_assert_uint_ge(second, 90);
}
END_TEST

static struct ripc_message *passed_on_in_place(uint8_t **p, struct ripc_message **m,
					       struct ripc_request **r, struct ripc_request **on)
{
	for (unsigned i = 0; i < 100; i++) {
		struct ripc_message *last;

		*p = buffer(7);
		last = passed_on(*p, m, r, on);
		if (mapped(last))
			return last;
		ripc_message_free(last);
		finish(*on);
		ripc_message_free(*m);
		finish(*r);
		release(*p);
	}
	ck_abort_msg("nothing was passed on in place");
	return NULL;
}

/* A message of bytes 7 whose memory serves no new buffer while it is kept; frees it. */
static void stays(struct ripc_message *last)
{
	for (unsigned i = 0; i < 8; i++) {
		buffer(9);
		ck_assert(all(last, 7));
	}
	ripc_message_free(last);
}

/* The last of the chain keeps it: neither the owner nor the one in the middle waits for that. */
START_TEST(forward__kept_at_the_end)
{
	struct ripc_request *r, *on;
	struct ripc_message *m, *last;
	uint8_t *p;

	last = passed_on_in_place(&p, &m, &r, &on);
	finish(on);
	ripc_message_free(m);
	finish(r);
	release(p);
	stays(last);
}
END_TEST

/* The one in the middle ends, before or after its sender has waited for long enough. */
static void middle_ends(bool late)
{
	struct ripc_request *r, *on;
	struct ripc_message *m, *last;
	uint8_t *p;

	last = passed_on_in_place(&p, &m, &r, &on);
	finish(on);
	if (late) {
		finish(r);
		release(p);
	}
	ck_assert_int_eq(ripc_close(ctx[1]), 0);
	ctx[1] = ctx[2];
	ctx[2] = NULL;
	if (!late) {
		finish(r);
		release(p);
	}
	pass(STEP * 100);
	stays(last);
}

START_TEST(forward__middle_ends)
{
	middle_ends(false);
}
END_TEST

START_TEST(forward__middle_ends_late)
{
	middle_ends(true);
}
END_TEST

/* The one in the middle lives, but its lane to the last one is lost, which still reads. */
static void last_lane_lost(bool late)
{
	struct ripc_request *r, *on;
	struct ripc_message *m, *last;
	struct ripc__list *n;
	uint8_t *p;

	last = passed_on_in_place(&p, &m, &r, &on);
	finish(on);
	if (late) {
		finish(r);
		release(p);
	}
	ripc__lock(ctx[1]);
	ripc__list_for_each (n, &ctx[1]->lanes) {
		struct ripc__lane *lane = ripc__list_entry(n, struct ripc__lane, link);

		if (!memcmp(lane->peer->instance, ctx[2]->instance, 16)) {
			ripc__lane_fail(lane, -EIO, "for the test");
			break;
		}
	}
	ripc__unlock(ctx[1]);
	ripc_message_free(m);
	if (!late) {
		finish(r);
		release(p);
	}
	pass(STEP * 100);
	stays(last);
}

START_TEST(forward__last_lane_lost)
{
	last_lane_lost(false);
}
END_TEST

START_TEST(forward__last_lane_lost_late)
{
	last_lane_lost(true);
}
END_TEST

/* An item comes back to its owner: copied while the application may write to the buffer. */
START_TEST(forward__back_to_owner)
{
	unsigned in_place = 0;

	for (unsigned i = 0; i < 60; i++) {
		uint8_t *p = buffer(i);
		struct ripc_request *r = start_to(1, p, LEN), *back;
		struct ripc_message *m = take_at(1), *again;
		bool early = i % 2;

		if (early) {
			/* The owner has freed the buffer when the item comes back. */
			finish(r);
			release(p);
		}
		ck_assert_int_eq(
			ripc_send_async(service[1], test_ids(), &m->items[0], 1, NULL, &back), 0);
		again = take_at(0);
		ck_assert(all(again, i));
		if (!early)
			ck_assert(!mapped(again));
		in_place += mapped(again);
		finish(back);
		ripc_message_free(m);
		if (!early) {
			memset(p, 0, LEN);
			ck_assert(all(again, i));
			finish(r);
			release(p);
		}
		ck_assert(all(again, i));
		ripc_message_free(again);
	}
	ck_assert_uint_ge(in_place, 20);
}
END_TEST

/* ---- buffers that the send frees ---- */

static int start_freeing(unsigned from, unsigned to, void *p, size_t len, struct ripc_request **r)
{
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_FREE_ITEMS};
	struct iovec item = {p, len};

	return ripc_send_async(service[from], test_ids() + to, &item, 1, &options, r);
}

/* The request does not wait for the receiver, which sends each message back. */
START_TEST(freed__back_to_owner_in_place)
{
	unsigned there = 0, back = 0;

	for (unsigned i = 0; i < 100; i++) {
		struct ripc_message *m, *again;
		struct ripc_request *r, *echo;
		uint64_t begin_ns;

		ck_assert_int_eq(start_freeing(0, 1, buffer(i), LEN, &r), 0);
		m = take_at(1);
		begin_ns = now_ns;
		finish(r);
		ck_assert_uint_lt(now_ns - begin_ns, ripc__export_ref_max_ns(LEN));
		ck_assert_int_eq(
			ripc_send_async(service[1], test_ids(), &m->items[0], 1, NULL, &echo), 0);
		again = take_at(0);
		ck_assert(all(again, i));
		there += mapped(m);
		back += mapped(again);
		ripc_message_free(again);
		finish(echo);
		ripc_message_free(m);
	}
	ck_assert_uint_ge(there, 95);
	ck_assert_uint_ge(back, 90);
}
END_TEST

START_TEST(freed__kept_by_receiver)
{
	struct ripc_message *kept[16];
	struct ripc_request *r;

	ck_assert_uint_ge(sent_afresh(1, 10), 7);
	for (unsigned i = 0; i < 16; i++) {
		ck_assert_int_eq(start_freeing(0, 1, buffer(i), LEN, &r), 0);
		kept[i] = take_at(1);
		finish(r);
	}
	for (unsigned i = 0; i < 16; i++) {
		ck_assert(all(kept[i], i));
		ripc_message_free(kept[i]);
	}
	ck_assert_uint_ge(sent_afresh(1, 50), 50);
}
END_TEST

static void freed(void *p)
{
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), -EINVAL);
}

START_TEST(freed__only_if_sent)
{
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_FREE_ITEMS};
	uint8_t *p = buffer(1), own[64] = {0};
	struct iovec item = {p, LEN}, other = {own, sizeof(own)};
	struct ripc_request *r;

	/* Nobody holds the service. */
	ck_assert_int_lt(ripc_send_long(service[0], test_ids() + 9, &item, 1, &options, 50), 0);
	ck_assert(p[LEN - 1] == 1);
	ck_assert_int_eq(start_freeing(0, 9, p, LEN, &r), 0);
	ck_assert_int_eq(ripc_request_cancel(&r, 1000), -ECANCELED);
	/* Other memory, other calls. */
	ck_assert_int_eq(ripc_send_long(service[0], test_ids() + 1, &other, 1, &options, 50),
			 -EINVAL);
	ck_assert_int_eq(ripc_send_short(service[0], test_ids() + 1, &other, 1, &options, 50),
			 -EOPNOTSUPP);
	ck_assert_int_eq(ripc_window_add(ctx[0], service[0], p, 64), 0);
	ck_assert_int_eq(start_freeing(0, 1, p, LEN, &r), -EINVAL);
	ck_assert_int_eq(ripc_window_remove(ctx[0], p), 0);
	ck_assert_int_eq(start_freeing(0, 1, p, LEN, &r), 0);
	ripc_message_free(take_at(1));
	finish(r);
	freed(p);
}
END_TEST

/* A part of a buffer; no item is mapped. */
START_TEST(freed__copied)
{
	struct ripc_message *m;
	struct ripc_request *r;
	uint8_t *p = buffer(5);

	ck_assert_int_eq(start_freeing(0, 1, p + 10, 1000, &r), 0);
	m = take_at(1);
	finish(r);
	ck_assert(all(m, 5));
	ripc_message_free(m);
	freed(p);
}
END_TEST

/* ---- strict ---- */

START_TEST(strict__fresh_buffers_copied)
{
	ck_assert_uint_eq(sent_afresh(1, 50), 0);
}
END_TEST

START_TEST(strict__passed_on_copied)
{
	uint8_t *p = buffer(3);
	unsigned in_place = 0;

	for (unsigned i = 0; i < 50; i++) {
		struct ripc_request *r, *on;
		struct ripc_message *m, *last = passed_on(p, &m, &r, &on);

		in_place += mapped(m);
		ck_assert(!mapped(last) && all(last, 3));
		ripc_message_free(last);
		finish(on);
		ripc_message_free(m);
		finish(r);
	}
	ck_assert_uint_gt(in_place, 0);
	release(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("recycle");
	TCase *t = tcase_create("recycle"), *strict = tcase_create("strict");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, world_close);
	tcase_add_test(t, recycle__fresh_buffers_in_place);
	tcase_add_test(t, recycle__kept_messages_in_place);
	tcase_add_test(t, recycle__first_of_named_service);
	tcase_add_test(t, recycle__named_service_gets_its_memory);
	tcase_add_test(t, recycle__not_while_it_is_read);
	tcase_add_test(t, forward__pipeline_in_place);
	tcase_add_test(t, forward__kept_at_the_end);
	tcase_add_test(t, forward__middle_ends);
	tcase_add_test(t, forward__middle_ends_late);
	tcase_add_test(t, forward__last_lane_lost);
	tcase_add_test(t, forward__last_lane_lost_late);
	tcase_add_test(t, forward__back_to_owner);
	tcase_add_test(t, freed__back_to_owner_in_place);
	tcase_add_test(t, freed__kept_by_receiver);
	tcase_add_test(t, freed__only_if_sent);
	tcase_add_test(t, freed__copied);
	suite_add_tcase(s, t);
	tcase_set_timeout(strict, 120);
	tcase_add_checked_fixture(strict, setup_strict, world_close);
	tcase_add_test(strict, strict__fresh_buffers_copied);
	tcase_add_test(strict, strict__passed_on_copied);
	tcase_add_test(strict, freed__only_if_sent);
	tcase_add_test(strict, freed__copied);
	suite_add_tcase(s, strict);
	return test_main("transport/shm/recycle", s);
}
