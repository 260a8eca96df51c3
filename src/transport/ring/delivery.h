/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From the events of a window engine to those of a transport: where its messages are received, and
 * who is told.
 */
#ifndef RIPC_RING_DELIVERY_H
#define RIPC_RING_DELIVERY_H

#include "base/slab.h"
#include "transport/transport.h"
#include "transport/ring/ring.h"

/* The memory that all connections of a transport receive into. */
struct ripc__ring_delivery {
	struct ripc__slab_pool pool;
	struct ripc__slab *slab; /* messages are received into; NULL: none yet */
	uint32_t used;           /* bytes of it */
	uint8_t *scratch;        /* where one message is received when no slab can be had */
	bool scratch_used;       /* by an event of this round */
};

/* @max: bytes of received messages that are held at most. Return: 0 or -ENOMEM. */
int ripc__ring_delivery_init(struct ripc__ring_delivery *in, size_t max);
/* All messages were released. Also after an init() that failed. */
void ripc__ring_delivery_fini(struct ripc__ring_delivery *in);

/* Events of the last round do not point into the scratch memory any more. */
static inline void ripc__ring_delivery_begin(struct ripc__ring_delivery *in)
{
	in->scratch_used = false;
}

/* Where the next message is received, RIPC__RING_RECV_BUF_LEN bytes. NULL: nowhere in this round. */
uint8_t *ripc__ring_delivery_buf(struct ripc__ring_delivery *in);
/* It was, len bytes: sets kind, data, length and token of the event. */
void ripc__ring_delivery_event(struct ripc__ring_delivery *in, uint8_t *buf, uint32_t len,
			       struct ripc__event *ev);

/*
 * What an engine has done and got. *more is set if there may be more at once. Tokens are slabs.
 * Return: number of events, at most max; the engine's end is not among them.
 */
unsigned ripc__ring_delivery_poll(struct ripc__ring_delivery *in, struct ripc__ring *ring,
				  struct ripc__ep *ep, void *user, struct ripc__event *events,
				  unsigned max, bool *more);

#endif
