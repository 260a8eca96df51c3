/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The private data of a lane's set-up: round trips, and every way to break them. */
#include "harness.h"
#include "wire/bytes.h"
#include "wire/header.h"
#include "wire/hello.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t rng;

static void fill(struct ripc__hello *h)
{
	memset(h, 0, sizeof(*h));
	for (unsigned i = 0; i < 16; i++) {
		h->instance[i] = (uint8_t)test_random(&rng);
		h->target[i] = (uint8_t)test_random(&rng);
	}
	h->send_max = RIPC__MSG_MIN_MAX + (uint32_t)(test_random(&rng) % 100000);
	h->recv_depth = 3 + (uint32_t)(test_random(&rng) % 65533);
	h->service_window = 64 + (uint32_t)(test_random(&rng) % 100000);
	h->caps = (uint32_t)test_random(&rng);
	h->epoch = test_random(&rng);
}

/* Decodes a copy of exactly that size. An error has a reason. */
static int decode(struct ripc__hello *h, const uint8_t *buf, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);
	const char *why = NULL;
	int rc;

	memcpy(copy, buf, len);
	rc = ripc__hello_decode(h, copy, len, &why);
	free(copy);
	ck_assert(rc == 0 || rc == -EPROTO || rc == -EPROTONOSUPPORT);
	ck_assert_ptr_nonnull(why);
	ck_assert(!rc == !*why);
	return rc;
}

START_TEST(encode__bytes)
{
	struct ripc__hello h = {.refusal = 2,
				.send_max = 0x01020304,
				.recv_depth = 5,
				.service_window = 6,
				.caps = 7,
				.epoch = 0x08};
	uint8_t buf[RIPC__HELLO_LEN], want[RIPC__HELLO_LEN] = {'R', 'I', 'P', 'C', 3, 2};

	memset(h.instance, 0x11, 16);
	memset(h.target, 0x22, 16);
	memset(want + 8, 0x11, 16);
	memset(want + 24, 0x22, 16);
	/* Bytes, no string. NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
	memcpy(want + 40, "\4\3\2\1", 4);
	want[44] = 5;
	want[48] = 6;
	want[52] = 7;
	want[56] = 8;
	ripc__hello_encode(&h, buf);
	ck_assert_mem_eq(buf, want, sizeof(want));
}
END_TEST

START_TEST(decode__round_trip_hello)
{
	for (int i = 0; i < 1000; i++) {
		uint8_t buf[RIPC__HELLO_LEN], again[RIPC__HELLO_LEN];
		struct ripc__hello h, back;

		fill(&h);
		h.refusal = (uint8_t)(test_random(&rng) % RIPC__REFUSE_END);
		ripc__hello_encode(&h, buf);
		ck_assert_int_eq(decode(&back, buf, sizeof(buf)), 0);
		ripc__hello_encode(&back, again);
		ck_assert_mem_eq(buf, again, sizeof(buf));
	}
}
END_TEST

START_TEST(decode__every_truncation)
{
	uint8_t buf[RIPC__HELLO_LEN];
	struct ripc__hello h;

	fill(&h);
	ripc__hello_encode(&h, buf);
	for (size_t len = 0; len < sizeof(buf); len++)
		ck_assert_int_eq(decode(&h, buf, len), -EPROTO);
}
END_TEST

START_TEST(decode__ignores_trailing_bytes)
{
	uint8_t buf[RIPC__HELLO_LEN + 100];
	struct ripc__hello h;

	memset(buf, 0xff, sizeof(buf));
	fill(&h);
	ripc__hello_encode(&h, buf);
	ck_assert_int_eq(decode(&h, buf, sizeof(buf)), 0);
}
END_TEST

START_TEST(decode__every_mutation_of_a_byte)
{
	uint8_t good[RIPC__HELLO_LEN], buf[RIPC__HELLO_LEN];
	struct ripc__hello h;

	fill(&h);
	ripc__hello_encode(&h, good);
	for (size_t at = 0; at < sizeof(good); at++)
		for (unsigned v = 0; v < 256; v++) {
			int rc;

			memcpy(buf, good, sizeof(buf));
			buf[at] = (uint8_t)v;
			rc = decode(&h, buf, sizeof(buf));
			if (at < 4)
				ck_assert_int_eq(rc, v == good[at] ? 0 : -EPROTO);
			else if (at == 4)
				ck_assert_int_eq(rc, v == 3 ? 0 : -EPROTONOSUPPORT);
			else if (at == 5)
				ck_assert_int_eq(rc, v < RIPC__REFUSE_END ? 0 : -EPROTO);
			else if (at < 40)
				ck_assert_int_eq(rc, 0);
			if (!rc && !h.refusal) {
				ck_assert_uint_ge(h.send_max, RIPC__MSG_MIN_MAX);
				ck_assert(!h.recv_depth || h.recv_depth >= RIPC__RECV_DEPTH_MIN);
				ck_assert_uint_le(h.recv_depth, 65535);
				ck_assert_uint_ge(h.service_window, 64);
			}
		}
}
END_TEST

START_TEST(decode__limits)
{
	static const struct {
		uint32_t send_max, recv_depth, service_window;
		int rc;
	} cases[] = {
		{RIPC__MSG_MIN_MAX, 0, 64, 0},
		{RIPC__MSG_MIN_MAX - 1, 0, 64, -EPROTO},
		{0, 0, 64, -EPROTO},
		{UINT32_MAX, 65535, UINT32_MAX, 0},
		{RIPC__MSG_MIN_MAX, 1, 64, -EPROTO},
		{RIPC__MSG_MIN_MAX, 2, 64, -EPROTO},
		{RIPC__MSG_MIN_MAX, 3, 64, 0},
		{RIPC__MSG_MIN_MAX, 65536, 64, -EPROTO},
		{RIPC__MSG_MIN_MAX, 3, 63, -EPROTO},
		{RIPC__MSG_MIN_MAX, 3, 0, -EPROTO},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ripc__hello h = {.send_max = cases[i].send_max,
					.recv_depth = cases[i].recv_depth,
					.service_window = cases[i].service_window};
		uint8_t buf[RIPC__HELLO_LEN];

		ripc__hello_encode(&h, buf);
		ck_assert_int_eq(decode(&h, buf, sizeof(buf)), cases[i].rc);
		/* A refusal contains no limits to check. */
		buf[5] = RIPC__REFUSE_CLOSING;
		ck_assert_int_eq(decode(&h, buf, sizeof(buf)), 0);
	}
}
END_TEST

START_TEST(decode__random_bytes)
{
	for (int i = 0; i < 20000; i++) {
		uint8_t buf[128];
		size_t len = test_random(&rng) % sizeof(buf);
		struct ripc__hello h;

		for (size_t k = 0; k < len; k++)
			buf[k] = (uint8_t)test_random(&rng);
		if (i & 1 && len >= 6) {
			/* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
			memcpy(buf, "RIPC\1\0", 6);
		}
		(void)decode(&h, buf, len);
	}
}
END_TEST

START_TEST(refusal_text__unique)
{
	for (unsigned i = 0; i < RIPC__REFUSE_END; i++)
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(ripc__refusal_text(i), ripc__refusal_text(k));
	ck_assert_str_eq(ripc__refusal_text(RIPC__REFUSE_END), "unknown reason");
	ck_assert_str_eq(ripc__refusal_text(UINT32_MAX), "unknown reason");
}
END_TEST

static void setup(void)
{
	rng = test_seed();
}

int main(void)
{
	Suite *suite = suite_create("wire/hello");
	TCase *tc = tcase_create("hello");

	test_seed();
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, encode__bytes);
	tcase_add_test(tc, decode__round_trip_hello);
	tcase_add_test(tc, decode__every_truncation);
	tcase_add_test(tc, decode__ignores_trailing_bytes);
	tcase_add_test(tc, decode__every_mutation_of_a_byte);
	tcase_add_test(tc, decode__limits);
	tcase_add_test(tc, decode__random_bytes);
	tcase_add_test(tc, refusal_text__unique);
	suite_add_tcase(suite, tc);
	return test_main("wire/hello", suite);
}
