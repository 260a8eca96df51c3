/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Monotonic time in nanoseconds. Engines never read the clock: callers pass the time. */
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

#endif
