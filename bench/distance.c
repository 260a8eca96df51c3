/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Round trips of short messages over shm on a machine whose processors are moved about while it is
 * measured: two pinned processes that poll. The bare round trip of a cache line is measured before
 * and after every 32 messages, and these count as near or far by it, or not at all. Prints JSON:
 * how many of 32, and nanoseconds of one round trip.
 *
 * usage: distance [BYTES [COUNT [CPU CPU]]]     (default: 64 4000 0 1; COUNT: of 32 round trips)
 */
#define _GNU_SOURCE
#include <ripc.h>

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH            32
#define CACHE_LINE_TRIPS 8
#define BYTES_MAX        16384
#define TIMEOUT_MS       10000
#define TIMEOUT_NS       (TIMEOUT_MS * UINT64_C(1000000))
/* A bare line, ns: less is two threads of one core; between near and far nobody knows. */
#define NEAR_MIN_NS 85
#define NEAR_MAX_NS 180
#define FAR_MIN_NS  300
#define FAR_MAX_NS  900

/* Memory mapped by both processes. */
struct shared {
	uint64_t ping __attribute__((aligned(128)));
	uint64_t pong __attribute__((aligned(128)));
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("distance: cannot pin");
}

/*
 * The bare line, for the n-th time; both sides call it. Return: ns of a round trip; 0: the other
 * one is gone.
 */
static double cache_line(struct shared *s, bool client, uint64_t n)
{
	uint64_t begin = now_ns(), polls = 0;

	for (uint64_t i = n * CACHE_LINE_TRIPS + 1; i <= (n + 1) * CACHE_LINE_TRIPS; i++) {
		if (client)
			__atomic_store_n(&s->ping, i, __ATOMIC_RELEASE);
		while (__atomic_load_n(client ? &s->pong : &s->ping, __ATOMIC_ACQUIRE) != i)
			if (!(++polls & 0xfffff) && now_ns() - begin > TIMEOUT_NS)
				return 0;
		if (!client)
			__atomic_store_n(&s->pong, i, __ATOMIC_RELEASE);
	}
	return (double)(now_ns() - begin) / CACHE_LINE_TRIPS;
}

static int start(uint64_t id, struct ripc_service **service)
{
	struct ripc *ctx;
	int err = ripc_open(&ctx, "transports=shm wait=poll");

	if (!err)
		err = ripc_service_register(ctx, id, 0, service);
	if (err)
		fprintf(stderr, "distance: %s: %s\n", ripc_strerror(err), ripc_error_detail());
	return err;
}

/* Echoes until it is killed; the first byte marks the last message of a batch. */
static void server(struct shared *s, uint64_t id)
{
	struct ripc_service *service;
	struct ripc_message *m;
	uint64_t n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (start(id, &service))
		_exit(1);
	for (;;) {
		bool last;

		if (ripc_receive(service, &m, TIMEOUT_MS))
			_exit(1);
		last = *(const char *)m->items[0].iov_base;
		ripc_send_short(service, m->source, m->items, 1, NULL, TIMEOUT_MS);
		ripc_message_free(m);
		if (last)
			cache_line(s, false, n++);
	}
}

static int batch(struct ripc_service *service, uint64_t dest, char *bytes, size_t len)
{
	struct iovec item = {bytes, len};
	struct ripc_message *m;
	int err = 0;

	for (unsigned i = 1; i <= BATCH && !err; i++) {
		bytes[0] = i == BATCH;
		err = ripc_send_short(service, dest, &item, 1, NULL, TIMEOUT_MS);
		if (!err)
			err = ripc_receive(service, &m, TIMEOUT_MS);
		if (!err)
			ripc_message_free(m);
	}
	if (err)
		fprintf(stderr, "distance: %s: %s\n", ripc_strerror(err), ripc_error_detail());
	return err;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(const char *name, double *ns, size_t n, const char *end)
{
	qsort(ns, n, sizeof(*ns), by_value);
	printf("  \"%s\": {\"batches\": %zu, \"p10\": %.0f, \"p50\": %.0f}%s\n", name, n,
	       n ? ns[n / 10] : 0, n ? ns[n / 2] : 0, end);
}

static bool within(double before, double after, double min, double max)
{
	return before >= min && after >= min && before <= max && after <= max;
}

static int client(struct shared *s, uint64_t id, size_t len, size_t count)
{
	static char bytes[BYTES_MAX];
	double *near = calloc(count, sizeof(*near)), *far = calloc(count, sizeof(*far));
	size_t nnear = 0, nfar = 0;
	struct ripc_service *service;
	double before, after, ns;
	uint64_t begin;
	int err;

	err = near && far ? start(RIPC_ANY_ID, &service) : -1;
	/* Both find each other first. */
	if (!err)
		err = batch(service, id, bytes, len);
	after = err ? 0 : cache_line(s, true, 0);
	for (size_t i = 1; i <= count && !err; i++) {
		before = after;
		begin = now_ns();
		err = batch(service, id, bytes, len);
		ns = (double)(now_ns() - begin) / BATCH;
		after = err ? 0 : cache_line(s, true, i);
		if (within(before, after, NEAR_MIN_NS, NEAR_MAX_NS))
			near[nnear++] = ns;
		else if (within(before, after, FAR_MIN_NS, FAR_MAX_NS))
			far[nfar++] = ns;
	}
	if (!err) {
		printf("{\n");
		print("near", near, nnear, ",");
		print("far", far, nfar, "");
		printf("}\n");
	}
	free(near);
	free(far);
	return err;
}

int main(int argc, char **argv)
{
	size_t len = argc > 1 ? strtoul(argv[1], NULL, 10) : 64,
	       count = argc > 2 ? strtoul(argv[2], NULL, 10) : 4000;
	int cpu[2] = {argc > 4 ? atoi(argv[3]) : 0, argc > 4 ? atoi(argv[4]) : 1};
	uint64_t id = (UINT64_C(1) << 40) + (uint64_t)getpid();
	static struct shared *s;
	pid_t child;
	int err;

	if (!len || len > BYTES_MAX - 64 || !count) {
		fprintf(stderr, "usage: near [BYTES [COUNT [CPU CPU]]]\n");
		return 2;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	child = s != MAP_FAILED ? fork() : -1;
	if (child < 0) {
		perror("near");
		return 1;
	}
	pin(cpu[child == 0]);
	if (!child)
		server(s, id);
	err = client(s, id, len, count);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return err ? 1 : 0;
}
