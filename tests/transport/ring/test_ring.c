/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The window engine, over mapped memory and over the simulated link with many seeds.
 * RIPC_TEST_MESSAGES (200000) messages go through the link in checksummed; RIPC_TEST_SEED names the
 * first seed.
 */
#include "ring_pair.h"

#include <stdio.h>

#define SEEDS 20

/* ---- sends ---- */

/* _i: 0 mapped, 1 linked; every size up to a page and a bit, and around the powers of two. */
START_TEST(send__every_size)
{
	static uint8_t data[RIPC__RING_SEND_MAX];
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, RIPC__RING_CAP_ORDERED, test_seed());
	for (size_t len = 0; len <= RIPC__RING_SEND_MAX; len++) {
		if (len > 4097 && (len & (len - 1)) && ((len + 1) & len) && ((len - 1) & (len - 2)))
			continue;
		ring_pair_fill(data, len, len);
		ck_assert_int_eq(ring_end_send(&r.a, data, len), 0);
		while (!ring_pair_step(&r, &r.b))
			;
		ck_assert_uint_eq(r.b.len, len);
		ck_assert(!memcmp(r.b.buf, data, len));
		ring_pair_step(&r, &r.a);
	}
	ck_assert_int_eq(ring_end_send(&r.a, data, RIPC__RING_SEND_MAX + 1), -EMSGSIZE);
	ring_pair_close(&r);
}
END_TEST

START_TEST(send__gathers)
{
	uint8_t data[3000];
	struct iovec iov[6] = {{data, 33},      {NULL, 0},       {data + 33, 100},
			       {data + 133, 1}, {data + 134, 0}, {data + 134, 0}};
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, RIPC__RING_CAP_ORDERED, test_seed());
	ring_pair_fill(data, sizeof(data), 1);
	for (size_t last = 0; last < 2500; last += 7) {
		iov[5].iov_len = last;
		ck_assert_int_eq(ripc__ring_send(&r.a.w, iov, 6, 134 + last, false), 0);
		ck_assert(ring_end_poll(&r.b));
		ck_assert_uint_eq(r.b.len, 134 + last);
		ck_assert(!memcmp(r.b.buf, data, 134 + last));
	}
	ring_pair_close(&r);
}
END_TEST

/* two: the shortest way first. */
static bool fast_recv(struct ripc__ring *w, uint8_t *room, size_t cap, uint32_t *got, bool two)
{
	int rc = two && cap >= 2 * RIPC__RING_SLOT_BODY ? ripc__ring_recv_fast(w, room, got) : -1;

	return rc < 0 ? ripc__ring_recv_slots(w, room, cap, got) : rc;
}

/* By the short way or the other one, sent and taken, in every combination of which the sizes allow. */
START_TEST(send_fast__every_size)
{
	static uint8_t data[RIPC__POST_HEADER_LEN + RIPC__RING_SEND_MAX],
		room[RIPC__RING_RECV_BUF_LEN + 64];
	const size_t caps[] = {
		0,    RIPC__RING_SLOT_BODY,   4 * RIPC__RING_SLOT_BODY, 8 * RIPC__RING_SLOT_BODY,
		1000, RIPC__RING_RECV_BUF_LEN};
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, RIPC__RING_CAP_ORDERED, test_seed());
	for (size_t len = 0; len <= RIPC__RING_SEND_MAX - RIPC__POST_HEADER_LEN;
	     len += len < 1000 ? 1 : 97) {
		for (unsigned i = 0; i < 2 * sizeof(caps) / sizeof(caps[0]); i++) {
			size_t all = RIPC__POST_HEADER_LEN + len, cap = caps[i / 2];
			uint8_t *payload = malloc(len ? len : 1);
			uint32_t got = UINT32_MAX;

			ck_assert_ptr_nonnull(payload);
			ring_pair_fill(data, all, len + i);
			/* Nothing behind it is read. */
			memcpy(payload, data + RIPC__POST_HEADER_LEN, len);
			if (i & 1)
				ck_assert_int_eq(ring_end_send(&r.a, data, all), 0);
			else
				ck_assert_int_eq(
					ripc__ring_send_fast(&r.a.w, data, payload, len, false), 0);
			free(payload);
			memset(room, 0xaa, sizeof(room));
			if (fast_recv(&r.b.w, room, cap, &got, len & 1)) {
				ck_assert_uint_le(got, cap);
				ck_assert_uint_eq(got, all);
				ck_assert(!memcmp(room, data, all));
				for (size_t k = cap; k < cap + 64; k++)
					ck_assert_uint_eq(room[k], 0xaa);
			} else {
				ck_assert_uint_gt(all, cap);
				ck_assert(ring_end_poll(&r.b));
				ck_assert_uint_eq(r.b.len, all);
				ck_assert(!memcmp(r.b.buf, data, all));
			}
			ck_assert(!fast_recv(&r.b.w, room, cap, &got, len & 1));
		}
	}
	ck_assert_int_lt(ripc__ring_send_fast(&r.a.w, data, data,
					      RIPC__RING_SEND_MAX - RIPC__POST_HEADER_LEN + 1, false),
			 0);
	ck_assert(!ring_end_poll(&r.b));
	ring_pair_close(&r);
}
END_TEST

/*
 * What the peer says of a message outside of the slots is not believed: it is left to the look that
 * reports it.
 */
START_TEST(recv_slots__bad_slot_words)
{
	static uint8_t data[RIPC__RING_SEND_MAX];
	uint8_t *slot;
	uint32_t len;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, RIPC__RING_CAP_ORDERED, test_seed());
	ring_pair_fill(data, sizeof(data), 1);
	ck_assert_int_eq(ring_end_send(&r.a, data, 1000), 0);
	ck_assert(ring_end_poll(&r.b));
	ck_assert_int_eq(
		ripc__ring_send_fast(&r.a.w, data, data + RIPC__POST_HEADER_LEN, 1000, false), 0);
	slot = r.b.inbox + RIPC__RING_SLOTS_OFF + RIPC__RING_SLOT_LEN;
	/* Longer than any. */
	ripc__put_le32(slot + 8, RIPC__RING_SEND_MAX + 1);
	ck_assert(!ripc__ring_recv_slots(&r.b.w, r.b.buf, SIZE_MAX, &len));
	/* Longer than the room. */
	ripc__put_le32(slot + 8, RIPC__POST_HEADER_LEN + 1000);
	ck_assert(!ripc__ring_recv_slots(&r.b.w, r.b.buf, RIPC__POST_HEADER_LEN + 999, &len));
	/* A body of another length than that of the length. */
	slot[4] = 3;
	ck_assert(!ripc__ring_recv_slots(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
	ck_assert(!ring_end_poll(&r.b));
	ck_assert_int_eq(r.b.w.status, -EPROTO);
	ring_pair_close(&r);

	/* What take() has left is still longer than any when the look comes to it. */
	ring_pair_open(&r, &layout_small, false, RIPC__RING_CAP_ORDERED, test_seed());
	ck_assert_int_eq(ring_end_send(&r.a, data, 1000), 0);
	ck_assert(ring_end_poll(&r.b));
	ck_assert_int_eq(
		ripc__ring_send_fast(&r.a.w, data, data + RIPC__POST_HEADER_LEN, 1000, false), 0);
	ripc__put_le32(r.b.inbox + RIPC__RING_SLOTS_OFF + RIPC__RING_SLOT_LEN + 8,
		       RIPC__RING_SEND_MAX + 1);
	ck_assert(!ripc__ring_recv_slots(&r.b.w, r.b.buf, SIZE_MAX, &len));
	ck_assert(!ring_end_poll(&r.b));
	ck_assert_int_eq(r.b.w.status, -EPROTO);
	ring_pair_close(&r);

	ring_pair_open(&r, &layout_small, false, RIPC__RING_CAP_ORDERED, test_seed());
	ck_assert_int_eq(ring_end_send(&r.a, data, 1000), 0);
	ck_assert(ring_end_poll(&r.b));
	ck_assert_int_eq(ring_end_send(&r.a, data, 1000), 0);
	ck_assert(ripc__ring_recv_slots(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
	ck_assert_uint_eq(len, 1000);
	ck_assert(!memcmp(r.b.buf, data, 1000));
	ring_pair_close(&r);
}
END_TEST

/* Where it cannot be done nothing is sent, and the other way is free. */
START_TEST(send_fast__unavailable)
{
	uint8_t data[100];
	unsigned sent = 0;
	uint32_t len;
	struct ring_pair r;

	ring_pair_fill(data, sizeof(data), 1);
	ring_pair_open(&r, &layout_small, true, 0, test_seed());
	ck_assert_int_lt(ripc__ring_send_fast(&r.a.w, data, data + 36, 64, false), 0);
	ck_assert_uint_eq(r.a.w.tx, 0);
	ring_pair_close(&r);

	ring_pair_open(&r, &layout_small, false, RIPC__RING_CAP_ORDERED, test_seed());
	while (!ripc__ring_send_fast(&r.a.w, data, data + 36, 64, false))
		sent++;
	ck_assert_uint_eq(sent, 32);
	ck_assert_int_eq(ring_end_send(&r.a, data, 100), -EAGAIN);
	/* Nothing is taken before the peer was heard, which is for the first look. */
	ck_assert(!ripc__ring_recv_slots(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
	ck_assert(ring_end_poll(&r.b));
	for (unsigned i = 1; i < sent; i++) {
		ck_assert(ripc__ring_recv_slots(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
		ck_assert_uint_eq(len, 100);
		ck_assert(!memcmp(r.b.buf, data, 100));
	}
	ring_end_poll(&r.a);
	ck_assert_uint_eq(r.a.sendables, 1);
	ck_assert_int_eq(ripc__ring_send_fast(&r.a.w, data, data + 36, 64, false), 0);
	/* Credit went back for what was taken, too. */
	ck_assert_uint_gt(r.a.w.tx_consumed, 0);
	ripc__ring_send_bye(&r.b.w);
	ring_end_poll(&r.a);
	ck_assert_int_lt(r.a.w.status, 0);
	ck_assert_int_lt(ripc__ring_send_fast(&r.a.w, data, data + 36, 64, false), 0);
	ring_pair_close(&r);
}
END_TEST

/* A request to be woken is answered by what take() found, too: the next sleep asks anew. */
START_TEST(recv_slots__disarms)
{
	uint8_t data[100] = {0};
	uint32_t len;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, RIPC__RING_CAP_ORDERED, test_seed());
	ck_assert_int_eq(ring_end_send(&r.a, data, 1), 0);
	ck_assert(ring_end_poll(&r.b));
	r.b.kicks = 0;
	ripc__ring_arm(&r.b.w);
	ck_assert(ripc__ring_idle(&r.b.w));
	ck_assert_int_eq(ripc__ring_send_fast(&r.a.w, data, data + 36, 64, false), 0);
	ck_assert_uint_eq(r.b.kicks, 1);
	ck_assert(!ripc__ring_idle(&r.b.w));
	ck_assert(ripc__ring_recv_slots(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
	ripc__ring_arm(&r.b.w);
	ck_assert(ripc__ring_idle(&r.b.w));
	ck_assert_int_eq(ripc__ring_send_fast(&r.a.w, data, data + 36, 64, false), 0);
	ck_assert_uint_eq(r.b.kicks, 2);
	ring_pair_close(&r);
}
END_TEST

/* The ring fills, the sender is told once when there is room, and nothing is lost. */
START_TEST(send__full)
{
	uint64_t sent = 0, got = 0;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, RIPC__RING_CAP_ORDERED, test_seed());
	for (int round = 0; round < 20; round++) {
		while (!ring_end_send(&r.a, &sent, sizeof(sent)))
			sent++;
		ck_assert_uint_eq(sent - got, 64);
		ck_assert(!ring_end_poll(&r.a));
		r.a.sendables = 0;
		while (got < sent)
			if (ring_pair_step(&r, &r.b)) {
				ck_assert(!memcmp(r.b.buf, &got, sizeof(got)));
				got++;
			}
		for (int i = 0; i < 2000; i++)
			ring_pair_step(&r, &r.a);
		ck_assert_uint_eq(r.a.sendables, 1);
		sent = got = 0;
		ring_pair_close(&r);
		ring_pair_open(&r, &layout_small, _i, RIPC__RING_CAP_ORDERED,
			       test_seed() + (uint64_t)round);
	}
	ring_pair_close(&r);
}
END_TEST

struct tally {
	uint64_t sent, got, wrong;
};

/*
 * Messages of random sizes in both directions until n have arrived, checked. Return: how many were
 * wrong.
 */
static uint64_t traffic(struct ring_pair *r, uint64_t n)
{
	static uint8_t data[RIPC__RING_SEND_MAX];
	struct tally ways[2] = {{0}};
	uint64_t rounds = 0;

	while (ways[0].got + ways[1].got < n && rounds++ < 100 * n + 100000) {
		unsigned what = (unsigned)test_random(&r->rng);
		struct ring_end *e = what & 1 ? &r->a : &r->b;
		struct tally *out = &ways[what & 1], *in = &ways[!(what & 1)];
		uint64_t v = test_random(&r->rng);
		size_t len = v % 16 < 12   ? v / 16 % 130
			     : v % 16 < 15 ? v / 16 % 1100
					   : v / 16 % 5000;

		if (r->a.w.status || r->b.w.status)
			return ways[0].wrong + ways[1].wrong + 1;
		ring_pair_step_links(r);
		if (what & 2) {
			ring_pair_fill(data, len, out->sent * 8 + (what & 1));
			if (!ring_end_send(e, data, len))
				out->sent++;
		} else if (ring_end_poll(e)) {
			if (!ring_pair_check(e->buf, e->len, in->got * 8 + !(what & 1)))
				in->wrong++;
			in->got++;
		}
	}
	if (ways[0].got + ways[1].got < n)
		ways[0].wrong++;
	return ways[0].wrong + ways[1].wrong;
}

START_TEST(send__checksummed)
{
	uint64_t n = test_number("RIPC_TEST_MESSAGES", 200000) / SEEDS;
	struct ring_pair r;

	ring_pair_open(&r, _i & 1 ? &layout_small : &layout_large, true, 0,
		       test_seed() + (uint64_t)_i);
	ck_assert_uint_eq(traffic(&r, n), 0);
	ck_assert_uint_gt(r.a.link.applied, n);
	ring_pair_close(&r);
}
END_TEST

/* The test above sees what goes wrong: without fences it does, nearly at once. */
START_TEST(send__without_fences)
{
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, true, 0, test_seed() + (uint64_t)_i);
	r.a.link.unfenced = r.b.link.unfenced = true;
	ck_assert_uint_gt(traffic(&r, 20000), 0);
	ring_pair_close(&r);
}
END_TEST

/* ---- the end ---- */

START_TEST(bye__last)
{
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, 0, test_seed());
	for (uint64_t i = 0; i < 10; i++)
		ring_end_progress(&r, &r.a, &i, sizeof(i));
	ripc__ring_send_bye(&r.a.w);
	for (uint64_t i = 0; i < 10; i++) {
		while (!ring_pair_step(&r, &r.b))
			;
		ck_assert(!memcmp(r.b.buf, &i, sizeof(i)));
	}
	ring_pair_drain(&r);
	ck_assert_int_eq(r.b.w.status, -ECONNRESET);
	ring_pair_close(&r);
}
END_TEST

/* The memory of an earlier epoch, and its writes that come late, mean nothing. */
START_TEST(epoch__stale)
{
	uint64_t got = 0;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, true, 0, test_seed());
	for (uint64_t i = 0; i < 40; i++)
		ring_end_progress(&r, &r.a, &i, sizeof(i));
	/* Some of these are still under way when both ends begin anew. */
	ripc__sim_ntb_step(&r.a.link, 150);
	ripc__ring_fini(&r.a.w);
	ripc__ring_fini(&r.b.w);
	ring_end_open(&r, &r.a, &r.b, 0, 2);
	ring_end_open(&r, &r.b, &r.a, 0, 2);
	for (uint64_t i = 100; i < 300; i++) {
		ring_end_progress(&r, &r.a, &i, sizeof(i));
		while (!ring_pair_step(&r, &r.b))
			;
		memcpy(&got, r.b.buf, sizeof(got));
		ck_assert_uint_eq(got, i);
	}
	ring_pair_close(&r);
}
END_TEST

START_TEST(sim_ntb__down)
{
	uint64_t i = 7;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, true, 0, test_seed());
	ring_pair_drain(&r);
	ripc__sim_ntb_set_down(&r.a.link, true);
	for (int k = 0; k < 64; k++)
		ck_assert_int_eq(ring_end_send(&r.a, &i, sizeof(i)), 0);
	ck_assert_int_eq(ring_end_send(&r.a, &i, sizeof(i)), -EAGAIN);
	ring_pair_drain(&r);
	ck_assert_uint_eq(r.b.nrecv, 0);
	ck_assert_int_eq(r.b.w.status, 0);
	ring_pair_close(&r);
}
END_TEST

/* ---- hostile peers ---- */

/*
 * Somebody scribbles over the whole segment: the engine may fail, and touches nothing that is not
 * its own.
 */
START_TEST(hostile__corrupt_segment)
{
	static uint8_t from[5000], to[5000];
	uint64_t rng = test_seed() + (uint64_t)_i;
	struct ripc__ring_region *region;
	struct ring_pair r;

	for (int round = 0; round < 300; round++) {
		struct ring_end *e = &r.b;

		ring_pair_open(&r, &layout_small, false, 0, rng);
		region = ripc__ring_reg(&r.b.w, from, sizeof(from), RING_STEP_ALL);
		ring_pair_drain(&r);
		for (int i = 0; i < 60 && !e->w.status; i++) {
			uint64_t what = test_random(&rng), at, v = test_random(&rng);

			if (what % 4 == 0)
				ring_end_send(e, from, v % 3000);
			else if (what % 4 == 1)
				ripc__ring_read(&e->w, to, 1 + v % 5000, 4096, 1 << 16, v);
			/* Mostly words that look right. */
			at = RIPC__RING_SLOTS_OFF + ((e->w.rx & e->w.mask) * RIPC__RING_SLOT_LEN);
			v = (uint32_t)(e->w.rx + 1) | (v & 63) << 32 | (1 + (v >> 8) % 9) << 48 |
			    UINT64_C(1) << 56;
			if (what % 8 == 2)
				v |= test_random(&rng) & 0xffff00000000;
			for (int k = 0; k < 56; k += 8) {
				uint64_t x = test_random(&rng);

				if (x % 3 == 0)
					x = region->key;
				else if (x % 3 == 1)
					x = x >> 3 & 0x1fff;
				memcpy(r.b.inbox + at + 8 + k, &x, 8);
			}
			memcpy(r.b.inbox + at, &v, 8);
			if (what % 16 == 3) {
				v = test_random(&rng);
				memcpy(r.b.inbox + RIPC__RING_CREDIT_OFF + 8 * (v & 1), &v, 8);
			}
			if (what % 5 == 4) {
				uint32_t len;

				if (ripc__ring_recv_slots(&e->w, e->buf, 4 * RIPC__RING_SLOT_BODY,
							  &len))
					ck_assert_uint_le(len, 4 * RIPC__RING_SLOT_BODY);
			}
			for (int k = 0; k < 3; k++)
				ring_end_poll(e);
			ripc__ring_arm(&e->w);
			ripc__ring_idle(&e->w);
		}
		ripc__ring_dereg(&r.b.w, region);
		ring_pair_close(&r);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ring/ring");
	TCase *c = tcase_create("engine");

	test_seed();
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, send__every_size, 0, 2);
	tcase_add_test(c, send__gathers);
	tcase_add_test(c, send_fast__every_size);
	tcase_add_test(c, send_fast__unavailable);
	tcase_add_test(c, recv_slots__bad_slot_words);
	tcase_add_test(c, recv_slots__disarms);
	tcase_add_loop_test(c, send__full, 0, 2);
	tcase_add_loop_test(c, send__checksummed, 0, SEEDS);
	tcase_add_loop_test(c, send__without_fences, 0, 5);
	tcase_add_loop_test(c, bye__last, 0, 2);
	tcase_add_test(c, epoch__stale);
	tcase_add_test(c, sim_ntb__down);
	tcase_add_loop_test(c, hostile__corrupt_segment, 0, 10);
	suite_add_tcase(s, c);
	return test_main("transport/ring/ring", s);
}
