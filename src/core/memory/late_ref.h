/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Late references: items that a peer reads in place after their request has ended. They are copies
 * of its references, in lane->memory->late_refs, and count in region->sends: the region is not used
 * again before the peer releases them. mapped.h has the rules.
 */
#ifndef RIPC_CORE_MEMORY_LATE_REF_H
#define RIPC_CORE_MEMORY_LATE_REF_H

#include "core/memory/mapped.h"

/*
 * Turns the references to a region into late references: it is not used again before they end.
 * ended: the caller ends the request of these; or NULL. Return: 0, or -ENOMEM and nothing changed.
 */
int ripc__refs_keep(struct ripc__region *region, const struct ripc__export_refs *ended);
/* The peer has released an item of an ended request. lost: another process may still read it. */
void ripc__late_ref_release(struct ripc__lane *lane, uint64_t request, uint64_t item, bool lost);
/* The lane is closed: they end, and their regions are tainted. */
void ripc__late_refs_lane_gone(struct ripc__lane *lane);

/* ---- for detach.c ---- */

/* Whether a reference to the region belongs to a closed lane. */
bool ripc__refs_lost(const struct ripc__region *region);
/* Return: late_refs with one for each reference to the region; NULL: out of memory. */
struct ripc__list *ripc__late_refs_new(const struct ripc__region *region,
				       struct ripc__list *late_refs);
void ripc__late_refs_free(struct ripc__list *late_refs);
/*
 * The references to one region become late references of another one, which may be the same.
 * late_refs: of ripc__late_refs_new(from). ended: the caller ends the request of these; or NULL.
 */
void ripc__refs_outlive_requests(struct ripc__region *from, struct ripc__region *to,
				 struct ripc__list *late_refs,
				 const struct ripc__export_refs *ended);

#endif
