/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounds on the memory that arriving long messages hold, and the messages that wait for room.
 *
 * A message is started, which allocates its memory, when
 *   - its peer holds less than RIPC__PEER_ARRIVING_MAX in messages that were started and not
 *     delivered, or all earlier messages of the peer to the service were delivered, or its items
 *     are mapped; and
 *   - the service has room: it holds less than RIPC__UNREAD_MAX of unread data. A message that is
 * being fetched counts there with at most RIPC__PEER_ARRIVING_MAX. Both are exceeded by one
 * message at most. So a peer whose messages do not end, or wait behind one that does not, uses up
 * its own share and leaves room for the others.
 *
 * Several such peers could use up the room of a service. So a message that is being fetched for
 * more than a second counts for its peer alone. All of these hold at most an eighth of the host's
 * memory.
 *
 * Peers with waiting messages take turns. The messages of one peer to a service start in order.
 */
#ifndef RIPC_CORE_RENDEZVOUS_ARRIVING_H
#define RIPC_CORE_RENDEZVOUS_ARRIVING_H

#include "core/rendezvous/receiver.h"

/* Bytes of one peer that are started and not delivered; above, none of its messages is started. */
#define RIPC__PEER_ARRIVING_MAX (16u << 20)

/* Changes where the bytes of a message are counted. */
void ripc__rndv_count(struct ripc__rndv *r, enum ripc__rndv_count to);
/* Whether the service has no room for a message of so many bytes. The first one always passes. */
bool ripc__rndv_must_wait(const struct ripc_service *s, uint64_t bytes);
/* A message has arrived: starts it, or queues it. r may have been freed. */
void ripc__rndv_wait(struct ripc__rndv *r);
/*
 * The service was taken over: refuses messages that wait. Their senders go to the next holder. One
 * with a later one behind it, which is complete or was cut short, still waits for room here.
 */
void ripc__rndv_refuse_waiting(struct ripc_service *s);
/* The service may have room: starts messages that wait. */
void ripc__rndv_resume(struct ripc_service *s);
/* The same for all services. */
void ripc__rndvs_resume(struct ripc *ctx);
/* The same if a peer has room again. */
static inline void ripc__rndvs_resume_if_room(struct ripc *ctx)
{
	if (ctx->rndvs_have_room)
		ripc__rndvs_resume(ctx);
}

/* Timer of a lane: its transfers may have become slow ones. */
void ripc__rndvs_timer(struct ripc__lane *lane);

#endif
