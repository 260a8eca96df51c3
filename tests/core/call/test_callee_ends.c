/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The service that was called closes, moves or finds its caller full, gone or forged. */
#include "core/call/call.h"
#include "core/call/calls.h"
#include "wire/bytes.h"

/* Answers the only request that the callee keeps, and frees it. */
static void answer_and_free(void)
{
	OK(reply_kept(0));
	ripc_message_free(servers[0].kept[0]);
	servers[0].nkept = 0;
}

/* The caller has ended: a new context takes its service over. */
static void caller_opens(void)
{
	unsigned i = rig_open(&rig, NULL);

	OK(ripc_service_unregister(rig.s[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(0), RIPC_TAKEOVER, &rig.s[i]));
	rig.s[0] = rig.s[i];
}

/* ---- the callee closes or moves ---- */

/* Requests in the queue of a service that is closed go to its next holder. */
START_TEST(callee_closed__next_holder)
{
	struct ripc_request *r[10];

	servers[0].s = NULL;
	for (unsigned i = 0; i < 10; i++)
		OK(start(RIG_ID(1), i, i & 1 ? 20000 : 8, NULL, 20000, &r[i]));
	rig_run(&rig, 5);
	if (_i) {
		rig_close(&rig, 1);
	} else {
		OK(ripc_service_unregister(rig.s[1]));
		rig.s[1] = NULL;
	}
	open_second_holder();
	for (unsigned i = 0; i < 10; i++) {
		OK(result(&r[i], i));
		ck_assert_uint_eq(servers[1].executed[i], 1);
	}
}
END_TEST

static void keep_nothing(struct ripc__sim_config *config)
{
	config->transient = 1;
}

/* The same after the lane that it came over was lost: it holds nothing but its struct. */
START_TEST(callee_closed__after_lane_lost)
{
	struct ripc_request *r;

	calls_teardown();
	calls_setup_with(keep_nothing);
	servers[0].s = NULL;
	OK(start(RIG_ID(1), 1, 8, NULL, 60000, &r));
	rig_run(&rig, 5);
	ck_assert_ptr_nonnull(rig.s[1]->first);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 50);
	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	rig_expect(&rig, 0, 10, 1);
	ck_assert(ripc__message_is_small(rig.s[1]->first));
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	open_second_holder();
	OK(result(&r, 1));
	ck_assert_uint_eq(servers[1].executed[1], 1);
}
END_TEST

/* A context that closes answers the requests that it has received. */
START_TEST(callee_closed__answered)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	await_kept(1);
	servers[0].s = NULL;
	servers[0].nkept = 0;
	rig_close(&rig, 1);
	RC(-ECANCELED, result(&r, 1));
}
END_TEST

/* A request that arrives while its context closes was not executed, and its caller learns that. */
START_TEST(callee_closed__arrives_meanwhile)
{
	struct ripc_request *r;
	uint64_t until;

	OK(call(0, 8, 5000));
	servers[0].s = NULL;
	OK(start(RIG_ID(1), 1, _i ? 20000 : 8, NULL, 1000, &r));
	/* The network alone: context 1 makes progress when it closes. */
	until = ripc__sim_now(rig.net) + RIPC__MS;
	while (ripc__sim_step(rig.net, until))
		;
	rig_close(&rig, 1);
	RC(-EHOSTUNREACH, result(&r, 1));
}
END_TEST

/* A service that is taken over answers what it has received; later calls go to the new holder. */
START_TEST(callee_moved)
{
	struct ripc_request *r[6];

	servers[0].keep = true;
	for (unsigned i = 0; i < 3; i++)
		OK(start(RIG_ID(1), i, 8, NULL, 20000, &r[i]));
	await_kept(3);
	open_second_holder();
	rig_run(&rig, 50);
	for (unsigned i = 3; i < 6; i++)
		OK(start(RIG_ID(1), i, 8, NULL, 20000, &r[i]));
	rig_run(&rig, 50);
	/* A request that the former holder received is answered there. */
	for (unsigned i = 0; i < servers[0].nkept; i++)
		OK(reply_kept(i));
	for (unsigned i = 0; i < 6; i++) {
		OK(result(&r[i], i));
		ck_assert_uint_eq(servers[0].executed[i] + servers[1].executed[i], 1);
	}
	ck_assert_uint_gt(servers[1].executed[3] + servers[1].executed[4] + servers[1].executed[5],
			  0);
}
END_TEST

/*
 * Long answers of a service that has ended. _i = 0: it was taken over, and answers what it has
 * received; 1: it was unregistered: the call fails, and the caller learns that there is no answer.
 */
START_TEST(callee_ended__long_answer)
{
	static uint8_t data[100000];
	struct iovec item = {data, sizeof(data)};
	struct ripc_request *r, *answer = NULL;
	uint64_t n = 7;

	memcpy(data, &n, sizeof(n));
	servers[0].keep = true;
	OK(start(RIG_ID(1), n, 8, NULL, 20000, &r));
	await_kept(1);
	if (_i == 0) {
		open_second_holder();
		rig_run(&rig, 50);
		OK(ripc_reply_start(servers[0].kept[0], &item, 1, NULL, &answer));
		OK(result(&r, n));
		OK(ripc_request_wait(&answer, 5000));
		return;
	}
	servers[0].s = NULL;
	OK(ripc_service_unregister(rig.s[1]));
	RC(-ESHUTDOWN, ripc_reply_start(servers[0].kept[0], &item, 1, NULL, &answer));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1001"));
	ck_assert_ptr_null(answer);
	RC(-EALREADY, ripc_reply(servers[0].kept[0], &item, 1, 5000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1000"));
	RC(-EPIPE, result(&r, n));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "could not send its answer"));
}
END_TEST

/* ---- the caller's service is full ---- */

/*
 * The server has filled the queue of the service that calls, and further messages of each kind
 * wait there. Nobody receives them, because the caller waits for its answer: _i = 0: a short one,
 * 1: a long one, 2: -ECANCELED, as the request is freed.
 */
START_TEST(reply__full_service)
{
	static uint8_t data[100000];
	struct ripc_request *r, *call, *sent, *answer = NULL;
	struct iovec item = {data, 8}, answers = {data, sizeof(data)};
	uint64_t before;
	int rc = 0;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 0, 8, NULL, 5000, &r));
	await_kept(1);
	for (size_t len = 400; len; len = len > 1 && rc ? 1 : rc ? 0 : len)
		rc = rig_short(&rig, 1, 0, len, 1, 20);
	RC(-ETIMEDOUT, rc);
	sent = rig_begin(&rig, 1, 0, data, sizeof(data));
	OK(ripc_call_start(rig.s[1], RIG_ID(0), &item, 1, NULL, -1, &call));
	rig_run(&rig, 20);
	before = rig.s[0]->queued;
	if (_i == 0)
		OK(reply_kept(0));
	if (_i == 1)
		OK(ripc_reply_start(servers[0].kept[0], &answers, 1, NULL, &answer));
	if (_i == 2)
		ripc_message_free(servers[0].kept[0]);
	rig_run(&rig, 20);
	RC(_i == 2 ? -ECANCELED : 0, result(&r, 0));
	ck_assert_uint_eq(rig.s[0]->queued, before);
	RC(-EINPROGRESS, ripc_request_test(&call));
	if (_i == 1)
		OK(ripc_request_test(&answer));
	servers[0].nkept = 0;
	ripc_request_cancel(&call, 0);
	ripc_request_cancel(&sent, 0);
}
END_TEST

/* ---- the caller dies ---- */

/*
 * The service ends when it has a request in full, behind a message of which it has a part: the
 * request, which is acknowledged, goes to the next holder.
 */
START_TEST(moved__behind_another_message)
{
	struct ripc_request *r, *first;

	servers[0].s = NULL;
	rig_connect(&rig, 0, 1);
	/* Two of this size do not fit the service. */
	first = rig_begin(&rig, 0, 1, ripc_buf_alloc(rig.ctx[0], 40 * MIB), 40 * MIB);
	OK(ripc_request_wait(&first, 5000));
	first = rig_begin(&rig, 0, 1, ripc_buf_alloc(rig.ctx[0], 40 * MIB), 40 * MIB);
	OK(start(RIG_ID(1), 1, RIPC_SHORT_GUARANTEED + 1,
		 &(struct ripc_call_options){
			 .size = sizeof(struct ripc_call_options),
			 .nreply_buffers = 1,
			 .reply_buffers = &(struct iovec){ripc_buf_alloc(rig.ctx[0], 10), 10}},
		 -1, &r));
	rig_run(&rig, 20);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_READY), 1);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	ripc_request_cancel(&first, 100);
	open_second_holder();
	rig_run(&rig, 1000);
	RC(0, ripc_request_test(&r));
	ck_assert_uint_eq(servers[1].executed[1], 1);
}
END_TEST

/*
 * The service ends while its context has no lane to the caller: the caller learns on the next lane
 * that the request was not received, and sends it to the next holder.
 */
START_TEST(moved__without_a_lane)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 1000), 1000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};
	struct ripc_request *r;

	servers[0].s = NULL;
	rig_connect(&rig, 0, 1);
	OK(start(RIG_ID(1), 1, _i == 1 ? 100000 : 8, _i == 2 ? &options : NULL, -1, &r));
	while (!rig.s[1]->first)
		ripc__sim_run(rig.net, 10000);
	if (_i == 3)
		rig_run(&rig, 100);
	rig_fail_lane(&rig, 1, 0);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	rig_run(&rig, 50);
	open_second_holder();
	rig_run(&rig, 5000);
	RC(0, ripc_request_test(&r));
	ck_assert_uint_eq(servers[1].executed[1], 1);
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/*
 * The callee gives a long answer up, with or without a lane: the caller learns it, on the next one.
 */
START_TEST(answer__given_up)
{
	static uint8_t bytes[100000];
	struct iovec item = {bytes, sizeof(bytes)};
	bool cut = _i & 1, cancel = _i & 2;
	struct ripc_request *r, *answer;

	servers[0].keep = true;
	rig_connect(&rig, 0, 1);
	OK(start(RIG_ID(1), 1, 8, NULL, -1, &r));
	await_kept(1);
	rig_run(&rig, 5);
	if (cut) {
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
		ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
		rig_run(&rig, 10);
		ck_assert_ptr_null(rig_lane(&rig, 1, 0));
	}
	if (cancel) {
		OK(ripc_reply_start(servers[0].kept[0], &item, 1, NULL, &answer));
		RC(-ECANCELED, ripc_request_cancel(&answer, 100));
	} else {
		if (!cut)
			ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
		RC(cut ? -EHOSTUNREACH : -EPIPE, ripc_reply(servers[0].kept[0], &item, 1, 20));
		ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	}
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 5000);
	RC(-EPIPE, ripc_call_wait(&r, NULL, 0));
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->calls, 0);
}
END_TEST

/*
 * The callee does not find the caller's service, and reports that over a lane which is lost with
 * it: the caller learns it on the next one.
 */
START_TEST(answer__lost_with_its_state)
{
	struct ripc_request *r;
	struct ripc__dest *d;

	servers[0].keep = true;
	rig_connect(&rig, 0, 1);
	OK(start(RIG_ID(1), 1, 8, NULL, -1, &r));
	await_kept(1);
	d = rig_dest(&rig, 1, 0);
	rig.config.datagram_loss = 1;
	ripc__sim_configure(rig.net, &rig.config);
	if (_i) {
		/* A record of another holder, who is not there. */
		ripc__lock(rig.ctx[1]);
		d->contest_ns = RIPC__NEVER;
		ripc__list_del(&d->link);
		d->peer = ripc__peer_get(rig.ctx[1], (const uint8_t *)"another instance");
		ck_assert_ptr_nonnull(ripc__peer_lists(d->peer));
		ripc__list_add(&d->peer->lists->dests, &d->link);
		d->peer->lane = rig_lane(&rig, 1, 0);
		ripc__unlock(rig.ctx[1]);
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
		RC(-ECANCELED, reply_kept(0));
		d->peer->lane = NULL;
	} else {
		ripc__lock(rig.ctx[1]);
		ripc__dest_invalidate(rig.ctx[1], d, "as the test wants it");
		ripc__unlock(rig.ctx[1]);
		rig_run(&rig, 25);
		ripc__lock(rig.ctx[1]);
		ripc__dest_locate(rig.ctx[1], d);
		ck_assert_int_eq(d->state, RIPC__DEST_RESOLVING);
		ripc__unlock(rig.ctx[1]);
		OK(reply_kept(0));
		ck_assert_uint_eq(rig_peer(&rig, 1, 0)->answers, 1);
		rig_run(&rig, 1900);
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
		rig_run(&rig, 200);
		ck_assert_uint_eq(rig_peer(&rig, 1, 0)->answers, 0);
	}
	ck_assert_ptr_nonnull(rig_lane(&rig, 1, 0));
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig.config.datagram_loss = 0;
	ripc__sim_configure(rig.net, &rig.config);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 5000);
	RC(-EPIPE, ripc_call_wait(&r, NULL, 0));
	servers[0].keep = false;
	OK(call(2, 8, 5000));
}
END_TEST

/*
 * The caller has restarted: its service has the id of its former life, which the callee takes for
 * alive. The answer goes to the caller.
 */
START_TEST(caller_restarted)
{
	struct ripc_request *r;

	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	OK(result(&r, 1));
	ripc__sim_kill_context(rig.net, rig.ctx[0], _i & 1);
	rig.ctx[0] = NULL;
	rig.s[0] = NULL;
	if (_i & 2)
		rig_run(&rig, 20);
	caller_opens();
	OK(start(RIG_ID(1), 2, 8, NULL, 5000, &r));
	OK(result(&r, 2));
	OK(start(RIG_ID(1), 3, 100000, NULL, 5000, &r));
	OK(result(&r, 3));
	ck_assert_uint_eq(servers[0].executed[2], 1);
	rig.s[0] = NULL;
}
END_TEST

/*
 * The caller dies with several long answers under way: each of them ends. There is no address of
 * the caller, so the attempt to connect for the report of the first one fails at once.
 */
START_TEST(caller_died__long_answers)
{
	enum { N = 4 };
	static uint8_t bytes[100000];
	struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_request *r[N], *answer[N];

	servers[0].keep = true;
	for (unsigned i = 0; i < N; i++)
		OK(start(RIG_ID(1), i, 8, NULL, -1, &r[i]));
	await_kept(N);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	for (unsigned i = 0; i < N; i++)
		OK(ripc_reply_start(servers[0].kept[i], &item, 1, NULL, &answer[i]));
	rig_run(&rig, 20);
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->addrs_len, 0);
	ripc__sim_kill_context(rig.net, rig.ctx[0], _i);
	rig.ctx[0] = NULL;
	rig.s[0] = NULL;
	rig_run(&rig, 8000);
	for (unsigned i = 0; i < N; i++)
		RC(-EPIPE, ripc_request_test(&answer[i]));
}
END_TEST

/*
 * An answer is lost with its lane, and the caller has a new epoch: its record of messages was lost,
 * but it waits. The answer is sent again.
 */
START_TEST(caller_forgot__answer_unacked)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, -1, &r));
	await_kept(1);
	answer_and_free();
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	ripc__lock(rig.ctx[0]);
	ripc__peer_new_epoch(rig.ctx[0], rig_peer(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	rig_run(&rig, 1000);
	ck_assert_int_eq(r->state, RIPC__REQUEST_DONE);
	OK(result(&r, 1));
}
END_TEST

/*
 * The caller closes while an answer is under way, and opens a context that has its service again.
 * The calls of both have the same ids: the answer is not given to the new one.
 */
START_TEST(caller_restarted__answer_unacked)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	await_kept(1);
	answer_and_free();
	rig_close(&rig, 0);
	caller_opens();
	OK(start(RIG_ID(1), 2, 8, NULL, 5000, &r));
	await_kept(1);
	rig_run(&rig, 100);
	answer_and_free();
	OK(result(&r, 2));
	rig.s[0] = NULL;
}
END_TEST

/* A peer sends requests in the name of a service of another one: messages to that service go on. */
START_TEST(request__in_the_name_of_another)
{
	enum { N = 200 };
	unsigned other = rig_open(&rig, NULL), hostile = rig_open(&rig, NULL), failed = 0;

	rig_connect(&rig, 1, other);
	rig_connect(&rig, hostile, 1);
	servers[0].s = NULL;
	for (unsigned i = 1; i <= N; i++) {
		uint8_t buf[RIPC__HEADER_MAX], *p;
		struct ripc_message *m;

		p = ripc__header_put(buf, RIPC__LONG, RIPC__F_CALL, 1, 0, RIG_ID(1), RIG_ID(other));
		p = ripc__call_put(p, RIPC__F_CALL,
				   &(struct ripc__call_words){.id = i, .word = 1000});
		ripc__put_le64(p, i);
		ripc__put_le64(p + 8, i);
		p = ripc__desc_put(p + 16, &(struct ripc__desc){.how = RIPC__HOW_INLINE});
		rig_inject(&rig, hostile, 1, buf, (size_t)(p - buf), 0);
		rig_run(&rig, 1);
		/* The request is freed without an answer. */
		while (!ripc_receive(rig.s[1], &m, 0))
			ripc_message_free(m);
		failed += rig_short(&rig, 1, other, 10, i, 0) != 0;
		OK(rig_short(&rig, 1, other, 10, i, 1000));
		while (!ripc_receive(rig.s[other], &m, 0))
			ripc_message_free(m);
	}
	ck_assert_uint_le(failed, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/callee_ends");
	TCase *tc = tcase_create("callee_ends");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, calls_setup, calls_teardown);
	tcase_add_loop_test(tc, answer__given_up, 0, 4);
	tcase_add_loop_test(tc, answer__lost_with_its_state, 0, 2);
	tcase_add_loop_test(tc, moved__without_a_lane, 0, 4);
	tcase_add_loop_test(tc, reply__full_service, 0, 3);
	tcase_add_test(tc, moved__behind_another_message);
	tcase_add_loop_test(tc, callee_closed__next_holder, 0, 2);
	tcase_add_test(tc, callee_closed__after_lane_lost);
	tcase_add_test(tc, callee_closed__answered);
	tcase_add_loop_test(tc, callee_closed__arrives_meanwhile, 0, 2);
	tcase_add_test(tc, callee_moved);
	tcase_add_loop_test(tc, callee_ended__long_answer, 0, 2);
	tcase_add_loop_test(tc, caller_restarted, 0, 4);
	tcase_add_loop_test(tc, caller_died__long_answers, 0, 2);
	tcase_add_test(tc, caller_restarted__answer_unacked);
	tcase_add_test(tc, caller_forgot__answer_unacked);
	tcase_add_test(tc, request__in_the_name_of_another);
	suite_add_tcase(suite, tc);
	return test_main("core/call/callee_ends", suite);
}
