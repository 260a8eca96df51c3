/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The fast path of receiving: short messages of one item, plain, reliable, or of a call, that are
 * the next ones of their sender and need nothing else. dispatch.c handles all others.
 */
#include "core/call/call.h"
#include "core/message/fast_receive.h"
#include "core/message/receive.h"

/* A datagram with one item and nothing else: its first 8 bytes, the length of its header. */
#define DATAGRAM_WORD (RIPC__FAST_HEADER_WORD | (uint64_t)RIPC__F_INSTANCE << 32)
#define DATAGRAM_LEN  (RIPC__FAST_HEADER_LEN + 16)

/* Takes a datagram from ctx->last_peer if it is the next. Return: false: nothing was done. */
static bool __attribute__((noinline))
receive_datagram(struct ripc_service *s, unsigned tp, struct ripc__message *m,
		 const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__peer *p = ctx->last_peer;
	const uint8_t *data = ev->data;

	if (ev->len < DATAGRAM_LEN || ripc__get_le64(data) != DATAGRAM_WORD || ctx->auth ||
	    ripc__get_le64(data + 8) != s->id || s->taken_over ||
	    ripc__get_le32(data + RIPC__HEADER_LEN + 16) != ev->len - DATAGRAM_LEN ||
	    !(ctx->tp[tp].limits.caps & RIPC__CAP_DATAGRAM) || !p ||
	    memcmp(p->instance, data + RIPC__HEADER_LEN, 16) || !ripc__event_in_place(m, ev) ||
	    !ripc__replay_next(&p->datagrams, p->dgram_seen, ripc__get_le64(data + 24),
			       ctx->now_ns))
		return false;
	ripc__message_fill(s, p, tp, m, ev, ripc__get_le64(data + 16), DATAGRAM_LEN);
	return true;
}

static bool __attribute__((noinline))
receive_reliable(struct ripc *ctx, struct ripc_service *s, unsigned tp, struct ripc__message *m,
		 const struct ripc__event *ev)
{
	return ripc__receive_next(ctx, s, tp, m, ev, RIPC__F_RELIABLE);
}

/* Requests to s, and answers to any service of the context. */
static enum ripc__fast __attribute__((noinline))
receive_call(struct ripc *ctx, struct ripc_service *s, unsigned tp, struct ripc__message *m,
	     const struct ripc__event *ev)
{
	const struct ripc__lane *lane = ev->user;
	const uint8_t *ext = ev->data + RIPC__HEADER_LEN;
	uint64_t id, word;

	if (ev->len < RIPC__FAST_HEADER_LEN + RIPC__CALL_EXT)
		return RIPC__FAST_NOTHING;
	id = ripc__get_le64(ext);
	word = ripc__get_le64(ext + 8);
	if (!id || word >> 32)
		return RIPC__FAST_NOTHING;
	/* A request without time left is not delivered. */
	if (s && word && ripc__receive_next(ctx, s, tp, m, ev, RIPC__F_RELIABLE | RIPC__F_CALL)) {
		ripc__message_set_call(m, RIPC__CALL_REQUEST, id, (uint32_t)word, lane->peer);
		ripc__request_delivered(m);
		return RIPC__FAST_MESSAGE;
	}
	if (!ripc__receive_next(ctx, NULL, tp, m, ev, RIPC__F_RELIABLE | RIPC__F_REPLY))
		return RIPC__FAST_NOTHING;
	ripc__message_set_call(m, RIPC__CALL_REPLY, id, (uint32_t)word, lane->peer);
	ripc__event_begin(ctx);
	ripc__call_reply(ctx, m);
	ripc__event_end(ctx);
	return RIPC__FAST_DONE;
}

enum ripc__fast ripc__fast_receive(struct ripc *ctx, struct ripc_service *s, unsigned tp,
				   struct ripc__message *m, const struct ripc__event *ev)
{
	if (RIPC__UNLIKELY(ev->kind != RIPC__EV_RECV))
		return s && ev->kind == RIPC__EV_DATAGRAM && receive_datagram(s, tp, m, ev)
			       ? RIPC__FAST_MESSAGE
			       : RIPC__FAST_NOTHING;
	if (s && (RIPC__LIKELY(ripc__receive_next(ctx, s, tp, m, ev, 0)) ||
		  receive_reliable(ctx, s, tp, m, ev)))
		return RIPC__FAST_MESSAGE;
	return receive_call(ctx, s, tp, m, ev);
}
