/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From an event of a transport to a message for its service. */
#ifndef RIPC_CORE_MESSAGE_RECEIVE_H
#define RIPC_CORE_MESSAGE_RECEIVE_H

#include "transport/transport.h"

struct ripc;
struct ripc__message;
struct ripc_request;
struct ripc_service;

/*
 * The message of an event, if it is a short one of one item for s, the next one of its sender, and
 * nothing else has to be done for it. s: ready to receive, with an empty queue. m: the next message
 * of the cache, in whose room the event may lie. Lock held. Return: m with the message, taken out
 * of the cache, not in ctx->messages; NULL: nothing was done, ripc__dispatch_event() does all.
 */
struct ripc__message *ripc__dispatch_to(struct ripc_service *s, unsigned tp,
					struct ripc__message *m, const struct ripc__event *ev);

/*
 * Polls for the end of a request as ripc_receive() polls for a message, without becoming the
 * leader. r: NULL: any completion. Lock held.
 */
void ripc__poll_request(struct ripc *ctx, const struct ripc_request *r, int timeout_ms);

#endif
