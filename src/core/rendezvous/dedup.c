/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The dedup window: a bit for each of a peer's recent request ids that has ended, and once one has
 * failed, another bit for those that have. All ids below the window have ended.
 */
#include "core/rendezvous/dedup.h"

#include <stdlib.h>
#include <string.h>

#define BYTES (RIPC__REQUESTS_MAX / 8) /* of one bitmap */

bool ripc__dedup_failed(const struct ripc__peer *p, uint64_t id)
{
	return id >= p->dedup_base && p->dedup_failures &&
	       ripc__dedup_byte(p, id)[BYTES] & ripc__dedup_bit(id);
}

bool ripc__dedup_begin(struct ripc__peer *p)
{
	if (!p->dedup_bitmap)
		p->dedup_bitmap = calloc(1, BYTES);
	return p->dedup_bitmap;
}

void ripc__dedup_mark_failed(struct ripc__peer *p, uint64_t id)
{
	if (p->dedup_bitmap && !p->dedup_failures) {
		uint8_t *both = realloc(p->dedup_bitmap, (size_t)2 * BYTES);

		if (!both)
			return;
		memset(both + BYTES, 0, BYTES);
		p->dedup_bitmap = both;
		p->dedup_failures = true;
	}
	if (!p->dedup_failures)
		return;
	*ripc__dedup_byte(p, id) |= ripc__dedup_bit(id);
	ripc__dedup_byte(p, id)[BYTES] |= ripc__dedup_bit(id);
}

void ripc__dedup_advance(struct ripc__peer *p, uint64_t below)
{
	uint64_t id = p->dedup_base;

	if (below <= id)
		return;
	p->dedup_base = below;
	if (!p->dedup_bitmap)
		return;
	if (below - id > RIPC__REQUESTS_MAX)
		id = below - RIPC__REQUESTS_MAX;
	for (; id < below; id++) {
		*ripc__dedup_byte(p, id) &= (uint8_t)~ripc__dedup_bit(id);
		if (p->dedup_failures)
			ripc__dedup_byte(p, id)[BYTES] &= (uint8_t)~ripc__dedup_bit(id);
	}
}
