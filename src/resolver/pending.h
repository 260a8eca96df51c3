/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What is still to be told to the resolver's user. Each owner (registration, look-up, cached record) carries its own
 * place in the queue and a bit for each thing to tell: so telling never allocates, and nothing is
 * told twice or lost.
 */
#ifndef RIPC_RESOLVER_PENDING_H
#define RIPC_RESOLVER_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

enum ripc__owner { RIPC__OWNER_CLAIM, RIPC__OWNER_LOOKUP, RIPC__OWNER_CACHED };

struct ripc__pending {
	TAILQ_ENTRY(ripc__pending) link; /* valid while tell is not 0 */
	enum ripc__owner owner;          /* what it is embedded in */
	unsigned tell; /* bits 1 << enum ripc__resolver_ev_kind; 0: not in the queue */
};

TAILQ_HEAD(ripc__pendings, ripc__pending);

static inline void ripc__pending_add(struct ripc__pendings *queue, struct ripc__pending *p, int kind)
{
	if (!p->tell)
		TAILQ_INSERT_TAIL(queue, p, link);
	p->tell |= 1u << kind;
}

static inline void ripc__pending_remove(struct ripc__pendings *queue, struct ripc__pending *p, int kind)
{
	bool queued = p->tell;

	p->tell &= ~(1u << kind);
	if (queued && !p->tell)
		TAILQ_REMOVE(queue, p, link);
}

static inline void ripc__pending_clear(struct ripc__pendings *queue, struct ripc__pending *p)
{
	if (p->tell)
		TAILQ_REMOVE(queue, p, link);
	p->tell = 0;
}

#endif
