/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages between two processes of one host, which the receiver maps instead of copying: the
 * round trip by size. Each side frees a message before it answers from a buffer of its own. Two
 * processes, pinned, polling; prints JSON: microseconds, p50 and p99, and how many of the messages
 * were mapped, or in a window. RIPC_HANDOVER=off copies them instead.
 *   window   each side provides a window for every message, which is copied there
 *   read     the receiver reads every byte; else it reads both ends only
 *
 * Arguments: [CPU CPU [COUNT [window|read]]]     (default: 0 1 2000)
 */
#define _GNU_SOURCE
#include "ripc.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENT     7001
#define SERVER     7002
#define TIMEOUT_MS 20000

static const size_t sizes[] = {64u << 10, 256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

struct side {
	struct ripc *ctx;
	struct ripc_service *service;
	uint64_t peer;
	unsigned mapped, in_window;
	void *window;   /* for the next message; NULL: none yet */
	bool is_window; /* it has been set aside, and nothing has come into it */
};

static bool windows; /* are to be used */
static bool reads;   /* the receiver reads every byte */
static volatile uint64_t sum;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int fail(const char *what)
{
	fprintf(stderr, "handover: %s: %s\n", what, ripc_error_detail());
	return -1;
}

static int side_open(struct side *s, int cpu, uint64_t id, uint64_t peer)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("handover: cannot pin");
	memset(s, 0, sizeof(*s));
	s->peer = peer;
	if (ripc_open(&s->ctx, "transports=shm wait=poll pool_bytes=1073741824") ||
	    ripc_service_register(s->ctx, id, 0, &s->service))
		return fail("cannot start");
	return 0;
}

static int send_buffer(struct side *s, void *buf, size_t len)
{
	struct iovec item = {buf, len};

	return ripc_send_long(s->service, s->peer, &item, 1, NULL, TIMEOUT_MS) ? fail("send") : 0;
}

static void read_all(const void *data, size_t len)
{
	const uint64_t *words = data;
	uint64_t all = 0;

	for (size_t i = 0; i < len / sizeof(*words); i++)
		all += words[i];
	sum = all;
}

/* Looks at both ends of a message, or at all of it, and frees it. */
static int receive(struct side *s, size_t len)
{
	struct ripc_message *m;
	int rc = 0;

	if (ripc_receive(s->service, &m, TIMEOUT_MS))
		return fail("receive");
	if (m->nitems != 1 || m->items[0].iov_len != len ||
	    ((uint8_t *)m->items[0].iov_base)[0] != 0x5a ||
	    ((uint8_t *)m->items[0].iov_base)[len - 1] != 0xa5) {
		fprintf(stderr, "handover: a message was damaged\n");
		rc = -1;
	}
	if (reads && m->nitems == 1)
		read_all(m->items[0].iov_base, m->items[0].iov_len);
	s->mapped += m->placement[0] == RIPC_IN_SENDER_MEMORY;
	if (m->placement[0] == RIPC_IN_WINDOW) {
		s->in_window++;
		s->is_window = false;
	}
	ripc_message_free(m);
	return rc;
}

static void *buffer(struct side *s, size_t len)
{
	uint8_t *buf = ripc_buf_alloc(s->ctx, len);

	if (!buf) {
		fail("no buffer");
		return NULL;
	}
	buf[0] = 0x5a;
	buf[len - 1] = 0xa5;
	return buf;
}

/* Where the next message goes. One that came before found none, and left it. */
static int take_buffer(struct side *s, size_t len)
{
	if (!windows || s->is_window)
		return 0;
	if (!s->window)
		s->window = buffer(s, len);
	s->is_window = true;
	return s->window && !ripc_window_add(s->ctx, s->service, s->window, len)
		       ? 0
		       : fail("no window");
}

static int release_buffer(struct side *s, void *buf)
{
	int rc = ripc_buf_free(s->ctx, s->window) | ripc_buf_free(s->ctx, buf);

	s->window = NULL;
	s->is_window = false;
	return rc;
}

static int serve(int cpu, unsigned count)
{
	struct side s;

	if (side_open(&s, cpu, SERVER, CLIENT))
		return 1;
	for (unsigned i = 0; i < NSIZES; i++) {
		void *buf = buffer(&s, sizes[i]);

		if (take_buffer(&s, sizes[i]))
			return 1;
		/* The next one may come as soon as the answer is on its way. */
		for (unsigned k = 0; buf && k < count; k++)
			if (receive(&s, sizes[i]) || take_buffer(&s, sizes[i]) ||
			    send_buffer(&s, buf, sizes[i]))
				return 1;
		if (!buf || release_buffer(&s, buf))
			return 1;
	}
	return ripc_close(s.ctx) ? 1 : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int measure(struct side *s, size_t len, unsigned count, double *times)
{
	void *buf = buffer(s, len);

	if (!buf)
		return -1;
	s->mapped = s->in_window = 0;
	for (unsigned i = 0; i < count; i++) {
		double start;

		if (take_buffer(s, len))
			return -1;
		start = now_us();
		if (send_buffer(s, buf, len) || receive(s, len))
			return -1;
		times[i] = now_us() - start;
	}
	qsort(times, count, sizeof(*times), by_value);
	printf("\"%zu\":{\"p50\":%.3f,\"p99\":%.3f,\"count\":%u,\"mapped\":%u,\"in_window\":%u}",
	       len, times[count / 2], times[count - 1 - count / 100], count, s->mapped,
	       s->in_window);
	return release_buffer(s, buf);
}

int main(int argc, char **argv)
{
	int cpu[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1};
	int status = 0, rc = 1;
	unsigned count = argc > 3 ? (unsigned)atoi(argv[3]) : 2000;
	double *times = count ? calloc(count, sizeof(*times)) : NULL;
	struct side s;
	pid_t pid;

	if (!times) {
		fprintf(stderr, "usage: %s [CPU CPU [COUNT [window|read]]]\n", argv[0]);
		return 2;
	}
	windows = argc > 4 && !strcmp(argv[4], "window");
	reads = argc > 4 && !strcmp(argv[4], "read");
	pid = fork();
	if (!pid) {
		free(times);
		_exit(serve(cpu[1], count));
	}
	if (pid > 0 && !side_open(&s, cpu[0], CLIENT, SERVER)) {
		rc = 0;
		putchar('{');
		for (unsigned i = 0; !rc && i < NSIZES; i++) {
			if (i)
				putchar(',');
			rc = measure(&s, sizes[i], count, times);
		}
		puts("}");
		if (ripc_close(s.ctx))
			rc = 1;
	}
	free(times);
	if (pid > 0 && (waitpid(pid, &status, 0) < 0 || status))
		rc = 1;
	return rc ? 1 : 0;
}
