/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/selection.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/memory/detach.h"
#include "core/memory/mapped.h"
#include "core/memory/remote_returns.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/memory/bounce.h"

#include <stdio.h>
#include <string.h>

#define INLINE_ITEM_MAX \
	1024 /* items up to this many bytes travel in the message if there is room */

static struct ripc__tp *request_tp(const struct ripc_request *r)
{
	return &r->ctx->tp[r->lane->tp];
}

static void set_how(struct ripc_request *r, struct ripc__request_item *it, unsigned how)
{
	it->how = (uint8_t)how;
	r->hows |= (uint8_t)(1u << how);
}

static int item_expose(struct ripc_request *r, struct ripc__request_item *it, unsigned access)
{
	int rc;

	if (!(request_tp(r)->limits.caps & RIPC__CAP_CHEAP_REG))
		ripc__delayed_ack_before_copy(r->ctx, it->len);
	if (it->region && it->region->state != RIPC__REGION_USER)
		access |= RIPC__ACCESS_RESIDENT;
	rc = ripc__reg_with_retry(r->lane, it->base, it->len, access, &it->mr);
	if (rc)
		return rc;
	it->exposed = true;
	return 0;
}

/*
 * Assigns a bounce buffer of the lane where registration is expensive. It is filled when the item
 * is sent.
 */
static int item_bounce(struct ripc_request *r, struct ripc__request_item *it, unsigned how,
		       unsigned access)
{
	set_how(r, it, how);
	it->bounce = ripc__bounce_get(r->lane, it->len, access);
	return it->bounce ? 0 : item_expose(r, it, access);
}

/* Writes use the memory in place if its registration can be cached: no peer gets a key for it. */
static int item_write_source(struct ripc_request *r, struct ripc__request_item *it, unsigned how)
{
	it->cached_mr = it->region ? ripc__cached_mr_hold(r->ctx, r->lane->tp, it->region) : NULL;
	set_how(r, it, how);
	return it->cached_mr ? 0 : item_bounce(r, it, how, 0);
}

bool ripc__item_fall_back(struct ripc_request *r, struct ripc__request_item *it)
{
	if (!it->cached_mr || it->posted)
		return false;
	ripc__idle_mrs_release(r->ctx);
	if (item_bounce(r, it, it->how, 0))
		return false;
	ripc__cached_mr_release(r->ctx, it->cached_mr);
	it->cached_mr = NULL;
	return true;
}

/* An item that is neither inline nor written ahead nor mapped. */
static int item_select_transfer(struct ripc_request *r, struct ripc__request_item *it)
{
	if (r->lane->caps & RIPC__CAP_READ)
		return item_bounce(r, it, RIPC__HOW_READ, RIPC__ACCESS_REMOTE_READ);
	if (r->lane->caps & RIPC__CAP_WRITE)
		return item_write_source(r, it, RIPC__HOW_GRANT);
	return ripc__fail(-EOPNOTSUPP, "the lane can neither read nor write");
}

static int item_select(struct ripc_request *r, struct ripc__request_item *it, bool inlined)
{
	const struct ripc__export *export = NULL;

	it->posted = 0;
	it->remote_return = NULL;
	if (it->region)
		ripc__export_track(r->lane, it->region, r->start_seq);
	if (it->len && r->dest->nremote_returns)
		it->remote_return = ripc__remote_return_claim(
			r->lane, r->dest, it->len, r->ext.flags & RIPC__F_REPLY ? r->ext.call : 0,
			!inlined);
	if (inlined) {
		set_how(r, it, RIPC__HOW_INLINE);
		return 0;
	}
	if (it->remote_return && r->lane->caps & RIPC__CAP_WRITE) {
		it->raddr = it->remote_return->desc.addr;
		it->rkey = it->remote_return->desc.key;
		return item_write_source(r, it, RIPC__HOW_WRITTEN);
	}
	/* Items for a return buffer are copied into it. */
	if (!it->remote_return && it->region)
		export = ripc__export_item(r->lane, r->dest->credit, it->region, it->base, it->len);
	if (export) {
		it->raddr = (uint64_t)(it->base - it->region->base);
		it->rkey = export->export_id;
		set_how(r, it, RIPC__HOW_MAPPED);
		return 0;
	}
	return item_select_transfer(r, it);
}

int ripc__request_reselect(struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];
		int rc;

		if (it->how != RIPC__HOW_MAPPED ||
		    ripc__export_is_current(r->lane, it->region, it->rkey))
			continue;
		rc = item_select_transfer(r, it);
		if (rc) {
			/* The next call tries again. */
			it->how = RIPC__HOW_MAPPED;
			r->next = i;
			return rc == -ENOTCONN ? -EAGAIN : rc;
		}
	}
	return 0;
}

void ripc__request_unselect(struct ripc_request *r, bool used)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		ripc__export_ref_end(it->ref);
		/* It has nothing else, unless the selection has failed. */
		if (it->how == RIPC__HOW_MAPPED && !it->remote_return)
			continue;
		if (it->exposed)
			request_tp(r)->ops->dereg(request_tp(r)->t, &it->mr);
		it->exposed = false;
		if (it->cached_mr)
			ripc__cached_mr_release(r->ctx, it->cached_mr);
		it->cached_mr = NULL;
		if (it->bounce)
			ripc__bounce_put(it->bounce);
		it->bounce = NULL;
		it->filled = false;
		/* The offer ends with its lane. */
		if (it->remote_return)
			ripc__remote_return_release(r->lane, r->dest, it->remote_return,
						    used && r->lane->state == RIPC__LANE_UP);
		it->remote_return = NULL;
	}
}

static struct ripc_request *oldest(const struct ripc__peer *p)
{
	return ripc__list_first_entry(&p->lists->requests, struct ripc_request, peer_link);
}

/* Whether there is an id for another request. */
static bool has_room(const struct ripc__peer *p)
{
	return !oldest(p) || p->next_request_id - oldest(p)->id < RIPC__REQUESTS_MAX;
}

/*
 * The oldest requests of the peer have no lane, and the peer is not known to hold their services
 * any more. They may never be sent again, so they lose their ids.
 */
static void give_up_lost(struct ripc__peer *p)
{
	struct ripc_request *r;

	while ((r = oldest(p)) && r->state == RIPC__REQUEST_PENDING && r->dest->peer != p) {
		if (ripc__request_maybe_delivered(r))
			ripc__request_done(r, -EPIPE,
					   "the lane was lost before the ACK, and the peer does "
					   "not hold the service any more: delivery is unknown");
		else
			ripc__request_unlink(r);
	}
}

/*
 * Adds the request to the peer's list, under the next id. The list exists, because it holds the
 * request's destination as well. Return: whether the peer has room for another request.
 */
static bool request_link(struct ripc_request *r, struct ripc__peer *p)
{
	if (r->peer)
		return true;
	if (!has_room(p))
		give_up_lost(p);
	if (!has_room(p)) {
		ripc__lane_wait_for_room(p->lane);
		ripc__lane_monitor(p->lane);
		return false;
	}
	r->peer = p;
	r->id = p->next_request_id++;
	ripc__list_add(&p->lists->requests, &r->peer_link);
	p->nrequests++;
	return true;
}

void ripc__request_unlink(struct ripc_request *r)
{
	if (!r->peer)
		return;
	ripc__list_del(&r->peer_link);
	r->peer->nrequests--;
	r->peer = NULL;
}

/* Whether all items travel in the message. */
static bool travels_whole(const struct ripc_request *r, const struct ripc__lane *lane)
{
	if (r->bytes > lane->send_max || ripc__request_header_len(r) + r->bytes > lane->send_max)
		return false;
	for (unsigned i = 0; i < r->nitems && r->bytes >= RIPC__MAPPED_ITEM_MIN; i++)
		if (r->items[i].region &&
		    ripc__export_applies(lane, r->items[i].region, r->items[i].len))
			return false;
	return true;
}

/*
 * Whether an item travels in the message. *room: bytes that are left in it, without those of a
 * message that fits as a whole.
 */
static bool item_inlined(const struct ripc__request_item *it, bool eager, size_t *room)
{
	if (eager || !it->len)
		return true;
	if (it->len > INLINE_ITEM_MAX || it->len > *room)
		return false;
	*room -= it->len;
	return true;
}

int ripc__request_select(struct ripc_request *r, struct ripc__lane *lane)
{
	size_t len = ripc__request_header_len(r), room = lane->send_max - len;
	bool eager = travels_whole(r, lane);
	struct ripc__dest *d = r->dest;
	int rc;

	if (!d->credit)
		d->credit = ripc__lane_credit(lane, d->id);
	if (!d->credit) {
		ripc__request_done(r, ripc__request_maybe_delivered(r) ? -EPIPE : -ENOMEM,
				   "no memory for its credit");
		return 0;
	}
	for (unsigned i = 0; i < r->nitems; i++)
		item_inlined(&r->items[i], eager, &room);
	/* Reserve credit for the largest form of the message. */
	r->units = ripc__units_for(r->ext.flags, eager ? len + r->bytes : lane->send_max - room);
	if (d->credit->sent_units + r->units > d->credit->limit_units)
		return ripc__lane_stalled(lane);
	if (!request_link(r, lane->peer))
		return -EAGAIN;
	r->lane = lane;
	r->hows = 0;
	room = lane->send_max - len;
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		rc = item_select(r, it, item_inlined(it, eager, &room));
		if (rc) {
			char text[RIPC__DETAIL_MAX];

			snprintf(text, sizeof(text),
				 "%s over %s: item %u of %zu bytes cannot be registered: "
				 "%s",
				 ripc__service_text(r->ctx, r->dest_id), request_tp(r)->ops->name,
				 i, it->len, ripc_error_detail());
			ripc__request_unselect(r, false);
			r->lane = NULL;
			/* The connection has ended and its event is pending: use the next lane. */
			if (rc == -ENOTCONN)
				return -EAGAIN;
			if (ripc__request_maybe_delivered(r))
				rc = -EPIPE;
			ripc__request_done(r, rc == -EAGAIN ? -ENOMEM : rc, text);
			return 0;
		}
	}
	d->credit->sent_units += r->units;
	r->credit = d->credit;
	r->next = 0;
	ripc__request_set_state(r, RIPC__REQUEST_WRITING);
	ripc__lane_monitor(lane);
	return 0;
}
