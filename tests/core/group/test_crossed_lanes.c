/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The connections of a coordinator and of a context that joins cross: one of the two lanes is
 * closed, with what was sent over it. With keys, both lanes are up for a moment.
 */
#include "auth/keys.h"
#include "core/groups.h"

struct rig rig;

static uint64_t connect_ns; /* when context 1 began to connect; 0: not yet */
static uint64_t offset_ns;  /* time from then until context 0 connects */
static struct ripc_request *request;

static void far(struct ripc__sim_config *config)
{
	config->delay_min_ns = 1 * RIPC__MS;
	config->delay_max_ns = 3 * RIPC__MS;
}

static void connect_back(void *arg)
{
	static uint8_t data[20000];
	struct ripc__peer *p = rig_peer(&rig, 1, 0);

	if (!p)
		return;
	if (!connect_ns && p->out)
		connect_ns = ripc__sim_now(rig.net);
	if (connect_ns && !request && ripc__sim_now(rig.net) >= connect_ns + offset_ns)
		request = rig_begin(&rig, 0, 1, data, sizeof(data));
}

START_TEST(join__crossed)
{
	char options[128];

	keys_setup();
	keys_write(KEY_A);
	snprintf(options, sizeof(options), "key_file=%s", key_path);
	for (offset_ns = 0; offset_ns < 4 * RIPC__MS; offset_ns += RIPC__MS / 5) {
		uint64_t start;

		rig_init(&rig, far);
		/* Other instances and delays in each loop. */
		for (int i = 0; i < _i; i++)
			ripc__sim_random(rig.net);
		for (unsigned i = 0; i < 2; i++)
			rig_open(&rig, options);
		OK(ripc_group_join(rig.s[0], GROUP, 10000));
		/* Context 0 knows the address of context 1. */
		OK(ripc_route_lookup(rig.ctx[0], RIG_ID(1), NULL, 5000));
		ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
		rig_run(&rig, 50);
		connect_ns = 0;
		request = NULL;
		OK(ripc__sim_actor(rig.net, connect_back, NULL));
		start = ripc__sim_now(rig.net);
		OK(ripc_group_join(rig.s[1], GROUP, 20000));
		ripc__sim_actor_remove(rig.net, connect_back, NULL);
		ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 1000 * RIPC__MS);
		rig_run(&rig, 100);
		expect_member_count(0, 2, 2);
		if (request)
			OK(ripc_request_wait(&request, 5000));
		rig_end(&rig);
	}
	keys_teardown();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/group/crossed_lanes");
	TCase *tc = tcase_create("crossed_lanes");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, join__crossed, 0, 16);
	suite_add_tcase(suite, tc);
	return test_main("core/group/crossed_lanes", suite);
}
