/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Moves bytes between an endpoint's socket and its engine, and makes events of what the engine says. */
#include "base/clock.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVE_ROUND (1u << 20)   /* bytes received from one endpoint in one progress() at most */
#define PUSH_ROUND    (1u << 20)   /* bytes transmitted likewise */
#define GATHER_BYTES  (512u << 10) /* bytes offered to the socket with one call */
#define GATHER_CRC \
	(128u << 10) /* the same where their CRC is computed first: they should still be in the cache */
#define GATHER_IOV 48u
#define WARM       16u   /* receptions without a sleep in between after which epoll is left out */
#define SPACE_MIN  8192u /* a slab with less room is given up */

void ripc__soft_ep_activate(struct ripc__ep *ep)
{
	struct soft *t = ep->t;
	unsigned oldest = 0;

	ep->empty_polls = 0;
	if (ep->active_ep)
		return;
	ep->active_ep = true;
	if (t->nactive < SOFT_ACTIVE_MAX) {
		t->active_ep[t->nactive++] = ep;
		return;
	}
	for (unsigned i = 1; i < SOFT_ACTIVE_MAX; i++)
		if (t->active_ep[i]->empty_polls > t->active_ep[oldest]->empty_polls)
			oldest = i;
	t->active_ep[oldest]->active_ep = false;
	if (t->last_rx_ep == t->active_ep[oldest])
		t->last_rx_ep = NULL;
	ripc__soft_rewatch(t->active_ep[oldest]);
	t->active_ep[oldest] = ep;
}

void ripc__soft_rewatch(struct ripc__ep *ep)
{
	ep->recent_rx = 0;
	if (!ep->out_of_epoll)
		return;
	ep->out_of_epoll = false;
	epoll_ctl(ep->t->epoll_fd, EPOLL_CTL_ADD, ep->fd,
		  &(struct epoll_event){.events = ep->watched, .data.ptr = ep});
}

void ripc__soft_ep_deactivate(struct ripc__ep *ep)
{
	struct soft *t = ep->t;

	if (!ep->active_ep)
		return;
	ep->active_ep = false;
	if (t->last_rx_ep == ep)
		t->last_rx_ep = NULL;
	ripc__soft_rewatch(ep);
	for (unsigned i = 0; i < t->nactive; i++) {
		if (t->active_ep[i] == ep) {
			t->active_ep[i] = t->active_ep[--t->nactive];
			return;
		}
	}
}

bool ripc__soft_space(struct soft *t, uint8_t **space, size_t *len)
{
	*len = ripc__slab_reserve(&t->pool, &t->slab, &t->slab_used, SPACE_MIN, space);
	return *len;
}

void ripc__soft_space_used(struct soft *t, size_t n)
{
	t->slab_used += (uint32_t)((n + 63) & ~(size_t)63);
}

void ripc__soft_transmit(struct ripc__ep *ep, size_t budget)
{
	struct ripc__engine *e = &ep->engine;
	size_t most = e->crc ? GATHER_CRC : GATHER_BYTES;

	soft_unlink(&ep->held);
	while (ep->fd >= 0 && ripc__engine_pending(e)) {
		struct iovec iov[GATHER_IOV];
		struct msghdr msg = {.msg_iov = iov};
		size_t offered = 0;
		ssize_t n;

		if (!budget) {
			soft_append(&ep->t->ready, &ep->ready);
			return;
		}
		msg.msg_iovlen =
			ripc__engine_gather(e, iov, GATHER_IOV, most < budget ? most : budget);
		for (unsigned i = 0; i < msg.msg_iovlen; i++)
			offered += iov[i].iov_len;
		n = sendmsg(ep->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			ep->error = ep->error ? ep->error : -errno;
			soft_append(&ep->t->ready, &ep->ready);
			return;
		}
		if (n > 0)
			ripc__engine_sent(e, (size_t)n);
		if (n < (ssize_t)offered) {
			soft_append(&ep->t->blocked, &ep->blocked);
			return;
		}
		budget -= (size_t)n < budget ? (size_t)n : budget;
	}
	soft_unlink(&ep->blocked);
}

/* The endpoint has come to its end: our Terminate goes out as far as possible. */
static void finish(struct ripc__ep *ep)
{
	struct ripc__engine *e = &ep->engine;
	char why[SOFT_WHY_MAX];

	if (e->status && e->term_received) {
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
				   .text = ep->why};
	if (ep->rejected) {
		ev->reject = true;
		ev->data = ep->setup->reply.priv;
		ev->len = (uint32_t)ep->setup->reply.privlen;
	}
	ep->state = SOFT_CLOSED;
	return 1;
}

static unsigned established(struct ripc__ep *ep, struct ripc__event *ev)
{
	*ev = (struct ripc__event){.kind = RIPC__EV_ESTABLISHED, .user = ep->user, .ep = ep};
	if (ep->active) {
		ev->data = ep->setup->reply.priv;
		ev->len = (uint32_t)ep->setup->reply.privlen;
	}
	ep->established = false;
	soft_append(&ep->t->settled, &ep->timed);
	return 1;
}

/*
 * A message that lies in its queue for long holds a whole slab. When many slabs are held the receiver is asked to copy: the
 * event has no token, and its data is valid until the next round.
 */
static void *hold_until_round(struct soft *t, void *token)
{
	struct ripc__slab *slab = token;

	if (t->pool.bytes <= t->pool.max / 4 || slab->cap != RIPC__SLAB_BYTES ||
	    t->nheld_slabs == SOFT_LOANS_MAX)
		return token;
	t->held_slabs[t->nheld_slabs++] = slab;
	return NULL;
}

void ripc__soft_release_round(struct soft *t)
{
	while (t->nheld_slabs)
		ripc__slab_put(t->held_slabs[--t->nheld_slabs]);
}

/* What the engine has to say. Return: events. */
static unsigned receive_some(struct ripc__ep *ep, struct ripc__event *events, unsigned max)
{
	struct ripc__engine_event ev;
	unsigned n = 0;

	while (n < max && ripc__engine_next(&ep->engine, &ev)) {
		struct ripc__event *out;

		/* A send of no bytes is no message: see doc/protocol.md, section 5.1. */
		if (ev.kind == RIPC__ENGINE_RECV && !ev.len) {
			if (ev.token)
				ripc__slab_put(ev.token);
			continue;
		}
		out = &events[n++];
		*out = (struct ripc__event){.user = ep->user, .ep = ep, .wr_id = ev.wr_id};
		switch (ev.kind) {
		case RIPC__ENGINE_RECV:
			out->kind = RIPC__EV_RECV;
			out->data = ev.data;
			out->len = ev.len;
			out->token = hold_until_round(ep->t, ev.token);
			break;
		case RIPC__ENGINE_READ_DONE:
			out->kind = RIPC__EV_READ_DONE;
			break;
		case RIPC__ENGINE_WRITE_DONE:
			out->kind = RIPC__EV_WRITE_DONE;
			break;
		}
	}
	return n;
}

/* No memory for what is there: the endpoint is left alone until some is given back. */
static void set_starved(struct ripc__ep *ep)
{
	ep->starved = ep->t->starving = true;
	epoll_ctl(ep->t->epoll_fd, EPOLL_CTL_MOD, ep->fd,
		  &(struct epoll_event){.events = ep->watched & ~(uint32_t)EPOLLIN, .data.ptr = ep});
	ep->watched &= ~(uint32_t)EPOLLIN;
	ripc__soft_ep_deactivate(ep);
}

static unsigned receive(struct ripc__ep *ep, struct ripc__event *events, unsigned max)
{
	struct soft *t = ep->t;
	struct ripc__engine *e = &ep->engine;
	size_t budget = RECEIVE_ROUND;
	unsigned n = ripc__engine_unparsed(e) ? receive_some(ep, events, max) : 0;

	while (n < max && !ep->eof && !e->status && !ep->starved) {
		struct msghdr msg = {0};
		struct iovec iov[2];
		size_t len, prefix, asked;
		uint8_t *space;
		ssize_t got;

		if (!ripc__soft_space(t, &space, &len)) {
			set_starved(ep);
			break;
		}
		msg.msg_iov = iov;
		msg.msg_iovlen = ripc__engine_rx_buffer(e, space, len, iov, &prefix);
		asked = iov[0].iov_len + (msg.msg_iovlen == 2 ? iov[1].iov_len : 0);
		if (msg.msg_iovlen == 1)
			got = recv(ep->fd, iov[0].iov_base, asked, MSG_DONTWAIT);
		else
			got = recvmsg(ep->fd, &msg, MSG_DONTWAIT);
		if (got <= 0) {
			if (got == 0) {
				ep->eof = true;
			} else if (errno != EAGAIN && errno != EINTR) {
				ep->error = -errno;
				ep->eof = true;
			} else {
				ep->empty_polls++;
			}
			break;
		}
		ripc__soft_ep_activate(ep);
		t->last_rx_ep = ep;
		if (!ep->out_of_epoll && ++ep->recent_rx >= WARM) {
			ripc__soft_unwatch(t, ep->fd);
			ep->out_of_epoll = true;
		}
		ripc__soft_space_used(t, ripc__engine_received(e, t->slab, (size_t)got));
		n += receive_some(ep, events + n, max - n);
		/* A short read has emptied the socket, as far as that can be known. */
		if ((size_t)got < asked)
			break;
		budget -= (size_t)got < budget ? (size_t)got : budget;
		if (!budget) {
			soft_append(&t->ready, &ep->ready);
			break;
		}
	}
	return n;
}

unsigned ripc__soft_serve(struct ripc__ep *ep, struct ripc__event *events, unsigned max)
{
	struct ripc__engine *e = &ep->engine;
	unsigned n = 0;

	if (!max)
		return 0;
	soft_unlink(&ep->ready);
	if (ep->state == SOFT_BROKEN)
		return closed(ep, events);
	if (ep->state != SOFT_OPEN)
		return 0;
	if (ep->established)
		n += established(ep, events);
	n += receive(ep, events + n, max - n);
	if (ripc__engine_pending(e) && !e->status && !ep->error)
		ripc__soft_transmit(ep, PUSH_ROUND);
	if (ripc__engine_unparsed(e))
		n += receive_some(ep, events + n, max - n);
	if (ep->want_sendable && n < max && ripc__engine_queued(e) < SOFT_QUEUE_MAX / 2 &&
	    e->tx.work_tail - e->tx.work_reported < RIPC__WORKS_MAX / 2 &&
	    (e->rx.read_tail - e->rx.read_head < e->read_depth || !e->read_depth)) {
		ep->want_sendable = false;
		events[n++] =
			(struct ripc__event){.kind = RIPC__EV_SENDABLE, .user = ep->user, .ep = ep};
	}
	if (n == max && (ripc__engine_unparsed(e) || ep->eof || e->status || ep->want_sendable)) {
		soft_append(&ep->t->ready, &ep->ready);
		return n;
	}
	if ((ep->eof && !ripc__engine_unparsed(e)) || e->status || (ep->error && ep->eof)) {
		finish(ep);
		soft_unlink(&ep->ready);
		if (n < max)
			n += closed(ep, events + n);
		else
			soft_append(&ep->t->ready, &ep->ready);
	}
	return n;
}
