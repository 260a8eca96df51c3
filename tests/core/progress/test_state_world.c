/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state machine of progress with a simulated application thread and progress thread, in virtual
 * time. No thread, no clock.
 */
#include "core/progress/state_names.h"
#include "harness.h"

static const struct ripc__progress_input zero, slept = {.slept = true};

/* ck_assert() is a system call, also when it holds. */
#define CHECK(condition)                                \
	do {                                            \
		if (!(condition))                       \
			ck_abort_msg("%s", #condition); \
	} while (0)

/* An application thread and the progress thread, with what they sleep on. */
struct world {
	struct ripc__progress_state s;
	uint64_t now_ns, until_ns; /* until_ns: of the progress thread's sleep */
	uint64_t resumed_ns, thread_wake_ns;
	enum { AWAKE, ON_SEM, ON_DESCRIPTORS } thread;
	bool sem, eventfd, masked;
	unsigned runs; /* of the progress thread */
};

static struct ripc__progress_step step(struct world *w, enum ripc__progress_event event,
				       const struct ripc__progress_input *in)
{
	struct ripc__progress_step step = ripc__progress_next(w->s, event, in);

	CHECK(ripc__progress_state_valid(step.next));
	w->s = step.next;
	if (step.actions & POST)
		w->sem = true;
	if (step.actions & ARM)
		w->masked = false;
	if (step.actions & KICK) {
		CHECK(!w->eventfd);
		w->eventfd = true;
	}
	if (step.actions & DISARM)
		w->masked = true;
	CHECK(w->s.kicked == w->eventfd);
	return step;
}

static void read_eventfd(struct world *w)
{
	if (!w->eventfd)
		return;
	/* The state machine kicks anew if another thread sleeps. */
	w->eventfd = false;
	step(w, ON(KICK_READ), NULL);
}

static bool thread_runnable(const struct world *w)
{
	if (w->s.thread == OFF)
		return false;
	if (w->thread == AWAKE || w->now_ns >= w->until_ns)
		return true;
	return w->thread == ON_SEM ? w->sem : w->eventfd && !w->masked;
}

static void sleep_on_descriptors(struct world *w)
{
	w->thread = ON_DESCRIPTORS;
	w->until_ns = w->thread_wake_ns = w->now_ns + 1000 * MS;
}

/* Runs the progress thread until it sleeps. */
static void run_thread(struct world *w)
{
	struct ripc__progress_step done;

	w->runs++;
	if (w->thread == ON_SEM)
		w->sem = false;
	if (w->thread == ON_DESCRIPTORS) {
		step(w, ON(THREAD_WAKE), NULL);
		read_eventfd(w);
	}
	for (w->thread = AWAKE; w->thread == AWAKE && w->s.thread != OFF;) {
		if (w->s.thread == LEADING) {
			w->masked = false;
			step(w, ON(BLOCK), NULL);
			if (w->s.thread == BLOCKED)
				sleep_on_descriptors(w);
			continue;
		}
		done = step(w, ON(TICK), &zero);
		if (done.actions & TICK) {
			w->thread = ON_SEM;
			w->until_ns = w->now_ns + done.tick_ns;
		} else if (done.actions & QUIT) {
			step(w, ON(EXIT), NULL);
		} else if (done.actions & LEAD) {
			step(w, ON(LEAD), NULL);
		} else {
			step(w, ON(STAND_BY), NULL);
			if (w->s.thread == STANDBY)
				sleep_on_descriptors(w);
		}
	}
}

/* Lets time pass without the application thread. */
static void pass_time(struct world *w, uint64_t ns)
{
	uint64_t end = w->now_ns + ns;

	for (;;) {
		if (thread_runnable(w)) {
			run_thread(w);
		} else if (w->s.thread != OFF && w->until_ns <= end) {
			w->now_ns = w->until_ns;
		} else {
			w->now_ns = end;
			return;
		}
	}
}

static void leave(struct world *w, bool has_slept)
{
	if (has_slept && ripc__progress_may_resume(w->s, w->now_ns, w->resumed_ns,
						   w->thread_wake_ns, w->now_ns + 1500 * MS)) {
		w->masked = false;
		step(w, ON(RESUME), NULL);
	} else {
		step(w, ON(LEAVE), has_slept ? &slept : &zero);
	}
	if (has_slept)
		w->resumed_ns = w->now_ns;
}

static void wake_app(struct world *w)
{
	step(w, ON(WAKE), NULL);
	read_eventfd(w);
}

/* One move of application threads. */
static void app_move(struct world *w, uint64_t r)
{
	switch (w->s.leader) {
	case SPINNING:
		if (r % 3)
			step(w, r % 3 == 1 ? ON(SLEEP) : ON(REQUEST), &zero);
		else
			leave(w, r & 8);
		break;
	case ASLEEP:
		if (w->eventfd || r % 4 == 0)
			wake_app(w);
		else if (r % 4 == 1)
			step(w, ON(SPUN), NULL);
		else if (r % 4 == 2)
			step(w, r & 64 ? ON(NOTIFY) : ON(REQUEST), &zero);
		break;
	default:
		if (r % 4 == 1)
			step(w, w->s.leader == NONE ? ON(POLLED) : ON(NOTIFY), NULL);
		else if (r % 4 == 2)
			step(w, r & 64 ? ON(REQUEST_LAZY) : ON(REQUEST), &zero);
		else
			step(w, ON(TAKE), NULL);
	}
}

/* From any state on, no wake-up may be lost. w is a copy. */
static void check_no_wake_up_lost(struct world w)
{
	struct world stopped;

	if (w.s.leader == ASLEEP) {
		step(&w, ON(REQUEST), &zero);
		CHECK(w.eventfd);
		wake_app(&w);
	}
	if (w.s.leader == SPINNING)
		leave(&w, w.now_ns & 1);
	stopped = w;
	/* The progress thread takes over: at the latest after two of the longest ticks. */
	if (w.s.leader == NONE) {
		struct world requested = w;

		step(&requested, ON(REQUEST), &zero);
		pass_time(&requested, 3 * MS);
		CHECK(requested.s.leader == THREAD);
		pass_time(&w, 2 * (MS << RIPC__TICK_SHIFT) + MS);
	}
	CHECK(w.s.leader == THREAD);
	/* It does not sleep on when there is more to do, */
	pass_time(&w, 0);
	CHECK(w.s.thread == BLOCKED);
	step(&w, ON(REQUEST), &zero);
	CHECK(thread_runnable(&w));
	/* and not when the context is closed. */
	step(&stopped, ON(STOP), NULL);
	pass_time(&stopped, 0);
	CHECK(stopped.s.thread == OFF);
	CHECK(stopped.s.leader != THREAD);
}

START_TEST(world__no_wake_up_lost)
{
	struct world w = {.now_ns = 1000 * MS};
	uint64_t rng = test_seed();
	bool seen[4][8] = {{false}};

	step(&w, ON(START), NULL);
	for (unsigned i = 0; i < 300000; i++) {
		uint64_t r = test_random(&rng);

		app_move(&w, r >> 8);
		seen[w.s.leader][w.s.thread] = true;
		check_no_wake_up_lost(w);
		/* Often the progress thread gets no processor between two moves. */
		switch (r & 7) {
		case 0:
			pass_time(&w, (r >> 32) % (20 * MS));
			break;
		case 1:
		case 2:
			pass_time(&w, (r >> 32) % (2 * MS));
			break;
		case 3:
			w.now_ns += (r >> 32) % MS;
			break;
		}
		seen[w.s.leader][w.s.thread] = true;
	}
	for (unsigned thread = TICKING; thread <= WAKING; thread++)
		ck_assert_msg(seen[SPINNING][thread] || thread == LEADING || thread == BLOCKED,
			      "no spinning leader with thread %u", thread);
	CHECK(seen[ASLEEP][STANDBY] && seen[ASLEEP][LONG_TICK] && seen[NONE][WAKING] &&
	      seen[THREAD][BLOCKED]);
}
END_TEST

/* Nothing happens: the progress thread runs once a second, for the timers of this world. */
START_TEST(world__idle)
{
	struct world w = {.now_ns = 1000 * MS}, idle;

	step(&w, ON(START), NULL);
	pass_time(&w, 0);
	idle = w;
	pass_time(&idle, 100000 * MS);
	ck_assert_uint_le(idle.runs, w.runs + 100);
	ck_assert_int_eq(idle.s.thread, BLOCKED);
	/* An application thread sleeps: after some ticks it is the same. */
	step(&w, ON(TAKE), NULL);
	ck_assert_int_eq(w.s.thread, STANDBY);
	ck_assert(w.masked);
	leave(&w, false);
	pass_time(&w, 0);
	step(&w, ON(TAKE), NULL);
	step(&w, ON(SLEEP), NULL);
	ck_assert_int_eq(w.s.thread, TICKING);
	pass_time(&w, 30 * MS);
	ck_assert_int_eq(w.s.thread, STANDBY);
	w.runs = 0;
	pass_time(&w, 100000 * MS);
	ck_assert_uint_le(w.runs, 300);
	/* When it leaves, the progress thread leads without having been woken. */
	w.runs = 0;
	pass_time(&w, 2 * MS);
	wake_app(&w);
	leave(&w, true);
	ck_assert_int_eq(w.s.leader, THREAD);
	ck_assert_uint_eq(w.runs, 0);
	ck_assert(!w.eventfd && !w.masked);
}
END_TEST

/* Without a progress thread (hooks) an application thread may still lead. */
START_TEST(world__no_progress_thread)
{
	struct world w = {.now_ns = 1000 * MS};

	for (unsigned i = 0; i < 2; i++) {
		step(&w, ON(TAKE), NULL);
		step(&w, ON(REQUEST), &zero);
		step(&w, ON(SLEEP), NULL);
		step(&w, ON(NOTIFY), NULL);
		wake_app(&w);
		leave(&w, true);
		ck_assert_int_eq(w.s.thread, OFF);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/state_world");
	TCase *tc = tcase_create("state_world");

	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, world__no_wake_up_lost);
	tcase_add_test(tc, world__idle);
	tcase_add_test(tc, world__no_progress_thread);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/state_world", suite);
}
