/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/delayed_ack.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

/* longest time to a reply that counts as quick: its client waits for the reply, not the ACK */
#define REPLY_MAX_NS (300 * 1000)
/* longest delay; the progress thread's next tick may add as much, and 4 ms with wait=poll */
#define DELAY_MAX_NS RIPC__MS
/*
 * Bytes that are written, copied or registered in less time than a message costs, its system calls
 * and the receiver's included.
 */
#define COPY_MAX (256u << 10)

static void send_ack(struct ripc__lane *lane, uint64_t word)
{
	ripc__lane_notify(lane, RIPC__ACK, 0, 0, word, 0);
}

static void clear(struct ripc *ctx)
{
	ctx->delayed_ack.lane = NULL;
	ctx->delayed_ack.held = false;
	ctx->delayed_ack.credit_due = NULL;
}

void ripc__delayed_ack_flush(struct ripc *ctx)
{
	struct ripc__delayed_ack ack = ctx->delayed_ack;

	/* Clear first: sending a control message calls this function again. */
	clear(ctx);
	if (ack.held)
		send_ack(ack.lane, ack.word);
	if (ack.credit_due)
		ripc__flow_advertise_now(ack.credit_due);
}

void ripc__delayed_ack_before_copy(struct ripc *ctx, size_t len)
{
	if (len <= COPY_MAX)
		return;
	ripc__now_passes(ctx);
	if (ctx->delayed_ack.held)
		ripc__delayed_ack_flush(ctx);
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
	if (ctx->delayed_ack.delivered_ns)
		reset_streak(lane);
	if (ctx->delayed_ack.held)
		lane->reply_streak = -RIPC__STREAK_PENALTY;
	ripc__delayed_ack_flush(ctx);
}

void ripc__delayed_ack_queue(struct ripc__lane *lane, uint64_t word, const struct ripc_service *s)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__flow *credit_due = NULL;

	/* A sender that does not wait for the reply gains nothing from a delayed ACK. */
	if (ctx->delayed_ack.lane == lane && ctx->delayed_ack.delivered_ns)
		reset_streak(lane);
	if (ctx->delayed_ack.lane != lane || ctx->delayed_ack.delivered_ns)
		ripc__delayed_ack_flush(ctx);
	/*
	 * The application has other messages to handle or another path to reply, or the transport
	 * makes an extra message cheap.
	 */
	if (ctx->tp[lane->tp].limits.caps & RIPC__CAP_SAME_HOST || s->queued != 1 ||
	    s->state != RIPC__SERVICE_ACTIVE || ctx->closing || lane->peer->lane != lane) {
		send_ack(lane, word);
		return;
	}
	/* Sends a CREDIT that is due as well. */
	if (lane->reply_streak < RIPC__STREAK_MIN)
		send_ack(lane, word);
	if (ctx->delayed_ack.lane)
		credit_due = ctx->delayed_ack.credit_due;
	ctx->delayed_ack = (struct ripc__delayed_ack){
		.lane = lane,
		.word = word,
		.delivered_ns = ripc__now_read(ctx),
		.held = lane->reply_streak >= RIPC__STREAK_MIN,
		.credit_due = credit_due,
	};
	if (!ctx->delayed_ack.held)
		return;
	if (ctx->next_timer_ns > ctx->delayed_ack.delivered_ns + DELAY_MAX_NS)
		ctx->next_timer_ns = ctx->delayed_ack.delivered_ns + DELAY_MAX_NS;
	/*
	 * No thread may poll after this. The progress thread keeps ticking until the ACK is sent.
	 */
	ripc__progress_step(ctx, RIPC__PROGRESS_SPUN, NULL);
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
	struct ripc__delayed_ack ack = ctx->delayed_ack;

	if (ack.lane != lane)
		return;
	clear(ctx);
	if (ack.credit_due)
		ripc__flow_advertise_now(ack.credit_due);
	if (!ack.delivered_ns)
		return;
	if (ripc__now_read(ctx) - ack.delivered_ns <= REPLY_MAX_NS)
		lane->reply_streak += lane->reply_streak < RIPC__STREAK_MIN;
	else if (ack.held)
		lane->reply_streak = RIPC__STREAK_LATE;
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
