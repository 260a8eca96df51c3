/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each behaviour that programs of 2012 rely on, and what they may no longer be harmed by. */
#include "harness.h"
#include "ripc.h"
#include "ripc_compat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What ripc_compat_receive() hands out. */
struct got {
	uint16_t from, nshort, nlong;
	void **shorts, **longs;
	uint32_t *short_sizes, *long_sizes;
};

static uint16_t alice, bob;

static void setup(void)
{
	alice = ripc_compat_register_random_service_id();
	bob = ripc_compat_register_random_service_id();
	ck_assert(alice && bob && alice != bob);
}

static struct got receive(uint16_t service)
{
	struct got g;

	memset(&g, 0xee, sizeof(g));
	ck_assert_uint_eq(ripc_compat_receive(service, &g.from, &g.shorts, &g.short_sizes,
					      &g.nshort, &g.longs, &g.long_sizes, &g.nlong),
			  0);
	return g;
}

static void free_arrays(struct got *g)
{
	free(g->shorts);
	free(g->short_sizes);
	free(g->longs);
	free(g->long_sizes);
}

/* One item each. */
static uint8_t send_one(int is_long, uint16_t from, uint16_t to, const void *data, uint32_t len)
{
	void *item = (void *)data;

	return is_long ? ripc_compat_send_long(from, to, &item, &len, 1, NULL, NULL, 0)
		       : ripc_compat_send_short(from, to, &item, &len, 1, NULL, NULL, 0);
}

static uint8_t send_with_return(uint16_t from, uint16_t to, void *buf, uint32_t len)
{
	void *item = "take this";
	uint32_t item_len = 9;

	return ripc_compat_send_short(from, to, &item, &item_len, 1, &buf, &len, 1);
}

START_TEST(init__first_and_again)
{
	ck_assert_uint_eq(ripc_compat_init(), 0);
	ck_assert_uint_eq(ripc_compat_init(), 1);
	ck_assert_uint_eq(ripc_compat_ripc_init(), 1);
}
END_TEST

START_TEST(init__is_implied)
{
	ck_assert_uint_eq(ripc_compat_register_service_id(4711), 1);
	ck_assert_uint_eq(ripc_compat_init(), 1);
}
END_TEST

START_TEST(init__cannot_be_opened)
{
	setenv("RIPC_WAIT", "nonsense", 1);
	ck_assert_uint_eq(ripc_compat_init(), 255);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_uint_eq(ripc_compat_register_service_id(4711), 0);
	ck_assert_uint_eq(ripc_compat_register_random_service_id(), 0);
	ck_assert_ptr_null(ripc_compat_buf_alloc(10));
	ck_assert_uint_eq(ripc_compat_buf_register(&alice, sizeof(alice)), 1);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(NULL, 10), 1);
	unsetenv("RIPC_WAIT");
	ck_assert_uint_eq(ripc_compat_init(), 0);
}
END_TEST

START_TEST(register_service_id__taken)
{
	ck_assert_uint_eq(ripc_compat_register_service_id(alice), 0);
	ck_assert_int_eq(errno, EADDRINUSE);
}
END_TEST

START_TEST(register_service_id__limits)
{
	ck_assert_uint_eq(ripc_compat_register_service_id(0), 0);
	ck_assert_uint_eq(ripc_compat_register_service_id(-1), 0);
	ck_assert_uint_eq(ripc_compat_register_service_id(65536), 0);
	ck_assert_int_eq(errno, EINVAL);
	/* Out of bounds in 2012. */
	ck_assert_uint_eq(ripc_compat_register_service_id(65535), 1);
	ck_assert_uint_eq(send_one(0, alice, 65535, "x", 1), 0);
}
END_TEST

/* What is sent to a multicast id comes to it, here and elsewhere, and the sender need not know that it is one. */
START_TEST(register_multicast_service_id__reaches_all)
{
	struct ripc *other;
	struct ripc_service *member;
	struct ripc_message *m;
	struct got g;

	ck_assert_uint_eq(ripc_compat_register_multicast_service_id(0), 0);
	ck_assert_uint_eq(ripc_compat_register_multicast_service_id(65536), 0);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_uint_eq(ripc_compat_register_multicast_service_id(100), 1);
	ck_assert_uint_eq(ripc_compat_register_multicast_service_id(100), 0);
	ck_assert_int_eq(errno, EADDRINUSE);
	ck_assert_uint_eq(ripc_compat_register_multicast_service_id(alice), 0);
	ck_assert_uint_eq(send_one(0, alice, 100, "to all", 7), 0);
	g = receive(100);
	ck_assert_uint_eq(g.from, alice);
	ck_assert_uint_eq(g.nshort, 1);
	ck_assert_str_eq(g.shorts[0], "to all");
	ripc_compat_buf_free(g.shorts[0]);
	free_arrays(&g);

	ck_assert_int_eq(ripc_open(&other, NULL), 0);
	ck_assert_int_eq(ripc_register(other, RIPC_ANY_ID, 0, &member), 0);
	ck_assert_int_eq(ripc_group_join(member, UINT64_C(0x20120000) << 16 | 101, 20000), 0);
	ck_assert_uint_eq(send_one(0, alice, 101, "to you", 7), 0);
	ck_assert_int_eq(ripc_receive(member, &m, 20000), 0);
	ck_assert_uint_eq(m->source, alice);
	ck_assert_str_eq(m->items[0].iov_base, "to you");
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(other), 0);
}
END_TEST

START_TEST(buf_alloc__is_writable_and_freed)
{
	char *p = ripc_compat_buf_alloc(100000), *none = ripc_compat_buf_alloc(0);

	ck_assert(p && none);
	memset(p, 1, 100000);
	ripc_compat_buf_free(p + 5000); /* an address inside it */
	ripc_compat_buf_free(p);        /* not known any more */
	ripc_compat_buf_free(none);
	ripc_compat_buf_free(NULL);
	ripc_compat_buf_free(&p);
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
START_TEST(buf_register__memory_came_back)
{
	size_t len = 1 << 20;
	char *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *again;
	struct got g;

	memset(m, 'a', len);
	ck_assert_uint_eq(send_one(1, alice, bob, m, (uint32_t)len), 0);
	g = receive(bob);
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
	munmap(m, len);
	again = mmap(m, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
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

START_TEST(send_short__one_buffer_for_all_items)
{
	int number = 17;
	void *items[4] = {&number, "text", "", "tail"};
	uint32_t lens[4] = {sizeof(number), 4, 0, 4};
	struct got g;

	ck_assert_uint_eq(ripc_compat_send_short(alice, bob, items, lens, 4, NULL, NULL, 0), 0);
	g = receive(bob);
	ck_assert_uint_eq(g.from, alice);
	ck_assert_uint_eq(g.nshort, 4);
	ck_assert_uint_eq(g.nlong, 0);
	ck_assert(!g.longs && !g.long_sizes);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(g.short_sizes[i], lens[i]);
		ck_assert(!memcmp(g.shorts[i], items[i], lens[i]));
		/* What an int or a text is read from, and where a text ends. */
		ck_assert_uint_eq((uintptr_t)g.shorts[i] % sizeof(long long), 0);
		ck_assert_int_eq(((char *)g.shorts[i])[lens[i]], 0);
		/* It may be written and all lie close together. */
		((char *)g.shorts[i])[lens[i]] = 'x';
		ck_assert_uint_lt((size_t)((char *)g.shorts[i] - (char *)g.shorts[0]), RECV_BUF_SIZE);
	}
	/* One of them, and be it the empty one. */
	ripc_compat_buf_free(g.shorts[2]);
	/* It is gone as a whole. */
	ck_assert_ptr_null(ripc_compat_buf_realloc(g.shorts[0], 10));
	free_arrays(&g);
}
END_TEST

START_TEST(send_short__zeros_to_the_end)
{
	struct got g;
	char ones[1000];

	memset(ones, 1, sizeof(ones));
	/* A buffer is used again after one that was full. */
	for (int i = 0; i < 20; i++) {
		ck_assert_uint_eq(send_one(0, alice, bob, ones, i % 2 ? 3 : sizeof(ones)), 0);
		g = receive(bob);
		for (uint32_t k = g.short_sizes[0]; k < RECV_BUF_SIZE; k++)
			ck_assert_int_eq(((char *)g.shorts[0])[k], 0);
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
	}
}
END_TEST

START_TEST(send_short__as_large_as_then)
{
	struct got g;
	char data[RECV_BUF_SIZE + 1];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7);
	for (uint32_t len = RECV_BUF_SIZE - 200; len <= RECV_BUF_SIZE; len += 100) {
		ck_assert_uint_eq(send_one(0, alice, bob, data, len), 0);
		g = receive(bob);
		ck_assert_uint_eq(g.nshort, 1);
		ck_assert_uint_eq(g.short_sizes[0], len);
		ck_assert(!memcmp(g.shorts[0], data, len));
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
	}
	ck_assert_uint_eq(send_one(0, alice, bob, data, RECV_BUF_SIZE + 1), 1);
	ck_assert_int_eq(errno, EMSGSIZE);
}
END_TEST

/* What is too long for a transport's sends comes as a long message with a mark, and must look short, windows or not. */
START_TEST(send_short__marked)
{
	struct iovec items[3] = {{NULL, 16}, {"body", 4}, {"", 0}};
	uint8_t mark[16] = {0x9d, 0x1e, 0x6b, 0x52, 0x49, 0x50, 0x43, 0x32,
			    0xf4, 0x30, 0x7a, 0xc8, 0x05, 0xb1, 0xe3, 0x68};
	char *window = ripc_compat_buf_alloc(1000);
	struct ripc_service *s;
	struct got g;

	items[0].iov_base = mark;
	ck_assert_int_eq(ripc_register(NULL, RIPC_ANY_ID, 0, &s), 0);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(window, 1000), 0);
	ck_assert_int_eq(ripc_send_long(s, bob, items, 3, NULL, -1), 0);
	g = receive(bob);
	ck_assert_uint_eq(g.from, 0); /* no id of 16 bits */
	ck_assert_uint_eq(g.nshort, 2);
	ck_assert_uint_eq(g.nlong, 0);
	ck_assert_str_eq(g.shorts[0], "body");
	ck_assert_uint_eq(g.short_sizes[1], 0);
	ripc_compat_buf_free(g.shorts[0]);
	free_arrays(&g);
	/* The window still waits. */
	ck_assert_uint_eq(send_one(1, alice, bob, "into the window", 15), 0);
	g = receive(bob);
	ck_assert_ptr_eq(g.longs[0], window);
	free_arrays(&g);
	ripc_unregister(s);
}
END_TEST

START_TEST(send_short__nonsense)
{
	void *item = "x";
	uint32_t len = 1;

	ck_assert_uint_eq(send_one(0, 3, bob, "x", 1), 1); /* not registered here */
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_uint_eq(send_one(0, alice, 0, "x", 1), 1);
	ck_assert_uint_eq(ripc_compat_send_short(alice, bob, &item, &len, 0, NULL, NULL, 0), 1);
	ck_assert_uint_eq(ripc_compat_send_short(alice, bob, &item, &len, 65, NULL, NULL, 0), 1);
	ck_assert_uint_eq(ripc_compat_send_short(alice, bob, NULL, &len, 1, NULL, NULL, 0), 1);
	ck_assert_uint_eq(ripc_compat_send_short(alice, bob, &item, NULL, 1, NULL, NULL, 0), 1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(send_short__many_waiting)
{
	/* More than ten queued ones were lost in 2012. */
	for (int i = 0; i < 500; i++)
		ck_assert_uint_eq(send_one(0, alice, bob, &i, sizeof(i)), 0);
	for (int i = 0; i < 500; i++) {
		struct got g = receive(bob);

		ck_assert_int_eq(*(int *)g.shorts[0], i);
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
	}
}
END_TEST

START_TEST(send_short__who_asked_has_gone)
{
	struct ripc *other;
	struct ripc_service *s;
	struct iovec item = {"question", 8};
	uint16_t id = (uint16_t)(alice ^ 1);
	struct got g;

	if (id == bob)
		id ^= 2;
	ck_assert_int_eq(ripc_open(&other, NULL), 0);
	ck_assert_int_eq(ripc_register(other, id, 0, &s), 0);
	ck_assert_int_eq(ripc_send_short(s, bob, &item, 1, NULL, -1), 0);
	g = receive(bob);
	ck_assert_uint_eq(g.from, id);
	ck_assert_uint_eq(send_one(0, bob, id, "answer", 6), 0);
	ck_assert_int_eq(ripc_close(other), 0);
	/* It must not wait for it for ever: others want to be served. The first may leave before we hear of the end. */
	for (int i = 0; i < 2000 && !send_one(0, bob, id, "answer", 6); i++)
		usleep(10000);
	ck_assert_uint_eq(send_one(0, bob, id, "answer", 6), 1);
	ck_assert_int_eq(errno, EHOSTUNREACH);
	ck_assert_uint_eq(send_one(1, bob, id, "answer", 6), 1);
	ripc_compat_buf_free(g.shorts[0]);
	free_arrays(&g);
}
END_TEST

START_TEST(send_long__items_are_freed_one_by_one)
{
	char *big = ripc_compat_buf_alloc(300000);
	void *items[3] = {"own memory", "", big};
	uint32_t lens[3] = {10, 0, 300000};
	struct got g;

	memset(big, 5, 300000);
	ck_assert_uint_eq(ripc_compat_send_long(alice, bob, items, lens, 3, NULL, NULL, 0), 0);
	g = receive(bob);
	ck_assert_uint_eq(g.nlong, 3);
	ck_assert_uint_eq(g.nshort, 0);
	ck_assert(!g.shorts && !g.short_sizes);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(g.long_sizes[i], lens[i]);
		ck_assert_ptr_nonnull(g.longs[i]);
		ck_assert(!memcmp(g.longs[i], items[i], lens[i]));
	}
	ck_assert_int_eq(*(char *)g.longs[1], 0);
	for (int i = 2; i >= 0; i--)
		ripc_compat_buf_free((char *)g.longs[i] + lens[i] / 2);
	free_arrays(&g);
	ripc_compat_buf_free(big);
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

START_TEST(reg_recv_window__first_fit_own_ones_first)
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
	struct ripc_stats before, stats;
	struct got g;

	ripc_stats(NULL, &before);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(m, len), 0);
	ck_assert_uint_eq(send_one(1, alice, bob, "item", 5), 0);
	g = receive(bob);
	ck_assert_ptr_eq(g.longs[0], m);
	free_arrays(&g);
	/* Used: the program may unmap it without a word. */
	ripc_stats(NULL, &stats);
	ck_assert_uint_eq(stats.registered_bytes, before.registered_bytes);
	/* Not used: given back before it is unmapped. */
	ck_assert_uint_eq(ripc_compat_reg_recv_window(m, len), 0);
	ripc_compat_buf_free(m);
	ripc_stats(NULL, &stats);
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

START_TEST(return_bufs__offered_again_and_not_used)
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

START_TEST(return_bufs__null_and_zero)
{
	void *item = "x", *bufs[3] = {NULL, NULL, (void *)1};
	uint32_t len = 1, lens[3] = {0, 1000, 0};
	struct ripc_message *m;
	struct ripc_service *s;
	struct iovec back = {"returned", 9};
	struct got g;

	ck_assert_int_eq(ripc_register(NULL, 1, 0, &s), 0);
	ck_assert_uint_eq(ripc_compat_send_short(alice, 1, &item, &len, 1, bufs, lens, 3), 0);
	ck_assert_int_eq(ripc_receive(s, &m, -1), 0);
	ck_assert_uint_eq(m->nreturns, 1);
	ripc_message_free(m);
	ck_assert_ptr_null(bufs[1]);
	ck_assert_int_eq(ripc_send_long(s, alice, &back, 1, NULL, -1), 0);
	g = receive(alice);
	ck_assert_str_eq(g.longs[0], "returned");
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
	ripc_unregister(s);
}
END_TEST

/* However many are allocated and not used, so many are held and no more. */
START_TEST(return_bufs__are_bounded)
{
	void *item = "x", *none = NULL;
	uint32_t len = 1, size = 65536;
	struct ripc_stats stats;

	for (int i = 0; i < 2000; i++) {
		struct got g;

		ck_assert_uint_eq(
			ripc_compat_send_short(alice, bob, &item, &len, 1, &none, &size, 1), 0);
		g = receive(bob);
		ripc_compat_buf_free(g.shorts[0]);
		free_arrays(&g);
	}
	ck_assert_int_eq(ripc_stats(NULL, &stats), 0);
	ck_assert_uint_lt(stats.pool_bytes, 600ull * 65536);
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
	free(m); /* may be freed: nobody was told of it */
	ck_assert_uint_eq(send_one(1, bob, alice, "elsewhere", 10), 0);
	g = receive(alice);
	ck_assert_str_eq(g.longs[0], "elsewhere");
	ripc_compat_buf_free(g.longs[0]);
	free_arrays(&g);
}
END_TEST

START_TEST(receive__unknown_service)
{
	struct got g;

	ck_assert_uint_eq(ripc_compat_receive(3, &g.from, &g.shorts, &g.short_sizes, &g.nshort,
					      &g.longs, &g.long_sizes, &g.nlong),
			  255);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(receive__not_wanted)
{
	ck_assert_uint_eq(send_one(0, alice, bob, "x", 1), 0);
	ck_assert_uint_eq(ripc_compat_receive(bob, NULL, NULL, NULL, NULL, NULL, NULL, NULL), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("compat");
	TCase *open = tcase_create("open"), *run = tcase_create("run");

	tcase_add_test(open, init__first_and_again);
	tcase_add_test(open, init__is_implied);
	tcase_add_test(open, init__cannot_be_opened);
	tcase_set_timeout(open, 30);
	suite_add_tcase(suite, open);
	tcase_add_checked_fixture(run, setup, NULL);
	tcase_add_test(run, register_service_id__taken);
	tcase_add_test(run, register_service_id__limits);
	tcase_add_test(run, register_multicast_service_id__reaches_all);
	tcase_add_test(run, buf_alloc__is_writable_and_freed);
	tcase_add_test(run, buf_realloc__keeps_contents);
	tcase_add_test(run, buf_register__again_and_larger);
	tcase_add_test(run, buf_register__buffer_of_the_library);
	tcase_add_test(run, buf_register__memory_came_back);
	tcase_add_test(run, send_short__one_buffer_for_all_items);
	tcase_add_test(run, send_short__zeros_to_the_end);
	tcase_add_test(run, send_short__as_large_as_then);
	tcase_add_test(run, send_short__marked);
	tcase_add_test(run, send_short__nonsense);
	tcase_add_test(run, send_short__many_waiting);
	tcase_add_test(run, send_short__who_asked_has_gone);
	tcase_add_test(run, send_long__items_are_freed_one_by_one);
	tcase_add_test(run, reg_recv_window__one_item_each);
	tcase_add_test(run, reg_recv_window__not_yet_received);
	tcase_add_test(run, reg_recv_window__first_fit_own_ones_first);
	tcase_add_test(run, reg_recv_window__allocated);
	tcase_add_test(run, reg_recv_window__memory_of_the_program);
	tcase_add_test(run, reg_recv_window__freed_and_allocated_again);
	tcase_add_test(run, return_bufs__are_used);
	tcase_add_test(run, return_bufs__offered_again_and_not_used);
	tcase_add_test(run, return_bufs__null_and_zero);
	tcase_add_test(run, return_bufs__are_bounded);
	tcase_add_test(run, return_bufs__unknown_memory);
	tcase_add_test(run, receive__unknown_service);
	tcase_add_test(run, receive__not_wanted);
	tcase_set_timeout(run, 30);
	suite_add_tcase(suite, run);
	return test_main("compat/test_compat", suite);
}
