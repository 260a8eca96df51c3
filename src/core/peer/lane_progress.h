/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events, timers and the queued messages of lanes. */
#ifndef RIPC_CORE_PEER_LANE_PROGRESS_H
#define RIPC_CORE_PEER_LANE_PROGRESS_H

#include "core/peer/lane.h"

/* Handles an event of transport tp and releases its token. */
void ripc__lane_event(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);

/* Keep-alive and pending connection requests. */
void ripc__lane_timers(struct ripc *ctx);

/* Posts reads of the lane's long messages and sends queued messages. */
void ripc__lane_flush(struct ripc__lane *lane);

#endif
