/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages that are handed over between processes of one host: where they lie, whose the memory is when, and what
 * becomes of it when somebody keeps it, frees it, grows it, dies, or wants to do harm.
 */
#define _GNU_SOURCE
#include "core/context.h"
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB         ((size_t)1024)
#define LEN         (256 * KIB)
#define PATIENCE_MS 20000
#define TRIES       5000 /* a service that was slow is lent to again after 1024 items at most */

static uint64_t first_id;

/* Two contexts of this process, and a service of each. */
struct two {
	struct ripc *a, *b;
	struct ripc_service *from, *to;
	uint64_t dest;
};

static struct ripc *open_one(const char *more)
{
	char options[160];
	struct ripc *ctx = NULL;

	snprintf(options, sizeof(options),
		 "transports=window/shm resolver=local peer_timeout_ms=20000 %s", more);
	ck_assert_msg(!ripc_open(&ctx, options), "%s", ripc_detail());
	return ctx;
}

static struct ripc_service *serve(struct ripc *ctx, uint64_t id)
{
	struct ripc_service *s = NULL;

	ck_assert_msg(!ripc_register(ctx, id, 0, &s), "%s", ripc_detail());
	return s;
}

static void open_two(struct two *w, const char *more_a, const char *more_b)
{
	w->a = open_one(more_a);
	w->b = open_one(more_b);
	w->dest = first_id + 1;
	w->from = serve(w->a, first_id);
	w->to = serve(w->b, w->dest);
}

static void close_two(struct two *w)
{
	ck_assert_int_eq(ripc_close(w->a), 0);
	ck_assert_int_eq(ripc_close(w->b), 0);
}

static void fill(uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(tag * 31 + i + i / 251);
}

static bool holds(const uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(tag * 31 + i + i / 251))
			return false;
	return true;
}

static uint8_t *buffer(struct ripc *ctx, size_t len, uint64_t tag)
{
	uint8_t *p = ripc_buf_alloc(ctx, len);

	ck_assert_ptr_nonnull(p);
	fill(p, len, tag);
	return p;
}

static struct ripc_request *start(struct two *w, void *base, size_t len)
{
	struct iovec item = {base, len};
	struct ripc_request *r = NULL;

	ck_assert_msg(!ripc_start(w->from, w->dest, &item, 1, NULL, &r), "%s", ripc_detail());
	return r;
}

static void finish(struct ripc_request *r)
{
	ck_assert_msg(!ripc_request_wait(&r, PATIENCE_MS), "%s", ripc_detail());
}

static struct ripc_message *receive(struct ripc_service *s)
{
	struct ripc_message *m = NULL;

	ck_assert_msg(!ripc_receive(s, &m, PATIENCE_MS), "%s", ripc_detail());
	return m;
}

/* Sends until a message lies in place, and leaves that one with the caller, its request under way. */
static struct ripc_message *in_place(struct two *w, uint8_t *base, size_t len,
				     struct ripc_request **request)
{
	for (unsigned i = 0; i < TRIES; i++) {
		struct ripc_request *r = start(w, base, len);
		struct ripc_message *m = receive(w->to);

		ck_assert_uint_eq(m->nitems, 1);
		ck_assert_uint_eq(m->items[0].iov_len, len);
		if (m->placement[0] == RIPC_IN_PLACE) {
			*request = r;
			return m;
		}
		ripc_message_free(m);
		finish(r);
	}
	ck_abort_msg("no message in place after %d", TRIES);
	return NULL;
}

/* Mappings of such buffers in this process, the contexts' own and those of peers. */
static unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:ripc-buffer") != NULL;
	fclose(f);
	return n;
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Lets the contexts' threads come to it. */
static void await_mappings(unsigned want)
{
	for (unsigned i = 0; mappings() != want && i < PATIENCE_MS; i++)
		usleep(1000);
	ck_assert_uint_eq(mappings(), want);
}

/* ---- where it lies ---- */

START_TEST(offer__the_same_buffer_lies_in_place)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 1);
	m = in_place(&w, p, LEN, &r);
	ck_assert(holds(m->items[0].iov_base, LEN, 1));
	ck_assert_ptr_ne(m->items[0].iov_base, p);
	/* One more for a moment, if it took so long that the sender gives its buffer other memory. */
	await_mappings(2);
	ripc_message_free(m);
	finish(r);
	close_two(&w);
	ck_assert_uint_eq(mappings(), 0);
}
END_TEST

START_TEST(offer__any_part_of_a_buffer)
{
	static const struct {
		size_t at, len;
	} parts[] = {
		{0, LEN}, {1, LEN - 1}, {4096, 16 * KIB}, {4095, 16 * KIB + 1}, {LEN - 40000, 40000}};
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 2);
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct ripc_request *r;
		struct ripc_message *m = in_place(&w, p + parts[i].at, parts[i].len, &r);

		ck_assert(!memcmp(m->items[0].iov_base, p + parts[i].at, parts[i].len));
		ripc_message_free(m);
		finish(r);
	}
	close_two(&w);
}
END_TEST

START_TEST(offer__items_of_all_kinds_in_one_message)
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
	for (unsigned i = 0; i < TRIES && placed < 2; i++) {
		ck_assert_int_eq(ripc_start(w.from, w.dest, items, 4, NULL, &r), 0);
		m = receive(w.to);
		ck_assert_uint_eq(m->nitems, 4);
		for (unsigned k = 0; k < 4; k++)
			ck_assert(!memcmp(m->items[k].iov_base, items[k].iov_base, items[k].iov_len));
		ck_assert_int_ne(m->placement[1], RIPC_IN_PLACE);
		ck_assert_int_ne(m->placement[2], RIPC_IN_PLACE);
		placed = (m->placement[0] == RIPC_IN_PLACE) + (m->placement[3] == RIPC_IN_PLACE);
		ripc_message_free(m);
		finish(r);
	}
	ck_assert_uint_eq(placed, 2);
	free(items[2].iov_base);
	close_two(&w);
}
END_TEST

START_TEST(offer__a_buffer_that_has_grown)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	/* In place, since its class is twice as large: pages are touched that were not before. */
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

START_TEST(offer__a_window_is_copied_into)
{
	struct ripc_request *r;
	struct ripc_message *m;
	uint8_t *p, *window;
	struct two w;

	open_two(&w, "", "");
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
	/* Ours again, and what is written into it now is no business of the receiver. */
	memset(p, 0, LEN);
	ck_assert(holds(window, LEN, 8));
	ripc_message_free(m);
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
		usleep(1000);
	}
	close_two(&w);
}

START_TEST(offer__either_side_may_forbid_it)
{
	never("handover=off", "");
	never("", "handover=off");
}
END_TEST

/* ---- whose it is ---- */

START_TEST(loan__who_keeps_a_message_stops_nobody)
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
		/* Done, though it is not freed: the bytes are still there, and ours to change. */
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

START_TEST(loan__of_a_buffer_that_was_made_shorter)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	/* In place: a third of what it was. */
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

START_TEST(loan__cancelled_while_it_is_kept)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 10);
	m = in_place(&w, p, LEN, &r);
	/* It was delivered: that is what the sender learns. */
	ck_assert_int_eq(ripc_request_cancel(&r, PATIENCE_MS), 0);
	memset(p, 0, LEN);
	ck_assert(holds(m->items[0].iov_base, LEN, 10));
	ripc_message_free(m);
	close_two(&w);
}
END_TEST

START_TEST(loan__a_window_in_a_buffer_that_is_lent)
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

START_TEST(take__is_a_copy_of_ones_own)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p, *mine;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 12);
	m = in_place(&w, p, LEN, &r);
	mine = ripc_message_take(m, 0);
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

START_TEST(pass_on__what_was_received_in_place)
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
	third = serve(c, first_id + 2);
	p = buffer(w.a, LEN, 13);
	m = in_place(&w, p, LEN, &r);
	item = m->items[0];
	ck_assert_int_eq(ripc_start(w.to, first_id + 2, &item, 1, NULL, &on), 0);
	/* Freed before it has arrived: not let go of before that. */
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

START_TEST(buffer__freed_ones_are_unmapped_everywhere)
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
	/* Ours has gone; what the message lies in stays as long as the message. */
	ck_assert(holds(m->items[0].iov_base, LEN, 14));
	ripc_message_free(m);
	await_mappings(0);
	close_two(&w);
}
END_TEST

START_TEST(buffer__nobody_else_may_write_or_cut_it)
{
	struct two w;
	uint8_t *p;
	int fd;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 15);
	fd = w.a->memory.fds[0];
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

START_TEST(buffer__more_than_descriptors_for_them)
{
	uint8_t *p[RIPC__SHARED_MAX + 8];
	unsigned before = descriptors();
	struct two w;

	open_two(&w, "", "");
	for (unsigned i = 0; i < RIPC__SHARED_MAX + 8; i++)
		p[i] = buffer(w.a, 64 * KIB, i);
	for (unsigned i = 0; i < RIPC__SHARED_MAX + 8; i++) {
		struct ripc_request *r = start(&w, p[i], 64 * KIB);
		struct ripc_message *m = receive(w.to);

		ck_assert(holds(m->items[0].iov_base, 64 * KIB, i));
		ripc_message_free(m);
		finish(r);
	}
	for (unsigned i = 0; i < RIPC__SHARED_MAX + 8; i++)
		ck_assert_int_eq(ripc_buf_free(w.a, p[i]), 0);
	close_two(&w);
	ck_assert_uint_eq(descriptors(), before);
	ck_assert_uint_eq(mappings(), 0);
}
END_TEST

/* ---- what a peer sees ---- */

/* What lies in place, as a peer sees it that keeps all it ever was given: a second mapping of the same memory. */
static const uint8_t *spy_on(const struct ripc_message *m)
{
	void *spy = mremap(m->items[0].iov_base, 0, m->items[0].iov_len, MREMAP_MAYMOVE);

	ck_assert_ptr_ne(spy, MAP_FAILED);
	return spy;
}

static void send_whole(struct two *w, struct ripc_service *to, uint64_t dest, void *p, size_t len)
{
	struct iovec item = {p, len};
	struct ripc_request *r = NULL;

	ck_assert_msg(!ripc_start(w->from, dest, &item, 1, NULL, &r), "%s", ripc_detail());
	ripc_message_free(receive(to));
	finish(r);
}

/* One that was lent to b, and that b has given back. */
static const uint8_t *lent_once(struct two *w, uint8_t *p, size_t len)
{
	const uint8_t *spy;
	struct ripc_request *r;
	struct ripc_message *m = in_place(w, p, len, &r);

	spy = spy_on(m);
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

/* All that this process has mapped of b's peers. */
static bool borrowed_shows(struct ripc *b, uint8_t byte)
{
	bool found = false;

	ripc__lock(b);
	for (size_t i = 0; i < b->memory.nregions; i++) {
		struct ripc__region *r = b->memory.regions[i];

		found |= r->state == RIPC__REGION_BORROWED && shows(r->base, r->cap, byte);
	}
	ripc__unlock(b);
	return found;
}

START_TEST(sees__nothing_of_the_next_use_of_its_memory)
{
	const uint8_t *spy;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 20);
	memset(p, 1, LEN);
	spy = lent_once(&w, p, LEN);
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

START_TEST(sees__nothing_more_once_it_was_sent_to_another)
{
	struct ripc_service *third;
	const uint8_t *spy;
	struct ripc *c;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	c = open_one("");
	third = serve(c, first_id + 2);
	p = buffer(w.a, LEN, 21);
	memset(p, 1, LEN);
	spy = lent_once(&w, p, LEN);
	send_whole(&w, third, first_id + 2, p, LEN);
	for (unsigned i = 0; i < 200; i++) {
		memset(p, SECRET, LEN);
		send_whole(&w, third, first_id + 2, p, LEN);
		ck_assert(!shows(spy, LEN, SECRET));
	}
	munmap((void *)spy, LEN);
	ck_assert_int_eq(ripc_close(c), 0);
	close_two(&w);
}
END_TEST

START_TEST(sees__nothing_that_is_for_two_in_turn)
{
	struct ripc_service *third;
	struct ripc *c;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	c = open_one("");
	third = serve(c, first_id + 2);
	p = buffer(w.a, LEN, 22);
	for (unsigned i = 0; i < 200; i++) {
		memset(p, 1, LEN);
		send_whole(&w, w.to, w.dest, p, LEN);
		memset(p, SECRET, LEN);
		send_whole(&w, third, first_id + 2, p, LEN);
		ck_assert(!borrowed_shows(w.b, SECRET));
		ck_assert(!borrowed_shows(c, 1));
	}
	ck_assert_int_eq(ripc_close(c), 0);
	close_two(&w);
}
END_TEST

START_TEST(sees__nothing_that_comes_from_another)
{
	struct ripc_service *third;
	const uint8_t *spy;
	struct ripc_message *m;
	struct ripc_request *r;
	struct iovec item;
	struct ripc *c;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	c = open_one("");
	third = serve(c, first_id + 2);
	p = buffer(w.a, LEN, 23);
	memset(p, 1, LEN);
	spy = lent_once(&w, p, LEN);
	/* Not lent at this moment: but b has it. */
	ck_assert_int_eq(ripc_window_add(w.a, w.from, p, LEN), 0);
	item = (struct iovec){malloc(LEN), LEN};
	memset(item.iov_base, SECRET, LEN);
	ck_assert_int_eq(ripc_start(third, first_id, &item, 1, NULL, &r), 0);
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

START_TEST(sees__nothing_of_former_uses)
{
	struct two w;
	uint8_t *p, *q;

	open_two(&w, "", "");
	p = ripc_buf_alloc(w.a, LEN);
	memset(p, SECRET, LEN);
	ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
	/* The same memory: the most recently used comes first. */
	q = ripc_buf_alloc(w.a, LEN - LEN / 4);
	ck_assert_ptr_eq(q, p);
	memset(q + LEN / 4, 1, LEN / 4);
	/* A part of it, with what was there before on both sides. */
	for (unsigned i = 0; i < 200; i++) {
		send_whole(&w, w.to, w.dest, q + LEN / 4, LEN / 4);
		ck_assert(!borrowed_shows(w.b, SECRET));
	}
	/* All of it: what lies behind its end is none of it. */
	memset(q, 1, LEN - LEN / 4);
	lent_once(&w, q, LEN - LEN / 4);
	ck_assert(!borrowed_shows(w.b, SECRET));
	close_two(&w);
}
END_TEST

START_TEST(buffer__used_once_costs_no_object)
{
	struct two w;
	uint8_t *p, *first;

	open_two(&w, "", "");
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

/* ---- death ---- */

/* The other process: receives one message after the other, and keeps the last. */
static void keeper(uint64_t id)
{
	struct ripc_message *m, *last = NULL;
	struct ripc *ctx = open_one("");
	struct ripc_service *s = serve(ctx, id);

	if (write(1, "+", 1) != 1)
		_exit(1);
	while (!ripc_receive(s, &m, PATIENCE_MS)) {
		ripc_message_free(last);
		last = m;
	}
	_exit(0);
}

/* The other process: sends for ever. Each message is one tag all over. */
static void feeder(uint64_t id, uint64_t dest)
{
	struct ripc *ctx = open_one("");
	struct ripc_service *s = serve(ctx, id);
	uint8_t *p = buffer(ctx, LEN, 0);

	for (unsigned i = 0;; i++) {
		struct iovec item = {p, LEN};

		memset(p, (int)(i & 255), LEN);
		if (ripc_send_long(s, dest, &item, 1, NULL, PATIENCE_MS))
			_exit(1);
	}
}

static pid_t child(void (*what)(uint64_t, uint64_t), uint64_t id, uint64_t dest, int *out)
{
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(fds[1], 1);
		what(id, dest);
		_exit(1);
	}
	close(fds[1]);
	*out = fds[0];
	ck_assert_int_gt(pid, 0);
	return pid;
}

static void keep(uint64_t id, uint64_t dest)
{
	(void)dest;
	keeper(id);
}

static void reap(pid_t pid, int out)
{
	int status;

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	close(out);
}

START_TEST(death__of_a_receiver_at_any_moment)
{
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 6; round++) {
		unsigned before = descriptors(), count = 1 + (unsigned)(test_random(&rng) % 40);
		struct two w = {.dest = first_id + 1};
		struct ripc_request *r;
		char byte;
		uint8_t *p;
		pid_t pid;
		int out, rc;

		/* Forked first: the child has no context of ours. */
		pid = child(keep, w.dest, 0, &out);
		ck_assert_int_eq((int)read(out, &byte, 1), 1);
		w.a = open_one("");
		w.from = serve(w.a, first_id);
		p = buffer(w.a, LEN, round);
		for (unsigned i = 0; i < count; i++)
			finish(start(&w, p, LEN));
		r = start(&w, p, LEN);
		usleep((useconds_t)(test_random(&rng) % 500));
		reap(pid, out);
		rc = ripc_request_wait(&r, PATIENCE_MS);
		if (rc == -ETIMEDOUT)
			ripc_request_cancel(&r, PATIENCE_MS);
		ck_assert(!rc || rc == -EPIPE || rc == -EHOSTUNREACH || rc == -ETIMEDOUT);
		ck_assert(holds(p, LEN, round));
		fill(p, LEN, round + 1);
		ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
		ck_assert_int_eq(ripc_close(w.a), 0);
		ck_assert_uint_eq(mappings(), 0);
		ck_assert_uint_eq(descriptors(), before);
	}
}
END_TEST

START_TEST(death__of_a_sender_at_any_moment)
{
	uint64_t rng = test_seed();

	for (unsigned round = 0; round < 6; round++) {
		unsigned before = descriptors(), count = 1 + (unsigned)(test_random(&rng) % 60);
		struct ripc_message *m = NULL, *last = NULL;
		struct ripc_service *s;
		struct ripc *ctx;
		pid_t pid;
		int out;

		pid = child(feeder, first_id, first_id + 1, &out);
		ctx = open_one("");
		s = serve(ctx, first_id + 1);
		for (unsigned i = 0; i < count; i++) {
			ripc_message_free(last);
			last = receive(s);
		}
		usleep((useconds_t)(test_random(&rng) % 500));
		reap(pid, out);
		/* What was received stays as it is, and what else has come is whole. */
		while (last) {
			const uint8_t *p = last->items[0].iov_base;

			for (size_t i = 1; i < LEN; i++)
				ck_assert_uint_eq(p[i], p[0]);
			ripc_message_free(last);
			last = ripc_receive(s, &m, 100) ? NULL : m;
		}
		ck_assert_int_eq(ripc_close(ctx), 0);
		ck_assert_uint_eq(mappings(), 0);
		ck_assert_uint_eq(descriptors(), before);
	}
}
END_TEST

START_TEST(death__of_the_lane_while_it_is_lent)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 16);
	m = in_place(&w, p, LEN, &r);
	/* The sender's context goes with its buffer: what was handed over stays. */
	ck_assert_int_eq(ripc_close(w.a), 0);
	ck_assert(holds(m->items[0].iov_base, LEN, 16));
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(w.b), 0);
	ck_assert_uint_eq(mappings(), 0);
}
END_TEST

START_TEST(fork__a_child_has_none_of_the_descriptors)
{
	struct two w;
	int status;
	pid_t pid;
	uint8_t *p;

	open_two(&w, "", "");
	p = buffer(w.a, LEN, 17);
	pid = fork();
	if (!pid)
		_exit(fcntl(w.a->memory.fds[0], F_GETFD) >= 0 ? 1 : holds(p, LEN, 17) ? 0 : 2);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	close_two(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("test_handover");
	TCase *t = tcase_create("handover");

	first_id = (test_seed() & 0xffffffffff) * 8 + 8;
	tcase_set_timeout(t, 120);
	tcase_add_test(t, offer__the_same_buffer_lies_in_place);
	tcase_add_test(t, offer__any_part_of_a_buffer);
	tcase_add_test(t, offer__items_of_all_kinds_in_one_message);
	tcase_add_test(t, offer__a_buffer_that_has_grown);
	tcase_add_test(t, offer__a_window_is_copied_into);
	tcase_add_test(t, offer__either_side_may_forbid_it);
	tcase_add_test(t, loan__who_keeps_a_message_stops_nobody);
	tcase_add_test(t, loan__of_a_buffer_that_was_made_shorter);
	tcase_add_test(t, loan__cancelled_while_it_is_kept);
	tcase_add_test(t, loan__a_window_in_a_buffer_that_is_lent);
	tcase_add_test(t, take__is_a_copy_of_ones_own);
	tcase_add_test(t, pass_on__what_was_received_in_place);
	tcase_add_test(t, buffer__freed_ones_are_unmapped_everywhere);
	tcase_add_test(t, buffer__nobody_else_may_write_or_cut_it);
	tcase_add_test(t, buffer__more_than_descriptors_for_them);
	tcase_add_test(t, sees__nothing_of_the_next_use_of_its_memory);
	tcase_add_test(t, sees__nothing_more_once_it_was_sent_to_another);
	tcase_add_test(t, sees__nothing_that_is_for_two_in_turn);
	tcase_add_test(t, sees__nothing_that_comes_from_another);
	tcase_add_test(t, sees__nothing_of_former_uses);
	tcase_add_test(t, buffer__used_once_costs_no_object);
	tcase_add_test(t, death__of_a_receiver_at_any_moment);
	tcase_add_test(t, death__of_a_sender_at_any_moment);
	tcase_add_test(t, death__of_the_lane_while_it_is_lent);
	tcase_add_test(t, fork__a_child_has_none_of_the_descriptors);
	suite_add_tcase(s, t);
	return test_main("test_handover", s);
}
