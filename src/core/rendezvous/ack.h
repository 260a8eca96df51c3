/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The peer's ACK for a request, in a message of its own, in the header of another one, or as the
 * first RELEASE. It ends the request when no write is posted and no item is referenced.
 */
#ifndef RIPC_CORE_RENDEZVOUS_ACK_H
#define RIPC_CORE_RENDEZVOUS_ACK_H

#include "core/rendezvous/request.h"

/*
 * Handles the peer's ACK for a request; word: its id, and RIPC__ACK_REUSABLE. Unknown ids have
 * ended and are ignored.
 */
void ripc__request_acked(struct ripc__lane *lane, uint64_t word, int status, bool kept);
/* The ACK of this request, without standing buffers. */
void ripc__request_ack(struct ripc_request *r, int status, bool kept);
/* Ends the request by its ACK, which has arrived. No write is posted, and no item is referenced. */
void ripc__request_conclude(struct ripc_request *r);
/* The ACK has arrived: ends the request if no write and no export remains. */
void ripc__request_conclude_if_idle(struct ripc_request *r);

#endif
