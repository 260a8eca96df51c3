/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The window engine, over mapped memory and over the simulated link with many seeds. RIPC_TEST_MESSAGES (200000) messages go through the
 * link in checksummed; RIPC_TEST_SEED names the first seed.
 */
#include "rig.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/uio.h>

#define SEEDS 20

static unsigned long wanted(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 0) : otherwise;
}

/* Until both sides have nothing left to do. */
static void settle(struct rig *r)
{
	for (unsigned idle = 0; idle < 50; idle++) {
		bool a, b;

		rig_move(r);
		a = rig_next(&r->a);
		b = rig_next(&r->b);
		if (a || b || (r->linked && (r->a.link.count || r->b.link.count)))
			idle = 0;
	}
}

/* A round of both ends, with what it must not find. */
static bool step(struct rig *r, struct rig_end *e)
{
	rig_move(r);
	ck_assert_msg(!r->a.w.status, "%s", r->a.w.why);
	ck_assert_msg(!r->b.w.status, "%s", r->b.w.why);
	return rig_next(e);
}

static void push(struct rig *r, struct rig_end *from, const void *p, size_t len)
{
	struct rig_end *to = from == &r->a ? &r->b : &r->a;
	int rc;

	while ((rc = rig_send(from, p, len)) == -EAGAIN) {
		step(r, from);
		ck_assert(!step(r, to));
	}
	ck_assert_int_eq(rc, 0);
}

/* ---- sends ---- */

/* _i: 0 mapped, 1 linked; every size up to a page and a bit, and around the powers of two. */
START_TEST(send__every_size)
{
	static uint8_t data[RIPC__WIN_SEND_MAX];
	struct rig r;

	rig_open(&r, &rig_small, _i, RIPC__WIN_ORDERED, test_seed());
	for (size_t len = 0; len <= RIPC__WIN_SEND_MAX; len++) {
		if (len > 4097 && (len & (len - 1)) && ((len + 1) & len) && ((len - 1) & (len - 2)))
			continue;
		rig_fill(data, len, len);
		ck_assert_int_eq(rig_send(&r.a, data, len), 0);
		while (!step(&r, &r.b))
			;
		ck_assert_uint_eq(r.b.len, len);
		ck_assert(!memcmp(r.b.buf, data, len));
		step(&r, &r.a);
	}
	ck_assert_int_eq(rig_send(&r.a, data, RIPC__WIN_SEND_MAX + 1), -EMSGSIZE);
	rig_close(&r);
}
END_TEST

START_TEST(send__gathers)
{
	uint8_t data[3000];
	struct iovec iov[6] = {{data, 33},      {NULL, 0},       {data + 33, 100},
			       {data + 133, 1}, {data + 134, 0}, {data + 134, 0}};
	struct rig r;

	rig_open(&r, &rig_small, false, RIPC__WIN_ORDERED, test_seed());
	rig_fill(data, sizeof(data), 1);
	for (size_t last = 0; last < 2500; last += 7) {
		iov[5].iov_len = last;
		ck_assert_int_eq(ripc__win_send(&r.a.w, iov, 6, 134 + last, false), 0);
		ck_assert(rig_next(&r.b));
		ck_assert_uint_eq(r.b.len, 134 + last);
		ck_assert(!memcmp(r.b.buf, data, 134 + last));
	}
	rig_close(&r);
}
END_TEST

/* two: the shortest way first. */
static bool plain_take(struct ripc__win *w, uint8_t *room, size_t cap, uint32_t *got, bool two)
{
	int rc = two && cap >= 2 * RIPC__WIN_BODY ? ripc__win_take_two(w, room, got) : -1;

	return rc < 0 ? ripc__win_take(w, room, cap, got) : rc;
}

/* By the short way or the other one, sent and taken, in every combination of which the sizes allow. */
START_TEST(plain__every_size)
{
	static uint8_t data[RIPC__HEAD_LEN + RIPC__WIN_SEND_MAX], room[8 * RIPC__WIN_BODY + 64];
	const size_t caps[] = {0, RIPC__WIN_BODY, 4 * RIPC__WIN_BODY, 8 * RIPC__WIN_BODY};
	struct rig r;

	rig_open(&r, &rig_small, false, RIPC__WIN_ORDERED, test_seed());
	for (size_t len = 0; len <= RIPC__WIN_SEND_MAX - RIPC__HEAD_LEN; len += len < 1000 ? 1 : 97) {
		for (unsigned i = 0; i < 2 * sizeof(caps) / sizeof(caps[0]); i++) {
			size_t all = RIPC__HEAD_LEN + len, cap = caps[i / 2];
			uint8_t *payload = malloc(len ? len : 1);
			uint32_t got = UINT32_MAX;

			ck_assert_ptr_nonnull(payload);
			rig_fill(data, all, len + i);
			/* Nothing behind it is read. */
			memcpy(payload, data + RIPC__HEAD_LEN, len);
			if (i & 1)
				ck_assert_int_eq(rig_send(&r.a, data, all), 0);
			else
				ck_assert_int_eq(
					ripc__win_send_plain(&r.a.w, data, payload, len, false), 0);
			free(payload);
			memset(room, 0xaa, sizeof(room));
			if (plain_take(&r.b.w, room, cap, &got, len & 1)) {
				ck_assert_uint_le(got, cap);
				ck_assert_uint_eq(got, all);
				ck_assert(!memcmp(room, data, all));
				for (size_t k = cap; k < sizeof(room); k++)
					ck_assert_uint_eq(room[k], 0xaa);
			} else {
				ck_assert(all > RIPC__WIN_INLINE_MAX || all > cap);
				ck_assert(rig_next(&r.b));
				ck_assert_uint_eq(r.b.len, all);
				ck_assert(!memcmp(r.b.buf, data, all));
			}
			ck_assert(!plain_take(&r.b.w, room, cap, &got, len & 1));
		}
	}
	ck_assert_int_lt(ripc__win_send_plain(&r.a.w, data, data,
					      RIPC__WIN_SEND_MAX - RIPC__HEAD_LEN + 1, false),
			 0);
	ck_assert(!rig_next(&r.b));
	rig_close(&r);
}
END_TEST

/* Where it cannot be done nothing is sent, and the other way is free. */
START_TEST(plain__not_here)
{
	uint8_t data[100];
	unsigned sent = 0;
	uint32_t len;
	struct rig r;

	rig_fill(data, sizeof(data), 1);
	rig_open(&r, &rig_small, true, 0, test_seed());
	ck_assert_int_lt(ripc__win_send_plain(&r.a.w, data, data + 36, 64, false), 0);
	ck_assert_uint_eq(r.a.w.tx, 0);
	rig_close(&r);

	rig_open(&r, &rig_small, false, RIPC__WIN_ORDERED, test_seed());
	while (!ripc__win_send_plain(&r.a.w, data, data + 36, 64, false))
		sent++;
	ck_assert_uint_eq(sent, 32);
	ck_assert_int_eq(rig_send(&r.a, data, 100), -EAGAIN);
	/* Nothing is taken before the peer was heard, which is for the first look. */
	ck_assert(!ripc__win_take(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
	ck_assert(rig_next(&r.b));
	for (unsigned i = 1; i < sent; i++) {
		ck_assert(ripc__win_take(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
		ck_assert_uint_eq(len, 100);
		ck_assert(!memcmp(r.b.buf, data, 100));
	}
	rig_next(&r.a);
	ck_assert_uint_eq(r.a.sendables, 1);
	ck_assert_int_eq(ripc__win_send_plain(&r.a.w, data, data + 36, 64, false), 0);
	/* Credit went back for what was taken, too. */
	ck_assert_uint_gt(r.a.w.tx_taken, 0);
	ripc__win_bye(&r.b.w);
	rig_next(&r.a);
	ck_assert_int_lt(r.a.w.status, 0);
	ck_assert_int_lt(ripc__win_send_plain(&r.a.w, data, data + 36, 64, false), 0);
	rig_close(&r);
}
END_TEST

/* A request to be woken is answered by what take() found, too: the next sleep asks anew. */
START_TEST(take__ends_the_request)
{
	uint8_t data[100] = {0};
	uint32_t len;
	struct rig r;

	rig_open(&r, &rig_small, false, RIPC__WIN_ORDERED, test_seed());
	ck_assert_int_eq(rig_send(&r.a, data, 1), 0);
	ck_assert(rig_next(&r.b));
	r.b.kicks = 0;
	ripc__win_arm(&r.b.w);
	ck_assert(ripc__win_quiet(&r.b.w));
	ck_assert_int_eq(ripc__win_send_plain(&r.a.w, data, data + 36, 64, false), 0);
	ck_assert_uint_eq(r.b.kicks, 1);
	ck_assert(!ripc__win_quiet(&r.b.w));
	ck_assert(ripc__win_take(&r.b.w, r.b.buf, sizeof(r.b.buf), &len));
	ripc__win_arm(&r.b.w);
	ck_assert(ripc__win_quiet(&r.b.w));
	ck_assert_int_eq(ripc__win_send_plain(&r.a.w, data, data + 36, 64, false), 0);
	ck_assert_uint_eq(r.b.kicks, 2);
	rig_close(&r);
}
END_TEST

/* The ring fills, the sender is told once when there is room, and nothing is lost. */
START_TEST(send__full)
{
	uint64_t sent = 0, got = 0;
	struct rig r;

	rig_open(&r, &rig_small, _i, RIPC__WIN_ORDERED, test_seed());
	for (int round = 0; round < 20; round++) {
		while (!rig_send(&r.a, &sent, sizeof(sent)))
			sent++;
		ck_assert_uint_eq(sent - got, 64);
		ck_assert(!rig_next(&r.a));
		r.a.sendables = 0;
		while (got < sent)
			if (step(&r, &r.b)) {
				ck_assert(!memcmp(r.b.buf, &got, sizeof(got)));
				got++;
			}
		for (int i = 0; i < 2000; i++)
			step(&r, &r.a);
		ck_assert_uint_eq(r.a.sendables, 1);
		sent = got = 0;
		rig_close(&r);
		rig_open(&r, &rig_small, _i, RIPC__WIN_ORDERED, test_seed() + (uint64_t)round);
	}
	rig_close(&r);
}
END_TEST

struct tally {
	uint64_t sent, got, wrong;
};

/* Messages of random sizes in both directions until n have arrived, checked. Return: how many were wrong. */
static uint64_t traffic(struct rig *r, uint64_t n)
{
	static uint8_t data[RIPC__WIN_SEND_MAX];
	struct tally ways[2] = {{0}};
	uint64_t rounds = 0;

	while (ways[0].got + ways[1].got < n && rounds++ < 100 * n + 100000) {
		unsigned what = (unsigned)test_random(&r->rng);
		struct rig_end *e = what & 1 ? &r->a : &r->b;
		struct tally *out = &ways[what & 1], *in = &ways[!(what & 1)];
		uint64_t v = test_random(&r->rng);
		size_t len = v % 16 < 12   ? v / 16 % 130
			     : v % 16 < 15 ? v / 16 % 1100
					   : v / 16 % 5000;

		if (r->a.w.status || r->b.w.status)
			return ways[0].wrong + ways[1].wrong + 1;
		rig_move(r);
		if (what & 2) {
			rig_fill(data, len, out->sent * 8 + (what & 1));
			if (!rig_send(e, data, len))
				out->sent++;
		} else if (rig_next(e)) {
			if (!rig_same(e->buf, e->len, in->got * 8 + !(what & 1)))
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
	uint64_t n = wanted("RIPC_TEST_MESSAGES", 200000) / SEEDS;
	struct rig r;

	rig_open(&r, _i & 1 ? &rig_small : &rig_large, true, 0, test_seed() + (uint64_t)_i);
	ck_assert_uint_eq(traffic(&r, n), 0);
	ck_assert_uint_gt(r.a.link.applied, n);
	rig_close(&r);
}
END_TEST

/* The test above sees what goes wrong: without fences it does, nearly at once. */
START_TEST(send__without_fences)
{
	struct rig r;

	rig_open(&r, &rig_small, true, 0, test_seed() + (uint64_t)_i);
	r.a.link.unfenced = r.b.link.unfenced = true;
	ck_assert_uint_gt(traffic(&r, 20000), 0);
	rig_close(&r);
}
END_TEST

/* ---- reads and writes ---- */

static void read_all(struct rig *r, size_t len)
{
	uint8_t *from = malloc(len + 1), *to = malloc(len + 1);
	struct ripc__win_region *region;

	rig_fill(from, len, len);
	memset(to, 0, len + 1);
	region = ripc__win_expose(&r->b.w, from, len, RIPC__ACCESS_REMOTE_READ);
	ck_assert_ptr_nonnull(region);
	r->a.nread = 0;
	/* The key is told by a send, as it is in life: a direct reader needs what was written before that. */
	push(r, &r->b, &region->key, 4);
	while (!step(r, &r->a))
		;
	ck_assert_int_eq(ripc__win_read(&r->a.w, to, len, region->addr, region->key, len), 0);
	while (!r->a.nread) {
		step(r, &r->a);
		step(r, &r->b);
	}
	ck_assert_int_eq(r->a.read_status, 0);
	ck_assert_uint_eq(r->a.last_wr_id, len);
	ck_assert(!memcmp(from, to, len));
	ck_assert_uint_eq(to[len], 0);
	ripc__win_conceal(&r->b.w, region);
	free(from);
	free(to);
}

/* _i: 0 served over memory, 1 served over the link, 2 direct. */
START_TEST(read__every_size)
{
	static const size_t lens[] = {0,     1,      55,     56,      57,     4095,
				      4096,  4097,   16383,  16385,   32767,  32768,
				      65535, 262143, 262145, 1000003, 8388609};
	struct rig r;

	rig_open(&r, &rig_small, _i == 1, _i == 2 ? RIPC__WIN_ORDERED | RIPC__WIN_READ : 0,
		 test_seed());
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]) - (_i == 1); i++)
		read_all(&r, lens[i]);
	rig_close(&r);
}
END_TEST

/* _i: 0 served, 1 direct. */
START_TEST(read__not_allowed)
{
	static uint8_t from[1000], to[1000];
	struct ripc__win_region *region;
	struct rig r;

	rig_open(&r, &rig_small, false, _i ? RIPC__WIN_ORDERED | RIPC__WIN_READ : 0, test_seed());
	region = ripc__win_expose(&r.b.w, from, sizeof(from), RIPC__ACCESS_REMOTE_READ);
	for (int k = 0; k < 5; k++) {
		uint64_t addr = region->addr + (k == 0) - (k == 1), len = sizeof(to) + (k == 2);
		uint32_t key = region->key + (k == 3) + 0x10000u * (k == 4);

		/* Directly, the addresses are the peer's own affair: only keys can be wrong. */
		if (_i && k < 3)
			continue;
		r.a.nread = 0;
		ck_assert_int_eq(ripc__win_read(&r.a.w, to, len, addr, key, 7), 0);
		while (!r.a.nread) {
			rig_next(&r.a);
			rig_next(&r.b);
		}
		ck_assert_int_eq(r.a.read_status, -EACCES);
		ck_assert_int_eq(r.a.w.status, 0);
	}
	ripc__win_conceal(&r.b.w, region);
	/* Memory for writing is not for reading. */
	region = ripc__win_expose(&r.b.w, from, sizeof(from), RIPC__ACCESS_REMOTE_WRITE);
	r.a.nread = 0;
	ck_assert_int_eq(ripc__win_read(&r.a.w, to, 10, region->addr, region->key, 7), 0);
	while (!r.a.nread) {
		rig_next(&r.a);
		rig_next(&r.b);
	}
	ck_assert_int_eq(r.a.read_status, -EACCES);
	ripc__win_conceal(&r.b.w, region);
	rig_close(&r);
}
END_TEST

/* Memory that is concealed in the middle of a read is not read on, and the read does not succeed. */
START_TEST(read__concealed)
{
	size_t len = 4u << 20;
	uint8_t *from = calloc(1, len), *to = malloc(len);
	struct ripc__win_region *region;
	struct rig r;

	rig_open(&r, &rig_small, false, _i ? RIPC__WIN_ORDERED | RIPC__WIN_READ : 0, test_seed());
	region = ripc__win_expose(&r.b.w, from, len, RIPC__ACCESS_REMOTE_READ);
	ck_assert_int_eq(ripc__win_read(&r.a.w, to, len, region->addr, region->key, 7), 0);
	for (int i = 0; i < 4; i++) {
		rig_next(&r.a);
		rig_next(&r.b);
	}
	ck_assert_uint_eq(r.a.nread, 0);
	ripc__win_conceal(&r.b.w, region);
	memset(from, 1, len);
	while (!r.a.nread) {
		rig_next(&r.a);
		rig_next(&r.b);
	}
	ck_assert_int_eq(r.a.read_status, -EACCES);
	rig_close(&r);
	free(from);
	free(to);
}
END_TEST

/* As many reads as may be, and one more. */
START_TEST(read__queue)
{
	static uint8_t from[RIPC__WIN_READS_MAX][50000], to[RIPC__WIN_READS_MAX][50000];
	struct ripc__win_region *region[RIPC__WIN_READS_MAX];
	struct rig r;

	rig_open(&r, &rig_small, _i == 1, _i == 2 ? RIPC__WIN_ORDERED | RIPC__WIN_READ : 0,
		 test_seed());
	for (unsigned i = 0; i < RIPC__WIN_READS_MAX; i++) {
		rig_fill(from[i], sizeof(from[i]), i);
		region[i] =
			ripc__win_expose(&r.b.w, from[i], sizeof(from[i]), RIPC__ACCESS_REMOTE_READ);
		ck_assert_int_eq(ripc__win_read(&r.a.w, to[i], sizeof(to[i]), region[i]->addr,
						region[i]->key, i),
				 0);
	}
	ck_assert_int_eq(ripc__win_read(&r.a.w, to[0], 1, region[0]->addr, region[0]->key, 0),
			 -EAGAIN);
	while (r.a.nread < RIPC__WIN_READS_MAX || !r.a.sendables) {
		step(&r, &r.a);
		step(&r, &r.b);
	}
	ck_assert(!memcmp(from, to, sizeof(from)));
	ck_assert_uint_eq(r.a.sendables, 1);
	for (unsigned i = 0; i < RIPC__WIN_READS_MAX; i++)
		ripc__win_conceal(&r.b.w, region[i]);
	rig_close(&r);
}
END_TEST

/* A send arrives behind the write before it, whatever the link does. */
START_TEST(write__before_send)
{
	static uint8_t from[300000], to[300000];
	struct ripc__win_region *region;
	struct rig r;

	rig_open(&r, &rig_small, _i, 0, test_seed());
	region = ripc__win_expose(&r.b.w, to, sizeof(to), RIPC__ACCESS_REMOTE_WRITE);
	for (uint64_t round = 1; round < 12; round++) {
		size_t len = sizeof(from) >> (round - 1);

		rig_fill(from, len, round);
		ck_assert_int_eq(
			ripc__win_write(&r.a.w, from, len, region->addr, region->key, round), 0);
		push(&r, &r.a, &round, sizeof(round));
		while (!step(&r, &r.b))
			step(&r, &r.a);
		ck_assert(rig_same(to, len, round));
		while (r.a.last_wr_id != round)
			step(&r, &r.a);
		settle(&r);
	}
	ck_assert_uint_eq(r.a.nwrite, 11);
	ripc__win_conceal(&r.b.w, region);
	rig_close(&r);
}
END_TEST

START_TEST(write__not_allowed)
{
	static uint8_t from[100], to[100];
	struct ripc__win_region *region;
	struct rig r;

	rig_open(&r, &rig_small, false, 0, test_seed());
	region = ripc__win_expose(&r.b.w, to, sizeof(to), _i ? RIPC__ACCESS_REMOTE_READ : RIG_ALL);
	ripc__win_write(&r.a.w, from, sizeof(from), region->addr + !_i, region->key, 1);
	settle(&r);
	ck_assert_int_eq(r.b.w.status, -EACCES);
	ck_assert_int_eq(r.a.w.status, 0);
	ck_assert_int_eq(ripc__win_send(&r.b.w, NULL, 0, 0, false), -ENOTCONN);
	ripc__win_conceal(&r.b.w, region);
	rig_close(&r);
}
END_TEST

/* Regions outlive their connection, and more of them than can be read directly work. */
START_TEST(expose__many)
{
	static struct ripc__win_region *region[RIPC__WIN_VALID_MAX + 100];
	static uint8_t from[RIPC__WIN_VALID_MAX + 100];
	struct rig r;

	rig_open(&r, &rig_small, false, RIPC__WIN_ORDERED | RIPC__WIN_READ, test_seed());
	for (unsigned i = 0; i < RIPC__WIN_VALID_MAX + 100; i++) {
		from[i] = (uint8_t)(i * 7);
		region[i] = ripc__win_expose(&r.b.w, from + i, 1, RIPC__ACCESS_REMOTE_READ);
		ck_assert_ptr_nonnull(region[i]);
	}
	for (unsigned i = 0; i < RIPC__WIN_VALID_MAX + 100; i++) {
		uint8_t to = 0;

		ck_assert_int_eq(ripc__win_read(&r.a.w, &to, 1, region[i]->addr, region[i]->key, i),
				 0);
		while (r.a.nread <= i) {
			rig_next(&r.a);
			rig_next(&r.b);
		}
		ck_assert_int_eq(r.a.read_status, 0);
		ck_assert_uint_eq(to, from[i]);
	}
	rig_close(&r);
	for (unsigned i = 0; i < RIPC__WIN_VALID_MAX + 100; i++)
		ripc__win_conceal(&r.b.w, region[i]);
}
END_TEST

/* ---- the end ---- */

START_TEST(bye__last)
{
	struct rig r;

	rig_open(&r, &rig_small, _i, 0, test_seed());
	for (uint64_t i = 0; i < 10; i++)
		push(&r, &r.a, &i, sizeof(i));
	ripc__win_bye(&r.a.w);
	for (uint64_t i = 0; i < 10; i++) {
		while (!step(&r, &r.b))
			;
		ck_assert(!memcmp(r.b.buf, &i, sizeof(i)));
	}
	settle(&r);
	ck_assert_int_eq(r.b.w.status, -ECONNRESET);
	rig_close(&r);
}
END_TEST

/* The memory of an earlier epoch, and its writes that come late, mean nothing. */
START_TEST(epoch__stale)
{
	uint64_t got = 0;
	struct rig r;

	rig_open(&r, &rig_small, true, 0, test_seed());
	for (uint64_t i = 0; i < 40; i++)
		push(&r, &r.a, &i, sizeof(i));
	/* Some of these are still under way when both ends begin anew. */
	ripc__link_step(&r.a.link, 150);
	ripc__win_fini(&r.a.w);
	ripc__win_fini(&r.b.w);
	rig_end_open(&r, &r.a, &r.b, 0, 2);
	rig_end_open(&r, &r.b, &r.a, 0, 2);
	for (uint64_t i = 100; i < 300; i++) {
		push(&r, &r.a, &i, sizeof(i));
		while (!step(&r, &r.b))
			;
		memcpy(&got, r.b.buf, sizeof(got));
		ck_assert_uint_eq(got, i);
	}
	rig_close(&r);
}
END_TEST

START_TEST(link__down)
{
	uint64_t i = 7;
	struct rig r;

	rig_open(&r, &rig_small, true, 0, test_seed());
	settle(&r);
	ripc__link_down(&r.a.link, true);
	for (int k = 0; k < 64; k++)
		ck_assert_int_eq(rig_send(&r.a, &i, sizeof(i)), 0);
	ck_assert_int_eq(rig_send(&r.a, &i, sizeof(i)), -EAGAIN);
	settle(&r);
	ck_assert_uint_eq(r.b.nrecv, 0);
	ck_assert_int_eq(r.b.w.status, 0);
	rig_close(&r);
}
END_TEST

/* ---- sleeping ---- */

/* A kick answers each request once, and only what was asked for. */
START_TEST(arm__once)
{
	uint64_t i = 7;
	struct rig r;

	rig_open(&r, &rig_small, false, RIPC__WIN_ORDERED, test_seed());
	settle(&r);
	r.b.kicks = 0;
	push(&r, &r.a, &i, sizeof(i));
	ck_assert_uint_eq(r.b.kicks, 0);
	ck_assert(!ripc__win_quiet(&r.b.w));
	ck_assert(rig_next(&r.b));
	ck_assert(ripc__win_quiet(&r.b.w));
	ripc__win_arm(&r.b.w);
	push(&r, &r.a, &i, sizeof(i));
	push(&r, &r.a, &i, sizeof(i));
	ck_assert_uint_eq(r.b.kicks, 1);
	ck_assert(rig_next(&r.b));
	ck_assert(rig_next(&r.b));
	ripc__win_arm(&r.b.w);
	/* Standing: nothing is written for the second. */
	i = r.b.w.arm;
	ripc__win_arm(&r.b.w);
	ck_assert_uint_eq(r.b.w.arm, i);
	push(&r, &r.a, &i, sizeof(i));
	ck_assert_uint_eq(r.b.kicks, 2);
	/* Credit wakes whoever waits for room, and nobody else. */
	ripc__win_arm(&r.a.w);
	while (rig_next(&r.b))
		;
	r.a.kicks = 0;
	while (!rig_send(&r.a, &i, sizeof(i)))
		;
	ck_assert(ripc__win_quiet(&r.a.w));
	ripc__win_arm(&r.a.w);
	while (rig_next(&r.b))
		;
	ck_assert_uint_eq(r.a.kicks, 1);
	ck_assert(!ripc__win_quiet(&r.a.w));
	rig_close(&r);
}
END_TEST

struct sleeper {
	struct ripc__win w;
	struct sleeper *peer;
	sem_t bell;
	uint8_t *inbox;
	uint64_t rounds;
	atomic_bool *stop;
	uint64_t slept;
};

static void ring(void *arg)
{
	struct sleeper *to = arg;

	sem_post(&to->bell);
}

static const struct ripc__win_ops bell_ops = {.kick = ring};

/* Sends back what comes; before it waits it sleeps, and wakes only by the bell. */
static void *sleeper_main(void *arg)
{
	struct sleeper *s = arg;
	uint8_t buf[RIPC__WIN_BUF];
	struct ripc__win_event ev;

	for (uint64_t i = 0; i < s->rounds; i++) {
		struct iovec iov = {&i, sizeof(i)};

		while (!ripc__win_next(&s->w, buf, &ev)) {
			struct timespec ts;

			ripc__win_arm(&s->w);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (!ripc__win_quiet(&s->w))
				continue;
			clock_gettime(CLOCK_REALTIME, &ts);
			ts.tv_sec += 60;
			s->slept++;
			if (sem_timedwait(&s->bell, &ts)) {
				*s->stop = true;
				return NULL;
			}
			ripc__win_kicked(&s->w);
		}
		ripc__win_send(&s->w, &iov, 1, sizeof(i), false);
	}
	return NULL;
}

/* Two threads that sleep whenever there is nothing, RIPC_TEST_CYCLES (100000) times: no kick is ever missed. */
START_TEST(arm__no_kick_lost)
{
	static struct sleeper s[2];
	struct rig r;
	atomic_bool stop = false;
	pthread_t threads[2];
	uint64_t i = 0;
	struct iovec iov = {&i, sizeof(i)};

	rig_open(&r, &rig_small, false, RIPC__WIN_ORDERED, test_seed());
	for (int k = 0; k < 2; k++) {
		struct ripc__win_backend be = {
			.ops = &bell_ops,
			.arg = &s[!k],
			.inbox = k ? r.b.inbox : r.a.inbox,
			.map = k ? r.a.inbox : r.b.inbox,
			.caps = RIPC__WIN_ORDERED,
		};

		sem_init(&s[k].bell, 0, 0);
		s[k].rounds = wanted("RIPC_TEST_CYCLES", 100000);
		s[k].stop = &stop;
		ripc__win_init(&s[k].w, &be, &rig_small, 2);
	}
	ripc__win_send(&s[0].w, &iov, 1, sizeof(i), false);
	for (int k = 0; k < 2; k++)
		ck_assert_int_eq(pthread_create(&threads[k], NULL, sleeper_main, &s[k]), 0);
	for (int k = 0; k < 2; k++)
		pthread_join(threads[k], NULL);
	ck_assert_msg(!stop, "a kick was lost");
	ck_assert_uint_gt(s[0].slept + s[1].slept, 0);
	for (int k = 0; k < 2; k++)
		ripc__win_fini(&s[k].w);
	rig_close(&r);
}
END_TEST

/* ---- hostile peers ---- */

/* Somebody scribbles over the whole segment: the engine may fail, and touches nothing that is not its own. */
START_TEST(hostile__scribbled)
{
	static uint8_t from[5000], to[5000];
	uint64_t rng = test_seed() + (uint64_t)_i;
	struct ripc__win_region *region;
	struct rig r;

	for (int round = 0; round < 300; round++) {
		struct rig_end *e = &r.b;

		rig_open(&r, &rig_small, false, 0, rng);
		region = ripc__win_expose(&r.b.w, from, sizeof(from), RIG_ALL);
		settle(&r);
		for (int i = 0; i < 60 && !e->w.status; i++) {
			uint64_t what = test_random(&rng), at, v = test_random(&rng);

			if (what % 4 == 0)
				rig_send(e, from, v % 3000);
			else if (what % 4 == 1)
				ripc__win_read(&e->w, to, 1 + v % 5000, 4096, 1 << 16, v);
			/* Mostly words that look right. */
			at = RIPC__WIN_SLOTS_AT + ((e->w.rx & e->w.mask) * RIPC__WIN_SLOT);
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
				memcpy(r.b.inbox + RIPC__WIN_CREDIT_AT + 8 * (v & 1), &v, 8);
			}
			if (what % 5 == 4) {
				uint32_t len;

				if (ripc__win_take(&e->w, e->buf, 4 * RIPC__WIN_BODY, &len))
					ck_assert_uint_le(len, 4 * RIPC__WIN_BODY);
			}
			for (int k = 0; k < 3; k++)
				rig_next(e);
			ripc__win_arm(&e->w);
			ripc__win_quiet(&e->w);
		}
		ripc__win_conceal(&r.b.w, region);
		rig_close(&r);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("test_engine");
	TCase *c = tcase_create("engine");

	test_seed();
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, send__every_size, 0, 2);
	tcase_add_test(c, send__gathers);
	tcase_add_test(c, plain__every_size);
	tcase_add_test(c, plain__not_here);
	tcase_add_test(c, take__ends_the_request);
	tcase_add_loop_test(c, send__full, 0, 2);
	tcase_add_loop_test(c, send__checksummed, 0, SEEDS);
	tcase_add_loop_test(c, send__without_fences, 0, 5);
	tcase_add_loop_test(c, read__every_size, 0, 3);
	tcase_add_loop_test(c, read__not_allowed, 0, 2);
	tcase_add_loop_test(c, read__concealed, 0, 2);
	tcase_add_loop_test(c, read__queue, 0, 3);
	tcase_add_loop_test(c, write__before_send, 0, 2);
	tcase_add_loop_test(c, write__not_allowed, 0, 2);
	tcase_add_test(c, expose__many);
	tcase_add_loop_test(c, bye__last, 0, 2);
	tcase_add_test(c, epoch__stale);
	tcase_add_test(c, link__down);
	tcase_add_test(c, arm__once);
	tcase_add_test(c, arm__no_kick_lost);
	tcase_add_loop_test(c, hostile__scribbled, 0, 10);
	suite_add_tcase(s, c);
	return test_main("test_engine", s);
}
