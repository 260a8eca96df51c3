/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/prepared.h"
#include "base/copy.h"
#include "core/memory/buffer.h"
#include "core/memory/detach.h"
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/delayed_ack.h"

#define COPY_MIN      (RIPC__MAPPED_ITEM_MIN + 1)
#define COPY_MAX      (16u << 20)
#define BUFFER_MIN    (((size_t)1 << (RIPC__MEMFD_CLASS_MIN - 1)) + 1) /* has a memory object */
#define COPY_REFS_MAX (128u << 20) /* bytes that one peer reads in place, or holds */
#define COPY_AFTER    2u           /* items that are left to the receiver, for each service */

static bool copies_apply(const struct ripc *ctx, const struct ripc__lane *lane,
			 const struct ripc__dest *d)
{
	return lane && lane->caps & RIPC__CAP_EXPORT && d->credit && !d->credit->export_skip &&
	       !d->nremote_returns && ripc__list_empty(&d->pending) && !ripc__export_strict(ctx);
}

/* Whether a peer cannot map the memory of the item, which the application may send. */
static bool is_copied(struct ripc *ctx, const struct iovec *item)
{
	struct ripc__region *r = ripc__memory_find_cap(ctx, item->iov_base);

	return !r || (r->fd < 0 && ripc__region_contains(r, item->iov_base, item->iov_len) &&
		      (r->state == RIPC__REGION_USER || r->state == RIPC__REGION_APP ||
		       r->state == RIPC__REGION_MESSAGE));
}

/*
 * A buffer for a copy of len bytes that the peer of dest has mapped. used: bytes of the message
 * that were copied before. Return: NULL: the receiver copies this item. If there is no mapped
 * buffer, another is exported for the next items. The lock is released meanwhile.
 */
static struct ripc__region *mapped_buffer(struct ripc *ctx, uint64_t dest, size_t used, size_t len)
{
	struct ripc__dest *d = ripc__dest_find(ctx, dest);
	struct ripc__lane *lane = ripc__dest_lane(d);
	struct ripc__region *r;
	bool mapped;

	if (!copies_apply(ctx, lane, d) || lane->memory->ref_bytes + used + len > COPY_REFS_MAX)
		return NULL;
	if (d->credit->unregistered_items < COPY_AFTER) {
		d->credit->unregistered_items++;
		return NULL;
	}
	r = ripc__app_buffer_new(ctx, len > BUFFER_MIN ? len : BUFFER_MIN, &dest, &mapped);
	if (!r || mapped)
		return r;
	ripc__region_set_state(r, RIPC__REGION_FREED);
	ripc__region_release(ctx, r);
	return NULL;
}

void ripc__prepare(struct ripc *ctx, uint64_t dest, const struct iovec *items, unsigned nitems,
		   bool free_items, struct ripc__prepared *to)
{
	size_t used = 0;

	ripc__prepared_as_given(items, nitems, to);
	for (unsigned i = 0; i < nitems; i++) {
		size_t len = items[i].iov_len;
		struct ripc__region *r;

		if (len < RIPC__MAPPED_ITEM_MIN)
			continue;
		r = ripc__memory_find_cap(ctx, items[i].iov_base);
		/* Memory with an object of its own needs no step. */
		if (r && r->fd >= 0)
			continue;
		if (r)
			ripc__export_prepare(ctx, r, &items[i]);
		r = !free_items && len >= COPY_MIN && len <= COPY_MAX && is_copied(ctx, &items[i])
			    ? mapped_buffer(ctx, dest, used, len)
			    : NULL;
		if (!r)
			continue;
		ripc__delayed_ack_before_copy(ctx, len);
		ripc__lock_suspend(ctx);
		ripc__copy_to_reader(&ctx->copy_choice, r->base, items[i].iov_base, len);
		ripc__lock_resume(ctx);
		if (!to->copied)
			memcpy(to->copies, items, nitems * sizeof(*items));
		to->copies[i].iov_base = r->base;
		to->copied |= UINT64_C(1) << i;
		to->items = to->copies;
		used += len;
	}
}

void ripc__prepared_drop(struct ripc *ctx, const struct ripc__prepared *p)
{
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++) {
		struct ripc__region *r;

		if (!(p->copied >> i & 1))
			continue;
		r = ripc__memory_find_cap(ctx, p->copies[i].iov_base);
		ripc__region_set_state(r, RIPC__REGION_FREED);
		ripc__region_release(ctx, r);
	}
}
