/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Paths of a peer: which addresses of its record a transport understands. */
#include "core/peer/path.h"
#include "core/rig.h"

static struct rig rig;

/* A transport understands addresses of its own, and of those that it is compatible with. */
START_TEST(path__compatible_transport)
{
	struct ripc__transport_ops ops;
	const struct ripc__transport_ops *real;
	struct ripc__peer *p;
	unsigned tp, i;
	size_t len;

	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	p = rig_peer(&rig, 0, 1);
	i = rig_lane(&rig, 0, 1)->tp;
	ck_assert_ptr_nonnull(ripc__peer_path(rig.ctx[0], p, 0, &tp, &len));
	ck_assert_uint_eq(tp, i);
	real = rig.ctx[0]->tp[i].ops;
	ops = *real;
	ops.id = 200;
	memset(ops.compat_ids, 0, sizeof(ops.compat_ids));
	rig.ctx[0]->tp[i].ops = &ops;
	ck_assert_ptr_null(ripc__peer_path(rig.ctx[0], p, 0, &tp, &len));
	ops.compat_ids[0] = real->id;
	ck_assert_ptr_nonnull(ripc__peer_path(rig.ctx[0], p, 0, &tp, &len));
	ck_assert_uint_eq(tp, i);
	rig.ctx[0]->tp[i].ops = real;
	rig_end(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/path");
	TCase *tc = tcase_create("path");

	test_seed();
	tcase_add_test(tc, path__compatible_transport);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/path", suite);
}
