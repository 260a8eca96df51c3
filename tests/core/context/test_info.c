/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The explanation of a route: why this transport, and why none of the others. */
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

int main(void)
{
	Suite *suite = suite_create("core/context/info");
	TCase *tc = tcase_create("info");

	tcase_add_test(tc, route__reason);
	suite_add_tcase(suite, tc);
	return test_main("core/context/info", suite);
}
