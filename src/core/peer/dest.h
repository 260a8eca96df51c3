/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Destinations: remote services that this context sends to. A destination is resolved to the peer
 * that holds its service.
 *
 *	UNKNOWN --look-up--> RESOLVING --record--> KNOWN --holder lost, gone--> FAILED
 *	   ^                     '------no answer--------------------------------^ |
 *	   '------------------------retry_ns is over-------------------------------'
 *
 * A message from the service makes an UNKNOWN or FAILED destination KNOWN, too. A record makes the
 * destination KNOWN in every state. If the holder is this context itself, the destination is
 * UNKNOWN until it is used. ripc__dest_set_state() asserts that a transition is in the table of
 * dest.c, and that the peer is set in KNOWN only.
 *
 * A server answers many clients, which are then idle. A destination that was learned from a message
 * is folded into the credit of its service on the lane (credit->holds) if the lane is idle, or if
 * nothing was sent to it for RIPC__IDLE_MS. ripc__dest_find() unfolds it.
 */
#ifndef RIPC_CORE_PEER_DEST_H
#define RIPC_CORE_PEER_DEST_H

#include "core/progress/context.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* credits of a context above which no further one is made to fold a destination */
#define RIPC__FOLDED_MAX         65536
#define RIPC__REMOTE_RETURNS_MAX 256 /* return buffers remembered per destination */

/* A return buffer that a peer offered: core/memory/remote_returns.h. */
struct ripc__remote_return {
	struct ripc__list link;  /* in dest->remote_returns, or in peer->lists->orphan_returns */
	struct ripc__lane *lane; /* lane of that message; NULL: there is none */
	struct ripc__desc desc;  /* addr, len, key; how: its id */
	uint64_t call;           /* its call whose answer alone may use it, or 0 */
	bool pooled;             /* from STANDING_GRANT: a pool buffer, not the application's */
	bool orphan;             /* its destination was removed: freed when the write ends */
	bool revoked;            /* REVOKE arrived: REVOKED is sent when the write ends */
};

enum ripc__dest_state {
	RIPC__DEST_UNKNOWN,   /* no look-up yet */
	RIPC__DEST_RESOLVING, /* look-up in progress */
	RIPC__DEST_KNOWN,     /* peer is set */
	RIPC__DEST_FAILED,    /* no answer, or the holder is unreachable: look-up at retry_ns */
	RIPC__DEST_STATES,
};

struct ripc__dest {
	UT_hash_handle hh;
	uint64_t id;                 /* the service */
	enum ripc__dest_state state; /* ripc__dest_set_state() */
	bool learned;                /* KNOWN from a message, and not looked up since */
	/* a send returned -EAGAIN: the next wake-up of waitq is reported as SENDABLE */
	bool wanted;
	/* a datagram found the transport's queue full: no event announces room; timers try again */
	bool no_room;
	bool reliable_refused;            /* reliable_peer has refused some since RELIABLE_BEGIN */
	uint8_t full_datagrams;           /* sent since datagram_context was begun */
	struct ripc__peer *peer;          /* KNOWN: its holder */
	struct ripc__list link;           /* in peer->lists->dests */
	struct ripc__list pending;        /* struct ripc_request: not yet on the lane, in order */
	struct ripc__list remote_returns; /* struct ripc__remote_return */
	unsigned nremote_returns;
	unsigned users;              /* threads in a call that waits for it */
	struct ripc__credit *credit; /* on the peer's present lane; NULL: none used yet */
	/* of short headers of datagrams on the peer's present lane; NULL: full headers */
	struct ripc__datagram_context *datagram_context;
	uint64_t retry_ns;   /* FAILED: time of the next look-up; 0: not planned */
	uint64_t used_ns;    /* last use, for ripc__sweep() */
	uint64_t contest_ns; /* core/call/callee.c: time of the next contest of its holder */
	/* look-ups and connections that failed since it was reached: ripc__dest_not_reached() */
	unsigned failures;
	char *why;                /* why it is unreachable, or NULL */
	struct ripc__waitq waitq; /* lane up, credit, failure */
	/* credit->limit_units when it found no credit; 0: it waits for something else */
	uint64_t wanted_limit_units;
	struct ripc__completion sendable;
	uint8_t holder[16]; /* instance id last resolved; zero: no holder */
	/*
	 * FAILED: first bytes of the instance id of a peer that does not hold it any more, or 0.
	 * The peer may still send messages from it for a while; later ones make it known again.
	 */
	uint64_t given_up_by, given_up_until_ns;
	/* core/reliable: messages that wait for a holder, until reliable_until_ns */
	struct ripc__list reliable_pending;
	uint64_t reliable_until_ns;
	unsigned reliable_unacked;        /* messages that reliable_peer has not acknowledged */
	struct ripc__peer *reliable_peer; /* NULL: there are none */
	/*
	 * core/rendezvous: long messages without ACK, which are no answers; all are at long_peer.
	 * NULL: it has refused one, or there are none.
	 */
	unsigned long_unacked;
	struct ripc__peer *long_peer;
	bool long_held;            /* those in pending wait until there are none */
	struct ripc__list watches; /* core/watch/watch.c: until the holder is connected */
};

void ripc__dest_set_state(struct ripc__dest *d, enum ripc__dest_state to);
/* The destination, created if needed. Return: NULL: out of memory. */
struct ripc__dest *ripc__dest_get(struct ripc *ctx, uint64_t id);
/* The destination, also if it was folded; or NULL. */
struct ripc__dest *ripc__dest_lookup(struct ripc *ctx, uint64_t id);
static inline struct ripc__dest *ripc__dest_find(struct ripc *ctx, uint64_t id)
{
	/* Most senders use the same service again. */
	if (RIPC__LIKELY(ctx->last_dest && ctx->last_dest->id == id))
		return ctx->last_dest;
	return ripc__dest_lookup(ctx, id);
}

/*
 * Resolves and connects as needed. Return: 0: a lane is up; -EAGAIN: in progress, or failed (see
 * state, why).
 */
int ripc__dest_reach(struct ripc *ctx, struct ripc__dest *d);

/* Resolves without connecting. Return: 0: its peer is known; -EAGAIN. */
int ripc__dest_locate(struct ripc *ctx, struct ripc__dest *d);

/* A message came from d, so p holds it. A record and a look-up of the resolver take precedence. */
void ripc__dest_learn(struct ripc *ctx, struct ripc__dest *d, struct ripc__peer *p);
/* Whether p was the last holder, and has given d up. */
bool ripc__dest_given_up(const struct ripc *ctx, const struct ripc__dest *d,
			 const struct ripc__peer *p);

/* Its holder does not hold it (any more): resolves again. */
void ripc__dest_invalidate(struct ripc *ctx, struct ripc__dest *d, const char *why);
/* The destination if p holds it, as far as is known; or NULL. */
struct ripc__dest *ripc__dest_at(struct ripc *ctx, uint64_t id, const struct ripc__peer *p);
/* p does not hold the service: ripc__dest_invalidate(), if that was assumed. */
void ripc__dest_refused(struct ripc *ctx, uint64_t id, const struct ripc__peer *p);

/* Sends pending requests as far as possible. */
void ripc__dest_flush(struct ripc *ctx, struct ripc__dest *d);

/* A call on d returned -EAGAIN: ripc_completion_next() reports when it should be repeated. */
void ripc__dest_want(struct ripc *ctx, struct ripc__dest *d);
/* Wakes the callers: what they wait for may be possible now, or has failed for good. */
void ripc__dest_wake_waiters(struct ripc *ctx, struct ripc__dest *d);
static inline void ripc__dest_wake(struct ripc *ctx, struct ripc__dest *d)
{
	if (d->wanted || !ripc__list_empty(&d->waitq.waiters))
		ripc__dest_wake_waiters(ctx, d);
}

/* Why its holder is not known. */
void ripc__dest_why(const struct ripc *ctx, const struct ripc__dest *d, char *text, size_t len);
/* Explains -EHOSTUNREACH. Return: -EHOSTUNREACH. */
int ripc__dest_unreachable(struct ripc *ctx, struct ripc__dest *d);
/*
 * The error of a call on a destination without a lane. Return: ripc__dest_unreachable(); -EAGAIN: a
 * call with timeout 0, and no look-up and no connection has failed since d was last reached.
 */
int ripc__dest_not_reached(struct ripc *ctx, struct ripc__dest *d, int timeout_ms);

/* Resolver events. */
void ripc__dest_resolved(struct ripc *ctx, const struct ripc__record *record);
void ripc__dest_unresolved(struct ripc *ctx, uint64_t id, const char *text);
void ripc__dest_withdrawn(struct ripc *ctx, uint64_t id, const uint8_t instance[16]);

/* Whether requests, threads or watches wait for it. */
bool ripc__dest_has_waiters(const struct ripc__dest *d);
/* The same, or the application has not yet received its SENDABLE: it is not freed. */
bool ripc__dest_in_use(const struct ripc__dest *d);
/* Looks it up again, without the cache; it stays KNOWN. */
void ripc__dest_refresh(struct ripc *ctx, struct ripc__dest *d);
/* Folds those of an idle peer, whose lane is up and which nothing waits for. */
void ripc__dests_fold(struct ripc *ctx, struct ripc__peer *p);
void ripc__dest_timers(struct ripc *ctx);
void ripc__dest_free(struct ripc *ctx, struct ripc__dest *d);
/*
 * Frees those without a lane and waiters that were unused for idle_ns. Folds those that nothing was
 * sent to.
 */
void ripc__dest_sweep(struct ripc *ctx, uint64_t idle_ns);
void ripc__dests_free(struct ripc *ctx);

#endif
