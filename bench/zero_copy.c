/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages that stay in the memory of their sender, over shared memory: a fresh buffer for
 * each message, an echo of what was received, and a pipeline of three processes. Prints a Markdown
 * table with the messages that were read in place and the medians of the times.
 *
 * usage: bench/zero_copy [CPU CPU]    (default: 0 1)
 */
#define _GNU_SOURCE
#include <ripc.h>

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 20000
#define COUNT      200
#define MIB        ((size_t)1 << 20)

enum { CLIENT = 7471, FILTER, DISPLAY };

static struct ripc *ctx;
static struct ripc_service *self;
static const struct ripc_send_options free_items = {.size = sizeof(free_items),
						    .flags = RIPC_FREE_ITEMS};

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "zero_copy: %s: %s\n", what, ripc_error_detail());
	exit(1);
}

static void begin(int cpu, uint64_t id)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("zero_copy: cannot pin");
	check(ripc_open(&ctx, "transports=shm pool_bytes=2147483648"), "open");
	check(ripc_service_register(ctx, id, 0, &self), "register");
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double median(double *times, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = i; k && times[k] < times[k - 1]; k--) {
			double t = times[k];

			times[k] = times[k - 1];
			times[k - 1] = t;
		}
	return times[n / 2];
}

/* Waits for a message, and looks at both ends of its item. Return: the message. */
static struct ripc_message *take(void)
{
	struct ripc_message *m;
	const volatile char *p;

	check(ripc_receive(self, &m, TIMEOUT_MS), "receive");
	p = m->items[0].iov_base;
	(void)p[0];
	(void)p[m->items[0].iov_len - 1];
	return m;
}

/* Answers each message with its placement, until one of a single byte arrives. */
static void consumer(int cpu, uint64_t id)
{
	bool more = true;

	begin(cpu, id);
	while (more) {
		struct ripc_message *m = take();
		uint8_t placement = m->placement[0];
		struct iovec item = {&placement, 1};

		more = m->items[0].iov_len > 1;
		ripc_message_free(m);
		check(ripc_send_short(self, CLIENT, &item, 1, NULL, TIMEOUT_MS), "answer");
	}
	check(ripc_close(ctx), "close");
	exit(0);
}

/* Sends each message on to service to, until one of a single byte, which is sent on, too. */
static void forwarder(int cpu, uint64_t id, uint64_t to)
{
	bool more = true;

	begin(cpu, id);
	while (more) {
		struct ripc_message *m = take();
		struct iovec item = m->items[0];

		more = item.iov_len > 1;
		check(ripc_send_long(self, to, &item, 1, NULL, TIMEOUT_MS), "forward");
		ripc_message_free(m);
	}
	check(ripc_close(ctx), "close");
	exit(0);
}

/* COUNT messages in fresh buffers; the answer of the consumer has the placement. */
static void fresh(uint64_t to, size_t len, bool stated, const char *what)
{
	double alloc[COUNT], times[COUNT];
	unsigned in_place = 0, late = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		double start = now_us();
		char *p = stated ? ripc_buf_alloc_for(ctx, len, to) : ripc_buf_alloc(ctx, len);
		struct iovec item = {p, len};
		struct ripc_message *m;

		check(!p, "buffer");
		alloc[i] = now_us() - start;
		p[0] = p[len - 1] = 1;
		check(ripc_send_long(self, to, &item, 1, &free_items, TIMEOUT_MS), "send");
		m = take();
		times[i] = now_us() - start;
		if (*(uint8_t *)m->items[0].iov_base == RIPC_IN_SENDER_MEMORY) {
			in_place += i < 100;
			late += i >= 100;
		}
		ripc_message_free(m);
	}
	printf("| %s, %zu MiB | %u of the first 100, %u of the next | %.2f | %.2f |\n", what,
	       len / MIB, in_place, late, median(alloc, COUNT), median(times, COUNT));
}

/* The message comes back from a forwarder that did not copy it. */
static void echo(uint64_t to, size_t len)
{
	double times[COUNT];
	unsigned own = 0;

	for (unsigned i = 0; i < COUNT; i++) {
		char *p = ripc_buf_alloc_for(ctx, len, to);
		double start = now_us();
		struct iovec item = {p, len};
		struct ripc_message *m;

		check(!p, "buffer");
		check(ripc_send_long(self, to, &item, 1, &free_items, TIMEOUT_MS), "send");
		m = take();
		times[i] = now_us() - start;
		own += m->placement[0] != RIPC_IN_POOL;
		ripc_message_free(m);
	}
	printf("| echo, %zu KiB | %u of %d | | %.2f |\n", len >> 10, own, COUNT,
	       median(times, COUNT));
}

static pid_t child(void (*fn)(int, uint64_t), int cpu, uint64_t id)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(cpu, id);
	}
	return pid;
}

static void echoer(int cpu, uint64_t id)
{
	forwarder(cpu, id, CLIENT);
}

static void filter(int cpu, uint64_t id)
{
	forwarder(cpu, id, DISPLAY);
}

/* The message that ends the others. */
static void end(uint64_t to, pid_t pid, pid_t pid2)
{
	struct iovec item = {"", 1};

	check(ripc_send_long(self, to, &item, 1, NULL, TIMEOUT_MS), "end");
	ripc_message_free(take());
	if (waitpid(pid, NULL, 0) < 0 || (pid2 && waitpid(pid2, NULL, 0) < 0))
		perror("zero_copy: wait");
}

int main(int argc, char **argv)
{
	int cpu[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1};
	pid_t consumes = child(consumer, cpu[1], DISPLAY), echoes, filters;

	begin(cpu[0], CLIENT);
	puts("| Messages over shm | in place | allocation, us | send to answer, us |");
	puts("|---|---|---|---|");
	fresh(DISPLAY, 4 * MIB, true, "fresh buffer, ripc_buf_alloc_for()");
	fresh(DISPLAY, 4 * MIB, false, "fresh buffer, ripc_buf_alloc()");
	fresh(DISPLAY, 64 * MIB, true, "fresh buffer, ripc_buf_alloc_for()");
	filters = child(filter, cpu[0], FILTER);
	fresh(FILTER, 4 * MIB, true, "pipeline of three processes");
	end(FILTER, filters, consumes);
	echoes = child(echoer, cpu[1], FILTER);
	echo(FILTER, 64 << 10);
	echo(FILTER, MIB);
	echo(FILTER, 64 * MIB);
	end(FILTER, echoes, 0);
	return ripc_close(ctx) ? 1 : 0;
}
