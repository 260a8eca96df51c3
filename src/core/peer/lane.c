/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/datagram_context.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/lane_post.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"

#include <assert.h>
#include <stdlib.h>

#define CONTROL_MAX 4096 /* queued control messages of one lane */

#define TO(state) (1u << RIPC__LANE_##state)

__attribute__((unused)) static const unsigned next_states[RIPC__LANE_STATES] = {
	[RIPC__LANE_CONNECTING] = TO(UP) | TO(DEAD),
	[RIPC__LANE_ACCEPTING] = TO(UP) | TO(DEAD),
	[RIPC__LANE_UP] = TO(RETIRING) | TO(DEAD),
	[RIPC__LANE_RETIRING] = TO(DEAD),
	[RIPC__LANE_DEAD] = 0,
};

void ripc__lane_set_state(struct ripc__lane *lane, enum ripc__lane_state to)
{
	assert(next_states[lane->state] & 1u << to && (to != RIPC__LANE_UP || !lane->shake));
	if (lane->state == RIPC__LANE_UP)
		lane->ctx->stats.lanes--;
	if (to == RIPC__LANE_UP)
		lane->ctx->stats.lanes++;
	lane->state = to;
}

/* ---- end of a lane ---- */

void ripc__remote_returns_drop(struct ripc__dest *d)
{
	struct ripc__remote_return *o, *tmp;

	ripc__list_for_each_entry_safe (o, tmp, &d->remote_returns, link) {
		ripc__list_del(&o->link);
		if (!o->lane) {
			free(o);
			continue;
		}
		/* An offer in use belongs to its request. */
		o->orphan = true;
		ripc__list_add(&d->peer->lists->orphan_returns, &o->link);
	}
	d->nremote_returns = 0;
}

void ripc__peer_lane_ends(struct ripc__peer *p)
{
	struct ripc__dest *d;

	p->lane = NULL;
	if (p->out)
		p->out->replaces = false;
	ripc__list_for_each_entry (d, &p->lists->dests, link) {
		d->credit = NULL;
		ripc__datagram_context_end(d);
		ripc__remote_returns_drop(d);
	}
}

void ripc__lane_close(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__tp *tp = &ctx->tp[lane->tp];

	ripc__lane_set_state(lane, RIPC__LANE_DEAD);
	if (lane->ep) {
		tp->ops->ep_close(lane->ep);
		if (!--tp->nlanes && !tp->limits.eager_datagram)
			ctx->active_tps &= ~(1u << lane->tp);
	}
	lane->ep = NULL;
	ctx->peer_ops->lane_closed(lane);
	ripc__list_free(&lane->control, struct ripc__control, link);
	if (lane->peer->out == lane)
		lane->peer->out = NULL;
	if (lane->peer->lane == lane)
		ripc__peer_lane_ends(lane->peer);
	ripc__flows_free(lane);
	ripc__list_del(&lane->link);
	ripc__list_add(&ctx->dead_lanes, &lane->link);
}

void ripc__dead_lanes_free(struct ripc *ctx)
{
	struct ripc__lane *lane;

	while ((lane = ripc__list_first_entry(&ctx->dead_lanes, struct ripc__lane, link))) {
		ripc__list_del(&lane->link);
		if (!--lane->peer->nlanes)
			ripc__datagram_contexts_free(lane->peer);
		ripc__lane_memory_free(lane);
		free(lane->shake);
		free(lane);
	}
}

/* ---- sending ---- */

void ripc__lane_monitor(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;

	if (lane->silence != RIPC__SILENCE_IDLE)
		return;
	lane->silence = RIPC__SILENCE_TIMED;
	lane->last_rx_ns = ripc__now(ctx);
	ripc__timer_at(ctx, lane->last_rx_ns +
				    ctx->opt.peer_timeout_ms * RIPC__MS / RIPC__SILENCE_TICKS);
	ripc__progress_request(ctx);
}

int ripc__lane_post_failed(struct ripc__lane *lane, int rc)
{
	if (rc == -EAGAIN) {
		ripc__lane_set_sending(lane, RIPC__SENDING_BLOCKED);
		lane->ctx->stats.queue_stalls++;
		lane->peer->stats.queue_stalls++;
		/* Threads that sleep do not wait for room. */
		ripc__progress_request(lane->ctx);
	}
	return rc;
}

int ripc__lane_stalled(struct ripc__lane *lane)
{
	lane->ctx->stats.credit_stalls++;
	lane->peer->stats.credit_stalls++;
	ripc__lane_monitor(lane);
	return -EAGAIN;
}

/* No credit, no room, or other messages wait already. Return: -EAGAIN. */
static int starved(struct ripc__lane *lane)
{
	ripc__lane_wait_for_room(lane);
	if (lane->sending == RIPC__SENDING_STARVED)
		return ripc__lane_stalled(lane);
	ripc__lane_monitor(lane);
	return -EAGAIN;
}

/* The lane's closing is about to be reported: the sender waits for the outcome. */
static int sent(int rc)
{
	return rc == -EMSGSIZE || rc == -EFAULT || !rc ? rc : -EAGAIN;
}

int ripc__lane_send(struct ripc__lane *lane, uint8_t *header, size_t len, const struct iovec *items,
		    unsigned n, bool more)
{
	return RIPC__LIKELY(ripc__lane_can_send(lane))
		       ? sent(ripc__lane_post(lane, header, len, items, n, more))
		       : starved(lane);
}

int ripc__lane_send_item(struct ripc__lane *lane, unsigned flags,
			 const struct ripc__call_words *call, uint64_t dest, uint64_t source,
			 const struct iovec *item, bool more)
{
	return RIPC__LIKELY(ripc__lane_can_send(lane))
		       ? sent(ripc__lane_post_item(lane, flags, call, dest, source, item, more))
		       : starved(lane);
}

/* Queues a control message that cannot be sent now. */
static void __attribute__((noinline))
control_queue(struct ripc__lane *lane, const uint8_t *bytes, size_t len)
{
	struct ripc__control *c = lane->ncontrol < CONTROL_MAX ? malloc(sizeof(*c) + len) : NULL;

	if (!c) {
		/*
		 * The peer would wait for this message for ever. The timers close the lane, outside
		 * this call.
		 */
		ripc__lane_set_sending(lane, RIPC__SENDING_BROKEN);
		ripc__timer_at(lane->ctx, 0);
		return;
	}
	ripc__lane_wait_for_room(lane);
	ripc__lane_monitor(lane);
	c->len = (uint32_t)len;
	memcpy(c->bytes, bytes, len);
	ripc__list_add(&lane->control, &c->link);
	lane->ncontrol++;
}

static __always_inline void control(struct ripc__lane *lane, uint8_t *bytes, size_t len)
{
	if (lane->state != RIPC__LANE_UP)
		return;
	lane->ctx->peer_ops->before_control(lane);
	if (lane->sending == RIPC__SENDING_BROKEN)
		return;
	if (!ripc__lane_can_send(lane) || ripc__lane_post(lane, bytes, len, NULL, 0, false))
		control_queue(lane, bytes, len);
}

void ripc__lane_control(struct ripc__lane *lane, uint8_t *bytes, size_t len)
{
	control(lane, bytes, len);
}

bool ripc__lane_control_later(struct ripc__lane *lane, uint8_t *bytes, size_t len)
{
	return lane->state == RIPC__LANE_UP && ripc__lane_can_send(lane) &&
	       !ripc__lane_post(lane, bytes, len, NULL, 0, true);
}

void ripc__lane_notify(struct ripc__lane *lane, unsigned kind, uint64_t dest, uint64_t source,
		       uint64_t a, uint64_t b)
{
	uint8_t buf[RIPC__CONTROL_MAX];

	control(lane, buf, ripc__control_put(buf, kind, dest, source, a, b));
}

void ripc__lane_repost(struct ripc__lane *lane)
{
	if (!lane->rx_depth)
		return;
	lane->rx_credits_due++;
	ripc__lane_send_credit(lane);
}

bool ripc__lane_flush_control(struct ripc__lane *lane)
{
	struct ripc__control *c;

	ripc__lane_send_credit(lane);
	while ((c = ripc__list_first_entry(&lane->control, struct ripc__control, link))) {
		if (!ripc__lane_has_credit(lane, false) ||
		    ripc__lane_post(lane, c->bytes, c->len, NULL, 0, true))
			return false;
		ripc__list_del(&c->link);
		lane->ncontrol--;
		free(c);
	}
	return true;
}
