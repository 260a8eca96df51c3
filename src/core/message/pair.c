/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/message/pair.h"

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

void ripc__pair_trim(struct ripc *ctx, struct ripc__pair *pair)
{
	struct ripc__pair *oldest, *tmp;

	if (!pair_idle(pair) ||
	    RIPC__LIKELY(HASH_COUNT(ctx->pairs) <= RIPC__IDLE_PAIRS_MAX && !pair->ended))
		return;
	if (!pair->error || pair->ended) {
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
	ripc__pair_trim(ctx, pair);
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
		ripc__log(RIPC_LOG_WARN, "%s: a reliable message to %s %s: %s",
			  ripc__service_text(ctx, pair->source_id),
			  ripc__service_text(ctx, pair->key.dest),
			  status == -EPIPE ? "may be lost" : "was not delivered", why ? why : "");
	}
	pair_ended(ctx, pair, 1);
}

struct ripc__pair *ripc__pair_find(struct ripc *ctx, const struct ripc_service *s, uint64_t dest)
{
	struct ripc__pair_key key = {(uintptr_t)s, dest};
	struct ripc__pair *pair = ctx->last_pair;

	if (ripc__pair_is(pair, s, dest))
		return pair;
	/* The analyzer does not follow the hash function through the bytes of the key. */
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
	HASH_FIND(hh, ctx->pairs, &key, sizeof(key), pair);
	if (pair)
		ctx->last_pair = pair;
	return pair;
}

struct ripc__pair *ripc__pair_get(struct ripc *ctx, const struct ripc_service *s, uint64_t dest)
{
	struct ripc__pair *pair = ripc__pair_find(ctx, s, dest);

	if (pair)
		return pair;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return NULL;
	pair->owner.end = pair_end;
	pair->owner.delivered = pair_delivered;
	pair->key = (struct ripc__pair_key){(uintptr_t)s, dest};
	pair->source_id = s->id;
	pair->ctx = ctx;
	ripc__waitq_init(&pair->done);
	HASH_ADD(hh, ctx->pairs, key, sizeof(pair->key), pair);
	if (!pair->hh.tbl) {
		free(pair);
		return NULL;
	}
	return pair;
}

void ripc__pairs_service_stopped(struct ripc_service *s)
{
	for (struct ripc__pair *pair = s->ctx->pairs; pair; pair = pair->hh.next)
		if (pair->key.source == (uintptr_t)s)
			ripc__wake(s->ctx, &pair->done);
}

void ripc__pairs_service_ended(struct ripc_service *s)
{
	struct ripc__pair *pair, *tmp;

	HASH_ITER (hh, s->ctx->pairs, pair, tmp) {
		if (pair->key.source != (uintptr_t)s)
			continue;
		/* Its messages are still sent. */
		pair->ended = true;
		ripc__pair_trim(s->ctx, pair);
	}
}

void ripc__pairs_free(struct ripc *ctx)
{
	struct ripc__pair *pair, *tmp;

	HASH_ITER (hh, ctx->pairs, pair, tmp)
		pair_free(pair);
}

int ripc__pair_error(struct ripc__pair *pair)
{
	int rc = pair->error;

	pair->error = 0;
	return ripc__fail(rc, "an earlier reliable message to %s %s: %s",
			  ripc__service_text(pair->ctx, pair->key.dest),
			  rc == -EPIPE ? "may be lost, its delivery is unknown"
				       : "was not delivered",
			  pair->why ? pair->why : "");
}
