/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ripc_send_short(), ripc_send() and ripc_receive(), and plain messages: short ones of one item
 * that need nothing else, to a peer whose lane is up and with room for them, or for the service
 * that asks. For these there is a fast path past all that a message may need; whatever is not
 * plain takes the slow one, with the same result. Both take turns freely: they share sequence
 * numbers, credit, counters and queues.
 */
#include "core/group/group.h"
#include "core/peer/lane.h"
#include "core/message/message.h"
#include "core/peer/peer.h"
#include "core/message/network_peer.h"
#include "core/rendezvous/sender.h"
#include "core/message/send.h"
#include "core/message/service.h"
#include "wire/bytes.h"

#include <assert.h>

#define POLL_BUDGET_MAX    16 /* looks at the endpoint that spoke last before the others get one */
#define POLLS_MAX          16 /* looks at all before a thread becomes the driver */
#define FULL_PASS_INTERVAL 32 /* of so many looks one is a whole round */
#define POLL_TIME_NS       RIPC__MS /* how long a thread that polls looks before it becomes the driver */
#define POLL_TIMEOUT_MIN_MS \
	10 /* shortest timeout with which it does: that ends later by POLL_TIME_NS and a whole round or two */

/* Where in a plain header the number of the message and the length of its item stand. */
#define SEQ_OFFSET 24
#define LEN_OFFSET 32
/* Of ELIDED the second half is the number: it is kept where that stands, and grows with it. */
#define SHORT_HEADER_OFFSET (SEQ_OFFSET - 2)

_Static_assert(RIPC__POST_HEADER_LEN == RIPC__FAST_HEADER_LEN,
	       "what post_plain() takes is a plain header");
_Static_assert(RIPC__BRIEF_LEN == RIPC__ELIDED_LEN, "what post_again() takes is that of ELIDED");
_Static_assert(offsetof(struct ripc_message, source) == 0 && offsetof(struct ripc_message, dest) == 8 &&
		       offsetof(struct ripc_message, instance) == 16,
	       "a message begins as struct ripc__fast_rx has it");

/* ---- what is known ---- */

static inline void flush_tx(struct ripc__fast_tx *out)
{
	struct ripc_service *s = out->s;
	struct ripc__peer *p;
	uint32_t n;

	if (!s)
		return;
	out->s = NULL;
	p = out->lane->peer;
	n = ripc__get_le32(out->head + SEQ_OFFSET) - out->first;
	out->lane->tx_seq += n;
	out->credit->sent_units += out->units_limit - out->units_left;
	s->ctx->stats.short_sent += n;
	s->ctx->stats.bytes_sent += out->bytes;
	s->stats.short_sent += n;
	s->stats.bytes_sent += out->bytes;
	p->stats.short_sent += n;
	p->stats.bytes_sent += out->bytes;
}

static inline void flush_rx(struct ripc__fast_rx *in)
{
	struct ripc_service *s = in->s;
	struct ripc__lane *lane = in->lane;
	struct ripc__peer *p;
	uint32_t n;

	if (!s)
		return;
	in->s = NULL;
	n = in->next_seq - in->first;
	if (!n)
		return;
	p = lane->peer;
	lane->rx_seq += n;
	lane->last_rx_ns = s->ctx->now_ns;
	lane->rx_untimed = true;
	lane->pinged_ns = 0;
	in->flow->arrived_units += in->units_limit - in->units_left;
	in->flow->consumed_units += in->units_limit - in->units_left;
	s->ctx->stats.short_received += n;
	s->ctx->stats.bytes_received += in->bytes;
	s->stats.short_received += n;
	s->stats.bytes_received += in->bytes;
	p->stats.short_received += n;
	p->stats.bytes_received += in->bytes;
}

void ripc__fast_path_flush(struct ripc *ctx)
{
	ctx->fast_path.valid = false;
	flush_tx(&ctx->fast_path.out);
	flush_rx(&ctx->fast_path.in);
}

/* ---- sending ---- */

/* The lane over which a plain message goes from s to dest, or NULL. Nothing was checked but that s is there. */
static struct ripc__lane *tx_lane(const struct ripc_service *s, uint64_t dest)
{
	struct ripc *ctx = s->ctx;
	const struct ripc__dest *d = ripc__dest_find(ctx, dest);
	const struct ripc__transport_ops *ops;
	struct ripc__lane *lane;

	/*
	 * Messages to others, over networks, come here each time: first what tells these. What is held has to be carried, or to go before
	 * it.
	 */
	if (!d || d->state != RIPC__DEST_KNOWN || !(lane = d->peer->lane) || lane->uses_credits ||
	    lane->rx_depth || ctx->datagrams || ctx->closing || ctx->delayed_ack.held ||
	    s->state != RIPC__SERVICE_ACTIVE || ripc__group_is_name(dest) || !d->credit ||
	    lane->blocked || !ripc__list_empty(&lane->control))
		return NULL;
	ops = ctx->tp[lane->tp].ops;
	/* Where ELIDED is sent, the first one that says between whom is not of those that are known. */
	return (ops->post_again ? ripc__header_context_is(&lane->tx_last, dest, s->id)
				: ops->post_plain != NULL)
		       ? lane
		       : NULL;
}

/*
 * Finds out what can be known of plain messages from s to dest. s may have ended. Return: whether
 * there can be any.
 */
static bool __attribute__((noinline))
cache_tx(struct ripc *ctx, struct ripc_service *s, uint64_t dest)
{
	struct ripc__fast_tx *out = &ctx->fast_path.out;
	const struct ripc__transport_ops *ops;
	struct ripc__lane *lane;

	flush_tx(out);
	if (s->state != RIPC__SERVICE_ACTIVE)
		return false;
	lane = tx_lane(s, dest);
	if (!lane)
		return false;
	ripc__delayed_ack_replied(lane);
	ops = s->ctx->tp[lane->tp].ops;
	*out = (struct ripc__fast_tx){
		.s = s,
		.dest = dest,
		.lane = lane,
		.ep = lane->ep,
		.credit = s->ctx->last_dest->credit,
		.post = ops->post_again ? ops->post_again : ops->post_plain,
		.from = ops->post_again ? out->head + SHORT_HEADER_OFFSET : out->head,
		.len_max = lane->send_max - RIPC__SHORT_FIXED,
		.first = lane->tx_seq,
	};
	/* Who sends adds no more than there is: else room would be endless, and the peer would not have it. */
	assert(out->credit->sent_units <= out->credit->limit_units);
	out->units_limit = out->units_left = out->credit->limit_units - out->credit->sent_units;
	ripc__put_le64(out->head, RIPC__FAST_HEADER_WORD);
	ripc__put_le64(out->head + 8, dest);
	ripc__put_le64(out->head + 16, s->id);
	/* No return buffers, and no credit on a lane that needs none. */
	ripc__put_le64(out->head + SEQ_OFFSET, lane->tx_seq);
	if (ops->post_again)
		ripc__put_le32(out->head + SHORT_HEADER_OFFSET, ripc__elided_word(lane->tx_seq, 0));
	s->ctx->fast_path.valid = true;
	return true;
}

/* Nothing was checked; s and ctx may have ended. Lock held. Return: whether it was sent. */
static inline bool fast_path_send(struct ripc *ctx, struct ripc_service *s, uint64_t dest,
				  const struct iovec *item, bool more)
{
	struct ripc__fast_tx *out = &ctx->fast_path.out;
	size_t len = item->iov_len;
	uint32_t units;
	int rc;

	if (RIPC__UNLIKELY(out->s != s || out->dest != dest) && !cache_tx(ctx, s, dest))
		return false;
	assert(tx_lane(s, dest) == out->lane && out->lane && out->lane->ep == out->ep);
	units = ripc__units_of(RIPC__FAST_HEADER_LEN + len);
	if (RIPC__UNLIKELY(len > out->len_max || units > out->units_left || (!item->iov_base && len)))
		return false;
	ripc__put_le32(out->head + LEN_OFFSET, (uint32_t)len);
	rc = out->post(out->ep, out->from, item->iov_base, len, more);
	if (RIPC__UNLIKELY(rc < 0))
		return false;
	ripc__put_le32(out->head + SEQ_OFFSET, ripc__get_le32(out->head + SEQ_OFFSET) + 1);
	out->units_left -= units;
	out->bytes += len;
	if (RIPC__UNLIKELY(rc)) {
		if (rc == 1)
			ripc__progress_request(ctx);
		else
			ripc__progress_request_lazy(ctx);
	}
	return true;
}

static bool __attribute__((noinline)) network_send(struct ripc *ctx, struct ripc_service *s,
						   uint64_t dest, const struct iovec *item, bool more)
{
	ripc__fast_path_flush(ctx);
	return s->state == RIPC__SERVICE_ACTIVE && ripc__network_send(s, dest, item, more);
}

/*
 * The fast path of both sending calls. What it sends is short by the rule of ripc_send(), too:
 * its limits are those of ripc__short_max(). Return: whether it was sent.
 */
static inline bool send_fast(struct ripc_service *s, uint64_t dest, const struct iovec *items,
			     unsigned nitems, const struct ripc_send_options *options)
{
	struct ripc *ctx;
	bool sent;

	if (RIPC__UNLIKELY(!s || !items || nitems != 1))
		return false;
	ctx = ripc__service_owner(s);
	if (RIPC__UNLIKELY(!ctx || !ripc__is_owner(ctx)))
		return false;
	if (options && (options->size != sizeof(*options) ||
			options->nreturn_buffers | (options->flags & ~(unsigned)RIPC_MORE)))
		return false;
	ripc__lock_fast_path(ctx);
	sent = fast_path_send(ctx, s, dest, items, options && options->flags) ||
	       network_send(ctx, s, dest, items, options && options->flags);
	ripc__unlock(ctx);
	return sent;
}

int ripc_send_short(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms)
{
	if (RIPC__LIKELY(send_fast(s, dest, items, nitems, options)))
		return 0;
	return ripc__send(s, dest, items, nitems, options, timeout_ms, false);
}

int ripc_send(struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
	      const struct ripc_send_options *options, int timeout_ms)
{
	if (RIPC__LIKELY(send_fast(s, dest, items, nitems, options)))
		return 0;
	return ripc__send(s, dest, items, nitems, options, timeout_ms, true);
}

/* ---- receiving ---- */

/* Whether a thread that does not drive may look. */
static bool may_poll(struct ripc *ctx)
{
	return !ctx->closing && !ctx->hooks.now && !ctx->in_progress &&
	       !atomic_load_explicit(&ctx->leader, memory_order_relaxed);
}

/* Whether a plain message for s, if one comes, may be given to the caller at once. */
static bool may_receive(const struct ripc_service *s)
{
	/* Long messages that wait for room in the queue take the general way. */
	return s->state == RIPC__SERVICE_ACTIVE && !s->first && ripc__list_empty(&s->rndvs_in) &&
	       may_poll(s->ctx);
}

/* The flow in which plain messages come to s over a lane, or NULL. */
static struct ripc__flow *rx_flow(const struct ripc_service *s, const struct ripc__lane *lane)
{
	struct ripc__flow *flow = lane->flow;

	if (lane->state != RIPC__LANE_UP || lane->shake || lane->rx_depth ||
	    lane->peer->pending_conn || !flow || flow->service != s)
		return NULL;
	return flow;
}

/* One has come by flow, for s, with so many bytes before its payload. */
static void cache_rx(struct ripc_service *s, unsigned tp, struct ripc__lane *lane,
		     const struct ripc__flow *from, uint32_t head)
{
	struct ripc *ctx = s->ctx;
	struct ripc__fast_rx *in = &ctx->fast_path.in;
	uint64_t window = ctx->opt.service_window / RIPC__CREDIT_UNIT;
	int64_t granted, before_update;
	/* What is not up any more has no flows. */
	struct ripc__flow *flow = may_receive(s) ? rx_flow(s, lane) : NULL;

	if (!flow || flow != from)
		return;
	*in = (struct ripc__fast_rx){
		.s = s,
		.lane = lane,
		.flow = flow,
		.t = ctx->tp[tp].t,
		.poll_one = ctx->tp[tp].ops->poll_one,
		.tp = tp,
		.head = head,
		.first = lane->rx_seq,
		.next_seq = lane->rx_seq,
		.pub = {.source = flow->source, .dest = s->id},
	};
	memcpy(in->pub.instance, lane->peer->instance, sizeof(in->pub.instance));
	/* So many may come, and so many be taken without that ripc__flow_consume() has anything to tell. */
	granted = (int64_t)(flow->advertised_units - flow->arrived_units);
	before_update =
		(int64_t)(flow->advertised_units - flow->consumed_units - window + window / 4) - 1;
	if (granted > before_update)
		granted = before_update;
	in->units_left = granted > 0 ? (uint64_t)granted : 0;
	in->units_limit = in->units_left;
	ctx->fast_path.valid = true;
}

/* m is taken out of the cache, for what stands at data: it is the application's. */
static inline void fill_message(struct ripc *ctx, struct ripc__message *m,
				const struct ripc__event *ev, uint32_t head, unsigned tp)
{
	ripc__message_cache_pop(ctx);
	m->pub.nitems = 1;
	m->pub.nreturn_buffers = 0;
	m->iov[0].iov_base = (void *)(ev->data + head);
	m->iov[0].iov_len = ev->len - head;
	m->placement[0] = RIPC_IN_RECEIVE_BUFFER;
	if (ev->token) {
		m->token = ev->token;
		m->tp = (uint8_t)tp;
	}
	ripc__list_add(&ctx->messages, &m->held);
}

/*
 * The message that an event brought, if it is plain and for s. m: the next one of the cache, in whose room it may lie. Return: m with
 * it, taken out of the cache; NULL: nothing was done.
 */
static struct ripc__message *fast_path(struct ripc_service *s, unsigned tp, struct ripc__message *m,
				       const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__lane *lane = ev->user;
	struct ripc__fast_header h;
	struct ripc__flow *flow;
	struct ripc__peer *p;
	uint32_t units, len;

	/* Over networks it is for remote.c. */
	if (ev->kind != RIPC__EV_RECV || lane->rx_depth || !ripc__fast_header(&h, lane, ev) ||
	    h.credits)
		return NULL;
	flow = rx_flow(s, lane);
	p = lane->peer;
	len = h.len;
	units = ripc__units_of(RIPC__FAST_HEADER_LEN + (size_t)len);
	if (!flow || flow->id != h.dest || flow->source != h.source ||
	    flow->arrived_units + units > flow->advertised_units)
		return NULL;
	/* A copy is for the general way. */
	if (!ev->token && ev->data != ripc__message_buf(m))
		return NULL;
	m->pub.source = h.source;
	m->pub.dest = s->id;
	memcpy(m->pub.instance, p->instance, sizeof(m->pub.instance));
	fill_message(ctx, m, ev, h.head, tp);
	lane->rx_last = (struct ripc__header_context){true, h.dest, h.source};
	lane->last_rx_ns = ctx->now_ns;
	lane->rx_untimed = true;
	lane->pinged_ns = 0;
	lane->rx_seq++;
	ctx->stats.short_received++;
	ctx->stats.bytes_received += len;
	s->stats.short_received++;
	s->stats.bytes_received += len;
	p->stats.short_received++;
	p->stats.bytes_received += len;
	flow->arrived_units += units;
	ripc__flow_consume(flow, units);
	cache_rx(s, tp, lane, flow, h.head);
	return m;
}

/* An event that take() has brought goes the general way. */
static void slow_path(struct ripc *ctx, unsigned tp, struct ripc__message *m,
		      const struct ripc__event *ev)
{
	/* The room it lies in is nobody's meanwhile. */
	ripc__message_cache_pop(ctx);
	ripc__dispatch_event(ctx, tp, ev);
	ripc__message_release(m);
}

/*
 * An event that take() has brought and that is not the next plain message of those known. Return: a message for s; NULL: it was for
 * somebody else, or more than a plain message.
 */
static struct ripc__message *__attribute__((noinline))
handle_event(struct ripc_service *s, unsigned tp, struct ripc__message *m,
	     const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__message *match;

	ripc__fast_path_flush(ctx);
	match = fast_path(s, tp, m, ev);
	if (match)
		return match;
	match = ripc__network_receive(s, tp, m, ev);
	if (match) {
		ripc__list_add(&ctx->messages, &match->held);
		return match;
	}
	slow_path(ctx, tp, m, ev);
	return NULL;
}

/* Whether a message with len bytes of payload is the next plain one of those known. It has that much before its payload. */
static inline bool is_next(const struct ripc__fast_rx *in, const uint8_t *head, uint32_t len)
{
	if (in->head == RIPC__ELIDED_LEN)
		return ripc__get_le32(head) == ripc__elided_word(in->next_seq, 0);
	return ripc__get_le64(head) == RIPC__FAST_HEADER_WORD &&
	       ripc__get_le64(head + 8) == in->pub.dest &&
	       ripc__get_le64(head + 16) == in->pub.source &&
	       ripc__get_le64(head + SEQ_OFFSET) == in->next_seq &&
	       ripc__get_le32(head + LEN_OFFSET) == len;
}

/* One look where the last plain message for s came from, which is known. Return: a message for s, or NULL; *some: there was something. */
static inline struct ripc__message *__attribute__((always_inline))
poll_cached_lane(struct ripc_service *s, bool *had_event)
{
	struct ripc *ctx = s->ctx;
	struct ripc__fast_rx *in = &ctx->fast_path.in;
	struct ripc__message *m = ripc__message_cache_peek(ctx);
	struct ripc__event ev;
	uint32_t units, len;

	if (RIPC__UNLIKELY(!m) ||
	    !in->poll_one(in->t, ripc__message_buf(m), RIPC__MESSAGE_BUF_LEN, &ev))
		return NULL;
	*had_event = true;
	assert(may_receive(s) && rx_flow(s, in->lane) == in->flow);
	if (RIPC__UNLIKELY(ev.kind != RIPC__EV_RECV || ev.user != in->lane || ev.len < in->head ||
			   (!ev.token && ev.data != ripc__message_buf(m))))
		return handle_event(s, in->tp, m, &ev);
	len = ev.len - in->head;
	units = ripc__units_of(RIPC__FAST_HEADER_LEN + (size_t)len);
	if (RIPC__UNLIKELY(units > in->units_left || !is_next(in, ev.data, len)))
		return handle_event(s, in->tp, m, &ev);
	in->next_seq++;
	in->units_left -= units;
	in->bytes += len;
	memcpy(&m->pub, &in->pub, sizeof(in->pub));
	fill_message(ctx, m, &ev, in->head, in->tp);
	return m;
}

/*
 * Looks at the endpoints that spoke last, for a message for s; NULL: for anything. Return: as poll_cached_lane(); what is for nobody in particular
 * has gone the general way.
 */
static struct ripc__message *poll_recent(struct ripc *ctx, struct ripc_service *s, bool *had_event)
{
	struct ripc__message *m = ripc__message_cache_peek(ctx);

	if (RIPC__UNLIKELY(!m))
		return NULL;
	for (unsigned active_tps = ctx->active_tps; active_tps; active_tps &= active_tps - 1) {
		unsigned tp = (unsigned)__builtin_ctz(active_tps);
		const struct ripc__transport_ops *ops = ctx->tp[tp].ops;
		struct ripc__event ev;

		if (!ops->poll_one ||
		    !ops->poll_one(ctx->tp[tp].t, ripc__message_buf(m), RIPC__MESSAGE_BUF_LEN, &ev))
			continue;
		*had_event = true;
		if (s)
			return handle_event(s, tp, m, &ev);
		slow_path(ctx, tp, m, &ev);
		return NULL;
	}
	return NULL;
}

/*
 * One look at the network by a thread that does not drive, most often without the clock. One that goes to sleep after it has no
 * other: it is a whole one.
 */
static void poll_transports(struct ripc *ctx)
{
	ripc__fast_path_flush(ctx);
	if (ctx->poll_count++ % FULL_PASS_INTERVAL && ctx->opt.wait != RIPC__WAIT_BLOCK) {
		ctx->now_stale = true;
		ripc__partial_pass(ctx);
		ctx->now_stale = false;
	} else {
		ctx->now_ns = ripc__now(ctx);
		ripc__full_pass(ctx);
	}
}

/*
 * Whether a thread that has looked in vain so often looks on. The driver looks less often where the last message came from, and what
 * comes to it has a longer way: one that polls stays here for longer than a message needs. *polling_since_ns: when it was seen to; 0 at first.
 */
static bool keep_polling(struct ripc *ctx, unsigned polls, int timeout_ms, uint64_t *polling_since_ns)
{
	if (ctx->opt.wait == RIPC__WAIT_BLOCK || ripc__lock_contended(ctx))
		return false;
	if (polls < POLLS_MAX)
		return true;
	if (ctx->opt.wait != RIPC__WAIT_POLL || (timeout_ms > 0 && timeout_ms < POLL_TIMEOUT_MIN_MS))
		return false;
	/* The clock is read in whole rounds. */
	if (ctx->poll_count % FULL_PASS_INTERVAL != 1)
		return true;
	if (!*polling_since_ns)
		*polling_since_ns = ctx->now_ns;
	atomic_store_explicit(&ctx->app_active, true, memory_order_relaxed);
	return ctx->now_ns - *polling_since_ns < POLL_TIME_NS;
}

/* There was nothing yet. */
static void begin_polling(struct ripc *ctx)
{
	if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
		ripc__delayed_ack_idle(ctx);
	/*
	 * The agent goes on as if this thread had driven: it ticks, and takes over when nobody has looked for a tick. Where the last look is
	 * longer ago than that, the time is read, and so it is in each whole round.
	 */
	if (!atomic_load_explicit(&ctx->app_active, memory_order_relaxed)) {
		atomic_store_explicit(&ctx->app_active, true, memory_order_relaxed);
		ctx->poll_count = 0;
	}
}

/* Where a look is a system call, threads that mean to sleep have none to waste. */
static void end_polling(struct ripc *ctx)
{
	if (ctx->opt.wait != RIPC__WAIT_POLL)
		ctx->poll_budget /= 2;
	ctx->polled = ctx->opt.wait == RIPC__WAIT_BLOCK;
	/* Whoever waits on does so from now on. */
	ctx->now_fresh = false;
}

/*
 * Some looks by a thread that does not drive, for a plain message and for whatever else comes, while nothing is in the queue. The lock
 * is held all the time. Return: a message for s, which is in no queue and whose credit is given back. NULL: there is none, or something
 * came to the queue.
 */
static struct ripc__message *fast_path_receive(struct ripc_service *s, int timeout_ms)
{
	struct ripc *ctx = s->ctx;
	uint64_t polling_since_ns = 0;
	unsigned polls = 0;

	if (!may_receive(s))
		return NULL;
	begin_polling(ctx);
	do {
		bool had_event = false;

		for (unsigned i = ctx->poll_count % FULL_PASS_INTERVAL ? ctx->poll_budget : 0;
		     i && !had_event; i--) {
			struct ripc__message *m = ctx->fast_path.in.s == s
							  ? poll_cached_lane(s, &had_event)
							  : poll_recent(ctx, s, &had_event);

			if (RIPC__LIKELY(m != NULL)) {
				ctx->poll_count++;
				ctx->poll_budget = POLL_BUDGET_MAX;
				return m;
			}
		}
		if (!s->first)
			poll_transports(ctx);
		if (s->first) {
			/* It came from another one, or a moment later. */
			ctx->poll_budget = had_event ? POLL_BUDGET_MAX : ctx->poll_budget / 2 + 1;
			return NULL;
		}
		/* One that came for another service, whose receiver waits behind this thread. */
		if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
			ripc__delayed_ack_idle(ctx);
	} while (keep_polling(ctx, ++polls, timeout_ms, &polling_since_ns) && may_receive(s));
	end_polling(ctx);
	return NULL;
}

void ripc__fast_path_poll_request(struct ripc *ctx, const struct ripc_request *r, int timeout_ms)
{
	uint64_t polling_since_ns = 0;
	unsigned polls = 0;

	if (!may_poll(ctx))
		return;
	begin_polling(ctx);
	do {
		bool had_event = false;

		for (unsigned i = ctx->poll_count % FULL_PASS_INTERVAL ? ctx->poll_budget : 0;
		     i && !had_event; i--)
			poll_recent(ctx, NULL, &had_event);
		if (had_event)
			ctx->poll_count++;
		else
			poll_transports(ctx);
		if (r->state == RIPC__REQUEST_DONE) {
			ctx->poll_budget = had_event ? POLL_BUDGET_MAX : ctx->poll_budget / 2 + 1;
			return;
		}
		if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
			ripc__delayed_ack_idle(ctx);
	} while (keep_polling(ctx, ++polls, timeout_ms, &polling_since_ns) && may_poll(ctx));
	end_polling(ctx);
}

/* What a first look has not brought. Return: as ripc_receive(). */
static int __attribute__((noinline))
receive(struct ripc *ctx, struct ripc_service *s, struct ripc_message **message, int timeout_ms)
	RIPC__RELEASE(ctx->lock)
{
	struct ripc__message *m = timeout_ms ? fast_path_receive(s, timeout_ms) : NULL;
	int rc = 0;

	if (!m) {
		ripc__fast_path_flush(ctx);
		rc = ripc__receive(s, &m, timeout_ms);
		ctx->polled = false;
	}
	if (m)
		*message = &m->pub;
	ripc__unlock(ctx);
	return rc;
}

int ripc_receive(struct ripc_service *s, struct ripc_message **message, int timeout_ms)
{
	struct ripc__message *m = NULL;
	struct ripc *ctx;
	bool had_event;

	if (RIPC__UNLIKELY(!s || !message))
		return ripc__fail(-EINVAL, s ? "nowhere to store the message" : "no service");
	ctx = ripc__service_owner(s);
	if (RIPC__UNLIKELY(!ctx || !ripc__is_owner(ctx)))
		return ripc__service_context(s, &ctx);
	ripc__lock_fast_path(ctx);
	if (RIPC__LIKELY(ctx->fast_path.in.s == s && timeout_ms &&
			 ctx->poll_count % FULL_PASS_INTERVAL &&
			 atomic_load_explicit(&ctx->app_active, memory_order_relaxed)))
		m = poll_cached_lane(s, &had_event);
	if (RIPC__UNLIKELY(!m))
		return receive(ctx, s, message, timeout_ms);
	ctx->poll_count++;
	*message = &m->pub;
	ripc__unlock(ctx);
	return 0;
}
