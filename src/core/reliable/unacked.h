/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The messages to one peer that it has not acknowledged, and the end of those that it has. Lock
 * held in every function.
 */
#ifndef RIPC_CORE_RELIABLE_UNACKED_H
#define RIPC_CORE_RELIABLE_UNACKED_H

#include "core/peer/dest.h"
#include "core/reliable/reliable.h"

/* A destination is not freed while messages for it are in a list. */
static inline void ripc__reliable_pin(struct ripc__dest *d)
{
	d->users++;
}

static inline void ripc__reliable_unpin(struct ripc *ctx, struct ripc__dest *d)
{
	d->used_ns = ctx->now_ns;
	d->users--;
}

/* A new message was posted: it waits for its acknowledgement. */
static inline void ripc__unacked_add(struct ripc__reliable *rel, struct ripc__dest *d,
				     struct ripc__reliable_msg *m)
{
	struct ripc__peer *p = rel->peer;

	m->number = rel->next++;
	ripc__list_add(&rel->unacked, &m->link);
	rel->bytes += m->len;
	p->reliable_unacked++;
	if (!d->reliable_unacked++) {
		d->reliable_peer = p;
		ripc__reliable_pin(d);
	}
}

/* Removes m. May be followed by ripc__unacked_continue(). */
static inline void ripc__unacked_remove(struct ripc *ctx, struct ripc__peer *p,
					struct ripc__reliable_msg *m)
{
	struct ripc__reliable *rel = p->reliable;
	struct ripc__dest *d = m->dest;

	if (rel->resend == &m->link)
		rel->resend = m->link.next == &rel->unacked ? NULL : m->link.next;
	ripc__list_del(&m->link);
	rel->bytes -= m->len;
	p->reliable_unacked--;
	if (!--d->reliable_unacked) {
		d->reliable_peer = NULL;
		ripc__reliable_unpin(ctx, d);
	}
}

/* Sends the messages that wait until no earlier one of d is unacknowledged, if that is so. */
static inline void ripc__unacked_continue(struct ripc *ctx, struct ripc__dest *d)
{
	if (d->reliable_unacked)
		return;
	if (!ripc__list_empty(&d->reliable_pending))
		ripc__reliable_flush_pending(ctx, d);
	ripc__dest_wake(ctx, d);
}

/* Removes m and calls end() of its owner. */
void ripc__unacked_end(struct ripc *ctx, struct ripc__peer *p, struct ripc__reliable_msg *m,
		       int status, const char *why);
/* Ends all messages that are acknowledged. */
void ripc__unacked_settle(struct ripc *ctx, struct ripc__peer *p);
/* Ends a few of them: no thread waits for their end. */
void ripc__unacked_settle_some(struct ripc *ctx, struct ripc__reliable *rel);

#endif
