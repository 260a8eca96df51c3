/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "keys.h"

#include "auth/handshake.h"

static const uint8_t nonce_a[RIPC__NONCE] = "nonce of a", nonce_b[RIPC__NONCE] = "nonce of b";

/* Both ends of one handshake. */
struct pair {
	struct ripc__auth *a, *b;
	struct ripc__handshake by_a, by_b;
	uint8_t ask[RIPC__HANDSHAKE_LEN], answer[RIPC__HANDSHAKE_LEN], confirm[RIPC__CONFIRM_LEN];
};

static void begin(struct pair *p, const char *keys_a, const char *keys_b)
{
	struct ripc__hello h = {.instance = {1}, .target = {2}, .send_max = 4096};

	memset(p, 0, sizeof(*p));
	p->a = keys_open(keys_a, 1);
	p->b = keys_open(keys_b, 2);
	ripc__hello_encode(&h, p->ask);
	ripc__handshake_request(p->a, &p->by_a, nonce_a, p->ask);
	h.instance[0] = 2;
	h.target[0] = 1;
	ripc__hello_encode(&h, p->answer);
}

static void end(struct pair *p)
{
	ripc__auth_close(p->a);
	ripc__auth_close(p->b);
}

static bool asked(struct pair *p)
{
	return ripc__handshake_check_request(p->b, &p->by_b, p->ask, sizeof(p->ask));
}

static bool answered(struct pair *p)
{
	struct ripc__handshake copy = p->by_a;
	bool ok = ripc__handshake_check_reply(p->a, &copy, p->answer, sizeof(p->answer));

	if (ok)
		p->by_a = copy;
	return ok;
}

static bool confirmed(struct pair *p)
{
	return ripc__handshake_check_confirm(p->b, &p->by_b, p->confirm, sizeof(p->confirm));
}

START_TEST(handshake__mutual)
{
	static const char *const keys[][2] = {{KEY_A, KEY_A},
					      {KEY_A, KEY_B KEY_A},
					      {KEY_A KEY_B, KEY_B KEY_A},
					      {KEY_B KEY_A, KEY_B}};
	struct pair p;

	begin(&p, keys[_i][0], keys[_i][1]);
	ck_assert(asked(&p));
	ripc__handshake_reply(p.b, &p.by_b, nonce_b, p.answer);
	ck_assert(answered(&p));
	ck_assert(ripc__handshake_confirm(p.a, &p.by_a, p.confirm));
	ck_assert(confirmed(&p));
	end(&p);
}
END_TEST

START_TEST(handshake__without_key)
{
	struct pair p;

	begin(&p, KEY_A, KEY_B);
	ck_assert(!asked(&p));
	/* One that answers all the same is not believed. */
	memcpy(p.by_b.request, p.ask, sizeof(p.by_b.request));
	ripc__handshake_reply(p.b, &p.by_b, nonce_b, p.answer);
	ck_assert(!answered(&p));
	end(&p);
	/* Nor is one that has no keys at all. */
	begin(&p, KEY_A, KEY_A);
	ck_assert(!answered(&p));
	p.ask[RIPC__HELLO_AUTH] = 0;
	ck_assert(!asked(&p));
	end(&p);
}
END_TEST

START_TEST(handshake__bit_flips)
{
	struct pair p;

	begin(&p, KEY_A, KEY_A);
	for (unsigned bit = 0; bit < 8 * sizeof(p.ask); bit++) {
		p.ask[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_msg(!asked(&p), "bit %u of the question", bit);
		p.ask[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert(asked(&p));
	ripc__handshake_reply(p.b, &p.by_b, nonce_b, p.answer);
	for (unsigned bit = 0; bit < 8 * sizeof(p.answer); bit++) {
		p.answer[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_msg(!answered(&p), "bit %u of the answer", bit);
		p.answer[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert(answered(&p));
	ck_assert(ripc__handshake_confirm(p.a, &p.by_a, p.confirm));
	for (unsigned bit = 0; bit < 8 * sizeof(p.confirm); bit++) {
		p.confirm[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_msg(!confirmed(&p), "bit %u of the confirmation", bit);
		p.confirm[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert(confirmed(&p));
	end(&p);
}
END_TEST

START_TEST(handshake__truncated)
{
	struct pair p;

	begin(&p, KEY_A, KEY_A);
	for (unsigned len = 0; len < sizeof(p.ask); len++)
		ck_assert(!ripc__handshake_check_request(p.b, &p.by_b, p.ask, len));
	ck_assert(asked(&p));
	ripc__handshake_reply(p.b, &p.by_b, nonce_b, p.answer);
	ck_assert(answered(&p));
	ck_assert(ripc__handshake_confirm(p.a, &p.by_a, p.confirm));
	for (unsigned len = 0; len < sizeof(p.confirm); len++)
		ck_assert(!ripc__handshake_check_confirm(p.b, &p.by_b, p.confirm, len));
	end(&p);
}
END_TEST

/*
 * An attacker who has recorded a handshake can repeat it, but the other side's nonce is a new one.
 */
START_TEST(handshake__replayed)
{
	static const uint8_t fresh[RIPC__NONCE] = "a fresh one";
	struct pair p;
	uint8_t old_answer[RIPC__HANDSHAKE_LEN];

	begin(&p, KEY_A, KEY_A);
	ck_assert(asked(&p));
	ripc__handshake_reply(p.b, &p.by_b, nonce_b, p.answer);
	memcpy(old_answer, p.answer, sizeof(old_answer));
	ck_assert(answered(&p));
	ck_assert(ripc__handshake_confirm(p.a, &p.by_a, p.confirm));
	/* The question again: it is answered, but the old confirmation does not fit. */
	ck_assert(asked(&p));
	ripc__handshake_reply(p.b, &p.by_b, fresh, p.answer);
	ck_assert(!confirmed(&p));
	/* The old answer to a new question. */
	ripc__handshake_request(p.a, &p.by_a, fresh, p.ask);
	memcpy(p.answer, old_answer, sizeof(old_answer));
	ck_assert(!answered(&p));
	end(&p);
}
END_TEST

/* A reflected message is not taken for the other side's. */
START_TEST(handshake__reflected)
{
	struct pair p;

	begin(&p, KEY_A, KEY_A);
	memcpy(p.answer, p.ask, sizeof(p.answer));
	ck_assert(!answered(&p));
	ck_assert(asked(&p));
	ripc__handshake_reply(p.b, &p.by_b, nonce_b, p.answer);
	memcpy(p.ask, p.answer, sizeof(p.ask));
	ck_assert(!asked(&p));
	end(&p);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/handshake");
	TCase *tc = tcase_create("shake");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, keys_setup, keys_teardown);
	tcase_add_loop_test(tc, handshake__mutual, 0, 4);
	tcase_add_test(tc, handshake__without_key);
	tcase_add_test(tc, handshake__bit_flips);
	tcase_add_test(tc, handshake__truncated);
	tcase_add_test(tc, handshake__replayed);
	tcase_add_test(tc, handshake__reflected);
	suite_add_tcase(suite, tc);
	return test_main("auth/handshake", suite);
}
