/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The one body that receives a short message of one item: plain, reliable, or of a call, the next
 * one of its sender, which needs nothing else. Inline: ripc_receive() and the waits for requests
 * have it without a call in between. dispatch.c handles what it refuses.
 */
#ifndef RIPC_CORE_MESSAGE_FAST_RECEIVE_H
#define RIPC_CORE_MESSAGE_FAST_RECEIVE_H

#include <sys/cdefs.h>

#include "core/call/call.h"
#include "core/memory/message.h"
#include "core/message/receive.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/peer.h"
#include "core/reliable/reliable.h"
#include "core/service/service.h"
#include "wire/bytes.h"

/* The header of a short message of one item, in full or elided. */
struct ripc__one_item {
	uint64_t dest, source;
	struct ripc__call_words call; /* of a request or an answer */
	uint32_t credits;             /* receive buffers given back */
	uint32_t head;                /* bytes before the payload */
	uint32_t len;                 /* bytes of the payload */
};

/*
 * Decodes the header of an ELIDED, but for the call. Return: false: not the next message of the
 * lane. The service and the sender are not checked.
 */
static __always_inline bool ripc__one_item_get_elided(struct ripc__one_item *h,
						      const struct ripc__lane *lane,
						      const struct ripc__event *ev, unsigned flags)
{
	const uint32_t call = ripc__call_len(flags);
	uint32_t word;

	if (ev->len < RIPC__ELIDED_LEN + call)
		return false;
	word = ripc__get_le32(ev->data);
	h->dest = lane->rx_last.dest;
	h->source = lane->rx_last.source;
	h->credits = word >> 8 & 0xff;
	h->head = RIPC__ELIDED_LEN + call;
	h->len = ev->len - h->head;
	/* If there was no last message, dest is 0, which no flow has. */
	return word >> 16 == (uint16_t)lane->rx_seq;
}

/* The same for a full header. Return: also false: another kind of message, or with other flags. */
static __always_inline bool ripc__one_item_get(struct ripc__one_item *h,
					       const struct ripc__lane *lane,
					       const struct ripc__event *ev, unsigned flags)
{
	const uint8_t *data = ev->data;
	const uint32_t call = ripc__call_len(flags);
	uint64_t last;

	if (ev->len < RIPC__FAST_HEADER_LEN + call || !ripc__flags_elidable(flags) ||
	    ripc__get_le64(data) != (RIPC__FAST_HEADER_WORD | (uint64_t)flags << 32))
		return false;
	last = ripc__get_le64(data + 24);
	h->dest = ripc__get_le64(data + 8);
	h->source = ripc__get_le64(data + 16);
	h->credits = (uint32_t)(last >> 32);
	h->head = RIPC__FAST_HEADER_LEN + call;
	h->len = ev->len - h->head;
	/*
	 * The bits above the credits count return buffers, which must be 0. A sender that is not
	 * known any more is 0 in the flow.
	 */
	return (uint32_t)last == lane->rx_seq && h->credits <= UINT16_MAX && h->source &&
	       ripc__get_le32(data + RIPC__HEADER_LEN) == h->len;
}

/* Decodes the call of a request or an answer. Return: whether it is valid and may be delivered. */
static __always_inline bool ripc__one_item_get_call(struct ripc__one_item *h,
						    const struct ripc__event *ev, unsigned flags)
{
	const uint8_t *call = ev->data + h->head - RIPC__CALL_EXT;

	h->call = (struct ripc__call_words){ripc__get_le64(call), ripc__get_le64(call + 8)};
	/* A request without time left is not delivered. */
	return h->call.id && !(h->call.word >> 32) && (h->call.word || flags & RIPC__F_REPLY);
}

/* Whether the payload is in memory of the transport or of the message; else it must be copied. */
static inline bool ripc__event_in_place(struct ripc__message *m, const struct ripc__event *ev)
{
	return ev->token || ev->data == ripc__message_buf(m);
}

/* Makes m the message of an event with head bytes before its payload. */
static __always_inline void ripc__message_fill(struct ripc_service *s, struct ripc__peer *p,
					       unsigned tp, struct ripc__message *m,
					       const struct ripc__event *ev, uint64_t source,
					       uint32_t head)
{
	uint32_t len = ev->len - head;

	ripc__message_room_take(s->ctx, m);
	m->pub.source = source;
	m->pub.dest = s->id;
	memcpy(m->pub.instance, p->instance, sizeof(m->pub.instance));
	m->pub.nitems = 1;
	m->pub.nreturn_buffers = 0;
	m->iov[0] = (struct iovec){(void *)(ev->data + head), len};
	m->placement[0] = RIPC_IN_RECEIVE_BUFFER;
	m->token = ev->token;
	m->tp = (uint8_t)tp;
	s->stats.short_received++;
	s->stats.bytes_received += len;
	p->stats.short_received++;
	p->stats.bytes_received += len;
}

/* An answer was received: its call ends. */
void ripc__receive_reply(struct ripc__message *m, const struct ripc__call_words *call,
			 struct ripc__peer *p);
/* A request was received, to be handed out, or an answer. Return: which. */
static __always_inline enum ripc__fast ripc__receive_call(struct ripc__message *m,
							  const struct ripc__call_words *call,
							  unsigned flags, struct ripc__peer *p)
{
	if (flags & RIPC__F_REPLY) {
		ripc__receive_reply(m, call, p);
		return RIPC__FAST_DONE;
	}
	ripc__message_set_call(m, RIPC__CALL_REQUEST_ARRIVING, call->id, (uint32_t)call->word, p);
	ripc__request_add(m, RIPC__CALL_REQUEST_TAKEN);
	return RIPC__FAST_MESSAGE;
}

/*
 * Takes the next message of a lane if it is from the last sender to the last service and has no
 * return buffers. s: receives it, unless it is an answer, which goes to any service; or NULL.
 * flags: of the message; elided: whether its header is.
 */
static __always_inline enum ripc__fast ripc__receive_with(struct ripc *ctx, struct ripc_service *s,
							  unsigned tp, struct ripc__message *m,
							  const struct ripc__event *ev,
							  unsigned flags, bool elided)
{
	struct ripc__lane *lane = ev->user;
	struct ripc__one_item h;
	struct ripc__flow *flow;
	bool hold = ev->token && lane->rx_depth;
	uint32_t units;

	if (lane->state != RIPC__LANE_UP ||
	    !(elided ? ripc__one_item_get_elided(&h, lane, ev, flags)
		     : ripc__one_item_get(&h, lane, ev, flags)))
		return RIPC__FAST_NOTHING;
	flow = lane->flow;
	units = ripc__units_for(flags,
				RIPC__FAST_HEADER_LEN + ripc__call_len(flags) + (size_t)h.len);
	/* The slow path wakes senders that wait for credit, and copies payloads. */
	if (!flow || flow->id != h.dest || !flow->service ||
	    (flow->service != s && !(flags & RIPC__F_REPLY)) || flow->source != h.source ||
	    (h.credits && (!lane->uses_credits || lane->sending == RIPC__SENDING_STARVED)) ||
	    lane->peer->pending_conn || flow->arrived_units + units > flow->advertised_units ||
	    (hold && !ripc__lane_may_hold(lane)) || !ripc__event_in_place(m, ev) ||
	    (ripc__call_len(flags) && !ripc__one_item_get_call(&h, ev, flags)) ||
	    (flags && !ripc__reliable_receive_next(lane, ev->len)))
		return RIPC__FAST_NOTHING;
	lane->last_rx_ns = ctx->now_ns;
	ripc__lane_untimed(lane);
	lane->pinged_ns = 0;
	if (!elided)
		lane->rx_last = (struct ripc__header_context){h.dest, h.source};
	lane->rx_seq++;
	lane->tx_credits += h.credits;
	flow->arrived_units += units;
	ripc__message_fill(flow->service, lane->peer, tp, m, ev, flow->source, h.head);
	ripc__flow_consume(flow, units);
	if (hold) {
		m->lane = lane;
		ripc__lane_hold(lane);
	} else if (lane->rx_depth) {
		ripc__lane_repost(lane);
	}
	return RIPC__LIKELY(!ripc__call_len(flags))
		       ? RIPC__FAST_MESSAGE
		       : ripc__receive_call(m, &h.call, flags, lane->peer);
}

/* ripc__receive_with() the flags and the header that the message has. */
enum ripc__fast ripc__receive_any(struct ripc *ctx, struct ripc_service *s, unsigned tp,
				  struct ripc__message *m, const struct ripc__event *ev);

/*
 * The same; for an elided header without a call in between. The flags are constants there: each
 * kind checks and counts only what it has.
 */
static __always_inline enum ripc__fast ripc__receive_next(struct ripc *ctx, struct ripc_service *s,
							  unsigned tp, struct ripc__message *m,
							  const struct ripc__event *ev)
{
	if (RIPC__UNLIKELY(ev->len < RIPC__ELIDED_LEN))
		return RIPC__FAST_NOTHING;
	if (s && RIPC__LIKELY(*ev->data == RIPC__ELIDED_MAGIC))
		return ripc__receive_with(ctx, s, tp, m, ev, 0, true);
	if (s && RIPC__LIKELY(*ev->data == RIPC__ELIDED_RELIABLE))
		return ripc__receive_with(ctx, s, tp, m, ev, RIPC__F_RELIABLE, true);
	if (s && RIPC__LIKELY(*ev->data == RIPC__ELIDED_CALL))
		return ripc__receive_with(ctx, s, tp, m, ev, RIPC__F_RELIABLE | RIPC__F_CALL, true);
	if (!s && RIPC__LIKELY(*ev->data == RIPC__ELIDED_REPLY))
		return ripc__receive_with(ctx, s, tp, m, ev, RIPC__F_RELIABLE | RIPC__F_REPLY,
					  true);
	return ripc__receive_any(ctx, s, tp, m, ev);
}

#endif
