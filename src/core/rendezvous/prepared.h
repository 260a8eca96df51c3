/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The items of a long message before its request exists. Two steps take time for each byte, and run
 * without the lock. Detached buffers are made exportable again, and items in memory that the peer
 * cannot map become mapped copies.
 *
 * A mapped copy: over shm the sender copies an item into a pool buffer that the peer has mapped.
 * That takes a third of the time of the receiver's copy by a system call.
 */
#ifndef RIPC_CORE_RENDEZVOUS_PREPARED_H
#define RIPC_CORE_RENDEZVOUS_PREPARED_H

#include "core/progress/context.h"

struct ripc__prepared {
	const struct iovec *items; /* the application's, or copies */
	unsigned nitems;
	uint64_t copied; /* bit i: item i is a mapped copy */
	struct iovec copies[RIPC_ITEMS_MAX];
};

/*
 * Prepares the items of a message to service dest, which ripc__request_start() takes over. Lock
 * held, and released meanwhile, so the caller is not in a pass; on return the service may be closed
 * and the peer lost. free_items: RIPC_FREE_ITEMS.
 */
void ripc__prepare(struct ripc *ctx, uint64_t dest, const struct iovec *items, unsigned nitems,
		   bool free_items, struct ripc__prepared *to);
/* Without preparation, in a pass: the items go as they are. */
static inline void ripc__prepared_as_given(const struct iovec *items, unsigned nitems,
					   struct ripc__prepared *to)
{
	to->items = items;
	to->nitems = nitems;
	to->copied = 0;
}
/* Frees the copies: no request took them over. */
void ripc__prepared_drop(struct ripc *ctx, const struct ripc__prepared *p);

#endif
