/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "keys.h"

#include "base/clock.h"
#include "wire/bytes.h"

#include <errno.h>

static const uint8_t hello[] = "hello";

static int seal(struct ripc__auth *a, uint8_t *buf)
{
	return ripc__auth_seal(a, hello, sizeof(hello), buf, 256);
}

static int unseal(struct ripc__auth *a, const uint8_t *buf, int len)
{
	const uint8_t *data;
	const char *why = NULL;
	int rc = ripc__auth_unseal(a, buf, (size_t)len, &data, &why);

	if (rc >= 0) {
		ck_assert_int_eq(rc, sizeof(hello));
		ck_assert_mem_eq(data, hello, sizeof(hello));
	} else {
		ck_assert_ptr_nonnull(why);
	}
	return rc;
}

START_TEST(open__refuses)
{
	static const char *const bad[][2] = {
		{"", "no key in it"},
		{"# only words\n\n", "no key in it"},
		{"0011\n", ":1: a key is 64"},
		{"\n" KEY_A "x" KEY_B, ":3: a key is 64"},
		{KEY_A KEY_B KEY_C, ":3: more than 2"},
		{"00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg\n",
		 ":1: a key is 64"},
		{"00112233445566778899aabbccddeeff00112233445566778899aabbccddeef:\n",
		 ":1: a key is 64"},
	};
	uint8_t instance[16] = {1};
	struct ripc__auth *a;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		keys_write(bad[i][0]);
		ck_assert_int_eq(ripc__auth_open(&a, key_path, instance), -EINVAL);
		ck_assert_msg(strstr(ripc_error_detail(), bad[i][1]) &&
				      strstr(ripc_error_detail(), key_path),
			      "%s", ripc_error_detail());
		/* Never a word of what may be a key with a slip of the pen. */
		ck_assert_ptr_null(strstr(ripc_error_detail(), "00112233"));
	}
	keys_write(KEY_A);
	ck_assert_int_eq(chmod(key_path, 0644), 0);
	ck_assert_int_eq(ripc__auth_open(&a, key_path, instance), -EACCES);
}
END_TEST

/* A recorded request is known again, however often it comes, while others come and go. */
START_TEST(nonce__new_once)
{
	struct ripc__auth *a = keys_open(KEY_A, 1);
	uint64_t rng = test_seed(), recorded[2] = {test_random(&rng), test_random(&rng)};
	struct ripc__auth_counts counts;

	ck_assert(ripc__auth_nonce_is_new(a, (uint8_t *)recorded));
	for (unsigned i = 0; i < 500; i++) {
		uint64_t other[2] = {test_random(&rng), test_random(&rng)};

		ck_assert(ripc__auth_nonce_is_new(a, (uint8_t *)other));
		ck_assert(!ripc__auth_nonce_is_new(a, (uint8_t *)recorded));
	}
	ripc__auth_counts(a, &counts);
	ck_assert_uint_eq(counts.replayed, 500);
	ripc__auth_close(a);
}
END_TEST

START_TEST(seal__round_trip)
{
	struct ripc__auth *a = keys_open("# the cluster's\n  " KEY_A, 1), *b = keys_open(KEY_A, 2);
	uint8_t buf[256];
	int len = seal(a, buf);

	ck_assert_int_eq(len, sizeof(hello) + RIPC__SEAL_BYTES);
	ck_assert_int_eq(unseal(b, buf, len), sizeof(hello));
	/* Our own voice is left to the one that knows it. */
	ck_assert_int_eq(unseal(a, buf, len), sizeof(hello));
	ck_assert_int_eq(ripc__auth_seal(a, hello, sizeof(hello), buf, (size_t)len - 1), -EMSGSIZE);
	ripc__auth_close(a);
	ripc__auth_close(b);
}
END_TEST

START_TEST(unseal__bit_flips)
{
	struct ripc__auth *a = keys_open(KEY_A, 1), *b = keys_open(KEY_A, 2);
	struct ripc__auth_counts counts;
	uint8_t buf[256];
	int len = seal(a, buf);

	for (int bit = 0; bit < 8 * len; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(unseal(b, buf, len), -EKEYREJECTED);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (int cut = 0; cut < len; cut++)
		ck_assert_int_eq(unseal(b, buf, cut), -EKEYREJECTED);
	ripc__auth_counts(b, &counts);
	ck_assert_uint_eq(counts.unauthenticated, 9u * (unsigned)len);
	/* All this has not used up the number of the true one. */
	ck_assert_int_eq(unseal(b, buf, len), sizeof(hello));
	ripc__auth_close(a);
	ripc__auth_close(b);
}
END_TEST

START_TEST(unseal__another_key)
{
	struct ripc__auth *a = keys_open(KEY_A, 1), *b = keys_open(KEY_B, 2);
	uint8_t buf[256];

	ck_assert_int_eq(unseal(b, buf, seal(a, buf)), -EKEYREJECTED);
	ripc__auth_close(a);
	ripc__auth_close(b);
}
END_TEST

START_TEST(unseal__once)
{
	struct ripc__auth *a = keys_open(KEY_A, 1), *b = keys_open(KEY_A, 2);
	struct ripc__auth_counts counts;
	uint8_t bufs[100][256];
	int len = 0;

	for (unsigned i = 0; i < 100; i++)
		len = seal(a, bufs[i]);
	/* Out of order, within the window. */
	ck_assert_int_eq(unseal(b, bufs[60], len), sizeof(hello));
	for (unsigned i = 10; i < 60; i++)
		ck_assert_int_eq(unseal(b, bufs[i], len), sizeof(hello));
	for (unsigned i = 10; i <= 60; i++)
		ck_assert_int_eq(unseal(b, bufs[i], len), -EALREADY);
	ck_assert_int_eq(unseal(b, bufs[99], len), sizeof(hello));
	ck_assert_int_eq(unseal(b, bufs[99], len), -EALREADY);
	/* Too far back for us to know: not taken. */
	ck_assert_int_eq(unseal(b, bufs[5], len), -EALREADY);
	ck_assert_int_eq(unseal(b, bufs[98], len), sizeof(hello));
	ripc__auth_counts(b, &counts);
	ck_assert_uint_eq(counts.replayed, 53);
	ripc__auth_close(a);
	ripc__auth_close(b);
}
END_TEST

/* Seals it again as of another time, as one that has the key could. */
static void set_time(struct ripc__auth *a, uint8_t *buf, int len, int64_t shift_ms)
{
	ripc__put_le64(buf + 32, ripc__get_le64(buf + 32) + (uint64_t)shift_ms);
	ck_assert_int_eq(ripc__auth_mac(a, buf + 8, RIPC__KEY_MESSAGE, buf, (size_t)len - RIPC__MAC,
					buf + len - RIPC__MAC),
			 0);
}

START_TEST(unseal__not_late)
{
	struct ripc__auth *a = keys_open(KEY_A, 1), *b = keys_open(KEY_A, 2);
	struct ripc__auth_counts counts;
	uint8_t buf[256];
	int len = seal(a, buf);

	set_time(a, buf, len, -RIPC__CLOCK_SKEW_MS - 1000);
	ck_assert_int_eq(unseal(b, buf, len), -ETIME);
	set_time(a, buf, len, 2 * RIPC__CLOCK_SKEW_MS + 10000);
	ck_assert_int_eq(unseal(b, buf, len), -ETIME);
	set_time(a, buf, len, -20000);
	ck_assert_int_eq(unseal(b, buf, len), sizeof(hello));
	ripc__auth_counts(b, &counts);
	ck_assert_uint_eq(counts.late, 2);
	ripc__auth_close(a);
	ripc__auth_close(b);
}
END_TEST

/* More senders than are remembered: nothing that was taken once is ever taken again. */
START_TEST(unseal__many_senders)
{
	enum { N = 12000 };
	struct ripc__auth *a = keys_open(KEY_A, 1), *b = keys_open(KEY_A, 2);
	uint64_t rng = test_seed();
	uint8_t(*bufs)[128] = malloc(N * sizeof(*bufs));
	unsigned taken = 0;
	bool *was = calloc(N, sizeof(*was));
	int len = 0;

	for (unsigned i = 0; i < N; i++) {
		len = seal(a, bufs[i]);
		ripc__put_le64(bufs[i] + 16, test_random(&rng));
		set_time(a, bufs[i], len, (int64_t)(test_random(&rng) % 20000) - 10000);
		was[i] = unseal(b, bufs[i], len) >= 0;
		taken += was[i];
	}
	/* While there is room all are taken. */
	for (unsigned i = 0; i < 500; i++)
		ck_assert(was[i]);
	ck_assert_uint_gt(taken, 4000);
	for (unsigned i = 0; i < N; i++)
		ck_assert_msg(!was[i] || unseal(b, bufs[i], len) == -EALREADY, "%u", i);
	free(bufs);
	free(was);
	ripc__auth_close(a);
	ripc__auth_close(b);
}
END_TEST

START_TEST(sign__record)
{
	struct ripc__auth *a = keys_open(KEY_A, 1), *b = keys_open(KEY_B KEY_A, 2),
			  *c = keys_open(KEY_B, 3);
	uint8_t buf[128] = "record";
	int len = ripc__auth_sign(a, buf, 6, sizeof(buf));

	ck_assert_int_eq(len, 6 + RIPC__SIGNATURE_BYTES);
	for (unsigned again = 0; again < 2; again++)
		ck_assert_int_eq(ripc__auth_verify(b, buf, (size_t)len), 6);
	ck_assert_int_eq(ripc__auth_verify(c, buf, (size_t)len), -EKEYREJECTED);
	for (int bit = 0; bit < 8 * len; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(ripc__auth_verify(b, buf, (size_t)len), -EKEYREJECTED);
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (int cut = 0; cut < len; cut++)
		ck_assert_int_eq(ripc__auth_verify(b, buf, (size_t)cut), -EKEYREJECTED);
	ck_assert_int_eq(ripc__auth_sign(a, buf, 100, sizeof(buf)), -EMSGSIZE);
	ripc__auth_close(a);
	ripc__auth_close(b);
	ripc__auth_close(c);
}
END_TEST

/*
 * Old alone; old and new; new and old; new alone: neighbours of each step understand one another.
 */
START_TEST(key_rotation__stepwise)
{
	static const char *const steps[] = {KEY_A, KEY_A KEY_B, KEY_B KEY_A, KEY_B};
	uint8_t buf[256];

	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 4; k++) {
			struct ripc__auth *a = keys_open(steps[i], 1), *b = keys_open(steps[k], 2);
			bool near = i == k || i + 1 == k || k + 1 == i;
			int rc = unseal(b, buf, seal(a, buf));

			if (near)
				ck_assert_int_eq(rc, sizeof(hello));
			if (i + k == 3 && (!i || !k))
				ck_assert_int_eq(rc, -EKEYREJECTED);
			ripc__auth_close(a);
			ripc__auth_close(b);
		}
}
END_TEST

START_TEST(reload__changed_file)
{
	struct ripc__auth *a = keys_open(KEY_A, 1), *b;
	uint8_t buf[256];
	uint64_t now = 10000 * RIPC__MS;
	char text[256];

	ripc__auth_reload(a, now);
	b = keys_open(KEY_B, 2);
	ck_assert_int_eq(unseal(b, buf, seal(a, buf)), -EKEYREJECTED);
	/* Not looked at again so soon. */
	ripc__auth_reload(a, now + 999 * RIPC__MS);
	ck_assert_int_eq(unseal(b, buf, seal(a, buf)), -EKEYREJECTED);
	ripc__auth_reload(a, now + 1001 * RIPC__MS);
	ck_assert_int_eq(unseal(b, buf, seal(a, buf)), sizeof(hello));
	/* An unusable file changes nothing, and is logged. */
	keys_write("nonsense");
	ripc__auth_reload(a, now + 3000 * RIPC__MS);
	ck_assert_int_eq(unseal(b, buf, seal(a, buf)), sizeof(hello));
	ripc__auth_describe(a, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "cannot be used now"));
	unlink(key_path);
	ripc__auth_reload(a, now + 5000 * RIPC__MS);
	ck_assert_int_eq(unseal(b, buf, seal(a, buf)), sizeof(hello));
	keys_write(KEY_A);
	ripc__auth_reload(a, now + 7000 * RIPC__MS);
	ck_assert_int_eq(unseal(b, buf, seal(a, buf)), -EKEYREJECTED);
	ripc__auth_describe(a, text, sizeof(text));
	ck_assert_ptr_null(strstr(text, "cannot be used now"));
	ripc__auth_close(a);
	ripc__auth_close(b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/key");
	TCase *tc = tcase_create("key");

	tcase_add_checked_fixture(tc, keys_setup, keys_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, open__refuses);
	tcase_add_test(tc, nonce__new_once);
	tcase_add_test(tc, seal__round_trip);
	tcase_add_test(tc, unseal__bit_flips);
	tcase_add_test(tc, unseal__another_key);
	tcase_add_test(tc, unseal__once);
	tcase_add_test(tc, unseal__not_late);
	tcase_add_test(tc, unseal__many_senders);
	tcase_add_test(tc, sign__record);
	tcase_add_test(tc, key_rotation__stepwise);
	tcase_add_test(tc, reload__changed_file);
	suite_add_tcase(suite, tc);
	return test_main("auth/key", suite);
}
