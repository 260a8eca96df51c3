/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages that carry an ACK, or whose service is not here. */
#include "core/round_trips.h"
#include "core/group/group.h"
#include "core/message/dispatch.h"
#include "wire/bytes.h"

/* ---- ACK in another message ---- */

/* A short message that acknowledges a request. */
static size_t forge(uint8_t *buf, uint8_t kind, uint16_t flags, uint64_t id)
{
	bool is_short = kind == RIPC__SHORT;
	uint8_t *p = ripc__header_put(buf, kind, flags, is_short, 0, RIG_ID(1), RIG_ID(0));

	ripc__put_le64(p, id);
	ripc__put_le32(p + 8, 0);
	return (size_t)(p - buf) + (kind == RIPC__SHORT ? 12 : 16);
}

/*
 * It does not acknowledge unknown or unsent requests; the message that carries the ACK is a normal
 * one.
 */
START_TEST(dispatch__ack_unknown_request)
{
	struct ripc_request *r;
	uint8_t buf[64];

	rig_exchange(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	r = rig_begin(&rig, 1, 0, data, 100);
	for (int i = 0; i < 4; i++) {
		const uint64_t ids[] = {0, r->id - 1, r->id + 1, UINT64_MAX};

		rig_inject(&rig, 0, 1, buf, forge(buf, RIPC__SHORT, RIPC__F_ACK, ids[i]), 0);
		rig_expect(&rig, 1, 0, 0);
		ck_assert_int_eq(r->state, RIPC__REQUEST_SENT);
	}
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
	/* This one it is. */
	rig_inject(&rig, 0, 1, buf, forge(buf, RIPC__SHORT, RIPC__F_ACK, r->id), 0);
	rig_expect(&rig, 1, 0, 0);
	OK(ripc_request_test(&r));
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	rig_expect(&rig, 0, 100, 1);
}
END_TEST

/*
 * A message that carries one is not what the next ELIDED stands for: its sender does not count it
 * either.
 */
START_TEST(dispatch__elided_after_ack)
{
	struct ripc_service *other;
	struct iovec item = {data, 50};
	struct ripc_message *m;
	struct ripc_request *r;

	fill_streak();
	OK(ripc_service_register(rig.ctx[1], RIG_ID(5), 0, &other));
	OK(rig_short(&rig, 1, 0, 50, 2, 5000));
	rig_expect(&rig, 0, 50, 2);
	r = ping(100);
	ck_assert(is_delayed(1));
	OK(ripc_send_short(other, RIG_ID(0), &item, 1, NULL, 0));
	ck_assert(!is_delayed(1));
	OK(rig_short(&rig, 1, 0, 50, 3, 0));
	for (int i = 0; i < 2; i++) {
		m = rig_take(&rig, 0);
		ck_assert_uint_eq(m->source, RIG_ID(i ? 1 : 5));
		ripc_message_free(m);
	}
	OK(ripc_request_test(&r));
}
END_TEST

/* Control messages carry none. */
START_TEST(dispatch__ack_misplaced)
{
	uint8_t buf[64];

	rig_exchange(&rig, 0, 1);
	rig_inject(&rig, 0, 1, buf, forge(buf, RIPC__PING, RIPC__F_ACK, 1), 0);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/*
 * RELEASE has a path of its own, and the rules of all messages apply to it. _i: none is broken; it
 * is out of sequence; a byte follows it; it has a return buffer.
 */
START_TEST(dispatch__release)
{
	uint8_t buf[RIPC__HEADER_LEN + 16 + 1] = {0};
	uint8_t *p = ripc__header_put(buf, RIPC__RELEASE, 0, 0, _i == 3, 0, 0);
	struct ripc__lane *lane;

	rig_exchange(&rig, 0, 1);
	lane = rig_lane(&rig, 1, 0);
	/* Of an unknown request. */
	ripc__put_le64(p, 1000);
	ripc__put_le64(p + 8, RIPC__RELEASE_ACK);
	rig_inject(&rig, 0, 1, buf, RIPC__HEADER_LEN + 16 + (_i == 2), _i == 1);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, _i > 0);
	ck_assert(_i || rig_lane(&rig, 1, 0) == lane);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* ---- datagrams ---- */

static char logged[256];

static void log_line(void *arg, enum ripc_log_level level, const char *line)
{
	(void)arg, (void)level;
	snprintf(logged, sizeof(logged), "%s", line);
}

/* Context 1 receives a datagram from the address of 0. Return: that address, as text. */
static const char *receive_datagram(const uint8_t *bytes, size_t len)
{
	struct ripc *ctx = rig.ctx[1];
	unsigned tp = rig_lane(&rig, 1, 0)->tp;
	const struct ripc__transport_ops *ops = ctx->tp[tp].ops;
	uint8_t from[RIPC__ADDRESS_MAX];
	int fromlen = ops->address(rig.ctx[0]->tp[tp].t, from, sizeof(from));
	struct ripc__event ev = {
		.kind = RIPC__EV_DATAGRAM, .data = bytes, .len = (uint32_t)len, .from = from};
	static char who[64];

	ck_assert_int_gt(fromlen, 0);
	ev.fromlen = (uint32_t)fromlen;
	ops->describe(from, ev.fromlen, who, sizeof(who));
	ripc__lock(ctx);
	ripc__dispatch_datagram(ctx, tp, &ev);
	ripc__unlock(ctx);
	return who;
}

/* A datagram that breaks the format is counted, and logged with its source address. */
START_TEST(datagram__malformed)
{
	const uint8_t bytes[40] = {0};
	const char *who;

	ripc_log_set(log_line, NULL, RIPC_LOG_INFO);
	who = receive_datagram(bytes, sizeof(bytes));
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	ck_assert_ptr_nonnull(strstr(logged, who));
}
END_TEST

/* NOSERVICE counts from the holder of the service alone. */
START_TEST(datagram__noservice_of_another)
{
	uint8_t buf[RIPC__HEADER_LEN + 16] = {0};
	uint8_t *instance =
		ripc__header_put(buf, RIPC__NOSERVICE, RIPC__F_INSTANCE, 0, 0, 0, RIG_ID(0));

	restart(rig_datagrams);
	rig_open(&rig, NULL);
	rig_exchange(&rig, 1, 0);
	rig_exchange(&rig, 1, 2);
	for (unsigned i = 0; i < 2; i++) {
		receive_datagram(buf, sizeof(buf));
		ck_assert_int_eq(rig_dest(&rig, 1, 0)->state, RIPC__DEST_KNOWN);
		memcpy(instance, rig_instance(&rig, 2), 16);
	}
	memcpy(instance, rig_instance(&rig, 0), 16);
	receive_datagram(buf, sizeof(buf));
	ck_assert_int_ne(rig_dest(&rig, 1, 0)->state, RIPC__DEST_KNOWN);
}
END_TEST

/* A transport without datagrams may receive multicast, which is to groups. */
START_TEST(datagram__over_multicast_only)
{
	uint8_t buf[RIPC__FAST_HEADER_LEN + 16] = {0};
	uint8_t *p = ripc__header_put(buf, RIPC__SHORT, RIPC__F_INSTANCE, 1, 0, RIG_ID(1), 7);

	if (_i)
		restart(rig_datagrams);
	memset(p, 7, 16);
	receive_datagram(buf, sizeof(buf));
	ck_assert_uint_eq(rig.s[1]->queued, _i);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, !_i);
}
END_TEST

/* The numbers of a sender are checked from its first datagram on. */
START_TEST(datagram__unknown_sender)
{
	uint8_t buf[RIPC__FAST_HEADER_LEN + 16] = {0};
	uint8_t *p = ripc__header_put(buf, RIPC__SHORT, RIPC__F_INSTANCE, 1, 0, RIG_ID(1), 7);

	restart(rig_datagrams);
	memset(p, 7, 16);
	ripc__number_stamp(buf, 1000);
	ck_assert_ptr_null(ripc__peer_find(rig.ctx[1], p));
	for (unsigned i = 0; i < 3; i++)
		receive_datagram(buf, sizeof(buf));
	ck_assert_ptr_nonnull(ripc__peer_find(rig.ctx[1], p));
	ck_assert_uint_eq(rig.s[1]->queued, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).duplicates, 2);
	ripc__number_stamp(buf, 1001);
	receive_datagram(buf, sizeof(buf));
	ck_assert_uint_eq(rig.s[1]->queued, 2);
}
END_TEST

/* ---- messages to a service that is not here ---- */

static void drop_datagrams(bool on)
{
	struct ripc__sim_config config = rig.config;

	config.datagram_loss = on;
	ripc__sim_configure(rig.net, &config);
}

/* Closes the service of 0 without notice to 1. */
static void unregister_unnoticed(void)
{
	drop_datagrams(true);
	OK(ripc_service_unregister(rig.s[0]));
	rig_run(&rig, 100);
	drop_datagrams(false);
	ck_assert_int_eq(rig_dest(&rig, 1, 0)->state, RIPC__DEST_KNOWN);
}

/* Short messages of 1 to the service of 0 until they are refused. */
static unsigned send_until_refused(void)
{
	unsigned n;

	for (n = 0; n < 1000 && !rig_short(&rig, 1, 0, 10, n, 0); n++)
		rig_run(&rig, 5);
	return n;
}

/*
 * A message names its sender, which is a service: an answer would go to no service, or to the name
 * of a group. Before and after the sender is known.
 */
START_TEST(dispatch__source_is_no_service)
{
	static const uint64_t sources[] = {0, RIPC__GROUP_BASE + 5};
	uint8_t buf[RIPC__HEADER_MAX], *p;

	rig_connect(&rig, 0, 1);
	if (_i & 2) {
		rig_short(&rig, 0, 1, 8, 1, 5000);
		rig_expect(&rig, 1, 8, 1);
		ripc__flows_relearn(rig_lane(&rig, 1, 0), RIG_ID(0));
	}
	p = ripc__header_put(buf, RIPC__SHORT, 0, 1, 0, RIG_ID(1), sources[_i & 1]);
	ripc__put_le32(p, 0);
	rig_inject(&rig, 0, 1, buf, RIPC__HEADER_LEN + 4, 0);
	rig_run(&rig, 5);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	ck_assert_ptr_null(ripc__dest_find(rig.ctx[1], sources[_i & 1]));
}
END_TEST

/* It was found again after it had been refused, and is gone again, without a message in between. */
START_TEST(noservice__sent_again)
{
	rig_exchange(&rig, 1, 0);
	for (unsigned i = 0; i < 3; i++) {
		unregister_unnoticed();
		ck_assert_uint_le(send_until_refused(), 5);
		OK(ripc_service_register(rig.ctx[0], RIG_ID(0), 0, &rig.s[0]));
		OK(ripc_route_lookup(rig.ctx[1], RIG_ID(0), NULL, 5000));
	}
	rig_exchange(&rig, 1, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 0);
}
END_TEST

/* A sender that only its messages made known is known again by the next one, after it was away. */
START_TEST(noservice__learned_from_message)
{
	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	rig_expect(&rig, 0, 10, 1);
	drop_datagrams(true);
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 1, 10, 1);
	OK(ripc_service_unregister(rig.s[1]));
	while (!rig_short(&rig, 0, 1, 10, 1, 0))
		rig_run(&rig, 5);
	OK(ripc_service_register(rig.ctx[1], RIG_ID(1), 0, &rig.s[1]));
	for (unsigned i = 0; i < 3; i++) {
		OK(rig_short(&rig, 1, 0, 10, 2, 5000));
		rig_expect(&rig, 0, 10, 2);
		rig_run(&rig, 3000);
	}
	OK(rig_short(&rig, 0, 1, 10, 3, 5000));
	rig_expect(&rig, 1, 10, 3);
}
END_TEST

/* A sender that exceeds its credit loses its lane, and its messages go no further. */
START_TEST(credit__exceeded)
{
	uint64_t window = rig.ctx[1]->opt.service_window;
	struct ripc__credit *c;

	OK(rig_short(&rig, 0, 1, 100, 1, 5000));
	c = ripc__credit_find(rig_lane(&rig, 0, 1), RIG_ID(1));
	ck_assert_ptr_nonnull(c);
	c->limit_units += 1000000;
	for (uint64_t bytes = 0; bytes < 2 * window && !rig_stats(&rig, 1).lanes_lost;
	     bytes += 7000) {
		rig_short(&rig, 0, 1, 7000, 1, 0);
		rig_run(&rig, 1);
	}
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 1);
	ck_assert_uint_le(rig.s[1]->queued * 7000, window + 7000);
}
END_TEST

START_TEST(noservice__sent_once)
{
	uint64_t before;

	rig_exchange(&rig, 1, 0);
	/* The goodbye does not arrive. */
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(ripc_service_unregister(rig.s[0]));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	before = rig_lane(&rig, 0, 1)->tx_seq;
	for (uint64_t i = 0; i < 10; i++)
		OK(rig_short(&rig, 1, 0, 10, i, 0));
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_stats(&rig, 0).dropped_no_service, 10);
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->tx_seq, before + 1);
	ck_assert_int_ne(rig_dest(&rig, 1, 0)->state, RIPC__DEST_KNOWN);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/dispatch");
	TCase *tc = tcase_create("dispatch");

	test_seed();
	tcase_add_checked_fixture(tc, round_trips_setup, round_trips_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, dispatch__ack_unknown_request);
	tcase_add_test(tc, dispatch__elided_after_ack);
	tcase_add_test(tc, dispatch__ack_misplaced);
	tcase_add_loop_test(tc, dispatch__release, 0, 4);
	tcase_add_test(tc, datagram__malformed);
	tcase_add_test(tc, datagram__noservice_of_another);
	tcase_add_test(tc, datagram__unknown_sender);
	tcase_add_loop_test(tc, datagram__over_multicast_only, 0, 2);
	tcase_add_test(tc, credit__exceeded);
	tcase_add_test(tc, noservice__sent_once);
	tcase_add_loop_test(tc, dispatch__source_is_no_service, 0, 4);
	tcase_add_test(tc, noservice__sent_again);
	tcase_add_test(tc, noservice__learned_from_message);
	suite_add_tcase(suite, tc);
	return test_main("core/message/dispatch", suite);
}
