/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ACK that another message carries, as its receiver finds it. */
#include "core/round_trips.h"
#include "wire/bytes.h"

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
	suite_add_tcase(suite, tc);
	return test_main("core/message/dispatch", suite);
}
