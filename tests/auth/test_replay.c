/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A handshake that was recorded and is repeated without end: a new client with the key is served.
 */
#include "flood.h"
#include "keys.h"

#include "auth/handshake.h"

#define SETTINGS "interfaces=lo transports=iwarp/soft resolver=local key_file=%s"

static uint8_t recording[RIPC__HANDSHAKE_LEN];

static size_t replay(struct flood *f, unsigned i, uint8_t *priv)
{
	memcpy(priv, recording, sizeof(recording));
	return sizeof(recording);
}

/* A recording of what a peer with the key has sent to this context. */
static void record_datagram(const struct flood *f)
{
	struct ripc__hello h = {.send_max = 1 << 16, .service_window = 1024, .instance = "honest"};
	struct ripc__auth *a = keys_open(KEY_A, 9);
	uint8_t nonce[RIPC__NONCE] = {1, 2, 3};
	struct ripc__handshake shake;

	memcpy(h.target, f->target, 16);
	ripc__hello_encode(&h, recording);
	ripc__handshake_request(a, &shake, nonce, recording);
	ripc__auth_close(a);
}

START_TEST(replay__of_one_handshake)
{
	struct flood f = {.request = replay};
	uint64_t rng = test_seed() + (uint64_t)getpid(), service = test_random(&rng) >> 1 | 1;
	struct ripc__auth_counts counts;
	struct ripc_service *s;
	char options[256];
	struct ripc *ctx;

	keys_setup();
	keys_write(KEY_A);
	snprintf(options, sizeof(options), SETTINGS, key_path);
	ck_assert_msg(!ripc_open(&ctx, options), "%s", ripc_error_detail());
	ck_assert_msg(!ripc_service_register(ctx, service, 0, &s), "%s", ripc_error_detail());
	flood_set_target(&f, ctx);
	record_datagram(&f);
	flood_begin(&f);
	flood_check(options, service, s);
	flood_end(&f);
	ripc__auth_counts(ctx->auth, &counts);
	ck_assert_uint_gt(counts.replayed, 0);
	ripc_close(ctx);
	keys_teardown();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("auth/replay");
	TCase *tc = tcase_create("replay");

	tcase_set_timeout(tc, 200);
	tcase_add_test(tc, replay__of_one_handshake);
	suite_add_tcase(suite, tc);
	return test_main("auth/replay", suite);
}
