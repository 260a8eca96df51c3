/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "perf_clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Processes with the same text read the same monotonic clock: the boot of the kernel, and the time
 * namespace.
 */
void perf_clock_name(char *name, size_t len)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	char boot[64] = "", space[64] = "";
	ssize_t n = readlink("/proc/self/ns/time", space, sizeof(space) - 1);

	if (file && !fgets(boot, sizeof(boot), file))
		boot[0] = 0;
	if (file)
		fclose(file);
	boot[strcspn(boot, "\n")] = 0;
	space[n > 0 ? n : 0] = 0;
	/*
	 * Without a boot id clocks cannot be compared; a kernel without time namespaces has one
	 * clock.
	 */
	if (*boot)
		snprintf(name, len, "%s %s", boot, space);
	else
		name[0] = 0;
}
