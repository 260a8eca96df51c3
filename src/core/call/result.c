/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/caller.h"
#include "core/memory/buffer.h"
#include "core/memory/message.h"
#include "core/peer/lane.h"

#include <stdlib.h>
#include <string.h>
#include <sys/cdefs.h>

/* Frees the copy of a short request. */
static __always_inline void drop_short(struct ripc__call *call)
{
	struct ripc__reliable_msg *m = call->m;

	if (!m)
		return;
	call->m = NULL;
	if (call->listed)
		ripc__reliable_withdraw(call->ctx, m);
	call->listed = false;
	ripc__reliable_free(call->ctx, m);
}

void ripc__call_free_later(struct ripc_request *r)
{
	struct ripc *ctx = r->ctx;

	ripc__list_del(&r->ctx_link);
	ripc__list_add(&ctx->ended_requests, &r->ctx_link);
}

void ripc__calls_free_ended(struct ripc *ctx)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&ctx->ended_requests)))
		ripc__request_free(ripc__list_entry(n, struct ripc_request, ctx_link));
}

/* Ends the long request at once: the memory of its items belongs to the caller again. */
static void end_long(struct ripc__call *call)
{
	struct ripc_request *r = call->rndv;

	call->rndv = NULL;
	r->ext.ended = NULL;
	ripc__request_abort(r);
	if (r->state != RIPC__REQUEST_DONE && r->lane)
		ripc__lane_fail(r->lane, -ETIMEDOUT,
				"the peer did not release a withdrawn request");
	if (r->state != RIPC__REQUEST_DONE)
		ripc__request_done(r, -ECANCELED, "withdrawn");
	ripc__call_free_later(r);
}

/* A call that was repeated and not answered never ends with "not executed". */
static int repeated_status(const struct ripc__call *call, int status)
{
	if (call->reply)
		return status;
	switch (status) {
	case -ETIMEDOUT:
	case -ECANCELED:
		return -ETIME;
	case -EHOSTUNREACH:
		return ripc__now(call->ctx) < call->deadline_ns ? -EPIPE : -ETIME;
	default:
		return status;
	}
}

bool ripc__call_has_buffers(const struct ripc__call *call)
{
	return call->long_req && call->long_req->options.nreturn_buffers;
}

/* Whether an item of the answer lies in this reply buffer. */
static bool buffer_is_used(const struct ripc_message *m, const struct iovec *buffer)
{
	for (unsigned i = 0; i < m->nitems; i++)
		if (m->placement[i] == RIPC_IN_RETURN_BUFFER &&
		    m->items[i].iov_base == buffer->iov_base)
			return true;
	return false;
}

/*
 * Copies each item of the answer that is not in a reply buffer into the first buffer that is unused
 * and long enough. These are the items of a short answer, and of a long one whose sender had no
 * list of the buffers, because the lane that announced them was lost. No peer can write the buffers
 * any more.
 */
static void fill_buffers(const struct ripc__call *call)
{
	struct ripc_message *m = &call->reply->pub;
	struct iovec *items = (struct iovec *)m->items;
	uint8_t *placement = (uint8_t *)m->placement;
	const struct ripc__long_request *l = call->long_req;

	for (unsigned i = 0; i < m->nitems; i++) {
		if (placement[i] == RIPC_IN_RETURN_BUFFER)
			continue;
		for (unsigned b = 0; items[i].iov_len && b < l->options.nreturn_buffers; b++) {
			const struct iovec *buffer = &l->buffers[b];

			if (buffer->iov_len < items[i].iov_len || buffer_is_used(m, buffer))
				continue;
			memcpy(buffer->iov_base, items[i].iov_base, items[i].iov_len);
			if (m->is_long)
				ripc__message_release_item(call->reply, i);
			items[i].iov_base = buffer->iov_base;
			placement[i] = RIPC_IN_RETURN_BUFFER;
			break;
		}
	}
}

static __always_inline void call_finish(struct ripc__call *call, int status, const char *why)
{
	struct ripc_request *r = call->handle;
	struct ripc *ctx = call->ctx;
	struct ripc_service *s = r->service;

	ripc__call_set_state(call, RIPC__CALL_IS_DONE);
	ripc__call_set_peer(call, NULL);
	drop_short(call);
	if (call->rndv)
		end_long(call);
	if (status == -ECANCELED)
		ctx->stats.cancelled++;
	r->status = status;
	if (RIPC__UNLIKELY(why != NULL))
		r->detail = strdup(why);
	r->state = RIPC__REQUEST_DONE;
	r->service = NULL;
	s->nrequests--;
	ripc__wake(ctx, &r->waitq);
	ripc__wake(ctx, &s->drained);
	if (r->published)
		ripc__completion_add(ctx, &r->completion);
}

/* Withdraws the reply buffers from the peer. Return: false: the peer may still write them. */
static bool return_buffers(struct ripc__call *call)
{
	struct ripc *ctx = call->ctx;

	/* A peer that has answered has no right to them any more. */
	ripc__local_returns_end_call(ctx, call->id, !call->reply);
	return !ripc__local_return_of_call(ctx, call->id);
}

/* Closes the lanes over which a silent peer could still write the reply buffers. */
static void close_busy_lanes(struct ripc__call *call)
{
	struct ripc__local_return *b;

	while ((b = ripc__local_return_of_call(call->ctx, call->id))) {
		struct ripc__lane *lane = b->lane;

		if (!lane && b->peer)
			lane = b->peer->lane;
		/* Dead: ripc_close() has closed it, with all others. */
		if (!lane || lane->state == RIPC__LANE_DEAD)
			break;
		ripc__lane_fail(lane, -ETIMEDOUT, "the peer did not release a reply buffer");
	}
}

void ripc__call_end(struct ripc__call *call, int status, const char *why)
{
	struct ripc__long_request *l = call->long_req;

	if (RIPC__UNLIKELY(call->state >= RIPC__CALL_IS_WITHDRAWING))
		return;
	if (RIPC__UNLIKELY(call->repeated) && status != repeated_status(call, status)) {
		status = repeated_status(call, status);
		why = "a holder of the service that was lost may have executed the request";
	}
	if (RIPC__UNLIKELY(ripc__call_has_buffers(call))) {
		/* The request offers the buffers until it ends. Its end may end the call. */
		if (call->rndv)
			end_long(call);
		if (call->state >= RIPC__CALL_IS_WITHDRAWING)
			return;
		if (!return_buffers(call)) {
			l->status = status;
			l->why = why ? strdup(why) : NULL;
			ripc__call_set_state(call, RIPC__CALL_IS_WITHDRAWING);
			ripc__call_set_deadline(call, ripc__now(call->ctx) + RIPC__CALL_CANCEL_NS);
			return;
		}
		if (call->reply)
			fill_buffers(call);
	}
	call_finish(call, status, why);
}

void ripc__calls_check(struct ripc *ctx, uint64_t id)
{
	const struct ripc__call *call = ripc__call_at(ctx, id);

	if (call && call->state == RIPC__CALL_IS_WITHDRAWING)
		ripc__call_due(call, 0);
}

void ripc__call_end_withdrawn(struct ripc__call *call, bool force)
{
	if (call->state != RIPC__CALL_IS_WITHDRAWING)
		return;
	if (force) {
		close_busy_lanes(call);
		ripc__local_returns_end_call(call->ctx, call->id, false);
	} else if (!return_buffers(call)) {
		return;
	}
	/* A lane that was closed may have ended it. */
	if (call->state != RIPC__CALL_IS_WITHDRAWING)
		return;
	if (call->reply)
		fill_buffers(call);
	call_finish(call, call->long_req->status, call->long_req->why);
}

struct ripc__message *ripc__call_collect(struct ripc__call *call)
{
	struct ripc__message *m = call->reply;

	if (m && m->pub.is_long)
		ripc__message_return_memory(m);
	call->reply = NULL;
	ripc__call_release(call);
	return m;
}

static void discard(struct ripc__call *call)
{
	struct ripc__message *m = ripc__call_collect(call);

	if (m)
		ripc__message_release(m);
}

void ripc__calls_end_all(struct ripc *ctx)
{
	struct ripc__call *call;
	uint32_t slot = 0;

	while ((call = ripc__call_next(ctx, &slot))) {
		ripc__call_end(call, -ESHUTDOWN, NULL);
		ripc__call_end_withdrawn(call, true);
	}
	for (slot = 0; slot < ctx->call_slots; slot++)
		if (ctx->call_table[slot]->state == RIPC__CALL_IS_DONE)
			discard(ctx->call_table[slot]);
	ripc__calls_free_ended(ctx);
}
