/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Peers (other contexts) and destinations (remote services that this context sends to).
 *
 * A destination is resolved to a peer; a peer is reached over at most one lane at a time. Both
 * exist while they are in use and are swept when idle: ripc__sweep().
 */
#ifndef RIPC_CORE_PEER_PEER_H
#define RIPC_CORE_PEER_PEER_H

#include "core/peer/dest.h"
#include "core/peer/peer_lists.h"
#include "core/peer/replay.h"

#define RIPC__REQUESTS_MAX 1024 /* unacknowledged long messages to one peer */
#define RIPC__PEERS_MAX    65536
#define RIPC__UNSOLICITED_PEERS_MAX \
	(RIPC__PEERS_MAX / 8 * 7) /* peers that connected by themselves; the rest is a reserve */
#define RIPC__IDLE_MS 30000       /* unused entries are removed after this time */

#define RIPC__DATAGRAM_WINDOW 64 /* numbers in the duplicate filter of datagrams */

/* Datagrams to and from a peer. */
struct ripc__peer_datagrams {
	uint64_t next_seq; /* number of the next one */
	/* in peer->addrs: their address over path_tp; NULL: not looked up, or none */
	const uint8_t *path;
	size_t path_len; /* bytes at path */
	unsigned path_tp;
	struct ripc__list
		contexts; /* struct ripc__datagram_context: those that the peer sends with */
	unsigned ncontexts;
	struct ripc__replay received;
	uint64_t seen[RIPC__REPLAY_WORDS(RIPC__DATAGRAM_WINDOW)];
};

/*
 * The attempts of one round over the paths to a peer. A round begins with REFUSED, or with FAILED
 * if another address may yet be found. REFUSED at its end: the peer is unreachable.
 *
 *   REFUSED --another failure--> FAILED
 *   REFUSED, FAILED --our connection crossed with the peer's--> CROSSED --it is late--> next round
 */
enum ripc__connect_round {
	RIPC__ROUND_REFUSED, /* each failure meant that the peer is not there */
	RIPC__ROUND_FAILED,  /* the peer may be there */
	RIPC__ROUND_CROSSED, /* the peer's connection should arrive by retry_ns */
};

/*
 * The contact with a peer.
 *
 *   NORMAL --lane is silent--> PROBING --message, or it refuses: CROSSED--> NORMAL
 *   NORMAL, PROBING --lane failed--> LOST     PROBING --silent for peer_timeout_ms--> DEAD
 *   NORMAL, LOST --no attempt is left--> ABSENT, DEAD
 *   LOST, ABSENT, DEAD --lane is up, or given up as unreachable--> NORMAL
 */
enum ripc__contact {
	RIPC__CONTACT_NORMAL,
	RIPC__CONTACT_PROBING, /* attempts are made beside the lane until unreachable_ns */
	RIPC__CONTACT_LOST,    /* a lane failed or was retired, no new one yet */
	RIPC__CONTACT_ABSENT,  /* no lane came up: the timers give it up */
	RIPC__CONTACT_DEAD,    /* no lane came up again: the timers give it up */
};

/* A context may know thousands, so it is small; the rest is allocated on demand. */
struct ripc__peer {
	struct ripc__node node; /* in ctx->peer_table, by a hash of its instance */
	struct ripc__list link; /* in ctx->peers */
	uint8_t instance[16];
	struct ripc__lane *lane;        /* up, or NULL */
	struct ripc__peer_lists *lists; /* never NULL */
	/* core/reliable; NULL: nothing of it was used, or all but its rx_next can be made anew */
	struct ripc__reliable *reliable;
	uint64_t reliable_rx_next;
	uint16_t reliable_unacked; /* reliable short messages not acknowledged */
	uint16_t nrequests;
	unsigned calls;  /* calls of ours that it has not answered */
	unsigned wanted; /* group messages that wait for a lane to it, or for room on it */
	uint16_t addrs_len;
	uint16_t nlanes;          /* lanes in any state that point to it */
	uint64_t next_request_id; /* from 1 */
	uint64_t dedup_base;      /* all its requests below this id have ended */
	/*
	 * core/rendezvous/dedup.c: a bitmap of RIPC__REQUESTS_MAX ids from dedup_base, by id
	 * modulo, and with dedup_failures another one; NULL: none.
	 */
	uint8_t *dedup_bitmap;
	/*
	 * Epoch of this struct's dedup window, drawn when it is created: ripc__seq_begin(). The
	 * hello carries it. A peer that finds another epoch than before knows that the window, and
	 * with it the record of its delivered long messages, was lost.
	 */
	uint64_t epoch;
	uint64_t remote_epoch; /* the peer's epoch, from its last hello; 0: none yet */
	uint64_t used_ns;
	uint64_t source;        /* address from which it connected: base/admission.h; 0: unknown */
	struct ripc__lane *out; /* our attempt to connect, or NULL */
	struct ripc__pending_conn *pending_conn; /* an undecided connection request, or NULL */
	uint8_t *addrs;          /* {transport u8, len u16, bytes}... best first as in the record */
	uint64_t unreachable_ns; /* connecting: when it is declared unreachable */
	uint64_t retry_ns;       /* when to connect (again); 0: not planned */
	uint8_t next_path;       /* path that is tried next: ripc__peer_path() */
	uint8_t out_path;        /* path of p->out */
	enum ripc__connect_round round : 8;
	enum ripc__contact contact : 8;
	/* no address for datagrams, until an address changes: short messages use the lane */
	bool no_dgram_path;
	bool dedup_failures;
	/* long answers to it under way, and short ones that have waited; each refers to it */
	uint16_t answers;
	struct ripc__peer_stats { /* counters kept per peer, as in struct ripc_stats */
		uint64_t short_sent, short_received, long_sent, long_received, bytes_sent,
			bytes_received;
		uint32_t credit_stalls, queue_stalls, lost, duplicates, bad_messages, lanes_opened,
			lanes_lost;
	} stats;
};

struct ripc__peer *ripc__peer_find(struct ripc *ctx, const uint8_t instance[16]);
struct ripc__peer *ripc__peer_get(struct ripc *ctx, const uint8_t instance[16]);
/*
 * As ripc__peer_get(), for a peer that connects from an address: the reserve is closed to it.
 * Return: NULL: out of memory, or the table is full.
 */
struct ripc__peer *ripc__peer_admit(struct ripc *ctx, const uint8_t instance[16], uint64_t source);
/* p->lists->datagrams, created if needed. Return: NULL: out of memory. */
struct ripc__peer_datagrams *ripc__peer_datagrams(struct ripc *ctx, struct ripc__peer *p);

/* Time of the last use or of the last new datagram; 0: removable at once. */
static inline uint64_t ripc__peer_used_ns(const struct ripc__peer *p)
{
	const struct ripc__peer_datagrams *d = p->lists->datagrams;
	uint64_t last_new_ns = d ? d->received.last_new_ns : 0;

	return p->used_ns > last_new_ns ? p->used_ns : last_new_ns;
}

/*
 * The first number of a sequence: datagrams and requests of a peer, messages of a group. It is
 * above all numbers that this context has used, so a sequence never restarts at an old number. It
 * is the time in nanoseconds, or one more than the last number.
 */
static inline uint64_t ripc__seq_begin(struct ripc *ctx)
{
	uint64_t now = ripc__now(ctx), first = now > ctx->next_number ? now : ctx->next_number;

	ctx->next_number = first + 1;
	return first;
}
/* Its records of this context are not valid any more: it learns that when it connects. */
void ripc__peer_new_epoch(struct ripc *ctx, struct ripc__peer *p);
/* A sequence ends; next: its first unused number. */
void ripc__seq_end(struct ripc *ctx, uint64_t next);

/*
 * Stores the addresses of a record. If they are others, an attempt beside or after a lost lane
 * ends, and the next one begins with them. Return: 0 or -ENOMEM.
 */
int ripc__peer_set_addrs(struct ripc__peer *p, const struct ripc__record *record);
/* Local addresses changed: unreachable peers may be reachable now. */
void ripc__peers_addrs_changed(struct ripc *ctx);

/* The lane to the holder of a destination. d: NULL: none. Return: NULL: there is no lane. */
static inline struct ripc__lane *ripc__dest_lane(const struct ripc__dest *d)
{
	return d && d->peer ? d->peer->lane : NULL;
}

/* The lane over which a message can go to the destination at once; NULL: it is not reached. */
static inline struct ripc__lane *ripc__dest_ready(const struct ripc__dest *d)
{
	return RIPC__LIKELY(d && d->state == RIPC__DEST_KNOWN) ? d->peer->lane : NULL;
}

/* Connects if there is no lane and no attempt. */
void ripc__peer_connect(struct ripc *ctx, struct ripc__peer *p);
/* Whether a lane may come up: an attempt of this side goes on or is planned, or one of the peer. */
bool ripc__peer_connecting(struct ripc *ctx, const struct ripc__peer *p);

/* An attempt failed: tries the next path, or ends the series. refusal: enum ripc__refusal. */
void ripc__peer_attempt_failed(struct ripc *ctx, struct ripc__peer *p, unsigned tp, int status,
			       unsigned refusal, const char *text);

/*
 * The peer is silent on its lane: tries its paths beside it, once more at each call, and resolves
 * it again, because its addresses may have changed. The lane that comes up takes the place of the
 * silent one. until_ns: when the peer will be unreachable.
 */
void ripc__peer_probe(struct ripc__lane *lane, uint64_t until_ns);
/* The peer is not silent: no further attempts beside its lane. */
void ripc__peer_probe_end(struct ripc__lane *lane);

/* Whether work waits for this peer: requests, senders, incoming long messages. */
bool ripc__peer_has_work(const struct ripc__peer *p);
/* As ripc__peer_has_work(), without incoming long messages. */
bool ripc__peer_has_tx_work(const struct ripc__peer *p);

void ripc__peer_timers(struct ripc *ctx);

/* An entry was added: plans ripc__sweep() unless it is planned. */
void ripc__sweep_plan(struct ripc *ctx);
/* Removes entries that are idle for RIPC__IDLE_MS; now: all idle entries. */
void ripc__sweep(struct ripc *ctx, bool now);

void ripc__peers_free(struct ripc *ctx);

#endif
