/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Everything a peer can do wrong, the Terminate it gets for it, and that no byte was placed before it was allowed. */
#include "rig.h"

#include <errno.h>

#define LEN 4096u

static struct rig_end end;
static struct ripc__region *both, *readable, *writable, *local;
static uint8_t memory[LEN + 2 * 64]; /* with canaries on both sides */
static uint8_t fpdu[70000];
static size_t fpdu_len;

static void open_end(bool crc)
{
	struct ripc__mpa_terms t = {
		.crc = crc, .soft = true, .enhanced = true, .read_depth = 4, .serve_depth = 2};

	rig_open(&end, &t, false, 1448);
	memset(memory, 0xcc, sizeof(memory));
	both = ripc__region_add(&end.regions, memory + 64, LEN, RIG_ALL);
	readable = ripc__region_add(&end.regions, memory + 64, LEN, RIPC__ACCESS_REMOTE_READ);
	writable = ripc__region_add(&end.regions, memory + 64, LEN, RIPC__ACCESS_REMOTE_WRITE);
	local = ripc__region_add(&end.regions, memory + 64, LEN, RIPC__ACCESS_LOCAL_WRITE);
}

static void close_end(void)
{
	rig_close(&end);
}

static uint8_t *filler(void)
{
	static uint8_t bytes[66000];

	memset(bytes, 0x55, sizeof(bytes));
	return bytes;
}

static void tagged(enum ripc__rdmap_op op, bool last, uint32_t stag, uint64_t to, size_t len)
{
	fpdu_len = rig_fpdu(fpdu, ripc__ddp_put_tagged(fpdu, op, last, stag, to, len), filler(),
			    len, end.e.crc);
}

static void untagged(enum ripc__rdmap_op op, bool last, unsigned queue, uint32_t msn, uint32_t mo,
		     const void *p, size_t len)
{
	fpdu_len = rig_fpdu(fpdu, ripc__ddp_put_untagged(fpdu, op, last, queue, msn, mo, len), p,
			    len, end.e.crc);
}

static void request(uint32_t msn, uint32_t stag, uint64_t from, uint32_t len)
{
	uint8_t body[RIPC__READ_REQUEST];

	ripc__put_be32(body, 0x1234);
	ripc__put_be64(body + 4, 0x5678);
	ripc__put_be32(body + 12, len);
	ripc__put_be32(body + 16, stag);
	ripc__put_be64(body + 20, from);
	untagged(RIPC__RDMAP_READ_REQUEST, true, RIPC__DDP_Q_READ, msn, 0, body, sizeof(body));
}

static void feed(void)
{
	rig_feed(&end, fpdu, fpdu_len);
}

/* Feeds the FPDU, whole or (step > 0) in pieces; the engine must end with this code. */
static void feed_bad(unsigned code, size_t step)
{
	unsigned nrecv = end.nrecv;

	for (size_t done = 0; done < fpdu_len; done += step ? step : fpdu_len) {
		size_t part = step && step < fpdu_len - done ? step : fpdu_len - done;

		rig_feed(&end, fpdu + done, part);
	}
	ck_assert_msg(end.e.status < 0, "not noticed: 0x%04x", code);
	ck_assert_uint_eq(end.e.term_code, code);
	ck_assert(!end.e.term_received);
	ck_assert_uint_eq(end.nrecv, nrecv);
	/* Nothing was placed, in no memory. */
	ck_assert(memory[0] == 0xcc && !memcmp(memory, memory + 1, sizeof(memory) - 1));
}

/* What the engine transmits at last must be this Terminate. @with_ddp, @with_request: headers of the last FPDU. */
static void check_terminate(unsigned code, bool with_ddp, bool with_request)
{
	uint8_t out[1000];
	size_t n = rig_take(&end, out, sizeof(out)), head = 0;
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
	if (end.e.crc)
		ck_assert_uint_eq(ripc__get_le32(out + whole - 4), ripc__crc32c(0, out, whole - 4));
	ck_assert_uint_eq(rig_take(&end, out, sizeof(out)), 0);
}

/* The passive side may answer only after an FPDU has come. */
static void feed_first(void)
{
	tagged(RIPC__RDMAP_WRITE, true, 0, 0, 0);
	feed();
	ck_assert_int_eq(end.e.status, 0);
}

/* Each case makes an FPDU; it is fed whole and in pieces of several sizes, with CRC and without. */
struct bad {
	const char *name;
	void (*make)(void);
	unsigned code;
	bool with_ddp, with_request;
};

static void write_no_stag(void)
{
	tagged(RIPC__RDMAP_WRITE, true, both->stag ^ 0x80000000u, both->addr, 100);
}

static void write_stag_0(void)
{
	tagged(RIPC__RDMAP_WRITE, true, 0, both->addr, 1);
}

static void write_no_right(void)
{
	tagged(RIPC__RDMAP_WRITE, true, readable->stag, readable->addr, 100);
}

static void write_local_only(void)
{
	tagged(RIPC__RDMAP_WRITE, true, local->stag, local->addr, 100);
}

static void write_before(void)
{
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr - 1, 100);
}

static void write_beyond(void)
{
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + LEN - 99, 100);
}

static void write_far(void)
{
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + LEN + 1, 1);
}

static void write_wrap(void)
{
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, UINT64_MAX - 10, 100);
}

static void write_long(void)
{
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, LEN + 1);
}

static void tagged_version(void)
{
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 100);
	fpdu[2] = (fpdu[2] & ~3) | 2;
}

static void untagged_version(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	fpdu[2] &= ~3;
}

static void rdmap_version(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	fpdu[3] = 0x80 | RIPC__RDMAP_SEND;
}

static void tagged_send(void)
{
	tagged(RIPC__RDMAP_SEND, true, writable->stag, writable->addr, 100);
}

static void tagged_unknown(void)
{
	tagged((enum ripc__rdmap_op)12, true, writable->stag, writable->addr, 100);
}

static void untagged_write(void)
{
	untagged(RIPC__RDMAP_WRITE, true, 0, 1, 0, "x", 1);
}

static void untagged_unknown(void)
{
	untagged((enum ripc__rdmap_op)8, true, 0, 1, 0, "x", 1);
}

static void send_on_read_queue(void)
{
	untagged(RIPC__RDMAP_SEND, true, 1, 1, 0, "x", 1);
}

static void queue_3(void)
{
	untagged(RIPC__RDMAP_SEND, true, 3, 1, 0, "x", 1);
}

static void queue_big(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0x80000000u, 1, 0, "x", 1);
}

static void send_msn_0(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 0, 0, "x", 1);
}

static void send_msn_2(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 2, 0, "x", 1);
}

static void send_offset(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 1, 1, "x", 1);
}

static void send_long(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, filler(), RIPC__SEND_MAX + 1);
}

static void send_invalidate_unknown(void)
{
	untagged(RIPC__RDMAP_SEND_INVALIDATE, true, 0, 1, 0, "x", 1);
	ripc__put_be32(fpdu + 4, both->stag ^ 0x80000000u);
}

static void send_invalidate_local(void)
{
	untagged(RIPC__RDMAP_SEND_SE_INVALIDATE, true, 0, 1, 0, "x", 1);
	ripc__put_be32(fpdu + 4, local->stag);
}

static void response_unasked(void)
{
	tagged(RIPC__RDMAP_READ_RESPONSE, true, both->stag, both->addr, 100);
}

static void request_msn(void)
{
	request(2, readable->stag, readable->addr, 100);
}

static void request_offset(void)
{
	request(1, readable->stag, readable->addr, 100);
	ripc__put_be32(fpdu + 16, 4);
}

static void request_short(void)
{
	untagged(RIPC__RDMAP_READ_REQUEST, true, 1, 1, 0, filler(), RIPC__READ_REQUEST - 1);
}

static void request_long(void)
{
	untagged(RIPC__RDMAP_READ_REQUEST, true, 1, 1, 0, filler(), RIPC__READ_REQUEST + 1);
}

static void request_huge(void)
{
	untagged(RIPC__RDMAP_READ_REQUEST, true, 1, 1, 0, filler(), 65000);
}

static void request_in_parts(void)
{
	untagged(RIPC__RDMAP_READ_REQUEST, false, 1, 1, 0, filler(), RIPC__READ_REQUEST);
}

static void request_no_stag(void)
{
	request(1, readable->stag ^ 0x80000000u, readable->addr, 100);
}

static void request_no_right(void)
{
	request(1, writable->stag, writable->addr, 100);
}

static void request_beyond(void)
{
	request(1, readable->stag, readable->addr + 1, LEN);
}

static void request_before(void)
{
	request(1, readable->stag, readable->addr - 1, 10);
}

static void request_4_gib(void)
{
	request(1, readable->stag, readable->addr, UINT32_MAX);
}

static void request_wrap(void)
{
	request(1, readable->stag, UINT64_MAX - 10, 100);
}

static void terminate_msn(void)
{
	untagged(RIPC__RDMAP_TERMINATE, true, 2, 2, 0, filler(), 4);
}

static void terminate_offset(void)
{
	untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 4, filler(), 4);
}

static void terminate_short(void)
{
	untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 0, filler(), 3);
}

static void terminate_long(void)
{
	untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 0, filler(), 65);
}

static void ulpdu_0(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	ripc__put_be16(fpdu, 0);
}

static void ulpdu_short_untagged(void)
{
	untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	ripc__put_be16(fpdu, 17);
}

static void ulpdu_short_tagged(void)
{
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 100);
	ripc__put_be16(fpdu, 13);
}

#define BAD(name, ...)                   \
	{                                \
#name, name, __VA_ARGS__ \
	}
static const struct bad bad[] = {
	BAD(write_no_stag, 0x1100, true, false),
	BAD(write_stag_0, 0x1100, true, false),
	BAD(write_no_right, 0x0102, true, false),
	BAD(write_local_only, 0x0102, true, false),
	BAD(write_before, 0x1101, true, false),
	BAD(write_beyond, 0x1101, true, false),
	BAD(write_far, 0x1101, true, false),
	BAD(write_wrap, 0x1103, true, false),
	BAD(write_long, 0x1101, true, false),
	BAD(tagged_version, 0x1104, true, false),
	BAD(untagged_version, 0x1206, true, false),
	BAD(rdmap_version, 0x0205, true, false),
	BAD(tagged_send, 0x0206, true, false),
	BAD(tagged_unknown, 0x0206, true, false),
	BAD(untagged_write, 0x0206, true, false),
	BAD(untagged_unknown, 0x0206, true, false),
	BAD(send_on_read_queue, 0x0206, true, false),
	BAD(queue_3, 0x1201, true, false),
	BAD(queue_big, 0x1201, true, false),
	BAD(send_msn_0, 0x1203, true, false),
	BAD(send_msn_2, 0x1203, true, false),
	BAD(send_offset, 0x1204, true, false),
	BAD(send_long, 0x1205, true, false),
	BAD(send_invalidate_unknown, 0x0209, true, false),
	BAD(send_invalidate_local, 0x0209, true, false),
	BAD(response_unasked, 0x0206, true, false),
	BAD(request_msn, 0x1203, true, false),
	BAD(request_offset, 0x1204, true, false),
	BAD(request_short, 0x02ff, true, false),
	BAD(request_long, 0x1205, true, false),
	BAD(request_huge, 0x1205, true, false),
	BAD(request_in_parts, 0x02ff, true, false),
	BAD(request_no_stag, 0x0100, true, true),
	BAD(request_no_right, 0x0102, true, true),
	BAD(request_beyond, 0x0101, true, true),
	BAD(request_before, 0x0101, true, true),
	BAD(request_4_gib, 0x0101, true, true),
	BAD(request_wrap, 0x0104, true, true),
	BAD(terminate_msn, 0x1203, true, false),
	BAD(terminate_offset, 0x1204, true, false),
	BAD(terminate_short, 0x02ff, true, false),
	BAD(terminate_long, 0x1205, true, false),
	BAD(ulpdu_0, 0x2003, false, false),
	BAD(ulpdu_short_untagged, 0x2003, false, false),
	BAD(ulpdu_short_tagged, 0x2003, false, false),
};
#define NBAD ((int)(sizeof(bad) / sizeof(bad[0])))

/* The CRC of an FPDU that was changed after it was made. */
static void repair(void)
{
	size_t whole = ripc__fpdu_size(ripc__get_be16(fpdu));

	if (end.e.crc && whole <= fpdu_len)
		ripc__put_le32(fpdu + whole - 4, ripc__crc32c(0, fpdu, whole - 4));
}

START_TEST(engine_next__violations)
{
	static const size_t steps[] = {0, 1, 2, 3, 7, 16, 21, 50};

	for (unsigned crc = 0; crc < 2; crc++) {
		for (unsigned s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
			open_end(crc);
			feed_first();
			bad[_i].make();
			repair();
			feed_bad(bad[_i].code, steps[s]);
			check_terminate(bad[_i].code, bad[_i].with_ddp, bad[_i].with_request);
			close_end();
		}
	}
}
END_TEST

/* As the first FPDU: the passive side may not speak yet, so there is no Terminate. */
START_TEST(engine_next__violation_in_the_first_fpdu)
{
	uint8_t out[100];

	open_end(true);
	bad[_i].make();
	repair();
	feed_bad(bad[_i].code, 0);
	/* A bad Read Request is whole when it is looked into, and has opened the way back. */
	if (!bad[_i].with_request)
		ck_assert_uint_eq(rig_take(&end, out, sizeof(out)), 0);
	close_end();
}
END_TEST

START_TEST(engine_next__crc_of_every_bit)
{
	for (size_t bit = 16; bit < 8 * 32; bit++) { /* the length aside: it says where the CRC is */
		open_end(true);
		feed_first();
		untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "hello", 5);
		ck_assert_uint_eq(fpdu_len, 32);
		fpdu[bit / 8] ^= (uint8_t)(1u << bit % 8);
		feed_bad(RIPC__TERM_CRC, 0);
		ck_assert_int_eq(end.e.status, -EBADMSG);
		check_terminate(RIPC__TERM_CRC, false, false);
		close_end();
	}
}
END_TEST

START_TEST(engine_next__crc_of_a_segment_being_placed)
{
	open_end(true);
	feed_first();
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 1000);
	fpdu[fpdu_len - 1] ^= 1;
	rig_feed(&end, fpdu, 500);
	ck_assert_int_eq(end.e.status, 0);
	rig_feed(&end, fpdu + 500, fpdu_len - 500);
	ck_assert_int_eq(end.e.status, -EBADMSG);
	check_terminate(RIPC__TERM_CRC, false, false);
	close_end();
}
END_TEST

START_TEST(engine_next__nothing_outside_of_a_write)
{
	open_end(false);
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + 1000, 1500);
	for (size_t cut = 1; cut < fpdu_len; cut += 13) {
		memset(memory, 0xcc, sizeof(memory));
		rig_feed(&end, fpdu, cut);
		rig_feed(&end, fpdu + cut, fpdu_len - cut);
		for (size_t i = 0; i < sizeof(memory); i++)
			ck_assert_uint_eq(memory[i], i >= 64 + 1000 && i < 64 + 2500 ? 0x55 : 0xcc);
	}
	/* Its last byte, and all of it. */
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + LEN - 1, 1);
	feed();
	tagged(RIPC__RDMAP_WRITE, true, both->stag, both->addr, LEN);
	feed();
	ck_assert_int_eq(end.e.status, 0);
	ck_assert_uint_eq(memory[63], 0xcc);
	ck_assert_uint_eq(memory[64 + LEN], 0xcc);
	/* No bytes at all need no STag. */
	tagged(RIPC__RDMAP_WRITE, true, 0xdeadbeef, UINT64_MAX, 0);
	feed();
	ck_assert_int_eq(end.e.status, 0);
	close_end();
}
END_TEST

START_TEST(engine_next__kinds_of_send)
{
	static const enum ripc__rdmap_op ops[] = {RIPC__RDMAP_SEND, RIPC__RDMAP_SEND_SE,
						  RIPC__RDMAP_SEND_INVALIDATE,
						  RIPC__RDMAP_SEND_SE_INVALIDATE};

	open_end(true);
	for (unsigned i = 0; i < 4; i++) {
		untagged(ops[i], true, 0, i + 1, 0, "hello", 5);
		if (i >= 2) {
			ripc__put_be32(fpdu + 4, i == 2 ? readable->stag : writable->stag);
			repair();
		}
		feed();
		ck_assert_int_eq(end.e.status, 0);
		ck_assert_uint_eq(end.nrecv, i + 1);
		ck_assert_mem_eq(end.recv + 5 * i, "hello", 5);
	}
	/* Invalidated: no right is left. */
	ck_assert_uint_eq(readable->access & RIG_ALL, 0);
	memset(memory, 0xcc, sizeof(memory));
	tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 4);
	feed_bad(RIPC__TERM_ACCESS, 0);
	close_end();
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

		open_end(true);
		for (uint32_t mo = 0; mo < len; mo += sizes[s]) {
			uint32_t part = len - mo < sizes[s] ? len - mo : (uint32_t)sizes[s];

			untagged(RIPC__RDMAP_SEND, mo + part == len, 0, 1, mo, bytes + mo, part);
			if (fpdu_len > 300) {
				rig_feed(&end, fpdu, 290);
				rig_feed(&end, fpdu + 290, fpdu_len - 290);
			} else {
				feed();
			}
			ck_assert_int_eq(end.e.status, 0);
		}
		ck_assert_uint_eq(end.nrecv, 1);
		ck_assert_uint_eq(end.lens[0], len);
		ck_assert_mem_eq(end.recv, bytes, len);
		close_end();
	}
}
END_TEST

START_TEST(engine_next__send_in_parts_that_do_not_fit)
{
	/* The second part at the wrong place, of another kind, of another message, too long. */
	static const unsigned codes[] = {0x1204, 0x0206, 0x1203, 0x1205};

	open_end(false);
	feed_first();
	untagged(RIPC__RDMAP_SEND, false, 0, 1, 0, filler(), 1000);
	feed();
	ck_assert_int_eq(end.e.status, 0);
	untagged(_i == 1 ? RIPC__RDMAP_SEND_SE : RIPC__RDMAP_SEND, true, 0, _i == 2 ? 2 : 1,
		 _i == 0 ? 999 : 1000, filler(), _i == 3 ? RIPC__SEND_MAX - 999 : 10);
	feed_bad(codes[_i], 0);
	check_terminate(codes[_i], true, false);
	close_end();
}
END_TEST

START_TEST(engine_next__response_checked_against_its_read)
{
	static const unsigned codes[] = {0x1100, 0x1101, 0x1101, 0x1101, 0x1101, 0x0206};
	uint64_t addr;
	uint8_t out[200];

	open_end(true);
	feed_first();
	addr = local->addr;
	ck_assert_int_eq(ripc__engine_read(&end.e, local, memory + 64, 1000, 7, 8, 99), 0);
	ck_assert_uint_eq(rig_take(&end, out, sizeof(out)), 52);
	switch (_i) {
	case 0: /* another STag, though one that exists */
		tagged(RIPC__RDMAP_READ_RESPONSE, true, both->stag, addr, 1000);
		break;
	case 1: /* not the next byte */
		tagged(RIPC__RDMAP_READ_RESPONSE, false, local->stag, addr + 1, 100);
		break;
	case 2: /* more than asked for */
		tagged(RIPC__RDMAP_READ_RESPONSE, true, local->stag, addr, 1001);
		break;
	case 3: /* less */
		tagged(RIPC__RDMAP_READ_RESPONSE, true, local->stag, addr, 999);
		break;
	case 4: /* nothing */
		tagged(RIPC__RDMAP_READ_RESPONSE, true, 0, 0, 0);
		break;
	default: /* twice */
		tagged(RIPC__RDMAP_READ_RESPONSE, true, local->stag, addr, 1000);
		feed();
		ck_assert_uint_eq(end.nread, 1);
		ck_assert_uint_eq(end.last_wr_id, 99);
		memset(memory, 0xcc, sizeof(memory));
	}
	feed_bad(codes[_i], 0);
	check_terminate(codes[_i], true, false);
	close_end();
}
END_TEST

START_TEST(engine_next__more_reads_than_agreed)
{
	open_end(true);
	for (unsigned i = 1; i <= 2; i++) {
		request(i, readable->stag, readable->addr, 100);
		feed();
		ck_assert_int_eq(end.e.status, 0);
	}
	request(3, readable->stag, readable->addr, 100);
	feed_bad(RIPC__TERM_U_NO_BUFFER, 0);
	check_terminate(RIPC__TERM_U_NO_BUFFER, true, false);
	close_end();
}
END_TEST

START_TEST(engine_next__read_of_nothing_needs_no_stag)
{
	uint8_t out[100];

	open_end(true);
	request(1, 0xdeadbeef, UINT64_MAX, 0);
	feed();
	ck_assert_int_eq(end.e.status, 0);
	ck_assert_uint_eq(rig_take(&end, out, sizeof(out)), 20);
	ck_assert_uint_eq(out[2], 0xc1);
	ck_assert_uint_eq(out[3], 0x42);
	ck_assert_uint_eq(ripc__get_be32(out + 4), 0x1234);
	ck_assert_uint_eq(ripc__get_be64(out + 8), 0x5678);
	close_end();
}
END_TEST

START_TEST(engine_next__terminate_of_the_peer)
{
	uint8_t body[4], out[100];

	for (unsigned code = 0; code < 0x3000; code += 0x11) {
		open_end(true);
		feed_first();
		ripc__put_be32(body, code << 16);
		untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 0, body, 4);
		feed();
		ck_assert_int_eq(end.e.status, -ECONNABORTED);
		ck_assert(end.e.term_received);
		ck_assert_uint_eq(end.e.term_code, code);
		ck_assert_ptr_nonnull(end.e.text);
		ck_assert_uint_eq(rig_take(&end, out, sizeof(out)), 0); /* is not answered */
		close_end();
	}
}
END_TEST

/* Bytes of any kind: no crash, nothing outside of what may be written. */
START_TEST(engine_next__random_bytes)
{
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 3000; round++) {
		open_end(round & 1);
		for (unsigned i = 0; i < 20 && !end.e.status; i++) {
			uint64_t r = test_random(&rng);

			switch (r % 5) {
			case 0:
				tagged(RIPC__RDMAP_WRITE, r & 32, writable->stag,
				       writable->addr + (r >> 8) % LEN, (r >> 40) % 600);
				break;
			case 1:
				untagged(RIPC__RDMAP_SEND, r & 32, 0, end.e.rx.msn[0],
					 end.e.rx.msg_len, filler(), (r >> 40) % 900);
				break;
			case 2:
				request(end.e.rx.msn[1], readable->stag,
					readable->addr + (r >> 8) % LEN, (r >> 40) % 600);
				break;
			default:
				fpdu_len = (r >> 8) % 100 + 1;
				for (size_t k = 0; k < fpdu_len; k++)
					fpdu[k] = (uint8_t)test_random(&rng);
			}
			if (r & 64)
				fpdu[(r >> 20) % fpdu_len] ^= (uint8_t)(r >> 50);
			feed();
		}
		for (size_t i = 0; i < 64; i++) {
			ck_assert_uint_eq(memory[i], 0xcc);
			ck_assert_uint_eq(memory[64 + LEN + i], 0xcc);
		}
		close_end();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine_rx");
	TCase *tc = tcase_create("engine_rx");

	tcase_add_loop_test(tc, engine_next__violations, 0, NBAD);
	tcase_add_loop_test(tc, engine_next__violation_in_the_first_fpdu, 0, NBAD);
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
	return test_main("soft/test_engine_rx", suite);
}
