/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that a server allocates per idle client. The clients are contexts of a child process; each
 * makes one call and is idle from then on. When the server has folded all destinations, the bytes
 * that malloc() has given out are counted.
 */
#define _GNU_SOURCE
#include "harness.h"
#include "core/rig.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 200
#define FIRST   20 /* clients before the first measurement: tables of the context have their size */

/* Of both processes. */
static struct shared {
	uint64_t id;
	unsigned wanted, connected; /* clients */
	int error;
} * shared;

static pid_t child;

static int client_call(const char *options)
{
	struct iovec item = {(char[64]){0}, 64};
	struct ripc_service *service;
	struct ripc_message *m;
	struct ripc *ctx;
	int err = ripc_open(&ctx, options);

	if (!err)
		err = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (!err)
		err = ripc_call(service, shared->id, &item, 1, NULL, &m, TEST_PATIENCE_MS);
	if (!err)
		ripc_message_free(m);
	return err;
}

static void be_clients(const char *options)
{
	unsigned n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;; usleep(1000))
		while (n < __atomic_load_n(&shared->wanted, __ATOMIC_ACQUIRE)) {
			int err = client_call(options);

			if (err) {
				__atomic_store_n(&shared->error, err, __ATOMIC_RELEASE);
				_exit(1);
			}
			__atomic_store_n(&shared->connected, ++n, __ATOMIC_RELEASE);
		}
}

static void setup(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void teardown(void)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = 0;
	munmap(shared, sizeof(*shared));
}

/* Answers the calls of so many clients. */
static void serve(struct ripc_service *service, unsigned clients)
{
	struct ripc_message *m;

	__atomic_store_n(&shared->wanted, clients, __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared->connected, __ATOMIC_ACQUIRE) < clients) {
		int err = ripc_receive(service, &m, 5);

		ck_assert_int_eq(__atomic_load_n(&shared->error, __ATOMIC_ACQUIRE), 0);
		if (err == -ETIMEDOUT)
			continue;
		ck_assert_int_eq(err, 0);
		OK(ripc_reply(m, m->items, m->nitems, 0));
		ripc_message_free(m);
	}
}

/* Whether all clients are idle for the server, which has freed what they do not need. */
static bool all_idle(struct ripc *ctx)
{
	bool idle;

	ripc__lock(ctx);
	idle = !ctx->dests && ctx->next_trim_ns == RIPC__NEVER;
	ripc__unlock(ctx);
	return idle;
}

/*
 * Without the memory that the context keeps for copies of reliable messages: how many it has sent
 * at the same time depends on the scheduler, not on its clients.
 */
static size_t allocated(struct ripc *ctx)
{
	struct mallinfo2 info = mallinfo2();
	size_t bytes = info.uordblks + info.hblkhd;

	ripc__lock(ctx);
	for (unsigned i = 0; i < RIPC__RELIABLE_FREE_LISTS; i++) {
		const struct ripc__reliable_free *list = &ctx->reliable_free[i];

		if (list->count)
			bytes -= list->count * (malloc_usable_size(list->first) + sizeof(size_t));
	}
	ripc__unlock(ctx);
	return bytes;
}

static void check(const char *transport, unsigned limit)
{
	char options[64];
	struct ripc_service *service;
	struct ripc *ctx;
	size_t before, per_client;

#ifdef __SANITIZE_ADDRESS__
	test_skip("the allocator of AddressSanitizer reports no totals");
	return;
#endif
	snprintf(options, sizeof(options), "transports=%s wait=block", transport);
	/* Before the library is used: a context does not survive fork(). */
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		be_clients(options);
	OK(ripc_open(&ctx, options));
	OK(ripc_service_register(ctx, RIPC_ANY_ID, 0, &service));
	shared->id = ripc_service_id(service);
	serve(service, FIRST);
	AWAIT(all_idle(ctx));
	before = allocated(ctx);
	serve(service, CLIENTS);
	AWAIT(all_idle(ctx));
	per_client = (allocated(ctx) - before) / (CLIENTS - FIRST);
	printf("%s: %zu bytes per idle client\n", transport, per_client);
	ck_assert_uint_le(per_client, limit);
	ripc_close(ctx);
}

START_TEST(shm__bytes_per_client)
{
	check("shm", 1024);
}
END_TEST

START_TEST(soft__bytes_per_client)
{
	check("iwarp/soft", 1024);
}
END_TEST

/* Restarts the program without the caches of threads, whose blocks count as allocated. */
static void disable_caches(char **argv)
{
	if (getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create("core/peer/idle_memory");
	TCase *tc = tcase_create("idle_memory");

	(void)argc;
	disable_caches(argv);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, shm__bytes_per_client);
	tcase_add_test(tc, soft__bytes_per_client);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/idle_memory", suite);
}
