/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages with an item that cannot be read, over real transports: the item is named, the peer is
 * not blamed, and other messages go on.
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

static const struct {
	const char *transports;
	size_t len;
	bool is_long, unmapped;
	unsigned lanes_lost;
} cases[] = {
	{"iwarp/soft", 3000, false, false, 0},  {"iwarp/soft", 3000, false, true, 0},
	{"iwarp/soft", 3000, true, false, 0},   {"iwarp/soft", 1 << 20, true, false, 1},
	{"iwarp/soft", 1 << 20, true, true, 1}, {"shm", 1 << 20, true, false, 1},
	{"shm", 1 << 20, true, true, 0},
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
	memset(p, 1, len);
	items[1] = (struct iovec){p, len};
	ck_assert_int_eq(cases[_i].unmapped ? munmap(p, len) : mprotect(p, len, PROT_NONE), 0);
	rc = cases[_i].is_long ? ripc_send_long(service[0], dest, items, 2, NULL, 20000)
			       : ripc_send_short(service[0], dest, items, 2, NULL, 20000);
	ck_assert_msg(rc == -EFAULT, "%s: %s", ripc_strerror(rc), ripc_error_detail());
	ck_assert_msg(strstr(ripc_error_detail(), "item 1") != NULL, "%s", ripc_error_detail());
	exchange();
	ck_assert_int_eq(ripc_context_stats(ctx[0], &stats), 0);
	ck_assert_uint_le(stats.lanes_lost, cases[_i].lanes_lost);
	ck_assert_uint_eq(stats.peers_lost, 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i]), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/unreadable");
	TCase *tc = tcase_create("unreadable");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, send__unreadable_item, 0, sizeof(cases) / sizeof(cases[0]));
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/unreadable", suite);
}
