/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A received message: its items and what it holds. core/memory/message.h allocates and releases it.
 */
#ifndef RIPC_CORE_SERVICE_MESSAGE_H
#define RIPC_CORE_SERVICE_MESSAGE_H

#include "core/progress/context.h"

#define RIPC__MESSAGE_INLINE  4    /* items described inside the struct */
#define RIPC__MESSAGE_BUF_LEN 224  /* bytes of a small message that can lie in the struct itself */
#define RIPC__MESSAGE_BUF_PAD \
	12 /* before them, so that behind the head of a plain message its payload is aligned */

/*
 * What comes first is all that a small message needs. One that is new, or free again, has all
 * marked "clean" as it says there: what sets it otherwise is undone by ripc__message_release().
 */
struct ripc__message {
	/* first: the application's pointer is ours. Clean: is_long, group 0 */
	struct ripc_message pub;
	struct iovec iov[RIPC__MESSAGE_INLINE];
	struct ripc__message *next; /* in a service's queue or in the cache */
	/* in ctx->messages, once the application has it; clean: in no list */
	struct ripc__list held;
	struct ripc *ctx;
	uint32_t units; /* of the flow's credit */
	uint32_t bytes; /* payload of a short message */
	uint8_t placement[RIPC__MESSAGE_INLINE];
	uint8_t tp;              /* token is of this transport */
	/* whose credit it holds until it is received; clean: NULL, nobody's */
	struct ripc__flow *flow;
	void *token;             /* receive buffer of the transport; clean: NULL */
	void *heap;              /* copy of the payload; clean: NULL */
	void *arrays;            /* items, placement and regions when there are more; clean: NULL */
	uint8_t buf[RIPC__MESSAGE_BUF_PAD + RIPC__MESSAGE_BUF_LEN] __attribute__((aligned(16)));
	/* lane that gets the token's credit back; clean: NULL: none, or it is gone */
	struct ripc__lane *lane;
	uint64_t long_bytes;        /* payload of a long message; clean: 0 */
	struct ripc__region **pool; /* regions, or an array of its own */
	/* pool buffers of the items, NULL: elsewhere */
	struct ripc__region *regions[RIPC__MESSAGE_INLINE];
};

/* Where a message may be received into, RIPC__MESSAGE_BUF_LEN bytes. */
static inline uint8_t *ripc__message_buf(struct ripc__message *m)
{
	return m->buf + RIPC__MESSAGE_BUF_PAD;
}

#endif
