/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ring/delivery.h"

#include <errno.h>
#include <stdlib.h>

int ripc__ring_delivery_init(struct ripc__ring_delivery *in, size_t max)
{
	*in = (struct ripc__ring_delivery){0};
	ripc__slab_pool_init(&in->pool, max);
	in->scratch = malloc(RIPC__RING_RECV_BUF_LEN);
	return in->scratch ? 0 : -ENOMEM;
}

void ripc__ring_delivery_fini(struct ripc__ring_delivery *in)
{
	if (in->slab)
		ripc__slab_put(in->slab);
	ripc__slab_pool_fini(&in->pool);
	free(in->scratch);
}

/* The same where another slab is needed, or none is left. */
static uint8_t *new_slab(struct ripc__ring_delivery *in)
{
	uint8_t *space;

	if (ripc__slab_reserve(&in->pool, &in->slab, &in->used, RIPC__RING_RECV_BUF_LEN, &space))
		return space;
	/* Who holds all the memory does not stop the others: the core copies it. */
	return in->scratch_used ? NULL : in->scratch;
}

uint8_t *ripc__ring_delivery_buf(struct ripc__ring_delivery *in)
{
	struct ripc__slab *slab = in->slab;

	if (!slab)
		return new_slab(in);
	/* Nobody else looks at it: the same memory again is still in the cache. */
	if (slab->refs == 1)
		in->used = 0;
	return RIPC__SLAB_BYTES - in->used >= RIPC__RING_RECV_BUF_LEN ? slab->data + in->used
								      : new_slab(in);
}

void ripc__ring_delivery_event(struct ripc__ring_delivery *in, uint8_t *buf, uint32_t len,
			       struct ripc__event *ev)
{
	ev->kind = RIPC__EV_RECV;
	ev->data = buf;
	ev->len = len;
	ev->token = NULL;
	if (buf == in->scratch) {
		in->scratch_used = true;
		return;
	}
	ev->token = in->slab;
	in->slab->refs++;
	in->used += (len + 63) & ~63u;
}

/*
 * Who has no more events may have begun to serve: that was not tried yet, so no kick will come for
 * it.
 */
static inline bool poll_first(const struct ripc__ring *ring, bool busy)
{
	return !busy && ripc__ring_has_work(ring);
}

unsigned ripc__ring_delivery_poll(struct ripc__ring_delivery *in, struct ripc__ring *ring,
				  struct ripc__ep *ep, void *user, struct ripc__event *events,
				  unsigned max, bool *more)
{
	bool busy = ripc__ring_has_work(ring);
	unsigned n = 0;

	if (busy && ripc__ring_progress(ring))
		*more = true;
	while (n < max) {
		struct ripc__ring_event ev;
		uint8_t *buf;

		/*
		 * Most often there was one message, and no more. What it has begun is for the next
		 * round.
		 */
		if (n && !busy && !ripc__ring_ready(ring)) {
			*more |= poll_first(ring, busy);
			return n;
		}
		buf = ripc__ring_delivery_buf(in);
		if (!buf || !ripc__ring_poll(ring, buf, &ev)) {
			*more |= !buf || poll_first(ring, busy);
			return n;
		}
		events[n].user = user;
		events[n].ep = ep;
		if (ev.kind == RIPC__RING_EV_RECV) {
			ripc__ring_delivery_event(in, buf, ev.len, &events[n++]);
			continue;
		}
		events[n].status = ev.status;
		events[n].wr_id = ev.wr_id;
		switch (ev.kind) {
		case RIPC__RING_EV_READ_DONE:
			events[n].kind = RIPC__EV_READ_DONE;
			break;
		case RIPC__RING_EV_WRITE_DONE:
			events[n].kind = RIPC__EV_WRITE_DONE;
			break;
		default:
			events[n].kind = RIPC__EV_SENDABLE;
			break;
		}
		n++;
	}
	*more = true;
	return n;
}
