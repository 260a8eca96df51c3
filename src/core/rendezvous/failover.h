/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fail-over of long messages: the requests that a peer may have delivered, when its lane or the
 * peer is lost. They are sent again on the next lane, under their old ids, or end.
 */
#ifndef RIPC_CORE_RENDEZVOUS_FAILOVER_H
#define RIPC_CORE_RENDEZVOUS_FAILOVER_H

struct ripc__lane;
struct ripc__peer;

/* The peer sent BYE: messages without an ACK are not delivered and never will be. */
void ripc__requests_bye(struct ripc__lane *lane);
/*
 * The lane failed and was closed: its requests go back to their destinations, and to another peer
 * if the service has moved.
 */
void ripc__requests_lane_failed(struct ripc__lane *lane);
/*
 * No address of the peer answers, or it lost its dedup window and could deliver twice what is
 * repeated: ends the requests that it may have delivered, with -EPIPE.
 */
void ripc__requests_unknown(struct ripc__peer *p, const char *why);

#endif
