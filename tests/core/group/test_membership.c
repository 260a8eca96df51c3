/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the contexts of a group know of each other: lost announcements. */
#include "core/group/membership.h"
#include "core/groups.h"

struct rig rig;

/* Connections crossed: the announcements on the lane that was replaced may be lost. */
START_TEST(coordinator__lane_replaced)
{
	unsigned coordinator;
	struct ripc__group *g;

	rig_start(&rig, 3, NULL);
	join(3);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	g = group(2);
	ripc__lock(rig.ctx[2]);
	ripc__member_free(g, ripc__member_find(g, rig_instance(&rig, !coordinator)));
	ripc__unlock(rig.ctx[2]);
	expect_member_count(2, 3, 2);
	ripc__lock(rig.ctx[coordinator]);
	ripc__groups_lane_replaced(rig_lane(&rig, coordinator, 2));
	ripc__unlock(rig.ctx[coordinator]);
	rig_run(&rig, 10);
	expect_member_count(2, 3, 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/group/membership");
	TCase *tc = tcase_create("membership");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, groups_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, coordinator__lane_replaced);
	suite_add_tcase(suite, tc);
	return test_main("core/group/membership", suite);
}
