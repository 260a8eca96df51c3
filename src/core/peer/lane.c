/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/lane.h"
#include "core/peer/lane_post.h"
#include "core/peer/attempt.h"
#include "core/peer/eviction.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"
#include "core/service/service.h"
#include "core/progress/transports.h"
#include "wire/bytes.h"

#include <stdio.h>
#include <stdlib.h>

#define CONTROL_MAX        4096 /* queued control messages of one lane */
#define TRANSFER_MIN_BYTES 4096 /* bytes between two polls that show a transfer in progress */

static struct ripc__tp *lane_tp(const struct ripc__lane *lane)
{
	return &lane->ctx->tp[lane->tp];
}

/* ---- end of a lane ---- */

void ripc__lane_close(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__list *n;
	struct ripc__flow *f, *ftmp;
	struct ripc__credit *c, *ctmp;

	if (lane->state == RIPC__LANE_DEAD)
		return;
	if (lane->state == RIPC__LANE_UP)
		ctx->stats.lanes--;
	lane->state = RIPC__LANE_DEAD;
	if (lane->ep) {
		lane_tp(lane)->ops->ep_close(lane->ep);
		if (!--lane_tp(lane)->nlanes && !lane_tp(lane)->limits.eager_datagram)
			ctx->active_tps &= ~(1u << lane->tp);
	}
	lane->ep = NULL;
	ctx->peer_ops->lane_closed(lane);
	while ((n = ripc__list_first(&lane->control))) {
		ripc__list_del(n);
		free(ripc__list_entry(n, struct ripc__control, link));
	}
	HASH_ITER (hh, lane->flows, f, ftmp) {
		HASH_DEL(lane->flows, f);
		free(f);
	}
	lane->flow = NULL;
	ripc__list_for_each (n, &lane->peer->dests) {
		struct ripc__dest *d = ripc__list_entry(n, struct ripc__dest, link);

		if (lane->peer->lane == lane)
			d->credit = NULL;
	}
	HASH_ITER (hh, lane->credits, c, ctmp) {
		HASH_DEL(lane->credits, c);
		free(c);
	}
	if (lane->peer->lane == lane)
		lane->peer->lane = NULL;
	if (lane->peer->out == lane)
		lane->peer->out = NULL;
	ripc__list_del(&lane->link);
	ripc__list_add(&ctx->dead_lanes, &lane->link);
}

void ripc__dead_lanes_free(struct ripc *ctx)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&ctx->dead_lanes))) {
		struct ripc__lane *lane = ripc__list_entry(n, struct ripc__lane, link);

		ripc__list_del(n);
		lane->peer->nlanes--;
		free(lane->shake);
		free(lane);
	}
}

void ripc__lane_fail(struct ripc__lane *lane, int status, const char *text)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;
	enum ripc__lane_state old_state = lane->state;
	bool main_lane = p->lane == lane;
	struct ripc__list *n, *tmp;
	char copy[256];

	if (old_state == RIPC__LANE_DEAD)
		return;
	/* text may lie in memory that is freed below. */
	snprintf(copy, sizeof(copy), "%s", text && *text ? text : ripc_strerror(status));
	ripc__lane_close(lane);
	if (old_state == RIPC__LANE_CONNECTING) {
		ripc__peer_attempt_failed(ctx, p, lane->tp, status, RIPC__REFUSE_NONE, copy);
		return;
	}
	if (old_state == RIPC__LANE_UP) {
		ctx->stats.lanes_lost++;
		p->stats.lanes_lost++;
		ripc__log(RIPC_LOG_INFO, "lane to %s over %s is down: %s",
			  ripc__instance_text(p->instance), lane_tp(lane)->ops->name, copy);
	}
	/* No peer can reach our memory over this lane any more: it can be freed. */
	ctx->peer_ops->lane_failed(lane);
	p->used_ns = ripc__now(ctx);
	if (!main_lane) {
		ripc__pending_conn_resolve(ctx, p, !p->lane);
		if (!p->lane && ripc__peer_has_work(p))
			ripc__peer_connect(ctx, p);
		return;
	}
	ripc__list_for_each_safe (n, tmp, &p->dests)
		ripc__remote_returns_drop(ripc__list_entry(n, struct ripc__dest, link));
	p->lost = true;
	p->unreachable_ns = 0;
	ripc__attempts_clear(p);
	ctx->peer_ops->peer_disconnected(ctx, p);
	if (p->pending_conn) {
		ripc__pending_conn_resolve(ctx, p, true);
		if (p->nlanes > 1)
			return;
	}
	/*
	 * With datagrams possibly no sender waits for the lane, but the peer's liveness must be
	 * known.
	 */
	if (ripc__peer_has_work(p) || (ctx->datagrams && old_state == RIPC__LANE_UP))
		ripc__peer_connect(ctx, p);
	ripc__list_for_each_safe (n, tmp, &p->dests)
		ripc__wake(ctx, &ripc__list_entry(n, struct ripc__dest, link)->waitq);
}

void ripc__lane_protocol_error(struct ripc__lane *lane, const char *why)
{
	struct ripc *ctx = lane->ctx;

	ctx->stats.bad_messages++;
	lane->peer->stats.bad_messages++;
	ripc__log(RIPC_LOG_WARN, "peer %s over %s broke the protocol: %s; the lane is closed",
		  ripc__instance_text(lane->peer->instance), ctx->tp[lane->tp].ops->name, why);
	ripc__lane_fail(lane, -EPROTO, why);
}

static void lane_on_closed(struct ripc__lane *lane, const struct ripc__event *ev)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__hello h;
	const char *why;

	if (lane->state == RIPC__LANE_CONNECTING && ev->reject) {
		unsigned refusal = RIPC__REFUSE_NONE;
		struct ripc__peer *p = lane->peer;
		unsigned tp = lane->tp;
		int status = ev->status;

		if (!ripc__hello_decode(&h, ev->data, ev->len, &why)) {
			refusal = ripc__lane_refusal(lane, ev, &status);
			why = ripc__refusal_text(refusal);
		} else if (ev->text) {
			why = ev->text;
		}
		ripc__lane_close(lane);
		ripc__peer_attempt_failed(ctx, p, tp, status, refusal, why);
		return;
	}
	ripc__lane_fail(lane, ev->status, ev->text);
}

/* ---- sending ---- */

void ripc__lane_monitor(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;

	if (!lane->idle)
		return;
	lane->idle = false;
	lane->last_rx_ns = ripc__now(ctx);
	ripc__timer_at(ctx, lane->last_rx_ns + ctx->opt.peer_timeout_ms * RIPC__MS / 8);
	ripc__progress_request(ctx);
}

int ripc__lane_post_failed(struct ripc__lane *lane, int rc)
{
	if (rc == -EAGAIN) {
		lane->blocked = true;
		lane->ctx->stats.queue_stalls++;
		lane->peer->stats.queue_stalls++;
		/* Threads that sleep do not wait for room. */
		ripc__progress_request(lane->ctx);
	}
	return rc;
}

int ripc__lane_starved(struct ripc__lane *lane)
{
	lane->starved = true;
	ripc__lane_monitor(lane);
	if (!lane->blocked) {
		lane->ctx->stats.credit_stalls++;
		lane->peer->stats.credit_stalls++;
	}
	return -EAGAIN;
}

static int post_control(struct ripc__lane *lane, uint8_t *bytes, size_t len, bool more)
{
	return ripc__lane_post(lane, bytes, len, NULL, 0, more);
}

int ripc__lane_send(struct ripc__lane *lane, uint8_t *header, size_t len, const struct iovec *items,
		    unsigned n, bool more)
{
	int rc;

	if (RIPC__UNLIKELY(!ripc__lane_can_send(lane)))
		return ripc__lane_starved(lane);
	rc = ripc__lane_post(lane, header, len, items, n, more);
	/* The lane's closing is about to be reported: the sender waits for the outcome. */
	return rc == -EMSGSIZE || !rc ? rc : -EAGAIN;
}

void ripc__lane_control(struct ripc__lane *lane, uint8_t *bytes, size_t len)
{
	struct ripc__control *c;

	if (lane->state != RIPC__LANE_UP)
		return;
	lane->ctx->peer_ops->before_control(lane);
	if (ripc__list_empty(&lane->control) && ripc__lane_has_credit(lane, false) &&
	    !post_control(lane, bytes, len, false))
		return;
	c = lane->ncontrol < CONTROL_MAX ? malloc(sizeof(*c) + len) : NULL;
	if (!c) {
		/*
		 * The peer would wait for this message for ever. The timers close the lane, outside
		 * this call.
		 */
		lane->close_pending = true;
		ripc__timer_at(lane->ctx, 0);
		return;
	}
	lane->starved = true;
	ripc__lane_monitor(lane);
	c->len = (uint32_t)len;
	memcpy(c->bytes, bytes, len);
	ripc__list_add(&lane->control, &c->link);
	lane->ncontrol++;
}

void ripc__lane_notify(struct ripc__lane *lane, unsigned kind, uint64_t dest, uint64_t source,
		       uint64_t a, uint64_t b)
{
	uint8_t buf[RIPC__HEADER_LEN + 16], *p;

	p = ripc__header_put(buf, (uint8_t)kind, 0, 0, 0, dest, source);
	if (kind != RIPC__NOSERVICE && kind != RIPC__BYE) {
		ripc__put_le64(p, a);
		p += 8;
	}
	if (kind == RIPC__ACK || kind == RIPC__RELEASE || kind == RIPC__CALL_STATE) {
		ripc__put_le64(p, b);
		p += 8;
	}
	ripc__lane_control(lane, buf, (size_t)(p - buf));
}

/*
 * Returns credit when half of the receive buffers are free and no other message has done so. May
 * use the last credit.
 */
static void send_credit(struct ripc__lane *lane)
{
	uint8_t buf[RIPC__HEADER_LEN + 8], *p;

	/*
	 * Count only buffers that no message holds; otherwise half would never be reached when half
	 * are held.
	 */
	if (lane->state != RIPC__LANE_UP || !lane->rx_depth ||
	    lane->rx_credits_due < (lane->rx_depth - lane->rx_held + 1) / 2 ||
	    !lane->rx_credits_due || !ripc__lane_has_credit(lane, true))
		return;
	p = ripc__header_put(buf, RIPC__CREDIT, 0, 0, 0, 0, 0);
	ripc__put_le64(p, 0);
	post_control(lane, buf, sizeof(buf), false);
}

void ripc__lane_repost(struct ripc__lane *lane)
{
	if (!lane->rx_depth)
		return;
	lane->rx_credits_due++;
	send_credit(lane);
}

/* Sends queued control messages. Return: whether none is left. */
static bool control_flush(struct ripc__lane *lane)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&lane->control))) {
		struct ripc__control *c = ripc__list_entry(n, struct ripc__control, link);

		if (!ripc__lane_has_credit(lane, false) || post_control(lane, c->bytes, c->len, true))
			return false;
		ripc__list_del(n);
		lane->ncontrol--;
		free(c);
	}
	return true;
}

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
	struct ripc__list *n, *tmp;
	bool flush_others;

	if (lane->state != RIPC__LANE_UP)
		return;
	lane->starved = false;
	send_credit(lane);
	if (!control_flush(lane)) {
		lane->starved = true;
		return;
	}
	flush_others = ctx->peer_ops->sendable(lane);
	/* Afterwards, because it may end other requests. */
	if (flush_others)
		flush_dests(ctx);
	if (lane->state != RIPC__LANE_UP || lane->peer->lane != lane)
		return;
	ripc__list_for_each_safe (n, tmp, &lane->peer->dests) {
		struct ripc__dest *d = ripc__list_entry(n, struct ripc__dest, link);

		ripc__dest_flush(ctx, d);
		if (!ripc__list_empty(&d->waitq.waiters))
			ripc__wake(ctx, &d->waitq);
		if (lane->state != RIPC__LANE_UP)
			return;
	}
}

/* ---- events and timers ---- */

/* The peer is alive. A connection request that was to replace this lane has crossed with it. */
static inline void lane_received(struct ripc__lane *lane)
{
	lane->last_rx_ns = lane->ctx->now_ns;
	lane->rx_untimed |= lane->ctx->now_stale;
	lane->pinged_ns = 0;
	if (RIPC__UNLIKELY(lane->peer->pending_conn) && lane->peer->lane == lane)
		ripc__pending_conn_resolve(lane->ctx, lane->peer, false);
}

void ripc__lane_event(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	struct ripc__lane *lane = ev->user;

	if (RIPC__LIKELY(ev->kind == RIPC__EV_RECV && lane->state == RIPC__LANE_UP && !lane->shake)) {
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
		if (ev->kind == RIPC__EV_RECV && ev->token)
			ctx->tp[tp].ops->release(ctx->tp[tp].t, ev->token);
		if (ev->kind == RIPC__EV_IMPORTED)
			ctx->peer_ops->imported(lane, ev);
		return;
	}
	switch (ev->kind) {
	case RIPC__EV_ESTABLISHED:
		ripc__lane_on_established(lane, ev);
		break;
	case RIPC__EV_CLOSED:
		lane_on_closed(lane, ev);
		break;
	case RIPC__EV_RECV:
		if (lane->shake) {
			ripc__lane_on_confirm(lane, ev);
			break;
		}
		/* Messages that arrive on a retiring lane do not extend its time. */
		ctx->peer_ops->message(lane, ev);
		break;
	case RIPC__EV_WRITE_DONE:
		lane_received(lane);
		ctx->peer_ops->write_done(lane, ev);
		break;
	case RIPC__EV_READ_DONE:
		lane_received(lane);
		lane->reads--;
		ctx->peer_ops->read_done(lane, ev);
		break;
	case RIPC__EV_IMPORTED:
		ctx->peer_ops->imported(lane, ev);
		break;
	case RIPC__EV_SENDABLE:
		lane->blocked = false;
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
	snprintf(text, sizeof(text), "%s%sno answer in %llu ms", addr, *addr ? ": " : "",
		 (unsigned long long)(lane->connect_ns / RIPC__MS));
	ripc__lane_fail(lane, -ETIMEDOUT, text);
}

static void lane_timer(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	uint64_t now = ctx->now_ns, timeout = ctx->opt.peer_timeout_ms * RIPC__MS;
	char text[64];

	if (lane->close_pending) {
		ripc__lane_fail(lane, -ENOBUFS, "too many control messages waiting");
		return;
	}
	if (lane->state != RIPC__LANE_UP) {
		if (now - lane->last_rx_ns >= lane->connect_ns)
			lane_timed_out(lane);
		else
			ripc__timer_at(ctx, lane->last_rx_ns + lane->connect_ns);
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
		lane->idle = true;
		ctx->peer_ops->lane_idle(lane);
		return;
	}
	if (lane->idle || lane->rx_untimed)
		lane->last_rx_ns = now;
	lane->idle = lane->rx_untimed = false;
	if (now - lane->last_rx_ns >= timeout / 8 && lane_transferring(lane))
		lane->last_rx_ns = now;
	if (now - lane->last_rx_ns >= timeout) {
		snprintf(text, sizeof(text), "the peer was silent for %u ms",
			 ctx->opt.peer_timeout_ms);
		ripc__lane_fail(lane, -ETIMEDOUT, text);
		return;
	}
	if (now - lane->last_rx_ns >= timeout / 4 && now - lane->pinged_ns >= timeout / 4) {
		lane->pinged_ns = now;
		ripc__lane_notify(lane, RIPC__PING, 0, 0, now, 0);
	}
	ripc__timer_at(ctx, now + timeout / 8);
	/* No event announces the end of a memory shortage. */
	if (!lane->blocked)
		ripc__lane_flush(lane);
}

void ripc__lane_timers(struct ripc *ctx)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &ctx->lanes)
		lane_timer(ripc__list_entry(n, struct ripc__lane, link));
}
