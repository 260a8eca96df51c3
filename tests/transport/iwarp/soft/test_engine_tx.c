/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Transmission: frames, queued bytes, the order of sends, Writes and responses. */
#include "engine_link.h"

#define OK(call) ck_assert_int_eq(call, 0)

/* A few queued bytes go behind the Write, more of them stay in front of it. */
START_TEST(engine_write__overtakes_a_small_send)
{
	const struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;
	size_t first = _i ? 2000 : 80;

	open_pair(&t, 65483);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	dst = ripc__region_add(&b.regions, target_bytes, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	settle(NULL, sizeof(pipe_buf));
	post_send(&a, source_bytes, first);
	write_and_announce(src, dst, 20000, 84);
	while (!b.nrecv)
		ck_assert(move(&a, &b, 500));
	ck_assert_uint_eq(dst->written >= 20000, !_i);
	ck_assert_uint_eq(b.lens[0], first);
	settle(NULL, sizeof(pipe_buf));
	ck_assert_uint_eq(b.nrecv, 2);
	ck_assert_mem_eq(target_bytes, source_bytes, 20000);
	close_pair();
}
END_TEST

/*
 * Payload that begins with a page is not copied a few bytes behind it: an empty send comes first,
 * if the peer ignores it, and if it helps.
 */
START_TEST(engine_pad_send__page_behind_its_head)
{
	static const struct {
		size_t offset, before, len; /* of the payload in a page; bytes in front of it */
		bool soft, crc, padded;
	} cases[] = {
		{0, 4, 16384, true, false, true},        {0, 4, 16384, true, true, true},
		{0, 4, 16384, false, false, false},      {0, 4, 100, true, false, false},
		{64, 4, 16384, true, false, false},      {0, 36, 16384, true, false, false},
		{24, 4, 16384, true, false, false},      {23, 4, 16384, true, false, false},
		{4096 - 8, 4, 16384, true, false, true}, {4, 4, 16384, true, false, true},
	};
	static uint8_t pages[6 * 4096] __attribute__((aligned(4096)));
	const size_t empty = RIPC__SEND_HEADER + RIPC__FPDU_CRC;

	memset(pages, 7, sizeof(pages));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t fpdu[RIPC__SEND_HEADER + RIPC__TRAILER_MAX], before[64] = "before";
		const struct ripc__mpa_terms t = terms(cases[i].crc, cases[i].soft);
		const struct iovec iov[2] = {{before, cases[i].before},
					     {pages + cases[i].offset, cases[i].len}};
		unsigned len;

		open_pair(&t, 65483);
		settle(NULL, 1000);
		a.e.conn.align = false;
		ck_assert_uint_eq(
			ripc__engine_pad_send(&a.e, iov, 2, cases[i].before + cases[i].len, fpdu),
			0);
		a.e.conn.align = true;
		len = ripc__engine_pad_send(&a.e, iov, 2, cases[i].before + cases[i].len, fpdu);
		ck_assert_msg(len == (cases[i].padded ? empty : 0), "case %zu: %u", i, len);
		engine_end_feed(&b, fpdu, len);
		post_send(&a, source_bytes, 50);
		settle(NULL, 1000);
		ck_assert_int_eq(b.e.status, 0);
		ck_assert_uint_eq(b.nrecv, 1);
		ck_assert_uint_eq(b.recv_len, 50);
		close_pair();
	}
}
END_TEST

START_TEST(engine_frame__rest_is_queued)
{
	struct ripc__mpa_terms t = terms(true, true);
	uint8_t head[RIPC__SEND_HEADER], tail[RIPC__TRAILER_MAX], whole[200];
	struct iovec iov[3] = {{head, sizeof(head)}, {NULL, 101}, {tail, 0}};

	for (size_t cut = 0; cut < 128; cut++) {
		open_pair(&t, 1448);
		settle(NULL, 1000);
		ck_assert(ripc__engine_idle(&a.e));
		iov[1].iov_base = source_bytes;
		iov[2].iov_len = ripc__engine_frame(&a.e, iov + 1, 1, 101, head, tail);
		ck_assert_uint_eq(iov[2].iov_len, 3 + 4);
		memcpy(whole, head, 20);
		memcpy(whole + 20, source_bytes, 101);
		memcpy(whole + 121, tail, 7);
		engine_end_feed(&b, whole, cut);
		ck_assert_int_eq(ripc__engine_queue_sent(&a.e, iov, 3, cut), 0);
		ck_assert_uint_eq(ripc__engine_queued(&a.e), 128);
		ck_assert(!ripc__engine_idle(&a.e));
		settle(NULL, 1000);
		ck_assert_uint_eq(b.nrecv, 1);
		ck_assert_mem_eq(b.recv, source_bytes, 101);
		close_pair();
	}
}
END_TEST

/*
 * The rest of a send of which the socket took a part comes next, whatever else is due: bytes of
 * another FPDU in between would be taken for its payload.
 */
START_TEST(engine_queue_sent__nothing_comes_in_between)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;

	for (size_t cut = 1; cut < 124; cut++) {
		open_pair(&t, 65483);
		src = ripc__region_add(&a.regions, source_bytes, SOURCE, RIPC__ACCESS_REMOTE_READ);
		dst = ripc__region_add(&b.regions, target_bytes, SOURCE, ACCESS_ALL);
		settle(NULL, 1000);
		/* A Write is transmitted to its last byte, so a response is next. */
		OK(engine_write(&a.e, src, source_bytes, 100, dst->addr, dst->stag, 1));
		move(&a, &b, 120);
		ck_assert(a.e.tx.turn);
		post_direct(&a, &b, source_bytes + 500, 100, cut);
		if (!_i) {
			OK(engine_write(&a.e, src, source_bytes, 3000, dst->addr, dst->stag, 2));
		} else if (_i == 1) {
			OK(engine_read(&b.e, dst, target_bytes, 3000, src->addr, src->stag, 3));
			move(&b, &a, 1000);
		} else {
			ripc__engine_fail(&a.e, -EPROTO, RIPC__TERM_STAG, NULL);
		}
		while (move(&a, &b, 1000))
			;
		ck_assert_uint_eq(b.nrecv, 1);
		ck_assert_uint_eq(b.recv_len, 100);
		ck_assert_mem_eq(b.recv, source_bytes + 500, 100);
		ck_assert_mem_eq(target_bytes, source_bytes, _i < 2 ? 3000 : 100);
		ck_assert_int_eq(b.e.status, _i < 2 ? 0 : -ECONNABORTED);
		close_pair();
	}
}
END_TEST

/* The memory of a transfer behind it is deregistered: nothing follows, no Terminate either. */
START_TEST(engine_queue_sent__nothing_follows_after_a_revocation)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;

	open_pair(&t, 65483);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	dst = ripc__region_add(&b.regions, target_bytes, SOURCE, ACCESS_ALL);
	settle(NULL, 1000);
	post_direct(&a, &b, source_bytes + 500, 100, 123);
	OK(engine_write(&a.e, src, source_bytes, 100, dst->addr, dst->stag, 1));
	ripc__engine_revoke(&a.e, src);
	ck_assert_int_eq(a.e.status, -ECANCELED);
	ck_assert(!move(&a, &b, 1000));
	ck_assert_uint_eq(b.nrecv, 0);
	close_pair();
}
END_TEST

/* Read responses and sends alternate: a long response does not delay a message. */
START_TEST(engine_gather__sends_pass_long_responses)
{
	struct ripc__mpa_terms t = terms(false, true);

	begin_read(&t, SOURCE);
	move(&a, &b, 1000);
	move(&b, &a, 1000);
	post_send(&b, source_bytes, 10);
	for (unsigned i = 0; i < 3 && !a.nrecv; i++)
		move(&b, &a, 66000);
	ck_assert_uint_eq(a.nrecv, 1);
	ck_assert_uint_eq(a.nread, 0);
	settle(NULL, 100000);
	ck_assert_uint_eq(a.nread, 1);
	ck_assert_mem_eq(target_bytes, source_bytes, SOURCE);
	close_pair();
}
END_TEST

/* Transmits what is posted. Return: entries of long payload; checks where each is in the stream. */
static unsigned long_payloads(uint64_t *at)
{
	struct iovec iov[3 * RIPC__FRAMED_MAX];
	unsigned count = 0, n;

	while ((n = ripc__engine_gather(&a.e, iov, 3 * RIPC__FRAMED_MAX, SIZE_MAX))) {
		size_t bytes = 0;

		for (unsigned i = 0; i < n; i++) {
			uint64_t behind = (*at + bytes - (uintptr_t)iov[i].iov_base) % 4096;

			if (iov[i].iov_len >= 16u << 10) {
				ck_assert(!behind || behind > 32);
				ck_assert(iov[i].iov_len < 48u << 10 || behind % 4 ||
					  !(behind % 16));
				count++;
			}
			bytes += iov[i].iov_len;
		}
		*at += bytes;
		ripc__engine_sent(&a.e, bytes);
	}
	return count;
}

START_TEST(engine_gather__long_payload_is_at_a_distance_that_is_copied_fast)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *region;
	uint8_t *page;
	uint64_t at;

	open_pair(&t, 65483);
	a.e.conn.align = true;
	move(&a, &b, sizeof(pipe_buf)); /* the first FPDU */
	page = source_bytes + (4096 - (uintptr_t)source_bytes % 4096);
	region = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	for (size_t off = 0; off < 128; off++) {
		at = 0;
		engine_write(&a.e, region, page + off, 200000, 0, 1, 1);
		ck_assert_uint_ge(long_payloads(&at), 3);
		/* At most four short segments in front of each long one, which are four. */
		ck_assert_uint_le(at, 200000 + 4 * (1 + 4) * 20);
		engine_end_events(&a);
	}
	/* A short payload is sent at once. */
	at = 0;
	engine_write(&a.e, region, page, 4096, 0, 1, 1);
	long_payloads(&at);
	ck_assert_uint_eq(at, 4096 + 20);
	engine_end_events(&a);
	close_pair();
}
END_TEST

/* Processors whose copies are fast anywhere need no short segments. */
START_TEST(engine_gather__long_payload_without_short_segments)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct iovec iov[3 * RIPC__FRAMED_MAX];
	struct ripc__region *region;

	open_pair(&t, 65483);
	a.e.conn.align = false;
	move(&a, &b, sizeof(pipe_buf)); /* the first FPDU */
	region = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	for (size_t off = 0; off < 128; off++) {
		size_t bytes = 0;
		unsigned n;

		/* The rest of 64 bytes, and a segment of 65472; head, payload and CRC each. */
		engine_write(&a.e, region, source_bytes + off, 65536, 0, 1, 1);
		n = ripc__engine_gather(&a.e, iov, 3 * RIPC__FRAMED_MAX, SIZE_MAX);
		ck_assert_uint_eq(n, 6);
		while (n--)
			bytes += iov[n].iov_len;
		ck_assert_uint_eq(bytes, 65536 + 2 * 20);
		ripc__engine_sent(&a.e, bytes);
		engine_end_events(&a);
	}
	close_pair();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine_tx");
	TCase *tc = tcase_create("engine_tx");

	tcase_add_test(tc, engine_gather__long_payload_is_at_a_distance_that_is_copied_fast);
	tcase_add_test(tc, engine_gather__long_payload_without_short_segments);
	tcase_add_loop_test(tc, engine_write__overtakes_a_small_send, 0, 2);
	tcase_add_test(tc, engine_pad_send__page_behind_its_head);
	tcase_add_test(tc, engine_frame__rest_is_queued);
	tcase_add_loop_test(tc, engine_queue_sent__nothing_comes_in_between, 0, 3);
	tcase_add_test(tc, engine_queue_sent__nothing_follows_after_a_revocation);
	tcase_add_test(tc, engine_gather__sends_pass_long_responses);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/engine_tx", suite);
}
