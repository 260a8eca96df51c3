/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The transport of a context to itself: events in memory. It has no descriptor. The next progress()
 * of the same context reports a posted operation. A waiting thread calls progress() before it
 * sleeps, see arm().
 */
#include "base/log.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SEND_MAX   16384
#define QUEUED_MAX (4u << 20) /* most bytes of sends not yet reported */

/* A pending event, followed by the bytes to which it points. */
struct self_event {
	struct self_event *next;
	struct ripc__event ev;
	struct ripc__ep *from; /* of a send: the endpoint whose queue counts it */
	uint8_t bytes[];
};

struct ripc__ep {
	struct ripc__transport *t;
	struct ripc__ep *peer; /* the other end; NULL: not connected yet, or closed */
	struct ripc__ep *next; /* in t->eps */
	void *user;
	size_t queued;      /* bytes of sends not yet reported */
	bool want_sendable; /* a send found the queue full */
};

struct ripc__transport {
	struct self_event *first, *last; /* pending */
	/* reported by the last progress(): the caller may still read their bytes */
	struct self_event *reported;
	struct ripc__ep *eps;
	int fd;
	bool signalled;
	bool any_want_sendable; /* a post was rejected on any endpoint */
};

static int self_open(struct ripc__transport **out, const struct ripc__transport_env *env)
{
	struct ripc__transport *t = calloc(1, sizeof(*t));

	if (!t)
		return ripc__fail(-ENOMEM, "out of memory");
	t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->fd < 0) {
		int err = errno;

		free(t);
		return ripc__fail(-err, "no descriptor: %s", ripc_strerror(err));
	}
	*out = t;
	return 0;
}

static void events_free(struct self_event **list)
{
	struct self_event *n;

	while ((n = *list)) {
		*list = n->next;
		free(n);
	}
}

static void self_close(struct ripc__transport *t)
{
	events_free(&t->first);
	events_free(&t->reported);
	while (t->eps) {
		struct ripc__ep *ep = t->eps;

		t->eps = ep->next;
		free(ep);
	}
	close(t->fd);
	free(t);
}

static void self_limits(struct ripc__transport *t, struct ripc__transport_limits *l)
{
	*l = (struct ripc__transport_limits){
		.caps = RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_WRITE |
			RIPC__CAP_CHEAP_REG | RIPC__CAP_SAME_HOST | RIPC__CAP_SELF,
		.send_max = SEND_MAX,
		.read_depth = 16,
		.rdma_max = 1u << 30,
	};
}

static int self_address(struct ripc__transport *t, uint8_t *buf, size_t cap)
{
	return 0;
}

static void self_describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	snprintf(text, textlen, "this context");
}

static int self_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		    unsigned access, struct ripc__mr *mr)
{
	/* Both ends belong to this context: the address is sufficient and trusted. */
	*mr = (struct ripc__mr){
		.base = base, .len = len, .addr = (uintptr_t)base, .key = 1, .access = access};
	return 0;
}

static void self_dereg(struct ripc__transport *t, struct ripc__mr *mr)
{
}

static void signal_fd(struct ripc__transport *t)
{
	if (!t->signalled)
		eventfd_write(t->fd, 1);
	t->signalled = true;
}

static struct self_event *event_new(size_t len)
{
	return calloc(1, sizeof(struct self_event) + len);
}

static void event_add(struct ripc__transport *t, struct self_event *n)
{
	n->next = NULL;
	if (t->last)
		t->last->next = n;
	else
		t->first = n;
	t->last = n;
	signal_fd(t);
}

static struct ripc__ep *ep_new(struct ripc__transport *t, void *user)
{
	struct ripc__ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->t = t;
	ep->user = user;
	ep->next = t->eps;
	t->eps = ep;
	return ep;
}

/* The request handle is the active endpoint. */
static int self_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			const void *priv, size_t privlen, void *user, struct ripc__ep **out)
{
	struct self_event *n = event_new(privlen);
	struct ripc__ep *ep = n ? ep_new(t, user) : NULL;

	if (!ep) {
		free(n);
		return ripc__fail(-ENOMEM, "out of memory");
	}
	memcpy(n->bytes, priv, privlen);
	n->ev = (struct ripc__event){.kind = RIPC__EV_REQUEST,
				     .request = ep,
				     .len = (uint32_t)privlen,
				     .text = "this context"};
	event_add(t, n);
	*out = ep;
	return 0;
}

static int self_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		       void *user, struct ripc__ep **out)
{
	struct ripc__ep *active = request;
	struct self_event *up = event_new(privlen), *mine = event_new(0);
	struct ripc__ep *ep = up && mine ? ep_new(t, user) : NULL;

	if (!ep) {
		free(up);
		free(mine);
		return ripc__fail(-ENOMEM, "out of memory");
	}
	ep->peer = active;
	active->peer = ep;
	memcpy(up->bytes, priv, privlen);
	up->ev = (struct ripc__event){.kind = RIPC__EV_ESTABLISHED,
				      .user = active->user,
				      .ep = active,
				      .len = (uint32_t)privlen};
	mine->ev = (struct ripc__event){.kind = RIPC__EV_ESTABLISHED, .user = user, .ep = ep};
	event_add(t, mine);
	event_add(t, up);
	*out = ep;
	return 0;
}

static void self_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen)
{
	struct ripc__ep *active = request;
	struct self_event *n = event_new(privlen);

	if (!n)
		return;
	memcpy(n->bytes, priv, privlen);
	n->ev = (struct ripc__event){.kind = RIPC__EV_CLOSED,
				     .status = -ECONNREFUSED,
				     .reject = true,
				     .user = active->user,
				     .ep = active,
				     .len = (uint32_t)privlen};
	event_add(t, n);
}

/*
 * Removes the pending events that name the endpoint or whose endpoint cannot be answered any more.
 */
static void events_purge(struct ripc__transport *t, struct ripc__ep *ep)
{
	struct self_event **at = &t->first, *n;

	t->last = NULL;
	while ((n = *at)) {
		if (n->ev.ep == ep || n->ev.request == ep) {
			*at = n->next;
			free(n);
			continue;
		}
		if (n->from == ep)
			n->from = NULL;
		t->last = n;
		at = &n->next;
	}
}

static void self_ep_close(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;
	struct ripc__ep **at;

	events_purge(t, ep);
	if (ep->peer) {
		struct self_event *n = event_new(0);

		ep->peer->peer = NULL;
		if (n) {
			n->ev = (struct ripc__event){.kind = RIPC__EV_CLOSED,
						     .status = -ECONNRESET,
						     .user = ep->peer->user,
						     .ep = ep->peer};
			event_add(t, n);
		}
	}
	for (at = &t->eps; *at != ep; at = &(*at)->next)
		;
	*at = ep->next;
	free(ep);
}

/* A post was rejected: progress() reports EV_SENDABLE when the caller may retry. */
static void mark_want_sendable(struct ripc__ep *ep)
{
	ep->want_sendable = ep->t->any_want_sendable = true;
	signal_fd(ep->t);
}

static int self_post(struct ripc__ep *ep, const void *head, size_t head_len,
		     const struct iovec *items, unsigned nitems, bool more)
{
	struct self_event *n;
	size_t len = ripc__post_len(head_len, items, nitems);

	if (!ep->peer)
		return -ENOTCONN;
	if (len > SEND_MAX)
		return -EMSGSIZE;
	if (ep->queued > QUEUED_MAX || !(n = event_new(len))) {
		mark_want_sendable(ep);
		return -EAGAIN;
	}
	ripc__post_copy(n->bytes, head, head_len, items, nitems);
	n->from = ep;
	ep->queued += len;
	n->ev = (struct ripc__event){.kind = RIPC__EV_RECV,
				     .user = ep->peer->user,
				     .ep = ep->peer,
				     .len = (uint32_t)len,
				     .token = n};
	event_add(ep->t, n);
	return 1;
}

static int copy(struct ripc__ep *ep, enum ripc__ev_kind kind, void *to, const void *from,
		size_t len, uint64_t wr_id)
{
	struct self_event *n;

	if (!ep->peer)
		return -ENOTCONN;
	n = event_new(0);
	if (!n) {
		mark_want_sendable(ep);
		return -EAGAIN;
	}
	memmove(to, from, len);
	n->ev = (struct ripc__event){.kind = kind, .user = ep->user, .ep = ep, .wr_id = wr_id};
	event_add(ep->t, n);
	return 0;
}

static int self_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			   size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	return copy(ep, RIPC__EV_WRITE_DONE, (void *)(uintptr_t)raddr, local, len, wr_id);
}

static int self_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			  uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	return copy(ep, RIPC__EV_READ_DONE, local, (const void *)(uintptr_t)raddr, len, wr_id);
}

static void self_flush(struct ripc__transport *t)
{
}

static void clear_fd(struct ripc__transport *t)
{
	eventfd_t count;

	if (t->signalled)
		eventfd_read(t->fd, &count);
	t->signalled = false;
}

static unsigned self_progress(struct ripc__transport *t, struct ripc__event *events, unsigned max,
			      uint64_t now_ns, uint64_t *deadline_ns)
{
	unsigned count = 0;

	events_free(&t->reported);
	if (!t->first && !t->any_want_sendable)
		return 0;
	t->any_want_sendable = false;
	for (struct ripc__ep *ep = t->eps; ep && count < max; ep = ep->next)
		if (ep->want_sendable && ep->queued <= QUEUED_MAX / 2) {
			ep->want_sendable = false;
			events[count++] = (struct ripc__event){
				.kind = RIPC__EV_SENDABLE, .user = ep->user, .ep = ep};
		}
	while (count < max && t->first) {
		struct self_event *n = t->first;

		t->first = n->next;
		if (!t->first)
			t->last = NULL;
		events[count] = n->ev;
		events[count++].data = n->bytes;
		if (n->from)
			n->from->queued -= n->ev.len;
		/* The receiver releases a send itself. */
		if (n->ev.token)
			continue;
		n->next = t->reported;
		t->reported = n;
	}
	if (!t->first)
		clear_fd(t);
	return count;
}

static void self_release(struct ripc__transport *t, void *token)
{
	free(token);
}

static int self_arm(struct ripc__transport *t)
{
	return t->first != NULL || t->any_want_sendable;
}

static int self_fd(struct ripc__transport *t)
{
	return t->fd;
}

static void self_forked(struct ripc__transport *t)
{
	close(t->fd);
}

const struct ripc__transport_ops ripc__transport_self = {
	.name = "self",
	.id = 1,
	.open = self_open,
	.close = self_close,
	.limits = self_limits,
	.address = self_address,
	.describe = self_describe,
	.reg = self_reg,
	.dereg = self_dereg,
	.connect = self_connect,
	.accept = self_accept,
	.reject = self_reject,
	.ep_close = self_ep_close,
	.post = self_post,
	.post_write = self_post_write,
	.post_read = self_post_read,
	.flush = self_flush,
	.progress = self_progress,
	.release = self_release,
	.arm = self_arm,
	.fd = self_fd,
	.forked = self_forked,
};
