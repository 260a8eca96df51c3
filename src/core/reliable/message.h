/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The copy of a reliable short message, which its sender keeps until the peer acknowledges it. The
 * memory of most is reused. Lock held in every function.
 */
#ifndef RIPC_CORE_RELIABLE_MESSAGE_H
#define RIPC_CORE_RELIABLE_MESSAGE_H

#include "core/progress/context.h"
#include "wire/header.h"

#include <stdlib.h>

struct ripc__reliable_owner;

struct ripc__reliable_msg {
	struct ripc__list link; /* in the peer's unacked or in dest->reliable_pending */
	struct ripc__reliable_owner *owner;
	struct ripc__dest *dest; /* pinned while the message is in a list */
	uint64_t order;          /* of the messages to one destination */
	uint64_t number;         /* at the peer; 0: not posted, or not delivered there */
	uint64_t source;
	struct ripc__call_words call; /* undefined without RIPC__F_CALL and RIPC__F_REPLY */
	uint32_t len;                 /* bytes of the message as SHORT with its full header */
	uint16_t flags;
	uint16_t nitems;
	uint8_t bytes[]; /* the lengths of the items, u32 each, unless there is one; the items */
};

/*
 * The memory of copies is kept for reuse, by length: room bytes, max copies. malloc() and free() of
 * a longer copy take longer than the copy itself.
 */
static const struct {
	uint32_t room;
	uint32_t max;
} ripc__reliable_classes[RIPC__RELIABLE_FREE_LISTS] = {{256, 2048}, {1280, 256}, {4352, 64}};

/* The list of memory for copies of this length; RIPC__RELIABLE_FREE_LISTS: none. */
static inline unsigned ripc__reliable_class(size_t len)
{
	unsigned i = 0;

	if (RIPC__LIKELY(len <= ripc__reliable_classes[0].room))
		return 0;
	while (i < RIPC__RELIABLE_FREE_LISTS && len > ripc__reliable_classes[i].room)
		i++;
	return i;
}

static inline void ripc__reliable_keep(struct ripc__reliable_free *list,
				       struct ripc__reliable_msg *m)
{
	m->owner = (struct ripc__reliable_owner *)(void *)list->first;
	list->first = m;
	list->count++;
}

static inline void ripc__reliable_free(struct ripc *ctx, struct ripc__reliable_msg *m)
{
	unsigned class = ripc__reliable_class(m->len);
	struct ripc__reliable_free *list = &ctx->reliable_free[class];

	if (class == RIPC__RELIABLE_FREE_LISTS ||
	    list->count >= ripc__reliable_classes[class].max) {
		free(m);
		return;
	}
	ripc__reliable_keep(list, m);
}

/* Puts memory for one copy of this length into its list. Return: false: none, or out of memory. */
bool ripc__reliable_refill(struct ripc *ctx, size_t len);
/* Whether there is memory for the next copy of this length. */
static inline bool ripc__reliable_reserve(struct ripc *ctx, size_t len)
{
	unsigned class = ripc__reliable_class(len);

	return RIPC__LIKELY(class < RIPC__RELIABLE_FREE_LISTS && ctx->reliable_free[class].first) ||
	       ripc__reliable_refill(ctx, len);
}
/* The one that ripc__reliable_reserve() has found. len: of a list. */
static inline struct ripc__reliable_msg *ripc__reliable_take(struct ripc *ctx, size_t len)
{
	struct ripc__reliable_free *list = &ctx->reliable_free[ripc__reliable_class(len)];
	struct ripc__reliable_msg *m = list->first;

	list->first = (struct ripc__reliable_msg *)(void *)m->owner;
	list->count--;
	m->order = ctx->requests_started++;
	m->len = (uint32_t)len;
	return m;
}

/*
 * Builds a message without a destination. call: with RIPC__F_CALL or RIPC__F_REPLY in flags; else
 * NULL. Return: NULL: out of memory.
 */
struct ripc__reliable_msg *ripc__reliable_new(struct ripc *ctx, unsigned flags, uint64_t source,
					      const struct ripc__call_words *call,
					      const struct iovec *items, unsigned nitems);
/* Frees the memory that is kept for reuse. */
void ripc__reliable_memory_free(struct ripc *ctx);

#endif
