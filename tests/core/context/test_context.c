/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of a context after ripc_open(). */
#include "base/host.h"
#include "core/context/context.h"
#include "core/rig.h"

/* The kernel's boot id, and the network namespace in its last eight bytes. */
START_TEST(open__host_id)
{
	struct ripc__host host;
	struct ripc *ctx;
	uint8_t id[16];

	ripc__host_get(&host);
	memcpy(id, host.boot, 16);
	if (host.known)
		for (unsigned i = 0; i < 8; i++)
			id[8 + i] ^= (uint8_t)(host.netns >> 8 * i);
	OK(ripc_open(&ctx, "transports=self resolver=local"));
	ck_assert_mem_eq(ctx->host, id, 16);
	OK(ripc_close(ctx));
}
END_TEST

/* With hooks there is no thread, no descriptor and no random source but theirs. */
START_TEST(open__hooks)
{
	struct ripc__hooks hooks;
	struct rig rig;
	struct ripc *ctx;

	rig_start(&rig, 1, NULL);
	ripc__sim_hooks(rig.net, &hooks);
	ck_assert_mem_eq(&rig.ctx[0]->hooks, &hooks, sizeof(hooks));
	ck_assert_int_lt(rig.ctx[0]->progress.epfd, 0);
	rig_end(&rig);
	OK(ripc_open(&ctx, "transports=self resolver=local"));
	ck_assert_ptr_null(ctx->hooks.now);
	ck_assert_int_ge(ctx->progress.epfd, 0);
	OK(ripc_close(ctx));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/context");
	TCase *tc = tcase_create("context");

	test_seed();
	tcase_add_test(tc, open__host_id);
	tcase_add_test(tc, open__hooks);
	suite_add_tcase(suite, tc);
	return test_main("core/context/context", suite);
}
