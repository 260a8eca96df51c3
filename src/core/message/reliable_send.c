/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* RIPC_RELIABLE short messages and ripc_flush(). core/reliable carries the messages. */
#include "core/message/pair.h"
#include "core/message/send.h"
#include "core/service/service.h"

struct reliable_args {
	struct ripc__pair *pair;
	struct ripc__reliable_msg *m;
	bool more;
};

static int post_once(struct ripc__dest *d, void *arg)
{
	struct reliable_args *a = arg;
	struct ripc *ctx = a->pair->ctx;

	if (RIPC__UNLIKELY(a->pair->error))
		return ripc__pair_error(a->pair);
	if (RIPC__UNLIKELY(!ripc__list_empty(&d->reliable_pending)))
		ripc__reliable_flush_pending(ctx, d);
	return ripc__dest_reach(ctx, d) ? -EAGAIN : ripc__reliable_post(d, a->m, a->more);
}

int ripc__send_reliable(struct ripc_service *s, struct ripc__dest *d, const struct iovec *items,
			unsigned nitems, uint64_t bytes, unsigned flags, int *timeout_ms)
{
	struct ripc *ctx = s->ctx;
	struct reliable_args a = {.more = flags & RIPC_MORE};
	int rc;

	if (bytes > RIPC__RELIABLE_WINDOW_BYTES / 4)
		return ripc__fail(-EMSGSIZE,
				  "reliable short message of %" PRIu64 " bytes: at most %d, use "
				  "ripc_send_long()",
				  bytes, RIPC__RELIABLE_WINDOW_BYTES / 4);
	a.pair = ripc__pair_get(ctx, s, d->id);
	if (a.pair)
		a.m = ripc__reliable_new(ctx, 0, s->id, NULL, items, nitems);
	if (!a.m)
		return ripc__fail(-ENOMEM, "no memory to send to %s",
				  ripc__service_text(ctx, d->id));
	a.m->owner = &a.pair->owner;
	a.pair->users++;
	rc = post_once(d, &a);
	if (RIPC__UNLIKELY(rc == -EAGAIN))
		rc = ripc__retry_until(s, d, timeout_ms, post_once, &a);
	a.pair->users--;
	if (rc) {
		ripc__reliable_free(ctx, a.m);
		ripc__pair_trim(ctx, a.pair);
		return rc;
	}
	a.pair->unacked++;
	ripc__count_short(s, d->peer, bytes);
	return 0;
}

int RIPC__NO_ANALYSIS ripc_flush(struct ripc_service *s, uint64_t dest, int timeout_ms)
{
	uint64_t deadline;
	struct ripc *ctx;
	struct ripc__pair *pair;
	struct ripc__dest *d;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	pair = ripc__pair_find(ctx, s, dest);
	if (!pair)
		goto out;
	deadline = timeout_ms > 0 ? ripc__deadline(ctx, timeout_ms) : RIPC__NEVER;
	pair->users++;
	d = ripc__dest_find(ctx, dest);
	if (pair->unacked && !pair->error && d)
		ripc__reliable_ask(ctx, d);
	if (!timeout_ms && pair->unacked)
		ripc__progress(ctx);
	while (!rc && pair->unacked && !pair->error) {
		if (!ripc__service_open(s) || ctx->closing)
			rc = ripc__service_closed_error(s);
		else if (!timeout_ms ||
			 (ripc__wait(ctx, &pair->done, deadline) && pair->unacked && !pair->error))
			rc = ripc__fail(timeout_ms ? -ETIMEDOUT : -EAGAIN,
					"%u reliable messages to %s are not acknowledged",
					pair->unacked, ripc__service_text(ctx, dest));
	}
	if (pair->error && rc != -ESHUTDOWN)
		rc = ripc__pair_error(pair);
	pair->users--;
	ripc__pair_trim(ctx, pair);
out:
	ripc__service_unlock(s, ctx);
	return rc;
}
