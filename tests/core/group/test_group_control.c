/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Control messages of groups that are malformed, or do not come from the coordinator. */
#include "core/group/coordinator.h"
#include "core/group/membership.h"
#include "core/groups.h"
#include "wire/record.h"

struct rig rig;

static size_t record_of(const uint8_t instance[16], uint8_t *buf)
{
	struct ripc__record r = {.service = ripc__group_name(GROUP), .generation = 1};
	int len;

	memcpy(r.instance, instance, 16);
	len = ripc__record_encode(&r, buf, RIPC__RECORD_BYTES_MAX);
	ck_assert_int_gt(len, 0);
	return (size_t)len;
}

/* Only the group's coordinator is believed, and only about itself. */
START_TEST(control__not_from_coordinator)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX], nobody[16] = {1, 2, 3};
	size_t len;

	hostile = true;
	rig_start(&rig, 4, NULL);
	join(3);
	rig_connect(&rig, 3, 1);
	len = record_of(nobody, record);
	inject(3, 1, RIPC__MEMBER, 1, 5, record, len);
	expect_member_count(0, 3, 3);
	len = record_of(rig_instance(&rig, 0), record);
	inject(3, 1, RIPC__MEMBER, 0, 5, record, len);
	inject(3, 1, RIPC__COORDINATOR, 0, 0, NULL, 0);
	inject(3, 1, RIPC__MCAST_ACK, 1, 0, NULL, 0);
	expect_member_count(0, 3, 3);
	ck_assert_uint_eq(group(1)->state, RIPC__GROUP_JOINED);
	rig_connect(&rig, 3, 0);
	inject(3, 0, RIPC__JOIN, RIPC__ROLE_MEMBER, 0, record, len);
	expect_member_count(0, 3, 3);
	ck_assert_uint_ge(rig_stats(&rig, 0).bad_messages, 1);
	send_all(1, 0, 3);
}
END_TEST

/* The coordinator reports the departure of a context that this one does not know. */
START_TEST(member__unknown_leaves)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX], nobody[16] = {1, 2, 3};
	unsigned coordinator;

	rig_start(&rig, 3, NULL);
	join(3);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	inject(coordinator, 2, RIPC__MEMBER, 0, 5, record, record_of(nobody, record));
	ck_assert_uint_eq(group(2)->version, 5);
	expect_member_count(2, 3, 3);
}
END_TEST

/* A context that is no member reports its own departure. */
START_TEST(join__leaves_unknown)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];

	rig_start(&rig, 2, NULL);
	join(1);
	rig_connect(&rig, 1, 0);
	inject(1, 0, RIPC__JOIN, RIPC__ROLE_NONE, 0, record,
	       record_of(rig_instance(&rig, 1), record));
	expect_member_count(0, 1, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).bad_messages, 0);
	send_all(1, 0, 1);
}
END_TEST

START_TEST(group_control__no_group)
{
	static const uint64_t groups[] = {0, RIPC_GROUP_LIMIT - 1, UINT64_MAX};
	struct ripc__header h = {.kind = RIPC__COORDINATOR};
	const char *why = NULL;

	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 3; i++) {
		h.dest = groups[i];
		RC(-EPROTO, ripc__group_control(rig_lane(&rig, 0, 1), &h, &why));
		ck_assert_str_eq(why, "of no possible group");
	}
	h.dest = RIPC_GROUP_LIMIT - 2;
	OK(ripc__group_control(rig_lane(&rig, 0, 1), &h, &why));
}
END_TEST

START_TEST(group_control__malformed)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len;

	hostile = true;
	rig_start(&rig, 2, NULL);
	join(1);
	for (unsigned i = 0; i < 3; i++) {
		rig_connect(&rig, 1, 0);
		len = record_of(rig_instance(&rig, 1), record);
		inject(1, 0, RIPC__JOIN, i == 2 ? 3 : RIPC__ROLE_MEMBER, 0, record,
		       i ? len - (i & 1) : 0);
		ck_assert_uint_eq(rig_stats(&rig, 0).bad_messages, i + 1);
		rig_run(&rig, 3000);
	}
	expect_member_count(0, 1, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/group/group_control");
	TCase *tc = tcase_create("control");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, groups_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, control__not_from_coordinator);
	tcase_add_test(tc, member__unknown_leaves);
	tcase_add_test(tc, join__leaves_unknown);
	tcase_add_test(tc, group_control__no_group);
	tcase_add_test(tc, group_control__malformed);
	suite_add_tcase(suite, tc);
	return test_main("core/group/group_control", suite);
}
