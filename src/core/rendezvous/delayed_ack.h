/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The delivery ACK of a long message is sent at once. If the application usually replies soon, it
 * is delayed for a short time and piggybacks on the next message to the sender. A sender that waits
 * then receives ACK and reply as one message.
 *
 *   delivered -> ACK sent at once; the time to the reply is learned
 *             -> ACK delayed, after RIPC__STREAK_MIN quick replies in a row
 *   delayed:  a message leaves over the same lane    piggybacked
 *             an idle poll after HOLD_NS             sent; the lane's ACKs are sent at once for a
 *               while
 *             another message, a control message     sent
 *             the lane is closed                     dropped: the request and its ACK are repeated
 *
 * A context delays at most one ACK. A CREDIT for a service, due while no other lane has something
 * delayed, follows the reply, unless half of the window is used. Without a reply it is sent where
 * an ACK would be, but not by the timer: the peer still has half of the window. All functions need
 * the context's lock.
 */
#ifndef RIPC_CORE_RENDEZVOUS_DELAYED_ACK_H
#define RIPC_CORE_RENDEZVOUS_DELAYED_ACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__STREAK_MIN 4 /* quick replies in a row before an ACK is delayed */
/* as if so many had come: after a slow reply that carried one. Few late replies cost few ACKs. */
#define RIPC__STREAK_LATE 2
/* ACKs sent at once after a delay without a reply: at most one sender in so many waits */
#define RIPC__STREAK_PENALTY 16

struct ripc;
struct ripc_service;
struct ripc__lane;

/*
 * A message of the lane's peer was delivered to s, with status 0 and no item left in place: sends
 * the ACK now or delays it. word: the request, as ripc__rndv_ack_word().
 */
void ripc__delayed_ack_queue(struct ripc__lane *lane, uint64_t word, const struct ripc_service *s);

/*
 * The application is about to send len bytes over lane. Return: true: the message must carry the
 * ACK for request ctx->delayed_ack.word and grows by RIPC__ACK_WORD; false: no ACK is delayed any
 * more.
 */
bool ripc__delayed_ack_piggybacks(struct ripc__lane *lane, size_t len);
/* The message that carries the ACK was sent. */
void ripc__delayed_ack_replied(struct ripc__lane *lane);

/* The application does not reply: sends a delayed ACK, and delays no ACK for a while. */
void ripc__delayed_ack_idle(struct ripc *ctx);
/* Sends a delayed ACK, because a message follows that must arrive after it. */
void ripc__delayed_ack_flush(struct ripc *ctx);
/*
 * len bytes are about to be registered or written before a message. If that takes long, sends a
 * delayed ACK first and marks the clock as stale.
 */
void ripc__delayed_ack_before_copy(struct ripc *ctx, size_t len);
/*
 * At ctx->now_ns: sends an ACK that was delayed for too long. Return: the earlier of deadline and
 * the ACK's deadline.
 */
uint64_t ripc__delayed_ack_timer(struct ripc *ctx, uint64_t deadline);
void ripc__delayed_ack_lane_closed(struct ripc__lane *lane);

#endif
