/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The list of members in each context: addresses that change, and announcements that are lost. */
#include "core/group/membership.h"
#include "core/groups.h"
#include "wire/record.h"

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

/*
 * The addresses of a member have changed: its next JOIN has the new ones, and the other members get
 * them.
 */
START_TEST(member__new_addresses)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	unsigned coordinator;
	struct ripc__member *m;
	struct ripc__record r;
	const char *why;
	int len;

	hostile = true;
	rig_start(&rig, 3, NULL);
	join(3);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	m = ripc__member_find(group(2), rig_instance(&rig, !coordinator));
	OK(ripc__record_decode(&r, m->record, m->record_len, &why));
	r.naddrs = 0;
	len = ripc__record_encode(&r, record, sizeof(record));
	inject(!coordinator, coordinator, RIPC__JOIN, RIPC__ROLE_MEMBER,
	       group(coordinator)->version, record, (size_t)len);
	m = ripc__member_find(group(2), rig_instance(&rig, !coordinator));
	ck_assert_ptr_nonnull(m);
	ck_assert_int_eq(m->record_len, len);
	expect_member_count(0, 3, 3);
}
END_TEST

/* A sender that knows former addresses of a member connects to the new ones. */
START_TEST(member__moved_is_reached)
{
	struct ripc__record old, new, other;
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	unsigned coordinator;
	struct ripc__member *m;
	const char *why;
	int len;

	hostile = true;
	rig_start(&rig, 3, NULL);
	join(3);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	ck_assert_ptr_null(rig_lane(&rig, 2, !coordinator));
	/* Another context has the former address now. */
	ripc__lock(rig.ctx[2]);
	m = ripc__member_find(group(2), rig_instance(&rig, coordinator));
	OK(ripc__record_decode(&other, m->record, m->record_len, &why));
	m = ripc__member_find(group(2), rig_instance(&rig, !coordinator));
	OK(ripc__record_decode(&new, m->record, m->record_len, &why));
	old = new;
	old.addrs[0] = other.addrs[0];
	OK(ripc__peer_set_addrs(ripc__peer_get(rig.ctx[2], new.instance), &old));
	m = ripc__member_put(group(2), &old, RIPC__ROLE_MEMBER);
	m->moved = false;
	ripc__unlock(rig.ctx[2]);
	len = ripc__record_encode(&new, record, sizeof(record));
	inject(coordinator, 2, RIPC__MEMBER, 1, group(2)->version + 1, record, (size_t)len);
	send_all(2, 0, 3);
	ck_assert_uint_eq(stats(2).unreached, 0);
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
	tcase_add_test(tc, member__new_addresses);
	tcase_add_test(tc, member__moved_is_reached);
	suite_add_tcase(suite, tc);
	return test_main("core/group/membership", suite);
}
