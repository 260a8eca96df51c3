/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Long messages whose lane or peer is lost. */
#include "core/rendezvous/failover.h"
#include "core/requests.h"

#include <sys/mman.h>

static unsigned nmaps; /* so often the mappings of this process were read */

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
	nmaps += !strcmp(path, "/proc/self/maps");
	return __real_fopen(path, mode);
}

/*
 * Many long messages are under way when their lane fails. The lock is held while the library looks
 * whether their memory is the reason, so it reads the mappings once, and no page.
 */
START_TEST(lane_gone__mappings_read_once)
{
	enum { N = 50 };
	struct ripc_request *r[N];
	uint8_t *untouched = mmap(NULL, N * MIB, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ck_assert_ptr_ne(untouched, MAP_FAILED);
	restart(2, slow);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, untouched + i * MIB, MIB);
	rig_run(&rig, 1);
	nmaps = 0;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
	ck_assert_uint_eq(nmaps, 1);
	for (unsigned i = 0; i < N; i++)
		ripc_request_cancel(&r[i], 0);
	munmap(untouched, N * MIB);
}
END_TEST

START_TEST(lane_gone__resent_in_order)
{
	enum { N = 20 };
	struct ripc_request *r[N];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, 50000 + i);
	rig_run(&rig, 1);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 1);
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	for (unsigned i = 0; i < N; i++)
		rig_expect(&rig, 1, 50000 + i, 1);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
}
END_TEST

/* The lane breaks at every operation in turn: every message arrives, once, in order. */
START_TEST(lane_gone__at_every_operation)
{
	for (uint64_t nth = 1; nth <= 60; nth++) {
		struct ripc_request *r[6];

		restart(2, _i ? slow_no_read : slow);
		rig_connect(&rig, 0, 1);
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		for (unsigned i = 0; i < 6; i++)
			r[i] = rig_begin(&rig, 0, 1, data, i & 1 ? 100 + i : 30000 + i);
		for (unsigned i = 0; i < 6; i++)
			OK(ripc_request_wait(&r[i], 5000));
		for (unsigned i = 0; i < 6; i++)
			rig_expect(&rig, 1, i & 1 ? 100 + i : 30000 + i, 1);
		rig_expect_none(&rig, 1);
	}
}
END_TEST

START_TEST(lane_gone__acked_before)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, 100000);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	rig_run(&rig, 5);
	/* The answer is lost with the lane: sent again, it is known, and not delivered twice. */
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 100000, 1);
	rig_expect_none(&rig, 1);
}
END_TEST

/*
 * A message is given up while there is no lane, or because its lane is lost. The receiver has a
 * part of it, and learns that on the next lane: it delivers the message behind it.
 */
START_TEST(lane_gone__withdrawn)
{
	struct ripc_request *r[2];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, 300000);
	r[1] = rig_begin(&rig, 0, 1, data, 100);
	OK(ripc_request_wait(&r[1], 5000));
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_READY), 1);
	if (_i) {
		ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
		while (rig_lane(&rig, 0, 1))
			ripc__sim_run(rig.net, 1000);
	} else {
		ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	}
	RC(-EPIPE, ripc_request_cancel(&r[0], 0));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_run(&rig, 1000);
	rig_expect(&rig, 1, 100, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
	rig_exchange(&rig, 0, 1);
}
END_TEST

/*
 * Answers are sent first on the next lane, before messages with lower numbers. They do not show
 * that one of those was withdrawn: it keeps its place before the messages behind it.
 */
START_TEST(lane_gone__answer_first)
{
	struct iovec item = {data, 10}, answer = {data, 300000};
	struct ripc_message *m, *reply;
	struct ripc_request *call, *r[3];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	OK(ripc_call_start(rig.s[1], RIG_ID(0), &item, 1, NULL, 10000, &call));
	m = rig_take(&rig, 0);
	r[0] = rig_begin(&rig, 0, 1, data, 300000);
	r[1] = rig_begin(&rig, 0, 1, data, 100);
	OK(ripc_request_wait(&r[1], 5000));
	OK(ripc_reply_start(m, &answer, 1, NULL, &r[2]));
	ripc_message_free(m);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_READY), 1);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_request_wait(&r[2], 5000));
	OK(ripc_request_wait(&r[0], 5000));
	OK(ripc_call_wait(&call, &reply, 5000));
	ripc_message_free(reply);
	rig_expect(&rig, 1, 300000, 1);
	rig_expect(&rig, 1, 100, 1);
	rig_expect_none(&rig, 1);
}
END_TEST

START_TEST(peer_gone__delivery_unknown)
{
	struct ripc_request *r[2];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 2, data, LARGE);
	rig_run(&rig, 2);
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	RC(-EPIPE, ripc_request_wait(&r[0], 2000));
	ck_assert(ripc_error_detail()[0]);
	/* That is not the other's business. */
	RC(-EINPROGRESS, ripc_request_test(&r[1]));
	RC(-ECANCELED, ripc_request_cancel(&r[1], 0));
}
END_TEST

START_TEST(peer_gone__silently)
{
	struct ripc_request *r;
	uint64_t before;

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 2);
	ripc__sim_kill_context(rig.net, rig.ctx[1], true);
	rig.ctx[1] = NULL;
	before = ripc__sim_now(rig.net);
	RC(-EPIPE, ripc_request_wait(&r, 10000));
	/* peer_timeout_ms of silence, in which attempts to connect were made. */
	ck_assert_uint_le(ripc__sim_now(rig.net) - before, 2005 * RIPC__MS);
}
END_TEST

/*
 * BYE means that messages it does not acknowledge were not delivered: those of its lane, and no
 * others.
 */
START_TEST(requests_bye__not_resent_ones)
{
	struct ripc_request *r[10], *writing = NULL;
	unsigned k;

	restart(2, slow_no_credits);
	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (k = 0; k < 10; k++) {
		r[k] = rig_begin(&rig, 0, 1, data, 1000);
		if (r[k]->state == RIPC__REQUEST_WRITING) {
			writing = r[k];
			break;
		}
	}
	ck_assert_ptr_nonnull(writing);
	ck_assert_uint_gt(k, 0);
	/* As if the answer had been lost with an earlier lane. */
	writing->delivery = RIPC__DELIVERY_POSSIBLE;
	ripc__requests_bye(rig_lane(&rig, 0, 1));
	ck_assert(ripc__request_maybe_delivered(writing));
	for (unsigned i = 0; i < k; i++)
		ck_assert(!ripc__request_maybe_delivered(r[i]));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	for (unsigned i = 0; i <= k; i++) {
		OK(ripc_request_wait(&r[i], 5000));
		rig_expect(&rig, 1, 1000, 1);
	}
}
END_TEST

/* ---- the result, when an earlier lane may have delivered the message ---- */

/* A message of context 0 that context 1 has. Its ACK is lost with the lane; there is no other. */
static struct ripc_request *lose_ack(size_t len)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, len);
	while (!rig.s[1]->queued)
		ripc__sim_run(rig.net, 1000);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 1);
	ck_assert_int_eq(r->state, RIPC__REQUEST_PENDING);
	ck_assert(ripc__request_maybe_delivered(r));
	return r;
}

START_TEST(acked_before__not_registered_again)
{
	struct ripc__sim_config config;
	struct ripc_request *r = lose_ack(100000);

	config = *ripc__sim_config(rig.net);
	config.reg_failure = 1;
	ripc__sim_configure(rig.net, &config);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	RC(-EPIPE, ripc_request_wait(&r, 5000));
	ck_assert(strstr(ripc_error_detail(), "cannot be registered"));
	config.reg_failure = 0;
	ripc__sim_configure(rig.net, &config);
	rig_expect(&rig, 1, 100000, 1);
	rig_expect_none(&rig, 1);
}
END_TEST

/* The application withdraws it while it is being written, before it was sent again. */
START_TEST(acked_before__withdrawn_while_written)
{
	struct ripc_request *r;
	void *back;

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	back = ripc_buf_alloc(rig.ctx[1], LARGE);
	rig_send_return_buffer(&rig, 1, 0, back, LARGE);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	ck_assert_int_eq(r->state, RIPC__REQUEST_WRITING);
	ck_assert_uint_gt(r->writes, 0);
	/* As if the ACK had been lost with an earlier lane. */
	r->delivery = RIPC__DELIVERY_POSSIBLE;
	RC(-EPIPE, ripc_request_cancel(&r, 5000));
	OK(ripc_buf_free(rig.ctx[1], back));
}
END_TEST

/* ---- others do not wait for a message that was cut short ---- */

/* The message of another peer waits for the room that a lost lane has left. */
START_TEST(lane_gone__room_for_other_peers)
{
	enum { N = 4 }; /* peers that take the whole room */
	const size_t len = RIPC__UNREAD_MAX / N;
	uint8_t *big = calloc(1, len);
	struct ripc_request *r[N], *other;

	restart(N + 2, slow);
	for (unsigned i = 0; i < N + 2; i++)
		if (i != 1)
			rig_connect(&rig, i, 1);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, i ? i + 1 : 0, 1, big, len);
	rig_run(&rig, 5);
	other = rig_begin(&rig, N + 1, 1, data, 100000);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_request_wait(&other, 100));
	rig_expect(&rig, 1, 100000, 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	for (unsigned i = 0; i < N; i++)
		ripc_message_free(rig_take(&rig, 1));
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	free(big);
}
END_TEST

/*
 * A message was cut short, and its sender withdraws it before it has another lane. The one behind
 * it has been acknowledged: it is delivered, although no other long message follows.
 */
START_TEST(lane_gone__withdrawn_before_the_next)
{
	struct ripc_request *r[3];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 1, data, LARGE);
	r[2] = rig_begin(&rig, 0, 1, data, 1000);
	OK(ripc_request_wait(&r[2], 5));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 2);
	RC(-EPIPE, ripc_request_cancel(&r[_i], 0));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r[!_i], 5000));
	rig_expect(&rig, 1, LARGE, 1);
	rig_expect(&rig, 1, 1000, 1);
	rig_expect_none(&rig, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
}
END_TEST

START_TEST(lane_gone__all_withdrawn)
{
	struct ripc_request *r[3];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 1, data, LARGE);
	r[2] = rig_begin(&rig, 0, 1, data, 1000);
	OK(ripc_request_wait(&r[2], 5));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	/* With the lane: the peer does not let go of its memory. Or after it. */
	if (_i) {
		ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
		rig_run(&rig, 2);
	}
	RC(-EPIPE, ripc_request_cancel(&r[0], 50));
	RC(-EPIPE, ripc_request_cancel(&r[1], 50));
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 2);
	/* It has lost an answer. */
	if (_i == 2)
		ripc__peer_new_epoch(rig.ctx[1], rig_peer(&rig, 1, 0));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(rig_short(&rig, 0, 1, 10, 5, 5000));
	rig_expect(&rig, 1, 1000, 1);
	rig_expect(&rig, 1, 10, 5);
	rig_expect_none(&rig, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
}
END_TEST

/*
 * A message was cut short. Its sender withdraws it while it waits for room on the next lane, before
 * it is repeated there.
 */
START_TEST(lane_gone__withdrawn_before_repeated)
{
	struct ripc_request *r[4];

	restart(2, slow_no_credits);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 4; i++)
		r[i] = rig_begin(&rig, 0, 1, data, i < 3 ? LARGE : 1000);
	OK(ripc_request_wait(&r[3], 5));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 2);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 3);
	/* Two CANCELs take the credit of the next lane. */
	for (unsigned i = 0; i < 2; i++)
		RC(-EPIPE, ripc_request_cancel(&r[i], 0));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	while (!rig_lane(&rig, 0, 1))
		ripc__sim_run(rig.net, 1000);
	ck_assert_int_eq(r[2]->state, RIPC__REQUEST_WRITING);
	RC(-EPIPE, ripc_request_cancel(&r[2], 0));
	rig_expect(&rig, 1, 1000, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
}
END_TEST

/*
 * A message was cut short, and its sender has given up the receiver, but not the receiver its
 * sender. The one behind it is delivered when they are connected again.
 */
START_TEST(peer_gone__for_the_sender_only)
{
	struct ripc_request *r[2];

	rig_end(&rig);
	rig_init(&rig, slow);
	rig_open(&rig, "peer_timeout_ms=200");
	rig_open(&rig, "peer_timeout_ms=10000");
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 1, 0);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 1, data, 1000);
	OK(ripc_request_wait(&r[1], 5));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	RC(-EPIPE, ripc_request_wait(&r[0], 1000));
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_expect(&rig, 1, 1000, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
}
END_TEST

/*
 * A message that a service may have received is under way no more, and the service has gone. The
 * other services of its peer are sent as many messages as before.
 */
START_TEST(lane_gone__service_gone_too)
{
	struct ripc_service *other;
	struct ripc_request *r[2];
	struct iovec item = {data, LARGE};

	restart(2, slow);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	OK(ripc_route_lookup(rig.ctx[0], 77, NULL, 5000));
	rig_connect(&rig, 0, 1);
	OK(ripc_send_async(rig.s[0], 77, &item, 1, NULL, &r[0]));
	OK(ripc_send_async(rig.s[0], 77, &item, 1, NULL, &r[1]));
	rig_run(&rig, 2);
	ck_assert_int_eq(r[1]->state, RIPC__REQUEST_SENT);
	if (_i)
		r[1]->delivery = RIPC__DELIVERY_NONE;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_service_unregister(other));
	rig_run(&rig, 100);
	for (unsigned i = 0; i < 2; i++) {
		RC(-EINPROGRESS, ripc_request_test(&r[i]));
		ck_assert_int_eq(r[i]->state, RIPC__REQUEST_PENDING);
	}
	for (unsigned i = 0; i < RIPC__REQUESTS_MAX + 10; i++) {
		OK(rig_long(&rig, 0, 1, 10, i, 50));
		rig_expect(&rig, 1, 10, i);
	}
	RC(-EPIPE, ripc_request_wait(&r[0], 0));
	RC(_i ? -ECANCELED : -EPIPE, ripc_request_cancel(&r[1], 0));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/failover");
	TCase *tc = tcase_create("lost");

	test_seed();
	tcase_add_checked_fixture(tc, requests_setup, requests_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, lane_gone__mappings_read_once);
	tcase_add_test(tc, lane_gone__resent_in_order);
	tcase_add_loop_test(tc, lane_gone__at_every_operation, 0, 2);
	tcase_add_test(tc, lane_gone__acked_before);
	tcase_add_loop_test(tc, lane_gone__withdrawn, 0, 2);
	tcase_add_test(tc, lane_gone__answer_first);
	tcase_add_test(tc, peer_gone__delivery_unknown);
	tcase_add_test(tc, peer_gone__silently);
	tcase_add_test(tc, requests_bye__not_resent_ones);
	tcase_add_test(tc, acked_before__not_registered_again);
	tcase_add_test(tc, acked_before__withdrawn_while_written);
	tcase_add_test(tc, lane_gone__room_for_other_peers);
	tcase_add_loop_test(tc, lane_gone__withdrawn_before_the_next, 0, 2);
	tcase_add_loop_test(tc, lane_gone__all_withdrawn, 0, 3);
	tcase_add_test(tc, lane_gone__withdrawn_before_repeated);
	tcase_add_test(tc, peer_gone__for_the_sender_only);
	tcase_add_loop_test(tc, lane_gone__service_gone_too, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/failover", suite);
}
