/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions that several public calls share: those that send, and those that query limits. */
#ifndef RIPC_CORE_MESSAGE_SEND_H
#define RIPC_CORE_MESSAGE_SEND_H

#include "core/group/group.h"
#include "core/progress/context.h"
#include "core/peer/peer.h"
#include "core/reliable/reliable.h"
#include "core/service/service.h"

/* Largest short message to a destination and what carries it; 0: not connected. */
uint64_t ripc__short_max(struct ripc *ctx, const struct ripc__dest *d, const char **transport);

/* ripc__check_call() for a fault in the arguments, which it explains. Return: as there. */
int ripc__check_call_slow(struct ripc_service *s, uint64_t dest, struct ripc **ctx);
/*
 * The checks before the lock of every call with a service and a destination. *ctx: the context of
 * s. Return: 0; -EINVAL, -ESHUTDOWN, -EOWNERDEAD, explained.
 */
static inline int ripc__check_call(struct ripc_service *s, uint64_t dest, struct ripc **ctx)
{
	*ctx = RIPC__LIKELY(s != NULL) ? ripc__service_owner(s) : NULL;
	/* The names of groups are no services either. */
	return RIPC__LIKELY(*ctx && ripc__is_owner(*ctx) && dest && !ripc__group_is_name(dest))
		       ? 0
		       : ripc__check_call_slow(s, dest, ctx);
}

/*
 * Calls fn until it returns another result than -EAGAIN, and waits on the destination in between.
 * Lock held. *timeout_ms becomes the time left. Return: the last result of fn, or -EAGAIN or
 * -ETIMEDOUT, explained.
 */
int ripc__retry_until(struct ripc_service *s, struct ripc__dest *d, int *timeout_ms,
		      int (*fn)(struct ripc__dest *, void *), void *arg);
/* Counts a short message that was sent. */
static inline void ripc__count_short(struct ripc_service *s, struct ripc__peer *p, uint64_t bytes)
{
	s->stats.short_sent++;
	s->stats.bytes_sent += bytes;
	p->stats.short_sent++;
	p->stats.bytes_sent += bytes;
}

/* Sends a RIPC_RELIABLE short message. Lock held, service entered, d pinned. */
int ripc__send_reliable(struct ripc_service *s, struct ripc__dest *d, const struct iovec *items,
			unsigned nitems, uint64_t bytes, unsigned flags, int *timeout_ms);

#endif
