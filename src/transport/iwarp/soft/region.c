/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/region.h"

#include "base/hash.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

void ripc__regions_init(struct ripc__regions *r, const uint8_t secret[16])
{
	memset(r, 0, sizeof(*r));
	ripc__list_init(&r->local);
	memcpy(r->secret, secret, sizeof(r->secret));
	ripc__table_init(&r->table, r->secret[0]);
}

static void region_free(struct ripc__node *node, void *arg)
{
	free(node);
}

void ripc__regions_fini(struct ripc__regions *r)
{
	struct ripc__list *n;

	ripc__table_each(&r->table, region_free, NULL);
	ripc__table_fini(&r->table);
	while ((n = ripc__list_first(&r->local)))
		ripc__region_remove(r, ripc__list_entry(n, struct ripc__region, link));
}

struct ripc__region *ripc__region_add(struct ripc__regions *r, void *base, size_t len,
				      unsigned access)
{
	struct ripc__region *region =
		r->table.count + r->nlocal < RIPC__REGIONS_MAX ? calloc(1, sizeof(*region)) : NULL;

	if (!region)
		return NULL;
	region->base = base;
	region->len = len;
	region->access = access;
	if (!(access & ~(unsigned)RIPC__ACCESS_RESIDENT)) {
		ripc__list_add(&r->local, &region->link);
		r->nlocal++;
		return region;
	}
	ripc__list_init(&region->link);
	do
		region->stag = (uint32_t)ripc__siphash(r->secret, r->drawn++);
	while (!region->stag || ripc__region_find(r, region->stag));
	/* Random in 2^62: no region can wrap round. */
	region->addr = (ripc__siphash(r->secret, r->drawn++) >> 2) & ~UINT64_C(4095);
	region->node.id = region->stag;
	ripc__table_add(&r->table, &region->node);
	return region;
}

void ripc__region_remove(struct ripc__regions *r, struct ripc__region *region)
{
	if (region->stag)
		ripc__table_remove(&r->table, &region->node);
	else
		r->nlocal--;
	ripc__list_del(&region->link);
	free(region);
}

struct ripc__region *ripc__region_find(const struct ripc__regions *r, uint32_t stag)
{
	return (struct ripc__region *)ripc__table_find(&r->table, stag);
}
