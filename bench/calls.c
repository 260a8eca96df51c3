/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls and reliable short messages beside short messages, in turns, in one run.
 *
 *     calls TRANSPORT [ROUNDS [BYTES [FIGURE[,FIGURE]...]]]
 *
 * A server, a child process, echoes each message. Per round: a ping-pong of short messages, the
 * same by calls, and by reliable messages; a one-way stream of short and of reliable messages;
 * calls with 1, 32 and 1024 outstanding. Prints the medians of all rounds as JSON: microseconds,
 * millions per second, and the ratios of each round.
 * With FIGURE, only these are measured, and the others are left out.
 *
 * Environment: CPUS="0 1", the processors of client and server; LESS=1 divides the counts; RIPC_*,
 * the options of the library. If unset, RIPC_WAIT is poll, and without RDMA RIPC_INTERFACES is lo.
 */
#define _GNU_SOURCE
#include <ripc.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVICE    42
#define TIMEOUT_MS 10000
#define LOST_MS    1000 /* without an echo for so long */
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
static unsigned less = 1; /* divides the counts */
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
	/* RDMA devices have addresses of their own. */
	bool devices = !strcmp(transport, "ib") || !strcmp(transport, "iwarp/verbs");
	char options[200];
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	snprintf(options, sizeof(options), "transports=%s%s%s", transport,
		 getenv("RIPC_INTERFACES") || devices ? "" : " interfaces=lo",
		 getenv("RIPC_WAIT") ? "" : " wait=poll");
	check(ripc_open(&ctx, options), "open");
	check(ripc_service_register(ctx, id, 0, &me), "register");
}

/* ---- the server ---- */

/* The first byte of a message: what to do with it. */
enum order { ECHO = 0, ECHO_RELIABLE = 1, DROP = 2 };

static void serve(const char *transport, int cpu, int ready)
{
	struct ripc_message *m;

	start(cpu, transport, SERVICE);
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
	unsigned count = ROUNDTRIPS / less;
	struct ripc_message *m;
	double begin_us = now_us();

	bytes[0] = order;
	for (unsigned i = 0; i < count; i++) {
		int err;

		/* A datagram, or its echo, may be lost. */
		do {
			check(ripc_send_short(me, SERVICE, &item, 1, o, TIMEOUT_MS), "send");
			err = ripc_receive(me, &m, o ? TIMEOUT_MS : LOST_MS);
		} while (err == -ETIMEDOUT && !o && now_us() - begin_us < TIMEOUT_MS * 1e3);
		check(err, "receive");
		ripc_message_free(m);
	}
	return (now_us() - begin_us) / count;
}

static double call_roundtrips(void)
{
	unsigned count = ROUNDTRIPS / less;
	struct ripc_message *m;
	double begin_us = now_us();

	for (unsigned i = 0; i < count; i++) {
		check(ripc_call(me, SERVICE, &item, 1, NULL, &m, TIMEOUT_MS), "call");
		ripc_message_free(m);
	}
	return (now_us() - begin_us) / count;
}

/* One way; the echo of the last shows that all have arrived. */
static double stream(const struct ripc_send_options *o)
{
	unsigned count = STREAM / less;
	struct ripc_message *m;
	double begin_us = now_us();

	bytes[0] = DROP;
	for (unsigned i = 0; i < count; i++)
		check(ripc_send_short(me, SERVICE, &item, 1, o, TIMEOUT_MS), "send");
	bytes[0] = ECHO;
	check(ripc_send_short(me, SERVICE, &item, 1, o, TIMEOUT_MS), "send");
	check(ripc_receive(me, &m, TIMEOUT_MS), "receive");
	ripc_message_free(m);
	return count / (now_us() - begin_us);
}

static double calls(unsigned outstanding)
{
	unsigned begun = 0, ended = 0, count = (outstanding > 1 ? CALLS : CALLS / 10) / less;
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

/* Whether the name of this figure is at the start of @list, names with commas between them. */
static bool is_next(const char *list, enum figure f)
{
	size_t n = strlen(names[f]);

	return !strncmp(list, names[f], n) && (!list[n] || list[n] == ',');
}

static const char *after(const char *list)
{
	list = strchr(list, ',');
	return list ? list + 1 : NULL;
}

/* Whether @list has this figure. NULL has all. */
static bool wanted(const char *list, enum figure f)
{
	for (const char *at = list; at; at = after(at))
		if (is_next(at, f))
			return true;
	return !list;
}

static bool all_known(const char *list)
{
	for (; list; list = after(list)) {
		enum figure f = SHORT;

		while (f < FIGURES && !is_next(list, f))
			f++;
		if (f == FIGURES)
			return false;
	}
	return true;
}

static void print(double figures[FIGURES][ROUNDS_MAX], const char *list, int rounds)
{
	static const struct {
		const char *name;
		enum figure a, b;
	} ratios[] = {{"call/short", CALL, SHORT},
		      {"reliable/short", RELIABLE, SHORT},
		      {"rate short/reliable", STREAM_SHORT, STREAM_RELIABLE}};

	for (enum figure f = 0; f < FIGURES; f++)
		if (wanted(list, f))
			printf(", \"%s\": %.3f", names[f], median(figures[f], rounds));
	for (size_t i = 0; i < sizeof(ratios) / sizeof(*ratios); i++)
		if (wanted(list, ratios[i].a) && wanted(list, ratios[i].b))
			printf(", \"%s\": %.3f", ratios[i].name,
			       ratio(figures, ratios[i].a, ratios[i].b, rounds));
	printf("}\n");
}

int main(int argc, char **argv)
{
	static double figures[FIGURES][ROUNDS_MAX];
	int rounds = argc > 2 ? atoi(argv[2]) : 7;
	const char *only = argc > 4 ? argv[4] : NULL, *cpus = getenv("CPUS"), *divisor;
	int client_cpu = 0, server_cpu = 1;
	int ready[2];
	pid_t server;
	char c;

	item.iov_len = argc > 3 ? (size_t)atoi(argv[3]) : 64;
	divisor = getenv("LESS");
	less = divisor ? (unsigned)strtoul(divisor, NULL, 10) : 1;
	if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX || item.iov_len < 1 ||
	    item.iov_len > BYTES_MAX || !less || less > 1000 || !all_known(only) ||
	    (cpus && sscanf(cpus, "%d %d", &client_cpu, &server_cpu) != 2)) {
		fprintf(stderr, "usage: [CPUS=\"0 1\"] [LESS=1] calls TRANSPORT [ROUNDS [BYTES "
				"[FIGURE[,FIGURE]...]]]\nfigures:");
		for (enum figure f = 0; f < FIGURES; f++)
			fprintf(stderr, " %s", names[f]);
		fprintf(stderr, "\n");
		return 2;
	}
	if (pipe(ready))
		return 1;
	server = fork();
	if (!server) {
		serve(argv[1], server_cpu, ready[1]);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		return 1;
	start(client_cpu, argv[1], RIPC_ANY_ID);
	/* Connects; not measured. */
	roundtrips(NULL, ECHO);
	for (int i = 0; i < rounds; i++)
		for (enum figure f = 0; f < FIGURES; f++)
			if (wanted(only, f))
				figures[f][i] = measure(f);
	printf("{\"transport\": \"%s\", \"bytes\": %zu, \"rounds\": %d", argv[1], item.iov_len,
	       rounds);
	print(figures, only, rounds);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return ripc_close(ctx) != 0;
}
