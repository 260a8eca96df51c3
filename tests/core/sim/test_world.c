/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts and actors on a simulated network: who is polled, and until when. */
#include "core/rig.h"

static struct rig rig;

START_TEST(attach__last_opened)
{
	rig_start(&rig, 2, NULL);
	RC(-ENOENT, ripc__sim_attach(rig.net, rig.ctx[0]));
	for (unsigned i = 0; i < 2; i++)
		ck_assert_mem_eq(ripc__sim_instance(rig.net, rig.ctx[i]), rig.ctx[i]->instance, 16);
	rig_end(&rig);
}
END_TEST

START_TEST(detach__not_known_any_more)
{
	struct ripc *ctx;

	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[1];
	OK(ripc_close(ctx));
	ck_assert_ptr_nonnull(ripc__sim_instance(rig.net, ctx));
	ripc__sim_detach(rig.net, ctx);
	ck_assert_ptr_null(ripc__sim_instance(rig.net, ctx));
	/* A second time there is nothing to do; the others stay. */
	ripc__sim_detach(rig.net, ctx);
	ck_assert_ptr_nonnull(ripc__sim_instance(rig.net, rig.ctx[0]));
	rig.ctx[1] = NULL;
	rig_run(&rig, 10);
	rig_end(&rig);
}
END_TEST

static unsigned calls[2];

static void act(void *arg)
{
	++*(unsigned *)arg;
}

START_TEST(actor__until_removed)
{
	rig_start(&rig, 1, NULL);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc__sim_actor(rig.net, act, &calls[i]));
	rig_run(&rig, 10);
	ck_assert_uint_gt(calls[0], 0);
	ck_assert_uint_eq(calls[0], calls[1]);
	ripc__sim_actor_remove(rig.net, act, &calls[0]);
	calls[0] = calls[1] = 0;
	rig_run(&rig, 10);
	ck_assert_uint_eq(calls[0], 0);
	ck_assert_uint_gt(calls[1], 0);
	ripc__sim_actor_remove(rig.net, act, &calls[1]);
	rig_end(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/sim/world");
	TCase *tc = tcase_create("world");

	test_seed();
	tcase_add_test(tc, attach__last_opened);
	tcase_add_test(tc, detach__not_known_any_more);
	tcase_add_test(tc, actor__until_removed);
	suite_add_tcase(suite, tc);
	return test_main("core/sim/world", suite);
}
