/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a lane comes to be: connecting, accepting, crossed connections. Contract in lane.h. */
#include "core/lane.h"
#include "core/peer.h"
#include "core/request.h"

#include <stdlib.h>

#define HELD_NS (500 * RIPC__MS) /* how long a lane may stay silent when its peer connects anew */

void ripc__lane_hello(struct ripc *ctx, unsigned tp, const uint8_t target[16], unsigned refusal,
		      uint8_t buf[RIPC__HELLO_LEN])
{
	const struct ripc__transport_limits *l = &ctx->tp[tp].limits;
	struct ripc__hello h = {
		.refusal = (uint8_t)refusal,
		.send_max = l->send_max,
		.recv_depth = l->recv_depth,
		.service_window = ctx->opt.service_window / RIPC__CREDIT_UNIT,
		.caps = l->caps & (RIPC__CAP_READ | RIPC__CAP_WRITE),
	};

	memcpy(h.instance, ctx->instance, 16);
	memcpy(h.target, target, 16);
	ripc__hello_encode(&h, buf);
}

static struct ripc__lane *lane_new(struct ripc *ctx, struct ripc__peer *p, unsigned tp, bool active,
				   uint64_t connect_ns)
{
	struct ripc__lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->ctx = ctx;
	lane->peer = p;
	lane->tp = tp;
	lane->active = active;
	lane->state = active ? RIPC__LANE_CONNECTING : RIPC__LANE_ACCEPTING;
	lane->rx_depth = ctx->tp[tp].limits.recv_depth;
	lane->heard_ns = ripc__now(ctx);
	lane->connect_ns = connect_ns;
	ripc__list_init(&lane->control);
	ripc__list_init(&lane->rndvs);
	ripc__list_add(&ctx->lanes, &lane->link);
	p->nlanes++;
	ripc__timer_at(ctx, lane->heard_ns + connect_ns);
	return lane;
}

/* What the two sides' limits come to. */
static void lane_limits(struct ripc__lane *lane, const struct ripc__hello *h)
{
	const struct ripc__transport_limits *l = &lane->ctx->tp[lane->tp].limits;

	lane->send_max = h->send_max < l->send_max ? h->send_max : l->send_max;
	lane->caps = l->caps & h->caps & (RIPC__CAP_READ | RIPC__CAP_WRITE);
	lane->counts = h->recv_depth != 0;
	lane->tx_credits = h->recv_depth;
	lane->service_window = h->service_window;
}

int ripc__lane_connect(struct ripc *ctx, struct ripc__peer *p, unsigned tp, const uint8_t *addr,
		       size_t len, bool last)
{
	uint8_t hello[RIPC__HELLO_LEN];
	struct ripc__lane *lane =
		lane_new(ctx, p, tp, true, last ? RIPC__CONNECT_NS : RIPC__CONNECT_FIRST_NS);
	int rc;

	if (!lane)
		return ripc__fail(-ENOMEM, "out of memory");
	ripc__lane_hello(ctx, tp, p->instance, RIPC__REFUSE_NONE, hello);
	rc = ctx->tp[tp].ops->connect(ctx->tp[tp].t, addr, len, hello, sizeof(hello), lane, &lane->ep);
	if (rc) {
		lane->ep = NULL;
		ripc__lane_close(lane);
		return rc;
	}
	p->out = lane;
	return 0;
}

static int lane_accept(struct ripc *ctx, struct ripc__peer *p, unsigned tp, void *request,
		       const struct ripc__hello *h)
{
	uint8_t hello[RIPC__HELLO_LEN];
	struct ripc__lane *lane = lane_new(ctx, p, tp, false, RIPC__CONNECT_NS);
	int rc;

	if (!lane) {
		ripc__lane_hello(ctx, tp, h->instance, RIPC__REFUSE_MEMORY, hello);
		ctx->tp[tp].ops->reject(ctx->tp[tp].t, request, hello, sizeof(hello));
		return -ENOMEM;
	}
	lane_limits(lane, h);
	ripc__lane_hello(ctx, tp, h->instance, RIPC__REFUSE_NONE, hello);
	rc = ctx->tp[tp].ops->accept(ctx->tp[tp].t, request, hello, sizeof(hello), lane, &lane->ep);
	if (rc) {
		lane->ep = NULL;
		ripc__lane_close(lane);
	}
	return rc;
}

static void reject(struct ripc *ctx, unsigned tp, void *request, const uint8_t target[16],
		   unsigned refusal)
{
	uint8_t hello[RIPC__HELLO_LEN];

	ripc__lane_hello(ctx, tp, target, refusal, hello);
	ctx->tp[tp].ops->reject(ctx->tp[tp].t, request, hello, sizeof(hello));
}

void ripc__held_decide(struct ripc *ctx, struct ripc__peer *p, bool accept)
{
	struct ripc__held *held = p->held;

	if (!held)
		return;
	p->held = NULL;
	if (accept)
		lane_accept(ctx, p, held->tp, held->request, &held->hello);
	else
		reject(ctx, held->tp, held->request, p->instance, RIPC__REFUSE_CROSSED);
	free(held);
}

/*
 * Somebody wants to connect. If we have a lane already, either the peer lost it, or the two connections crossed and this
 * request is the older: a PING tells. If our own attempt is under way, the smaller instance id wins, at both ends.
 */
void ripc__lane_requested(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	static const uint8_t nobody[16];
	struct ripc__hello h;
	struct ripc__peer *p;
	const char *why;
	int rc = ripc__hello_decode(&h, ev->data, ev->len, &why);
	bool self = ctx->tp[tp].limits.caps & RIPC__CAP_SELF;

	if (rc || h.refusal) {
		ctx->stats.bad_peers++;
		ripc__log(RIPC_LOG_WARN, "connection from %s over %s refused: %s",
			  ev->text ? ev->text : "unknown", ctx->tp[tp].ops->name,
			  rc ? why : "a refusal as a request");
		reject(ctx, tp, ev->request, nobody,
		       rc == -EPROTONOSUPPORT ? RIPC__REFUSE_VERSION : RIPC__REFUSE_NOT_ME);
		return;
	}
	if (memcmp(h.target, ctx->instance, 16) || (!self && !memcmp(h.instance, ctx->instance, 16))) {
		reject(ctx, tp, ev->request, h.instance, RIPC__REFUSE_NOT_ME);
		return;
	}
	if (ctx->closing) {
		reject(ctx, tp, ev->request, h.instance, RIPC__REFUSE_CLOSING);
		return;
	}
	p = ripc__peer_get(ctx, h.instance);
	if (!p) {
		reject(ctx, tp, ev->request, h.instance, RIPC__REFUSE_MEMORY);
		return;
	}
	p->used_ns = ripc__now(ctx);
	if (self) {
		lane_accept(ctx, p, tp, ev->request, &h);
	} else if (p->lane) {
		struct ripc__held *held = malloc(sizeof(*held));

		ripc__held_decide(ctx, p, false);
		if (!held) {
			reject(ctx, tp, ev->request, h.instance, RIPC__REFUSE_MEMORY);
			return;
		}
		held->tp = tp;
		held->request = ev->request;
		held->hello = h;
		held->until_ns = p->used_ns + HELD_NS;
		p->held = held;
		ripc__timer_at(ctx, held->until_ns);
		ripc__lane_word(p->lane, RIPC__PING, 0, 0, p->used_ns, 0);
	} else if (p->out && memcmp(ctx->instance, h.instance, 16) < 0) {
		reject(ctx, tp, ev->request, h.instance, RIPC__REFUSE_CROSSED);
	} else {
		lane_accept(ctx, p, tp, ev->request, &h);
	}
}

static void lane_up(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__peer *p = lane->peer;
	struct ripc__lane *old = NULL;
	struct ripc__list *n, *tmp;

	lane->state = RIPC__LANE_UP;
	lane->heard_ns = ripc__now(ctx);
	lane->idle = true;
	if (p->out == lane)
		p->out = NULL;
	ctx->stats.lanes_opened++;
	ctx->stats.lanes++;
	p->stats.lanes_opened++;
	p->used_ns = lane->heard_ns;
	p->crossed = p->lost = false;
	p->give_up_ns = p->retry_ns = 0;
	p->try_index = 0;
	ripc__log(RIPC_LOG_DEBUG, "lane to %s over %s is up, %s", ripc__instance_text(p->instance),
		  lane->ctx->tp[lane->tp].ops->name, lane->active ? "we connected" : "it connected");
	/* The passive end of a connection to ourselves only receives. */
	if (lane->ctx->tp[lane->tp].limits.caps & RIPC__CAP_SELF && !lane->active)
		return;
	if (p->lane) {
		/* Both connections came up: both ends keep that of the smaller instance id. */
		bool ours_wins = memcmp(ctx->instance, p->instance, 16) < 0;

		if (lane->active != ours_wins) {
			ripc__lane_fail(lane, -EALREADY, "crossed connections");
			return;
		}
		old = p->lane;
	}
	p->lane = lane;
	if (old) {
		ripc__list_for_each (n, &p->dests) {
			ripc__list_entry(n, struct ripc__dest, link)->credit = NULL;
			ripc__offers_drop(ripc__list_entry(n, struct ripc__dest, link));
		}
		ripc__lane_fail(old, -EALREADY, "crossed connections");
	}
	ripc__list_for_each_safe (n, tmp, &p->dests) {
		struct ripc__dest *d = ripc__list_entry(n, struct ripc__dest, link);

		ripc__dest_pump(ctx, d);
		ripc__wake(ctx, &d->waitq);
		if (lane->state != RIPC__LANE_UP)
			return;
	}
	if (ripc__peer_busy(p))
		ripc__lane_watch(lane);
}

void ripc__lane_established(struct ripc__lane *lane, const struct ripc__event *ev)
{
	struct ripc__hello h;
	const char *why;

	if (lane->active) {
		if (ripc__hello_decode(&h, ev->data, ev->len, &why))
			h.refusal = RIPC__REFUSE_VERSION;
		else if (memcmp(h.instance, lane->peer->instance, 16) || h.refusal)
			why = "another instance answers there";
		else
			why = NULL;
		if (why) {
			ripc__lane_fail(lane, -ECONNREFUSED, why);
			return;
		}
		lane_limits(lane, &h);
	}
	lane_up(lane);
}
