/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Resources that a process with RDMA devices has left, for the tests of leaks. */
#ifndef RIPC_TESTS_FAULTS_LEAKS_H
#define RIPC_TESTS_FAULTS_LEAKS_H

#include <stdbool.h>

struct leaks {
	unsigned descriptors, threads;
	unsigned resources; /* queue pairs and the like that the kernel holds for this process */
};

struct leaks leaks_snapshot(void);

/*
 * The state when two samples half a second apart agree, because closed objects disappear late;
 * after 10 s the last sample.
 */
struct leaks leaks_wait_stable(void);

/*
 * Waits up to 10 s, as the kernel takes connections down in its own time. Return: whether it is no
 * more than it was.
 */
bool leaks_compare(const struct leaks *before, struct leaks *now);

/* Whether the library can use a transport here; if not, that is reported as skipped. */
bool leaks_available(const char *transport);

/*
 * How many calls of so many tried may not be reached: no two runs make the same number of them, and
 * the last of the one that was counted may not come in another.
 */
#define MISSED_MAX(tried) ((tried) / 3 + 2)

/* RIPC_TEST_STEP: of a long row of tests only every so many are run; 1: all. */
unsigned leaks_check_step(void);

#endif
