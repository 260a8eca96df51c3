/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The cost of idle connected peers: one service and PEERS clients, each a process of its own. First
 * all are idle for SECONDS: the processor time of the service's process, and how often it woke.
 * Then one of them calls CALLS times, the others stay idle: the same, per call. Settings come from
 * the environment (RIPC_TRANSPORTS, RIPC_WAIT). Prints one line of JSON.
 *
 * Under valgrind --tool=callgrind the instructions of the service are counted: the difference of
 * two runs with different CALLS is the cost of the calls.
 *
 * usage: idle PEERS SECONDS CALLS
 */
#define _GNU_SOURCE
#include <ripc.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PEERS_MAX  1000
#define SIZE       64 /* bytes of every message */
#define TIMEOUT_MS 60000

/* Mapped by all. */
static struct shared {
	uint64_t id;
	unsigned connected, go;
} * shared;

static int fail(int err, const char *what)
{
	fprintf(stderr, "idle: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static int call(struct ripc_service *service)
{
	char buf[SIZE] = {0};
	struct iovec item = {buf, sizeof(buf)};
	struct ripc_message *m;
	int err = ripc_send_short(service, shared->id, &item, 1, NULL, TIMEOUT_MS);

	if (!err)
		err = ripc_receive(service, &m, TIMEOUT_MS);
	if (!err)
		ripc_message_free(m);
	return err;
}

static int be_client(unsigned index, unsigned calls)
{
	struct timespec ms = {.tv_nsec = 1000000};
	struct ripc_service *service;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!__atomic_load_n(&shared->id, __ATOMIC_ACQUIRE))
		nanosleep(&ms, NULL);
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);
	if (!err)
		err = call(service);
	if (err)
		return fail(err, "client");
	__atomic_fetch_add(&shared->connected, 1, __ATOMIC_RELEASE);
	while (!index && !__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE))
		nanosleep(&ms, NULL);
	for (unsigned i = 0; !index && !err && i < calls; i++)
		err = call(service);
	if (err)
		return fail(err, "call");
	/* Until the server is done with it. */
	for (;;)
		pause();
}

/* Return: 0 answered, -ETIMEDOUT, or why not. */
static int answer(struct ripc_service *service, int timeout_ms)
{
	struct ripc_message *m;
	int err = ripc_receive(service, &m, timeout_ms);

	if (err)
		return err;
	err = ripc_send_short(service, m->source, m->items, m->nitems, NULL, TIMEOUT_MS);
	ripc_message_free(m);
	return err;
}

static double us(struct timeval t)
{
	return (double)t.tv_sec * 1e6 + (double)t.tv_usec;
}

/* Processor time in us, all threads, and how often one of them fell asleep. */
static double used(long *sleeps)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	*sleeps = u.ru_nvcsw;
	return us(u.ru_utime) + us(u.ru_stime);
}

static int be_server(unsigned n, unsigned seconds, unsigned calls)
{
	double begin, idle, active;
	long sleeps[3];
	struct ripc_service *service;
	int err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);

	if (err)
		return fail(err, "register");
	__atomic_store_n(&shared->id, ripc_service_id(service), __ATOMIC_RELEASE);
	for (unsigned i = 0; i < n; i++)
		if ((err = answer(service, TIMEOUT_MS)))
			return fail(err, "connect");
	while (__atomic_load_n(&shared->connected, __ATOMIC_ACQUIRE) < n)
		usleep(1000);
	/* The set-up is complete by then. */
	if (answer(service, 3000) != -ETIMEDOUT)
		return fail(-EPROTO, "a message that nobody should have sent");
	begin = used(&sleeps[0]);
	if (seconds && answer(service, (int)seconds * 1000) != -ETIMEDOUT)
		return fail(-EPROTO, "a message that nobody should have sent");
	idle = used(&sleeps[1]) - begin;
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < calls; i++)
		if ((err = answer(service, TIMEOUT_MS)))
			return fail(err, "call");
	active = used(&sleeps[2]) - begin - idle;
	printf("{\"peers\":%u,\"idle_s\":%u,\"idle_cpu_us\":%.0f,\"idle_sleeps\":%ld,\"calls\":%u,"
	       "\"cpu_us_per_call\":%.2f,\"sleeps_per_call\":%.2f}\n",
	       n, seconds, idle, sleeps[1] - sleeps[0], calls, calls ? active / calls : 0,
	       calls ? (double)(sleeps[2] - sleeps[1]) / calls : 0);
	ripc_close(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned n = argc == 4 ? (unsigned)atoi(argv[1]) : 0;
	unsigned seconds = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
	unsigned calls = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
	pid_t pids[PEERS_MAX];
	int rc;

	if (!n || n > PEERS_MAX || seconds > 600) {
		fprintf(stderr, "usage: idle PEERS SECONDS CALLS\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("idle");
		return 1;
	}
	/* Before the library is used: a context does not survive fork(). */
	for (unsigned i = 0; i < n; i++) {
		pids[i] = fork();
		if (!pids[i])
			_exit(be_client(i, calls));
		if (pids[i] < 0) {
			perror("idle: fork");
			return 1;
		}
	}
	rc = be_server(n, seconds, calls);
	for (unsigned i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	return rc;
}
