/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The bytes are made by hand from the description of the format in villas.h. */
#include "harness.h"
#include "../tools/gateway/villas.h"

#include <math.h>
#include <string.h>

/* 1.5, -2 and 0.1 with sequence 258 and origin 1700000000.000000007. */
static const uint8_t golden[] = {0x20, 0x00, 0x00, 0x03, 0x00, 0x00, 0x01, 0x02, 0x65, 0x53,
				 0xf1, 0x00, 0x00, 0x00, 0x00, 0x07, 0x3f, 0xc0, 0x00, 0x00,
				 0xc0, 0x00, 0x00, 0x00, 0x3d, 0xcc, 0xcc, 0xcd};
static const struct sample golden_sample = {
	.sequence = 258,
	.origin_ns = 1700000000000000007,
	.nvalues = 3,
	.values = {1.5, -2, 0.1},
};

START_TEST(villas_encode__golden_bytes)
{
	struct sample s = golden_sample;
	uint8_t out[sizeof(golden)];

	ck_assert_uint_eq(villas_encode(&s, 0, out, sizeof(out)), sizeof(golden));
	ck_assert_mem_eq(out, golden, sizeof(golden));
	/* Only the lower half of the sequence is in the message. */
	s.sequence += UINT64_C(5) << 32;
	ck_assert_uint_eq(villas_encode(&s, 9, out, sizeof(out)), sizeof(golden));
	ck_assert_uint_eq(out[1], 9);
	out[1] = 0;
	ck_assert_mem_eq(out, golden, sizeof(golden));
}
END_TEST

START_TEST(villas_decode__golden_bytes)
{
	uint8_t two[2 * sizeof(golden)], source = 1;
	const char *why = NULL;
	struct sample s;

	memcpy(two, golden, sizeof(golden));
	memcpy(two + sizeof(golden), golden, sizeof(golden));
	two[1] = 7;
	ck_assert_uint_eq(villas_decode(&s, &source, two, sizeof(two), &why), sizeof(golden));
	ck_assert_uint_eq(source, 7);
	ck_assert_uint_eq(s.sequence, 258);
	ck_assert_int_eq(s.origin_ns, golden_sample.origin_ns);
	ck_assert_uint_eq(s.nvalues, 3);
	ck_assert_double_eq(s.values[0], 1.5);
	ck_assert_double_eq(s.values[1], -2);
	ck_assert_double_eq(s.values[2], (double)0.1f);
	ck_assert_uint_eq(villas_decode(&s, &source, two + sizeof(golden), sizeof(golden), &why),
			  sizeof(golden));
	ck_assert_uint_eq(source, 0);
}
END_TEST

START_TEST(villas_encode__limits)
{
	struct sample s = golden_sample;
	uint8_t out[VILLAS_MESSAGE_MAX], source;
	const char *why;

	ck_assert_uint_eq(villas_encode(&s, 0, out, sizeof(golden) - 1), 0);
	s.origin_ns = -1;
	ck_assert_uint_eq(villas_encode(&s, 0, out, sizeof(out)), 0);
	s.origin_ns = INT64_C(4294967296000000000);
	ck_assert_uint_eq(villas_encode(&s, 0, out, sizeof(out)), 0);
	s.origin_ns--;
	s.nvalues = SAMPLE_VALUES_MAX;
	s.values[0] = 1e300;
	s.values[1] = -1e300;
	s.values[2] = NAN;
	s.values[3] = 1e-300;
	ck_assert_uint_eq(villas_encode(&s, 0, out, sizeof(out)), VILLAS_MESSAGE_MAX);
	ck_assert_uint_eq(villas_decode(&s, &source, out, sizeof(out), &why), VILLAS_MESSAGE_MAX);
	ck_assert_int_eq(s.origin_ns, INT64_C(4294967295999999999));
	ck_assert(isinf(s.values[0]) && s.values[0] > 0);
	ck_assert(isinf(s.values[1]) && s.values[1] < 0);
	ck_assert(isnan(s.values[2]));
	ck_assert_double_eq(s.values[3], 0);
	s.nvalues = 0;
	ck_assert_uint_eq(villas_encode(&s, 0, out, sizeof(out)), VILLAS_HEADER_LEN);
}
END_TEST

START_TEST(villas_decode__malformed)
{
	static const struct {
		size_t offset;
		uint8_t byte;
		const char *why;
	} faults[] = {
		{0, 0x10, "version"},
		{0, 0x24, "type"},
		{0, 0x28, "type"},
		{0, 0x21, "reserved"},
		{3, 4, "cut"},
		{3, 65, "more than 64"},
		{2, 0xff, "more than 64"},
		{12, 0x40, "nanoseconds"},
	};
	uint8_t data[sizeof(golden)], source;
	const char *why = NULL;
	struct sample s;

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		memcpy(data, golden, sizeof(data));
		data[faults[i].offset] = faults[i].byte;
		ck_assert_uint_eq(villas_decode(&s, &source, data, sizeof(data), &why), 0);
		ck_assert_msg(strstr(why, faults[i].why), "%zu: %s", i, why);
	}
	for (size_t len = 0; len < sizeof(golden); len++)
		ck_assert_uint_eq(villas_decode(&s, &source, golden, len, &why), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("villas");
	TCase *encode = tcase_create("encode"), *decode = tcase_create("decode");

	tcase_add_test(encode, villas_encode__golden_bytes);
	tcase_add_test(encode, villas_encode__limits);
	tcase_add_test(decode, villas_decode__golden_bytes);
	tcase_add_test(decode, villas_decode__malformed);
	suite_add_tcase(suite, encode);
	suite_add_tcase(suite, decode);
	return test_main("tools/gateway/villas", suite);
}
