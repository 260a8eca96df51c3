/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The callee: one answer to each request, which its caller can use. */
#include "core/call/call.h"
#include "core/call/calls.h"
#include "wire/bytes.h"

/* ---- answers ---- */

START_TEST(answer__errors)
{
	struct iovec item = {"x", 1};
	struct ripc_message *m;
	struct ripc_request *r;

	servers[0].keep = true;
	for (unsigned i = 0; i < 3; i++) {
		OK(start(RIG_ID(1), i, 8, NULL, 5000, &r));
		await_kept(i + 1);
		m = servers[0].kept[i];
		switch (i) {
		case 0:
			RC(-EINVAL, ripc_reply_error(m, 0));
			OK(ripc_reply_error(m, EACCES));
			RC(-EALREADY, ripc_reply(m, &item, 1, 0));
			RC(-EACCES, result(&r, 0));
			break;
		case 1:
			servers[0].nkept--;
			ripc_message_free(m);
			servers[0].kept[servers[0].nkept++] = NULL;
			RC(-ECANCELED, result(&r, 0));
			break;
		default:
			RC(-EINVAL, ripc_reply(m, &item, 0, 0));
			OK(ripc_reply(m, &item, 1, 0));
			OK(ripc_call_wait(&r, &m, 5000));
			ck_assert_uint_eq(m->items[0].iov_len, 1);
			ripc_message_free(m);
			break;
		}
	}
	servers[0].s = NULL;
	OK(rig_short(&rig, 0, 1, 10, 1, 1000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->call, 0);
	RC(-EINVAL, ripc_reply(m, &item, 1, 0));
	ck_assert_int_eq(ripc_message_cancelled(m), 0);
	ck_assert_int_eq(ripc_message_deadline(m), -1);
	ripc_message_free(m);
}
END_TEST

static void large_sends(struct ripc__sim_config *config)
{
	config->send_max = 128 * KIB;
}

static void setup_large_sends(void)
{
	calls_setup_with(large_sends);
}

/* Replies with len bytes to a new request with these reply buffers. Return: ripc_reply(). */
static int reply_at_once(struct iovec *buffers, unsigned nbuffers, size_t len)
{
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = nbuffers, .reply_buffers = buffers};
	static uint64_t bytes[128 * KIB / sizeof(uint64_t)];
	struct iovec item = {bytes, len};
	struct ripc_request *r;
	struct ripc_message *m;
	static uint64_t n;
	int rc;

	servers[0].keep = true;
	OK(start(RIG_ID(1), ++n, 8, &options, 5000, &r));
	await_kept(1);
	m = servers[0].kept[--servers[0].nkept];
	bytes[0] = n;
	rc = ripc_reply(m, &item, 1, 0);
	if (rc)
		OK(ripc_reply_error(m, EFBIG));
	ripc_message_free(m);
	RC(rc ? -EFBIG : 0, result(&r, n));
	return rc;
}

/* An answer is short if one message of the lane has room for it, and no buffer waits for it. */
START_TEST(answer__short_or_long)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 1000), 1000};
	size_t room;

	rig_connect(&rig, 0, 1);
	room = rig_lane(&rig, 1, 0)->send_max - RIPC__SHORT_FIXED - RIPC__CALL_EXT;
	ck_assert_uint_gt(room, buffer.iov_len);
	OK(reply_at_once(NULL, 0, RIPC_SHORT_GUARANTEED));
	OK(reply_at_once(NULL, 0, RIPC_SHORT_GUARANTEED + 1));
	OK(reply_at_once(NULL, 0, room));
	RC(-EAGAIN, reply_at_once(NULL, 0, room + 1));
	OK(reply_at_once(&buffer, 1, RIPC_SHORT_GUARANTEED));
	RC(-EAGAIN, reply_at_once(&buffer, 1, RIPC_SHORT_GUARANTEED + 1));
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/* A long answer that could not be begun is none: the request is still to be answered. */
START_TEST(answer__not_begun)
{
	struct iovec beyond = {ripc_buf_alloc(rig.ctx[1], 99999), 100000};
	struct ripc_request *r, *answer;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	await_kept(1);
	RC(-EINVAL, ripc_reply(servers[0].kept[0], &beyond, 1, 1000));
	RC(-EINVAL, ripc_reply_start(servers[0].kept[0], &beyond, 1, NULL, &answer));
	OK(reply_kept(0));
	OK(result(&r, 1));
}
END_TEST

/* An answer above a quarter of the retransmission window is long, whatever a lane can send. */
START_TEST(answer__quarter_of_the_window)
{
	OK(reply_at_once(NULL, 0, RIPC__RELIABLE_WINDOW_BYTES / 4));
	RC(-EAGAIN, reply_at_once(NULL, 0, RIPC__RELIABLE_WINDOW_BYTES / 4 + 1));
}
END_TEST

/* Without a lane only an answer that every lane can send is short. */
START_TEST(answer__without_a_lane)
{
	static uint64_t bytes[(RIPC_SHORT_GUARANTEED + 8) / 8] = {1};
	struct iovec item = {bytes, RIPC_SHORT_GUARANTEED + 1};
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 60000, &r));
	await_kept(1);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 10);
	ck_assert_ptr_null(rig_lane(&rig, 1, 0));
	RC(-EAGAIN, ripc_reply(servers[0].kept[0], &item, 1, 0));
	item.iov_len--;
	OK(ripc_reply(servers[0].kept[0], &item, 1, 0));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(result(&r, 1));
}
END_TEST

/*
 * An answer that arrives changes nothing for other peers whose answers wait for a lane: only the
 * loss of one makes their calls unknown.
 */
START_TEST(answer__acknowledged)
{
	struct ripc__peer *other;
	uint64_t epoch;

	rig_open(&rig, NULL);
	rig_connect(&rig, 2, 1);
	other = rig_peer(&rig, 1, 2);
	epoch = other->epoch;
	other->answers = 1;
	OK(call(1, 8, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->reliable_unacked, 0);
	ck_assert_uint_eq(other->epoch, epoch);
	other->answers = 0;
}
END_TEST

/* ---- time ---- */

/* The request is in the queue when its time is up: the server never receives it. */
START_TEST(time__not_executed)
{
	struct iovec item = {"12345678", 8};
	struct ripc_message *m;

	rig_connect(&rig, 0, 1);
	servers[0].s = NULL;
	RC(-ETIMEDOUT, call(1, 8, 50));
	RC(-EAGAIN, ripc_receive(rig.s[1], &m, 0));
	/* The next message has the memory of the dropped request, and nothing of its call. */
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 1000));
	OK(ripc_receive(rig.s[1], &m, 1000));
	ck_assert_uint_eq(m->call, 0);
	RC(-EINVAL, ripc_reply(m, &item, 1, 0));
	ripc_message_free(m);
	RC(-ETIMEDOUT, call(1, 100000, 50));
	RC(-EAGAIN, ripc_receive(rig.s[1], &m, 0));
	ck_assert_uint_eq(rig_stats(&rig, 1).calls_expired, 2);
	ck_assert_uint_eq(rig_stats(&rig, 1).queued, 0);
}
END_TEST

START_TEST(time__deadline_travels)
{
	struct ripc_request *r;
	int left;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 1000, &r));
	await_kept(1);
	left = ripc_message_deadline(servers[0].kept[0]);
	ck_assert_int_gt(left, 900);
	ck_assert_int_le(left, 1000);
	rig_run(&rig, 500);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 0);
	ck_assert_int_le(ripc_message_deadline(servers[0].kept[0]), left - 500);
	RC(-ETIME, result(&r, 1));
	ck_assert_int_le(ripc_message_deadline(servers[0].kept[0]), 1);
	/* Without a limit. */
	OK(start(RIG_ID(1), 2, 8, NULL, -1, &r));
	await_kept(2);
	ck_assert_int_eq(ripc_message_deadline(servers[0].kept[1]), -1);
	OK(reply_kept(1));
	OK(result(&r, 2));
}
END_TEST

/* The callee's time ends before the caller's, by the resolution of the deadline. */
START_TEST(time__cancelled_takes_no_answer)
{
	struct ripc__message *m;
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 1000, &r));
	await_kept(1);
	m = (struct ripc__message *)servers[0].kept[0];
	m->call_deadline_ns = ripc__now(rig.ctx[1]);
	ck_assert_int_eq(ripc_message_cancelled(&m->pub), 1);
	RC(-ECANCELED, ripc_reply(&m->pub, &m->pub.items[0], 1, 0));
	RC(-ETIME, result(&r, 1));
}
END_TEST

/* ---- lanes that are lost ---- */

/*
 * The callee gives the caller up, the caller the callee not. The answer is lost: it waited for a
 * lane, it was posted before the lane was lost, or it comes too late.
 */
START_TEST(lane_lost__callee_gives_up)
{
	struct ripc_request *r;
	uint64_t epoch;

	rig_end(&rig);
	rig_init(&rig, NULL);
	rig_open(&rig, "peer_timeout_ms=300000");
	rig_open(&rig, "peer_timeout_ms=2000");
	rig_open(&rig, NULL);
	rig_connect(&rig, 2, 1);
	epoch = rig_peer(&rig, 1, 2)->epoch;
	servers[0] = (struct server){.s = rig.s[1], .keep = true};
	OK(ripc__sim_actor(rig.net, serve_all, NULL));
	OK(start(RIG_ID(1), 1, 8, NULL, -1, &r));
	await_kept(1);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	if (_i == 1)
		OK(reply_kept(0));
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 100);
	if (!_i)
		OK(reply_kept(0));
	rig_run(&rig, 20000);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 20000);
	RC(-EPIPE, result(&r, 1));
	/* Nothing for another peer was lost. */
	ck_assert_uint_eq(rig_peer(&rig, 1, 2)->epoch, epoch);
}
END_TEST

/* An answer waits for a lane and then arrives: nothing was lost, and no later call fails. */
START_TEST(lane_lost__answer_waits)
{
	struct ripc_request *r[2];
	uint64_t epoch;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 60000, &r[0]));
	OK(start(RIG_ID(1), 2, 8, NULL, 60000, &r[1]));
	await_kept(2);
	rig_run(&rig, 5);
	epoch = rig_peer(&rig, 1, 0)->epoch;
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 10);
	ck_assert_ptr_null(rig_lane(&rig, 1, 0));
	OK(reply_kept(0));
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->answers, 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(result(&r[0], 1));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->epoch, epoch);
	/* The other one survives the next loss of the lane as well. */
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 50);
	OK(reply_kept(1));
	OK(result(&r[1], 2));
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->epoch, epoch);
}
END_TEST

/* The time of a waiting answer is up, and its peer is not given up: the next lane reports it. */
START_TEST(lane_lost__answer_expires)
{
	struct ripc_request *r;
	uint64_t epoch;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 60000, &r));
	await_kept(1);
	rig_run(&rig, 5);
	epoch = rig_peer(&rig, 1, 0)->epoch;
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 10);
	OK(reply_kept(0));
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->answers, 1);
	ripc__lock(rig.ctx[1]);
	rig_dest(&rig, 1, 0)->reliable_until_ns = 0;
	ripc__reliable_timers(rig.ctx[1]);
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->answers, 0);
	ck_assert_uint_ne(rig_peer(&rig, 1, 0)->epoch, epoch);
	ripc__unlock(rig.ctx[1]);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	RC(-EPIPE, result(&r, 1));
}
END_TEST

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
	ripc__lane_fail(rig_lane(&rig, 1, 0), -EIO, "test");
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
 * The caller has restarted: its service has the id of its former life, which the callee takes for
 * alive. The answer goes to the caller.
 */
START_TEST(caller_restarted)
{
	struct ripc_request *r;
	unsigned i;

	OK(start(RIG_ID(1), 1, 8, NULL, 5000, &r));
	OK(result(&r, 1));
	ripc__sim_kill_context(rig.net, rig.ctx[0], _i & 1);
	rig.ctx[0] = NULL;
	rig.s[0] = NULL;
	if (_i & 2)
		rig_run(&rig, 20);
	i = rig_open(&rig, NULL);
	OK(ripc_service_unregister(rig.s[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(0), RIPC_TAKEOVER, &rig.s[i]));
	rig.s[0] = rig.s[i];
	OK(start(RIG_ID(1), 2, 8, NULL, 5000, &r));
	OK(result(&r, 2));
	OK(start(RIG_ID(1), 3, 100000, NULL, 5000, &r));
	OK(result(&r, 3));
	ck_assert_uint_eq(servers[0].executed[2], 1);
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
	Suite *suite = suite_create("core/call/callee");
	TCase *tc = tcase_create("callee");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, calls_setup, calls_teardown);
	tcase_add_test(tc, answer__errors);
	tcase_add_test(tc, answer__short_or_long);
	tcase_add_test(tc, answer__without_a_lane);
	tcase_add_test(tc, answer__acknowledged);
	tcase_add_loop_test(tc, answer__given_up, 0, 4);
	tcase_add_loop_test(tc, moved__without_a_lane, 0, 4);
	tcase_add_loop_test(tc, reply__full_service, 0, 3);
	tcase_add_test(tc, moved__behind_another_message);
	tcase_add_test(tc, time__not_executed);
	tcase_add_test(tc, time__deadline_travels);
	tcase_add_test(tc, time__cancelled_takes_no_answer);
	tcase_add_loop_test(tc, lane_lost__callee_gives_up, 0, 3);
	tcase_add_test(tc, lane_lost__answer_waits);
	tcase_add_test(tc, lane_lost__answer_expires);
	tcase_add_loop_test(tc, callee_closed__next_holder, 0, 2);
	tcase_add_test(tc, callee_closed__after_lane_lost);
	tcase_add_test(tc, callee_closed__answered);
	tcase_add_test(tc, callee_moved);
	tcase_add_loop_test(tc, caller_restarted, 0, 4);
	tcase_add_test(tc, request__in_the_name_of_another);
	suite_add_tcase(suite, tc);
	tc = tcase_create("large_sends");
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup_large_sends, calls_teardown);
	tcase_add_test(tc, answer__not_begun);
	tcase_add_test(tc, answer__quarter_of_the_window);
	suite_add_tcase(suite, tc);
	return test_main("core/call/callee", suite);
}
