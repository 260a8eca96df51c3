/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The items of sent requests that the peer reads in place: their release, and the time after which
 * the sender takes them back by a copy. memory/mapped.h has the references themselves.
 */
#ifndef RIPC_CORE_RENDEZVOUS_REQUEST_REFS_H
#define RIPC_CORE_RENDEZVOUS_REQUEST_REFS_H

#include "core/rendezvous/request.h"

/* The LONG was sent: the references to its mapped items begin. */
void ripc__request_refs_begin(struct ripc_request *r);
/* The ACK arrived. kept: the peer goes on reading; else the references end. */
void ripc__request_refs_acked(struct ripc_request *r, bool kept);
/* RELEASE arrived. item: its index, and RIPC__RELEASE_LOST. */
void ripc__request_release_item(struct ripc__lane *lane, uint64_t id, uint64_t item);
/* Unexports the items that the peer still reads. Return: whether all could be unexported. */
bool ripc__request_unexport(struct ripc_request *r);
/*
 * Detaches items that peers have read in place for too long: copies them and ends their requests.
 */
void ripc__requests_timer(struct ripc__lane *lane);

#endif
