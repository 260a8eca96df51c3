/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Paths of a peer: which addresses of its record a transport understands, and which one takes its
 * datagrams.
 */
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
	ops.compat_id = 0;
	rig.ctx[0]->tp[i].ops = &ops;
	ck_assert_ptr_null(ripc__peer_path(rig.ctx[0], p, 0, &tp, &len));
	ops.compat_id = real->id;
	ck_assert_ptr_nonnull(ripc__peer_path(rig.ctx[0], p, 0, &tp, &len));
	ck_assert_uint_eq(tp, i);
	rig.ctx[0]->tp[i].ops = real;
	rig_end(&rig);
}
END_TEST

/* ---- datagrams, with two transports ---- */

enum { FAST, SLOW, NTP };

static struct ripc ctx;
static struct ripc__peer peer;
static struct ripc__lane lane;
static const struct ripc__transport_ops ops[NTP] = {{.name = "fast", .id = 1},
						    {.name = "slow", .id = 2}};

/* The record has the address "s" of the slow transport, then "f1" and "f2" of the fast one. */
static void set_addrs(void)
{
	static const char *const addrs[] = {"s", "f1", "f2"};
	struct ripc__record record = {.naddrs = 3};

	for (unsigned i = 0; i < 3; i++) {
		record.addrs[i].transport = i ? 1 : 2;
		record.addrs[i].len = (uint16_t)strlen(addrs[i]);
		memcpy(record.addrs[i].addr, addrs[i], strlen(addrs[i]));
	}
	OK(ripc__peer_set_addrs(&peer, &record));
}

static void setup(void)
{
	memset(&ctx, 0, sizeof(ctx));
	memset(&peer, 0, sizeof(peer));
	memset(&lane, 0, sizeof(lane));
	ctx.ntp = NTP;
	ctx.datagrams = true;
	for (unsigned i = 0; i < NTP; i++) {
		ctx.tp[i].ops = &ops[i];
		ctx.tp[i].t = (struct ripc__transport *)&ctx;
		ctx.tp[i].limits.caps = RIPC__CAP_CONNECTED;
		ctx.tp[i].limits.eager_datagram = true;
	}
	peer.instance[0] = 1;
	ripc__peer_lists_init(&peer);
	set_addrs();
}

static void teardown(void)
{
	free(peer.lists->datagrams);
	ripc__peer_lists_free(&peer);
	free(peer.addrs);
}

/* Datagrams go to this address; NULL: there is none. */
static void expect_datagram(const char *addr, unsigned tp)
{
	unsigned found_tp;
	size_t len;
	const uint8_t *found = ripc__peer_datagram(&ctx, &peer, &found_tp, &len);

	ck_assert_int_eq(found != NULL, addr != NULL);
	if (!addr)
		return;
	ck_assert_uint_eq(found_tp, tp);
	ck_assert_uint_eq(len, strlen(addr));
	ck_assert_mem_eq(found, addr, len);
}

static bool is_cached(const char *addr)
{
	unsigned tp;
	size_t len;
	const uint8_t *found = ripc__peer_datagram_cached(&peer, &tp, &len);

	return found && len == strlen(addr) && !memcmp(found, addr, len) && tp == lane.tp;
}

/* Local transports in order, each with the addresses of the record in order. */
START_TEST(path__order)
{
	static const char *const want[] = {"f1", "f2", "s"};
	unsigned tp;
	size_t len;

	for (unsigned i = 0; i < 3; i++) {
		const uint8_t *addr = ripc__peer_path(&ctx, &peer, i, &tp, &len);

		ck_assert_ptr_nonnull(addr);
		ck_assert_uint_eq(tp, i == 2 ? SLOW : FAST);
		ck_assert_uint_eq(len, strlen(want[i]));
		ck_assert_mem_eq(addr, want[i], len);
	}
	ck_assert_ptr_null(ripc__peer_path(&ctx, &peer, 3, &tp, &len));
	/* One that is not open, and one without connections. */
	ctx.tp[FAST].t = NULL;
	ck_assert_mem_eq(ripc__peer_path(&ctx, &peer, 0, &tp, &len), "s", 1);
	ck_assert_ptr_null(ripc__peer_path(&ctx, &peer, 1, &tp, &len));
	ctx.tp[SLOW].limits.caps = 0;
	ck_assert_ptr_null(ripc__peer_path(&ctx, &peer, 0, &tp, &len));
}
END_TEST

/* The transport to itself has one path, to this context only, and others have none. */
START_TEST(path__self)
{
	unsigned tp;
	size_t len;

	ctx.tp[SLOW].limits.caps |= RIPC__CAP_SELF;
	ck_assert_ptr_null(ripc__peer_path(&ctx, &peer, 2, &tp, &len));
	memcpy(ctx.instance, peer.instance, 16);
	ck_assert_ptr_eq(ripc__peer_path(&ctx, &peer, 0, &tp, &len), ctx.instance);
	ck_assert_uint_eq(tp, SLOW);
	ck_assert_uint_eq(len, 16);
	ck_assert_ptr_null(ripc__peer_path(&ctx, &peer, 1, &tp, &len));
}
END_TEST

/* Without a lane the first path is tried, each time anew. */
START_TEST(datagram__without_lane)
{
	for (unsigned i = 0; i < 2; i++) {
		expect_datagram("f1", FAST);
		ck_assert(!is_cached("f1"));
		ck_assert_ptr_null(peer.lists->datagrams->path);
	}
}
END_TEST

/* With a lane datagrams go over its transport, also when the next lane is over another one. */
START_TEST(datagram__over_transport_of_lane)
{
	peer.lane = &lane;
	for (unsigned i = 0; i < 4; i++) {
		const char *addr = i % 2 ? "f1" : "s";

		lane.tp = i % 2 ? FAST : SLOW;
		ck_assert(!is_cached(addr));
		expect_datagram(addr, lane.tp);
		ck_assert(is_cached(addr));
		expect_datagram(addr, lane.tp);
	}
	peer.lane = NULL;
	ck_assert(!is_cached("f1"));
	expect_datagram("f1", FAST);
}
END_TEST

/* The path is in the addresses of the record: new ones end it. */
START_TEST(datagram__after_new_addresses)
{
	peer.lane = &lane;
	expect_datagram("f1", FAST);
	peer.no_dgram_path = true;
	ck_assert(!is_cached("f1"));
	expect_datagram(NULL, 0);
	set_addrs();
	ck_assert(!is_cached("f1"));
	expect_datagram("f1", FAST);
	peer.no_dgram_path = true;
	ripc__list_init(&ctx.peers);
	ripc__list_add(&ctx.peers, &peer.link);
	ripc__peers_addrs_changed(&ctx);
	expect_datagram("f1", FAST);
}
END_TEST

START_TEST(datagram__none)
{
	ctx.datagrams = false;
	expect_datagram(NULL, 0);
	ctx.datagrams = true;
	ctx.tp[FAST].limits.eager_datagram = false;
	expect_datagram(NULL, 0);
	peer.lane = &lane;
	lane.tp = SLOW;
	ctx.tp[SLOW].t = NULL;
	expect_datagram(NULL, 0);
	ck_assert_ptr_null(peer.lists->datagrams);
	ctx.tp[SLOW].t = ctx.tp[FAST].t;
	expect_datagram("s", SLOW);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/path");
	TCase *tc = tcase_create("path");

	test_seed();
	tcase_add_test(tc, path__compatible_transport);
	suite_add_tcase(suite, tc);
	tc = tcase_create("datagram");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, path__order);
	tcase_add_test(tc, path__self);
	tcase_add_test(tc, datagram__without_lane);
	tcase_add_test(tc, datagram__over_transport_of_lane);
	tcase_add_test(tc, datagram__after_new_addresses);
	tcase_add_test(tc, datagram__none);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/path", suite);
}
