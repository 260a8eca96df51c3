/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Return buffers, the side of the peer that they are offered to. Their owner's: returns.c. */
#include "core/lane.h"
#include "core/peer.h"

#include <stdlib.h>

void ripc__offers_drop(struct ripc__dest *d)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &d->offers) {
		struct ripc__offer *o = ripc__list_entry(n, struct ripc__offer, link);

		/* One that is written to belongs to its request until that lets go of it. */
		ripc__list_del(&o->link);
		if (o->writing)
			o->orphan = true;
		else
			free(o);
	}
	d->noffers = 0;
}

void ripc__offer_release(struct ripc *ctx, struct ripc__dest *d, struct ripc__offer *o, bool used)
{
	o->writing = false;
	if (o->orphan) {
		free(o);
		return;
	}
	if (!used && !o->revoked)
		return;
	if (o->revoked && d->peer && d->peer->lane)
		ripc__lane_word(d->peer->lane, RIPC__REVOKED, 0, 0, o->desc.how, 0);
	ripc__list_del(&o->link);
	free(o);
	d->noffers--;
}
