/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc_send_short(), and ripc_send(), which picks the short or the long form. */
#include "base/mappings.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/peer/datagram_context.h"
#include "core/peer/lane.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/message/fast_send.h"
#include "core/message/request.h"
#include "core/reliable/reliable.h"
#include "core/message/send.h"
#include "core/service/items.h"
#include "core/service/service.h"
#include "wire/bytes.h"
#include "wire/header.h"

#include <stdlib.h>

int ripc__check_call_slow(struct ripc_service *s, uint64_t dest, struct ripc **ctx)
{
	if (!s)
		return ripc__fail(-EINVAL, "no service to send from");
	if (!dest || ripc__group_is_name(dest))
		return ripc__fail(-EINVAL, "%" PRIu64 " is no service id", dest);
	return ripc__service_context(s, ctx);
}

/* ---- short messages ---- */

static int too_long(const struct ripc *ctx, uint64_t dest, uint64_t bytes, uint64_t limit,
		    const char *transport)
{
	return ripc__fail(-EMSGSIZE,
			  "message of %" PRIu64
			  " bytes to %s: a short message over %s has at most %" PRIu64,
			  bytes, ripc__service_text(ctx, dest), transport, limit);
}

/* The kernel could not read an item. */
static int unreadable(const struct ripc *ctx, uint64_t dest, const struct iovec *items,
		      unsigned nitems)
{
	struct ripc__mappings maps = {0};
	unsigned i = 0;

	while (i < nitems &&
	       ripc__mappings_permit(&maps, items[i].iov_base, items[i].iov_len, false))
		i++;
	ripc__mappings_free(&maps);
	return i < nitems ? ripc__fail(-EFAULT, "%s: item %u: %zu bytes at %p cannot be read",
				       ripc__service_text(ctx, dest), i, items[i].iov_len,
				       items[i].iov_base)
			  : ripc__fail(-EFAULT, "%s: an item cannot be read",
				       ripc__service_text(ctx, dest));
}

struct send_args {
	struct ripc_service *s;
	const struct iovec *items;
	unsigned nitems;
	unsigned flags;
	uint64_t bytes;
	const uint32_t *returns; /* ids */
	unsigned nreturns;
};

static uint8_t *put_lens(uint8_t *p, const struct iovec *items, unsigned nitems)
{
	for (unsigned i = 0; i < nitems; i++, p += 4)
		ripc__put_le32(p, (uint32_t)items[i].iov_len);
	return p;
}

/* Bytes of a short message that is one datagram of the transport. */
static uint64_t datagram_room(const struct ripc *ctx, unsigned tp)
{
	return ctx->tp[tp].limits.datagram_max - RIPC__SHORT_FIXED;
}

uint64_t ripc__short_max(struct ripc *ctx, const struct ripc__dest *d, const char **transport)
{
	const struct ripc__lane *lane = ripc__dest_lane(d);
	unsigned tp;
	size_t len;

	if (d->peer && ripc__peer_datagram(ctx, d->peer, &tp, &len)) {
		*transport = ctx->tp[tp].ops->name;
		return datagram_room(ctx, tp);
	}
	if (!lane)
		return 0;
	*transport = lane->ctx->tp[lane->tp].ops->name;
	return lane->send_max - RIPC__SHORT_FIXED;
}

static void __attribute__((noinline)) begin_context(struct ripc__dest *d, uint64_t source)
{
	const struct ripc__datagram_context *c = ripc__datagram_context_begin(d, source);

	if (c)
		ripc__lane_notify(d->peer->lane, RIPC__DATAGRAM_CONTEXT, d->id, source,
				  ripc__datagram_context_id(c), c->first);
}

/* Sends over UDP or UD, to the peer of d. */
static int send_datagram(struct ripc_service *s, struct ripc__dest *d, const struct iovec *items,
			 unsigned nitems, uint64_t bytes, unsigned tp, const uint8_t *addr,
			 size_t addrlen)
{
	struct ripc *ctx = s->ctx;
	struct ripc__tp *t = &ctx->tp[tp];
	struct ripc__peer_datagrams *datagrams = d->peer->lists->datagrams;
	struct ripc__datagram_context *c =
		nitems == 1 ? ripc__datagram_context_of(d, s->id, datagrams->next_seq) : NULL;
	uint8_t buf[RIPC__SHORT_HEADER_MAX], *p;
	struct iovec iov[1 + RIPC_ITEMS_MAX];
	int rc;

	if (bytes > datagram_room(ctx, tp))
		return too_long(ctx, d->id, bytes, datagram_room(ctx, tp), t->ops->name);
	/* A datagram carries no ACK. */
	if (RIPC__UNLIKELY(ctx->delayed_ack.lane))
		ripc__delayed_ack_idle(ctx);
	if (c) {
		p = ripc__elided_datagram_put(buf, c->word, datagrams->next_seq);
		c->used = true;
	} else {
		p = ripc__header_put(buf, RIPC__SHORT, RIPC__F_INSTANCE, (uint16_t)nitems, 0, d->id,
				     s->id);
		memcpy(p, ctx->instance, 16);
		p = put_lens(p + 16, items, nitems);
		ripc__number_stamp(buf, datagrams->next_seq);
	}
	iov[0] = (struct iovec){buf, (size_t)(p - buf)};
	for (unsigned i = 0; i < nitems; i++)
		iov[1 + i] = items[i];
	rc = t->ops->post_datagram(t->t, addr, addrlen, iov, 1 + nitems);
	if (rc == -EFAULT)
		return unreadable(ctx, d->id, items, nitems);
	if (rc)
		return rc;
	datagrams->next_seq++;
	ripc__count_short(s, d->peer, bytes);
	if (!c && nitems == 1 && ++d->full_datagrams >= RIPC__DATAGRAM_CONTEXT_AFTER)
		begin_context(d, s->id);
	return 0;
}

static int send_on_lane(struct ripc__dest *d, const struct send_args *m)
{
	struct ripc__lane *lane = d->peer->lane;
	uint8_t buf[RIPC__SHORT_HEADER_MAX], *p;
	struct ripc__credit *c = d->credit;
	unsigned nreturns = m->nreturns;
	uint32_t units;
	size_t len;
	bool delayed_ack;
	int rc;

	if (m->bytes > lane->send_max - RIPC__SHORT_FIXED)
		return too_long(lane->ctx, d->id, m->bytes, lane->send_max - RIPC__SHORT_FIXED,
				lane->ctx->tp[lane->tp].ops->name);
	len = RIPC__HEADER_LEN + m->nitems * 4u + nreturns * RIPC__DESC_LEN + m->bytes;
	if (len > lane->send_max)
		return too_long(lane->ctx, d->id, m->bytes, lane->send_max - (len - m->bytes),
				"a lane, with its return buffers,");
	if (!c && !(c = d->credit = ripc__lane_credit(lane, d->id)))
		return ripc__fail(-ENOMEM, "no memory to send to %s",
				  ripc__service_text(lane->ctx, d->id));
	units = ripc__units_of(len);
	if (c->sent_units + units > c->limit_units) {
		d->wanted_limit_units = c->limit_units;
		return ripc__lane_stalled(lane);
	}
	if (nreturns)
		ripc__local_returns_before_reg(lane, m->returns, nreturns);
	/* The transport may delay this message, so the ACK goes before it. */
	if (m->flags & RIPC_MORE && RIPC__UNLIKELY(lane->ctx->delayed_ack.held))
		ripc__delayed_ack_flush(lane->ctx);
	delayed_ack = RIPC__UNLIKELY(lane->ctx->delayed_ack.held) &&
		      ripc__delayed_ack_piggybacks(lane, len);
	p = ripc__header_put(buf, RIPC__SHORT, delayed_ack ? RIPC__F_ACK : 0, (uint16_t)m->nitems,
			     0, d->id, m->s->id);
	if (delayed_ack) {
		ripc__put_le64(p, lane->ctx->delayed_ack.word);
		p += RIPC__ACK_WORD;
	}
	p = put_lens(p, m->items, m->nitems);
	if (nreturns) {
		p = ripc__local_returns_encode(lane, m->returns, &nreturns, p);
		ripc__put_le16(buf + 30, (uint16_t)nreturns);
	}
	rc = m->nitems == 1 && !m->nreturns && !delayed_ack
		     ? ripc__lane_send_item(lane, 0, NULL, d->id, m->s->id, m->items,
					    m->flags & RIPC_MORE)
		     : ripc__lane_send(lane, buf, (size_t)(p - buf), m->items, m->nitems,
				       m->flags & RIPC_MORE);
	if (rc == -EFAULT)
		return unreadable(lane->ctx, d->id, m->items, m->nitems);
	if (rc)
		return rc;
	if (m->nreturns)
		ripc__local_returns_advertised(lane, m->returns, m->nreturns);
	if (RIPC__UNLIKELY(lane->ctx->delayed_ack.lane))
		ripc__delayed_ack_replied(lane);
	/* As the receiver counts: with the return buffers actually sent, without the ACK. */
	c->sent_units +=
		ripc__units_of((size_t)(p - buf) - (delayed_ack ? RIPC__ACK_WORD : 0) + m->bytes);
	ripc__count_short(m->s, d->peer, m->bytes);
	return 0;
}

/* The peer takes no datagrams: ripc_route_get() reports it. */
static void no_datagrams(struct ripc__peer *p, int rc)
{
	p->no_dgram_path = true;
	ripc__log(RIPC_LOG_INFO, "peer %s: %s; its short messages go over the lane",
		  ripc__instance_text(p->instance),
		  rc == -EHOSTUNREACH ? ripc_error_detail() : ripc_strerror(rc));
}

/*
 * One attempt for short_until(). arg: the message. Return: 0, -EAGAIN: not now, or a final error.
 */
static int try_short(struct ripc__dest *d, void *arg)
{
	const struct send_args *m = arg;
	struct ripc *ctx = m->s->ctx;
	const uint8_t *addr;
	unsigned tp;
	size_t len;

	if (!ctx->datagrams && ripc__dest_ready(d))
		return send_on_lane(d, m);
	if (ctx->datagrams && !m->nreturns && !ripc__dest_locate(ctx, d)) {
		/* Only a lane detects the death of the peer: no error answers a datagram. */
		if (!d->peer->lane) {
			ripc__peer_connect(ctx, d->peer);
			ripc__progress_request(ctx);
		}
		/* An attempt that fails at once may remove the peer. */
		addr = d->peer ? ripc__peer_datagram(ctx, d->peer, &tp, &len) : NULL;
		if (addr) {
			int rc = send_datagram(m->s, d, m->items, m->nitems, m->bytes, tp, addr,
					       len);

			d->no_room |= rc == -EAGAIN;
			if (!rc || rc == -EAGAIN || rc == -EFAULT ||
			    (rc == -EMSGSIZE && m->bytes > datagram_room(ctx, tp)))
				return rc;
			/* The path of this peer may take less than short_max: the lane takes it. */
			if (rc != -EMSGSIZE)
				no_datagrams(d->peer, rc);
		}
	}
	return ripc__dest_reach(ctx, d) ? -EAGAIN : send_on_lane(d, m);
}

/* The error for a send that could not be done in time. */
static int send_timeout(struct ripc *ctx, struct ripc__dest *d, int timeout_ms)
{
	struct ripc__lane *lane = ripc__dest_lane(d);

	if (!lane)
		return ripc__dest_not_reached(ctx, d, timeout_ms);
	if (!timeout_ms)
		ripc__dest_want(ctx, d);
	return ripc__fail(
		timeout_ms ? -ETIMEDOUT : -EAGAIN, "%s at peer %s over %s: %s",
		ripc__service_text(ctx, d->id), ripc__instance_text(d->peer->instance),
		lane->ctx->tp[lane->tp].ops->name,
		lane->sending == RIPC__SENDING_BLOCKED
			? "the transport's queue is full"
			: "out of credit: the service has not received the messages in its queue");
}

/* Milliseconds until a deadline, at least 1; -1: there is none. */
static int time_left(struct ripc *ctx, uint64_t deadline)
{
	int left_ms = (int)ripc__remaining_ms(ctx, deadline);

	return left_ms ? left_ms : 1;
}

int ripc__retry_until(struct ripc_service *s, struct ripc__dest *d, int *timeout_ms,
		      int (*fn)(struct ripc__dest *, void *), void *arg)
{
	struct ripc *ctx = s->ctx;
	uint64_t deadline = 0;
	bool polled = false;
	int rc;

	for (;;) {
		if (!ripc__service_open(s) || ctx->closing)
			return ripc__fail(-ESHUTDOWN, "%s is being closed",
					  ripc__service_text(ctx, s->id));
		d->wanted_limit_units = 0;
		rc = fn(d, arg);
		if (rc != -EAGAIN) {
			if (deadline)
				*timeout_ms = time_left(ctx, deadline);
			return rc;
		}
		if (!*timeout_ms) {
			if (polled)
				return send_timeout(ctx, d, 0);
			polled = true;
			ripc__delayed_ack_idle(ctx);
			ripc__progress(ctx);
			continue;
		}
		if (!deadline)
			deadline = ripc__deadline(ctx, *timeout_ms);
		if (d->no_room) {
			uint64_t soon = ripc__now(ctx) + RIPC__MS;

			d->no_room = d->wanted;
			if (ripc__wait(ctx, &d->waitq, soon < deadline ? soon : deadline) &&
			    soon < deadline)
				continue;
		} else if (!ripc__wait(ctx, &d->waitq, deadline)) {
			continue;
		}
		if (ripc__now(ctx) >= deadline) {
			/* The event may have arrived just before the deadline. */
			rc = fn(d, arg);
			if (rc == -EAGAIN)
				return send_timeout(ctx, d, *timeout_ms);
			*timeout_ms = 1;
			return rc;
		}
	}
}

/* Sends a short message, or fails at the timeout. *timeout_ms becomes the time left. */
static int short_until(struct ripc_service *s, struct ripc__dest *d, struct send_args *m,
		       const struct ripc_send_options *o, int *timeout_ms)
{
	uint32_t ids[RIPC_RETURN_BUFFERS_MAX];
	int rc = ripc__local_returns_add(s, o, 0, ids);

	if (rc)
		return rc;
	m->returns = ids;
	m->nreturns = o ? o->nreturn_buffers : 0;
	rc = ripc__retry_until(s, d, timeout_ms, try_short, m);
	m->returns = NULL;
	if (rc)
		ripc__local_returns_undo(s->ctx, ids, m->nreturns);
	return rc;
}

/* ---- ripc_send(): short or long ---- */

/* Whether the peer of the destination maps one of the items: such a message is long. */
static bool maps_item(const struct ripc__dest *d, const struct send_args *m)
{
	const struct ripc__lane *lane = ripc__dest_lane(d);

	for (unsigned i = 0; lane && i < m->nitems && m->bytes >= RIPC__MAPPED_ITEM_MIN; i++) {
		const struct iovec *item = &m->items[i];
		const struct ripc__region *region =
			item->iov_len >= RIPC__MAPPED_ITEM_MIN
				? ripc__memory_find(m->s->ctx, item->iov_base, item->iov_len)
				: NULL;

		if (region && ripc__export_applies(lane, region, item->iov_len))
			return true;
	}
	return false;
}

/* Whether ripc_send() may send m as a short message of at most limit bytes. */
static inline bool fits(const struct ripc__dest *d, const struct send_args *m,
			const struct ripc_send_options *o, uint64_t limit)
{
	bool reliable = m->flags & RIPC_RELIABLE;

	if (reliable && (o->nreturn_buffers || m->bytes > RIPC__RELIABLE_WINDOW_BYTES / 4))
		return false;
	return m->bytes + (o ? o->nreturn_buffers * RIPC__DESC_LEN : 0) <= limit &&
	       !maps_item(d, m);
}

/* Largest short message over the lane of a destination; 0: it is not connected. */
static uint64_t lane_max(const struct ripc__dest *d)
{
	const struct ripc__lane *lane = ripc__dest_lane(d);

	return lane ? lane->send_max - RIPC__SHORT_FIXED : 0;
}

static int try_locate(struct ripc__dest *d, void *arg)
{
	const struct send_args *m = arg;
	struct ripc *ctx = m->s->ctx;
	unsigned tp;
	size_t len;

	/* A reliable message needs a lane. */
	if (ctx->datagrams && !(m->flags & RIPC_RELIABLE) && !ripc__dest_locate(ctx, d) &&
	    ripc__peer_datagram(ctx, d->peer, &tp, &len))
		return 0;
	return ripc__dest_reach(ctx, d);
}

/*
 * Waits until the largest short message like m to the destination is known. *timeout_ms becomes the
 * time left. Lock held.
 */
static int locate(struct send_args *m, struct ripc__dest *d, int *timeout_ms)
{
	int rc = try_locate(d, m);

	return RIPC__LIKELY(!rc) ? 0 : ripc__retry_until(m->s, d, timeout_ms, try_locate, m);
}

/*
 * send_slow() under the lock, for every message that the fast path refuses: one that must wait, a
 * datagram, a long message, several items, return buffers, or a destination without a lane.
 * or_long: as ripc_send(). Service entered.
 */
static int __attribute__((noinline))
send_slow_locked(struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
		 const struct ripc_send_options *o, int timeout_ms, bool or_long)
{
	struct send_args m = {.s = s, .items = items, .nitems = nitems, .flags = o ? o->flags : 0};
	struct ripc__dest *d = ripc__dest_get(s->ctx, dest);
	bool reliable = m.flags & RIPC_RELIABLE;
	const char *transport;
	int rc = 0;

	for (unsigned i = 0; i < nitems; i++)
		m.bytes += items[i].iov_len;
	if (!d)
		return ripc__fail(-ENOMEM, "no memory for %s", ripc__service_text(s->ctx, dest));
	d->users++;
	if (or_long)
		rc = locate(&m, d, &timeout_ms);
	if (!rc && or_long &&
	    !fits(d, &m, o, reliable ? lane_max(d) : ripc__short_max(s->ctx, d, &transport)))
		rc = -EMSGSIZE;
	else if (!rc && reliable)
		rc = ripc__send_reliable(s, d, items, nitems, m.bytes, m.flags, &timeout_ms);
	else if (!rc)
		rc = short_until(s, d, &m, o, &timeout_ms);
	/* While it waits, its lane may be replaced by one that takes less. */
	if (rc == -EMSGSIZE && or_long)
		rc = ripc__send_long(s, dest, items, nitems, m.bytes, o, timeout_ms);
	d->users--;
	return rc;
}

bool ripc__send_one_datagram(struct ripc_service *s, struct ripc__dest *d, const struct iovec *item)
{
	size_t len = item->iov_len, addrlen;
	const uint8_t *addr;
	unsigned tp;

	if (d->state != RIPC__DEST_KNOWN || (!item->iov_base && len))
		return false;
	addr = ripc__peer_datagram_cached(d->peer, &tp, &addrlen);
	return addr && !send_datagram(s, d, item, 1, len, tp, addr, addrlen);
}

/* The slow path: all checks, with an explanation of each failure, then send_slow_locked(). */
static int RIPC__NO_ANALYSIS __attribute__((noinline))
send_slow(struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
	  const struct ripc_send_options *options, int timeout_ms, bool or_long)
{
	struct ripc *ctx;
	uint64_t bytes;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc)
		rc = ripc__check_items(items, nitems, options, &bytes);
	if (!rc && !or_long && options && options->flags & RIPC_RELIABLE &&
	    options->nreturn_buffers)
		rc = ripc__fail(-EOPNOTSUPP, "a reliable short message cannot offer return "
					     "buffers: use ripc_send()");
	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	rc = send_slow_locked(s, dest, items, nitems, options, timeout_ms, or_long);
	ripc__service_unlock(s, ctx);
	return rc;
}

/*
 * The entry of ripc_send_short() and, with or_long, of ripc_send(). The fast path (fast_send.h)
 * takes one item without return buffers; send_slow() takes all that is left.
 */
static inline __attribute__((always_inline)) int send_fast_or_slow(
	struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
	const struct ripc_send_options *options, int timeout_ms, bool or_long)
{
	struct ripc *ctx = RIPC__LIKELY(s && items) ? ripc__service_owner(s) : NULL;
	unsigned flags = options ? options->flags : 0;
	bool sent;

	if (RIPC__LIKELY(ctx && nitems == 1 && ripc__is_owner(ctx) &&
			 (!or_long || items->iov_len < RIPC__MAPPED_ITEM_MIN) &&
			 (!options || (options->size == sizeof(*options) &&
				       !(options->nreturn_buffers |
					 (flags & ~(unsigned)(RIPC_MORE | RIPC_RELIABLE))))))) {
		ripc__lock(ctx);
		sent = flags & RIPC_RELIABLE
			       ? ripc__send_reliable_item(ctx, s, dest, items, flags & RIPC_MORE)
			       : ripc__send_one_item(ctx, s, dest, items, flags);
		ripc__unlock(ctx);
		if (RIPC__LIKELY(sent))
			return 0;
	}
	return send_slow(s, dest, items, nitems, options, timeout_ms, or_long);
}

int ripc_send_short(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms)
{
	return send_fast_or_slow(s, dest, items, nitems, options, timeout_ms, false);
}

int ripc_send(struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
	      const struct ripc_send_options *options, int timeout_ms)
{
	return send_fast_or_slow(s, dest, items, nitems, options, timeout_ms, true);
}
