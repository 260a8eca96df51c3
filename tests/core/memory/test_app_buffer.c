/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pages of buffers that are touched or copied: other threads go on meanwhile, and nobody closes the
 * context beneath it.
 */
#include "lock_gate.h"
#include "core/rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

static struct rig rig;
static struct ripc *ctx;

/* Meanwhile, in another thread. */
static bool other_thread_call(void *arg)
{
	void *p = ripc_buf_alloc(ctx, 100);

	ripc_buf_free(ctx, p);
	return p;
}

START_TEST(buf_alloc__prefaults_unlocked)
{
	uint8_t *p = ripc_buf_alloc(ctx, 600 << 10), *q;

	OK(ripc_buf_free(ctx, p));
	gate_shut(p + (700 << 10), other_thread_call, NULL);
	q = ripc_buf_alloc(ctx, MIB);
	ck_assert(gate_open());
	ck_assert_ptr_eq(p, q);
	rig_fill(q, MIB, 3);
	OK(ripc_buf_free(ctx, q));
	rig_check_memory(ctx);
}
END_TEST

START_TEST(buf_realloc__prefaults_unlocked)
{
	uint8_t *p = ripc_buf_alloc(ctx, 600 << 10);

	rig_fill(p, 600 << 10, 4);
	gate_shut(p + (700 << 10), other_thread_call, NULL);
	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, MIB), p);
	ck_assert(gate_open());
	rig_verify(p, 600 << 10, 4);
	OK(ripc_buf_free(ctx, p));
	rig_check_memory(ctx);
}
END_TEST

START_TEST(buf_realloc__copies_unlocked)
{
	uint8_t *p = ripc_buf_alloc(ctx, MIB), *q;

	rig_fill(p, MIB, 5);
	gate_shut(p + (512 << 10), other_thread_call, NULL);
	q = ripc_buf_realloc(ctx, p, 4 * MIB);
	ck_assert(gate_open());
	ck_assert_ptr_nonnull(q);
	ck_assert_ptr_ne(p, q);
	rig_verify(q, MIB, 5);
	OK(ripc_buf_free(ctx, q));
	rig_check_memory(ctx);
}
END_TEST

static struct {
	uint8_t *page;
	_Atomic(struct ripc *) ctx;
	atomic_bool closing, closed, overtaken;
} last;

/* The context is being closed meanwhile: a moment later that is still not done. */
static void block_until_close(int sig, siginfo_t *info, void *context)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	if ((uint8_t *)info->si_addr < last.page ||
	    (uint8_t *)info->si_addr >= last.page + GATE_BYTES) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	last.closing = true;
	for (unsigned i = 0; i < 100; i++)
		nanosleep(&ms, NULL);
	last.overtaken = last.closed;
	mprotect(last.page, GATE_BYTES, PROT_READ | PROT_WRITE);
}

static void *prefault_main(void *arg)
{
	return ripc_buf_alloc(last.ctx, MIB);
}

START_TEST(close__waits_for_prefault)
{
	struct sigaction action = {.sa_sigaction = block_until_close, .sa_flags = SA_SIGINFO};
	struct ripc *own;
	pthread_t thread;
	uint8_t *p;

	memset(&last, 0, sizeof(last));
	OK(ripc_open(&own, "transports=iwarp/soft resolver=local"));
	p = ripc_buf_alloc(own, 600 << 10);
	ck_assert_ptr_nonnull(p);
	OK(ripc_buf_free(own, p));
	last.ctx = own;
	last.page = p + (700 << 10);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
	ck_assert_int_eq(mprotect(last.page, GATE_BYTES, PROT_NONE), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, prefault_main, NULL), 0);
	AWAIT(last.closing);
	OK(ripc_close(own));
	last.closed = true;
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!last.overtaken);
	signal(SIGSEGV, SIG_DFL);
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/app_buffer");
	TCase *tc = tcase_create("touch");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, buf_alloc__prefaults_unlocked);
	tcase_add_test(tc, buf_realloc__prefaults_unlocked);
	tcase_add_test(tc, buf_realloc__copies_unlocked);
	tcase_add_test(tc, close__waits_for_prefault);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/app_buffer", suite);
}
