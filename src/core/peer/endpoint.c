/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/endpoint.h"

#include <stdlib.h>

/* Bits that each hello of this version has. */
#define HELLO_CAPS (RIPC__CAP_STANDING | RIPC__CAP_DATAGRAM_CONTEXT | RIPC__CAP_FLOW_END)
/* Bits of a transport's limits that a hello has as well; a lane has those that both ends have. */
#define SHARED_CAPS (RIPC__CAP_READ | RIPC__CAP_WRITE | RIPC__CAP_EXPORT | RIPC__CAP_WRITE_IMM)

_Static_assert(RIPC__HANDSHAKE_LEN <= RIPC__PRIVATE_MAX, "it is private data of a connection");

void ripc__lane_hello(struct ripc *ctx, unsigned tp, const uint8_t target[16], unsigned refusal,
		      uint8_t buf[RIPC__HELLO_LEN])
{
	const struct ripc__transport_limits *l = &ctx->tp[tp].limits;
	const struct ripc__peer *p = ripc__peer_find(ctx, target);
	struct ripc__hello h = {
		.epoch = p ? p->epoch : 0,
		.refusal = (uint8_t)refusal,
		.send_max = l->send_max,
		.recv_depth = l->recv_depth,
		.service_window = ctx->opt.service_window / RIPC__CREDIT_UNIT,
		.caps = (l->caps & SHARED_CAPS) | HELLO_CAPS,
	};

	memcpy(h.instance, ctx->instance, 16);
	memcpy(h.target, target, 16);
	ripc__hello_encode(&h, buf);
}

bool ripc__lane_needs_auth(const struct ripc *ctx, unsigned tp)
{
	return ctx->auth && !(ctx->tp[tp].limits.caps & RIPC__CAP_SELF);
}

/*
 * Encodes the reply to a request, with a proof if there are keys. Return: its bytes; 0: no proof
 * possible.
 */
static size_t encode_reply(struct ripc *ctx, struct ripc__conn_request *r, unsigned refusal,
			   uint8_t buf[RIPC__HANDSHAKE_LEN])
{
	uint8_t nonce[RIPC__NONCE];

	ripc__lane_hello(ctx, r->tp, r->hello.instance, refusal, buf);
	if (!ripc__lane_needs_auth(ctx, r->tp))
		return RIPC__HELLO_LEN;
	if (ripc__random(ctx, nonce, sizeof(nonce)))
		return 0;
	ripc__handshake_reply(ctx->auth, &r->shake, nonce, buf);
	return RIPC__HANDSHAKE_LEN;
}

static struct ripc__lane *lane_new(struct ripc *ctx, struct ripc__peer *p, unsigned tp, bool active,
				   uint64_t connect_ns)
{
	struct ripc__lane *lane = calloc(1, sizeof(*lane));

	if (lane && ripc__lane_needs_auth(ctx, tp) &&
	    !(lane->shake = calloc(1, sizeof(*lane->shake)))) {
		free(lane);
		lane = NULL;
	}
	if (!lane)
		return NULL;
	lane->ctx = ctx;
	lane->peer = p;
	lane->tp = (uint8_t)tp;
	lane->active = active;
	lane->state = active ? RIPC__LANE_CONNECTING : RIPC__LANE_ACCEPTING;
	lane->rx_depth = ctx->tp[tp].limits.recv_depth;
	lane->last_rx_ns = ripc__now(ctx);
	lane->connect_ns = connect_ns;
	ripc__list_init(&lane->control);
	ripc__table_init(&lane->flows, ctx->secret);
	ripc__lane_memory_init(lane);
	ripc__list_add(&ctx->lanes, &lane->link);
	p->nlanes++;
	ripc__timer_at(ctx, lane->last_rx_ns + connect_ns);
	return lane;
}

void ripc__lane_set_limits(struct ripc__lane *lane, const struct ripc__hello *h)
{
	const struct ripc__transport_limits *l = &lane->ctx->tp[lane->tp].limits;

	lane->send_max = h->send_max < l->send_max ? h->send_max : l->send_max;
	lane->caps = (l->caps & h->caps & SHARED_CAPS) | (h->caps & HELLO_CAPS);
	lane->uses_credits = h->recv_depth != 0;
	lane->tx_credits = h->recv_depth;
	lane->service_window = h->service_window;
	lane->remote_epoch = h->epoch;
}

/* The transport has made the endpoint, or has failed with rc. Return: rc. */
static int lane_started(struct ripc__lane *lane, int rc)
{
	struct ripc *ctx = lane->ctx;

	if (rc) {
		lane->ep = NULL;
		ripc__lane_close(lane);
		/* A resource is exhausted: the next attempt evicts idle lanes. */
		if (ripc__is_shortage(rc))
			ctx->evict_cause = rc;
	} else {
		ctx->tp[lane->tp].nlanes++;
		ctx->active_tps |= 1u << lane->tp;
	}
	return rc;
}

int ripc__lane_connect(struct ripc *ctx, struct ripc__peer *p, unsigned tp, const uint8_t *addr,
		       size_t len, uint64_t limit_ns)
{
	uint8_t hello[RIPC__HANDSHAKE_LEN], nonce[RIPC__NONCE];
	size_t hellolen = RIPC__HELLO_LEN;
	struct ripc__lane *lane = lane_new(ctx, p, tp, true, limit_ns);
	int rc;

	if (!lane)
		return ripc__fail(-ENOMEM, "out of memory");
	ripc__lane_hello(ctx, tp, p->instance, RIPC__REFUSE_NONE, hello);
	if (lane->shake) {
		if (ripc__random(ctx, nonce, sizeof(nonce))) {
			ripc__lane_close(lane);
			return ripc__fail(-ENOMEM, "out of memory");
		}
		ripc__handshake_request(ctx->auth, lane->shake, nonce, hello);
		hellolen = sizeof(hello);
	}
	rc = ctx->tp[tp].ops->connect(ctx->tp[tp].t, addr, len, hello, hellolen, lane, &lane->ep);
	rc = lane_started(lane, rc);
	if (!rc)
		p->out = lane;
	return rc;
}

void ripc__lane_reject(struct ripc *ctx, struct ripc__conn_request *r, unsigned refusal)
{
	uint8_t hello[RIPC__HANDSHAKE_LEN];
	size_t len = encode_reply(ctx, r, refusal, hello);

	ctx->tp[r->tp].ops->reject(ctx->tp[r->tp].t, r->request, len ? hello : NULL, len);
}

int ripc__lane_accept(struct ripc *ctx, struct ripc__peer *p, struct ripc__conn_request *r)
{
	struct ripc__lane *lane = lane_new(ctx, p, r->tp, false, RIPC__CONNECT_NS);
	const struct ripc__tp *tp = &ctx->tp[r->tp];
	uint8_t hello[RIPC__HANDSHAKE_LEN];
	size_t len;
	int rc;

	if (!lane) {
		ripc__lane_reject(ctx, r, RIPC__REFUSE_MEMORY);
		return -ENOMEM;
	}
	p->source = r->source;
	ripc__lane_set_limits(lane, &r->hello);
	len = encode_reply(ctx, r, RIPC__REFUSE_NONE, hello);
	if (lane->shake)
		*lane->shake = r->shake;
	if (len) {
		rc = tp->ops->accept(tp->t, r->request, hello, len, lane, &lane->ep);
	} else {
		tp->ops->reject(tp->t, r->request, NULL, 0);
		rc = -EIO;
	}
	return lane_started(lane, rc);
}
