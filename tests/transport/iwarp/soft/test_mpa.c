/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "transport/iwarp/soft/mpa.h"

#include <errno.h>
#include <string.h>

static uint8_t buf[RIPC__MPA_FRAME_MAX];
static const char *why;

static struct ripc__mpa our_request(bool basic, bool crc)
{
	return (struct ripc__mpa){
		.revision = basic ? 1 : 2,
		.crc = crc,
		.enhanced = !basic,
		.ird = 32,
		.ord = 32,
		.soft = true,
		.priv = (const uint8_t *)"hello",
		.privlen = 5,
	};
}

/* The frame as decoded by the other side. */
static struct ripc__mpa across(const struct ripc__mpa *frame)
{
	struct ripc__mpa seen;
	size_t len = ripc__mpa_encode(frame, buf);

	ck_assert_uint_ge(len, RIPC__MPA_HEADER);
	ck_assert_int_eq(ripc__mpa_decode(&seen, frame->reply, buf, len, &why), (int)len);
	return seen;
}

START_TEST(mpa_encode__bytes_of_the_rfcs)
{
	struct ripc__mpa f = our_request(false, true);
	size_t len = ripc__mpa_encode(&f, buf);

	ck_assert_uint_eq(len, 20 + 4 + 8 + 5);
	ck_assert_mem_eq(buf, "MPA ID Req Frame", 16);
	ck_assert_uint_eq(buf[16], 0x50); /* C, S */
	ck_assert_uint_eq(buf[17], 2);
	ck_assert_uint_eq(buf[18] << 8 | buf[19], 17);
	ck_assert_mem_eq(buf + 20, "\x00\x20\x00\x20", 4); /* IRD 32, ORD 32 */
	ck_assert_mem_eq(buf + 24, "helloRIPCSOF\1", 13);
	f.reply = f.reject = f.markers = true;
	f.crc = false;
	ripc__mpa_encode(&f, buf);
	ck_assert_mem_eq(buf, "MPA ID Rep Frame", 16);
	ck_assert_uint_eq(buf[16], 0xb0); /* M, R, S */
	f = our_request(true, false);
	f.soft = false;
	len = ripc__mpa_encode(&f, buf);
	ck_assert_uint_eq(len, 25);
	ck_assert_uint_eq(buf[16], 0);
	ck_assert_uint_eq(buf[17], 1);
}
END_TEST

START_TEST(mpa_decode__round_trip)
{
	for (unsigned bits = 0; bits < 512; bits++) {
		struct ripc__mpa f =
					 {
						 .revision = bits & 1 ? 2 : 1,
						 .reply = bits & 2,
						 .markers = bits & 4,
						 .crc = bits & 8,
						 .reject = (bits & 16) && (bits & 2),
						 .enhanced = (bits & 32) && (bits & 1),
						 .soft = bits & 64,
						 .priv = (const uint8_t *)"private",
						 .privlen = bits & 128 ? 7 : 0,
					 },
				 g;

		f.ird = f.ord = RIPC__MPA_DEPTH_NONE;
		if (f.enhanced) {
			f.peer_to_peer = bits & 256;
			f.rtr = bits & 7;
			f.ird = (uint16_t)(bits * 31 & 0x3fff);
			f.ord = (uint16_t)(bits * 17 & 0x3fff);
		}
		g = across(&f);
		ck_assert_uint_eq(g.revision, f.revision);
		ck_assert(g.reply == f.reply && g.markers == f.markers && g.crc == f.crc &&
			  g.reject == f.reject);
		ck_assert(g.enhanced == f.enhanced && g.soft == f.soft &&
			  g.peer_to_peer == f.peer_to_peer);
		ck_assert_uint_eq(g.rtr, f.rtr);
		ck_assert_uint_eq(g.ird, f.ird);
		ck_assert_uint_eq(g.ord, f.ord);
		ck_assert_uint_eq(g.privlen, f.privlen);
		ck_assert_mem_eq(g.priv, f.priv, f.privlen);
	}
}
END_TEST

START_TEST(mpa_decode__needs_more_at_every_length)
{
	struct ripc__mpa f = our_request(false, true), g;
	size_t len = ripc__mpa_encode(&f, buf);

	for (size_t part = 0; part < len; part++)
		ck_assert_int_eq(ripc__mpa_decode(&g, false, buf, part, &why), 0);
	ck_assert_int_eq(ripc__mpa_decode(&g, false, buf, len, &why), (int)len);
	/* Bytes behind the frame are not consumed. */
	ck_assert_int_eq(ripc__mpa_decode(&g, false, buf, len + 3, &why), (int)len);
}
END_TEST

START_TEST(mpa_decode__malformed)
{
	struct ripc__mpa f = our_request(false, true), g;
	size_t len = ripc__mpa_encode(&f, buf);

	/* a request is no reply */
	ck_assert_int_eq(ripc__mpa_decode(&g, true, buf, len, &why), -EPROTO);
	ck_assert_int_eq(ripc__mpa_decode(&g, false, (const uint8_t *)"GET / HTTP/1.1", 14, &why),
			 -EPROTO);
	ck_assert_int_eq(ripc__mpa_decode(&g, false, (const uint8_t *)"G", 1, &why), -EPROTO);
	for (unsigned revision = 0; revision < 256; revision++) {
		buf[17] = (uint8_t)revision;
		ck_assert_int_eq(ripc__mpa_decode(&g, false, buf, len, &why),
				 revision == 1 || revision == 2 ? (int)len : -EPROTO);
	}
	buf[17] = 2;
	buf[16] |= 0x20;
	ck_assert_int_eq(ripc__mpa_decode(&g, false, buf, len, &why),
			 -EPROTO); /* a request that rejects */
	buf[16] &= 0xdf;
	buf[18] = 2;
	buf[19] = 1;
	ck_assert_int_eq(ripc__mpa_decode(&g, false, buf, 20, &why),
			 -EPROTO); /* 513 bytes of private data */
	buf[18] = 0;
	buf[19] = 3;
	ck_assert_int_eq(ripc__mpa_decode(&g, false, buf, 23, &why),
			 -EPROTO); /* enhanced without depths */
}
END_TEST

/* Some stacks reject without depths in the reply. */
START_TEST(mpa_decode__short_refusal)
{
	struct ripc__mpa g;

	/* The frame has no terminating 0. NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
	memcpy(buf, "MPA ID Rep Frame\x30\x02\0\0", 20);
	ck_assert_int_eq(ripc__mpa_decode(&g, true, buf, 20, &why), 20);
	ck_assert(g.reject && !g.enhanced);
	ck_assert_uint_eq(g.privlen, 0);
}
END_TEST

/* Two ends of this stack: every combination of revision and CRC setting. */
START_TEST(mpa_conclude__both_ours)
{
	int rc;

	for (unsigned bits = 0; bits < 8; bits++) {
		bool basic = bits & 1, active_crc = bits & 2, passive_crc = bits & 4;
		struct ripc__mpa request = our_request(basic, active_crc), seen = across(&request),
				 reply, back;
		struct ripc__mpa_terms passive, active;

		rc = ripc__mpa_answer(&seen, passive_crc, 32, &reply, &passive, &why);
		ck_assert_int_eq(rc, 0);
		back = across(&reply);
		ck_assert_int_eq(ripc__mpa_conclude(&request, &back, &active, &why), 0);
		ck_assert_int_eq(active.crc, active_crc || passive_crc);
		ck_assert_int_eq(passive.crc, active.crc);
		ck_assert(active.soft && passive.soft);
		ck_assert_uint_eq(active.read_depth, basic ? 1 : 32);
		ck_assert_uint_eq(passive.read_depth, basic ? 1 : 32);
		ck_assert_uint_eq(active.serve_depth, 32);
		ck_assert_uint_eq(passive.serve_depth, 32);
	}
}
END_TEST

START_TEST(mpa_answer__markers_demanded)
{
	int rc;

	for (unsigned revision = 1; revision <= 2; revision++) {
		struct ripc__mpa request = our_request(revision == 1, true), reply;
		struct ripc__mpa_terms terms;

		request.markers = true;
		rc = ripc__mpa_answer(&request, true, 32, &reply, &terms, &why);
		ck_assert_int_eq(rc, -EPROTO);
		ck_assert(reply.reject && !reply.markers);
		reply = across(&reply);
		ck_assert(reply.reject);
		ck_assert_uint_eq(reply.revision, revision);
		ck_assert_uint_eq(reply.privlen, strlen(why));
		ck_assert_mem_eq(reply.priv, "this end does not send markers", reply.privlen);
	}
}
END_TEST

START_TEST(mpa_answer__kinds_of_first_fpdu)
{
	static const unsigned picked[8] = {0, 1, 2, 2, 4, 4, 2, 2}; /* by flags B, C, D */

	for (unsigned flags = 0; flags < 8; flags++) {
		struct ripc__mpa request = our_request(false, true), reply;
		struct ripc__mpa_terms terms;
		int err;

		request.peer_to_peer = true;
		request.rtr = flags;
		err = ripc__mpa_answer(&request, true, 32, &reply, &terms, &why);
		ck_assert_int_eq(err, flags ? 0 : -EPROTO);
		ck_assert_int_eq(reply.reject, !flags);
		ck_assert_uint_eq(reply.rtr, picked[flags]);
		request.peer_to_peer = false;
		ck_assert_int_eq(ripc__mpa_answer(&request, true, 32, &reply, &terms, &why), 0);
		ck_assert(!reply.rtr && !reply.peer_to_peer);
	}
}
END_TEST

START_TEST(mpa_answer__depths)
{
	static const struct {
		uint16_t ird, ord; /* of the request */
		uint16_t reply_ird, reply_ord;
		uint32_t read_depth;
	} cases[] = {
		{32, 32, 32, 32, 32},
		{4, 8, 8, 4, 4},
		{0, 0, 0, 0, 0},
		{100, 200, 32, 32, 32},
		{RIPC__MPA_DEPTH_NONE, RIPC__MPA_DEPTH_NONE, 32, 32, 32},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ripc__mpa request = our_request(false, true), reply;
		struct ripc__mpa_terms terms;

		request.ird = cases[i].ird;
		request.ord = cases[i].ord;
		ck_assert_int_eq(ripc__mpa_answer(&request, true, 32, &reply, &terms, &why), 0);
		ck_assert_uint_eq(reply.ird, cases[i].reply_ird);
		ck_assert_uint_eq(reply.ord, cases[i].reply_ord);
		ck_assert_uint_eq(terms.read_depth, cases[i].read_depth);
	}
}
END_TEST

START_TEST(mpa_conclude__reject_with_private_data)
{
	struct ripc__mpa request = our_request(false, false), seen = across(&request), reply;
	struct ripc__mpa_terms terms;

	ripc__mpa_answer(&seen, false, 32, &reply, &terms, &why);
	reply.reject = true;
	reply.priv = (const uint8_t *)"no room";
	reply.privlen = 7;
	reply = across(&reply);
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), 0);
	ck_assert(reply.reject);
	ck_assert_uint_eq(reply.privlen, 7);
	ck_assert_mem_eq(reply.priv, "no room", 7);
}
END_TEST

START_TEST(mpa_conclude__peer_of_revision_1)
{
	struct ripc__mpa request = our_request(false, true);
	struct ripc__mpa reply = {.revision = 1, .reply = true, .crc = true, .reject = true};
	struct ripc__mpa_terms terms;

	/* It refuses revision 2: retry with 1; a second refusal is final. */
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), -EAGAIN);
	request = our_request(true, true);
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), 0);
	/* It accepts revision 2 as revision 1. */
	request = our_request(false, true);
	reply.reject = false;
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), 0);
	ck_assert(!terms.soft);
	ck_assert_uint_eq(terms.read_depth, 1);
}
END_TEST

START_TEST(mpa_conclude__replies_that_cannot_be)
{
	struct ripc__mpa request = our_request(false, true), good, reply;
	struct ripc__mpa_terms terms;

	ripc__mpa_answer(&request, true, 32, &good, &terms, &why);
	ck_assert_int_eq(ripc__mpa_conclude(&request, &good, &terms, &why), 0);
	reply = good;
	reply.markers = true;
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), -EPROTO);
	reply = good;
	reply.crc = false;
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), -EPROTO);
	reply = good;
	reply.ord = 33;
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), -EPROTO);
	reply = good;
	reply.peer_to_peer = true;
	reply.rtr = RIPC__MPA_RTR_SEND;
	ck_assert_int_eq(ripc__mpa_conclude(&request, &reply, &terms, &why), -EPROTO);
	request = our_request(true, true);
	ck_assert_int_eq(ripc__mpa_conclude(&request, &good, &terms, &why), -EPROTO);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("mpa");
	TCase *tc = tcase_create("mpa");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, mpa_encode__bytes_of_the_rfcs);
	tcase_add_test(tc, mpa_decode__round_trip);
	tcase_add_test(tc, mpa_decode__needs_more_at_every_length);
	tcase_add_test(tc, mpa_decode__malformed);
	tcase_add_test(tc, mpa_decode__short_refusal);
	tcase_add_test(tc, mpa_conclude__both_ours);
	tcase_add_test(tc, mpa_answer__markers_demanded);
	tcase_add_test(tc, mpa_answer__kinds_of_first_fpdu);
	tcase_add_test(tc, mpa_answer__depths);
	tcase_add_test(tc, mpa_conclude__reject_with_private_data);
	tcase_add_test(tc, mpa_conclude__peer_of_revision_1);
	tcase_add_test(tc, mpa_conclude__replies_that_cannot_be);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/mpa", suite);
}
