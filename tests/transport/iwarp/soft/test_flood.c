/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Idle lanes, properly set up, more than there are descriptors: a new client is served all the
 * same.
 */
#include "flood.h"

#define OPTIONS "interfaces=lo transports=iwarp/soft resolver=local"

/* Another instance each time, as a process may claim to be. */
static size_t hello(struct flood *f, unsigned i, uint8_t *priv)
{
	struct ripc__hello h = {
		.send_max = 1 << 16, .recv_depth = 0, .service_window = 1024, .instance = "flood"};

	memcpy(h.instance + 8, &i, sizeof(i));
	memcpy(h.target, f->target, 16);
	ripc__hello_encode(&h, priv);
	return RIPC__HELLO_LEN;
}

START_TEST(flood__idle_lanes)
{
	struct flood f = {.request = hello};
	uint64_t rng = test_seed() + (uint64_t)getpid(), service = test_random(&rng) >> 1 | 1;
	struct ripc_service *s;
	struct ripc *ctx;

	ck_assert_msg(!ripc_open(&ctx, OPTIONS), "%s", ripc_error_detail());
	ck_assert_msg(!ripc_service_register(ctx, service, 0, &s), "%s", ripc_error_detail());
	flood_set_target(&f, ctx);
	flood_begin(&f);
	flood_check(OPTIONS, service, s);
	flood_end(&f);
	ripc_close(ctx);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/iwarp/soft/flood");
	TCase *tc = tcase_create("flood");

	tcase_set_timeout(tc, 200);
	tcase_add_test(tc, flood__idle_lanes);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/flood", suite);
}
