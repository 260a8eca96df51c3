/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of a server per idle client. CLIENTS contexts of one child process connect to a service,
 * make one call each, and stay idle for IDLE_MS. Printed per client, as one line of JSON:
 *
 *   malloc    bytes allocated with malloc(), without those freed that it keeps for each thread
 *   private   resident bytes that only the server has, written to
 *   shared    resident bytes that it shares with the clients, written to
 *   mapped    bytes of address space
 *
 * Memory of the first client is not counted. Settings come from the environment (RIPC_TRANSPORTS).
 *
 * usage: memory CLIENTS [IDLE_MS]
 */
#define _GNU_SOURCE
#include <ripc.h>

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 4096
#define SIZE        64 /* bytes of a request and its answer */
#define TIMEOUT_MS  60000

/* Mapped by both processes. */
static struct shared {
	uint64_t id;
	unsigned wanted, connected; /* clients */
	bool failed;
} * shared;

struct usage {
	double heap, private, shared, mapped;
};

static int fail(int err, const char *what)
{
	fprintf(stderr, "memory: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static void sleep_ms(unsigned ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

/* ---- the clients ---- */

static int connect_one(void)
{
	char request[SIZE] = {0};
	struct iovec item = {request, sizeof(request)};
	struct ripc_service *service;
	struct ripc_message *m;
	struct ripc *ctx;
	int err = ripc_open(&ctx, "wait=block");

	if (!err)
		err = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (!err)
		err = ripc_call(service, shared->id, &item, 1, NULL, &m, TIMEOUT_MS);
	if (!err)
		ripc_message_free(m);
	return err;
}

static void be_clients(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned n = 0;; sleep_ms(1))
		while (n < __atomic_load_n(&shared->wanted, __ATOMIC_ACQUIRE)) {
			int err = connect_one();

			if (err) {
				fail(err, "client");
				__atomic_store_n(&shared->failed, true, __ATOMIC_RELEASE);
				_exit(1);
			}
			__atomic_store_n(&shared->connected, ++n, __ATOMIC_RELEASE);
		}
}

/* ---- the server ---- */

static double kib_of(const char *text, const char *field)
{
	const char *at = strstr(text, field);

	return at ? strtod(at + strlen(field), NULL) : 0;
}

static void read_file(const char *path, char *text, size_t cap)
{
	FILE *file = fopen(path, "re");

	text[file ? fread(text, 1, cap - 1, file) : 0] = 0;
	if (file)
		fclose(file);
}

static struct usage usage(void)
{
	struct mallinfo2 info = mallinfo2();
	struct usage u = {.heap = (double)(info.uordblks + info.hblkhd)};
	char text[4096];

	read_file("/proc/self/smaps_rollup", text, sizeof(text));
	/* Clean pages are those of programs, which other processes may share or not. */
	u.private = 1024 * kib_of(text, "\nPrivate_Dirty:");
	u.shared = 1024 * kib_of(text, "\nShared_Dirty:");
	read_file("/proc/self/status", text, sizeof(text));
	u.mapped = 1024 * kib_of(text, "\nVmSize:");
	return u;
}

/* Answers until so many clients have their answer, and leaves them idle. Return: 0 or an errno. */
static int serve(struct ripc_service *service, unsigned clients, unsigned idle_ms)
{
	struct ripc_message *m;
	int err = 0;

	__atomic_store_n(&shared->wanted, clients, __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared->connected, __ATOMIC_ACQUIRE) < clients) {
		if (__atomic_load_n(&shared->failed, __ATOMIC_ACQUIRE))
			return -EPIPE;
		err = ripc_receive(service, &m, 5);
		if (err == -ETIMEDOUT || err == -EAGAIN)
			continue;
		if (!err)
			err = ripc_reply(m, m->items, m->nitems, 0);
		if (err)
			return err;
		ripc_message_free(m);
	}
	err = ripc_receive(service, &m, (int)idle_ms);
	return err == -ETIMEDOUT ? 0 : err ? err : -EPROTO;
}

static int be_server(unsigned clients, unsigned idle_ms)
{
	struct usage before = {0}, after = {0};
	struct ripc_service *service;
	int err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);

	if (err)
		return fail(err, "register");
	shared->id = ripc_service_id(service);
	err = serve(service, 1, idle_ms);
	before = usage();
	if (!err)
		err = serve(service, clients + 1, idle_ms);
	after = usage();
	if (err)
		return fail(err, "server");
	printf("{\"clients\":%u,\"malloc\":%.0f,\"private\":%.0f,\"shared\":%.0f,\"mapped\":%.0f}"
	       "\n",
	       clients, (after.heap - before.heap) / clients,
	       (after.private - before.private) / clients, (after.shared - before.shared) / clients,
	       (after.mapped - before.mapped) / clients);
	return 0;
}

/*
 * mallinfo2() counts the freed blocks that malloc() keeps for each thread as allocated. So the
 * program starts again without such blocks.
 */
static void without_thread_caches(char **argv)
{
	if (getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
	execv("/proc/self/exe", argv);
	perror("memory: exec");
}

int main(int argc, char **argv)
{
	int clients = argc > 1 ? atoi(argv[1]) : 0, idle_ms = argc > 2 ? atoi(argv[2]) : 3000, rc;
	pid_t pid;

	if (argc > 3 || clients < 1 || clients >= CLIENTS_MAX || idle_ms < 1 || idle_ms > 60000) {
		fprintf(stderr, "usage: memory CLIENTS [IDLE_MS]\n");
		return 2;
	}
	without_thread_caches(argv);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("memory");
		return 1;
	}
	/* Before the library is used: a context does not survive fork(). */
	pid = fork();
	if (pid < 0) {
		perror("memory: fork");
		return 1;
	}
	if (!pid)
		be_clients();
	rc = be_server((unsigned)clients, (unsigned)idle_ms);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return rc;
}
