/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Passes of a context whose transports and resolver are stubs: when the resolver is polled. */
#include "core/progress/pass.h"
#include "core/progress/context.h"
#include "harness.h"

#include <string.h>

#define INTERVAL_NS UINT64_C(200000) /* between two polls by a leader that spins */

static struct ripc ctx;
static uint64_t now_ns;
static unsigned polls, reads; /* of the resolver; those that read its sockets */
static unsigned nevents;      /* that the next polls return, at most 4 each */
static bool awaited;          /* a look-up still waits */

uint64_t __wrap_ripc__now(struct ripc *of);
uint64_t __wrap_ripc__now(struct ripc *of)
{
	(void)of;
	return now_ns;
}

unsigned __wrap_ripc__resolver_progress(struct ripc__resolver *r, bool readable,
					struct ripc__resolver_event *ev, unsigned max,
					uint64_t time_ns, uint64_t *deadline_ns);
unsigned __wrap_ripc__resolver_progress(struct ripc__resolver *r, bool readable,
					struct ripc__resolver_event *ev, unsigned max,
					uint64_t time_ns, uint64_t *deadline_ns)
{
	unsigned n = nevents < max ? nevents : max;

	(void)r;
	ck_assert_uint_eq(time_ns, ctx.now_ns);
	ck_assert_uint_eq(*deadline_ns, RIPC__NEVER);
	memset(ev, 0, n * sizeof(*ev));
	nevents -= n;
	polls++;
	reads += readable;
	return n;
}

static unsigned events; /* of the resolver, reported */

static void resolver_event(struct ripc *of, const struct ripc__resolver_event *ev)
{
	(void)of;
	(void)ev;
	events++;
}

static bool resolver_awaited(struct ripc *of)
{
	(void)of;
	return awaited;
}

static uint64_t pass_end(struct ripc *of, uint64_t deadline)
{
	(void)of;
	return deadline;
}

static const struct ripc__progress_ops ops = {
	.resolver_event = resolver_event,
	.resolver_awaited = resolver_awaited,
	.pass_end = pass_end,
};

static void setup(void)
{
	memset(&ctx, 0, sizeof(ctx));
	ctx.ops = &ops;
	ctx.timers_ns = ctx.resolver_timer_ns = RIPC__NEVER;
	ripc__list_init(&ctx.dead_lanes);
	ctx.now_ns = ctx.resolver_polled_ns = now_ns = 1000 * RIPC__MS;
	polls = reads = events = nevents = 0;
	awaited = false;
}

/* A pass after so long. */
static void pass_after(uint64_t ns, unsigned want_polls, unsigned want_reads)
{
	polls = reads = 0;
	ctx.now_ns = now_ns += ns;
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(polls, want_polls);
	ck_assert_uint_eq(reads, want_reads);
}

/* Nothing is known to be readable: it is polled now and then. */
START_TEST(resolver__quiet)
{
	pass_after(0, 0, 0);
	pass_after(INTERVAL_NS - 1, 0, 0);
	pass_after(1, 1, 1);
	pass_after(INTERVAL_NS - 1, 0, 0);
	/* Its timer does not read. */
	ctx.resolver_timer_ns = now_ns;
	pass_after(0, 1, 0);
	ck_assert_uint_eq(ctx.resolver_timer_ns, RIPC__NEVER);
}
END_TEST

/* A sleep found it readable: the next pass reads it, once. */
START_TEST(resolver__readable)
{
	ctx.resolver_poll = RIPC__RESOLVER_READABLE;
	pass_after(0, 1, 1);
	ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_QUIET);
	pass_after(0, 0, 0);
}
END_TEST

/* A look-up waits: each pass reads, until none waits any more. */
START_TEST(resolver__awaited)
{
	ctx.resolver_poll = RIPC__RESOLVER_AWAITED;
	awaited = true;
	for (unsigned i = 0; i < 3; i++) {
		nevents = i;
		pass_after(0, 1, 1);
		ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_AWAITED);
	}
	awaited = false;
	/* A thread that waits for its registration may have seen the event after its pass. */
	pass_after(0, 1, 1);
	ck_assert_uint_eq(ctx.resolver_poll, RIPC__RESOLVER_QUIET);
	ck_assert_uint_eq(events, 3);
	pass_after(0, 0, 0);
}
END_TEST

/* All events are reported in the same pass. */
START_TEST(resolver__many_events)
{
	ctx.resolver_poll = RIPC__RESOLVER_READABLE;
	nevents = 9;
	pass_after(0, 3, 3);
	ck_assert_uint_eq(events, 9);
}
END_TEST

static uint64_t hooked_now(void *arg)
{
	(void)arg;
	return now_ns;
}

/* In virtual time each pass reads. */
START_TEST(resolver__virtual_time)
{
	ctx.hooks.now = hooked_now;
	pass_after(0, 1, 1);
	pass_after(0, 1, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/pass");
	TCase *tc = tcase_create("resolver");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, resolver__quiet);
	tcase_add_test(tc, resolver__readable);
	tcase_add_test(tc, resolver__awaited);
	tcase_add_test(tc, resolver__many_events);
	tcase_add_test(tc, resolver__virtual_time);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/pass", suite);
}
