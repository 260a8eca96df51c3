/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Remote return buffers: what a context keeps of the offers of its peers. */
#include "core/rig.h"

static struct rig rig;
static struct ripc *ctx;

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

START_TEST(remote_returns__bounded_per_dest)
{
	uint8_t *buf = ripc_buf_alloc(ctx, 10 * 400);

	for (unsigned i = 0; i < 400; i++)
		ck_assert_uint_eq(rig_send_return_buffer(&rig, 0, 1, buf + 10 * i, 10),
				  i < RIPC__REMOTE_RETURNS_MAX);
	ck_assert_uint_eq(rig_dest(&rig, 1, 0)->nremote_returns, RIPC__REMOTE_RETURNS_MAX);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 400);
	OK(ripc_buf_free(ctx, buf));
	rig_run(&rig, 50);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	ck_assert_uint_eq(rig_dest(&rig, 1, 0)->nremote_returns, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/memory/remote_returns");
	TCase *tc = tcase_create("remote_returns");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, remote_returns__bounded_per_dest);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/remote_returns", suite);
}
