/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bad_fpdu.h"

struct engine_end target;
struct ripc__region *both, *readable, *writable, *local;
uint8_t memory[LEN + 2 * 64];
uint8_t fpdu[70000];
size_t fpdu_len;

void bad_fpdu_open(bool crc)
{
	struct ripc__mpa_terms t = {.crc = crc, .soft = true, .read_depth = 4, .serve_depth = 2};

	engine_end_open(&target, &t, false, 1448);
	memset(memory, 0xcc, sizeof(memory));
	both = ripc__region_add(&target.regions, memory + 64, LEN, ACCESS_ALL);
	readable = ripc__region_add(&target.regions, memory + 64, LEN, RIPC__ACCESS_REMOTE_READ);
	writable = ripc__region_add(&target.regions, memory + 64, LEN, RIPC__ACCESS_REMOTE_WRITE);
	local = ripc__region_add(&target.regions, memory + 64, LEN, RIPC__ACCESS_LOCAL_WRITE);
}

void bad_fpdu_close(void)
{
	engine_end_close(&target);
}

uint8_t *bad_fpdu_filler(void)
{
	static uint8_t bytes[66000];

	memset(bytes, 0x55, sizeof(bytes));
	return bytes;
}

void make_tagged(enum ripc__rdmap_op op, bool last, uint32_t stag, uint64_t to, size_t len)
{
	fpdu_len = make_fpdu(fpdu, ripc__ddp_put_tagged(fpdu, op, last, stag, to, len),
			     bad_fpdu_filler(), len, target.e.conn.crc);
}

void make_untagged(enum ripc__rdmap_op op, bool last, unsigned queue, uint32_t msn, uint32_t mo,
		   const void *p, size_t len)
{
	fpdu_len = make_fpdu(fpdu, ripc__ddp_put_untagged(fpdu, op, last, queue, msn, mo, len), p,
			     len, target.e.conn.crc);
}

void make_read_request(uint32_t msn, uint32_t stag, uint64_t from, uint32_t len)
{
	uint8_t body[RIPC__READ_REQUEST];

	ripc__put_be32(body, 0x1234);
	ripc__put_be64(body + 4, 0x5678);
	ripc__put_be32(body + 12, len);
	ripc__put_be32(body + 16, stag);
	ripc__put_be64(body + 20, from);
	make_untagged(RIPC__RDMAP_READ_REQUEST, true, RIPC__DDP_Q_READ, msn, 0, body, sizeof(body));
}

void feed_fpdu(void)
{
	engine_end_feed(&target, fpdu, fpdu_len);
}

void feed_bad_fpdu(unsigned code, size_t step)
{
	unsigned nrecv = target.nrecv;

	for (size_t done = 0; done < fpdu_len; done += step ? step : fpdu_len) {
		size_t part = step && step < fpdu_len - done ? step : fpdu_len - done;

		engine_end_feed(&target, fpdu + done, part);
	}
	ck_assert_msg(target.e.status < 0, "not noticed: 0x%04x", code);
	ck_assert_uint_eq(target.e.term_code, code);
	ck_assert_int_ne(target.e.status, -ECONNABORTED);
	ck_assert_uint_eq(target.nrecv, nrecv);
	/* No memory was changed. */
	ck_assert(memory[0] == 0xcc && !memcmp(memory, memory + 1, sizeof(memory) - 1));
}

void check_terminate(unsigned code, bool with_ddp, bool with_request)
{
	uint8_t out[1000];
	size_t n = engine_end_take(&target, out, sizeof(out)), head = 0;
	size_t whole;

	if (with_ddp)
		head = 2 + (fpdu[2] & RIPC__DDP_T ? 14 : 18) + (with_request ? 28 : 0);
	ck_assert_uint_ge(n, 20 + 4 + head + 4);
	whole = ripc__fpdu_size(18 + 4 + head);
	ck_assert_uint_eq(n, whole);
	ck_assert_uint_eq(ripc__get_be16(out), 18 + 4 + head);
	ck_assert_uint_eq(out[2], 0x41);
	ck_assert_uint_eq(out[3], 0x47);
	ck_assert_uint_eq(ripc__get_be32(out + 8), 2);
	ck_assert_uint_eq(ripc__get_be32(out + 12), 1);
	ck_assert_uint_eq(ripc__get_be32(out + 16), 0);
	ck_assert_uint_eq(ripc__get_be32(out + 20),
			  code << 16 | (with_ddp ? 0xc000u : 0) | (with_request ? 0x2000u : 0));
	ck_assert_mem_eq(out + 24, fpdu, head);
	if (target.e.conn.crc)
		ck_assert_uint_eq(ripc__get_le32(out + whole - 4), ripc__crc32c(0, out, whole - 4));
	ck_assert_uint_eq(engine_end_take(&target, out, sizeof(out)), 0);
}

void feed_first_fpdu(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, 0, 0, 0);
	feed_fpdu();
	ck_assert_int_eq(target.e.status, 0);
}

void fix_crc(void)
{
	size_t whole = ripc__fpdu_size(ripc__get_be16(fpdu));

	if (target.e.conn.crc && whole <= fpdu_len)
		ripc__put_le32(fpdu + whole - 4, ripc__crc32c(0, fpdu, whole - 4));
}
