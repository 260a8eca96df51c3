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

int main(void)
{
	Suite *suite = suite_create("base/hash");
	TCase *tc = tcase_create("siphash");

	tcase_add_test(tc, siphash__known_vector);
	suite_add_tcase(suite, tc);
	return test_main("base/hash", suite);
}
