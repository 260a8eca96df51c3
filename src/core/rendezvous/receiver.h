/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The receiving side of a long message: memory for its items, reads or grants, and delivery.
 *
 *   LONG arrives -> WAITING (too many unread bytes at the service, or of the peer: arriving.h)
 *                -> TRANSFER (reads are posted, or writes are granted) -> READY
 *   READY: the ACK is sent; messages are delivered in the order in which the peer sent them. An
 *   answer to a call is delivered at once, and the one that the call waits for is never WAITING.
 *   lane lost:   SUSPENDED until the peer sends the LONG again, or is gone
 *   service closed, cancelled, failed: DRAINING until the last read completes; then memory is freed
 *
 * ripc__rndv_set_state() asserts that a transition is in the table of receiver.c.
 */
#ifndef RIPC_CORE_RENDEZVOUS_RECEIVER_H
#define RIPC_CORE_RENDEZVOUS_RECEIVER_H

#include "core/progress/context.h"
#include "core/service/message.h"

struct ripc__import_ref;
struct ripc__flow;

enum ripc__rndv_state {
	RIPC__RNDV_WAITING,
	RIPC__RNDV_TRANSFER,
	RIPC__RNDV_READY,
	RIPC__RNDV_SUSPENDED,
	RIPC__RNDV_DRAINING,
	RIPC__RNDV_STATES,
};

/* Where the bytes of a message are counted: arriving.h. */
enum ripc__rndv_count {
	RIPC__RNDV_UNCOUNTED,
	RIPC__RNDV_COUNTED_AT_SERVICE, /* of its peer and of its service: TRANSFER */
	RIPC__RNDV_COUNTED_SLOW,       /* of its peer and of all slow ones: TRANSFER for long */
	RIPC__RNDV_COUNTED_READY,      /* of its peer: complete, behind an unfinished one */
};

struct ripc__rndv_item {
	uint64_t raddr, len;
	uint32_t rkey;
	uint8_t how;
	uint8_t *base; /* the target of the item */
	/* holds the memory; NULL: there is none yet, or it is empty, or the sender's */
	struct ripc__region *region;
	/* the part of the region, a receive window too; NULL: all of a pool buffer */
	struct ripc__local_return *ret;
	struct ripc__import_ref *import_ref; /* HOW_MAPPED: the item stays in the sender's memory */
	struct ripc__mr own;                 /* registration for this transfer only */
	struct ripc__mr *mr;                 /* the registration in use: own, or the region's */
	struct ripc__cached_mr *cached_mr;   /* the region's registration is in use; or NULL */
	uint64_t posted;                     /* bytes of reads */
};

struct ripc__rndv {
	struct ripc__list link;      /* in service->rndvs_in */
	struct ripc__list peer_link; /* in peer->lists->rndvs, oldest first */
	/* in lane->memory->rndvs while reads remain to be posted; WAITING: in flow->waiting */
	struct ripc__list lane_link;
	struct ripc *ctx;
	struct ripc_service *service; /* closed only when the message has ended */
	struct ripc__peer *peer;
	/* set in WAITING and TRANSFER, and in DRAINING while reads are posted */
	struct ripc__lane *lane;
	uint64_t id;                 /* the sender's request id */
	uint64_t started_ns;         /* TRANSFER: since then */
	enum ripc__rndv_state state; /* ripc__rndv_set_state() */
	int status;                  /* reason for DRAINING */
	bool granted;                /* the sender writes some items, and FIN has not arrived */
	enum ripc__rndv_count counted : 8; /* ripc__rndv_count() */
	bool awaited;                  /* an answer that started at once: its call waits for it */
	bool ack_requested;            /* its ACK does not wait for RELEASE */
	bool standing_stays;           /* the standing buffers that it came in stay granted */
	unsigned reads;                /* posted and not completed */
	unsigned next;                 /* item whose reads are posted next */
	uint64_t bytes;                /* payload of all items, */
	uint64_t memory_bytes;         /* and of those that are not mapped */
	struct ripc__message *message; /* the message to deliver */
	unsigned nitems;
	struct ripc__rndv_item items[];
};

/*
 * Whether the message answers a call. It goes to that call and not into the queue of the service,
 * so it does not wait for earlier messages.
 */
static inline bool ripc__rndv_is_answer(const struct ripc__rndv *r)
{
	return r->message->call_role == RIPC__CALL_REPLY;
}

/* The call that the message answers, or 0. */
static inline uint64_t ripc__rndv_answered_call(const struct ripc__rndv *r)
{
	return ripc__rndv_is_answer(r) ? r->message->call : 0;
}

/* The request as the ACK names it. */
static inline uint64_t ripc__rndv_ack_word(const struct ripc__rndv *r)
{
	return r->id | (r->standing_stays ? RIPC__ACK_REUSABLE : 0);
}

void ripc__rndv_set_state(struct ripc__rndv *r, enum ripc__rndv_state to);
/*
 * Drops the suspended messages of a peer that it has given up: those with ids below this one.
 * arriving: those to the same service before it alone, because a sender repeats its messages in
 * order; or NULL.
 */
void ripc__rndv_drop_suspended(struct ripc__peer *p, uint64_t below,
			       const struct ripc__rndv *arriving);
void ripc__rndv_fin(struct ripc__lane *lane, uint64_t id);
void ripc__rndv_cancel(struct ripc__lane *lane, uint64_t id);
/*
 * Allocates memory for items and posts their reads while the lane takes them. Return: false: the
 * queue is full; true: no reads remain, and r may have been freed.
 */
bool ripc__rndv_post(struct ripc__rndv *r);
void ripc__rndv_read_done(const struct ripc__event *ev);
void ripc__rndv_lane_gone(struct ripc__lane *lane);
/* Return: whether complete messages were delivered that were behind incomplete ones. */
bool ripc__rndv_peer_gone(struct ripc__peer *peer);
/* Begins to transfer the items of a waiting message. r may have been freed. */
void ripc__rndv_start(struct ripc__rndv *r);
/* Ends all transfers of a service that is being closed. */
void ripc__rndv_service_gone(struct ripc_service *s);
/* Frees r in ripc_close(). No transport transfers data any more. */
void ripc__rndv_free(struct ripc__rndv *r);

/* Finds a message of a peer by its id. Return: NULL: none. */
struct ripc__rndv *ripc__rndv_find(struct ripc__peer *p, uint64_t id);
/*
 * Assigns a receive window or return buffer to an item without memory, and copies an item that lies
 * in the sender's memory into it. Return: false: none fits.
 */
bool ripc__rndv_item_claim(struct ripc__rndv *r, struct ripc__rndv_item *it);
/* The same for all items from begin to end that are still to be transferred. */
void ripc__rndv_items_claim(struct ripc__rndv *r, unsigned begin, unsigned end);
/* Allocates memory for an item that has none. Return: false: out of memory. */
bool ripc__rndv_item_alloc(struct ripc__rndv *r, struct ripc__rndv_item *it);
/* Deregisters the memory of one item: remote access and the registration of our reads. */
void ripc__rndv_item_unregister(struct ripc__rndv *r, struct ripc__rndv_item *it);
/* Frees the memory of items that are not delivered. No read is posted and no grant is open. */
void ripc__rndv_release(struct ripc__rndv *r);

/* The lane has credit and room: posts the work of its long messages, in order. */
void ripc__rndvs_post(struct ripc__lane *lane);
/* The lane is closed: arriving messages return no credit over it. */
void ripc__rndvs_lane_closed(struct ripc__lane *lane);

#endif
