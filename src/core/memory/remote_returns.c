/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Return buffers, the side of the peer that they are offered to. Their owner's: returns.c. */
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/request.h"

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

void ripc__offer_release(struct ripc__lane *lane, struct ripc__dest *d, struct ripc__offer *o,
			 bool used)
{
	o->writing = false;
	if (!used && !o->revoked && !o->orphan)
		return;
	if (o->revoked && lane && lane->state == RIPC__LANE_UP)
		ripc__lane_word(lane, RIPC__REVOKED, 0, 0, o->desc.how, 0);
	if (!o->orphan) {
		ripc__list_del(&o->link);
		d->noffers--;
	}
	free(o);
}

/* The one of an id that a message on its way over the lane is written to, or was: it may be no destination's any more. */
static struct ripc__offer *offer_in_use(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->peer->requests) {
		struct ripc_request *r = ripc__list_entry(n, struct ripc_request, order);

		for (unsigned i = 0; ripc__lane_same(r->lane, lane) && i < r->nitems; i++)
			if (r->items[i].offer && r->items[i].offer->desc.how == id)
				return r->items[i].offer;
	}
	return NULL;
}

void ripc__offer_revoke(struct ripc__lane *lane, struct ripc__dest *d, uint64_t id)
{
	struct ripc__offer *o = NULL;
	struct ripc__list *n;

	if (d && d->peer == lane->peer)
		ripc__list_for_each (n, &d->offers) {
			o = ripc__list_entry(n, struct ripc__offer, link);
			if (o->desc.how == id)
				break;
			o = NULL;
		}
	if (o && !o->writing) {
		o->revoked = true;
		ripc__offer_release(lane, d, o, false);
		return;
	}
	if (!o)
		o = offer_in_use(lane, id);
	/* It is answered when the writing is over. */
	if (o)
		o->revoked = true;
	else /* Never kept, or used: the message that used it went before this answer. */
		ripc__lane_word(lane, RIPC__REVOKED, 0, 0, id, 0);
}
