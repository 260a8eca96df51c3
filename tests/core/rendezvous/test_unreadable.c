/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages with an item that cannot be read, or with a target that cannot be written, over real
 * transports: the memory is named, the peer is not blamed, and other messages go on.
 */
#define _GNU_SOURCE
#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LOW ((void *)0x20000000)

/* GUARD: protected since it was mapped, as the page behind a stack */
enum state { PROTECTED, UNMAPPED, GUARD };

static const struct {
	const char *transports; /* and other settings */
	size_t len;
	bool is_long;
	enum state state;
	unsigned lanes_lost;
} cases[] = {
	{"iwarp/soft", 3000, false, PROTECTED, 0},
	{"iwarp/soft", 3000, false, UNMAPPED, 0},
	{"iwarp/soft", 3000, true, PROTECTED, 0},
	{"iwarp/soft", 1 << 20, true, PROTECTED, 1},
	{"iwarp/soft", 1 << 20, true, UNMAPPED, 1},
	{"iwarp/soft", 1 << 20, true, GUARD, 1},
	{"iwarp/soft short=udp", 3000, false, PROTECTED, 0},
	{"shm", 1 << 20, true, PROTECTED, 1},
	{"shm", 1 << 20, true, UNMAPPED, 0},
};

static struct ripc *ctx[2];
static struct ripc_service *service[2];

static void open_both(const char *transports)
{
	char options[96];

	snprintf(options, sizeof(options), "interfaces=lo transports=%s", transports);
	for (unsigned i = 0; i < 2; i++) {
		int rc = ripc_open(&ctx[i], options);

		ck_assert_msg(!rc, "%s", ripc_error_detail());
		rc = ripc_service_register(ctx[i], RIPC_ANY_ID, 0, &service[i]);
		ck_assert_msg(!rc, "%s", ripc_error_detail());
	}
}

static void exchange(void)
{
	struct iovec item = {(void *)"good", 4};
	struct ripc_message *m;
	int rc = ripc_send_long(service[0], ripc_service_id(service[1]), &item, 1, NULL, 20000);

	ck_assert_msg(!rc, "%s: %s", ripc_strerror(rc), ripc_error_detail());
	ck_assert_int_eq(ripc_receive(service[1], &m, 20000), 0);
	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_eq(m->items[0].iov_len, 4);
	ripc_message_free(m);
}

START_TEST(send__unreadable_item)
{
	size_t len = cases[_i].len;
	struct iovec items[2] = {{(void *)"good", 4}};
	uint64_t dest;
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_route route = {.size = sizeof(route)};
	void *p;
	int rc;

	open_both(cases[_i].transports);
	dest = ripc_service_id(service[1]);
	exchange();
	/* The kernel takes no address down here for other memory. */
	p = mmap(LOW, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	/* shm copies pages that are not present itself. */
	if (cases[_i].state != GUARD)
		memset(p, 1, len);
	items[1] = (struct iovec){p, len};
	ck_assert_int_eq(cases[_i].state == UNMAPPED ? munmap(p, len) : mprotect(p, len, PROT_NONE),
			 0);
	rc = cases[_i].is_long ? ripc_send_long(service[0], dest, items, 2, NULL, 20000)
			       : ripc_send_short(service[0], dest, items, 2, NULL, 20000);
	ck_assert_msg(rc == -EFAULT, "%s: %s", ripc_strerror(rc), ripc_error_detail());
	ck_assert_msg(strstr(ripc_error_detail(), "item 1") != NULL, "%s", ripc_error_detail());
	exchange();
	/* The peer takes datagrams as before. */
	ck_assert_int_eq(ripc_route_lookup(ctx[0], dest, &route, 20000), 0);
	ck_assert_ptr_null(strstr(route.reason, "takes no datagrams"));
	ck_assert_int_eq(ripc_context_stats(ctx[0], &stats), 0);
	ck_assert_uint_le(stats.lanes_lost, cases[_i].lanes_lost);
	ck_assert_uint_eq(stats.peers_lost, 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i]), 0);
}
END_TEST

START_TEST(send__unreadable_item_to_group)
{
	struct iovec item = {NULL, 1000};
	uint64_t group;
	int rc;

	open_both("iwarp/soft");
	/* One that no other process of this host uses. */
	group = 1 + ripc_service_id(service[1]) % (RIPC_GROUP_LIMIT - 1);
	ck_assert_int_eq(ripc_group_join(service[1], group, 20000), 0);
	item.iov_base = mmap(NULL, item.iov_len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(item.iov_base, MAP_FAILED);
	rc = ripc_group_send(service[0], group, &item, 1, NULL, 20000);
	ck_assert_msg(rc == -EFAULT, "%s: %s", ripc_strerror(rc), ripc_error_detail());
	exchange();
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i]), 0);
}
END_TEST

static unsigned unwritable_logged;

static void log_hook(void *arg, enum ripc_log_level level, const char *line)
{
	(void)arg;
	unwritable_logged += level == RIPC_LOG_ERROR && strstr(line, "cannot be written") != NULL;
}

/*
 * The application has taken away the memory of a receive window: the window is given up, and
 * messages arrive in other memory.
 */
START_TEST(receive__unwritable_window)
{
	size_t len = 1 << 20;
	struct iovec item = {malloc(len), len};
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_message *m;
	void *p;
	int rc;

	open_both("shm");
	exchange();
	ripc_log_set(log_hook, NULL, RIPC_LOG_ERROR);
	memset(item.iov_base, 7, len);
	p = mmap(LOW, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	memset(p, 1, len);
	ck_assert_int_eq(ripc_buf_register(ctx[1], p, len), 0);
	ck_assert_int_eq(ripc_window_add(ctx[1], _i % 2 ? service[1] : NULL, p, len), 0);
	if (_i < 2)
		ck_assert_int_eq(munmap(p, len), 0);
	else
		ck_assert_int_eq(mprotect(p, len, PROT_READ), 0);
	for (unsigned i = 0; i < 2; i++) {
		rc = ripc_send_long(service[0], ripc_service_id(service[1]), &item, 1, NULL, 20000);
		ck_assert_msg(!rc, "%s: %s", ripc_strerror(rc), ripc_error_detail());
		ck_assert_int_eq(ripc_receive(service[1], &m, 20000), 0);
		ck_assert_uint_eq(m->items[0].iov_len, len);
		ck_assert_ptr_ne(m->items[0].iov_base, p);
		ck_assert_mem_eq(m->items[0].iov_base, item.iov_base, len);
		ripc_message_free(m);
	}
	exchange();
	ck_assert_uint_eq(unwritable_logged, 1);
	ck_assert_int_eq(ripc_window_remove(ctx[1], p), -EINVAL);
	ck_assert_int_eq(ripc_buf_unregister(ctx[1], p), 0);
	ck_assert_int_eq(ripc_context_stats(ctx[0], &stats), 0);
	ck_assert_uint_le(stats.lanes_lost, 1);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i]), 0);
	free(item.iov_base);
}
END_TEST

/* The same of a return buffer. */
START_TEST(receive__unwritable_return_buffer)
{
	size_t len = 1 << 20;
	struct iovec item = {malloc(len), len}, small = {(void *)"x", 1}, back;
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	struct ripc_message *m;
	void *p;
	int rc;

	open_both("shm");
	exchange();
	ripc_log_set(log_hook, NULL, RIPC_LOG_ERROR);
	memset(item.iov_base, 7, len);
	p = mmap(LOW, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	memset(p, 1, len);
	ck_assert_int_eq(ripc_buf_register(ctx[1], p, len), 0);
	back = (struct iovec){p, len};
	rc = ripc_send_short(service[1], ripc_service_id(service[0]), &small, 1, &options, 20000);
	ck_assert_msg(!rc, "%s", ripc_error_detail());
	ck_assert_int_eq(ripc_receive(service[0], &m, 20000), 0);
	ripc_message_free(m);
	ck_assert_int_eq(_i ? mprotect(p, len, PROT_READ) : munmap(p, len), 0);
	for (unsigned i = 0; i < 2; i++) {
		rc = ripc_send_long(service[0], ripc_service_id(service[1]), &item, 1, NULL, 20000);
		ck_assert_msg(!rc, "%s: %s", ripc_strerror(rc), ripc_error_detail());
		ck_assert_int_eq(ripc_receive(service[1], &m, 20000), 0);
		ck_assert_uint_eq(m->items[0].iov_len, len);
		ck_assert_ptr_ne(m->items[0].iov_base, p);
		ck_assert_mem_eq(m->items[0].iov_base, item.iov_base, len);
		ripc_message_free(m);
	}
	exchange();
	ck_assert_uint_eq(unwritable_logged, 1);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i]), 0);
	free(item.iov_base);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/unreadable");
	TCase *tc = tcase_create("unreadable");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, send__unreadable_item, 0, sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tc, send__unreadable_item_to_group);
	tcase_add_loop_test(tc, receive__unwritable_window, 0, 4);
	tcase_add_loop_test(tc, receive__unwritable_return_buffer, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/unreadable", suite);
}
