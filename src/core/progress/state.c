/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/progress/state.h"

#include <assert.h>

#define SLEEPS_MAX     3  /* what the field holds */
#define TICKS_MAX      63 /* likewise */
#define REQUEST_TICKS  3  /* short ticks after a request; the request may be older than its cause */
#define STANDBY_SLEEPS 2  /* a leader may wake so often in one tick and still count as idle */

static bool on_masked_descriptors(struct ripc__progress_state s)
{
	return s.thread == RIPC__THREAD_STANDBY || s.thread == RIPC__THREAD_WAKING;
}

bool ripc__progress_state_valid(struct ripc__progress_state s)
{
	bool leads = s.thread == RIPC__THREAD_LEADING || s.thread == RIPC__THREAD_BLOCKED;

	return leads == (s.leader == RIPC__LEADER_THREAD) && !(leads && s.app_active) && !s.unused;
}

static unsigned kick(struct ripc__progress_state *s)
{
	unsigned actions = s->kicked ? 0 : RIPC__DO_KICK;

	s->kicked = true;
	return actions;
}

static unsigned kick_leader(struct ripc__progress_state *s)
{
	return ripc__progress_leader_asleep(*s) ? kick(s) : 0;
}

/* The progress thread sleeps where no event wakes it, until the timers of an earlier time. */
static unsigned kick_thread(struct ripc__progress_state *s)
{
	unsigned actions;

	if (!on_masked_descriptors(*s))
		return 0;
	actions = s->thread == RIPC__THREAD_STANDBY ? RIPC__DO_ARM : 0;
	s->thread = RIPC__THREAD_WAKING;
	return actions | kick(s);
}

/* ---- events of application threads ---- */

static unsigned take(struct ripc__progress_state *s)
{
	assert(s->leader == RIPC__LEADER_NONE || s->leader == RIPC__LEADER_THREAD);
	s->leader = RIPC__LEADER_SPINNING;
	if (s->thread == RIPC__THREAD_LEADING) {
		s->thread = RIPC__THREAD_RUNNING;
	} else if (s->thread == RIPC__THREAD_BLOCKED) {
		s->thread = RIPC__THREAD_STANDBY;
		return RIPC__DO_DISARM;
	}
	return 0;
}

static unsigned leave(struct ripc__progress_state *s, const struct ripc__progress_input *in)
{
	assert(s->leader == RIPC__LEADER_SPINNING || s->leader == RIPC__LEADER_NONE);
	s->leader = RIPC__LEADER_NONE;
	s->app_active = true;
	if (!in->slept)
		s->app_spun = true;
	return in->followers ? RIPC__DO_FOLLOWER : kick_thread(s);
}

static void resume(struct ripc__progress_state *s)
{
	assert(s->leader == RIPC__LEADER_SPINNING && s->thread == RIPC__THREAD_STANDBY && !s->stop);
	s->leader = RIPC__LEADER_THREAD;
	s->thread = RIPC__THREAD_BLOCKED;
	s->app_active = false;
}

static unsigned request(struct ripc__progress_state *s, const struct ripc__progress_input *in,
			bool lazy)
{
	unsigned actions = 0;

	/* Without a progress thread somebody else calls for passes. */
	if (s->thread == RIPC__THREAD_OFF)
		return 0;
	s->poll_requested = true;
	if (s->thread == RIPC__THREAD_LONG_TICK) {
		s->thread = RIPC__THREAD_TICKING;
		actions = RIPC__DO_POST;
	}
	/* The end of the pass repeats the request if it still holds. */
	if (in->in_pass)
		return actions;
	if (s->leader != RIPC__LEADER_NONE)
		return actions | kick_leader(s);
	if (lazy)
		s->app_active = true;
	return actions | kick_thread(s);
}

static unsigned pass_leadership(struct ripc__progress_state *s)
{
	if (s->leader != RIPC__LEADER_NONE || s->stop)
		return 0;
	s->app_active = s->app_spun = false;
	if (s->thread != RIPC__THREAD_TICKING && s->thread != RIPC__THREAD_LONG_TICK)
		return kick_thread(s);
	s->thread = RIPC__THREAD_TICKING;
	return RIPC__DO_POST;
}

/* ---- events of the progress thread ---- */

static unsigned tick(struct ripc__progress_state *s, const struct ripc__progress_input *in,
		     uint64_t *tick_ns)
{
	unsigned shift_max = in->wait_poll ? RIPC__TICK_SHIFT_POLL : RIPC__TICK_SHIFT;
	unsigned shift_min = in->wait_poll ? RIPC__TICK_SHIFT_POLL_MIN : 0, shift = shift_min;

	assert(s->thread == RIPC__THREAD_RUNNING || s->thread == RIPC__THREAD_TICKING ||
	       s->thread == RIPC__THREAD_LONG_TICK);
	s->thread = RIPC__THREAD_RUNNING;
	if (s->stop)
		return RIPC__DO_QUIT;
	if (s->leader == RIPC__LEADER_NONE && !s->app_active)
		return RIPC__DO_LEAD;
	/* A leader that sleeps and leaves in turn would have to wake this thread each time. */
	if (s->sleeps > (s->idle_ticks < RIPC__IDLE_TICKS - 1 ? 0 : STANDBY_SLEEPS))
		s->idle_ticks = 0;
	s->idle_ticks = s->leader == RIPC__LEADER_ASLEEP && !s->app_spun ? s->idle_ticks + 1 : 0;
	s->sleeps = 0;
	s->app_spun = s->app_active = false;
	if (s->idle_ticks > RIPC__IDLE_TICKS)
		return RIPC__DO_STAND_BY;
	if (s->poll_requested && s->ticks > RIPC__TICKS_PER_STEP - REQUEST_TICKS)
		s->ticks = RIPC__TICKS_PER_STEP - REQUEST_TICKS;
	s->poll_requested = false;
	/* The longer a thread leads, the longer it will: each tick may take its processor away. */
	if (!in->long_inflight) {
		if (s->ticks < TICKS_MAX)
			s->ticks++;
		if (s->ticks / RIPC__TICKS_PER_STEP > shift)
			shift = s->ticks / RIPC__TICKS_PER_STEP;
	}
	s->thread = shift > shift_min ? RIPC__THREAD_LONG_TICK : RIPC__THREAD_TICKING;
	*tick_ns = RIPC__TICK_NS << (shift < shift_max ? shift : shift_max);
	return RIPC__DO_TICK;
}

/* After STANDBY: if the leader sleeps on, one tick leads there again. */
static void count_idle(struct ripc__progress_state *s)
{
	s->idle_ticks = s->app_active ? 0 : RIPC__IDLE_TICKS - 1;
}

static void lead(struct ripc__progress_state *s)
{
	assert(s->thread == RIPC__THREAD_RUNNING);
	if (s->leader != RIPC__LEADER_NONE || s->app_active || s->stop)
		return;
	s->leader = RIPC__LEADER_THREAD;
	s->thread = RIPC__THREAD_LEADING;
	s->idle_ticks = s->ticks = 0;
}

static unsigned stand_by(struct ripc__progress_state *s)
{
	assert(s->thread == RIPC__THREAD_RUNNING);
	if (s->leader == RIPC__LEADER_ASLEEP && !s->stop) {
		s->thread = RIPC__THREAD_STANDBY;
		return RIPC__DO_DISARM;
	}
	count_idle(s);
	return 0;
}

static void thread_wake(struct ripc__progress_state *s)
{
	assert(s->thread == RIPC__THREAD_BLOCKED || on_masked_descriptors(*s));
	if (s->thread == RIPC__THREAD_BLOCKED && !s->stop) {
		s->thread = RIPC__THREAD_LEADING;
		s->idle_ticks = s->ticks = 0;
		return;
	}
	if (s->leader == RIPC__LEADER_THREAD)
		s->leader = RIPC__LEADER_NONE;
	s->thread = RIPC__THREAD_RUNNING;
	count_idle(s);
}

static unsigned transition(struct ripc__progress_state *s, enum ripc__progress_event event,
			   const struct ripc__progress_input *in, uint64_t *tick_ns)
{
	switch (event) {
	case RIPC__PROGRESS_START:
		assert(s->thread == RIPC__THREAD_OFF);
		s->thread = RIPC__THREAD_RUNNING;
		return 0;
	case RIPC__PROGRESS_TAKE:
		return take(s);
	case RIPC__PROGRESS_DISARM_FAILED:
		assert(s->thread == RIPC__THREAD_STANDBY);
		s->thread = RIPC__THREAD_WAKING;
		return kick(s);
	case RIPC__PROGRESS_SLEEP:
		assert(s->leader == RIPC__LEADER_SPINNING);
		s->leader = RIPC__LEADER_ASLEEP;
		if (s->sleeps < SLEEPS_MAX)
			s->sleeps++;
		return 0;
	case RIPC__PROGRESS_WAKE:
		assert(s->leader == RIPC__LEADER_ASLEEP);
		s->leader = RIPC__LEADER_SPINNING;
		return 0;
	case RIPC__PROGRESS_LEAVE:
		return leave(s, in);
	case RIPC__PROGRESS_RESUME:
		resume(s);
		return 0;
	case RIPC__PROGRESS_POLLED:
		if (s->leader != RIPC__LEADER_THREAD)
			s->app_active = true;
		return 0;
	case RIPC__PROGRESS_SPUN:
		s->app_spun = true;
		return 0;
	case RIPC__PROGRESS_PASS_LEAD:
		return pass_leadership(s);
	case RIPC__PROGRESS_REQUEST:
	case RIPC__PROGRESS_REQUEST_LAZY:
		return request(s, in, event == RIPC__PROGRESS_REQUEST_LAZY);
	case RIPC__PROGRESS_KICK_READ:
		s->kicked = false;
		/* The kick may have been meant for the present leader. */
		return kick_leader(s);
	case RIPC__PROGRESS_NOTIFY:
		return kick_leader(s);
	case RIPC__PROGRESS_STOP:
		s->stop = true;
		return RIPC__DO_POST | kick_thread(s) | kick_leader(s);
	case RIPC__PROGRESS_TICK:
		return tick(s, in, tick_ns);
	case RIPC__PROGRESS_EXIT:
		assert(s->thread == RIPC__THREAD_RUNNING);
		s->thread = RIPC__THREAD_OFF;
		return 0;
	case RIPC__PROGRESS_LEAD:
		lead(s);
		return 0;
	case RIPC__PROGRESS_BLOCK:
		assert(s->thread == RIPC__THREAD_LEADING);
		if (s->stop)
			s->leader = RIPC__LEADER_NONE;
		s->thread = s->stop ? RIPC__THREAD_RUNNING : RIPC__THREAD_BLOCKED;
		return 0;
	case RIPC__PROGRESS_STAND_BY:
		return stand_by(s);
	case RIPC__PROGRESS_THREAD_WAKE:
		thread_wake(s);
		return 0;
	case RIPC__PROGRESS_EVENTS:
		break;
	}
	assert(!"an event");
	return 0;
}

struct ripc__progress_step ripc__progress_next(struct ripc__progress_state s,
					       enum ripc__progress_event event,
					       const struct ripc__progress_input *in)
{
	struct ripc__progress_step step = {.next = s};

	step.actions = transition(&step.next, event, in, &step.tick_ns);
	assert(ripc__progress_state_valid(step.next));
	return step;
}
