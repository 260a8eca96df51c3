/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Buffers that the application holds: allocation, free, resize, end of registration. */
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/progress/context.h"

#include <stdlib.h>
#include <string.h>

/* Finds the application's buffer around ptr. Return: NULL, explained: none. */
static struct ripc__region *app_buffer(struct ripc *ctx, const void *ptr)
{
	struct ripc__region *r = ripc__memory_find_cap(ctx, ptr);
	bool app = r && r->state == RIPC__REGION_APP;

	if (app && ripc__region_contains(r, ptr, 0))
		return r;
	if (!r)
		ripc__fail(-EINVAL, "%p lies in no buffer of this context", ptr);
	else if (app)
		ripc__fail(-EINVAL, "%p lies behind the buffer of %zu bytes at %p", ptr, r->len,
			   (void *)r->base);
	else if (r->state == RIPC__REGION_USER)
		ripc__fail(-EINVAL, "%p is registered memory, not a buffer of ripc_buf_alloc()",
			   ptr);
	else if (r->state == RIPC__REGION_MESSAGE || r->state == RIPC__REGION_IMPORTED)
		ripc__fail(-EINVAL, "%p belongs to a received message: use ripc_message_free()",
			   ptr);
	else
		ripc__fail(-EINVAL, "%p was freed before", ptr);
	return NULL;
}

/* The lane to the holder of a service; NULL: unknown, as the service may be. */
static struct ripc__lane *lane_to(struct ripc *ctx, const uint64_t *service)
{
	return service ? ripc__dest_lane(ripc__dest_find(ctx, *service)) : NULL;
}

struct ripc__region *ripc__app_buffer_new(struct ripc *ctx, size_t len, const uint64_t *service,
					  bool *mapped)
{
	struct ripc__lane *lane = lane_to(ctx, service);
	struct ripc__region *r = ripc__pool_get_untouched(ctx, len, RIPC__REGION_APP,
							  lane ? lane->peer->instance : NULL);

	if (!r)
		return NULL;
	if (r->prefaulted < len) {
		ripc__lock_suspend(ctx);
		ripc__region_prefault(r, len);
		ripc__lock_resume(ctx);
		/* The lane may be closed. */
		lane = lane_to(ctx, service);
	}
	*mapped = lane && ripc__export_ahead(lane, r);
	return r;
}

int ripc__buf_free(struct ripc *ctx, void *ptr)
{
	struct ripc__region *r = app_buffer(ctx, ptr);
	int rc;

	if (!r)
		return -EINVAL;
	rc = ripc__region_busy(r, false);
	if (rc)
		return rc;
	ripc__region_set_state(r, RIPC__REGION_FREED);
	/* Pinned, so that removing its last window or return buffer does not free it here. */
	r->pins++;
	ripc__local_returns_withdraw(ctx, r, true);
	r->pins--;
	ripc__region_release(ctx, r);
	return 0;
}

int ripc__buf_unregister(struct ripc *ctx, void *base)
{
	struct ripc__region *r = ripc__memory_find(ctx, base, 0);
	int rc;

	if (!r || r->state != RIPC__REGION_USER || r->base != base)
		return ripc__fail(-EINVAL, "no registered memory begins at %p", base);
	rc = ripc__region_busy(r, false);
	if (!rc && r->pins) {
		ripc__local_returns_withdraw(ctx, r, false);
		rc = ripc__region_busy(r, true);
	}
	if (rc)
		return rc;
	ripc__cached_mrs_drop(ctx, r);
	ripc__regions_remove(ctx, r);
	free(r);
	return 0;
}

/*
 * Resizes the buffer in place, or copies it into another. The copy runs without the lock, so that
 * other threads of the context continue. Return: the new address; NULL: out of memory.
 */
static void *resize(struct ripc *ctx, struct ripc__region *r, size_t len)
{
	struct ripc__region *to = r;

	if (len > r->cap || len <= r->cap / 4)
		to = ripc__pool_get_untouched(ctx, len, RIPC__REGION_APP, NULL);
	if (!to)
		return NULL;
	/* Pinned, because a faulty program may free it meanwhile. */
	r->pins++;
	ripc__lock_suspend(ctx);
	ripc__region_prefault(to, len);
	if (to != r)
		memcpy(to->base, r->base, r->len < len ? r->len : len);
	ripc__lock_resume(ctx);
	r->pins--;
	if (to == r)
		r->len = len;
	else
		ripc__region_set_state(r, RIPC__REGION_FREED);
	ripc__region_release(ctx, r);
	return to->base;
}

int ripc__buf_alloc(struct ripc *ctx, void *ptr, size_t len, const uint64_t *service, void **out)
{
	struct ripc__region *r = ptr ? app_buffer(ctx, ptr) : NULL;
	int rc = ptr && !r ? -EINVAL : 0;
	struct ripc__region *fresh;
	bool mapped;

	if (!rc && !len)
		rc = ripc__fail(-EINVAL, "buffer of 0 bytes");
	if (!rc && r)
		rc = ripc__region_busy(r, true);
	if (rc)
		return rc;
	if (r) {
		*out = resize(ctx, r, len);
	} else {
		fresh = ripc__app_buffer_new(ctx, len, service, &mapped);
		*out = fresh ? fresh->base : NULL;
	}
	return *out ? 0 : ripc__fail(-ENOMEM, "no memory for a buffer of %zu bytes", len);
}
