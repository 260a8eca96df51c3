/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls over a library of others (bench/rpc.h): one at a time, or many outstanding.
 *
 *     rpc_NAME server|client shm|tcp ADDRESS BYTES COUNT OUTSTANDING
 *     rpc_NAME version
 *
 * Both processes are started with the same arguments. OUTSTANDING 0: blocking calls. A tenth of
 * COUNT, at most 2000, goes ahead unmeasured. The client prints one line of JSON.
 */
#include "rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int rpc_fail(const char *what, const char *why)
{
	fprintf(stderr, "rpc_%s: %s: %s\n", rpc.name, what, why);
	return -1;
}

static int calls(const void *request, size_t len, uint64_t count, unsigned outstanding)
{
	if (outstanding)
		return rpc.calls(request, len, count);
	for (uint64_t i = 0; i < count; i++)
		if (rpc.call(request, len))
			return -1;
	return 0;
}

static int client(const char *url, size_t len, uint64_t count, unsigned outstanding)
{
	uint64_t unmeasured = count / 10 + 1, begin_ns;
	char *request = calloc(1, len);
	int rc = request ? rpc.connect(url, outstanding ? outstanding : 1)
			 : rpc_fail("request", "out of memory");
	double s;

	if (!rc)
		rc = calls(request, len, unmeasured < 2000 ? unmeasured : 2000, outstanding);
	begin_ns = now_ns();
	if (!rc)
		rc = calls(request, len, count, outstanding);
	s = (double)(now_ns() - begin_ns) / 1e9;
	if (!rc && outstanding)
		printf("{\"size\":%zu,\"rate_per_s\":%.1f}\n", len, (double)count / s);
	else if (!rc)
		printf("{\"size\":%zu,\"rtt_us\":{\"mean\":%.3f}}\n", len, s * 1e6 / (double)count);
	free(request);
	return rc;
}

int main(int argc, char **argv)
{
	unsigned long long len, count;
	unsigned outstanding;
	char url[256];
	int rc;

	if (argc == 2 && !strcmp(argv[1], "version")) {
		printf("%s\n", rpc.version());
		return 0;
	}
	len = argc == 7 ? strtoull(argv[4], NULL, 10) : 0;
	count = argc == 7 ? strtoull(argv[5], NULL, 10) : 0;
	outstanding = argc == 7 ? (unsigned)strtoul(argv[6], NULL, 10) : 0;
	if (!len || len > 1 << 20 || !count || outstanding > 65536) {
		fprintf(stderr,
			"usage: rpc_%s server|client shm|tcp ADDRESS BYTES COUNT OUTSTANDING\n",
			rpc.name);
		return 2;
	}
	snprintf(url, sizeof(url), strcmp(argv[2], "tcp") ? rpc.unix_url : rpc.tcp_url, argv[3]);
	rc = strcmp(argv[1], "server") ? client(url, len, count, outstanding) : rpc.serve(url);
	fflush(stdout);
	/* The threads of the libraries end with the process. */
	_Exit(rc ? 1 : 0);
}
