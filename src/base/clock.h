/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Monotonic time in nanoseconds. Callers of an engine pass the time. */
#ifndef RIPC_BASE_CLOCK_H
#define RIPC_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RIPC__MS    UINT64_C(1000000) /* nanoseconds in a millisecond */
#define RIPC__NEVER UINT64_MAX        /* no deadline */

static inline uint64_t ripc__clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Milliseconds from @from_ns to @to_ns: 0 if they are reversed, UINT32_MAX at most. */
static inline uint32_t ripc__ms_between(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ms = to_ns > from_ns ? (to_ns - from_ns) / RIPC__MS : 0;

	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

#endif
