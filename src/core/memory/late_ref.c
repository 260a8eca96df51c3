/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/late_ref.h"
#include "core/memory/buffer.h"
#include "core/peer/lane.h"

#include <stdlib.h>

static bool lane_closed(const struct ripc__lane *lane)
{
	/* References in a list have a lane. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	return lane->state == RIPC__LANE_DEAD || !lane->ep;
}

bool ripc__refs_lost(const struct ripc__region *region)
{
	const struct ripc__export_ref *ref;

	ripc__list_for_each_entry (ref, &region->refs, link)
		if (lane_closed(ref->lane))
			return true;
	return false;
}

void ripc__late_refs_free(struct ripc__list *late_refs)
{
	ripc__list_free(late_refs, struct ripc__export_ref, link);
}

struct ripc__list *ripc__late_refs_new(const struct ripc__region *region,
				       struct ripc__list *late_refs)
{
	const struct ripc__list *n;

	ripc__list_init(late_refs);
	ripc__list_for_each (n, &region->refs) {
		struct ripc__export_ref *late = calloc(1, sizeof(*late));

		if (late) {
			ripc__list_add(late_refs, &late->link);
			continue;
		}
		ripc__late_refs_free(late_refs);
		return NULL;
	}
	return late_refs;
}

void ripc__refs_outlive_requests(struct ripc__region *from, struct ripc__region *to,
				 struct ripc__list *late_refs,
				 const struct ripc__export_refs *ended)
{
	struct ripc__export_ref *ref;

	while ((ref = ripc__list_first_entry(&from->refs, struct ripc__export_ref, link))) {
		struct ripc__export_ref *late = ripc__list_entry(ripc__list_first(late_refs),
								 struct ripc__export_ref, link);

		ripc__list_del(&late->link);
		if (lane_closed(ref->lane)) {
			ripc__region_taint(to);
			free(late);
		} else {
			*late = *ref;
			late->region = to;
			late->lane->memory->ref_bytes += late->len;
			ripc__list_add(&late->lane->memory->late_refs, &late->link);
			to->sends++;
		}
		if (ref->refs == ended)
			ripc__export_ref_end(ref);
		else
			ripc__export_ref_end_early(from->ctx, ref);
	}
}

int ripc__refs_keep(struct ripc__region *region, const struct ripc__export_refs *ended)
{
	struct ripc__list late_refs;

	if (!ripc__late_refs_new(region, &late_refs))
		return -ENOMEM;
	ripc__refs_outlive_requests(region, region, &late_refs, ended);
	return 0;
}

static void late_ref_end(struct ripc__export_ref *late, bool lost)
{
	struct ripc__region *region = late->region;

	ripc__list_del(&late->link);
	late->lane->memory->ref_bytes -= late->len;
	free(late);
	if (lost)
		ripc__region_taint(region);
	if (!--region->sends)
		ripc__region_release(region->ctx, region);
}

void ripc__late_ref_release(struct ripc__lane *lane, uint64_t request, uint64_t item, bool lost)
{
	struct ripc__export_ref *late;

	ripc__list_for_each_entry (late, &lane->memory->late_refs, link) {
		if (late->request == request && late->item == item) {
			late_ref_end(late, lost);
			return;
		}
	}
}

void ripc__late_refs_lane_gone(struct ripc__lane *lane)
{
	struct ripc__list *n;

	/* The peer may be alive, and its application may still read. */
	while ((n = ripc__list_first(&lane->memory->late_refs)))
		late_ref_end(ripc__list_entry(n, struct ripc__export_ref, link), true);
}
