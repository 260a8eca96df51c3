/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random calls of several threads on two contexts, while signals arrive, services are registered
 * anew, contexts are closed, and the process forks. Each call ends in its time, no message arrives
 * twice, and the result of a call shows whether it was executed.
 */
#define _GNU_SOURCE
#include "core/numbers.h"
#include "core/progress/context.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONTEXTS = 2, SERVICES = 3, WORKERS = 5, RUN_MS = 400, NUMBERS = 1 << 18 };

static struct slot {
	/* Shared: a message of the context is used; exclusive: the context will be closed. */
	pthread_rwlock_t use;
	_Atomic(struct ripc *) ctx; /* NULL: there is none */
	_Atomic(struct ripc_service *) services[SERVICES];
} slots[CONTEXTS];

static struct worker {
	uint64_t random;
	_Atomic(const char *) in; /* the call it is in, since then, for so long; NULL: none */
	atomic_ullong since_ms;
	atomic_int timeout_ms;
	pthread_t thread;
} workers[WORKERS + 1]; /* the last one opens and closes */

static const char *options;
static atomic_bool stop;
static atomic_uint next_number, narrived;
static _Atomic uint8_t received[NUMBERS];
static char fault[200]; /* the first one */
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

#define FAULT(...)                                                   \
	do {                                                         \
		pthread_mutex_lock(&fault_lock);                     \
		if (!fault[0])                                       \
			snprintf(fault, sizeof(fault), __VA_ARGS__); \
		pthread_mutex_unlock(&fault_lock);                   \
		stop = true;                                         \
	} while (0)

static void begin(struct worker *w, const char *name, int timeout_ms)
{
	w->timeout_ms = timeout_ms;
	w->since_ms = now_ms();
	w->in = name;
}

static int end(struct worker *w, int rc)
{
	static const int allowed[] = {0,       EAGAIN,    ETIMEDOUT, ESHUTDOWN,   EHOSTUNREACH,
				      EPIPE,   ECANCELED, ETIME,     EINPROGRESS, EADDRINUSE,
				      EALREADY};
	const char *name = w->in;

	w->in = NULL;
	for (unsigned i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (rc == -allowed[i])
			return rc;
	FAULT("%s: %s: %.100s", name, ripc_strerror(rc), ripc_error_detail());
	return rc;
}

#define DO(name, timeout_ms, call) (begin(w, name, timeout_ms), end(w, call))

/* Answers a request and frees the message, unless its context is closed, which frees it. */
static void consume(struct worker *w, unsigned at, struct ripc *ctx, struct ripc_message *m)
{
	struct slot *slot = &slots[at];
	uint32_t number;

	pthread_rwlock_rdlock(&slot->use);
	if (slot->ctx == ctx) {
		memcpy(&number, m->items[0].iov_base, sizeof(number));
		if (number >= NUMBERS || received[number]++)
			FAULT("message %u was received twice", number);
		narrived++;
		if (m->call && test_random(&w->random) % 8)
			DO("reply", 0, ripc_reply(m, m->items, 1, 0));
		ripc_message_free(m);
	}
	pthread_rwlock_unlock(&slot->use);
}

static void call(struct worker *w, unsigned at, struct ripc *ctx, struct ripc_service *s,
		 uint64_t dest, struct iovec *item, uint32_t number, int timeout_ms)
{
	struct ripc_message *reply;
	int rc = DO("call", timeout_ms, ripc_call(s, dest, item, 1, NULL, &reply, timeout_ms));

	if (!rc && !received[number])
		FAULT("call %u has succeeded and was not executed", number);
	if ((rc == -ETIMEDOUT || rc == -EHOSTUNREACH) && received[number])
		FAULT("call %u was executed: %s", number, ripc_strerror(rc));
	if (!reply)
		return;
	pthread_rwlock_rdlock(&slots[at].use);
	if (slots[at].ctx == ctx)
		ripc_message_free(reply);
	pthread_rwlock_unlock(&slots[at].use);
}

static void start_and_end(struct worker *w, struct ripc_service *s, uint64_t dest,
			  struct iovec *item, int timeout_ms)
{
	struct ripc_request *r = NULL;

	if (DO("start", 0, ripc_send_async(s, dest, item, 1, NULL, &r)))
		return;
	while (r && DO("wait", timeout_ms, ripc_request_wait(&r, timeout_ms)) == -ETIMEDOUT)
		if (test_random(&w->random) % 2)
			DO("cancel", timeout_ms, ripc_request_cancel(&r, timeout_ms));
	/* Its memory is the caller's when the context is closed. */
	for (uint64_t pause_end = 0; r && test_pause(&pause_end, PATIENCE_MS / 2);)
		DO("test", 0, ripc_request_test(&r));
}

static void register_anew(struct worker *w, struct ripc *ctx, unsigned at, unsigned k)
{
	struct ripc_service *s = atomic_exchange(&slots[at].services[k], NULL), *fresh;
	int rc;

	if (!s || DO("unregister", 200, ripc_service_unregister(s)))
		return;
	do
		rc = DO("register", 2000,
			ripc_service_register(ctx, ID(at * SERVICES + k), 0, &fresh));
	while (rc && rc != -ESHUTDOWN && !stop);
	if (!rc)
		slots[at].services[k] = fresh;
}

static void *work(void *arg)
{
	static const int timeouts[] = {0, 0, 1, 2, 20};
	struct worker *w = arg;
	uint8_t data[20000] = {0};

	while (!stop) {
		uint64_t random = test_random(&w->random);
		unsigned at = random % CONTEXTS, k = (random >>= 8) % SERVICES;
		struct ripc *ctx = slots[at].ctx;
		struct ripc_service *s = slots[at].services[k];
		uint64_t dest = ID((random >>= 8) % (CONTEXTS * SERVICES));
		int timeout_ms = timeouts[(random >>= 8) % 5], rc;
		uint32_t number = next_number++;
		struct iovec item = {data, sizeof(number) + (random >>= 8) % 400};
		struct ripc_message *m;

		if (!ctx || !s || number >= NUMBERS) {
			sched_yield();
			continue;
		}
		memcpy(data, &number, sizeof(number));
		switch ((random >>= 16) % 16) {
		case 0 ... 3:
			DO("send", timeout_ms, ripc_send(s, dest, &item, 1, NULL, timeout_ms));
			break;
		case 4:
			item.iov_len = sizeof(data);
			start_and_end(w, s, dest, &item, timeout_ms);
			break;
		case 5 ... 6:
			call(w, at, ctx, s, dest, &item, number, timeout_ms);
			break;
		case 7:
			if (random >> 8 & 15)
				break;
			register_anew(w, ctx, at, k);
			break;
		default:
			for (unsigned n = 0; n < 20; n++, timeout_ms = 0) {
				rc = DO("receive", timeout_ms, ripc_receive(s, &m, timeout_ms));
				if (rc)
					break;
				consume(w, at, ctx, m);
			}
		}
	}
	return NULL;
}

static void open_slot(struct worker *w, unsigned at)
{
	struct ripc_service *s;
	struct ripc *ctx;

	if (DO("open", 2000, ripc_open(&ctx, options)))
		return;
	pthread_rwlock_wrlock(&slots[at].use);
	slots[at].ctx = ctx;
	pthread_rwlock_unlock(&slots[at].use);
	for (unsigned k = 0; k < SERVICES; k++)
		if (!DO("register", 2000, ripc_service_register(ctx, ID(at * SERVICES + k), 0, &s)))
			slots[at].services[k] = s;
}

/* Other threads go on calling: their handles stay those of an ended context. */
static void close_slot(struct worker *w, unsigned at)
{
	struct ripc *ctx = slots[at].ctx;

	pthread_rwlock_wrlock(&slots[at].use);
	slots[at].ctx = NULL;
	pthread_rwlock_unlock(&slots[at].use);
	if (ctx)
		DO("close", 2000, ripc_close(ctx));
	for (unsigned k = 0; k < SERVICES; k++)
		slots[at].services[k] = NULL;
}

static void *open_and_close(void *arg)
{
	struct worker *w = arg;

	while (!stop) {
		uint64_t pause_end = 0;
		unsigned ms = 50 + test_random(&w->random) % 100;

		while (!stop && test_pause(&pause_end, ms))
			;
		if (stop)
			break;
		close_slot(w, ms % CONTEXTS);
		open_slot(w, ms % CONTEXTS);
	}
	return NULL;
}

static void check_calls(void)
{
	for (unsigned i = 0; i <= WORKERS; i++) {
		const struct worker *w = &workers[i];
		const char *in = w->in;
		unsigned long long since = w->since_ms, took = now_ms() - since;
		struct ripc__progress_state s = {0};

		if (!in || took < (unsigned)w->timeout_ms + PATIENCE_MS / 2 || in != w->in ||
		    since != w->since_ms)
			continue;
		for (unsigned k = 0; k < CONTEXTS; k++) {
			struct ripc *ctx = slots[k].ctx;

			if (ctx)
				s = ripc__progress_state(&ctx->progress);
			fprintf(stderr, "context %u: %s, leader %u, thread %u, waiting %u\n", k,
				ctx ? "open" : "closed", s.leader, s.thread,
				ctx ? ctx->waiting : 0);
		}
		ck_abort_msg("thread %u is in %s for %llu ms, of %d", i, in, took, w->timeout_ms);
	}
}

static void interrupted(int number)
{
	(void)number;
}

static void fork_once(void)
{
	struct ripc_message *m;
	int status, rc;
	pid_t pid = fork();

	if (!pid) {
		struct ripc_service *s = slots[0].services[0];

		rc = s ? ripc_receive(s, &m, -1) : -EOWNERDEAD;
		_exit(rc == -EOWNERDEAD || rc == -ESHUTDOWN ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static const char *const configurations[] = {"transports=shm", "transports=iwarp/soft wait=block",
					     "transports=shm,iwarp/soft wait=poll"};

START_TEST(threads__random_calls)
{
	struct sigaction action = {.sa_handler = interrupted};
	uint64_t random = test_seed(), until;

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	options = configurations[_i];
	for (unsigned i = 0; i <= WORKERS; i++)
		workers[i].random = test_random(&random);
	for (unsigned i = 0; i < CONTEXTS; i++) {
		pthread_rwlock_init(&slots[i].use, NULL);
		open_slot(&workers[WORKERS], i);
	}
	for (unsigned i = 0; i <= WORKERS; i++)
		pthread_create(&workers[i].thread, NULL, i < WORKERS ? work : open_and_close,
			       &workers[i]);
	until = now_ms() + RUN_MS;
	/* A busy machine takes longer for the first message. */
	for (uint64_t pause_end = 0; !stop && (now_ms() < until || !narrived);) {
		ck_assert(test_pause(&pause_end, PATIENCE_MS));
		check_calls();
		if (!(test_random(&random) % 4))
			pthread_kill(workers[test_random(&random) % WORKERS].thread, SIGUSR1);
		if (!(test_random(&random) % 20))
			fork_once();
	}
	stop = true;
	for (unsigned i = 0; i <= WORKERS; i++)
		AWAIT((check_calls(), !pthread_tryjoin_np(workers[i].thread, NULL)));
	for (unsigned i = 0; i < CONTEXTS; i++)
		close_slot(&workers[WORKERS], i);
	ck_assert_msg(!fault[0], "%s", fault);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/threads");
	TCase *tc = tcase_create("threads");

	test_seed();
	tcase_add_checked_fixture(tc, numbers_setup, NULL);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, threads__random_calls, 0, 3);
	suite_add_tcase(suite, tc);
	return test_main("core/context/threads", suite);
}
