/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From the events of a window engine to those of a transport: where its messages are received, and who is told. */
#ifndef RIPC_WINDOW_INTAKE_H
#define RIPC_WINDOW_INTAKE_H

#include "base/slab.h"
#include "transport/transport.h"
#include "transport/ring/engine.h"

/* The memory that all connections of a transport receive into. */
struct ripc__intake {
	struct ripc__slab_pool pool;
	struct ripc__slab *slab; /* messages are received into; NULL: none yet */
	uint32_t used;           /* bytes of it */
	uint8_t *scratch;        /* where one message is received when no slab can be had */
	bool scratch_used;       /* by an event of this round */
};

/* @max: bytes of received messages that are held at most. Return: 0 or -ENOMEM. */
int ripc__intake_init(struct ripc__intake *in, size_t max);
/* All messages were released. Also after an init() that failed. */
void ripc__intake_fini(struct ripc__intake *in);

/* Events of the last round do not point into the scratch memory any more. */
static inline void ripc__intake_round(struct ripc__intake *in)
{
	in->scratch_used = false;
}

/* Where the next message is received, RIPC__WIN_BUF bytes. NULL: nowhere in this round. */
uint8_t *ripc__intake_room(struct ripc__intake *in);
/* It was, len bytes: sets kind, data, length and token of the event. */
void ripc__intake_received(struct ripc__intake *in, uint8_t *buf, uint32_t len,
			   struct ripc__event *ev);

/*
 * What an engine has done and got. *more is set if there may be more at once. Tokens are slabs. Return: number of
 * events, at most max; the engine's end is not among them.
 */
unsigned ripc__intake_serve(struct ripc__intake *in, struct ripc__win *win, struct ripc__ep *ep,
			    void *user, struct ripc__event *events, unsigned max, bool *more);

#endif
