/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests and answers of calls on the fast path: received as on the slow path. */
#include "core/call/call.h"
#include "core/message/fast_messages.h"
#include "core/reliable/reliable.h"
#include "wire/bytes.h"

static void serve_both(void *arg)
{
	struct ripc_message *m;

	(void)arg;
	for (unsigned i = 0; i < 2; i++) {
		if (ripc_receive(rig.s[i], &m, 0))
			continue;
		OK(ripc_reply(m, m->items, 1, 0));
		ripc_message_free(m);
	}
}

/* With a call in each direction: both sides have begun reliable messages. */
static void setup_calls(void)
{
	struct iovec item = {"x", 1};
	struct ripc_message *m;

	fast_start(few_buffers, NULL);
	OK(ripc__sim_actor(rig.net, serve_both, NULL));
	OK(ripc_call(rig.s[1], RIG_ID(0), &item, 1, NULL, &m, 1000));
	ripc_message_free(m);
	OK(ripc_call(rig.s[0], RIG_ID(1), &item, 1, NULL, &m, 1000));
	ripc_message_free(m);
	ripc__sim_actor_remove(rig.net, serve_both, NULL);
}

/* The peer has sent one reliable message less than this side has seen. */
static void undo(struct ripc__lane *lane)
{
	lane->rx_seq--;
	lane->reliable_rx--;
	lane->peer->reliable->rx_next--;
}

/* The request or the answer of a call from service 1 to service 0, as rx_message(). */
static struct rx_message rx_call(struct ripc__lane *lane, unsigned flag, uint64_t id, uint64_t word,
				 size_t len)
{
	struct rx_message a = rx_message(lane, len);
	uint8_t *call = a.bytes + RIPC__FAST_HEADER_LEN;

	ripc__put_le16(a.bytes + 4, (uint16_t)(RIPC__F_RELIABLE | flag));
	memmove(call + RIPC__CALL_EXT, call, len);
	ripc__put_le64(call, id);
	ripc__put_le64(call + 8, word);
	a.ev.len += RIPC__CALL_EXT;
	return a;
}

/* Makes the header of a an elided one. */
static void elide(struct rx_message *a, const struct ripc__lane *lane, unsigned flag)
{
	uint32_t skipped = RIPC__FAST_HEADER_LEN - RIPC__ELIDED_LEN;

	memmove(a->bytes + RIPC__ELIDED_LEN, a->bytes + RIPC__FAST_HEADER_LEN,
		a->ev.len - RIPC__FAST_HEADER_LEN);
	ripc__put_le32(a->bytes, ripc__elided_word(RIPC__F_RELIABLE | flag, lane->rx_seq, 0));
	a->ev.len -= skipped;
}

/* With a full and with an elided header. */
START_TEST(receive__request)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	struct ripc__reliable *rel = lane->peer->reliable;
	uint64_t next = rel->rx_next, arrived = lane->flow->arrived_units;
	struct rx_message a = rx_call(lane, RIPC__F_CALL, 77, 5000, 100);
	struct ripc__message *m;

	if (_i)
		elide(&a, lane, RIPC__F_CALL);
	m = try_receive(&a);
	ck_assert_ptr_nonnull(m);
	ck_assert_uint_eq(m->pub.call, 77);
	ck_assert_int_eq(ripc_message_deadline(&m->pub), 5000);
	ck_assert_int_eq(ripc_message_cancelled(&m->pub), 0);
	ck_assert_uint_eq(rel->rx_next, next + 1);
	ck_assert_uint_eq(lane->flow->arrived_units, arrived + 3);
	/* It is in the peer's list: its caller can cancel it. */
	ripc__request_cancelled(lane, 77);
	ck_assert_int_eq(ripc_message_cancelled(&m->pub), 1);
	received(m, 100);
	undo(lane);
}
END_TEST

START_TEST(receive__answer)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	struct iovec item = {"x", 1};
	struct ripc_message *request, *m;
	struct ripc_request *r;

	/* For a thread that polls for its call, and for one that polls for messages. */
	for (unsigned i = 0; i < 2; i++) {
		struct rx_message a;

		OK(ripc_call_start(rig.s[0], RIG_ID(1), &item, 1, NULL, 1000, &r));
		request = rig_take(&rig, 1);
		ck_assert_ptr_nonnull(request);
		a = rx_call(lane, RIPC__F_REPLY, request->call, 0, 50);
		if (_i)
			elide(&a, lane, RIPC__F_REPLY);
		ck_assert_int_eq(
			ripc__fast_receive(rig.ctx[0], i ? rig.s[0] : NULL, lane->tp, a.m, &a.ev),
			RIPC__FAST_DONE);
		OK(ripc_call_wait(&r, &m, 0));
		ck_assert_uint_eq(m->items[0].iov_len, 50);
		rig_verify(m->items[0].iov_base, 50, 50);
		ripc_message_free(m);
		undo(lane);
		ripc_message_free(request);
	}
	rig_run(&rig, 10);
	ck_assert_uint_eq(rig_stats(&rig, 0).late_replies, 2);
}
END_TEST

START_TEST(receive__call_slow_path)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	struct rx_message a;

	/* Numbers, service, sender, length, return buffers; without an id; with a word too long. */
	for (unsigned i = 0; i < 6; i++) {
		static const uint8_t offsets[] = {24, 8, 16, 32, 2, 30};

		a = rx_call(lane, RIPC__F_CALL, 77, 5000, 20);
		a.bytes[offsets[i]] ^= 1;
		refused(&a);
	}
	a = rx_call(lane, RIPC__F_CALL, 0, 5000, 20);
	refused(&a);
	a = rx_call(lane, RIPC__F_CALL, 77, 1ull << 32, 20);
	refused(&a);
	a = rx_call(lane, RIPC__F_CALL | RIPC__F_REPLY, 77, 5000, 20);
	refused(&a);
	/* No time is left. */
	a = rx_call(lane, RIPC__F_CALL, 77, 0, 20);
	refused(&a);
	a = rx_call(lane, RIPC__F_CALL, 77, 5000, 0);
	a.ev.len--;
	refused(&a);
	/* Elided: another number, and too short. */
	a = rx_call(lane, RIPC__F_CALL, 77, 5000, 20);
	elide(&a, lane, RIPC__F_CALL);
	a.bytes[2] ^= 1;
	refused(&a);
	a = rx_call(lane, RIPC__F_CALL, 77, 5000, 0);
	elide(&a, lane, RIPC__F_CALL);
	a.ev.len--;
	refused(&a);
	a.ev.len = RIPC__ELIDED_LEN - 1;
	refused(&a);
	/* The acknowledgement is due at once, or has to be scheduled. */
	a = rx_call(lane, RIPC__F_CALL, 77, 5000, 20);
	lane->peer->reliable->rx_unacked += RIPC__RELIABLE_WINDOW / 4;
	refused(&a);
	lane->peer->reliable->rx_unacked -= RIPC__RELIABLE_WINDOW / 4;
	/* A repeated message, and one while messages to a service are refused. */
	a = rx_call(lane, RIPC__F_CALL, 77, 5000, 20);
	lane->reliable_rx--;
	refused(&a);
	lane->reliable_rx++;
	lane->peer->reliable->refusing = (struct ripc__refusing *)(void *)lane;
	refused(&a);
	lane->peer->reliable->refusing = NULL;
	/* An answer to a service that has ended. */
	a = rx_call(lane, RIPC__F_REPLY, 77, 0, 20);
	lane->flow->service = NULL;
	refused(&a);
	lane->flow->service = rig.s[0];
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/fast_receive_call");
	TCase *tc = tcase_create("call");

	test_seed();
	tcase_add_checked_fixture(tc, setup_calls, fast_teardown);
	tcase_add_loop_test(tc, receive__request, 0, 2);
	tcase_add_loop_test(tc, receive__answer, 0, 2);
	tcase_add_test(tc, receive__call_slow_path);
	suite_add_tcase(suite, tc);
	return test_main("core/message/fast_receive_call", suite);
}
