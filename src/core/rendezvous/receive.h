/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The arrival of a LONG message: recognizes a repetition, decodes the items, and begins the
 * transfer (receiver.h).
 */
#ifndef RIPC_CORE_RENDEZVOUS_RECEIVE_H
#define RIPC_CORE_RENDEZVOUS_RECEIVE_H

#include "core/peer/lane.h"

/* Handles a LONG for a service. The flow holds credit units for it. */
void ripc__rndv_receive(struct ripc__lane *lane, struct ripc__flow *flow,
			const struct ripc__header *h, const struct ripc__event *ev, uint32_t units);

#endif
