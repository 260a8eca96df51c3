/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc_completion_fd(), ripc_completion_next(). */
#include "core/context/context.h"
#include "base/output.h"
#include "core/message/receive.h"
#include "core/peer/peer.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/rendezvous/request.h"

/* Begins a call. Return: 0: lock held; else the error. */
static int enter(struct ripc **ctx)
{
	int rc = ripc__context_enter(ctx);

	if (!rc)
		(*ctx)->completions_used = true;
	return rc;
}

int RIPC__NO_ANALYSIS ripc_completion_fd(struct ripc *ctx)
{
	int rc = enter(&ctx);

	if (rc)
		return rc;
	rc = ripc__ready_fd_open(ctx, &ctx->completions_ready,
				 !ripc__list_empty(&ctx->completions));
	if (rc < 0)
		ripc__fail(rc, "no descriptor for completions: %s", ripc_strerror(rc));
	ripc__unlock(ctx);
	return rc;
}

/* Waits until there is a completion. Return: 0, -EAGAIN, -ETIMEDOUT, -ESHUTDOWN, explained. */
static int wait_any(struct ripc *ctx, int timeout_ms)
{
	bool more = ctx->completion_reported;
	uint64_t deadline;

	ctx->completion_reported = false;
	if (!ripc__list_empty(&ctx->completions))
		return 0;
	if (!timeout_ms) {
		ripc__delayed_ack_idle(ctx);
		/*
		 * A call that asks for more completions makes no pass, which takes longer than a
		 * completion; unless the application may sleep on the descriptor now.
		 */
		if (!(ripc__poll_request_once(ctx) && more && ctx->completions_ready.fd < 0) &&
		    ripc__list_empty(&ctx->completions))
			ripc__poll_before_sleep(ctx, &ctx->completions_ready);
		if (!ripc__list_empty(&ctx->completions))
			return 0;
		ripc__poll_pass_leadership(ctx, &ctx->completions_ready);
		return ripc__fail_text(-EAGAIN, "nothing is complete");
	}
	ripc__poll_request(ctx, NULL, timeout_ms);
	/* The deadline follows the poll: most requests end in it and need no clock. */
	deadline = ripc__deadline(ctx, timeout_ms);
	while (ripc__list_empty(&ctx->completions)) {
		if (ctx->closing)
			return ripc__shut_down();
		if (ripc__wait(ctx, &ctx->completed, deadline) &&
		    ripc__list_empty(&ctx->completions))
			return ripc__fail(-ETIMEDOUT, "nothing was complete in %d ms", timeout_ms);
	}
	return 0;
}

int RIPC__NO_ANALYSIS ripc_completion_next(struct ripc *ctx, struct ripc_completion *completion,
					   int timeout_ms)
{
	struct ripc_completion result = {.size = sizeof(result)};
	struct ripc__completion *c;
	struct ripc_request *r;
	int rc = ripc__check_output(completion, "ripc_completion");

	if (!rc)
		rc = enter(&ctx);
	if (rc)
		return rc;
	rc = wait_any(ctx, timeout_ms);
	if (rc) {
		ripc__unlock(ctx);
		return rc;
	}
	c = ripc__list_entry(ripc__list_first(&ctx->completions), struct ripc__completion, link);
	result.kind = c->kind;
	if (c->kind == RIPC_COMPLETION_SENDABLE) {
		result.dest = ripc__list_entry(c, struct ripc__dest, sendable)->id;
	} else {
		r = ripc__list_entry(c, struct ripc_request, completion);
		result.dest = r->dest_id;
		result.request = r;
		result.data = r->data;
	}
	ripc__completion_remove(ctx, c);
	ctx->completion_reported = true;
	ripc__unlock(ctx);
	if (RIPC__LIKELY(completion->size == sizeof(result)))
		*completion = result;
	else
		ripc__store_output(completion, &result, sizeof(result));
	return 0;
}
