/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sending side of a long message, from ripc_send_async() to its end.
 *
 *   PENDING -- lane, credit --> WRITING (items into return buffers) --> SENT -- ACK --> done
 *                                              SENT -- GRANT --> GRANTED -- FIN --> SENT
 *   lane lost: back to PENDING, in order; the id stays, so that the receiver recognizes a
 *     repetition
 *   cancel:    PENDING -> done at once; other states wait for the peer's ACK or the end of the lane
 *
 * ripc__request_set_state() asserts that a transition is in the table of request.c.
 */
#ifndef RIPC_CORE_RENDEZVOUS_SENDER_H
#define RIPC_CORE_RENDEZVOUS_SENDER_H

#include "core/rendezvous/request.h"

/*
 * Sends the request over the lane of its destination's peer, which is up. Return: 0: it left
 * dest->pending; -EAGAIN: no credit or no room, it stays at the head; call again.
 */
int ripc__request_issue(struct ripc_request *r);
void ripc__request_write_done(const struct ripc__event *ev);
int ripc__request_grant(struct ripc__lane *lane, const struct ripc__header *h, const char **why);
/*
 * The lane's queue has room: continues its requests, until it is closed. Return: whether messages
 * of other destinations can be flushed.
 */
bool ripc__requests_continue(struct ripc__lane *lane);
/*
 * Ends a cancelled request whose ACK has not arrived, if the peer has no access to the memory of
 * its caller: all items travelled in the message, or are detached. Its delivery is unknown.
 */
void ripc__request_withdraw(struct ripc_request *r);
/* Cancels the request: it ends at once, or CANCEL is sent and the ACK ends it. */
void ripc__request_abort(struct ripc_request *r);

#endif
