/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/buffer.h"

#include <stdlib.h>

static void cached_mr_free(struct ripc *ctx, struct ripc__cached_mr *cached_mr)
{
	struct ripc__tp *tp = &ctx->tp[cached_mr->tp];

	if (tp->t)
		tp->ops->dereg(tp->t, &cached_mr->mr);
	free(cached_mr);
}

void ripc__cached_mrs_drop(struct ripc *ctx, struct ripc__region *r)
{
	for (unsigned i = 0; i < ctx->ntp; i++) {
		if (!r->cached_mr[i])
			continue;
		/*
		 * The device transfers data of these pages even if the region is mapped elsewhere.
		 */
		r->cached_mr[i]->dropped = true;
		if (!r->cached_mr[i]->users)
			cached_mr_free(ctx, r->cached_mr[i]);
		r->cached_mr[i] = NULL;
	}
}

/* Registers the whole region. Return: NULL: it cannot be registered. */
static struct ripc__cached_mr *cached_mr_get(struct ripc *ctx, unsigned tp,
					     struct ripc__region *region)
{
	struct ripc__tp *t = &ctx->tp[tp];
	struct ripc__cached_mr *cached_mr = region->cached_mr[tp];

	if (cached_mr)
		return cached_mr;
	cached_mr = calloc(1, sizeof(*cached_mr));
	if (!cached_mr)
		return NULL;
	ctx->ops->before_copy(ctx, region->cap);
	if (t->ops->reg(t->t, NULL, region->base, region->cap, RIPC__ACCESS_LOCAL_WRITE,
			&cached_mr->mr)) {
		free(cached_mr);
		return NULL;
	}
	cached_mr->tp = tp;
	region->cached_mr[tp] = cached_mr;
	return cached_mr;
}

struct ripc__mr *ripc__sink_mr(struct ripc *ctx, unsigned tp, struct ripc__region *region,
			       void *base, size_t len, struct ripc__mr *own,
			       struct ripc__cached_mr **cached)
{
	struct ripc__tp *t = &ctx->tp[tp];

	*cached = NULL;
	/*
	 * Memory that a peer can write while registered must not stay registered for the next
	 * owner.
	 */
	if (t->limits.caps & (RIPC__CAP_CHEAP_REG | RIPC__CAP_SINK_WRITABLE)) {
		if (t->ops->reg(t->t, NULL, base, len, RIPC__ACCESS_LOCAL_WRITE, own))
			return NULL;
		return own;
	}
	*cached = cached_mr_get(ctx, tp, region);
	if (!*cached)
		return NULL;
	(*cached)->users++;
	return &(*cached)->mr;
}

struct ripc__cached_mr *ripc__cached_mr_hold(struct ripc *ctx, unsigned tp,
					     struct ripc__region *region)
{
	/*
	 * An application's region is registered whole only if it is small and writable. Imported
	 * memory is read-only, and a large region would count against RLIMIT_MEMLOCK with bytes
	 * that are not sent.
	 */
	bool small = region->state != RIPC__REGION_USER && region->state != RIPC__REGION_IMPORTED &&
		     region->cap <= RIPC__CACHED_MR_MAX;

	if (ctx->tp[tp].limits.caps & (RIPC__CAP_CHEAP_REG | RIPC__CAP_SINK_WRITABLE) ||
	    !(small ? cached_mr_get(ctx, tp, region) : region->cached_mr[tp]))
		return NULL;
	region->cached_mr[tp]->users++;
	return region->cached_mr[tp];
}

void ripc__cached_mr_release(struct ripc *ctx, struct ripc__cached_mr *cached_mr)
{
	if (!--cached_mr->users && cached_mr->dropped)
		cached_mr_free(ctx, cached_mr);
}

bool ripc__mr_cache_trim(struct ripc *ctx)
{
	bool any = false;

	for (size_t i = 0; i < ctx->memory->nregions; i++)
		for (unsigned tp = 0; tp < ctx->ntp; tp++) {
			struct ripc__cached_mr **cached_mr =
				&ctx->memory->regions[i]->cached_mr[tp];

			if (!*cached_mr || (*cached_mr)->users)
				continue;
			cached_mr_free(ctx, *cached_mr);
			*cached_mr = NULL;
			any = true;
		}
	return any;
}
