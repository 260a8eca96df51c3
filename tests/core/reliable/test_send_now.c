/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether a message may go at once. */
#include "core/reliable/reliables.h"
#include "core/reliable/send_now.h"

/* With this value a message waits; without it one may go at once. */
#define WAITS(field, value)                                              \
	do {                                                             \
		__typeof__((field) + 0) before = (field);                \
		(field) = (value);                                       \
		ck_assert(!ripc__reliable_may_send(d, 0, sizeof(item))); \
		(field) = before;                                        \
		ck_assert(ripc__reliable_may_send(d, 0, sizeof(item)));  \
	} while (0)

START_TEST(may_send__each_reason_to_wait)
{
	struct ripc__list item;
	struct ripc__lane *lane;
	struct ripc__dest *d;
	struct ripc__peer *p;

	OK(send_number(RIG_ID(1), 1, 1000));
	rig_run(&rig, 60);
	expect_numbers(1, 1, 1);
	OK(send_number(RIG_ID(1), 2, 1000));
	d = rig_dest(&rig, 0, 1);
	p = d->peer;
	lane = p->lane;
	ck_assert_uint_gt(d->reliable_unacked, 0);
	ck_assert(ripc__reliable_may_send(d, 0, sizeof(item)));
	WAITS(p->reliable, NULL);
	WAITS(d->credit, NULL);
	/* Earlier ones: after a lost lane, for a holder, at another holder. */
	WAITS(p->reliable->resend, &p->reliable->unacked);
	ripc__list_init(&item);
	ripc__list_add(&d->reliable_pending, &item);
	ck_assert(!ripc__reliable_may_send(d, 0, sizeof(item)));
	ripc__list_del(&item);
	WAITS(d->reliable_peer, NULL);
	/* Windows, lengths and credit. */
	WAITS(p->reliable_unacked, RIPC__RELIABLE_WINDOW);
	WAITS(p->reliable->bytes, RIPC__RELIABLE_WINDOW_BYTES - sizeof(item) + 1);
	WAITS(lane->send_max, sizeof(item) - 1);
	WAITS(d->credit->limit_units, d->credit->sent_units);
	/* The peer does not know the next number, or the lane counts as idle. */
	WAITS(lane->reliable_tx, lane->reliable_tx + 1);
	WAITS(lane->silence, RIPC__SILENCE_IDLE);
	WAITS(lane->sending, RIPC__SENDING_BLOCKED);
	rig_run(&rig, 60);
	expect_numbers(1, 2, 2);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/reliable/send_now");
	TCase *tc = tcase_create("send_now");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, reliable_setup, reliable_teardown);
	tcase_add_test(tc, may_send__each_reason_to_wait);
	suite_add_tcase(suite, tc);
	return test_main("core/reliable/send_now", suite);
}
