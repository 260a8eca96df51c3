/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/progress/completion.h"
#include "core/progress/context.h"

void ripc__completion_add(struct ripc *ctx, struct ripc__completion *c)
{
	if (!ripc__list_empty(&c->link))
		return;
	if (ripc__list_empty(&ctx->completions))
		ripc__ready_fd_signal(ctx, &ctx->completions_ready, true);
	ripc__list_add(&ctx->completions, &c->link);
	if (!ripc__list_empty(&ctx->completed.waiters))
		ripc__wake(ctx, &ctx->completed);
}

void ripc__completion_unlink(struct ripc *ctx, struct ripc__completion *c)
{
	ripc__list_del(&c->link);
	if (ripc__list_empty(&ctx->completions))
		ripc__ready_fd_signal(ctx, &ctx->completions_ready, false);
}
