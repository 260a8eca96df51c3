/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The layers below shm: the round trip of one cache line between two processors, and of messages
 * through the ring engine alone, without the core. Two processes, pinned, polling; prints JSON.
 *
 * usage: ring [CPU CPU [COUNT [line]]]     (default: 0 1 200000; line: only the cache line)
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "transport/ring/ring.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH 16 /* round trips per reading of the clock */

static const struct ripc__ring_layout layout = {9, 18};

/* Memory mapped by both processes. */
struct shared {
	uint64_t ping __attribute__((aligned(128)));
	uint64_t pong __attribute__((aligned(128)));
	uint8_t segments[2][1 << 20] __attribute__((aligned(4096)));
};

static void no_kick(void *arg)
{
}

static const struct ripc__ring_backend_ops ops = {.kick = no_kick};

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("window: cannot pin");
}

static void cache_line_trip(struct shared *s, uint64_t i)
{
	__atomic_store_n(&s->ping, i, __ATOMIC_RELEASE);
	while (__atomic_load_n(&s->pong, __ATOMIC_ACQUIRE) != i)
		;
}

static void engine_init(struct ripc__ring *w, struct shared *s, int side)
{
	struct ripc__ring_backend be = {
		.ops = &ops, .inbox = s->segments[side], .map = s->segments[!side]};

	ripc__ring_init(w, &be, &layout, 1);
}

static void engine_send(struct ripc__ring *w, size_t len)
{
	static uint8_t bytes[RIPC__RING_SEND_MAX];
	struct iovec iov = {bytes, len};

	while (ripc__ring_send(w, &iov, 1, len, false))
		;
}

static void engine_receive(struct ripc__ring *w)
{
	static uint8_t buf[RIPC__RING_RECV_BUF_LEN];
	struct ripc__event ev;

	while (!ripc__ring_poll(w, buf, &ev))
		;
}

static void server(struct shared *s, const size_t *sizes, unsigned nsizes, uint64_t count)
{
	struct ripc__ring w;

	for (uint64_t i = 1; i <= count; i++) {
		while (__atomic_load_n(&s->ping, __ATOMIC_ACQUIRE) != i)
			;
		__atomic_store_n(&s->pong, i, __ATOMIC_RELEASE);
	}
	engine_init(&w, s, 1);
	for (unsigned k = 0; k < nsizes; k++)
		for (uint64_t i = 0; i < count; i++) {
			engine_receive(&w);
			engine_send(&w, sizes[k]);
		}
	_exit(0);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *name, double *us, size_t n, const char *end)
{
	qsort(us, n, sizeof(*us), by_value);
	printf("  \"%s\": {\"min\": %.3f, \"p50\": %.3f, \"p99\": %.3f}%s\n", name, us[0],
	       us[n / 2], us[n * 99 / 100], end);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {8, 64, 104, 1000, 4096, 16384};
	/* A fourth argument: the line alone. */
	unsigned nsizes = argc > 4 ? 0 : sizeof(sizes) / sizeof(sizes[0]);
	int cpu[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1};
	uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 0) : 200000, start;
	static struct shared *s;
	size_t n = (count / BATCH) ? count / BATCH : 1;
	double *us = calloc(n, sizeof(*us));
	struct ripc__ring w;
	char name[64];
	pid_t child;

	count = n * BATCH;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	child = s != MAP_FAILED && us ? fork() : -1;
	if (child < 0) {
		free(us);
		return EXIT_FAILURE;
	}
	pin(cpu[child == 0]);
	if (!child)
		server(s, sizes, nsizes, count);
	for (size_t i = 0; i < n; i++) {
		start = ripc__clock_ns();
		for (uint64_t k = 0; k < BATCH; k++)
			cache_line_trip(s, i * BATCH + k + 1);
		us[i] = (double)(ripc__clock_ns() - start) / 1000.0 / BATCH;
	}
	printf("{\n");
	print("line", us, n, nsizes ? "," : "");
	engine_init(&w, s, 0);
	for (unsigned z = 0; z < nsizes; z++) {
		for (size_t i = 0; i < n; i++) {
			start = ripc__clock_ns();
			for (uint64_t k = 0; k < BATCH; k++) {
				engine_send(&w, sizes[z]);
				engine_receive(&w);
			}
			us[i] = (double)(ripc__clock_ns() - start) / 1000.0 / BATCH;
		}
		snprintf(name, sizeof(name), "engine_%zu", sizes[z]);
		print(name, us, n, z + 1 < nsizes ? "," : "");
	}
	printf("}\n");
	waitpid(child, NULL, 0);
	return EXIT_SUCCESS;
}
