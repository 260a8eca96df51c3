/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that hops between contexts, and a client that notices nothing but a short pause. Real
 * transports, on the loopback.
 */
#define _GNU_SOURCE
#include "harness.h"

#include "base/clock.h"
#include "ripc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES_MAX 1000000

static uint64_t service;
static unsigned port;
/* how often each message was received, by whichever holder */
static atomic_uint seen[MESSAGES_MAX];
static atomic_uint received;
static atomic_bool stop; /* the client sends no more */
static atomic_bool over; /* nor has it anything under way: holders may go */

static void setup(void)
{
	uint64_t rng = test_seed() + (uint64_t)getpid();

	service = test_random(&rng) >> 1 | 1;
	port = (unsigned)(20000 + test_random(&rng) % 12000);
}

static struct ripc *open_ctx(const char *options)
{
	char text[512];
	struct ripc *ctx = NULL;

	snprintf(text, sizeof(text), "interfaces=lo port=%u %s", port, options);
	ck_assert_msg(!ripc_open(&ctx, text), "%s", ripc_error_detail());
	return ctx;
}

/* For who must lose nothing: a peer that gets no processor for a while has not died. */
static struct ripc *open_long_timeout(const char *options)
{
	char text[400];

	snprintf(text, sizeof(text), "%s peer_timeout_ms=20000", options);
	return open_ctx(text);
}

/* One holder of the service: receives until the service has moved or the test ends. */
struct residence {
	pthread_t thread;
	struct ripc_service *s;
	int end; /* result of the last receive */
	atomic_bool done;
};

static void *serve(void *arg)
{
	struct residence *residence = arg;
	struct ripc_message *m;
	uint32_t number;

	for (;;) {
		residence->end = ripc_receive(residence->s, &m, 200);
		if (residence->end == -ETIMEDOUT && !over)
			continue;
		if (residence->end) {
			residence->done = true;
			return NULL;
		}
		memcpy(&number, m->items[0].iov_base, sizeof(number));
		if (number < MESSAGES_MAX)
			seen[number]++;
		received++;
		ripc_message_free(m);
	}
}

static void begin(struct residence *residence, struct ripc *ctx, unsigned flags)
{
	int rc = ripc_service_register(ctx, service, flags, &residence->s);

	ck_assert_msg(!rc, "%d: %s", rc, ripc_error_detail());
	residence->done = false;
	ck_assert_int_eq(pthread_create(&residence->thread, NULL, serve, residence), 0);
}

static void end(struct residence *residence)
{
	ck_assert_int_eq(pthread_join(residence->thread, NULL), 0);
	ck_assert_int_eq(ripc_service_unregister(residence->s), 0);
}

/*
 * Takes the service over. A context that registers while an ensemble is unreachable, as on a busy
 * machine, holds the service until the ensemble disagrees: the newcomer then gets a conflict and
 * retries.
 */
static void take_over(struct residence *next, struct ripc *ctx, struct residence *former)
{
	for (unsigned tries = 0; tries < 10; tries++) {
		begin(next, ctx, RIPC_TAKEOVER);
		for (uint64_t limit = 0; !former->done && !next->done && test_pause(&limit, 60000);)
			;
		if (former->done)
			break;
		ck_assert_msg(next->done, "neither of two holders is notified");
		end(next);
	}
	end(former);
	ck_assert_int_eq(former->end, -ESHUTDOWN);
}

struct client {
	pthread_t thread;
	struct ripc *ctx;
	atomic_uint sent;
	uint64_t pause_ns; /* the longest that one took, or between two */
	char failure[256];
	atomic_bool gave_up;
};

static void *stream(void *arg)
{
	struct client *c = arg;
	static _Thread_local uint8_t bytes[20000];
	struct ripc_service *from;

	if (ripc_service_register(c->ctx, RIPC_ANY_ID, 0, &from))
		return NULL;
	while (!stop && c->sent < MESSAGES_MAX) {
		uint32_t number = c->sent;
		struct iovec item = {bytes, 4 + number % 2 * (sizeof(bytes) - 4)};
		uint64_t start = ripc__clock_ns(), took;
		int rc;

		memcpy(bytes, &number, sizeof(number));
		rc = ripc_send_long(from, service, &item, 1, NULL, 20000);
		took = ripc__clock_ns() - start;
		c->pause_ns = took > c->pause_ns ? took : c->pause_ns;
		if (rc) {
			snprintf(c->failure, sizeof(c->failure), "message %u: %d: %s", number, rc,
				 ripc_error_detail());
			c->gave_up = true;
			break;
		}
		c->sent++;
		/* So that it does not run out of numbers while hops are slow. */
		usleep(100);
	}
	ripc_service_unregister(from);
	return NULL;
}

/* Until *count is n more. */
static void wait_more(const atomic_uint *count, unsigned n)
{
	unsigned before = *count;

	AWAIT(*count - before >= n);
}

static void check_each_once(const struct client *c)
{
	ck_assert_msg(!c->failure[0], "%s", c->failure);
	ck_assert_uint_gt(c->sent, 0);
	for (unsigned i = 0; i < c->sent; i++)
		ck_assert_msg(seen[i] == 1, "message %u of %u was received %u times", i, c->sent,
			      seen[i]);
	ck_assert_uint_eq(received, c->sent);
	printf("%u messages, the longest took %llu ms\n", c->sent,
	       (unsigned long long)(c->pause_ns / RIPC__MS));
}

/* RIPC_TEST_CHAIN has another one tried instead, by test_zookeeper.sh. */
static const char *chain(int i)
{
	static const char *const chains[] = {
		"resolver=local,udp",
		"resolver=local",
		"resolver=udp",
	};
	const char *given = getenv("RIPC_TEST_CHAIN");

	return given ? given : chains[i];
}

START_TEST(takeover__exactly_once)
{
	enum { HOPS = 10 };
	struct ripc *host[2] = {open_long_timeout(chain(_i)), open_long_timeout(chain(_i))};
	struct client c = {.ctx = open_long_timeout(chain(_i))};
	struct residence stays[HOPS];

	begin(&stays[0], host[0], 0);
	ck_assert_int_eq(pthread_create(&c.thread, NULL, stream, &c), 0);
	for (unsigned i = 1; i < HOPS; i++) {
		unsigned before = received;

		/* Each holder gets something to do. */
		AWAIT(received >= before + 5 || c.gave_up);
		if (c.gave_up)
			ck_abort_msg("%s", c.failure);
		take_over(&stays[i], host[i % 2], &stays[i - 1]);
	}
	wait_more(&c.sent, 1);
	stop = true;
	ck_assert_int_eq(pthread_join(c.thread, NULL), 0);
	over = true;
	end(&stays[HOPS - 1]);
	check_each_once(&c);
	ripc_close(c.ctx);
	ripc_close(host[0]);
	ripc_close(host[1]);
}
END_TEST

START_TEST(takeover__without_holder)
{
	struct ripc *a = open_ctx(chain(_i)), *b = open_ctx(chain(_i));
	struct ripc_service *s, *other;

	ck_assert_int_eq(ripc_service_register(a, service, RIPC_TAKEOVER, &s), 0);
	ck_assert_int_eq(ripc_service_register(a, service, RIPC_TAKEOVER, &other), -EADDRINUSE);
	/*
	 * Without the option no context takes a service over. This is certain only where the kernel
	 * decides, not where the first answer in time decides.
	 */
	if (!strstr(chain(_i), "=udp"))
		ck_assert_int_eq(ripc_service_register(b, service, 0, &other), -EADDRINUSE);
	ck_assert_int_eq(ripc_service_register(b, service, 1 << 7, &other), -EOPNOTSUPP);
	ripc_close(a);
	ripc_close(b);
}
END_TEST

START_TEST(takeover__former_holder_notified)
{
	struct ripc *a = open_ctx(chain(_i)), *b = open_ctx(chain(_i));
	struct ripc_service *s, *t;
	struct ripc_message *m;

	ck_assert_int_eq(ripc_service_register(a, service, 0, &s), 0);
	ck_assert_msg(!ripc_service_register(b, service, RIPC_TAKEOVER, &t), "%s",
		      ripc_error_detail());
	ck_assert_int_eq(ripc_receive(s, &m, 10000), -ESHUTDOWN);
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "taken over"));
	ck_assert_int_eq(ripc_service_unregister(s), 0);
	/* And back again. */
	ck_assert_msg(!ripc_service_register(a, service, RIPC_TAKEOVER, &s), "%s",
		      ripc_error_detail());
	ck_assert_int_eq(ripc_receive(t, &m, 10000), -ESHUTDOWN);
	ripc_close(a);
	ripc_close(b);
}
END_TEST

/* Holds the service in a process of its own. */
static pid_t holder_process(int i)
{
	struct ripc_service *s;
	struct ripc_message *m;
	struct ripc *ctx;
	int ready[2];
	char byte = 0;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		ctx = open_ctx(chain(i));
		if (ripc_service_register(ctx, service, 0, &s) || write(ready[1], &byte, 1) != 1)
			_exit(1);
		while (!ripc_receive(s, &m, 60000))
			ripc_message_free(m);
		_exit(1);
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

/* Sends until it is stopped; repeats failed messages. */
static void *ignores_revoke(void *arg)
{
	struct client *c = arg;
	uint64_t last = ripc__clock_ns();
	struct ripc_service *from;
	uint32_t number = 0;
	struct iovec item = {&number, sizeof(number)};

	if (ripc_service_register(c->ctx, RIPC_ANY_ID, 0, &from))
		return NULL;
	while (!stop) {
		uint64_t now;

		if (ripc_send_long(from, service, &item, 1, NULL, 20000)) {
			usleep(1000);
			continue;
		}
		now = ripc__clock_ns();
		if (c->sent++ && now - last > c->pause_ns)
			c->pause_ns = now - last;
		last = now;
		usleep(100);
	}
	ripc_service_unregister(from);
	return NULL;
}

START_TEST(crash__next_holder_resolved)
{
	pid_t pid = holder_process(_i);
	struct ripc *host = open_ctx(chain(_i));
	struct client c = {.ctx = open_ctx(chain(_i))};
	struct residence residence = {.done = true};
	bool held = false;
	int rc;

	ck_assert_int_eq(pthread_create(&c.thread, NULL, ignores_revoke, &c), 0);
	wait_more(&c.sent, 10);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	/*
	 * As in take_over(): while the ensemble is away the dead one is not known to have held it.
	 */
	for (uint64_t limit = 0; !held && test_pause(&limit, 60000);) {
		rc = ripc_service_register(host, service, 0, &residence.s);
		ck_assert_msg(!rc || rc == -EADDRINUSE, "%d: %s", rc, ripc_error_detail());
		if (!rc) {
			residence.done = false;
			ck_assert_int_eq(pthread_create(&residence.thread, NULL, serve, &residence),
					 0);
			AWAIT(received >= 10 || residence.done);
			held = !residence.done;
			if (!held)
				end(&residence);
		}
	}
	ck_assert(held);
	ck_assert_uint_ge(received, 10);
	stop = true;
	ck_assert_int_eq(pthread_join(c.thread, NULL), 0);
	over = true;
	end(&residence);
	/* Nobody waited in vain, until the time of a send was over. */
	ck_assert_uint_lt(c.pause_ns / RIPC__MS, 15000);
	printf("after a crash nothing was received for %llu ms\n",
	       (unsigned long long)(c.pause_ns / RIPC__MS));
	ripc_close(c.ctx);
	ripc_close(host);
}
END_TEST

/*
 * All that is left of the holder is an address at which nobody listens: that is known at once, and
 * not in peer_timeout_ms.
 */
START_TEST(crash__refusal_drops_record)
{
	pid_t pid = holder_process(_i);
	static uint8_t bytes[20000];
	struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_request *request;
	struct ripc_service *from;
	struct ripc *ctx;
	char text[200];
	int rc;

	snprintf(text, sizeof(text), "%s transports=iwarp/soft peer_timeout_ms=600000", chain(_i));
	ctx = open_ctx(text);
	ck_assert_int_eq(ripc_service_register(ctx, RIPC_ANY_ID, 0, &from), 0);
	ck_assert_msg(!ripc_send_long(from, service, &item, 1, NULL, 20000), "%s",
		      ripc_error_detail());
	/*
	 * So that it answers nothing any more: kill() is back before all its threads stand still.
	 */
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(pid, NULL, WUNTRACED), pid);
	ck_assert_msg(!ripc_send_async(from, service, &item, 1, NULL, &request), "%s",
		      ripc_error_detail());
	ck_assert_int_eq(ripc_request_wait(&request, 20), -ETIMEDOUT);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	rc = ripc_request_wait(&request, 60000);
	ck_assert_msg(rc == -EPIPE, "%d: %s", rc, ripc_error_detail());
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "refused"));
	ripc_close(ctx);
}
END_TEST

/* Given up here, then registered there: the client waits in between. */
START_TEST(unregister__peer_finds_next)
{
	struct ripc *host[2] = {open_ctx(chain(_i)), open_ctx(chain(_i))};
	struct client c = {.ctx = open_ctx(chain(_i))};
	struct ripc_service *from;
	struct iovec item = {(void *)"hello", 6};

	ck_assert_int_eq(ripc_service_register(c.ctx, RIPC_ANY_ID, 0, &from), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct ripc_service *s;
		struct ripc_message *m;

		ck_assert_msg(!ripc_service_register(host[i % 2], service, 0, &s), "%s",
			      ripc_error_detail());
		ck_assert_msg(!ripc_send_long(from, service, &item, 1, NULL, 10000), "%s",
			      ripc_error_detail());
		ck_assert_int_eq(ripc_receive(s, &m, 10000), 0);
		ripc_message_free(m);
		ck_assert_int_eq(ripc_service_unregister(s), 0);
	}
	ripc_close(c.ctx);
	ripc_close(host[0]);
	ripc_close(host[1]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/move");
	TCase *tc = tcase_create("move");
	int n = getenv("RIPC_TEST_CHAIN") ? 1 : 3;

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, takeover__without_holder, 0, n);
	tcase_add_loop_test(tc, takeover__former_holder_notified, 0, n);
	tcase_add_loop_test(tc, takeover__exactly_once, 0, n);
	tcase_add_loop_test(tc, crash__next_holder_resolved, 0, n);
	tcase_add_loop_test(tc, crash__refusal_drops_record, 0, n);
	tcase_add_loop_test(tc, unregister__peer_finds_next, 0, n);
	suite_add_tcase(suite, tc);
	return test_main("resolver/move", suite);
}
