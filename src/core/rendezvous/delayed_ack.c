/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/delayed_ack.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/message/service.h"

#define SOON_NS \
	(100 * 1000) /* an answer that takes longer is not waited for: the sender may have something to do meanwhile */
#define HOLD_NS \
	RIPC__MS /* after which it is due: the agent's next tick may be as long after that */
#define SMALL_MAX \
	(64u << 10) /* bytes: with no more than these, what stands before the message takes no time worth a message more */
#define ANSWERS_MIN 4 /* answered soon in a row after which it is expected of the next */
#define ANSWERS_LATE \
	16 /* and of so many more after one was held in vain: a sender waits for one in so many at most */

static void send_done(struct ripc__lane *lane, uint64_t id)
{
	ripc__lane_word(lane, RIPC__DONE, 0, 0, id, 0);
}

static void forget(struct ripc *ctx)
{
	ctx->done.lane = NULL;
	ctx->done.held = false;
}

void ripc__done_release(struct ripc *ctx)
{
	struct ripc__done due = ctx->done;

	/* Before it is sent: control messages come by here. */
	forget(ctx);
	if (due.held)
		send_done(due.lane, due.id);
}

void ripc__done_delay(struct ripc *ctx, size_t len)
{
	if (len <= SMALL_MAX)
		return;
	ctx->now_fresh = false;
	if (ctx->done.held)
		ripc__done_release(ctx);
}

/* The clock is read once for all that happens at a time. */
static uint64_t now(struct ripc *ctx)
{
	if (!ctx->now_fresh)
		ctx->now_ns = ripc__now(ctx);
	ctx->now_fresh = true;
	return ctx->now_ns;
}

static void not_soon(struct ripc__lane *lane)
{
	if (lane->answers > 0)
		lane->answers = 0;
}

void ripc__done_unanswered(struct ripc *ctx)
{
	struct ripc__lane *lane = ctx->done.lane;

	if (!lane)
		return;
	not_soon(lane);
	if (ctx->done.held)
		lane->answers = -ANSWERS_LATE;
	ripc__done_release(ctx);
}

void ripc__done_due(struct ripc__lane *lane, uint64_t id, const struct ripc_service *s)
{
	struct ripc *ctx = lane->ctx;

	/* Who sends the next without waiting for the answer gains nothing. */
	if (ctx->done.lane == lane)
		not_soon(lane);
	ripc__done_release(ctx);
	/* The application finds others before it, or answers by another way; or one more message costs next to nothing. */
	if (ctx->tp[lane->tp].limits.caps & RIPC__CAP_SAME_HOST || s->queued != 1 ||
	    s->state != RIPC__SERVICE_ACTIVE || s->moved || ctx->closing || lane->peer->lane != lane) {
		send_done(lane, id);
		return;
	}
	if (lane->answers < ANSWERS_MIN)
		send_done(lane, id);
	ctx->done = (struct ripc__done){
		.lane = lane,
		.id = id,
		.since_ns = now(ctx),
		.held = lane->answers >= ANSWERS_MIN,
	};
	if (!ctx->done.held)
		return;
	if (ctx->next_timer_ns > ctx->done.since_ns + HOLD_NS)
		ctx->next_timer_ns = ctx->done.since_ns + HOLD_NS;
	/* Nobody may come by here again. An agent that ticks need not be woken for that: it goes on to tick. */
	ctx->warm = true;
	ripc__agent_need(ctx);
}

bool ripc__done_rides(struct ripc__lane *lane, size_t len)
{
	struct ripc *ctx = lane->ctx;

	if (!ctx->done.held)
		return false;
	if (ctx->done.lane == lane && len + RIPC__DONE_WORD <= lane->send_max)
		return true;
	ripc__done_release(ctx);
	return false;
}

void ripc__done_answered(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	bool held = ctx->done.held;

	if (ctx->done.lane != lane)
		return;
	forget(ctx);
	if (now(ctx) - ctx->done.since_ns <= SOON_NS)
		lane->answers += lane->answers < ANSWERS_MIN;
	else if (held)
		lane->answers = -ANSWERS_LATE;
	else
		not_soon(lane);
}

uint64_t ripc__done_timer(struct ripc *ctx, uint64_t deadline)
{
	uint64_t until = ctx->done.since_ns + HOLD_NS;

	if (!ctx->done.held)
		return deadline;
	if (ctx->now_ns < until)
		return until < deadline ? until : deadline;
	ripc__done_unanswered(ctx);
	return deadline;
}

void ripc__done_lane_gone(struct ripc__lane *lane)
{
	if (lane->ctx->done.lane == lane)
		forget(lane->ctx);
}
