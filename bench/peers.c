/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The cost of peers: memory per connected peer and per resolved service, and the processor time of
 * idle connections.
 *
 *     peers [PEERS [SECONDS [SERVICES]]]
 *
 * One process holds a service; another one opens PEERS contexts that all connect to it and exchange
 * a message with it, and then both are idle for SECONDS. After that the first process looks up
 * SERVICES services of one further context of the second. Memory is the growth of the resident set
 * of the first process. Prints one line of JSON.
 */
#include <ripc.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGISTERING \
	32 /* registrations at once: each waits for the network, not for the processor */

struct batch {
	struct ripc *ctx;
	uint64_t *ids;
	unsigned first, step, n;
	int err;
};

static double cpu_s(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
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

static double idle(double seconds)
{
	struct timespec ts = {.tv_sec = (time_t)seconds};
	double begin = cpu_s();

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
	return (cpu_s() - begin) / seconds;
}

static int fail(int err, const char *what)
{
	fprintf(stderr, "peers: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

/* Everything that goes through the pipes is small enough to go in one piece. */
static bool write_phase(int fd, const void *data, size_t len)
{
	return write(fd, data, len) == (ssize_t)len;
}

static bool read_phase(int fd, void *data, size_t len)
{
	char *at = data;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static void *register_batch(void *arg)
{
	struct batch *b = arg;
	struct ripc_service *service;

	for (unsigned i = b->first; i < b->n && !b->err; i += b->step) {
		b->err = ripc_service_register(b->ctx, RIPC_ANY_ID, 0, &service);
		if (!b->err)
			b->ids[i] = ripc_service_id(service);
	}
	return NULL;
}

static int register_all(struct ripc *ctx, uint64_t *ids, unsigned n)
{
	struct batch batches[REGISTERING];
	pthread_t threads[REGISTERING];
	unsigned started = 0;
	int err = 0;

	for (; started < REGISTERING; started++) {
		batches[started] = (struct batch){ctx, ids, started, REGISTERING, n, 0};
		if (pthread_create(&threads[started], NULL, register_batch, &batches[started])) {
			err = -EAGAIN;
			break;
		}
	}
	while (started--) {
		pthread_join(threads[started], NULL);
		if (!err)
			err = batches[started].err;
	}
	return err;
}

/* A context of its own, with a service that has exchanged a message with @id. It stays open. */
static int become_peer(uint64_t id)
{
	struct iovec item = {.iov_base = "peer", .iov_len = 4};
	struct ripc_service *service;
	struct ripc_message *m;
	struct ripc *ctx;
	int err = ripc_open(&ctx, NULL);

	if (!err)
		err = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (!err)
		err = ripc_send_short(service, id, &item, 1, NULL, 10000);
	if (!err)
		err = ripc_receive(service, &m, 10000);
	if (!err)
		ripc_message_free(m);
	return err;
}

/* The second process: the peers. */
static int be_peers(int from, int to, unsigned peers, double seconds, unsigned services)
{
	uint64_t id, *ids = calloc(services, sizeof(*ids));
	struct ripc *ctx;
	double share;
	char go;
	int err;

	if (!ids || !read_phase(from, &id, sizeof(id)))
		return 1;
	for (unsigned i = 0; i < peers; i++) {
		err = become_peer(id);
		if (err)
			return fail(err, "peer");
	}
	if (!write_phase(to, "c", 1) || !read_phase(from, &go, 1))
		return 1;
	share = idle(seconds);
	if (!write_phase(to, &share, sizeof(share)))
		return 1;
	err = ripc_open(&ctx, NULL);
	if (!err)
		err = register_all(ctx, ids, services);
	if (err)
		return fail(err, "services");
	for (unsigned i = 0; i < services; i++)
		if (!write_phase(to, &ids[i], sizeof(ids[i])))
			return 1;
	/* Until the first process closes the pipe. */
	return read_phase(from, &go, 1);
}

static int be_server(int from, int to, unsigned peers, double seconds, unsigned services)
{
	struct ripc_service *service;
	struct ripc_stats stats = {.size = sizeof(stats)};
	long before, connected, resolved;
	double own_share, peers_share;
	uint64_t id;
	char done;
	int err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);

	if (err)
		return fail(err, "register");
	id = ripc_service_id(service);
	before = resident_bytes();
	if (!write_phase(to, &id, sizeof(id)))
		return 1;
	for (unsigned i = 0; i < peers; i++) {
		struct ripc_message *m;

		err = ripc_receive(service, &m, 30000);
		if (!err)
			err = ripc_send_short(service, m->source, m->items, m->nitems, NULL, 10000);
		if (err)
			return fail(err, "answer");
		ripc_message_free(m);
	}
	if (!read_phase(from, &done, 1))
		return 1;
	connected = resident_bytes() - before;
	ripc_context_stats(NULL, &stats);
	if (!write_phase(to, "g", 1))
		return 1;
	own_share = idle(seconds);
	if (!read_phase(from, &peers_share, sizeof(peers_share)))
		return 1;
	before = resident_bytes();
	for (unsigned i = 0; i < services; i++) {
		if (!read_phase(from, &id, sizeof(id)))
			return 1;
		err = ripc_route_lookup(NULL, id, NULL, 10000);
		if (err)
			return fail(err, "look up");
	}
	resolved = resident_bytes() - before;
	printf("{\"peers\": %u, \"lanes\": %llu, \"bytes_per_connected_peer\": %.0f, \"services\": "
	       "%u, \"bytes_per_resolved_service\": %.0f, \"idle_seconds\": %.0f, "
	       "\"idle_cpu_percent\": %.3f, \"idle_cpu_percent_of_all_peers\": %.3f}\n",
	       peers, (unsigned long long)stats.lanes, (double)connected / peers, services,
	       (double)resolved / services, seconds, own_share * 100, peers_share * 100);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned peers = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 10;
	unsigned services = argc > 3 ? (unsigned)atoi(argv[3]) : 1000;
	int there[2], back[2], rc;
	pid_t child;

	if (!peers || !seconds || !services) {
		fprintf(stderr, "usage: peers [PEERS [SECONDS [SERVICES]]]\n");
		return 2;
	}
	/* Before the library is used: a context does not survive fork(). */
	if (pipe(there) || pipe(back) || (child = fork()) < 0) {
		perror("peers");
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	if (!child) {
		close(there[1]);
		close(back[0]);
		return be_peers(there[0], back[1], peers, seconds, services);
	}
	close(there[0]);
	close(back[1]);
	rc = be_server(back[0], there[1], peers, seconds, services);
	close(there[1]);
	waitpid(child, NULL, 0);
	return rc;
}
