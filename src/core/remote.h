/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The straight road of core/plain.c, where a network lies on it: plain messages that travel as datagrams, or over a lane on which
 * each of them takes a receive buffer of the peer.
 */
#ifndef RIPC_CORE_REMOTE_H
#define RIPC_CORE_REMOTE_H

#include "core/context.h"

struct ripc__message;

/*
 * Sends a short message of one item by the way that ripc__send_short() would, if nothing stands in it. Of the arguments nothing was
 * checked but that s is there. Lock held. Return: whether it was sent.
 */
bool ripc__remote_send(struct ripc_service *s, uint64_t dest, const struct iovec *item, bool more);

/*
 * The message that an event of take() brought, if it is a plain one for s, whose queue is empty. m: the next one of the cache, in whose
 * room it may lie. Lock held. Return: m with it, taken out of the cache; NULL: nothing was done.
 */
struct ripc__message *ripc__remote_message(struct ripc_service *s, unsigned tp,
					   struct ripc__message *m, const struct ripc__event *ev);

#endif
