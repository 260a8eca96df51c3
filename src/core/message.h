/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A received message: where its items lie and what is given back when it is freed. */
#ifndef RIPC_CORE_MESSAGE_H
#define RIPC_CORE_MESSAGE_H

#include "core/context.h"

#define RIPC__MESSAGE_INLINE 4    /* items described inside the struct */
#define RIPC__MESSAGE_CACHE  4096 /* structs kept for reuse at most */

struct ripc__message {
	struct ripc_message pub; /* first: the application's pointer is ours */
	struct ripc *ctx;
	struct ripc__message *next; /* in a service's queue or in the cache */
	struct ripc__list held;     /* in ctx->messages, once the application has it */
	struct ripc__flow *flow;    /* whose credit it holds until it is received; NULL: nobody's */
	uint32_t units;             /* of that credit */
	uint32_t bytes;             /* payload of a short message */
	uint64_t long_bytes;        /* payload of a long message */
	void *token;                /* receive buffer of the transport, or NULL */
	uint8_t tp;                 /* of this transport */
	struct ripc__lane *lane; /* lane that gets the buffer's credit back; NULL: none, or it is gone */
	void *heap;              /* copy of the payload, or NULL */
	struct ripc__region *regions[RIPC__MESSAGE_INLINE]; /* pool buffers of the items, NULL: elsewhere */
	struct ripc__region **pool;                         /* regions, or an array of its own */
	struct iovec iov[RIPC__MESSAGE_INLINE];
	uint8_t placement[RIPC__MESSAGE_INLINE];
	void *arrays; /* items, placement and regions when there are more; or NULL */
};

/* A message with room for nitems; NULL: out of memory. */
struct ripc__message *ripc__message_new(struct ripc *ctx, unsigned nitems);

/* Gives back its buffers and itself. */
void ripc__message_drop(struct ripc__message *m);

/* Gives its credit back to its sender: the application has taken it, or never will. */
void ripc__message_credit(struct ripc__message *m);

#endif
