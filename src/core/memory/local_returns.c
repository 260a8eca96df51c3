/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Local return buffers: the owner's side. Contract in buffer.h.
 *
 * An offered buffer is exposed to one peer over one lane (RIPC__ACCESS_REMOTE_WRITE) until the
 * peer's message that uses it arrives, the peer sends REVOKED, or the lane is closed. If the lane
 * cannot write or the exposure fails, the peer learns only that the buffer exists: the owner reads
 * or copies the peer's next long item that fits into it.
 */
#include "core/memory/buffer.h"
#include "core/memory/standing.h"
#include "core/memory/ops.h"
#include "core/progress/context.h"
#include "core/memory/detach.h"
#include "core/peer/lane.h"
#include "core/service/service.h"
#include "core/memory/bounce.h"

#include <stdlib.h>

/* Whether another standing buffer of its lane has the same lower bits. */
static bool ambiguous(const struct ripc__local_return *r, uint32_t id)
{
	return r->flow && ripc__standing_find(r->flow->lane, id & RIPC__IMM_BUFFER_MASK);
}

int ripc__local_return_index(struct ripc *ctx, struct ripc__local_return *r)
{
	struct ripc__memory *m = ctx->memory;

	if (m->return_ids.count >= RIPC__LOCAL_RETURNS_MAX)
		return -ENOMEM;
	do {
		if (!++m->next_return_id)
			m->next_return_id = 1;
	} while (ripc__table_find(&m->return_ids, m->next_return_id) ||
		 ambiguous(r, m->next_return_id));
	r->id = m->next_return_id;
	ripc__table_add(&m->return_ids, &r->id_node);
	return 0;
}

void ripc__local_return_unindex(struct ripc *ctx, struct ripc__local_return *r)
{
	ripc__table_remove(&ctx->memory->return_ids, &r->id_node);
}

struct ripc__local_return *ripc__local_return_find(struct ripc *ctx, uint64_t id)
{
	struct ripc__node *n = ripc__table_find(&ctx->memory->return_ids, id);

	return n ? ripc__list_entry(n, struct ripc__local_return, id_node) : NULL;
}

struct ripc__local_return *ripc__target_new(struct ripc *ctx, struct ripc_service *service,
					    void *base, size_t len, const char *what)
{
	struct ripc__region *region = len ? ripc__memory_find(ctx, base, len) : NULL;
	struct ripc__local_return *r;

	if (!region || (region->state != RIPC__REGION_USER && region->state != RIPC__REGION_APP)) {
		ripc__fail(-EINVAL, "%s of %zu bytes at %p: %s", what, len, base,
			   len ? "not within registered or allocated memory"
			       : "must have at least 1");
		errno = EINVAL;
		return NULL;
	}
	if (ripc__range_check(ctx, region, base, len)) {
		errno = EBUSY;
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	/* Memory that a peer writes must not be exported: it could not be detached. */
	if (!r || ripc__region_unexport(ctx, region)) {
		free(r);
		ripc__fail(-ENOMEM, "no memory for a %s", what);
		errno = ENOMEM;
		return NULL;
	}
	r->base = base;
	r->len = len;
	r->region = region;
	r->service = service;
	region->pins++;
	ripc__list_init(&r->link);
	ripc__list_add(&region->returns, &r->region_link);
	return r;
}

/* Its region has it no more. */
static void target_free(struct ripc *ctx, struct ripc__local_return *r)
{
	struct ripc__region *region = r->region;

	ripc__list_del(&r->link);
	ripc__list_del(&r->region_link);
	free(r);
	region->pins--;
	ripc__region_release(ctx, region);
}

struct ripc__local_return *ripc__local_return_new(struct ripc *ctx, struct ripc_service *service,
						  void *base, size_t len)
{
	struct ripc__local_return *r = ripc__target_new(ctx, service, base, len, "return buffer");

	if (!r)
		return NULL;
	if (ripc__local_return_index(ctx, r)) {
		target_free(ctx, r);
		ripc__fail(-ENOMEM, "more than %d return buffers", RIPC__LOCAL_RETURNS_MAX);
		errno = ENOMEM;
		return NULL;
	}
	ripc__list_add(&ctx->memory->returns, &r->link);
	return r;
}

/* The next one of a call; NULL: there is none. */
static struct ripc__local_return *next_of_call(const struct ripc__local_return *r)
{
	return (struct ripc__local_return *)ripc__table_next(&r->call_node);
}

/* Whether ripc__local_return_claim() may take it. */
static bool claimable(const struct ripc__local_return *r, const struct ripc_service *service,
		      const struct ripc__peer *peer, size_t len)
{
	return r->service == service && r->peer == peer && !r->lane && !r->revoking &&
	       !r->arriving && r->len >= len;
}

/* The first receive window for an item of this length; NULL: none. */
static struct ripc__local_return *first_fit(const struct ripc__list *windows, size_t len)
{
	struct ripc__local_return *w;

	ripc__list_for_each_entry (w, windows, link)
		if (!w->arriving && w->len >= len)
			return w;
	return NULL;
}

struct ripc__local_return *ripc__local_return_claim(struct ripc *ctx, struct ripc_service *service,
						    struct ripc__peer *peer, uint64_t call,
						    size_t len)
{
	struct ripc__local_return *found = NULL, *r;

	if (call) {
		/* The table has them in any order. */
		for (r = ripc__local_return_of_call(ctx, call); r; r = next_of_call(r))
			if (claimable(r, service, peer, len) &&
			    (!found || (int32_t)(r->id - found->id) < 0))
				found = r;
	} else {
		ripc__list_for_each_entry (r, &ctx->memory->returns, link) {
			if (!r->call && claimable(r, service, peer, len)) {
				found = r;
				break;
			}
		}
	}
	if (!found)
		found = first_fit(&service->windows, len);
	if (!found)
		found = first_fit(&ctx->memory->recv_windows, len);
	if (found)
		found->arriving = true;
	return found;
}

void ripc__local_return_unclaim(struct ripc *ctx, struct ripc__local_return *r)
{
	r->arriving = false;
	if (r->call)
		ctx->memory_ops->call_buffer_free(ctx, r->call);
	/* A receive window of the context outlives the service. */
	if (r->region->state == RIPC__REGION_FREED ||
	    (r->service && !ripc__service_open(r->service)))
		ripc__local_return_revoke(ctx, r);
}

struct ripc__desc ripc__local_return_desc(const struct ripc__local_return *r)
{
	const struct ripc__mr *mr = r->bounce ? &r->bounce->mr : &r->mr;

	return (struct ripc__desc){
		.addr = mr->addr, .len = r->len, .key = mr->key, .how = (uint32_t)r->id};
}

void ripc__local_return_unexpose(struct ripc *ctx, struct ripc__local_return *r)
{
	struct ripc__tp *tp;

	if (!r->lane)
		return;
	tp = &ctx->tp[r->lane->tp];
	if (r->bounce)
		ripc__bounce_put(r->bounce);
	else
		tp->ops->dereg(tp->t, &r->mr);
	r->bounce = NULL;
	r->lane = NULL;
}

void ripc__local_return_drop(struct ripc *ctx, struct ripc__local_return *r)
{
	ripc__local_return_unexpose(ctx, r);
	if (r->window) {
		ctx->memory->nrecv_windows--;
	} else {
		ripc__local_return_unindex(ctx, r);
		ripc__wake(ctx, &r->service->drained);
	}
	if (r->call) {
		ripc__table_remove(&ctx->memory->call_returns, &r->call_node);
		ctx->memory_ops->call_buffer_free(ctx, r->call);
	}
	target_free(ctx, r);
}

void ripc__local_return_revoke(struct ripc *ctx, struct ripc__local_return *r)
{
	if (r->arriving || r->revoking)
		return;
	if (!r->lane) {
		ripc__local_return_drop(ctx, r);
		return;
	}
	r->revoking = true;
	ripc__lane_notify(r->lane, RIPC__REVOKE, 0, r->service->id, r->id, 0);
}

void ripc__local_returns_withdraw(struct ripc *ctx, struct ripc__region *region, bool windows)
{
	struct ripc__local_return *r, *tmp;

	ripc__list_for_each_entry_safe (r, tmp, &region->returns, region_link)
		if (windows || !r->window)
			ripc__local_return_revoke(ctx, r);
}

void ripc__local_return_revoked(struct ripc *ctx, struct ripc__local_return *r)
{
	if (r->flow) {
		ripc__standing_drop(ctx, r);
		return;
	}
	/*
	 * An earlier message that used it is still arriving and pins it; its end withdraws the
	 * offer (receiver.c).
	 */
	if (r->arriving)
		r->revoking = false;
	else
		ripc__local_return_drop(ctx, r);
}

void ripc__local_returns_lane_gone(struct ripc *ctx, struct ripc__lane *lane)
{
	struct ripc__local_return *r, *tmp;

	ripc__list_for_each_entry_safe (r, tmp, &ctx->memory->returns, link) {
		if (r->lane != lane)
			continue;
		ripc__local_return_unexpose(ctx, r);
		if (r->revoking)
			ripc__local_return_revoked(ctx, r);
	}
}

bool ripc__local_returns_on_lane(const struct ripc__lane *lane, bool revoking)
{
	const struct ripc__local_return *r;

	ripc__list_for_each_entry (r, &lane->ctx->memory->returns, link)
		if (r->lane == lane && (r->revoking || !revoking))
			return true;
	return false;
}

void ripc__local_returns_peer_gone(struct ripc *ctx, struct ripc__peer *peer)
{
	struct ripc__local_return *r;

	ripc__list_for_each_entry (r, &ctx->memory->returns, link) {
		/*
		 * The application still considers it offered; ripc_buf_free() withdraws it at once.
		 */
		if (r->peer == peer)
			r->peer = NULL;
	}
}

struct ripc__local_return *ripc__local_return_of_call(struct ripc *ctx, uint64_t call)
{
	return (struct ripc__local_return *)ripc__table_find(&ctx->memory->call_returns, call);
}

void ripc__local_returns_end_call(struct ripc *ctx, uint64_t call, bool revoke)
{
	struct ripc__local_return *r, *next;

	for (r = ripc__local_return_of_call(ctx, call); r; r = next) {
		next = next_of_call(r);
		if (revoke)
			ripc__local_return_revoke(ctx, r);
		else if (!r->arriving)
			ripc__local_return_drop(ctx, r);
	}
}

int ripc__local_returns_add(struct ripc_service *s, const struct ripc_send_options *o,
			    uint64_t call, uint32_t *ids)
{
	unsigned n = o ? o->nreturn_buffers : 0;

	for (unsigned i = 0; i < n; i++) {
		struct ripc__local_return *r = ripc__local_return_new(
			s->ctx, s, o->return_buffers[i].iov_base, o->return_buffers[i].iov_len);

		if (!r) {
			int rc = -errno;

			ripc__local_returns_undo(s->ctx, ids, i);
			return rc;
		}
		r->call = call;
		if (call)
			ripc__table_add(&s->ctx->memory->call_returns, &r->call_node);
		ids[i] = (uint32_t)r->id;
	}
	return 0;
}

void ripc__local_returns_undo(struct ripc *ctx, const uint32_t *ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct ripc__local_return *r = ripc__local_return_find(ctx, ids[i]);

		if (!r || r->arriving)
			continue;
		if (!r->peer)
			ripc__local_return_drop(ctx, r);
		else if (!r->call) /* core/call/result.c withdraws those of a call */
			ripc__local_return_revoke(ctx, r);
	}
}

void ripc__local_returns_advertised(struct ripc__lane *lane, const uint32_t *ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct ripc__local_return *r = ripc__local_return_find(lane->ctx, ids[i]);

		if (!r || r->revoking || r->arriving)
			continue;
		r->peer = lane->peer;
	}
}

void ripc__local_returns_before_reg(struct ripc__lane *lane, const uint32_t *ids, unsigned n)
{
	struct ripc *ctx = lane->ctx;

	if (ctx->tp[lane->tp].limits.caps & RIPC__CAP_CHEAP_REG || !(lane->caps & RIPC__CAP_WRITE))
		return;
	for (unsigned i = 0; i < n; i++) {
		const struct ripc__local_return *r = ripc__local_return_find(ctx, ids[i]);

		if (r && r->lane != lane)
			ctx->ops->before_copy(ctx, r->len);
	}
}

/* Exposes the buffer to the peer over the lane. Return: false: not possible. */
static bool expose(struct ripc__lane *lane, struct ripc__local_return *r)
{
	if (!(lane->caps & RIPC__CAP_WRITE))
		return false;
	r->bounce = ripc__bounce_get(lane, r->len, RIPC__ACCESS_REMOTE_WRITE);
	if (!r->bounce &&
	    ripc__reg_with_retry(lane, r->base, r->len, RIPC__ACCESS_REMOTE_WRITE, &r->mr))
		return false;
	r->lane = lane;
	return true;
}

uint8_t *ripc__local_returns_encode(struct ripc__lane *lane, const uint32_t *ids, unsigned *n,
				    uint8_t *p)
{
	struct ripc *ctx = lane->ctx;
	unsigned put = 0;

	for (unsigned i = 0; i < *n; i++) {
		struct ripc__local_return *r = ripc__local_return_find(ctx, ids[i]);
		struct ripc__desc d;

		/* The application freed it before its message was sent. */
		if (!r || r->revoking || r->arriving)
			continue;
		if (r->lane && r->lane != lane)
			ripc__local_return_unexpose(ctx, r);
		/*
		 * An offer that the peer cannot write is announced too: its owner reads items into
		 * it.
		 */
		d = (struct ripc__desc){.len = r->len};
		if (r->lane || expose(lane, r))
			d = ripc__local_return_desc(r);
		p = ripc__desc_put(p, &d);
		put++;
	}
	*n = put;
	return p;
}
