/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long a mapped message may be kept, in virtual time: two contexts of one process over shared
 * memory, run by one thread.
 */
#define _GNU_SOURCE
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/lane_progress.h"
#include "core/peer/peer.h"
#include "core/rendezvous/sender.h"

#include "lock_gate.h"
#include "virtual_time.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define LEN ((size_t)1 << 20)

static void setup(void)
{
	world_open(2, "");
}

static struct ripc_request *start(void *p, size_t len)
{
	return start_to(1, p, len);
}

static struct ripc_message *take(void)
{
	return take_at(1);
}

static bool check_mapped(const uint8_t *p)
{
	return ripc__memory_find(ctx[0], p, 1)->sharing == RIPC__REGION_EXPORTED;
}

/*
 * A receiver keeps a message for too long: the buffer is detached. The memory object gets another
 * owner later, but the buffer keeps its contents.
 */
START_TEST(reclaim__keeps_contents)
{
	uint8_t *p = exported(LEN), *q[8];
	struct ripc_request *r = start(p, LEN);
	struct ripc_message *m = take();

	ck_assert_int_eq(m->placement[0], RIPC_IN_SENDER_MEMORY);
	finish(r);
	ck_assert(!check_mapped(p));
	ripc_message_free(m);
	pass(RIPC__MS);
	for (unsigned i = 0; i < 8; i++) {
		q[i] = ripc_buf_alloc(ctx[0], LEN);
		ck_assert_ptr_nonnull(q[i]);
		memset(q[i], 0x77, LEN);
	}
	for (size_t i = 0; i < LEN; i++)
		ck_assert_uint_eq(p[i], 7);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(ripc_buf_free(ctx[0], q[i]), 0);
	/* The next message copies the contents into another memory object. */
	r = start(p, LEN);
	m = take();
	ck_assert_uint_eq(*(uint8_t *)m->items[0].iov_base, 7);
	ck_assert(!memcmp(m->items[0].iov_base, p, LEN));
	ripc_message_free(m);
	finish(r);
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
	/* All regions are in the pool: none stays behind. */
	for (size_t i = 0; i < ctx[0]->memory->nregions; i++)
		ck_assert_int_eq(ctx[0]->memory->regions[i]->state, RIPC__REGION_FREE);
}
END_TEST

/*
 * A buffer has grown since its export: no message refers to the old export any more, not even with
 * an item that lies in it, before one that does not.
 */
START_TEST(export__buffer_grown)
{
	uint8_t *p = ripc_buf_alloc(ctx[0], LEN * 5 / 8);
	struct iovec items[] = {{p, LEN / 2}, {p + LEN * 3 / 4, LEN / 8}};
	struct ripc_stats stats = {.size = sizeof(stats)};
	bool in_place = false;

	for (unsigned i = 0; i < 100 && !in_place; i++) {
		struct ripc_request *r = start(p, LEN * 5 / 8);
		struct ripc_message *m = take();

		in_place = m->placement[0] == RIPC_IN_SENDER_MEMORY;
		ripc_message_free(m);
		finish(r);
	}
	ck_assert(in_place);
	ck_assert_ptr_eq(ripc_buf_realloc(ctx[0], p, LEN), p);
	memset(p, 7, LEN);
	in_place = false;
	for (unsigned i = 0; i < 100 && !in_place; i++) {
		struct ripc_request *r;
		struct ripc_message *m;

		ck_assert_int_eq(ripc_send_async(service[0], test_ids() + 1, items, 2, NULL, &r),
				 0);
		m = take();
		in_place = m->placement[0] == RIPC_IN_SENDER_MEMORY &&
			   m->placement[1] == RIPC_IN_SENDER_MEMORY;
		ck_assert_uint_eq(m->items[1].iov_len, LEN / 8);
		ck_assert(!memcmp(m->items[1].iov_base, p, LEN / 8));
		ripc_message_free(m);
		finish(r);
		ck_assert_int_eq(ripc_context_stats(ctx[1], &stats), 0);
		ck_assert_uint_eq(stats.bad_messages, 0);
	}
	ck_assert(in_place);
}
END_TEST

/* A message may name only memory that its sender has exported on this lane. */
START_TEST(ref__only_to_exports)
{
	struct ripc__import_ref *ref;
	struct ripc__lane *lane;
	struct ripc__region *r;
	uint8_t *base;

	exported(LEN);
	lane = ripc__list_entry(ctx[1]->lanes.next, struct ripc__lane, link);
	while (!lane->memory || ripc__list_empty(&lane->memory->imports))
		lane = ripc__list_entry(lane->link.next, struct ripc__lane, link);
	r = ripc__list_entry(lane->memory->imports.next, struct ripc__region, lane_link);
	ck_assert_int_eq(ripc__import_ref_new(lane, r->export_id + 1, 0, 1, 99, 0, &ref, &base),
			 -EPROTO);
	ck_assert_int_eq(
		ripc__import_ref_new(lane, r->export_id, r->cap + 1, 0, 99, 0, &ref, &base),
		-EPROTO);
	ck_assert_int_eq(ripc__import_ref_new(lane, r->export_id, 1, r->cap, 99, 0, &ref, &base),
			 -EPROTO);
	ck_assert_int_eq(
		ripc__import_ref_new(lane, r->export_id, UINT64_MAX, 2, 99, 0, &ref, &base),
		-EPROTO);
	ck_assert_int_eq(
		ripc__import_ref_new(lane, r->export_id, 1, r->cap - 1, 99, 0, &ref, &base), 0);
	ck_assert_ptr_eq(base, r->base + 1);
	ripc__import_ref_release(ref);
}
END_TEST

static void import_refused(struct ripc__lane *lane, uint64_t export_id)
{
	unsigned before = lane->memory->nimports;
	int fd = memfd_create("test", MFD_CLOEXEC);
	void *base = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);

	ck_assert(fd >= 0 && base != MAP_FAILED);
	ripc__lock(ctx[1]);
	ripc__import_add(lane, base, LEN, fd, export_id);
	ripc__unlock(ctx[1]);
	ck_assert_uint_eq(lane->memory->nimports, before);
	ck_assert_ptr_null(ripc__memory_find(ctx[1], base, 1));
	/* Neither the descriptor nor the mapping is left. */
	ck_assert_int_lt(fcntl(fd, F_GETFD), 0);
	ck_assert_int_lt(msync(base, LEN, MS_ASYNC), 0);
}

/* A number that is in use, or out of range. */
START_TEST(import__refused)
{
	struct ripc__peer *p;
	struct ripc__lane *lane;
	struct ripc__region *r;

	exported(LEN);
	p = ripc__peer_find(ctx[1], ctx[0]->instance);
	ck_assert(p && p->lane);
	lane = p->lane;
	ck_assert(!ripc__list_empty(&lane->memory->imports));
	r = ripc__list_entry(lane->memory->imports.next, struct ripc__region, lane_link);
	import_refused(lane, r->export_id);
	import_refused(lane, UINT64_C(1) << 32);
	lane->memory->nimports += RIPC__IMPORTS_MAX;
	import_refused(lane, 4711);
	lane->memory->nimports -= RIPC__IMPORTS_MAX;
}
END_TEST

/* A receiver that frees each message in time has kept none, however many are queued. */
START_TEST(ref__starts_after_earlier_refs)
{
	uint8_t *p = exported(LEN);
	struct ripc_request *r[8];

	for (unsigned i = 0; i < 8; i++)
		r[i] = start(p, LEN);
	pass(ripc__export_ref_max_ns(LEN) / 2);
	for (unsigned i = 0; i < 8; i++) {
		struct ripc_message *m = take();

		ck_assert_int_eq(m->placement[0], RIPC_IN_SENDER_MEMORY);
		pass(ripc__export_ref_max_ns(LEN) / 3);
		ripc_message_free(m);
		finish(r[i]);
		ck_assert(check_mapped(p));
	}
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}
END_TEST

/* It waits for an earlier message that is being copied. */
START_TEST(ref__starts_after_copies)
{
	uint8_t *p = exported(LEN), *own = malloc(32 * LEN);
	struct ripc_request *copied, *mapped;
	struct ripc_message *m;
	uint64_t end;

	ck_assert_ptr_nonnull(own);
	memset(own, 3, 32 * LEN);
	copied = start(own, 32 * LEN);
	mapped = start(p, LEN);
	for (unsigned i = 0; i < 1000 && !mapped->acked; i++)
		poll_all();
	ck_assert(mapped->acked && mapped->refs.count);
	ck_assert(!copied->acked);
	/* The receiver does not run for a while. */
	for (end = now_ns + 20 * ripc__export_ref_max_ns(LEN); now_ns < end; now_ns += STEP)
		ripc__poll(ctx[0]);
	ck_assert(check_mapped(p));
	m = take();
	ck_assert_uint_eq(m->items[0].iov_len, 32 * LEN);
	ripc_message_free(m);
	m = take();
	ck_assert_int_eq(m->placement[0], RIPC_IN_SENDER_MEMORY);
	ripc_message_free(m);
	finish(copied);
	finish(mapped);
	ck_assert(check_mapped(p));
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
	free(own);
}
END_TEST

/* Later messages that come and go do not extend the time of a kept one. */
START_TEST(ref__kept_ends_under_traffic)
{
	uint8_t *kept_from = exported(LEN), *p = exported(LEN);
	struct ripc_request *r = start(kept_from, LEN);
	struct ripc_message *kept = take();

	ck_assert_int_eq(kept->placement[0], RIPC_IN_SENDER_MEMORY);
	for (unsigned i = 0; i < 20; i++) {
		struct ripc_request *other = start(p, LEN);
		struct ripc_message *m = take();

		ripc_message_free(m);
		finish(other);
		pass(ripc__export_ref_max_ns(LEN) / 4);
	}
	ck_assert(!check_mapped(kept_from));
	ck_assert_int_eq(kept->items[0].iov_len, LEN);
	ck_assert_int_eq(((uint8_t *)kept->items[0].iov_base)[LEN - 1], 7);
	finish(r);
	ripc_message_free(kept);
	ck_assert_int_eq(ripc_buf_free(ctx[0], kept_from), 0);
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}
END_TEST

static struct ripc__lane *lane_to(unsigned i)
{
	struct ripc__peer *p = ripc__peer_find(ctx[0], ctx[i]->instance);

	ck_assert(p && p->lane);
	return p->lane;
}

/*
 * The lane ends while the receiver keeps a mapped message: the sender's buffer is copied, as the
 * receiver goes on reading the old memory.
 */
START_TEST(ref__kept_outlives_lane)
{
	uint8_t *p = exported(LEN);
	struct ripc_request *r = start(p, LEN);
	struct ripc_message *kept = take();

	ck_assert_int_eq(kept->placement[0], RIPC_IN_SENDER_MEMORY);
	for (unsigned i = 0; i < 1000 && !r->acked; i++)
		poll_all();
	ck_assert(r->acked && r->refs.count);
	ripc__lock(ctx[0]);
	ripc__lane_fail(lane_to(1), -ECONNRESET, "test");
	ripc__unlock(ctx[0]);
	finish(r);
	ck_assert(!check_mapped(p));
	memset(p, 8, LEN);
	poll_all();
	ck_assert_int_eq(*(uint8_t *)kept->items[0].iov_base, 7);
	ck_assert(
		!memcmp(kept->items[0].iov_base, (uint8_t *)kept->items[0].iov_base + 1, LEN - 1));
	ripc_message_free(kept);
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}
END_TEST

/* This process gets no more addresses. */
static void limit_to_present_size(struct rlimit *old)
{
	struct rlimit limit;
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	ck_assert_int_eq(getrlimit(RLIMIT_AS, old), 0);
	limit = *old;
	limit.rlim_cur = pages * 4096;
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* The same, but there are no addresses for a second mapping: the buffer is detached in place. */
START_TEST(ref__kept_outlives_lane_no_memory)
{
	uint8_t *p = exported(LEN);
	struct ripc_request *r = start(p, LEN);
	struct ripc_message *kept = take();
	struct rlimit old;

#ifdef __SANITIZE_ADDRESS__
	test_skip("the address sanitizer needs memory of its own");
	return;
#endif
	ck_assert_int_eq(kept->placement[0], RIPC_IN_SENDER_MEMORY);
	limit_to_present_size(&old);
	ripc__lock(ctx[0]);
	ripc__lane_fail(lane_to(1), -ECONNRESET, "test");
	ripc__unlock(ctx[0]);
	/* Its delivery is unknown. The buffer is the application's. */
	ck_assert_int_eq(ripc_request_cancel(&r, 0), -EPIPE);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &old), 0);
	ck_assert(!memcmp(p, kept->items[0].iov_base, LEN));
	memset(p, 8, LEN);
	for (size_t i = 0; i < LEN; i++)
		ck_assert_int_eq(((uint8_t *)kept->items[0].iov_base)[i], 7);
	ripc_message_free(kept);
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}
END_TEST

static struct ripc__transport_ops ops;
static unsigned full; /* so many exports find the queue full */

static int export_fd(struct ripc__ep *ep, int fd, size_t len, uint32_t number)
{
	if (!full)
		return ripc__transport_shm.export_fd(ep, fd, len, number);
	full--;
	return -EAGAIN;
}

/* An export that the transport cannot send is tried again at the next message. */
START_TEST(export__queue_full)
{
	uint8_t *other = exported(LEN), *p = ripc_buf_alloc(ctx[0], LEN);
	struct ripc__tp *tp = &ctx[0]->tp[lane_to(1)->tp];
	unsigned before = lane_to(1)->memory->nexports, copied = 0;

	ck_assert_ptr_nonnull(p);
	memset(p, 7, LEN);
	ops = *tp->ops;
	ops.export_fd = export_fd;
	tp->ops = &ops;
	full = 3;
	for (unsigned in_place = 0; !in_place; copied += !in_place) {
		struct ripc_request *r = start(p, LEN);
		struct ripc_message *m = take();

		if (full) {
			ck_assert(!check_mapped(p));
			ck_assert_uint_eq(lane_to(1)->memory->nexports, before);
		}
		in_place = m->placement[0] == RIPC_IN_SENDER_MEMORY;
		ripc_message_free(m);
		finish(r);
		ck_assert_uint_lt(copied, 10);
	}
	ck_assert_uint_eq(full, 0);
	ck_assert_uint_ge(copied, 3);
	ck_assert_uint_eq(lane_to(1)->memory->nexports, before + 1);
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
	ck_assert_int_eq(ripc_buf_free(ctx[0], other), 0);
}
END_TEST

/* ---- in the middle of a copy ---- */

static bool write_it(void *byte)
{
	*(uint8_t *)byte = 9;
	return true;
}

static bool round_trip(void *arg)
{
	void *p = ripc_buf_alloc(ctx[0], 100);

	ripc_buf_free(ctx[0], p);
	return p;
}

/* Writes to the rest of a buffer are not lost while it is detached. */
START_TEST(reclaim__keeps_concurrent_writes)
{
	uint8_t *p = exported(LEN);
	struct ripc_request *r = start(p + LEN / 2, LEN / 2);
	struct ripc_message *kept = take();

	ck_assert_int_eq(kept->placement[0], RIPC_IN_SENDER_MEMORY);
	gate_shut(p + LEN / 4, write_it, p);
	pass(10 * ripc__export_ref_max_ns(LEN));
	finish(r);
	/* Without a copy, no thread gets there. */
	if (!gate_open())
		*p = 9;
	ck_assert(!check_mapped(p));
	ck_assert_int_eq(*p, 9);
	ck_assert_int_eq(p[1], 7);
	ck_assert(!memcmp(p + 1, p + 2, LEN - 2));
	/* The buffer is the sender's again, and the kept message does not change. */
	memset(p, 8, LEN);
	ck_assert_int_eq(*(uint8_t *)kept->items[0].iov_base, 7);
	ck_assert(!memcmp(kept->items[0].iov_base, (uint8_t *)kept->items[0].iov_base + 1,
			  LEN / 2 - 1));
	ripc_message_free(kept);
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}
END_TEST

/* Before it is exported again it is copied; other threads go on meanwhile. */
START_TEST(ready__copies_under_traffic)
{
	uint8_t *p = exported(LEN);
	struct ripc_request *r = start(p, LEN);
	struct ripc_message *m = take();
	bool in_place = false;

	pass(10 * ripc__export_ref_max_ns(LEN));
	finish(r);
	ck_assert(!check_mapped(p));
	ripc_message_free(m);
	gate_shut(p + LEN / 2, round_trip, NULL);
	for (unsigned i = 0; i < 100 && !in_place; i++) {
		r = start(p, LEN);
		/* Only the first time. */
		ck_assert(gate_stopped());
		m = take();
		ck_assert_int_eq(((uint8_t *)m->items[0].iov_base)[LEN / 2], 7);
		in_place = m->placement[0] == RIPC_IN_SENDER_MEMORY;
		ripc_message_free(m);
		finish(r);
	}
	ck_assert(in_place);
	ck_assert(gate_open());
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
}
END_TEST

/*
 * A message waits for room on its lane, and its buffer is detached meanwhile, because the receiver
 * keeps another message. It does not refer to the memory that the buffer had before, which goes to
 * another owner when the receiver frees the other message.
 */
START_TEST(ref__detached_before_it_is_sent)
{
	uint8_t *p = exported(LEN), *q[8];
	struct ripc__lane *lane = lane_to(1);
	struct ripc_request *r[2] = {start(p, LEN / 2)};
	struct ripc_message *m[2] = {take()};
	struct ripc__region *region = ripc__memory_find(ctx[0], p, 1);

	ck_assert_int_eq(m[0]->placement[0], RIPC_IN_SENDER_MEMORY);
	ripc__lane_set_sending(lane, RIPC__SENDING_BLOCKED);
	r[1] = start(p + LEN / 2, LEN / 2);
	ck_assert_int_eq(r[1]->state, RIPC__REQUEST_WRITING);
	ck_assert_int_eq(r[1]->items[0].how, RIPC__HOW_MAPPED);
	ck_assert_int_eq(ripc_request_cancel(&r[0], 0), -EPIPE);
	ck_assert_int_eq(region->sharing, RIPC__REGION_DETACHED);
	ripc__lane_set_sending(lane, RIPC__SENDING_FREE);
	ripc__lane_flush(lane);
	m[1] = take();
	ripc_message_free(m[0]);
	finish(r[1]);
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
	pass(RIPC__MS);
	for (unsigned i = 0; i < 8; i++) {
		q[i] = ripc_buf_alloc(ctx[0], LEN);
		ck_assert_ptr_nonnull(q[i]);
		memset(q[i], 0x77, LEN);
	}
	for (size_t i = 0; i < LEN / 2; i++)
		ck_assert_uint_eq(((uint8_t *)m[1]->items[0].iov_base)[i], 7);
	ripc_message_free(m[1]);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(ripc_buf_free(ctx[0], q[i]), 0);
	pass(RIPC__MS);
	for (size_t i = 0; i < ctx[0]->memory->nregions; i++)
		ck_assert_int_eq(ctx[0]->memory->regions[i]->state, RIPC__REGION_FREE);
	ck_assert_uint_eq(ctx[0]->stats.lanes_lost, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("ref");
	TCase *tc = tcase_create("ref");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, world_close);
	tcase_add_test(tc, reclaim__keeps_contents);
	tcase_add_test(tc, export__buffer_grown);
	tcase_add_test(tc, ref__only_to_exports);
	tcase_add_test(tc, import__refused);
	tcase_add_test(tc, ref__starts_after_earlier_refs);
	tcase_add_test(tc, ref__starts_after_copies);
	tcase_add_test(tc, ref__kept_ends_under_traffic);
	tcase_add_test(tc, ref__kept_outlives_lane);
	tcase_add_test(tc, ref__kept_outlives_lane_no_memory);
	tcase_add_test(tc, ref__detached_before_it_is_sent);
	tcase_add_test(tc, export__queue_full);
	tcase_add_test(tc, reclaim__keeps_concurrent_writes);
	tcase_add_test(tc, ready__copies_under_traffic);
	suite_add_tcase(suite, tc);
	return test_main("transport/shm/export_refs", suite);
}
