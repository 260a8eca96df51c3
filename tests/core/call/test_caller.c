/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The caller: the right answer to each request, at most one execution, and an honest result. */
#include "core/call/caller.h"
#include "core/call/calls.h"

/* ---- answers ---- */

START_TEST(answer__sizes)
{
	static const size_t lens[] = {8, 9, 500, 2000, 7000, 20000, 70000, 300000};
	static uint8_t reply[300000];

	for (unsigned i = 0; i < 8; i++)
		OK(call(i, lens[i], 5000));
	servers[0].reply = reply;
	for (unsigned i = 0; i < 8; i++) {
		servers[0].reply_len = lens[i];
		OK(call(10 + i, 8, 5000));
	}
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_eq(servers[0].executed[i], 1);
	rig_expect_none(&rig, 0);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->calls, 0);
	ck_assert(ripc__list_empty(&rig_peer(&rig, 1, 0)->lists->served));
}
END_TEST

/* The length of all items decides how a request travels. */
START_TEST(request__two_items)
{
	static uint8_t large[300000];
	uint64_t n = 1;
	struct iovec items[2] = {{&n, sizeof(n)}, {large, sizeof(large)}};
	struct ripc_message *m, *reply;

	servers[0].keep = true;
	RC(-ETIME, ripc_call(rig.s[0], RIG_ID(1), items, 2, NULL, &reply, 100));
	ck_assert_uint_eq(servers[0].nkept, 1);
	m = servers[0].kept[0];
	ck_assert_uint_eq(m->nitems, 2);
	ck_assert_uint_eq(m->items[1].iov_len, sizeof(large));
	ck_assert(m->is_long);
}
END_TEST

START_TEST(answer__any_order)
{
	enum { N = 40 };
	struct ripc_request *r[N];
	struct iovec item;

	servers[0].keep = true;
	for (unsigned i = 0; i < N; i++)
		OK(start(RIG_ID(1), i, 8, NULL, 5000, &r[i]));
	for (int k = 0; k < 100 && servers[0].nkept < N; k++)
		rig_run(&rig, 1);
	ck_assert_uint_eq(servers[0].nkept, N);
	RC(-EINPROGRESS, ripc_call_wait(&r[0], NULL, 0));
	for (unsigned i = N; i; i--) {
		item = servers[0].kept[i - 1]->items[0];
		OK(ripc_reply(servers[0].kept[i - 1], &item, 1, 0));
	}
	for (unsigned i = 0; i < N; i++)
		OK(result(&r[i], i));
}
END_TEST

/*
 * The caller's service takes no more long messages, and one waits: an answer does not wait behind
 * it, in whatever way it comes.
 */
START_TEST(answer__full_service)
{
	static uint8_t reply[100000];
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 200000), 200000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};
	struct ripc_request *full[2], *r;

	for (unsigned i = 0; i < 2; i++)
		full[i] = rig_begin(&rig, 1, 0, ripc_buf_alloc(rig.ctx[1], 40 * MIB), 40 * MIB);
	while (!rig.s[0]->first)
		rig_run(&rig, 1);
	ck_assert_uint_eq(rig_waiting(rig.s[0], RIPC__RNDV_WAITING), 1);
	servers[0].reply = reply;
	for (unsigned i = 0; i < 6; i++) {
		servers[0].reply_len = i % 3 == 0 ? 8 : i % 3 == 1 ? 900 : sizeof(reply);
		OK(start(RIG_ID(1), i, 8, i < 3 ? &options : NULL, 1000, &r));
		OK(result(&r, i));
	}
	ck_assert_uint_eq(rig_waiting(rig.s[0], RIPC__RNDV_WAITING), 1);
	for (unsigned i = 0; i < 2; i++) {
		ripc_message_free(rig_take(&rig, 0));
		OK(ripc_request_wait(&full[i], 5000));
	}
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/*
 * The service is full, and another peer has sent an answer to the call, which waits there: the true
 * one does not.
 */
START_TEST(answer__beside_forged_one)
{
	uint8_t message[RIPC__HEADER_MAX], *p;
	unsigned other = rig_open(&rig, NULL);
	struct ripc_request *full[2], *r;

	rig_connect(&rig, other, 0);
	for (unsigned i = 0; i < 2; i++)
		full[i] = rig_begin(&rig, 1, 0, ripc_buf_alloc(rig.ctx[1], 40 * MIB), 40 * MIB);
	while (!rig.s[0]->first)
		rig_run(&rig, 1);
	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 100000, NULL, 5000, &r));
	await_kept(1);
	p = ripc__header_put(message, RIPC__LONG, RIPC__F_REPLY, 1, 0, RIG_ID(0), RIG_ID(1));
	p = ripc__call_put(p, RIPC__F_REPLY, &(struct ripc__call_words){.id = r->call->id});
	ripc__put_le64(p, 1);
	ripc__put_le64(p + 8, 1);
	p = ripc__desc_put(p + 16, &(struct ripc__desc){.len = 100000, .how = RIPC__HOW_READ});
	rig_inject(&rig, other, 0, message, (size_t)(p - message), 0);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(rig.s[0], RIPC__RNDV_WAITING), 2);
	OK(ripc_reply(servers[0].kept[0], servers[0].kept[0]->items, 1, 1000));
	OK(result(&r, 1));
	rig_close(&rig, other);
	for (unsigned i = 0; i < 2; i++) {
		ripc_message_free(rig_take(&rig, 0));
		OK(ripc_request_wait(&full[i], 5000));
	}
}
END_TEST

/* Within one context. */
START_TEST(answer__self)
{
	struct ripc_request *r;

	OK(ripc_service_register(rig.ctx[0], 77, 0, &servers[1].s));
	nservers = 2;
	for (unsigned i = 0; i < 5; i++) {
		OK(start(77, i, i & 1 ? 100000 : 8, NULL, 5000, &r));
		OK(result(&r, i));
	}
}
END_TEST

/* ---- time ---- */

/* The answer comes after the caller's time: the next call gets its own answer. */
START_TEST(time__late_answer)
{
	struct ripc_request *r;
	struct iovec item;

	servers[0].keep = true;
	RC(-ETIME, call(1, 8, 50));
	ck_assert_uint_eq(servers[0].nkept, 1);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 1);
	servers[0].keep = false;
	OK(start(RIG_ID(1), 2, 8, NULL, 5000, &r));
	item = servers[0].kept[0]->items[0];
	RC(-ECANCELED, ripc_reply(servers[0].kept[0], &item, 1, 0));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1000"));
	OK(result(&r, 2));
}
END_TEST

START_TEST(time__nobody_there)
{
	struct ripc_request *r;

	OK(start(4711, 1, 8, NULL, 500, &r));
	RC(-EHOSTUNREACH, result(&r, 1));
	OK(start(4711, 1, 100000, NULL, 500, &r));
	RC(-EHOSTUNREACH, result(&r, 1));
	/* It is registered while the call waits. */
	OK(start(4711, 2, 8, NULL, 5000, &r));
	rig_run(&rig, 300);
	OK(ripc_service_register(rig.ctx[1], 4711, 0, &servers[1].s));
	nservers = 2;
	OK(result(&r, 2));
}
END_TEST

/* Its time is up when a lane is there, before the timers notice that: it is not sent. */
START_TEST(time__up_before_first_send)
{
	struct ripc *ctx = rig.ctx[0];
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 5);
	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	r->call->deadline_ns = 1;
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 3000);
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	ck_assert_uint_eq(servers[0].executed[1], 0);
	ctx->call_groups_ns[0] = ctx->calls_next_ns = 0;
	RC(-ETIMEDOUT, result(&r, 1));
}
END_TEST

/* Many calls with other deadlines, which end at any time and begin anew: each ends at its own. */
START_TEST(time__each_of_many)
{
	enum { N = 500, RUN_MS = 1000 };
	static struct ripc_request *r[N];
	static uint64_t end_ms[N];
	unsigned ended = 0;

	for (unsigned ms = 0; ms < RUN_MS; ms++) {
		for (unsigned i = 0; i < N; i++) {
			bool done = r[i] && r[i]->state == RIPC__REQUEST_DONE;

			if (r[i])
				ck_assert_msg(done == (ms >= end_ms[i]), "%u at %u ms, not %llu", i,
					      ms, (unsigned long long)end_ms[i]);
			if (done)
				RC(-EHOSTUNREACH, result(&r[i], i));
			ended += done;
			if (r[i])
				continue;
			end_ms[i] = 1 + ripc__sim_random(rig.net) % (i % 7 ? 2 * RUN_MS : 20);
			OK(start(4711, i, 8, NULL, (int)end_ms[i], &r[i]));
			end_ms[i] += ms;
		}
		rig_run(&rig, 1);
	}
	ck_assert_uint_gt(ended, N);
	for (unsigned i = 0; i < N; i++)
		ripc_request_cancel(&r[i], 0);
}
END_TEST

/* The peer does not let go of the first request: its lane is closed, which ends the other calls. */
START_TEST(time__many_long_requests_stuck)
{
	enum { N = 5 };
	struct ripc_request *r[N];

	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (unsigned i = 0; i < N; i++)
		OK(start(RIG_ID(1), i, 20000, NULL, 50, &r[i]));
	for (unsigned i = 0; i < N; i++) {
		int rc = result(&r[i], i);

		ck_assert_msg(rc == -ETIME || rc == -ETIMEDOUT || rc == -EPIPE, "%d", rc);
	}
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(call(20, 8, 5000));
}
END_TEST

/* ---- giving up ---- */

START_TEST(cancel__in_every_state)
{
	struct ripc_request *r;

	/* Not sent yet. */
	OK(start(4711, 1, 8, NULL, 5000, &r));
	RC(-ECANCELED, ripc_request_cancel(&r, 100));
	/* In the queue. */
	servers[0].s = NULL;
	OK(start(RIG_ID(1), 2, 8, NULL, 5000, &r));
	rig_run(&rig, 5);
	RC(-ECANCELED, ripc_request_cancel(&r, 100));
	/* It is not kept until the service receives. */
	ck_assert_ptr_null(rig.s[1]->first);
	rig_expect_none(&rig, 1);
	/* Received. */
	servers[0] = (struct server){.s = rig.s[1], .keep = true};
	OK(start(RIG_ID(1), 3, 8, NULL, 5000, &r));
	await_kept(1);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 0);
	RC(-ETIME, ripc_request_cancel(&r, 100));
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 1);
	/* Received, and freed without an answer, before or after it is given up. */
	for (unsigned i = 0; i < 2; i++) {
		OK(start(RIG_ID(1), 4 + i, 8, NULL, 5000, &r));
		await_kept(2);
		ripc_message_free(servers[0].kept[--servers[0].nkept]);
		rig_run(&rig, i ? 0 : 5);
		RC(-ETIME, ripc_request_cancel(&r, 100));
	}
	/* Long, at any time. */
	servers[0].keep = false;
	for (unsigned i = 0; i < 40; i++) {
		int rc;

		OK(start(RIG_ID(1), 10 + i, 100000, NULL, 5000, &r));
		ripc__sim_run(rig.net, 1 + i * 5000);
		rc = ripc_request_cancel(&r, 100);
		ck_assert_msg(!rc || rc == -ECANCELED || rc == -ETIME, "%d", rc);
		if (rc == -ECANCELED)
			ck_assert_uint_eq(servers[0].executed[10 + i], 0);
		if (!rc)
			ck_assert_uint_eq(servers[0].executed[10 + i], 1);
	}
	OK(call(60, 8, 5000));
}
END_TEST

/* It may have arrived before its sender knows. */
START_TEST(cancel__long_in_flight)
{
	struct ripc_request *r;

	servers[0].s = NULL;
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 100; i++) {
		OK(start(RIG_ID(1), 1, 100000, NULL, 60000, &r));
		ripc__sim_run(rig.net, 1 + i * 3000);
		RC(-ECANCELED, ripc_request_cancel(&r, 1000));
		ck_assert_ptr_null(rig.s[1]->first);
	}
}
END_TEST

/* Without a lane only a request that every lane can send is short. */
START_TEST(request__without_a_lane)
{
	struct ripc_request *r;

	OK(start(RIG_ID(1), 1, RIPC_SHORT_GUARANTEED, NULL, 5000, &r));
	OK(result(&r, 1));
	ck_assert_uint_eq(rig_stats(&rig, 0).long_sent, 0);
	rig_fail_lane(&rig, 0, 1);
	OK(start(RIG_ID(1), 2, RIPC_SHORT_GUARANTEED + 1, NULL, 5000, &r));
	OK(result(&r, 2));
	ck_assert_uint_eq(rig_stats(&rig, 0).long_sent, 1);
}
END_TEST

/* ---- lanes that are lost ---- */

START_TEST(lane_lost__at_every_operation)
{
	OK(call(0, 8, 5000));
	for (uint64_t nth = 1; nth <= 30; nth++) {
		struct ripc_request *r[10];

		memset(servers[0].executed, 0, sizeof(servers[0].executed));
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		for (unsigned i = 0; i < 10; i++)
			OK(start(RIG_ID(1), i, 8, NULL, 10000, &r[i]));
		for (unsigned i = 0; i < 10; i++) {
			OK(result(&r[i], i));
			ck_assert_uint_eq(servers[0].executed[i], 1);
		}
		OK(call(20, 100000, 10000));
		ck_assert_uint_eq(servers[0].executed[20], 1);
	}
	ck_assert_uint_gt(rig_stats(&rig, 0).lanes_lost, 10);
}
END_TEST

static void partition_after_break(void *arg)
{
	struct ripc__sim_counters counters;

	ripc__sim_counters(rig.net, &counters);
	if (counters.breaks > *(const uint64_t *)arg)
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
}

/* The lane is lost before the acknowledgement of a long request, and there is no other in time. */
START_TEST(lane_lost__time_up)
{
	struct ripc__sim_counters counters = {.breaks = UINT64_MAX};
	unsigned executed = 0;

	servers[0].keep = true;
	OK(ripc__sim_actor(rig.net, partition_after_break, &counters.breaks));
	for (uint64_t nth = 1; nth <= 8; nth++) {
		int rc;

		rig_connect(&rig, 0, 1);
		ripc__sim_counters(rig.net, &counters);
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		rc = call(nth, 100000, 50);
		executed += servers[0].executed[nth];
		ck_assert_msg(!servers[0].executed[nth] || rc == -ETIME,
			      "executed, and the result is %d", rc);
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), 0);
		counters.breaks = UINT64_MAX;
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
		rig_run(&rig, 3000);
	}
	ripc__sim_actor_remove(rig.net, partition_after_break, &counters.breaks);
	ck_assert_uint_gt(executed, 0);
}
END_TEST

/* ---- the callee dies ---- */

/* The context of the first server dies. */
static void kill_first_holder(void)
{
	servers[0].s = NULL;
	/* They go with the context. */
	servers[0].nkept = 0;
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig.s[1] = NULL;
}

START_TEST(callee_died__unknown)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	await_kept(1);
	rig_run(&rig, 5);
	kill_first_holder();
	RC(-EPIPE, result(&r, 1));
}
END_TEST

/* The death of a callee does not end the calls to another one. */
START_TEST(callee_died__others_go_on)
{
	unsigned other = rig_open(&rig, NULL);
	struct ripc_request *r[2];

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 60000, &r[0]));
	OK(start(RIG_ID(other), 2, 8, NULL, 60000, &r[1]));
	await_kept(1);
	/* Both are acknowledged. */
	rig_run(&rig, 100);
	ripc__sim_kill_context(rig.net, rig.ctx[other], false);
	rig.ctx[other] = NULL;
	RC(-EPIPE, result(&r[1], 2));
	RC(-EINPROGRESS, ripc_request_test(&r[0]));
	OK(reply_kept(0));
	OK(result(&r[0], 1));
}
END_TEST

START_TEST(callee_died__idempotent_repeated)
{
	struct ripc_call_options o = {.size = sizeof(o), .flags = RIPC_IDEMPOTENT};
	struct ripc_request *r[2];

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, &o, 60000, &r[0]));
	OK(start(RIG_ID(1), 2, 100000, &o, 60000, &r[1]));
	await_kept(2);
	rig_run(&rig, 5);
	kill_first_holder();
	open_second_holder();
	OK(result(&r[0], 1));
	OK(result(&r[1], 2));
	ck_assert_uint_eq(servers[1].executed[1], 1);
	ck_assert_uint_eq(servers[1].executed[2], 1);
}
END_TEST

/*
 * The state of a request arrives before its acknowledgement, which was lost with a lane: the
 * request is taken out of the messages to that peer before it is sent again.
 */
START_TEST(state__before_acknowledgement)
{
	struct ripc_call_options o = {.size = sizeof(o), .flags = RIPC_IDEMPOTENT};
	bool is_long = _i & 2;
	struct ripc *ctx = rig.ctx[0];
	struct ripc_request *r;
	uint64_t id;

	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(start(RIG_ID(1), 1, is_long ? 100000 : 8, &o, 5000, &r));
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->reliable_unacked, !is_long);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->nrequests, is_long);
	id = r->call->id;
	ripc__lock(ctx);
	ripc__call_state_received(rig_lane(&rig, 0, 1), id,
				  _i & 1 ? RIPC__CALL_MOVED : RIPC__CALL_UNKNOWN);
	ripc__unlock(ctx);
	ck_assert_uint_le(rig_peer(&rig, 0, 1)->reliable_unacked, 1);
	ck_assert_int_eq(r->call->early_state != 0, is_long);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(result(&r, 1));
	/* The first answer may come before the second request is sent. */
	ck_assert_uint_ge(servers[0].executed[1], 1);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->reliable_unacked, 0);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->calls, 0);
}
END_TEST

/*
 * The time of a long request is up when it arrives: the state comes before its acknowledgement, and
 * the result is not "may have been executed".
 */
START_TEST(state__long_request_too_late)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	OK(start(RIG_ID(1), 1, 100000, NULL, 5000, &r));
	ripc__lock(rig.ctx[0]);
	ripc__call_state_received(rig_lane(&rig, 0, 1), r->call->id, RIPC__CALL_NOT_TAKEN);
	ripc__unlock(rig.ctx[0]);
	RC(-ETIMEDOUT, result(&r, 1));
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
}
END_TEST

/* Its service ends while it is being cancelled: it was not executed, and is not sent again. */
START_TEST(state__moved_while_cancelling)
{
	struct ripc *ctx = rig.ctx[0];
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(start(RIG_ID(1), 1, 8, NULL, 50, &r));
	rig_run(&rig, 100);
	ck_assert_int_eq(r->call->state, RIPC__CALL_IS_CANCELLING);
	ripc__lock(ctx);
	ripc__call_state_received(rig_lane(&rig, 0, 1), r->call->id, RIPC__CALL_MOVED);
	ck_assert_int_ne(rig_dest(&rig, 0, 1)->state, RIPC__DEST_KNOWN);
	ripc__unlock(ctx);
	RC(-ETIMEDOUT, ripc_request_test(&r));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
}
END_TEST

/* There is no next holder: the first one has executed it, so the result does not deny that. */
START_TEST(callee_died__idempotent_not_repeated)
{
	struct ripc_call_options o = {.size = sizeof(o), .flags = RIPC_IDEMPOTENT};
	struct ripc_request *r[3];

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, &o, 10000, &r[0]));
	OK(start(RIG_ID(1), 2, 100000, &o, 10000, &r[1]));
	OK(start(RIG_ID(1), 3, 8, &o, 10000, &r[2]));
	await_kept(3);
	rig_run(&rig, 5);
	kill_first_holder();
	rig_run(&rig, 5000);
	RC(-ETIME, ripc_request_cancel(&r[2], 100));
	RC(-ETIME, result(&r[0], 1));
	RC(-ETIME, result(&r[1], 2));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/caller");
	TCase *tc = tcase_create("caller");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, calls_setup, calls_teardown);
	tcase_add_test(tc, answer__sizes);
	tcase_add_test(tc, request__two_items);
	tcase_add_test(tc, answer__any_order);
	tcase_add_test(tc, answer__full_service);
	tcase_add_test(tc, answer__beside_forged_one);
	tcase_add_test(tc, answer__self);
	tcase_add_test(tc, time__late_answer);
	tcase_add_test(tc, time__nobody_there);
	tcase_add_test(tc, time__up_before_first_send);
	tcase_add_test(tc, time__each_of_many);
	tcase_add_test(tc, time__many_long_requests_stuck);
	tcase_add_test(tc, cancel__in_every_state);
	tcase_add_test(tc, cancel__long_in_flight);
	tcase_add_test(tc, request__without_a_lane);
	tcase_add_test(tc, lane_lost__at_every_operation);
	tcase_add_test(tc, lane_lost__time_up);
	tcase_add_test(tc, callee_died__unknown);
	tcase_add_test(tc, callee_died__others_go_on);
	tcase_add_test(tc, callee_died__idempotent_repeated);
	tcase_add_loop_test(tc, state__before_acknowledgement, 0, 4);
	tcase_add_test(tc, state__long_request_too_late);
	tcase_add_test(tc, state__moved_while_cancelling);
	tcase_add_test(tc, callee_died__idempotent_not_repeated);
	suite_add_tcase(suite, tc);
	return test_main("core/call/caller", suite);
}
