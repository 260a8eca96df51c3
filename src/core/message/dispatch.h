/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each message that arrives to the module of its kind, and releases the event's token. */
#ifndef RIPC_CORE_MESSAGE_DISPATCH_H
#define RIPC_CORE_MESSAGE_DISPATCH_H

#include "core/peer/lane.h"

void ripc__dispatch_message(struct ripc__lane *lane, const struct ripc__event *ev);
void ripc__dispatch_datagram(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);

#endif
