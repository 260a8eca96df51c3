/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Plain messages: short ones of one item that need nothing else, to a peer whose lane is up and with room for them, or for the
 * service that asks. For these there is a straight road past all that a message may need; whatever is not plain takes the
 * general one, with the same result. Both take turns freely: they share sequence numbers, credit, counters and queues.
 */
#ifndef RIPC_CORE_PLAIN_H
#define RIPC_CORE_PLAIN_H

#include "core/service.h"

#include <sys/uio.h>

/* Sends one item to a service if that is plain. Nothing was checked but that s is there; the lock is held. Return: whether it was sent. */
bool ripc__plain_send(struct ripc_service *s, uint64_t dest, const struct iovec *item, bool more);

/*
 * A look at the network by a thread that does not drive, while nothing waits in the queue of s: for a plain message, and for whatever else
 * comes. The lock is held all the time. Return: a message for s, which is in no queue and whose credit is given back. NULL: there is none, or
 * something came to the queue.
 */
struct ripc__message *ripc__plain_receive(struct ripc_service *s);

#endif
