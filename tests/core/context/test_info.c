/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The explanation of a route: why this transport, and why none of the others. Counters of peers. */
#include "core/rig.h"

static void check_reason(const char *ours, const char *theirs, const char *want)
{
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc_service *s;
	char options[100];
	struct ripc *a, *b;

	snprintf(options, sizeof(options), "resolver=local transports=%s", ours);
	OK(ripc_open(&a, options));
	snprintf(options, sizeof(options), "resolver=local transports=%s", theirs);
	OK(ripc_open(&b, options));
	OK(ripc_service_register(b, RIPC_ANY_ID, 0, &s));
	OK(ripc_route_lookup(a, ripc_service_id(s), &route, 5000));
	ck_assert_str_eq(route.reason, want);
	OK(ripc_close(a));
	OK(ripc_close(b));
}

START_TEST(route__reason)
{
	check_reason("shm,iwarp/soft", "shm,iwarp/soft",
		     "shm: in use, the first that connected; iwarp/soft: not needed");
	check_reason("shm,iwarp/soft", "iwarp/soft",
		     "iwarp/soft: in use, the first that connected; "
		     "shm: the peer has no address on it");
	check_reason("shm", "iwarp/soft,shm", "shm: in use, the first that connected");
}
END_TEST

/* Each peer counts what it has exchanged with this context, and no other peer's messages. */
START_TEST(peer_stats__per_peer)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct rig rig;

	rig_start(&rig, 3, NULL);
	for (unsigned i = 0; i < 3; i++) {
		OK(rig_short(&rig, 0, 1, 100, i, 5000));
		rig_expect(&rig, 1, 100, i);
	}
	OK(rig_long(&rig, 0, 2, 5000, 9, 5000));
	rig_expect(&rig, 2, 5000, 9);
	OK(ripc_peer_stats(rig.ctx[0], RIG_ID(1), &stats));
	ck_assert_uint_eq(stats.short_sent, 3);
	ck_assert_uint_eq(stats.long_sent, 0);
	ck_assert_uint_eq(stats.bytes_sent, 300);
	ck_assert_uint_eq(stats.lanes, 1);
	OK(ripc_peer_stats(rig.ctx[0], RIG_ID(2), &stats));
	ck_assert_uint_eq(stats.short_sent, 0);
	ck_assert_uint_eq(stats.long_sent, 1);
	ck_assert_uint_eq(stats.bytes_sent, 5000);
	RC(-ENOENT, ripc_peer_stats(rig.ctx[0], 4711, &stats));
	rig_end(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/info");
	TCase *tc = tcase_create("info");

	tcase_add_test(tc, route__reason);
	tcase_add_test(tc, peer_stats__per_peer);
	suite_add_tcase(suite, tc);
	return test_main("core/context/info", suite);
}
