/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registration where the kernel of this host already has the name: what the call does while it
 * waits.
 */
#define _GNU_SOURCE
#include "core/progress/context.h"
#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct ripc *ctx;
static unsigned polls;

static void *other_thread(void *arg)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_context_stats(ctx, &stats), 0);
	return NULL;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

/*
 * The call waits for the holder here: another thread is in the same context meanwhile, and leaves
 * it.
 */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	pthread_t thread;

	(void)fds;
	(void)n;
	ck_assert_int_le(timeout_ms, 500);
	polls++;
	ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return 0;
}

START_TEST(register__unlocked_holder_query)
{
	uint64_t id = test_ids();
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int len = snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "ripc/svc/%016llx",
			   (unsigned long long)id);
	struct ripc_service *s;
	int rc;

	/* A holder that never answers. */
	rc = bind(fd, (struct sockaddr *)&sun,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len));
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(ripc_open(&ctx, "resolver=local interfaces=lo"), 0);
	ck_assert_int_eq(ripc_service_register(ctx, id, 0, &s), -EADDRINUSE);
	ck_assert_uint_eq(polls, 1);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "held by another process of this host"));
	close(fd);
	ck_assert_int_eq(ripc_service_register(ctx, id, 0, &s), 0);
	/* Of a service of its own nobody needs to be asked. */
	ck_assert_int_eq(ripc_service_register(ctx, id, 0, &s), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "this context itself"));
	ck_assert_uint_eq(polls, 1);
	ck_assert_int_eq(ripc_close(ctx), 0);
}
END_TEST

/* ---- a context that is closed meanwhile, in virtual time ---- */

static uint64_t now_ns = 1000 * RIPC__MS;
static unsigned idle_calls;

static uint64_t now(void *arg)
{
	(void)arg;
	return now_ns;
}

static uint64_t random_number(void *arg)
{
	static uint64_t rng;

	(void)arg;
	return test_random(&rng);
}

/* Another thread closes the context in the first pause of the call. */
static void close_in_pause(void *arg, uint64_t deadline_ns)
{
	(void)arg;
	now_ns += 10 * RIPC__MS;
	if (now_ns > deadline_ns)
		now_ns = deadline_ns;
	ripc__lock(ctx);
	ctx->closing = true;
	ripc__unlock(ctx);
	ripc__poll(ctx);
	idle_calls++;
}

START_TEST(register__closed_meanwhile)
{
	static const struct ripc__hooks hooks = {now, close_in_pause, random_number, NULL};
	struct ripc_service *s;

	ck_assert_int_eq(ripc__open_hooked(&ctx,
					   "transports=iwarp/soft resolver=udp interfaces=lo "
					   "resolve_timeout_ms=5000",
					   &hooks),
			 0);
	ck_assert_int_eq(ripc_service_register(ctx, test_ids(), 0, &s), -ESHUTDOWN);
	ck_assert_uint_eq(idle_calls, 1);
	ctx->closing = false;
	ck_assert_int_eq(ripc_close(ctx), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/register");
	TCase *tc = tcase_create("register");

	tcase_add_test(tc, register__unlocked_holder_query);
	tcase_add_test(tc, register__closed_meanwhile);
	suite_add_tcase(suite, tc);
	return test_main("core/message/register", suite);
}
