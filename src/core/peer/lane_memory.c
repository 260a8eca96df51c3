/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/lane.h"

#include <stdlib.h>

#define EMPTY(list)                                                                  \
	{                                                                            \
		(struct ripc__list *)(uintptr_t)&ripc__lane_memory_none.list,        \
			(struct ripc__list *)(uintptr_t)&ripc__lane_memory_none.list \
	}

const struct ripc__lane_memory ripc__lane_memory_none = {
	.rndvs = EMPTY(rndvs),
	.exports = EMPTY(exports),
	.imports = EMPTY(imports),
	.late_refs = EMPTY(late_refs),
	.bounces = EMPTY(bounces),
	.standing = EMPTY(standing),
};

void ripc__lane_memory_init(struct ripc__lane *lane)
{
	lane->memory = (struct ripc__lane_memory *)(uintptr_t)&ripc__lane_memory_none;
}

struct ripc__lane_memory *ripc__lane_memory_get(struct ripc__lane *lane)
{
	struct ripc__lane_memory *m = lane->memory;

	if (m != &ripc__lane_memory_none)
		return m;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	ripc__list_init(&m->rndvs);
	ripc__list_init(&m->exports);
	ripc__list_init(&m->imports);
	ripc__list_init(&m->late_refs);
	ripc__list_init(&m->bounces);
	ripc__list_init(&m->standing);
	lane->memory = m;
	return m;
}

void ripc__lane_memory_trim(struct ripc__lane *lane)
{
	struct ripc__lane_memory *m = lane->memory;

	/* An id is never used again. */
	if (!m->last_export_id && ripc__list_empty(&m->rndvs) && ripc__list_empty(&m->exports) &&
	    ripc__list_empty(&m->imports) && ripc__list_empty(&m->late_refs) &&
	    ripc__list_empty(&m->bounces) && ripc__list_empty(&m->standing))
		ripc__lane_memory_free(lane);
}

void ripc__lane_memory_free(struct ripc__lane *lane)
{
	if (lane->memory != &ripc__lane_memory_none)
		free(lane->memory);
	ripc__lane_memory_init(lane);
}
