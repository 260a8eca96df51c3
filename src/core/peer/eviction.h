/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which lanes and peers a context gives up when descriptors or its tables run low. The policy is
 * base/admission.h.
 *
 * Lanes. An idle lane is retired (RIPC__LANE_RETIRING): GOAWAY is the last message on it. The peer
 * reads it, so it has all that was sent before, and answers GOAWAY, its own last message; when that
 * has come everything of both has arrived, and the lane is closed. Messages that follow wait for
 * that, and the first of them connects anew: nothing is lost, nothing comes twice, and the order
 * stays. Long messages of the peer that were under way fail over. A peer that does not answer
 * within RIPC__RETIRE_NS loses the lane as if it had broken.
 *
 *   UP -- descriptors run low: GOAWAY 0 --> RETIRING -- GOAWAY 1, its end, RIPC__RETIRE_NS --> DEAD
 *   UP -- GOAWAY 0 came: GOAWAY 1 ------> RETIRING -- its end, RIPC__RETIRE_NS -----------> DEAD
 *
 * Never retired: lanes that a request, a sender or a group message of ours waits for. Retired last:
 * lanes that we opened or whose peer we looked up. Lanes that only the peer keeps busy break, with
 * what fails over from there, when there is no descriptor left and no idle lane.
 *
 * Peers. One without a lane and without anything outstanding is forgotten: first those that nothing
 * was received from, then those with numbers of datagrams, then those whose finished long messages
 * are known, which is what recognises doubles.
 *
 * Lock held, from a round of progress.
 */
#ifndef RIPC_CORE_PEER_EVICTION_H
#define RIPC_CORE_PEER_EVICTION_H

#include "core/progress/context.h"

#define RIPC__RETIRE_NS (250 * UINT64_C(1000000))

/* Descriptors run low; none: there is none left. */
void ripc__evict_lanes(struct ripc *ctx, bool exhausted);

/*
 * Makes room for one more set-up of others that is not confirmed. It ends lanes: only for an event,
 * never from a walk through ctx->lanes.
 */
void ripc__evict_pending(struct ripc *ctx);

/* The table of peers is full. Return: whether there is room now. */
bool ripc__evict_peers(struct ripc *ctx);

/* GOAWAY came over a lane. answer: to ours. */
void ripc__lane_goaway(struct ripc__lane *lane, bool answer);

/* Whether a lane of p is being retired. */
bool ripc__lane_retiring(struct ripc *ctx, const struct ripc__peer *p);

#endif
