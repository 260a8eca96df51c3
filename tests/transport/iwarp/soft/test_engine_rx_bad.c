/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every fault of a peer in one FPDU: the Terminate it causes, and that no byte was placed before.
 */
#include "bad_fpdu.h"

/*
 * Each case builds an FPDU; it is fed whole and in pieces of several sizes, with and without CRC.
 */
struct bad {
	const char *name;
	void (*make)(void);
	unsigned code;
	bool with_ddp, with_request;
};

static void write_no_stag(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, both->stag ^ 0x80000000u, both->addr, 100);
}

static void write_stag_0(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, 0, both->addr, 1);
}

static void write_no_right(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, readable->stag, readable->addr, 100);
}

static void write_local_only(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, local->stag, local->addr, 100);
}

static void write_before(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr - 1, 100);
}

static void write_beyond(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + LEN - 99, 100);
}

static void write_far(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr + LEN + 1, 1);
}

static void write_wrap(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, UINT64_MAX - 10, 100);
}

static void write_long(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, LEN + 1);
}

static void tagged_version(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 100);
	fpdu[2] = (fpdu[2] & ~3) | 2;
}

static void untagged_version(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	fpdu[2] &= ~3;
}

static void rdmap_version(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	fpdu[3] = 0x80 | RIPC__RDMAP_SEND;
}

static void tagged_send(void)
{
	make_tagged(RIPC__RDMAP_SEND, true, writable->stag, writable->addr, 100);
}

static void tagged_unknown(void)
{
	make_tagged((enum ripc__rdmap_op)12, true, writable->stag, writable->addr, 100);
}

static void untagged_write(void)
{
	make_untagged(RIPC__RDMAP_WRITE, true, 0, 1, 0, "x", 1);
}

static void untagged_unknown(void)
{
	make_untagged((enum ripc__rdmap_op)8, true, 0, 1, 0, "x", 1);
}

static void send_on_read_queue(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 1, 1, 0, "x", 1);
}

static void queue_3(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 3, 1, 0, "x", 1);
}

static void queue_big(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0x80000000u, 1, 0, "x", 1);
}

static void send_msn_0(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 0, 0, "x", 1);
}

static void send_msn_2(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 2, 0, "x", 1);
}

static void send_offset(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 1, 1, "x", 1);
}

static void send_long(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, bad_fpdu_filler(), RIPC__SEND_MAX + 1);
}

static void send_invalidate_unknown(void)
{
	make_untagged(RIPC__RDMAP_SEND_INVALIDATE, true, 0, 1, 0, "x", 1);
	ripc__put_be32(fpdu + 4, both->stag ^ 0x80000000u);
}

static void send_invalidate_local(void)
{
	make_untagged(RIPC__RDMAP_SEND_SE_INVALIDATE, true, 0, 1, 0, "x", 1);
	ripc__put_be32(fpdu + 4, local->stag);
}

static void response_unasked(void)
{
	make_tagged(RIPC__RDMAP_READ_RESPONSE, true, both->stag, both->addr, 100);
}

static void request_msn(void)
{
	make_read_request(2, readable->stag, readable->addr, 100);
}

static void request_offset(void)
{
	make_read_request(1, readable->stag, readable->addr, 100);
	ripc__put_be32(fpdu + 16, 4);
}

static void request_short(void)
{
	make_untagged(RIPC__RDMAP_READ_REQUEST, true, 1, 1, 0, bad_fpdu_filler(),
		      RIPC__READ_REQUEST - 1);
}

static void request_long(void)
{
	make_untagged(RIPC__RDMAP_READ_REQUEST, true, 1, 1, 0, bad_fpdu_filler(),
		      RIPC__READ_REQUEST + 1);
}

static void request_huge(void)
{
	make_untagged(RIPC__RDMAP_READ_REQUEST, true, 1, 1, 0, bad_fpdu_filler(), 65000);
}

static void request_in_parts(void)
{
	const uint8_t *body = bad_fpdu_filler();

	make_untagged(RIPC__RDMAP_READ_REQUEST, false, 1, 1, 0, body, RIPC__READ_REQUEST);
}

static void request_no_stag(void)
{
	make_read_request(1, readable->stag ^ 0x80000000u, readable->addr, 100);
}

static void request_no_right(void)
{
	make_read_request(1, writable->stag, writable->addr, 100);
}

static void request_beyond(void)
{
	make_read_request(1, readable->stag, readable->addr + 1, LEN);
}

static void request_before(void)
{
	make_read_request(1, readable->stag, readable->addr - 1, 10);
}

static void request_4_gib(void)
{
	make_read_request(1, readable->stag, readable->addr, UINT32_MAX);
}

static void request_wrap(void)
{
	make_read_request(1, readable->stag, UINT64_MAX - 10, 100);
}

static void terminate_msn(void)
{
	make_untagged(RIPC__RDMAP_TERMINATE, true, 2, 2, 0, bad_fpdu_filler(), 4);
}

static void terminate_offset(void)
{
	make_untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 4, bad_fpdu_filler(), 4);
}

static void terminate_short(void)
{
	make_untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 0, bad_fpdu_filler(), 3);
}

static void terminate_long(void)
{
	make_untagged(RIPC__RDMAP_TERMINATE, true, 2, 1, 0, bad_fpdu_filler(), 65);
}

static void ulpdu_0(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	ripc__put_be16(fpdu, 0);
}

static void ulpdu_short_untagged(void)
{
	make_untagged(RIPC__RDMAP_SEND, true, 0, 1, 0, "x", 1);
	ripc__put_be16(fpdu, 17);
}

static void ulpdu_short_tagged(void)
{
	make_tagged(RIPC__RDMAP_WRITE, true, writable->stag, writable->addr, 100);
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

START_TEST(engine_next__violations)
{
	static const size_t steps[] = {0, 1, 2, 3, 7, 16, 21, 50};

	for (unsigned crc = 0; crc < 2; crc++) {
		for (unsigned s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
			bad_fpdu_open(crc);
			feed_first_fpdu();
			bad[_i].make();
			fix_crc();
			feed_bad_fpdu(bad[_i].code, steps[s]);
			check_terminate(bad[_i].code, bad[_i].with_ddp, bad[_i].with_request);
			bad_fpdu_close();
		}
	}
}
END_TEST

/* As first FPDU: the passive side may not send yet, so there is no Terminate. */
START_TEST(engine_next__violation_in_the_first_fpdu)
{
	uint8_t out[100];

	bad_fpdu_open(true);
	bad[_i].make();
	fix_crc();
	feed_bad_fpdu(bad[_i].code, 0);
	/* A bad Read Request is complete when checked, and allows the passive side to send. */
	if (!bad[_i].with_request)
		ck_assert_uint_eq(engine_end_take(&target, out, sizeof(out)), 0);
	bad_fpdu_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine_bad");
	TCase *tc = tcase_create("engine_bad");

	tcase_add_loop_test(tc, engine_next__violations, 0, NBAD);
	tcase_add_loop_test(tc, engine_next__violation_in_the_first_fpdu, 0, NBAD);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/engine_rx_bad", suite);
}
