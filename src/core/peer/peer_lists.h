/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Lists that are empty at an idle peer, and its datagrams. They are allocated when something is
 * added, and exist while the peer has a destination, struct ripc__reliable, or a long message on
 * its way in.
 */
#ifndef RIPC_CORE_PEER_PEER_LISTS_H
#define RIPC_CORE_PEER_PEER_LISTS_H

#include "base/list.h"

struct ripc__peer;

struct ripc__peer_lists {
	struct ripc__list dests;    /* struct ripc__dest */
	struct ripc__list requests; /* struct ripc_request: sent and unacknowledged, by id */
	struct ripc__list rndvs; /* struct ripc__rndv: its incoming long messages, oldest first */
	/* payload of those that are being fetched or complete, and of the complete: arriving.h */
	uint64_t arriving_bytes, ready_bytes;
	/* struct ripc__message: requests of it that we have not answered */
	struct ripc__list served;
	struct ripc__list attempts;       /* struct ripc__attempt: cause of failure per path */
	struct ripc__list orphan_returns; /* struct ripc__remote_return: written by messages */
	struct ripc__list watches;        /* core/watch/watch.c: of services that it holds */
	struct ripc__list withdrawn;      /* core/rendezvous/withdrawn.c: CANCEL is due */
	struct ripc__peer_datagrams *datagrams; /* NULL: none sent or received yet */
	void *replies; /* core/call/callee.c: owner of answers that wait; NULL: none waited yet */
};

/* Those of all peers that have none: empty, and never written. */
extern const struct ripc__peer_lists ripc__peer_lists_none;

/* Before something is added to them. Return: p->lists, or NULL: out of memory. */
struct ripc__peer_lists *ripc__peer_lists(struct ripc__peer *p);
/* For a new peer: none. */
void ripc__peer_lists_init(struct ripc__peer *p);
/* Frees the lists, which are all empty. */
void ripc__peer_lists_free(struct ripc__peer *p);

#endif
