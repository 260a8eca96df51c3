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

/* ---- sending ---- */

static inline void count_sent(struct ripc_service *s, struct ripc__peer *p, size_t len)
{
	s->ctx->stats.short_sent++;
	s->ctx->stats.bytes_sent += len;
	s->stats.short_sent++;
	s->stats.bytes_sent += len;
	p->stats.short_sent++;
	p->stats.bytes_sent += len;
}

/* Where its datagrams go while a lane shows which transport it is. NULL: they go over the lane. */
static inline const uint8_t *datagram_addr(const struct ripc *ctx, struct ripc__peer *p, size_t *len)
{
	unsigned tp = p->lane->tp;

	if (!ctx->datagrams || !ctx->tp[tp].limits.eager_datagram || p->no_dgram_path)
		return NULL;
	if (RIPC__UNLIKELY(!p->dgram_path || p->dgram_path_tp != tp)) {
		p->dgram_path = ripc__peer_datagram(ctx, p, &tp, &p->dgram_path_len);
		p->dgram_path_tp = tp;
	}
	*len = p->dgram_path_len;
	return p->dgram_path;
}

static bool send_datagram(struct ripc_service *s, struct ripc__peer *p, const uint8_t *addr,
			  size_t addrlen, uint64_t dest, const struct iovec *item)
{
	struct ripc *ctx = s->ctx;
	const struct ripc__tp *t = &ctx->tp[p->lane->tp];
	uint8_t head[DATAGRAM_LEN];
	struct iovec iov[2] = {{head, sizeof(head)}, *item};

	if (item->iov_len > t->limits.datagram_max - RIPC__SHORT_FIXED)
		return false;
	ripc__put_le64(head, DATAGRAM_WORD);
	ripc__put_le64(head + 8, dest);
	ripc__put_le64(head + 16, s->id);
	ripc__number_stamp(head, p->next_dgram_seq);
	memcpy(head + RIPC__HEADER_LEN, ctx->instance, 16);
	ripc__put_le32(head + RIPC__HEADER_LEN + 16, (uint32_t)item->iov_len);
	if (t->ops->post_datagram(t->t, addr, addrlen, iov, 2))
		return false;
	p->next_dgram_seq++;
	count_sent(s, p, item->iov_len);
	return true;
}

static bool send_lane(struct ripc_service *s, struct ripc__dest *d, const struct iovec *item, bool more)
{
	struct ripc *ctx = s->ctx;
	struct ripc__lane *lane = d->peer->lane;
	const struct ripc__transport_ops *ops = ctx->tp[lane->tp].ops;
	struct ripc__credit *c = d->credit;
	bool short_header = ops->post_again && ripc__header_context_is(&lane->tx_last, d->id, s->id);
	uint32_t credits_max = short_header ? RIPC__ELIDED_CREDITS_MAX : UINT16_MAX;
	uint32_t credits = lane->rx_credits_due < credits_max ? lane->rx_credits_due : credits_max,
		 units;
	uint8_t head[RIPC__POST_HEADER_LEN];
	size_t len = item->iov_len;
	int rc;

	/* The last credit is for the messages that give credit back. */
	if (!(short_header || ops->post_plain) || !c || len > lane->send_max - RIPC__SHORT_FIXED ||
	    lane->blocked || (lane->uses_credits && lane->tx_credits <= 1) ||
	    !ripc__list_empty(&lane->control))
		return false;
	units = ripc__units_of(RIPC__FAST_HEADER_LEN + len);
	if (c->sent_units + units > c->limit_units)
		return false;
	if (short_header) {
		ripc__put_le32(head, ripc__elided_word(lane->tx_seq, credits));
		rc = ops->post_again(lane->ep, head, item->iov_base, len, more);
	} else {
		ripc__put_le64(head, RIPC__FAST_HEADER_WORD);
		ripc__put_le64(head + 8, d->id);
		ripc__put_le64(head + 16, s->id);
		ripc__put_le64(head + 24, lane->tx_seq | (uint64_t)credits << 32);
		ripc__put_le32(head + 32, (uint32_t)len);
		rc = ops->post_plain(lane->ep, head, item->iov_base, len, more);
	}
	if (rc < 0)
		return false;
	lane->tx_last = (struct ripc__header_context){true, d->id, s->id};
	lane->tx_seq++;
	lane->rx_credits_due -= credits;
	lane->tx_credits -= lane->uses_credits;
	c->sent_units += units;
	count_sent(s, d->peer, len);
	if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
		ripc__delayed_ack_replied(lane);
	if (rc == 1)
		ripc__progress_request(ctx);
	else if (rc)
		ripc__progress_request_lazy(ctx);
	return true;
}

bool ripc__network_send(struct ripc_service *s, uint64_t dest, const struct iovec *item, bool more)
{
	struct ripc *ctx = s->ctx;
	struct ripc__dest *d = ripc__dest_find(ctx, dest);
	const uint8_t *addr;
	size_t len;

	/* What is held has to be carried, or to go before it. */
	if (!d || d->state != RIPC__DEST_KNOWN || !d->peer->lane || ctx->closing ||
	    ctx->delayed_ack.held || s->state != RIPC__SERVICE_ACTIVE ||
	    ripc__group_is_name(dest) || (!item->iov_base && item->iov_len))
		return false;
	addr = datagram_addr(ctx, d->peer, &len);
	if (addr)
		return send_datagram(s, d->peer, addr, len, dest, item);
	return send_lane(s, d, item, more);
}

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
	m->pub.nreturn_buffers = 0;
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
