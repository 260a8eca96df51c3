/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The structs of received messages, and the release of what they hold. Lock held. */
#ifndef RIPC_CORE_MEMORY_MESSAGE_H
#define RIPC_CORE_MEMORY_MESSAGE_H

#include "core/service/message.h"

#define RIPC__MESSAGE_CACHE 4096 /* structs kept for reuse at most */

/* A message with room for nitems; NULL: out of memory. */
struct ripc__message *ripc__message_new(struct ripc *ctx, unsigned nitems);

/* The next message of the cache, which stays there; NULL: out of memory. */
struct ripc__message *ripc__message_cache_fill(struct ripc *ctx);
static inline struct ripc__message *ripc__message_cache_peek(struct ripc *ctx)
{
	struct ripc__message *m = ctx->message_cache;

	return RIPC__LIKELY(m != NULL) ? m : ripc__message_cache_fill(ctx);
}

/* Takes it out of the cache, which is not empty. It is clean, but for its items. */
static inline struct ripc__message *ripc__message_cache_pop(struct ripc *ctx)
{
	struct ripc__message *m = ctx->message_cache;

	ctx->message_cache = m->next;
	ctx->message_cached--;
	return m;
}

/* Makes it the request or the answer of call id, from a message of p. */
static inline void ripc__message_set_call(struct ripc__message *m, enum ripc__call_kind kind,
					  uint64_t id, uint32_t word, struct ripc__peer *p)
{
	m->call_kind = (uint8_t)kind;
	m->call = id;
	m->call_word = word;
	m->call_cancelled = m->call_answered = false;
	m->call_peer = p;
	/* A request is in p->served when it has arrived in full. */
	ripc__list_init(&m->served);
}

/* Gives back its buffers and itself. */
void ripc__message_release(struct ripc__message *m);

/* Gives its credit back to its sender: the application has taken it, or never will. */
void ripc__message_return_credit(struct ripc__message *m);

/* The lane is closed: messages keep what they hold, but return nothing over the lane. */
void ripc__messages_lane_closed(struct ripc__lane *lane);

#endif
