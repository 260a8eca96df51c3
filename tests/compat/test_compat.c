/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Each behaviour that programs of 2012 rely on, and what they may no longer be harmed by; memory:
 * test_memory.c.
 */
#include "compat.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Lines on standard error meanwhile. */
struct capture {
	FILE *file;
	int before;
	char text[4096];
};

static void capture_begin(struct capture *c)
{
	fflush(stderr);
	c->before = dup(STDERR_FILENO);
	c->file = tmpfile();
	ck_assert(c->before >= 0 && c->file);
	ck_assert_int_eq(dup2(fileno(c->file), STDERR_FILENO), STDERR_FILENO);
}

/* Return: how many lines there were. */
static unsigned capture_end(struct capture *c)
{
	ssize_t n = pread(fileno(c->file), c->text, sizeof(c->text) - 1, 0);
	unsigned lines = 0;

	ck_assert(n >= 0);
	c->text[n] = 0;
	ck_assert_int_eq(dup2(c->before, STDERR_FILENO), STDERR_FILENO);
	close(c->before);
	fclose(c->file);
	for (const char *p = c->text; *p; p++)
		lines += *p == '\n';
	return lines;
}

START_TEST(init__first_and_again)
{
	ck_assert_uint_eq(ripc_compat_init(), 0);
	ck_assert_uint_eq(ripc_compat_init(), 1);
	ck_assert_uint_eq(ripc_compat_ripc_init(), 1);
}
END_TEST

START_TEST(init__implicit)
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

struct waiting {
	uint16_t id;
	struct got got;
};

static void *wait_for_message(void *arg)
{
	struct waiting *w = arg;

	w->got = receive(w->id);
	return NULL;
}

/*
 * Programs of 2012 do not check whether they got the id. The library logs that, and they wait for
 * messages until they get it; in 2012 they crashed by an invalid message.
 */
START_TEST(register_service_id__held_by_another_process)
{
	struct waiting w[2] = {{.id = 8080}, {.id = 8080}};
	struct capture c;
	struct ripc *other;
	struct ripc_service *s;
	struct got g;
	pthread_t thread[2];
	unsigned lines;

	ck_assert_int_eq(ripc_open(&other, NULL), 0);
	ck_assert_int_eq(ripc_service_register(other, 8080, 0, &s), 0);
	capture_begin(&c);
	ck_assert_uint_eq(ripc_compat_register_service_id(8080), 0);
	ck_assert_int_eq(errno, EADDRINUSE);
	ck_assert_uint_eq(ripc_compat_register_service_id(8080), 0);
	/* One of our own is none of another process. */
	ck_assert_uint_eq(ripc_compat_register_service_id(alice), 0);
	lines = capture_end(&c);
	ck_assert_msg(lines == 1, "%u lines: %s", lines, c.text);
	ck_assert_msg(strstr(c.text, "ripc_register_service_id(): ") && strstr(c.text, "8080"),
		      "%s", c.text);

	/* It may send meanwhile. */
	ck_assert_uint_eq(send_one(0, 8080, bob, "from nowhere", 12), 0);
	g = receive(bob);
	ck_assert_uint_eq(g.from, 0);
	ck_assert_str_eq(g.shorts[0], "from nowhere");
	ripc_compat_buf_free(g.shorts[0]);
	free_arrays(&g);

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, wait_for_message, &w[i]), 0);
	ck_assert_int_eq(ripc_close(other), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(send_one(0, alice, 8080, "at last", 7), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
		ck_assert_uint_eq(w[i].got.from, alice);
		ck_assert_str_eq(w[i].got.shorts[0], "at last");
		ripc_compat_buf_free(w[i].got.shorts[0]);
		free_arrays(&w[i].got);
	}
	/* Now it is ours. */
	ck_assert_uint_eq(send_one(0, 8080, bob, "from 8080", 9), 0);
	g = receive(bob);
	ck_assert_uint_eq(g.from, 8080);
	ripc_compat_buf_free(g.shorts[0]);
	free_arrays(&g);
}
END_TEST

/*
 * A program that ignores the result of a send gets one log line with the reason, however often it
 * sends.
 */
START_TEST(send_short__too_long_is_reported)
{
	static char data[RECV_BUF_SIZE + 1];
	struct capture c;
	unsigned lines;

	capture_begin(&c);
	for (int i = 0; i < 100; i++)
		ck_assert_uint_eq(send_one(0, alice, bob, data, sizeof(data)), 1);
	lines = capture_end(&c);
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_msg(lines == 1, "%u lines: %s", lines, c.text);
	ck_assert_msg(strstr(c.text, "ripc_send_short(): 2001 bytes ") && strstr(c.text, "2000"),
		      "%s", c.text);
	/* Another fault is another line. */
	capture_begin(&c);
	ck_assert_uint_eq(send_one(0, 3, bob, data, 1), 1);
	ck_assert_uint_eq(send_one(1, 3, bob, data, 1), 1);
	ck_assert_uint_eq(ripc_compat_receive(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL), 255);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(data, 1000), 0);
	ck_assert_uint_eq(ripc_compat_reg_recv_window(data + 100, 100), 1);
	lines = capture_end(&c);
	ck_assert_msg(lines == 4 && strstr(c.text, "it overlaps a window"), "%s", c.text);
}
END_TEST

/* Calls that may fail in a healthy program print nothing. */
START_TEST(no_failure__is_not_reported)
{
	struct capture c;
	unsigned lines;

	capture_begin(&c);
	ck_assert_ptr_null(ripc_compat_buf_alloc(0));
	ck_assert_uint_eq(ripc_compat_buf_unregister(&c), 0);
	ck_assert_uint_eq(ripc_compat_register_service_id(bob), 0);
	ck_assert_uint_eq(send_one(0, alice, bob, "x", 1), 0);
	ck_assert_uint_eq(ripc_compat_receive(bob, NULL, NULL, NULL, NULL, NULL, NULL, NULL), 0);
	lines = capture_end(&c);
	ck_assert_msg(!lines, "%s", c.text);
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

/*
 * A message to a multicast id reaches all its services, here and elsewhere; the sender need not
 * know that the id is multicast.
 */
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
	ck_assert_uint_eq(ripc_compat_register_service_id(100), 0);
	ck_assert_int_eq(errno, EADDRINUSE);
	ck_assert_uint_eq(send_one(0, alice, 100, "to all", 7), 0);
	g = receive(100);
	ck_assert_uint_eq(g.from, alice);
	ck_assert_uint_eq(g.nshort, 1);
	ck_assert_str_eq(g.shorts[0], "to all");
	ripc_compat_buf_free(g.shorts[0]);
	free_arrays(&g);

	ck_assert_int_eq(ripc_open(&other, NULL), 0);
	ck_assert_int_eq(ripc_service_register(other, RIPC_ANY_ID, 0, &member), 0);
	ck_assert_int_eq(ripc_group_join(member, UINT64_C(0x20120000) << 16 | 101, 20000), 0);
	ck_assert_uint_eq(send_one(0, alice, 101, "to you", 7), 0);
	ck_assert_int_eq(ripc_receive(member, &m, 20000), 0);
	ck_assert_uint_eq(m->source, alice);
	ck_assert_str_eq(m->items[0].iov_base, "to you");
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(other), 0);
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
		/* The alignment of an int, and the end of a text. */
		ck_assert_uint_eq((uintptr_t)g.shorts[i] % sizeof(long long), 0);
		ck_assert_int_eq(((char *)g.shorts[i])[lens[i]], 0);
		/* It may be written and all lie close together. */
		((char *)g.shorts[i])[lens[i]] = 'x';
		size_t at = (size_t)((char *)g.shorts[i] - (char *)g.shorts[0]);

		ck_assert_uint_lt(at, RECV_BUF_SIZE);
	}
	/* One of them, and be it the empty one. */
	ripc_compat_buf_free(g.shorts[2]);
	/* It is gone as a whole. */
	ck_assert_ptr_null(ripc_compat_buf_realloc(g.shorts[0], 10));
	free_arrays(&g);
}
END_TEST

START_TEST(send_short__trailing_zeros)
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

START_TEST(send_short__max_size_of_2012)
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

/*
 * A message too long for short sends of a transport is sent as a marked long message, and must be
 * received as a short one, with or without windows.
 */
START_TEST(send_short__marked)
{
	struct iovec items[3] = {{NULL, 16}, {"body", 4}, {"", 0}};
	uint8_t mark[16] = {0x9d, 0x1e, 0x6b, 0x52, 0x49, 0x50, 0x43, 0x32,
			    0xf4, 0x30, 0x7a, 0xc8, 0x05, 0xb1, 0xe3, 0x68};
	char *window = ripc_compat_buf_alloc(1000);
	struct ripc_service *s;
	struct got g;

	items[0].iov_base = mark;
	ck_assert_int_eq(ripc_service_register(NULL, RIPC_ANY_ID, 0, &s), 0);
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
	ripc_service_unregister(s);
}
END_TEST

/*
 * One release took lengths as uint32_t *, another as size_t *. The second length was 0 when they
 * were mixed up.
 */
START_TEST(send__lengths_of_either_type)
{
	int number = 17;
	void *it[3] = {&number, "a text", "more"}, *own = NULL;
	uint32_t n32[3] = {sizeof(number), 6, 4};
	size_t n64[3] = {sizeof(number), 6, 4}, own_len = 300;
	int n32s[3] = {sizeof(number), 6, 4};

	for (int how = 0; how < 7; how++) {
		uint8_t rc =
			how == 0   ? ripc_compat_send_short(alice, bob, it, n32, 3, NULL, NULL, 0)
			: how == 1 ? ripc_compat_send_short(alice, bob, it, n64, 3, NULL, NULL, 0)
			: how == 2 ? ripc_compat_send_short(alice, bob, it, n32s, 3, NULL, NULL, 0)
			: how == 3
				? ripc_compat_send_short(alice, bob, it, n64, 3, &own, &own_len, 1)
			: how == 4 ? ripc_compat_send_long(alice, bob, it, n32, 3, NULL, NULL, 0)
			: how == 5
				? ripc_compat_send_long(alice, bob, it, n64, 3, NULL, NULL, 0)
				: ripc_compat_send_long(alice, bob, it, n64, 3, &own, &own_len, 1);
		struct got g;
		void **got;
		uint32_t *sizes;

		ck_assert_uint_eq(rc, 0);
		g = receive(bob);
		ck_assert_uint_eq(how < 4 ? g.nshort : g.nlong, 3);
		got = how < 4 ? g.shorts : g.longs;
		sizes = how < 4 ? g.short_sizes : g.long_sizes;
		for (int i = 0; i < 3; i++) {
			ck_assert_uint_eq(sizes[i], n32[i]);
			ck_assert(!memcmp(got[i], it[i], n32[i]));
		}
		for (int i = how < 4 ? 2 : 0; i < 3; i++)
			ripc_compat_buf_free(got[i]);
		free_arrays(&g);
	}
}
END_TEST

/* Receivers of 2012 cannot represent such a length: it must not arrive truncated. */
START_TEST(send__length_of_more_than_32_bits)
{
	void *item = "x";
	size_t len = ((size_t)1 << 32) + 1;

	ck_assert_uint_eq(ripc_compat_send_short(alice, bob, &item, &len, 1, NULL, NULL, 0), 1);
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_uint_eq(ripc_compat_send_long(alice, bob, &item, &len, 1, NULL, NULL, 0), 1);
	ck_assert_int_eq(errno, EMSGSIZE);
	/* Nor the number of items. */
	len = 1;
	ck_assert_uint_eq(ripc_compat_send_short(alice, bob, &item, &len, 65537, NULL, NULL, 0), 1);
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

/* Servers with lengths as size_t * return a message by a cast of the sizes that it came with. */
START_TEST(send__sizes_received_and_cast)
{
	for (uint32_t n = 1; n <= 5; n++)
		for (int is_long = 0; is_long < 2; is_long++) {
			void *items[5] = {"zero", "one", "", "three", "four"};
			uint32_t lens[5] = {4, 3, 0, 5, 4};
			struct got there, back;
			void **got;
			size_t *sz;
			uint8_t rc;

			rc = is_long ? ripc_compat_send_long(alice, bob, items, lens, (uint16_t)n,
							     NULL, NULL, 0)
				     : ripc_compat_send_short(alice, bob, items, lens, (uint16_t)n,
							      NULL, NULL, 0);
			ck_assert_uint_eq(rc, 0);
			there = receive(bob);
			got = is_long ? there.longs : there.shorts;
			sz = (size_t *)(void *)(is_long ? there.long_sizes : there.short_sizes);
			rc = is_long ? ripc_compat_send_long(bob, alice, got, sz, n, NULL, NULL, 0)
				     : ripc_compat_send_short(bob, alice, got, sz, n, NULL, NULL,
							      0);
			ck_assert_uint_eq(rc, 0);
			back = receive(alice);
			ck_assert_uint_eq(is_long ? back.nlong : back.nshort, n);
			for (uint32_t i = 0; i < n; i++) {
				void *item = is_long ? back.longs[i] : back.shorts[i];
				uint32_t size = is_long ? back.long_sizes[i] : back.short_sizes[i];

				ck_assert_uint_eq(size, lens[i]);
				ck_assert(!memcmp(item, items[i], size));
				if (is_long || i == 0) {
					ripc_compat_buf_free(item);
					ripc_compat_buf_free(got[i]);
				}
			}
			free_arrays(&there);
			free_arrays(&back);
		}
}
END_TEST

START_TEST(send_short__invalid_arguments)
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

START_TEST(send_short__requester_gone)
{
	struct ripc *other;
	struct ripc_service *s;
	struct iovec item = {"question", 8};
	uint16_t id = (uint16_t)(alice ^ 1);
	struct got g;

	if (id == bob)
		id ^= 2;
	ck_assert_int_eq(ripc_open(&other, NULL), 0);
	ck_assert_int_eq(ripc_service_register(other, id, 0, &s), 0);
	ck_assert_int_eq(ripc_send_short(s, bob, &item, 1, NULL, -1), 0);
	g = receive(bob);
	ck_assert_uint_eq(g.from, id);
	ck_assert_uint_eq(send_one(0, bob, id, "answer", 6), 0);
	ck_assert_int_eq(ripc_close(other), 0);
	/*
	 * The server must not wait for ever, because it has other clients. The first message may
	 * leave before the end is known.
	 */
	AWAIT(send_one(0, bob, id, "answer", 6));
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
	tcase_add_test(open, init__implicit);
	tcase_add_test(open, init__cannot_be_opened);
	tcase_set_timeout(open, 30);
	suite_add_tcase(suite, open);
	tcase_add_checked_fixture(run, setup, NULL);
	tcase_add_test(run, register_service_id__taken);
	tcase_add_test(run, register_service_id__held_by_another_process);
	tcase_add_test(run, register_service_id__limits);
	tcase_add_test(run, register_multicast_service_id__reaches_all);
	tcase_add_test(run, send_short__one_buffer_for_all_items);
	tcase_add_test(run, send_short__trailing_zeros);
	tcase_add_test(run, send_short__max_size_of_2012);
	tcase_add_test(run, send_short__too_long_is_reported);
	tcase_add_test(run, no_failure__is_not_reported);
	tcase_add_test(run, send_short__marked);
	tcase_add_test(run, send__lengths_of_either_type);
	tcase_add_test(run, send__length_of_more_than_32_bits);
	tcase_add_test(run, send__sizes_received_and_cast);
	tcase_add_test(run, send_short__invalid_arguments);
	tcase_add_test(run, send_short__many_waiting);
	tcase_add_test(run, send_short__requester_gone);
	tcase_add_test(run, send_long__items_are_freed_one_by_one);
	tcase_add_test(run, receive__unknown_service);
	tcase_add_test(run, receive__not_wanted);
	tcase_set_timeout(run, 30);
	suite_add_tcase(suite, run);
	return test_main("compat/compat", suite);
}
