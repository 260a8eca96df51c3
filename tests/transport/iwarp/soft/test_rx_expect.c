/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The payload of a Write that is expected: received in its region, or copied back. */
#include "engine_link.h"

/*
 * The payload of a Write like the one before goes to its region at once, also behind a small send.
 */
START_TEST(engine_rx_buffer__expected_write)
{
	const struct ripc__mpa_terms t = terms(_i & 1, true);
	const size_t len = _i & 2 ? 65536 : 262144;
	struct ripc__region *src, *dst;

	open_pair(&t, 65483);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	for (unsigned i = 0; i < 4; i++) {
		memset(target_bytes, 0, SOURCE);
		dst = ripc__region_add(&b.regions, target_bytes, len, RIPC__ACCESS_REMOTE_WRITE);
		b.expected = dst;
		if (i == 2)
			post_send(&a, source_bytes, 80);
		write_and_announce(src, dst, len, 84);
		settle(NULL, sizeof(pipe_buf));
		ck_assert_uint_eq(b.direct, i);
		ck_assert_uint_eq(dst->written, len);
		ck_assert_mem_eq(target_bytes, source_bytes, len);
		ck_assert_uint_eq(b.nrecv, i < 2 ? i + 1 : i + 2);
		b.expected = NULL;
		ripc__region_remove(&b.regions, dst);
	}
	close_pair();
}
END_TEST

/* Bytes behind a Write do not overwrite it, although its region is the one expected. */
START_TEST(engine_rx_buffer__announcement_comes_later)
{
	const struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;

	open_pair(&t, 65483);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	for (unsigned i = 0; i < 3; i++) {
		memset(target_bytes, 0, SOURCE);
		dst = ripc__region_add(&b.regions, target_bytes, 65536, RIPC__ACCESS_REMOTE_WRITE);
		b.expected = dst;
		ck_assert_int_eq(
			engine_write(&a.e, src, source_bytes, 65536, dst->addr, dst->stag, 1), 0);
		settle(NULL, sizeof(pipe_buf));
		post_send(&a, source_bytes + 1, 20000);
		settle(NULL, sizeof(pipe_buf));
		ck_assert_mem_eq(target_bytes, source_bytes, 65536);
		b.expected = NULL;
		ripc__region_remove(&b.regions, dst);
	}
	close_pair();
}
END_TEST

/* All operations arrive, however the stream is cut, when other ones than expected come. */
START_TEST(engine_rx_buffer__random_expectations)
{
	uint64_t rng = test_seed();
	struct ripc__mpa_terms t = terms(test_random(&rng) & 1, true);
	size_t sent = 0;
	unsigned sends = 0;
	struct ripc__region *src;

	open_pair(&t, 65483);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	for (unsigned i = 0; i < 400; i++) {
		static const size_t lens[] = {65536, 65536, 65536, 70000, 20000, 300};
		static const size_t most[] = {1 << 20, 1 << 20, 65483, 30000, 1000};
		size_t len = lens[test_random(&rng) % 6];
		size_t small = test_random(&rng) % 4 ? 84 : test_random(&rng) % 30000;
		struct ripc__region *one, *two;
		bool newest = test_random(&rng) % 32;

		memset(target_bytes, 0, SOURCE);
		one = ripc__region_add(&b.regions, target_bytes, SOURCE / 2,
				       RIPC__ACCESS_REMOTE_WRITE);
		two = ripc__region_add(&b.regions, target_bytes + SOURCE / 2, SOURCE / 2,
				       RIPC__ACCESS_REMOTE_WRITE);
		b.expected = two;
		if (!(test_random(&rng) % 4)) {
			post_send(&a, source_bytes, small);
			sends++, sent += small;
			if (test_random(&rng) & 1)
				settle(&rng, most[test_random(&rng) % 5]);
		}
		if (test_random(&rng) % 8) {
			write_and_announce(src, newest ? two : one, len, small);
			sends++, sent += small;
			settle(test_random(&rng) & 1 ? &rng : NULL, most[test_random(&rng) % 5]);
			ck_assert_mem_eq(target_bytes + (newest ? SOURCE / 2 : 0), source_bytes,
					 len);
		}
		settle(NULL, sizeof(pipe_buf));
		b.expected = NULL;
		ripc__region_remove(&b.regions, one);
		ripc__region_remove(&b.regions, two);
	}
	ck_assert_uint_gt(b.direct, 0);
	ck_assert_uint_eq(b.nrecv, sends);
	ck_assert_uint_eq(b.recv_len, sent);
	for (size_t at = 0, i = 0; i < sends; at += b.lens[i++])
		ck_assert_mem_eq(b.recv + at, source_bytes, b.lens[i]);
	close_pair();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("rx_expect");
	TCase *tc = tcase_create("rx_expect");

	tcase_add_loop_test(tc, engine_rx_buffer__expected_write, 0, 4);
	tcase_add_test(tc, engine_rx_buffer__announcement_comes_later);
	tcase_add_test(tc, engine_rx_buffer__random_expectations);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/rx_expect", suite);
}
