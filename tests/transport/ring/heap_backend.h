/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The smallest memory back end of the rings, for tests: transports of one process and one thread.
 * Segments are heap memory, an address is a number, the doorbell is an eventfd. It is the
 * example for the recipe in doc/transports.md.
 */
#ifndef RIPC_TESTS_TRANSPORT_RING_HEAP_BACKEND_H
#define RIPC_TESTS_TRANSPORT_RING_HEAP_BACKEND_H

#include "base/clock.h"
#include "base/log.h"
#include "transport/ring/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEAP_NAME "ring/heap"

static const struct ripc__ring_layout heap_layout = {6, 16};

/* Both segments of a connection: they live as long as one of its two ends. */
struct heap_memory {
	uint8_t *segments[2];
	unsigned refs;
};

struct heap_ep {
	struct ripc__ep ep;
	struct heap_ep *peer; /* NULL: it is gone */
	struct heap_memory *memory;
	unsigned side; /* 0: active, 1: passive */
	bool reported; /* REQUESTED: EV_REQUEST was reported */
};

struct heap {
	struct ripc__transport r;
	struct heap *next;
	uint8_t id;
	int event;
};

static struct heap *heap_all; /* all open transports */
static bool heap_can_read;    /* new connections read directly */
static const struct ripc__transport_ops heap_ops;

/* ---- the engine's back end ---- */

static void heap_kick(void *arg)
{
	struct heap_ep *ep = arg;
	uint64_t one = 1;

	if (ep->peer && write(((struct heap *)ep->peer->ep.t)->event, &one, sizeof(one)) < 0)
		abort();
}

static int heap_read(void *arg, void *to, uint64_t addr, size_t len)
{
	struct heap_ep *ep = arg;

	if (!ep->peer)
		return -ECONNRESET;
	memcpy(to, (const void *)(uintptr_t)addr, len);
	return 0;
}

static const struct ripc__ring_backend_ops heap_readable = {.kick = heap_kick, .read = heap_read},
					   heap_unreadable = {.kick = heap_kick};

static void heap_start(struct heap_ep *ep)
{
	struct ripc__ring_backend be = {
		.ops = heap_can_read ? &heap_readable : &heap_unreadable,
		.arg = ep,
		.inbox = ep->memory->segments[ep->side],
		.map = ep->memory->segments[!ep->side],
	};

	ripc__ring_ep_open(&ep->ep, &be, &heap_layout, 1);
}

/* ---- set-up ---- */

static void set_private(struct heap_ep *ep, const void *priv, size_t privlen)
{
	if (privlen)
		memcpy(ep->ep.setup->private, priv, privlen);
	ep->ep.setup->private_len = (uint32_t)privlen;
}

static struct heap_memory *heap_memory_new(void)
{
	size_t len = (ripc__ring_segment_len(&heap_layout) + 63) & ~(size_t)63;
	struct heap_memory *m = calloc(1, sizeof(*m));

	for (unsigned i = 0; i < 2; i++) {
		m->segments[i] = aligned_alloc(64, len);
		memset(m->segments[i], 0, len);
	}
	m->refs = 2;
	return m;
}

static int heap_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			const void *priv, size_t privlen, struct ripc__ep **out)
{
	struct heap_ep *ep, *peer;
	struct heap *to = heap_all;

	while (addrlen == 1 && to && to->id != *addr)
		to = to->next;
	if (addrlen != 1 || !to)
		return ripc__fail(-ECONNREFUSED, HEAP_NAME ": nobody listens there");
	ep = (struct heap_ep *)ripc__ring_ep_new(t, RIPC__EP_CONNECTING);
	peer = (struct heap_ep *)ripc__ring_ep_new(&to->r, RIPC__EP_REQUESTED);
	ep->memory = peer->memory = heap_memory_new();
	ep->peer = peer;
	peer->peer = ep;
	peer->side = 1;
	set_private(peer, priv, privlen);
	heap_kick(ep);
	*out = &ep->ep;
	return 0;
}

static int heap_accept(struct ripc__ep *base, const void *priv, size_t privlen)
{
	struct heap_ep *ep = (struct heap_ep *)base;

	if (!ep->peer)
		return ripc__fail(-ECONNRESET, HEAP_NAME ": the peer is gone");
	set_private(ep->peer, priv, privlen);
	heap_start(ep->peer);
	heap_start(ep);
	return 0;
}

static void heap_reject(struct ripc__ep *base, const void *priv, size_t privlen)
{
	struct heap_ep *ep = (struct heap_ep *)base;

	if (!ep->peer)
		return;
	set_private(ep->peer, priv, privlen);
	ripc__ring_ep_fail(&ep->peer->ep, -ECONNREFUSED, "the peer refused");
}

static void heap_release(struct ripc__ep *base)
{
	struct heap_ep *ep = (struct heap_ep *)base;

	if (ep->peer) {
		if (ep->peer->ep.state == RIPC__EP_CONNECTING)
			ripc__ring_ep_fail(&ep->peer->ep, -ECONNRESET, "the peer is gone");
		ripc__ring_ep_lost(&ep->peer->ep, "the peer is gone");
		ep->peer->peer = NULL;
	}
	if (--ep->memory->refs)
		return;
	free(ep->memory->segments[0]);
	free(ep->memory->segments[1]);
	free(ep->memory);
}

static const struct ripc__ring_setup_ops heap_setup = {
	.ep_size = sizeof(struct heap_ep),
	.connect = heap_connect,
	.accept = heap_accept,
	.reject = heap_reject,
	.release = heap_release,
};

/* ---- the vtable ---- */

static int heap_open(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	static uint8_t id;
	struct heap *t =
		ripc__ring_transport_new(sizeof(*t), &heap_ops, &heap_setup, RIPC__CAP_WRITE);

	if (!t)
		return -ENOMEM;
	t->id = ++id;
	t->event = t->r.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->next = heap_all;
	heap_all = t;
	*tr = &t->r;
	return 0;
}

static void heap_close(struct ripc__transport *tr)
{
	struct heap *t = (struct heap *)tr, **at = &heap_all;

	ripc__ring_transport_fini(&t->r);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	close(t->event);
	free(t);
}

static int heap_address(struct ripc__transport *tr, uint8_t *buf, size_t cap)
{
	*buf = ((struct heap *)tr)->id;
	return 1;
}

static unsigned heap_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			      uint64_t now_ns, uint64_t *deadline_ns)
{
	struct heap *t = (struct heap *)tr;
	struct ripc__ep *ep;
	uint64_t count;
	bool more = false, kicked = read(t->event, &count, sizeof(count)) > 0;
	unsigned n = 0;

	ripc__ring_transport_begin(&t->r);
	ripc__list_for_each_entry (ep, &t->r.eps, link) {
		bool *reported = &((struct heap_ep *)ep)->reported;

		if (ep->state == RIPC__EP_OPEN && kicked)
			ripc__ring_disarm(&ep->ring);
		if (ep->state != RIPC__EP_REQUESTED || *reported || n == max)
			continue;
		*reported = true;
		events[n++] = (struct ripc__event){.kind = RIPC__EV_REQUEST,
						   .request = ep,
						   .data = ep->setup->private,
						   .len = ep->setup->private_len,
						   .text = "a transport of this process"};
	}
	n += ripc__ring_transport_poll(&t->r, events + n, max - n, &more);
	if (more || n == max)
		*deadline_ns = now_ns;
	return n;
}

static int heap_arm(struct ripc__transport *tr)
{
	return ripc__ring_transport_arm((struct ripc__transport *)tr, true);
}

static const struct ripc__transport_ops heap_ops = {
	RIPC__RING_TRANSPORT_OPS,  .name = HEAP_NAME,       .open = heap_open,
	.close = heap_close,       .address = heap_address, .poll_one = ripc__ring_poll_one,
	.progress = heap_progress, .arm = heap_arm,
};

#endif
