/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/round_trips.h"

struct rig rig;
uint8_t data[ROUND_TRIP_MAX];

void round_trips_setup(void)
{
	rig_start(&rig, 2, NULL);
	rig_fill(data, ROUND_TRIP_MAX, 1);
	rig_connect(&rig, 0, 1);
}

void round_trips_teardown(void)
{
	rig_end(&rig);
}

void restart(void (*change)(struct ripc__sim_config *config))
{
	rig_end(&rig);
	rig_start(&rig, 2, change);
	rig_connect(&rig, 0, 1);
}

uint32_t sent(unsigned i)
{
	return rig_lane(&rig, i, !i)->tx_seq;
}

bool is_delayed(unsigned i)
{
	return rig.ctx[i]->delayed_ack.held;
}

int reply_streak(unsigned i)
{
	return rig_lane(&rig, i, !i)->reply_streak;
}

struct ripc_request *ping(size_t len)
{
	struct ripc_request *r = rig_begin(&rig, 0, 1, data, len);

	rig_expect(&rig, 1, len, 1);
	return r;
}

void answer(struct ripc_request **r)
{
	OK(rig_short(&rig, 1, 0, 50, 2, 0));
	rig_expect(&rig, 0, 50, 2);
	OK(ripc_request_test(r));
}

void round_trip(size_t len)
{
	struct ripc_request *r = ping(len), *back;

	back = rig_begin(&rig, 1, 0, data, len);
	rig_expect(&rig, 0, len, 1);
	OK(ripc_request_test(&r));
	/* Carried by what comes next, or by nothing: that is not waited for here. */
	if (back->state != RIPC__REQUEST_DONE && !is_delayed(0))
		OK(ripc_request_wait(&back, 5000));
	else
		ck_assert(back->state == RIPC__REQUEST_DONE || is_delayed(0));
}

void fill_streak(void)
{
	for (int i = 0; i < RIPC__STREAK_MIN; i++)
		round_trip(100);
	rig_run(&rig, 5);
	ck_assert_int_eq(reply_streak(1), RIPC__STREAK_MIN);
	ck_assert(!is_delayed(0) && !is_delayed(1));
}
