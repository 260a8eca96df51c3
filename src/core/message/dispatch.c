/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks what arrives, and handles messages with items and datagrams. */
#include "core/group/group.h"
#include "core/call/call.h"
#include "core/message/control.h"
#include "core/message/dispatch.h"
#include "base/copy.h"
#include "core/peer/datagram_context.h"
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/lane_progress.h"
#include "core/memory/message.h"
#include "core/memory/remote_returns.h"
#include "core/message/receive.h"
#include "core/peer/peer.h"
#include "core/rendezvous/ack.h"
#include "core/rendezvous/immediate.h"
#include "core/rendezvous/receive.h"
#include "core/rendezvous/request.h"
#include "core/reliable/reliable.h"
#include "core/service/service.h"
#include "wire/bytes.h"

#include <stdlib.h>

#define NOSERVICE_INTERVAL_NS \
	(10 * RIPC__MS) /* between two NOSERVICEs of one service over one lane */
#define LEARNED_DESTS_MAX \
	65536 /* destinations known at which nothing new is learned from messages */

/* Gives the receive buffer of an event back to the transport. */
static void release_buffer(struct ripc__lane *lane, const struct ripc__event *ev)
{
	ripc__event_release(lane->ctx, lane->tp, ev);
	ripc__lane_repost(lane);
}

/*
 * Learns that source is a service of the lane's peer, so that an answer to it needs no look-up. A
 * record of the resolver, and a look-up under way, take precedence. A peer that has given source up
 * may still send messages from it. NULL: source is not known to be the peer's.
 */
static struct ripc__dest *__attribute__((noinline))
learn_dest(struct ripc__lane *lane, uint64_t source)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__dest *d = ripc__dest_find(ctx, source);

	if (!d && source && HASH_COUNT(ctx->dests) < LEARNED_DESTS_MAX)
		d = ripc__dest_get(ctx, source);
	if (!d)
		return NULL;
	if (!ripc__dest_given_up(ctx, d, lane->peer))
		ripc__dest_learn(ctx, d, lane->peer);
	return d->peer == lane->peer ? d : NULL;
}

/*
 * Stores the peer's return buffers that came with a message and can be written. Return: the number
 * of buffers into which items may be placed: those stored, and those into which the peer reads.
 */
static uint16_t add_remote_returns(struct ripc__dest *d, const struct ripc__header *h)
{
	uint16_t usable = 0;

	for (unsigned i = 0; i < h->nreturns; i++) {
		struct ripc__desc desc;

		ripc__desc_get(&desc, h->returns, i);
		/* Without how: the peer reads items into this one itself. */
		usable += !desc.how ||
			  (d && ripc__remote_return_add(
					d, &desc, h->flags & RIPC__F_CALL ? h->call : 0, false));
	}
	return usable;
}

static inline void set_items(struct ripc__message *m, const struct ripc__header *h,
			     const uint8_t *payload)
{
	struct iovec *iov = (struct iovec *)m->pub.items;
	uint8_t *placement = (uint8_t *)m->pub.placement;

	for (unsigned i = 0; i < h->nitems; i++) {
		iov[i].iov_base = (void *)payload;
		iov[i].iov_len = ripc__get_le32(h->lens + 4 * i);
		placement[i] = RIPC_IN_RECEIVE_BUFFER;
		payload += iov[i].iov_len;
	}
}

/* Copies the payload into memory of the message. NULL: out of memory. */
static const uint8_t *__attribute__((noinline))
copy_payload(struct ripc__message *m, const struct ripc__header *h)
{
	/* The offset of the payload behind a fast-path header: it is aligned there. */
	if (h->payload_len <= RIPC__MESSAGE_BUF_LEN - RIPC__FAST_HEADER_LEN)
		return memcpy(ripc__message_buf(m) + RIPC__FAST_HEADER_LEN, h->payload,
			      h->payload_len);
	m->heap = malloc(h->payload_len ? h->payload_len : 1);
	if (m->heap)
		ripc__copy(m->heap, h->payload, h->payload_len);
	return m->heap;
}

/*
 * Makes the message of a SHORT. Its items stay in the receive buffer. They are copied if the
 * transport needs the buffer back at once, or if the message may not hold it. Keeps or releases the
 * event's buffer in every case. NULL: out of memory.
 */
static struct ripc__message *short_message(struct ripc *ctx, unsigned tp, struct ripc__lane *lane,
					   const struct ripc__header *h,
					   const struct ripc__event *ev)
{
	struct ripc__message *m = ripc__message_new(ctx, h->nitems);
	const uint8_t *payload = h->payload;
	const uint8_t *instance = h->instance ? h->instance : lane ? lane->peer->instance : NULL;
	bool copy = !ev->token || (lane && lane->rx_depth && !ripc__lane_may_hold(lane));

	if (m && RIPC__UNLIKELY(copy)) {
		payload = copy_payload(m, h);
		if (!payload) {
			ripc__message_release(m);
			m = NULL;
		}
	}
	if (m) {
		m->bytes = (uint32_t)h->payload_len;
		m->pub.source = h->source;
		m->pub.dest = h->dest;
		m->pub.nreturn_buffers = h->nreturns;
		/* Known from the datagram or from the lane. */
		if (instance)
			memcpy(m->pub.instance, instance, 16);
		/* Reads the lengths in the receive buffer, so before its release. */
		set_items(m, h, payload);
	}
	if (!m || copy) {
		ripc__event_release(ctx, tp, ev);
		if (lane)
			ripc__lane_repost(lane);
		return m;
	}
	m->token = ev->token;
	m->tp = (uint8_t)tp;
	if (lane && lane->rx_depth) {
		m->lane = lane;
		ripc__lane_hold(lane);
	}
	return m;
}

static void __attribute__((noinline))
send_noservice(struct ripc__lane *lane, struct ripc__flow *flow)
{
	lane->ctx->stats.dropped_no_service++;
	/*
	 * One NOSERVICE answers all messages that were sent before it arrived. It is repeated every
	 * NOSERVICE_INTERVAL_NS, because the peer may have found the service again in between.
	 */
	if (flow->noservice_ns && lane->ctx->now_ns - flow->noservice_ns < NOSERVICE_INTERVAL_NS)
		return;
	flow->noservice_ns = lane->ctx->now_ns;
	ripc__lane_notify(lane, RIPC__NOSERVICE, 0, flow->id, 0, 0);
}

static void receive_short(struct ripc__lane *lane, struct ripc__flow *flow,
			  const struct ripc__header *h, const struct ripc__event *ev,
			  uint32_t units)
{
	struct ripc *ctx = lane->ctx;
	struct ripc_service *s = flow->service;
	struct ripc__message *m;
	bool reliable = h->flags & RIPC__F_RELIABLE;
	bool reply = h->flags & RIPC__F_REPLY;
	int rc = reliable ? ripc__reliable_receive(lane, flow, ev->len, reply) : s != NULL;

	if (rc <= 0) {
		if (!s && !reliable)
			send_noservice(lane, flow);
		ripc__flow_consume(flow, units);
		release_buffer(lane, ev);
		if (rc == -EPROTO)
			ripc__lane_protocol_error(lane, "reliable message without a number");
		else if (rc < 0)
			ripc__lane_fail(lane, rc, "no memory for a reliable message");
		return;
	}
	m = short_message(ctx, lane->tp, lane, h, ev);
	if (!m) {
		ctx->stats.dropped_no_memory++;
		ripc__flow_consume(flow, units);
		/* The sender posts it again on the next lane. */
		if (reliable) {
			ripc__reliable_undo(lane);
			ripc__lane_fail(lane, -ENOMEM, "no memory for a reliable message");
		}
		return;
	}
	m->flow = flow;
	m->units = units;
	lane->peer->stats.short_received++;
	lane->peer->stats.bytes_received += h->payload_len;
	if (h->flags & (RIPC__F_CALL | RIPC__F_REPLY)) {
		ripc__message_set_call(
			m, h->flags & RIPC__F_CALL ? RIPC__CALL_REQUEST_ARRIVING : RIPC__CALL_REPLY,
			h->call, (uint32_t)h->call_word, lane->peer);
		if (!ripc__call_arrived(m))
			return;
	}
	ripc__service_deliver(s, m);
}

/* SHORT and LONG: checks the credit of the service, learns the sender, and delivers. */
static void receive_data(struct ripc__lane *lane, struct ripc__header *h,
			 const struct ripc__event *ev, uint32_t units)
{
	struct ripc__flow *flow = ripc__flow_get(lane, h->dest);

	/* An answer to it would go to no service, or to the name of a group. */
	if (!h->source || ripc__group_is_name(h->source)) {
		release_buffer(lane, ev);
		ripc__lane_protocol_error(lane, "message whose source is no service id");
		return;
	}
	if (!flow || flow->arrived_units + units > flow->advertised_units) {
		release_buffer(lane, ev);
		ripc__lane_protocol_error(lane,
					  flow ? "more messages than the credit of the service"
					       : "messages to more services than one peer may use");
		return;
	}
	flow->arrived_units += units;
	if (!flow->service)
		flow->service = ripc__service_find(lane->ctx, h->dest);
	if (flow->source != h->source || h->nreturns) {
		struct ripc__dest *d = learn_dest(lane, h->source);

		/* Learning may send, and a failed send ends the lane. */
		if (lane->state == RIPC__LANE_DEAD) {
			ripc__event_release(lane->ctx, lane->tp, ev);
			return;
		}
		/*
		 * 0: the next message tries to learn its sender again. No use once the table of
		 * destinations is full.
		 */
		flow->source =
			d || HASH_COUNT(lane->ctx->dests) >= LEARNED_DESTS_MAX ? h->source : 0;
		/* Return buffers cannot be written over a lane that is retiring. */
		if (flow->service)
			h->nreturns =
				add_remote_returns(lane->state == RIPC__LANE_UP ? d : NULL, h);
	}
	if (h->kind == RIPC__SHORT) {
		receive_short(lane, flow, h, ev, units);
		return;
	}
	ripc__rndv_receive(lane, flow, h, ev, units);
}

/*
 * Handles a message that was decoded. len: its bytes in full, for credit. why: NULL, or what is
 * wrong with it.
 */
static __always_inline void receive_message(struct ripc__lane *lane, struct ripc__header *h,
					    size_t len, const struct ripc__event *ev,
					    const char *why)
{
	if (RIPC__LIKELY(!why)) {
		if (lane->state != RIPC__LANE_UP && lane->state != RIPC__LANE_RETIRING)
			why = "message before the lane is up";
		else if (h->seq != lane->rx_seq)
			why = "message out of sequence";
		else if (h->flags & RIPC__F_INSTANCE)
			why = "datagram on a lane";
		else if (h->credits && !lane->uses_credits)
			why = "receive credit from a peer that needs none";
	}
	if (why) {
		release_buffer(lane, ev);
		ripc__lane_protocol_error(lane, why);
		return;
	}
	lane->rx_seq++;
	lane->tx_credits += h->credits;
	/* The peer repeats everything else on the next lane; an answer on this one is lost. */
	if (lane->state == RIPC__LANE_RETIRING && h->kind != RIPC__SHORT &&
	    h->kind != RIPC__GROUP && h->kind != RIPC__GOAWAY) {
		release_buffer(lane, ev);
		return;
	}
	if (h->kind == RIPC__SHORT && h->nitems == 1 && !h->nreturns &&
	    !(h->flags & ~RIPC__F_ELIDABLE))
		lane->rx_last = (struct ripc__header_context){h->dest, h->source};
	if (h->kind == RIPC__LONG && !ripc__immediate_received(lane, h)) {
		release_buffer(lane, ev);
		ripc__lane_fail(lane, -ENOMEM, "no memory for a long message");
		return;
	}
	if (h->flags & RIPC__F_ACK)
		ripc__request_acked(lane, h->acked, 0, false);
	if (h->kind == RIPC__SHORT || h->kind == RIPC__LONG) {
		receive_data(lane, h, ev, ripc__units_for(h->flags, len));
	} else {
		ripc__control_receive(lane, h);
		/* h points into the buffer until here. */
		ripc__event_release(lane->ctx, lane->tp, ev);
		if (lane->state == RIPC__LANE_UP)
			ripc__lane_repost(lane);
	}
	if (h->credits && lane->sending == RIPC__SENDING_STARVED && lane->state == RIPC__LANE_UP)
		ripc__lane_flush(lane);
}

/* A write that replaces a long message. */
static void __attribute__((noinline))
receive_written(struct ripc__lane *lane, const struct ripc__event *ev)
{
	uint8_t desc[RIPC__DESC_LEN];
	struct ripc__header h;
	const char *why = NULL;

	ripc__immediate_get(lane, ev, &h, desc, &why);
	receive_message(lane, &h, RIPC__IMM_LONG_LEN, ev, why);
}

/*
 * The most frequent message besides those with items: RELEASE, in sequence and without credits.
 * Return: false: ev is something else.
 */
static inline bool receive_release(struct ripc__lane *lane, const struct ripc__event *ev)
{
	const uint8_t *p = ev->data;

	if (ev->len != RIPC__HEADER_LEN + 16 || ripc__get_le64(p) != RIPC__RELEASE_WORD ||
	    ripc__get_le64(p + 24) != lane->rx_seq || lane->state != RIPC__LANE_UP)
		return false;
	lane->rx_seq++;
	ripc__request_release_item(lane, ripc__get_le64(p + 32), ripc__get_le64(p + 40));
	ripc__event_release(lane->ctx, lane->tp, ev);
	if (lane->state == RIPC__LANE_UP)
		ripc__lane_repost(lane);
	return true;
}

void ripc__dispatch_message(struct ripc__lane *lane, const struct ripc__event *ev)
{
	uint8_t lens[4];
	struct ripc__header h;
	const char *why = NULL;
	size_t len = ev->len;

	if (ev->kind == RIPC__EV_WRITTEN) {
		receive_written(lane, ev);
		return;
	}
	if (receive_release(lane, ev))
		return;
	/* Credit counts the full header, also for an elided one, but no piggybacked ACK. */
	if (len && ripc__is_elided(ev->data[0])) {
		ripc__elided_decode(&h, ev->data, len, &lane->rx_last, lane->rx_seq, lens, &why);
		len += RIPC__FAST_HEADER_LEN - RIPC__ELIDED_LEN;
	} else if (!ripc__header_decode(&h, ev->data, len, &why) && h.flags & RIPC__F_ACK) {
		len -= RIPC__ACK_WORD;
	}
	receive_message(lane, &h, len, ev, why);
}

/* ---- datagrams ---- */

static void datagram_refuse(struct ripc *ctx, unsigned tp, const struct ripc__header *h,
			    const struct ripc__event *ev)
{
	uint8_t buf[RIPC__HEADER_LEN + 16];
	struct iovec iov = {buf, sizeof(buf)};

	ctx->stats.dropped_no_service++;
	memcpy(ripc__header_put(buf, RIPC__NOSERVICE, RIPC__F_INSTANCE, 0, 0, h->source, h->dest),
	       ctx->instance, 16);
	if (ev->from)
		ctx->tp[tp].ops->post_datagram(ctx->tp[tp].t, ev->from, ev->fromlen, &iov, 1);
}

/*
 * Whether this number is new. The network may duplicate datagrams, and a message is delivered at
 * most once. A duplicate does not count as activity of the peer. confirmed: as of
 * ripc__replay_check().
 */
static bool datagram_new(struct ripc *ctx, struct ripc__peer *p, uint64_t number, bool confirmed)
{
	struct ripc__peer_datagrams *d = ripc__peer_datagrams(ctx, p);
	int64_t lost;
	bool fresh;

	if (!d) {
		ctx->stats.dropped_no_memory++;
		return false;
	}
	fresh = ripc__replay_check(&d->received, d->seen, RIPC__DATAGRAM_WINDOW / 64, number,
				   confirmed, ctx->now_ns, &lost);
	ctx->stats.datagrams_lost += (uint64_t)lost;
	p->stats.lost += (uint32_t)lost;
	if (!fresh) {
		ctx->stats.duplicates++;
		p->stats.duplicates++;
	}
	return fresh;
}

/*
 * The sender of a datagram. Datagrams fill at most half of the table of peers: their source address
 * is not verified, so they must not displace connected peers. NULL: no room; the datagram is
 * delivered without a check for duplicates.
 */
static struct ripc__peer *datagram_peer(struct ripc *ctx, const uint8_t instance[16])
{
	struct ripc__peer *p = ripc__peer_find(ctx, instance);

	if (!p && ctx->peer_table.count < RIPC__PEERS_MAX / 2)
		p = ripc__peer_admit(ctx, instance, 0);
	return p;
}

/*
 * An ELIDED_DATAGRAM whose header context was dropped here: the sender returns to full headers. The
 * answer is not longer than the datagram, so that a forged source address gains nothing.
 */
static void context_unknown(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	uint8_t buf[RIPC__ELIDED_DATAGRAM_LEN];
	struct iovec iov = {buf, sizeof(buf)};

	ctx->stats.dropped_no_context++;
	memcpy(buf, ev->data, sizeof(buf));
	buf[0] = RIPC__UNKNOWN_CONTEXT;
	if (ev->from)
		ctx->tp[tp].ops->post_datagram(ctx->tp[tp].t, ev->from, ev->fromlen, &iov, 1);
}

/*
 * Decodes a datagram with a short header, and handles an UNKNOWN_CONTEXT. lens: as of
 * ripc__elided_datagram_decode(). Return: the sender; NULL: there is no message.
 */
static struct ripc__peer *elided_datagram(struct ripc *ctx, unsigned tp,
					  const struct ripc__event *ev, struct ripc__header *h,
					  uint8_t lens[4])
{
	struct ripc__datagram_context *c;
	uint64_t word = ripc__get_le64(ev->data);

	if ((word & 0xff) == RIPC__UNKNOWN_CONTEXT) {
		ripc__datagram_context_refused(ctx, ripc__datagram_word(word >> 8));
		return NULL;
	}
	c = ripc__datagram_context_find(ctx, word);
	if (!c || c->d) {
		context_unknown(ctx, tp, ev);
		return NULL;
	}
	ripc__elided_datagram_decode(h, ev->data, ev->len, &c->services, c->first,
				     c->peer->instance, lens);
	return c->peer;
}

static bool has_short_header(const struct ripc__event *ev)
{
	return ev->len >= RIPC__ELIDED_DATAGRAM_LEN &&
	       (ev->data[0] == RIPC__ELIDED_DATAGRAM || ev->data[0] == RIPC__UNKNOWN_CONTEXT);
}

static void bad_datagram(struct ripc *ctx, unsigned tp, const struct ripc__event *ev,
			 const char *why)
{
	char from[96] = "an unknown address";

	ctx->stats.bad_messages++;
	if (ev->from)
		ctx->tp[tp].ops->describe(ev->from, ev->fromlen, from, sizeof(from));
	ripc__log(RIPC_LOG_INFO, "datagram from %s over %s dropped: %s", from,
		  ctx->tp[tp].ops->name, why);
}

void ripc__dispatch_datagram(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	bool elided = has_short_header(ev) && ctx->tp[tp].limits.caps & RIPC__CAP_DATAGRAM;
	uint8_t lens[4];
	struct ripc__header h;
	struct ripc__message *m;
	struct ripc_service *s;
	struct ripc__peer *p = NULL;
	const char *why = NULL;

	if (!elided && !ripc__header_decode(&h, ev->data, ev->len, &why) && !h.instance)
		why = "datagram without an instance id";
	/* Datagrams are not authenticated. */
	if (!why && ctx->auth)
		why = "a datagram, and the cluster has keys";
	/* A transport may receive multicast only. */
	if (!why && !elided && h.kind != RIPC__GROUP &&
	    !(ctx->tp[tp].limits.caps & RIPC__CAP_DATAGRAM))
		why = "multicast, but not to a group";
	if (why) {
		bad_datagram(ctx, tp, ev, why);
		goto drop;
	}
	if (elided && !(p = elided_datagram(ctx, tp, ev, &h, lens)))
		goto drop;
	if (h.kind == RIPC__GROUP) {
		ripc__group_receive(ctx, tp, NULL, &h);
		goto drop;
	}
	if (h.kind == RIPC__NOSERVICE) {
		p = ripc__peer_find(ctx, h.instance);
		if (p)
			ripc__dest_refused(ctx, h.source, p);
		goto drop;
	}
	if (!elided)
		p = datagram_peer(ctx, h.instance);
	if (p && !datagram_new(ctx, p, h.number, elided))
		goto drop;
	s = ripc__service_find(ctx, h.dest);
	if (!s) {
		datagram_refuse(ctx, tp, &h, ev);
		goto drop;
	}
	if (ripc__service_full(s)) {
		ctx->stats.dropped_queue_full++;
		s->stats.dropped_queue_full++;
		goto drop;
	}
	m = short_message(ctx, tp, NULL, &h, ev);
	if (!m) {
		ctx->stats.dropped_no_memory++;
		return;
	}
	m->pub.nreturn_buffers = 0;
	if (p) {
		p->stats.short_received++;
		p->stats.bytes_received += h.payload_len;
	}
	ripc__service_deliver(s, m);
	return;
drop:
	ripc__event_release(ctx, tp, ev);
}
