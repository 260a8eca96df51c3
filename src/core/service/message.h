/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A received message: its items and what it holds. core/memory/message.h allocates and releases it.
 */
#ifndef RIPC_CORE_SERVICE_MESSAGE_H
#define RIPC_CORE_SERVICE_MESSAGE_H

#include "core/progress/context.h"

#include <assert.h>

#define RIPC__MESSAGE_INLINE  4   /* items described inside the struct */
#define RIPC__MESSAGE_BUF_LEN 224 /* bytes of a small message that fit into the struct */
#define RIPC__MESSAGE_BUF_PAD 12  /* bytes before them: they align the payload behind a header */

/*
 * The part of a message in a call. A request:
 *
 *   ARRIVING --complete--> QUEUED --received--> TAKEN --answered--> ANSWERED
 *
 * A request that the application receives at once is not QUEUED. If there is no memory for the
 * answer, the request is TAKEN again. A message that is released is NONE.
 * ripc__message_set_role() asserts that a transition is in the table of core/memory/message.c.
 */
enum ripc__call_role {
	RIPC__CALL_NONE,
	RIPC__CALL_REPLY,
	RIPC__CALL_REQUEST_ARRIVING,
	RIPC__CALL_REQUEST_QUEUED,
	RIPC__CALL_REQUEST_TAKEN,
	RIPC__CALL_REQUEST_ANSWERED,
	RIPC__CALL_ROLES,
};

/*
 * The first members are all that a small message uses. A new or freed struct has the values marked
 * "clean"; ripc__message_release() restores them.
 */
struct ripc__message {
	struct ripc_message
		pub; /* first: the application's pointer. Clean: is_long, group, event 0 */
	struct iovec iov[RIPC__MESSAGE_INLINE];
	struct ripc__message *next; /* in the queue of a service, the cache, or the small ones */
	/*
	 * in ctx->messages while the application holds it, unless it is small; before, in
	 * ctx->memory->unread if items lie in windows or return buffers; clean: in no list
	 */
	struct ripc__list held;
	struct ripc *ctx;
	uint32_t units; /* of the flow's credit */
	uint32_t bytes; /* payload of a short message */
	uint8_t placement[RIPC__MESSAGE_INLINE];
	uint8_t tp;        /* index of the token's transport */
	bool small;        /* held by the application, see core/memory/message.h; clean: false */
	atomic_bool freed; /* small: the application has freed it; clean: false */
	uint8_t call_role; /* enum ripc__call_role, by ripc__message_set_role(); clean: NONE */
	/* flow whose credit it holds until it is received; clean: NULL */
	struct ripc__flow *flow;
	void *token;  /* receive buffer of the transport; clean: NULL */
	void *heap;   /* copy of the payload; clean: NULL */
	void *arrays; /* items, placement and regions if they do not fit; clean: NULL */
	uint8_t buf[RIPC__MESSAGE_BUF_PAD + RIPC__MESSAGE_BUF_LEN] __attribute__((aligned(16)));
	/* lane to which the token's credit returns; clean: NULL: none, or it is closed */
	struct ripc__lane *lane;
	uint64_t long_bytes;        /* payload of a long message; clean: 0 */
	struct ripc__region **pool; /* regions, or the part of arrays */
	/* pool buffers of the items; NULL: the item is elsewhere */
	struct ripc__region *regions[RIPC__MESSAGE_INLINE];
	/* of a call: core/call/call.h. Clean: undefined */
	bool call_cancelled;
	uint32_t call_word; /* request: milliseconds left; answer: status */
	uint64_t call;      /* id */
	uint64_t call_deadline_ns;
	struct ripc__peer *call_peer; /* its sender; of a request: NULL: answered, or it is gone */
	struct ripc__list served;     /* request: in call_peer->lists->served */
};

/* The roles that may follow each role (core/memory/message.c). */
extern const unsigned ripc__call_next_roles[RIPC__CALL_ROLES];

static inline void ripc__message_set_role(struct ripc__message *m, enum ripc__call_role to)
{
	assert(ripc__call_next_roles[m->call_role] & 1u << to);
	m->call_role = (uint8_t)to;
}

static inline bool ripc__message_is_request(const struct ripc__message *m)
{
	return m->call_role >= RIPC__CALL_REQUEST_ARRIVING;
}

/* Whether it is a request without an answer. */
static inline bool ripc__message_is_unanswered(const struct ripc__message *m)
{
	return ripc__message_is_request(m) && m->call_role != RIPC__CALL_REQUEST_ANSWERED;
}

/* Whether the item lies in a window or return buffer, which the message does not own. */
static inline bool ripc__message_in_app_memory(const struct ripc__message *m, unsigned item)
{
	return m->pub.placement[item] == RIPC_IN_WINDOW ||
	       m->pub.placement[item] == RIPC_IN_RETURN_BUFFER;
}

/* Room for RIPC__MESSAGE_BUF_LEN bytes of a message. */
static inline uint8_t *ripc__message_buf(struct ripc__message *m)
{
	return m->buf + RIPC__MESSAGE_BUF_PAD;
}

#endif
