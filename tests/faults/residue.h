/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a process that uses RDMA devices leaves behind, for the tests that look for leaks. */
#ifndef RIPC_TESTS_FAULTS_RESIDUE_H
#define RIPC_TESTS_FAULTS_RESIDUE_H

#include <stdbool.h>

struct residue {
	unsigned descriptors, threads;
	unsigned resources; /* queue pairs and the like that the kernel holds for this process */
};

struct residue residue_now(void);

/* What it is when two looks half a second apart agree, as what was closed goes in its own time; after 10 s the last look. */
struct residue residue_settled(void);

/* Waits up to 10 s, as the kernel takes connections down in its own time. Return: whether it is no more than it was. */
bool residue_same(const struct residue *before, struct residue *now);

/* Whether the library can use a transport here; if not, that is reported as skipped. */
bool residue_available(const char *transport);

/*
 * How many calls of so many tried may not be reached: no two runs make the same number of them, and the last of the one that was
 * counted may not come in another.
 */
#define MISSED_MAX(tried) ((tried) / 3 + 2)

/* RIPC_TEST_STEP: of a long row of tests only every so many are run; 1: all. */
unsigned residue_step(void);

#endif
