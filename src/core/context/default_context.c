/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The public calls of the layers below that take a context, which may be NULL: the default one. The
 * calls of info.c take one, too.
 */
#include "core/context/context.h"
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

/* Ends a call of a function below, which has begun with ripc__context_enter(). */
static int RIPC__NO_ANALYSIS leave(struct ripc *ctx, int rc)
{
	ripc__unlock(ctx);
	return rc;
}

static void RIPC__NO_ANALYSIS *allocate(struct ripc *ctx, void *ptr, size_t len,
					const uint64_t *service)
{
	void *out = NULL;
	int rc = ripc__context_enter(&ctx);

	if (!rc)
		rc = leave(ctx, ripc__buf_alloc(ctx, ptr, len, service, &out));
	if (rc)
		errno = -rc;
	return out;
}

void *ripc_buf_alloc(struct ripc *ctx, size_t len)
{
	return allocate(ctx, NULL, len, NULL);
}

void *ripc_buf_alloc_for(struct ripc *ctx, size_t len, uint64_t service)
{
	return allocate(ctx, NULL, len, &service);
}

void *ripc_buf_realloc(struct ripc *ctx, void *ptr, size_t len)
{
	return allocate(ctx, ptr, len, NULL);
}

int RIPC__NO_ANALYSIS ripc_buf_free(struct ripc *ctx, void *ptr)
{
	int rc;

	/* Not even the default context is opened. */
	if (!ptr)
		return 0;
	rc = ripc__context_enter(&ctx);
	return rc ? rc : leave(ctx, ripc__buf_free(ctx, ptr));
}

int RIPC__NO_ANALYSIS ripc_buf_register(struct ripc *ctx, void *base, size_t len)
{
	int rc = ripc__context_enter(&ctx);

	return rc ? rc : leave(ctx, ripc__buf_register(ctx, base, len));
}

int RIPC__NO_ANALYSIS ripc_buf_unregister(struct ripc *ctx, void *base)
{
	int rc = ripc__context_enter(&ctx);

	return rc ? rc : leave(ctx, ripc__buf_unregister(ctx, base));
}

int RIPC__NO_ANALYSIS ripc_window_add(struct ripc *ctx, struct ripc_service *service, void *base,
				      size_t len)
{
	struct ripc *of = ctx;
	int rc = service ? ripc__service_context(service, &of) : ripc__context(&of);

	if (!rc && ctx && ctx != of)
		rc = ripc__fail(-EINVAL, "window for a service of another context");
	if (rc)
		return rc;
	ripc__lock(of);
	rc = service ? ripc__service_closing(service) : ripc__check_open(of);
	return leave(of, rc ? rc : ripc__window_add(of, service, base, len));
}

int RIPC__NO_ANALYSIS ripc_window_remove(struct ripc *ctx, void *base)
{
	int rc = ripc__context_enter(&ctx);

	return rc ? rc : leave(ctx, ripc__window_remove(ctx, base));
}
