/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Standing grants: the length and the number of the buffers that a peer is granted. */
#include "core/memory/standing.h"
#include "core/rig.h"

static struct rig rig;

static void written(struct ripc__sim_config *config)
{
	config->written = true;
}

static void expensive(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

static void (*const configs[])(struct ripc__sim_config *config) = {written, expensive};

/* Context 0 has sent a message to the service of context 1. Return: its flow there. */
static struct ripc__flow *start(void (*change)(struct ripc__sim_config *config))
{
	rig_start(&rig, 2, change);
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 1, 10, 1);
	return ripc__flow_find(rig_lane(&rig, 1, 0), RIG_ID(1));
}

/* n items of this length arrive. Return: the bytes that the peer is granted then. */
static uint64_t arrive(struct ripc__flow *flow, uint64_t len, unsigned n)
{
	while (n--) {
		ripc__lock(rig.ctx[1]);
		ripc__standing_replenish(flow, len);
		ripc__unlock(rig.ctx[1]);
		rig_run(&rig, 1);
	}
	return flow->lane->memory->standing_bytes;
}

static void teardown(void)
{
	rig_end(&rig);
}

/* From the second item on: four buffers of the next power of two, at least 16 KiB. */
START_TEST(replenish__length)
{
	static const struct {
		uint64_t len, buffer;
	} cases[] = {{1025, 16 * KIB},     {16 * KIB, 16 * KIB}, {16 * KIB + 1, 32 * KIB},
		     {64 * KIB, 64 * KIB}, {64 * KIB + 1, 0},    {128 * KIB, 0},
		     {128 * KIB + 1, 0},   {256 * KIB, 0},       {256 * KIB + 1, 0}};
	/* Where registration is cheap, up to 256 KiB. */
	static const uint64_t larger[] = {128 * KIB, 128 * KIB, 256 * KIB, 256 * KIB, 0};
	size_t i = (size_t)_i / 2;
	bool cheap = !(_i & 1);
	uint64_t buffer = cheap && i >= 4 ? larger[i - 4] : cases[i].buffer;
	struct ripc__flow *flow = start(configs[_i & 1]);
	uint64_t n = buffer ? RIPC__STANDING_LANE_MAX / buffer : 0;

	ck_assert_uint_eq(arrive(flow, cases[i].len, 1), 0);
	ck_assert_uint_eq(arrive(flow, cases[i].len, 1), buffer * (n < 4 ? n : 4));
	ck_assert_uint_eq(flow->standing_len, buffer);
	/* The peer has not used them. */
	ck_assert_uint_eq(arrive(flow, cases[i].len, 5), buffer * (n < 4 ? n : 4));
	ck_assert_uint_eq(flow->nstanding, n < 4 ? n : 4);
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->nremote_returns, n < 4 ? n : 4);
}
END_TEST

/* New buffers come when half are used. A shorter item does not make them shorter. */
START_TEST(replenish__half_used)
{
	struct ripc__flow *flow = start(configs[_i]);
	struct ripc__list *standing;

	ck_assert_uint_eq(arrive(flow, 30000, 2), 4 * 32 * KIB);
	standing = &flow->lane->memory->standing;
	for (unsigned left = 4; left-- > 2;) {
		ripc__standing_drop(rig.ctx[1], ripc__list_first_entry(
							standing, struct ripc__local_return, link));
		ck_assert_uint_eq(arrive(flow, 2000, 1), (left > 2 ? left : 4) * 32 * KIB);
	}
	ck_assert_uint_eq(flow->standing_len, 32 * KIB);
}
END_TEST

/* While 4 MiB are unread the peer gets none, and used ones do not stay. */
START_TEST(replenish__unread)
{
	struct ripc__flow *flow = start(configs[_i]);
	struct ripc_service *s = rig.s[1];
	struct ripc__peer_lists *lists = ripc__peer_lists(flow->lane->peer);
	uint64_t *const counters[] = {&s->queued_bytes, &s->queued_long_bytes, &s->arriving_bytes,
				      &lists->ready_bytes};

	for (unsigned i = 0; i < 4; i++) {
		*counters[i] = 4 * MIB + 1;
		ck_assert(!ripc__standing_stays(flow));
		ripc__standing_replenish(flow, 2000);
		ripc__standing_replenish(flow, 2000);
		*counters[i] = 0;
		ck_assert_uint_eq(flow->nstanding, 0);
	}
	s->queued_bytes = 4 * MIB;
	ck_assert(ripc__standing_stays(flow));
	ripc__standing_replenish(flow, 2000);
	s->queued_bytes = 0;
	ck_assert_uint_eq(flow->nstanding, 4);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/memory/standing_grant");
	TCase *tc = tcase_create("replenish");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_loop_test(tc, replenish__length, 0, 18);
	tcase_add_loop_test(tc, replenish__half_used, 0, 2);
	tcase_add_loop_test(tc, replenish__unread, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/standing_grant", suite);
}
