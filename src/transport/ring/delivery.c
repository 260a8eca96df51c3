/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ring/delivery.h"

#include <errno.h>
#include <stdlib.h>

int ripc__intake_init(struct ripc__intake *in, size_t max)
{
	*in = (struct ripc__intake){0};
	ripc__slab_pool_init(&in->pool, max);
	in->scratch = malloc(RIPC__WIN_BUF);
	return in->scratch ? 0 : -ENOMEM;
}

void ripc__intake_fini(struct ripc__intake *in)
{
	if (in->slab)
		ripc__slab_put(in->slab);
	ripc__slab_pool_fini(&in->pool);
	free(in->scratch);
}

/* The same where another slab is needed, or none is left. */
static uint8_t *more_room(struct ripc__intake *in)
{
	uint8_t *space;

	if (ripc__slab_reserve(&in->pool, &in->slab, &in->used, RIPC__WIN_BUF, &space))
		return space;
	/* Who holds all the memory does not stop the others: the core copies it. */
	return in->scratch_used ? NULL : in->scratch;
}

uint8_t *ripc__intake_room(struct ripc__intake *in)
{
	struct ripc__slab *slab = in->slab;

	if (!slab)
		return more_room(in);
	/* Nobody else looks at it: the same memory again is still in the cache. */
	if (slab->refs == 1)
		in->used = 0;
	return RIPC__SLAB_BYTES - in->used >= RIPC__WIN_BUF ? slab->data + in->used : more_room(in);
}

void ripc__intake_received(struct ripc__intake *in, uint8_t *buf, uint32_t len, struct ripc__event *ev)
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

/* Who has no more events may have begun to serve: that was not tried yet, so no kick will come for it. */
static inline bool begun(const struct ripc__win *win, bool busy)
{
	return !busy && ripc__win_busy(win);
}

unsigned ripc__intake_serve(struct ripc__intake *in, struct ripc__win *win, struct ripc__ep *ep,
			    void *user, struct ripc__event *events, unsigned max, bool *more)
{
	bool busy = ripc__win_busy(win);
	unsigned n = 0;

	if (busy && ripc__win_pump(win))
		*more = true;
	while (n < max) {
		struct ripc__win_event ev;
		uint8_t *buf;

		/* Most often there was one message, and no more. What it has begun is for the next round. */
		if (n && !busy && !ripc__win_ready(win)) {
			*more |= begun(win, busy);
			return n;
		}
		buf = ripc__intake_room(in);
		if (!buf || !ripc__win_next(win, buf, &ev)) {
			*more |= !buf || begun(win, busy);
			return n;
		}
		events[n].user = user;
		events[n].ep = ep;
		if (ev.kind == RIPC__WIN_RECV) {
			ripc__intake_received(in, buf, ev.len, &events[n++]);
			continue;
		}
		events[n].status = ev.status;
		events[n].wr_id = ev.wr_id;
		switch (ev.kind) {
		case RIPC__WIN_READ_DONE:
			events[n].kind = RIPC__EV_READ_DONE;
			break;
		case RIPC__WIN_WRITE_DONE:
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
