/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/progress/completion.h"
#include "core/progress/context.h"

#include <sys/eventfd.h>
#include <unistd.h>

static void signal_fd(struct ripc *ctx, bool readable)
{
	eventfd_t count;

	if (ctx->completion_fd < 0)
		return;
	ctx->empty_polls = 0;
	if (readable)
		eventfd_write(ctx->completion_fd, 1);
	else
		eventfd_read(ctx->completion_fd, &count);
}

void ripc__completion_add(struct ripc *ctx, struct ripc__completion *c)
{
	if (!ripc__list_empty(&c->link))
		return;
	if (ripc__list_empty(&ctx->completions))
		signal_fd(ctx, true);
	ripc__list_add(&ctx->completions, &c->link);
	if (!ripc__list_empty(&ctx->completed.waiters))
		ripc__wake(ctx, &ctx->completed);
}

void ripc__completion_unlink(struct ripc *ctx, struct ripc__completion *c)
{
	ripc__list_del(&c->link);
	if (ripc__list_empty(&ctx->completions))
		signal_fd(ctx, false);
}

int ripc__completion_open(struct ripc *ctx)
{
	if (ctx->completion_fd >= 0)
		return ctx->completion_fd;
	ctx->completion_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ctx->completion_fd < 0)
		return ripc__fail(-errno, "no descriptor for completions: %s",
				  ripc_strerror(errno));
	if (!ripc__list_empty(&ctx->completions))
		signal_fd(ctx, true);
	return ctx->completion_fd;
}

void ripc__completion_close(struct ripc *ctx)
{
	/* Wakes threads in poll(2): for the kernel they use the descriptor until they return. */
	signal_fd(ctx, true);
	if (ctx->completion_fd >= 0)
		close(ctx->completion_fd);
	ctx->completion_fd = -1;
}
