/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Items and return buffers behind a header: counts, lengths, paths and ids that are refused. */
#include "headers.h"
#include "wire/bytes.h"

#include <errno.h>
#include <string.h>

START_TEST(decode__counts_of_items_and_returns)
{
	struct made m;

	for (unsigned k = 0; k < KINDS; k++) {
		make(&m, k, 1, 0, false);
		ripc__put_le16(m.buf + 6, kinds[k].items ? 0 : 1);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
		if (!kinds[k].items)
			continue;
		make(&m, k, RIPC_ITEMS_MAX, RIPC_RETURN_BUFFERS_MAX, false);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 6, RIPC_ITEMS_MAX + 1);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
		ripc__put_le16(m.buf + 6, UINT16_MAX);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
	for (unsigned k = 0; k < KINDS; k++) {
		make(&m, k, 1, RIPC_RETURN_BUFFERS_MAX, false);
		ck_assert_int_eq(decode(m.buf, m.len), 0);
		ripc__put_le16(m.buf + 30, kinds[k].returns ? RIPC_RETURN_BUFFERS_MAX + 1 : 1);
		ck_assert_int_eq(decode(m.buf, m.len), -EPROTO);
	}
}
END_TEST

/* Lengths whose sum wraps round to the right one. */
START_TEST(decode__short_lengths_that_wrap)
{
	uint8_t buf[RIPC__HEADER_LEN + 8 + 4], *p;

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__SHORT, 0, 2, 0, 1, 2);
	ripc__put_le32(p, UINT32_MAX);
	ripc__put_le32(p + 4, 5);
	ck_assert_int_eq(decode(buf, sizeof(buf)), -EPROTO);
	ripc__put_le32(p, 4);
	ripc__put_le32(p + 4, 0);
	ck_assert_int_eq(decode(buf, sizeof(buf)), 0);
}
END_TEST

START_TEST(decode__long_lengths_that_wrap)
{
	uint8_t buf[RIPC__LONG_FIXED + 2 * RIPC__DESC_LEN + 4], *p;
	struct ripc__desc d = {.len = UINT64_MAX - 3}, e = {.len = 8};

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__LONG, 0, 2, 0, 1, 2) + 16;
	ripc__desc_put(ripc__desc_put(p, &d), &e);
	ck_assert_int_eq(decode(buf, sizeof(buf)), -EPROTO);
	d.len = e.len = 2;
	ripc__desc_put(ripc__desc_put(p, &d), &e);
	ck_assert_int_eq(decode(buf, sizeof(buf)), 0);
}
END_TEST

START_TEST(decode__known_item_paths)
{
	uint8_t buf[RIPC__LONG_FIXED + RIPC__DESC_LEN], *p;
	struct ripc__desc d = {.addr = 1, .len = 10};

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__LONG, 0, 1, 0, 1, 2) + 16;
	for (uint32_t how = 0; how < 10; how++) {
		d.how = how;
		ripc__desc_put(p, &d);
		ck_assert_int_eq(decode(buf, sizeof(buf)),
				 how >= RIPC__HOW_READ && how <= RIPC__HOW_MAPPED ? 0 : -EPROTO);
	}
	/* Only an inline item may be empty, and none may be absurd. */
	d.len = 0;
	for (uint32_t how = 0; how <= RIPC__HOW_MAPPED; how++) {
		d.how = how;
		ripc__desc_put(p, &d);
		ck_assert_int_eq(decode(buf, sizeof(buf)), how ? -EPROTO : 0);
	}
	d.how = RIPC__HOW_READ;
	d.len = UINT64_C(1) << 62;
	ripc__desc_put(p, &d);
	ck_assert_int_eq(decode(buf, sizeof(buf)), -EPROTO);
}
END_TEST

/* doc/protocol.md 1.2: lengths are below 2^47, whatever an item travels by. */
START_TEST(decode__lengths_below_2_47)
{
	uint8_t buf[RIPC__LONG_FIXED + RIPC__DESC_LEN], *p;
	struct ripc__desc d = {.addr = 1};

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__LONG, 0, 1, 0, 1, 2) + 16;
	for (uint32_t how = RIPC__HOW_READ; how <= RIPC__HOW_MAPPED; how++)
		for (unsigned bits = 46; bits < 64; bits++) {
			d.how = how;
			d.len = UINT64_C(1) << bits;
			ripc__desc_put(p, &d);
			ck_assert_int_eq(decode(buf, sizeof(buf)), bits < 47 ? 0 : -EPROTO);
			d.len--;
			ripc__desc_put(p, &d);
			ck_assert_int_eq(decode(buf, sizeof(buf)), bits <= 47 ? 0 : -EPROTO);
		}
}
END_TEST

START_TEST(decode__grants_are_bounded)
{
	uint8_t buf[RIPC__HEADER_LEN + 8 + RIPC__DESC_LEN], *p;
	struct ripc__desc d = {0};
	int rc;

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, RIPC__GRANT, 0, 1, 0, 0, 0) + 8;
	for (uint32_t how = 0; how < 6; how++)
		for (unsigned bits = 46; bits < 64; bits++) {
			bool known = how == RIPC__HOW_INLINE || how == RIPC__HOW_GRANT;

			d.how = how;
			d.len = UINT64_C(1) << bits;
			ripc__desc_put(p, &d);
			rc = decode(buf, sizeof(buf));
			ck_assert_int_eq(rc, known && bits < 47 ? 0 : -EPROTO);
		}
}
END_TEST

/* _i: SHORT or LONG. */
START_TEST(decode__return_buffers_have_a_length_and_may_have_no_id)
{
	static const struct {
		struct ripc__desc d;
		bool ok;
	} cases[] = {{{.addr = 5, .len = 1, .key = 7, .how = 1}, true},
		     {{.len = (UINT64_C(1) << 47) - 1, .how = UINT32_MAX}, true},
		     {{.len = 1}, true},
		     {{.len = 1, .addr = 5}, false},
		     {{.len = 1, .key = 7}, false},
		     {{.how = 1}, false},
		     {{.len = 0}, false},
		     {{.len = UINT64_C(1) << 47, .how = 1}, false},
		     {{.len = UINT64_C(1) << 47}, false},
		     {{.len = UINT64_MAX, .how = 1}, false}};
	uint8_t buf[RIPC__LONG_FIXED + 2 * RIPC__DESC_LEN], *p, *back;
	unsigned kind = _i ? RIPC__LONG : RIPC__SHORT;

	memset(buf, 0, sizeof(buf));
	p = ripc__header_put(buf, kind, 0, 1, 1, 1, 2);
	back = p + (_i ? 16 + RIPC__DESC_LEN : 4);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ripc__desc_put(back, &cases[i].d);
		ck_assert_int_eq(decode(buf, (size_t)(back - buf) + RIPC__DESC_LEN),
				 cases[i].ok ? 0 : -EPROTO);
	}
}
END_TEST

/* Each buffer of a STANDING_GRANT has an id, whatever its place. */
START_TEST(decode__standing_buffers_have_an_id)
{
	uint8_t buf[RIPC__HEADER_LEN + RIPC_RETURN_BUFFERS_MAX * RIPC__DESC_LEN];

	for (unsigned without = 0; without <= RIPC_RETURN_BUFFERS_MAX; without++) {
		uint8_t *p = ripc__header_put(buf, RIPC__STANDING_GRANT, 0, 0,
					      RIPC_RETURN_BUFFERS_MAX, 1, 2);

		ripc__header_stamp(buf, 0, 0);
		for (unsigned i = 0; i < RIPC_RETURN_BUFFERS_MAX; i++)
			p = ripc__desc_put(
				p, &(struct ripc__desc){.len = 1, .how = i == without ? 0 : 1});
		ck_assert_int_eq(decode(buf, sizeof(buf)),
				 without < RIPC_RETURN_BUFFERS_MAX ? -EPROTO : 0);
	}
	ripc__header_put(buf, RIPC__STANDING_GRANT, 0, 0, 0, 1, 2);
	ripc__header_stamp(buf, 0, 0);
	ck_assert_int_eq(decode(buf, RIPC__HEADER_LEN), -EPROTO);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("wire/header_items");
	TCase *tc = tcase_create("items");

	test_seed();
	tcase_add_checked_fixture(tc, headers_setup, NULL);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, decode__counts_of_items_and_returns);
	tcase_add_test(tc, decode__short_lengths_that_wrap);
	tcase_add_test(tc, decode__long_lengths_that_wrap);
	tcase_add_test(tc, decode__known_item_paths);
	tcase_add_test(tc, decode__lengths_below_2_47);
	tcase_add_test(tc, decode__grants_are_bounded);
	tcase_add_loop_test(tc, decode__return_buffers_have_a_length_and_may_have_no_id, 0, 2);
	tcase_add_test(tc, decode__standing_buffers_have_an_id);
	suite_add_tcase(suite, tc);
	return test_main("wire/header_items", suite);
}
