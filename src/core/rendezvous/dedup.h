/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The dedup window of a peer: which of its requests have ended, so that none is delivered twice. */
#ifndef RIPC_CORE_RENDEZVOUS_DEDUP_H
#define RIPC_CORE_RENDEZVOUS_DEDUP_H

#include "core/peer/peer.h"

/*
 * The byte of an id in the bitmap of those that have ended, and its bit there. The bitmap of those
 * that have failed is behind that one.
 */
static inline uint8_t *ripc__dedup_byte(const struct ripc__peer *p, uint64_t id)
{
	return p->dedup_bitmap + id % RIPC__REQUESTS_MAX / 8;
}

static inline uint8_t ripc__dedup_bit(uint64_t id)
{
	return (uint8_t)(1u << id % 8);
}

/* Room for the record of requests that end. Return: whether there is memory. */
bool ripc__dedup_begin(struct ripc__peer *p);
/* Records that request id of the peer has ended, for which there is room. */
static inline void ripc__dedup_mark(struct ripc__peer *p, uint64_t id)
{
	*ripc__dedup_byte(p, id) |= ripc__dedup_bit(id);
}
/*
 * The same, and that there was no memory for it: a repetition, which came behind later ones, is not
 * received. Without memory for the record it is.
 */
void ripc__dedup_mark_failed(struct ripc__peer *p, uint64_t id);
/* Whether it has ended. */
static inline bool ripc__dedup_seen(const struct ripc__peer *p, uint64_t id)
{
	return id < p->dedup_base ||
	       (p->dedup_bitmap && *ripc__dedup_byte(p, id) & ripc__dedup_bit(id));
}
/* Whether there was no memory for a request that has ended. */
bool ripc__dedup_failed(const struct ripc__peer *p, uint64_t id);
/* All requests below this id have ended: advances the window. */
void ripc__dedup_advance(struct ripc__peer *p, uint64_t below);

#endif
