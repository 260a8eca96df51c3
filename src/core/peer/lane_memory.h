/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of a lane, for core/memory and core/rendezvous: buffers that its peer may read or
 * write. Most lanes carry short messages only and have none of it. So it is allocated when the
 * first one is added, and freed when the lane is idle or ends. All functions need the context's
 * lock.
 */
#ifndef RIPC_CORE_PEER_LANE_MEMORY_H
#define RIPC_CORE_PEER_LANE_MEMORY_H

#include "base/list.h"
#include "wire/immediate.h"

#include <stdint.h>

struct ripc__lane;

struct ripc__lane_memory {
	struct ripc__list rndvs;   /* struct ripc__rndv with reads to post, in order */
	struct ripc__list exports; /* struct ripc__export: exported to the peer */
	struct ripc__list imports; /* struct ripc__region: the peer's exports, mapped */
	unsigned nexports, nimports;
	struct ripc__list late_refs; /* struct ripc__export_ref: mapped.h */
	struct ripc__list bounces;   /* struct ripc__bounce: buffers that stay registered */
	uint64_t bounce_bytes[2];    /* bytes of bounce buffers, per direction: out, in */
	struct ripc__list standing;  /* struct ripc__local_return: pool buffers that it may write */
	uint64_t standing_bytes;     /* bytes of these */
	uint64_t standing_used_ns;   /* time of the last medium item */
	uint64_t ref_bytes;          /* bytes that the peer references */
	uint32_t last_export_id;     /* id of the last export */
	unsigned acks_due;           /* import references whose RELEASE is to carry an ACK */
	/* messages with an ACK of their own before a RELEASE carries one again: import.c */
	uint16_t ack_skip, ack_backoff;
	/* sent and received; with RIPC__CAP_WRITE_IMM only */
	struct ripc__long_context tx_long, rx_long;
};

/* That of all lanes without any: empty, and never written. */
extern const struct ripc__lane_memory ripc__lane_memory_none;

/* For a new lane: ripc__lane_memory_none. */
void ripc__lane_memory_init(struct ripc__lane *lane);
/* Before something is added to it. Return: lane->memory, or NULL: out of memory. */
struct ripc__lane_memory *ripc__lane_memory_get(struct ripc__lane *lane);
/* The peer is idle: frees it if it is empty. */
void ripc__lane_memory_trim(struct ripc__lane *lane);
/* The lane is closed, and everything in it has ended. */
void ripc__lane_memory_free(struct ripc__lane *lane);

#endif
