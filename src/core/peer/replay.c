/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/replay.h"

#include <string.h>

static uint64_t *seen_word(uint64_t *seen, unsigned words, uint64_t number)
{
	return &seen[number / 64 % words];
}

static uint64_t seen_bit(uint64_t number)
{
	return UINT64_C(1) << number % 64;
}

static bool in_run(const struct ripc__run *run, uint64_t number, uint64_t window)
{
	return run->count && number >= run->first &&
	       (number <= run->verified || number - run->verified <= window);
}

/* The run of a number: 0, 1, or -1: none. The lower run ends where the higher one begins. */
static int run_find(const struct ripc__replay *r, uint64_t number, uint64_t window)
{
	int upper = r->run[1].count && r->run[1].first > r->run[0].first;

	if (in_run(&r->run[upper], number, window))
		return upper;
	return in_run(&r->run[!upper], number, window) ? !upper : -1;
}

/* Begins a run with this number. gap_open: the numbers right before it are still accepted. */
static void run_begin(struct ripc__run *run, uint64_t *seen, unsigned words, uint64_t n,
		      bool gap_open)
{
	uint64_t window = 64 * (uint64_t)words;

	memset(seen, gap_open ? 0 : 0xff, words * sizeof(*seen));
	*seen_word(seen, words, n) |= seen_bit(n);
	*run = (struct ripc__run){
		.first = n >= window ? n - window + 1 : 0,
		.last = n,
		.verified = n,
		.count = 1,
	};
}

static void replay_restart(struct ripc__replay *r, uint64_t *seen, unsigned words, uint64_t number)
{
	run_begin(&r->run[0], seen, words, number, false);
	r->run[1].count = 0;
}

static void runs_swap(struct ripc__replay *r, uint64_t *seen, unsigned words)
{
	struct ripc__run run = r->run[0];

	r->run[0] = r->run[1];
	r->run[1] = run;
	for (unsigned i = 0; i < words; i++) {
		uint64_t w = seen[i];

		seen[i] = seen[words + i];
		seen[words + i] = w;
	}
}

/* Begins the second run, in place of the one before. Return: whether the number is new. */
static bool run_jump(struct ripc__replay *r, uint64_t *seen, unsigned words, uint64_t number)
{
	struct ripc__run *main_run = &r->run[0], *second = &r->run[1];
	uint64_t gap;
	bool gap_open;

	/* The first datagram may be forged. */
	if (!main_run->trusted && second->count >= main_run->count)
		runs_swap(r, seen, words);
	/*
	 * A sender does not return to an earlier run. The gap above it is given up too: the main
	 * run covers both.
	 */
	if (second->count && second->trusted && second->first < main_run->first) {
		main_run->first = second->first;
		if (number >= main_run->first && number <= main_run->last)
			return false;
	}
	gap = number - main_run->last - 1;
	gap_open = number > main_run->last && gap < RIPC__REPLAY_RESTART;
	run_begin(second, seen + words, words, number, gap_open);
	second->missing = gap_open ? (int64_t)gap : 0;
	if (!gap_open)
		return true;
	if (second->first <= main_run->last)
		second->first = main_run->last + 1;
	/* The sender may have jumped here, or reach this number later. */
	second->verified = number - 32 * (uint64_t)words;
	if (second->verified < second->first - 1)
		second->verified = second->first - 1;
	return true;
}

/* A new number has arrived: advances the verified position of the sender. */
static void run_verify(struct ripc__run *run, uint64_t *seen, unsigned words, uint64_t number)
{
	if (number <= run->verified) {
		/* The sender has not reached the numbers claimed above. */
		run->unverified -= run->unverified > 0;
		return;
	}
	if (number - run->verified == 1) {
		do
			run->verified++;
		while (run->verified < run->last &&
		       *seen_word(seen, words, run->verified + 1) & seen_bit(run->verified + 1));
		run->unverified = 0;
	} else if (++run->unverified >= RIPC__RUN_TRUSTED) {
		run->verified = run->last;
		run->unverified = 0;
	}
}

/* Return: whether the number is new. *missing: change of how many are missing. */
static bool run_accept(struct ripc__run *run, uint64_t *seen, unsigned words, uint64_t number,
		       int64_t *missing)
{
	if (number > run->last) {
		for (uint64_t n = run->last + 1; n < number; n++)
			*seen_word(seen, words, n) &= ~seen_bit(n);
		*missing += (int64_t)(number - run->last - 1);
		run->last = number;
	} else if (run->last - number >= 64 * (uint64_t)words ||
		   *seen_word(seen, words, number) & seen_bit(number)) {
		return false;
	} else {
		*missing -= 1;
	}
	*seen_word(seen, words, number) |= seen_bit(number);
	run_verify(run, seen, words, number);
	return true;
}

/* The second run becomes the main one. */
static void run_promote(struct ripc__replay *r, uint64_t *seen, unsigned words, int64_t *lost)
{
	runs_swap(r, seen, words);
	if (!r->run[0].trusted)
		*lost += r->run[0].missing;
	r->run[0].trusted = true;
}

static bool check_number(struct ripc__replay *r, uint64_t *seen, unsigned words, uint64_t number,
			 bool confirmed, int64_t *lost)
{
	int i = run_find(r, number, 64 * (uint64_t)words);
	struct ripc__run *run;

	if (!r->run[0].count) {
		replay_restart(r, seen, words, number);
		i = 0;
	} else if (i < 0) {
		if (!run_jump(r, seen, words, number))
			return false;
		i = 1;
	} else {
		run = &r->run[i];
		if (!run_accept(run, seen + (i ? words : 0), words, number,
				i && !run->trusted ? &run->missing : lost))
			return false;
		/* Saturates: more is not needed, and it must not wrap to 0. */
		run->count += run->count < RIPC__RUN_TRUSTED;
	}
	/* While the main run advances, the second one is not the sender's. */
	if (!i && r->run[1].count)
		r->run[1].count = 1;
	run = &r->run[i];
	if (confirmed && number > run->verified) {
		run->verified = run->last;
		run->unverified = 0;
	}
	if (i && (run->trusted || confirmed || run->count >= RIPC__RUN_TRUSTED))
		run_promote(r, seen, words, lost);
	else if (confirmed || run->count >= RIPC__RUN_TRUSTED)
		run->trusted = true;
	return true;
}

bool ripc__replay_check(struct ripc__replay *r, uint64_t *seen, unsigned words, uint64_t number,
			bool confirmed, uint64_t now_ns, int64_t *lost)
{
	bool fresh;

	*lost = 0;
	if (r->in_order)
		r->run[0].verified = r->run[0].last;
	fresh = check_number(r, seen, words, number, confirmed, lost);
	/* A number inside the window has certainly arrived; one below the window may not have. */
	if (!fresh && now_ns - r->last_new_ns >= RIPC__REPLAY_STALE_NS) {
		int i = run_find(r, number, 64 * (uint64_t)words);

		if (i < 0 || r->run[i].last - number >= 64 * (uint64_t)words) {
			replay_restart(r, seen, words, number);
			fresh = true;
		}
	}
	if (fresh)
		r->last_new_ns = now_ns;
	r->in_order = r->run[0].trusted && r->run[0].verified == r->run[0].last &&
		      !(r->run[1].count && r->run[1].first > r->run[0].last);
	return fresh;
}
