/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages that were given up without an ACK. If a lane was lost, the peer may have a part of
 * such a message, and holds back those behind it until it gets CANCEL. Lock held.
 */
#ifndef RIPC_CORE_RENDEZVOUS_WITHDRAWN_H
#define RIPC_CORE_RENDEZVOUS_WITHDRAWN_H

#include <stdint.h>

struct ripc__lane;
struct ripc__peer;

/*
 * Request id has ended without an ACK. The peer gets CANCEL, on its lane and on each next one: with
 * a lane it may be lost. The last RIPC__REQUESTS_MAX are remembered.
 */
void ripc__withdrawn_add(struct ripc__peer *p, uint64_t id);
void ripc__withdrawn_lane_up(struct ripc__lane *lane);
/* The peer is forgotten; or its lane was idle for so long that it has received them. */
void ripc__withdrawn_free(struct ripc__peer *p);

#endif
