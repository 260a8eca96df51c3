/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state machine of progress: which thread leads a context, and what its progress thread does.
 *
 * At most one thread leads: it polls the transports, or sleeps on the context's descriptors. An
 * application thread that waits leads before the progress thread does. Other waiting threads are
 * followers; each sleeps on a futex of its own. The progress thread leads while no application
 * thread is in the library.
 *
 * The leader (enum ripc__leader_state):
 *
 *                 TAKE                   SLEEP
 *          .---------------> SPINNING ----------> ASLEEP
 *          |   LEAVE         |   |  ^ <----------
 *          | .---------------'   |  |    WAKE
 *          | v            RESUME |  | TAKE
 *          NONE                  v  |
 *          | ^ BLOCK and         |  |
 *          | | THREAD_WAKE if    |  |
 *          | | stop is set       |  |
 *          | '---------------- THREAD
 *          '-----------------> (see below)
 *                 LEAD
 *
 * The progress thread (enum ripc__thread_state) sleeps on the semaphore (TICKING, LONG_TICK), on
 * the descriptors (BLOCKED), or on the descriptors with all events masked (STANDBY, until the
 * unmasking in WAKING). In STANDBY it becomes the leader without being woken, by RESUME.
 *
 *   leader: NONE, SPINNING or ASLEEP              leader: THREAD
 *
 *      TICKING <----- TICK ----.           LEAD              BLOCK
 *         ^                    v         .------> LEADING ----------> BLOCKED
 *         | REQUEST         RUNNING -----'          |     <----------  |  ^
 *         |                  ^ ^ |  <---------------'     THREAD_WAKE  |  |
 *      LONG_TICK <-- TICK ---' | |      TAKE, stop                     |  |
 *                              | | STAND_BY                       TAKE |  | RESUME
 *                              | v                                     |  |
 *          THREAD_WAKE (timer) | STANDBY <-----------------------------'  |
 *                              |  | '-------------------------------------'
 *                              |  | LEAVE, REQUEST, STOP
 *                  THREAD_WAKE |  v
 *                              '- WAKING
 *
 * Rules that hold in every state (ripc__progress_state_valid()):
 *   - leader THREAD if and only if the thread is LEADING or BLOCKED; then app_active is clear.
 *   - the events of the descriptors are masked for the progress thread while it is in STANDBY, and
 *     are not while it is BLOCKED or WAKING. The caller of BLOCK and RESUME has seen to that; the
 *     other events ask for it by an action.
 *   - `kicked` is set from the write to the eventfd until a thread has read it.
 *
 * Writers. All of the state is one 32-bit word, changed by compare-and-swap only. Application
 * threads change it with the context's lock held. The progress thread changes it with the lock
 * held, but for TICK and EXIT: a tick takes no lock, since a spinning leader would wait for it a
 * thousand times a second. Thus a holder of the lock may see these change: the thread's state among
 * RUNNING, TICKING, LONG_TICK and OFF; app_active, app_spun and poll_requested from set to clear;
 * sleeps, idle_ticks and ticks.
 *
 * Transitions ("-": no change; (x): only if x). An event in a state without an entry is a fault of
 * the caller, which ripc__progress_next() asserts.
 *
 *   event           leader                  thread                         actions
 *   START           -                       OFF > RUNNING
 *   TAKE            NONE, THREAD > SPINNING LEADING > RUNNING
 *                                           BLOCKED > STANDBY              DISARM
 *   DISARM_FAILED   -                       STANDBY > WAKING               KICK
 *   SLEEP           SPINNING > ASLEEP       -
 *   WAKE            ASLEEP > SPINNING       -
 *   LEAVE           SPINNING, NONE > NONE   (followers) -                  FOLLOWER
 *                   sets app_active         (else) STANDBY, WAKING >
 *                                           WAKING                         ARM, KICK
 *   RESUME          SPINNING > THREAD       STANDBY > BLOCKED
 *                   clears app_active
 *   POLLED          (not THREAD) -          -      sets app_active
 *   SPUN            -                       -      sets app_spun
 *   PASS_LEAD       (NONE, not stop) -      TICKING, LONG_TICK > TICKING   POST
 *                   clears app_active, app_spun    STANDBY, WAKING > WAKING   ARM, KICK
 *   REQUEST         -                       LONG_TICK > TICKING            POST
 *                   sets poll_requested     (leader NONE, not in a pass)
 *                                           STANDBY, WAKING > WAKING       ARM, KICK
 *                   (leader ASLEEP or BLOCKED, not in a pass)              KICK
 *   REQUEST_LAZY    as REQUEST; leader NONE and not in a pass: sets app_active
 *   NOTIFY          (ASLEEP or BLOCKED) -   -                              KICK
 *   KICK_READ       -                       -      clears kicked, then as NOTIFY
 *   STOP            -                       STANDBY > WAKING               POST, ARM, KICK
 *   TICK            -                       RUNNING, TICKING, LONG_TICK >
 *                   (stop) RUNNING, QUIT; (leader NONE, app_active clear) RUNNING, LEAD;
 *                   (the leader slept through IDLE_TICKS ticks) RUNNING, STAND_BY;
 *                   (else) TICKING or LONG_TICK, TICK with tick_ns; clears the flags
 *   LEAD            NONE > THREAD           RUNNING > LEADING
 *                   (app_active, stop or another leader) -
 *   BLOCK           THREAD -                LEADING > BLOCKED
 *                   (stop) THREAD > NONE    LEADING > RUNNING
 *   STAND_BY        ASLEEP -                RUNNING > STANDBY              DISARM
 *                   (stop or the leader is not ASLEEP) -
 *   THREAD_WAKE     -                       BLOCKED > LEADING
 *                   (stop) THREAD > NONE    BLOCKED > RUNNING
 *                                           STANDBY, WAKING > RUNNING
 *   EXIT            -                       RUNNING > OFF
 */
#ifndef RIPC_CORE_PROGRESS_STATE_H
#define RIPC_CORE_PROGRESS_STATE_H

#include <stdbool.h>
#include <stdint.h>

#define RIPC__TICK_NS UINT64_C(1000000) /* the shortest tick of the progress thread */
/* Followed by longer ones, at most RIPC__TICK_NS << this: with wait=poll, and else. */
#define RIPC__TICK_SHIFT_POLL 5
#define RIPC__TICK_SHIFT      2
/*
 * The shortest tick with wait=poll: an application thread polls without a pause, and each tick
 * takes its processor away for longer than a message takes.
 */
#define RIPC__TICK_SHIFT_POLL_MIN 2
#define RIPC__TICKS_PER_STEP      8  /* ticks of one length before the length doubles */
#define RIPC__IDLE_TICKS          10 /* after so many ticks in one sleep of the leader: STANDBY */
#define RIPC__RESUME_PERIOD_NS    UINT64_C(1000000) /* at most one RESUME in this time */

enum ripc__leader_state {
	RIPC__LEADER_NONE,
	RIPC__LEADER_SPINNING, /* an application thread polls */
	RIPC__LEADER_ASLEEP,   /* an application thread sleeps on the descriptors */
	RIPC__LEADER_THREAD,   /* the progress thread */
};

enum ripc__thread_state {
	RIPC__THREAD_OFF,       /* not started, or ended */
	RIPC__THREAD_RUNNING,   /* awake and not the leader */
	RIPC__THREAD_TICKING,   /* on the semaphore for the shortest tick */
	RIPC__THREAD_LONG_TICK, /* on the semaphore for longer: REQUEST ends it */
	RIPC__THREAD_LEADING,   /* the leader, in a pass */
	RIPC__THREAD_BLOCKED,   /* the leader, on the descriptors */
	RIPC__THREAD_STANDBY,   /* on the descriptors, which are masked: woken by its timer alone */
	RIPC__THREAD_WAKING,    /* was in STANDBY or BLOCKED; unmasked and kicked */
};

enum ripc__progress_event {
	/* Of application threads, with the lock held. */
	RIPC__PROGRESS_START,         /* before the progress thread is created */
	RIPC__PROGRESS_TAKE,          /* the caller becomes the leader */
	RIPC__PROGRESS_DISARM_FAILED, /* of the action of TAKE or STAND_BY */
	RIPC__PROGRESS_SLEEP,         /* the caller, who leads, is about to sleep */
	RIPC__PROGRESS_WAKE,          /* and has woken */
	RIPC__PROGRESS_LEAVE,         /* the caller leads no more, or found that nobody does */
	RIPC__PROGRESS_RESUME,        /* the same, see ripc__progress_may_resume() */
	RIPC__PROGRESS_POLLED,        /* the caller polled without becoming the leader */
	RIPC__PROGRESS_SPUN,          /* the caller comes and goes without sleeping */
	RIPC__PROGRESS_PASS_LEAD,     /* the caller is about to sleep on a descriptor of its own */
	RIPC__PROGRESS_REQUEST,       /* a pass is due soon */
	RIPC__PROGRESS_REQUEST_LAZY,  /* a pass is due within a tick */
	RIPC__PROGRESS_NOTIFY,        /* the leader must not sleep on */
	RIPC__PROGRESS_KICK_READ,     /* the caller woke and read the eventfd */
	RIPC__PROGRESS_STOP,
	/* Of the progress thread. Without the lock: */
	RIPC__PROGRESS_TICK,
	RIPC__PROGRESS_EXIT,
	/* With the lock: */
	RIPC__PROGRESS_LEAD,
	RIPC__PROGRESS_BLOCK,
	RIPC__PROGRESS_STAND_BY,
	RIPC__PROGRESS_THREAD_WAKE,
	RIPC__PROGRESS_EVENTS
};

enum ripc__progress_action {
	RIPC__DO_KICK = 1 << 0,   /* write to the eventfd */
	RIPC__DO_ARM = 1 << 1,    /* unmask the descriptors for the progress thread; before KICK */
	RIPC__DO_DISARM = 1 << 2, /* mask them; on failure: DISARM_FAILED */
	RIPC__DO_POST = 1 << 3,   /* post the semaphore of the ticks */
	RIPC__DO_FOLLOWER = 1 << 4, /* wake the first follower */
	/* The next thing for the progress thread to do, after TICK: */
	RIPC__DO_TICK = 1 << 5,     /* sleep on the semaphore for tick_ns */
	RIPC__DO_LEAD = 1 << 6,     /* take the lock, then LEAD */
	RIPC__DO_STAND_BY = 1 << 7, /* take the lock, then STAND_BY */
	RIPC__DO_QUIT = 1 << 8,     /* EXIT */
};

/* All zero: no leader, no progress thread. */
struct ripc__progress_state {
	uint32_t leader : 2; /* enum ripc__leader_state */
	uint32_t thread : 3; /* enum ripc__thread_state */
	uint32_t stop : 1;   /* the context is being closed */
	uint32_t kicked : 1; /* the eventfd is readable */
	/* Since the last TICK: */
	uint32_t app_active : 1;     /* an application thread led, or polled without leading */
	uint32_t app_spun : 1;       /* one left without having slept */
	uint32_t poll_requested : 1; /* a pass is due soon: ticks stay short */
	uint32_t sleeps : 2;         /* sleeps that leaders began, 3: or more */
	/* Of the progress thread: */
	uint32_t idle_ticks : 4; /* TICKs in a row that found the leader ASLEEP all the time */
	uint32_t ticks : 6;      /* since it led last, at most 63 */
	uint32_t unused : 10;    /* 0 */
};

struct ripc__progress_input {
	bool followers;     /* LEAVE: threads wait and none of them leads */
	bool slept;         /* LEAVE: the leader slept before it left */
	bool in_pass;       /* REQUEST, REQUEST_LAZY: the caller is in a pass */
	bool long_inflight; /* TICK: long messages are under way */
	bool wait_poll;     /* TICK: the option wait=poll */
};

struct ripc__progress_step {
	struct ripc__progress_state next;
	unsigned actions; /* enum ripc__progress_action */
	uint64_t tick_ns; /* with RIPC__DO_TICK */
};

/* The transition for event in state s. Pure. in: NULL where the event uses none of it. */
struct ripc__progress_step ripc__progress_next(struct ripc__progress_state s,
					       enum ripc__progress_event event,
					       const struct ripc__progress_input *in);

/* Whether s keeps the rules above. */
bool ripc__progress_state_valid(struct ripc__progress_state s);

/*
 * Whether a leader that has polled may leave by RESUME: the progress thread leads again without
 * being woken. Not if the thread would sleep past next_timer_ns; wake_ns is its own timer. Not
 * twice within RIPC__RESUME_PERIOD_NS after last_ns: arming and disarming cost more than a tick.
 */
static inline bool ripc__progress_may_resume(struct ripc__progress_state s, uint64_t now_ns,
					     uint64_t last_ns, uint64_t wake_ns,
					     uint64_t next_timer_ns)
{
	return s.thread == RIPC__THREAD_STANDBY && !s.stop &&
	       now_ns - last_ns >= RIPC__RESUME_PERIOD_NS && next_timer_ns >= wake_ns;
}

static inline bool ripc__progress_leader_asleep(struct ripc__progress_state s)
{
	return s.leader == RIPC__LEADER_ASLEEP || s.thread == RIPC__THREAD_BLOCKED;
}

/*
 * Whether timers that are due in that many nanoseconds run in time without a request: a tick ends
 * before, and then the progress thread leads, or an application thread polls.
 */
static inline bool ripc__progress_ticks_within(struct ripc__progress_state s, uint64_t ns)
{
	return s.leader != RIPC__LEADER_ASLEEP && ns >= RIPC__TICK_NS << RIPC__TICK_SHIFT_POLL &&
	       (s.thread == RIPC__THREAD_TICKING || s.thread == RIPC__THREAD_LONG_TICK);
}

/*
 * Whether a request was made and nobody has to be woken for it: REQUEST, and REQUEST_LAZY while
 * app_active is set, change nothing and have no action. False is always right.
 */
static inline bool ripc__progress_is_requested(struct ripc__progress_state s)
{
	return s.poll_requested && s.leader <= RIPC__LEADER_SPINNING &&
	       (s.thread == RIPC__THREAD_RUNNING || s.thread == RIPC__THREAD_TICKING);
}

#endif
