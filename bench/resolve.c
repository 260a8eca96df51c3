/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver benchmark of 2012: resolve a service, send it a short message of 4 bytes, and wait
 * for the answer.
 *
 *     resolve [ROUNDS [SERVICES]]
 *
 * One process answers for SERVICES services. With the cache the other one sends ROUNDS messages to
 * one of them. Without it each round is the first to its service, on an existing connection: after
 * every SERVICES rounds the client opens a new context, with an empty cache, and connects.
 * RIPC_RESOLVER selects the back ends. Prints one line of JSON.
 */
#include <ripc.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVICES_MAX 400 /* each has a descriptor or two */
#define REGISTERING  16  /* registrations at once: each waits for the network */
#define TIMEOUT_MS   10000

struct batch {
	struct ripc_service **services;
	unsigned first, n;
	int err;
};

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int fail(int err, const char *what)
{
	fprintf(stderr, "resolve: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static void *register_batch(void *arg)
{
	struct batch *b = arg;

	for (unsigned i = b->first; i < b->n && !b->err; i += REGISTERING)
		b->err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &b->services[i]);
	return NULL;
}

static int register_all(struct ripc_service **services, unsigned n)
{
	struct batch batches[REGISTERING];
	pthread_t threads[REGISTERING];
	unsigned started = 0;
	int err = 0;

	for (; started < REGISTERING; started++) {
		batches[started] = (struct batch){services, started, n, 0};
		if (pthread_create(&threads[started], NULL, register_batch, &batches[started]))
			break;
	}
	if (started < REGISTERING)
		err = -1;
	while (started--) {
		pthread_join(threads[started], NULL);
		err = err ? err : batches[started].err;
	}
	return err;
}

static int answer(struct ripc_service *service)
{
	struct ripc_message *m;
	int err = ripc_receive(service, &m, 0);

	if (err)
		return 0;
	err = ripc_send_short(service, m->source, m->items, m->nitems, NULL, TIMEOUT_MS);
	ripc_message_free(m);
	return err;
}

/* The process that answers, until it is killed. */
static int serve(int to, unsigned n)
{
	struct ripc_service *services[SERVICES_MAX];
	struct epoll_event ev = {.events = EPOLLIN};
	int epoll = epoll_create1(0), err = epoll < 0 ? -1 : register_all(services, n);

	if (err)
		return fail(err, "register");
	for (unsigned i = 0; i < n; i++) {
		uint64_t id = ripc_service_id(services[i]);
		int fd = ripc_service_fd(services[i]);

		ev.data.u32 = i;
		if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) ||
		    write(to, &id, sizeof(id)) != (ssize_t)sizeof(id))
			return 1;
	}
	for (;;) {
		if (epoll_wait(epoll, &ev, 1, -1) != 1)
			continue;
		err = answer(services[ev.data.u32]);
		if (err)
			return fail(err, "answer");
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int one_round(struct ripc_service *service, uint64_t id, double *took_us)
{
	struct iovec item = {.iov_base = "2012", .iov_len = 4};
	double begin_us = now_us();
	struct ripc_message *m;
	int err = ripc_send_short(service, id, &item, 1, NULL, TIMEOUT_MS);

	if (!err)
		err = ripc_receive(service, &m, TIMEOUT_MS);
	*took_us = now_us() - begin_us;
	if (!err)
		ripc_message_free(m);
	return err;
}

/* A context that knows nothing, connected by way of @id. */
static int fresh(struct ripc **ctx, struct ripc_service **service, uint64_t id)
{
	double unused;
	int err = ripc_open(ctx, NULL);

	if (!err)
		err = ripc_service_register(*ctx, RIPC_ANY_ID, 0, service);
	return err ? err : one_round(*service, id, &unused);
}

static void print(const char *name, double *took_us, unsigned n)
{
	double sum = 0;

	qsort(took_us, n, sizeof(*took_us), compare);
	for (unsigned i = 0; i < n; i++)
		sum += took_us[i];
	printf("\"%s_us\": {\"mean\": %.1f, \"min\": %.1f, \"p50\": %.1f, \"p99\": %.1f, \"max\": "
	       "%.1f}",
	       name, sum / n, took_us[0], took_us[n / 2], took_us[(size_t)n * 99 / 100],
	       took_us[n - 1]);
}

static int measure(const uint64_t *ids, unsigned n, unsigned rounds, double *cached_us,
		   double *resolved_us)
{
	struct ripc_service *service;
	struct ripc *ctx = NULL;
	int err = 0;

	for (unsigned i = 0; i < rounds && !err; i++) {
		unsigned at = i % (n - 1);

		if (!at && ctx)
			ripc_close(ctx);
		if (!at)
			err = fresh(&ctx, &service, ids[0]);
		if (!err)
			err = one_round(service, ids[1 + at], &resolved_us[i]);
	}
	for (unsigned i = 0; i < rounds && !err; i++)
		err = one_round(service, ids[0], &cached_us[i]);
	if (ctx)
		ripc_close(ctx);
	return err;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 10000;
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 201;
	const char *resolver = getenv("RIPC_RESOLVER");
	double *cached_us, *resolved_us;
	uint64_t ids[SERVICES_MAX];
	int fds[2], err;
	pid_t child;

	if (!rounds || n < 2 || n > SERVICES_MAX) {
		fprintf(stderr, "usage: resolve [ROUNDS [SERVICES]]\n");
		return 2;
	}
	cached_us = calloc(rounds, sizeof(*cached_us));
	resolved_us = calloc(rounds, sizeof(*resolved_us));
	/* Before the library is used: a context does not survive fork(). */
	if (!cached_us || !resolved_us || pipe(fds) || (child = fork()) < 0) {
		perror("resolve");
		return 1;
	}
	if (!child)
		_exit(serve(fds[1], n));
	close(fds[1]);
	for (unsigned i = 0; i < n; i++) {
		if (read(fds[0], &ids[i], sizeof(ids[i])) != (ssize_t)sizeof(ids[i])) {
			kill(child, SIGKILL);
			return 1;
		}
	}
	err = measure(ids, n, rounds, cached_us, resolved_us);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (err)
		return fail(err, "round");
	printf("{\"resolver\": \"%s\", \"rounds\": %u, \"services\": %u, ",
	       resolver ? resolver : "default", rounds, n);
	print("cached", cached_us, rounds);
	printf(", ");
	print("resolved", resolved_us, rounds);
	printf("}\n");
	free(cached_us);
	free(resolved_us);
	return 0;
}
