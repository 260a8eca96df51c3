/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reliable short messages: in order and exactly once between two contexts, over any number of
 * lanes. doc/protocol.md, section 1.8, has the messages and their numbers.
 *
 *   (new) -- posted --> UNACKED -- RELIABLE_ACK --> delivered
 *      UNACKED -- RELIABLE_REFUSED (no such service), BYE --> PENDING at its destination
 *      UNACKED, an answer -- BYE --> it ends: it was for the calls of that peer alone
 *      UNACKED -- peer unreachable, or has lost its record --> -EPIPE: delivery is unknown
 *      UNACKED, an answer -- peer has lost its record --> UNACKED: its caller may wait
 *      PENDING -- destination reached, nothing of it is unacknowledged elsewhere --> UNACKED
 *      PENDING -- no holder for peer_timeout_ms --> -EHOSTUNREACH: not delivered
 *
 * Lock held in every function.
 */
#ifndef RIPC_CORE_RELIABLE_RELIABLE_H
#define RIPC_CORE_RELIABLE_RELIABLE_H

#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/reliable/message.h"

#include <sys/cdefs.h>

/* Limits of the messages to one peer that are not acknowledged. */
#define RIPC__RELIABLE_WINDOW       1024
#define RIPC__RELIABLE_WINDOW_BYTES (256 * 1024)
/*
 * The receiver acknowledges after a quarter of the window, or after this time. Not shorter than the
 * longest tick of the progress thread, which would be woken for each acknowledgement.
 */
#define RIPC__RELIABLE_ACK_NS (40 * RIPC__MS)

/* The origin of a message, which learns its end. */
struct ripc__reliable_owner {
	/*
	 * The message ended: 0: delivered; -EPIPE: unknown; -EHOSTUNREACH: not delivered;
	 * -ETIMEDOUT: its time was up before it was sent. The callee owns m and frees it. It may
	 * post other messages. why: NULL with 0.
	 */
	void (*end)(struct ripc *ctx, struct ripc__reliable_owner *o, struct ripc__reliable_msg *m,
		    int status, const char *why);
	/*
	 * n messages were delivered, and are freed already. NULL: end() is called for each, and
	 * owns it.
	 */
	void (*delivered)(struct ripc *ctx, struct ripc__reliable_owner *o, unsigned n);
	/*
	 * A message is about to be posted to a peer, for the first time or again. The callee sets
	 * the word of its call. Return: 0; else the message ends with this status. NULL: nothing to
	 * do.
	 */
	int (*before_post)(struct ripc__reliable_owner *o, uint64_t *word, struct ripc__lane *lane);
	/* m was not delivered and waits for the next holder of its service. NULL: nothing to do. */
	void (*requeued)(struct ripc__reliable_owner *o);
	/* Its messages wait for a holder until they are withdrawn, not for peer_timeout_ms. */
	bool waits;
};

/*
 * Posts a new message over the lane of d's peer, which is up. Return: 0: the owner learns its end;
 * -EAGAIN: no credit, no room, or earlier messages wait; d->waitq is woken; -ENOMEM; -EMSGSIZE; or
 * the error of before_post().
 */
int ripc__reliable_post(struct ripc__dest *d, struct ripc__reliable_msg *m, bool more);
/* Posts it as soon as its destination can be reached, behind earlier ones. Takes m over. */
void ripc__reliable_queue(struct ripc *ctx, struct ripc__dest *d, struct ripc__reliable_msg *m);
/* Takes a message that is in a list out of it: it is not sent again. The caller owns it. */
void ripc__reliable_withdraw(struct ripc *ctx, struct ripc__reliable_msg *m);
/*
 * The caller waits until d has no unacknowledged message: asks the peer for an acknowledgement, and
 * has messages end as soon as they are acknowledged.
 */
void ripc__reliable_ask(struct ripc *ctx, struct ripc__dest *d);

/* ---- events ---- */

/* The lane has room: sends again what its peer has not acknowledged. */
void ripc__reliable_flush(struct ripc__lane *lane);
/* d can be reached: sends what waits for it. */
void ripc__reliable_flush_pending(struct ripc *ctx, struct ripc__dest *d);
/*
 * The peer acknowledged all messages below that number. They end at once if they are few, or if a
 * thread waits for their end. Else a few end with each message that is sent on, after its post, and
 * the rest after RIPC__RELIABLE_ACK_NS: to end a quarter of the window takes longer than a round
 * trip.
 */
void ripc__reliable_acked(struct ripc__lane *lane, uint64_t below);
/* The peer refused the message with that number. To refuse an answer is an error of protocol. */
void ripc__reliable_refused(struct ripc__lane *lane, uint64_t number);
/* The peer sent BYE, after its last acknowledgement. */
void ripc__reliable_bye(struct ripc__lane *lane);
void ripc__reliable_lane_failed(struct ripc__lane *lane);
/*
 * Ends all messages to the peer with -EPIPE: no acknowledgement can arrive any more. Answers to a
 * peer with a lane are sent again.
 */
void ripc__reliable_unknown(struct ripc *ctx, struct ripc__peer *p, const char *why);
/* Keeps only the numbers, if there is nothing else. */
void ripc__reliable_peer_idle(struct ripc__peer *p);
void ripc__reliable_peer_forgotten(struct ripc *ctx, struct ripc__peer *p);
/* Acknowledgements that are due, and messages that wait for too long. */
void ripc__reliable_timers(struct ripc *ctx);
/* ripc_close(). The messages' owners are not notified. */
void ripc__reliable_close(struct ripc *ctx);

/* ---- receiving (receiver.c) ---- */

/* RELIABLE_BEGIN arrived. Return: 0, or -ENOMEM. */
int ripc__reliable_begin(struct ripc__lane *lane, uint64_t dest, uint64_t number);
/*
 * A message with F_RELIABLE arrived. reply: it needs no service. Return: 1: deliver it; 0: drop it,
 * because it was delivered before or there is no service; -EPROTO: the lane has no number for it.
 */
int ripc__reliable_receive(struct ripc__lane *lane, struct ripc__flow *flow, uint64_t len,
			   bool reply);
/* There was no memory for the message for which ripc__reliable_receive() has just returned 1. */
void ripc__reliable_undo(struct ripc__lane *lane);
/* Sends the acknowledgement that is due, if there is one. always: also if none is due. */
void ripc__reliable_send_ack(struct ripc__peer *p, bool always);

/* ---- the state of one peer ---- */

struct ripc__reliable {
	/* sender */
	struct ripc__list unacked; /* by number */
	struct ripc__list *resend; /* first that was not posted on the peer's lane; NULL: none */
	uint64_t next;             /* number of the next new message */
	uint64_t bytes;            /* in unacked */
	uint64_t acked;            /* all below are acknowledged, some may be in unacked */
	struct ripc__list settle_link; /* in ctx->reliable_settling while unacked has such ones */
	bool window_full;              /* a sender waits for the window */
	bool awaited;                  /* a thread waits until unacked is empty */
	/* receiver */
	struct ripc__list ack_link; /* in ctx->reliable_acks while an acknowledgement is due */
	struct ripc__peer *peer;
	uint64_t rx_next; /* all below are delivered or refused; 0: none came */
	uint64_t ack_due_ns;
	uint32_t rx_unacked, rx_unacked_bytes;
	uint64_t *refused; /* numbers refused, a ring of RIPC__RELIABLE_WINDOW; or NULL */
	struct ripc__refusing
		*refusing; /* services all messages to which are refused; uthash by id */
	uint64_t nrefused; /* in all */
};

/*
 * ripc__reliable_receive() of a message that only counts: the next number, for a service that is
 * there, when no acknowledgement has to be sent or scheduled. Return: whether it is one; if not,
 * nothing was done.
 */
static __always_inline bool ripc__reliable_receive_next(struct ripc__lane *lane, uint32_t len)
{
	struct ripc__reliable *rel = lane->peer->reliable;

	if (!rel || !rel->ack_due_ns || rel->refusing || lane->reliable_rx != rel->rx_next ||
	    rel->rx_unacked + 1 >= RIPC__RELIABLE_WINDOW / 4 ||
	    rel->rx_unacked_bytes + len >= RIPC__RELIABLE_WINDOW_BYTES / 4)
		return false;
	lane->reliable_rx++;
	rel->rx_next++;
	rel->rx_unacked++;
	rel->rx_unacked_bytes += len;
	return true;
}

void ripc__reliable_free_refusals(struct ripc__reliable *rel);
/* The peer's state, created if needed. NULL: out of memory. */
struct ripc__reliable *ripc__reliable_of(struct ripc *ctx, struct ripc__peer *p);

#endif
