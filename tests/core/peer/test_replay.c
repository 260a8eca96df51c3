/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Replay windows: a number is new once; no lie in the name of a sender silences it. */
#include "core/peer/replay.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define FIRST UINT64_C(1000000000000)
#define N     20000

static struct ripc__replay replay;
static uint64_t seen[RIPC__REPLAY_WORDS(2048)];
static unsigned words;
static uint64_t now_ns;
static int64_t lost;

static void start(unsigned window)
{
	memset(&replay, 0, sizeof(replay));
	memset(seen, 0, sizeof(seen));
	words = window / 64;
	now_ns = FIRST;
	lost = 0;
}

static bool is_new(uint64_t number)
{
	int64_t change = 0;
	bool fresh;

	now_ns += 1000;
	/* As the users of the window do: first what is quick. */
	if (words == 1 && ripc__replay_next(&replay, seen, number, now_ns))
		return true;
	fresh = ripc__replay_check(&replay, seen, words, number, false, now_ns, &change);
	lost += change;
	return fresh;
}

static unsigned window_of(int i)
{
	return i ? 2048 : 64;
}

/* ---- without lies ---- */

/* A sender of more than 2^32 messages: the run does not begin anew, so a duplicate stays one. */
START_TEST(check__more_than_int_max)
{
	start(window_of(_i));
	for (unsigned i = 0; i < 100; i++)
		ck_assert(is_new(FIRST + i));
	/* As after 2^32 - 1 of them, where each is counted. */
	if (replay.run[0].count > RIPC__RUN_TRUSTED)
		replay.run[0].count = UINT32_MAX;
	for (unsigned i = 100; i < 104; i++) {
		int64_t change;
		uint64_t n = FIRST + i;

		now_ns += 1000;
		ck_assert(ripc__replay_check(&replay, seen, words, n, false, now_ns, &change));
	}
	ck_assert_uint_gt(replay.run[0].count, 0);
	ck_assert(replay.run[0].trusted);
	ck_assert(!is_new(FIRST + 101));
}
END_TEST

/* Loss, copies, and reordering within the window: each number is new once; lost ones count. */
START_TEST(check__accepts_once)
{
	static uint8_t fate[N];
	unsigned window = window_of(_i), taken = 0;
	uint64_t rng = test_seed() + (unsigned)_i, last = 0;
	int64_t missing = 0;

	start(window);
	memset(fate, 0, sizeof(fate));
	ck_assert(is_new(FIRST));
	fate[0] = 1;
	for (unsigned i = 1; i < N; i++) {
		unsigned k = i, back = (unsigned)(test_random(&rng) % (window / 2));

		if (test_random(&rng) % 4 == 0)
			continue;
		if (test_random(&rng) % 8 == 0 && i > window + back)
			k = i - back;
		ck_assert_int_eq(is_new(FIRST + k), !fate[k]);
		taken += !fate[k];
		fate[k] = 1;
		last = k > last ? k : last;
	}
	for (unsigned i = 0; i <= last; i++)
		missing += !fate[i];
	ck_assert_int_eq(lost, missing);
	ck_assert_uint_gt(taken, N / 2);
}
END_TEST

/* Bursts of losses: all that arrives is new, former numbers are not, the fast path is back. */
START_TEST(check__after_loss_burst)
{
	unsigned window = window_of(_i);
	uint64_t n = FIRST;
	int64_t missing = 0;

	start(window);
	for (unsigned i = 0; i < RIPC__RUN_TRUSTED; i++)
		ck_assert(is_new(++n));
	for (unsigned burst = 1; burst < 50; burst++) {
		uint64_t before = n, gap = (uint64_t)window * burst;

		n += gap;
		missing += (int64_t)gap;
		for (unsigned i = 0; i < 4 * RIPC__RUN_TRUSTED; i++) {
			ck_assert(is_new(++n));
			ck_assert(!is_new(n));
			ck_assert(!is_new(before));
		}
		ck_assert(replay.in_order);
		ck_assert_int_eq(lost, missing);
	}
	ck_assert(!is_new(FIRST + 1));
}
END_TEST

/* The sender had forgotten us and begins far above: nothing is dropped or counts as lost. */
START_TEST(check__after_sender_restart)
{
	uint64_t n = FIRST;

	start(window_of(_i));
	for (unsigned i = 0; i < 5000; i++)
		ck_assert(is_new(++n));
	for (unsigned times = 0; times < 5; times++) {
		n += UINT64_C(4000000000);
		for (unsigned i = 0; i < 100; i++) {
			ck_assert(is_new(++n));
			ck_assert(!is_new(n));
		}
	}
	ck_assert_int_eq(lost, 0);
}
END_TEST

/* Numbers below the window are dropped, but not for ever if there is nothing else. */
START_TEST(check__below_window)
{
	unsigned window = window_of(_i);

	start(window);
	for (unsigned i = 0; i < 3 * window; i++)
		ck_assert(is_new(FIRST + i));
	ck_assert(!is_new(FIRST + window));
	ck_assert(!is_new(FIRST));
	now_ns += RIPC__REPLAY_STALE_NS;
	/* In the window it is known to have arrived. */
	ck_assert(!is_new(FIRST + 3 * window - 1));
	ck_assert(is_new(FIRST + window));
	ck_assert(!is_new(FIRST + window));
	ck_assert(is_new(FIRST + window + 1));
}
END_TEST

START_TEST(check__number_limits)
{
	start(window_of(_i));
	ck_assert(is_new(3));
	ck_assert(!is_new(3));
	ck_assert(!is_new(0));
	ck_assert(is_new(UINT64_MAX));
	ck_assert(!is_new(UINT64_MAX));
	ck_assert(is_new(4));
	ck_assert(is_new(UINT64_MAX - 1000000));
	ck_assert(is_new(5));
}
END_TEST

/*
 * A jump from a number that is not verified: the second run begins right above it. Each number of
 * both runs is new once.
 */
START_TEST(check__second_run_begins_above_the_first)
{
	unsigned window = window_of(_i);
	uint64_t n = FIRST, last, jump;

	start(window);
	for (unsigned i = 0; i < RIPC__RUN_TRUSTED; i++)
		ck_assert(is_new(++n));
	last = n + window / 2;
	jump = n + window + window / 4;
	ck_assert(is_new(last));
	ck_assert(is_new(jump));
	ck_assert(!is_new(last));
	ck_assert(!is_new(jump));
	for (uint64_t k = n + 1; k < jump; k++) {
		ck_assert_int_eq(is_new(k), k != last);
		ck_assert(!is_new(k));
	}
	ck_assert(is_new(jump + 1));
	ck_assert_int_eq(lost, 0);
}
END_TEST

static void take(uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert(is_new(first + i));
}

#define FAR UINT64_C(10000000) /* numbers, more than a window and less than a restart */

/* A sender that has jumped does not come back: the gap below its run is closed. */
START_TEST(check__jump_closes_the_gap)
{
	start(window_of(_i));
	take(FIRST, 2 * RIPC__RUN_TRUSTED);
	take(FIRST + FAR, 2 * RIPC__RUN_TRUSTED);
	ck_assert_int_eq(lost, FAR - 2 * RIPC__RUN_TRUSTED);
	ck_assert(!is_new(FIRST + FAR / 2));
	ck_assert(!is_new(FIRST));
	ck_assert(is_new(FIRST + FAR + 2 * RIPC__RUN_TRUSTED));
}
END_TEST

/* A jump of this many numbers is a restart, and nothing is lost; one number less is a loss. */
START_TEST(check__jump_or_restart)
{
	uint64_t gap = RIPC__REPLAY_RESTART - (unsigned)_i;

	start(64);
	take(FIRST, RIPC__RUN_TRUSTED);
	take(FIRST + RIPC__RUN_TRUSTED + gap, RIPC__RUN_TRUSTED);
	ck_assert_int_eq(lost, _i ? (int64_t)gap : 0);
}
END_TEST

/* ---- lies ---- */

/* The number that a liar sends after the sender's nth, whose number is n. 0: none. */
typedef uint64_t forgery_fn(uint64_t n, unsigned nth, unsigned window);

static uint64_t far_once(uint64_t n, unsigned nth, unsigned window)
{
	return nth == 100 ? n + (1 << 23) : 0;
}

static uint64_t far_repeated(uint64_t n, unsigned nth, unsigned window)
{
	return nth % 3 == 0 ? n + (1 << 23) + nth * UINT64_C(1000) : 0;
}

static uint64_t far_once_reached(uint64_t n, unsigned nth, unsigned window)
{
	return nth == 100 ? n + 3 * window : 0;
}

static uint64_t farther_each_time(uint64_t n, unsigned nth, unsigned window)
{
	return FIRST + (UINT64_C(1) << (20 + nth % 20)) + nth;
}

static uint64_t at_max_number(uint64_t n, unsigned nth, unsigned window)
{
	return nth % 50 == 0 ? UINT64_MAX - nth : 0;
}

static uint64_t inside_window(uint64_t n, unsigned nth, unsigned window)
{
	return nth % 10 == 9 ? n + window - 1 : 0;
}

static uint64_t at_window_edge(uint64_t n, unsigned nth, unsigned window)
{
	return nth % 7 == 6 ? n + window + nth % 3 - 1 : 0;
}

static uint64_t after_last_forgery(uint64_t n, unsigned nth, unsigned window)
{
	/* A run of its own, one for each message of the sender. */
	return FIRST + (1 << 23) + nth;
}

static uint64_t first_number(uint64_t n, unsigned nth, unsigned window)
{
	return nth == 0 ? n + (1 << 23) : 0;
}

static uint64_t first_near(uint64_t n, unsigned nth, unsigned window)
{
	return nth == 0 ? n + window / 2 : 0;
}

static uint64_t first_and_later(uint64_t n, unsigned nth, unsigned window)
{
	return nth == 0 ? UINT64_MAX : nth % 5 ? 0 : n + window * (nth % 9);
}

static uint64_t below(uint64_t n, unsigned nth, unsigned window)
{
	return nth % 4 == 0 ? FIRST - 5000 - nth : 0;
}

static const struct {
	const char *name;
	forgery_fn *lie;
	bool first; /* before the first message: as many as a window may be lost with it */
} forgeries[] = {
	{"far, once", far_once, false},
	{"far, again and again", far_repeated, false},
	{"far, and reached", far_once_reached, false},
	{"each time farther", farther_each_time, false},
	{"at the end of all numbers", at_max_number, false},
	{"in the window", inside_window, false},
	{"at the border of the window", at_window_edge, false},
	{"a run beside the sender's", after_last_forgery, false},
	{"first of all", first_number, true},
	{"first of all, near", first_near, true},
	{"first of all, and then near and far", first_and_later, true},
	{"below", below, false},
};

#define NFORGERIES (sizeof(forgeries) / sizeof(forgeries[0]))

/* A lie costs the sender the number that it has used, and little more. */
START_TEST(forgeries__bounded_cost)
{
	unsigned window = window_of(_i % 2), forged_new = 0, dropped = 0, at_end = 0, most;
	forgery_fn *lie = forgeries[_i / 2].lie;

	start(window);
	for (unsigned i = 0; i < N; i++) {
		uint64_t n = FIRST + i, number = lie(n, i, window);
		bool fresh;

		if (number && i == 0)
			forged_new += is_new(number);
		fresh = is_new(n);
		dropped += !fresh;
		at_end = fresh ? 0 : at_end + 1;
		if (number && i)
			forged_new += is_new(number);
	}
	most = forged_new + forged_new / 4 + (forgeries[_i / 2].first ? window : 0);
	ck_assert_msg(dropped <= most, "%s, window %u: %u lies, %u messages of the sender dropped",
		      forgeries[_i / 2].name, window, forged_new, dropped);
	ck_assert_uint_lt(at_end, window);
}
END_TEST

/* The same, and messages are lost, reordered and copied: few are dropped, few taken twice. */
START_TEST(forgeries__lossy_network)
{
	static uint8_t got[N];
	unsigned window = window_of(_i % 2), sent = 0, taken = 0, forged_new = 0, twice = 0;
	uint64_t rng = test_seed() + (unsigned)_i;

	start(window);
	memset(got, 0, sizeof(got));
	for (unsigned i = 0; i < N; i++) {
		uint64_t number = forgeries[_i / 2].lie(FIRST + i, i, window);
		unsigned k = i < window ? i : i - (unsigned)(test_random(&rng) % 8);

		if (number && (number < FIRST || number >= FIRST + N))
			forged_new += is_new(number);
		if (test_random(&rng) % 10 == 0)
			continue;
		sent += !got[k];
		if (is_new(FIRST + k)) {
			twice += got[k];
			taken++;
		}
		got[k] = 1;
		if (test_random(&rng) % 5 == 0)
			twice += is_new(FIRST + k);
	}
	ck_assert_uint_ge(taken - twice + forged_new + window, sent);
	ck_assert_uint_le(twice, forged_new / 8 + 2);
}
END_TEST

/* Long rows of lies, one behind the other, close the sender's run. That ends when the lies do. */
START_TEST(forgeries__recovery_after_burst)
{
	unsigned dropped = 0;
	uint64_t n = FIRST;

	start(window_of(_i));
	for (unsigned i = 0; i < 100; i++)
		ck_assert(is_new(++n));
	for (unsigned row = 1; row < 4; row++)
		for (unsigned i = 0; i < 2 * RIPC__RUN_TRUSTED; i++)
			is_new(FIRST + row * UINT64_C(10000000) + i);
	for (; dropped < 10000 && !is_new(++n); dropped++)
		now_ns += 1000000;
	ck_assert_uint_le(dropped, RIPC__REPLAY_STALE_NS / 1000000);
	for (unsigned i = 0; i < 100; i++)
		ck_assert(is_new(++n));
}
END_TEST

/* Over a lane the number is the sender's: that run is the main one at once. */
START_TEST(confirmed__trusted_at_once)
{
	int64_t change;

	start(64);
	ck_assert(is_new(FIRST));
	ck_assert(ripc__replay_check(&replay, seen, words, FIRST + 1000, true, now_ns, &change));
	ck_assert_int_eq(change, 999);
	ck_assert(replay.in_order);
	ck_assert_uint_eq(replay.run[0].last, FIRST + 1000);
}
END_TEST

/* Two jumps, of which one is a lie, do not replace a run that a lane has confirmed. */
START_TEST(confirmed__stays)
{
	int64_t change;

	start(window_of(_i));
	ck_assert(ripc__replay_check(&replay, seen, words, FIRST, true, now_ns, &change));
	ck_assert(is_new(FIRST + FAR));
	ck_assert(is_new(FIRST + 2 * FAR));
	ck_assert(!is_new(FIRST));
	ck_assert(is_new(FIRST + 1));
}
END_TEST

/* A lie below the sender's run closes nothing. */
START_TEST(forgeries__below_closes_no_gap)
{
	start(window_of(_i));
	take(FIRST, 2 * RIPC__RUN_TRUSTED);
	ck_assert(is_new(FIRST - FAR));
	take(FIRST - FAR / 2, 2 * RIPC__RUN_TRUSTED);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/replay");
	TCase *tc = tcase_create("replay");

	test_seed();
	tcase_add_loop_test(tc, check__more_than_int_max, 0, 2);
	tcase_add_loop_test(tc, check__accepts_once, 0, 2);
	tcase_add_loop_test(tc, check__after_loss_burst, 0, 2);
	tcase_add_loop_test(tc, check__after_sender_restart, 0, 2);
	tcase_add_loop_test(tc, check__below_window, 0, 2);
	tcase_add_loop_test(tc, check__number_limits, 0, 2);
	tcase_add_loop_test(tc, check__second_run_begins_above_the_first, 0, 2);
	tcase_add_loop_test(tc, forgeries__bounded_cost, 0, 2 * NFORGERIES);
	tcase_add_loop_test(tc, forgeries__lossy_network, 0, 2 * NFORGERIES);
	tcase_add_loop_test(tc, forgeries__recovery_after_burst, 0, 2);
	tcase_add_loop_test(tc, check__jump_closes_the_gap, 0, 2);
	tcase_add_loop_test(tc, check__jump_or_restart, 0, 2);
	tcase_add_loop_test(tc, forgeries__below_closes_no_gap, 0, 2);
	tcase_add_test(tc, confirmed__trusted_at_once);
	tcase_add_loop_test(tc, confirmed__stays, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/replay", suite);
}
