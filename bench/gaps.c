/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The time that two processors spend on something else, such as other programs, interrupts, or
 * other guests of the host. A process on each of them reads the clock for a second. Printed as
 * JSON, for the worse one: the share of time in gaps of more than 20 us, and the longest gap.
 *
 * usage: gaps [CPU CPU]     (default: 0 1)
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GAP_NS 20000
#define RUN_NS 1000000000

struct gaps {
	long sum_ns, longest_ns;
};

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void measure(int cpu, struct gaps *gaps)
{
	cpu_set_t set;
	long last, end;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("gaps: cannot pin");
	last = now_ns();
	end = last + RUN_NS;
	while (last < end) {
		const long now = now_ns(), gap = now - last;

		if (gap > GAP_NS)
			gaps->sum_ns += gap;
		if (gap > gaps->longest_ns)
			gaps->longest_ns = gap;
		last = now;
	}
}

int main(int argc, char **argv)
{
	struct gaps *gaps = mmap(NULL, 2 * sizeof(*gaps), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct gaps *worse;

	if (gaps == MAP_FAILED || (argc != 1 && argc != 3)) {
		fprintf(stderr, "usage: gaps [CPU CPU]\n");
		return 1;
	}
	for (int i = 0; i < 2; i++) {
		const pid_t pid = fork();

		if (pid < 0) {
			perror("gaps: fork");
			return 1;
		}
		if (!pid) {
			measure(argc == 3 ? atoi(argv[1 + i]) : i, &gaps[i]);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	worse = &gaps[gaps[1].sum_ns > gaps[0].sum_ns];
	printf("{\"share_percent\":%.3f,\"longest_us\":%.0f}\n",
	       (double)worse->sum_ns * 100 / RUN_NS, (double)worse->longest_ns * 1e-3);
	return 0;
}
