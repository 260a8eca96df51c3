/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by all test programs: main, the closing line, the seed, and skipping with a reason. */
#ifndef RIPC_TESTS_HARNESS_H
#define RIPC_TESTS_HARNESS_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * check writes the place of each assertion that holds to a file, for its report of a crash or a
 * time limit. At the end of the case it moves up to 16 KiB for each of them, which is most of the
 * time of a test with a loop. So each place is written the first 100 times, then every 1024th time:
 * in a loop the place in a report may be an earlier one of the same loop.
 */
#define _mark_point(file, line)                                           \
	({                                                                \
		static unsigned times_;                                   \
		unsigned n_ = __atomic_load_n(&times_, __ATOMIC_RELAXED); \
		__atomic_store_n(&times_, n_ + 1, __ATOMIC_RELAXED);      \
		if (n_ < 100 || n_ % 1024 == 0)                           \
			(_mark_point)(file, line);                        \
	})

/*
 * Runs the suite and prints "NAME: N passed, N failed, N skipped" as the last line. The environment
 * variable RIPC_TEST_CASE selects one test case (TCase); CK_FORK=no runs it in one process for a
 * debugger. A test fails after 60 s, or the limit of tcase_set_timeout() or CK_DEFAULT_TIMEOUT.
 * Return: the exit code of main().
 */
int test_main(const char *name, Suite *suite);

/*
 * Names a case that could not run here and why; counted as skipped. Return from the test
 * afterwards.
 */
void test_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * The seed of this run: RIPC_TEST_SEED if set, else drawn. Printed once, so that a failure can be
 * repeated.
 */
uint64_t test_seed(void);

/*
 * The first of 256 ids, of services or groups, that are this program's alone, whatever else runs on
 * the host: unlike what is drawn from the seed, which two runs may share. The same in all its test
 * cases, and in the processes they make.
 */
uint64_t test_ids(void);

/*
 * Goes on in a network namespace of its own, with a loopback that is up, where ids and ports are
 * nobody else's. Return: whether that is permitted; nothing has changed if not.
 */
bool test_own_network(void);

/*
 * From now on the kernel refuses this system call to the process with an error number, as a sandbox
 * does. @first: if the first argument has this value; -1: always. Return: whether that is possible.
 */
bool test_refuse(long call, int first, int err);

/*
 * The network interface of an iWARP device for tests: RIPC_TEST_INTERFACES, or the one with the
 * address RIPC_LAB_IWARP_ADDRESS. NULL: there is none.
 */
const char *test_iwarp_interfaces(void);

/* The number in an environment variable, or what it is otherwise. */
uint64_t test_number(const char *name, uint64_t otherwise);

/* How many descriptors this process has open. */
unsigned test_descriptors(void);

/* Whether a thread of this process, by its number in the kernel, sleeps there. */
bool test_sleeps(int tid);

#define TEST_PATIENCE_MS 30000 /* the limit of AWAIT(): half of that of a test case */

/* Waits until condition holds, which is checked each millisecond; fails the test at the limit. */
#define AWAIT(condition)                                                                     \
	do {                                                                                 \
		uint64_t end_ = 0;                                                           \
		while (!(condition))                                                         \
			ck_assert_msg(test_pause(&end_, TEST_PATIENCE_MS), "waited for: %s", \
				      #condition);                                           \
	} while (0)

/*
 * Sleeps 1 ms, for a loop that checks a condition. *end_ns: 0 before the first call. Return: false,
 * without a sleep, once limit_ms have passed since the first call.
 */
bool test_pause(uint64_t *end_ns, unsigned limit_ms);

/* A small deterministic generator (splitmix64): the next number of the sequence in *state. */
uint64_t test_random(uint64_t *state);

#endif
