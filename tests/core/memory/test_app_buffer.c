/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Buffers of the application. While pages are touched or copied other threads go on, and nobody
 * closes the context beneath it. Memory of messages that were not received yet stays.
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

/* A long message from context 1 that lies at base, which ctx has set aside, is queued at ctx. */
static void queue_message_at(void *base, bool window)
{
	if (window)
		OK(ripc_window_add(ctx, NULL, base, 3000));
	else
		rig_send_return_buffer(&rig, 0, 1, base, 3000);
	OK(rig_long(&rig, 1, 0, 3000, 6, 5000));
}

/* Memory that a message took stays until the application has received the message. */
START_TEST(buf_free__busy_until_received)
{
	for (unsigned window = 0; window < 2; window++) {
		uint8_t *p = ripc_buf_alloc(ctx, 64 * KIB);

		queue_message_at(p + 100, window);
		RC(-EBUSY, ripc_buf_free(ctx, p));
		ck_assert_ptr_null(ripc_buf_realloc(ctx, p, MIB));
		ck_assert_int_eq(errno, EBUSY);
		ck_assert_int_eq(rig_expect(&rig, 0, 3000, 6),
				 window ? RIPC_IN_WINDOW : RIPC_IN_RETURN_BUFFER);
		OK(ripc_buf_free(ctx, p));
		rig_check_memory(ctx);
	}
}
END_TEST

/* With its service goes the message. */
START_TEST(buf_free__after_unregister)
{
	uint8_t *p = ripc_buf_alloc(ctx, 64 * KIB);

	queue_message_at(p, false);
	OK(ripc_service_unregister(rig.s[0]));
	OK(ripc_buf_free(ctx, p));
	OK(ripc_service_register(ctx, RIG_ID(0), 0, &rig.s[0]));
	rig_check_memory(ctx);
}
END_TEST

START_TEST(buf_unregister__busy_until_received)
{
	static uint8_t memory[4096];

	OK(ripc_buf_register(ctx, memory, sizeof(memory)));
	queue_message_at(memory, true);
	RC(-EBUSY, ripc_buf_unregister(ctx, memory));
	ck_assert_int_eq(rig_expect(&rig, 0, 3000, 6), RIPC_IN_WINDOW);
	OK(ripc_buf_unregister(ctx, memory));
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

START_TEST(buf_alloc__no_bytes)
{
	errno = 0;
	ck_assert_ptr_null(ripc_buf_alloc(ctx, 0));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert(ripc_error_detail()[0]);
}
END_TEST

START_TEST(buf_free__interior_and_null)
{
	uint8_t *p = ripc_buf_alloc(ctx, 1000);

	OK(ripc_buf_free(ctx, NULL));
	OK(ripc_buf_free(ctx, p + 999));
	RC(-EINVAL, ripc_buf_free(ctx, p));
	ck_assert(strstr(ripc_error_detail(), "freed before") != NULL);
}
END_TEST

/* A buffer of 1000 bytes takes 1024: the bytes behind the 1000th are not in it, for any call. */
START_TEST(buf_free__beyond_length)
{
	uint8_t *p = ripc_buf_alloc(ctx, 1000);

	ck_assert_ptr_null(ripc__memory_find(ctx, p + 1000, 0));
	ck_assert_ptr_null(ripc__memory_find(ctx, p, 1001));
	RC(-EINVAL, ripc_buf_free(ctx, p + 1000));
	ck_assert(strstr(ripc_error_detail(), "behind the buffer of 1000 bytes") != NULL);
	RC(-EINVAL, ripc_buf_free(ctx, p + 1023));
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p + 1000, 10));
	ck_assert_int_eq(errno, EINVAL);
	/* The length is what was asked for last. */
	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 600), p);
	RC(-EINVAL, ripc_buf_free(ctx, p + 600));
	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 1024), p);
	OK(ripc_buf_free(ctx, p + 1023));
	/* Nor does it become the application's own memory. */
	p = ripc_buf_alloc(ctx, 1000);
	RC(-EEXIST, ripc_buf_register(ctx, p + 1000, 24));
	OK(ripc_buf_free(ctx, p));
	rig_check_memory(ctx);
}
END_TEST

START_TEST(start__beyond_length)
{
	static const struct {
		size_t at, len;
		int rc;
	} cases[] = {{0, 1000, 0},       {999, 1, 0},         {0, 1001, -EINVAL},
		     {1000, 1, -EINVAL}, {500, 501, -EINVAL}, {1023, 5000, -EINVAL}};
	uint8_t *p = ripc_buf_alloc(ctx, 1000);

	rig_fill(p, 1000, 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct iovec item = {p + cases[i].at, cases[i].len};

		RC(cases[i].rc, ripc_send_long(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000));
		if (!cases[i].rc)
			ripc_message_free(rig_take(&rig, 1));
	}
	OK(ripc_buf_free(ctx, p));
	/* An item that is empty is nowhere. */
	OK(ripc_send_long(rig.s[0], RIG_ID(1), &(struct iovec){p + 1000, 0}, 1, NULL, 5000));
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

START_TEST(buf_free__not_a_buffer)
{
	static uint8_t foreign[100];
	struct ripc_message *m;

	RC(-EINVAL, ripc_buf_free(ctx, foreign));
	ck_assert(strstr(ripc_error_detail(), "no buffer of this context") != NULL);
	OK(ripc_buf_register(ctx, foreign, sizeof(foreign)));
	RC(-EINVAL, ripc_buf_free(ctx, foreign + 5));
	ck_assert(strstr(ripc_error_detail(), "registered memory") != NULL);
	OK(ripc_buf_unregister(ctx, foreign));
	OK(rig_long(&rig, 1, 0, 5000, 1, 5000));
	m = rig_take(&rig, 0);
	ck_assert_int_eq(m->placement[0], RIPC_IN_POOL);
	RC(-EINVAL, ripc_buf_free(ctx, m->items[0].iov_base));
	ck_assert(strstr(ripc_error_detail(), "ripc_message_free") != NULL);
	ripc_message_free(m);
	rig_check_memory(ctx);
}
END_TEST

START_TEST(buf_free__other_context)
{
	void *p = ripc_buf_alloc(ctx, 1000);

	RC(-EINVAL, ripc_buf_free(rig.ctx[1], p));
	OK(ripc_buf_free(ctx, p));
}
END_TEST

START_TEST(buf_free__busy_while_sending)
{
	void *p = ripc_buf_alloc(ctx, MIB);
	struct ripc_request *r;

	rig_fill(p, MIB, 9);
	r = rig_begin(&rig, 0, 1, p, MIB);
	RC(-EBUSY, ripc_buf_free(ctx, p));
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, 2 * MIB));
	ck_assert_int_eq(errno, EBUSY);
	OK(ripc_request_wait(&r, 5000));
	OK(ripc_buf_free(ctx, p));
	rig_expect(&rig, 1, MIB, 9);
}
END_TEST

START_TEST(buf_realloc__keeps_contents)
{
	static const size_t sizes[] = {10, 256, 257, 5000, 100, 200000, 3 * MIB, 1000, 1};
	uint8_t *p = NULL;
	size_t had = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		p = ripc_buf_realloc(ctx, p, sizes[i]);
		ck_assert_ptr_nonnull(p);
		rig_verify(p, had < sizes[i] ? had : sizes[i], 5);
		rig_fill(p, sizes[i], 5);
		had = sizes[i];
		rig_check_memory(ctx);
	}
	/* One byte does not hold on to megabytes. */
	ck_assert_uint_eq(ripc__memory_find(ctx, p, 1)->cap, 256);
	OK(ripc_buf_free(ctx, p));
}
END_TEST

START_TEST(buf_realloc__in_place)
{
	uint8_t *p = ripc_buf_alloc(ctx, 300);

	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 512), p);
	ck_assert_ptr_eq(ripc_buf_realloc(ctx, p, 129), p);
	ck_assert_ptr_ne(ripc_buf_realloc(ctx, p, 513), p);
}
END_TEST

START_TEST(buf_realloc__refused)
{
	uint8_t *p = ripc_buf_alloc(ctx, 300);

	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, 0));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, SIZE_MAX));
	ck_assert_int_eq(errno, ENOMEM);
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, &rig, 10));
	ck_assert_int_eq(errno, EINVAL);
	OK(ripc_window_add(ctx, NULL, p, 300));
	errno = 0;
	ck_assert_ptr_null(ripc_buf_realloc(ctx, p, 400));
	ck_assert_int_eq(errno, EBUSY);
	/* The old one is as it was. */
	OK(ripc_window_remove(ctx, p));
	OK(ripc_buf_free(ctx, p));
}
END_TEST

/* Not even in place: the peer may write into all of the return buffer. */
START_TEST(buf_realloc__refused_for_a_return_buffer)
{
	static const size_t sizes[] = {64 * KIB - 1, 100, MIB};
	uint8_t *p = ripc_buf_alloc(ctx, 64 * KIB);

	ck_assert_uint_eq(rig_send_return_buffer(&rig, 0, 1, p + 1000, 20000), 1);
	for (unsigned i = 0; i < 3; i++) {
		errno = 0;
		ck_assert_ptr_null(ripc_buf_realloc(ctx, p, sizes[i]));
		ck_assert_int_eq(errno, EBUSY);
	}
	OK(rig_long(&rig, 1, 0, 20000, 6, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 20000, 6), RIPC_IN_RETURN_BUFFER);
	rig_verify(p + 1000, 20000, 6);
	p = ripc_buf_realloc(ctx, p, MIB);
	ck_assert_ptr_nonnull(p);
	rig_verify(p + 1000, 20000, 6);
	OK(ripc_buf_free(ctx, p));
	rig_check_memory(ctx);
}
END_TEST

START_TEST(memory_fini__frees_app_buffers)
{
	static uint8_t foreign[100];

	for (size_t len = 1; len < 4 * MIB; len *= 3)
		ck_assert_ptr_nonnull(ripc_buf_alloc(ctx, len));
	OK(ripc_buf_register(ctx, foreign, sizeof(foreign)));
	OK(ripc_window_add(ctx, NULL, foreign, 10));
	/* teardown() closes it: a leak checker sees the rest. */
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
	TCase *tc = tcase_create("app_buffer");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, buf_alloc__prefaults_unlocked);
	tcase_add_test(tc, buf_realloc__prefaults_unlocked);
	tcase_add_test(tc, buf_realloc__copies_unlocked);
	tcase_add_test(tc, close__waits_for_prefault);
	tcase_add_test(tc, buf_alloc__no_bytes);
	tcase_add_test(tc, buf_free__interior_and_null);
	tcase_add_test(tc, buf_free__beyond_length);
	tcase_add_test(tc, start__beyond_length);
	tcase_add_test(tc, buf_free__not_a_buffer);
	tcase_add_test(tc, buf_free__other_context);
	tcase_add_test(tc, buf_free__busy_while_sending);
	tcase_add_test(tc, buf_realloc__keeps_contents);
	tcase_add_test(tc, buf_realloc__in_place);
	tcase_add_test(tc, buf_realloc__refused);
	tcase_add_test(tc, buf_realloc__refused_for_a_return_buffer);
	tcase_add_test(tc, memory_fini__frees_app_buffers);
	tcase_add_test(tc, buf_free__busy_until_received);
	tcase_add_test(tc, buf_free__after_unregister);
	tcase_add_test(tc, buf_unregister__busy_until_received);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/app_buffer", suite);
}
