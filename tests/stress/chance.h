/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Random choices of a thread, from the seed of the run, the process and the thread. */
#ifndef RIPC_TESTS_STRESS_CHANCE_H
#define RIPC_TESTS_STRESS_CHANCE_H

#include "harness.h"

#include <stdbool.h>
#include <stdint.h>

extern _Thread_local uint64_t chance_state;

/* A number from 0 to n - 1; 0 if n is 0. */
static inline uint64_t chance(uint64_t n)
{
	return n ? test_random(&chance_state) % n : 0;
}

static inline bool one_in(uint64_t n)
{
	return !chance(n);
}

/* A number from 1 to max; each number of digits is equally likely. */
static inline uint64_t chance_size(uint64_t max)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(max);
	uint64_t n = chance(1ull << chance(bits + 1)) + 1;

	return n < max ? n : max;
}

static inline int chance_timeout(void)
{
	static const int timeouts[] = {0, 1, 20, 100, 500, 2000};

	return timeouts[chance(sizeof(timeouts) / sizeof(timeouts[0]))];
}

#endif
