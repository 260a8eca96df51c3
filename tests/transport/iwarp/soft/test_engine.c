/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two engines: everything posted arrives, however the stream is cut; limits, save, the end. */
#include "engine_link.h"

/* A session with operations of all kinds. */
static void post_session(bool big)
{
	size_t len = big ? 200000 : 700;
	struct ripc__region *from =
		ripc__region_add(&b.regions, source_bytes, SOURCE, RIPC__ACCESS_REMOTE_READ);
	struct ripc__region *to =
		ripc__region_add(&b.regions, target_bytes, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	struct ripc__region *src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	struct ripc__region *dst =
		ripc__region_add(&a.regions, target_bytes, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	size_t half = SOURCE / 2;

	post_send(&a, source_bytes, 100);
	ck_assert_int_eq(engine_read(&a.e, dst, target_bytes + half, len / 2, from->addr + half,
				     from->stag, 1),
			 0);
	post_send(&a, source_bytes + 100, 0);
	ck_assert_int_eq(engine_write(&a.e, src, source_bytes, len, to->addr, to->stag, 2), 0);
	ck_assert_int_eq(engine_write(&a.e, src, source_bytes, 0, 0, 0, 3), 0);
	post_send(&a, source_bytes + 100, big ? RIPC__SEND_MAX : 333);
	ck_assert_int_eq(engine_read(&a.e, dst, target_bytes, 0, 0, 0, 4), 0);
	post_send(&a, source_bytes + 1, 1);
	/* The passive side may not send yet; it will. */
	post_send(&b, source_bytes, 55);
	post_send(&b, source_bytes, big ? 9999 : 400);
}

static void check_session(bool big)
{
	size_t len = big ? 200000 : 700, second = big ? RIPC__SEND_MAX : 333;

	/* The send of no bytes is no message. */
	ck_assert_uint_eq(b.nrecv, 3);
	ck_assert_uint_eq(b.lens[0], 100);
	ck_assert_uint_eq(b.lens[1], second);
	ck_assert_uint_eq(b.lens[2], 1);
	ck_assert_mem_eq(b.recv, source_bytes, 100);
	ck_assert_mem_eq(b.recv + 100, source_bytes + 100, second);
	ck_assert_uint_eq(b.recv[100 + second], source_bytes[1]);
	ck_assert_uint_eq(a.nrecv, 2);
	ck_assert_mem_eq(a.recv, source_bytes, 55);
	ck_assert_mem_eq(a.recv + 55, source_bytes, big ? 9999 : 400);
	ck_assert_uint_eq(a.nread, 2);
	ck_assert_uint_eq(a.nwrite, 2);
	ck_assert_mem_eq(target_bytes, source_bytes, len < SOURCE / 2 ? len : SOURCE / 2);
	ck_assert_mem_eq(target_bytes + SOURCE / 2, source_bytes + SOURCE / 2, len / 2);
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

/*
 * Random operations of both ends; each received byte is checked. _i: bit 0: CRC, which finds other
 * errors first. Idle ends transmit sends directly, and the socket takes a part.
 */
START_TEST(engine__random_work)
{
	uint64_t rng = test_seed() + (uint64_t)_i;
	struct ripc__mpa_terms t = terms(_i & 1, _i & 2);
	struct ripc__region *src[2], *dst[2];
	unsigned sends[2] = {0, 0}, reads[2] = {0, 0}, writes[2] = {0, 0};
	/* offset and length of each send, in order */
	static size_t sent[2][3000][2];
	struct engine_end *ends[2] = {&a, &b};
	size_t len, off;

	open_pair(&t, 1448);
	for (unsigned w = 0; w < 2; w++) {
		struct ripc__regions *to = &ends[w]->regions;

		src[w] = ripc__region_add(to, source_bytes, SOURCE, RIPC__ACCESS_REMOTE_READ);
		dst[w] = ripc__region_add(to, target_bytes, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
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
			sent[w][sends[w]][0] = off;
			sent[w][sends[w]][1] = len;
			sends[w] += len > 0;
			if (ripc__engine_idle(e) && len <= e->conn.ulpdu_max - RIPC__DDP_UNTAGGED)
				post_direct(ends[w], ends[!w], source_bytes + off, len,
					    test_random(&rng) % (len + 40));
			else
				post_send(ends[w], source_bytes + off, len);
			break;
		case 1:
			/* Source and target have the same bytes: the order is irrelevant. */
			err = engine_write(e, src[w], source_bytes + off, len, dst[!w]->addr + off,
					   dst[!w]->stag, i);
			ck_assert(!err || err == -EAGAIN);
			writes[w] += !err;
			break;
		case 2:
			err = engine_read(e, dst[w], target_bytes + off, len, src[!w]->addr + off,
					  src[!w]->stag, i);
			ck_assert(!err || err == -EAGAIN);
			reads[w] += !err;
			break;
		default:
			move(ends[w], ends[!w], test_random(&rng) % 30000 + 1);
		}
		/* Only an idle end transmits directly. */
		if (test_random(&rng) % 32 == 0)
			settle(&rng, 60000);
		ck_assert_int_eq(e->status, 0);
	}
	settle(&rng, 60000);
	for (unsigned w = 0; w < 2; w++) {
		ck_assert_uint_eq(ends[!w]->nrecv, sends[w]);
		off = 0;
		for (unsigned i = 0; i < sends[w]; off += ends[!w]->lens[i++]) {
			ck_assert_uint_eq(ends[!w]->lens[i], sent[w][i][1]);
			ck_assert_mem_eq(ends[!w]->recv + off, source_bytes + sent[w][i][0],
					 sent[w][i][1]);
		}
		ck_assert_uint_eq(ends[!w]->recv_len, off);
		ck_assert_uint_eq(ends[w]->nread, reads[w]);
		ck_assert_uint_eq(ends[w]->nwrite, writes[w]);
	}
	for (size_t i = 0; i < SOURCE; i++)
		if (target_bytes[i] && target_bytes[i] != source_bytes[i])
			ck_abort_msg("wrong byte at %zu", i);
	close_pair();
}
END_TEST

START_TEST(engine_send__arrives_after_the_write_before_it)
{
	struct ripc__mpa_terms t = terms(false, true);
	struct ripc__region *src, *dst;

	open_pair(&t, 1448);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	dst = ripc__region_add(&b.regions, target_bytes, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(engine_write(&a.e, src, source_bytes + i * 90000, 90000,
					      dst->addr + i * 90000, dst->stag, i),
				 0);
		post_send(&a, source_bytes, 8);
	}
	while (move(&a, &b, 5000))
		if (b.nrecv)
			ck_assert_mem_eq(target_bytes, source_bytes, b.nrecv * 90000);
	ck_assert_uint_eq(b.nrecv, 3);
	ck_assert_uint_eq(a.nwrite, 3);
	close_pair();
}
END_TEST

/* Saves an engine, if it may be, and restores it. */
static bool save_and_restore(struct engine_end *end)
{
	struct ripc__engine_conn saved;

	if (!ripc__engine_save(&end->e, &saved))
		return false;
	memset(&end->e, 0x55, sizeof(end->e));
	ripc__engine_restore(&end->e, &end->regions, &end->pool, &saved);
	return true;
}

/* Wherever an engine in a session can be saved, nothing is lost. _i bits: crc, big. */
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
	from = ripc__region_add(&b.regions, source_bytes, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target_bytes, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	post_send(&a, source_bytes, 100);
	post_send(&b, source_bytes, 100);
	ck_assert_int_eq(engine_read(&a.e, dst, target_bytes, 100, from->addr, from->stag, 5), 0);
	settle(NULL, sizeof(pipe_buf));
	ck_assert_uint_eq(b.nrecv, 4);
	ck_assert_uint_eq(a.nrecv, 3);
	ck_assert_uint_eq(a.nread, 3);
	close_pair();
}
END_TEST

/* A Send, a Write or a Read, each of no bytes. */
START_TEST(engine_init__passive_waits_for_the_first_fpdu)
{
	static const uint8_t nothing[RIPC__READ_REQUEST];
	struct ripc__mpa_terms t = terms(true, true);
	uint8_t fpdu[80];
	size_t len = 0;

	open_pair(&t, 1448);
	post_send(&b, source_bytes, 10);
	ck_assert(!ripc__engine_pending(&b.e));
	ck_assert(!ripc__engine_idle(&b.e));
	ck_assert_uint_eq(engine_end_take(&b, pipe_buf, 1000), 0);
	ck_assert(ripc__engine_pending(&a.e));
	if (_i == 1) {
		len = ripc__ddp_put_tagged(fpdu, RIPC__RDMAP_WRITE, true, 0, 0, 0);
		len = make_fpdu(fpdu, len, NULL, 0, true);
	} else if (_i == 2) {
		len = ripc__ddp_put_untagged(fpdu, RIPC__RDMAP_READ_REQUEST, true, RIPC__DDP_Q_READ,
					     1, 0, RIPC__READ_REQUEST);
		len = make_fpdu(fpdu, len, nothing, sizeof(nothing), true);
	}
	if (len) {
		engine_end_feed(&b, fpdu, len);
		ck_assert(ripc__engine_pending(&b.e));
	} else {
		settle(NULL, 1000);
		ck_assert_uint_eq(a.nrecv, 1);
		ck_assert_uint_eq(a.lens[0], 10);
		/* A later empty send is no message either. */
		post_send(&a, source_bytes, 0);
		settle(NULL, 1000);
	}
	ck_assert_int_eq(b.e.status, 0);
	ck_assert_uint_eq(b.nrecv, 0);
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
	from = ripc__region_add(&b.regions, source_bytes, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target_bytes, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	for (unsigned i = 0; i < 3; i++) {
		rc = engine_read(&a.e, dst, target_bytes, 10, from->addr, from->stag, i);
		ck_assert_int_eq(rc, 0);
	}
	rc = engine_read(&a.e, dst, target_bytes, 10, from->addr, from->stag, 3);
	ck_assert_int_eq(rc, -EAGAIN);
	settle(NULL, 1000);
	ck_assert_uint_eq(a.nread, 3);
	ck_assert_int_eq(engine_read(&a.e, dst, target_bytes, 10, from->addr, from->stag, 3), 0);
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
	dst = ripc__region_add(&b.regions, target_bytes, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	for (unsigned i = 0; i < RIPC__WORKS_MAX; i++)
		ck_assert_int_eq(engine_write(&a.e, src, source_bytes, 10, dst->addr, dst->stag, i),
				 0);
	rc = engine_write(&a.e, src, source_bytes, 10, dst->addr, dst->stag, 0);
	ck_assert_int_eq(rc, -EAGAIN);
	settle(NULL, 100);
	ck_assert_uint_eq(a.nwrite, RIPC__WORKS_MAX);
	ck_assert_int_eq(engine_write(&a.e, src, source_bytes, 10, dst->addr, dst->stag, 0), 0);
	close_pair();
}
END_TEST

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
	other = ripc__region_add(&b.regions, target_bytes, 100, RIPC__ACCESS_REMOTE_READ);
	from = ripc__region_add(&b.regions, source_bytes, SOURCE, RIPC__ACCESS_REMOTE_READ);
	dst = ripc__region_add(&a.regions, target_bytes, SOURCE, RIPC__ACCESS_LOCAL_WRITE);
	rc = engine_read(&a.e, dst, target_bytes, 200000, from->addr, from->stag, 1);
	ck_assert_int_eq(rc, 0);
	move(&a, &b, 1000);
	ripc__engine_revoke(&b.e, other);
	ck_assert_int_eq(b.e.status, 0);
	ripc__engine_revoke(&b.e, from);
	ck_assert_int_eq(b.e.status, -ECANCELED);
	while (move(&b, &a, 1000))
		;
	ck_assert_int_eq(a.e.status, -ECONNABORTED);
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
	dst = ripc__region_add(&b.regions, target_bytes, SOURCE, RIPC__ACCESS_REMOTE_WRITE);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, 0);
	ck_assert_int_eq(engine_write(&a.e, src, source_bytes, 100000, dst->addr, dst->stag, 1), 0);
	move(&a, &b, 5000);
	ck_assert_uint_eq(dst->users, 1);
	ripc__engine_revoke(&b.e, dst);
	ck_assert_uint_eq(dst->users, 0);
	ck_assert_int_eq(b.e.status, -ECANCELED);
	memset(target_bytes, 0, SOURCE);
	while (move(&a, &b, 5000))
		;
	ck_assert(!target_bytes[0] && !memcmp(target_bytes, target_bytes + 1, SOURCE - 1));
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
	dst = ripc__region_add(&b.regions, target_bytes, SOURCE, ACCESS_ALL);
	src = ripc__region_add(&a.regions, source_bytes, SOURCE, ACCESS_ALL);
	settle(NULL, 1000);
	if (kind == 0) {
		post_send(&a, source_bytes, 9000);
		post_send(&a, source_bytes, 9000);
	} else if (kind == 1) {
		ck_assert_int_eq(
			engine_write(&a.e, src, source_bytes, 200000, dst->addr, dst->stag, 1), 0);
		post_send(&a, source_bytes, 9000);
	} else {
		ck_assert_int_eq(
			engine_read(&b.e, dst, target_bytes, 200000, src->addr, src->stag, 1), 0);
		move(&b, &a, 1000);
	}
	move(&a, &b, 300);
	ripc__engine_fail(&a.e, -EPROTO, RIPC__TERM_OPCODE, NULL);
	while (move(&a, &b, 777))
		;
	ck_assert_int_eq(b.e.status, -ECONNABORTED);
	ck_assert_uint_eq(b.e.term_code, RIPC__TERM_OPCODE);
	ck_assert_uint_eq(b.nrecv, kind == 0 ? 2 : 0);
	close_pair();
}
END_TEST

START_TEST(engine_init__fpdus_fit_the_segment)
{
	struct ripc__mpa_terms t = terms(true, false);

	for (uint32_t segment = 0; segment < 70000; segment += 61) {
		struct engine_end end;

		engine_end_open(&end, &t, true, segment);
		ck_assert_uint_le(end.e.conn.ulpdu_max, RIPC__ULPDU_SOFT);
		if (segment >= 128)
			ck_assert_uint_le(ripc__fpdu_size(end.e.conn.ulpdu_max), segment);
		ck_assert_uint_ge(end.e.conn.ulpdu_max + 32, segment < 65000 ? segment : 65000);
		engine_end_close(&end);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine");
	TCase *tc = tcase_create("engine");

	tcase_add_loop_test(tc, engine__every_split_point, 0, 4);
	tcase_add_loop_test(tc, engine__byte_by_byte, 0, 4);
	tcase_add_test(tc, engine__random_fragments);
	tcase_add_loop_test(tc, engine__random_work, 0, 4);
	tcase_add_test(tc, engine_send__arrives_after_the_write_before_it);
	tcase_add_loop_test(tc, engine_save__only_at_rest, 0, 4);
	tcase_add_loop_test(tc, engine_init__passive_waits_for_the_first_fpdu, 0, 3);
	tcase_add_test(tc, engine_read__bounded_by_the_depth);
	tcase_add_test(tc, engine_write__bounded);
	tcase_add_test(tc, engine_revoke__read_response_half_sent);
	tcase_add_test(tc, engine_revoke__read_response_not_begun);
	tcase_add_test(tc, engine_revoke__write_being_placed);
	tcase_add_loop_test(tc, engine_fail__terminate_after_what_is_half_sent, 0, 3);
	tcase_add_test(tc, engine_init__fpdus_fit_the_segment);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/engine", suite);
}
