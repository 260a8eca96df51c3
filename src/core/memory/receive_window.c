/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Receive windows: memory set aside as the target of incoming long items. Contract in buffer.h. */
#include "core/memory/buffer.h"
#include "core/progress/context.h"
#include "core/memory/detach.h"
#include "core/service/service.h"

#include <stdlib.h>

static struct ripc__recv_window *first_fit(const struct ripc__list *windows, size_t len)
{
	struct ripc__recv_window *w;

	ripc__list_for_each_entry (w, windows, link)
		if (!w->arriving && w->len >= len)
			return w;
	return NULL;
}

struct ripc__recv_window *ripc__recv_window_claim(struct ripc *ctx, struct ripc_service *service,
						  size_t len)
{
	struct ripc__recv_window *w = first_fit(&service->windows, len);

	if (!w)
		w = first_fit(&ctx->memory->recv_windows, len);
	if (w)
		w->arriving = true;
	return w;
}

void ripc__recv_window_release(struct ripc *ctx, struct ripc__recv_window *w, bool used)
{
	struct ripc__region *region = w->region;

	w->arriving = false;
	/* The buffer was freed, or the service closed, meanwhile. */
	if (!used && region->state != RIPC__REGION_FREED)
		return;
	ripc__list_del(&w->link);
	ripc__list_del(&w->region_link);
	ctx->memory->nrecv_windows--;
	free(w);
	region->pins--;
	ripc__region_release(ctx, region);
}

void ripc__recv_windows_drop(struct ripc *ctx, struct ripc_service *service,
			     struct ripc__region *region)
{
	struct ripc__recv_window *w, *tmp;

	if (region)
		ripc__list_for_each_entry_safe (w, tmp, &region->windows, region_link)
			if (!w->arriving)
				ripc__recv_window_release(ctx, w, true);
	if (service)
		ripc__list_for_each_entry_safe (w, tmp, &service->windows, link)
			if (!w->arriving)
				ripc__recv_window_release(ctx, w, true);
}

int ripc__window_add(struct ripc *ctx, struct ripc_service *service, void *base, size_t len)
{
	struct ripc__region *region = len ? ripc__memory_find(ctx, base, len) : NULL;
	struct ripc__recv_window *w;
	int rc;

	if (!region || (region->state != RIPC__REGION_USER && region->state != RIPC__REGION_APP))
		return ripc__fail(-EINVAL, "window of %zu bytes at %p: %s", len, base,
				  len ? "not within registered or allocated memory"
				      : "must have at least 1");
	if (ctx->memory->nrecv_windows >= RIPC__RECV_WINDOWS_MAX)
		return ripc__fail(-ENOMEM, "more than %d windows", RIPC__RECV_WINDOWS_MAX);
	rc = ripc__range_check(ctx, region, base, len);
	if (rc)
		return rc;
	/* Memory that a peer writes must not be exported: it could not be detached. */
	if (ripc__region_unexport(ctx, region))
		return ripc__fail(-ENOMEM, "no memory for a window");
	w = calloc(1, sizeof(*w));
	if (!w)
		return ripc__fail(-ENOMEM, "no memory for a window");
	w->base = base;
	w->len = len;
	w->region = region;
	w->service = service;
	region->pins++;
	ripc__list_add(service ? &service->windows : &ctx->memory->recv_windows, &w->link);
	ripc__list_add(&region->windows, &w->region_link);
	ctx->memory->nrecv_windows++;
	return 0;
}

int ripc__window_remove(struct ripc *ctx, void *base)
{
	const struct ripc__region *region = ripc__memory_find_cap(ctx, base);
	struct ripc__recv_window *w;

	if (!region)
		return ripc__fail(-EINVAL, "no window begins at %p", base);
	ripc__list_for_each_entry (w, &region->windows, region_link) {
		if (w->base != base)
			continue;
		if (w->arriving)
			return ripc__fail(-EBUSY, "an item is just arriving in the window at %p",
					  base);
		ripc__recv_window_release(ctx, w, true);
		return 0;
	}
	return ripc__fail(-EINVAL, "no window begins at %p", base);
}
