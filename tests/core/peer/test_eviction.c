/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Idle lanes and peers without lanes that give way: nothing is lost, nothing comes twice, and what
 * is in use stays.
 */
#include "core/rendezvous/dedup.h"
#include "core/rig.h"

#include "base/admission.h"
#include "core/peer/eviction.h"

#include <sys/resource.h>

static struct rig rig;
static struct ripc *ctx;

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

static void evict_once(unsigned i, bool exhausted)
{
	ripc__lock(rig.ctx[i]);
	ripc__evict_lanes(rig.ctx[i], exhausted);
	ripc__unlock(rig.ctx[i]);
}

/* Twice: idle is a lane that was not used since the last look. */
static void evict_twice(unsigned i, bool exhausted)
{
	if (!exhausted)
		evict_once(i, false);
	evict_once(i, exhausted);
}

static unsigned count_lanes(const struct ripc *of, enum ripc__lane_state state)
{
	const struct ripc__list *n;
	unsigned count = 0;

	ripc__list_for_each (n, (struct ripc__list *)(uintptr_t)&of->lanes)
		count += ripc__list_entry(n, struct ripc__lane, link)->state == state;
	return count;
}

/* ---- lanes ---- */

START_TEST(lane__idle_closed_and_reopened)
{
	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 100);
	evict_twice(0, false);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	ck_assert_uint_eq(count_lanes(ctx, RIPC__LANE_RETIRING), 1);
	rig_run(&rig, 100);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert(ripc__list_empty(&rig.ctx[i]->lanes));
		ck_assert_uint_eq(rig_stats(&rig, i).lanes, 0);
		ck_assert_uint_eq(rig_stats(&rig, i).lanes_lost, 0);
	}
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 1, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 2);
}
END_TEST

/* Where the application holds most descriptors itself, each new lane is a reason to look. */
START_TEST(lane__in_use_until_exhausted)
{
	for (unsigned i = 0; i < 10; i++) {
		rig_exchange(&rig, 0, 1);
		rig_run(&rig, 100);
		evict_once(0, false);
		ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	}
	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 100);
	evict_once(0, true);
	ck_assert_uint_eq(count_lanes(ctx, RIPC__LANE_RETIRING), 1);
	rig_run(&rig, 100);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/*
 * Either side sends at any moment around the end of the lane: each message arrives once, in order.
 */
/* Where descriptors are exhausted, as many lanes give way as the reserve has. */
START_TEST(lane__exhausted_frees_the_reserve)
{
	struct rlimit limit, small;
	unsigned reserve;

	for (unsigned i = 2; i < RIG_CONTEXTS; i++)
		rig_open(&rig, NULL);
	for (unsigned i = 1; i < RIG_CONTEXTS; i++)
		rig_connect(&rig, 0, i);
	rig_run(&rig, 100);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	small = limit;
	small.rlim_cur = 40;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
	reserve = (unsigned)ripc__descriptor_reserve(40);
	ck_assert(reserve > 1 && reserve < RIG_CONTEXTS - 1);
	evict_once(0, true);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_uint_eq(count_lanes(ctx, RIPC__LANE_RETIRING), reserve);
	ck_assert_uint_eq(count_lanes(ctx, RIPC__LANE_UP), RIG_CONTEXTS - 1 - reserve);
	rig_run(&rig, 100);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes, RIG_CONTEXTS - 1 - reserve);
}
END_TEST

START_TEST(lane__retire_exactly_once)
{
	uint64_t rng = test_seed(), sent[2] = {0}, got[2] = {0};

	rig_exchange(&rig, 0, 1);
	for (unsigned round = 0; round < 300; round++) {
		for (unsigned i = test_random(&rng) % 6; i--;) {
			unsigned from = test_random(&rng) % 2;

			sent[from]++;
			if (test_random(&rng) % 8)
				OK(rig_short(&rig, from, !from, 40, sent[from], 5000));
			else
				OK(rig_long(&rig, from, !from, 9000, sent[from], 5000));
			if (test_random(&rng) % 3 == 0)
				ripc__sim_run(rig.net, test_random(&rng) % 100000);
		}
		evict_twice((unsigned)test_random(&rng) % 2, false);
		/* Both ends at once, now and then. */
		if (round % 16 == 0) {
			evict_twice(0, false);
			evict_twice(1, false);
		}
		if (test_random(&rng) % 2)
			ripc__sim_run(rig.net, test_random(&rng) % 300000);
		for (unsigned to = 0; to < 2; to++) {
			struct ripc_message *m;

			while (!ripc_receive(rig.s[to], &m, 0)) {
				got[!to]++;
				rig_verify(m->items[0].iov_base, m->items[0].iov_len, got[!to]);
				ripc_message_free(m);
			}
		}
	}
	for (unsigned to = 0; to < 2; to++)
		while (got[!to] < sent[!to]) {
			struct ripc_message *m;

			OK(ripc_receive(rig.s[to], &m, 5000));
			got[!to]++;
			rig_verify(m->items[0].iov_base, m->items[0].iov_len, got[!to]);
			ripc_message_free(m);
		}
	rig_run(&rig, 3000);
	rig_expect_none(&rig, 0);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost + rig_stats(&rig, 1).lanes_lost, 0);
	/* It was not one lane all the time. */
	ck_assert_uint_gt(rig_stats(&rig, 0).lanes_opened, 50);
}
END_TEST

static uint8_t big[MIB];

START_TEST(lane__with_waiters_kept)
{
	struct ripc_request *r;

	rig_exchange(&rig, 0, 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, big, MIB);
	evict_twice(0, false);
	evict_twice(0, true);
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 20000));
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

/* A lane that only the peer keeps busy breaks last, and its message fails over. */
START_TEST(lane__peer_busy_retired_last)
{
	struct ripc_request *r;
	bool seen = false;

	rig_exchange(&rig, 0, 1);
	r = rig_begin(&rig, 1, 0, big, MIB);
	for (unsigned i = 0; i < 10000 && !seen; i++) {
		ripc__sim_run(rig.net, 1000);
		seen = rig_peer(&rig, 0, 1) &&
		       !ripc__list_empty(&rig_peer(&rig, 0, 1)->lists->rndvs);
	}
	ck_assert(seen);
	evict_twice(0, false);
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	evict_twice(0, true);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	OK(ripc_request_wait(&r, 20000));
	ripc_message_free(rig_take(&rig, 0));
	rig_run(&rig, 1000);
	rig_expect_none(&rig, 0);
}
END_TEST

START_TEST(lane__retire_timeout)
{
	rig_exchange(&rig, 0, 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	evict_twice(0, false);
	rig_run(&rig, RIPC__RETIRE_NS / RIPC__MS - 10);
	ck_assert_uint_eq(count_lanes(ctx, RIPC__LANE_RETIRING), 1);
	rig_run(&rig, 20);
	ck_assert(ripc__list_empty(&ctx->lanes));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 5000);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* The next connection attempts of context 0 fail like this. */
static int connect_error;
static unsigned connects_to_fail;

static int connect_or_fail(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			   const void *priv, size_t privlen, void *user, struct ripc__ep **ep)
{
	if (!connects_to_fail)
		return ripc__transport_sim.connect(t, addr, addrlen, priv, privlen, user, ep);
	connects_to_fail--;
	return ripc__fail(connect_error, "no connection, as the test wants it");
}

static const struct {
	int error;
	unsigned attempts; /* so many fail before the lane to another peer gives way; 0: it stays */
} connect_errors[] = {
	{-EMFILE, 1}, {-ENFILE, 1}, {-ENOMEM, 2}, {-ENOBUFS, 2}, {-EHOSTUNREACH, 0},
};

#define CONNECT_ERRORS (int)(sizeof(connect_errors) / sizeof(connect_errors[0]))

/*
 * A connection fails because a resource is used up: the next pass evicts idle lanes, if it is
 * descriptors also one that was used lately.
 */
START_TEST(lane__connect_failure_evicts)
{
	unsigned attempts = connect_errors[_i].attempts, third = rig_open(&rig, NULL);
	struct ripc__transport_ops ops;
	struct ripc__tp *tp;

	rig_connect(&rig, 0, 1);
	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 100);
	tp = &ctx->tp[rig_lane(&rig, 0, 1)->tp];
	ops = *tp->ops;
	ops.connect = connect_or_fail;
	tp->ops = &ops;
	connect_error = connect_errors[_i].error;
	for (unsigned i = 1; i <= (attempts ? attempts : 3); i++) {
		connects_to_fail = 1;
		OK(rig_short(&rig, 0, third, 10, i, 5000));
		rig_expect(&rig, third, 10, i);
		rig_run(&rig, 100);
		ck_assert_uint_eq(connects_to_fail, 0);
		ck_assert_int_eq(ctx->evict_cause, 0);
		ck_assert_int_eq(rig_lane(&rig, 0, 1) == NULL, i == attempts);
		rig_fail_lane(&rig, 0, third);
	}
	tp->ops = &ripc__transport_sim;
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 0, third);
}
END_TEST

/*
 * A lane is lost while no other one can be made, for a while: what was sent on it does not end, as
 * the peer may be there.
 */
START_TEST(lane__connect_failure_keeps_requests)
{
	static uint8_t data[MIB];
	struct ripc__transport_ops ops;
	struct ripc_request *r;
	struct ripc__tp *tp;

	rig_fill(data, MIB, 0);
	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, data, MIB);
	tp = &ctx->tp[rig_lane(&rig, 0, 1)->tp];
	ops = *tp->ops;
	ops.connect = connect_or_fail;
	tp->ops = &ops;
	connect_error = connect_errors[_i].error;
	connects_to_fail = 5;
	rig_fail_lane(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 5000));
	ck_assert_uint_eq(connects_to_fail, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).peers_lost, 0);
	tp->ops = &ripc__transport_sim;
	rig_expect(&rig, 1, MIB, 0);
}
END_TEST

/* The lane of context 0 to context 1, in this state. */
static struct ripc__lane *lane_in(enum ripc__lane_state state)
{
	struct ripc__lane *lane;

	rig_connect(&rig, 0, 1);
	rig_run(&rig, 100);
	lane = rig_lane(&rig, 0, 1);
	if (state == RIPC__LANE_RETIRING)
		evict_twice(0, false);
	ck_assert_int_eq(lane->state, state);
	return lane;
}

static void goaway(struct ripc__lane *lane, bool answer)
{
	ripc__lock(ctx);
	ripc__lane_goaway(lane, answer);
	ripc__unlock(ctx);
}

/* GOAWAY on a lane that is up is answered: the lane carries nothing more of this side. */
START_TEST(goaway__answered)
{
	struct ripc__lane *lane = lane_in(RIPC__LANE_UP);
	uint32_t sent = lane->tx_seq;

	goaway(lane, false);
	ck_assert_int_eq(lane->state, RIPC__LANE_RETIRING);
	ck_assert_uint_eq(lane->tx_seq, sent + 1);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	rig_run(&rig, 100);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* An answer ends the lane at once, also one that no GOAWAY has asked for. */
START_TEST(goaway__answer_ends_the_lane)
{
	struct ripc__lane *lane = lane_in(_i ? RIPC__LANE_RETIRING : RIPC__LANE_UP);
	uint32_t sent = lane->tx_seq;

	goaway(lane, true);
	ck_assert_int_eq(lane->state, RIPC__LANE_DEAD);
	ck_assert_uint_eq(lane->tx_seq, sent);
	ck_assert_uint_eq(ctx->stats.lanes, 0);
	rig_run(&rig, 100);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* Both sides have sent GOAWAY: each answers, and waits for the answer of the other. */
START_TEST(goaway__from_both_sides)
{
	struct ripc__lane *lane = lane_in(RIPC__LANE_RETIRING);
	uint32_t sent = lane->tx_seq;

	goaway(lane, false);
	ck_assert_int_eq(lane->state, RIPC__LANE_RETIRING);
	ck_assert_uint_eq(lane->tx_seq, sent + 1);
	ck_assert(ripc__list_empty(&lane->control));
	/* Without room for the answer the lane ends. */
	lane->sending = RIPC__SENDING_BLOCKED;
	goaway(lane, false);
	ck_assert_int_eq(lane->state, RIPC__LANE_DEAD);
	rig_run(&rig, 100);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* ---- peers ---- */

/* One that sets up a lane under one instance id after the other, and goes. */
static void flood(uint64_t source, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++) {
		uint8_t instance[16] = {0xff, (uint8_t)source, (uint8_t)i, (uint8_t)(i >> 8),
					(uint8_t)(i >> 16)};

		ck_assert_ptr_nonnull(ripc__peer_admit(ctx, instance, source));
	}
}

START_TEST(peer__instance_flood_self_evicts)
{
	uint8_t other[16] = {1, 2, 3}, fresh[16] = {4, 5, 6}, known[16] = {7, 8, 9};
	struct ripc__peer *p;

	rig_exchange(&rig, 0, 1);
	p = ripc__peer_admit(ctx, other, 77);
	ck_assert_ptr_nonnull(p);
	ck_assert(ripc__dedup_begin(p));
	ripc__dedup_mark(p, 5);
	flood(99, 0, 2 * RIPC__PEERS_MAX);
	ck_assert_uint_le(ctx->peer_table.count, RIPC__UNSOLICITED_PEERS_MAX);
	/* Those of other addresses stay, with what is known of them, and those with lanes. */
	ck_assert_ptr_eq(ripc__peer_find(ctx, other), p);
	ck_assert(ripc__dedup_seen(p, 5));
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	ck_assert_ptr_nonnull(ripc__peer_admit(ctx, fresh, 78));
	ck_assert_ptr_nonnull(ripc__peer_get(ctx, known));
	flood(99, 2 * RIPC__PEERS_MAX, RIPC__PEERS_MAX);
	ck_assert_ptr_nonnull(ripc__peer_find(ctx, fresh));
	/* A third context finds its place. */
	rig_open(&rig, NULL);
	rig_exchange(&rig, 2, 0);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* The same of one that also sends a message each time, so that it could be answered. */
START_TEST(peer__service_flood_self_evicts)
{
	uint8_t fresh[16] = {4, 5, 6};

	for (unsigned i = 0; i < RIPC__PEERS_MAX; i++) {
		uint8_t instance[16] = {0xfe, (uint8_t)i, (uint8_t)(i >> 8), (uint8_t)(i >> 16)};
		struct ripc__peer *p = ripc__peer_admit(ctx, instance, 99);
		struct ripc__dest *d = ripc__dest_get(ctx, 1000000 + i);

		ck_assert_ptr_nonnull(p);
		d->peer = p;
		d->state = RIPC__DEST_KNOWN;
		ck_assert_ptr_nonnull(ripc__peer_lists(p));
		ripc__list_add(&p->lists->dests, &d->link);
	}
	ck_assert_ptr_nonnull(ripc__peer_admit(ctx, fresh, 78));
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* Of one address those go first of which nothing is known that would recognise a double. */
START_TEST(peer__replay_state_kept_longer)
{
	uint8_t doubles[16] = {0xff, 99, 0, 0, 0, 1};
	struct ripc__peer *p = ripc__peer_admit(ctx, doubles, 99);

	ck_assert(ripc__dedup_begin(p));
	ripc__dedup_mark(p, 5);
	flood(99, 0, RIPC__UNSOLICITED_PEERS_MAX + 100);
	ck_assert_ptr_eq(ripc__peer_find(ctx, doubles), p);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/eviction");
	TCase *tc = tcase_create("eviction");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, lane__idle_closed_and_reopened);
	tcase_add_test(tc, lane__in_use_until_exhausted);
	tcase_add_test(tc, lane__exhausted_frees_the_reserve);
	tcase_add_test(tc, lane__retire_exactly_once);
	tcase_add_test(tc, lane__with_waiters_kept);
	tcase_add_test(tc, lane__peer_busy_retired_last);
	tcase_add_test(tc, lane__retire_timeout);
	tcase_add_loop_test(tc, lane__connect_failure_evicts, 0, CONNECT_ERRORS);
	/* Not -EHOSTUNREACH. */
	tcase_add_loop_test(tc, lane__connect_failure_keeps_requests, 0, CONNECT_ERRORS - 1);
	tcase_add_test(tc, goaway__answered);
	tcase_add_loop_test(tc, goaway__answer_ends_the_lane, 0, 2);
	tcase_add_test(tc, goaway__from_both_sides);
	tcase_add_test(tc, peer__instance_flood_self_evicts);
	tcase_add_test(tc, peer__service_flood_self_evicts);
	tcase_add_test(tc, peer__replay_state_kept_longer);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/eviction", suite);
}
