/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The caller's side of a call, private to caller.c (requests and events), result.c (its end) and
 * table.c (ids). Lock held.
 */
#ifndef RIPC_CORE_CALL_CALLER_H
#define RIPC_CORE_CALL_CALLER_H

#include "core/call/call.h"
#include "core/peer/peer.h"

/* Time that a cancelled call waits for the state of its request, and for its reply buffers. */
#define RIPC__CALL_CANCEL_NS (100 * RIPC__MS)

enum ripc__call_step {
	RIPC__CALL_IS_WAITING,
	RIPC__CALL_IS_SENT,
	RIPC__CALL_IS_CANCELLING,
	/* It has a result without an answer. Its peer may still write the reply buffers. */
	RIPC__CALL_IS_WITHDRAWING,
	RIPC__CALL_IS_DONE
};

struct ripc__call {
	struct ripc__reliable_owner owner; /* of the short request */
	struct ripc__list link;            /* in ctx->calls until it is done */
	uint64_t id;
	struct ripc *ctx;
	struct ripc_request *handle; /* handle of the application */
	uint64_t dest;
	uint64_t deadline_ns;
	enum ripc__call_step state;
	bool aborted;                 /* CANCELLING: by the application, not by its deadline */
	bool idempotent;              /* it may be executed more than once */
	bool repeated;                /* a lost holder may have executed it */
	bool listed;                  /* m is in a list of core/reliable */
	struct ripc__peer *peer;      /* has the request, or may have it; counted in peer->calls */
	struct ripc__reliable_msg *m; /* short request, or NULL */
	struct ripc_request *rndv;    /* long request under way, or NULL */
	struct ripc__message *reply;
	int reply_status;
	uint32_t left_ms; /* until the first try to send ends: time left; then 0 */
	struct ripc__long_request *long_req; /* NULL: m is the request */
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

/* ---- table.c ---- */

/* An id for a call; 0: out of memory. ripc__call_add() or ripc__call_id_put() follows. */
uint64_t ripc__call_id_get(struct ripc *ctx);
void ripc__call_id_put(struct ripc *ctx, uint64_t id);
/* Makes it one of the context's. It has its id. */
void ripc__call_add(struct ripc *ctx, struct ripc__call *call);
/* Its id ends, too. */
void ripc__call_remove(struct ripc *ctx, struct ripc__call *call);

/*
 * An id has the index of a slot in its low bits, and above it a number that starts at
 * ripc__seq_begin() and grows with each call. So no id is used twice.
 */
#define RIPC__CALL_SLOT_BITS 20

/* A call that has no result yet; NULL: there is none with this id. */
static inline struct ripc__call *ripc__call_find(struct ripc *ctx, uint64_t id)
{
	uint64_t slot = id & ((1u << RIPC__CALL_SLOT_BITS) - 1);
	struct ripc__call *call = slot < ctx->call_slots ? ctx->call_table[slot] : NULL;

	return call && call->id == id && call->state < RIPC__CALL_IS_WITHDRAWING ? call : NULL;
}

/*
 * A loop over ctx->calls. The end of a call may end any other one, for example when its lane is
 * closed; the loop goes on behind it.
 */
struct ripc__call_loop {
	struct ripc__list *next;
	struct ripc__call_loop *outer;
};

void ripc__call_loop_begin(struct ripc *ctx, struct ripc__call_loop *loop);
/* The next call; NULL: the loop is over. */
struct ripc__call *ripc__call_loop_next(struct ripc *ctx, struct ripc__call_loop *loop);

/* ---- result.c ---- */

static inline void ripc__call_set_peer(struct ripc__call *call, struct ripc__peer *p)
{
	if (call->peer)
		call->peer->calls--;
	call->peer = p;
	if (p)
		p->calls++;
}
/* Defers the release of a long request that has ended: its callers still use it. */
void ripc__call_free_later(struct ripc_request *r);
/* Whether it has reply buffers. */
bool ripc__call_has_buffers(const struct ripc__call *call);
/* Ends a call that waits for its reply buffers, if it has them. force: closes lanes for them. */
void ripc__call_end_withdrawn(struct ripc__call *call, bool force);

#endif
