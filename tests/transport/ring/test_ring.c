/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ring engine, over mapped memory and over the simulated link with many seeds.
 * RIPC_TEST_MESSAGES (200000) checksummed messages go through the link; RIPC_TEST_SEED is the first
 * seed.
 */
#include "ring_pair.h"

#include <stdio.h>

#define SEEDS 20

/* ---- sends ---- */

/* _i: 0 mapped, 1 linked; every size up to 4097, and around the powers of two. */
START_TEST(send__every_size)
{
	static uint8_t data[RIPC__RING_SEND_MAX];
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, false, test_seed());
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

	ring_pair_open(&r, &layout_small, false, false, test_seed());
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

/* Sends a header and a payload by the fast paths where they are open, as a transport does. */
static int post(struct ripc__ring *w, const uint8_t *head, size_t head_len, const uint8_t *payload,
		size_t len)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)head, head_len},
			       {(void *)(uintptr_t)payload, len}};
	int rc;

	if (ripc__ring_fits_fast(w, head_len + len))
		return ripc__ring_send_fast(w, head, head_len, payload, len, false);
	rc = ripc__ring_send_bulk(w, head, head_len, &iov[1], false);
	return rc == -EAGAIN ? ripc__ring_send(w, iov, 2, head_len + len, false) : rc;
}

/*
 * _i: bit 0: sends by the fast paths, bit 1: receives by them, wherever they are open; bit 2: to a
 * processor that is far away; the rest: which header.
 */
START_TEST(send_fast__every_size)
{
	static uint8_t data[RIPC__POST_HEADER_LEN + RIPC__RING_SEND_MAX],
		room[RIPC__RING_RECV_FAST_MAX + 64];
	static const uint8_t headers[] = {RIPC__POST_HEADER_LEN, RIPC__POST_SHORT_HEADER_LEN,
					  RIPC__POST_CALL_HEADER_LEN};
	const size_t head_len = headers[_i >> 3];
	unsigned sent_fast = 0, received_fast = 0, received_bulk = 0;
	struct ripc__event ev;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	ring_pair_fill(data, sizeof(data), 1);
	for (size_t all = head_len; all <= RIPC__RING_SEND_MAX; all += all < 1000 ? 1 : 97) {
		size_t len = all - head_len;
		uint8_t *payload = malloc(len ? len : 1);
		uint32_t got = UINT32_MAX;

		ck_assert_ptr_nonnull(payload);
		ripc__put_le64(data, len);
		/* A read beyond the payload is a read beyond the allocation. */
		memcpy(payload, data + head_len, len);
		sent_fast += _i & 1 && ripc__ring_fits_fast(&r.a.w, all);
		r.a.w.far_score = _i & 4 ? 3 : 0;
		if (_i & 1)
			ck_assert_int_eq(post(&r.a.w, data, head_len, payload, len), 0);
		else
			ck_assert_int_eq(ring_end_send(&r.a, data, all), 0);
		free(payload);
		memset(room, 0xaa, sizeof(room));
		if (_i & 2 && ripc__ring_recv_fast(&r.b.w, room, &got) > 0) {
			ck_assert_uint_eq(got, all);
			ck_assert_uint_le(got, RIPC__RING_RECV_FAST_MAX);
			ck_assert(!memcmp(room, data, all));
			for (size_t k = RIPC__RING_RECV_FAST_MAX; k < sizeof(room); k++)
				ck_assert_uint_eq(room[k], 0xaa);
			received_fast++;
		} else if (_i & 2 && ripc__ring_recv_bulk(&r.b.w, r.b.buf, &ev)) {
			ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
			ck_assert_uint_eq(ev.len, all);
			ck_assert(ev.data >= r.b.buf && ev.data + all <= r.b.buf + sizeof(r.b.buf));
			ck_assert(!memcmp(ev.data, data, all));
			received_bulk++;
		} else {
			ck_assert(ring_end_poll(&r.b));
			ck_assert_uint_eq(r.b.len, all);
			ck_assert(!memcmp(r.b.buf, data, all));
		}
		ck_assert_int_eq(ripc__ring_recv_fast(&r.b.w, room, &got), 0);
	}
	/* Each lap of the ring has one slow send, and each return of credit one slow receive. */
	ck_assert_uint_ge(sent_fast, _i & 1 ? 150 : 0);
	ck_assert_uint_ge(received_fast, _i & 2 ? 100 : 0);
	ck_assert_uint_ge(received_bulk, _i & 2 ? 700 : 0);
	ring_pair_close(&r);
}
END_TEST

/*
 * The slot word is the peer's: the fast path leaves a bad one to ripc__ring_poll(). _i: its fault.
 */
START_TEST(recv_fast__bad_slot_words)
{
	static uint8_t data[RIPC__RING_SEND_MAX], room[RIPC__RING_RECV_FAST_MAX];
	struct ripc__event ev;
	uint8_t *slot;
	uint32_t len;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	ring_pair_fill(data, sizeof(data), 1);
	ck_assert_int_eq(ring_end_send(&r.a, data, 100), 0);
	ck_assert(ring_end_poll(&r.b));
	slot = r.b.inbox + RIPC__RING_SLOTS_OFF + 2 * RIPC__RING_SLOT_LEN;
	memset(data, 0, 22);
	ck_assert_int_eq(ring_end_send(&r.a, data, _i < 2 ? 1000 : _i == 4 ? 22 : 100), 0);
	if (_i == 0)
		/* Longer than any message, in the bulk ring. */
		ripc__put_le32(slot + 8, RIPC__RING_SEND_MAX + 1);
	else if (_i == 1)
		/* A bulk message has a body of at least 4 bytes. */
		slot[4] = 3;
	else if (_i == 2)
		/* Longer than any message in slots. */
		ripc__put_le16(slot + 4, RIPC__RING_INLINE_MAX + 1);
	else if (_i == 3)
		/* No such kind. */
		slot[6] = 77;
	else
		/* A read of no bytes. */
		slot[6] = 4;
	ck_assert_int_lt(ripc__ring_recv_fast(&r.b.w, room, &len), 0);
	ck_assert(!ripc__ring_recv_bulk(&r.b.w, r.b.buf, &ev));
	ck_assert(!ring_end_poll(&r.b));
	ck_assert_int_eq(r.b.w.status, -EPROTO);
	ring_pair_close(&r);
}
END_TEST

/* The fast path is closed without plain stores, and while the ring may be full. */
START_TEST(send_fast__unavailable)
{
	uint8_t data[100], room[RIPC__RING_RECV_FAST_MAX];
	unsigned sent = 0;
	uint32_t len;
	struct ring_pair r;

	ring_pair_fill(data, sizeof(data), 1);
	ring_pair_open(&r, &layout_small, true, false, test_seed());
	ck_assert_int_eq(post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64), 0);
	ck_assert(!ripc__ring_fits_fast(&r.a.w, 100));
	ring_pair_close(&r);

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	while (!post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64))
		sent++;
	ck_assert_uint_eq(sent, 32);
	ck_assert_int_eq(post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64), -EAGAIN);
	/* The first pass checks the peer's hello; nothing is received before. */
	ck_assert_int_lt(ripc__ring_recv_fast(&r.b.w, room, &len), 0);
	ck_assert(ring_end_poll(&r.b));
	for (unsigned i = 1; i < sent; i++) {
		if (ripc__ring_recv_fast(&r.b.w, room, &len) > 0) {
			ck_assert_uint_eq(len, 100);
			ck_assert(!memcmp(room, data, 100));
		} else {
			ck_assert(ring_end_poll(&r.b));
		}
	}
	ring_end_poll(&r.a);
	ck_assert_uint_eq(r.a.sendables, 1);
	ck_assert_int_eq(post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64), 0);
	ck_assert(ripc__ring_fits_fast(&r.a.w, 100));
	ck_assert_uint_gt(r.a.w.tx_consumed, 0);
	ripc__ring_send_bye(&r.b.w);
	ring_end_poll(&r.a);
	ck_assert_int_lt(r.a.w.status, 0);
	ck_assert(!ripc__ring_fits_fast(&r.a.w, 100));
	ck_assert_int_eq(post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64), -ENOTCONN);
	ring_pair_close(&r);
}
END_TEST

/* The processors of one thread are near. A score of far is taken back after some rounds. */
START_TEST(claim__measures_the_distance)
{
	uint8_t data[100] = {0}, room[RIPC__RING_RECV_FAST_MAX];
	struct ring_pair r;
	uint32_t len;

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	r.a.w.far_score = 3;
	ck_assert(ripc__ring_is_far(&r.a.w));
	/* 40 measurements, of which some may be interrupted. */
	for (unsigned i = 0; i < 40 * 16 * 64 / 2; i++) {
		ck_assert_int_eq(post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64), 0);
		if (ripc__ring_recv_fast(&r.b.w, room, &len) <= 0)
			ck_assert(ring_end_poll(&r.b));
	}
	ck_assert(!ripc__ring_is_far(&r.a.w));
	ring_pair_close(&r);
}
END_TEST

/* A request to be woken is answered once, also when the fast path receives the message. */
START_TEST(recv_fast__disarms)
{
	uint8_t data[100] = {0}, room[RIPC__RING_RECV_FAST_MAX];
	uint32_t len;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	ck_assert_int_eq(ring_end_send(&r.a, data, 1), 0);
	ck_assert(ring_end_poll(&r.b));
	r.b.kicks = 0;
	ripc__ring_arm(&r.b.w);
	ck_assert(ripc__ring_idle(&r.b.w));
	ck_assert_int_eq(post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64), 0);
	ck_assert_uint_eq(r.b.kicks, 1);
	ck_assert(!ripc__ring_idle(&r.b.w));
	ck_assert_int_gt(ripc__ring_recv_fast(&r.b.w, room, &len), 0);
	ripc__ring_arm(&r.b.w);
	ck_assert(ripc__ring_idle(&r.b.w));
	ck_assert_int_eq(post(&r.a.w, data, RIPC__POST_HEADER_LEN, data + 36, 64), 0);
	ck_assert_uint_eq(r.b.kicks, 2);
	ring_pair_close(&r);
}
END_TEST

/* The ring fills, one event reports that there is room again, and nothing is lost. */
START_TEST(send__full)
{
	uint64_t sent = 0, got = 0;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, false, test_seed());
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
		ring_pair_open(&r, &layout_small, _i, false, test_seed() + (uint64_t)round);
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
	struct tally tallies[2] = {{0}};
	uint64_t rounds = 0;

	while (tallies[0].got + tallies[1].got < n && rounds++ < 100 * n + 100000) {
		unsigned what = (unsigned)test_random(&r->rng);
		struct ring_end *e = what & 1 ? &r->a : &r->b;
		struct tally *out = &tallies[what & 1], *in = &tallies[!(what & 1)];
		uint64_t v = test_random(&r->rng);
		size_t len = v % 16 < 12   ? v / 16 % 130
			     : v % 16 < 15 ? v / 16 % 1100
					   : v / 16 % 5000;

		if (r->a.w.status || r->b.w.status)
			return tallies[0].wrong + tallies[1].wrong + 1;
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
	if (tallies[0].got + tallies[1].got < n)
		tallies[0].wrong++;
	return tallies[0].wrong + tallies[1].wrong;
}

START_TEST(send__checksummed)
{
	uint64_t n = test_number("RIPC_TEST_MESSAGES", 200000) / SEEDS;
	struct ring_pair r;

	ring_pair_open(&r, _i & 1 ? &layout_small : &layout_large, true, false,
		       test_seed() + (uint64_t)_i);
	ck_assert_uint_eq(traffic(&r, n), 0);
	ck_assert_uint_gt(r.a.link.applied, n);
	ring_pair_close(&r);
}
END_TEST

/* The test above notices errors: without fences it fails nearly at once. */
START_TEST(send__without_fences)
{
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, true, false, test_seed() + (uint64_t)_i);
	r.a.link.unfenced = r.b.link.unfenced = true;
	ck_assert_uint_gt(traffic(&r, 20000), 0);
	ring_pair_close(&r);
}
END_TEST

/* ---- the end ---- */

START_TEST(bye__last)
{
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, false, test_seed());
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

/* The memory of an earlier epoch, and its late writes, have no effect. */
START_TEST(epoch__stale)
{
	uint64_t got = 0;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, true, false, test_seed());
	for (uint64_t i = 0; i < 40; i++)
		ring_end_progress(&r, &r.a, &i, sizeof(i));
	/* Some of these are still in flight when both ends start again. */
	ripc__sim_ntb_step(&r.a.link, 150);
	ripc__ring_fini(&r.a.w);
	ripc__ring_fini(&r.b.w);
	ring_end_open(&r, &r.a, &r.b, false, 2);
	ring_end_open(&r, &r.b, &r.a, false, 2);
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

	ring_pair_open(&r, &layout_small, true, false, test_seed());
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

/* A peer writes at random into the whole segment: the engine may fail, and changes nothing else. */
START_TEST(hostile__corrupt_segment)
{
	static uint8_t from[5000], to[5000];
	uint64_t rng = test_seed() + (uint64_t)_i;
	struct ripc__ring_region *region;
	struct ring_pair r;

	for (int round = 0; round < 300; round++) {
		struct ring_end *e = &r.b;

		ring_pair_open(&r, &layout_small, false, false, rng);
		region = ripc__ring_reg(&r.b.w, from, sizeof(from), RING_STEP_ALL);
		ring_pair_drain(&r);
		for (int i = 0; i < 60 && !e->w.status; i++) {
			uint64_t what = test_random(&rng), at, v = test_random(&rng);

			if (what % 4 == 0)
				ring_end_send(e, from, v % 3000);
			else if (what % 4 == 1)
				ripc__ring_read(&e->w, to, 1 + v % 5000, 4096, 1 << 16, v);
			/* Most of the words look valid. */
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

				struct ripc__event ev;

				if (ripc__ring_recv_fast(&e->w, e->buf, &len) > 0)
					ck_assert_uint_le(len, RIPC__RING_RECV_FAST_MAX);
				if (ripc__ring_recv_bulk(&e->w, e->buf, &ev))
					ck_assert_uint_le(ev.len, RIPC__RING_SEND_MAX);
			}
			for (int k = 0; k < 3; k++)
				ring_end_poll(e);
			ripc__ring_arm(&e->w);
			ripc__ring_idle(&e->w);
		}
		ripc__ring_dereg(region);
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
	tcase_add_loop_test(c, send_fast__every_size, 0, 24);
	tcase_add_test(c, send_fast__unavailable);
	tcase_add_loop_test(c, recv_fast__bad_slot_words, 0, 5);
	tcase_add_test(c, claim__measures_the_distance);
	tcase_add_test(c, recv_fast__disarms);
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
