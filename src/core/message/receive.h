/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From an event of a transport to a message for its service. */
#ifndef RIPC_CORE_MESSAGE_RECEIVE_H
#define RIPC_CORE_MESSAGE_RECEIVE_H

#include "transport/transport.h"

struct ripc;
struct ripc__message;
struct ripc_request;
struct ripc_service;

enum ripc__fast {
	RIPC__FAST_NOTHING, /* nothing was done: ripc__dispatch_event() does all */
	RIPC__FAST_MESSAGE, /* m is a message for s, not yet handed out */
	RIPC__FAST_DONE,    /* m was an answer: its call has ended */
};

/*
 * Receives a short message of one item for s, or an answer, if it is the next one of its sender and
 * nothing else has to be done for it. s: ready to receive, with an empty queue; NULL: answers only.
 * m: the next message of the cache, in whose room the event may lie; it is taken out of the cache
 * if something was done. Lock held.
 */
enum ripc__fast ripc__fast_receive(struct ripc *ctx, struct ripc_service *s, unsigned tp,
				   struct ripc__message *m, const struct ripc__event *ev);

/*
 * Polls for the end of a request as ripc_receive() polls for a message, without becoming the
 * leader. r: NULL: any completion. Lock held.
 */
void ripc__poll_request(struct ripc *ctx, const struct ripc_request *r, int timeout_ms);
/*
 * The first poll of a call with timeout 0 for a request: of the endpoints that were active last. It
 * handles at most one event, as the fast path of ripc_receive() does, which costs less than a pass.
 * Return: there was none, and no transport needs a pass to find one. Lock held.
 */
bool ripc__poll_request_once(struct ripc *ctx);

/* One poll for an answer, whose arrival wakes who waits for it: a ripc__poll_fn. Return: false. */
bool ripc__poll_answer(struct ripc *ctx, void *unused);

#endif
