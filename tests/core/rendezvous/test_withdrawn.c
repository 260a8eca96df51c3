/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests that ended without an ACK: CANCEL names each on the present and on the next lane. */
#include "core/rendezvous/withdrawn.h"
#include "core/rig.h"
#include "wire/bytes.h"

static struct rig rig;
static uint64_t cancelled[8]; /* requests named by CANCEL */
static unsigned ncancelled;

static void note_cancel(void *arg, const uint8_t from[16], const uint8_t to[16], uint8_t *message,
			size_t *len)
{
	(void)arg;
	(void)from;
	(void)to;
	if (*len != RIPC__HEADER_LEN + 8 || message[3] != RIPC__CANCEL)
		return;
	ck_assert_uint_lt(ncancelled, 8);
	cancelled[ncancelled++] = ripc__get_le64(message + RIPC__HEADER_LEN);
}

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	ripc__sim_tamper(rig.net, note_cancel, NULL);
	ncancelled = 0;
}

static void teardown(void)
{
	rig_end(&rig);
}

static void add(uint64_t id)
{
	ripc__lock(rig.ctx[0]);
	ripc__withdrawn_add(rig_peer(&rig, 0, 1), id);
	ripc__unlock(rig.ctx[0]);
	rig_run(&rig, 10);
}

START_TEST(withdrawn__present_and_next_lane)
{
	add(5);
	ck_assert_uint_eq(ncancelled, 1);
	ck_assert_uint_eq(cancelled[0], 5);
	rig_fail_lane(&rig, 0, 1);
	ncancelled = 0;
	rig_connect(&rig, 0, 1);
	rig_run(&rig, 10);
	ck_assert_uint_eq(ncancelled, 1);
	ck_assert_uint_eq(cancelled[0], 5);
}
END_TEST

/* A request that is so old has ended for the peer: later ones show that. */
START_TEST(withdrawn__old_ones)
{
	add(5);
	add(6);
	add(5 + RIPC__REQUESTS_MAX - 1);
	add(5 + RIPC__REQUESTS_MAX);
	rig_fail_lane(&rig, 0, 1);
	ncancelled = 0;
	rig_connect(&rig, 0, 1);
	rig_run(&rig, 10);
	ck_assert_uint_eq(ncancelled, 3);
	ck_assert_uint_eq(cancelled[0], 6);
	ck_assert_uint_eq(cancelled[1], 5 + RIPC__REQUESTS_MAX - 1);
	ck_assert_uint_eq(cancelled[2], 5 + RIPC__REQUESTS_MAX);
}
END_TEST

START_TEST(withdrawn__without_lane)
{
	rig_fail_lane(&rig, 0, 1);
	ripc__lock(rig.ctx[0]);
	ripc__withdrawn_add(rig_peer(&rig, 0, 1), 7);
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(ncancelled, 0);
	rig_connect(&rig, 0, 1);
	rig_run(&rig, 10);
	ck_assert_uint_eq(ncancelled, 1);
	ck_assert_uint_eq(cancelled[0], 7);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/withdrawn");
	TCase *tc = tcase_create("withdrawn");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, withdrawn__present_and_next_lane);
	tcase_add_test(tc, withdrawn__old_ones);
	tcase_add_test(tc, withdrawn__without_lane);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/withdrawn", suite);
}
