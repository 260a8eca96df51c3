/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/connect.h"
#include "auth/handshake.h"
#include "core/peer/attempt.h"
#include "core/peer/endpoint.h"
#include "core/peer/eviction.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/peer.h"
#include "core/peer/ops.h"

#include <stdlib.h>

/*
 * The time that a lane has to answer when its peer connects anew. If the lane is new, the
 * connections have probably crossed, and its peer may only lack a processor.
 */
#define PENDING_NS (250 * RIPC__MS)
#define NEW_NS     (500 * RIPC__MS) /* a lane is new for this time after it came up */
/* Attempts that go on for longer do not win over the peer's; at most 3/8 of peer_timeout_ms. */
#define LATE_NS (750 * RIPC__MS)

void ripc__pending_conn_wait(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__pending_conn *pending_conn = p->pending_conn;
	uint64_t until_ns = pending_conn->since_ns + ctx->opt.peer_timeout_ms * RIPC__MS / 2;

	if (pending_conn->until_ns < until_ns)
		pending_conn->until_ns = until_ns;
}

/*
 * The reason of a refusal, and *why, its text. RIPC__REFUSE_NONE: it was malformed, or, with
 * another *status, it was not authenticated.
 */
static unsigned lane_refusal(const struct ripc__lane *lane, const struct ripc__event *ev,
			     int *status, const char **why)
{
	struct ripc__hello h;

	if (ripc__hello_decode(&h, ev->data, ev->len, why)) {
		if (ev->text)
			*why = ev->text;
		return RIPC__REFUSE_NONE;
	}
	/* Without authentication: anybody on the path could have sent it. */
	if (lane->shake &&
	    !ripc__handshake_check_reply(lane->ctx->auth, lane->shake, ev->data, ev->len)) {
		ripc__auth_count_unauth(lane->ctx->auth);
		*status = -EPROTO;
		h.refusal = RIPC__REFUSE_NONE;
	}
	*why = ripc__refusal_text(h.refusal);
	return h.refusal;
}

void ripc__lane_on_closed(struct ripc__lane *lane, const struct ripc__event *ev)
{
	int status = ev->status;
	const char *why;
	unsigned refusal;

	if (lane->state != RIPC__LANE_CONNECTING || !ev->reject) {
		ripc__lane_fail(lane, status, ev->text);
		return;
	}
	refusal = lane_refusal(lane, ev, &status, &why);
	ripc__lane_close(lane);
	ripc__peer_attempt_failed(lane->ctx, lane->peer, lane->tp, status, refusal, why);
}

bool ripc__pending_conn_resolve(struct ripc *ctx, struct ripc__peer *p, bool accept)
{
	struct ripc__pending_conn *pending_conn = p->pending_conn;
	bool accepted = false;

	if (!pending_conn)
		return false;
	p->pending_conn = NULL;
	if (accept)
		accepted = !ripc__lane_accept(ctx, p, &pending_conn->request);
	else
		ripc__lane_reject(ctx, &pending_conn->request, RIPC__REFUSE_CROSSED);
	free(pending_conn);
	return accepted;
}

/*
 * Whether the attempts of this context have lasted so long that they would have reached the peer,
 * even if its own began at the same time. Then, as far as is known, only the peer can connect.
 */
static bool attempts_are_late(struct ripc *ctx, const struct ripc__peer *p)
{
	uint64_t timeout_ns = ctx->opt.peer_timeout_ms * RIPC__MS, late_ns = timeout_ns / 8 * 3;

	if (late_ns > LATE_NS)
		late_ns = LATE_NS;
	return p->unreachable_ns && ripc__now(ctx) + timeout_ns >= p->unreachable_ns + late_ns;
}

/*
 * A valid connection request arrived: doc/protocol.md, section 2.2. A lane that is being retired is
 * drained first, so that its messages come before those of the new lane. Return: the cause of its
 * refusal, or RIPC__REFUSE_NONE.
 */
static unsigned on_hello(struct ripc *ctx, struct ripc__conn_request *r)
{
	bool self = ctx->tp[r->tp].limits.caps & RIPC__CAP_SELF;
	const struct ripc__hello *h = &r->hello;
	struct ripc__pending_conn *pending_conn;
	struct ripc__peer *p;

	if (memcmp(h->target, ctx->instance, 16) ||
	    (!self && !memcmp(h->instance, ctx->instance, 16)))
		return RIPC__REFUSE_STALE;
	if (ctx->closing)
		return RIPC__REFUSE_CLOSING;
	ripc__evict_pending(ctx);
	p = self ? ripc__peer_get(ctx, h->instance) : ripc__peer_admit(ctx, h->instance, r->source);
	if (!p)
		return RIPC__REFUSE_MEMORY;
	p->used_ns = ripc__now(ctx);
	if (!p->lane && !ripc__lane_retiring(ctx, p)) {
		if (p->out && memcmp(ctx->instance, h->instance, 16) < 0 &&
		    !attempts_are_late(ctx, p))
			return RIPC__REFUSE_CROSSED;
		ripc__lane_accept(ctx, p, r);
		return RIPC__REFUSE_NONE;
	}
	ripc__pending_conn_resolve(ctx, p, false);
	pending_conn = p->pending_conn = malloc(sizeof(*pending_conn));
	if (!pending_conn)
		return RIPC__REFUSE_MEMORY;
	*pending_conn = (struct ripc__pending_conn){
		.request = *r, .since_ns = p->used_ns, .until_ns = p->used_ns + PENDING_NS};
	if (p->lane && p->used_ns - p->lane->up_ns < NEW_NS)
		ripc__pending_conn_wait(ctx, p);
	ripc__timer_at(ctx, pending_conn->until_ns);
	if (p->lane)
		ripc__lane_ping(p->lane);
	return RIPC__REFUSE_NONE;
}

void ripc__lane_on_request(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	struct ripc__conn_request r = {.tp = tp, .request = ev->request, .source = ev->source};
	const char *why;
	int rc = ripc__hello_decode(&r.hello, ev->data, ev->len, &why);
	unsigned refusal;

	/* Checked first: unauthenticated and replayed requests get no answer and use no memory. */
	if (ripc__lane_needs_auth(ctx, tp)) {
		bool proved = ripc__handshake_check_request(ctx->auth, &r.shake, ev->data, ev->len);

		if (!proved)
			ripc__auth_count_unauth(ctx->auth);
		if (!proved ||
		    !ripc__auth_nonce_is_new(ctx->auth, ripc__handshake_nonce(&r.shake))) {
			ctx->stats.bad_peers++;
			ctx->tp[tp].ops->reject(ctx->tp[tp].t, ev->request, NULL, 0);
			return;
		}
	}
	if (rc || r.hello.refusal) {
		ctx->stats.bad_peers++;
		ripc__log(RIPC_LOG_WARN, "connection from %s over %s refused: %s",
			  ev->text ? ev->text : "unknown", ctx->tp[tp].ops->name,
			  rc ? why : "a refusal as a request");
		memset(r.hello.instance, 0, sizeof(r.hello.instance));
		ripc__lane_reject(ctx, &r,
				  rc == -EPROTONOSUPPORT ? RIPC__REFUSE_VERSION
							 : RIPC__REFUSE_STALE);
		return;
	}
	refusal = on_hello(ctx, &r);
	if (refusal)
		ripc__lane_reject(ctx, &r, refusal);
}

static void lane_up(struct ripc__lane *lane)
{
	static const char crossed[] = "both sides connected at once: the other connection stays";
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;
	uint64_t remote_epoch = lane->remote_epoch;
	struct ripc__lane *old = NULL;
	struct ripc__dest *d, *tmp;

	if (!lane->connect_ns) {
		ripc__lane_fail(lane, -ETIMEDOUT,
				"too late: the attempts to reach the peer have ended");
		return;
	}
	/* The peer has closed the silent lane, or it would have refused this one. */
	if (lane->replaces) {
		ripc__pending_conn_resolve(ctx, p, false);
		ripc__lane_fail(p->lane, -EALREADY,
				"silent: another connection to the peer replaces it");
	}
	ripc__lane_set_state(lane, RIPC__LANE_UP);
	lane->last_rx_ns = lane->up_ns = ripc__now(ctx);
	lane->pinged_ns = 0;
	lane->bytes_transferred = 0;
	lane->silence = RIPC__SILENCE_IDLE;
	if (p->out == lane)
		p->out = NULL;
	ctx->stats.lanes_opened++;
	p->stats.lanes_opened++;
	p->used_ns = lane->last_rx_ns;
	p->round = RIPC__ROUND_REFUSED;
	p->contact = RIPC__CONTACT_NORMAL;
	p->unreachable_ns = p->retry_ns = 0;
	p->next_path = 0;
	ripc__log(RIPC_LOG_DEBUG, "lane to peer %s over %s is up: %s",
		  ripc__instance_text(p->instance), lane->ctx->tp[lane->tp].ops->name,
		  lane->active ? "this context connected" : "the peer connected");
	/* The passive end of a connection to this context only receives. */
	if (lane->ctx->tp[lane->tp].limits.caps & RIPC__CAP_SELF && !lane->active)
		return;
	if (p->lane) {
		/* Both connections are up: both ends keep that of the smaller instance id. */
		bool ours_wins = memcmp(ctx->instance, p->instance, 16) < 0;

		if (lane->active != ours_wins) {
			ripc__lane_fail(lane, -EALREADY, crossed);
			return;
		}
		old = p->lane;
		ripc__peer_lane_ends(p);
	}
	p->lane = lane;
	ripc__attempts_clear_tp(p, lane->tp);
	if (old)
		ripc__lane_fail(old, -EALREADY, crossed);
	/* The peer lost its dedup window, which also covers requests sent on the old lane. */
	if (p->remote_epoch && p->remote_epoch != remote_epoch)
		ctx->peer_ops->dedup_lost(ctx, p);
	p->remote_epoch = remote_epoch;
	if (old)
		ctx->peer_ops->lane_replaced(lane);
	ctx->peer_ops->lane_up(lane);
	ripc__list_for_each_entry_safe (d, tmp, &p->lists->dests, link) {
		d->failures = 0;
		ripc__dest_flush(ctx, d);
		ripc__dest_wake(ctx, d);
		if (lane->state != RIPC__LANE_UP)
			return;
	}
	if (ripc__peer_has_work(p))
		ripc__lane_monitor(lane);
}

/*
 * Sends the last step of the handshake, which proves to the other side that this message is fresh.
 */
static const char *send_confirm(struct ripc__lane *lane, const struct ripc__event *ev, int *status)
{
	uint8_t bytes[RIPC__CONFIRM_LEN];
	struct ripc *ctx = lane->ctx;

	/* An authentication failure does not show that the peer is elsewhere. */
	*status = -EPROTO;
	if (!ripc__handshake_check_reply(ctx->auth, lane->shake, ev->data, ev->len)) {
		ripc__auth_count_unauth(ctx->auth);
		return "the process that answers there does not have our key";
	}
	if (!ripc__handshake_confirm(ctx->auth, lane->shake, bytes))
		return "the key was taken away meanwhile";
	if (ctx->tp[lane->tp].ops->post(lane->ep, bytes, sizeof(bytes), NULL, 0, false) < 0)
		return "the handshake could not be confirmed";
	if (lane->uses_credits)
		lane->tx_credits--;
	free(lane->shake);
	lane->shake = NULL;
	return NULL;
}

void ripc__lane_on_confirm(struct ripc__lane *lane, const struct ripc__event *ev)
{
	struct ripc *ctx = lane->ctx;
	bool ok = ripc__handshake_check_confirm(ctx->auth, lane->shake, ev->data, ev->len);

	ripc__event_release(ctx, lane->tp, ev);
	if (!ok) {
		ctx->stats.bad_peers++;
		ripc__auth_count_unauth(ctx->auth);
		ripc__lane_fail(lane, -EPROTO,
				"the connecting process did not prove that it has our key");
		return;
	}
	free(lane->shake);
	lane->shake = NULL;
	lane_up(lane);
	if (lane->state == RIPC__LANE_UP)
		ripc__lane_repost(lane);
}

void ripc__lane_on_established(struct ripc__lane *lane, const struct ripc__event *ev)
{
	struct ripc__hello h;
	const char *why;
	int status = -ECONNREFUSED;

	if (lane->active) {
		if (ripc__hello_decode(&h, ev->data, ev->len, &why))
			h.refusal = RIPC__REFUSE_VERSION;
		else if (memcmp(h.instance, lane->peer->instance, 16) || h.refusal)
			why = "another instance answers there";
		else
			why = NULL;
		if (!why)
			ripc__lane_set_limits(lane, &h);
		if (!why && lane->shake)
			why = send_confirm(lane, ev, &status);
		if (why) {
			ripc__lane_fail(lane, status, why);
			return;
		}
	} else if (lane->shake) {
		/* Wait for its confirmation. */
		return;
	}
	lane_up(lane);
}
