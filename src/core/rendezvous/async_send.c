/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls for long messages: ripc_send_async(), its requests, and ripc_send_long(), which waits. */
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/request.h"
#include "core/message/send.h"
#include "core/message/service.h"

#include <stdlib.h>
#include <string.h>

/* What ripc_send_long() may take beyond its timeout to get its memory back. */
#define CANCEL_TIMEOUT_MS 100

/*
 * Memory that was given back to the pool may be anybody's. What lies behind a buffer never was the
 * application's.
 */
static int check_memory(struct ripc *ctx, const struct iovec *items, unsigned nitems)
{
	for (unsigned i = 0; i < nitems; i++) {
		struct ripc__region *r =
			items[i].iov_len ? ripc__memory_find_cap(ctx, items[i].iov_base) : NULL;

		if (!r || r->state == RIPC__REGION_USER)
			continue;
		if (r->state == RIPC__REGION_FREE || r->free_pending)
			return ripc__fail(-EINVAL, "item %u: the buffer at %p was freed before", i,
					  items[i].iov_base);
		if (!ripc__region_contains(r, items[i].iov_base, items[i].iov_len))
			return ripc__fail(-EINVAL,
					  "item %u: %zu bytes at %p reach beyond the buffer of %zu "
					  "bytes at %p",
					  i, items[i].iov_len, items[i].iov_base, r->len,
					  (void *)r->base);
	}
	return 0;
}

/* Makes a request and issues it if possible. Lock held, and perhaps released meanwhile, service entered. */
static int start(struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
		 uint64_t bytes, const struct ripc_send_options *o, struct ripc_request **out)
{
	struct ripc *ctx = s->ctx;
	struct ripc_request *r;
	struct ripc__dest *d;
	int rc;

	ripc__export_prepare(ctx, items, nitems);
	rc = s->state != RIPC__SERVICE_ACTIVE || ctx->closing ? ripc__service_closed_error(s) : 0;
	if (rc)
		return rc;
	r = ripc__request_get(ctx, nitems);
	d = r ? ripc__dest_get(ctx, dest) : NULL;
	if (!d) {
		if (r)
			ripc__request_put(ctx, r, nitems);
		return ripc__fail(-ENOMEM, "no memory for a request to service %llu",
				  (unsigned long long)dest);
	}
	*r = (struct ripc_request){
		.ctx = ctx,
		.service = s,
		.dest = d,
		.source = s->id,
		.dest_id = dest,
		.bytes = bytes,
		.ref_deadline_ns = RIPC__NEVER,
		.nreturns = o ? o->nreturns : 0,
		.nitems = nitems,
	};
	memset(r->items, 0, nitems * sizeof(r->items[0]));
	rc = check_memory(ctx, items, nitems);
	if (!rc)
		rc = ripc__local_returns_add(s, o, r->returns);
	if (rc) {
		ripc__request_put(ctx, r, nitems);
		return rc;
	}
	r->start_seq = ctx->requests_started++;
	ripc__list_init(&r->peer_link);
	ripc__waitq_init(&r->waitq);
	for (unsigned i = 0; i < nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		it->owner = r;
		ripc__list_init(&it->ref_link);
		it->base = items[i].iov_base;
		it->len = items[i].iov_len;
		it->region = it->len ? ripc__memory_find(ctx, it->base, it->len) : NULL;
		if (it->region)
			it->region->sends++;
	}
	d->users++;
	s->nrequests++;
	ctx->long_inflight++;
	ripc__list_add(&ctx->requests, &r->ctx_link);
	ripc__list_add(&d->pending, &r->link);
	ripc__dest_flush(ctx, d);
	*out = r;
	return 0;
}

int ripc_send_async(struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
		    const struct ripc_send_options *options, struct ripc_request **request)
{
	struct ripc *ctx;
	uint64_t bytes;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc && !request)
		rc = ripc__fail(-EINVAL, "nowhere to store the request");
	if (!rc)
		rc = ripc__check_items(items, nitems, options, &bytes);
	if (rc)
		return rc;
	ripc__lock(ctx);
	rc = ripc__service_enter(s);
	if (!rc) {
		rc = start(s, dest, items, nitems, bytes, options, request);
		ripc__service_leave(s);
	}
	ripc__unlock(ctx);
	return rc;
}

/* The request is done: its result, explained. It is freed. Lock held. */
static int request_finish(struct ripc_request **request)
{
	struct ripc_request *r = *request;
	int status = r->status;

	if (status)
		ripc__fail(status, "%s", r->detail ? r->detail : ripc_strerror(status));
	ripc__request_free(r);
	*request = NULL;
	return status;
}

/*
 * Begins a call on a request. Another thread may close the context: then the request is gone.
 * Return: 0, lock held; or what the call returns.
 */
static int RIPC__NO_ANALYSIS request_enter(struct ripc_request **request, struct ripc **ctx)
{
	struct ripc_request *r = request ? *request : NULL;
	int rc = 0;

	if (!r)
		return ripc__fail(-EINVAL, "no request");
	*ctx = __atomic_load_n(&r->ctx, __ATOMIC_RELAXED);
	if (*ctx) {
		rc = ripc__check_owner(*ctx);
		if (rc == -EOWNERDEAD)
			return rc;
	}
	if (*ctx && !rc) {
		ripc__lock(*ctx);
		if ((*ctx)->owner && r->ctx)
			return 0;
		ripc__unlock(*ctx);
	}
	*request = NULL;
	ripc__shut_down();
	return -ESHUTDOWN;
}

int RIPC__NO_ANALYSIS ripc_request_test(struct ripc_request **request)
{
	struct ripc *ctx;
	int rc = request_enter(request, &ctx);

	if (rc)
		return rc;
	if ((*request)->state != RIPC__REQUEST_DONE) {
		ripc__delayed_ack_idle(ctx);
		ripc__progress(ctx);
	}
	rc = (*request)->state == RIPC__REQUEST_DONE ? request_finish(request) : -EINPROGRESS;
	ripc__unlock(ctx);
	return rc;
}

/* Lock held. Return: 0 it is done; -ETIMEDOUT. */
static int wait_done_until(struct ripc_request *r, uint64_t deadline, int timeout_ms)
{
	if (r->state != RIPC__REQUEST_DONE)
		ripc__fast_path_poll_request(r->ctx, r, timeout_ms);
	while (r->state != RIPC__REQUEST_DONE && !r->ctx->closing)
		if (ripc__wait(r->ctx, &r->waitq, deadline) && r->state != RIPC__REQUEST_DONE)
			return -ETIMEDOUT;
	return 0;
}

static int wait_done(struct ripc_request *r, int timeout_ms)
{
	if (r->state == RIPC__REQUEST_DONE)
		return 0;
	if (timeout_ms)
		return wait_done_until(r, ripc__deadline(r->ctx, timeout_ms), timeout_ms);
	ripc__delayed_ack_idle(r->ctx);
	ripc__progress(r->ctx);
	return r->state == RIPC__REQUEST_DONE ? 0 : -ETIMEDOUT;
}

int RIPC__NO_ANALYSIS ripc_request_wait(struct ripc_request **request, int timeout_ms)
{
	struct ripc *ctx;
	int rc = request_enter(request, &ctx);

	if (rc)
		return rc;
	rc = wait_done(*request, timeout_ms);
	if (ctx->closing && (*request)->state != RIPC__REQUEST_DONE)
		rc = ripc__fail(-ESHUTDOWN, "the context is being closed");
	else if (!rc)
		rc = request_finish(request);
	else
		rc = ripc__fail(-ETIMEDOUT,
				"the message to service %llu is still under way after %d ms",
				(unsigned long long)(*request)->dest_id, timeout_ms);
	ripc__unlock(ctx);
	return rc;
}

/* Lock held. */
static int cancel(struct ripc_request **request, int timeout_ms)
{
	struct ripc_request *r = *request;

	ripc__request_abort(r);
	/* Also if the context is being closed meanwhile, and await() therefore waits no more. */
	wait_done(r, timeout_ms);
	if (r->lane)
		ripc__lane_fail(r->lane, -ETIMEDOUT, "the peer did not let go of a withdrawn message");
	/* Its lane gone, it was done with: see ripc__request_lane_gone(). */
	if (r->state != RIPC__REQUEST_DONE)
		ripc__request_done(r, -ECANCELED, "withdrawn");
	return request_finish(request);
}

int RIPC__NO_ANALYSIS ripc_request_cancel(struct ripc_request **request, int timeout_ms)
{
	struct ripc *ctx;
	int rc = request_enter(request, &ctx);

	if (rc)
		return rc;
	rc = cancel(request, timeout_ms);
	ripc__unlock(ctx);
	return rc;
}

/* A long message that was not delivered in time: withdrawn, and why. Lock held. */
static int cancel_expired(struct ripc_request **request, int timeout_ms)
{
	struct ripc_request *r = *request;
	struct ripc *ctx = r->ctx;
	bool unreachable =
		r->state == RIPC__REQUEST_PENDING && !(r->dest->peer && r->dest->peer->lane);
	unsigned long long dest = r->dest_id;
	struct ripc__dest *d = r->dest;
	int rc;

	d->users++;
	rc = cancel(request, CANCEL_TIMEOUT_MS);
	/* Last, so that its sentence is the one that stays. */
	if (rc == -ECANCELED && unreachable)
		rc = ripc__dest_unreachable(ctx, d);
	d->users--;
	if (rc != -ECANCELED)
		return rc;
	return ripc__fail(-ETIMEDOUT,
			  "service %llu: the message was not delivered in %d ms and was withdrawn",
			  dest, timeout_ms);
}

int ripc__send_long(struct ripc_service *s, uint64_t dest, const struct iovec *items, unsigned nitems,
		    uint64_t bytes, const struct ripc_send_options *o, int timeout_ms)
{
	struct ripc *ctx = s->ctx;
	struct ripc_request *r;
	uint64_t deadline;
	int rc;

	if (!timeout_ms)
		return ripc__fail(-EAGAIN, "a long message cannot be delivered without waiting: "
					   "use ripc_send_async()");
	/* One look at the clock for the sending and the waiting. */
	deadline = ripc__deadline(ctx, timeout_ms);
	rc = start(s, dest, items, nitems, bytes, o, &r);
	if (rc)
		return rc;
	rc = wait_done_until(r, deadline, timeout_ms);
	if (r->state != RIPC__REQUEST_DONE && ctx->closing) {
		/* The memory is the caller's on return, whatever the context still has to say. */
		cancel(&r, 0);
		return ripc__fail(-ESHUTDOWN, "the context is being closed");
	}
	rc = rc ? cancel_expired(&r, timeout_ms) : request_finish(&r);
	/* Cancelled by nobody but the closing of its service. */
	return rc == -ECANCELED
		       ? ripc__fail(-ESHUTDOWN, "the service was closed while it was sending")
		       : rc;
}

int ripc_send_long(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		   unsigned nitems, const struct ripc_send_options *options, int timeout_ms)
{
	struct ripc *ctx;
	uint64_t bytes;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc)
		rc = ripc__check_items(items, nitems, options, &bytes);
	if (rc)
		return rc;
	ripc__lock(ctx);
	rc = ripc__service_enter(s);
	if (!rc) {
		rc = ripc__send_long(s, dest, items, nitems, bytes, options, timeout_ms);
		ripc__service_leave(s);
	}
	ripc__unlock(ctx);
	return rc;
}
