/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* To be preloaded: the clock of the day is an hour ahead, as that of a host that nobody has set. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define AHEAD_S 3600

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int rc = (int)syscall(SYS_clock_gettime, id, ts);

	if (!rc && id == CLOCK_REALTIME)
		ts->tv_sec += AHEAD_S;
	return rc;
}
