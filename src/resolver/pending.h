/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The queue of events that the user of the resolver has not taken yet. Each owner (claim, look-up,
 * cached record) embeds its own link and one bit per kind of event. Therefore queueing never
 * allocates, and no event is lost or delivered twice.
 */
#ifndef RIPC_RESOLVER_PENDING_H
#define RIPC_RESOLVER_PENDING_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct ripc__pending;
struct ripc__rcore;
struct ripc__resolver_event;

/* An event of @p is taken: fills in what belongs to its kind. May free the owner. */
typedef void ripc__pending_fn(struct ripc__rcore *core, struct ripc__pending *p,
			      struct ripc__resolver_event *ev, uint64_t now_ns);

struct ripc__pending {
	struct ripc__list link; /* in the queue; valid while events is not 0 */
	ripc__pending_fn *taken;
	/* bits 1 << enum ripc__resolver_ev_kind, the lowest one is taken first; 0: not queued */
	unsigned events;
};

static inline void ripc__pending_add(struct ripc__list *q, struct ripc__pending *p, int kind)
{
	if (!p->events)
		ripc__list_add(q, &p->link);
	p->events |= 1u << kind;
}

static inline void ripc__pending_remove(struct ripc__pending *p, int kind)
{
	bool queued = p->events;

	p->events &= ~(1u << kind);
	if (queued && !p->events)
		ripc__list_del(&p->link);
}

static inline void ripc__pending_clear(struct ripc__pending *p)
{
	if (p->events)
		ripc__list_del(&p->link);
	p->events = 0;
}

#endif
