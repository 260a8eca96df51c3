/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The dedup window: a bit for each of a peer's recent request ids that has ended. All ids below the
 * window have ended.
 */
#include "core/rendezvous/dedup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool ripc__dedup_seen(const struct ripc__peer *p, uint64_t id)
{
	if (id < p->dedup_base)
		return true;
	if (!p->dedup_bitmap)
		return false;
	id %= RIPC__REQUESTS_MAX;
	return p->dedup_bitmap[id / 8] & 1u << id % 8;
}

int ripc__dedup_mark(struct ripc__peer *p, uint64_t id)
{
	if (!p->dedup_bitmap) {
		p->dedup_bitmap = calloc(1, RIPC__REQUESTS_MAX / 8);
		if (!p->dedup_bitmap)
			return -ENOMEM;
	}
	id %= RIPC__REQUESTS_MAX;
	p->dedup_bitmap[id / 8] |= (uint8_t)(1u << id % 8);
	return 0;
}

void ripc__dedup_advance(struct ripc__peer *p, uint64_t below)
{
	if (below <= p->dedup_base)
		return;
	if (p->dedup_bitmap) {
		if (below - p->dedup_base >= RIPC__REQUESTS_MAX) {
			memset(p->dedup_bitmap, 0, RIPC__REQUESTS_MAX / 8);
		} else {
			for (uint64_t id = p->dedup_base; id < below; id++) {
				unsigned bit = id % RIPC__REQUESTS_MAX;

				p->dedup_bitmap[bit / 8] &= (uint8_t) ~(1u << bit % 8);
			}
		}
	}
	p->dedup_base = below;
}
