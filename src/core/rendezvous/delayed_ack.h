/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ACK that a long message is answered with: sent at once, or held back for a moment and carried by the next message to its
 * sender, where the application is known to answer soon. Who sends and waits then has the ACK and the answer in one.
 *
 *   delivered -> due, not held (ACK was sent; what the application does next is learned from)
 *             -> due, held     (after it has answered soon several times in a row)
 *   then: a message goes over the same lane          carried
 *         a look in vain, HOLD_NS are over           sent; that lane's are not held again for long
 *         another message, a control message, ...    sent
 *         the lane is closed                         forgotten: the request is sent again, and answered again
 *
 * At most one is due in a context. All with its lock held.
 */
#ifndef RIPC_CORE_RENDEZVOUS_DELAYED_ACK_H
#define RIPC_CORE_RENDEZVOUS_DELAYED_ACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ripc;
struct ripc_service;
struct ripc__lane;

struct ripc__delayed_ack {
	struct ripc__lane *lane; /* that the message came by; NULL: nothing is due, and nothing else here means anything */
	uint64_t id;           /* of the request */
	uint64_t delivered_ns; /* when the message was delivered */
	bool held;             /* it was not sent yet; false without a lane */
};

/* A message of the lane's peer has been delivered to s, with status 0 and nothing kept: ACK is sent, now or soon. */
void ripc__delayed_ack_queue(struct ripc__lane *lane, uint64_t id, const struct ripc_service *s);

/*
 * A message of the application is about to leave by a lane, len bytes long. Return: true: it has to carry ACK, for the request
 * ctx->done.id; then it is RIPC__ACK_WORD longer. false: nothing is held any more.
 */
bool ripc__delayed_ack_piggybacks(struct ripc__lane *lane, size_t len);
/* It has left. */
void ripc__delayed_ack_replied(struct ripc__lane *lane);

/* The application does something else, or nothing: what is held is sent, and not held again for some time. */
void ripc__delayed_ack_idle(struct ripc *ctx);
/* What is held is sent, as something comes before which it must be there. */
void ripc__delayed_ack_flush(struct ripc *ctx);
/*
 * len bytes are about to be registered, or written ahead of a message. If that takes its time, what is held is sent first, and the clock
 * is read again after it.
 */
void ripc__delayed_ack_before_copy(struct ripc *ctx, size_t len);
/* At ctx->now_ns: sends what was held for too long. Return: deadline, or when that will be if it is earlier. */
uint64_t ripc__delayed_ack_timer(struct ripc *ctx, uint64_t deadline);
void ripc__delayed_ack_lane_closed(struct ripc__lane *lane);

#endif
