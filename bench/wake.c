/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waking who sleeps: round trips of 64 bytes between two processes that wait blocked, with a pause
 * before each in which both fall asleep, beside the least that the kernel needs for that: two
 * eventfds, waited for in read(), or in epoll_wait() and then read. The three take turns, so that
 * all of them see the same machine. The settings of libripc come from the environment
 * (RIPC_TRANSPORTS, RIPC_WAIT). Prints JSON: microseconds, and how libripc's median compares with
 * the other two.
 *
 * usage: wake [CPU CPU [COUNT [PAUSE_US]]]     (default: 0 1 1000 2000)
 */
#define _GNU_SOURCE
#include "ripc.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE       64
#define TIMEOUT_MS 20000

enum kind { READ, EPOLL, RIPC, KINDS };

static const char *const names[KINDS] = {"eventfd", "eventfd_epoll", "ripc"};

/* One direction of a ping-pong of eventfds. */
struct bell {
	int fd, epfd;
};

static struct bell wakeups[2][2];    /* by kind, then by direction: there, back */
static struct ripc_service *service; /* of this process */
static uint64_t *peer_id;            /* of the one that answers; mapped by all */

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("wake: cannot pin");
}

static int fail(const char *what)
{
	fprintf(stderr, "wake: %s: %s\n", what, ripc_error_detail());
	return -1;
}

static int wakeup_open(struct bell *b, enum kind kind)
{
	struct epoll_event ev = {.events = EPOLLIN};

	b->fd = eventfd(0, EFD_CLOEXEC);
	b->epfd = kind == EPOLL ? epoll_create1(EPOLL_CLOEXEC) : -1;
	if (b->fd < 0)
		return -1;
	return kind == EPOLL && epoll_ctl(b->epfd, EPOLL_CTL_ADD, b->fd, &ev) ? -1 : 0;
}

static int wakeup_signal(const struct bell *b)
{
	uint64_t one = 1;

	return write(b->fd, &one, sizeof(one)) == sizeof(one) ? 0 : -1;
}

static int wakeup_wait(const struct bell *b)
{
	struct epoll_event ev;
	uint64_t count;

	if (b->epfd >= 0 && epoll_wait(b->epfd, &ev, 1, TIMEOUT_MS) != 1)
		return -1;
	return read(b->fd, &count, sizeof(count)) == sizeof(count) ? 0 : -1;
}

static int answer(enum kind kind)
{
	struct ripc_message *m;
	int rc;

	if (kind != RIPC)
		return wakeup_wait(&wakeups[kind][0]) || wakeup_signal(&wakeups[kind][1]) ? -1 : 0;
	if (ripc_receive(service, &m, TIMEOUT_MS))
		return fail("receive");
	rc = ripc_send_short(service, m->source, m->items, m->nitems, NULL, TIMEOUT_MS);
	ripc_message_free(m);
	return rc ? fail("answer") : 0;
}

static int ask(enum kind kind)
{
	char buf[SIZE] = {0};
	struct iovec item = {buf, sizeof(buf)};
	struct ripc_message *m;

	if (kind != RIPC)
		return wakeup_signal(&wakeups[kind][0]) || wakeup_wait(&wakeups[kind][1]) ? -1 : 0;
	if (ripc_send_short(service, *peer_id, &item, 1, NULL, TIMEOUT_MS) ||
	    ripc_receive(service, &m, TIMEOUT_MS))
		return fail("ask");
	ripc_message_free(m);
	return 0;
}

static int serve(enum kind kind, int cpu, unsigned count)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(cpu);
	if (kind == RIPC) {
		if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &service))
			return fail("register");
		__atomic_store_n(peer_id, ripc_service_id(service), __ATOMIC_RELEASE);
	}
	for (unsigned i = 0; i < count; i++)
		if (answer(kind))
			return -1;
	return kind == RIPC ? ripc_close(NULL) : 0;
}

static int measure(unsigned count, unsigned pause_us, double *times[KINDS])
{
	struct timespec pause = {.tv_sec = pause_us / 1000000,
				 .tv_nsec = (long)(pause_us % 1000000) * 1000};

	while (!__atomic_load_n(peer_id, __ATOMIC_ACQUIRE))
		usleep(1000);
	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &service))
		return fail("register");
	/* The first sets up. */
	for (unsigned i = 0; i <= count; i++)
		for (enum kind k = 0; k < KINDS; k++) {
			double start;

			nanosleep(&pause, NULL);
			start = now_us();
			if (ask(k)) {
				fprintf(stderr, "wake: no answer by %s\n", names[k]);
				return -1;
			}
			if (i)
				times[k][i - 1] = now_us() - start;
		}
	return ripc_close(NULL);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(unsigned count, unsigned pause_us, double *times[KINDS])
{
	printf("{\"pause_us\":%u,\"count\":%u", pause_us, count);
	for (enum kind k = 0; k < KINDS; k++) {
		qsort(times[k], count, sizeof(double), by_value);
		printf(",\"%s\":{\"min\":%.2f,\"p50\":%.2f,\"p99\":%.2f}", names[k], times[k][0],
		       times[k][count / 2], times[k][count - 1 - count / 100]);
	}
	printf(",\"ratio\":%.3f,\"ratio_epoll\":%.3f}\n",
	       times[RIPC][count / 2] / times[READ][count / 2],
	       times[RIPC][count / 2] / times[EPOLL][count / 2]);
}

int main(int argc, char **argv)
{
	int cpu[2] = {argc > 2 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 1}, status, rc = 0;
	unsigned count = argc > 3 ? (unsigned)atoi(argv[3]) : 1000;
	unsigned pause_us = argc > 4 ? (unsigned)atoi(argv[4]) : 2000;
	double *times[KINDS], *all = count ? calloc(count, KINDS * sizeof(*all)) : NULL;

	peer_id = mmap(NULL, sizeof(*peer_id), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	for (unsigned i = 0; i < 4; i++)
		rc |= wakeup_open(&wakeups[i / 2][i % 2], i / 2);
	if (!all || peer_id == MAP_FAILED || rc) {
		fprintf(stderr, "usage: wake [CPU CPU [COUNT [PAUSE_US]]]\n");
		free(all);
		return 2;
	}
	/* Default where the environment has no value. */
	setenv("RIPC_WAIT", "block", 0);
	setenv("RIPC_TRANSPORTS", "shm", 0);
	/* Before the library is used: a context does not survive fork(). */
	for (enum kind k = 0; k < KINDS; k++) {
		pid_t pid = fork();

		times[k] = all + (size_t)k * count;
		if (!pid)
			_exit(serve(k, cpu[1], count + 1) ? 1 : 0);
		if (pid < 0) {
			perror("wake: fork");
			free(all);
			return 1;
		}
	}
	pin(cpu[0]);
	rc = measure(count, pause_us, times);
	if (!rc)
		report(count, pause_us, times);
	free(all);
	/* Servers that wait for more end with us. */
	for (enum kind k = 0; !rc && k < KINDS; k++)
		if (wait(&status) < 0 || status)
			rc = 1;
	return rc ? 1 : 0;
}
