/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which clock a process reads. */
#ifndef RIPC_TOOLS_PERF_CLOCK_H
#define RIPC_TOOLS_PERF_CLOCK_H

#include <stddef.h>

/*
 * Names the monotonic clock that this process reads: processes with the same name read the same
 * clock. Empty: unknown.
 */
void perf_clock_name(char *name, size_t len);

#endif
