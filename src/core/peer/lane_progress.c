/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/lane_progress.h"
#include "core/peer/attempt.h"
#include "core/peer/connect.h"
#include "core/peer/eviction.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"
#include "core/progress/transports.h"

#include <stdio.h>

#define TRANSFER_MIN_BYTES 4096 /* bytes between two polls that show a transfer in progress */
#define PROBE_TICKS        6    /* ticks of silence after which other paths are tried */

/* ---- sending ---- */

/* Flushes requests that waited behind one that left for a former holder of its service. */
static void flush_dests(struct ripc *ctx)
{
	struct ripc__dest *d, *tmp;

	HASH_ITER (hh, ctx->dests, d, tmp)
		if (!ripc__list_empty(&d->pending))
			ripc__dest_flush(ctx, d);
}

void ripc__lane_flush(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__dest *d, *tmp;

	if (lane->state != RIPC__LANE_UP)
		return;
	if (lane->sending == RIPC__SENDING_STARVED)
		ripc__lane_set_sending(lane, RIPC__SENDING_FREE);
	if (!ripc__lane_flush_control(lane)) {
		ripc__lane_wait_for_room(lane);
		return;
	}
	if (ctx->peer_ops->sendable(lane))
		flush_dests(ctx);
	if (lane->state != RIPC__LANE_UP || lane->peer->lane != lane)
		return;
	ripc__list_for_each_entry_safe (d, tmp, &lane->peer->lists->dests, link) {
		ripc__dest_flush(ctx, d);
		ripc__dest_wake(ctx, d);
		if (lane->state != RIPC__LANE_UP)
			return;
	}
}

/* ---- events ---- */

static inline void lane_received(struct ripc__lane *lane)
{
	lane->last_rx_ns = lane->ctx->now_ns;
	if (lane->ctx->now_age == RIPC__NOW_STALE)
		ripc__lane_untimed(lane);
	lane->pinged_ns = 0;
	if (RIPC__UNLIKELY(lane->peer->pending_conn) && lane->peer->lane == lane)
		ripc__pending_conn_wait(lane->ctx, lane->peer);
}

void ripc__lane_event(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	struct ripc__lane *lane = ev->user;

	if (RIPC__LIKELY((ev->kind == RIPC__EV_RECV || ev->kind == RIPC__EV_WRITTEN) &&
			 lane->state == RIPC__LANE_UP)) {
		lane_received(lane);
		ctx->peer_ops->message(lane, ev);
		return;
	}
	switch (ev->kind) {
	case RIPC__EV_REQUEST:
		ripc__lane_on_request(ctx, tp, ev);
		return;
	case RIPC__EV_DATAGRAM:
		ctx->peer_ops->datagram(ctx, tp, ev);
		return;
	case RIPC__EV_BAD_INPUT:
		ctx->stats.bad_peers++;
		ripc__log(RIPC_LOG_WARN, "%s: dropped input that is not of its protocol: %s",
			  ctx->tp[tp].ops->name, ev->text ? ev->text : "");
		return;
	case RIPC__EV_ADDRESS:
		ripc__peers_addrs_changed(ctx);
		ripc__local_addrs_changed(ctx);
		return;
	case RIPC__EV_FD_LOW:
		ripc__evict_lanes(ctx, ev->status != 0);
		return;
	case RIPC__EV_NONE:
		return;
	default:
		break;
	}
	if (lane->state == RIPC__LANE_DEAD) {
		/* Reported in the same pass, before the lane was closed. */
		if (ev->kind == RIPC__EV_RECV)
			ripc__event_release(ctx, tp, ev);
		if (ev->kind == RIPC__EV_IMPORTED)
			ctx->peer_ops->imported(lane, ev);
		return;
	}
	switch (ev->kind) {
	case RIPC__EV_ESTABLISHED:
		ripc__lane_on_established(lane, ev);
		break;
	case RIPC__EV_CLOSED:
		ripc__lane_on_closed(lane, ev);
		break;
	case RIPC__EV_RECV:
		if (lane->shake) {
			ripc__lane_on_confirm(lane, ev);
			break;
		}
		/* Messages that arrive on a retiring lane do not extend its time. */
		ctx->peer_ops->message(lane, ev);
		break;
	case RIPC__EV_WRITTEN:
		ctx->peer_ops->message(lane, ev);
		break;
	case RIPC__EV_WRITE_DONE:
		lane_received(lane);
		ctx->peer_ops->write_done(ev);
		break;
	case RIPC__EV_READ_DONE:
		lane_received(lane);
		lane->reads--;
		ctx->peer_ops->read_done(ev);
		break;
	case RIPC__EV_IMPORTED:
		ctx->peer_ops->imported(lane, ev);
		break;
	case RIPC__EV_SENDABLE:
		if (lane->sending == RIPC__SENDING_BLOCKED)
			ripc__lane_set_sending(lane, RIPC__SENDING_FREE);
		ripc__lane_flush(lane);
		break;
	default:
		break;
	}
}

/* Whether work of this context depends on the lane. */
static bool lane_has_work(const struct ripc__lane *lane)
{
	if (lane->reads || !ripc__list_empty((struct ripc__list *)&lane->control))
		return true;
	if (lane->peer->lane == lane && ripc__peer_has_work(lane->peer))
		return true;
	return lane->ctx->peer_ops->lane_awaits_answer(lane);
}

/*
 * Whether a long transfer makes progress, however slow: on a slow link the first read may take
 * minutes. Fewer bytes than TRANSFER_MIN_BYTES may be our PING, which the kernel of a stopped
 * process acknowledges.
 */
static bool lane_transferring(struct ripc__lane *lane)
{
	const struct ripc__transport_ops *ops = lane->ctx->tp[lane->tp].ops;
	uint64_t bytes_transferred, before = lane->bytes_transferred;

	if (!ops->bytes_transferred)
		return false;
	bytes_transferred = ops->bytes_transferred(lane->ep);
	lane->bytes_transferred = bytes_transferred;
	return before && bytes_transferred - before >= TRANSFER_MIN_BYTES;
}

/* The lane was not accepted, refused or closed in time. */
static void lane_timed_out(struct ripc__lane *lane)
{
	char addr[96] = "", text[160];

	if (lane->state == RIPC__LANE_RETIRING) {
		ripc__lane_fail(lane, -ETIMEDOUT, "it did not close an idle lane");
		return;
	}
	if (lane->active && lane->peer->out == lane)
		ripc__attempt_address(lane->ctx, lane->peer, addr, sizeof(addr));
	snprintf(text, sizeof(text), "%s%sno answer in %" PRIu64 " ms", addr, *addr ? ": " : "",
		 (lane->connect_ns / RIPC__MS));
	ripc__lane_fail(lane, -ETIMEDOUT, text);
}

/*
 * Updates last_rx_ns, a time at or before the last sign of life. Time in which this context made
 * no passes is no silence of the peer: what arrived meanwhile may not have been read.
 */
static void lane_time_silence(struct ripc__lane *lane, uint64_t tick_ns)
{
	uint64_t now = lane->ctx->now_ns, seen_ns = lane->ctx->lane_timers_ns;

	if (lane->silence == RIPC__SILENCE_IDLE)
		lane->last_rx_ns = now;
	else if (lane->silence == RIPC__SILENCE_UNTIMED && now - lane->last_rx_ns > tick_ns)
		lane->last_rx_ns = now - tick_ns;
	lane->silence = RIPC__SILENCE_TIMED;
	if (lane_transferring(lane))
		lane->last_rx_ns = now;
	if (seen_ns < lane->last_rx_ns)
		seen_ns = lane->last_rx_ns;
	if (now - seen_ns > 2 * tick_ns)
		lane->last_rx_ns += now - seen_ns - tick_ns;
}

/*
 * A peer with work outstanding is dead after peer_timeout_ms of silence. Within this time the lane
 * sends PING, and then the other paths are tried beside it: no further time is needed for them.
 */
static void lane_check_silence(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	uint64_t timeout_ns = ctx->opt.peer_timeout_ms * RIPC__MS, now = ctx->now_ns;
	uint64_t tick_ns = timeout_ns / RIPC__SILENCE_TICKS, dead_ns, silent_ns;
	char text[64];

	lane_time_silence(lane, tick_ns);
	silent_ns = now - lane->last_rx_ns;
	dead_ns = lane->last_rx_ns + timeout_ns;
	if (silent_ns >= timeout_ns) {
		snprintf(text, sizeof(text), "the peer was silent for %u ms",
			 ctx->opt.peer_timeout_ms);
		ripc__lane_fail(lane, -ETIMEDOUT, text);
		return;
	}
	if (silent_ns >= timeout_ns / 4 && now - lane->pinged_ns >= timeout_ns / 4) {
		lane->pinged_ns = now;
		ripc__lane_ping(lane);
	}
	if (silent_ns >= PROBE_TICKS * tick_ns)
		ripc__peer_probe(lane, dead_ns);
	else
		ripc__peer_probe_end(lane);
	ripc__timer_at(ctx, now + tick_ns < dead_ns ? now + tick_ns : dead_ns);
}

static void lane_timer(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	uint64_t now = ctx->now_ns;

	if (lane->sending == RIPC__SENDING_BROKEN) {
		ripc__lane_fail(lane, -ENOBUFS, "too many control messages waiting");
		return;
	}
	if (lane->state != RIPC__LANE_UP) {
		uint64_t limit_ns =
			lane->state == RIPC__LANE_RETIRING ? RIPC__RETIRE_NS : lane->connect_ns;

		if (now - lane->last_rx_ns >= limit_ns)
			lane_timed_out(lane);
		else
			ripc__timer_at(ctx, lane->last_rx_ns + limit_ns);
		return;
	}
	if (lane->peer->pending_conn && lane->peer->lane == lane) {
		if (now >= lane->peer->pending_conn->until_ns) {
			ripc__lane_fail(lane, -ETIMEDOUT, "silent while its peer connects anew");
			return;
		}
		ripc__timer_at(ctx, lane->peer->pending_conn->until_ns);
	}
	ctx->peer_ops->lane_timer(lane);
	if (lane->state != RIPC__LANE_UP)
		return;
	if (!lane_has_work(lane)) {
		/* Silence on an idle lane does not count: see ripc__lane_monitor(). */
		lane->silence = RIPC__SILENCE_IDLE;
		ctx->peer_ops->lane_idle(lane);
		return;
	}
	lane_check_silence(lane);
	if (lane->state != RIPC__LANE_UP)
		return;
	/* No event announces the end of a memory shortage. */
	if (lane->sending != RIPC__SENDING_BLOCKED)
		ripc__lane_flush(lane);
}

void ripc__lane_timers(struct ripc *ctx)
{
	struct ripc__lane *lane, *tmp;

	ripc__list_for_each_entry_safe (lane, tmp, &ctx->lanes, link)
		lane_timer(lane);
	ctx->lane_timers_ns = ctx->now_ns;
}
