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
	if (_i) {
		/* The callee has not refused the request. */
		servers[0].nkept = 0;
		ripc_message_free(&m->pub);
	}
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
	tcase_add_test(tc, time__not_executed);
	tcase_add_test(tc, time__deadline_travels);
	tcase_add_loop_test(tc, time__cancelled_takes_no_answer, 0, 2);
	tcase_add_loop_test(tc, lane_lost__callee_gives_up, 0, 3);
	tcase_add_test(tc, lane_lost__answer_waits);
	tcase_add_test(tc, lane_lost__answer_expires);
	suite_add_tcase(suite, tc);
	tc = tcase_create("large_sends");
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup_large_sends, calls_teardown);
	tcase_add_test(tc, answer__not_begun);
	tcase_add_test(tc, answer__quarter_of_the_window);
	suite_add_tcase(suite, tc);
	return test_main("core/call/callee", suite);
}
