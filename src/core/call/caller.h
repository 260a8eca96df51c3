/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The caller's side of a call, private to caller.c (requests and events), result.c (its end) and
 * table.c (ids). Lock held.
 */
#ifndef RIPC_CORE_CALL_CALLER_H
#define RIPC_CORE_CALL_CALLER_H

#include "core/call/call.h"
#include "core/peer/peer.h"

#include <assert.h>

/* Time that a cancelled call waits for the state of its request, and for its reply buffers. */
#define RIPC__CALL_CANCEL_NS (100 * RIPC__MS)

enum ripc__call_step {
	RIPC__CALL_IS_WAITING,
	RIPC__CALL_IS_SENT,
	RIPC__CALL_IS_CANCELLING,
	/* The call has its result, but a peer may still write the reply buffers. */
	RIPC__CALL_IS_WITHDRAWING,
	RIPC__CALL_IS_DONE, /* the application does not have its result yet */
	RIPC__CALL_IS_FREE,
	RIPC__CALL_STEPS,
};

/*
 * A call keeps its memory, its handle and its slot until the context ends, and serves one request
 * after the other. While it is free, the members marked with "free" have these values, and others
 * are undefined.
 */
struct ripc__call {
	struct ripc *ctx;
	struct ripc_request *handle; /* handle of the application; free: of no context */
	struct ripc__call *next_free;
	uint64_t id; /* free: of an earlier call, or the slot alone */
	uint64_t dest;
	uint64_t deadline_ns;
	enum ripc__call_step state; /* ripc__call_set_state() */
	/*
	 * CANCELLING: the result of a call that was not executed: -ECANCELED: the application gave
	 * it up; -ESHUTDOWN: its service ended; 0: its deadline has passed. free: 0
	 */
	int abort_status;
	bool idempotent; /* it may be executed more than once */
	bool repeated;   /* a lost holder may have executed it; free: false */
	bool listed;     /* m is in a list of core/reliable */
	/* the word of a state that came while rndv was under way; else 0. free: 0 */
	uint8_t early_state;
	/* has the request, or may have it; counted in peer->calls; free: NULL */
	struct ripc__peer *peer;
	struct ripc__reliable_msg *m; /* short request, or NULL; free: NULL */
	struct ripc_request *rndv;    /* long request under way, or NULL; free: NULL */
	struct ripc__message *reply;  /* free: NULL */
	int reply_status;
	uint32_t left_ms; /* until the first try to send ends: time left; then 0 */
	struct ripc__long_request *long_req; /* NULL: m is the request; free: NULL */
	/* Last: most calls do not read it, and need two cache lines. */
	struct ripc__reliable_owner owner; /* of the short request; free: the same */
};

/* The arguments of a long request, which may be sent again. */
struct ripc__long_request {
	struct ripc_send_options options;
	struct iovec buffers[RIPC_RETURN_BUFFERS_MAX];
	int status; /* RIPC__CALL_IS_WITHDRAWING: the result */
	char *why;
	uint64_t bytes;
	unsigned nitems;
	struct iovec items[];
};

/* The states that may follow each state (table.c). */
extern const unsigned ripc__call_next_states[RIPC__CALL_STEPS];

static inline void ripc__call_set_state(struct ripc__call *call, enum ripc__call_step to)
{
	assert(ripc__call_next_states[call->state] & 1u << to);
	call->state = to;
}

/* ---- table.c ---- */

/*
 * An id has the index of the call's slot in its low bits, and above it an odd number that starts
 * with bits of the instance id and grows with each call. So no id is 0, and none is used twice in
 * 2^43 calls. An answer to a former holder of the calling service's id matches no call of the next
 * one.
 */
#define RIPC__CALL_SLOT_BITS 20
#define RIPC__CALL_SLOT_MASK ((1u << RIPC__CALL_SLOT_BITS) - 1)
/* Slots of a group. The timers check the calls of the groups that are due. */
#define RIPC__CALL_GROUP 64

/* The owner of all short requests (caller.c). */
extern const struct ripc__reliable_owner ripc__call_owner;

/* A call in the next slot. Return: NULL: out of memory, or there are too many. */
struct ripc__call *ripc__call_new(struct ripc *ctx);

/* A call with a new id; NULL: as ripc__call_new(). It is FREE until the caller changes that. */
static inline struct ripc__call *ripc__call_alloc(struct ripc *ctx)
{
	struct ripc__call *call = ctx->call_free;

	if (RIPC__LIKELY(call != NULL))
		ctx->call_free = call->next_free;
	else if (!(call = ripc__call_new(ctx)))
		return NULL;
	call->id = ctx->call_number << RIPC__CALL_SLOT_BITS | (call->id & RIPC__CALL_SLOT_MASK);
	ctx->call_number += 2;
	return call;
}

/* Frees what only a long or failed call has. */
void ripc__call_free_memory(struct ripc__call *call);
/* The call is free from now on, and its members have the values of a free one. */
static inline void ripc__call_release(struct ripc__call *call)
{
	struct ripc_request *r = call->handle;

	if (RIPC__UNLIKELY(call->long_req || r->detail))
		ripc__call_free_memory(call);
	ripc__completion_remove(call->ctx, &r->completion);
	__atomic_store_n(&r->ctx, NULL, __ATOMIC_RELAXED);
	r->published = call->repeated = false;
	call->abort_status = 0;
	call->early_state = 0;
	ripc__call_set_state(call, RIPC__CALL_IS_FREE);
	call->next_free = call->ctx->call_free;
	call->ctx->call_free = call;
}

/* The timers check the call at this time, or before. */
static inline void ripc__call_due(const struct ripc__call *call, uint64_t at_ns)
{
	struct ripc *ctx = call->ctx;
	uint64_t *group_ns =
		&ctx->call_groups_ns[(call->id & RIPC__CALL_SLOT_MASK) / RIPC__CALL_GROUP];

	if (at_ns >= *group_ns)
		return;
	*group_ns = at_ns;
	if (at_ns < ctx->calls_next_ns) {
		ctx->calls_next_ns = at_ns;
		ripc__timer_at(ctx, at_ns);
	}
}

static inline void ripc__call_set_deadline(struct ripc__call *call, uint64_t deadline_ns)
{
	call->deadline_ns = deadline_ns;
	ripc__call_due(call, deadline_ns);
}

/* The last call of this slot, if it has this id; or NULL. */
static inline struct ripc__call *ripc__call_at(const struct ripc *ctx, uint64_t id)
{
	uint64_t slot = id & RIPC__CALL_SLOT_MASK;
	struct ripc__call *call = slot < ctx->call_slots ? ctx->call_table[slot] : NULL;

	return call && call->id == id ? call : NULL;
}

/* A call that has no result yet; NULL: there is none with this id. */
static inline struct ripc__call *ripc__call_find(struct ripc *ctx, uint64_t id)
{
	struct ripc__call *call = ripc__call_at(ctx, id);

	return call && call->state < RIPC__CALL_IS_WITHDRAWING ? call : NULL;
}

/*
 * The next call that is not done, from a slot on; NULL: there is none. Between two steps of a loop
 * any call may end, for example when its lane is closed.
 */
static inline struct ripc__call *ripc__call_next(struct ripc *ctx, uint32_t *slot)
{
	while (*slot < ctx->call_slots) {
		struct ripc__call *call = ctx->call_table[(*slot)++];

		if (call->state < RIPC__CALL_IS_DONE)
			return call;
	}
	return NULL;
}

/* ---- result.c ---- */

static inline void ripc__call_set_peer(struct ripc__call *call, struct ripc__peer *p)
{
	if (call->peer)
		call->peer->calls--;
	call->peer = p;
	if (p)
		p->calls++;
}
/* Defers the release of a long request that has ended: functions on the stack still use it. */
void ripc__call_free_later(struct ripc_request *r);
/* Whether the call has reply buffers. */
bool ripc__call_has_buffers(const struct ripc__call *call);
/*
 * Ends a call that waits for its reply buffers, if they were returned. force: closes the lanes over
 * which a peer could still write them.
 */
void ripc__call_end_withdrawn(struct ripc__call *call, bool force);

#endif
