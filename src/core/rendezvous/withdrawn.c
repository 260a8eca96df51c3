/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/withdrawn.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"

#include <stdlib.h>

struct withdrawn {
	struct ripc__list link; /* in p->lists->withdrawn */
	uint64_t id;
};

void ripc__withdrawn_add(struct ripc__peer *p, uint64_t id)
{
	/* Without memory the messages behind it wait until the peer gets a further one. */
	struct withdrawn *w = ripc__peer_lists(p) ? malloc(sizeof(*w)) : NULL, *old;

	if (w) {
		old = ripc__list_first_entry(&p->lists->withdrawn, struct withdrawn, link);
		/* A message of this id or above shows that it has ended (dedup_base). */
		if (old && old->id + RIPC__REQUESTS_MAX <= id) {
			ripc__list_del(&old->link);
			free(old);
		}
		w->id = id;
		ripc__list_add(&p->lists->withdrawn, &w->link);
	}
	if (p->lane)
		ripc__lane_notify(p->lane, RIPC__CANCEL, 0, 0, id, 0);
}

void ripc__withdrawn_lane_up(struct ripc__lane *lane)
{
	const struct withdrawn *w;

	ripc__list_for_each_entry (w, &lane->peer->lists->withdrawn, link)
		ripc__lane_notify(lane, RIPC__CANCEL, 0, 0, w->id, 0);
}

void ripc__withdrawn_free(struct ripc__peer *p)
{
	ripc__list_free(&p->lists->withdrawn, struct withdrawn, link);
}
