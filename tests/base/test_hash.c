/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"

#include "base/hash.h"

/* The test vector of its authors for the key 00..0f and the input 00..07. */
START_TEST(siphash__known_vector)
{
	uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

	ck_assert_uint_eq(ripc__siphash(key, UINT64_C(0x0706050403020100)),
			  UINT64_C(0x93f5f5799a932462));
}
END_TEST

/* Likewise, of no byte and of the bytes 00..0e. */
START_TEST(siphash__known_vectors_of_bytes)
{
	uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
	uint8_t bytes[15];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	ck_assert_uint_eq(ripc__siphash_bytes(key, bytes, 0), UINT64_C(0x726fdb47dd0e0e31));
	ck_assert_uint_eq(ripc__siphash_bytes(key, bytes, 8), UINT64_C(0x93f5f5799a932462));
	ck_assert_uint_eq(ripc__siphash_bytes(key, bytes, 15), UINT64_C(0xa129ca6149be45e5));
}
END_TEST

/* Test vectors of its authors. */
START_TEST(fnv1a__known_vectors)
{
	ck_assert_uint_eq(ripc__fnv1a(RIPC__FNV1A_INIT, "", 0), UINT64_C(0xcbf29ce484222325));
	ck_assert_uint_eq(ripc__fnv1a(RIPC__FNV1A_INIT, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
	ck_assert_uint_eq(ripc__fnv1a(RIPC__FNV1A_INIT, "foobar", 6), UINT64_C(0x85944171f73967e8));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/hash");
	TCase *tc = tcase_create("hash");

	tcase_add_test(tc, siphash__known_vector);
	tcase_add_test(tc, siphash__known_vectors_of_bytes);
	tcase_add_test(tc, fnv1a__known_vectors);
	suite_add_tcase(suite, tc);
	return test_main("base/hash", suite);
}
