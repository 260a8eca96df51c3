/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The dedup window of a peer: which of its requests have ended, so that none is delivered twice. */
#ifndef RIPC_CORE_RENDEZVOUS_DEDUP_H
#define RIPC_CORE_RENDEZVOUS_DEDUP_H

#include "core/peer/peer.h"

/* Room for the record of requests that end. Return: whether there is memory. */
bool ripc__dedup_begin(struct ripc__peer *p);
/* Records that request id of the peer has ended, for which there is room. */
void ripc__dedup_mark(struct ripc__peer *p, uint64_t id);
/*
 * The same, and that there was no memory for it: a repetition, which came behind later ones, is not
 * received. Without memory for the record it is.
 */
void ripc__dedup_mark_failed(struct ripc__peer *p, uint64_t id);
/* Whether it has ended. */
bool ripc__dedup_seen(const struct ripc__peer *p, uint64_t id);
/* Whether there was no memory for a request that has ended. */
bool ripc__dedup_failed(const struct ripc__peer *p, uint64_t id);
/* All requests below this id have ended: advances the window. */
void ripc__dedup_advance(struct ripc__peer *p, uint64_t below);

#endif
