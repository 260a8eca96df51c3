/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Remote return buffers: the side of the peer that has the offers. The owner's side:
 * local_returns.c.
 */
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/sender.h"

#include <stdlib.h>

void ripc__remote_returns_drop(struct ripc__dest *d)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &d->remote_returns) {
		struct ripc__remote_return *o = ripc__list_entry(n, struct ripc__remote_return, link);

		/* An offer in use belongs to its request. */
		ripc__list_del(&o->link);
		if (o->writing)
			o->orphan = true;
		else
			free(o);
	}
	d->nremote_returns = 0;
}

void ripc__remote_return_release(struct ripc__lane *lane, struct ripc__dest *d,
				 struct ripc__remote_return *o, bool used)
{
	o->writing = false;
	if (!used && !o->revoked && !o->orphan)
		return;
	if (o->revoked && lane && lane->state == RIPC__LANE_UP)
		ripc__lane_notify(lane, RIPC__REVOKED, 0, 0, o->desc.how, 0);
	if (!o->orphan) {
		ripc__list_del(&o->link);
		d->nremote_returns--;
	}
	free(o);
}

/*
 * Finds an offer by id among the requests in transfer over the lane; it may have left its
 * destination's list.
 */
static struct ripc__remote_return *remote_return_in_use(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->peer->requests) {
		struct ripc_request *r = ripc__list_entry(n, struct ripc_request, peer_link);

		for (unsigned i = 0; ripc__lane_same(r->lane, lane) && i < r->nitems; i++)
			if (r->items[i].remote_return && r->items[i].remote_return->desc.how == id)
				return r->items[i].remote_return;
	}
	return NULL;
}

void ripc__remote_return_revoke(struct ripc__lane *lane, struct ripc__dest *d, uint64_t id)
{
	struct ripc__remote_return *o = NULL;
	struct ripc__list *n;

	if (d && d->peer == lane->peer)
		ripc__list_for_each (n, &d->remote_returns) {
			o = ripc__list_entry(n, struct ripc__remote_return, link);
			if (o->desc.how == id)
				break;
			o = NULL;
		}
	if (o && !o->writing) {
		o->revoked = true;
		ripc__remote_return_release(lane, d, o, false);
		return;
	}
	if (!o)
		o = remote_return_in_use(lane, id);
	/* REVOKED is sent when the write has ended. */
	if (o)
		o->revoked = true;
	else /* Never stored, or used: the message that used it was sent before this answer. */
		ripc__lane_notify(lane, RIPC__REVOKED, 0, 0, id, 0);
}
