/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ripc_receive(): first takes what is queued or polls for a short time without becoming the leader,
 * since most answers come that soon; then waits. A message that arrives while its service polls
 * goes to the caller directly, any other event through ripc__dispatch_event().
 */
#include "core/message/receive.h"
#include "core/call/call.h"
#include "core/memory/message.h"
#include "core/message/fast_receive.h"
#include "core/peer/lane.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/peer/peer.h"
#include "core/rendezvous/arriving.h"

#define POLLS_MAX          16 /* partial passes before a thread leads */
#define FULL_PASS_INTERVAL 32 /* one poll of so many is a full pass, if it finds nothing */
#define LATE_PASS_INTERVAL 64 /* else one of so many */
/* wait=poll: time that a thread polls before it leads */
#define POLL_TIME_NS RIPC__MS
/* Calls with a shorter timeout lead at once: POLL_TIME_NS and a full pass would make them late. */
#define POLL_TIMEOUT_MIN_MS 10
/*
 * timeout 0: one call of so many in a row that find nothing makes a pass, and so does the first
 * one after a tick of the progress thread
 */
#define NOWAIT_PASS_INTERVAL 16

/* Whether a thread that does not lead may poll. */
static inline bool may_poll(const struct ripc *ctx, struct ripc__progress_state now)
{
	return !ctx->closing && !ctx->hooks.now && ctx->pass == RIPC__PASS_NONE &&
	       now.leader == RIPC__LEADER_NONE;
}

/* Whether a short message for s may bypass its queue. */
static inline bool may_bypass_queue(const struct ripc_service *s)
{
	/* Long messages that wait for room in the queue come first. */
	return ripc__service_open(s) && !s->first && ripc__list_empty(&s->rndvs_in);
}

/* Whether a thread that does not lead may receive a short message for s. */
static inline bool may_receive(const struct ripc *ctx, const struct ripc_service *s,
			       struct ripc__progress_state now)
{
	return may_bypass_queue(s) && may_poll(ctx, now);
}

/* receive_event() for events other than the next short message of a sender. */
static struct ripc__message *__attribute__((noinline))
receive_other(struct ripc *ctx, struct ripc_service *s, unsigned tp, struct ripc__message *m,
	      const struct ripc__event *ev)
{
	if (ev->kind == RIPC__EV_DATAGRAM &&
	    ripc__fast_receive(ctx, s, tp, m, ev) == RIPC__FAST_MESSAGE) {
		ripc__message_hand_out(ctx, m);
		return m;
	}
	/* The event may be in the buffer of m: no other message has it until it is dispatched. */
	ripc__message_room_take(ctx, m);
	ripc__dispatch_event(ctx, tp, ev);
	ripc__message_release(m);
	return NULL;
}

/* Handles an event that poll_one() has brought. Return: a message for s, or NULL. */
static __always_inline struct ripc__message *receive_event(struct ripc *ctx, struct ripc_service *s,
							   unsigned tp, struct ripc__message *m,
							   const struct ripc__event *ev)
{
	enum ripc__fast fast = RIPC__FAST_NOTHING;

	if (RIPC__LIKELY(ev->kind == RIPC__EV_RECV))
		fast = ripc__receive_next(ctx, s, tp, m, ev);
	if (RIPC__UNLIKELY(fast == RIPC__FAST_NOTHING))
		return receive_other(ctx, s, tp, m, ev);
	if (RIPC__UNLIKELY(fast == RIPC__FAST_DONE))
		return NULL;
	if (RIPC__LIKELY(!m->token))
		ripc__message_hand_out_small(ctx, m);
	else
		ripc__list_add(&ctx->messages, &m->held);
	return m;
}

/*
 * Polls the endpoints that were active last, for a message for s; NULL: for anything. Return: a
 * message for s, or NULL; *had_event: there was an event.
 */
static __always_inline struct ripc__message *poll_recent(struct ripc *ctx, struct ripc_service *s,
							 bool *had_event)
{
	struct ripc__message *m = ripc__message_room(ctx);
	struct ripc__event ev;

	if (RIPC__UNLIKELY(!m))
		return NULL;
	for (unsigned active_tps = ctx->active_tps; active_tps; active_tps &= active_tps - 1) {
		unsigned tp = (unsigned)__builtin_ctz(active_tps);
		const struct ripc__tp *t = &ctx->tp[tp];

		if (t->ops->poll_one &&
		    t->ops->poll_one(t->t, ripc__message_buf(m), RIPC__MESSAGE_BUF_LEN, &ev)) {
			*had_event = true;
			ctx->poll_budget = t->poll_budget;
			return receive_event(ctx, s, tp, m, &ev);
		}
	}
	return NULL;
}

/* poll_recent() until an event, within the budget; once where a full pass is due. */
static __always_inline struct ripc__message *poll_within_budget(struct ripc *ctx,
								struct ripc_service *s,
								bool *had_event)
{
	for (unsigned i = ctx->poll_count % FULL_PASS_INTERVAL ? ctx->poll_budget : 1;
	     i && !*had_event && !ripc__lock_contended(ctx); i--) {
		struct ripc__message *m = poll_recent(ctx, s, had_event);

		if (RIPC__LIKELY(m != NULL))
			return m;
		/* After each tick: else the progress thread takes the lead of one that polls. */
		if (RIPC__UNLIKELY(!ripc__progress_state(&ctx->progress).app_active))
			ripc__progress_polled(ctx);
	}
	return NULL;
}

static void __attribute__((noinline)) full_pass(struct ripc *ctx)
{
	ctx->now_ns = ripc__now(ctx);
	ripc__full_pass(ctx);
}

/*
 * A poll brought an event. A full pass that is due waits for a poll that brings none: the thread
 * then has time, and no event leaves the fast path.
 */
static __always_inline void count_event(struct ripc *ctx)
{
	if (RIPC__UNLIKELY(ctx->poll_count++ % LATE_PASS_INTERVAL == 0))
		full_pass(ctx);
}

/*
 * One poll by a thread that does not lead: a partial pass without reading the clock, and every
 * FULL_PASS_INTERVAL polls a full one. With wait=block it is the last poll before the thread
 * sleeps, and always a full pass.
 */
static void poll_transports(struct ripc *ctx)
{
	if (ctx->poll_count++ % FULL_PASS_INTERVAL && ctx->opt.wait != RIPC__WAIT_BLOCK) {
		ripc__now_stale_begin(ctx);
		ripc__partial_pass(ctx);
		ripc__now_stale_end(ctx);
	} else {
		full_pass(ctx);
	}
}

/*
 * Whether a thread polls on after that many polls without a message. A leader polls the last active
 * endpoint less often, and its messages take the slow path. So with wait=poll the thread polls for
 * POLL_TIME_NS, longer than a round trip, before it leads. *polling_since_ns: the first reading of
 * the clock; 0 at first.
 */
static bool keep_polling(struct ripc *ctx, unsigned polls, int timeout_ms,
			 uint64_t *polling_since_ns)
{
	if (ctx->opt.wait == RIPC__WAIT_BLOCK || ripc__lock_contended(ctx))
		return false;
	if (polls < POLLS_MAX)
		return true;
	if (ctx->opt.wait != RIPC__WAIT_POLL ||
	    (timeout_ms > 0 && timeout_ms < POLL_TIMEOUT_MIN_MS))
		return false;
	/* Only a full pass reads the clock. */
	if (ctx->poll_count % FULL_PASS_INTERVAL != 1)
		return true;
	if (!*polling_since_ns)
		*polling_since_ns = ctx->now_ns;
	ripc__progress_polled(ctx);
	return ctx->now_ns - *polling_since_ns < POLL_TIME_NS;
}

/* Before the first poll of a waiting call. */
static void begin_polling(struct ripc *ctx)
{
	if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
		ripc__delayed_ack_idle(ctx);
	/*
	 * The progress thread takes over when no application thread has polled for a tick. After a
	 * longer pause this thread therefore counts as active again, and its next poll is a full
	 * pass, which reads the clock.
	 */
	if (!ripc__progress_state(&ctx->progress).app_active) {
		ripc__progress_polled(ctx);
		ctx->poll_count = 0;
	}
}

/*
 * A poll may be a system call: threads that are about to sleep poll less. passed: poll_transports()
 * was the last step.
 */
static void end_polling(struct ripc *ctx, bool passed)
{
	if (ctx->opt.wait != RIPC__WAIT_POLL)
		ctx->poll_budget /= 2;
	ctx->polled = passed && ctx->opt.wait == RIPC__WAIT_BLOCK;
	/* A thread that goes on waiting reads the clock first. */
	ripc__now_passes(ctx);
}

/*
 * Polls without leading while the queue of s is empty; s may have ended. Holds the lock throughout.
 * Return: a message for s, which is in no queue and whose credit was returned; NULL: there is none,
 * or the queue is no longer empty.
 */
static struct ripc__message *poll_receive(struct ripc *ctx, struct ripc_service *s, int timeout_ms)
{
	uint64_t polling_since_ns = 0;
	unsigned polls = 0;

	if (!may_receive(ctx, s, ripc__progress_state(&ctx->progress)))
		return NULL;
	begin_polling(ctx);
	do {
		bool had_event = false;
		struct ripc__message *m = poll_within_budget(ctx, s, &had_event);

		if (RIPC__LIKELY(m != NULL)) {
			count_event(ctx);
			return m;
		}
		if (!s->first)
			poll_transports(ctx);
		if (s->first) {
			/*
			 * The message came from another endpoint, or after the poll of the active
			 * ones.
			 */
			if (!had_event)
				ctx->poll_budget = ctx->poll_budget / 2 + 1;
			return NULL;
		}
		/* The message was for another service, whose receiver waits for this thread. */
		if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
			ripc__delayed_ack_idle(ctx);
	} while (keep_polling(ctx, ++polls, timeout_ms, &polling_since_ns) &&
		 may_receive(ctx, s, ripc__progress_state(&ctx->progress)));
	end_polling(ctx, true);
	return NULL;
}

bool ripc__poll_answer(struct ripc *ctx, void *unused)
{
	bool had_event;

	(void)unused;
	poll_recent(ctx, NULL, &had_event);
	return false;
}

void ripc__poll_request(struct ripc *ctx, const struct ripc_request *r, int timeout_ms)
{
	uint64_t polling_since_ns = 0;
	unsigned polls = 0;
	bool had_event;

	if (!may_poll(ctx, ripc__progress_state(&ctx->progress)))
		return;
	begin_polling(ctx);
	do {
		had_event = false;
		poll_within_budget(ctx, NULL, &had_event);
		if (had_event)
			count_event(ctx);
		else
			poll_transports(ctx);
		if (r ? r->state == RIPC__REQUEST_DONE : !ripc__list_empty(&ctx->completions)) {
			if (!had_event)
				ctx->poll_budget = ctx->poll_budget / 2 + 1;
			return;
		}
		if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
			ripc__delayed_ack_idle(ctx);
	} while (keep_polling(ctx, ++polls, timeout_ms, &polling_since_ns) &&
		 may_poll(ctx, ripc__progress_state(&ctx->progress)));
	end_polling(ctx, !had_event);
}

bool ripc__poll_request_once(struct ripc *ctx)
{
	struct ripc__progress_state now = ripc__progress_state(&ctx->progress);
	bool had_event = false;

	if (!now.app_active || !may_poll(ctx, now))
		return false;
	poll_recent(ctx, NULL, &had_event);
	if (had_event) {
		count_event(ctx);
		return false;
	}
	for (unsigned active_tps = ctx->active_tps; active_tps; active_tps &= active_tps - 1)
		if (!ctx->tp[__builtin_ctz(active_tps)].ops->poll_one)
			return false;
	return true;
}

/* Gives the application the next message of the queue that it may have; NULL: none. */
static struct ripc__message *take_queued(struct ripc_service *s)
{
	struct ripc__message *m;

	do
		m = ripc__service_pop(s);
	while (m && RIPC__UNLIKELY(m->call_role != RIPC__CALL_NONE) && !ripc__request_taken(m));
	if (!m)
		return NULL;
	ripc__message_return_credit(m);
	ripc__message_hand_out(s->ctx, m);
	if (m->pub.is_long || !ripc__list_empty(&s->rndvs_in))
		ripc__rndv_resume(s);
	return m;
}

/* A thread that waits for a message of s. */
struct receiver {
	struct ripc_service *s;
	struct ripc__message *m; /* handed out; or NULL */
};

/* A message woke the leader. Most often it is the next short one for s. */
static bool poll_awake(struct ripc *ctx, void *arg)
{
	struct receiver *r = arg;
	bool had_event;

	if (may_bypass_queue(r->s))
		r->m = poll_recent(ctx, r->s, &had_event);
	return r->m;
}

/*
 * The queue is empty: polls the network, and waits for a message. Return: 0, or the error of
 * ripc_receive().
 */
static int __attribute__((noinline)) receive_waiting(struct receiver *r, int timeout_ms)
{
	struct ripc_service *s = r->s;
	struct ripc *ctx = s->ctx;
	uint64_t deadline = 0;
	bool polled = false;

	do {
		if (!ripc__service_open(s) || ctx->closing)
			return ripc__fail(-ESHUTDOWN, "%s is being closed",
					  ripc__service_text(ctx, s->id));
		if (ripc__service_over(s))
			return ripc__fail(-ESHUTDOWN, "%s was taken over: %s",
					  ripc__service_text(ctx, s->id),
					  s->conflict ? s->conflict : "");
		if (!timeout_ms) {
			if (polled) {
				ripc__poll_pass_leadership(ctx, &s->ready);
				return ripc__fail_text(-EAGAIN, "the service has no message");
			}
			ripc__delayed_ack_idle(ctx);
			ripc__poll_before_sleep(ctx, &s->ready);
			polled = true;
			continue;
		}
		if (!deadline)
			deadline = ripc__deadline(ctx, timeout_ms);
		if (ripc__wait_polling(ctx, &s->receivers, deadline, poll_awake, r) && !s->first)
			return ripc__fail(-ETIMEDOUT, "no message for %s in %d ms",
					  ripc__service_text(ctx, s->id), timeout_ms);
	} while (!r->m && !(r->m = take_queued(s)));
	return 0;
}

/* Waits for the next message. *m: it, or NULL. Return: as ripc_receive(). Lock held. */
static int receive_queued(struct ripc_service *s, struct ripc__message **m, int timeout_ms)
{
	struct receiver r = {.s = s};
	int rc = ripc__service_enter(s);

	if (rc)
		return rc;
	r.m = take_queued(s);
	if (RIPC__UNLIKELY(!r.m))
		rc = receive_waiting(&r, timeout_ms);
	*m = r.m;
	ripc__service_leave(s);
	return rc;
}

/* The first poll found no message. Return: as ripc_receive(). */
static int __attribute__((noinline))
receive(struct ripc *ctx, struct ripc_service *s, struct ripc_message **message, int timeout_ms)
	RIPC__RELEASE(ctx->lock)
{
	struct ripc__message *m = timeout_ms ? poll_receive(ctx, s, timeout_ms) : NULL;
	int rc = 0;

	if (!m) {
		rc = receive_queued(s, &m, timeout_ms);
		ctx->polled = false;
	}
	if (m)
		*message = &m->pub;
	ripc__unlock(ctx);
	return rc;
}

/*
 * Whether a call with timeout 0 that polled the last active endpoints in vain may end without a
 * pass, which takes longer than a message. The first one after a message makes a pass, and so do
 * all before a thread sleeps on the descriptor of s.
 */
static bool skips_pass(struct ripc *ctx, const struct ripc_service *s)
{
	if (s->ready.fd >= 0 || ctx->nowait_poll_count != ctx->poll_count ||
	    ++ctx->nowait_skips % NOWAIT_PASS_INTERVAL == 0) {
		ctx->nowait_poll_count = ctx->poll_count + 1;
		return false;
	}
	return true;
}

int ripc_receive(struct ripc_service *s, struct ripc_message **message, int timeout_ms)
{
	struct ripc__message *m = NULL;
	struct ripc__progress_state now;
	struct ripc *ctx;
	bool had_event = false;

	if (RIPC__UNLIKELY(!s || !message))
		return ripc__fail(-EINVAL, s ? "nowhere to store the message" : "no service");
	ctx = ripc__service_owner(s);
	if (RIPC__UNLIKELY(!ctx || !ripc__is_owner(ctx)))
		return ripc__service_context(s, &ctx);
	ripc__lock(ctx);
	now = ripc__progress_state(&ctx->progress);
	if (RIPC__LIKELY(now.app_active && !ctx->delayed_ack.lane && may_receive(ctx, s, now))) {
		m = poll_recent(ctx, s, &had_event);
		if (!m && !timeout_ms && !had_event && skips_pass(ctx, s)) {
			ripc__unlock(ctx);
			return ripc__fail_text(-EAGAIN, "the service has no message");
		}
	}
	if (RIPC__UNLIKELY(!m))
		return receive(ctx, s, message, timeout_ms);
	count_event(ctx);
	*message = &m->pub;
	ripc__unlock(ctx);
	return 0;
}
