/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ripc_send_short() and ripc_receive(), and plain messages: short ones of one item that need nothing else, to a peer whose lane is
 * up and with room for them, or for the service that asks. For these there is a straight road past all that a message may need;
 * whatever is not plain takes the general one, with the same result. Both take turns freely: they share sequence numbers,
 * credit, counters and queues.
 */
#include "core/group.h"
#include "core/lane.h"
#include "core/message.h"
#include "core/peer.h"
#include "core/remote.h"
#include "core/send.h"
#include "core/service.h"
#include "wire/bytes.h"

#define HOPE_MAX   16 /* looks at the endpoint that spoke last before the others get one */
#define LOOKS      16 /* looks at all before a thread becomes the driver */
#define WHOLE_EACH 32 /* of so many looks one is a whole round */

_Static_assert(RIPC__HEAD_LEN == RIPC__PLAIN_LEN, "what post_plain() takes is a plain header");

static inline uint32_t units_of(size_t len)
{
	return (uint32_t)((len + RIPC__CREDIT_UNIT - 1) / RIPC__CREDIT_UNIT);
}

/* Nothing was checked but that s is there. Lock held. Return: whether it was sent. */
static inline bool plain_send(struct ripc_service *s, uint64_t dest, const struct iovec *item,
			      bool more)
{
	struct ripc *ctx = s->ctx;
	struct ripc__dest *d = ctx->last_dest;
	const struct ripc__transport_ops *ops;
	struct ripc__credit *c;
	struct ripc__lane *lane;
	struct ripc__peer *p;
	uint8_t head[RIPC__HEAD_LEN];
	size_t len = item->iov_len;
	uint32_t units;
	int rc;

	if (RIPC__UNLIKELY(!d || d->id != dest || d->state != RIPC__DEST_KNOWN || ctx->datagrams ||
			   ctx->closing || s->state != RIPC__SERVICE_ACTIVE ||
			   ripc__group_is_name(dest)))
		return false;
	p = d->peer;
	lane = p->lane;
	c = d->credit;
	if (RIPC__UNLIKELY(!lane || !c || len > lane->send_max - RIPC__SHORT_FIXED ||
			   (!item->iov_base && len) || lane->blocked || lane->counts ||
			   lane->rx_depth || !ripc__list_empty(&lane->control)))
		return false;
	units = units_of(RIPC__PLAIN_LEN + len);
	ops = ctx->tp[lane->tp].ops;
	if (RIPC__UNLIKELY(!ops->post_plain || c->sent_units + units > c->limit_units))
		return false;
	ripc__put_le64(head, RIPC__PLAIN_WORD);
	ripc__put_le64(head + 8, dest);
	ripc__put_le64(head + 16, s->id);
	/* No return buffers, and no credit on a lane that needs none. */
	ripc__put_le64(head + 24, lane->tx_seq);
	ripc__put_le32(head + 32, (uint32_t)len);
	rc = ops->post_plain(lane->ep, head, item->iov_base, len, more);
	if (RIPC__UNLIKELY(rc < 0))
		return false;
	lane->tx_seq++;
	c->sent_units += units;
	ctx->stats.short_sent++;
	ctx->stats.bytes_sent += len;
	s->stats.short_sent++;
	s->stats.bytes_sent += len;
	p->stats.short_sent++;
	p->stats.bytes_sent += len;
	if (RIPC__UNLIKELY(rc)) {
		if (rc == 1)
			ripc__agent_need(ctx);
		else
			ripc__agent_soon(ctx);
	}
	return true;
}

int ripc_send_short(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms)
{
	bool sent;

	if (RIPC__LIKELY(s && items && nitems == 1 &&
			 (!options || !(options->nreturns | (options->flags & ~(unsigned)RIPC_MORE))) &&
			 s->ctx->fork_count == ripc__fork_count)) {
		ripc__lock(s->ctx);
		sent = plain_send(s, dest, items, options && options->flags) ||
		       ripc__remote_send(s, dest, items, options && options->flags);
		ripc__unlock(s->ctx);
		if (RIPC__LIKELY(sent))
			return 0;
	}
	return ripc__send_short(s, dest, items, nitems, options, timeout_ms);
}

/* ---- receiving ---- */

/*
 * The message that an event brought, if it is plain and for s. m: the next one of the cache, in whose room it may lie. Return: m with
 * it, taken out of the cache; NULL: nothing was done.
 */
static inline struct ripc__message *plain(struct ripc_service *s, unsigned tp,
					  struct ripc__message *m, const struct ripc__event *ev)
{
	struct ripc *ctx = s->ctx;
	struct ripc__lane *lane = ev->user;
	const uint8_t *data = ev->data;
	struct ripc__flow *flow;
	struct ripc__peer *p;
	uint64_t source;
	uint32_t units, len;

	if (ev->kind != RIPC__EV_RECV || lane->state != RIPC__LANE_UP || lane->shake ||
	    ev->len < RIPC__PLAIN_LEN || ripc__get_le64(data) != RIPC__PLAIN_WORD)
		return NULL;
	flow = lane->flow;
	p = lane->peer;
	len = ev->len - RIPC__PLAIN_LEN;
	units = units_of(ev->len);
	source = ripc__get_le64(data + 16);
	/* The number that is due, and neither credit nor return buffers. */
	if (!flow || flow->id != ripc__get_le64(data + 8) || flow->service != s ||
	    flow->source != source || ripc__get_le64(data + 24) != lane->rx_seq ||
	    ripc__get_le32(data + 32) != len || lane->rx_depth || p->held ||
	    flow->arrived_units + units > flow->announced_units)
		return NULL;
	/* A copy is for the general way. */
	if (!ev->token && data != ripc__message_room(m))
		return NULL;
	ripc__message_pop(ctx);
	lane->heard_ns = ctx->now_ns;
	lane->heard = true;
	lane->pinged_ns = 0;
	lane->rx_seq++;
	m->pub.source = source;
	m->pub.dest = s->id;
	memcpy(m->pub.instance, p->instance, sizeof(m->pub.instance));
	m->pub.nitems = 1;
	m->pub.nreturns = 0;
	m->iov[0].iov_base = (void *)(data + RIPC__PLAIN_LEN);
	m->iov[0].iov_len = len;
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
	flow->arrived_units += units;
	ripc__flow_consume(flow, units);
	return m;
}

/* What came is for somebody else, or more than a plain message. The room it lies in is nobody's meanwhile. */
static void __attribute__((noinline))
other(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	struct ripc__message *m = ripc__message_pop(ctx);

	ripc__round_event(ctx, tp, ev);
	ripc__message_drop(m);
}

/* Looks at the endpoints that spoke last. Return: a message for s, or NULL; *some: there was something. */
static inline struct ripc__message *take(struct ripc_service *s, bool *some)
{
	struct ripc *ctx = s->ctx;
	struct ripc__message *m = ripc__message_next(ctx), *found;

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
		found = plain(s, tp, m, &ev);
		if (!found)
			found = ripc__remote_message(s, tp, m, &ev);
		if (RIPC__UNLIKELY(!found))
			other(ctx, tp, &ev);
		return found;
	}
	return NULL;
}

/* One look at the network by a thread that does not drive, most often without the clock. */
static void __attribute__((noinline)) look(struct ripc *ctx)
{
	if (ctx->glances++ % WHOLE_EACH) {
		ctx->now_old = true;
		ripc__round_part(ctx);
		ctx->now_old = false;
	} else {
		ctx->now_ns = ripc__now(ctx);
		ripc__round(ctx);
	}
}

/*
 * Some looks by a thread that does not drive, for a plain message and for whatever else comes, while nothing is in the queue. The lock
 * is held all the time. Return: a message for s, which is in no queue and whose credit is given back. NULL: there is none, or something
 * came to the queue.
 */
static inline struct ripc__message *plain_receive(struct ripc_service *s)
{
	struct ripc *ctx = s->ctx;
	unsigned looks = 0;

	/* Long messages that wait for room in the queue take the general way. */
	if (RIPC__UNLIKELY(s->state != RIPC__SERVICE_ACTIVE || ctx->closing ||
			   !ripc__list_empty(&s->longs) || ctx->hooks.now || ctx->in_progress ||
			   atomic_load_explicit(&ctx->driver, memory_order_relaxed)))
		return NULL;
	/*
	 * The agent goes on as if this thread had driven: it ticks, and takes over when nobody has looked for a tick. Where the last look is
	 * longer ago than that, the time is read, and so it is in each whole round.
	 */
	if (RIPC__UNLIKELY(!atomic_load_explicit(&ctx->driven, memory_order_relaxed))) {
		atomic_store_explicit(&ctx->driven, true, memory_order_relaxed);
		ctx->glances = 0;
	}
	do {
		bool some = false;

		for (unsigned i = ctx->glances % WHOLE_EACH ? ctx->hope : 0; i && !some; i--) {
			struct ripc__message *m = take(s, &some);

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
	} while (++looks < (ctx->opt.wait == RIPC__WAIT_BLOCK ? 1 : LOOKS) && !ripc__lock_wanted(ctx));
	/* In vain. Where a look is a system call, threads that mean to sleep have none to waste. */
	if (ctx->opt.wait != RIPC__WAIT_POLL)
		ctx->hope /= 2;
	return NULL;
}

int ripc_receive(struct ripc_service *s, struct ripc_message **message, int timeout_ms)
{
	struct ripc__message *m = NULL;
	struct ripc *ctx;
	int rc = 0;

	if (RIPC__UNLIKELY(!s || !message))
		return ripc__fail(-EINVAL, s ? "nowhere to store the message" : "no service");
	ctx = s->ctx;
	if (RIPC__UNLIKELY(ctx->fork_count != ripc__fork_count))
		return ripc__no_owner();
	ripc__lock(ctx);
	if (RIPC__LIKELY(!s->first && timeout_ms))
		m = plain_receive(s);
	if (RIPC__LIKELY(m != NULL))
		ripc__list_add(&ctx->messages, &m->held);
	else
		rc = ripc__receive(s, &m, timeout_ms);
	if (RIPC__LIKELY(m != NULL))
		*message = &m->pub;
	ripc__unlock(ctx);
	return rc;
}
