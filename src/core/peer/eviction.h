/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Eviction of lanes when descriptors run out. The policy is base/admission.h.
 *
 * An idle lane is retired by GOAWAY (doc/protocol.md, section 1.5): nothing is lost or repeated,
 * and the order stays. Long messages of the peer that are in transfer fail over.
 *
 *   UP -- descriptors run low: send GOAWAY 0 --> RETIRING -- GOAWAY 1, closed, RIPC__RETIRE_NS -->
 *     DEAD
 *   UP -- GOAWAY 0 arrived: send GOAWAY 1 -----> RETIRING -- closed, RIPC__RETIRE_NS ------------>
 *     DEAD
 *
 * Lanes on which a request, a sender or a group message of this context waits are never retired.
 * Lanes that this context opened, or whose peer it resolved, are retired last. If no descriptor and
 * no idle lane is left, a lane that only the peer keeps busy is failed.
 *
 * Lock held, from a progress pass.
 */
#ifndef RIPC_CORE_PEER_EVICTION_H
#define RIPC_CORE_PEER_EVICTION_H

#include "core/progress/context.h"

#define RIPC__RETIRE_NS (250 * UINT64_C(1000000))

/* Descriptors run low; exhausted: none is left. */
void ripc__evict_lanes(struct ripc *ctx, bool exhausted);

/*
 * Makes room for another unconfirmed incoming set-up. It closes lanes: call it from an event, never
 * from a walk through ctx->lanes.
 */
void ripc__evict_pending(struct ripc *ctx);

/* GOAWAY arrived on a lane. answer: to a GOAWAY of this side. */
void ripc__lane_goaway(struct ripc__lane *lane, bool answer);

bool ripc__lane_retiring(struct ripc *ctx, const struct ripc__peer *p);

#endif
