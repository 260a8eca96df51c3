/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages on the fast path, over lanes that count receive buffers and as datagrams: received as on
 * the slow path.
 */
#include "core/rig.h"

#include "core/call/call.h"
#include "core/message/receive.h"
#include "core/peer/datagram_context.h"
#include "core/reliable/reliable.h"
#include "wire/bytes.h"

static struct rig rig;

static void start(void (*change)(struct ripc__sim_config *config), const char *options)
{
	rig_start_with(&rig, 2, change, options);
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 1, 0);
}

static void few_buffers(struct ripc__sim_config *config)
{
	config->recv_depth = 8;
}

static void setup(void)
{
	start(few_buffers, NULL);
}

static void setup_datagrams(void)
{
	start(rig_datagrams, "short=udp");
}

static void teardown(void)
{
	rig_end(&rig);
}

/* ---- receiving ---- */

struct rx_message {
	uint8_t *bytes; /* in the room of the next message */
	struct ripc__message *m;
	struct ripc__event ev;
};

/*
 * A plain message from service 1 for service 0, of len bytes, in the room of the next message of
 * context 0.
 */
static struct rx_message rx_message(struct ripc__lane *lane, size_t len)
{
	struct rx_message a = {.m = ripc__message_room(rig.ctx[0])};
	uint8_t *p;

	ck_assert_ptr_nonnull(a.m);
	a.bytes = p = ripc__message_buf(a.m);
	ripc__header_put(p, RIPC__SHORT, lane ? 0 : RIPC__F_INSTANCE, 1, 0, RIG_ID(0), RIG_ID(1));
	if (lane) {
		ripc__header_stamp(p, lane->rx_seq, 0);
	} else {
		ripc__number_stamp(p, rig_peer(&rig, 0, 1)->lists->datagrams->received.run[0].last +
					      1);
		memcpy(p + RIPC__HEADER_LEN, rig_instance(&rig, 1), 16);
		p += 16;
	}
	ripc__put_le32(p + RIPC__HEADER_LEN, (uint32_t)len);
	rig_fill(p + RIPC__FAST_HEADER_LEN, len, len);
	a.ev = (struct ripc__event){
		.kind = lane ? RIPC__EV_RECV : RIPC__EV_DATAGRAM,
		.user = lane,
		.data = a.bytes,
		.len = (uint32_t)(p - a.bytes + RIPC__FAST_HEADER_LEN + len),
	};
	return a;
}

/* The same as ELIDED, as if such a message had been the last one. */
static struct rx_message rx_short_header(struct ripc__lane *lane, size_t len, uint32_t credits)
{
	struct rx_message a = rx_message(lane, len);

	lane->rx_last = (struct ripc__header_context){RIG_ID(0), RIG_ID(1)};
	ripc__put_le32(a.bytes, ripc__elided_word(0, lane->rx_seq, credits));
	rig_fill(a.bytes + RIPC__ELIDED_LEN, len, len);
	a.ev.len = (uint32_t)(RIPC__ELIDED_LEN + len);
	return a;
}

static struct ripc__message *try_receive(const struct rx_message *a)
{
	enum ripc__fast fast =
		ripc__fast_receive(rig.ctx[0], rig.s[0], rig_lane(&rig, 0, 1)->tp, a->m, &a->ev);

	ck_assert_int_ne(fast, RIPC__FAST_DONE);
	return fast == RIPC__FAST_MESSAGE ? a->m : NULL;
}

static void check_message(struct ripc__message *m, size_t len)
{
	ck_assert_ptr_nonnull(m);
	ck_assert_ptr_ne(rig.ctx[0]->message_cache, m);
	ck_assert_uint_eq(m->pub.source, RIG_ID(1));
	ck_assert_uint_eq(m->pub.dest, RIG_ID(0));
	ck_assert_mem_eq(m->pub.instance, rig_instance(&rig, 1), 16);
	ck_assert_uint_eq(m->pub.nitems, 1);
	ck_assert_uint_eq(m->pub.items[0].iov_len, len);
	rig_verify(m->pub.items[0].iov_base, len, len);
	ck_assert_int_eq(m->pub.placement[0], RIPC_IN_RECEIVE_BUFFER);
}

static void received(struct ripc__message *m, size_t len)
{
	check_message(m, len);
	ck_assert_uint_eq((uintptr_t)m->pub.items[0].iov_base % 16, 0);
	ripc_message_free(&m->pub);
}

START_TEST(receive__lane)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	struct ripc_stats before = rig_stats(&rig, 0), after = {.size = sizeof(after)};
	uint32_t seq = lane->rx_seq, credits = lane->tx_credits;
	uint64_t arrived = lane->flow->arrived_units, consumed = lane->flow->consumed_units;
	struct rx_message a = rx_message(lane, 100);

	ripc__header_stamp(a.bytes, seq, 3);
	received(try_receive(&a), 100);
	ck_assert_uint_eq(lane->rx_seq, seq + 1);
	ck_assert_uint_eq(lane->tx_credits, credits + 3);
	ck_assert_uint_eq(lane->flow->arrived_units, arrived + 3);
	ck_assert_uint_eq(lane->flow->consumed_units, consumed + 3);
	after = rig_stats(&rig, 0);
	ck_assert_uint_eq(after.short_received, before.short_received + 1);
	ck_assert_uint_eq(after.bytes_received, before.bytes_received + 100);
	/* The peer has sent less than we have seen. */
	lane->rx_seq = seq;
	lane->tx_credits = credits;
}
END_TEST

/* The elided message equals the previous one, and costs as much credit. */
START_TEST(receive__short_header)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	uint32_t seq = lane->rx_seq, credits = lane->tx_credits;
	uint64_t arrived = lane->flow->arrived_units;
	struct rx_message a = rx_short_header(lane, 30, 3);

	received(try_receive(&a), 30);
	ck_assert_uint_eq(lane->rx_seq, seq + 1);
	ck_assert_uint_eq(lane->tx_credits, credits + 3);
	ck_assert_uint_eq(lane->flow->arrived_units, arrived + 2);
	/* A message in full is remembered for the next one. */
	lane->rx_last.dest = 0;
	a = rx_message(lane, 40);
	received(try_receive(&a), 40);
	ck_assert(ripc__header_context_is(&lane->rx_last, RIG_ID(0), RIG_ID(1)));
	lane->rx_seq = seq;
	lane->tx_credits = credits;
}
END_TEST

/* Its receive buffer is free again: the peer gets the credit in time. */
START_TEST(receive__reposts_buffer)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	uint32_t seq = lane->rx_seq, due;

	OK(rig_short(&rig, 0, 1, 1, 1, 5000));
	rig_expect(&rig, 1, 1, 1);
	due = lane->rx_credits_due;
	for (unsigned i = 0; i < 2; i++) {
		struct rx_message a = rx_message(lane, 10);

		received(try_receive(&a), 10);
	}
	ck_assert_uint_eq(lane->rx_credits_due, due + 2);
	ck_assert_uint_eq(lane->rx_held, 0);
	lane->rx_credits_due = due;
	lane->rx_seq = seq;
}
END_TEST

static void refused(const struct rx_message *a)
{
	uint32_t seq = rig_lane(&rig, 0, 1)->rx_seq;

	ck_assert_ptr_null(try_receive(a));
	ck_assert_ptr_eq(rig.ctx[0]->message_cache, a->m);
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->rx_seq, seq);
}

START_TEST(receive__lane_slow_path)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	static uint8_t elsewhere[300];
	uint64_t announced;
	struct rx_message a;

	/* Numbers, service, sender, length. */
	for (unsigned i = 0; i < 6; i++) {
		static const uint8_t offsets[] = {24, 8, 16, 32, 2, 30};

		a = rx_message(lane, 20);
		a.bytes[offsets[i]] ^= 1;
		refused(&a);
	}
	/* A sender that is no service, while the one of the last message is not known any more. */
	a = rx_message(lane, 20);
	ripc__put_le64(a.bytes + 16, 0);
	ripc__flows_relearn(lane, RIG_ID(1));
	refused(&a);
	lane->flow->source = RIG_ID(1);
	a = rx_message(lane, 20);
	a.ev.len = RIPC__FAST_HEADER_LEN - 1;
	refused(&a);
	a = rx_message(lane, 20);
	memcpy(elsewhere, a.bytes, a.ev.len);
	a.ev.data = elsewhere;
	refused(&a);
	a = rx_message(lane, 20);
	announced = lane->flow->advertised_units;
	lane->flow->advertised_units = lane->flow->arrived_units;
	refused(&a);
	lane->flow->advertised_units = announced;
	/* A receiver that holds half of the buffers gets copies. */
	a.ev.token = elsewhere;
	lane->rx_held += lane->rx_depth / 2;
	refused(&a);
	lane->rx_held -= lane->rx_depth / 2;
	/* The thread polls for another service. */
	a = rx_message(lane, 20);
	ck_assert_int_eq(ripc__fast_receive(rig.ctx[0], NULL, lane->tp, a.m, &a.ev),
			 RIPC__FAST_NOTHING);
	/* Somebody waits for the credit. */
	ripc__header_stamp(a.bytes, lane->rx_seq, 1);
	lane->sending = RIPC__SENDING_STARVED;
	refused(&a);
	lane->sending = RIPC__SENDING_FREE;
}
END_TEST

START_TEST(receive__short_slow_path)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	struct rx_message a;

	/* The byte that marks it, and its number. */
	for (unsigned i = 0; i < 4; i++) {
		a = rx_short_header(lane, 20, 0);
		a.bytes[i] ^= i == 1 ? 0 : 1;
		a.ev.len = i == 1 ? RIPC__ELIDED_LEN - 1 : a.ev.len;
		refused(&a);
	}
	/* There was none, or between others. */
	a = rx_short_header(lane, 20, 0);
	lane->rx_last.dest = 0;
	refused(&a);
	a = rx_short_header(lane, 20, 0);
	lane->rx_last.dest++;
	refused(&a);
	a = rx_short_header(lane, 20, 0);
	lane->rx_last.source++;
	refused(&a);
	lane->rx_last.dest = 0;
}
END_TEST

/* So many messages have come from 1 that a next one is expected. */
static void sender_is_known(void)
{
	for (unsigned i = 0; i < RIPC__RUN_TRUSTED; i++) {
		OK(rig_short(&rig, 1, 0, 10, i, 5000));
		rig_expect(&rig, 0, 10, i);
	}
}

/* ---- calls ---- */

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

	start(few_buffers, NULL);
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

START_TEST(receive__datagram)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	struct ripc_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};

	sender_is_known();
	before = rig_stats(&rig, 0);
	for (unsigned i = 0; i < 70; i++) {
		struct rx_message a = rx_message(NULL, i);
		uint64_t last = p->lists->datagrams->received.run[0].last;

		received(try_receive(&a), i);
		ck_assert_uint_eq(p->lists->datagrams->received.run[0].last, last + 1);
	}
	ck_assert_uint_eq(p->lists->datagrams->seen[0], UINT64_MAX);
	after = rig_stats(&rig, 0);
	ck_assert_uint_eq(after.short_received, before.short_received + 70);
	ck_assert_uint_eq(after.datagrams_lost, before.datagrams_lost);
	ck_assert_uint_eq(after.duplicates, before.duplicates);
}
END_TEST

/*
 * With a short header, of a context that the peer sends with. A datagram of our own that comes back
 * is not taken, even if it fits in all else.
 */
START_TEST(receive__dgram_own)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	struct ripc__datagram_context *c;
	struct ripc__dest *d;
	struct ripc__message *m;
	struct rx_message a;
	uint64_t number;

	sender_is_known();
	for (unsigned i = 0; i < RIPC__DATAGRAM_CONTEXT_AFTER; i++) {
		OK(rig_short(&rig, 0, 1, 10, i, 5000));
		rig_expect(&rig, 1, 10, i);
	}
	rig_run(&rig, 10);
	c = rig_dest(&rig, 0, 1)->datagram_context;
	ck_assert_ptr_nonnull(c);
	d = c->d;
	ck_assert_ptr_eq(d, rig_dest(&rig, 0, 1));
	number = p->lists->datagrams->received.run[0].last + 1;
	c->services = (struct ripc__header_context){RIG_ID(0), RIG_ID(1)};
	c->first = number;
	a = rx_message(NULL, 20);
	rig_fill(ripc__elided_datagram_put(a.bytes, c->word, number), 20, 20);
	a.ev.len = RIPC__ELIDED_DATAGRAM_LEN + 20;
	ck_assert_ptr_eq(ripc__datagram_context_find(rig.ctx[0], c->word), c);
	refused(&a);
	ck_assert_uint_eq(p->lists->datagrams->received.run[0].last, number - 1);
	/* To another service, of another context, and too short. */
	c->d = NULL;
	c->services.dest++;
	refused(&a);
	c->services.dest--;
	a.bytes[1] ^= 1;
	refused(&a);
	a.bytes[1] ^= 1;
	a.ev.len = RIPC__ELIDED_DATAGRAM_LEN - 1;
	refused(&a);
	a.ev.len = RIPC__ELIDED_DATAGRAM_LEN + 20;
	m = try_receive(&a);
	check_message(m, 20);
	ripc_message_free(&m->pub);
	ck_assert_uint_eq(p->lists->datagrams->received.run[0].last, number);
	/* Twice. */
	a = rx_message(NULL, 20);
	rig_fill(ripc__elided_datagram_put(a.bytes, c->word, number), 20, 20);
	a.ev.len = RIPC__ELIDED_DATAGRAM_LEN + 20;
	refused(&a);
	c->d = d;
}
END_TEST

START_TEST(receive__dgram_slow_path)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	struct rx_message a;

	sender_is_known();
	/*
	 * Numbers: repeated, ahead; service, sender's instance, length, kind, return buffers,
	 * credit.
	 */
	for (unsigned i = 0; i < 7; i++) {
		static const uint8_t offsets[] = {24, 8, 40, 48, 3, 30, 28};

		a = rx_message(NULL, 20);
		a.bytes[offsets[i]] ^= 3;
		refused(&a);
	}
	a = rx_message(NULL, 20);
	rig.s[0]->state = RIPC__SERVICE_TAKEN_OVER;
	refused(&a);
	rig.s[0]->state = RIPC__SERVICE_ACTIVE;
	p->lists->datagrams->received.in_order = false;
	refused(&a);
	p->lists->datagrams->received.in_order = true;
	received(try_receive(&a), 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/fast_receive");
	TCase *tc = tcase_create("lane");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, receive__lane);
	tcase_add_test(tc, receive__short_header);
	tcase_add_test(tc, receive__reposts_buffer);
	tcase_add_test(tc, receive__lane_slow_path);
	tcase_add_test(tc, receive__short_slow_path);
	suite_add_tcase(suite, tc);
	tc = tcase_create("call");
	tcase_add_checked_fixture(tc, setup_calls, teardown);
	tcase_add_loop_test(tc, receive__request, 0, 2);
	tcase_add_loop_test(tc, receive__answer, 0, 2);
	tcase_add_test(tc, receive__call_slow_path);
	suite_add_tcase(suite, tc);
	tc = tcase_create("datagram");
	tcase_add_checked_fixture(tc, setup_datagrams, teardown);
	tcase_add_test(tc, receive__datagram);
	tcase_add_test(tc, receive__dgram_own);
	tcase_add_test(tc, receive__dgram_slow_path);
	suite_add_tcase(suite, tc);
	return test_main("core/message/fast_receive", suite);
}
