/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory as programs of 2012 handle it: buffers, receive windows, return buffers. */
#include "compat.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

START_TEST(buf_alloc__is_writable_and_freed)
{
	char *p = ripc_compat_buf_alloc(100000);

	ck_assert_ptr_nonnull(p);
	memset(p, 1, 100000);
	ripc_compat_buf_free(p + 5000); /* an address inside it */
	ripc_compat_buf_free(p);        /* not known any more */
	ripc_compat_buf_free(NULL);
	ripc_compat_buf_free(&p);
}
END_TEST

/*
 * A program without return buffers asks for 0 bytes, and writes into arrays of 0 entries if it gets
 * any.
 */
START_TEST(buf_alloc__of_no_bytes)
{
	errno = 0;
	ck_assert_ptr_null(ripc_compat_buf_alloc(0));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(ripc_compat_buf_realloc(NULL, 0));
}
END_TEST

START_TEST(buf_alloc__reused_is_zeroed)
{
	for (int i = 0; i < 10; i++) {
		char *p = ripc_compat_buf_alloc(3000);

		for (int k = 0; k < 3000; k++)
			ck_assert_int_eq(p[k], 0);
		memset(p, 1, 3000);
		p = ripc_compat_buf_realloc(p, 1000);
		p = ripc_compat_buf_realloc(p, 4000);
		for (int k = 0; k < 4000; k++)
			ck_assert_int_eq(p[k], k < 1000);
		memset(p, 2, 4000);
		ripc_compat_buf_free(p);
	}
}
END_TEST

START_TEST(buf_realloc__keeps_contents)
{
	char *p = ripc_compat_buf_realloc(NULL, 10);

	ck_assert_ptr_nonnull(p);
	strcpy(p, "contents");
	p = ripc_compat_buf_realloc(p + 3, 1000000);
	ck_assert_ptr_nonnull(p);
	ck_assert_str_eq(p, "contents");
	p[999999] = 1;
	p = ripc_compat_buf_realloc(p, 5);
	ck_assert(!memcmp(p, "conte", 5));
	ripc_compat_buf_free(p);
	errno = 0;
	ck_assert_ptr_null(ripc_compat_buf_realloc(&p, 10));
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(buf_register__again_and_larger)
{
	char *m = malloc(30000);

	ck_assert_uint_eq(ripc_compat_buf_register(m, 10000), 0);
	ck_assert_uint_eq(ripc_compat_buf_register(m, 10000), 0);
	ck_assert_uint_eq(ripc_compat_buf_register(m + 100, 100), 0);
	ck_assert_uint_eq(ripc_compat_buf_register(m, 30000), 0); /* grown */
	ck_assert_uint_eq(ripc_compat_buf_register(m, 0), 1);
	ck_assert_uint_eq(ripc_compat_buf_register(NULL, 10), 1);
	ck_assert_uint_eq(ripc_compat_buf_unregister(m), 1);
	ck_assert_uint_eq(ripc_compat_buf_unregister(m), 0);
	free(m);
}
END_TEST

START_TEST(buf_register__buffer_of_the_library)
{
	void *p = ripc_compat_buf_alloc(1000);

	ck_assert_uint_eq(ripc_compat_buf_register(p, 1000), 0);
	ck_assert_uint_eq(ripc_compat_buf_unregister(p), 0);
	ripc_compat_buf_free(p);
}
END_TEST

/* Memory that was unmapped without a word, and mapped again, was sent as it had been in 2012. */
START_TEST(buf_register__address_reused)
{
	size_t len = 1 << 20;
	char *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *again;
	struct got g;
	int flags;

	memset(m, 'a', len);
	ck_assert_uint_eq(send_one(1, alice, bob, m, (uint32_t)len), 0);
	g = receive(bob);
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
	munmap(m, len);
	flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	again = mmap(m, len, PROT_READ | PROT_WRITE, flags, -1, 0);
	ck_assert_ptr_eq(again, m);
	memset(again, 'b', len);
	ck_assert_uint_eq(send_one(1, alice, bob, again, (uint32_t)len), 0);
	g = receive(bob);
	ck_assert(!memcmp(g.longs[0], again, len));
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
	munmap(again, len);
}
END_TEST

START_TEST(reg_recv_window__one_item_each)
{
	char *window = ripc_compat_buf_alloc(1000);
	struct got g;

	for (int round = 0; round < 3; round++) {
		/* The same one again in every round, and more than once. */
		ck_assert_uint_eq(ripc_compat_reg_recv_window(window, 1000), 0);
		ck_assert_uint_eq(ripc_compat_reg_recv_window(window, 1000), 0);
		ck_assert_uint_eq(send_one(1, alice, bob, "first", 6), 0);
		ck_assert_uint_eq(send_one(1, alice, bob, "second", 7), 0);
		g = receive(bob);
		ck_assert_ptr_eq(g.longs[0], window);
		ck_assert_str_eq(window, "first");
		free_arrays(&g);
		g = receive(bob);
		ck_assert_ptr_ne(g.longs[0], window);
		ck_assert_str_eq(g.longs[0], "second");
		ripc_compat_buf_free(g.longs[0]);
		free_arrays(&g);
	}
	ripc_compat_buf_free(window);
}
END_TEST

/* Set again while its item waits to be received: the item may not be overwritten by the next. */
START_TEST(reg_recv_window__not_yet_received)
{
	char *window = ripc_compat_buf_alloc(1000);
	struct got g;

	ck_assert_uint_eq(ripc_compat_reg_recv_window(window, 1000), 0);
	ck_assert_uint_eq(send_one(1, alice, bob, "first", 6), 0);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(window, 1000), 0);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(window, 500), 0);
	ck_assert_uint_eq(send_one(1, alice, bob, "second", 7), 0);
	g = receive(bob);
	ck_assert_str_eq(g.longs[0], "first");
	free_arrays(&g);
	g = receive(bob);
	ck_assert_str_eq(g.longs[0], "second");
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
}
END_TEST

START_TEST(reg_recv_window__first_fit)
{
	char *shared = ripc_compat_buf_alloc(1000), *small = ripc_compat_buf_alloc(100),
	     *large = ripc_compat_buf_alloc(2000), data[1500];
	void *items[3] = {data, data, data};
	uint32_t lens[3] = {500, 50, 50};
	struct got g;

	memset(data, 3, sizeof(data));
	ck_assert_uint_eq(ripc_compat_reg_recv_window(shared, 1000), 0);
	ck_assert_uint_eq(ripc_compat_reg_recv_window_for_service(small, 100, bob), 0);
	ck_assert_uint_eq(ripc_compat_reg_recv_window_for_service(large, 2000, bob), 0);
	ck_assert_uint_eq(ripc_compat_send_long(alice, bob, items, lens, 3, NULL, NULL, 0), 0);
	g = receive(bob);
	ck_assert_ptr_eq(g.longs[0], large);
	ck_assert_ptr_eq(g.longs[1], small);
	ck_assert_ptr_eq(g.longs[2], shared);
	free_arrays(&g);
	/* Another service has no use for windows of bob. */
	ck_assert_uint_eq(ripc_compat_reg_recv_window_for_service(large, 2000, bob), 0);
	ck_assert_uint_eq(send_one(1, bob, alice, data, 1500), 0);
	g = receive(alice);
	ck_assert_ptr_ne(g.longs[0], large);
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
	ck_assert_uint_eq(ripc_compat_reg_recv_window_for_service(large, 2000, 3), 1);
}
END_TEST

START_TEST(reg_recv_window__allocated)
{
	struct got g;

	ck_assert_uint_eq(ripc_compat_reg_recv_window(NULL, 5000), 0);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(NULL, 0), 1);
	ck_assert_uint_eq(send_one(1, alice, bob, "item", 5), 0);
	g = receive(bob);
	ck_assert_str_eq(g.longs[0], "item");
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
}
END_TEST

START_TEST(reg_recv_window__memory_of_the_program)
{
	size_t len = 1 << 20;
	char *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ripc_stats before = {.size = sizeof(before)}, stats = {.size = sizeof(stats)};
	struct got g;

	ripc_context_stats(NULL, &before);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(m, len), 0);
	ck_assert_uint_eq(send_one(1, alice, bob, "item", 5), 0);
	g = receive(bob);
	ck_assert_ptr_eq(g.longs[0], m);
	free_arrays(&g);
	/* Used: the program may unmap it without a word. */
	ripc_context_stats(NULL, &stats);
	ck_assert_uint_eq(stats.registered_bytes, before.registered_bytes);
	/* Not used: given back before it is unmapped. */
	ck_assert_uint_eq(ripc_compat_reg_recv_window(m, len), 0);
	ripc_compat_buf_free(m);
	ripc_context_stats(NULL, &stats);
	ck_assert_uint_eq(stats.registered_bytes, before.registered_bytes);
	munmap(m, len);
	ck_assert_uint_eq(send_one(1, alice, bob, "item", 5), 0);
	g = receive(bob);
	ck_assert_ptr_ne(g.longs[0], m);
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
}
END_TEST

START_TEST(reg_recv_window__freed_and_allocated_again)
{
	char *window = ripc_compat_buf_alloc(4000), *again;
	struct got g;

	ck_assert_uint_eq(ripc_compat_reg_recv_window(window + 100, 1000), 0);
	ripc_compat_buf_free(window);
	again = ripc_compat_buf_alloc(4000);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(again + 100, 1000), 0);
	ck_assert_uint_eq(send_one(1, alice, bob, "item", 5), 0);
	g = receive(bob);
	ck_assert_ptr_eq(g.longs[0], again + 100);
	free_arrays(&g);
	ripc_compat_buf_free(again);
}
END_TEST

START_TEST(return_bufs__are_used)
{
	char *buf = ripc_compat_buf_alloc(1000);
	struct got g;

	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(send_with_return(alice, bob, buf, 1000), 0);
		g = receive(bob);
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
		ck_assert_uint_eq(send_one(1, bob, alice, "returned", 9), 0);
		g = receive(alice);
		ck_assert_ptr_eq(g.longs[0], buf);
		ck_assert_str_eq(buf, "returned");
		free_arrays(&g);
	}
	ripc_compat_buf_free(buf);
}
END_TEST

START_TEST(return_bufs__reused_after_no_use)
{
	char *buf = ripc_compat_buf_alloc(1000);

	for (int i = 0; i < 40; i++) {
		struct got g;

		ck_assert_uint_eq(send_with_return(alice, bob, buf, 1000), 0);
		g = receive(bob);
		ck_assert_str_eq(g.shorts[0], "take this");
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
	}
	ripc_compat_buf_free(buf);
}
END_TEST

START_TEST(return_bufs__unregistered_after_no_use)
{
	static char buf[100000];

	for (int i = 0; i < 2; i++) {
		struct got g;

		ck_assert_uint_eq(ripc_compat_buf_register(buf, sizeof(buf)), 0);
		ck_assert_uint_eq(send_with_return(alice, bob, buf, sizeof(buf)), 0);
		g = receive(bob);
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
		ck_assert_uint_eq(ripc_compat_buf_unregister(buf), 1);
	}
	/* The memory is the program's again. */
	ck_assert_uint_eq(ripc_compat_reg_recv_window(buf, sizeof(buf)), 0);
	ripc_compat_buf_free(buf);
}
END_TEST

START_TEST(return_bufs__null_and_zero)
{
	void *item = "x", *bufs[3] = {NULL, NULL, (void *)1};
	uint32_t len = 1, lens[3] = {0, 1000, 0};
	struct ripc_message *m;
	struct ripc_service *s;
	struct iovec back = {"returned", 9};
	struct got g;

	ck_assert_int_eq(ripc_service_register(NULL, 1, 0, &s), 0);
	ck_assert_uint_eq(ripc_compat_send_short(alice, 1, &item, &len, 1, bufs, lens, 3), 0);
	ck_assert_int_eq(ripc_receive(s, &m, -1), 0);
	ck_assert_uint_eq(m->nreturn_buffers, 1);
	ripc_message_free(m);
	ck_assert_ptr_null(bufs[1]);
	ck_assert_int_eq(ripc_send_long(s, alice, &back, 1, NULL, -1), 0);
	g = receive(alice);
	ck_assert_str_eq(g.longs[0], "returned");
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
	ripc_service_unregister(s);
}
END_TEST

/* However many are allocated and not used, so many are held and no more. */
START_TEST(return_bufs__are_bounded)
{
	void *item = "x", *none = NULL;
	uint32_t len = 1, size = 65536;
	struct ripc_stats stats = {.size = sizeof(stats)};

	for (int i = 0; i < 2000; i++) {
		struct got g;

		ck_assert_uint_eq(
			ripc_compat_send_short(alice, bob, &item, &len, 1, &none, &size, 1), 0);
		g = receive(bob);
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
	}
	ck_assert_int_eq(ripc_context_stats(NULL, &stats), 0);
	ck_assert_uint_lt(stats.pool_bytes, 600ull * 65536);
}
END_TEST

static _Atomic(bool) pausing;
static sem_t paused, resumed;

/* Called by libripc-compat. The thread stops when it has a message, if the test wants it to. */
int ripc_receive(struct ripc_service *service, struct ripc_message **message, int timeout_ms)
{
	int (*next)(struct ripc_service *, struct ripc_message **, int);
	int rc;

	*(void **)&next = dlsym(RTLD_NEXT, "ripc_receive");
	rc = next(service, message, timeout_ms);
	if (!rc && atomic_exchange(&pausing, false)) {
		sem_post(&paused);
		sem_wait(&resumed);
	}
	return rc;
}

static void *receive_answer(void *arg)
{
	struct got g = receive(alice);

	ck_assert_str_eq(g.longs[0], "answer");
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
	return arg;
}

/* The oldest is freed for the next one, unless another thread may have just received in it. */
START_TEST(return_bufs__not_freed_while_received)
{
	void *item = "x", *none = NULL;
	uint32_t len = 1, size = 300;
	pthread_t thread;

	ck_assert(!sem_init(&paused, 0, 0) && !sem_init(&resumed, 0, 0));
	for (int i = 0; i < 400; i++) {
		struct got g;

		ck_assert_uint_eq(
			ripc_compat_send_short(alice, bob, &item, &len, 1, &none, &size, 1), 0);
		g = receive(bob);
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
		if (i)
			continue;
		ck_assert_uint_eq(send_one(1, bob, alice, "answer", 7), 0);
		pausing = true;
		ck_assert_int_eq(pthread_create(&thread, NULL, receive_answer, NULL), 0);
		sem_wait(&paused);
	}
	/* They fill all buffers that are offered. */
	for (int i = 0; i < 300; i++)
		ck_assert_uint_eq(send_one(1, bob, alice, "another", 8), 0);
	sem_post(&resumed);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(return_bufs__unknown_memory)
{
	char *m = malloc(1000);
	struct got g;

	ck_assert_uint_eq(send_with_return(alice, bob, m, 1000), 0);
	g = receive(bob);
	ripc_compat_buf_free(g.shorts[0]);
	free_arrays(&g);
	free(m); /* may be freed: nobody has its address */
	ck_assert_uint_eq(send_one(1, bob, alice, "elsewhere", 10), 0);
	g = receive(alice);
	ck_assert_str_eq(g.longs[0], "elsewhere");
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("compat/memory");
	TCase *run = tcase_create("run");

	tcase_add_checked_fixture(run, setup, NULL);
	tcase_add_test(run, buf_alloc__is_writable_and_freed);
	tcase_add_test(run, buf_alloc__of_no_bytes);
	tcase_add_test(run, buf_alloc__reused_is_zeroed);
	tcase_add_test(run, buf_realloc__keeps_contents);
	tcase_add_test(run, buf_register__again_and_larger);
	tcase_add_test(run, buf_register__buffer_of_the_library);
	tcase_add_test(run, buf_register__address_reused);
	tcase_add_test(run, reg_recv_window__one_item_each);
	tcase_add_test(run, reg_recv_window__not_yet_received);
	tcase_add_test(run, reg_recv_window__first_fit);
	tcase_add_test(run, reg_recv_window__allocated);
	tcase_add_test(run, reg_recv_window__memory_of_the_program);
	tcase_add_test(run, reg_recv_window__freed_and_allocated_again);
	tcase_add_test(run, return_bufs__are_used);
	tcase_add_test(run, return_bufs__reused_after_no_use);
	tcase_add_test(run, return_bufs__unregistered_after_no_use);
	tcase_add_test(run, return_bufs__null_and_zero);
	tcase_add_test(run, return_bufs__are_bounded);
	tcase_add_test(run, return_bufs__not_freed_while_received);
	tcase_add_test(run, return_bufs__unknown_memory);
	tcase_set_timeout(run, 30);
	suite_add_tcase(suite, run);
	return test_main("compat/memory", suite);
}
