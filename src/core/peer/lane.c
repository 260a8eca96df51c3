/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/lane.h"
#include "core/peer/attempt.h"
#include "core/peer/eviction.h"
#include "core/group/group.h"
#include "core/memory/mapped.h"
#include "core/message/message.h"
#include "core/peer/peer.h"
#include "core/rendezvous/receiver.h"
#include "core/rendezvous/sender.h"
#include "core/message/service.h"
#include "core/memory/bounce.h"
#include "core/context/transports.h"
#include "wire/bytes.h"

#include <stdio.h>
#include <stdlib.h>

#define CONTROL_MAX        4096 /* control messages that may wait on one lane */
#define TRANSFER_MIN_BYTES 4096 /* between two looks: a transfer is on its way */

static struct ripc__tp *lane_tp(const struct ripc__lane *lane)
{
	return &lane->ctx->tp[lane->tp];
}

/* ---- the end ---- */

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
	ripc__delayed_ack_lane_closed(lane);
	ripc__bounces_lane_gone(lane);
	ripc__mapped_lane_gone(lane);
	while ((n = ripc__list_first(&lane->control))) {
		ripc__list_del(n);
		free(ripc__list_entry(n, struct ripc__control, link));
	}
	/* Messages keep what they hold, but nobody waits for it any more. */
	for (struct ripc_service *s = ctx->services; s; s = s->hh.next)
		for (struct ripc__message *m = s->first; m; m = m->next) {
			if (m->flow && m->flow->lane == lane)
				m->flow = NULL;
			if (m->lane == lane)
				m->lane = NULL;
		}
	ripc__list_for_each (n, &ctx->messages) {
		struct ripc__message *m = ripc__list_entry(n, struct ripc__message, held);

		if (m->lane == lane)
			m->lane = NULL;
	}
	for (struct ripc_service *s = ctx->services; s; s = s->hh.next)
		ripc__list_for_each (n, &s->rndvs_in) {
			struct ripc__message *m =
				ripc__list_entry(n, struct ripc__rndv, link)->message;

			if (m && m->flow && m->flow->lane == lane)
				m->flow = NULL;
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

static void requests_lane_gone(struct ripc *ctx, struct ripc__peer *p, struct ripc__lane *lane)
{
	struct ripc__list *n;

	/* From the last to the first, so that each goes before the others at the head of its destination. */
	for (n = p->requests.prev; n != &p->requests;) {
		struct ripc_request *r = ripc__list_entry(n, struct ripc_request, peer_link);

		n = n->prev;
		if (r->lane == lane)
			ripc__request_lane_gone(r);
	}
}

/* Requests that are back from this peer, to services that are elsewhere now, wait for no lane of its. */
static void flush_moved_dests(struct ripc *ctx, const struct ripc__peer *p)
{
	struct ripc__dest *d, *tmp;

	HASH_ITER (hh, ctx->dests, d, tmp) {
		struct ripc__list *n = ripc__list_first(&d->pending);

		if (n && d->peer && d->peer != p &&
		    ripc__list_entry(n, struct ripc_request, link)->peer == p)
			ripc__dest_flush(ctx, d);
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
	/* The text may lie in what is about to be freed. */
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
	/* Nobody can reach our memory over it any more: now it may be given back. */
	ripc__local_returns_lane_gone(ctx, lane);
	ripc__rndv_lane_gone(ctx, lane);
	requests_lane_gone(ctx, p, lane);
	if (p->nrequests)
		flush_moved_dests(ctx, p);
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
	ripc__groups_lane_gone(ctx, p);
	if (p->pending_conn) {
		ripc__pending_conn_resolve(ctx, p, true);
		if (p->nlanes > 1)
			return;
	}
	/* With datagrams nobody may be waiting for the lane, and still it must be known whether the peer lives. */
	if (ripc__peer_has_work(p) || (ctx->datagrams && old_state == RIPC__LANE_UP))
		ripc__peer_connect(ctx, p);
	ripc__list_for_each_safe (n, tmp, &p->dests)
		ripc__wake(ctx, &ripc__list_entry(n, struct ripc__dest, link)->waitq);
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

/* One credit is kept for the messages that give credit back: see doc/protocol.md, section 1.4. */
static bool has_tx_credit(const struct ripc__lane *lane, bool returns_credit)
{
	if (lane->blocked)
		return false;
	return !lane->uses_credits || lane->tx_credits > (returns_credit ? 0u : 1u);
}

bool ripc__lane_can_send(const struct ripc__lane *lane)
{
	return ripc__list_empty(&lane->control) && has_tx_credit(lane, false);
}

static uint16_t credits_due(const struct ripc__lane *lane)
{
	return (uint16_t)(lane->rx_credits_due > 65535 ? 65535 : lane->rx_credits_due);
}

/* The transport does not take it. */
static int __attribute__((noinline)) post_failed(struct ripc__lane *lane, int rc)
{
	if (rc == -EAGAIN) {
		lane->blocked = true;
		lane->ctx->stats.queue_stalls++;
		lane->peer->stats.queue_stalls++;
		/* Whoever sleeps does not wait for room. */
		ripc__progress_request(lane->ctx);
	}
	return rc;
}

static inline __attribute__((always_inline)) int post_message(struct ripc__lane *lane,
							      uint8_t *header, size_t len,
							      const struct iovec *payload,
							      unsigned n, bool more)
{
	/* Of a SHORT with return buffers the header is not all that is before the payload. */
	bool plain = len == RIPC__FAST_HEADER_LEN && ripc__get_le64(header) == RIPC__FAST_HEADER_WORD;
	uint64_t dest = ripc__get_le64(header + 8), source = ripc__get_le64(header + 16);
	struct iovec iov[1 + RIPC_ITEMS_MAX];
	uint16_t credits = credits_due(lane);
	uint8_t again[RIPC__ELIDED_LEN];
	int rc;

	iov[0].iov_base = header;
	iov[0].iov_len = len;
	for (unsigned i = 0; i < n; i++)
		iov[1 + i] = payload[i];
	if (plain && lane_tp(lane)->ops->post_again &&
	    ripc__header_context_is(&lane->tx_last, dest, source)) {
		if (credits > RIPC__ELIDED_CREDITS_MAX)
			credits = RIPC__ELIDED_CREDITS_MAX;
		ripc__put_le32(again, ripc__elided_word(lane->tx_seq, credits));
		iov[0] = (struct iovec){again, sizeof(again)};
	}
	ripc__header_stamp(header, lane->tx_seq, credits);
	rc = lane_tp(lane)->ops->post_send(lane->ep, iov, 1 + n, more);
	if (RIPC__UNLIKELY(rc < 0))
		return post_failed(lane, rc);
	if (plain)
		lane->tx_last = (struct ripc__header_context){true, dest, source};
	lane->tx_seq++;
	lane->rx_credits_due -= credits;
	if (lane->uses_credits)
		lane->tx_credits--;
	if (RIPC__LIKELY(!rc))
		return 0;
	if (rc == 1)
		ripc__progress_request(lane->ctx);
	else
		ripc__progress_request_lazy(lane->ctx);
	return 0;
}

/* No credit, or no room, or others wait already. */
static int __attribute__((noinline)) mark_starved(struct ripc__lane *lane)
{
	lane->starved = true;
	ripc__lane_monitor(lane);
	if (!lane->blocked) {
		lane->ctx->stats.credit_stalls++;
		lane->peer->stats.credit_stalls++;
	}
	return -EAGAIN;
}

int ripc__lane_send(struct ripc__lane *lane, uint8_t *header, size_t len,
		    const struct iovec *payload, unsigned n, bool more)
{
	int rc;

	if (RIPC__UNLIKELY(!ripc__lane_can_send(lane)))
		return mark_starved(lane);
	rc = post_message(lane, header, len, payload, n, more);
	/* A lane that is about to be reported closed: the sender waits for what becomes of it. */
	return rc == -EMSGSIZE || !rc ? rc : -EAGAIN;
}

void ripc__lane_control(struct ripc__lane *lane, uint8_t *bytes, size_t len)
{
	struct ripc__control *c;

	if (lane->state != RIPC__LANE_UP)
		return;
	if (lane->ctx->delayed_ack.lane == lane)
		ripc__delayed_ack_flush(lane->ctx);
	if (ripc__list_empty(&lane->control) && has_tx_credit(lane, false) &&
	    !post_message(lane, bytes, len, NULL, 0, false))
		return;
	c = lane->ncontrol < CONTROL_MAX ? malloc(sizeof(*c) + len) : NULL;
	if (!c) {
		/* Without it the peer would wait for ever. The lane is closed by the timers: not here, in the middle of something. */
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
	if (kind == RIPC__ACK || kind == RIPC__RELEASE) {
		ripc__put_le64(p, b);
		p += 8;
	}
	ripc__lane_control(lane, buf, (size_t)(p - buf));
}

/* Tells the peer of free receive buffers when nothing else has for half of them. May use the last credit. */
static void send_credit(struct ripc__lane *lane)
{
	uint8_t buf[RIPC__HEADER_LEN + 8], *p;

	/* Of those that messages do not hold: else, with half of them held, it would never be that many. */
	if (lane->state != RIPC__LANE_UP || !lane->rx_depth ||
	    lane->rx_credits_due < (lane->rx_depth - lane->rx_held + 1) / 2 ||
	    !lane->rx_credits_due || !has_tx_credit(lane, true))
		return;
	p = ripc__header_put(buf, RIPC__CREDIT, 0, 0, 0, 0, 0);
	ripc__put_le64(p, 0);
	post_message(lane, buf, sizeof(buf), NULL, 0, false);
}

void ripc__lane_repost(struct ripc__lane *lane)
{
	if (!lane->rx_depth)
		return;
	lane->rx_credits_due++;
	send_credit(lane);
}

/* Sends the control messages that wait. Return: whether all are gone. */
static bool control_flush(struct ripc__lane *lane)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&lane->control))) {
		struct ripc__control *c = ripc__list_entry(n, struct ripc__control, link);

		if (!has_tx_credit(lane, false) || post_message(lane, c->bytes, c->len, NULL, 0, true))
			return false;
		ripc__list_del(n);
		lane->ncontrol--;
		free(c);
	}
	return true;
}

/* What waited behind a message that has left for a holder that its service has no more. */
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
	bool flush_others = false;

	if (lane->state != RIPC__LANE_UP)
		return;
	lane->starved = false;
	send_credit(lane);
	if (!control_flush(lane)) {
		lane->starved = true;
		return;
	}
	while ((n = ripc__list_first(&lane->rndvs)))
		if (!ripc__rndv_post(ripc__list_entry(n, struct ripc__rndv, lane_link)))
			break;
	ripc__list_for_each_safe (n, tmp, &lane->peer->requests) {
		struct ripc_request *r = ripc__list_entry(n, struct ripc_request, peer_link);

		if (r->lane == lane &&
		    (r->state == RIPC__REQUEST_WRITING || r->state == RIPC__REQUEST_GRANTED))
			flush_others |= ripc__request_continue(r);
		if (lane->state != RIPC__LANE_UP)
			break;
	}
	/* Not before: it may end others of these requests. */
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

/* ---- events and time ---- */

/* A sign of life: whoever wanted to replace this lane crossed with it. */
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
		ripc__dispatch_message(lane, ev);
		return;
	}
	switch (ev->kind) {
	case RIPC__EV_REQUEST:
		ripc__lane_on_request(ctx, tp, ev);
		return;
	case RIPC__EV_DATAGRAM:
		ripc__dispatch_datagram(ctx, tp, ev);
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
		/* Reported before it was closed, in the same round. */
		if (ev->kind == RIPC__EV_RECV && ev->token)
			ctx->tp[tp].ops->release(ctx->tp[tp].t, ev->token);
		if (ev->kind == RIPC__EV_IMPORTED)
			ripc__import_add(lane, (void *)(uintptr_t)ev->data, ev->size, ev->wr_id);
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
		/* Messages that arrive while the lane is retired do not prolong that. */
		ripc__dispatch_message(lane, ev);
		break;
	case RIPC__EV_WRITE_DONE:
		lane_received(lane);
		ripc__request_write_done((struct ripc_request *)(uintptr_t)ev->wr_id, ev->status);
		break;
	case RIPC__EV_READ_DONE:
		lane_received(lane);
		lane->reads--;
		ripc__rndv_read_done((struct ripc__rndv *)(uintptr_t)ev->wr_id, ev->status);
		break;
	case RIPC__EV_IMPORTED:
		ripc__import_add(lane, (void *)(uintptr_t)ev->data, ev->size, ev->wr_id);
		break;
	case RIPC__EV_SENDABLE:
		lane->blocked = false;
		ripc__lane_flush(lane);
		break;
	default:
		break;
	}
}

/* Whether something of ours hangs on the life of this lane. */
static bool lane_has_work(const struct ripc__lane *lane)
{
	struct ripc__list *n;

	if (lane->reads || !ripc__list_empty((struct ripc__list *)&lane->control))
		return true;
	if (lane->peer->lane == lane && ripc__peer_has_work(lane->peer))
		return true;
	ripc__list_for_each (n, &lane->ctx->memory.returns) {
		const struct ripc__local_return *r =
			ripc__list_entry(n, struct ripc__local_return, link);

		if (r->lane == lane && r->revoking)
			return true;
	}
	return false;
}

/*
 * Whether a long transfer is on its way, however slowly: on a slow link minutes may pass until the first read is done.
 * Less than TRANSFER_MIN_BYTES may be our own PING, which the kernel of a stopped process acknowledges, too.
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

/* Neither up nor refused, or not closed, by the end of its time. */
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
	ripc__requests_timer(lane);
	if (lane->state != RIPC__LANE_UP)
		return;
	if (!lane_has_work(lane)) {
		/* Silence without a reason to speak is not held against it later: ripc__lane_monitor(). */
		lane->idle = true;
		ripc__bounces_trim(lane);
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
	/* What a post refused for want of memory is announced by no event. */
	if (!lane->blocked)
		ripc__lane_flush(lane);
}

void ripc__lane_timers(struct ripc *ctx)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &ctx->lanes)
		lane_timer(ripc__list_entry(n, struct ripc__lane, link));
}
