/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The explanation of a route: why this transport, and why none of the others. Counters of peers. */
#include "core/group/group.h"
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

/* A look-up that has not ended has the reason of the error. */
START_TEST(route__not_found_yet)
{
	struct ripc_route route = {.size = sizeof(route)};
	struct rig rig;

	rig_start(&rig, 2, NULL);
	for (int timeout_ms = 0; timeout_ms <= 10; timeout_ms += 10) {
		RC(timeout_ms ? -EHOSTUNREACH : -EAGAIN,
		   ripc_route_lookup(rig.ctx[0], 4711, &route, timeout_ms));
		ck_assert_msg(strstr(route.reason, ": no answer yet"), "%s", route.reason);
	}
	rig_end(&rig);
}
END_TEST

/* The holder is known, and the lane to it was lost. */
START_TEST(route__without_lane)
{
	struct ripc_route route = {.size = sizeof(route)};
	struct rig rig;

	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	OK(ripc_route_get(rig.ctx[0], RIG_ID(1), &route));
	ck_assert_int_eq(route.connected, 1);
	ck_assert_str_eq(route.transport, "sim");
	ck_assert_uint_ge(route.short_max, RIPC_SHORT_GUARANTEED);
	rig_fail_lane(&rig, 0, 1);
	route.size = sizeof(route);
	OK(ripc_route_get(rig.ctx[0], RIG_ID(1), &route));
	ck_assert_int_eq(route.connected, 0);
	ck_assert_str_eq(route.transport, "");
	ck_assert_str_eq(route.address, "");
	ck_assert_uint_eq(route.short_max, 0);
	ck_assert_mem_eq(route.instance, rig_instance(&rig, 1), 16);
	ck_assert_uint_eq(route.service, RIG_ID(1));
	rig_end(&rig);
}
END_TEST

/* Internally the name of a group is a destination. No service has this id. */
START_TEST(route__name_of_a_group)
{
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc_limits limits = {.size = sizeof(limits)};
	struct rig rig;

	rig_start(&rig, 2, NULL);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_group_join(rig.s[i], 77, 5000));
	rig_run(&rig, 3000);
	for (unsigned i = 0; i < 2; i++) {
		RC(-ENOENT, ripc_route_get(rig.ctx[i], ripc__group_name(77), &route));
		RC(-ENOENT, ripc_route_limits(rig.ctx[i], ripc__group_name(77), &limits));
		RC(-ENOENT,
		   ripc_peer_stats(rig.ctx[i], ripc__group_name(77),
				   &(struct ripc_stats){.size = sizeof(struct ripc_stats)}));
	}
	rig_end(&rig);
}
END_TEST

/* In virtual time, too, the whole instance id is random. */
START_TEST(instance__random)
{
	struct rig rig;

	rig_start(&rig, 2, NULL);
	for (unsigned i = 0; i < 16; i += 8)
		ck_assert_mem_ne(rig_instance(&rig, 0) + i, rig_instance(&rig, 1) + i, 8);
	rig_end(&rig);
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

/* ---- outputs and errors of each call ---- */

static struct rig two;

static int route_get(void *out)
{
	return ripc_route_get(two.ctx[0], RIG_ID(1), out);
}

static int route_lookup(void *out)
{
	return ripc_route_lookup(two.ctx[0], RIG_ID(1), out, 1000);
}

static int route_limits(void *out)
{
	return ripc_route_limits(two.ctx[0], RIG_ID(1), out);
}

static int context_stats(void *out)
{
	return ripc_context_stats(two.ctx[0], out);
}

static int service_stats(void *out)
{
	return ripc_service_stats(two.s[0], out);
}

static int peer_stats(void *out)
{
	return ripc_peer_stats(two.ctx[0], RIG_ID(1), out);
}

static const struct {
	int (*call)(void *out);
	size_t size;   /* of the struct that it fills */
	bool optional; /* it may be NULL */
} calls[] = {
	{route_get, sizeof(struct ripc_route), false},
	{route_lookup, sizeof(struct ripc_route), true},
	{route_limits, sizeof(struct ripc_limits), false},
	{context_stats, sizeof(struct ripc_stats), false},
	{service_stats, sizeof(struct ripc_stats), false},
	{peer_stats, sizeof(struct ripc_stats), false},
};

#define CALLS (int)(sizeof(calls) / sizeof(calls[0]))

/*
 * A struct of another version, none, or a context that is being closed: nothing is stored. A
 * shorter struct gets as much as it has room for.
 */
START_TEST(call__output)
{
	union {
		size_t size;
		uint8_t bytes[4096];
	} out;
	size_t half = calls[_i].size / 2 / 8 * 8;
	uint8_t untouched[4096];

	ck_assert_uint_lt(calls[_i].size, sizeof(out));
	rig_start(&two, 2, NULL);
	rig_connect(&two, 0, 1);
	memset(untouched, 0xee, sizeof(untouched));
	memset(&out, 0xee, sizeof(out));
	out.size = calls[_i].size;
	OK(calls[_i].call(&out));
	ck_assert_uint_eq(out.size, calls[_i].size);
	ck_assert_mem_eq(out.bytes + calls[_i].size, untouched, sizeof(out) - calls[_i].size);
	memset(&out, 0xee, sizeof(out));
	out.size = half;
	OK(calls[_i].call(&out));
	ck_assert_mem_eq(out.bytes + half, untouched, sizeof(out) - half);
	ck_assert_mem_ne(out.bytes, untouched, half);
	/* Refused. */
	memset(&out, 0xee, sizeof(out));
	out.size = 0;
	RC(-EINVAL, calls[_i].call(&out));
	out.size = calls[_i].size;
	two.ctx[0]->closing = true;
	RC(-ESHUTDOWN, calls[_i].call(&out));
	two.ctx[0]->closing = false;
	ck_assert_mem_eq(out.bytes + sizeof(out.size), untouched, sizeof(out) - sizeof(out.size));
	RC(calls[_i].optional ? 0 : -EINVAL, calls[_i].call(NULL));
	rig_end(&two);
}
END_TEST

/* Entries of the lists: each, none behind the last, and nowhere to store them. */
START_TEST(list__entries)
{
	const char *name = NULL;
	char text[64] = "";
	struct ripc *ctx;
	unsigned n = 0;

	rig_start(&two, 1, NULL);
	ctx = two.ctx[0];
	for (; n < ctx->ntp; n++) {
		RC(1, ripc_transport_info(ctx, n, &name, text, sizeof(text)));
		ck_assert_str_eq(name, n ? "sim" : "self");
	}
	RC(-ENOENT, ripc_transport_info(ctx, n, &name, text, sizeof(text)));
	RC(-EINVAL, ripc_transport_info(ctx, 0, NULL, text, sizeof(text)));
	RC(-EINVAL, ripc_transport_info(ctx, 0, &name, NULL, sizeof(text)));
	RC(-EINVAL, ripc_transport_info(ctx, 0, &name, text, 0));
	for (n = 0; ripc_resolver_info(ctx, n, &name, text, sizeof(text)) >= 0; n++)
		ck_assert_ptr_nonnull(name);
	ck_assert_uint_gt(n, 0);
	RC(-ENOENT, ripc_resolver_info(ctx, n, &name, text, sizeof(text)));
	RC(-EINVAL, ripc_resolver_info(ctx, 0, NULL, text, sizeof(text)));
	RC(-EINVAL, ripc_resolver_info(ctx, 0, &name, NULL, sizeof(text)));
	RC(-EINVAL, ripc_resolver_info(ctx, 0, &name, text, 0));
	ctx->closing = true;
	RC(-ESHUTDOWN, ripc_transport_info(ctx, 0, &name, text, sizeof(text)));
	RC(-ESHUTDOWN, ripc_resolver_info(ctx, 0, &name, text, sizeof(text)));
	ctx->closing = false;
	rig_end(&two);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/info");
	TCase *tc = tcase_create("info");

	test_seed();
	tcase_add_test(tc, route__reason);
	tcase_add_test(tc, route__not_found_yet);
	tcase_add_test(tc, route__without_lane);
	tcase_add_test(tc, route__name_of_a_group);
	tcase_add_test(tc, instance__random);
	tcase_add_test(tc, peer_stats__per_peer);
	tcase_add_loop_test(tc, call__output, 0, CALLS);
	tcase_add_test(tc, list__entries);
	suite_add_tcase(suite, tc);
	return test_main("core/context/info", suite);
}
