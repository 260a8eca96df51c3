/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The transport of a context to itself: rings in its own memory. Both ends of a connection are
 * endpoints of one transport. A waiting thread calls progress() before it sleeps, see arm().
 */
#define _GNU_SOURCE
#include "base/log.h"
#include "transport/ring/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct ripc__ring_layout layout = {8, 17};

struct self_ep {
	struct ripc__ep ep;
	struct self_ep *peer; /* the other end; NULL: closed */
	uint8_t *segments;    /* of both ends, unmapped by the last one; NULL: not accepted */
	bool requested;       /* passive: EV_REQUEST is to be reported */
};

struct self {
	struct ripc__transport r;
	bool signalled;
};

static struct self_ep *self_ep(struct ripc__ep *ep)
{
	return (struct self_ep *)ep;
}

/* ---- the engine's back end ---- */

/* arg: the transport. */
static void self_kick(void *arg)
{
	struct self *t = arg;

	if (!t->signalled)
		eventfd_write(t->r.fd, 1);
	t->signalled = true;
}

static int self_read(void *arg, void *to, uint64_t addr, size_t len)
{
	memmove(to, (const void *)(uintptr_t)addr, len);
	return 0;
}

static const struct ripc__ring_backend_ops backend_ops = {.kick = self_kick, .read = self_read};

/* ---- set-up ---- */

static void set_private(struct ripc__ep *ep, const void *priv, size_t privlen)
{
	memcpy(ep->setup->private, priv, privlen);
	ep->setup->private_len = (uint32_t)privlen;
}

static int self_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			const void *priv, size_t privlen, struct ripc__ep **out)
{
	struct ripc__ep *active = ripc__ring_ep_new(t, RIPC__EP_CONNECTING);
	struct ripc__ep *passive = active ? ripc__ring_ep_new(t, RIPC__EP_REQUESTED) : NULL;

	if (!passive) {
		if (active)
			ripc__ring_ep_defer_free(active);
		return ripc__fail(-ENOMEM, "out of memory");
	}
	self_ep(active)->peer = self_ep(passive);
	self_ep(passive)->peer = self_ep(active);
	self_ep(passive)->requested = true;
	set_private(passive, priv, privlen);
	self_kick(t);
	*out = active;
	return 0;
}

static void start_engine(struct self_ep *ep, unsigned which)
{
	size_t len = ripc__ring_segment_len(&layout);
	struct ripc__ring_backend be = {
		.ops = &backend_ops,
		.arg = ep->ep.t,
		.inbox = ep->segments + which * len,
		.map = ep->segments + !which * len,
	};

	ripc__ring_ep_open(&ep->ep, &be, &layout, 1);
}

static int self_accept(struct ripc__ep *ep, const void *priv, size_t privlen)
{
	struct self_ep *passive = self_ep(ep), *active = passive->peer;
	void *segments;

	if (!active)
		return ripc__fail(-ECONNRESET, "the connection was closed before it was accepted");
	segments = mmap(NULL, 2 * ripc__ring_segment_len(&layout), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (segments == MAP_FAILED)
		return ripc__fail(-ENOMEM, "out of memory");
	active->segments = passive->segments = segments;
	set_private(&active->ep, priv, privlen);
	start_engine(passive, 0);
	start_engine(active, 1);
	self_kick(ep->t);
	return 0;
}

static void self_reject(struct ripc__ep *ep, const void *priv, size_t privlen)
{
	struct self_ep *active = self_ep(ep)->peer;

	if (!active)
		return;
	set_private(&active->ep, priv, privlen);
	ripc__ring_ep_fail(&active->ep, -ECONNREFUSED, "refused");
	self_kick(ep->t);
}

static void self_ep_release(struct ripc__ep *base)
{
	struct self_ep *ep = self_ep(base), *peer = ep->peer;

	if (!peer) {
		if (ep->segments)
			munmap(ep->segments, 2 * ripc__ring_segment_len(&layout));
		return;
	}
	peer->peer = NULL;
	if (peer->ep.state == RIPC__EP_CONNECTING)
		ripc__ring_ep_fail(&peer->ep, -ECONNRESET, "the other end was closed");
	self_kick(base->t);
}

static const struct ripc__ring_setup_ops setup_ops = {
	.ep_size = sizeof(struct self_ep),
	.connect = self_connect,
	.accept = self_accept,
	.reject = self_reject,
	.release = self_ep_release,
};

/* ---- the vtable ---- */

static void self_close(struct ripc__transport *tr)
{
	struct self *t = (struct self *)tr;

	ripc__ring_transport_fini(&t->r);
	if (t->r.fd >= 0)
		close(t->r.fd);
	free(t);
}

static int self_open(struct ripc__transport **out, const struct ripc__transport_env *env)
{
	struct self *t = ripc__ring_transport_new(sizeof(*t), &ripc__transport_self, &setup_ops,
						  RIPC__CAP_SAME_HOST | RIPC__CAP_SELF);

	if (!t)
		return -ENOMEM;
	t->r.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->r.fd < 0) {
		int err = errno;

		self_close(&t->r);
		return ripc__fail(-err, "no descriptor: %s", ripc_strerror(err));
	}
	*out = &t->r;
	return 0;
}

static int self_address(struct ripc__transport *t, uint8_t *buf, size_t cap)
{
	return 0;
}

static void self_describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	snprintf(text, textlen, "this context");
}

static bool request_event(struct ripc__ep *ep, struct ripc__event *ev)
{
	if (ep->state != RIPC__EP_REQUESTED || !self_ep(ep)->requested)
		return false;
	self_ep(ep)->requested = false;
	*ev = ripc__ring_ep_request(ep, 0);
	ev->text = "this context";
	return true;
}

static unsigned self_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			      uint64_t now_ns, uint64_t *deadline_ns)
{
	struct self *t = (struct self *)tr;
	struct ripc__ep *ep;
	eventfd_t count;
	unsigned n = 0;
	bool more = false;

	if (t->signalled)
		eventfd_read(t->r.fd, &count);
	t->signalled = false;
	ripc__ring_transport_begin(tr);
	if (tr->neps[RIPC__EP_REQUESTED])
		ripc__list_for_each_entry (ep, &tr->eps, link)
			n += n < max && request_event(ep, &events[n]);
	n += ripc__ring_transport_poll(tr, events + n, max - n, &more);
	if (more || n == max)
		*deadline_ns = now_ns < *deadline_ns ? now_ns : *deadline_ns;
	return n;
}

static int self_arm(struct ripc__transport *tr)
{
	return ripc__ring_transport_arm(tr, true) || ((struct self *)tr)->signalled;
}

static void self_forked(struct ripc__transport *tr)
{
	close(tr->fd);
}

const struct ripc__transport_ops ripc__transport_self = {
	RIPC__RING_TRANSPORT_OPS,
	.name = "self",
	.id = 1,
	.open = self_open,
	.close = self_close,
	.address = self_address,
	.describe = self_describe,
	.progress = self_progress,
	.arm = self_arm,
	.forked = self_forked,
};
