/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Send queues never overflow, and a full one always has a completion pending. */
#include "transport/rdma/queue.h"
#include "harness.h"

#include <pthread.h>
#include <signal.h>

static struct ripc__verbs_sendq q;

static void open_signaled(uint32_t depth, uint32_t every)
{
	ck_assert_int_eq(ripc__verbs_sendq_init(&q, depth, every, &q), 0);
}

static void open_queue(uint32_t depth)
{
	open_signaled(depth, 0);
}

START_TEST(sendq_init__depth)
{
	static const struct {
		uint32_t asked, got;
	} cases[] = {{1, 1}, {2, 2}, {3, 2}, {127, 64}, {128, 128}, {129, 128}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_queue(cases[i].asked);
		ck_assert_uint_eq(q.depth, cases[i].got);
		ck_assert_uint_eq(ripc__verbs_sendq_space(&q), cases[i].got);
		ck_assert_uint_eq(q.interval, (cases[i].got + 1) / 2);
		ck_assert_ptr_eq(q.owner, &q);
		ripc__verbs_sendq_fini(&q);
		ripc__verbs_sendq_fini(&q);
	}
}
END_TEST

/*
 * Half a queue of slots has a signaled one at least: a full queue always has a completion pending.
 */
START_TEST(sendq_alloc__half_interval)
{
	for (uint32_t depth = 1; depth <= 64; depth *= 2) {
		uint32_t unsignaled = 0;

		open_queue(depth);
		for (uint32_t i = 0; i < 4 * depth; i++) {
			struct ripc__verbs_slot *slot;

			if (!ripc__verbs_sendq_space(&q)) {
				struct ripc__verbs_slot *last = NULL;

				for (uint32_t k = 0; k < depth; k++)
					if (q.slots[k].signaled)
						last = &q.slots[k];
				ck_assert_ptr_nonnull(last);
				while (ripc__verbs_sendq_retire(&q, last))
					;
			}
			ck_assert_uint_gt(ripc__verbs_sendq_space(&q), 0);
			slot = ripc__verbs_sendq_alloc(&q, false);
			unsignaled = slot->signaled ? 0 : unsignaled + 1;
			ck_assert_uint_lt(unsignaled, (depth + 1) / 2 + (depth == 1));
		}
		ripc__verbs_sendq_fini(&q);
	}
}
END_TEST

START_TEST(sendq_alloc__signaled)
{
	open_queue(16);
	ck_assert(!ripc__verbs_sendq_alloc(&q, false)->signaled);
	ck_assert(ripc__verbs_sendq_alloc(&q, true)->signaled);
	ck_assert_uint_eq(q.unsignaled, 0);
	ripc__verbs_sendq_fini(&q);
}
END_TEST

/* The setting is limited by the depth. */
START_TEST(sendq_init__interval)
{
	static const struct {
		uint32_t every, got;
	} cases[] = {{1, 1}, {3, 3}, {8, 8}, {9, 8}, {65535, 8}, {0, 8}};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t signaled = 0;

		open_signaled(16, cases[i].every);
		for (uint32_t n = 0; n < 8 * cases[i].got; n++) {
			struct ripc__verbs_slot *slot = ripc__verbs_sendq_alloc(&q, false);

			ck_assert(slot->signaled == (n % cases[i].got == cases[i].got - 1));
			signaled += slot->signaled;
			while (slot->signaled && ripc__verbs_sendq_retire(&q, slot))
				;
		}
		ck_assert_uint_eq(signaled, 8);
		ripc__verbs_sendq_fini(&q);
	}
	for (uint32_t depth = 1; depth <= 2; depth++) {
		open_signaled(depth, 65535);
		ck_assert(ripc__verbs_sendq_alloc(&q, false)->signaled);
		ripc__verbs_sendq_fini(&q);
	}
}
END_TEST

START_TEST(sendq_unalloc__refused)
{
	open_queue(8);
	for (int i = 0; i < 3; i++)
		ripc__verbs_sendq_alloc(&q, i == 0);
	ck_assert_uint_eq(q.unsignaled, 2);
	ripc__verbs_sendq_unalloc(&q, 1);
	ck_assert_uint_eq(q.unsignaled, 1);
	ck_assert_uint_eq(ripc__verbs_sendq_space(&q), 6);
	ripc__verbs_sendq_unalloc(&q, 2);
	ck_assert_uint_eq(q.unsignaled, 0);
	ck_assert_uint_eq(ripc__verbs_sendq_space(&q), 8);
	ripc__verbs_sendq_fini(&q);
}
END_TEST

static int post_to_broken_pipe(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)wr;
	(void)bad;
	return raise(SIGPIPE);
}

static bool sigpipe_pending(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGPIPE);
}

/* SIGPIPE of the driver does not end the process; one of the application stays pending. */
START_TEST(post__sigpipe)
{
	struct ibv_context context = {.ops.post_send = post_to_broken_pipe};
	struct ibv_qp qp = {.context = &context};
	struct ibv_send_wr wr = {0};
	sigset_t pipe;

	open_queue(4);
	q.sigpipe = true;
	signal(SIGPIPE, SIG_DFL);
	ck_assert_int_eq(ripc__verbs_post(&qp, &q, &wr), 0);
	ck_assert(!sigpipe_pending());

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	ck_assert_int_eq(ripc__verbs_post(&qp, &q, &wr), 0);
	ck_assert(!sigpipe_pending());
	raise(SIGPIPE);
	ck_assert_int_eq(ripc__verbs_post(&qp, &q, &wr), 0);
	ck_assert(sigpipe_pending());
	ripc__verbs_sendq_fini(&q);
}
END_TEST

/* One completion retires all slots before it; late ones of a retired slot change nothing. */
START_TEST(sendq_retire__order)
{
	struct ripc__verbs_slot *slots[8];
	uint64_t rng = test_seed();
	uint32_t taken = 0, retired = 0;

	open_queue(8);
	for (int round = 0; round < 1000; round++) {
		uint32_t n = (uint32_t)(test_random(&rng) % 9), upto;

		for (; n && ripc__verbs_sendq_space(&q); n--) {
			struct ripc__verbs_slot *slot = ripc__verbs_sendq_alloc(&q, false);

			slot->wr_id = taken;
			slots[taken++ % 8] = slot;
		}
		if (taken == retired)
			continue;
		upto = retired + (uint32_t)(test_random(&rng) % (taken - retired));
		for (;;) {
			struct ripc__verbs_slot *slot;

			slot = ripc__verbs_sendq_retire(&q, slots[upto % 8]);
			if (!slot)
				break;
			ck_assert_uint_eq(slot->wr_id, retired);
			retired++;
		}
		ck_assert_uint_eq(retired, upto + 1);
		if (taken - retired < 8)
			ck_assert_ptr_null(ripc__verbs_sendq_retire(&q, slots[upto % 8]));
	}
	ripc__verbs_sendq_fini(&q);
}
END_TEST

/* A bounce buffer is free again when its slot is retired, refused or used again, or at the end. */
START_TEST(sendq__bounce_buffers)
{
	struct ripc__verbs_pool pool = {0};
	struct ripc__verbs_buf bufs[4] = {
		{.pool = &pool}, {.pool = &pool}, {.pool = &pool}, {.pool = &pool}};

	open_queue(4);
	for (unsigned i = 0; i < 4; i++)
		ripc__verbs_sendq_alloc(&q, true)->bounce = &bufs[i];
	ck_assert_uint_eq(pool.nfree, 0);
	ripc__verbs_sendq_retire(&q, &q.slots[1]);
	ck_assert_uint_eq(pool.nfree, 1);
	ck_assert_ptr_eq(pool.free, &bufs[0]);
	ripc__verbs_sendq_unalloc(&q, 1);
	ck_assert_uint_eq(pool.nfree, 2);
	ck_assert_ptr_eq(pool.free, &bufs[3]);
	ripc__verbs_sendq_fini(&q);
	ck_assert_uint_eq(pool.nfree, 4);
}
END_TEST

START_TEST(wc__owner)
{
	struct ripc__verbs_buf buf;
	struct ibv_wc wc = {0};

	open_queue(2);
	wc.wr_id = ripc__verbs_send_id(&q.slots[1]);
	ck_assert_ptr_eq(ripc__verbs_wc_slot(&wc), &q.slots[1]);
	wc.wr_id = ripc__verbs_recv_id(&buf);
	ck_assert_ptr_null(ripc__verbs_wc_slot(&wc));
	ck_assert_ptr_eq(ripc__verbs_wc_buf(&wc), &buf);
	ripc__verbs_sendq_fini(&q);
}
END_TEST

/* A send takes the bytes of its bounce buffer, or without one those of the caller, inline. */
START_TEST(fill_send__bounce_or_inline)
{
	uint8_t inline_bytes[4] = {0}, bounced[4] = {0};
	struct ripc__verbs_buf buf = {.data = bounced, .lkey = 77};
	struct ripc__verbs_slot slot = {.signaled = false};
	struct ibv_send_wr wr = {.imm_data = 5};
	struct ibv_sge sge;

	ripc__verbs_fill_send(&wr, &sge, &slot, IBV_WR_SEND, inline_bytes, 3);
	ck_assert_uint_eq(sge.addr, (uintptr_t)inline_bytes);
	ck_assert_uint_eq(sge.length, 3);
	ck_assert_ptr_eq(wr.sg_list, &sge);
	ck_assert_int_eq(wr.num_sge, 1);
	ck_assert_ptr_null(wr.next);
	ck_assert_uint_eq(wr.opcode, IBV_WR_SEND);
	ck_assert_uint_eq(wr.send_flags, IBV_SEND_INLINE);
	ck_assert_uint_eq(wr.wr_id, ripc__verbs_send_id(&slot));
	slot.bounce = &buf;
	slot.signaled = true;
	ripc__verbs_fill_send(&wr, &sge, &slot, IBV_WR_SEND_WITH_IMM, inline_bytes, 4);
	ck_assert_uint_eq(sge.addr, (uintptr_t)bounced);
	ck_assert_uint_eq(sge.length, 4);
	ck_assert_uint_eq(sge.lkey, 77);
	ck_assert_uint_eq(wr.opcode, IBV_WR_SEND_WITH_IMM);
	ck_assert_uint_eq(wr.send_flags, IBV_SEND_SIGNALED);
	ck_assert_uint_eq(wr.imm_data, 5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/rdma/queue");
	TCase *c = tcase_create("sendq");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, sendq_init__depth);
	tcase_add_test(c, sendq_alloc__half_interval);
	tcase_add_test(c, sendq_alloc__signaled);
	tcase_add_test(c, sendq_init__interval);
	tcase_add_test(c, sendq_unalloc__refused);
	tcase_add_test(c, post__sigpipe);
	tcase_add_test(c, sendq_retire__order);
	tcase_add_test(c, sendq__bounce_buffers);
	tcase_add_test(c, wc__owner);
	tcase_add_test(c, fill_send__bounce_or_inline);
	suite_add_tcase(s, c);
	return test_main("transport/rdma/queue", s);
}
