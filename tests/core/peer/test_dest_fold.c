/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Folded destinations: what is left of a destination whose peer is idle. */
#include "core/rig.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

/*
 * Services 0 and 1 send reliable messages to each other, more than the credit window takes. Service
 * 1 has never looked for service 0.
 */
static void exchange_reliable(unsigned rounds)
{
	static const struct ripc_send_options reliable = {.size = sizeof(reliable),
							  .flags = RIPC_RELIABLE};
	static char bytes[1000];
	struct iovec item = {bytes, sizeof(bytes)};

	for (unsigned i = 0; i < rounds; i++)
		for (unsigned from = 0; from < 2; from++) {
			OK(ripc_send(rig.s[from], RIG_ID(!from), &item, 1, &reliable, 5000));
			ripc_message_free(rig_take(&rig, !from));
		}
}

START_TEST(fold__idle_peer)
{
	struct ripc *server = rig.ctx[1];

	for (unsigned round = 0; round < 4; round++) {
		exchange_reliable(round ? 600 : 1);
		ck_assert_ptr_nonnull(server->dests);
		ck_assert(rig_dest(&rig, 1, 0)->learned);
		rig_run(&rig, 3 * RIPC__TRIM_MS);
		ck_assert_ptr_null(server->dests);
		ck_assert(rig_lane(&rig, 1, 0)->flow_parked);
		ck_assert_ptr_null(rig_peer(&rig, 1, 0)->reliable);
	}
	/* The server sends first, to a client that it knows by its lane alone. */
	{
		struct iovec item = {"x", 1};

		OK(ripc_send(rig.s[1], RIG_ID(0), &item, 1, NULL, 5000));
		ripc_message_free(rig_take(&rig, 0));
		ck_assert(rig_dest(&rig, 1, 0)->learned);
	}
}
END_TEST

/* A destination that something waits for, or that was looked up, stays. */
START_TEST(fold__not_while_in_use)
{
	exchange_reliable(1);
	rig_dest(&rig, 1, 0)->users++;
	ripc__sim_run(rig.net, 3 * RIPC__TRIM_MS * RIPC__MS);
	ck_assert_ptr_nonnull(rig.ctx[1]->dests);
	rig_dest(&rig, 1, 0)->users--;
	ck_assert(!rig_dest(&rig, 0, 1)->learned);
	ck_assert_ptr_nonnull(rig.ctx[0]->dests);
	exchange_reliable(1);
}
END_TEST

/* The lane of a folded destination is lost: the service is looked up as any other. */
START_TEST(fold__lane_lost)
{
	exchange_reliable(1);
	rig_run(&rig, 3 * RIPC__TRIM_MS);
	ck_assert_ptr_null(rig.ctx[1]->dests);
	rig_fail_lane(&rig, 1, 0);
	rig_run(&rig, 10);
	ck_assert_ptr_null(ripc__credit_holder(rig.ctx[1], RIG_ID(0)));
	exchange_reliable(1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/dest_fold");
	TCase *tc = tcase_create("dest_fold");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, fold__idle_peer);
	tcase_add_test(tc, fold__not_while_in_use);
	tcase_add_test(tc, fold__lane_lost);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/dest_fold", suite);
}
