/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public calls of the layers below that take a context, which may be NULL: the default one. The
 * calls of info.c take one, too.
 */
#include "core/context/context.h"
#include "core/group/group.h"
#include "core/memory/buffer.h"
#include "core/message/service.h"

int ripc_service_register(struct ripc *ctx, uint64_t id, unsigned flags,
			  struct ripc_service **service)
{
	int rc = ripc__context(&ctx);

	return rc ? rc : ripc__service_register(ctx, id, NULL, flags, service);
}

int ripc_register_name(struct ripc *ctx, const char *name, unsigned flags,
		       struct ripc_service **service)
{
	uint64_t id = ripc_id(name);
	int rc = id ? ripc__context(&ctx) : -EINVAL;

	return rc ? rc : ripc__service_register(ctx, id, name, flags, service);
}

int ripc_group_stats(struct ripc *ctx, uint64_t group, const uint8_t *sender,
		     struct ripc_group_stats *stats)
{
	int rc = ripc__context(&ctx);

	return rc ? rc : ripc__group_stats(ctx, group, sender, stats);
}

void *ripc_buf_alloc(struct ripc *ctx, size_t len)
{
	int rc = ripc__context(&ctx);

	if (!rc)
		return ripc__buf_alloc(ctx, len);
	errno = -rc;
	return NULL;
}

void *ripc_buf_alloc_for(struct ripc *ctx, size_t len, uint64_t service)
{
	int rc = ripc__context(&ctx);

	if (!rc)
		return ripc__buf_alloc_for(ctx, len, service);
	errno = -rc;
	return NULL;
}

void *ripc_buf_realloc(struct ripc *ctx, void *ptr, size_t len)
{
	int rc = ripc__context(&ctx);

	if (!rc)
		return ripc__buf_realloc(ctx, ptr, len);
	errno = -rc;
	return NULL;
}

int ripc_buf_free(struct ripc *ctx, void *ptr)
{
	int rc = ripc__context(&ctx);

	return rc ? rc : ripc__buf_free(ctx, ptr);
}

int ripc_buf_register(struct ripc *ctx, void *base, size_t len)
{
	int rc = ripc__context(&ctx);

	return rc ? rc : ripc__buf_register(ctx, base, len);
}

int ripc_buf_unregister(struct ripc *ctx, void *base)
{
	int rc = ripc__context(&ctx);

	return rc ? rc : ripc__buf_unregister(ctx, base);
}

int ripc_window_add(struct ripc *ctx, struct ripc_service *service, void *base, size_t len)
{
	int rc = service ? 0 : ripc__context(&ctx);

	return rc ? rc : ripc__window_add(ctx, service, base, len);
}

int ripc_window_remove(struct ripc *ctx, void *base)
{
	int rc = ripc__context(&ctx);

	return rc ? rc : ripc__window_remove(ctx, base);
}
