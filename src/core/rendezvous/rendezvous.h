/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The receiving side of a long message: memory for its items, reads or grants, delivery.
 *
 *   LONG arrives -> WAITING (the service has enough unread) -> MOVING (reads out, or writes granted) -> READY
 *                -> delivered in the order the LONGs of one peer came, ACK sent when READY
 *   lane lost: SUSPENDED until the peer sends the LONG again, or is gone
 *   service gone, cancelled, failed: DYING until no read is out any more; then its memory goes back
 */
#ifndef RIPC_CORE_RENDEZVOUS_RENDEZVOUS_H
#define RIPC_CORE_RENDEZVOUS_RENDEZVOUS_H

#include "core/context/context.h"

struct ripc__import_ref;
struct ripc__flow;

#define RIPC__UNREAD_MAX \
	(64u << 20) /* bytes of long messages unread at one service above which no new one is fetched */

enum ripc__rndv_state {
	RIPC__RNDV_WAITING,
	RIPC__RNDV_TRANSFER,
	RIPC__RNDV_READY,
	RIPC__RNDV_SUSPENDED,
	RIPC__RNDV_DRAINING,
};

struct ripc__rndv_item {
	uint64_t raddr, len;
	uint32_t rkey;
	uint8_t how;
	uint8_t *base;             /* where it goes */
	struct ripc__region *pool; /* one of these four, or none for an empty or inline one */
	struct ripc__recv_window *window;
	struct ripc__local_return *ret;
	struct ripc__import_ref *import_ref; /* HOW_HANDED: it lies in the sender's memory */
	struct ripc__region *region;         /* the memory is in; NULL: empty item */
	struct ripc__mr own;                 /* registration of this transfer */
	struct ripc__mr *mr;                 /* the one to use: own, or the region's */
	bool own_valid;                      /* own is valid */
	struct ripc__cached_mr *kept;        /* the region's is in use; or NULL */
	uint64_t posted, done;               /* bytes of reads */
};

struct ripc__rndv {
	struct ripc__list link;      /* in service->longs */
	struct ripc__list peer_link; /* in peer->rndvs, oldest first */
	struct ripc__list lane_link; /* in lane->rndvs while it has reads to post */
	struct ripc *ctx;
	struct ripc_service *service; /* NULL when DYING */
	struct ripc__peer *peer;
	struct ripc__lane *lane; /* WAITING, MOVING, DYING with reads out */
	uint64_t id;             /* the peer's */
	uint64_t source;
	enum ripc__rndv_state state;
	int status;                    /* why it is DYING */
	bool granted;                  /* it has items the sender writes, and FIN has not come */
	bool in_arriving_bytes;        /* its bytes are in service->arriving_bytes */
	unsigned reads;                /* outstanding */
	unsigned next;                 /* item whose reads are being posted */
	uint64_t bytes;                /* payload in all */
	struct ripc__message *message; /* what will be delivered */
	unsigned nitems;
	struct ripc__rndv_item items[];
};

/* arrival.c: a LONG arrived for a service. The flow holds units for it. */
void ripc__rndv_receive(struct ripc__lane *lane, struct ripc__flow *flow,
			const struct ripc__header *h, const struct ripc__event *ev, uint32_t units);
void ripc__rndv_fin(struct ripc__lane *lane, uint64_t id);
void ripc__rndv_cancel(struct ripc__lane *lane, uint64_t id);
/* Posts reads while the lane takes them, into memory found for them. Return: false: no room now; true: done, r may be gone. */
bool ripc__rndv_post(struct ripc__rndv *r);
void ripc__rndv_read_done(struct ripc__rndv *r, int status);
void ripc__rndv_lane_gone(struct ripc *ctx, struct ripc__lane *lane);
void ripc__rndv_peer_gone(struct ripc *ctx, struct ripc__peer *peer);
/* The application took messages: waiting ones may be fetched. */
void ripc__rndv_resume(struct ripc_service *s);
/* All of a service: it is being closed. */
void ripc__rndv_service_gone(struct ripc_service *s);
/* ripc_close(): no transport moves anything any more. */
void ripc__rndv_free(struct ripc__rndv *r);

/* For arrival.c. Of a peer, by its id; NULL: there is none. */
struct ripc__rndv *ripc__rndv_find(struct ripc__peer *p, uint64_t id);
/* Finds memory for one item. Return: false: there is none. */
bool ripc__rndv_item_alloc(struct ripc__rndv *r, struct ripc__rndv_item *it);
/* All its items are here: it is delivered when those before it are. */
void ripc__rndv_ready(struct ripc__rndv *r);
/* Gives back the memory of items that will not be delivered. No read is out and nobody can write it. */
void ripc__rndv_release(struct ripc__rndv *r);
/* Drops a message that will not be delivered and tells the peer, unless status is 0. No read is out. */
void ripc__rndv_drop(struct ripc__rndv *r, int status);
/* As ripc__rndv_drop(), but waits for the reads that are out, and for the writes that were granted. */
void ripc__rndv_fail(struct ripc__rndv *r, int status);

#endif
