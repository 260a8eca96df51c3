/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The structs of received messages, and the release of what they hold. Lock held. */
#ifndef RIPC_CORE_MEMORY_MESSAGE_H
#define RIPC_CORE_MEMORY_MESSAGE_H

#include "core/service/message.h"

#include <stdlib.h>
#include <sys/cdefs.h>

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

/* Puts a clean one back. */
static inline void ripc__message_cache_put(struct ripc *ctx, struct ripc__message *m)
{
	if (RIPC__UNLIKELY(ctx->message_cached >= RIPC__MESSAGE_CACHE)) {
		free(m);
		return;
	}
	m->next = ctx->message_cache;
	ctx->message_cache = m;
	ctx->message_cached++;
}

/* Makes it the request or the answer of call id, from a message of p. */
static inline void ripc__message_set_call(struct ripc__message *m, enum ripc__call_role role,
					  uint64_t id, uint32_t word, struct ripc__peer *p)
{
	ripc__message_set_role(m, role);
	m->call = id;
	m->call_word = word;
	m->call_cancelled = false;
	m->call_peer = p;
	/* A request is in p->lists->served when it has arrived in full. */
	ripc__list_init(&m->served);
}

/* Gives back its buffers and itself. */
void ripc__message_release(struct ripc__message *m);

/*
 * Small messages hold nothing but their struct. The application frees them without the lock, unless
 * they are requests without an answer: its thread marks the struct as freed, and the receipt of a
 * later small message takes it back. Each receipt looks at the two oldest ones; the first one that
 * is still in use becomes the newest. So there are about twice as many as are in use, and their
 * number shrinks after a burst.
 */
static inline void ripc__small_add(struct ripc *ctx, struct ripc__message *m)
{
	m->next = NULL;
	if (ctx->small_first)
		ctx->small_last->next = m;
	else
		ctx->small_first = m;
	ctx->small_last = m;
}

/* The oldest small message, which was freed: takes it from the application. It is clean. */
static inline void ripc__small_take(struct ripc *ctx, struct ripc__message *m)
{
	ctx->small_first = m->next;
	m->small = false;
	ripc__message_set_role(m, RIPC__CALL_NONE);
	m->pub.call = 0;
	atomic_store_explicit(&m->freed, false, memory_order_relaxed);
}

static inline void ripc__small_reclaim(struct ripc *ctx)
{
	struct ripc__message *m;

	for (unsigned i = 0; i < 2 && (m = ctx->small_first); i++) {
		if (!atomic_load_explicit(&m->freed, memory_order_acquire)) {
			ctx->small_first = m->next;
			ripc__small_add(ctx, m);
			return;
		}
		ripc__small_take(ctx, m);
		ripc__message_cache_put(ctx, m);
	}
}

/*
 * A message to receive into, which stays in its list: the oldest small one if it was freed, since
 * its memory is likely in the processor's cache; else one of message_cache. NULL: out of memory.
 */
static inline struct ripc__message *ripc__message_room(struct ripc *ctx)
{
	struct ripc__message *m = ctx->small_first;

	return RIPC__LIKELY(m && atomic_load_explicit(&m->freed, memory_order_acquire))
		       ? m
		       : ripc__message_cache_peek(ctx);
}

/* Takes the message that ripc__message_room() has returned. It is clean, but for its items. */
static __always_inline void ripc__message_room_take(struct ripc *ctx, struct ripc__message *m)
{
	if (RIPC__LIKELY(m == ctx->small_first))
		ripc__small_take(ctx, m);
	else
		ripc__message_cache_pop(ctx);
}

/* Gives the application a small message. */
static inline void ripc__message_hand_out_small(struct ripc *ctx, struct ripc__message *m)
{
	ripc__small_reclaim(ctx);
	m->small = true;
	ripc__small_add(ctx, m);
}

/* Whether it holds nothing but its struct. */
static inline bool ripc__message_is_small(const struct ripc__message *m)
{
	return !((uintptr_t)m->flow | (uintptr_t)m->token | (uintptr_t)m->heap |
		 (uintptr_t)m->arrays | m->pub.is_long | m->pub.group | m->pub.event);
}

/*
 * The application gets a long message: the windows and return buffers that its items have used up
 * are the application's again.
 */
void ripc__message_return_memory(struct ripc__message *m);
/* Gives the application a message that holds more than its struct. */
void ripc__message_hand_out_large(struct ripc *ctx, struct ripc__message *m);

/* Gives the application a message. */
static inline void ripc__message_hand_out(struct ripc *ctx, struct ripc__message *m)
{
	if (RIPC__LIKELY(ripc__message_is_small(m)))
		ripc__message_hand_out_small(ctx, m);
	else
		ripc__message_hand_out_large(ctx, m);
}

/* Releases the memory of one item of a long message, if the message owns it. */
void ripc__message_release_item(struct ripc__message *m, unsigned item);

/* Gives its credit back to its sender: the application has taken it, or never will. */
void ripc__message_return_credit(struct ripc__message *m);

/* The lane is closed: messages keep what they hold, but return nothing over the lane. */
void ripc__messages_lane_closed(struct ripc__lane *lane);

#endif
