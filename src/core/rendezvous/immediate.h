/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages that are one write with immediate data (wire/immediate.h). The lane has
 * RIPC__CAP_WRITE_IMM, and a message of one item into a standing buffer follows the last LONG of
 * the lane, between the same services. All functions need the context's lock.
 */
#ifndef RIPC_CORE_RENDEZVOUS_IMMEDIATE_H
#define RIPC_CORE_RENDEZVOUS_IMMEDIATE_H

#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/request.h"

/* The id of the oldest request to a peer that has one. */
static inline uint64_t ripc__oldest_request(const struct ripc__peer *p)
{
	return ripc__list_entry(p->lists->requests.next, struct ripc_request, peer_link)->id;
}

/* These two are for lanes with RIPC__CAP_WRITE_IMM alone. */

/*
 * Whether one write suffices for r, which was selected and of which nothing was posted. *word: its
 * immediate data for ripc__lane_post_write(). Sends a delayed ACK of another lane.
 */
bool ripc__immediate_of(const struct ripc_request *r, uint32_t *word);
/* A LONG was sent: the next one refers to it. */
void ripc__immediate_sent(const struct ripc_request *r);

/*
 * Decodes EV_WRITTEN into the LONG that it replaces. desc: room for its descriptor. Return: 0, or
 * -EPROTO with *why.
 */
int ripc__immediate_get(const struct ripc__lane *lane, const struct ripc__event *ev,
			struct ripc__header *h, uint8_t desc[RIPC__DESC_LEN], const char **why);
/* A LONG was received: the next one refers to it. Return: false: out of memory. */
bool ripc__immediate_received(struct ripc__lane *lane, const struct ripc__header *h);

#endif
