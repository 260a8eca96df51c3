/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hand-over: a long item between two processes of one host stays where it is. Its sender's buffer is a memory object of
 * its own, which the receiver has mapped for reading; the message points there.
 *
 *   sender    share: a buffer that one peer has been given        loan: an item that a peer reads in place
 *   receiver  borrowed region: a buffer of the peer's, mapped     debt: an item of ours that lies in one
 *
 * A buffer is given to a peer when it is sent to it for the second time, to nobody else in between (and these two are
 * copied as ever); when the peer has mapped it and says so (MAP_ACK), later items are lent. The request of a lent item is done when the peer has let go of it (RELEASE), or,
 * if that takes longer than a copy would have, when the buffer has been parted from it: what is written to it from then on lies in
 * other memory at the same address, and the receiver keeps the old. So a receiver that keeps its message stops nobody, and a service
 * whose receivers do is lent to less and less often.
 *
 * A peer that was given a buffer may see for ever what is written there. So a buffer is given to one peer only, and it
 * is parted from that memory as soon as it is sent to another one, or is about to receive. It does not go back to the pool, and is not
 * given away with what the pool's former users left in it: what nobody has been given holds nothing for the peer but
 * what the application sends to it, or keeps in the same buffer.
 */
#ifndef RIPC_CORE_MEMORY_MAPPED_H
#define RIPC_CORE_MEMORY_MAPPED_H

#include "core/context/context.h"

struct ripc__request_item;
struct ripc__message;
struct ripc__credit;

#define RIPC__EXPORTS_MAX 256  /* buffers given to one peer at one time; later ones are copied */
#define RIPC__IMPORTS_MAX 1024 /* of one peer's that we map at most */

/* A buffer that the peer of one lane has been given. */
struct ripc__export {
	struct ripc__list link;      /* in region->shares */
	struct ripc__list lane_link; /* in lane->shares */
	struct ripc__lane *lane;
	struct ripc__region *region;
	uint32_t export_id;    /* what the peer knows it by; never used again on the lane */
	size_t len;            /* bytes of it that it may read */
	bool acked;            /* it has said that it maps it */
	unsigned copied_items; /* items copied because it has not yet */
};

/* An item of a message of ours that lies in a borrowed region. */
struct ripc__import_ref {
	struct ripc__list link; /* in region->debts */
	struct ripc__region *region;
	struct ripc__lane *lane; /* which is told when it is let go of; NULL: nobody waits any more */
	uint64_t request;        /* the peer's */
	unsigned item;
	const struct ripc__message *message; /* whose item it is; NULL: it is still arriving */
	bool released; /* the message is gone; a send that passes the item on is not */
};

/* ---- sender ---- */

/* A buffer has a new owner. */
void ripc__export_reset(struct ripc__region *region);
/*
 * A long item is about to be sent over the lane, in whatever way: a peer other than the lane's sees nothing of the item's
 * buffer any more when this returns.
 */
void ripc__export_track(struct ripc__lane *lane, const struct ripc__request_item *it);
/*
 * Items are about to be sent, to whomever: what makes their buffers ones that can be given again, if that takes long. Lock held, and
 * released meanwhile: the service must have been entered, and may have been closed when this returns.
 */
void ripc__export_prepare(struct ripc *ctx, const struct iovec *items, unsigned nitems);
/* Whether the item can be lent over the lane: then where is filled in. If not, what is missing may be begun. */
bool ripc__export_item(struct ripc__lane *lane, struct ripc__request_item *it);
/* The peer maps it. */
void ripc__export_acked(struct ripc__lane *lane, uint64_t export_id);
/* The message has left: its items are lent now. */
void ripc__export_ref_begin(struct ripc__request_item *it);
/* The peer has let go. */
void ripc__export_ref_end(struct ripc__request_item *it);
/* How long it may keep the bytes before they are copied. */
uint64_t ripc__export_ref_max_ns(uint64_t bytes);
/* It kept them for longer: its service is lent to less often. */
void ripc__export_back_off(struct ripc__credit *c);
/*
 * Parts a region from what a peer was given, so that it is nobody's but ours; all its loans end. Return: 0, or -ENOMEM and all
 * is as before.
 */
int ripc__region_unexport(struct ripc *ctx, struct ripc__region *region);
/* Peers need not map it any more. */
void ripc__exports_drop(struct ripc__region *region);

/* ---- receiver ---- */

/* The peer gave us a buffer, mapped at base: ours from now on, whatever becomes of it. */
void ripc__import_add(struct ripc__lane *lane, void *base, size_t len, uint64_t export_id);
/* The peer does not send from it any more. */
void ripc__import_unmap(struct ripc__lane *lane, uint64_t export_id);
/* Finds [at, at+len) of a borrowed buffer. Return: 0, -EPROTO: there is no such thing, -ENOBUFS: out of memory. */
int ripc__import_ref_new(struct ripc__lane *lane, uint64_t export_id, uint64_t at, uint64_t len,
			 uint64_t request, unsigned item, struct ripc__import_ref **import_ref,
			 uint8_t **base);
/* It is not needed any more: tells the peer, when no send of ours reads it either. */
void ripc__import_ref_release(struct ripc__import_ref *import_ref);
/* Likewise that of an item of a message that is freed, or taken. */
void ripc__import_ref_release_item(struct ripc__region *region, const struct ripc__message *m,
				   unsigned item);
/* Nothing is sent from the region any more. */
void ripc__import_settle(struct ripc *ctx, struct ripc__region *region);
/* ripc_close(): without any word. */
void ripc__import_free(struct ripc__region *region);

/* The lane is gone, in both roles. Loans end with their requests. */
void ripc__mapped_lane_gone(struct ripc__lane *lane);

#endif
