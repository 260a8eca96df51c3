/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mapped zero copy: the receiver's side. Contract in mapped.h. */
#include "core/memory/mapped.h"
#include "core/memory/memory_object.h"
#include "core/memory/buffer.h"
#include "core/peer/lane.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ripc__region *import_find(struct ripc__lane *lane, uint64_t export_id)
{
	struct ripc__region *r;

	ripc__list_for_each_entry (r, &lane->memory->imports, lane_link)
		if (r->export_id == export_id && !r->unmap_pending)
			return r;
	return NULL;
}

void ripc__import_add(struct ripc__lane *lane, void *base, size_t len, int fd, uint64_t export_id)
{
	struct ripc__region *r = NULL;

	if (lane->state == RIPC__LANE_UP && lane->caps & RIPC__CAP_EXPORT &&
	    lane->memory->nimports < RIPC__IMPORTS_MAX && export_id <= UINT32_MAX &&
	    !import_find(lane, export_id) && ripc__lane_memory_get(lane))
		r = ripc__regions_add(lane->ctx, base, len, RIPC__REGION_IMPORTED);
	if (!r) {
		/* Without MAP_ACK the sender goes on copying. */
		munmap(base, len);
		close(fd);
		return;
	}
	if (!ripc__memory_object_keep(lane->ctx, r, fd))
		close(fd);
	r->lane = lane;
	r->export_id = (uint32_t)export_id;
	ripc__list_add(&lane->memory->imports, &r->lane_link);
	lane->memory->nimports++;
	ripc__lane_notify(lane, RIPC__MAP_ACK, 0, 0, export_id, 0);
}

/* The item word of a RELEASE. */
static uint64_t release_word(const struct ripc__region *r, const struct ripc__import_ref *ref)
{
	return ref->item | (r->sharing == RIPC__REGION_TAINTED ? RIPC__RELEASE_LOST : 0) |
	       (ref->ack_due ? RIPC__RELEASE_ACK : 0);
}

/* No send of ours reads the item. */
static void ref_end(struct ripc__import_ref *import_ref)
{
	struct ripc__lane *lane = import_ref->lane;

	if (lane) {
		lane->memory->acks_due -= import_ref->ack_due;
		ripc__lane_notify(lane, RIPC__RELEASE, 0, 0, import_ref->request,
				  release_word(import_ref->region, import_ref));
	}
	ripc__import_ref_cancel(import_ref);
}

static void unmap_if_unused(struct ripc__region *r)
{
	if (!r->unmap_pending || !ripc__list_empty(&r->import_refs))
		return;
	ripc__list_del(&r->lane_link);
	if (r->lane)
		r->lane->memory->nimports--;
	ripc__region_destroy(r->ctx, r);
}

void ripc__import_settle(struct ripc__region *r)
{
	struct ripc__import_ref *import_ref, *tmp;

	if (r->sends)
		return;
	ripc__list_for_each_entry_safe (import_ref, tmp, &r->import_refs, link)
		if (import_ref->released)
			ref_end(import_ref);
	unmap_if_unused(r);
}

bool ripc__import_is_own(struct ripc *ctx, const struct ripc__region *region)
{
	const struct ripc__region *own = ripc__memory_object_own(ctx, region);

	return own && own->state == RIPC__REGION_APP;
}

void ripc__import_unmap(struct ripc__lane *lane, uint64_t export_id)
{
	struct ripc__region *r = import_find(lane, export_id);

	/* Never mapped, because memory was short. */
	if (!r)
		return;
	r->unmap_pending = true;
	ripc__import_settle(r);
}

int ripc__import_ref_new(struct ripc__lane *lane, uint64_t export_id, uint64_t at, uint64_t len,
			 uint64_t request, unsigned item, struct ripc__import_ref **out,
			 uint8_t **base)
{
	struct ripc__region *r = import_find(lane, export_id);
	struct ripc__import_ref *import_ref;

	if (!r || at > r->cap || len > r->cap - at)
		return -EPROTO;
	import_ref = ripc__ref_alloc(lane->ctx->memory);
	if (!import_ref)
		return -ENOBUFS;
	*import_ref = (struct ripc__import_ref){
		.region = r, .lane = lane, .request = request, .item = item};
	ripc__list_add(&r->import_refs, &import_ref->link);
	*out = import_ref;
	*base = r->base + at;
	return 0;
}

void ripc__import_ref_release_item(struct ripc__region *r, const struct ripc__message *m,
				   unsigned item)
{
	struct ripc__import_ref *import_ref;

	ripc__list_for_each_entry (import_ref, &r->import_refs, link) {
		if (import_ref->message == m && import_ref->item == item && !import_ref->released) {
			ripc__import_ref_release(import_ref);
			return;
		}
	}
}

void ripc__import_ref_cancel(struct ripc__import_ref *import_ref)
{
	ripc__list_del(&import_ref->link);
	ripc__ref_free(import_ref->region->ctx->memory, import_ref);
}

void ripc__import_ref_release(struct ripc__import_ref *import_ref)
{
	struct ripc__region *r = import_ref->region;

	import_ref->released = true;
	if (r->sends)
		return;
	ref_end(import_ref);
	unmap_if_unused(r);
}

#define ACK_BACKOFF_MIN 8u
#define ACK_BACKOFF_MAX 1024u

void ripc__import_acks_back_off(struct ripc__lane *lane)
{
	struct ripc__lane_memory *m = lane->memory;
	unsigned backoff = m->ack_backoff * 2u;

	if (m->ack_skip || !m->acks_due)
		return;
	if (backoff < ACK_BACKOFF_MIN)
		backoff = ACK_BACKOFF_MIN;
	if (backoff > ACK_BACKOFF_MAX)
		backoff = ACK_BACKOFF_MAX;
	m->ack_skip = m->ack_backoff = (uint16_t)backoff;
}

uint64_t ripc__import_ack_take(struct ripc__lane *lane)
{
	struct ripc__import_ref *import_ref;
	struct ripc__region *r;
	uint64_t request = 0;

	if (!lane->memory->acks_due)
		return 0;
	ripc__list_for_each_entry (r, &lane->memory->imports, lane_link)
		ripc__list_for_each_entry (import_ref, &r->import_refs, link) {
			if (!import_ref->ack_due || (request && import_ref->request != request))
				continue;
			import_ref->ack_due = false;
			lane->memory->acks_due--;
			request = import_ref->request;
		}
	return request;
}

void ripc__imports_lane_gone(struct ripc__lane *lane)
{
	struct ripc__import_ref *import_ref;
	struct ripc__region *r;

	while ((r = ripc__list_first_entry(&lane->memory->imports, struct ripc__region,
					   lane_link))) {
		ripc__list_del(&r->lane_link);
		lane->memory->nimports--;
		r->lane = NULL;
		r->unmap_pending = true;
		/* Items that the application holds stay readable until it frees them. */
		ripc__list_for_each_entry (import_ref, &r->import_refs, link)
			import_ref->lane = NULL;
		ripc__import_settle(r);
	}
}
