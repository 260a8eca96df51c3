/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Moves bytes between an endpoint's socket and its engine, and reports the events of the engine. */
#include "base/clock.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVE_ROUND    (1u << 20)   /* bytes received from an endpoint by one progress() */
#define PUSH_ROUND       (1u << 20)   /* bytes transmitted likewise */
#define GATHER_BYTES     (512u << 10) /* bytes passed to the socket by one call */
#define GATHER_CRC       (128u << 10) /* the same with CRC, which needs them in the cache */
#define GATHER_IOV       (3u * RIPC__FRAMED_MAX)
#define SPACE_MIN        8192u /* a slab with less room is replaced */
#define STARVED_RETRY_NS (10 * RIPC__MS)
#define SPIN_RX          16u /* receptions without arm() before epoll is left */

void ripc__soft_transmit(struct ripc__ep *ep, size_t budget)
{
	struct ripc__engine *e = ep->engine;
	size_t most = e->conn.crc ? GATHER_CRC : GATHER_BYTES;

	ripc__list_del(&ep->held);
	while (ep->fd >= 0 && ripc__engine_pending(e)) {
		struct iovec iov[GATHER_IOV];
		struct msghdr msg = {.msg_iov = iov};
		size_t total = 0;
		ssize_t n;

		if (!budget) {
			ripc__list_queue(&ep->t->ready, &ep->ready);
			return;
		}
		msg.msg_iovlen = ripc__engine_gather(e, iov, GATHER_IOV, MIN(most, budget));
		if (!msg.msg_iovlen) {
			ripc__list_queue(&ep->t->ready, &ep->ready);
			return;
		}
		for (unsigned i = 0; i < msg.msg_iovlen; i++)
			total += iov[i].iov_len;
		n = sendmsg(ep->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			/* Nothing else ends a connection if our own memory cannot be read. */
			if (errno == EFAULT) {
				ep->error = -EFAULT;
				shutdown(ep->fd, SHUT_RDWR);
			}
			ep->error = ep->error ? ep->error : -errno;
			ripc__list_queue(&ep->t->ready, &ep->ready);
			return;
		}
		if (n > 0)
			ripc__engine_sent(e, (size_t)n);
		if (n < (ssize_t)total) {
			ripc__list_queue(&ep->t->blocked, &ep->blocked);
			return;
		}
		budget -= (size_t)n < budget ? (size_t)n : budget;
	}
	ripc__list_del(&ep->blocked);
}

/* The connection ended: sends our Terminate as far as possible. */
static void finish(struct ripc__ep *ep)
{
	struct ripc__engine *e = ep->engine;
	char why[SOFT_WHY_MAX];

	if (e->status == -ECONNABORTED) {
		snprintf(why, sizeof(why), "the peer terminated the connection: %s (0x%04x)",
			 e->text, e->term_code);
	} else if (e->status) {
		ripc__soft_transmit(ep, SIZE_MAX);
		snprintf(why, sizeof(why), "terminated: %s (0x%04x)", e->text, e->term_code);
	} else if (ep->error) {
		snprintf(why, sizeof(why), "connection lost: %s", strerror(-ep->error));
	} else {
		snprintf(why, sizeof(why), "closed by the peer");
	}
	ripc__soft_ep_break(ep, e->status ? e->status : ep->error ? ep->error : -ECONNRESET, why);
}

static unsigned closed(struct ripc__ep *ep, struct ripc__event *ev)
{
	*ev = (struct ripc__event){.kind = RIPC__EV_CLOSED,
				   .user = ep->user,
				   .ep = ep,
				   .status = ep->error,
				   .text = ep->why ? ep->why : "out of memory"};
	if (ep->rejected) {
		ev->reject = true;
		ev->data = ep->setup->reply.priv;
		ev->len = (uint32_t)ep->setup->reply.privlen;
	}
	ripc__soft_ep_set_state(ep, SOFT_CLOSED);
	return 1;
}

static unsigned established(struct ripc__ep *ep, struct ripc__event *ev)
{
	*ev = (struct ripc__event){.kind = RIPC__EV_ESTABLISHED, .user = ep->user, .ep = ep};
	if (ep->initiator) {
		ev->data = ep->setup->reply.priv;
		ev->len = (uint32_t)ep->setup->reply.privlen;
	}
	ripc__soft_ep_set_state(ep, SOFT_OPEN);
	return 1;
}

/*
 * Return: the token of an event, or NULL: the core has to copy, and the data is valid until the
 * next pass. That is so when many slabs are in use, because a queued message holds a whole slab.
 */
static void *hold_until_round(struct ripc__transport *t, void *token)
{
	struct ripc__slab *slab = token;

	if (t->pool.bytes <= t->pool.max / 4 || slab->cap != RIPC__SLAB_BYTES ||
	    t->nheld_slabs == SOFT_HELD_SLABS_MAX)
		return token;
	t->held_slabs[t->nheld_slabs++] = slab;
	return NULL;
}

void ripc__soft_release_round(struct ripc__transport *t)
{
	while (t->nheld_slabs)
		ripc__slab_put(t->held_slabs[--t->nheld_slabs]);
}

/* Reports the events of the engine. Return: their number. */
static unsigned receive_some(struct ripc__ep *ep, struct ripc__event *events, unsigned max)
{
	unsigned n = 0;

	while (n < max && ripc__engine_next(ep->engine, &events[n])) {
		struct ripc__event *ev = &events[n];

		if (ev->kind == RIPC__EV_RECV)
			ev->token = hold_until_round(ep->t, ev->token);
		ev->user = ep->user;
		ev->ep = ep;
		n++;
	}
	return n;
}

/* No memory to receive into: stops watching the socket until there may be memory again. */
static void set_starved(struct ripc__ep *ep)
{
	ep->rx = SOFT_RX_STARVED;
	ep->t->starved_retry_ns = ep->t->now_ns + STARVED_RETRY_NS;
	soft_timer(ep->t, ep->t->starved_retry_ns);
	ripc__soft_watch_for(ep, ep->watched & ~(uint32_t)EPOLLIN);
	ripc__soft_ep_deactivate(ep);
}

void ripc__soft_resume_starved(struct ripc__transport *t)
{
	struct ripc__ep *ep;

	t->starved_retry_ns = 0;
	ripc__list_for_each_entry (ep, &t->eps, all) {
		if (ep->rx != SOFT_RX_STARVED)
			continue;
		ep->rx = SOFT_RX_OPEN;
		if (!soft_ep_running(ep))
			continue;
		ripc__soft_watch_for(ep, ep->watched | EPOLLIN);
		ripc__list_queue(&t->ready, &ep->ready);
	}
}

static unsigned receive(struct ripc__ep *ep, struct ripc__event *events, unsigned max)
{
	struct ripc__transport *t = ep->t;
	struct ripc__engine *e = ep->engine;
	size_t budget = RECEIVE_ROUND;
	unsigned n = ripc__engine_unparsed(e) ? receive_some(ep, events, max) : 0;

	while (n < max && ep->rx == SOFT_RX_OPEN && !e->status) {
		struct msghdr msg = {0};
		struct iovec iov[RIPC__RX_IOV];
		size_t len, asked = 0;
		uint8_t *space;
		ssize_t got;

		len = ripc__slab_reserve(&t->pool, SPACE_MIN, &space);
		if (!len) {
			set_starved(ep);
			break;
		}
		msg.msg_iov = iov;
		/* The peer takes the newest grant next, as this stack does. */
		msg.msg_iovlen = ripc__engine_rx_buffer(
			e, space, len,
			ripc__list_first_entry(&ep->grants, struct ripc__region, link), iov);
		for (unsigned i = 0; i < msg.msg_iovlen; i++)
			asked += iov[i].iov_len;
		if (msg.msg_iovlen == 1) {
			got = recv(ep->fd, iov[0].iov_base, asked, MSG_DONTWAIT);
		} else {
			got = recvmsg(ep->fd, &msg, MSG_DONTWAIT);
			t->receiving |= got > (msg.msg_iovlen == 2 ? 0 : (ssize_t)iov[0].iov_len);
		}
		if (got <= 0) {
			if (got == 0) {
				ep->rx = SOFT_RX_EOF;
			} else if (errno != EAGAIN && errno != EINTR) {
				ep->error = -errno;
				ep->rx = SOFT_RX_EOF;
			} else {
				ep->empty_polls++;
			}
			break;
		}
		ep->empty_polls = 0;
		if (ep->polling == SOFT_IDLE)
			ripc__soft_ep_activate(ep);
		t->last_rx_ep = ep;
		if (ep->polling != SOFT_SPINNING && ++ep->recent_rx >= SPIN_RX)
			ripc__soft_ep_spin(ep);
		ripc__slab_use(&t->pool, ripc__engine_received(e, t->pool.current, (size_t)got));
		n += receive_some(ep, events + n, max - n);
		/* A short read usually emptied the socket. */
		if ((size_t)got < asked)
			break;
		budget -= (size_t)got < budget ? (size_t)got : budget;
		if (!budget) {
			ripc__list_queue(&t->ready, &ep->ready);
			break;
		}
	}
	return n;
}

unsigned ripc__soft_serve(struct ripc__ep *ep, struct ripc__event *events, unsigned max)
{
	struct ripc__engine *e;
	unsigned n = 0;
	bool eof;

	if (!max)
		return 0;
	ripc__list_del(&ep->ready);
	if (ep->state == SOFT_BROKEN)
		return closed(ep, events);
	if (!soft_ep_running(ep))
		return 0;
	if (!ripc__soft_may_run(ep)) {
		set_starved(ep);
		return 0;
	}
	e = ep->engine;
	if (ep->state == SOFT_ESTABLISHED)
		n += established(ep, events);
	n += receive(ep, events + n, max - n);
	if (ripc__engine_pending(e) && !e->status && !ep->error)
		ripc__soft_transmit(ep, PUSH_ROUND);
	if (ripc__engine_unparsed(e))
		n += receive_some(ep, events + n, max - n);
	if (ep->want_sendable && n < max && ripc__engine_queued(e) < SOFT_QUEUE_MAX / 2 &&
	    e->tx.writes.tail - e->tx.reported < RIPC__WORKS_MAX / 2 &&
	    (e->rx.read_tail - e->rx.read_head < e->conn.read_depth || !e->conn.read_depth)) {
		ep->want_sendable = false;
		events[n++] =
			(struct ripc__event){.kind = RIPC__EV_SENDABLE, .user = ep->user, .ep = ep};
	}
	eof = ep->rx == SOFT_RX_EOF;
	if (n == max && (ripc__engine_unparsed(e) || eof || e->status || ep->want_sendable)) {
		ripc__list_queue(&ep->t->ready, &ep->ready);
		return n;
	}
	/* All events of the engine are among the n < max ones. */
	if (eof || e->status) {
		finish(ep);
		ripc__list_del(&ep->ready);
		n += closed(ep, events + n);
	}
	return n;
}
