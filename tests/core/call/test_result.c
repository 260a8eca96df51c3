/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The end of a call: its reply buffers are the caller's again. */
#include "core/call/caller.h"
#include "core/call/calls.h"
#include "core/call/caller.h"
#include "core/peer/dest.h"
#include "wire/bytes.h"

/* The application waits for the result alone: nothing of the answer is left. */
START_TEST(answer__not_wanted)
{
	static const size_t lens[] = {8, 100000};
	struct ripc *ctx = rig.ctx[0];
	struct ripc_request *r;

	for (unsigned i = 0; i < 2; i++) {
		OK(start(RIG_ID(1), 1, lens[i], NULL, 5000, &r));
		OK(ripc_request_wait(&r, 5000));
		ck_assert_ptr_null(r);
	}
	ck_assert(ripc__list_empty(&ctx->messages));
	for (struct ripc__message *m = ctx->small_first; m; m = m->next)
		ck_assert(m->freed);
}
END_TEST

/* The memory that an answer lies in is in use until the call is done, and its caller's then. */
START_TEST(answer__in_window_until_collected)
{
	static uint8_t window[100000];
	struct ripc *ctx = rig.ctx[0];
	struct ripc_request *r;
	struct ripc_message *m;

	for (unsigned i = 0; i < 2; i++) {
		OK(ripc_buf_register(ctx, window, sizeof(window)));
		OK(ripc_window_add(ctx, NULL, window, sizeof(window)));
		OK(start(RIG_ID(1), 1, sizeof(window), NULL, 5000, &r));
		while (r->state != RIPC__REQUEST_DONE)
			rig_run(&rig, 1);
		RC(-EBUSY, ripc_buf_unregister(ctx, window));
		RC(-EBUSY, ripc_window_add(ctx, NULL, window, 1));
		if (i) {
			OK(ripc_request_wait(&r, 5000));
		} else {
			OK(ripc_call_wait(&r, &m, 5000));
			ck_assert_ptr_eq(m->items[0].iov_base, window);
			ck_assert_uint_eq(m->placement[0], RIPC_IN_WINDOW);
			ripc_message_free(m);
		}
		OK(ripc_buf_unregister(ctx, window));
	}
}
END_TEST

/* The service that has called ends: the window of its answer is still in use. */
START_TEST(answer__in_window_of_ended_service)
{
	struct ripc *ctx = rig.ctx[0];
	uint8_t *window = ripc_buf_alloc(ctx, 100000);
	struct ripc_request *r;
	struct ripc_message *m;

	OK(ripc_window_add(ctx, rig.s[0], window, 100000));
	OK(start(RIG_ID(1), 1, 100000, NULL, 5000, &r));
	while (r->state != RIPC__REQUEST_DONE)
		rig_run(&rig, 1);
	OK(ripc_service_unregister(rig.s[0]));
	RC(-EBUSY, ripc_buf_free(ctx, window));
	OK(ripc_call_wait(&r, &m, 5000));
	ck_assert_ptr_eq(m->items[0].iov_base, window);
	OK(ripc_buf_free(ctx, window));
	ripc_message_free(m);
}
END_TEST

/* The word of an answer is a status or one more than a state; any other shows a wrong peer. */
START_TEST(answer__word)
{
	static const struct {
		uint32_t word;
		int status;
	} cases[] = {
		{(uint32_t)-1, -1},
		{(uint32_t)-4095, -4095},
		{(uint32_t)-4096, -EPROTO},
		{1 + RIPC__CALL_NOT_TAKEN, -ETIMEDOUT},
		{1 + RIPC__CALL_TAKEN, -EPIPE},
		{1 + RIPC__CALL_UNKNOWN, -EPIPE},
		{1 + RIPC__CALL_STATES, -EPROTO},
		{INT32_MAX, -EPROTO},
	};
	struct ripc__message *m;
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	await_kept(1);
	ripc__lock(rig.ctx[0]);
	m = ripc__message_new(rig.ctx[0], 1);
	ck_assert_ptr_nonnull(m);
	m->pub.source = RIG_ID(1);
	ripc__call_reply(m, r->call->id, cases[_i].word, rig_peer(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	RC(cases[_i].status, result(&r, 1));
}
END_TEST

/* A state that this version does not know: whether the request was executed is unknown. */
START_TEST(state__unknown_value)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	await_kept(1);
	ripc__lock(rig.ctx[0]);
	ripc__call_state_received(rig_lane(&rig, 0, 1), r->call->id,
				  _i ? UINT64_MAX : RIPC__CALL_STATES);
	ripc__unlock(rig.ctx[0]);
	RC(-EPIPE, result(&r, 1));
}
END_TEST

/* A peer that does not have the request cannot answer it. */
START_TEST(answer__of_another_peer)
{
	unsigned other = rig_open(&rig, NULL);
	struct ripc *ctx = rig.ctx[0];
	struct ripc__message *m;
	struct ripc_request *r;

	rig_connect(&rig, other, 0);
	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	await_kept(1);
	ripc__lock(ctx);
	m = ripc__message_new(ctx, 1);
	ck_assert_ptr_nonnull(m);
	m->pub.source = RIG_ID(1);
	ripc__call_reply(m, r->call->id, 0, rig_peer(&rig, 0, other));
	ck_assert_uint_eq(ctx->stats.late_replies, 1);
	ripc__unlock(ctx);
	RC(-EINPROGRESS, ripc_request_test(&r));
	OK(reply_kept(0));
	OK(result(&r, 1));
}
END_TEST

/* Nor can a peer answer one that has not been sent, or a long one on its way to another peer. */
START_TEST(answer__of_another_peer_ahead)
{
	unsigned other = rig_open(&rig, NULL);
	uint64_t dest = _i ? RIG_ID(1) : 4711;
	struct ripc *ctx = rig.ctx[0];
	struct ripc__message *m;
	struct ripc_request *r;

	rig_connect(&rig, other, 0);
	rig_connect(&rig, 0, 1);
	OK(start(dest, 1, _i ? 100000 : 8, NULL, 5000, &r));
	ck_assert_ptr_null(r->call->peer);
	ripc__lock(ctx);
	m = ripc__message_new(ctx, 1);
	ck_assert_ptr_nonnull(m);
	m->pub.source = dest;
	ripc__call_reply(m, r->call->id, 0, rig_peer(&rig, 0, other));
	ck_assert_uint_eq(ctx->stats.late_replies, 1);
	ripc__unlock(ctx);
	if (!_i) {
		OK(ripc_service_register(rig.ctx[1], 4711, 0, &servers[1].s));
		nservers = 2;
	}
	OK(result(&r, 1));
}
END_TEST

/* The answer lands in the caller's buffer, whatever is lost on the way. */
START_TEST(reply_buffer__lane_lost_at_every_operation)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 200000), 200000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};

	OK(call(0, 8, 5000));
	for (uint64_t nth = 1; nth <= 40; nth++) {
		struct ripc_request *r;
		struct ripc_message *m;

		memset(servers[0].executed, 0, sizeof(servers[0].executed));
		memset(buffer.iov_base, 0xee, buffer.iov_len);
		ripc__sim_break_at(rig.net, rig_instance(&rig, nth & 1),
				   rig_instance(&rig, !(nth & 1)), (nth + 1) / 2);
		OK(start(RIG_ID(1), nth, nth % 3 ? 150000 : 8, &options, 10000, &r));
		OK(ripc_call_wait(&r, &m, 60000));
		ck_assert_ptr_eq(m->items[0].iov_base, buffer.iov_base);
		ck_assert_uint_eq(m->placement[0], RIPC_IN_RETURN_BUFFER);
		ck_assert_uint_eq(number_of(m), nth);
		ck_assert_uint_eq(servers[0].executed[nth], 1);
		ripc_message_free(m);
		ck_assert_ptr_null(ripc__list_first(&rig.ctx[0]->memory->returns));
	}
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/* The peer does not let go of the buffer: the call ends nevertheless, and its lane with it. */
START_TEST(reply_buffer__silent_peer)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 200000), 200000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};
	struct ripc_request *r;
	uint64_t begin;

	servers[0].keep = true;
	for (uint64_t i = 0; i < 2; i++) {
		rig_connect(&rig, 0, 1);
		OK(start(RIG_ID(1), i, 8, &options, 200, &r));
		await_kept(1);
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
		begin = ripc__now(rig.ctx[0]);
		if (i)
			RC(-ETIME, ripc_request_cancel(&r, 50));
		else
			RC(-ETIME, result(&r, i));
		ck_assert_uint_lt(ripc__now(rig.ctx[0]) - begin, 600 * RIPC__MS);
		/* It had time to answer CALL_CANCEL, and again to return the buffer. */
		ck_assert(i || ripc__now(rig.ctx[0]) - begin >
				       200 * RIPC__MS + 3 * RIPC__CALL_CANCEL_NS / 2);
		/* Nothing can write it any more. */
		ck_assert_ptr_null(ripc__list_first(&rig.ctx[0]->memory->returns));
		ck_assert_ptr_eq(ripc_buf_realloc(rig.ctx[0], buffer.iov_base, 200000),
				 buffer.iov_base);
		ripc_message_free(servers[0].kept[--servers[0].nkept]);
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
		rig_run(&rig, 5000);
	}
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

static uint64_t granted; /* the request of the answer for which a buffer is granted; 0: none */

/* A long answer to the first request that is kept: the caller grants memory for it. */
static void grant_answer(void)
{
	struct ripc__desc d = {.len = 1000, .how = RIPC__HOW_GRANT};
	uint8_t buf[200], *p;

	granted = rig_peer(&rig, 0, 1)->next_request_id;
	p = ripc__header_put(buf, RIPC__LONG, RIPC__F_REPLY, 1, 0, RIG_ID(0), RIG_ID(1));
	ripc__put_le64(p, servers[0].kept[0]->call);
	ripc__put_le64(p + 8, 0);
	ripc__put_le64(p + 16, granted);
	ripc__put_le64(p + 24, granted);
	p = ripc__desc_put(p + 32, &d);
	rig_inject(&rig, 1, 0, buf, (size_t)(p - buf), 0);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(rig.s[0], RIPC__RNDV_TRANSFER), 1);
}

/* A call with a buffer that the server may not write itself, because the lane was lost. */
static struct ripc_request *start_with_buffer(const struct iovec *buffer)
{
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = buffer};
	struct ripc_request *r;

	servers[0].keep = true;
	rig_connect(&rig, 0, 1);
	OK(start(RIG_ID(1), 1, 8, &options, 5000, &r));
	await_kept(1);
	rig_run(&rig, 5);
	rig_fail_lane(&rig, 0, 1);
	rig_connect(&rig, 0, 1);
	return r;
}

/*
 * The server sends a second answer, for which it may write into the buffer, before its first one is
 * complete: the buffer is the caller's only when nothing can write it any more.
 */
START_TEST(reply_buffer__second_answer)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 200000), 200000};
	struct ripc_request *r = start_with_buffer(&buffer);

	grant_answer();
	OK(reply_kept(0));
	if (_i)
		OK(result(&r, 1));
	else
		OK(ripc_request_cancel(&r, 10));
	ck_assert_ptr_null(ripc__list_first(&rig.ctx[0]->memory->returns));
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
	rig_run(&rig, 1000);
}
END_TEST

/* The server withdraws the answer when the call waits for its buffer only. */
static void withdraw_answer(void *arg)
{
	uint8_t buf[RIPC__CONTROL_MAX];

	(void)arg;
	if (!granted || rig.ctx[0]->call_table[0]->state != RIPC__CALL_IS_WITHDRAWING)
		return;
	rig_inject(&rig, 1, 0, buf, ripc__control_put(buf, RIPC__CANCEL, 0, 0, granted, 0), 0);
	granted = 0;
}

/* A call that is given up gets its buffer back when the answer on its way there is withdrawn. */
START_TEST(reply_buffer__answer_withdrawn)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 200000), 200000};
	struct ripc_request *r = start_with_buffer(&buffer);
	uint64_t begin;

	grant_answer();
	OK(ripc__sim_actor(rig.net, withdraw_answer, NULL));
	begin = ripc__now(rig.ctx[0]);
	RC(-ETIME, ripc_request_cancel(&r, 1000));
	ck_assert_uint_lt(ripc__now(rig.ctx[0]) - begin, RIPC__CALL_CANCEL_NS / 2);
	ck_assert_uint_eq(granted, 0);
	ck_assert_ptr_null(ripc__list_first(&rig.ctx[0]->memory->returns));
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
	ripc__sim_actor_remove(rig.net, withdraw_answer, NULL);
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/* Reply buffers that the server may write. */
static unsigned remote_reply_buffers(void)
{
	const struct ripc__list *head = &ripc__dest_find(rig.ctx[1], RIG_ID(0))->remote_returns;
	struct ripc__list *n;
	unsigned count = 0;

	ripc__list_for_each (n, head)
		count += !ripc__list_entry(n, struct ripc__remote_return, link)->pooled;
	return count;
}

/* A destination remembers the buffers of unanswered calls only. */
START_TEST(reply_buffer__forgotten)
{
	/* The last one does not fit into the buffer. */
	static const size_t lens[] = {8, 900, 2000};
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 1000), 1000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};

	for (uint64_t i = 0; i < 300; i++) {
		struct ripc_request *r;

		servers[0].keep = i % 3 == 2;
		OK(start(RIG_ID(1), i, lens[i / 3 % 3], &options, 1000, &r));
		if (servers[0].keep) {
			await_kept(1);
			ripc_message_free(servers[0].kept[--servers[0].nkept]);
			RC(-ECANCELED, result(&r, i));
		} else {
			OK(result(&r, i));
		}
		/* A long answer uses its buffer until it is acknowledged. */
		rig_run(&rig, 5);
		ck_assert_uint_eq(remote_reply_buffers(), 0);
	}
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/result");
	TCase *tc = tcase_create("result");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, calls_setup, calls_teardown);
	tcase_add_test(tc, answer__not_wanted);
	tcase_add_test(tc, answer__in_window_until_collected);
	tcase_add_test(tc, answer__in_window_of_ended_service);
	tcase_add_loop_test(tc, answer__word, 0, 8);
	tcase_add_loop_test(tc, state__unknown_value, 0, 2);
	tcase_add_test(tc, answer__of_another_peer);
	tcase_add_loop_test(tc, answer__of_another_peer_ahead, 0, 2);
	tcase_add_test(tc, reply_buffer__lane_lost_at_every_operation);
	tcase_add_test(tc, reply_buffer__silent_peer);
	tcase_add_loop_test(tc, reply_buffer__second_answer, 0, 2);
	tcase_add_test(tc, reply_buffer__answer_withdrawn);
	tcase_add_test(tc, reply_buffer__forgotten);
	suite_add_tcase(suite, tc);
	return test_main("core/call/result", suite);
}
