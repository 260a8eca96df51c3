/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times at which calls end, in virtual time. */
#include "core/progress/context.h"
#include "core/progress/wait.h"
#include "harness.h"

static struct ripc ctx;
static uint64_t now_ns;

uint64_t __wrap_ripc__now(struct ripc *c);
uint64_t __wrap_ripc__now(struct ripc *c)
{
	ck_assert_ptr_eq(c, &ctx);
	return now_ns;
}

/* The time left, rounded up; a deadline is over at its nanosecond. */
START_TEST(deadline__near)
{
	uint64_t deadline;

	now_ns = 1000 * RIPC__MS;
	ck_assert_uint_eq(ripc__deadline_far(&ctx, 99), ripc__deadline(&ctx, 99));
	deadline = now_ns + 99 * RIPC__MS;
	ck_assert_uint_eq(ripc__remaining_ms(&ctx, deadline), 99);
	now_ns++;
	ck_assert_uint_eq(ripc__remaining_ms(&ctx, deadline), 99);
	now_ns = deadline - 1;
	ck_assert(!ripc__deadline_passed(&ctx, deadline));
	ck_assert_uint_eq(ripc__remaining_ms(&ctx, deadline), 1);
	now_ns++;
	ck_assert(ripc__deadline_passed(&ctx, deadline));
	ck_assert_uint_eq(ripc__remaining_ms(&ctx, deadline), 0);
	ck_assert_uint_eq(ripc__deadline(&ctx, -1), RIPC__NEVER);
	ck_assert(!ripc__deadline_passed(&ctx, RIPC__NEVER));
	ck_assert_uint_eq(ripc__remaining_ms(&ctx, RIPC__NEVER), UINT32_MAX);
}
END_TEST

/* A far one is compared with the coarse clock of the kernel. */
START_TEST(deadline__far)
{
	uint64_t deadline;
	uint32_t left;

	now_ns = 1000 * RIPC__MS;
	deadline = ripc__deadline_far(&ctx, 600000);
	ck_assert(!ripc__deadline_passed(&ctx, deadline));
	left = ripc__remaining_ms(&ctx, deadline);
	ck_assert_uint_le(left, 600000);
	ck_assert_uint_gt(left, 500000);
	now_ns = deadline;
	ck_assert(!ripc__deadline_passed(&ctx, deadline));
	ck_assert(ripc__deadline_passed(&ctx, deadline - 600000 * RIPC__MS));
	ck_assert_uint_eq(ripc__remaining_ms(&ctx, UINT64_MAX - 1), UINT32_MAX - 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/deadline");
	TCase *tc = tcase_create("deadline");

	tcase_add_test(tc, deadline__near);
	tcase_add_test(tc, deadline__far);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/deadline", suite);
}
