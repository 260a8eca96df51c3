/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Receive windows: memory set aside as the target of incoming long items. Contract in buffer.h. */
#include "core/memory/buffer.h"
#include "core/service/service.h"

void ripc__recv_windows_drop(struct ripc_service *service)
{
	struct ripc__local_return *w, *tmp;

	ripc__list_for_each_entry_safe (w, tmp, &service->windows, link)
		ripc__local_return_revoke(service->ctx, w);
}

int ripc__window_add(struct ripc *ctx, struct ripc_service *service, void *base, size_t len)
{
	struct ripc__local_return *w;

	if (ctx->memory->nrecv_windows >= RIPC__RECV_WINDOWS_MAX)
		return ripc__fail(-ENOMEM, "more than %d windows", RIPC__RECV_WINDOWS_MAX);
	w = ripc__target_new(ctx, service, base, len, "window");
	if (!w)
		return -errno;
	w->window = true;
	ripc__list_add(service ? &service->windows : &ctx->memory->recv_windows, &w->link);
	ctx->memory->nrecv_windows++;
	return 0;
}

int ripc__window_remove(struct ripc *ctx, void *base)
{
	const struct ripc__region *region = ripc__memory_find_cap(ctx, base);
	struct ripc__local_return *w;

	if (!region)
		return ripc__fail(-EINVAL, "no window begins at %p", base);
	ripc__list_for_each_entry (w, &region->returns, region_link) {
		if (!w->window || w->base != base)
			continue;
		if (w->arriving)
			return ripc__fail(-EBUSY, "an item is just arriving in the window at %p",
					  base);
		ripc__local_return_drop(ctx, w);
		return 0;
	}
	return ripc__fail(-EINVAL, "no window begins at %p", base);
}
