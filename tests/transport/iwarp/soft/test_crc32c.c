/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"
#include "transport/iwarp/soft/crc32c.h"

#include <stdlib.h>
#include <string.h>

/* RFC 3720, appendix B.4. */
START_TEST(crc32c__known_vectors)
{
	static const uint8_t command[48] = {
		0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
		0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
		0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0,
	};
	uint8_t b[32];
	uint32_t (*const crc[2])(uint32_t, const void *, size_t) = {ripc__crc32c,
								    ripc__crc32c_portable};

	for (unsigned k = 0; k < 2; k++) {
		memset(b, 0, 32);
		ck_assert_uint_eq(crc[k](0, b, 32), 0x8a9136aa);
		memset(b, 0xff, 32);
		ck_assert_uint_eq(crc[k](0, b, 32), 0x62a8ab43);
		for (unsigned i = 0; i < 32; i++)
			b[i] = (uint8_t)i;
		ck_assert_uint_eq(crc[k](0, b, 32), 0x46dd794e);
		for (unsigned i = 0; i < 32; i++)
			b[i] = (uint8_t)(31 - i);
		ck_assert_uint_eq(crc[k](0, b, 32), 0x113fdb5c);
		ck_assert_uint_eq(crc[k](0, command, 48), 0xd9963a56);
		ck_assert_uint_eq(crc[k](0, "123456789", 9), 0xe3069283);
		ck_assert_uint_eq(crc[k](0, NULL, 0), 0);
	}
}
END_TEST

/* All lengths around the limits of the three-stream rounds, at all alignments. */
START_TEST(crc32c__agrees_with_portable)
{
	uint64_t rng = test_seed();
	size_t cap = 20000;
	uint8_t *b = malloc(cap);

	for (size_t i = 0; i < cap; i++)
		b[i] = (uint8_t)test_random(&rng);
	for (size_t len = 0; len < 1700; len++)
		ck_assert_uint_eq(ripc__crc32c(0, b + len % 8, len),
				  ripc__crc32c_portable(0, b + len % 8, len));
	for (unsigned i = 0; i < 500; i++) {
		size_t off = test_random(&rng) % 64, len = test_random(&rng) % (cap - 64);
		uint32_t start = (uint32_t)test_random(&rng);

		ck_assert_uint_eq(ripc__crc32c(start, b + off, len),
				  ripc__crc32c_portable(start, b + off, len));
	}
	free(b);
}
END_TEST

START_TEST(crc32c__incremental)
{
	uint8_t b[9000];
	uint32_t whole;

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 31 + i / 256);
	whole = ripc__crc32c_portable(0, b, sizeof(b));
	for (size_t cut = 0; cut <= sizeof(b); cut += 37)
		ck_assert_uint_eq(ripc__crc32c(ripc__crc32c(0, b, cut), b + cut, sizeof(b) - cut),
				  whole);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("crc32c");
	TCase *tc = tcase_create("crc32c");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, crc32c__known_vectors);
	tcase_add_test(tc, crc32c__agrees_with_portable);
	tcase_add_test(tc, crc32c__incremental);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/crc32c", suite);
}
