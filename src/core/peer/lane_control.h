/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The messages of the lane's own protocol: CREDIT, FLOW_END, PING and PONG, GOAWAY. Only this file
 * of core/peer names a kind of message; core/message/control.c receives them. The layers above send
 * theirs by ripc__lane_control() and ripc__lane_notify(). Lock held.
 */
#ifndef RIPC_CORE_PEER_LANE_CONTROL_H
#define RIPC_CORE_PEER_LANE_CONTROL_H

#include "core/peer/lane.h"
#include "core/peer/lane_post.h"

/* Returns receive buffers to the peer. */
void ripc__lane_post_credit(struct ripc__lane *lane);
/*
 * The same when half of the buffers that no message holds are free, and no other message has
 * returned them: half of all would never be reached when half are held. May use the last credit.
 */
static inline void ripc__lane_send_credit(struct ripc__lane *lane)
{
	if (lane->state == RIPC__LANE_UP && lane->rx_depth && lane->rx_credits_due &&
	    lane->rx_credits_due >= (lane->rx_depth - lane->rx_held + 1) / 2 &&
	    ripc__lane_has_credit(lane, true))
		ripc__lane_post_credit(lane);
}
/*
 * Whether a message may keep its receive buffer: fewer than half of them are held, and more than
 * RIPC__RECV_DEPTH_MIN are left. So a slow service does not take the buffers of the others.
 */
static inline bool ripc__lane_may_hold(const struct ripc__lane *lane)
{
	return lane->rx_held < lane->rx_depth / 2 &&
	       lane->rx_held + RIPC__RECV_DEPTH_MIN < lane->rx_depth;
}
/* A message keeps its receive buffer: the peer may wait for half of the others now. */
static inline void ripc__lane_hold(struct ripc__lane *lane)
{
	lane->rx_held++;
	ripc__lane_send_credit(lane);
}
/* The peer may send messages to a local service up to flow->advertised_units. */
static inline void ripc__flow_send_credit(struct ripc__flow *flow)
{
	ripc__lane_notify(flow->lane, RIPC__CREDIT, 0, flow->id, flow->advertised_units, 0);
}
static inline void ripc__flow_send_end(struct ripc__lane *lane, uint64_t id, uint64_t arrived_units)
{
	ripc__lane_notify(lane, RIPC__FLOW_END, 0, id, arrived_units, 0);
}
/* Asks for a sign of life. The peer sends delayed acknowledgements before the PONG. */
void ripc__lane_ping(struct ripc__lane *lane);
/*
 * Sends a PING, with the word 0, behind a refusal. When its PONG arrives the sender has received
 * the refusal, and what it sent before is here.
 */
void ripc__lane_barrier(struct ripc__lane *lane);
/* Answers a PING, which had this word. */
static inline void ripc__lane_pong(struct ripc__lane *lane, uint64_t word)
{
	ripc__lane_notify(lane, RIPC__PONG, 0, 0, word, 0);
}
/* The last message of this side: eviction.h. answer: to a GOAWAY of the peer. */
static inline void ripc__lane_send_goaway(struct ripc__lane *lane, bool answer)
{
	ripc__lane_notify(lane, RIPC__GOAWAY, 0, 0, answer, 0);
}
/* Both sides sent GOAWAY: answers on a retiring lane. Return: false: no credit or no room. */
bool ripc__lane_answer_goaway(struct ripc__lane *lane);

#endif
