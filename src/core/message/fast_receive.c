/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The fast path of receiving: short messages of one item, plain, reliable, or of a call, that are
 * the next ones of their sender and need nothing else. dispatch.c handles all others.
 */
#include "core/message/fast_receive.h"
#include "core/message/receive.h"
#include "core/peer/datagram_context.h"

/* A datagram with one item and nothing else: its first 8 bytes, the length of its header. */
#define DATAGRAM_WORD (RIPC__FAST_HEADER_WORD | (uint64_t)RIPC__F_INSTANCE << 32)
#define DATAGRAM_LEN  (RIPC__FAST_HEADER_LEN + 16)

/* As receive_datagram(), for one with the full header, from ctx->last_peer. */
static bool receive_full(struct ripc_service *s, unsigned tp, struct ripc__message *m,
			 const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__peer *p = ctx->last_peer;
	const uint8_t *data = ev->data;

	if (ev->len < DATAGRAM_LEN || ripc__get_le64(data) != DATAGRAM_WORD ||
	    ripc__get_le64(data + 8) != s->id ||
	    ripc__get_le32(data + RIPC__HEADER_LEN + 16) != ev->len - DATAGRAM_LEN || !p ||
	    !p->lists->datagrams || memcmp(p->instance, data + RIPC__HEADER_LEN, 16) ||
	    !ripc__replay_next(&p->lists->datagrams->received, p->lists->datagrams->seen,
			       ripc__get_le64(data + 24), ctx->now_ns))
		return false;
	ripc__message_fill(s, p, tp, m, ev, ripc__get_le64(data + 16), DATAGRAM_LEN);
	return true;
}

/* Takes a datagram if it is the next of its sender. Return: false: nothing was done. */
static bool __attribute__((noinline))
receive_datagram(struct ripc_service *s, unsigned tp, struct ripc__message *m,
		 const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	const struct ripc__datagram_context *c = ctx->last_datagram_context;
	struct ripc__peer_datagrams *datagrams;

	if (s->state == RIPC__SERVICE_TAKEN_OVER || ctx->auth ||
	    !(ctx->tp[tp].limits.caps & RIPC__CAP_DATAGRAM) || !ripc__event_in_place(m, ev))
		return false;
	if (!c || ev->len < RIPC__ELIDED_DATAGRAM_LEN || ripc__get_le64(ev->data) != c->word)
		return receive_full(s, tp, m, ev);
	/* This side may send with the header context. */
	datagrams = c->peer->lists->datagrams;
	if (c->d || c->services.dest != s->id ||
	    !ripc__replay_next(&datagrams->received, datagrams->seen,
			       ripc__elided_datagram_number(ev->data, c->first), ctx->now_ns))
		return false;
	ripc__message_fill(s, c->peer, tp, m, ev, c->services.source, RIPC__ELIDED_DATAGRAM_LEN);
	return true;
}

enum ripc__fast ripc__receive_any(struct ripc *ctx, struct ripc_service *s, unsigned tp,
				  struct ripc__message *m, const struct ripc__event *ev)
{
	if (*ev->data == RIPC__ELIDED_REPLY)
		return ripc__receive_with(ctx, s, tp, m, ev, RIPC__F_RELIABLE | RIPC__F_REPLY,
					  true);
	return ev->len < RIPC__FAST_HEADER_LEN
		       ? RIPC__FAST_NOTHING
		       : ripc__receive_with(ctx, s, tp, m, ev, ripc__get_le16(ev->data + 4), false);
}

void ripc__receive_reply(struct ripc__message *m, const struct ripc__call_words *call,
			 struct ripc__peer *p)
{
	struct ripc *ctx = m->ctx;

	ripc__event_begin(ctx);
	ripc__call_reply(m, call->id, (uint32_t)call->word, p);
	ripc__event_end(ctx);
}

enum ripc__fast ripc__fast_receive(struct ripc *ctx, struct ripc_service *s, unsigned tp,
				   struct ripc__message *m, const struct ripc__event *ev)
{
	if (ev->kind == RIPC__EV_RECV)
		return ripc__receive_next(ctx, s, tp, m, ev);
	return ev->kind == RIPC__EV_DATAGRAM && s && receive_datagram(s, tp, m, ev)
		       ? RIPC__FAST_MESSAGE
		       : RIPC__FAST_NOTHING;
}
