/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ACK that waits for a message to carry it: when it does, what carries it, and what sends it all
 * the same.
 */
#include "core/rendezvous/delayed_ack.h"
#include "core/round_trips.h"

static void expensive_registration(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

START_TEST(queue__piggybacked_on_reply)
{
	uint32_t there, back = sent(1);

	for (int i = 1; i <= RIPC__STREAK_MIN; i++) {
		round_trip(100);
		ck_assert_int_eq(reply_streak(1), i);
		ck_assert_uint_eq(sent(1) - back, 2 * (unsigned)i);
	}
	/* The other side begins with the second ping. */
	for (int i = 0; i < RIPC__STREAK_MIN; i++)
		round_trip(100);
	there = sent(0);
	back = sent(1);
	/* A message each way, and nothing else. */
	for (int i = 0; i < 20; i++)
		round_trip(100);
	ck_assert_uint_eq(sent(0) - there, 20);
	ck_assert_uint_eq(sent(1) - back, 20);
	ck_assert_uint_eq(rig_stats(&rig, 0).long_received, 20 + 2 * RIPC__STREAK_MIN);
	ck_assert_uint_eq(rig_stats(&rig, 1).long_received, 20 + 2 * RIPC__STREAK_MIN);
}
END_TEST

/* A receiver that waits instead of replying forgets the quick replies, also a single one. */
START_TEST(idle__forgets_one_quick_reply)
{
	struct ripc_request *r;
	struct ripc_message *m;

	round_trip(100);
	ck_assert_int_eq(reply_streak(1), 1);
	r = ping(100);
	RC(-ETIMEDOUT, ripc_receive(rig.s[1], &m, 1));
	ck_assert_int_eq(reply_streak(1), 0);
	OK(ripc_request_wait(&r, 5000));
}
END_TEST

/* Read messages are acknowledged in the same way. */
START_TEST(queue__piggybacked_after_read)
{
	uint8_t *large = malloc(100000);
	struct ripc_request *r;
	uint32_t back;

	fill_streak();
	rig_fill(large, 100000, 2);
	back = sent(1);
	r = rig_begin(&rig, 0, 1, large, 100000);
	ck_assert_int_eq(r->items[0].how, RIPC__HOW_READ);
	rig_expect(&rig, 1, 100000, 2);
	ck_assert(is_delayed(1));
	OK(rig_short(&rig, 1, 0, 50, 3, 0));
	rig_expect(&rig, 0, 50, 3);
	OK(ripc_request_test(&r));
	ck_assert_uint_eq(sent(1) - back, 1);
	free(large);
}
END_TEST

/* The ACK was sent at once: nothing is left to carry, and the time to the reply still counts. */
START_TEST(piggyback__sent_before)
{
	struct ripc_request *r = ping(100);
	struct ripc__lane *lane = rig_lane(&rig, 1, 0);

	ck_assert(!is_delayed(1));
	ck_assert_ptr_eq(rig.ctx[1]->delayed_ack.lane, lane);
	ripc__lock(rig.ctx[1]);
	ck_assert(!ripc__delayed_ack_piggybacks(lane, 0));
	ripc__unlock(rig.ctx[1]);
	answer(&r);
	ck_assert_int_eq(reply_streak(1), 1);
}
END_TEST

/* The service's room is that of the messages without it. */
START_TEST(piggyback__short_message)
{
	struct ripc_request *r;
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	uint64_t units;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	units = rig_dest(&rig, 1, 0)->credit->sent_units;
	/* 36 bytes of header. */
	OK(rig_short(&rig, 1, 0, 64 - 36, 2, 0));
	ck_assert(!is_delayed(1));
	rig_expect(&rig, 0, 64 - 36, 2);
	OK(ripc_request_test(&r));
	ck_assert_uint_eq(rig_dest(&rig, 1, 0)->credit->sent_units, units + 1);
	ck_assert_uint_eq(((struct ripc__flow *)lane->flows.only)->arrived_units, units + 1);
	ck_assert_int_eq(reply_streak(1), RIPC__STREAK_MIN);
}
END_TEST

START_TEST(piggyback__no_room)
{
	size_t len = rig_lane(&rig, 1, 0)->send_max - RIPC__LONG_FIXED - RIPC__DESC_LEN;
	struct ripc_request *r, *back;
	uint32_t before;

	fill_streak();
	r = ping(100);
	before = sent(1);
	back = rig_begin(&rig, 1, 0, data, len);
	ck_assert_int_eq(back->items[0].how, RIPC__HOW_INLINE);
	ck_assert(!is_delayed(1));
	ck_assert_uint_eq(sent(1) - before, 2);
	OK(ripc_request_wait(&back, 5000));
	OK(ripc_request_test(&r));
	rig_expect(&rig, 0, len, 1);
	/* Eight bytes less, and there is. */
	r = ping(100);
	ck_assert(is_delayed(1));
	before = sent(1);
	back = rig_begin(&rig, 1, 0, data, len - 8);
	ck_assert_uint_eq(sent(1) - before, 1);
	OK(ripc_request_wait(&back, 5000));
	OK(ripc_request_test(&r));
	rig_expect(&rig, 0, len - 8, 1);
}
END_TEST

/* The return buffers that it names need room, too. */
START_TEST(piggyback__no_room_beside_returns)
{
	size_t len = rig_lane(&rig, 1, 0)->send_max - RIPC__LONG_FIXED - 3 * RIPC__DESC_LEN;
	struct iovec item = {data, len}, back[2];
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 2, .return_buffers = back};
	struct ripc_request *r, *reply;
	uint32_t before;

	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < 2; k++)
			back[k] = (struct iovec){ripc_buf_alloc(rig.ctx[1], 32), 32};
		fill_streak();
		r = ping(100);
		ck_assert(is_delayed(1));
		before = sent(1);
		item.iov_len = len - 8 * i;
		OK(ripc_send_async(rig.s[1], RIG_ID(0), &item, 1, &options, &reply));
		ck_assert_int_eq(reply->items[0].how, RIPC__HOW_INLINE);
		ck_assert(!is_delayed(1));
		/* Eight bytes less, and there is room. */
		ck_assert_uint_eq(sent(1) - before, 2 - i);
		OK(ripc_request_wait(&reply, 5000));
		OK(ripc_request_test(&r));
		rig_expect(&rig, 0, item.iov_len, 1);
		for (unsigned k = 0; k < 2; k++)
			OK(ripc_buf_free(rig.ctx[1], back[k].iov_base));
	}
}
END_TEST

/* A message that cannot leave carries nothing. */
START_TEST(piggyback__not_on_other_lane)
{
	struct ripc__lane *lane;
	struct ripc_request *r;
	uint64_t limit;

	fill_streak();
	r = ping(100);
	lane = rig_lane(&rig, 1, 0);
	limit = rig_dest(&rig, 1, 0)->credit->limit_units;
	rig_dest(&rig, 1, 0)->credit->limit_units = 0;
	ck_assert(is_delayed(1));
	RC(-EAGAIN, rig_short(&rig, 1, 0, 100, 2, 0));
	rig_dest(&rig, 1, 0)->credit->limit_units = limit;
	ck_assert(!is_delayed(1));
	ck_assert_int_eq(lane->reply_streak, -RIPC__STREAK_PENALTY);
	OK(ripc_request_wait(&r, 1));
}
END_TEST

/* The first look in vain, without and with waiting. */
START_TEST(idle__empty_poll)
{
	struct ripc_request *r;
	struct ripc_message *m;
	uint64_t start;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	start = ripc__sim_now(rig.net);
	if (_i == 0)
		RC(-EAGAIN, ripc_receive(rig.s[1], &m, 0));
	else
		RC(-ETIMEDOUT, ripc_receive(rig.s[1], &m, 1));
	ck_assert(!is_delayed(1));
	OK(ripc_request_wait(&r, 1));
	/* Not by the timer. */
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, _i ? 2 * RIPC__MS : RIPC__MS / 2);
	ck_assert_int_eq(reply_streak(1), -RIPC__STREAK_PENALTY);
}
END_TEST

/* While nobody calls, the library itself sends it, a moment later; and does not hold the next. */
START_TEST(timer__receiver_stops_calling)
{
	struct ripc_request *r;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	rig_run(&rig, 2);
	ck_assert_int_eq(r->state, RIPC__REQUEST_DONE);
	OK(ripc_request_test(&r));
	ck_assert_int_eq(reply_streak(1), -RIPC__STREAK_PENALTY);
	for (int i = 0; i < RIPC__STREAK_PENALTY + RIPC__STREAK_MIN; i++) {
		r = ping(100);
		ck_assert(!is_delayed(1));
		answer(&r);
	}
	r = ping(100);
	ck_assert(is_delayed(1));
	OK(ripc_request_wait(&r, 5));
}
END_TEST

/* The receiver does not delay the ACK for a late answer, so that the sender can continue. */
START_TEST(replied__late)
{
	struct ripc_request *r;

	for (int i = 0; i < 3 * RIPC__STREAK_MIN; i++) {
		r = ping(100);
		ck_assert(!is_delayed(1));
		rig_run(&rig, 1);
		answer(&r);
	}
	ck_assert_int_eq(reply_streak(1), 0);
}
END_TEST

/* An answer that comes later than expected: two quick ones, and an ACK is delayed again. */
START_TEST(replied__late_while_delayed)
{
	struct ripc_request *r;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	ripc__sim_run(rig.net, RIPC__MS / 2);
	ck_assert(is_delayed(1));
	answer(&r);
	ck_assert_int_eq(reply_streak(1), RIPC__STREAK_LATE);
	for (int i = RIPC__STREAK_LATE; i < RIPC__STREAK_MIN; i++) {
		r = ping(100);
		ck_assert(!is_delayed(1));
		answer(&r);
	}
	r = ping(100);
	ck_assert(is_delayed(1));
	answer(&r);
}
END_TEST

/*
 * Large items are written ahead of their message: no ACK follows them. The granted region stays
 * known.
 */
START_TEST(before_copy__write)
{
	size_t len = _i ? 256 * KIB + 1 : 256 * KIB;
	uint8_t *to = ripc_buf_alloc(rig.ctx[0], len), *large = malloc(len);
	struct iovec item = {data, 100}, into = {to, len};
	struct ripc_send_options o = {
		.size = sizeof(o),
		.return_buffers = &into,
		.nreturn_buffers = 1,
	};
	struct ripc_request *r, *back;
	uint32_t before;

	fill_streak();
	OK(ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, &o, &r));
	rig_expect(&rig, 1, 100, 1);
	ck_assert(is_delayed(1));
	before = sent(1);
	rig_fill(large, len, 2);
	back = rig_begin(&rig, 1, 0, large, len);
	ck_assert_int_eq(back->items[0].how, RIPC__HOW_WRITTEN);
	ck_assert(!is_delayed(1));
	ck_assert_uint_eq(sent(1) - before, _i ? 2 : 1);
	ck_assert_int_eq(reply_streak(1), RIPC__STREAK_MIN);
	rig_expect(&rig, 0, len, 2);
	OK(ripc_request_test(&r));
	OK(ripc_request_wait(&back, 5000));
	OK(ripc_buf_free(rig.ctx[0], to));
	free(large);
}
END_TEST

/*
 * Nor does it wait for memory that takes long to register: an item, a return buffer with a long
 * message, one with a short message.
 */
START_TEST(before_copy__registration)
{
	size_t len = _i % 2 ? 300 * KIB : 64 * KIB;
	uint8_t *large;
	struct ripc_request *r, *back = NULL;
	struct iovec item, into;
	struct ripc_send_options o = {
		.size = sizeof(o),
		.return_buffers = &into,
		.nreturn_buffers = 1,
	};
	uint32_t before;

	restart(expensive_registration);
	fill_streak();
	large = ripc_buf_alloc(rig.ctx[1], len);
	into = (struct iovec){large, len};
	r = ping(100);
	ck_assert(is_delayed(1));
	before = sent(1);
	rig_fill(large, len, 2);
	if (_i < 2) {
		back = rig_begin(&rig, 1, 0, large, len);
		ck_assert_int_eq(back->items[0].how, RIPC__HOW_READ);
	} else {
		item = (struct iovec){data, 50};
		if (_i < 4)
			OK(ripc_send_async(rig.s[1], RIG_ID(0), &item, 1, &o, &back));
		else
			OK(ripc_send_short(rig.s[1], RIG_ID(0), &item, 1, &o, 0));
	}
	ck_assert(!is_delayed(1));
	ck_assert_uint_eq(sent(1) - before, _i % 2 ? 2 : 1);
	rig_expect(&rig, 0, _i < 2 ? len : 50, _i < 2 ? 2 : 1);
	OK(ripc_request_test(&r));
	if (back)
		OK(ripc_request_wait(&back, 5000));
	OK(ripc_buf_free(rig.ctx[1], large));
}
END_TEST

static void no_write(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG | RIPC__CAP_WRITE;
}

/* A return buffer that is cheap to register, or that no peer can write, does not send the ACK. */
START_TEST(before_copy__return_buffer_for_free)
{
	size_t len = 300 * KIB;
	struct ripc_request *r;
	struct iovec item = {data, 50}, into;
	struct ripc_send_options o = {
		.size = sizeof(o),
		.return_buffers = &into,
		.nreturn_buffers = 1,
	};
	uint32_t before;

	if (_i)
		restart(no_write);
	fill_streak();
	into = (struct iovec){ripc_buf_alloc(rig.ctx[1], len), len};
	r = ping(100);
	ck_assert(is_delayed(1));
	before = sent(1);
	OK(ripc_send_short(rig.s[1], RIG_ID(0), &item, 1, &o, 0));
	ck_assert(!is_delayed(1));
	ck_assert_uint_eq(sent(1) - before, 1);
	rig_expect(&rig, 0, 50, 1);
	OK(ripc_request_test(&r));
	OK(ripc_buf_free(rig.ctx[1], into.iov_base));
}
END_TEST

/* The transport may keep what is sent with RIPC_MORE: it carries nothing. */
START_TEST(flush__before_more)
{
	struct iovec item = {data, 50};
	struct ripc_send_options o = {.size = sizeof(o), .flags = RIPC_MORE};
	struct ripc_request *r;
	uint32_t before;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	before = sent(1);
	OK(ripc_send_short(rig.s[1], RIG_ID(0), &item, 1, &o, 0));
	ck_assert(!is_delayed(1));
	ck_assert_uint_eq(sent(1) - before, 2);
	rig_expect(&rig, 0, 50, 1);
	OK(ripc_request_wait(&r, 1));
}
END_TEST

/* Nor is anything where several are sent before the first is answered. */
START_TEST(queue__one_at_a_time)
{
	struct ripc_request *r[3];

	fill_streak();
	for (unsigned i = 0; i < 3; i++)
		r[i] = rig_begin(&rig, 0, 1, data, 100 + i);
	rig_run(&rig, 1);
	for (unsigned i = 0; i < 3; i++)
		rig_expect(&rig, 1, 100 + i, 1);
	ck_assert(!is_delayed(1));
	ck_assert_int_eq(reply_streak(1), 0);
	for (unsigned i = 0; i < 3; i++)
		OK(ripc_request_test(&r[i]));
}
END_TEST

/* Of two peers the one that came first has it, before the other's is held. */
START_TEST(queue__other_peer)
{
	struct ripc_request *r;
	unsigned other = rig_open(&rig, NULL);
	uint8_t *p = malloc(100);

	rig_connect(&rig, other, 1);
	fill_streak();
	rig_lane(&rig, 1, other)->reply_streak = RIPC__STREAK_MIN;
	r = ping(100);
	ck_assert_ptr_eq(rig.ctx[1]->delayed_ack.lane, rig_lane(&rig, 1, 0));
	rig_fill(p, 100, 5);
	rig_begin(&rig, other, 1, p, 100);
	rig_expect(&rig, 1, 100, 5);
	OK(ripc_request_wait(&r, 1));
	free(p);
	/* A message that goes elsewhere does not take it along. */
	rig_lane(&rig, 1, other)->reply_streak = RIPC__STREAK_MIN;
	rig_lane(&rig, 1, 0)->reply_streak = RIPC__STREAK_MIN;
	r = ping(100);
	ck_assert(is_delayed(1));
	OK(rig_short(&rig, 1, other, 50, 2, 0));
	ck_assert(!is_delayed(1));
	OK(ripc_request_wait(&r, 1));
	rig_expect(&rig, other, 50, 2);
}
END_TEST

/*
 * ACK keeps its place among what goes by the lane: 0 a word; the end of 1 the service, 2 the
 * context.
 */
START_TEST(flush__before_control)
{
	struct ripc_request *r;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	switch (_i) {
	case 0:
		ripc__lane_notify(rig_lane(&rig, 1, 0), RIPC__PING, 0, 0, 1, 0);
		break;
	case 1:
		OK(ripc_service_unregister(rig.s[1]));
		break;
	default:
		rig_close(&rig, 1);
		break;
	}
	if (_i < 2) {
		ck_assert(!is_delayed(1));
		ck_assert_int_eq(reply_streak(1), RIPC__STREAK_MIN);
	}
	OK(ripc_request_wait(&r, 1));
}
END_TEST

START_TEST(flush__sender_cancels)
{
	struct ripc_request *r;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	/* It was delivered. */
	OK(ripc_request_cancel(&r, 1000));
	ck_assert(!is_delayed(1));
	ck_assert_int_eq(reply_streak(1), RIPC__STREAK_MIN);
}
END_TEST

/* Lost with the lane, it is asked for again over the next; the message is not delivered again. */
START_TEST(lane_gone__exactly_once)
{
	struct ripc_request *r, *back;

	fill_streak();
	r = ping(100);
	ck_assert(is_delayed(1));
	if (_i) {
		/* As the message that carries it. */
		back = rig_begin(&rig, 1, 0, data, 200);
		ck_assert(!is_delayed(1));
	}
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	if (_i)
		OK(ripc_request_wait(&back, 5000));
	OK(ripc_request_wait(&r, 5000));
	rig_expect_none(&rig, 1);
	/* The message with the ACK may have arrived before. */
	ck_assert_uint_le(rig_stats(&rig, 1).duplicates, 1);
	ck_assert(_i || rig_stats(&rig, 1).duplicates == 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).long_received, RIPC__STREAK_MIN + 1);
	ck_assert(!is_delayed(1));
	if (_i)
		rig_expect(&rig, 0, 200, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/delayed_ack");
	TCase *tc = tcase_create("delayed_ack");

	test_seed();
	tcase_add_checked_fixture(tc, round_trips_setup, round_trips_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, queue__piggybacked_on_reply);
	tcase_add_test(tc, idle__forgets_one_quick_reply);
	tcase_add_loop_test(tc, before_copy__return_buffer_for_free, 0, 2);
	tcase_add_test(tc, queue__piggybacked_after_read);
	tcase_add_test(tc, queue__one_at_a_time);
	tcase_add_test(tc, queue__other_peer);
	tcase_add_test(tc, piggyback__sent_before);
	tcase_add_test(tc, piggyback__short_message);
	tcase_add_test(tc, piggyback__no_room);
	tcase_add_test(tc, piggyback__no_room_beside_returns);
	tcase_add_test(tc, piggyback__not_on_other_lane);
	tcase_add_test(tc, replied__late);
	tcase_add_test(tc, replied__late_while_delayed);
	tcase_add_loop_test(tc, before_copy__write, 0, 2);
	tcase_add_loop_test(tc, before_copy__registration, 0, 6);
	tcase_add_test(tc, flush__before_more);
	tcase_add_loop_test(tc, idle__empty_poll, 0, 2);
	tcase_add_test(tc, timer__receiver_stops_calling);
	tcase_add_loop_test(tc, flush__before_control, 0, 3);
	tcase_add_test(tc, flush__sender_cancels);
	tcase_add_loop_test(tc, lane_gone__exactly_once, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/delayed_ack", suite);
}
