/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/buffer.h"
#include "core/memory/ops.h"
#include "core/service/message.h"
#include "wire/header.h"

#include <stdlib.h>

/* Index of the first region whose base is above p. */
static size_t region_above(const struct ripc__memory *m, const uint8_t *p)
{
	size_t lo = 0, hi = m->nregions;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->regions[mid]->base > p)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

struct ripc__region *ripc__memory_find_cap(struct ripc *ctx, const void *ptr)
{
	struct ripc__memory *m = ctx->memory;
	const uint8_t *p = ptr;
	struct ripc__region *r = m->found;
	size_t i;

	/* Sending one message asks for the same region more than once. */
	if (r && (size_t)(p - r->base) < r->cap)
		return r;
	i = region_above(m, p);
	r = i ? m->regions[i - 1] : NULL;
	if (!r || (size_t)(p - r->base) >= r->cap)
		return NULL;
	return m->found = r;
}

struct ripc__region *ripc__memory_find(struct ripc *ctx, const void *ptr, size_t len)
{
	struct ripc__region *r = ripc__memory_find_cap(ctx, ptr);

	return r && ripc__region_contains(r, ptr, len) ? r : NULL;
}

/* Counts the bytes of a region that comes, or goes, unless they are a peer's. */
static void count(struct ripc *ctx, const struct ripc__region *r, int64_t bytes)
{
	if (r->state == RIPC__REGION_USER)
		ctx->stats.registered_bytes += (uint64_t)bytes;
	else if (r->state != RIPC__REGION_IMPORTED)
		ctx->stats.pool_bytes += (uint64_t)bytes;
}

int ripc__regions_insert(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__memory *m = ctx->memory;
	size_t i;

	if (m->nregions == m->regions_cap) {
		size_t cap = m->regions_cap ? 2 * m->regions_cap : 64;
		struct ripc__region **grown = realloc(m->regions, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		m->regions = grown;
		m->regions_cap = cap;
	}
	i = region_above(m, r->base);
	memmove(m->regions + i + 1, m->regions + i, (m->nregions - i) * sizeof(*m->regions));
	m->regions[i] = r;
	m->nregions++;
	count(ctx, r, (int64_t)r->cap);
	return 0;
}

void ripc__regions_remove(struct ripc *ctx, struct ripc__region *r)
{
	struct ripc__memory *m = ctx->memory;
	size_t i = region_above(m, r->base) - 1;

	count(ctx, r, -(int64_t)r->cap);
	if (m->found == r)
		m->found = NULL;
	memmove(m->regions + i, m->regions + i + 1, (m->nregions - i - 1) * sizeof(*m->regions));
	m->nregions--;
	if (m->regions_cap > 64 && m->nregions < m->regions_cap / 4) {
		struct ripc__region **less =
			realloc(m->regions, m->regions_cap / 2 * sizeof(*less));

		if (less) {
			m->regions = less;
			m->regions_cap /= 2;
		}
	}
}

struct ripc__region *ripc__regions_new(struct ripc *ctx)
{
	struct ripc__region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->ctx = ctx;
	r->fd = -1;
	ripc__list_init(&r->free_link);
	ripc__list_init(&r->lru_link);
	ripc__list_init(&r->exports);
	ripc__list_init(&r->refs);
	ripc__list_init(&r->import_refs);
	ripc__list_init(&r->lane_link);
	ripc__list_init(&r->returns);
	return r;
}

struct ripc__region *ripc__regions_add(struct ripc *ctx, void *base, size_t len,
				       enum ripc__region_state state)
{
	struct ripc__region *r = ripc__regions_new(ctx);

	if (!r)
		return NULL;
	r->base = base;
	r->len = r->cap = len;
	r->state = state;
	if (!ripc__regions_insert(ctx, r))
		return r;
	free(r);
	return NULL;
}

static bool overlap(const uint8_t *a, size_t alen, const uint8_t *b, size_t blen)
{
	return a < b + blen && b < a + alen;
}

/* Whether an item of a message that was not received yet lies in [p, p+len). */
static bool is_unread(const struct ripc__memory *memory, const uint8_t *p, size_t len)
{
	const struct ripc__message *m;

	ripc__list_for_each_entry (m, &memory->unread, held)
		for (unsigned i = 0; i < m->pub.nitems; i++)
			if (m->pool[i] && ripc__message_in_app_memory(m, i) &&
			    overlap(p, len, m->pub.items[i].iov_base, m->pub.items[i].iov_len))
				return true;
	return false;
}

int ripc__range_check(struct ripc *ctx, const struct ripc__region *region, const void *ptr,
		      size_t len)
{
	const struct ripc__local_return *r;
	const uint8_t *p = ptr;
	uint64_t dest;

	ripc__list_for_each_entry (r, &region->returns, region_link)
		if (overlap(p, len, r->base, r->len))
			return ripc__fail(-EBUSY, "memory at %p overlaps a %s at %p", ptr,
					  r->window ? "window" : "return buffer offered",
					  (void *)r->base);
	if (region->unread && is_unread(ctx->memory, p, len))
		return ripc__fail(-EBUSY,
				  "memory at %p holds an item of a message that was not received "
				  "yet: call ripc_receive() or ripc_call_wait() first",
				  ptr);
	dest = region->sends ? ctx->memory_ops->sent_from(ctx, ptr, len) : 0;
	if (dest)
		return ripc__fail(-EBUSY, "memory at %p is read by a send to %s under way", ptr,
				  ripc__service_text(ctx, dest));
	return 0;
}

int ripc__buf_register(struct ripc *ctx, void *base, size_t len)
{
	struct ripc__memory *m = ctx->memory;
	size_t i = region_above(m, base);

	if (!base || !len || len >> RIPC__LEN_BITS || (uintptr_t)base + len < (uintptr_t)base)
		return ripc__fail(-EINVAL,
				  "%zu bytes at %p cannot be registered: must be memory of 1 to "
				  "2^47 - 1 bytes within the address space",
				  len, base);
	if ((i && (uint8_t *)base < m->regions[i - 1]->base + m->regions[i - 1]->cap) ||
	    (i < m->nregions && m->regions[i]->base < (uint8_t *)base + len))
		return ripc__fail(-EEXIST,
				  "%zu bytes at %p overlap memory that is registered already", len,
				  base);
	if (!ripc__regions_add(ctx, base, len, RIPC__REGION_USER))
		return ripc__fail(-ENOMEM, "no memory to register %zu bytes", len);
	return 0;
}

int ripc__region_busy(const struct ripc__region *r, bool pins)
{
	if (r->sends)
		return ripc__fail(-EBUSY, "a send that is under way reads from the memory at %p",
				  (void *)r->base);
	if (pins && r->pins)
		return ripc__fail(-EBUSY,
				  "memory at %p is set aside as a window or offered to a peer",
				  (void *)r->base);
	if (r->unread)
		return ripc__fail(
			-EBUSY,
			"the memory at %p holds %u items of messages that were not received yet",
			(void *)r->base, r->unread);
	return 0;
}
