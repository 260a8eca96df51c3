/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One server and many clients, each a process of its own: how long it takes to connect them all,
 * what memory each costs the server, how many calls it answers and how evenly, and what one
 * client's calls take while the others flood it.
 *
 *     many CLIENTS MS [CLIENT_CPU SERVER_CPU]
 *
 * All clients share one processor, the server has the other. Each phase lasts MS milliseconds.
 * Settings come from the environment (RIPC_TRANSPORTS, RIPC_WAIT). Prints one line of JSON.
 */
#define _GNU_SOURCE
#include "tools/histogram.h"

#include <ripc.h>

#include <errno.h>
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

#define CLIENTS_MAX 1024
#define SIZE        64 /* bytes of every message */
#define TIMEOUT_MS  30000

/* Phases of a run: the clients check the phase after every call. */
enum phase {
	WAITING,
	CONNECT, /* one call each */
	SOLO,    /* client 0 calls */
	RUN,     /* all call */
	FLOOD,   /* client 0 calls, the others send as fast as they can */
	END
};

struct client {
	bool connected, failed;
	int seen; /* the phase it has noticed */
	uint64_t calls, floods;
	uint64_t p50_ns[2], p99_ns[2]; /* client 0: alone, and among the flood */
} __attribute__((aligned(128)));

/* Mapped by all. */
struct shared {
	int phase;
	uint64_t id;
	struct client clients[CLIENTS_MAX];
};

static struct shared *shared;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static enum phase phase(void)
{
	return (enum phase)__atomic_load_n(&shared->phase, __ATOMIC_ACQUIRE);
}

static void set_phase(enum phase p)
{
	__atomic_store_n(&shared->phase, (int)p, __ATOMIC_RELEASE);
}

static int fail(int err, const char *what)
{
	fprintf(stderr, "many: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
		perror("many: cannot pin");
}

static long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long total = 0, resident = 0;

	if (!file || fscanf(file, "%ld %ld", &total, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident * sysconf(_SC_PAGESIZE);
}

/* A message whose first byte is 'c' is answered, one with 'f' is not. */
static int call(struct ripc_service *service, char *buf)
{
	struct iovec item = {.iov_base = buf, .iov_len = SIZE};
	struct ripc_message *m;
	int err;

	buf[0] = 'c';
	err = ripc_send_short(service, shared->id, &item, 1, NULL, TIMEOUT_MS);
	if (!err)
		err = ripc_receive(service, &m, TIMEOUT_MS);
	if (!err)
		ripc_message_free(m);
	return err;
}

static int flood(struct ripc_service *service, char *buf)
{
	struct iovec item = {.iov_base = buf, .iov_len = SIZE};

	buf[0] = 'f';
	return ripc_send_short(service, shared->id, &item, 1, NULL, TIMEOUT_MS);
}

static int calls_of_one(struct client *me, struct ripc_service *service, char *buf, int slot)
{
	enum phase of = slot ? FLOOD : SOLO;
	struct histogram *h = histogram_new();
	int err = h ? 0 : -ENOMEM;

	while (!err && phase() == of) {
		uint64_t begin_ns = now_ns();

		err = call(service, buf);
		if (!err)
			histogram_add(h, now_ns() - begin_ns);
	}
	if (h) {
		me->p50_ns[slot] = histogram_percentile(h, 50);
		me->p99_ns[slot] = histogram_percentile(h, 99);
	}
	histogram_free(h);
	return err;
}

static int phases(unsigned index, struct client *me, struct ripc_service *service)
{
	struct timespec ms = {.tv_nsec = 1000000};
	char buf[SIZE] = {0};
	int err = 0;

	for (enum phase p = phase(); !err && p != END; p = phase()) {
		__atomic_store_n(&me->seen, (int)p, __ATOMIC_RELEASE);
		if (p == CONNECT && !me->connected) {
			err = call(service, buf);
			__atomic_store_n(&me->connected, !err, __ATOMIC_RELEASE);
		} else if (p == RUN) {
			err = call(service, buf);
			/*
			 * A call counts if it began in the phase; the server's own time is the
			 * measure.
			 */
			me->calls += !err && phase() == RUN;
		} else if (p == FLOOD && index) {
			err = flood(service, buf);
			me->floods += !err;
		} else if ((p == SOLO || p == FLOOD) && !index) {
			err = calls_of_one(me, service, buf, p == FLOOD);
		} else {
			nanosleep(&ms, NULL);
		}
	}
	return err;
}

static int be_client(unsigned index, int cpu)
{
	struct client *me = &shared->clients[index];
	struct ripc_service *service;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(cpu);
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);
	if (!err)
		err = phases(index, me, service);
	if (err) {
		__atomic_store_n(&me->failed, true, __ATOMIC_RELEASE);
		fail(err, "client");
	}
	ripc_close(NULL);
	return err ? 1 : 0;
}

static int answer_one(struct ripc_service *service, int timeout_ms)
{
	struct ripc_message *m;
	int err = ripc_receive(service, &m, timeout_ms);

	if (err)
		return err == -ETIMEDOUT || err == -EAGAIN ? 0 : err;
	if (m->items[0].iov_len && *(const char *)m->items[0].iov_base == 'c')
		err = ripc_send_short(service, m->source, m->items, m->nitems, NULL, TIMEOUT_MS);
	ripc_message_free(m);
	return err;
}

/* Answers for so long, or until all are connected. Return: 0, or a negative errno. */
static int serve(struct ripc_service *service, enum phase p, uint64_t ns, unsigned n)
{
	uint64_t begin_ns = now_ns();
	unsigned connected = 0;
	int err = 0;

	set_phase(p);
	while (!err && now_ns() - begin_ns < ns) {
		err = answer_one(service, 5);
		if (p != CONNECT)
			continue;
		while (connected < n &&
		       __atomic_load_n(&shared->clients[connected].connected, __ATOMIC_ACQUIRE))
			connected++;
		if (connected == n)
			break;
		if (__atomic_load_n(&shared->clients[connected].failed, __ATOMIC_ACQUIRE))
			err = -EPIPE;
	}
	if (!err && p == CONNECT && connected < n)
		err = -ETIMEDOUT;
	return err;
}

/* Calls in flight at the end of a phase belong to none: wait until every client rests. */
static int settle(struct ripc_service *service, unsigned n)
{
	uint64_t begin_ns = now_ns();
	unsigned resting = 0;
	int err = 0;

	set_phase(WAITING);
	while (!err && resting < n && now_ns() - begin_ns < TIMEOUT_MS * UINT64_C(1000000)) {
		err = answer_one(service, 5);
		while (resting < n &&
		       (__atomic_load_n(&shared->clients[resting].seen, __ATOMIC_ACQUIRE) ==
				WAITING ||
			__atomic_load_n(&shared->clients[resting].failed, __ATOMIC_ACQUIRE)))
			resting++;
	}
	return err || resting == n ? err : -ETIMEDOUT;
}

/* The largest deviation from the mean, in percent. */
static double unevenness(unsigned n, uint64_t sum)
{
	double mean = (double)sum / n, worst = 0;

	for (unsigned i = 0; i < n; i++) {
		double off = (double)shared->clients[i].calls - mean;

		off = off < 0 ? -off : off;
		worst = off > worst ? off : worst;
	}
	return mean > 0 ? worst * 100 / mean : 0;
}

static int be_server(unsigned n, unsigned ms)
{
	uint64_t ns = ms * UINT64_C(1000000), calls = 0, floods = 0, begin_ns, run_ns;
	struct timespec start = {.tv_sec = 1};
	struct client *first = &shared->clients[0];
	struct ripc_service *service;
	double connect_ms;
	long before, after;
	int err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);

	if (err)
		return fail(err, "register");
	shared->id = ripc_service_id(service);
	/* The clients open the library meanwhile. */
	nanosleep(&start, NULL);
	before = resident_bytes();
	begin_ns = now_ns();
	err = serve(service, CONNECT, TIMEOUT_MS * UINT64_C(1000000), n);
	connect_ms = (double)(now_ns() - begin_ns) / 1e6;
	after = resident_bytes();
	if (!err)
		err = settle(service, n);
	if (!err)
		err = serve(service, SOLO, ns, n);
	if (!err)
		err = settle(service, n);
	begin_ns = now_ns();
	if (!err)
		err = serve(service, RUN, ns, n);
	run_ns = now_ns() - begin_ns;
	if (!err)
		err = settle(service, n);
	if (!err)
		err = serve(service, FLOOD, ns, n);
	if (!err)
		err = settle(service, n);
	set_phase(END);
	if (err)
		return fail(err, "server");
	for (unsigned i = 0; i < n; i++) {
		calls += shared->clients[i].calls;
		floods += shared->clients[i].floods;
	}
	printf("{\"clients\":%u,\"connect_ms\":%.2f,\"bytes_per_client\":%.0f,\"calls_per_s\":%.0f,"
	       "\"unevenness_percent\":%.1f,\"alone_us\":{\"p50\":%.2f,\"p99\":%.2f},"
	       "\"flooded_us\":{\"p50\":%.2f,\"p99\":%.2f},\"flood_per_s\":%.0f}\n",
	       n, connect_ms, (double)(after - before) / n, (double)calls * 1e9 / (double)run_ns,
	       unevenness(n, calls), (double)first->p50_ns[0] / 1e3, (double)first->p99_ns[0] / 1e3,
	       (double)first->p50_ns[1] / 1e3, (double)first->p99_ns[1] / 1e3,
	       (double)floods * 1e3 / ms);
	ripc_close(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	unsigned ms = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	int client_cpu = argc > 4 ? atoi(argv[3]) : -1, server_cpu = argc > 4 ? atoi(argv[4]) : -1;
	int rc;

	if (!n || n > CLIENTS_MAX || !ms || ms > 60000) {
		fprintf(stderr, "usage: many CLIENTS MS [CLIENT_CPU SERVER_CPU]\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("many");
		return 1;
	}
	/* Before the library is used: a context does not survive fork(). */
	for (unsigned i = 0; i < n; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(be_client(i, client_cpu));
		if (pid < 0) {
			perror("many: fork");
			return 1;
		}
	}
	pin(server_cpu);
	rc = be_server(n, ms);
	set_phase(END);
	while (wait(NULL) > 0)
		;
	return rc;
}
