/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Mapped zero copy between contexts of one host: where items lie, who owns their memory when, and
 * the effects of keeping, freeing and growing it.
 */
#define _GNU_SOURCE
#include "zero_copy_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* ---- where it lies ---- */

START_TEST(export__same_buffer_is_mapped)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "handover=strict", "handover=strict");
	p = buffer(w.a, LEN, 1);
	m = in_place(&w, p, LEN, &r);
	ck_assert(holds(m->items[0].iov_base, LEN, 1));
	ck_assert_ptr_ne(m->items[0].iov_base, p);
	/* One more for a moment, if the sender was slow and has detached its buffer. */
	await_mappings(2);
	ripc_message_free(m);
	finish(r);
	close_two(&w);
	ck_assert_uint_eq(mappings(), 0);
}
END_TEST

START_TEST(export__any_part_of_buffer)
{
	static const struct {
		size_t at, len;
	} parts[] = {
		{0, LEN},
		{1, LEN - 1},
		{4096, 16 * KIB},
		{4095, 16 * KIB + 1},
		{LEN - 40000, 40000},
	};
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	/* The receiver has already mapped it when the next part is sent. */
	p = buffer(w.a, LEN, 2);
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct ripc_request *r;
		struct ripc_message *m;

		/*
		 * If the sender was slow and has detached the buffer, only a whole one is exported
		 * again.
		 */
		for (unsigned k = 0;; k++) {
			ck_assert_uint_lt(k, MCAST_PROBES);
			r = start(&w, p + parts[i].at, parts[i].len);
			m = receive(w.to);
			if (m->placement[0] == RIPC_IN_SENDER_MEMORY)
				break;
			ripc_message_free(m);
			finish(r);
			send_whole(&w, w.to, w.dest, p, LEN);
		}
		ck_assert_uint_eq(m->items[0].iov_len, parts[i].len);
		ck_assert(!memcmp(m->items[0].iov_base, p + parts[i].at, parts[i].len));
		ripc_message_free(m);
		finish(r);
	}
	close_two(&w);
}
END_TEST

START_TEST(export__mixed_items)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct iovec items[4];
	unsigned placed = 0;
	uint8_t *p, *q;
	struct two w;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 3);
	q = buffer(w.a, 2 * LEN, 4);
	items[0] = (struct iovec){p, LEN};
	items[1] = (struct iovec){p + 7, 100};
	items[2] = (struct iovec){malloc(LEN), LEN};
	items[3] = (struct iovec){q + 100, LEN};
	fill(items[2].iov_base, LEN, 5);
	/* Registered memory is never mapped. */
	ck_assert_int_eq(ripc_buf_register(w.a, items[2].iov_base, LEN), 0);
	/* Each exports or skips several items. */
	for (unsigned i = 0; i < MCAST_PROBES / 4 && placed < 2; i++) {
		ck_assert_int_eq(ripc_send_async(w.from, w.dest, items, 4, NULL, &r), 0);
		m = receive(w.to);
		ck_assert_uint_eq(m->nitems, 4);
		for (unsigned k = 0; k < 4; k++)
			ck_assert_mem_eq(m->items[k].iov_base, items[k].iov_base, items[k].iov_len);
		ck_assert_int_ne(m->placement[1], RIPC_IN_SENDER_MEMORY);
		ck_assert_int_ne(m->placement[2], RIPC_IN_SENDER_MEMORY);
		placed = (m->placement[0] == RIPC_IN_SENDER_MEMORY) +
			 (m->placement[3] == RIPC_IN_SENDER_MEMORY);
		ripc_message_free(m);
		finish(r);
		/*
		 * A buffer that was detached, since the sender was slow, is exported again only as
		 * a whole.
		 */
		send_whole(&w, w.to, w.dest, q, 2 * LEN);
	}
	ck_assert_uint_eq(placed, 2);
	ck_assert_int_eq(ripc_buf_unregister(w.a, items[2].iov_base), 0);
	free(items[2].iov_base);
	close_two(&w);
}
END_TEST

START_TEST(export__grown_buffer)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	/* In place, as its class is twice as large: pages are touched for the first time. */
	p = buffer(w.a, 140 * KIB, 6);
	m = in_place(&w, p, 140 * KIB, &r);
	ripc_message_free(m);
	finish(r);
	p = ripc_buf_realloc(w.a, p, LEN);
	ck_assert_ptr_nonnull(p);
	fill(p, LEN, 7);
	m = in_place(&w, p, LEN, &r);
	ck_assert(holds(m->items[0].iov_base, LEN, 7));
	ripc_message_free(m);
	finish(r);
	close_two(&w);
}
END_TEST

START_TEST(export__copied_into_window)
{
	struct ripc_request *r;
	struct ripc_message *m;
	uint8_t *p, *window;
	struct two w;

	open_two(&w, "pool_bytes=0", "pool_bytes=0");
	p = buffer(w.a, LEN, 8);
	m = in_place(&w, p, LEN, &r);
	ripc_message_free(m);
	finish(r);
	window = ripc_buf_alloc(w.b, LEN);
	ck_assert_int_eq(ripc_window_add(w.b, w.to, window, LEN), 0);
	r = start(&w, p, LEN);
	m = receive(w.to);
	ck_assert_int_eq(m->placement[0], RIPC_IN_WINDOW);
	ck_assert_ptr_eq(m->items[0].iov_base, window);
	finish(r);
	/* The buffer is ours again, and later writes do not reach the receiver. */
	memset(p, 0, LEN);
	ck_assert(holds(window, LEN, 8));
	ripc_message_free(m);
	/* The receiver does not need the mapping either. */
	ck_assert_int_eq(ripc_buf_free(w.b, window), 0);
	ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
	await_mappings(0);
	close_two(&w);
}
END_TEST

static void never(const char *more_a, const char *more_b)
{
	struct two w;
	uint8_t *p;

	open_two(&w, more_a, more_b);
	p = buffer(w.a, LEN, 9);
	for (unsigned i = 0; i < 20; i++) {
		struct ripc_request *r = start(&w, p, LEN);
		struct ripc_message *m = receive(w.to);

		ck_assert_int_eq(m->placement[0], RIPC_IN_POOL);
		ck_assert(holds(m->items[0].iov_base, LEN, 9));
		ripc_message_free(m);
		finish(r);
	}
	close_two(&w);
}

START_TEST(export__either_side_disables)
{
	never("handover=off", "");
	never("", "handover=off");
}
END_TEST

/* A process may have closed its standard input: descriptor 0 is one like any other. */
START_TEST(export__descriptor_0)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	close(STDIN_FILENO);
	p = buffer(w.a, LEN, 1);
	ck_assert(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	m = in_place(&w, p, LEN, &r);
	ck_assert(holds(m->items[0].iov_base, LEN, 1));
	ripc_message_free(m);
	finish(r);
	close_two(&w);
}
END_TEST

/* ---- who owns it ---- */

START_TEST(ref__kept_message_blocks_nothing)
{
	struct ripc_message *kept[8];
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 0);
	for (unsigned i = 0; i < 8; i++) {
		struct ripc_request *r;

		fill(p, LEN, i);
		kept[i] = in_place(&w, p, LEN, &r);
		finish(r);
		/*
		 * The request is complete before the message is freed: its bytes stay, and the
		 * buffer is ours.
		 */
		ck_assert(holds(p, LEN, i));
	}
	fill(p, LEN, 99);
	for (unsigned i = 0; i < 8; i++) {
		ck_assert(holds(kept[i]->items[0].iov_base, LEN, i));
		ripc_message_free(kept[i]);
	}
	ck_assert(holds(p, LEN, 99));
	close_two(&w);
	ck_assert_uint_eq(mappings(), 0);
}
END_TEST

/* The receiver has no memory for another item: the mapped one is released, too. */
START_TEST(ref__refused_message)
{
	struct ripc_request *r = NULL;
	struct iovec items[2];
	struct two w;
	size_t huge;

	open_two(&w, "handover=strict", "handover=strict");
	items[0] = (struct iovec){buffer(w.a, LEN, 1), LEN};
	ripc_message_free(in_place(&w, items[0].iov_base, LEN, &r));
	finish(r);
	huge = w.b->host_bytes + 4096;
	items[1] = (struct iovec){
		mmap(NULL, huge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
		huge};
	if (items[1].iov_base == MAP_FAILED) {
		test_skip("no address range as large as the memory: %s", strerror(errno));
		close_two(&w);
		return;
	}
	ck_assert_int_eq(ripc_send_async(w.from, w.dest, items, 2, NULL, &r), 0);
	ck_assert_int_eq(ripc_request_wait(&r, PATIENCE_MS), -ENOBUFS);
	ck_assert_int_eq(ripc_buf_free(w.a, items[0].iov_base), 0);
	await_mappings(0);
	munmap(items[1].iov_base, huge);
	close_two(&w);
}
END_TEST

START_TEST(ref__shrunk_buffer)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	/* In place: a third of its former size. */
	p = ripc_buf_realloc(w.a, buffer(w.a, 300 * KIB, 18), 130 * KIB);
	ck_assert_ptr_nonnull(p);
	m = in_place(&w, p, 130 * KIB, &r);
	finish(r);
	memset(p, 0, 130 * KIB);
	ck_assert(holds(m->items[0].iov_base, 130 * KIB, 18));
	ripc_message_free(m);
	close_two(&w);
}
END_TEST

START_TEST(ref__cancelled_while_kept)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 10);
	m = in_place(&w, p, LEN, &r);
	/* It was delivered: the sender's result shows that. */
	ck_assert_int_eq(ripc_request_cancel(&r, PATIENCE_MS), 0);
	memset(p, 0, LEN);
	ck_assert(holds(m->items[0].iov_base, LEN, 10));
	ripc_message_free(m);
	close_two(&w);
}
END_TEST

START_TEST(ref__window_in_exported_buffer)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, 2 * LEN, 11);
	m = in_place(&w, p, LEN, &r);
	ck_assert_int_eq(ripc_window_add(w.a, w.from, p + LEN, LEN), 0);
	finish(r);
	ck_assert(holds(p, 2 * LEN, 11));
	memset(p, 0, 2 * LEN);
	ck_assert(holds(m->items[0].iov_base, LEN, 11));
	ripc_message_free(m);
	close_two(&w);
}
END_TEST

START_TEST(detach__private_copy)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p, *mine;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 12);
	m = in_place(&w, p, LEN, &r);
	mine = ripc_message_detach(m, 0);
	ck_assert_ptr_nonnull(mine);
	ck_assert_ptr_eq(mine, m->items[0].iov_base);
	ripc_message_free(m);
	finish(r);
	ck_assert(holds(mine, LEN, 12));
	memset(mine, 1, LEN);
	ck_assert(holds(p, LEN, 12));
	ck_assert_int_eq(ripc_buf_free(w.b, mine), 0);
	close_two(&w);
}
END_TEST

/* There is no memory for the copy: the item stays where it is. */
START_TEST(detach__no_memory)
{
	struct rlimit old, none = {0};
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

#ifdef __SANITIZE_ADDRESS__
	test_skip("the address sanitizer needs memory of its own");
	return;
#endif
	open_two(&w, "", "pool_bytes=0");
	p = buffer(w.a, LEN, 12);
	m = in_place(&w, p, LEN, &r);
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &old), 0);
	none.rlim_max = old.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
	errno = 0;
	ck_assert_ptr_null(ripc_message_detach(m, 0));
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &old), 0);
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_int_eq(m->placement[0], RIPC_IN_SENDER_MEMORY);
	ck_assert(holds(m->items[0].iov_base, LEN, 12));
	ripc_message_free(m);
	finish(r);
	close_two(&w);
}
END_TEST

START_TEST(forward__mapped_message)
{
	struct ripc_request *r, *on = NULL;
	struct ripc_service *third;
	struct ripc_message *m;
	struct iovec item;
	struct ripc *c;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	c = open_one("");
	third = serve(c, test_ids() + 2);
	p = buffer(w.a, LEN, 13);
	m = in_place(&w, p, LEN, &r);
	item = m->items[0];
	ck_assert_int_eq(ripc_send_async(w.to, test_ids() + 2, &item, 1, NULL, &on), 0);
	/* Freed before it has arrived: the memory stays until then. */
	ripc_message_free(m);
	finish(r);
	memset(p, 0, LEN);
	m = receive(third);
	ck_assert(holds(m->items[0].iov_base, LEN, 13));
	finish(on);
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(c), 0);
	close_two(&w);
}
END_TEST

START_TEST(buffer__free_unmaps_at_peers)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "pool_bytes=0", "pool_bytes=0");
	p = buffer(w.a, LEN, 14);
	m = in_place(&w, p, LEN, &r);
	finish(r);
	ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
	/* The sender has freed the buffer; the message keeps its memory. */
	ck_assert(holds(m->items[0].iov_base, LEN, 14));
	ripc_message_free(m);
	await_mappings(0);
	close_two(&w);
}
END_TEST

START_TEST(buffer__sealed)
{
	struct two w;
	uint8_t *p;
	int fd;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 15);
	fd = ripc__memory_find(w.a, p, 1)->fd;
	ck_assert_int_ge(fd, 0);
	ck_assert_ptr_eq(mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_lt((int)pwrite(fd, "x", 1, 0), 0);
	ck_assert_int_lt(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	ck_assert_int_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	ck_assert(holds(p, LEN, 15));
	close_two(&w);
}
END_TEST

START_TEST(buffer__more_than_fd_limit)
{
	uint8_t *p[RIPC__MEMFDS_MAX + 8];
	unsigned before = test_descriptors();
	struct two w;

	open_two(&w, "", "");
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX + 8; i++)
		p[i] = buffer(w.a, 64 * KIB, i);
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX + 8; i++) {
		struct ripc_request *r = start(&w, p[i], 64 * KIB);
		struct ripc_message *m = receive(w.to);

		ck_assert(holds(m->items[0].iov_base, 64 * KIB, i));
		ripc_message_free(m);
		finish(r);
	}
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX + 8; i++)
		ck_assert_int_eq(ripc_buf_free(w.a, p[i]), 0);
	close_two(&w);
	ck_assert_uint_eq(test_descriptors(), before);
	ck_assert_uint_eq(mappings(), 0);
}
END_TEST

START_TEST(buffer__used_once_no_memfd)
{
	struct two w;
	uint8_t *p, *first;

	open_two(&w, "handover=strict", "");
	first = buffer(w.a, LEN, 24);
	ck_assert_int_eq(ripc_buf_free(w.a, first), 0);
	for (unsigned i = 0; i < 50; i++) {
		p = buffer(w.a, LEN, 25);
		ck_assert_ptr_eq(p, first);
		send_whole(&w, w.to, w.dest, p, LEN);
		ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
	}
	ck_assert_uint_eq(mappings(), 1);
	close_two(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/export");
	TCase *t = tcase_create("export");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, export__same_buffer_is_mapped);
	tcase_add_test(t, export__any_part_of_buffer);
	tcase_add_test(t, export__mixed_items);
	tcase_add_test(t, export__grown_buffer);
	tcase_add_test(t, export__copied_into_window);
	tcase_add_test(t, export__either_side_disables);
	tcase_add_test(t, export__descriptor_0);
	tcase_add_test(t, ref__kept_message_blocks_nothing);
	tcase_add_test(t, ref__refused_message);
	tcase_add_test(t, ref__shrunk_buffer);
	tcase_add_test(t, ref__cancelled_while_kept);
	tcase_add_test(t, ref__window_in_exported_buffer);
	tcase_add_test(t, detach__private_copy);
	tcase_add_test(t, detach__no_memory);
	tcase_add_test(t, forward__mapped_message);
	tcase_add_test(t, buffer__free_unmaps_at_peers);
	tcase_add_test(t, buffer__sealed);
	tcase_add_test(t, buffer__more_than_fd_limit);
	tcase_add_test(t, buffer__used_once_no_memfd);
	suite_add_tcase(s, t);
	return test_main("transport/shm/export", s);
}
