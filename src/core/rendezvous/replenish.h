/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Standing grants (core/memory/standing.h): peers that send medium items get pool buffers, so that
 * their next items are written ahead of the LONG.
 */
#ifndef RIPC_CORE_RENDEZVOUS_REPLENISH_H
#define RIPC_CORE_RENDEZVOUS_REPLENISH_H

#include "core/peer/lane.h"

/* Whether a bounce buffer that was used stays granted, as the service is read. */
bool ripc__standing_stays(const struct ripc__flow *flow);
/* An item of this length arrived in a LONG, not inline: grants buffers for the next ones. */
void ripc__standing_replenish(struct ripc__flow *flow, uint64_t len);

#endif
