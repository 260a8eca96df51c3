/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The copy of a reliable short message, which its sender keeps until the peer acknowledges it. The
 * memory of small ones is reused. Lock held in every function.
 */
#ifndef RIPC_CORE_RELIABLE_MESSAGE_H
#define RIPC_CORE_RELIABLE_MESSAGE_H

#include "core/progress/context.h"
#include "wire/header.h"

#include <stdlib.h>

#define RIPC__RELIABLE_SMALL_LEN 256 /* bytes of a small one */

struct ripc__reliable_owner;

/* A message and its copy. */
struct ripc__reliable_msg {
	struct ripc__list link; /* in the peer's unacked or in dest->reliable_pending */
	struct ripc__reliable_owner *owner;
	struct ripc__dest *dest; /* pinned while the message is in a list */
	uint64_t order;          /* of the messages to one destination */
	uint64_t number;         /* at the peer; 0: not posted, or not delivered there */
	uint32_t len;            /* bytes of the message */
	uint8_t bytes[];         /* the message as SHORT */
};

/* An empty one for a message of len bytes. Return: NULL: out of memory. */
static inline struct ripc__reliable_msg *ripc__reliable_alloc(struct ripc *ctx, size_t len)
{
	struct ripc__reliable_msg *m = ctx->reliable_free;

	if (RIPC__LIKELY(len <= RIPC__RELIABLE_SMALL_LEN && m)) {
		ctx->reliable_free = (struct ripc__reliable_msg *)(void *)m->owner;
		ctx->reliable_nfree--;
	} else {
		m = malloc(sizeof(*m) +
			   (len < RIPC__RELIABLE_SMALL_LEN ? RIPC__RELIABLE_SMALL_LEN : len));
		if (!m)
			return NULL;
		ripc__list_init(&m->link);
	}
	m->order = ctx->requests_started++;
	m->len = (uint32_t)len;
	return m;
}

/*
 * Builds a message. call: with RIPC__F_CALL or RIPC__F_REPLY in flags; else NULL. Return: NULL: out
 * of memory.
 */
struct ripc__reliable_msg *ripc__reliable_new(struct ripc *ctx, unsigned flags, uint64_t dest,
					      uint64_t source, const struct ripc__call_words *call,
					      const struct iovec *items, unsigned nitems);
void ripc__reliable_free(struct ripc *ctx, struct ripc__reliable_msg *m);
/* ripc_close(): frees the memory that is kept. */
void ripc__reliable_memory_free(struct ripc *ctx);

#endif
