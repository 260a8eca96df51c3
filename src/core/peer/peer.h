/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Peers (other contexts) and destinations (services of theirs that we send to).
 *
 * A destination is resolved to a peer; a peer is reached over at most one lane at a time. Both live while somebody uses
 * them and are swept when idle: ripc__sweep().
 */
#ifndef RIPC_CORE_PEER_PEER_H
#define RIPC_CORE_PEER_PEER_H

#include "core/context/context.h"
#include "core/peer/replay.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define RIPC__REQUESTS_MAX       1024 /* long messages to one peer whose end is not known, at most */
#define RIPC__REMOTE_RETURNS_MAX 256  /* return buffers of one destination that we remember */
#define RIPC__PEERS_MAX          65536
#define RIPC__UNSOLICITED_PEERS_MAX \
	(RIPC__PEERS_MAX / 8 * 7) /* peers that nobody here asked for; the rest is a reserve */
#define RIPC__IDLE_MS 30000       /* after which what nobody uses is forgotten */

#define RIPC__DATAGRAM_WINDOW 64 /* numbers back to which it is known which datagrams came */

/* A return buffer that a peer offered to us. */
struct ripc__remote_return {
	struct ripc__list link;
	struct ripc__desc desc; /* addr, len, key; how: its id */
	bool writing;           /* a request of ours writes into it */
	bool orphan;  /* its destination has forgotten it: freed when the writing is over */
	bool revoked; /* the peer wants it back: REVOKED is sent when the writing is over */
};

enum ripc__dest_state {
	RIPC__DEST_UNKNOWN,   /* nobody has asked yet */
	RIPC__DEST_RESOLVING, /* the resolver is asked */
	RIPC__DEST_KNOWN,     /* peer is set */
	RIPC__DEST_FAILED, /* nobody answered, or its holder is unreachable: asked again at retry_ns */
};

struct ripc__dest {
	UT_hash_handle hh;
	uint64_t id; /* the service */
	enum ripc__dest_state state;
	struct ripc__peer *peer;          /* KNOWN: who holds it */
	struct ripc__list link;           /* in peer->dests */
	struct ripc__list pending;        /* struct ripc_request: not yet on the lane, in order */
	struct ripc__list remote_returns; /* struct ripc__remote_return */
	unsigned nremote_returns;
	unsigned users;              /* threads in a call that waits for it */
	struct ripc__credit *credit; /* on the peer's present lane, NULL: none used yet */
	uint64_t retry_ns;           /* FAILED: when to ask again; 0: not planned */
	uint64_t used_ns;            /* last use, for the sweep */
	unsigned failures;           /* in a row, for the back-off */
	char *why;                   /* why it cannot be reached, or NULL */
	struct ripc__waitq waitq;    /* lane up, credit, failure */
	uint8_t holder[16]; /* instance id last resolved; zero: nobody answers for the service */
};

struct ripc__peer {
	UT_hash_handle hh;
	uint8_t instance[16];
	struct ripc__list dests;    /* struct ripc__dest */
	struct ripc__list requests; /* struct ripc_request: sent, end not known, by id */
	unsigned nrequests;
	uint64_t next_request_id;                /* from 1 */
	struct ripc__lane *lane;                 /* up, or NULL */
	struct ripc__lane *out;                  /* our attempt to connect, or NULL */
	struct ripc__pending_conn *pending_conn; /* a connection request we have not decided on, or NULL */
	uint8_t *addrs; /* {transport u8, len u16, bytes}... best first as the record has them */
	uint16_t addrs_len;
	const uint8_t *dgram_path; /* in addrs: where its datagrams go while its lane is over dgram_path_tp; NULL: not looked up, or they do not */
	size_t dgram_path_len;     /* bytes at way */
	unsigned dgram_path_tp;
	uint8_t next_path; /* which way is tried next: ripc__peer_path() */
	uint8_t out_path;  /* the way of p->out */
	bool crossed;      /* our connect was refused for theirs: it should be here by retry_ns */
	bool all_refused;  /* connecting: every failure of this round meant that it is not there */
	unsigned nlanes;   /* lanes in any state, dead ones included, that point to it */
	bool lost;         /* a lane to it broke while work was outstanding, no new one yet */
	uint64_t unreachable_ns; /* connecting: when it is declared unreachable */
	uint64_t retry_ns;       /* when to connect (again); 0: not planned */
	uint64_t used_ns;
	uint64_t source; /* from which address it came to us: base/admission.h; 0: not known */
	unsigned wanted; /* messages to groups that wait for a lane to it, or for room on that */
	struct ripc__list attempts; /* struct ripc__attempt: why each way tried has failed */
	struct ripc__list rndvs; /* struct ripc__rndv: long messages on their way in from it, oldest first */
	uint64_t dedup_base; /* its requests below this are over */
	uint8_t *dedup_bitmap; /* bitmap of RIPC__REQUESTS_MAX ids from dedup_base, by id modulo; or NULL */
	uint64_t next_dgram_seq;       /* number of the next to send */
	struct ripc__replay datagrams; /* those received */
	uint64_t dgram_seen[RIPC__REPLAY_WORDS(RIPC__DATAGRAM_WINDOW)];
	bool no_dgram_path; /* it has no address that takes them, until its or ours change: short messages go over the lane */
	/*
	 * The number of our memory of it, drawn when this struct is made: ripc__seq_begin(). The
	 * hello carries it. A peer that finds another one than before knows that we have forgotten
	 * which of its long messages were delivered.
	 */
	uint64_t memory;
	uint64_t remote_epoch;    /* that of its memory of us, from its last hello; 0: none yet */
	struct ripc__peer_stats { /* the counters kept per peer, as in struct ripc_stats */
		uint64_t short_sent, short_received, long_sent, long_received, bytes_sent,
			bytes_received;
		uint32_t credit_stalls, queue_stalls, lost, duplicates, bad_messages, lanes_opened,
			lanes_lost;
	} stats;
};

/* The destination, created if need be. NULL: out of memory. */
struct ripc__dest *ripc__dest_get(struct ripc *ctx, uint64_t id);
/* The destination, or NULL. */
struct ripc__dest *ripc__dest_lookup(struct ripc *ctx, uint64_t id);
static inline struct ripc__dest *ripc__dest_find(struct ripc *ctx, uint64_t id)
{
	/* Most senders send to the same service again. */
	if (RIPC__LIKELY(ctx->last_dest && ctx->last_dest->id == id))
		return ctx->last_dest;
	return ripc__dest_lookup(ctx, id);
}

/* Does what is needed to reach it. Return: 0 a lane is up; -EAGAIN it is under way, or failed (see state, why). */
int ripc__dest_reach(struct ripc *ctx, struct ripc__dest *d);

/* Resolves it, without connecting. Return: 0 its peer is known; -EAGAIN. */
int ripc__dest_locate(struct ripc *ctx, struct ripc__dest *d);

/*
 * The ways to a peer, best first: each of our transports in their order, with each address of the peer that it
 * understands. Return: the address, with its transport; NULL: there are not so many.
 */
const uint8_t *ripc__peer_path(const struct ripc *ctx, const struct ripc__peer *p, unsigned index,
			       unsigned *tp, size_t *len);

/* Where short messages to it go by datagram. NULL: they do not, or no address is known. */
const uint8_t *ripc__peer_datagram(const struct ripc *ctx, struct ripc__peer *p, unsigned *tp,
				   size_t *len);

/* Its holder turned out not to hold it (any more): asks the resolver anew. */
void ripc__dest_invalidate(struct ripc *ctx, struct ripc__dest *d, const char *why);

/* Sends what is pending and possible. */
void ripc__dest_flush(struct ripc *ctx, struct ripc__dest *d);

/* The sentence for -EHOSTUNREACH. Return: -EHOSTUNREACH. */
int ripc__dest_unreachable(struct ripc *ctx, struct ripc__dest *d);

/* Resolver events. */
void ripc__dest_resolved(struct ripc *ctx, const struct ripc__record *record);
void ripc__dest_unresolved(struct ripc *ctx, uint64_t id, const char *text);
void ripc__dest_withdrawn(struct ripc *ctx, uint64_t id, const uint8_t instance[16]);

struct ripc__peer *ripc__peer_find(struct ripc *ctx, const uint8_t instance[16]);
struct ripc__peer *ripc__peer_get(struct ripc *ctx, const uint8_t instance[16]);
/*
 * The same for one that comes to us, from an address: it has no claim to the reserve. NULL: no
 * memory, or the table is full.
 */
struct ripc__peer *ripc__peer_admit(struct ripc *ctx, const uint8_t instance[16], uint64_t source);
/* Whether it cannot be forgotten: it has a lane, or something is outstanding. */
bool ripc__peer_in_use(const struct ripc__peer *p);
/* With its destinations, which nobody waits for: they are resolved anew. */
void ripc__peer_forget(struct ripc *ctx, struct ripc__peer *p);

/* When it was last used, or a new datagram came; 0: it may be forgotten at once. */
static inline uint64_t ripc__peer_used_ns(const struct ripc__peer *p)
{
	return p->used_ns > p->datagrams.last_new_ns ? p->used_ns : p->datagrams.last_new_ns;
}

/*
 * The first number of a sequence towards others: datagrams and requests of a peer, messages of a
 * group. It is above all numbers that this context has used, so a sequence that was forgotten never
 * begins anew. It is the time in nanoseconds, unless the clock has not moved on since.
 */
uint64_t ripc__seq_begin(struct ripc *ctx);
/* A sequence is forgotten; next: its first number that was not used. */
void ripc__seq_end(struct ripc *ctx, uint64_t next);

/* Remembers the addresses of a record. Return: 0 or -ENOMEM. */
int ripc__peer_set_addrs(struct ripc__peer *p, const struct ripc__record *record);
/* We have other addresses: what could not be reached from those of before may be now. */
void ripc__peers_addrs_changed(struct ripc *ctx);

/* Connects if there is no lane and no attempt under way. */
void ripc__peer_connect(struct ripc *ctx, struct ripc__peer *p);

/* Our attempt to connect failed: the next transport is tried, or the round is over. refusal: enum ripc__refusal. */
void ripc__peer_attempt_failed(struct ripc *ctx, struct ripc__peer *p, unsigned tp, int status,
			       unsigned refusal, const char *text);

/* Nobody at its addresses: fails what is outstanding, lets its destinations be resolved anew. */
void ripc__peer_unreachable(struct ripc *ctx, struct ripc__peer *p);

/* Whether something waits for this peer: requests, senders, arriving long messages. */
bool ripc__peer_has_work(const struct ripc__peer *p);
/* The same, but for long messages on their way in from it. */
bool ripc__peer_has_tx_work(const struct ripc__peer *p);

/* finished.c: remembers that request id of the peer is over / asks whether it is; advances the window. */
int ripc__dedup_mark(struct ripc__peer *p, uint64_t id);
bool ripc__dedup_seen(const struct ripc__peer *p, uint64_t id);
void ripc__dedup_advance(struct ripc__peer *p, uint64_t below);

/* Timers of peers and destinations. */
void ripc__peer_timers(struct ripc *ctx);

/* Forgets what has been idle for RIPC__IDLE_MS; *now* forgets all that is idle. */
void ripc__sweep(struct ripc *ctx, bool now);

/* ripc_close(): frees all. */
void ripc__peers_free(struct ripc *ctx);

/* offer.c: forgets all that the peer has offered for a destination. */
void ripc__remote_returns_drop(struct ripc__dest *d);
/* Nobody writes to a return buffer over this lane any longer. It stays on offer unless it was used or is revoked. lane: NULL if it is gone. */
void ripc__remote_return_release(struct ripc__lane *lane, struct ripc__dest *d,
				 struct ripc__remote_return *o, bool used);
/* Its owner wants it back: it is told when nobody writes to it any longer. d: of the service that it was offered for, or NULL. */
void ripc__remote_return_revoke(struct ripc__lane *lane, struct ripc__dest *d, uint64_t id);

#endif
