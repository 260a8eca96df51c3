/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Passes of a context whose transports and resolver are stubs: what they poll, and when again. */
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

/* A stub: it has this many events left, and wants to be polled again at this time. */
struct ripc__transport {
	unsigned left, polls;
	uint64_t again_ns;
	bool pending; /* it cannot be armed */
	unsigned arms;
};

static struct ripc__transport stubs[3];
static unsigned reported[3], timers, evictions, freed;

static unsigned stub_progress(struct ripc__transport *t, struct ripc__event *ev, unsigned max,
			      uint64_t time_ns, uint64_t *deadline_ns)
{
	unsigned n = t->left < max ? t->left : max;

	ck_assert_uint_eq(time_ns, ctx.now_ns);
	memset(ev, 0, n * sizeof(*ev));
	t->left -= n;
	t->polls++;
	if (t->again_ns < *deadline_ns)
		*deadline_ns = t->again_ns;
	return n;
}

static int stub_arm(struct ripc__transport *t)
{
	t->arms++;
	return t->pending;
}

static const struct ripc__transport_ops stub_ops = {.progress = stub_progress, .arm = stub_arm};

static void transport_event(struct ripc *of, unsigned tp, const struct ripc__event *ev)
{
	(void)ev;
	ck_assert_uint_eq(of->pass, RIPC__PASS_RUNNING);
	reported[tp]++;
}

static void run_timers(struct ripc *of)
{
	ck_assert_uint_eq(of->timers_ns, RIPC__NEVER);
	timers++;
}

static void evict(struct ripc *of)
{
	of->evict_cause = 0;
	evictions++;
}

static void free_dead_lanes(struct ripc *of)
{
	ripc__list_init(&of->dead_lanes);
	freed++;
}

static const struct ripc__progress_ops ops = {
	.transport_event = transport_event,
	.timers = run_timers,
	.evict = evict,
	.free_dead_lanes = free_dead_lanes,
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
	/* Of three transports the second is not open. */
	ctx.ntp = 3;
	memset(stubs, 0, sizeof(stubs));
	memset(reported, 0, sizeof(reported));
	timers = evictions = freed = 0;
	for (unsigned i = 0; i < 3; i++) {
		ctx.tp[i].ops = &stub_ops;
		ctx.tp[i].t = i == 1 ? NULL : &stubs[i];
		stubs[i].again_ns = RIPC__NEVER;
	}
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

/* A pass takes all events of each open transport, once it has found fewer than it asked for. */
START_TEST(full_pass__transports)
{
	struct ripc__list dead;

	stubs[0].left = 3;
	stubs[2].left = 130;
	stubs[2].again_ns = now_ns + 7;
	ripc__list_add(&ctx.dead_lanes, &dead);
	ctx.evict_cause = -EMFILE;
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(stubs[0].polls, 1);
	ck_assert_uint_eq(stubs[2].polls, 3);
	ck_assert_uint_eq(reported[0], 3);
	ck_assert_uint_eq(reported[2], 130);
	ck_assert_uint_eq(ctx.next_timer_ns, now_ns + 7);
	ck_assert_uint_eq(evictions, 1);
	ck_assert_uint_eq(freed, 1);
	ck_assert_uint_eq(ctx.pass, RIPC__PASS_NONE);
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(evictions, 1);
	ck_assert_uint_eq(freed, 1);
}
END_TEST

/* A transport that always has events does not hold up the pass, and the next one is due at once. */
START_TEST(full_pass__endless_events)
{
	stubs[0].left = 1000000;
	stubs[2].left = 1;
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_ge(stubs[0].polls, 2);
	ck_assert_uint_lt(stubs[0].polls, 100);
	ck_assert_uint_eq(reported[2], 1);
	ck_assert_uint_eq(ctx.next_timer_ns, 0);
	/* That the events end with a full batch is not known. */
	stubs[0].left = reported[0];
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(stubs[0].left, 0);
	ck_assert_uint_eq(ctx.next_timer_ns, 0);
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(ctx.next_timer_ns, RIPC__NEVER);
}
END_TEST

/* The timers run when their time has passed, and the earliest of all times is the next. */
START_TEST(full_pass__timers)
{
	ctx.timers_ns = now_ns + 1;
	ctx.resolver_timer_ns = now_ns + 2;
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(timers, 0);
	ck_assert_uint_eq(ctx.next_timer_ns, now_ns + 1);
	ctx.now_ns = ++now_ns;
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(timers, 1);
	ck_assert_uint_eq(ctx.next_timer_ns, now_ns + 1);
	stubs[2].again_ns = now_ns;
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(ctx.next_timer_ns, now_ns);
}
END_TEST

/* One batch of each transport with lanes, without timers and resolver. */
START_TEST(partial_pass__active_transports)
{
	struct ripc__list dead;

	ctx.active_tps = 1u << 2;
	ctx.timers_ns = 0;
	ctx.next_timer_ns = now_ns + 9;
	stubs[0].left = 5;
	stubs[2].left = 5;
	ripc__partial_pass(&ctx);
	ck_assert_uint_eq(reported[0], 0);
	ck_assert_uint_eq(reported[2], 5);
	ck_assert_uint_eq(timers + polls + freed, 0);
	ck_assert_uint_eq(ctx.next_timer_ns, now_ns + 9);
	stubs[2].again_ns = now_ns + 8;
	ripc__list_add(&ctx.dead_lanes, &dead);
	ripc__partial_pass(&ctx);
	ck_assert_uint_eq(ctx.next_timer_ns, now_ns + 8);
	ck_assert_uint_eq(freed, 1);
	stubs[2].left = 1000;
	ctx.active_tps |= 1u << 0;
	ripc__partial_pass(&ctx);
	ck_assert_uint_eq(reported[0], 5);
	ck_assert_uint_eq(stubs[2].polls, 3);
	ck_assert_uint_eq(ctx.next_timer_ns, 0);
	ck_assert_uint_eq(ctx.pass, RIPC__PASS_NONE);
}
END_TEST

/* A pass in a pass does nothing. */
START_TEST(pass__nested)
{
	struct ripc__list dead;

	stubs[0].left = 1;
	ctx.active_tps = 1;
	ripc__event_begin(&ctx);
	ck_assert(!ripc__full_pass(&ctx));
	ripc__partial_pass(&ctx);
	ck_assert_uint_eq(stubs[0].polls, 0);
	ck_assert_uint_eq(freed, 0);
	ripc__list_add(&ctx.dead_lanes, &dead);
	ripc__event_end(&ctx);
	ck_assert_uint_eq(freed, 1);
	ck_assert(!ripc__full_pass(&ctx));
	ck_assert_uint_eq(stubs[0].polls, 1);
}
END_TEST

/* all: each open transport; else until one has something already. */
START_TEST(transports_arm__all_or_first)
{
	ck_assert(!ripc__transports_arm(&ctx, false));
	stubs[0].pending = true;
	ck_assert(ripc__transports_arm(&ctx, true));
	ck_assert_uint_eq(stubs[2].arms, 2);
	ck_assert(ripc__transports_arm(&ctx, false));
	ck_assert_uint_eq(stubs[0].arms, 3);
	ck_assert_uint_eq(stubs[2].arms, 2);
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
	tc = tcase_create("pass");
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, full_pass__transports);
	tcase_add_test(tc, full_pass__endless_events);
	tcase_add_test(tc, full_pass__timers);
	tcase_add_test(tc, partial_pass__active_transports);
	tcase_add_test(tc, pass__nested);
	tcase_add_test(tc, transports_arm__all_or_first);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/pass", suite);
}
