/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages that were given up after their lane was lost. The peer may have a part of such a
 * message, and holds back those behind it until it gets CANCEL. Lock held.
 */
#ifndef RIPC_CORE_RENDEZVOUS_WITHDRAWN_H
#define RIPC_CORE_RENDEZVOUS_WITHDRAWN_H

#include <stdint.h>

struct ripc__lane;
struct ripc__peer;

/* Request id has ended without an ACK. The peer gets CANCEL, on its next lane if there is none. */
void ripc__withdrawn_add(struct ripc__peer *p, uint64_t id);
/* The peer's lane is up: sends what is due. */
void ripc__withdrawn_lane_up(struct ripc__lane *lane);
/* The peer is lost, and what it had of them. */
void ripc__withdrawn_free(struct ripc__peer *p);

#endif
