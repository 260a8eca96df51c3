/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Standing grants: pool buffers that a peer may write ahead of its next long messages to a service.
 * A standing buffer is a local return buffer that belongs to the library, with flow set. It ends
 * when an item arrives in it, with REVOKED, or with its lane.
 *
 * Where registration is cheap the peer writes the pool buffer that the message is delivered in.
 * That buffer may hold data of an earlier owner, so the transport has to know what the peer wrote
 * (written()). Elsewhere the peer writes a bounce buffer, which never held data of others.
 */
#ifndef RIPC_CORE_MEMORY_STANDING_H
#define RIPC_CORE_MEMORY_STANDING_H

#include "core/memory/buffer.h"
#include "core/peer/lane.h"

#define RIPC__STANDING_LANE_MAX (512u << 10) /* bytes granted to one peer over one lane */
#define RIPC__STANDING_CTX_MAX  (32u << 20)  /* bytes granted to all peers of a context */

/*
 * An item of this length arrived in a LONG, not inline: a peer that sends medium items gets buffers
 * for the next ones.
 */
void ripc__standing_replenish(struct ripc__flow *flow, uint64_t len);
/* Whether a bounce buffer that was used stays granted, as the service is read. */
bool ripc__standing_stays(const struct ripc__flow *flow);
/*
 * The buffer of the lane whose id has these lower bits (RIPC__IMM_BUFFER_MASK), which no other one
 * of the lane has; or NULL.
 */
struct ripc__local_return *ripc__standing_find(const struct ripc__lane *lane, uint32_t low);
/* Whether the peer has written its first len bytes. */
bool ripc__standing_written(struct ripc *ctx, const struct ripc__local_return *r, size_t len);
/*
 * Ends remote access and the grant. Return: the pool buffer, which is the caller's; NULL: it was a
 * bounce buffer.
 */
struct ripc__region *ripc__standing_take(struct ripc *ctx, struct ripc__local_return *r);
/* Ends remote access and the grant, and frees the buffer. */
void ripc__standing_drop(struct ripc *ctx, struct ripc__local_return *r);

/* The lane is idle: takes its buffers back after a second. */
void ripc__standing_lane_idle(struct ripc__lane *lane);
/* Whether REVOKED of a buffer has not arrived. */
bool ripc__standing_revoking(const struct ripc__lane *lane);
/* The lane is closed: drops its buffers. */
void ripc__standing_lane_gone(struct ripc__lane *lane);

#endif
