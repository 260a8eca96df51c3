/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/delayed_ack.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/message/service.h"

#define REPLY_MAX_NS \
	(100 * 1000) /* an answer that takes longer is not waited for: the sender may have something to do meanwhile */
#define DELAY_MAX_NS \
	RIPC__MS /* after which it is due: the agent's next tick may be as long after that */
#define COPY_MAX \
	(64u << 10) /* bytes: with no more than these, what stands before the message takes no time worth a message more */
#define STREAK_MIN 4 /* answered soon in a row after which it is expected of the next */
#define STREAK_PENALTY \
	16 /* and of so many more after one was held in vain: a sender waits for one in so many at most */

static void send_ack(struct ripc__lane *lane, uint64_t id)
{
	ripc__lane_notify(lane, RIPC__ACK, 0, 0, id, 0);
}

static void clear(struct ripc *ctx)
{
	ctx->delayed_ack.lane = NULL;
	ctx->delayed_ack.held = false;
}

void ripc__delayed_ack_flush(struct ripc *ctx)
{
	struct ripc__delayed_ack ack = ctx->delayed_ack;

	/* Before it is sent: control messages come by here. */
	clear(ctx);
	if (ack.held)
		send_ack(ack.lane, ack.id);
}

void ripc__delayed_ack_before_copy(struct ripc *ctx, size_t len)
{
	if (len <= COPY_MAX)
		return;
	ctx->now_fresh = false;
	if (ctx->delayed_ack.held)
		ripc__delayed_ack_flush(ctx);
}

/* The clock is read once for all that happens at a time. */
static uint64_t current_ns(struct ripc *ctx)
{
	if (!ctx->now_fresh)
		ctx->now_ns = ripc__now(ctx);
	ctx->now_fresh = true;
	return ctx->now_ns;
}

static void reset_streak(struct ripc__lane *lane)
{
	if (lane->reply_streak > 0)
		lane->reply_streak = 0;
}

void ripc__delayed_ack_idle(struct ripc *ctx)
{
	struct ripc__lane *lane = ctx->delayed_ack.lane;

	if (!lane)
		return;
	reset_streak(lane);
	if (ctx->delayed_ack.held)
		lane->reply_streak = -STREAK_PENALTY;
	ripc__delayed_ack_flush(ctx);
}

void ripc__delayed_ack_queue(struct ripc__lane *lane, uint64_t id, const struct ripc_service *s)
{
	struct ripc *ctx = lane->ctx;

	/* Who sends the next without waiting for the answer gains nothing. */
	if (ctx->delayed_ack.lane == lane)
		reset_streak(lane);
	ripc__delayed_ack_flush(ctx);
	/* The application finds others before it, or answers by another way; or one more message costs next to nothing. */
	if (ctx->tp[lane->tp].limits.caps & RIPC__CAP_SAME_HOST || s->queued != 1 ||
	    s->state != RIPC__SERVICE_ACTIVE || s->taken_over || ctx->closing ||
	    lane->peer->lane != lane) {
		send_ack(lane, id);
		return;
	}
	if (lane->reply_streak < STREAK_MIN)
		send_ack(lane, id);
	ctx->delayed_ack = (struct ripc__delayed_ack){
		.lane = lane,
		.id = id,
		.delivered_ns = current_ns(ctx),
		.held = lane->reply_streak >= STREAK_MIN,
	};
	if (!ctx->delayed_ack.held)
		return;
	if (ctx->next_timer_ns > ctx->delayed_ack.delivered_ns + DELAY_MAX_NS)
		ctx->next_timer_ns = ctx->delayed_ack.delivered_ns + DELAY_MAX_NS;
	/* Nobody may come by here again. An agent that ticks need not be woken for that: it goes on to tick. */
	ctx->app_spun = true;
	ripc__progress_request(ctx);
}

bool ripc__delayed_ack_piggybacks(struct ripc__lane *lane, size_t len)
{
	struct ripc *ctx = lane->ctx;

	if (!ctx->delayed_ack.held)
		return false;
	if (ctx->delayed_ack.lane == lane && len + RIPC__ACK_WORD <= lane->send_max)
		return true;
	ripc__delayed_ack_flush(ctx);
	return false;
}

void ripc__delayed_ack_replied(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	bool held = ctx->delayed_ack.held;

	if (ctx->delayed_ack.lane != lane)
		return;
	clear(ctx);
	if (current_ns(ctx) - ctx->delayed_ack.delivered_ns <= REPLY_MAX_NS)
		lane->reply_streak += lane->reply_streak < STREAK_MIN;
	else if (held)
		lane->reply_streak = -STREAK_PENALTY;
	else
		reset_streak(lane);
}

uint64_t ripc__delayed_ack_timer(struct ripc *ctx, uint64_t deadline)
{
	uint64_t until = ctx->delayed_ack.delivered_ns + DELAY_MAX_NS;

	if (!ctx->delayed_ack.held)
		return deadline;
	if (ctx->now_ns < until)
		return until < deadline ? until : deadline;
	ripc__delayed_ack_idle(ctx);
	return deadline;
}

void ripc__delayed_ack_lane_closed(struct ripc__lane *lane)
{
	if (lane->ctx->delayed_ack.lane == lane)
		clear(lane->ctx);
}
