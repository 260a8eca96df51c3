/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/remote_returns.h"
#include "core/peer/lane.h"

#include <stdlib.h>

bool ripc__remote_return_add(struct ripc__dest *d, const struct ripc__desc *desc, uint64_t call,
			     bool pooled)
{
	struct ripc__remote_return *o =
		d->nremote_returns < RIPC__REMOTE_RETURNS_MAX ? calloc(1, sizeof(*o)) : NULL;

	if (!o)
		return false;
	o->desc = *desc;
	o->call = call;
	o->pooled = pooled;
	ripc__list_add(&d->remote_returns, &o->link);
	d->nremote_returns++;
	return true;
}

struct ripc__remote_return *ripc__remote_return_claim(struct ripc__lane *lane, struct ripc__dest *d,
						      size_t len, uint64_t call, bool pooled)
{
	struct ripc__remote_return *found = NULL;
	struct ripc__remote_return *o;

	ripc__list_for_each_entry (o, &d->remote_returns, link) {
		if (o->lane || o->revoked || o->desc.len < len ||
		    (o->pooled ? !pooled : o->call != call))
			continue;
		/* Of equal ones the last that was granted: it is the most likely to be cached. */
		if (o->pooled && found && found->desc.len < o->desc.len)
			continue;
		found = o;
		if (!o->pooled)
			break;
	}
	if (found)
		found->lane = lane;
	return found;
}

void ripc__remote_returns_drop_call(struct ripc__dest *d, uint64_t call)
{
	struct ripc__remote_return *o, *tmp;

	if (!d)
		return;
	ripc__list_for_each_entry_safe (o, tmp, &d->remote_returns, link) {
		if (o->pooled || o->call != call || o->lane)
			continue;
		ripc__list_del(&o->link);
		d->nremote_returns--;
		free(o);
	}
}

void ripc__remote_return_release(struct ripc__lane *lane, struct ripc__dest *d,
				 struct ripc__remote_return *o, bool used)
{
	o->lane = NULL;
	if (!used && !o->revoked && !o->orphan)
		return;
	if (o->revoked && lane && lane->state == RIPC__LANE_UP)
		ripc__lane_notify(lane, RIPC__REVOKED, 0, 0, o->desc.how, 0);
	ripc__list_del(&o->link);
	d->nremote_returns -= !o->orphan;
	free(o);
}

void ripc__remote_return_revoke(struct ripc__lane *lane, struct ripc__dest *d, uint64_t id)
{
	struct ripc__remote_return *o;

	if (d)
		ripc__list_for_each_entry (o, &d->remote_returns, link) {
			if (o->desc.how != id)
				continue;
			o->revoked = true;
			/* Else REVOKED is sent when the write has ended. */
			if (!o->lane)
				ripc__remote_return_release(lane, d, o, false);
			return;
		}
	/* A message uses it, and it has left its destination's list. */
	ripc__list_for_each_entry (o, &lane->peer->lists->orphan_returns, link)
		if (ripc__lane_same(o->lane, lane) && o->desc.how == id) {
			o->revoked = true;
			return;
		}
	/* Never stored, or used: the message that used it was sent before this answer. */
	ripc__lane_notify(lane, RIPC__REVOKED, 0, 0, id, 0);
}
