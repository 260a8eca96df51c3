/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls and reliable short messages beside short messages, in turns, in one run.
 *
 *     calls TRANSPORT [ROUNDS [BYTES [FIGURE]]]
 *
 * A server, a child process, echoes each message. Processors 0 and 1, wait=poll on both sides. Per
 * round: a ping-pong of short messages, the same by calls, and by reliable messages; a one-way
 * stream of short and of reliable messages; calls with 1, 32 and 1024 outstanding. Prints the
 * medians of all rounds as JSON: microseconds, millions per second, and the ratios of each round.
 * With FIGURE, only that one is measured, for a profiler.
 */
#define _GNU_SOURCE
#include <ripc.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVICE    42
#define TIMEOUT_MS 10000
#define ROUNDTRIPS 20000
#define STREAM     400000
#define CALLS      400000
#define BYTES_MAX  512
#define ROUNDS_MAX 101

enum figure {
	SHORT,
	CALL,
	RELIABLE,
	STREAM_SHORT,
	STREAM_RELIABLE,
	CALLS_1,
	CALLS_32,
	CALLS_1024,
	FIGURES
};

static const char *const names[FIGURES] = {"short_us",    "call_us",      "reliable_us",
					   "short_mps",   "reliable_mps", "calls1_mps",
					   "calls32_mps", "calls1024_mps"};

static struct ripc *ctx;
static struct ripc_service *me;
static char bytes[BYTES_MAX];
static struct iovec item = {bytes, 64};
static const struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "calls: %s: %s: %s\n", what, ripc_strerror(rc), ripc_error_detail());
	exit(1);
}

static void start(int cpu, const char *transport, uint64_t id)
{
	char options[200];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	snprintf(options, sizeof(options), "transports=%s interfaces=lo wait=poll", transport);
	check(ripc_open(&ctx, options), "open");
	check(ripc_service_register(ctx, id, 0, &me), "register");
}

/* ---- the server ---- */

/* The first byte of a message: what to do with it. */
enum order { ECHO = 0, ECHO_RELIABLE = 1, DROP = 2 };

static void serve(const char *transport, int ready)
{
	struct ripc_message *m;

	start(1, transport, SERVICE);
	if (write(ready, "+", 1) != 1)
		exit(1);
	for (;;) {
		char order;

		check(ripc_receive(me, &m, -1), "receive");
		order = *(char *)m->items[0].iov_base;
		if (m->call)
			check(ripc_reply(m, m->items, 1, 0), "reply");
		else if (order != DROP)
			check(ripc_send_short(me, m->source, m->items, 1,
					      order == ECHO_RELIABLE ? &reliable : NULL,
					      TIMEOUT_MS),
			      "echo");
		ripc_message_free(m);
	}
}

/* ---- the client ---- */

static double roundtrips(const struct ripc_send_options *o, enum order order)
{
	struct ripc_message *m;
	double begin_us = now_us();

	bytes[0] = order;
	for (int i = 0; i < ROUNDTRIPS; i++) {
		check(ripc_send_short(me, SERVICE, &item, 1, o, TIMEOUT_MS), "send");
		check(ripc_receive(me, &m, TIMEOUT_MS), "receive");
		ripc_message_free(m);
	}
	return (now_us() - begin_us) / ROUNDTRIPS;
}

static double call_roundtrips(void)
{
	struct ripc_message *m;
	double begin_us = now_us();

	for (int i = 0; i < ROUNDTRIPS; i++) {
		check(ripc_call(me, SERVICE, &item, 1, NULL, &m, TIMEOUT_MS), "call");
		ripc_message_free(m);
	}
	return (now_us() - begin_us) / ROUNDTRIPS;
}

/* One way; the echo of the last shows that all have arrived. */
static double stream(const struct ripc_send_options *o)
{
	struct ripc_message *m;
	double begin_us = now_us();

	bytes[0] = DROP;
	for (int i = 0; i < STREAM; i++)
		check(ripc_send_short(me, SERVICE, &item, 1, o, TIMEOUT_MS), "send");
	bytes[0] = ECHO;
	check(ripc_send_short(me, SERVICE, &item, 1, o, TIMEOUT_MS), "send");
	check(ripc_receive(me, &m, TIMEOUT_MS), "receive");
	ripc_message_free(m);
	return STREAM / (now_us() - begin_us);
}

static double calls(unsigned outstanding)
{
	unsigned begun = 0, ended = 0, count = outstanding > 1 ? CALLS : CALLS / 10;
	struct ripc_completion done = {.size = sizeof(done)};
	struct ripc_request *r;
	struct ripc_message *m;
	double begin_us = now_us();

	while (ended < count) {
		while (begun < count && begun - ended < outstanding) {
			check(ripc_call_start(me, SERVICE, &item, 1, NULL, TIMEOUT_MS, &r),
			      "start");
			begun++;
		}
		check(ripc_completion_next(ctx, &done, TIMEOUT_MS), "completion");
		do {
			check(ripc_call_wait(&done.request, &m, 0), "wait");
			ripc_message_free(m);
			ended++;
		} while (!ripc_completion_next(ctx, &done, 0));
	}
	return count / (now_us() - begin_us);
}

static double measure(enum figure f)
{
	switch (f) {
	case SHORT:
		return roundtrips(NULL, ECHO);
	case CALL:
		return call_roundtrips();
	case RELIABLE:
		return roundtrips(&reliable, ECHO_RELIABLE);
	case STREAM_SHORT:
		return stream(NULL);
	case STREAM_RELIABLE:
		return stream(&reliable);
	case CALLS_1:
		return calls(1);
	case CALLS_32:
		return calls(32);
	default:
		return calls(1024);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
	double sorted[ROUNDS_MAX] = {0};

	memcpy(sorted, values, (size_t)n * sizeof(*values));
	qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
	return sorted[n / 2];
}

/* The median of the ratios of two figures. */
static double ratio(double figures[FIGURES][ROUNDS_MAX], enum figure a, enum figure b, int n)
{
	double ratios[ROUNDS_MAX] = {0};

	for (int i = 0; i < n; i++)
		ratios[i] = figures[a][i] / figures[b][i];
	return median(ratios, n);
}

int main(int argc, char **argv)
{
	static double figures[FIGURES][ROUNDS_MAX];
	int rounds = argc > 2 ? atoi(argv[2]) : 7;
	const char *only = argc > 4 ? argv[4] : NULL;
	int ready[2];
	pid_t server;
	char c;

	item.iov_len = argc > 3 ? (size_t)atoi(argv[3]) : 64;
	if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX || item.iov_len < 1 ||
	    item.iov_len > BYTES_MAX) {
		fprintf(stderr, "usage: calls TRANSPORT [ROUNDS [BYTES [FIGURE]]]\n");
		return 2;
	}
	if (pipe(ready))
		return 1;
	server = fork();
	if (!server) {
		serve(argv[1], ready[1]);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		return 1;
	start(0, argv[1], RIPC_ANY_ID);
	for (int i = 0; i < rounds; i++)
		for (enum figure f = 0; f < FIGURES; f++)
			if (!only || !strcmp(only, names[f]))
				figures[f][i] = measure(f);
	printf("{\"transport\": \"%s\", \"bytes\": %zu, \"rounds\": %d", argv[1], item.iov_len,
	       rounds);
	for (enum figure f = 0; f < FIGURES; f++)
		printf(", \"%s\": %.3f", names[f], median(figures[f], rounds));
	printf(", \"call/short\": %.3f, \"reliable/short\": %.3f, \"rate short/reliable\": %.3f}\n",
	       ratio(figures, CALL, SHORT, rounds), ratio(figures, RELIABLE, SHORT, rounds),
	       ratio(figures, STREAM_SHORT, STREAM_RELIABLE, rounds));
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return ripc_close(ctx) != 0;
}
