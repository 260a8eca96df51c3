/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages on the fast path, over lanes that count receive buffers and as datagrams: received as on
 * the slow path.
 */
#include "core/message/fast_messages.h"
#include "core/peer/datagram_context.h"
#include "core/reliable/reliable.h"
#include "wire/bytes.h"

static void setup(void)
{
	fast_start(few_buffers, NULL);
}

static void setup_datagrams(void)
{
	fast_start(rig_datagrams, "short=udp");
}

/* ---- lanes ---- */

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

/* ---- datagrams ---- */

/* So many messages have come from 1 that a next one is expected. */
static void sender_is_known(void)
{
	for (unsigned i = 0; i < RIPC__RUN_TRUSTED; i++) {
		OK(rig_short(&rig, 1, 0, 10, i, 5000));
		rig_expect(&rig, 0, 10, i);
	}
}

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
	tcase_add_checked_fixture(tc, setup, fast_teardown);
	tcase_add_test(tc, receive__lane);
	tcase_add_test(tc, receive__short_header);
	tcase_add_test(tc, receive__reposts_buffer);
	tcase_add_test(tc, receive__lane_slow_path);
	tcase_add_test(tc, receive__short_slow_path);
	suite_add_tcase(suite, tc);
	tc = tcase_create("datagram");
	tcase_add_checked_fixture(tc, setup_datagrams, fast_teardown);
	tcase_add_test(tc, receive__datagram);
	tcase_add_test(tc, receive__dgram_own);
	tcase_add_test(tc, receive__dgram_slow_path);
	suite_add_tcase(suite, tc);
	return test_main("core/message/fast_receive", suite);
}
