/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Polling without leading, in virtual time: how often a thread polls before it leads, and what ends
 * that. The passes of the context are counted and advance the time.
 */
#include "core/message/receive.h"
#include "core/message/service.h"
#include "core/memory/message.h"
#include "core/peer/lane.h"
#include "core/progress/context.h"
#include "core/rendezvous/request.h"
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PASS_NS    UINT64_C(1000)
#define POLLS      16 /* of a thread that does not spin, before it leads */
#define FULL_EVERY 32 /* polls of which one is a full pass */
#define LATE_EVERY 64 /* the same where all bring events */

static struct ripc ctx;
static struct ripc_request request;
static uint64_t now_ns;
static unsigned passes, full; /* in all; those that were full */
static unsigned polled_one;   /* polls of the last active endpoints */
static unsigned tick_every;   /* of these one is at a tick of the progress thread; 0: none */
static unsigned events_left;  /* polls of them that bring an event */
static bool last_event_ends;  /* with the last event the request is done */
static unsigned ends_in;      /* the pass in which the request is done; 0: none */
static struct ripc__completion completion;

uint64_t __wrap_ripc__now(struct ripc *of);
uint64_t __wrap_ripc__now(struct ripc *of)
{
	(void)of;
	return now_ns;
}

static void pass(void)
{
	now_ns += PASS_NS;
	if (++passes != ends_in)
		return;
	request.state = RIPC__REQUEST_DONE;
	ripc__list_add(&ctx.completions, &completion.link);
}

bool __wrap_ripc__full_pass(struct ripc *of);
bool __wrap_ripc__full_pass(struct ripc *of)
{
	ck_assert_uint_ne(of->now_age, RIPC__NOW_STALE);
	ck_assert_uint_eq(of->now_ns, now_ns);
	full++;
	pass();
	return false;
}

void __wrap_ripc__partial_pass(struct ripc *of);
void __wrap_ripc__partial_pass(struct ripc *of)
{
	ck_assert_uint_eq(of->now_age, RIPC__NOW_STALE);
	pass();
}

static unsigned idle_acks; /* calls that may send the ACK that is delayed */

void __wrap_ripc__delayed_ack_idle(struct ripc *of);
void __wrap_ripc__delayed_ack_idle(struct ripc *of)
{
	(void)of;
	idle_acks++;
}

void __wrap_ripc__dispatch_event(struct ripc *of, unsigned tp, const struct ripc__event *ev);
void __wrap_ripc__dispatch_event(struct ripc *of, unsigned tp, const struct ripc__event *ev)
{
	ck_assert_ptr_eq(of, &ctx);
	ck_assert_uint_eq(tp, 0);
	ck_assert_int_eq(ev->kind, RIPC__EV_SENDABLE);
	if (!events_left && last_event_ends)
		request.state = RIPC__REQUEST_DONE;
}

static bool poll_one(struct ripc__transport *t, void *buf, size_t len, struct ripc__event *ev)
{
	(void)t;
	(void)buf;
	(void)len;
	polled_one++;
	if (events_left) {
		events_left--;
		*ev = (struct ripc__event){.kind = RIPC__EV_SENDABLE};
		return true;
	}
	if (!tick_every || polled_one % tick_every)
		return false;
	ck_assert(!(ripc__progress_step(&ctx, RIPC__PROGRESS_TICK,
					&(struct ripc__progress_input){.wait_poll = true})
			    .actions &
		    RIPC__DO_LEAD));
	return false;
}

static const struct ripc__transport_ops ops = {.poll_one = poll_one};

static void setup(void)
{
	memset(&ctx, 0, sizeof(ctx));
	memset(&request, 0, sizeof(request));
	ripc__list_init(&ctx.completions);
	ripc__list_init(&completion.link);
	ctx.ntp = 1;
	ctx.active_tps = 1;
	ctx.tp[0].ops = &ops;
	ctx.tp[0].t = (struct ripc__transport *)&ctx;
	now_ns = 1000 * RIPC__MS;
	passes = full = polled_one = ends_in = tick_every = events_left = 0;
	last_event_ends = false;
}

static void teardown(void)
{
	while (ctx.message_cache) {
		struct ripc__message *m = ctx.message_cache;

		ctx.message_cache = m->next;
		free(m);
	}
}

/* Polls for the end of the request, or for any completion. */
static void poll_for(const struct ripc_request *r, int timeout_ms)
{
	passes = full = polled_one = 0;
	ripc__lock(&ctx);
	ripc__poll_request(&ctx, r, timeout_ms);
	ripc__unlock(&ctx);
	ck_assert_uint_ne(ctx.now_age, RIPC__NOW_STALE);
}

/* A thread that blocks makes one full pass before it sleeps, and remembers that it has. */
START_TEST(poll__block)
{
	ctx.opt.wait = RIPC__WAIT_BLOCK;
	for (unsigned i = 0; i < 3; i++) {
		ctx.polled = false;
		poll_for(&request, 1000);
		ck_assert_uint_eq(passes, 1);
		ck_assert_uint_eq(full, 1);
		ck_assert(ctx.polled);
	}
}
END_TEST

/* A poll that brings an event is no full pass, which a leader makes before it sleeps. */
START_TEST(poll__block_with_event)
{
	ctx.opt.wait = RIPC__WAIT_BLOCK;
	/* Neither a tick nor a full pass is due. */
	ripc__progress_polled(&ctx);
	ctx.poll_count = 1;
	ctx.poll_budget = ctx.tp[0].poll_budget = 4;
	events_left = 1;
	poll_for(_i ? NULL : &request, -1);
	ck_assert_uint_eq(polled_one, 1);
	ck_assert_uint_eq(full, 0);
	ck_assert(!ctx.polled);
	poll_for(_i ? NULL : &request, -1);
	ck_assert_uint_eq(full, 1);
	ck_assert(ctx.polled);
}
END_TEST

/* The first pass after a pause is a full one and reads the clock; later ones are as in a row. */
START_TEST(poll__adaptive)
{
	unsigned sum = 0, sum_full = 0;

	ctx.opt.wait = RIPC__WAIT_ADAPTIVE;
	ctx.poll_count = 7;
	ctx.polled = true;
	ctx.now_age = RIPC__NOW_FRESH;
	poll_for(&request, 1000);
	ck_assert_uint_eq(passes, POLLS);
	ck_assert_uint_eq(full, 1);
	ck_assert_uint_eq(ctx.poll_count, POLLS);
	ck_assert(!ctx.polled && ctx.now_age != RIPC__NOW_FRESH);
	ck_assert(ripc__progress_state(&ctx.progress).app_active);
	for (unsigned i = 0; i < 10; i++) {
		poll_for(&request, i ? -1 : 1);
		ck_assert_uint_eq(passes, POLLS);
		sum += passes;
		sum_full += full;
	}
	ck_assert_uint_eq(sum_full, sum / FULL_EVERY);
}
END_TEST

/*
 * With wait=poll a thread polls for longer than a round trip, a millisecond, unless its time is
 * short: then as others.
 */
START_TEST(poll__poll)
{
	uint64_t begin_ns;

	ctx.opt.wait = RIPC__WAIT_POLL;
	poll_for(&request, 9);
	ck_assert_uint_eq(passes, POLLS);
	poll_for(&request, 1);
	ck_assert_uint_eq(passes, POLLS);
	for (unsigned i = 0; i < 4; i++) {
		begin_ns = now_ns;
		poll_for(&request, i % 2 ? 10 : -1);
		ck_assert_uint_ge(now_ns - begin_ns, RIPC__MS);
		ck_assert_uint_le(now_ns - begin_ns, RIPC__MS + 3 * FULL_EVERY * PASS_NS);
		ck_assert_uint_ge(full, passes / FULL_EVERY);
		ck_assert_uint_le(full, passes / FULL_EVERY + 1);
	}
}
END_TEST

/* The last active endpoints are polled before each pass: once where it is a full one. */
START_TEST(poll__active_endpoints)
{
	const unsigned budget = 16;

	for (unsigned wait = 0; wait < 3; wait++) {
		static const enum ripc__wait_mode modes[] = {RIPC__WAIT_ADAPTIVE, RIPC__WAIT_POLL,
							     RIPC__WAIT_BLOCK};

		ctx.opt.wait = modes[wait];
		ctx.poll_count = 0;
		ctx.poll_budget = budget;
		poll_for(&request, 1);
		ck_assert_uint_eq(polled_one, (passes - full) * budget + full);
		/* A thread that is about to sleep polls less the next time. */
		ck_assert_uint_eq(ctx.poll_budget,
				  modes[wait] == RIPC__WAIT_POLL ? budget : budget / 2);
	}
	ctx.active_tps = 0;
	ctx.poll_count = 1;
	poll_for(&request, 1);
	ck_assert_uint_eq(polled_one, 0);
}
END_TEST

/*
 * The progress thread leaves the lead to a thread that polls, also where polls take so long that
 * several ticks come between two full passes.
 */
START_TEST(poll__slow_endpoints)
{
	union ripc__progress_word word = {.state = {.thread = RIPC__THREAD_TICKING}};

	atomic_store(&ctx.progress.word, word.bits);
	ctx.opt.wait = RIPC__WAIT_POLL;
	ctx.poll_budget = 128;
	tick_every = 100;
	ends_in = 50;
	poll_for(&request, 1000);
	ck_assert_uint_eq(passes, 50);
	ck_assert_uint_gt(polled_one, FULL_EVERY * tick_every);
}
END_TEST

/* An event makes no pass, unless a full one is due for long: that comes after it. */
START_TEST(poll__events)
{
	last_event_ends = true;
	ctx.opt.wait = RIPC__WAIT_POLL;
	ctx.poll_budget = ctx.tp[0].poll_budget = 8;
	for (unsigned n = 1; n <= 3 * LATE_EVERY; n++) {
		ctx.poll_count = 0;
		request.state = RIPC__REQUEST_PENDING;
		events_left = n;
		poll_for(&request, 1000);
		ck_assert_uint_eq(polled_one, n);
		ck_assert_uint_eq(ctx.poll_count, n);
		ck_assert_uint_eq(full, (n + LATE_EVERY - 1) / LATE_EVERY);
		ck_assert_uint_eq(passes, full);
	}
}
END_TEST

/* It ends with the pass in which the request ends, or in which anything is complete. */
START_TEST(poll__done)
{
	for (unsigned any = 0; any < 2; any++)
		for (unsigned nth = 1; nth <= POLLS; nth++) {
			setup();
			ctx.opt.wait = RIPC__WAIT_ADAPTIVE;
			ctx.poll_budget = 8;
			ends_in = nth;
			poll_for(any ? NULL : &request, 1000);
			ck_assert_uint_eq(passes, nth);
			/* The message came from another endpoint. */
			ck_assert_uint_eq(ctx.poll_budget, 8 / 2 + 1);
			teardown();
		}
}
END_TEST

/* A thread that polls for its own request sends the delayed ACK, before and after each poll. */
START_TEST(poll__delayed_ack)
{
	static struct ripc__lane lane;

	ctx.opt.wait = RIPC__WAIT_ADAPTIVE;
	poll_for(&request, 1000);
	ck_assert_uint_eq(idle_acks, 0);
	ctx.delayed_ack.lane = &lane;
	poll_for(&request, 1000);
	ck_assert_uint_eq(passes, POLLS);
	ck_assert_uint_eq(idle_acks, 1 + POLLS);
}
END_TEST

/* Another thread waits for the lock: this one lets it in after one poll. */
START_TEST(poll__contended)
{
	for (unsigned wait = 0; wait < 2; wait++) {
		ctx.opt.wait = wait ? RIPC__WAIT_POLL : RIPC__WAIT_ADAPTIVE;
		ctx.polled = true;
		atomic_store(&ctx.lock.wanted, 1);
		poll_for(&request, 1000);
		ck_assert_uint_eq(passes, 1);
		ck_assert(!ctx.polled);
		atomic_store(&ctx.lock.wanted, 0);
	}
}
END_TEST

static uint64_t hooked_now(void *arg)
{
	(void)arg;
	return now_ns;
}

/* No poll while another thread leads, in a pass, in virtual time, and when the context closes. */
START_TEST(poll__not_allowed)
{
	union ripc__progress_word word = {.bits = 0};

	for (unsigned leader = RIPC__LEADER_SPINNING; leader <= RIPC__LEADER_THREAD; leader++) {
		word.state.leader = leader & 3;
		atomic_store(&ctx.progress.word, word.bits);
		poll_for(&request, 1000);
		ck_assert_uint_eq(passes, 0);
	}
	atomic_store(&ctx.progress.word, 0);
	ctx.closing = true;
	poll_for(&request, 1000);
	ck_assert_uint_eq(passes, 0);
	ctx.closing = false;
	ctx.pass = RIPC__PASS_RUNNING;
	poll_for(&request, 1000);
	ck_assert_uint_eq(passes, 0);
	ctx.pass = RIPC__PASS_NONE;
	ctx.hooks.now = hooked_now;
	poll_for(&request, 1000);
	ck_assert_uint_eq(passes, 0);
	ctx.hooks.now = NULL;
	poll_for(&request, 1000);
	ck_assert_uint_gt(passes, 0);
}
END_TEST

/*
 * Calls with timeout 0 in a row: one of 16 makes a pass, as only a pass finds other endpoints. All
 * do so if the application sleeps on the descriptor.
 */
START_TEST(receive__no_wait)
{
	struct ripc_service s = {.ctx = &ctx, .ready = {.fd = -1}, .state = RIPC__SERVICE_ACTIVE};
	struct ripc_message *m;

	ctx.owner = ripc__fork_generation;
	ctx.progress.wakefd = -1;
	ctx.opt.wait = RIPC__WAIT_ADAPTIVE;
	ripc__list_init(&s.rndvs_in);
	ripc__waitq_init(&s.receivers);
	ripc__waitq_init(&s.drained);
	/* The first one after a pause makes a pass. */
	ck_assert_int_eq(ripc_receive(&s, &m, 0), -EAGAIN);
	ck_assert_uint_eq(passes, 1);
	passes = polled_one = 0;
	for (unsigned i = 0; i < 160; i++)
		ck_assert_int_eq(ripc_receive(&s, &m, 0), -EAGAIN);
	ck_assert_uint_eq(passes, 160 / 16);
	ck_assert_uint_eq(polled_one, 160);
	passes = 0;
	s.ready.fd = 1000;
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(ripc_receive(&s, &m, 0), -EAGAIN);
	ck_assert_uint_eq(passes, 10);
}
END_TEST

static const struct ripc__transport_ops ops_of_passes;

/* A call with timeout 0 that finds nothing. Return: its passes. */
static unsigned nothing_complete(void)
{
	struct ripc_completion c = {.size = sizeof(c)};

	passes = polled_one = 0;
	ck_assert_int_eq(ripc_completion_next(&ctx, &c, 0), -EAGAIN);
	ck_assert_uint_eq(polled_one, ctx.tp[0].ops->poll_one ? 1 : 0);
	return passes;
}

static void report_completion(void)
{
	struct ripc_completion c = {.size = sizeof(c)};

	ripc__list_add(&ctx.completions, &request.completion.link);
	ck_assert_int_eq(ripc_completion_next(&ctx, &c, 0), 0);
	ck_assert_ptr_eq(c.request, &request);
}

/*
 * Completions with timeout 0: the first call after one that has reported a completion makes no
 * pass. It does if the poll brings another event, if only a pass finds the events of a transport,
 * and if the application sleeps on the descriptor.
 */
START_TEST(completion__no_wait)
{
	ctx.owner = ripc__fork_generation;
	ctx.progress.wakefd = -1;
	ctx.opt.wait = RIPC__WAIT_ADAPTIVE;
	ctx.completions_ready.fd = -1;
	ripc__waitq_init(&ctx.completed);
	ripc__completion_init(&request.completion, RIPC_COMPLETION_REQUEST);
	/* The first one after a pause makes a pass. */
	report_completion();
	passes = 0;
	ck_assert_int_eq(ripc_completion_next(&ctx, &(struct ripc_completion){.size = 8}, 0),
			 -EAGAIN);
	ck_assert_uint_eq(passes, 1);
	for (unsigned i = 0; i < 3; i++) {
		report_completion();
		ck_assert_uint_eq(nothing_complete(), 0);
		ck_assert_uint_eq(nothing_complete(), 1);
		ck_assert_uint_eq(nothing_complete(), 1);
	}
	report_completion();
	events_left = 1;
	ctx.poll_count = 1;
	ck_assert_uint_eq(nothing_complete(), 1);
	report_completion();
	ctx.tp[0].ops = &ops_of_passes;
	ck_assert_uint_eq(nothing_complete(), 1);
	ctx.tp[0].ops = &ops;
	report_completion();
	ctx.completions_ready.fd = 1000;
	ck_assert_uint_eq(nothing_complete(), 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/receive");
	TCase *tc = tcase_create("poll");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, poll__block);
	tcase_add_loop_test(tc, poll__block_with_event, 0, 2);
	tcase_add_test(tc, poll__adaptive);
	tcase_add_test(tc, poll__poll);
	tcase_add_test(tc, poll__active_endpoints);
	tcase_add_test(tc, poll__slow_endpoints);
	tcase_add_test(tc, poll__events);
	tcase_add_test(tc, poll__done);
	tcase_add_test(tc, poll__delayed_ack);
	tcase_add_test(tc, poll__contended);
	tcase_add_test(tc, poll__not_allowed);
	tcase_add_test(tc, receive__no_wait);
	tcase_add_test(tc, completion__no_wait);
	suite_add_tcase(suite, tc);
	return test_main("core/message/receive", suite);
}
