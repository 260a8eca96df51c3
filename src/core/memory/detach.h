/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Detached buffers: the application keeps its address, with private pages from now on, and peers
 * keep the memory object that they have mapped. A send attaches a buffer again, or detaches it from
 * the memory of an earlier receiver. mapped.h has the rules.
 */
#ifndef RIPC_CORE_MEMORY_DETACH_H
#define RIPC_CORE_MEMORY_DETACH_H

#include "core/memory/mapped.h"

/*
 * Ends the references to a region: the application may write to it, or it is the receiver of data.
 * Peers keep the old bytes, also those whose lane was lost. Return: 0, or -ENOMEM and nothing
 * changed.
 */
int ripc__region_unexport(struct ripc *ctx, struct ripc__region *region);

/* ---- before a send ---- */

/*
 * Call before an item in a region is sent over the lane by any protocol. seq: number of its
 * message. On return no other peer sees new data of the region.
 */
void ripc__export_track(struct ripc__lane *lane, struct ripc__region *region, uint64_t seq);
/*
 * Call before an item in region r is sent: reattaches the region if needed. Lock held, and released
 * meanwhile: the caller has entered the service, which may be closed on return, and r freed.
 */
void ripc__export_prepare(struct ripc *ctx, struct ripc__region *r, const struct iovec *item);

#endif
