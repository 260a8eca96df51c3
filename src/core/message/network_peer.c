/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/message/network_peer.h"
#include "core/group/group.h"
#include "core/peer/lane.h"
#include "core/message/message.h"
#include "core/peer/peer.h"
#include "core/message/send.h"
#include "core/message/service.h"

/* A plain message as a datagram: its first 8 bytes, and how many stand before its payload. */
#define DATAGRAM_WORD (RIPC__FAST_HEADER_WORD | (uint64_t)RIPC__F_INSTANCE << 32)
#define DATAGRAM_LEN  (RIPC__FAST_HEADER_LEN + 16)

/* ---- receiving ---- */

/* It lies in the transport's memory, or in the message's; else the general way copies it. */
static inline bool is_in_place(struct ripc__message *m, const struct ripc__event *ev)
{
	return ev->token || ev->data == ripc__message_buf(m);
}

static inline void fill_message(struct ripc_service *s, struct ripc__peer *p, unsigned tp,
				struct ripc__message *m, const struct ripc__event *ev,
				uint64_t source, size_t head)
{
	struct ripc *ctx = s->ctx;
	uint32_t len = ev->len - (uint32_t)head;

	ripc__message_cache_pop(ctx);
	m->pub.source = source;
	m->pub.dest = s->id;
	memcpy(m->pub.instance, p->instance, sizeof(m->pub.instance));
	m->pub.nitems = 1;
	m->pub.nreturns = 0;
	m->iov[0] = (struct iovec){(void *)(ev->data + head), len};
	m->placement[0] = RIPC_IN_RECEIVE_BUFFER;
	m->bytes = len;
	m->token = ev->token;
	m->tp = (uint8_t)tp;
	m->lane = NULL;
	ctx->stats.short_received++;
	ctx->stats.bytes_received += len;
	s->stats.short_received++;
	s->stats.bytes_received += len;
	p->stats.short_received++;
	p->stats.bytes_received += len;
}

/* The next one of the sender of the last, and no other is missing. */
static struct ripc__message *receive_datagram(struct ripc_service *s, unsigned tp,
					      struct ripc__message *m, const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__peer *p = ctx->last_peer;
	const uint8_t *data = ev->data;

	if (ev->len < DATAGRAM_LEN || ripc__get_le64(data) != DATAGRAM_WORD || ctx->auth ||
	    ripc__get_le64(data + 8) != s->id || s->taken_over ||
	    ripc__get_le32(data + RIPC__HEADER_LEN + 16) != ev->len - DATAGRAM_LEN ||
	    !(ctx->tp[tp].limits.caps & RIPC__CAP_DATAGRAM) || !p ||
	    memcmp(p->instance, data + RIPC__HEADER_LEN, 16) || !is_in_place(m, ev) ||
	    !ripc__replay_next(&p->datagrams, p->dgram_seen, ripc__get_le64(data + 24), ctx->now_ns))
		return NULL;
	fill_message(s, p, tp, m, ev, ripc__get_le64(data + 16), DATAGRAM_LEN);
	return m;
}

/* Whether the application may have one more of the lane's receive buffers: others need them, too. */
static inline bool may_hold_buffer(const struct ripc__lane *lane)
{
	return lane->rx_held < lane->rx_depth / 2 &&
	       lane->rx_held + RIPC__RECV_DEPTH_MIN < lane->rx_depth;
}

/* The number that is due, of the service and the sender of the last, and no return buffers. */
static struct ripc__message *receive_lane(struct ripc_service *s, unsigned tp,
					  struct ripc__message *m, const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__lane *lane = ev->user;
	struct ripc__fast_header h;
	struct ripc__flow *flow;
	bool hold = ev->token && lane->rx_depth;
	uint32_t units;

	if (lane->state != RIPC__LANE_UP || lane->shake || !ripc__fast_header(&h, lane, ev))
		return NULL;
	flow = lane->flow;
	units = ripc__units_of(RIPC__FAST_HEADER_LEN + (size_t)h.len);
	/* Senders that wait for credit, and copies, are for the general way. */
	if (!flow || flow->id != h.dest || flow->service != s || flow->source != h.source ||
	    (h.credits && (!lane->uses_credits || lane->starved)) || lane->peer->pending_conn ||
	    flow->arrived_units + units > flow->advertised_units ||
	    (hold && !may_hold_buffer(lane)) || !is_in_place(m, ev))
		return NULL;
	lane->last_rx_ns = ctx->now_ns;
	lane->rx_untimed = true;
	lane->pinged_ns = 0;
	lane->rx_last = (struct ripc__header_context){true, h.dest, h.source};
	lane->rx_seq++;
	lane->tx_credits += h.credits;
	flow->arrived_units += units;
	fill_message(s, lane->peer, tp, m, ev, h.source, h.head);
	ripc__flow_consume(flow, units);
	if (hold) {
		m->lane = lane;
		lane->rx_held++;
	} else {
		ripc__lane_repost(lane);
	}
	return m;
}

struct ripc__message *ripc__network_receive(struct ripc_service *s, unsigned tp,
					    struct ripc__message *m, const struct ripc__event *ev)
{
	if (ev->kind == RIPC__EV_DATAGRAM)
		return receive_datagram(s, tp, m, ev);
	return ev->kind == RIPC__EV_RECV ? receive_lane(s, tp, m, ev) : NULL;
}
