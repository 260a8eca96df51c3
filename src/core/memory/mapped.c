/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/message/message.h"
#include "core/peer/peer.h"
#include "core/rendezvous/request.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ITEM_MIN     (16u << 10)    /* bytes from which an item is lent: below, a copy is as fast */
#define LENT_MAX     (256ull << 20) /* bytes one peer may have on loan */
#define LOAN_MIN_NS  (200 * 1000)   /* how long at least */
#define COPY_NS(len) ((len) / 8)    /* what a copy takes, roughly */
#define AGAIN_AFTER \
	64u /* items copied before a buffer is given to a peer again that has not mapped it */
#define SKIP_MAX 1024u /* items copied before it is tried again, at most */
#define GIVE_AFTER \
	2u /* messages to one peer before a buffer is given to it: what is sent once is copied */
#define GIVE_MAX 1024u /* the same, for one that was sent to others all the same */

/* ---- sender ---- */

static struct ripc__share *share_find(struct ripc__region *region, const struct ripc__lane *lane)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &region->shares) {
		struct ripc__share *s = ripc__list_entry(n, struct ripc__share, link);

		if (s->lane == lane)
			return s;
	}
	return NULL;
}

static void share_free(struct ripc__share *s)
{
	ripc__list_del(&s->link);
	ripc__list_del(&s->of_lane);
	s->lane->nshares--;
	free(s);
}

static void share_drop(struct ripc__share *s)
{
	ripc__lane_word(s->lane, RIPC__UNMAP, 0, 0, s->number, 0);
	share_free(s);
}

void ripc__shares_drop(struct ripc__region *region)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&region->shares)))
		share_drop(ripc__list_entry(n, struct ripc__share, link));
}

void ripc__handover_reset(struct ripc__region *region)
{
	memset(region->reader, 0, sizeof(region->reader));
	region->in_row = 0;
	region->give_after = GIVE_AFTER;
	region->counted = UINT64_MAX;
}

void ripc__handover_sent(struct ripc__lane *lane, const struct ripc__request_item *it)
{
	struct ripc__region *region = it->region;
	const uint8_t *peer = lane->peer->instance;

	if (!region || (region->fd < 0 && !region->parted) || region->state != RIPC__REGION_APP)
		return;
	if (memcmp(region->reader, peer, sizeof(region->reader))) {
		if (region->given) {
			/* Without memory for that it is tried again the next time. */
			if (ripc__region_reclaim(lane->ctx, region))
				return;
			if (region->give_after < GIVE_MAX)
				region->give_after *= 2;
		}
		memcpy(region->reader, peer, sizeof(region->reader));
		region->in_row = 0;
	} else if (region->counted == it->owner->started) {
		return;
	}
	region->counted = it->owner->started;
	if (region->in_row < GIVE_MAX)
		region->in_row++;
}

void ripc__handover_ready(struct ripc *ctx, const struct iovec *items, unsigned nitems)
{
	for (unsigned i = 0; i < nitems; i++) {
		const struct iovec *item = &items[i];
		struct ripc__region *r =
			item->iov_len >= ITEM_MIN
				? ripc__memory_find(ctx, item->iov_base, item->iov_len)
				: NULL;

		if (r && r->parted && !r->zombie && r->state == RIPC__REGION_APP && !r->sends &&
		    !r->holds && item->iov_len >= r->len && r->in_row >= r->give_after)
			ripc__pool_renew(ctx, r);
	}
}

/* Whether the peer that is sent an item may see all that is in the buffer besides. */
static bool share_allowed(struct ripc__lane *lane, const struct ripc__request_item *it)
{
	struct ripc__region *region = it->region;
	size_t stale = region->stale < region->len ? region->stale : region->len;

	if (memcmp(region->reader, lane->peer->instance, sizeof(region->reader)) ||
	    region->in_row < region->give_after)
		return false;
	/* What others have left there and the application may not have overwritten. */
	if (stale && (it->base > region->base || it->base + it->len < region->base + stale))
		return false;
	/* Behind its end there is nothing of use. */
	if (region->touched > region->len)
		memset(region->base + region->len, 0, region->touched - region->len);
	region->stale = 0;
	return true;
}

/* Gives the region to the lane's peer. What cannot be done now is tried again at the next send. */
static void share_new(struct ripc__lane *lane, const struct ripc__request_item *it)
{
	struct ripc__region *region = it->region;
	struct ripc__tp *tp = &lane->ctx->tp[lane->tp];
	/* Of what was never touched there may be no memory yet, and reading it would take some. */
	size_t len = (region->touched + 4095) & ~(size_t)4095;
	struct ripc__share *s;

	if (lane->nshares >= RIPC__SHARES_MAX || !share_allowed(lane, it))
		return;
	s = calloc(1, sizeof(*s));
	if (!s)
		return;
	s->lane = lane;
	s->region = region;
	s->number = ++lane->share_number;
	s->len = len < region->cap ? len : region->cap;
	if (tp->ops->export_fd(lane->ep, region->fd, s->len, s->number)) {
		free(s);
		return;
	}
	region->given = true;
	ripc__list_add(&region->shares, &s->link);
	ripc__list_add(&lane->shares, &s->of_lane);
	lane->nshares++;
}

bool ripc__handover_offer(struct ripc__lane *lane, struct ripc__request_item *it)
{
	struct ripc__region *region = it->region;
	struct ripc__credit *c = it->owner->dest->credit;
	struct ripc__share *s;
	size_t at;

	if (!(lane->caps & RIPC__CAP_EXPORT) || !region || region->fd < 0 ||
	    region->state != RIPC__REGION_APP || it->len < ITEM_MIN)
		return false;
	/* Memory that others may write into stays where it is. */
	if (region->holds || lane->lent_bytes + it->len > LENT_MAX)
		return false;
	if (c->lend_skip) {
		c->lend_skip--;
		return false;
	}
	at = (size_t)(it->base - region->base);
	s = share_find(region, lane);
	/* It may not have been ready for it, or short of memory, when it came. */
	if (s && !s->known && ++s->waited < AGAIN_AFTER)
		return false;
	if (s && (!s->known || at + it->len > s->len)) {
		share_drop(s);
		s = NULL;
	}
	if (!s) {
		share_new(lane, it);
		return false;
	}
	it->raddr = at;
	it->rkey = s->number;
	return true;
}

void ripc__handover_have(struct ripc__lane *lane, uint64_t number)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->shares) {
		struct ripc__share *s = ripc__list_entry(n, struct ripc__share, of_lane);

		if (s->number == number)
			s->known = true;
	}
}

void ripc__loan_begin(struct ripc__request_item *it)
{
	ripc__list_add(&it->region->loans, &it->loan);
	it->lent = true;
	it->owner->lent++;
	it->owner->lane->lent_bytes += it->len;
}

void ripc__loan_end(struct ripc__request_item *it)
{
	if (!it->lent)
		return;
	ripc__list_del(&it->loan);
	it->lent = false;
	it->owner->lent--;
	it->owner->lane->lent_bytes -= it->len;
}

uint64_t ripc__loan_ns(uint64_t bytes)
{
	return LOAN_MIN_NS + COPY_NS(bytes);
}

void ripc__loan_kept(struct ripc__credit *c)
{
	/* Several that were on their way at the same time are one reason. */
	if (c->lend_skip)
		return;
	c->lend_backoff = c->lend_backoff ? 2 * c->lend_backoff : 8;
	if (c->lend_backoff > SKIP_MAX)
		c->lend_backoff = SKIP_MAX;
	c->lend_skip = c->lend_backoff;
}

int ripc__region_reclaim(struct ripc *ctx, struct ripc__region *region)
{
	struct ripc__list *n;
	int rc;

	if (!region->given)
		return 0;
	rc = ripc__pool_part(ctx, region);
	if (rc)
		return rc;
	while ((n = ripc__list_first(&region->loans))) {
		struct ripc__request_item *it = ripc__list_entry(n, struct ripc__request_item, loan);

		ripc__loan_end(it);
		/* Those that have been waiting for it alone are done: not here, in the middle of something. */
		it->owner->loan_until_ns = 0;
		ripc__timer_at(ctx, 0);
	}
	return 0;
}

/* ---- receiver ---- */

static struct ripc__region *borrow_find(struct ripc__lane *lane, uint64_t number)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->borrowed) {
		struct ripc__region *r = ripc__list_entry(n, struct ripc__region, of_lane);

		if (r->number == number && !r->gone)
			return r;
	}
	return NULL;
}

void ripc__borrow(struct ripc__lane *lane, void *base, size_t len, uint64_t number)
{
	struct ripc__region *r = NULL;

	if (lane->state == RIPC__LANE_UP && lane->caps & RIPC__CAP_EXPORT &&
	    lane->nborrowed < RIPC__BORROWED_MAX && number <= UINT32_MAX &&
	    !borrow_find(lane, number))
		r = ripc__region_borrowed(lane->ctx, base, len);
	if (!r) {
		/* It is not told that we have it, and goes on as if it had not tried. */
		munmap(base, len);
		return;
	}
	r->lane = lane;
	r->number = (uint32_t)number;
	ripc__list_add(&lane->borrowed, &r->of_lane);
	lane->nborrowed++;
	ripc__lane_word(lane, RIPC__MAP_ACK, 0, 0, number, 0);
}

static void debt_free(struct ripc__debt *debt)
{
	ripc__list_del(&debt->link);
	free(debt);
}

void ripc__borrow_free(struct ripc__region *r)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&r->debts)))
		debt_free(ripc__list_entry(n, struct ripc__debt, link));
}

void ripc__borrow_settle(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__list *n, *tmp;

	if (r->sends)
		return;
	ripc__list_for_each_safe (n, tmp, &r->debts) {
		struct ripc__debt *debt = ripc__list_entry(n, struct ripc__debt, link);

		if (!debt->over)
			continue;
		if (debt->lane)
			ripc__lane_word(debt->lane, RIPC__RELEASE, 0, 0, debt->request, debt->item);
		debt_free(debt);
	}
	if (!r->gone || !ripc__list_empty(&r->debts))
		return;
	ripc__list_del(&r->of_lane);
	if (r->lane)
		r->lane->nborrowed--;
	ripc__region_return(ctx, r);
}

void ripc__borrow_forget(struct ripc__lane *lane, uint64_t number)
{
	struct ripc__region *r = borrow_find(lane, number);

	/* Never mapped: we had no room. */
	if (!r)
		return;
	r->gone = true;
	ripc__borrow_settle(lane->ctx, r);
}

int ripc__debt_new(struct ripc__lane *lane, uint64_t number, uint64_t at, uint64_t len,
		   uint64_t request, unsigned item, struct ripc__debt **out, uint8_t **base)
{
	struct ripc__region *r = borrow_find(lane, number);
	struct ripc__debt *debt;

	if (!r || at > r->cap || len > r->cap - at)
		return -EPROTO;
	debt = calloc(1, sizeof(*debt));
	if (!debt)
		return -ENOBUFS;
	debt->region = r;
	debt->lane = lane;
	debt->request = request;
	debt->item = item;
	ripc__list_add(&r->debts, &debt->link);
	*out = debt;
	*base = r->base + at;
	return 0;
}

void ripc__debt_item(struct ripc__region *r, const struct ripc__message *m, unsigned item)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &r->debts) {
		struct ripc__debt *debt = ripc__list_entry(n, struct ripc__debt, link);

		if (debt->message == m && debt->item == item && !debt->over) {
			ripc__debt_let_go(debt);
			return;
		}
	}
}

void ripc__debt_let_go(struct ripc__debt *debt)
{
	struct ripc__region *r = debt->region;

	debt->over = true;
	ripc__borrow_settle(r->ctx, r);
}

void ripc__handover_lane_gone(struct ripc__lane *lane)
{
	struct ripc__list *n, *k;

	while ((n = ripc__list_first(&lane->shares)))
		share_free(ripc__list_entry(n, struct ripc__share, of_lane));
	while ((n = ripc__list_first(&lane->borrowed))) {
		struct ripc__region *r = ripc__list_entry(n, struct ripc__region, of_lane);

		ripc__list_del(n);
		r->lane = NULL;
		r->gone = true;
		/* What the application holds of it stays readable until it is freed. */
		ripc__list_for_each (k, &r->debts)
			ripc__list_entry(k, struct ripc__debt, link)->lane = NULL;
		ripc__borrow_settle(lane->ctx, r);
	}
	lane->nborrowed = 0;
}
