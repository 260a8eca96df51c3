/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The calls on long messages: ripc_send_long(), ripc_send_async(), and those on a request. They
 * check their arguments, take the lock and wait; core/rendezvous/sender.c sends.
 */
#include "core/call/call.h"
#include "core/memory/message.h"
#include "core/message/request.h"
#include "core/message/receive.h"
#include "core/message/send.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/rendezvous/sender.h"
#include "core/service/items.h"
#include "core/service/service.h"

/* time that ripc_send_long() waits beyond its timeout until the peer releases its memory */
#define CANCEL_TIMEOUT_MS 100

int RIPC__NO_ANALYSIS ripc_send_async(struct ripc_service *s, uint64_t dest,
				      const struct iovec *items, unsigned nitems,
				      const struct ripc_send_options *options,
				      struct ripc_request **request)
{
	struct ripc__prepared p;
	struct ripc *ctx;
	uint64_t bytes;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc && !request)
		rc = ripc__fail(-EINVAL, "nowhere to store the request");
	if (!rc)
		rc = ripc__check_long_items(items, nitems, options, &bytes);
	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	ripc__prepare(ctx, dest, items, nitems, options && options->flags & RIPC_FREE_ITEMS, &p);
	rc = ripc__request_start(s, dest, &p, bytes, options, NULL, request);
	if (!rc)
		ripc__request_publish(*request, options ? options->data : NULL);
	ripc__service_unlock(s, ctx);
	return rc;
}

/* Explains a failed request, with its destination. */
static int __attribute__((noinline)) failed(const struct ripc_request *r)
{
	if (r->detail && !strncmp(r->detail, "service ", 8))
		return ripc__fail(r->status, "%s", r->detail);
	return ripc__fail(r->status, "%s: %s", ripc__service_text(r->ctx, r->dest_id),
			  r->detail ? r->detail : ripc_strerror(r->status));
}

/* The result of a request that is done, explained. */
static inline int result(const struct ripc_request *r)
{
	return RIPC__LIKELY(!r->status) ? 0 : failed(r);
}

/* Frees a call that is done. reply: gets its answer; or NULL. Return: its result, explained. */
static inline int call_finish(struct ripc_request **request, struct ripc_message **reply)
{
	struct ripc_request *r = *request;
	int status = result(r);
	struct ripc__message *m = ripc__call_collect(r->call);

	*request = NULL;
	if (reply)
		*reply = m ? &m->pub : NULL;
	else if (m)
		ripc__message_release(m);
	return status;
}

/* Frees a request that is done. Return: its result, explained. Lock held. */
static int request_finish(struct ripc_request **request)
{
	struct ripc_request *r = *request;
	int status;

	if (r->call)
		return call_finish(request, NULL);
	status = result(r);
	ripc__request_free(r);
	*request = NULL;
	return status;
}

/*
 * Begins a call on a request. Another thread may close the context and thereby end the request.
 * Return: 0: lock held; else the return value of the call.
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
	rc = (*request)->state == RIPC__REQUEST_DONE
		     ? request_finish(request)
		     : ripc__fail_text(-EINPROGRESS, "the request is still under way");
	ripc__unlock(ctx);
	return rc;
}

/* Waits until the request is done, after a poll for it. Lock held. Return: 0 or -ETIMEDOUT. */
static int wait_done_until(struct ripc_request *r, uint64_t deadline)
{
	while (r->state != RIPC__REQUEST_DONE && !r->ctx->closing)
		if (ripc__wait_polling(r->ctx, &r->waitq, deadline, ripc__poll_answer, NULL) &&
		    r->state != RIPC__REQUEST_DONE)
			return -ETIMEDOUT;
	return 0;
}

static inline int wait_done(struct ripc_request *r, int timeout_ms)
{
	if (r->state == RIPC__REQUEST_DONE)
		return 0;
	if (timeout_ms) {
		bool published = r->published;

		/* This thread collects it if it ends in the poll: no completion for others. */
		r->published = false;
		ripc__poll_request(r->ctx, r, timeout_ms);
		r->published = published;
		/* The deadline follows the poll: most requests end in it and need no clock. */
		return r->state == RIPC__REQUEST_DONE
			       ? 0
			       : wait_done_until(r, ripc__deadline(r->ctx, timeout_ms));
	}
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
		rc = ripc__fail(-ETIMEDOUT, "the message to %s is still under way after %d ms",
				ripc__service_text(ctx, (*request)->dest_id), timeout_ms);
	ripc__unlock(ctx);
	return rc;
}

/* ripc_call_wait() with the lock held. *request: a call. */
static inline int call_wait(struct ripc_request **request, struct ripc_message **reply,
			    int timeout_ms)
{
	wait_done(*request, timeout_ms);
	if (RIPC__LIKELY((*request)->state == RIPC__REQUEST_DONE))
		return call_finish(request, reply);
	if ((*request)->ctx->closing)
		return ripc__fail(-ESHUTDOWN, "the context is being closed");
	return ripc__fail(-EINPROGRESS, "the call to %s has no answer yet",
			  ripc__service_text((*request)->ctx, (*request)->dest_id));
}

int RIPC__NO_ANALYSIS ripc_call_wait(struct ripc_request **request, struct ripc_message **reply,
				     int timeout_ms)
{
	struct ripc *ctx;
	int rc = request_enter(request, &ctx);

	if (reply)
		*reply = NULL;
	if (rc)
		return rc;
	rc = (*request)->call
		     ? call_wait(request, reply, timeout_ms)
		     : ripc__fail(-EINVAL, "the request is no call: use ripc_request_wait()");
	ripc__unlock(ctx);
	return rc;
}

/* Cancels and frees the request. Lock held. */
static int cancel(struct ripc_request **request, int timeout_ms)
{
	struct ripc_request *r = *request;

	if (r->call) {
		ripc__call_abort(r->call);
		wait_done(r, timeout_ms);
		ripc__call_withdrawn(r->call);
		return request_finish(request);
	}
	ripc__request_abort(r);
	/* If the context is being closed, wait_done() returns at once. */
	wait_done(r, timeout_ms);
	ripc__request_withdraw(r);
	if (r->lane)
		ripc__lane_fail(r->lane, -ETIMEDOUT,
				"the peer did not release a withdrawn message");
	/* The end of its lane ends it: see ripc__requests_lane_failed(). */
	if (r->state != RIPC__REQUEST_DONE)
		ripc__request_done(r, -ECANCELED, "withdrawn");
	return request_finish(request);
}

int ripc__call_finish(struct ripc_request **request, struct ripc_message **reply)
{
	int rc = call_wait(request, reply, -1);

	if (!*request)
		return rc;
	cancel(request, 0);
	return ripc__fail(-ESHUTDOWN, "the context is being closed");
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

/* The cause why a long message over a lane has not been delivered. */
static const char *expiry_cause(const struct ripc_request *r)
{
	switch (r->state) {
	case RIPC__REQUEST_PENDING:
		return "out of credit: the service has not received the messages in its queue";
	case RIPC__REQUEST_WRITING:
		return "its items are not all written";
	default:
		return "the peer has not acknowledged it";
	}
}

/* Cancels a long message that was not delivered in time, and explains the reason. Lock held. */
static int cancel_expired(struct ripc_request **request, int timeout_ms)
{
	struct ripc_request *r = *request;
	const char *cause = expiry_cause(r);
	struct ripc *ctx = r->ctx;
	bool unreachable = r->state == RIPC__REQUEST_PENDING && !ripc__dest_lane(r->dest);
	uint64_t dest = r->dest_id;
	struct ripc__dest *d = r->dest;
	int rc;

	d->users++;
	rc = cancel(request, CANCEL_TIMEOUT_MS);
	/* Last: it replaces the explanation of cancel(). */
	if (rc == -ECANCELED && unreachable)
		rc = ripc__dest_unreachable(ctx, d);
	d->users--;
	if (rc == -EPIPE)
		return ripc__fail(-EPIPE,
				  "%s: its holder has acknowledged neither the message in "
				  "%d ms nor its withdrawal: delivery is unknown",
				  ripc__service_text(ctx, dest), timeout_ms);
	if (rc != -ECANCELED)
		return rc;
	return ripc__fail(-ETIMEDOUT,
			  "%s: the message was not delivered in %d ms and was withdrawn: %s",
			  ripc__service_text(ctx, dest), timeout_ms, cause);
}

int ripc__request_finish_until(struct ripc_request **request, uint64_t deadline, int timeout_ms)
{
	struct ripc *ctx = (*request)->ctx;
	int rc;

	if ((*request)->state != RIPC__REQUEST_DONE)
		ripc__poll_request(ctx, *request, timeout_ms);
	rc = wait_done_until(*request, deadline);
	if ((*request)->state != RIPC__REQUEST_DONE && ctx->closing) {
		/*
		 * On return the memory belongs to the caller, even if the context is being closed.
		 */
		cancel(request, 0);
		return ripc__fail(-ESHUTDOWN, "the context is being closed");
	}
	rc = rc ? cancel_expired(request, timeout_ms) : request_finish(request);
	/* Cancelled because its service was closed. */
	return rc == -ECANCELED
		       ? ripc__fail(-ESHUTDOWN, "the service was closed while it was sending")
		       : rc;
}

int ripc__send_long(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		    unsigned nitems, uint64_t bytes, const struct ripc_send_options *o,
		    int timeout_ms)
{
	struct ripc__prepared p;
	struct ripc_request *r;
	uint64_t deadline;
	int rc;

	if (!timeout_ms)
		return ripc__fail(-EAGAIN, "a long message cannot be delivered without waiting: "
					   "use ripc_send_async()");
	/* The clock itself is read when the message has left, and its receiver works. */
	deadline = ripc__deadline_far(s->ctx, timeout_ms);
	ripc__prepare(s->ctx, dest, items, nitems, o && o->flags & RIPC_FREE_ITEMS, &p);
	rc = ripc__request_start(s, dest, &p, bytes, o, NULL, &r);
	return rc ? rc : ripc__request_finish_until(&r, deadline, timeout_ms);
}

int RIPC__NO_ANALYSIS ripc_send_long(struct ripc_service *s, uint64_t dest,
				     const struct iovec *items, unsigned nitems,
				     const struct ripc_send_options *options, int timeout_ms)
{
	struct ripc *ctx;
	uint64_t bytes;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc)
		rc = ripc__check_long_items(items, nitems, options, &bytes);
	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	rc = ripc__send_long(s, dest, items, nitems, bytes, options, timeout_ms);
	ripc__service_unlock(s, ctx);
	return rc;
}
