/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "leaks.h"

#include "harness.h"
#include "ripc.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

#define PDS_MAX 64

/*
 * Whether a line is about an object of this process. The kernel names the thread that created it,
 * which may have been a progress thread that has ended; objects in a protection domain of this
 * process belong to it.
 */
static bool ours(const char *line, unsigned *pds, unsigned *npds)
{
	const char *at = strstr(line, " pdn ");
	unsigned pd = at ? (unsigned)strtoul(at + 5, NULL, 10) : 0;
	char mine[40];

	snprintf(mine, sizeof(mine), " pid %d ", (int)getpid());
	if (strstr(line, mine)) {
		if (strstr(line, " local_dma_lkey ") && *npds < PDS_MAX)
			pds[(*npds)++] = pd;
		return true;
	}
	for (unsigned i = 0; at && i < *npds; i++)
		if (pds[i] == pd)
			return true;
	return false;
}

/*
 * One process for all kinds, because starting programs takes most of the time in an emulator. With
 * @show it also prints them.
 */
static unsigned resources(FILE *show)
{
	static const char command[] =
		"printf 'resource show %s\\n' pd qp cq mr cm_id srq | rdma -f -b - 2>/dev/null";
	unsigned n = 0, pds[PDS_MAX], npds = 0;
	char line[1000];
	FILE *f = popen(command, "r");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (!ours(line, pds, &npds))
			continue;
		n++;
		if (show)
			fputs(line, show);
	}
	pclose(f);
	return n;
}

struct leaks leaks_snapshot(void)
{
	struct leaks now = {.descriptors = entries("/proc/self/fd")};

	now.threads = entries("/proc/self/task");
	now.resources = resources(NULL);
	return now;
}

struct leaks leaks_wait_stable(void)
{
	struct leaks before = leaks_snapshot(), now = before;

	for (int i = 0; i < 20; i++) {
		usleep(500000);
		now = leaks_snapshot();
		if (now.descriptors == before.descriptors && now.threads == before.threads &&
		    now.resources == before.resources)
			break;
		before = now;
	}
	return now;
}

bool leaks_compare(const struct leaks *before, struct leaks *now)
{
	uint64_t end = 0;

	do {
		*now = leaks_snapshot();
		/* A thread that had been joined may still have been counted before. */
		if (now->descriptors <= before->descriptors && now->threads <= before->threads &&
		    now->resources <= before->resources)
			return true;
	} while (test_pause(&end, 10000));
	if (now->resources > before->resources)
		resources(stderr);
	return false;
}

/* In a child: writes why not, or nothing. */
static void count_objects(const char *transport, int fd)
{
	char text[300] = "not built in";
	const char *name;
	struct ripc *ctx;
	int rc = 0;

	if (ripc_open(&ctx, "resolver=local"))
		_exit(1);
	for (unsigned i = 0; rc != -ENOENT; i++) {
		char one[300];

		rc = ripc_transport_info(ctx, i, &name, one, sizeof(one));
		if (rc == -ENOENT || strcmp(name, transport))
			continue;
		snprintf(text, sizeof(text), "%s", rc == 1 ? "" : one);
		break;
	}
	ripc_close(ctx);
	_exit(write(fd, text, strlen(text) + 1) < 0 ? 1 : 0);
}

/*
 * librdmacm keeps a device that it has used for the life of the process, and children share what it
 * holds in the kernel: the tests' own processes must be the first to use it.
 */
bool leaks_available(const char *transport)
{
	char text[300];
	int fd[2], status;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe(fd), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		count_objects(transport, fd[1]);
	close(fd[1]);
	n = read(fd[0], text, sizeof(text));
	close(fd[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_gt(n, 0);
	if (*text)
		test_skip("%s: %s", transport, text);
	return !*text;
}

unsigned leaks_check_step(void)
{
	const char *text = getenv("RIPC_TEST_STEP");
	int n = text ? atoi(text) : 1;

	return n > 0 ? (unsigned)n : 1;
}
