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
#include "core/rendezvous/request.h"
#include "core/message/send.h"
#include "core/message/service.h"
#include "wire/bytes.h"

#include <assert.h>

#define HOPE_MAX   16       /* looks at the endpoint that spoke last before the others get one */
#define LOOKS      16       /* looks at all before a thread becomes the driver */
#define WHOLE_EACH 32       /* of so many looks one is a whole round */
#define STAY_NS    RIPC__MS /* how long a thread that polls looks before it becomes the driver */
#define STAY_MS \
	10 /* shortest timeout with which it does: that ends later by STAY_NS and a whole round or two */

/* Where in a plain header the number of the message and the length of its item stand. */
#define SEQ_AT 24
#define LEN_AT 32
/* Of AGAIN the second half is the number: it is kept where that stands, and grows with it. */
#define AGAIN_AT (SEQ_AT - 2)

_Static_assert(RIPC__HEAD_LEN == RIPC__PLAIN_LEN, "what post_plain() takes is a plain header");
_Static_assert(RIPC__BRIEF_LEN == RIPC__AGAIN_LEN, "what post_again() takes is that of AGAIN");
_Static_assert(offsetof(struct ripc_message, source) == 0 && offsetof(struct ripc_message, dest) == 8 &&
		       offsetof(struct ripc_message, instance) == 16,
	       "a message begins as struct ripc__plain_in has it");

/* ---- what is known ---- */

static inline void forget_out(struct ripc__plain_out *out)
{
	struct ripc_service *s = out->s;
	struct ripc__peer *p;
	uint32_t n;

	if (!s)
		return;
	out->s = NULL;
	p = out->lane->peer;
	n = ripc__get_le32(out->head + SEQ_AT) - out->first;
	out->lane->tx_seq += n;
	out->credit->sent_units += out->room - out->left;
	s->ctx->stats.short_sent += n;
	s->ctx->stats.bytes_sent += out->bytes;
	s->stats.short_sent += n;
	s->stats.bytes_sent += out->bytes;
	p->stats.short_sent += n;
	p->stats.bytes_sent += out->bytes;
}

static inline void forget_in(struct ripc__plain_in *in)
{
	struct ripc_service *s = in->s;
	struct ripc__lane *lane = in->lane;
	struct ripc__peer *p;
	uint32_t n;

	if (!s)
		return;
	in->s = NULL;
	n = in->next - in->first;
	if (!n)
		return;
	p = lane->peer;
	lane->rx_seq += n;
	lane->heard_ns = s->ctx->now_ns;
	lane->heard = true;
	lane->pinged_ns = 0;
	in->flow->arrived_units += in->room - in->left;
	in->flow->consumed_units += in->room - in->left;
	s->ctx->stats.short_received += n;
	s->ctx->stats.bytes_received += in->bytes;
	s->stats.short_received += n;
	s->stats.bytes_received += in->bytes;
	p->stats.short_received += n;
	p->stats.bytes_received += in->bytes;
}

void ripc__plain_forget(struct ripc *ctx)
{
	ctx->plain.known = false;
	forget_out(&ctx->plain.out);
	forget_in(&ctx->plain.in);
}

/* ---- sending ---- */

/* The lane over which a plain message goes from s to dest, or NULL. Nothing was checked but that s is there. */
static struct ripc__lane *way_out(const struct ripc_service *s, uint64_t dest)
{
	struct ripc *ctx = s->ctx;
	const struct ripc__dest *d = ripc__dest_find(ctx, dest);
	const struct ripc__transport_ops *ops;
	struct ripc__lane *lane;

	/*
	 * Messages to others, over networks, come here each time: first what tells these. What is held has to be carried, or to go before
	 * it.
	 */
	if (!d || d->state != RIPC__DEST_KNOWN || !(lane = d->peer->lane) || lane->counts ||
	    lane->rx_depth || ctx->datagrams || ctx->closing || ctx->done.held ||
	    s->state != RIPC__SERVICE_ACTIVE || ripc__group_is_name(dest) || !d->credit ||
	    lane->blocked || !ripc__list_empty(&lane->control))
		return NULL;
	ops = ctx->tp[lane->tp].ops;
	/* Where AGAIN is sent, the first one that says between whom is not of those that are known. */
	return (ops->post_again ? ripc__between_are(&lane->tx_last, dest, s->id)
				: ops->post_plain != NULL)
		       ? lane
		       : NULL;
}

/*
 * Finds out what can be known of plain messages from s to dest. s may have ended. Return: whether
 * there can be any.
 */
static bool __attribute__((noinline))
know_out(struct ripc *ctx, struct ripc_service *s, uint64_t dest)
{
	struct ripc__plain_out *out = &ctx->plain.out;
	const struct ripc__transport_ops *ops;
	struct ripc__lane *lane;

	forget_out(out);
	if (s->state != RIPC__SERVICE_ACTIVE)
		return false;
	lane = way_out(s, dest);
	if (!lane)
		return false;
	ripc__done_answered(lane);
	ops = s->ctx->tp[lane->tp].ops;
	*out = (struct ripc__plain_out){
		.s = s,
		.dest = dest,
		.lane = lane,
		.ep = lane->ep,
		.credit = s->ctx->last_dest->credit,
		.post = ops->post_again ? ops->post_again : ops->post_plain,
		.from = ops->post_again ? out->head + AGAIN_AT : out->head,
		.len_max = lane->send_max - RIPC__SHORT_FIXED,
		.first = lane->tx_seq,
	};
	/* Who sends adds no more than there is: else room would be endless, and the peer would not have it. */
	assert(out->credit->sent_units <= out->credit->limit_units);
	out->room = out->left = out->credit->limit_units - out->credit->sent_units;
	ripc__put_le64(out->head, RIPC__PLAIN_WORD);
	ripc__put_le64(out->head + 8, dest);
	ripc__put_le64(out->head + 16, s->id);
	/* No return buffers, and no credit on a lane that needs none. */
	ripc__put_le64(out->head + SEQ_AT, lane->tx_seq);
	if (ops->post_again)
		ripc__put_le32(out->head + AGAIN_AT, ripc__again_word(lane->tx_seq, 0));
	s->ctx->plain.known = true;
	return true;
}

/* Nothing was checked; s and ctx may have ended. Lock held. Return: whether it was sent. */
static inline bool plain_send(struct ripc *ctx, struct ripc_service *s, uint64_t dest,
			      const struct iovec *item, bool more)
{
	struct ripc__plain_out *out = &ctx->plain.out;
	size_t len = item->iov_len;
	uint32_t units;
	int rc;

	if (RIPC__UNLIKELY(out->s != s || out->dest != dest) && !know_out(ctx, s, dest))
		return false;
	assert(way_out(s, dest) == out->lane && out->lane && out->lane->ep == out->ep);
	units = ripc__units_of(RIPC__PLAIN_LEN + len);
	if (RIPC__UNLIKELY(len > out->len_max || units > out->left || (!item->iov_base && len)))
		return false;
	ripc__put_le32(out->head + LEN_AT, (uint32_t)len);
	rc = out->post(out->ep, out->from, item->iov_base, len, more);
	if (RIPC__UNLIKELY(rc < 0))
		return false;
	ripc__put_le32(out->head + SEQ_AT, ripc__get_le32(out->head + SEQ_AT) + 1);
	out->left -= units;
	out->bytes += len;
	if (RIPC__UNLIKELY(rc)) {
		if (rc == 1)
			ripc__agent_need(ctx);
		else
			ripc__agent_soon(ctx);
	}
	return true;
}

static bool __attribute__((noinline)) remote_send(struct ripc *ctx, struct ripc_service *s,
						  uint64_t dest, const struct iovec *item, bool more)
{
	ripc__plain_forget(ctx);
	return s->state == RIPC__SERVICE_ACTIVE && ripc__remote_send(s, dest, item, more);
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
	if (options && options->nreturns | (options->flags & ~(unsigned)RIPC_MORE))
		return false;
	ripc__lock_plain(ctx);
	sent = plain_send(ctx, s, dest, items, options && options->flags) ||
	       remote_send(ctx, s, dest, items, options && options->flags);
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
static bool may_look(struct ripc *ctx)
{
	return !ctx->closing && !ctx->hooks.now && !ctx->in_progress &&
	       !atomic_load_explicit(&ctx->driver, memory_order_relaxed);
}

/* Whether a plain message for s, if one comes, may be given to the caller at once. */
static bool may_take(const struct ripc_service *s)
{
	/* Long messages that wait for room in the queue take the general way. */
	return s->state == RIPC__SERVICE_ACTIVE && !s->first && ripc__list_empty(&s->longs) &&
	       may_look(s->ctx);
}

/* The flow in which plain messages come to s over a lane, or NULL. */
static struct ripc__flow *way_in(const struct ripc_service *s, const struct ripc__lane *lane)
{
	struct ripc__flow *flow = lane->flow;

	if (lane->state != RIPC__LANE_UP || lane->shake || lane->rx_depth || lane->peer->held ||
	    !flow || flow->service != s)
		return NULL;
	return flow;
}

/* One has come by flow, for s, with so many bytes before its payload. */
static void know_in(struct ripc_service *s, unsigned tp, struct ripc__lane *lane,
		    const struct ripc__flow *from, uint32_t head)
{
	struct ripc *ctx = s->ctx;
	struct ripc__plain_in *in = &ctx->plain.in;
	uint64_t window = ctx->opt.service_window / RIPC__CREDIT_UNIT;
	int64_t may, quiet;
	/* What is not up any more has no flows. */
	struct ripc__flow *flow = may_take(s) ? way_in(s, lane) : NULL;

	if (!flow || flow != from)
		return;
	*in = (struct ripc__plain_in){
		.s = s,
		.lane = lane,
		.flow = flow,
		.t = ctx->tp[tp].t,
		.take = ctx->tp[tp].ops->take,
		.tp = tp,
		.head = head,
		.first = lane->rx_seq,
		.next = lane->rx_seq,
		.pub = {.source = flow->source, .dest = s->id},
	};
	memcpy(in->pub.instance, lane->peer->instance, sizeof(in->pub.instance));
	/* So many may come, and so many be taken without that ripc__flow_consume() has anything to tell. */
	may = (int64_t)(flow->announced_units - flow->arrived_units);
	quiet = (int64_t)(flow->announced_units - flow->consumed_units - window + window / 4) - 1;
	if (may > quiet)
		may = quiet;
	in->left = may > 0 ? (uint64_t)may : 0;
	in->room = in->left;
	ctx->plain.known = true;
}

/* m is taken out of the cache, for what stands at data: it is the application's. */
static inline void fill(struct ripc *ctx, struct ripc__message *m, const struct ripc__event *ev,
			uint32_t head, unsigned tp)
{
	ripc__message_pop(ctx);
	m->pub.nitems = 1;
	m->pub.nreturns = 0;
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
static struct ripc__message *plain(struct ripc_service *s, unsigned tp, struct ripc__message *m,
				   const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__lane *lane = ev->user;
	struct ripc__plain_head h;
	struct ripc__flow *flow;
	struct ripc__peer *p;
	uint32_t units, len;

	/* Over networks it is for remote.c. */
	if (ev->kind != RIPC__EV_RECV || lane->rx_depth || !ripc__plain_head(&h, lane, ev) || h.credits)
		return NULL;
	flow = way_in(s, lane);
	p = lane->peer;
	len = h.len;
	units = ripc__units_of(RIPC__PLAIN_LEN + (size_t)len);
	if (!flow || flow->id != h.dest || flow->source != h.source ||
	    flow->arrived_units + units > flow->announced_units)
		return NULL;
	/* A copy is for the general way. */
	if (!ev->token && ev->data != ripc__message_room(m))
		return NULL;
	m->pub.source = h.source;
	m->pub.dest = s->id;
	memcpy(m->pub.instance, p->instance, sizeof(m->pub.instance));
	fill(ctx, m, ev, h.head, tp);
	lane->rx_last = (struct ripc__between){true, h.dest, h.source};
	lane->heard_ns = ctx->now_ns;
	lane->heard = true;
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
	know_in(s, tp, lane, flow, h.head);
	return m;
}

/* An event that take() has brought goes the general way. */
static void general(struct ripc *ctx, unsigned tp, struct ripc__message *m,
		    const struct ripc__event *ev)
{
	/* The room it lies in is nobody's meanwhile. */
	ripc__message_pop(ctx);
	ripc__round_event(ctx, tp, ev);
	ripc__message_drop(m);
}

/*
 * An event that take() has brought and that is not the next plain message of those known. Return: a message for s; NULL: it was for
 * somebody else, or more than a plain message.
 */
static struct ripc__message *__attribute__((noinline))
came(struct ripc_service *s, unsigned tp, struct ripc__message *m, const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__message *found;

	ripc__plain_forget(ctx);
	found = plain(s, tp, m, ev);
	if (found)
		return found;
	found = ripc__remote_message(s, tp, m, ev);
	if (found) {
		ripc__list_add(&ctx->messages, &found->held);
		return found;
	}
	general(ctx, tp, m, ev);
	return NULL;
}

/* Whether a message with len bytes of payload is the next plain one of those known. It has that much before its payload. */
static inline bool due(const struct ripc__plain_in *in, const uint8_t *head, uint32_t len)
{
	if (in->head == RIPC__AGAIN_LEN)
		return ripc__get_le32(head) == ripc__again_word(in->next, 0);
	return ripc__get_le64(head) == RIPC__PLAIN_WORD && ripc__get_le64(head + 8) == in->pub.dest &&
	       ripc__get_le64(head + 16) == in->pub.source &&
	       ripc__get_le64(head + SEQ_AT) == in->next && ripc__get_le32(head + LEN_AT) == len;
}

/* One look where the last plain message for s came from, which is known. Return: a message for s, or NULL; *some: there was something. */
static inline struct ripc__message *__attribute__((always_inline))
take_known(struct ripc_service *s, bool *some)
{
	struct ripc *ctx = s->ctx;
	struct ripc__plain_in *in = &ctx->plain.in;
	struct ripc__message *m = ripc__message_next(ctx);
	struct ripc__event ev;
	uint32_t units, len;

	if (RIPC__UNLIKELY(!m) || !in->take(in->t, ripc__message_room(m), RIPC__MESSAGE_ROOM, &ev))
		return NULL;
	*some = true;
	assert(may_take(s) && way_in(s, in->lane) == in->flow);
	if (RIPC__UNLIKELY(ev.kind != RIPC__EV_RECV || ev.user != in->lane || ev.len < in->head ||
			   (!ev.token && ev.data != ripc__message_room(m))))
		return came(s, in->tp, m, &ev);
	len = ev.len - in->head;
	units = ripc__units_of(RIPC__PLAIN_LEN + (size_t)len);
	if (RIPC__UNLIKELY(units > in->left || !due(in, ev.data, len)))
		return came(s, in->tp, m, &ev);
	in->next++;
	in->left -= units;
	in->bytes += len;
	memcpy(&m->pub, &in->pub, sizeof(in->pub));
	fill(ctx, m, &ev, in->head, in->tp);
	return m;
}

/*
 * Looks at the endpoints that spoke last, for a message for s; NULL: for anything. Return: as take_known(); what is for nobody in particular
 * has gone the general way.
 */
static struct ripc__message *take_any(struct ripc *ctx, struct ripc_service *s, bool *some)
{
	struct ripc__message *m = ripc__message_next(ctx);

	if (RIPC__UNLIKELY(!m))
		return NULL;
	for (unsigned live = ctx->live; live; live &= live - 1) {
		unsigned tp = (unsigned)__builtin_ctz(live);
		const struct ripc__transport_ops *ops = ctx->tp[tp].ops;
		struct ripc__event ev;

		if (!ops->take ||
		    !ops->take(ctx->tp[tp].t, ripc__message_room(m), RIPC__MESSAGE_ROOM, &ev))
			continue;
		*some = true;
		if (s)
			return came(s, tp, m, &ev);
		general(ctx, tp, m, &ev);
		return NULL;
	}
	return NULL;
}

/*
 * One look at the network by a thread that does not drive, most often without the clock. One that goes to sleep after it has no
 * other: it is a whole one.
 */
static void look(struct ripc *ctx)
{
	ripc__plain_forget(ctx);
	if (ctx->glances++ % WHOLE_EACH && ctx->opt.wait != RIPC__WAIT_BLOCK) {
		ctx->now_old = true;
		ripc__round_part(ctx);
		ctx->now_old = false;
	} else {
		ctx->now_ns = ripc__now(ctx);
		ripc__round(ctx);
	}
}

/*
 * Whether a thread that has looked in vain so often looks on. The driver looks less often where the last message came from, and what
 * comes to it has a longer way: one that polls stays here for longer than a message needs. *since_ns: when it was seen to; 0 at first.
 */
static bool looks_on(struct ripc *ctx, unsigned looks, int timeout_ms, uint64_t *since_ns)
{
	if (ctx->opt.wait == RIPC__WAIT_BLOCK || ripc__lock_wanted(ctx))
		return false;
	if (looks < LOOKS)
		return true;
	if (ctx->opt.wait != RIPC__WAIT_POLL || (timeout_ms > 0 && timeout_ms < STAY_MS))
		return false;
	/* The clock is read in whole rounds. */
	if (ctx->glances % WHOLE_EACH != 1)
		return true;
	if (!*since_ns)
		*since_ns = ctx->now_ns;
	atomic_store_explicit(&ctx->driven, true, memory_order_relaxed);
	return ctx->now_ns - *since_ns < STAY_NS;
}

/* There was nothing yet. */
static void begin_looks(struct ripc *ctx)
{
	if (RIPC__UNLIKELY(ctx->done.lane))
		ripc__done_unanswered(ctx);
	/*
	 * The agent goes on as if this thread had driven: it ticks, and takes over when nobody has looked for a tick. Where the last look is
	 * longer ago than that, the time is read, and so it is in each whole round.
	 */
	if (!atomic_load_explicit(&ctx->driven, memory_order_relaxed)) {
		atomic_store_explicit(&ctx->driven, true, memory_order_relaxed);
		ctx->glances = 0;
	}
}

/* Where a look is a system call, threads that mean to sleep have none to waste. */
static void looked_in_vain(struct ripc *ctx)
{
	if (ctx->opt.wait != RIPC__WAIT_POLL)
		ctx->hope /= 2;
	ctx->looked = ctx->opt.wait == RIPC__WAIT_BLOCK;
	/* Whoever waits on does so from now on. */
	ctx->now_fresh = false;
}

/*
 * Some looks by a thread that does not drive, for a plain message and for whatever else comes, while nothing is in the queue. The lock
 * is held all the time. Return: a message for s, which is in no queue and whose credit is given back. NULL: there is none, or something
 * came to the queue.
 */
static struct ripc__message *plain_receive(struct ripc_service *s, int timeout_ms)
{
	struct ripc *ctx = s->ctx;
	uint64_t since_ns = 0;
	unsigned looks = 0;

	if (!may_take(s))
		return NULL;
	begin_looks(ctx);
	do {
		bool some = false;

		for (unsigned i = ctx->glances % WHOLE_EACH ? ctx->hope : 0; i && !some; i--) {
			struct ripc__message *m = ctx->plain.in.s == s ? take_known(s, &some)
								       : take_any(ctx, s, &some);

			if (RIPC__LIKELY(m != NULL)) {
				ctx->glances++;
				ctx->hope = HOPE_MAX;
				return m;
			}
		}
		if (!s->first)
			look(ctx);
		if (s->first) {
			/* It came from another one, or a moment later. */
			ctx->hope = some ? HOPE_MAX : ctx->hope / 2 + 1;
			return NULL;
		}
		/* One that came for another service, whose receiver waits behind this thread. */
		if (RIPC__UNLIKELY(ctx->done.lane))
			ripc__done_unanswered(ctx);
	} while (looks_on(ctx, ++looks, timeout_ms, &since_ns) && may_take(s));
	looked_in_vain(ctx);
	return NULL;
}

void ripc__plain_await(struct ripc *ctx, const struct ripc_request *r, int timeout_ms)
{
	uint64_t since_ns = 0;
	unsigned looks = 0;

	if (!may_look(ctx))
		return;
	begin_looks(ctx);
	do {
		bool some = false;

		for (unsigned i = ctx->glances % WHOLE_EACH ? ctx->hope : 0; i && !some; i--)
			take_any(ctx, NULL, &some);
		if (some)
			ctx->glances++;
		else
			look(ctx);
		if (r->state == RIPC__REQUEST_DONE) {
			ctx->hope = some ? HOPE_MAX : ctx->hope / 2 + 1;
			return;
		}
		if (RIPC__UNLIKELY(ctx->done.lane))
			ripc__done_unanswered(ctx);
	} while (looks_on(ctx, ++looks, timeout_ms, &since_ns) && may_look(ctx));
	looked_in_vain(ctx);
}

/* What a first look has not brought. Return: as ripc_receive(). */
static int __attribute__((noinline))
receive(struct ripc *ctx, struct ripc_service *s, struct ripc_message **message, int timeout_ms)
	RIPC__RELEASE(ctx->lock)
{
	struct ripc__message *m = timeout_ms ? plain_receive(s, timeout_ms) : NULL;
	int rc = 0;

	if (!m) {
		ripc__plain_forget(ctx);
		rc = ripc__receive(s, &m, timeout_ms);
		ctx->looked = false;
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
	bool some;

	if (RIPC__UNLIKELY(!s || !message))
		return ripc__fail(-EINVAL, s ? "nowhere to store the message" : "no service");
	ctx = ripc__service_owner(s);
	if (RIPC__UNLIKELY(!ctx || !ripc__is_owner(ctx)))
		return ripc__service_context(s, &ctx);
	ripc__lock_plain(ctx);
	if (RIPC__LIKELY(ctx->plain.in.s == s && timeout_ms && ctx->glances % WHOLE_EACH &&
			 atomic_load_explicit(&ctx->driven, memory_order_relaxed)))
		m = take_known(s, &some);
	if (RIPC__UNLIKELY(!m))
		return receive(ctx, s, message, timeout_ms);
	ctx->glances++;
	*message = &m->pub;
	ripc__unlock(ctx);
	return 0;
}
