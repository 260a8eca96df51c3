/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The first message to a new service on one host: the time from the call that sends it to the
 * answer, with looking the service up and connecting to its process in between.
 *
 *     connect [ROUNDS]
 *
 * Each round starts a new process with a new service. Prints one line of JSON.
 */
#include <ripc.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 1000
#define TIMEOUT_MS 10000

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int fail(int err, const char *what)
{
	fprintf(stderr, "connect: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

/* The process of one round: prints its id on the standard output, and answers one message. */
static int serve(void)
{
	struct ripc_service *service;
	struct ripc_message *m;
	uint64_t id;
	int err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);

	if (err)
		return fail(err, "register");
	id = ripc_service_id(service);
	if (write(STDOUT_FILENO, &id, sizeof(id)) != (ssize_t)sizeof(id))
		return 1;
	err = ripc_receive(service, &m, TIMEOUT_MS);
	if (!err)
		err = ripc_send_short(service, m->source, m->items, m->nitems, NULL, TIMEOUT_MS);
	if (err)
		return fail(err, "answer");
	ripc_message_free(m);
	ripc_close(NULL);
	return 0;
}

/* A new program, not only a new process: a context does not survive fork(). */
static pid_t start(uint64_t *id)
{
	int fds[2];
	pid_t pid;
	bool good;

	if (pipe(fds))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl("/proc/self/exe", "connect", "serve", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	good = pid > 0 && read(fds[0], id, sizeof(*id)) == (ssize_t)sizeof(*id);
	close(fds[0]);
	return good ? pid : -1;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int one_round(struct ripc_service *service, double *took_ms)
{
	struct iovec item = {.iov_base = "first", .iov_len = 5};
	struct ripc_message *m;
	double begin_ms;
	uint64_t id;
	pid_t pid = start(&id);
	int err;

	if (pid < 0) {
		fprintf(stderr, "connect: cannot start a server\n");
		return 1;
	}
	begin_ms = now_ms();
	err = ripc_send_short(service, id, &item, 1, NULL, TIMEOUT_MS);
	if (!err)
		err = ripc_receive(service, &m, TIMEOUT_MS);
	*took_ms = now_ms() - begin_ms;
	if (!err)
		ripc_message_free(m);
	waitpid(pid, NULL, 0);
	return err ? fail(err, "first message") : 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 21;
	double took_ms[ROUNDS_MAX];
	struct ripc_service *service;
	int err;

	if (argc > 1 && !strcmp(argv[1], "serve"))
		return serve();
	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: first [ROUNDS]\n");
		return 2;
	}
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);
	if (err)
		return fail(err, "register");
	for (int i = 0; i < rounds; i++)
		if (one_round(service, &took_ms[i]))
			return 1;
	qsort(took_ms, (size_t)rounds, sizeof(*took_ms), compare);
	printf("{\"rounds\": %d, \"first_message_ms\": {\"min\": %.3f, \"p50\": %.3f, \"max\": "
	       "%.3f}}\n",
	       rounds, took_ms[0], took_ms[rounds / 2], took_ms[rounds - 1]);
	ripc_close(NULL);
	return 0;
}
