/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two engines: everything posted arrives, however the stream is cut. */
#include "engine_pair.h"

#include <errno.h>

#define SOURCE 300000u

static struct engine_end a, b;
static uint8_t *source, *target;
static uint8_t pipe_buf[1 << 20];

static struct ripc__mpa_terms terms(bool crc, bool soft)
{
	return (struct ripc__mpa_terms){
		.crc = crc,
		.soft = soft,
		.enhanced = true,
		.rtr = RIPC__MPA_RTR_WRITE,
		.read_depth = 32,
		.serve_depth = 32,
	};
}

static void open_pair(const struct ripc__mpa_terms *t, uint32_t segment)
{
	engine_end_open(&a, t, true, segment);
	engine_end_open(&b, t, false, segment);
	source = malloc(SOURCE);
	target = calloc(1, SOURCE);
	for (size_t i = 0; i < SOURCE; i++)
		source[i] = (uint8_t)(i * 7 + i / 251);
}

static void close_pair(void)
{
	engine_end_close(&a);
	engine_end_close(&b);
	free(source);
	free(target);
}

/* Moves at most cap bytes from one end to the other. Return: whether any moved. */
static bool move(struct engine_end *from, struct engine_end *to, size_t cap)
{
	size_t n = engine_end_take(from, pipe_buf, cap < sizeof(pipe_buf) ? cap : sizeof(pipe_buf));

	engine_end_feed(to, pipe_buf, n);
	engine_end_events(from);
	return n;
}

static void settle(uint64_t *rng, size_t most)
{
	for (;;) {
		size_t one = rng ? test_random(rng) % most + 1 : most,
		       two = rng ? test_random(rng) % most + 1 : most;
		bool ab = move(&a, &b, one), ba = move(&b, &a, two);

		if (!ab && !ba)
			return;
		ck_assert_int_eq(a.e.status, 0);
		ck_assert_int_eq(b.e.status, 0);
	}
}

static void post_send(struct engine_end *end, const uint8_t *p, size_t len)
{
	struct iovec iov[3] = {
		{(void *)p, len / 3}, {NULL, 0}, {(void *)(p + len / 3), len - len / 3}};

	ck_assert_int_eq(ripc__engine_send(&end->e, iov, 3, len), 0);
}

/* A session with operations of all kinds. */
static void post_session(bool big)
{
	size_t len = big ? 200000 : 700;
	struct ripc__region *from =
		ripc__region_add(&b.regions, source, SOURCE, RIPC__ACCESS_REMOTE_READ);
	struct ripc__region *to =
		ripc__region_add(&b.regions, target, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	struct ripc__region *src = ripc__region_add(&a.regions, source, SOURCE, 0);
	struct ripc__region *dst =
		ripc__region_add(&a.regions, target, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	size_t half = SOURCE / 2;

	post_send(&a, source, 100);
	ck_assert_int_eq(ripc__engine_read(&a.e, dst, target + half, len / 2, from->addr + half,
					   from->stag, 1),
			 0);
	post_send(&a, source + 100, 0);
	ck_assert_int_eq(ripc__engine_write(&a.e, src, source, len, to->addr, to->stag, 2), 0);
	ck_assert_int_eq(ripc__engine_write(&a.e, src, source, 0, 0, 0, 3), 0);
	post_send(&a, source + 100, big ? RIPC__SEND_MAX : 333);
	ck_assert_int_eq(ripc__engine_read(&a.e, dst, target, 0, 0, 0, 4), 0);
	post_send(&a, source + 1, 1);
	/* The passive side may not send yet; it will. */
	post_send(&b, source, 55);
	post_send(&b, source, big ? 9999 : 400);
}

static void check_session(bool big)
{
	size_t len = big ? 200000 : 700, second = big ? RIPC__SEND_MAX : 333;

	ck_assert_uint_eq(b.nrecv, 4);
	ck_assert_uint_eq(b.lens[0], 100);
	ck_assert_uint_eq(b.lens[1], 0);
	ck_assert_uint_eq(b.lens[2], second);
	ck_assert_uint_eq(b.lens[3], 1);
	ck_assert_mem_eq(b.recv, source, 100);
	ck_assert_mem_eq(b.recv + 100, source + 100, second);
	ck_assert_uint_eq(b.recv[100 + second], source[1]);
	ck_assert_uint_eq(a.nrecv, 2);
	ck_assert_mem_eq(a.recv, source, 55);
	ck_assert_mem_eq(a.recv + 55, source, big ? 9999 : 400);
	ck_assert_uint_eq(a.nread, 2);
	ck_assert_uint_eq(a.nwrite, 2);
	ck_assert_mem_eq(target, source, len < SOURCE / 2 ? len : SOURCE / 2);
	ck_assert_mem_eq(target + SOURCE / 2, source + SOURCE / 2, len / 2);
}

START_TEST(engine__every_split_point)
{
	size_t total = SIZE_MAX;

	/* Cuts the stream of the active side once, at every place. */
	for (size_t cut = 1; cut < total; cut++) {
		struct ripc__mpa_terms t = terms(_i & 1, _i & 2);

		open_pair(&t, 300);
		post_session(false);
		while (a.out < cut && move(&a, &b, cut - a.out))
			;
		settle(NULL, sizeof(pipe_buf));
		check_session(false);
		total = a.out;
		close_pair();
	}
	ck_assert_uint_gt(total, 1000);
}
END_TEST

START_TEST(engine__byte_by_byte)
{
	struct ripc__mpa_terms t = terms(_i & 1, _i & 2);

	open_pair(&t, 300);
	post_session(false);
	settle(NULL, 1);
	check_session(false);
	close_pair();
}
END_TEST

START_TEST(engine__random_fragments)
{
	static const size_t most[] = {50, 2000, 20000, 300000};
	static const uint32_t segments[] = {536, 1448, 8948, 65483};
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 12; round++) {
		struct ripc__mpa_terms t = terms(round & 1, round & 2);

		open_pair(&t, segments[round % 4]);
		post_session(true);
		settle(&rng, most[test_random(&rng) % 4]);
		check_session(true);
		close_pair();
	}
}
END_TEST

/* Random operations of both ends; each received byte is checked. */
START_TEST(engine__random_work)
{
	uint64_t rng = test_seed();
	struct ripc__mpa_terms t = terms(true, test_random(&rng) & 1);
	struct ripc__region *src[2], *dst[2];
	unsigned sends[2] = {0, 0}, reads[2] = {0, 0}, writes[2] = {0, 0};
	uint64_t sum[2] = {0, 0};
	struct engine_end *ends[2] = {&a, &b};
	size_t len, off;

	open_pair(&t, 1448);
	for (unsigned w = 0; w < 2; w++) {
		struct ripc__regions *to = &ends[w]->regions;

		src[w] = ripc__region_add(to, source, SOURCE, RIPC__ACCESS_REMOTE_READ);
		dst[w] = ripc__region_add(to, target, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	}
	for (unsigned i = 0; i < 3000; i++) {
		unsigned w = test_random(&rng) & 1;
		struct ripc__engine *e = &ends[w]->e;
		int err;

		len = test_random(&rng) % (test_random(&rng) & 1 ? 100 : 40000);
		off = test_random(&rng) % (SOURCE - len);
		switch (test_random(&rng) % 4) {
		case 0:
			len = len > RIPC__SEND_MAX ? RIPC__SEND_MAX : len;
			post_send(ends[w], source + off, len);
			sends[w]++;
			sum[w] += len;
			break;
		case 1:
			/*
			 * Same bytes at the same place of source and target: order is irrelevant.
			 */
			err = ripc__engine_write(e, src[w], source + off, len, dst[!w]->addr + off,
						 dst[!w]->stag, i);
			ck_assert(!err || err == -EAGAIN);
			writes[w] += !err;
			break;
		case 2:
			err = ripc__engine_read(e, dst[w], target + off, len, src[!w]->addr + off,
						src[!w]->stag, i);
			ck_assert(!err || err == -EAGAIN);
			reads[w] += !err;
			break;
		default:
			move(ends[w], ends[!w], test_random(&rng) % 30000 + 1);
		}
		ck_assert_int_eq(e->status, 0);
	}
	settle(&rng, 60000);
	for (unsigned w = 0; w < 2; w++) {
		ck_assert_uint_eq(ends[!w]->nrecv, sends[w]);
		ck_assert_uint_eq(ends[!w]->recv_len, sum[w]);
		ck_assert_uint_eq(ends[w]->nread, reads[w]);
		ck_assert_uint_eq(ends[w]->nwrite, writes[w]);
	}
	for (size_t i = 0; i < SOURCE; i++)
		if (target[i] && target[i] != source[i])
			ck_abort_msg("wrong byte at %zu", i);
	close_pair();
}
END_TEST

START_TEST(engine_send__arrives_after_the_write_before_it)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;

	open_pair(&t, 1448);
	src = ripc__region_add(&a.regions, source, SOURCE, 0);
	dst = ripc__region_add(&b.regions, target, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(ripc__engine_write(&a.e, src, source + i * 90000, 90000,
						    dst->addr + i * 90000, dst->stag, i),
				 0);
		post_send(&a, source, 8);
	}
	while (move(&a, &b, 5000))
		if (b.nrecv)
			ck_assert_mem_eq(target, source, b.nrecv * 90000);
	ck_assert_uint_eq(b.nrecv, 3);
	ck_assert_uint_eq(a.nwrite, 3);
	close_pair();
}
END_TEST

/* Saves an engine, if it may be, and restores it. */
static bool save_and_restore(struct engine_end *end)
{
	struct ripc__engine_saved saved;

	if (!ripc__engine_save(&end->e, &saved))
		return false;
	memset(&end->e, 0x55, sizeof(end->e));
	ripc__engine_restore(&end->e, &end->regions, &end->pool, &saved);
	return true;
}

/* Wherever an engine in a session can be saved, nothing is lost. _i bits: crc, big. */
/* A Write of len bytes, and the send that announces it. */
static void write_and_announce(const struct ripc__region *from, const struct ripc__region *to,
			       size_t len, size_t announcement)
{
	ck_assert_int_eq(ripc__engine_write(&a.e, (struct ripc__region *)from, source, len,
					    to->addr, to->stag, 1),
			 0);
	post_send(&a, source, announcement);
}

/*
 * The payload of a Write like the one before goes to its region at once, also behind a small send.
 */
START_TEST(engine_rx_buffer__expected_write)
{
	const struct ripc__mpa_terms t = terms(_i & 1, true);
	const size_t len = _i & 2 ? 65536 : 262144;
	struct ripc__region *src, *dst;

	open_pair(&t, 65483);
	src = ripc__region_add(&a.regions, source, SOURCE, 0);
	for (unsigned i = 0; i < 4; i++) {
		memset(target, 0, SOURCE);
		dst = ripc__region_add(&b.regions, target, len, RIPC__ACCESS_REMOTE_WRITE);
		b.expected = dst;
		if (i == 2)
			post_send(&a, source, 80);
		write_and_announce(src, dst, len, 84);
		settle(NULL, sizeof(pipe_buf));
		ck_assert_uint_eq(b.direct, i);
		ck_assert_uint_eq(dst->written, len);
		ck_assert_mem_eq(target, source, len);
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
	src = ripc__region_add(&a.regions, source, SOURCE, 0);
	for (unsigned i = 0; i < 3; i++) {
		memset(target, 0, SOURCE);
		dst = ripc__region_add(&b.regions, target, 65536, RIPC__ACCESS_REMOTE_WRITE);
		b.expected = dst;
		ck_assert_int_eq(
			ripc__engine_write(&a.e, src, source, 65536, dst->addr, dst->stag, 1), 0);
		settle(NULL, sizeof(pipe_buf));
		post_send(&a, source + 1, 20000);
		settle(NULL, sizeof(pipe_buf));
		ck_assert_mem_eq(target, source, 65536);
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
	src = ripc__region_add(&a.regions, source, SOURCE, 0);
	for (unsigned i = 0; i < 400; i++) {
		static const size_t lens[] = {65536, 65536, 65536, 70000, 20000, 300};
		static const size_t most[] = {1 << 20, 1 << 20, 65483, 30000, 1000};
		size_t len = lens[test_random(&rng) % 6];
		size_t small = test_random(&rng) % 4 ? 84 : test_random(&rng) % 30000;
		struct ripc__region *one, *two;
		bool newest = test_random(&rng) % 32;

		memset(target, 0, SOURCE);
		one = ripc__region_add(&b.regions, target, SOURCE / 2, RIPC__ACCESS_REMOTE_WRITE);
		two = ripc__region_add(&b.regions, target + SOURCE / 2, SOURCE / 2,
				       RIPC__ACCESS_REMOTE_WRITE);
		b.expected = two;
		if (!(test_random(&rng) % 4)) {
			post_send(&a, source, small);
			sends++, sent += small;
			if (test_random(&rng) & 1)
				settle(&rng, most[test_random(&rng) % 5]);
		}
		if (test_random(&rng) % 8) {
			write_and_announce(src, newest ? two : one, len, small);
			sends++, sent += small;
			settle(test_random(&rng) & 1 ? &rng : NULL, most[test_random(&rng) % 5]);
			ck_assert_mem_eq(target + (newest ? SOURCE / 2 : 0), source, len);
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
		ck_assert_mem_eq(b.recv + at, source, b.lens[i]);
	close_pair();
}
END_TEST

/* A few queued bytes go behind the Write, more of them stay in front of it. */
START_TEST(engine_write__overtakes_a_small_send)
{
	const struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;
	size_t first = _i ? 2000 : 80;

	open_pair(&t, 65483);
	src = ripc__region_add(&a.regions, source, SOURCE, 0);
	dst = ripc__region_add(&b.regions, target, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	settle(NULL, sizeof(pipe_buf));
	post_send(&a, source, first);
	write_and_announce(src, dst, 20000, 84);
	while (!b.nrecv)
		ck_assert(move(&a, &b, 500));
	ck_assert_uint_eq(dst->written >= 20000, !_i);
	ck_assert_uint_eq(b.lens[0], first);
	settle(NULL, sizeof(pipe_buf));
	ck_assert_uint_eq(b.nrecv, 2);
	ck_assert_mem_eq(target, source, 20000);
	close_pair();
}
END_TEST

START_TEST(engine_save__only_at_rest)
{
	struct ripc__mpa_terms t = terms(_i & 1, false);
	const bool big = _i & 2;
	const size_t step = big ? 997 : 1;
	struct ripc__region *from, *dst;
	bool ab = true, ba = true;

	open_pair(&t, 300);
	ck_assert(!save_and_restore(&b));
	post_session(big);
	ck_assert(!save_and_restore(&a));
	while (ab || ba) {
		ab = move(&a, &b, step);
		save_and_restore(&b);
		save_and_restore(&a);
		ba = move(&b, &a, step);
		save_and_restore(&b);
		save_and_restore(&a);
	}
	check_session(big);
	ck_assert(save_and_restore(&a));
	ck_assert(save_and_restore(&b));
	/* The numbers of messages and reads go on. */
	from = ripc__region_add(&b.regions, source, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	post_send(&a, source, 100);
	post_send(&b, source, 100);
	ck_assert_int_eq(ripc__engine_read(&a.e, dst, target, 100, from->addr, from->stag, 5), 0);
	settle(NULL, sizeof(pipe_buf));
	ck_assert_uint_eq(b.nrecv, 5);
	ck_assert_uint_eq(a.nrecv, 3);
	ck_assert_uint_eq(a.nread, 3);
	close_pair();
}
END_TEST

START_TEST(engine_init__passive_waits_for_the_first_fpdu)
{
	static const unsigned kinds[3] = {
		RIPC__MPA_RTR_SEND,
		RIPC__MPA_RTR_WRITE,
		RIPC__MPA_RTR_READ,
	};
	struct ripc__mpa_terms t = terms(true, true);

	t.rtr = kinds[_i];
	open_pair(&t, 1448);
	post_send(&b, source, 10);
	ck_assert(!ripc__engine_pending(&b.e));
	ck_assert(!ripc__engine_idle(&b.e));
	ck_assert_uint_eq(engine_end_take(&b, pipe_buf, 1000), 0);
	ck_assert(ripc__engine_pending(&a.e));
	settle(NULL, 1000);
	/* The first FPDU is not reported. */
	ck_assert_uint_eq(b.nrecv, 0);
	ck_assert_uint_eq(a.nread, 0);
	ck_assert_uint_eq(a.nwrite, 0);
	ck_assert_uint_eq(a.nrecv, 1);
	ck_assert_uint_eq(a.lens[0], 10);
	/* A later empty send is. */
	post_send(&a, source, 0);
	settle(NULL, 1000);
	ck_assert_uint_eq(b.nrecv, 1);
	close_pair();
}
END_TEST

START_TEST(engine_read__bounded_by_the_depth)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *from, *dst;
	int rc;

	t.read_depth = 3;
	open_pair(&t, 1448);
	from = ripc__region_add(&b.regions, source, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	for (unsigned i = 0; i < 3; i++) {
		rc = ripc__engine_read(&a.e, dst, target, 10, from->addr, from->stag, i);
		ck_assert_int_eq(rc, 0);
	}
	rc = ripc__engine_read(&a.e, dst, target, 10, from->addr, from->stag, 3);
	ck_assert_int_eq(rc, -EAGAIN);
	settle(NULL, 1000);
	ck_assert_uint_eq(a.nread, 3);
	ck_assert_int_eq(ripc__engine_read(&a.e, dst, target, 10, from->addr, from->stag, 3), 0);
	settle(NULL, 1000);
	ck_assert_uint_eq(a.last_wr_id, 3);
	close_pair();
}
END_TEST

START_TEST(engine_write__bounded)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;
	int rc;

	open_pair(&t, 1448);
	dst = ripc__region_add(&b.regions, target, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	src = ripc__region_add(&a.regions, source, SOURCE, 0);
	for (unsigned i = 0; i < RIPC__WORKS_MAX; i++)
		ck_assert_int_eq(ripc__engine_write(&a.e, src, source, 10, dst->addr, dst->stag, i),
				 0);
	rc = ripc__engine_write(&a.e, src, source, 10, dst->addr, dst->stag, 0);
	ck_assert_int_eq(rc, -EAGAIN);
	settle(NULL, 100);
	ck_assert_uint_eq(a.nwrite, RIPC__WORKS_MAX);
	ck_assert_int_eq(ripc__engine_write(&a.e, src, source, 10, dst->addr, dst->stag, 0), 0);
	close_pair();
}
END_TEST

/* a reads bytes of b: a pair whose request has not left. Return: the region at b. */
static struct ripc__region *begin_read(const struct ripc__mpa_terms *t, uint32_t len)
{
	struct ripc__region *from, *dst;
	int rc;

	open_pair(t, 1448);
	from = ripc__region_add(&b.regions, source, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	rc = ripc__engine_read(&a.e, dst, target, len, from->addr, from->stag, 1);
	ck_assert_int_eq(rc, 0);
	return from;
}

START_TEST(engine_revoke__read_response_half_sent)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *from = begin_read(&t, 200000);

	move(&a, &b, 1000);
	move(&b, &a, 1000);
	ck_assert_uint_eq(from->users, 1);
	ripc__engine_revoke(&b.e, from);
	ck_assert_uint_eq(from->users, 0);
	ck_assert_int_eq(b.e.status, -ECANCELED);
	/* within an FPDU nothing can follow */
	ck_assert_uint_eq(engine_end_take(&b, pipe_buf, 1000), 0);
	ripc__region_remove(&b.regions, from);
	close_pair();
}
END_TEST

START_TEST(engine_revoke__read_response_not_begun)
{
	struct ripc__mpa_terms t = terms(true, true);
	struct ripc__region *from, *dst, *other;
	int rc;

	open_pair(&t, 1448);
	other = ripc__region_add(&b.regions, target, 100, RIPC__ACCESS_REMOTE_READ);
	from = ripc__region_add(&b.regions, source, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	rc = ripc__engine_read(&a.e, dst, target, 200000, from->addr, from->stag, 1);
	ck_assert_int_eq(rc, 0);
	move(&a, &b, 1000);
	ripc__engine_revoke(&b.e, other);
	ck_assert_int_eq(b.e.status, 0);
	ripc__engine_revoke(&b.e, from);
	ck_assert_int_eq(b.e.status, -ECANCELED);
	while (move(&b, &a, 1000))
		;
	ck_assert_int_eq(a.e.status, -ECONNABORTED);
	ck_assert(a.e.term_received);
	ck_assert_uint_eq(a.e.term_code, RIPC__TERM_STAG);
	ck_assert_uint_eq(a.nread, 0);
	close_pair();
}
END_TEST

START_TEST(engine_revoke__write_being_placed)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;

	open_pair(&t, 1448);
	dst = ripc__region_add(&b.regions, target, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	src = ripc__region_add(&a.regions, source, SOURCE, 0);
	ck_assert_int_eq(ripc__engine_write(&a.e, src, source, 100000, dst->addr, dst->stag, 1), 0);
	move(&a, &b, 5000);
	ck_assert_uint_eq(dst->users, 1);
	ripc__engine_revoke(&b.e, dst);
	ck_assert_uint_eq(dst->users, 0);
	ck_assert_int_eq(b.e.status, -ECANCELED);
	memset(target, 0, SOURCE);
	while (move(&a, &b, 5000))
		;
	ck_assert(!target[0] && !memcmp(target, target + 1, SOURCE - 1));
	close_pair();
}
END_TEST

/* An engine that fails within an FPDU completes it, so that its Terminate can be parsed. */
START_TEST(engine_fail__terminate_after_what_is_half_sent)
{
	struct ripc__mpa_terms t = terms(true, true);
	struct ripc__region *src, *dst;
	unsigned kind = (unsigned)_i;

	open_pair(&t, 1448);
	dst = ripc__region_add(&b.regions, target, SOURCE, ACCESS_ALL);
	src = ripc__region_add(&a.regions, source, SOURCE, ACCESS_ALL);
	settle(NULL, 1000);
	if (kind == 0) {
		post_send(&a, source, 9000);
		post_send(&a, source, 9000);
	} else if (kind == 1) {
		ck_assert_int_eq(
			ripc__engine_write(&a.e, src, source, 200000, dst->addr, dst->stag, 1), 0);
		post_send(&a, source, 9000);
	} else {
		ck_assert_int_eq(
			ripc__engine_read(&b.e, dst, target, 200000, src->addr, src->stag, 1), 0);
		move(&b, &a, 1000);
	}
	move(&a, &b, 300);
	ripc__engine_fail(&a.e, -EPROTO, RIPC__TERM_OPCODE, NULL, false);
	while (move(&a, &b, 777))
		;
	ck_assert_int_eq(b.e.status, -ECONNABORTED);
	ck_assert_uint_eq(b.e.term_code, RIPC__TERM_OPCODE);
	ck_assert_uint_eq(b.nrecv, kind == 0 ? 2 : 0);
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
		len = ripc__engine_pad_send(&a.e, iov, 2, cases[i].before + cases[i].len, fpdu);
		ck_assert_msg(len == (cases[i].padded ? empty : 0), "case %zu: %u", i, len);
		engine_end_feed(&b, fpdu, len);
		post_send(&a, source, 50);
		settle(NULL, 1000);
		ck_assert_int_eq(b.e.status, 0);
		ck_assert_uint_eq(b.nrecv, 1 + cases[i].padded);
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
		iov[1].iov_base = source;
		iov[2].iov_len = ripc__engine_frame(&a.e, iov + 1, 1, 101, head, tail);
		ck_assert_uint_eq(iov[2].iov_len, 3 + 4);
		memcpy(whole, head, 20);
		memcpy(whole + 20, source, 101);
		memcpy(whole + 121, tail, 7);
		engine_end_feed(&b, whole, cut);
		ck_assert_int_eq(ripc__engine_queue_rest(&a.e, iov, 3, cut), 0);
		ck_assert_uint_eq(ripc__engine_queued(&a.e), 128 - cut);
		ck_assert(!ripc__engine_idle(&a.e));
		settle(NULL, 1000);
		ck_assert_uint_eq(b.nrecv, 1);
		ck_assert_mem_eq(b.recv, source, 101);
		close_pair();
	}
}
END_TEST

/* Read responses and sends alternate: a long response does not delay a message. */
START_TEST(engine_gather__sends_pass_long_responses)
{
	struct ripc__mpa_terms t = terms(false, true);

	begin_read(&t, SOURCE);
	move(&a, &b, 1000);
	move(&b, &a, 1000);
	post_send(&b, source, 10);
	for (unsigned i = 0; i < 3 && !a.nrecv; i++)
		move(&b, &a, 66000);
	ck_assert_uint_eq(a.nrecv, 1);
	ck_assert_uint_eq(a.nread, 0);
	settle(NULL, 100000);
	ck_assert_uint_eq(a.nread, 1);
	ck_assert_mem_eq(target, source, SOURCE);
	close_pair();
}
END_TEST

/* Transmits what is posted. Return: entries of long payload; checks where each is in the stream. */
static unsigned long_payloads(uint64_t *at)
{
	struct iovec iov[48];
	unsigned count = 0, n;

	while ((n = ripc__engine_gather(&a.e, iov, 48, SIZE_MAX))) {
		size_t bytes = 0;

		for (unsigned i = 0; i < n; i++) {
			uint64_t behind = (*at + bytes - (uintptr_t)iov[i].iov_base) % 4096;

			if (iov[i].iov_len >= 16u << 10) {
				ck_assert(!behind || behind > 32);
				count++;
			}
			bytes += iov[i].iov_len;
		}
		*at += bytes;
		ripc__engine_sent(&a.e, bytes);
	}
	return count;
}

START_TEST(engine_gather__long_payload_is_not_copied_a_few_bytes_behind_its_source)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *region;
	uint8_t *page;
	uint64_t at;

	open_pair(&t, 65483);
	move(&a, &b, sizeof(pipe_buf)); /* the first FPDU */
	page = source + (4096 - (uintptr_t)source % 4096);
	region = ripc__region_add(&a.regions, source, SOURCE, 0);
	for (size_t off = 0; off < 128; off++) {
		at = 0;
		ripc__engine_write(&a.e, region, page + off, 200000, 0, 1, 1);
		ck_assert_uint_ge(long_payloads(&at), 3);
		/* Short segments for the first FPDUs only. */
		ck_assert_uint_lt(at, 200000 + 10 * 20);
		engine_end_events(&a);
	}
	/* A short payload is sent at once. */
	at = 0;
	ripc__engine_write(&a.e, region, page, 4096, 0, 1, 1);
	long_payloads(&at);
	ck_assert_uint_eq(at, 4096 + 20);
	engine_end_events(&a);
	close_pair();
}
END_TEST

START_TEST(engine_init__fpdus_fit_the_segment)
{
	struct ripc__mpa_terms t = terms(true, false);

	for (uint32_t segment = 0; segment < 70000; segment += 61) {
		struct engine_end end;

		engine_end_open(&end, &t, true, segment);
		ck_assert_uint_le(end.e.ulpdu_max, RIPC__ULPDU_SOFT);
		if (segment >= 128)
			ck_assert_uint_le(ripc__fpdu_size(end.e.ulpdu_max), segment);
		ck_assert_uint_ge(end.e.ulpdu_max + 32, segment < 65000 ? segment : 65000);
		ck_assert_uint_le(end.e.tagged_max + RIPC__DDP_TAGGED, end.e.ulpdu_max);
		engine_end_close(&end);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine");
	TCase *tc = tcase_create("engine");

	tcase_add_test(tc, engine_gather__long_payload_is_not_copied_a_few_bytes_behind_its_source);
	tcase_add_loop_test(tc, engine__every_split_point, 0, 4);
	tcase_add_loop_test(tc, engine__byte_by_byte, 0, 4);
	tcase_add_test(tc, engine__random_fragments);
	tcase_add_test(tc, engine__random_work);
	tcase_add_test(tc, engine_send__arrives_after_the_write_before_it);
	tcase_add_loop_test(tc, engine_rx_buffer__expected_write, 0, 4);
	tcase_add_test(tc, engine_rx_buffer__announcement_comes_later);
	tcase_add_test(tc, engine_rx_buffer__random_expectations);
	tcase_add_loop_test(tc, engine_write__overtakes_a_small_send, 0, 2);
	tcase_add_loop_test(tc, engine_save__only_at_rest, 0, 4);
	tcase_add_loop_test(tc, engine_init__passive_waits_for_the_first_fpdu, 0, 3);
	tcase_add_test(tc, engine_read__bounded_by_the_depth);
	tcase_add_test(tc, engine_write__bounded);
	tcase_add_test(tc, engine_revoke__read_response_half_sent);
	tcase_add_test(tc, engine_revoke__read_response_not_begun);
	tcase_add_test(tc, engine_revoke__write_being_placed);
	tcase_add_loop_test(tc, engine_fail__terminate_after_what_is_half_sent, 0, 3);
	tcase_add_test(tc, engine_pad_send__page_behind_its_head);
	tcase_add_test(tc, engine_frame__rest_is_queued);
	tcase_add_test(tc, engine_gather__sends_pass_long_responses);
	tcase_add_test(tc, engine_init__fpdus_fit_the_segment);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/engine", suite);
}
