/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Long sends, the sender's side: given up in every state, and left behind by services that go. */
#include "core/requests.h"
#include "transitions.h"

#define TO(state) (1u << RIPC__REQUEST_##state)

DEFINE_SET_STATE(struct ripc_request, ripc__request_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__REQUEST_STATES] = {
		[RIPC__REQUEST_PENDING] = TO(WRITING) | TO(DONE),
		[RIPC__REQUEST_WRITING] = TO(SENT) | TO(PENDING) | TO(DONE),
		[RIPC__REQUEST_SENT] = TO(GRANTED) | TO(PENDING) | TO(DONE),
		[RIPC__REQUEST_GRANTED] = TO(SENT) | TO(PENDING) | TO(DONE),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* Lets the world go on until r is in a state. */
static void await_state(struct ripc_request *r, enum ripc__request_state state)
{
	for (int i = 0; i < 100000 && r->state != state; i++)
		ripc__sim_run(rig.net, 1000);
	ck_assert_int_eq(r->state, state);
}

/* ---- cancelling, in every state ---- */

START_TEST(abort__pending)
{
	struct ripc_request *r = rig_begin(&rig, 0, 2, data, 1000);

	ck_assert_int_eq(r->state, RIPC__REQUEST_PENDING);
	RC(-EINPROGRESS, ripc_request_test(&r));
	RC(-ECANCELED, ripc_request_cancel(&r, 0));
	ck_assert_ptr_null(r);
	ck_assert_uint_eq(rig_stats(&rig, 0).cancelled, 1);
}
END_TEST

START_TEST(abort__writing_without_credit)
{
	struct ripc_request *r[10];
	uint64_t units;
	unsigned k;

	restart(2, slow_no_credits);
	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (k = 0; k < 10; k++) {
		r[k] = rig_begin(&rig, 0, 1, data, 1000);
		if (r[k]->state == RIPC__REQUEST_WRITING)
			break;
	}
	ck_assert_uint_lt(k, 10);
	units = rig_dest(&rig, 0, 1)->credit->sent_units;
	RC(-ECANCELED, ripc_request_cancel(&r[k], 0));
	/* Its reservation is free again. */
	/* 48 + 24 + 1000 */
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->credit->sent_units, units - 17);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	for (unsigned i = 0; i < k; i++) {
		OK(ripc_request_wait(&r[i], 5000));
		rig_expect(&rig, 1, 1000, 1);
	}
	rig_expect_none(&rig, 1);
}
END_TEST

/* The receiver reads the bytes, or the sender writes them. */
START_TEST(abort__in_transfer)
{
	struct ripc_request *r;

	restart(2, _i ? slow_no_read : slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	RC(-ECANCELED, ripc_request_cancel(&r, 1000));
	rig_expect_none(&rig, 1);
	/* Over the same lane. */
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(abort__after_delivery)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, 10);
	/* Delivered, and the answer is not here yet. */
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	rig_expect(&rig, 1, 10, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	OK(ripc_request_cancel(&r, 1000));
}
END_TEST

START_TEST(abort__silent_peer_loses_lane)
{
	struct ripc_request *r;

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	RC(-EPIPE, ripc_request_cancel(&r, 50));
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	/* Nobody reads this any more. */
	memset(data, 0xee, LARGE);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_expect_none(&rig, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(abort__done)
{
	struct ripc_request *r = rig_begin(&rig, 0, 1, data, 10);

	rig_expect(&rig, 1, 10, 1);
	await_state(r, RIPC__REQUEST_DONE);
	OK(ripc_request_cancel(&r, 0));
	RC(-EINVAL, ripc_request_cancel(&r, 0));
	RC(-EINVAL, ripc_request_wait(&r, 0));
	RC(-EINVAL, ripc_request_test(&r));
	RC(-EINVAL, ripc_request_test(NULL));
}
END_TEST

/* ---- services that go ---- */

/* The service is not at its former holder any more: the messages follow it, in their order. */
START_TEST(requeue__keeps_the_order)
{
	enum { N = 8 };
	struct ripc_request *r[N];
	struct ripc_service *moved;
	struct ripc_message *m;

	restart(3, NULL);
	rig_connect(&rig, 0, 1);
	/* The goodbye does not reach the sender: it learns from the answers to its messages. */
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	for (unsigned i = 0; i < N; i++) {
		r[i] = rig_begin(&rig, 0, 1, data, 1000 + i);
		ck_assert_int_eq(r[i]->state, RIPC__REQUEST_SENT);
	}
	rig_run(&rig, 2);
	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(r[i]->state, RIPC__REQUEST_PENDING);
	OK(ripc_service_register(rig.ctx[_i ? 2 : 1], RIG_ID(1), 0, &moved));
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	for (unsigned i = 0; i < N; i++) {
		OK(ripc_receive(moved, &m, 1000));
		ck_assert_uint_eq(m->items[0].iov_len, 1000 + i);
		ripc_message_free(m);
	}
}
END_TEST

/* The service moves while a message for it waits for credit of the old lane. */
START_TEST(moved__waiting_for_credit)
{
	struct ripc_request *r[12];
	struct ripc_service *moved;
	unsigned k;

	restart(3, slow_no_credits);
	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (k = 0; k < 10; k++) {
		r[k] = rig_begin(&rig, 0, 1, data, 1000);
		if (r[k]->state == RIPC__REQUEST_WRITING)
			break;
	}
	ck_assert_uint_lt(k, 10);
	/* The present holder is silent: somebody else gets the id. */
	OK(ripc_service_register(rig.ctx[2], RIG_ID(1), 0, &moved));
	ripc__dest_invalidate(rig.ctx[0], rig_dest(&rig, 0, 1), "moved, as the test wants it");
	rig_run(&rig, 100);
	r[k + 1] = rig_begin(&rig, 0, 1, data, 1000);
	rig_run(&rig, 100);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	/* To the one or the other, each to its end. */
	for (unsigned i = 0; i <= k + 1; i++)
		OK(ripc_request_wait(&r[i], 5000));
}
END_TEST

/*
 * The same, and behind the message that waits is one that was on its way to the old holder before,
 * over an earlier lane: the first one's departure ends it, while the lane looks through its
 * requests.
 */
START_TEST(moved__requests_behind_end)
{
	struct ripc_service *moved;
	struct ripc_request *r[12];
	struct ripc__peer *p;
	unsigned k;
	int rc;

	restart(3, slow_no_credits);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 0, 2);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (k = 0; k < 10; k++) {
		r[k] = rig_begin(&rig, 0, 1, data, 1000);
		if (r[k]->state == RIPC__REQUEST_WRITING)
			break;
	}
	ck_assert_uint_lt(k, 10);
	r[k + 1] = rig_begin(&rig, 0, 1, data, 1000);
	ck_assert_int_eq(r[k + 1]->state, RIPC__REQUEST_PENDING);
	p = rig_peer(&rig, 0, 1);
	r[k + 1]->delivery = RIPC__DELIVERY_POSSIBLE;
	r[k + 1]->peer = p;
	r[k + 1]->id = p->next_request_id++;
	ripc__list_add(&p->lists->requests, &r[k + 1]->peer_link);
	p->nrequests++;
	OK(ripc_service_register(rig.ctx[2], RIG_ID(1), 0, &moved));
	ripc__dest_invalidate(rig.ctx[0], rig_dest(&rig, 0, 1), "moved, as the test wants it");
	rig_run(&rig, 100);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	for (unsigned i = 0; i <= k; i++)
		OK(ripc_request_wait(&r[i], 5000));
	/* The seed decides which context holds the service after the network has healed. */
	rc = ripc_request_wait(&r[k + 1], 5000);
	ck_assert_msg(!rc || rc == -EPIPE, "%s", ripc_error_detail());
}
END_TEST

/* The service moves while its former holder has a message for it; then that holder dies. */
START_TEST(moved__sent_then_lane_gone)
{
	struct ripc_service *moved;
	struct ripc_request *r[2];

	restart(3, NULL);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 0, 2);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r[0] = rig_begin(&rig, 0, 1, data, 1000);
	ck_assert_int_eq(r[0]->state, RIPC__REQUEST_SENT);
	OK(ripc_service_register(rig.ctx[2], RIG_ID(1), 0, &moved));
	ripc__dest_invalidate(rig.ctx[0], rig_dest(&rig, 0, 1), "moved, as the test wants it");
	rig_run(&rig, 100);
	r[1] = rig_begin(&rig, 0, 1, data, 2000);
	OK(ripc_request_wait(&r[1], 5000));
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	/* It may have been delivered there: it is not sent again elsewhere. */
	RC(-EPIPE, ripc_request_wait(&r[0], 5000));
}
END_TEST

/*
 * The destination is another, perhaps, while a message is being written into a return buffer:
 * nobody gets that back before it is through.
 */
START_TEST(moved__while_written)
{
	struct ripc_request *r;
	void *back;

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	back = ripc_buf_alloc(rig.ctx[1], LARGE);
	rig_send_return_buffer(&rig, 1, 0, back, LARGE);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	ck_assert_int_eq(r->state, RIPC__REQUEST_WRITING);
	ck_assert_int_eq(r->items[0].how, RIPC__HOW_WRITTEN);
	ripc__dest_invalidate(rig.ctx[0], rig_dest(&rig, 0, 1), "moved, as the test wants it");
	OK(ripc_buf_free(rig.ctx[1], back));
	if (_i) {
		rig_run(&rig, 1);
		ck_assert_int_eq(r->state, RIPC__REQUEST_WRITING);
		RC(-ECANCELED, ripc_request_cancel(&r, 5000));
		rig_expect_none(&rig, 1);
	} else {
		OK(ripc_request_wait(&r, 5000));
		rig_expect(&rig, 1, LARGE, 1);
	}
	rig_run(&rig, 100);
	ck_assert_uint_eq(rig.ctx[1]->memory->return_ids.count, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
}
END_TEST

START_TEST(service_closed__cancels_requests)
{
	struct ripc_request *r[3];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 1, data, LARGE);
	r[2] = rig_begin(&rig, 0, 2, data, LARGE);
	rig_run(&rig, 2);
	OK(ripc_service_unregister(rig.s[0]));
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(r[i]->state, RIPC__REQUEST_DONE);
		RC(-ECANCELED, ripc_request_wait(&r[i], 0));
	}
	rig_expect_none(&rig, 1);
}
END_TEST

/* The peer does not confirm in time that it has not delivered the message. */
START_TEST(service_closed__silent_peer)
{
	struct ripc_request *r[2];

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 2, data, LARGE);
	rig_run(&rig, 2);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(ripc_service_unregister(rig.s[0]));
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	RC(-EPIPE, ripc_request_wait(&r[0], 0));
	ck_assert(strstr(ripc_error_detail(), "delivery is unknown"));
	RC(-ECANCELED, ripc_request_wait(&r[1], 0));
	memset(data, 0xee, LARGE);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_expect_none(&rig, 1);
}
END_TEST

/* Each of them goes on when the lane has room: none waits for the timers. */
START_TEST(continue__several_requests)
{
	enum { N = 4 };
	struct ripc_request *r[N];
	uint64_t begin;

	restart(2, slow_no_read);
	rig_connect(&rig, 0, 1);
	begin = ripc__sim_now(rig.net);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, LARGE);
	for (unsigned i = 0; i < N; i++) {
		OK(ripc_request_wait(&r[i], 5000));
		ripc_message_free(rig_take(&rig, 1));
	}
	/* 84 ms at the bandwidth of the network. */
	ck_assert_uint_le(ripc__sim_now(rig.net) - begin, 120 * RIPC__MS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/request");
	TCase *tc = tcase_create("withdraw");

	test_seed();
	tcase_add_checked_fixture(tc, requests_setup, requests_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, abort__pending);
	tcase_add_test(tc, abort__writing_without_credit);
	tcase_add_loop_test(tc, abort__in_transfer, 0, 2);
	tcase_add_test(tc, abort__after_delivery);
	tcase_add_test(tc, abort__silent_peer_loses_lane);
	tcase_add_test(tc, abort__done);
	tcase_add_loop_test(tc, requeue__keeps_the_order, 0, 2);
	tcase_add_test(tc, moved__waiting_for_credit);
	tcase_add_test(tc, moved__requests_behind_end);
	tcase_add_test(tc, moved__sent_then_lane_gone);
	tcase_add_loop_test(tc, moved__while_written, 0, 2);
	tcase_add_test(tc, service_closed__cancels_requests);
	tcase_add_test(tc, service_closed__silent_peer);
	tcase_add_test(tc, continue__several_requests);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/request", suite);
}
