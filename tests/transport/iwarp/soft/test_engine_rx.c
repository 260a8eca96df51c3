/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The engine accepts segmented messages, and refuses bad CRCs, wrong segments, unexpected responses
 * and random bytes.
 */
#include "bad_fpdu.h"

START_TEST(engine_next__crc_of_every_bit)
{
	for (size_t bit = 16; bit < 8 * 32; bit++) { /* not the length, which locates the CRC */
		bad_fpdu_open(true);
		feed_first_fpdu();
		make_untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "hello", 5);
		ck_assert_uint_eq(fpdu_len, 32);
		fpdu[bit / 8] ^= (uint8_t)(1u << bit % 8);
		feed_bad_fpdu(RIPC__TERM_CRC, 0);
		ck_assert_int_eq(target.e.status, -EBADMSG);
		check_terminate(RIPC__TERM_CRC, false, false);
		bad_fpdu_close();
	}
}
END_TEST

START_TEST(engine_next__crc_of_a_segment_being_placed)
{
	bad_fpdu_open(true);
	feed_first_fpdu();
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 1000);
	fpdu[fpdu_len - 1] ^= 1;
	engine_end_feed(&target, fpdu, 500);
	ck_assert_int_eq(target.e.status, 0);
	engine_end_feed(&target, fpdu + 500, fpdu_len - 500);
	ck_assert_int_eq(target.e.status, -EBADMSG);
	check_terminate(RIPC__TERM_CRC, false, false);
	bad_fpdu_close();
}
END_TEST

START_TEST(engine_next__nothing_outside_of_a_write)
{
	bad_fpdu_open(false);
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + 1000, 1500);
	for (size_t cut = 1; cut < fpdu_len; cut += 13) {
		memset(memory, 0xcc, sizeof(memory));
		engine_end_feed(&target, fpdu, cut);
		engine_end_feed(&target, fpdu + cut, fpdu_len - cut);
		for (size_t i = 0; i < sizeof(memory); i++)
			ck_assert_uint_eq(memory[i], i >= 64 + 1000 && i < 64 + 2500 ? 0x55 : 0xcc);
	}
	/* The last byte, and the whole region. */
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + LEN - 1, 1);
	feed_fpdu();
	make_tagged(RIPC__RDMAP_WRITE, true, both->stag, both->addr, LEN);
	feed_fpdu();
	ck_assert_int_eq(target.e.status, 0);
	ck_assert_uint_eq(memory[63], 0xcc);
	ck_assert_uint_eq(memory[64 + LEN], 0xcc);
	/* Empty operations need no STag. */
	make_tagged(RIPC__RDMAP_WRITE, true, 0xdeadbeef, UINT64_MAX, 0);
	feed_fpdu();
	ck_assert_int_eq(target.e.status, 0);
	bad_fpdu_close();
}
END_TEST

START_TEST(engine_next__kinds_of_send)
{
	static const enum ripc__rdmap_op ops[] = {RIPC__RDMAP_SEND, RIPC__RDMAP_SEND_SE,
						  RIPC__RDMAP_SEND_INVALIDATE,
						  RIPC__RDMAP_SEND_SE_INVALIDATE};

	bad_fpdu_open(true);
	for (unsigned i = 0; i < 4; i++) {
		make_untagged(ops[i], true, 0, i + 1, 0, "hello", 5);
		if (i >= 2) {
			ripc__put_be32(fpdu + 4, i == 2 ? readable->stag : writable->stag);
			fix_crc();
		}
		feed_fpdu();
		ck_assert_int_eq(target.e.status, 0);
		ck_assert_uint_eq(target.nrecv, i + 1);
		ck_assert_mem_eq(target.recv + 5 * i, "hello", 5);
	}
	/* Invalidated: no rights are left. */
	ck_assert_uint_eq(readable->access & ACCESS_ALL, 0);
	memset(memory, 0xcc, sizeof(memory));
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 4);
	feed_bad_fpdu(RIPC__TERM_ACCESS, 0);
	bad_fpdu_close();
}
END_TEST

START_TEST(engine_next__send_in_parts)
{
	static uint8_t bytes[RIPC__SEND_MAX];
	static const size_t sizes[] = {1, 255, 256, 257, 4000, RIPC__SEND_MAX / 2};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + i / 255);
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint32_t len = sizes[s] == 1 ? 50 : RIPC__SEND_MAX;

		bad_fpdu_open(true);
		for (uint32_t mo = 0; mo < len; mo += sizes[s]) {
			uint32_t part = len - mo < sizes[s] ? len - mo : (uint32_t)sizes[s];

			bool last = mo + part == len;

			make_untagged(RIPC__RDMAP_SEND, last, 0, 1, mo, bytes + mo, part);
			if (fpdu_len > 300) {
				engine_end_feed(&target, fpdu, 290);
				engine_end_feed(&target, fpdu + 290, fpdu_len - 290);
			} else {
				feed_fpdu();
			}
			ck_assert_int_eq(target.e.status, 0);
		}
		ck_assert_uint_eq(target.nrecv, 1);
		ck_assert_uint_eq(target.lens[0], len);
		ck_assert_mem_eq(target.recv, bytes, len);
		bad_fpdu_close();
	}
}
END_TEST

START_TEST(engine_next__send_in_parts_that_do_not_fit)
{
	/* Second part: wrong offset, kind or message, or too long. */
	static const unsigned codes[] = {0x1204, 0x0206, 0x1203, 0x1205};

	bad_fpdu_open(false);
	feed_first_fpdu();
	make_untagged(RIPC__RDMAP_SEND, false, 0, 1, 0, bad_fpdu_filler(), 1000);
	feed_fpdu();
	ck_assert_int_eq(target.e.status, 0);
	make_untagged(_i == 1 ? RIPC__RDMAP_SEND_SE : RIPC__RDMAP_SEND, true, 0, _i == 2 ? 2 : 1,
		      _i == 0 ? 999 : 1000, bad_fpdu_filler(), _i == 3 ? RIPC__SEND_MAX - 999 : 10);
	feed_bad_fpdu(codes[_i], 0);
	check_terminate(codes[_i], true, false);
	bad_fpdu_close();
}
END_TEST

START_TEST(engine_next__response_checked_against_its_read)
{
	static const unsigned codes[] = {0x1100, 0x1101, 0x1101, 0x1101, 0x1101, 0x0206};
	uint64_t addr;
	uint8_t out[200];

	bad_fpdu_open(true);
	feed_first_fpdu();
	addr = local->addr;
	ck_assert_int_eq(engine_read(&target.e, local, memory + 64, 1000, 7, 8, 99), 0);
	ck_assert_uint_eq(engine_end_take(&target, out, sizeof(out)), 52);
	switch (_i) {
	case 0: /* another valid STag */
		make_tagged(RIPC__RDMAP_READ_RESPONSE, true, both->stag, addr, 1000);
		break;
	case 1: /* not the next byte */
		make_tagged(RIPC__RDMAP_READ_RESPONSE, false, local->stag, addr + 1, 100);
		break;
	case 2: /* more than requested */
		make_tagged(RIPC__RDMAP_READ_RESPONSE, true, local->stag, addr, 1001);
		break;
	case 3: /* less */
		make_tagged(RIPC__RDMAP_READ_RESPONSE, true, local->stag, addr, 999);
		break;
	case 4: /* nothing */
		make_tagged(RIPC__RDMAP_READ_RESPONSE, true, 0, 0, 0);
		break;
	default: /* twice */
		make_tagged(RIPC__RDMAP_READ_RESPONSE, true, local->stag, addr, 1000);
		feed_fpdu();
		ck_assert_uint_eq(target.nread, 1);
		ck_assert_uint_eq(target.last_wr_id, 99);
		memset(memory, 0xcc, sizeof(memory));
	}
	feed_bad_fpdu(codes[_i], 0);
	check_terminate(codes[_i], true, false);
	bad_fpdu_close();
}
END_TEST

START_TEST(engine_next__more_reads_than_agreed)
{
	bad_fpdu_open(true);
	for (unsigned i = 1; i <= 2; i++) {
		make_read_request(i, readable->stag, readable->addr, 100);
		feed_fpdu();
		ck_assert_int_eq(target.e.status, 0);
	}
	make_read_request(3, readable->stag, readable->addr, 100);
	feed_bad_fpdu(RIPC__TERM_U_NO_BUFFER, 0);
	check_terminate(RIPC__TERM_U_NO_BUFFER, true, false);
	bad_fpdu_close();
}
END_TEST

START_TEST(engine_next__read_of_nothing_needs_no_stag)
{
	uint8_t out[100];

	bad_fpdu_open(true);
	make_read_request(1, 0xdeadbeef, UINT64_MAX, 0);
	feed_fpdu();
	ck_assert_int_eq(target.e.status, 0);
	ck_assert_uint_eq(engine_end_take(&target, out, sizeof(out)), 20);
	ck_assert_uint_eq(out[2], 0xc1);
	ck_assert_uint_eq(out[3], 0x42);
	ck_assert_uint_eq(ripc__get_be32(out + 4), 0x1234);
	ck_assert_uint_eq(ripc__get_be64(out + 8), 0x5678);
	bad_fpdu_close();
}
END_TEST

START_TEST(engine_next__terminate_of_the_peer)
{
	uint8_t body[4], out[100];

	for (unsigned code = 0; code < 0x3000; code += 0x11) {
		bad_fpdu_open(true);
		feed_first_fpdu();
		ripc__put_be32(body, code << 16);
		make_untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 0, body, 4);
		feed_fpdu();
		ck_assert_int_eq(target.e.status, -ECONNABORTED);
		ck_assert_uint_eq(target.e.term_code, code);
		ck_assert_ptr_nonnull(target.e.text);
		/* is not answered */
		ck_assert_uint_eq(engine_end_take(&target, out, sizeof(out)), 0);
		bad_fpdu_close();
	}
}
END_TEST

/* Random bytes: no crash, no write outside writable memory. */
START_TEST(engine_next__random_bytes)
{
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 3000; round++) {
		bad_fpdu_open(round & 1);
		for (unsigned i = 0; i < 20 && !target.e.status; i++) {
			uint64_t r = test_random(&rng);

			switch (r % 5) {
			case 0:
				make_tagged(RIPC__RDMAP_WRITE, r & 32, writable->stag,
					    writable->addr + (r >> 8) % LEN, (r >> 40) % 600);
				break;
			case 1:
				make_untagged(RIPC__RDMAP_SEND, r & 32, 0, target.e.conn.msn[0],
					      target.e.rx.msg_len, bad_fpdu_filler(),
					      (r >> 40) % 900);
				break;
			case 2:
				make_read_request(target.e.conn.msn[1], readable->stag,
						  readable->addr + (r >> 8) % LEN, (r >> 40) % 600);
				break;
			default:
				fpdu_len = (r >> 8) % 100 + 1;
				for (size_t k = 0; k < fpdu_len; k++)
					fpdu[k] = (uint8_t)test_random(&rng);
			}
			if (r & 64)
				fpdu[(r >> 20) % fpdu_len] ^= (uint8_t)(r >> 50);
			feed_fpdu();
		}
		for (size_t i = 0; i < 64; i++) {
			ck_assert_uint_eq(memory[i], 0xcc);
			ck_assert_uint_eq(memory[64 + LEN + i], 0xcc);
		}
		bad_fpdu_close();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine_rx");
	TCase *tc = tcase_create("engine_rx");

	tcase_add_test(tc, engine_next__crc_of_every_bit);
	tcase_add_test(tc, engine_next__crc_of_a_segment_being_placed);
	tcase_add_test(tc, engine_next__nothing_outside_of_a_write);
	tcase_add_test(tc, engine_next__kinds_of_send);
	tcase_add_test(tc, engine_next__send_in_parts);
	tcase_add_loop_test(tc, engine_next__send_in_parts_that_do_not_fit, 0, 4);
	tcase_add_loop_test(tc, engine_next__response_checked_against_its_read, 0, 6);
	tcase_add_test(tc, engine_next__more_reads_than_agreed);
	tcase_add_test(tc, engine_next__read_of_nothing_needs_no_stag);
	tcase_add_test(tc, engine_next__terminate_of_the_peer);
	tcase_add_test(tc, engine_next__random_bytes);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/engine_rx", suite);
}
