/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Protocol selection: how each item of a long send travels, the memory for it, and its place among
 * the peer's requests.
 */
#ifndef RIPC_CORE_RENDEZVOUS_SELECTION_H
#define RIPC_CORE_RENDEZVOUS_SELECTION_H

#include "core/rendezvous/request.h"

/*
 * Moves PENDING to WRITING for this lane, which is up: reserves credit and exposes the items or
 * assigns bounce buffers. Ends the request if the message can never be sent. Return: 0: the state
 * changed; -EAGAIN: no credit, no room, or the lane is failing.
 */
int ripc__request_select(struct ripc_request *r, struct ripc__lane *lane);
/*
 * The request, in WRITING, has waited for room: mapped items whose buffer was detached meanwhile,
 * or whose export has ended, use another protocol. Return: 0; -EAGAIN: the lane is failing; or an
 * errno, explained, for item r->next.
 */
int ripc__request_reselect(struct ripc_request *r);
/*
 * No byte of a written item could be posted, most often because its whole region cannot be
 * registered. The item then uses a bounce buffer or its own registration. Return: false: it already
 * did, or that failed.
 */
bool ripc__item_fall_back(struct ripc_request *r, struct ripc__request_item *it);
/* Ends remote access and frees the resources. used: the peer knows the return buffers. */
void ripc__request_unselect(struct ripc_request *r, bool used);
/* Removes the request from its peer's list, if it is in it. */
void ripc__request_unlink(struct ripc_request *r);

#endif
