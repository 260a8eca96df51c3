/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state machine of progress: each transition, and the rules for all states. No clock. */
#include "core/progress/state_names.h"
#include "harness.h"

#include <string.h>

#define S(l, t, ...)                                      \
	{                                                 \
		.leader = (l), .thread = (t), __VA_ARGS__ \
	}

static const struct ripc__progress_input zero,
	followers = {.followers = true}, slept = {.slept = true}, in_pass = {.in_pass = true},
	long_inflight = {.long_inflight = true}, wait_poll = {.wait_poll = true},
	long_polled = {.long_inflight = true, .wait_poll = true};

static uint32_t bits(struct ripc__progress_state s)
{
	uint32_t word;

	memcpy(&word, &s, sizeof(word));
	return word;
}

struct row {
	enum ripc__progress_event event;
	const struct ripc__progress_input *in;
	struct ripc__progress_state from, to;
	unsigned actions;
};

/* clang-format off */
static const struct row rows[] = {
	{ON(START), NULL, S(NONE, OFF), S(NONE, RUNNING), 0},
	{ON(TAKE), NULL, S(NONE, OFF), S(SPINNING, OFF), 0},
	{ON(TAKE), NULL, S(NONE, LONG_TICK, .ticks = 9), S(SPINNING, LONG_TICK, .ticks = 9), 0},
	{ON(TAKE), NULL, S(NONE, WAKING, .kicked = 1), S(SPINNING, WAKING, .kicked = 1), 0},
	{ON(TAKE), NULL, S(THREAD, LEADING), S(SPINNING, RUNNING), 0},
	{ON(TAKE), NULL, S(THREAD, BLOCKED), S(SPINNING, STANDBY), DISARM},
	{ON(DISARM_FAILED), NULL, S(SPINNING, STANDBY), S(SPINNING, WAKING, .kicked = 1), KICK},
	{ON(DISARM_FAILED), NULL, S(ASLEEP, STANDBY, .kicked = 1),
	 S(ASLEEP, WAKING, .kicked = 1), 0},
	{ON(SLEEP), NULL, S(SPINNING, TICKING), S(ASLEEP, TICKING, .sleeps = 1), 0},
	{ON(SLEEP), NULL, S(SPINNING, TICKING, .sleeps = 3), S(ASLEEP, TICKING, .sleeps = 3), 0},
	{ON(WAKE), NULL, S(ASLEEP, STANDBY), S(SPINNING, STANDBY), 0},
	/* The thread that ticks finds app_active set, and later clear. */
	{ON(LEAVE), &zero, S(SPINNING, TICKING),
	 S(NONE, TICKING, .app_active = 1, .app_spun = 1), 0},
	{ON(LEAVE), &slept, S(SPINNING, TICKING), S(NONE, TICKING, .app_active = 1), 0},
	{ON(LEAVE), &zero, S(NONE, RUNNING), S(NONE, RUNNING, .app_active = 1, .app_spun = 1), 0},
	{ON(LEAVE), &slept, S(SPINNING, STANDBY), S(NONE, WAKING, .app_active = 1, .kicked = 1),
	 ARM | KICK},
	{ON(LEAVE), &slept, S(SPINNING, STANDBY, .kicked = 1),
	 S(NONE, WAKING, .app_active = 1, .kicked = 1), ARM},
	{ON(LEAVE), &slept, S(SPINNING, WAKING),
	 S(NONE, WAKING, .app_active = 1, .kicked = 1), KICK},
	{ON(LEAVE), &followers, S(SPINNING, STANDBY),
	 S(NONE, STANDBY, .app_active = 1, .app_spun = 1), FOLLOWER},
	{ON(RESUME), NULL, S(SPINNING, STANDBY, .app_active = 1), S(THREAD, BLOCKED), 0},
	{ON(POLLED), NULL, S(NONE, TICKING), S(NONE, TICKING, .app_active = 1), 0},
	{ON(POLLED), NULL, S(THREAD, BLOCKED), S(THREAD, BLOCKED), 0},
	{ON(SPUN), NULL, S(ASLEEP, TICKING), S(ASLEEP, TICKING, .app_spun = 1), 0},
	{ON(REQUEST), &zero, S(NONE, OFF), S(NONE, OFF), 0},
	{ON(REQUEST), &zero, S(NONE, TICKING), S(NONE, TICKING, .poll_requested = 1), 0},
	{ON(REQUEST), &zero, S(SPINNING, LONG_TICK),
	 S(SPINNING, TICKING, .poll_requested = 1), POST},
	{ON(REQUEST), &in_pass, S(ASLEEP, LONG_TICK),
	 S(ASLEEP, TICKING, .poll_requested = 1), POST},
	{ON(REQUEST), &in_pass, S(NONE, STANDBY), S(NONE, STANDBY, .poll_requested = 1), 0},
	{ON(REQUEST), &zero, S(ASLEEP, STANDBY),
	 S(ASLEEP, STANDBY, .poll_requested = 1, .kicked = 1), KICK},
	{ON(REQUEST), &zero, S(ASLEEP, LONG_TICK),
	 S(ASLEEP, TICKING, .poll_requested = 1, .kicked = 1), POST | KICK},
	{ON(REQUEST), &zero, S(THREAD, BLOCKED),
	 S(THREAD, BLOCKED, .poll_requested = 1, .kicked = 1), KICK},
	{ON(REQUEST), &zero, S(SPINNING, STANDBY), S(SPINNING, STANDBY, .poll_requested = 1), 0},
	{ON(REQUEST), &zero, S(NONE, STANDBY), S(NONE, WAKING, .poll_requested = 1, .kicked = 1),
	 ARM | KICK},
	{ON(REQUEST), &zero, S(NONE, WAKING, .poll_requested = 1, .kicked = 1),
	 S(NONE, WAKING, .poll_requested = 1, .kicked = 1), 0},
	{ON(REQUEST_LAZY), &zero, S(NONE, OFF), S(NONE, OFF), 0},
	{ON(REQUEST_LAZY), &zero, S(NONE, LONG_TICK),
	 S(NONE, TICKING, .poll_requested = 1, .app_active = 1), POST},
	{ON(REQUEST_LAZY), &zero, S(NONE, STANDBY),
	 S(NONE, WAKING, .poll_requested = 1, .app_active = 1, .kicked = 1), ARM | KICK},
	{ON(REQUEST_LAZY), &in_pass, S(NONE, TICKING), S(NONE, TICKING, .poll_requested = 1), 0},
	{ON(REQUEST_LAZY), &zero, S(ASLEEP, TICKING),
	 S(ASLEEP, TICKING, .poll_requested = 1, .kicked = 1), KICK},
	{ON(PASS_LEAD), NULL, S(NONE, TICKING, .app_active = 1, .app_spun = 1, .ticks = 9),
	 S(NONE, TICKING, .ticks = 9), POST},
	{ON(PASS_LEAD), NULL, S(NONE, LONG_TICK, .app_active = 1), S(NONE, TICKING), POST},
	{ON(PASS_LEAD), NULL, S(NONE, RUNNING, .app_active = 1), S(NONE, RUNNING), 0},
	{ON(PASS_LEAD), NULL, S(NONE, STANDBY), S(NONE, WAKING, .kicked = 1), ARM | KICK},
	{ON(PASS_LEAD), NULL, S(SPINNING, TICKING, .app_active = 1),
	 S(SPINNING, TICKING, .app_active = 1), 0},
	{ON(PASS_LEAD), NULL, S(THREAD, BLOCKED), S(THREAD, BLOCKED), 0},
	{ON(PASS_LEAD), NULL, S(NONE, TICKING, .stop = 1), S(NONE, TICKING, .stop = 1), 0},
	{ON(NOTIFY), NULL, S(SPINNING, TICKING), S(SPINNING, TICKING), 0},
	{ON(NOTIFY), NULL, S(ASLEEP, TICKING), S(ASLEEP, TICKING, .kicked = 1), KICK},
	{ON(NOTIFY), NULL, S(ASLEEP, TICKING, .kicked = 1), S(ASLEEP, TICKING, .kicked = 1), 0},
	{ON(NOTIFY), NULL, S(THREAD, BLOCKED), S(THREAD, BLOCKED, .kicked = 1), KICK},
	{ON(KICK_READ), NULL, S(SPINNING, TICKING, .kicked = 1), S(SPINNING, TICKING), 0},
	/* The progress thread read what was meant for the leader. */
	{ON(KICK_READ), NULL, S(ASLEEP, RUNNING, .kicked = 1),
	 S(ASLEEP, RUNNING, .kicked = 1), KICK},
	{ON(STOP), NULL, S(NONE, TICKING), S(NONE, TICKING, .stop = 1), POST},
	{ON(STOP), NULL, S(THREAD, BLOCKED),
	 S(THREAD, BLOCKED, .stop = 1, .kicked = 1), POST | KICK},
	{ON(STOP), NULL, S(NONE, STANDBY),
	 S(NONE, WAKING, .stop = 1, .kicked = 1), POST | ARM | KICK},
	{ON(TICK), &zero, S(NONE, LONG_TICK, .stop = 1), S(NONE, RUNNING, .stop = 1), QUIT},
	{ON(TICK), &zero, S(NONE, RUNNING), S(NONE, RUNNING), LEAD},
	{ON(TICK), &zero, S(NONE, TICKING, .app_spun = 1), S(NONE, RUNNING, .app_spun = 1), LEAD},
	{ON(TICK), &zero, S(NONE, LONG_TICK, .app_active = 1), S(NONE, TICKING, .ticks = 1), TICK},
	{ON(TICK), &zero, S(SPINNING, RUNNING, .app_spun = 1, .app_active = 1),
	 S(SPINNING, TICKING, .ticks = 1), TICK},
	{ON(TICK), &zero, S(SPINNING, TICKING, .ticks = 7),
	 S(SPINNING, LONG_TICK, .ticks = 8), TICK},
	{ON(TICK), &zero, S(SPINNING, LONG_TICK, .ticks = 63), S(SPINNING, LONG_TICK, .ticks = 63),
	 TICK},
	{ON(TICK), &zero, S(SPINNING, TICKING, .ticks = 63, .poll_requested = 1),
	 S(SPINNING, TICKING, .ticks = 6), TICK},
	{ON(TICK), &zero, S(SPINNING, TICKING, .ticks = 3, .poll_requested = 1),
	 S(SPINNING, TICKING, .ticks = 4), TICK},
	{ON(TICK), &long_inflight, S(SPINNING, LONG_TICK, .ticks = 20),
	 S(SPINNING, TICKING, .ticks = 20), TICK},
	/* A leader that sleeps through the ticks. */
	{ON(TICK), &zero, S(ASLEEP, TICKING, .sleeps = 1, .idle_ticks = 5),
	 S(ASLEEP, TICKING, .idle_ticks = 1, .ticks = 1), TICK},
	{ON(TICK), &zero, S(ASLEEP, TICKING, .idle_ticks = 5),
	 S(ASLEEP, TICKING, .idle_ticks = 6, .ticks = 1), TICK},
	{ON(TICK), &zero, S(ASLEEP, TICKING, .idle_ticks = 5, .app_spun = 1),
	 S(ASLEEP, TICKING, .ticks = 1), TICK},
	{ON(TICK), &zero, S(SPINNING, TICKING, .idle_ticks = 5), S(SPINNING, TICKING, .ticks = 1),
	 TICK},
	{ON(TICK), &zero, S(ASLEEP, TICKING, .idle_ticks = 9, .sleeps = 2),
	 S(ASLEEP, TICKING, .idle_ticks = 10, .ticks = 1), TICK},
	{ON(TICK), &zero, S(ASLEEP, TICKING, .idle_ticks = 9, .sleeps = 3),
	 S(ASLEEP, TICKING, .idle_ticks = 1, .ticks = 1), TICK},
	{ON(TICK), &zero, S(ASLEEP, TICKING, .idle_ticks = 10),
	 S(ASLEEP, RUNNING, .idle_ticks = 11), STAND_BY},
	{ON(LEAD), NULL, S(NONE, RUNNING, .ticks = 5, .idle_ticks = 3), S(THREAD, LEADING), 0},
	{ON(LEAD), NULL, S(NONE, RUNNING, .app_active = 1), S(NONE, RUNNING, .app_active = 1), 0},
	{ON(LEAD), NULL, S(SPINNING, RUNNING), S(SPINNING, RUNNING), 0},
	{ON(LEAD), NULL, S(NONE, RUNNING, .stop = 1), S(NONE, RUNNING, .stop = 1), 0},
	{ON(BLOCK), NULL, S(THREAD, LEADING), S(THREAD, BLOCKED), 0},
	{ON(BLOCK), NULL, S(THREAD, LEADING, .stop = 1), S(NONE, RUNNING, .stop = 1), 0},
	{ON(STAND_BY), NULL, S(ASLEEP, RUNNING, .idle_ticks = 11),
	 S(ASLEEP, STANDBY, .idle_ticks = 11), DISARM},
	{ON(STAND_BY), NULL, S(SPINNING, RUNNING, .idle_ticks = 11),
	 S(SPINNING, RUNNING, .idle_ticks = 9), 0},
	{ON(STAND_BY), NULL, S(ASLEEP, RUNNING, .idle_ticks = 11, .stop = 1),
	 S(ASLEEP, RUNNING, .idle_ticks = 9, .stop = 1), 0},
	{ON(STAND_BY), NULL, S(NONE, RUNNING, .idle_ticks = 11, .app_active = 1),
	 S(NONE, RUNNING, .app_active = 1), 0},
	{ON(THREAD_WAKE), NULL, S(THREAD, BLOCKED, .ticks = 4, .idle_ticks = 11),
	 S(THREAD, LEADING), 0},
	{ON(THREAD_WAKE), NULL, S(THREAD, BLOCKED, .stop = 1),
	 S(NONE, RUNNING, .stop = 1, .idle_ticks = 9), 0},
	{ON(THREAD_WAKE), NULL, S(ASLEEP, STANDBY, .idle_ticks = 11),
	 S(ASLEEP, RUNNING, .idle_ticks = 9), 0},
	{ON(THREAD_WAKE), NULL, S(NONE, WAKING, .idle_ticks = 11, .app_active = 1),
	 S(NONE, RUNNING, .app_active = 1), 0},
	{ON(EXIT), NULL, S(NONE, RUNNING, .stop = 1), S(NONE, OFF, .stop = 1), 0},
};
/* clang-format on */

START_TEST(next__transitions)
{
	bool seen[RIPC__PROGRESS_EVENTS] = {false};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct ripc__progress_step step;

		step = ripc__progress_next(row->from, row->event, row->in);
		ck_assert_msg(bits(step.next) == bits(row->to),
			      "row %u: leader %u thread %u word %x, expected %u %u %x", i,
			      step.next.leader, step.next.thread, bits(step.next), row->to.leader,
			      row->to.thread, bits(row->to));
		ck_assert_msg(step.actions == row->actions, "row %u: actions %x, expected %x", i,
			      step.actions, row->actions);
		seen[row->event] = true;
	}
	for (unsigned i = 0; i < RIPC__PROGRESS_EVENTS; i++)
		ck_assert_msg(seen[i], "no row for event %u", i);
}
END_TEST

/* Nothing is left out where a request is skipped; some are skipped. */
START_TEST(is_requested__request_does_nothing)
{
	unsigned skipped = 0;

	for (uint32_t i = 0; i < 1u << 12; i++) {
		struct ripc__progress_state s = {.leader = i & 3,
						 .thread = i >> 2 & 7,
						 .stop = i >> 5 & 1,
						 .kicked = i >> 6 & 1,
						 .app_active = i >> 7 & 1,
						 .app_spun = i >> 8 & 1,
						 .poll_requested = i >> 9 & 1,
						 .sleeps = i >> 10 & 3};

		if (!ripc__progress_state_valid(s) || !ripc__progress_is_requested(s))
			continue;
		for (unsigned k = 0; k < 4; k++) {
			struct ripc__progress_input in = {.in_pass = k & 1};
			struct ripc__progress_step step;

			if (k >> 1 && !s.app_active)
				continue;
			step = ripc__progress_next(s, k >> 1 ? ON(REQUEST_LAZY) : ON(REQUEST), &in);
			ck_assert_uint_eq(bits(step.next), bits(s));
			ck_assert_uint_eq(step.actions, 0);
			skipped++;
		}
	}
	ck_assert_uint_gt(skipped, 0);
}
END_TEST

/* ---- time ---- */

static uint64_t tick_ns(unsigned ticks, const struct ripc__progress_input *in)
{
	struct ripc__progress_state s = S(SPINNING, TICKING, .ticks = ticks);

	return ripc__progress_next(s, ON(TICK), in).tick_ns;
}

/* Ticks get longer while application threads lead, with a bound. */
START_TEST(next__tick_lengths)
{
	ck_assert_uint_eq(tick_ns(0, &zero), MS);
	ck_assert_uint_eq(tick_ns(6, &zero), MS);
	ck_assert_uint_eq(tick_ns(7, &zero), 2 * MS);
	ck_assert_uint_eq(tick_ns(15, &zero), 4 * MS);
	ck_assert_uint_eq(tick_ns(63, &zero), 4 * MS);
	ck_assert_uint_eq(tick_ns(63, &wait_poll), 32 * MS);
	ck_assert_uint_eq(tick_ns(0, &wait_poll), 4 * MS);
	ck_assert_uint_eq(tick_ns(22, &wait_poll), 4 * MS);
	ck_assert_uint_eq(tick_ns(23, &wait_poll), 8 * MS);
	ck_assert_uint_eq(tick_ns(63, &long_polled), 4 * MS);
	ck_assert_uint_eq(tick_ns(63, &long_inflight), MS);
}
END_TEST

START_TEST(may_resume__times)
{
	struct ripc__progress_state s = S(SPINNING, STANDBY),
				    stopped = S(SPINNING, STANDBY, .stop = 1),
				    waking = S(SPINNING, WAKING);
	uint64_t now = 1000 * MS, last = now - RIPC__RESUME_PERIOD_NS, wake = now + 50 * MS;

	ck_assert(ripc__progress_may_resume(s, now, last, wake, wake));
	ck_assert(!ripc__progress_may_resume(s, now, last + 1, wake, wake));
	/* The thread would sleep past the timer. */
	ck_assert(!ripc__progress_may_resume(s, now, last, wake, wake - 1));
	ck_assert(!ripc__progress_may_resume(stopped, now, last, wake, wake));
	ck_assert(!ripc__progress_may_resume(waking, now, last, wake, wake));
}
END_TEST

/* A tick is in time for a timer if the longest one is; no tick wakes a leader that sleeps. */
START_TEST(ticks_within__each_state)
{
	const uint64_t longest = tick_ns(63, &wait_poll);

	for (unsigned leader = NONE; leader <= THREAD; leader++) {
		for (unsigned thread = OFF; thread <= LEADING; thread++) {
			struct ripc__progress_state s = {.leader = leader & 3,
							 .thread = thread & 7};
			bool ticks = thread == TICKING || thread == LONG_TICK;

			if (!ripc__progress_state_valid(s))
				continue;
			ck_assert_int_eq(ripc__progress_ticks_within(s, longest),
					 ticks && leader != ASLEEP);
			ck_assert(!ripc__progress_ticks_within(s, longest - 1));
		}
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/state");
	TCase *tc = tcase_create("state");

	tcase_add_test(tc, next__transitions);
	tcase_add_test(tc, is_requested__request_does_nothing);
	tcase_add_test(tc, next__tick_lengths);
	tcase_add_test(tc, may_resume__times);
	tcase_add_test(tc, ticks_within__each_state);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/state", suite);
}
