/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * RIPC_RELIABLE short messages and ripc_flush(). Stores the error of lost messages for each pair of
 * services; core/reliable carries the messages.
 */
#include "core/message/send.h"
#include "core/reliable/send_now.h"
#include "core/service/service.h"

#include <stdlib.h>

static void pair_free(struct ripc__pair *pair)
{
	struct ripc *ctx = pair->ctx;

	HASH_DEL(ctx->pairs, pair);
	if (ctx->last_pair == pair)
		ctx->last_pair = NULL;
	free(pair->why);
	free(pair);
}

static bool pair_idle(const struct ripc__pair *pair)
{
	return !pair->unacked && !pair->users;
}

/*
 * The pair may be idle, and there may be too many: frees it; or, if its error was not reported yet,
 * the oldest idle one, since nobody may ever ask for its error.
 */
static void pair_trim(struct ripc *ctx, struct ripc__pair *pair)
{
	struct ripc__pair *oldest, *tmp;

	if (!pair_idle(pair) || RIPC__LIKELY(HASH_COUNT(ctx->pairs) <= RIPC__IDLE_PAIRS_MAX))
		return;
	if (!pair->error) {
		pair_free(pair);
		return;
	}
	HASH_ITER (hh, ctx->pairs, oldest, tmp) {
		if (!pair_idle(oldest))
			continue;
		pair_free(oldest);
		return;
	}
}

/* n messages ended. */
static void pair_ended(struct ripc *ctx, struct ripc__pair *pair, unsigned n)
{
	pair->unacked -= n;
	if (RIPC__UNLIKELY(!ripc__list_empty(&pair->done.waiters)) &&
	    (pair->error || !pair->unacked))
		ripc__wake(ctx, &pair->done);
	pair_trim(ctx, pair);
}

static void pair_delivered(struct ripc *ctx, struct ripc__reliable_owner *o, unsigned n)
{
	pair_ended(ctx, (struct ripc__pair *)o, n);
}

static void pair_end(struct ripc *ctx, struct ripc__reliable_owner *o, struct ripc__reliable_msg *m,
		     int status, const char *why)
{
	struct ripc__pair *pair = (struct ripc__pair *)o;

	ripc__reliable_free(ctx, m);
	if (status && !pair->error) {
		pair->error = status;
		free(pair->why);
		pair->why = why ? strdup(why) : NULL;
		ripc__log(RIPC_LOG_WARN, "service %llu: a reliable message to service %llu %s: %s",
			  (unsigned long long)pair->key.source, (unsigned long long)pair->key.dest,
			  status == -EPIPE ? "may be lost" : "was not delivered", why ? why : "");
	}
	pair_ended(ctx, pair, 1);
}

static struct ripc__pair *pair_find(struct ripc *ctx, uint64_t source, uint64_t dest)
{
	struct ripc__pair_key key = {source, dest};
	struct ripc__pair *pair = ctx->last_pair;

	if (pair && pair->key.source == source && pair->key.dest == dest)
		return pair;
	/* The analyzer does not follow the hash function through the bytes of the key. */
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
	HASH_FIND(hh, ctx->pairs, &key, sizeof(key), pair);
	if (pair)
		ctx->last_pair = pair;
	return pair;
}

static struct ripc__pair *pair_get(struct ripc *ctx, uint64_t source, uint64_t dest)
{
	struct ripc__pair *pair = pair_find(ctx, source, dest);

	if (pair)
		return pair;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return NULL;
	pair->owner.end = pair_end;
	pair->owner.delivered = pair_delivered;
	pair->key = (struct ripc__pair_key){source, dest};
	pair->ctx = ctx;
	ripc__waitq_init(&pair->done);
	HASH_ADD(hh, ctx->pairs, key, sizeof(pair->key), pair);
	if (!pair->hh.tbl) {
		free(pair);
		return NULL;
	}
	return pair;
}

void ripc__pairs_free(struct ripc *ctx)
{
	struct ripc__pair *pair, *tmp;

	HASH_ITER (hh, ctx->pairs, pair, tmp)
		pair_free(pair);
}

/* Reports the error of an earlier message once. */
static int pair_error(struct ripc__pair *pair)
{
	int rc = pair->error;

	pair->error = 0;
	return ripc__fail(rc, "an earlier reliable message to service %llu %s: %s",
			  (unsigned long long)pair->key.dest,
			  rc == -EPIPE ? "may be lost, its delivery is unknown"
				       : "was not delivered",
			  pair->why ? pair->why : "");
}

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
		return pair_error(a->pair);
	if (RIPC__UNLIKELY(!ripc__list_empty(&d->reliable_pending)))
		ripc__reliable_flush_pending(ctx, d);
	return ripc__dest_reach(ctx, d) ? -EAGAIN : ripc__reliable_post(d, a->m, a->more);
}

int ripc__send_reliable(struct ripc_service *s, struct ripc__dest *d, const struct iovec *items,
			unsigned nitems, uint64_t bytes, unsigned flags, int timeout_ms)
{
	struct ripc *ctx = s->ctx;
	struct reliable_args a = {.more = flags & RIPC_MORE};
	int rc;

	if (bytes > RIPC__RELIABLE_WINDOW_BYTES / 4)
		return ripc__fail(-EMSGSIZE,
				  "reliable short message of %llu bytes: at most %d, use "
				  "ripc_send_long()",
				  (unsigned long long)bytes, RIPC__RELIABLE_WINDOW_BYTES / 4);
	a.pair = pair_get(ctx, s->id, d->id);
	if (a.pair)
		a.m = ripc__reliable_new(ctx, 0, s->id, NULL, items, nitems);
	if (!a.m)
		return ripc__fail(-ENOMEM, "no memory to send to service %llu",
				  (unsigned long long)d->id);
	a.m->owner = &a.pair->owner;
	a.pair->users++;
	rc = post_once(d, &a);
	if (RIPC__UNLIKELY(rc == -EAGAIN))
		rc = ripc__retry_until(s, d, timeout_ms, post_once, &a);
	a.pair->users--;
	if (rc) {
		ripc__reliable_free(ctx, a.m);
		pair_trim(ctx, a.pair);
		return rc;
	}
	a.pair->unacked++;
	ripc__count_short(s, d->peer, bytes);
	return 0;
}

bool ripc__send_reliable_item(struct ripc *ctx, struct ripc_service *s, uint64_t dest,
			      const struct iovec *item, bool more)
{
	struct ripc__pair *pair = ctx->last_pair;
	struct ripc__dest *d;

	if (!ripc__service_open(s) || ctx->closing || !pair || pair->key.source != s->id ||
	    pair->key.dest != dest || pair->error || (!item->iov_base && item->iov_len) ||
	    item->iov_len > RIPC__RELIABLE_WINDOW_BYTES / 4)
		return false;
	d = ripc__dest_find(ctx, dest);
	if (!d || d->state != RIPC__DEST_KNOWN || !d->peer->lane)
		return false;
	/* First, since earlier messages of the pair may end meanwhile. */
	pair->unacked++;
	if (!ripc__reliable_send_item(d, &pair->owner, 0, s->id, NULL, item, more)) {
		pair->unacked--;
		return false;
	}
	ripc__count_short(s, d->peer, item->iov_len);
	return true;
}

int ripc_flush(struct ripc_service *s, uint64_t dest, int timeout_ms)
{
	uint64_t deadline;
	struct ripc *ctx;
	struct ripc__pair *pair;
	struct ripc__dest *d;
	int rc = ripc__check_call(s, dest, &ctx);

	if (rc)
		return rc;
	ripc__lock(ctx);
	rc = ripc__service_enter(s);
	if (rc)
		goto out;
	pair = pair_find(ctx, s->id, dest);
	if (!pair)
		goto leave;
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
					"%u reliable messages to service %llu are not acknowledged",
					pair->unacked, (unsigned long long)dest);
	}
	if (pair->error && rc != -ESHUTDOWN)
		rc = pair_error(pair);
	pair->users--;
	pair_trim(ctx, pair);
leave:
	ripc__service_leave(s);
out:
	ripc__unlock(ctx);
	return rc;
}
