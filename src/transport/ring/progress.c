/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Passes over endpoints: what arrived, what has ended, and sleeping. */
#include "transport/ring/endpoint.h"
#include "transport/ring/fast_path.h"

#define EVENTS_PER_EP  16u   /* events of one endpoint in one pass */
#define IDLE_POLLS_MIN 8u    /* passes without traffic before an endpoint may become idle */
#define IDLE_POLLS_MAX 1024u /* and before it does, if the transport never sleeps */
#define POLL_ONE_PEERS 8u    /* further endpoints that an empty poll_one() polls */
#define STREAM_SLOTS   32u   /* received without a send in between */
#define STREAM_PAUSES  32u   /* of the processor, about 0.9 us */

/* ---- memory for received messages ---- */

/* Another slab is needed, or none is left. */
static uint8_t *new_slab(struct ripc__transport *t)
{
	uint8_t *space;

	if (ripc__slab_reserve(&t->pool, RIPC__RING_RECV_BUF_LEN, &space))
		return space;
	/* The core copies from there: unreleased messages of one peer do not stop the others. */
	return t->scratch_used ? NULL : t->scratch;
}

/* Return: RIPC__RING_RECV_BUF_LEN bytes for the next message, or NULL: none in this pass. */
static uint8_t *recv_buf(struct ripc__transport *t)
{
	struct ripc__slab *slab = t->pool.current;

	if (!slab)
		return new_slab(t);
	/* All messages in it were released: memory that was just used is still in the cache. */
	if (slab->refs == 1)
		t->pool.used = 0;
	if (RIPC__SLAB_BYTES - t->pool.used < RIPC__RING_RECV_BUF_LEN)
		return new_slab(t);
	return slab->data + t->pool.used;
}

/* The message of an event was received into memory of recv_buf(). */
static void set_message(struct ripc__transport *t, uint8_t *buf, struct ripc__event *ev)
{
	ev->token = NULL;
	if (buf == t->scratch) {
		t->scratch_used = true;
		return;
	}
	ev->token = t->pool.current;
	t->pool.current->refs++;
	ripc__slab_use(&t->pool, (size_t)(ev->data - buf) + ev->len);
}

void ripc__ring_release(struct ripc__transport *t, void *token)
{
	ripc__slab_put(token);
}

/* ---- events ---- */

/* Work that a poll has begun was not tried yet, so no kick will come for it. */
static inline bool has_new_work(const struct ripc__ring *ring, bool busy)
{
	return !busy && ring->work;
}

/* Moves data of an engine. Its end is not among the events. */
static unsigned poll_ring(struct ripc__ep *ep, struct ripc__event *events, unsigned max, bool *more)
{
	struct ripc__ring *ring = &ep->ring;
	bool busy = ring->work;
	unsigned n = 0;

	if (busy && ripc__ring_progress(ring))
		*more = true;
	while (n < max) {
		uint8_t *buf;

		/* Most often there was one message and no other work. */
		if (n && !busy && !ripc__ring_ready(ring)) {
			*more |= has_new_work(ring, busy);
			return n;
		}
		buf = recv_buf(ep->t);
		if (!buf || !ripc__ring_poll(ring, buf, &events[n])) {
			*more |= !buf || has_new_work(ring, busy);
			return n;
		}
		events[n].user = ep->user;
		events[n].ep = ep;
		if (events[n].kind == RIPC__EV_RECV)
			set_message(ep->t, buf, &events[n]);
		n++;
	}
	*more = true;
	return n;
}

static void __attribute__((noinline))
report_closed(struct ripc__ep *ep, struct ripc__event *ev, int status, const char *why)
{
	*ev = (struct ripc__event){
		.kind = RIPC__EV_CLOSED, .status = status, .user = ep->user, .ep = ep, .text = why};
	if (ep->state == RIPC__EP_CONNECTING && status == -ECONNREFUSED) {
		ev->reject = true;
		ev->data = ep->setup->private;
		ev->len = ep->setup->private_len;
	}
	ripc__ring_ep_set_state(ep, RIPC__EP_CLOSED);
	if (ep->t->last_rx == ep)
		ep->t->last_rx = NULL;
}

static unsigned poll_ep(struct ripc__ep *ep, struct ripc__event *events, unsigned max, bool *more)
{
	unsigned n = 0;

	ep->empty_polls = 0;
	ep->t->last_rx = ep;
	if (ep->established) {
		ep->established = false;
		events[n++] = (struct ripc__event){
			.kind = RIPC__EV_ESTABLISHED,
			.user = ep->user,
			.ep = ep,
			.data = ep->setup->private,
			.len = ep->setup->private_len,
		};
	}
	n += poll_ring(ep, events + n, max - n, more);
	if (n == max) {
		*more = true;
		return n;
	}
	if (ep->lost && (!ripc__ring_ready(&ep->ring) || !ep->ring.hello_seen))
		ripc__ring_fail(&ep->ring, -ECONNRESET, ep->ring.why);
	if (ep->ring.status)
		report_closed(ep, &events[n++], ep->ring.status, ep->ring.why);
	return n;
}

/* Polls one idle endpoint: its peer need not kick if it finds itself polled. */
static inline void poll_idle_one(struct ripc__transport *t)
{
	struct ripc__list *n = t->idle_next == &t->idle ? t->idle.next : t->idle_next;
	struct ripc__ep *ep = ripc__list_entry(n, struct ripc__ep, link);

	if (n == &t->idle)
		return;
	if (ripc__ring_ready(&ep->ring)) {
		ripc__ring_ep_activate(ep);
		return;
	}
	/* The list itself stays as it is: a forked child reads it. */
	t->idle_next = n->next;
}

/* The transport does not sleep, and the endpoint had no traffic for long. */
static void __attribute__((noinline)) try_make_idle(struct ripc__ep *ep)
{
	ep->empty_polls = 0;
	if (!ep->t->may_idle || ep->ring.work)
		return;
	ripc__ring_arm(&ep->ring);
	/* The request first, then the check: see ripc__ring_kick_if_armed(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (ripc__ring_idle(&ep->ring))
		ripc__ring_ep_make_idle(ep);
}

/* Whether a pass has anything to do for an open endpoint besides messages. */
static inline bool has_other_work(const struct ripc__ep *ep)
{
	return ep->ring.work || ep->established || ep->lost || ep->ring.status;
}

/* Whether poll_one() has received a message since the last call or pass. */
static inline bool poll_one_received(struct ripc__ring *ring)
{
	uint32_t rx = (uint32_t)ring->rx;
	bool received = rx != ring->rx_seen;

	ring->rx_seen = rx;
	return received;
}

/* The same, and at least STREAM_SLOTS since something was sent: messages in one direction. */
static inline bool streams(struct ripc__ring *ring)
{
	uint32_t rx = (uint32_t)ring->rx, tx = (uint32_t)ring->tx;

	if (tx != ring->tx_mark) {
		ring->tx_mark = tx;
		ring->rx_mark = rx;
	}
	return poll_one_received(ring) && rx - ring->rx_mark >= STREAM_SLOTS;
}

/* Polls an open endpoint in a pass. Return: events, at most max. */
static unsigned pass_ep(struct ripc__ep *ep, struct ripc__event *events, unsigned max, bool *more)
{
	bool other = has_other_work(ep);
	unsigned n;

	if (!other && !ripc__ring_ready(&ep->ring)) {
		if (++ep->empty_polls >= IDLE_POLLS_MAX)
			try_make_idle(ep);
		return 0;
	}
	/* The receiver takes the next message with poll_one(), which costs less. */
	if (poll_one_received(&ep->ring) && !other) {
		*more = true;
		return 0;
	}
	n = poll_ep(ep, events, max, more);
	ep->ring.rx_seen = (uint32_t)ep->ring.rx;
	return n;
}

unsigned ripc__ring_transport_poll(struct ripc__transport *t, struct ripc__event *events,
				   unsigned max, bool *more)
{
	struct ripc__ep *ep, *after;
	unsigned n = 0;

	poll_idle_one(t);
	ripc__list_for_each_entry_safe (ep, after, &t->eps, link) {
		unsigned room = max - n < EVENTS_PER_EP ? max - n : EVENTS_PER_EP;

		if (!room) {
			/*
			 * The endpoints from here on had no turn: the next pass begins with them.
			 */
			ripc__list_del(&t->eps);
			ripc__list_add(&ep->link, &t->eps);
			break;
		}
		if (ep->state == RIPC__EP_OPEN)
			n += pass_ep(ep, events + n, room, more);
		else if (ep->state == RIPC__EP_CONNECTING && ep->setup->failed)
			report_closed(ep, &events[n++], ep->setup->failed, ep->setup->text);
	}
	return n;
}

/* ---- one event ---- */

static inline void fill_room_event(struct ripc__ep *ep, uint8_t *room, struct ripc__event *ev)
{
	ep->empty_polls = 0;
	ev->kind = RIPC__EV_RECV;
	ev->user = ep->user;
	ev->ep = ep;
	ev->data = room;
	ev->token = NULL;
}

/* A longer message than the fast path takes, or an event of another kind. */
static bool __attribute__((noinline))
poll_one_slow(struct ripc__transport *t, struct ripc__event *ev)
{
	struct ripc__ep *ep = t->last_rx;
	bool more = false;
	uint8_t *buf;

	if (!ripc__ring_ready(&ep->ring) || ep->ring.work)
		return false;
	ep->empty_polls = 0;
	buf = recv_buf(t);
	if (!buf || !ripc__ring_recv_bulk(&ep->ring, buf, ev))
		return poll_ring(ep, ev, 1, &more);
	ev->user = ep->user;
	ev->ep = ep;
	set_message(t, buf, ev);
	return true;
}

/* Nothing from the endpoint that received last: polls a few beside it, as peers may take turns. */
static bool __attribute__((noinline))
poll_next(struct ripc__transport *t, uint8_t *room, struct ripc__event *ev)
{
	struct ripc__list *next = &t->last_rx->link;

	for (unsigned i = 0; i < POLL_ONE_PEERS; i++) {
		struct ripc__ep *ep;

		next = next->next == &t->eps ? t->eps.next : next->next;
		ep = ripc__list_entry(next, struct ripc__ep, link);
		if (ep == t->last_rx)
			break;
		if (ep->state != RIPC__EP_OPEN || ep->established || !ripc__ring_ready(&ep->ring))
			continue;
		t->last_rx = ep;
		if (ripc__ring_recv_fast(&ep->ring, room, &ev->len) <= 0)
			return poll_one_slow(t, ev);
		fill_room_event(ep, room, ev);
		return true;
	}
	return false;
}

/*
 * Leaves the ring alone for a moment. The receiver of a stream that overtakes its sender would take
 * each cache line away from it between two stores.
 */
static void __attribute__((noinline)) fall_behind(void)
{
	for (unsigned i = 0; i < STREAM_PAUSES; i++)
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("isb");
#else
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

bool ripc__ring_poll_one(struct ripc__transport *t, void *buf, size_t cap, struct ripc__event *ev)
{
	struct ripc__ep *ep = t->last_rx;
	int got;

	if (!ep)
		return false;
	if (cap < RIPC__RING_RECV_FAST_MAX)
		return poll_one_slow(t, ev);
	got = ripc__ring_recv_fast(&ep->ring, buf, &ev->len);
	if (got < 0)
		return poll_one_slow(t, ev);
	if (!got) {
		if (poll_next(t, buf, ev))
			return true;
		if (streams(&ep->ring))
			fall_behind();
		return false;
	}
	fill_room_event(ep, buf, ev);
	return true;
}

/* ---- sleeping ---- */

static bool nothing_pending(const struct ripc__ep *ep)
{
	if (ep->state != RIPC__EP_OPEN)
		return ep->state != RIPC__EP_CONNECTING || !ep->setup->failed;
	return !ep->established && !ep->lost && ripc__ring_idle(&ep->ring);
}

bool ripc__ring_transport_arm(struct ripc__transport *t, bool kicks)
{
	struct ripc__ep *ep, *next;

	ripc__list_for_each_entry (ep, &t->eps, link)
		if (ep->state == RIPC__EP_OPEN) {
			ripc__ring_flush(&ep->ring);
			if (kicks)
				ripc__ring_arm(&ep->ring);
		}
	/* The requests first, then the checks: see ripc__ring_kick_if_armed(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ripc__list_for_each_entry (ep, &t->eps, link)
		if (!nothing_pending(ep))
			return true;
	/* All endpoints are armed and had nothing to do. */
	ripc__list_for_each_entry_safe (ep, next, &t->eps, link)
		if (t->may_idle && ep->state == RIPC__EP_OPEN &&
		    ep->empty_polls >= IDLE_POLLS_MIN && !ep->ring.work)
			ripc__ring_ep_make_idle(ep);
	return false;
}
