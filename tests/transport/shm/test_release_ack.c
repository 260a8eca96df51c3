/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * RELEASE that carries the ACK of a mapped message, and the ACK that is sent before it if the
 * sender needs it, in virtual time.
 */
#define _GNU_SOURCE
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/rendezvous/request.h"

#include "virtual_time.h"

#include <errno.h>
#include <sys/mman.h>

#define LEN ((size_t)1 << 20)
/* until the sender requests the ACK, and again until it detaches the buffer */
#define WAIT_NS ripc__export_ref_max_ns(LEN)
/* One poll of 32 looks at the timers. */
#define TIMERS_NS (32 * STEP)

static uint8_t *p;
static bool no_detach; /* mmap() fails for private mappings of memory objects */

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (!no_detach || fd < 0 || !(flags & MAP_PRIVATE))
		return __real_mmap(addr, len, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

static void setup(void)
{
	world_open(3, "");
	p = exported(LEN);
}

static struct ripc_message *take_mapped(void)
{
	struct ripc_message *m = take_at(1);

	ck_assert_int_eq(m->placement[0], RIPC_IN_SENDER_MEMORY);
	return m;
}

static struct ripc__lane *first_lane(unsigned of)
{
	ck_assert(!ripc__list_empty(&ctx[of]->lanes));
	return ripc__list_entry(ctx[of]->lanes.next, struct ripc__lane, link);
}

static bool exported_still(void)
{
	return ripc__memory_find(ctx[0], p, 1)->sharing == RIPC__REGION_EXPORTED;
}

/* A message that is kept until its request ends. Return: the time that this took. */
static uint64_t keep_one(void)
{
	struct ripc_request *r;
	struct ripc_message *m;
	uint64_t begin_ns;

	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
	p = exported(LEN);
	begin_ns = now_ns;
	r = start_to(1, p, LEN);
	m = take_mapped();
	finish(r);
	begin_ns = now_ns - begin_ns;
	ripc_message_free(m);
	pass(RIPC__MS);
	return begin_ns;
}

/* One message each way, the RELEASE, ends a request. */
START_TEST(freed_soon__one_message_back)
{
	for (unsigned i = 0; i < 50; i++) {
		uint32_t before = first_lane(1)->tx_seq;
		struct ripc_request *r = start_to(1, p, LEN);
		struct ripc_message *m = take_mapped();

		ck_assert_uint_eq(first_lane(1)->tx_seq, before);
		ripc_message_free(m);
		finish(r);
		ck_assert_uint_eq(first_lane(1)->tx_seq, before + 1);
	}
}
END_TEST

/* The items of one message are released in any order. */
START_TEST(freed_soon__two_items)
{
	struct iovec items[] = {{p, LEN / 2}, {p + LEN / 2, LEN / 2}};
	struct ripc_request *r;
	struct ripc_message *m;

	ck_assert_int_eq(ripc_send_async(service[0], test_ids() + 1, items, 2, NULL, &r), 0);
	m = take_mapped();
	ck_assert_int_eq(m->placement[1], RIPC_IN_SENDER_MEMORY);
	ck_assert_ptr_nonnull(ripc_message_detach(m, 1));
	pass(RIPC__MS / 20);
	ck_assert_int_eq(ripc_request_test(&r), -EINPROGRESS);
	ripc_message_free(m);
	finish(r);
	ck_assert(exported_still());
}
END_TEST

/* The sender requests the ACK; then the receiver has the same time as after an ACK. */
START_TEST(kept__ack_on_request)
{
	uint64_t took_ns = keep_one();

	ck_assert_uint_ge(took_ns, 2 * WAIT_NS);
	ck_assert_uint_le(took_ns, 2 * WAIT_NS + 2 * TIMERS_NS);
}
END_TEST

/* Messages to a receiver that keeps them are acknowledged at once, ever more of them. */
START_TEST(kept__later_acks_at_once)
{
	unsigned late = 0, first = 0;

	for (unsigned i = 0; i < 100; i++) {
		bool asked = keep_one() >= 2 * WAIT_NS;

		late += asked;
		first += asked && i < 10;
	}
	ck_assert_uint_le(first, 3);
	ck_assert_uint_le(late, 12);
}
END_TEST

/* A receiver that frees its messages again gets back to one message each. */
START_TEST(kept__forgotten)
{
	unsigned with_ack = 0;

	for (unsigned i = 0; i < 3; i++)
		keep_one();
	for (unsigned i = 0; i < 200; i++) {
		uint32_t before = first_lane(1)->tx_seq;
		struct ripc_request *r = start_to(1, p, LEN);

		ripc_message_free(take_at(1));
		finish(r);
		with_ack = first_lane(1)->tx_seq - before > 1 ? with_ack + 1 : 0;
	}
	ck_assert_uint_eq(with_ack, 0);
}
END_TEST

/* Messages that come and go between two other services give it no more time. */
START_TEST(kept__under_other_traffic)
{
	uint8_t *big = exported(16 * LEN), *other = ripc_buf_alloc(ctx[0], 65536);
	uint64_t begin_ns = now_ns, wait_ns = ripc__export_ref_max_ns(16 * LEN);
	struct ripc_request *r = start_to(1, big, 16 * LEN), *between;
	struct ripc_message *m = take_mapped();

	ck_assert_ptr_nonnull(other);
	while (now_ns < begin_ns + 4 * wait_ns) {
		between = start_to(2, other, 65536);
		ripc_message_free(take_at(2));
		finish(between);
	}
	ck_assert_int_eq(ripc_request_test(&r), 0);
	ripc_message_free(m);
}
END_TEST

/* Those that wait in the queue of the receiver are acknowledged together. */
START_TEST(kept__many)
{
	struct ripc_request *r[32];
	uint64_t begin_ns = now_ns;

	for (unsigned i = 0; i < 32; i++)
		r[i] = start_to(1, p, LEN);
	for (unsigned i = 0; i < 32; i++)
		finish(r[i]);
	ck_assert_uint_le(now_ns - begin_ns, 2 * WAIT_NS + 3 * TIMERS_NS);
}
END_TEST

/*
 * A RELEASE of one of two items and the request of the ACK cross. _i: the request is cancelled.
 */
START_TEST(crossing__one_of_two_items)
{
	struct iovec items[] = {{p, LEN / 2}, {p + LEN / 2, LEN / 2}};
	struct ripc_request *r;
	struct ripc_message *m;
	uint64_t begin_ns;

	ck_assert_int_eq(ripc_send_async(service[0], test_ids() + 1, items, 2, NULL, &r), 0);
	m = take_mapped();
	/* The receiver does not run: the request of the ACK is under way. */
	for (begin_ns = now_ns; now_ns < begin_ns + 2 * WAIT_NS; now_ns += STEP)
		ripc__poll(ctx[0]);
	ck_assert_ptr_nonnull(ripc_message_detach(m, 0));
	begin_ns = now_ns;
	if (_i)
		ck_assert_int_eq(ripc_request_cancel(&r, 10000), 0);
	else
		finish(r);
	ck_assert_uint_le(now_ns - begin_ns, WAIT_NS + 2 * TIMERS_NS);
	ripc_message_free(m);
}
END_TEST

/* The service moves before the message: its former holder has refused it, the next one has it. */
START_TEST(moved__delivered_once)
{
	struct ripc_message *m, *again = NULL;
	struct ripc_service *moved;
	struct ripc_request *r;

	for (unsigned i = 0; i < 10; i++) {
		r = start_to(2, p, LEN);
		ripc_message_free(take_at(2));
		finish(r);
	}
	ck_assert_int_eq(ripc_service_unregister(service[1]), 0);
	r = start_to(1, p, LEN);
	ck_assert_int_eq(ripc_service_register(ctx[2], test_ids() + 1, 0, &moved), 0);
	ck_assert_int_eq(ripc_receive(moved, &m, 10000), 0);
	ck_assert_int_eq(m->placement[0], RIPC_IN_SENDER_MEMORY);
	ripc_message_free(m);
	ck_assert_int_eq(ripc_receive(moved, &again, 1000), -ETIMEDOUT);
	finish(r);
}
END_TEST

/* A call ends with its answer, also if its holder keeps the request and does not run any more. */
START_TEST(call__holder_stops_after_answer)
{
	struct iovec item = {p, LEN}, answer = {(char *)"ok", 2};
	struct ripc_message *m, *reply = NULL;
	struct ripc_request *r;
	uint64_t begin_ns;

	ck_assert_int_eq(ripc_call_start(service[0], test_ids() + 1, &item, 1, NULL, 2000, &r), 0);
	m = take_mapped();
	ck_assert_int_eq(ripc_reply(m, &answer, 1, 1000), 0);
	ripc__poll(ctx[1]);
	for (begin_ns = now_ns; now_ns < begin_ns + 10 * WAIT_NS; now_ns += STEP)
		ripc__poll(ctx[0]);
	ck_assert_int_eq(ripc_call_wait(&r, &reply, 0), 0);
	ripc_message_free(reply);
	ripc_message_free(m);
}
END_TEST

/* The message was delivered: the cancelled request succeeds, and the buffer is the sender's. */
START_TEST(kept__cancelled)
{
	struct ripc_request *r = start_to(1, p, LEN);
	struct ripc_message *m = take_mapped();
	uint64_t begin_ns = now_ns;

	ck_assert_int_eq(ripc_request_cancel(&r, 10000), 0);
	ck_assert_uint_lt(now_ns - begin_ns, WAIT_NS);
	memset(p, 8, LEN);
	ck_assert_int_eq(*(uint8_t *)m->items[0].iov_base, 7);
	ripc_message_free(m);
}
END_TEST

/* Without an answer of the receiver delivery is unknown; the memory is detached, the lane stays. */
START_TEST(kept__cancelled_at_once)
{
	struct ripc_request *r = start_to(1, p, LEN);
	struct ripc_message *m = take_mapped();

	ck_assert_int_eq(ripc_request_cancel(&r, 0), -EPIPE);
	ck_assert_uint_eq(ctx[0]->stats.lanes_lost, 0);
	memset(p, 8, LEN);
	ck_assert_int_eq(*(uint8_t *)m->items[0].iov_base, 7);
	ripc_message_free(m);
	pass(RIPC__MS);
	r = start_to(1, p, LEN);
	ripc_message_free(take_at(1));
	finish(r);
}
END_TEST

/* A receiver that closes its context acknowledges what it holds, read or not. */
START_TEST(kept__receiver_closes)
{
	struct ripc_request *r[2] = {start_to(1, p, LEN), start_to(1, p, LEN)};

	take_mapped();
	pass(RIPC__MS / 20);
	ck_assert_int_eq(ripc_close(ctx[1]), 0);
	ctx[1] = NULL;
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_request_wait(&r[i], 10000), 0);
}
END_TEST

/* The lane is lost before the ACK: the repetition is recognized and acknowledged. */
START_TEST(kept__lane_lost)
{
	struct ripc_request *r = start_to(1, p, LEN);
	struct ripc_message *m = take_mapped(), *again = NULL;

	ripc__lane_fail(first_lane(0), -ECONNRESET, "test");
	finish(r);
	ck_assert_int_eq(ripc_receive(service[1], &again, 1), -ETIMEDOUT);
	memset(p, 8, LEN);
	ck_assert_int_eq(*(uint8_t *)m->items[0].iov_base, 7);
	ripc_message_free(m);
}
END_TEST

/*
 * The same, before or after the ACK, but the buffer cannot be detached, and the receiver lives: the
 * application gets the buffer back when it is detached, not before.
 */
START_TEST(kept__lane_lost_without_memory)
{
	struct ripc_request *r = start_to(1, p, LEN);
	struct ripc_message *m = take_mapped(), *again = NULL;

	for (unsigned i = 0; _i && i < 1000 && !r->acked; i++)
		poll_all();
	ck_assert_int_eq(r->acked, _i);
	no_detach = true;
	ripc__lane_fail(first_lane(0), -ECONNRESET, "test");
	pass(1000 * RIPC__MS);
	ck_assert_int_eq(ripc_receive(service[1], &again, 1), -ETIMEDOUT);
	ck_assert_int_eq(ripc_request_test(&r), -EINPROGRESS);
	no_detach = false;
	finish(r);
	memset(p, 8, LEN);
	ck_assert_int_eq(*(uint8_t *)m->items[0].iov_base, 7);
	ripc_message_free(m);
}
END_TEST

/* The request is withdrawn meanwhile: the memory is not used again. */
START_TEST(kept__lane_lost_then_withdrawn)
{
	struct ripc_request *r = start_to(1, p, LEN);
	struct ripc_message *m = take_mapped();

	no_detach = true;
	ripc__lane_fail(first_lane(0), -ECONNRESET, "test");
	ck_assert_int_eq(ripc_request_cancel(&r, 0), -EPIPE);
	no_detach = false;
	ck_assert_int_eq(ripc_buf_free(ctx[0], p), 0);
	p = ripc_buf_alloc(ctx[0], LEN);
	memset(p, 8, LEN);
	ck_assert_int_eq(*(uint8_t *)m->items[0].iov_base, 7);
	ripc_message_free(m);
}
END_TEST

/* Behind a full queue the message has not been delivered: ACK_REQUEST waits with it. */
START_TEST(undelivered__ack_at_delivery)
{
	enum { QUEUED = 68 };
	struct ripc_request *r[QUEUED];

	for (unsigned i = 0; i < QUEUED; i++)
		r[i] = start_to(1, p, LEN);
	pass(4 * WAIT_NS);
	ck_assert_int_eq(ripc_request_test(&r[QUEUED - 1]), -EINPROGRESS);
	for (unsigned i = 0; i < QUEUED; i++)
		ripc_message_free(take_at(1));
	for (unsigned i = 0; i < QUEUED; i++)
		finish(r[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("release_ack");
	TCase *tc = tcase_create("release_ack");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, world_close);
	tcase_add_test(tc, freed_soon__one_message_back);
	tcase_add_test(tc, freed_soon__two_items);
	tcase_add_test(tc, kept__ack_on_request);
	tcase_add_test(tc, kept__later_acks_at_once);
	tcase_add_test(tc, kept__forgotten);
	tcase_add_test(tc, kept__under_other_traffic);
	tcase_add_test(tc, kept__many);
	tcase_add_loop_test(tc, crossing__one_of_two_items, 0, 2);
	tcase_add_test(tc, moved__delivered_once);
	tcase_add_test(tc, call__holder_stops_after_answer);
	tcase_add_test(tc, kept__cancelled);
	tcase_add_test(tc, kept__cancelled_at_once);
	tcase_add_test(tc, kept__receiver_closes);
	tcase_add_test(tc, kept__lane_lost);
	tcase_add_loop_test(tc, kept__lane_lost_without_memory, 0, 2);
	tcase_add_test(tc, kept__lane_lost_then_withdrawn);
	tcase_add_test(tc, undelivered__ack_at_delivery);
	suite_add_tcase(suite, tc);
	return test_main("transport/shm/release_ack", suite);
}
