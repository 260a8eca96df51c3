/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads, writes and exposed memory of the ring engine, over mapped memory and over the simulated
 * link.
 */
#define _GNU_SOURCE
#include "ring_pair.h"

#include <sys/mman.h>

static void read_all(struct ring_pair *r, size_t len)
{
	uint8_t *from = malloc(len + 1), *to = malloc(len + 1);
	struct ripc__ring_region *region;

	ring_pair_fill(from, len, len);
	memset(to, 0, len + 1);
	region = ripc__ring_reg(&r->b.w, from, len, RIPC__ACCESS_REMOTE_READ);
	ck_assert_ptr_nonnull(region);
	r->a.nread = 0;
	/* A send carries the key, as in real use: a direct reader needs the writes before it. */
	ring_end_progress(r, &r->b, &region->key, 4);
	while (!ring_pair_step(r, &r->a))
		;
	ck_assert_int_eq(ripc__ring_read(&r->a.w, to, len, region->addr, region->key, len), 0);
	while (!r->a.nread) {
		ring_pair_step(r, &r->a);
		ring_pair_step(r, &r->b);
	}
	ck_assert_int_eq(r->a.read_status, 0);
	ck_assert_uint_eq(r->a.last_wr_id, len);
	ck_assert(!memcmp(from, to, len));
	ck_assert_uint_eq(to[len], 0);
	ripc__ring_dereg(region);
	free(from);
	free(to);
}

/* _i: 0 served over memory, 1 served over the link, 2 direct. */
START_TEST(read__every_size)
{
	static const size_t lens[] = {0,     1,      55,     56,      57,     4095,
				      4096,  4097,   16383,  16385,   32767,  32768,
				      65535, 262143, 262145, 1000003, 8388609};
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i == 1, _i == 2, test_seed());
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]) - (_i == 1); i++)
		read_all(&r, lens[i]);
	ring_pair_close(&r);
}
END_TEST

/* _i: 0 served, 1 direct. */
START_TEST(read__not_allowed)
{
	static uint8_t from[1000], to[1000];
	struct ripc__ring_region *region;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, _i, test_seed());
	region = ripc__ring_reg(&r.b.w, from, sizeof(from), RIPC__ACCESS_REMOTE_READ);
	for (int k = 0; k < 5; k++) {
		uint64_t addr = region->addr + (k == 0) - (k == 1), len = sizeof(to) + (k == 2);
		uint32_t key = region->key + (k == 3) + 0x10000u * (k == 4);

		/*
		 * A direct read is checked by its key only: the kernel checks the peer's addresses.
		 */
		if (_i && k < 3)
			continue;
		r.a.nread = 0;
		ck_assert_int_eq(ripc__ring_read(&r.a.w, to, len, addr, key, 7), 0);
		while (!r.a.nread) {
			ring_end_poll(&r.a);
			ring_end_poll(&r.b);
		}
		ck_assert_int_eq(r.a.read_status, -EACCES);
		ck_assert_int_eq(r.a.w.status, 0);
	}
	ripc__ring_dereg(region);
	/* Memory for writing is not for reading. */
	region = ripc__ring_reg(&r.b.w, from, sizeof(from), RIPC__ACCESS_REMOTE_WRITE);
	r.a.nread = 0;
	ck_assert_int_eq(ripc__ring_read(&r.a.w, to, 10, region->addr, region->key, 7), 0);
	while (!r.a.nread) {
		ring_end_poll(&r.a);
		ring_end_poll(&r.b);
	}
	ck_assert_int_eq(r.a.read_status, -EACCES);
	ripc__ring_dereg(region);
	ring_pair_close(&r);
}
END_TEST

/* Memory that is deregistered during a read is not read on: it may be gone. The read fails. */
START_TEST(read__deregistered)
{
	size_t len = 4u << 20;
	uint8_t *from = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *to = malloc(len);
	struct ripc__ring_region *region;
	struct ring_pair r;

	ck_assert_ptr_ne(from, MAP_FAILED);
	ring_pair_open(&r, &layout_small, false, _i, test_seed());
	region = ripc__ring_reg(&r.b.w, from, len, RIPC__ACCESS_REMOTE_READ);
	ck_assert_int_eq(ripc__ring_read(&r.a.w, to, len, region->addr, region->key, 7), 0);
	for (int i = 0; i < 4; i++) {
		ring_end_poll(&r.a);
		ring_end_poll(&r.b);
	}
	ck_assert_uint_eq(r.a.nread, 0);
	ripc__ring_dereg(region);
	ck_assert_int_eq(munmap(from, len), 0);
	while (!r.a.nread) {
		ring_end_poll(&r.a);
		ring_end_poll(&r.b);
	}
	ck_assert_int_eq(r.a.read_status, -EACCES);
	ring_pair_close(&r);
	free(to);
}
END_TEST

/* Memory with missing pages is not read directly, although it could be. */
START_TEST(read__of_memory_that_is_served)
{
	static uint8_t from[100000], to[100000];
	struct ripc__ring_region *region;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, true, test_seed());
	ring_pair_fill(from, sizeof(from), 3);
	region = ripc__ring_reg(&r.b.w, from, sizeof(from),
				RIPC__ACCESS_REMOTE_READ | RIPC__RING_ACCESS_SERVED);
	ck_assert_int_eq(ripc__ring_read(&r.a.w, to, sizeof(to), region->addr, region->key, 7), 0);
	ck_assert_uint_eq(r.a.w.ndirect, 0);
	while (!r.a.nread) {
		ring_end_poll(&r.a);
		ring_end_poll(&r.b);
	}
	ck_assert_int_eq(r.a.read_status, 0);
	ck_assert(!memcmp(from, to, sizeof(to)));
	ripc__ring_dereg(region);
	ring_pair_close(&r);
}
END_TEST

/* The largest number of reads, and one more. */
START_TEST(read__queue)
{
	static uint8_t from[RIPC__RING_READS_MAX][50000], to[RIPC__RING_READS_MAX][50000];
	struct ripc__ring_region *region[RIPC__RING_READS_MAX];
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i == 1, _i == 2, test_seed());
	for (unsigned i = 0; i < RIPC__RING_READS_MAX; i++) {
		ring_pair_fill(from[i], sizeof(from[i]), i);
		region[i] =
			ripc__ring_reg(&r.b.w, from[i], sizeof(from[i]), RIPC__ACCESS_REMOTE_READ);
		ck_assert_int_eq(ripc__ring_read(&r.a.w, to[i], sizeof(to[i]), region[i]->addr,
						 region[i]->key, i),
				 0);
	}
	ck_assert_int_eq(ripc__ring_read(&r.a.w, to[0], 1, region[0]->addr, region[0]->key, 0),
			 -EAGAIN);
	while (r.a.nread < RIPC__RING_READS_MAX || !r.a.sendables) {
		ring_pair_step(&r, &r.a);
		ring_pair_step(&r, &r.b);
	}
	ck_assert(!memcmp(from, to, sizeof(from)));
	ck_assert_uint_eq(r.a.sendables, 1);
	for (unsigned i = 0; i < RIPC__RING_READS_MAX; i++)
		ripc__ring_dereg(region[i]);
	ring_pair_close(&r);
}
END_TEST

/* Tables of transfers exist while there are any, and can be freed only then. */
START_TEST(trim__without_transfers)
{
	static uint8_t from[50000], to[50000];
	struct ripc__ring_region *region;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, false, test_seed());
	ck_assert_ptr_null(r.a.w.transfers);
	ring_pair_fill(from, sizeof(from), 1);
	region = ripc__ring_reg(&r.b.w, from, sizeof(from), RIPC__ACCESS_REMOTE_READ);
	for (unsigned round = 1; round <= 2; round++) {
		memset(to, 0, sizeof(to));
		ck_assert_int_eq(
			ripc__ring_read(&r.a.w, to, sizeof(to), region->addr, region->key, round),
			0);
		while (r.a.nread < round) {
			ripc__ring_trim(&r.a.w);
			ripc__ring_trim(&r.b.w);
			ck_assert_ptr_nonnull(r.a.w.transfers);
			ring_pair_step(&r, &r.a);
			ring_pair_step(&r, &r.b);
		}
		ck_assert(!memcmp(from, to, sizeof(from)));
		ring_pair_drain(&r);
		ripc__ring_trim(&r.a.w);
		ripc__ring_trim(&r.b.w);
		ck_assert_ptr_null(r.a.w.transfers);
		ck_assert_ptr_null(r.b.w.transfers);
	}
	ripc__ring_dereg(region);
	ring_pair_close(&r);
}
END_TEST

/* A send arrives after the write before it, whatever the link does. */
START_TEST(write__before_send)
{
	static uint8_t from[300000], to[300000];
	struct ripc__ring_region *region;
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, _i, false, test_seed());
	region = ripc__ring_reg(&r.b.w, to, sizeof(to), RIPC__ACCESS_REMOTE_WRITE);
	for (uint64_t round = 1; round < 12; round++) {
		size_t len = sizeof(from) >> (round - 1);

		ring_pair_fill(from, len, round);
		ck_assert_int_eq(
			ripc__ring_write(&r.a.w, from, len, region->addr, region->key, round), 0);
		ring_end_progress(&r, &r.a, &round, sizeof(round));
		while (!ring_pair_step(&r, &r.b))
			ring_pair_step(&r, &r.a);
		ck_assert(ring_pair_check(to, len, round));
		while (r.a.last_wr_id != round)
			ring_pair_step(&r, &r.a);
		ring_pair_drain(&r);
	}
	ck_assert_uint_eq(r.a.nwrite, 11);
	ripc__ring_dereg(region);
	ring_pair_close(&r);
}
END_TEST

START_TEST(write__not_allowed)
{
	static uint8_t from[100], to[100];
	struct ripc__ring_region *region;
	struct ring_pair r;
	unsigned access;

	ring_pair_open(&r, &layout_small, false, false, test_seed());
	access = _i ? RIPC__ACCESS_REMOTE_READ : RING_STEP_ALL;
	region = ripc__ring_reg(&r.b.w, to, sizeof(to), access);
	ripc__ring_write(&r.a.w, from, sizeof(from), region->addr + !_i, region->key, 1);
	ring_pair_drain(&r);
	ck_assert_int_eq(r.b.w.status, -EACCES);
	ck_assert_int_eq(r.a.w.status, 0);
	ck_assert_int_eq(ripc__ring_send(&r.b.w, NULL, 0, 0, false), -ENOTCONN);
	ripc__ring_dereg(region);
	ring_pair_close(&r);
}
END_TEST

/* Regions outlive their connection, also more regions than can be read directly. */
START_TEST(reg__many)
{
	static struct ripc__ring_region *region[RIPC__RING_KEYS_MAX + 100];
	static uint8_t from[RIPC__RING_KEYS_MAX + 100];
	struct ring_pair r;

	ring_pair_open(&r, &layout_small, false, true, test_seed());
	for (unsigned i = 0; i < RIPC__RING_KEYS_MAX + 100; i++) {
		from[i] = (uint8_t)(i * 7);
		region[i] = ripc__ring_reg(&r.b.w, from + i, 1, RIPC__ACCESS_REMOTE_READ);
		ck_assert_ptr_nonnull(region[i]);
	}
	for (unsigned i = 0; i < RIPC__RING_KEYS_MAX + 100; i++) {
		uint8_t to = 0;
		int rc;

		rc = ripc__ring_read(&r.a.w, &to, 1, region[i]->addr, region[i]->key, i);
		ck_assert_int_eq(rc, 0);
		while (r.a.nread <= i) {
			ring_end_poll(&r.a);
			ring_end_poll(&r.b);
		}
		ck_assert_int_eq(r.a.read_status, 0);
		ck_assert_uint_eq(to, from[i]);
	}
	ring_pair_close(&r);
	for (unsigned i = 0; i < RIPC__RING_KEYS_MAX + 100; i++)
		ripc__ring_dereg(region[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ring/region");
	TCase *c = tcase_create("region");

	test_seed();
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, read__every_size, 0, 3);
	tcase_add_loop_test(c, read__not_allowed, 0, 2);
	tcase_add_test(c, read__of_memory_that_is_served);
	tcase_add_loop_test(c, read__deregistered, 0, 2);
	tcase_add_loop_test(c, read__queue, 0, 3);
	tcase_add_loop_test(c, trim__without_transfers, 0, 2);
	tcase_add_loop_test(c, write__before_send, 0, 2);
	tcase_add_loop_test(c, write__not_allowed, 0, 2);
	tcase_add_test(c, reg__many);
	suite_add_tcase(s, c);
	return test_main("transport/ring/region", s);
}
