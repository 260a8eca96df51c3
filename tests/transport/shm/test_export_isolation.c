/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * In the strict mode a peer that keeps all it ever imported sees nothing of later uses of the
 * memory.
 */
#define _GNU_SOURCE
#include "zero_copy_pair.h"

#include <stdlib.h>
#include <sys/mman.h>

/*
 * An item in place, as a peer sees it that keeps everything: a second mapping of the same memory.
 */
static const uint8_t *map_peer_buffer(const struct ripc_message *m)
{
	void *spy = mremap(m->items[0].iov_base, 0, m->items[0].iov_len, MREMAP_MAYMOVE);

	ck_assert_ptr_ne(spy, MAP_FAILED);
	return spy;
}

/* A buffer that was exported to b, and returned by it. */
static const uint8_t *exported_once(struct two *w, uint8_t *p, size_t len)
{
	const uint8_t *spy;
	struct ripc_request *r;
	struct ripc_message *m = in_place(w, p, len, &r);

	spy = map_peer_buffer(m);
	ck_assert(!memcmp(spy, p, len));
	ripc_message_free(m);
	finish(r);
	return spy;
}

static bool shows(const uint8_t *spy, size_t len, uint8_t byte)
{
	for (size_t i = 0; i < len; i++)
		if (spy[i] == byte)
			return true;
	return false;
}

#define SECRET 0xe7

/* Whether a mapping of b's peers shows this byte. */
static bool import_shows(struct ripc *b, uint8_t byte)
{
	bool found = false;

	ripc__lock(b);
	for (size_t i = 0; i < b->memory->nregions; i++) {
		struct ripc__region *r = b->memory->regions[i];

		found |= r->state == RIPC__REGION_IMPORTED && shows(r->base, r->cap, byte);
	}
	ripc__unlock(b);
	return found;
}

START_TEST(isolation__next_use_hidden)
{
	const uint8_t *spy;
	struct two w;
	uint8_t *p;

	open_two(&w, "handover=strict", "handover=strict");
	p = buffer(w.a, LEN, 20);
	memset(p, 1, LEN);
	spy = exported_once(&w, p, LEN);
	ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
	for (unsigned i = 0; i < 8; i++) {
		p = ripc_buf_alloc(w.a, LEN);
		ck_assert_ptr_nonnull(p);
		memset(p, SECRET, LEN);
		ck_assert(!shows(spy, LEN, SECRET));
	}
	munmap((void *)spy, LEN);
	close_two(&w);
}
END_TEST

START_TEST(isolation__after_send_to_other)
{
	struct ripc_service *third;
	const uint8_t *spy;
	struct ripc *c;
	struct two w;
	uint8_t *p;

	open_two(&w, "handover=strict", "handover=strict");
	c = open_one("handover=strict");
	third = serve(c, test_ids() + 2);
	p = buffer(w.a, LEN, 21);
	memset(p, 1, LEN);
	spy = exported_once(&w, p, LEN);
	send_whole(&w, third, test_ids() + 2, p, LEN);
	for (unsigned i = 0; i < 200; i++) {
		memset(p, SECRET, LEN);
		send_whole(&w, third, test_ids() + 2, p, LEN);
		ck_assert(!shows(spy, LEN, SECRET));
	}
	munmap((void *)spy, LEN);
	ck_assert_int_eq(ripc_close(c), 0);
	close_two(&w);
}
END_TEST

START_TEST(isolation__alternating_peers)
{
	struct ripc_service *third;
	struct ripc *c;
	struct two w;
	uint8_t *p;

	open_two(&w, "handover=strict", "handover=strict");
	c = open_one("handover=strict");
	third = serve(c, test_ids() + 2);
	p = buffer(w.a, LEN, 22);
	for (unsigned i = 0; i < 200; i++) {
		memset(p, 1, LEN);
		send_whole(&w, w.to, w.dest, p, LEN);
		memset(p, SECRET, LEN);
		send_whole(&w, third, test_ids() + 2, p, LEN);
		ck_assert(!import_shows(w.b, SECRET));
		ck_assert(!import_shows(c, 1));
	}
	ck_assert_int_eq(ripc_close(c), 0);
	close_two(&w);
}
END_TEST

START_TEST(isolation__from_other_peer)
{
	struct ripc_service *third;
	const uint8_t *spy;
	struct ripc_message *m;
	struct ripc_request *r;
	struct iovec item;
	struct ripc *c;
	struct two w;
	uint8_t *p;

	open_two(&w, "handover=strict", "handover=strict");
	c = open_one("handover=strict");
	third = serve(c, test_ids() + 2);
	p = buffer(w.a, LEN, 23);
	memset(p, 1, LEN);
	spy = exported_once(&w, p, LEN);
	/* Not exported at this moment, but b has mapped it. */
	ck_assert_int_eq(ripc_window_add(w.a, w.from, p, LEN), 0);
	item = (struct iovec){malloc(LEN), LEN};
	memset(item.iov_base, SECRET, LEN);
	ck_assert_int_eq(ripc_send_async(third, test_ids(), &item, 1, NULL, &r), 0);
	m = receive(w.from);
	ck_assert_int_eq(m->placement[0], RIPC_IN_WINDOW);
	ck_assert_int_eq(p[LEN - 1], SECRET);
	ck_assert(!shows(spy, LEN, SECRET));
	ripc_message_free(m);
	finish(r);
	free(item.iov_base);
	munmap((void *)spy, LEN);
	ck_assert_int_eq(ripc_close(c), 0);
	close_two(&w);
}
END_TEST

START_TEST(isolation__former_use_hidden)
{
	struct two w;
	uint8_t *p, *q;

	open_two(&w, "handover=strict", "handover=strict");
	p = ripc_buf_alloc(w.a, LEN);
	memset(p, SECRET, LEN);
	ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
	/* The same memory: the most recently used buffer comes first. */
	q = ripc_buf_alloc(w.a, LEN - LEN / 4);
	ck_assert_ptr_eq(q, p);
	memset(q + LEN / 4, 1, LEN / 4);
	/* A part of it, with earlier contents on both sides. */
	for (unsigned i = 0; i < 200; i++) {
		send_whole(&w, w.to, w.dest, q + LEN / 4, LEN / 4);
		ck_assert(!import_shows(w.b, SECRET));
	}
	/* All of it: the bytes after its end do not belong to it. */
	memset(q, 1, LEN - LEN / 4);
	exported_once(&w, q, LEN - LEN / 4);
	ck_assert(!import_shows(w.b, SECRET));
	close_two(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/export_isolation");
	TCase *t = tcase_create("sees");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, isolation__next_use_hidden);
	tcase_add_test(t, isolation__after_send_to_other);
	tcase_add_test(t, isolation__alternating_peers);
	tcase_add_test(t, isolation__from_other_peer);
	tcase_add_test(t, isolation__former_use_hidden);
	suite_add_tcase(s, t);
	return test_main("transport/shm/export_isolation", s);
}
