/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A long send before it goes over a lane: how each of its items travels, the memory for it, and its place among the peer's requests. */
#ifndef RIPC_CORE_RENDEZVOUS_SELECTION_H
#define RIPC_CORE_RENDEZVOUS_SELECTION_H

#include "core/rendezvous/request.h"

/*
 * PENDING becomes WRITING, for this lane, which is up: credit is reserved, its items are exposed, or have stages to be copied into. Or DONE, if that can never
 * be. Return: 0 it is one of them; -EAGAIN neither: credit or room is lacking, or the lane is about to go.
 */
int ripc__request_select(struct ripc_request *r, struct ripc__lane *lane);
/*
 * Nothing of an item that is to be written could be posted: most often as the region it lies in cannot be registered whole. It leaves
 * from a stage, or is registered by itself. Return: false: it did already, or that fails, too.
 */
bool ripc__item_fall_back(struct ripc_request *r, struct ripc__request_item *it);
/* Ends remote access and gives back what was taken. used: the peer has been told of the return buffers. */
void ripc__request_unselect(struct ripc_request *r, bool used);
/* Leaves its peer's requests, if it is among them. */
void ripc__request_unlink(struct ripc_request *r);

#endif
