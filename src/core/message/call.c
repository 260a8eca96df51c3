/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public functions of calls: they check their arguments, take the lock and wait. */
#include "core/call/call.h"
#include "core/message/request.h"
#include "core/message/send.h"
#include "core/peer/lane.h"
#include "core/service/items.h"

#include <limits.h>
#include <sys/cdefs.h>

static int check_options(const struct ripc_call_options *o)
{
	if (!o)
		return 0;
	if (o->size != sizeof(*o)) {
		int rc = ripc__check_options_size(o, o->size, sizeof(*o), "ripc_call_options");

		if (rc)
			return rc;
	}
	if (o->flags & ~(unsigned)RIPC_IDEMPOTENT)
		return ripc__fail(-EOPNOTSUPP,
				  "flags 0x%x: a call takes no other than RIPC_IDEMPOTENT (0x%x)",
				  o->flags, RIPC_IDEMPOTENT);
	if (o->nreply_buffers > RIPC_RETURN_BUFFERS_MAX)
		return ripc__fail(-EINVAL, "%u reply buffers: at most %d", o->nreply_buffers,
				  RIPC_RETURN_BUFFERS_MAX);
	if (o->nreply_buffers && !o->reply_buffers)
		return ripc__fail(-EINVAL, "%u reply buffers: there is no array of them",
				  o->nreply_buffers);
	return 0;
}

/* Checks the arguments of a call. Return: 0: lock held, s entered; else the error. */
static __always_inline int RIPC__NO_ANALYSIS call_enter(struct ripc_service *s, uint64_t dest,
							const struct iovec *items, unsigned nitems,
							const struct ripc_call_options *options,
							uint64_t *bytes)
{
	struct ripc *ctx;
	int rc = ripc__check_call(s, dest, &ctx);

	if (!rc)
		rc = ripc__check_call_items(items, nitems, bytes);
	if (!rc)
		rc = check_options(options);
	return rc ? rc : ripc__service_lock(s, ctx);
}

int RIPC__NO_ANALYSIS ripc_call_start(struct ripc_service *s, uint64_t dest,
				      const struct iovec *items, unsigned nitems,
				      const struct ripc_call_options *options, int timeout_ms,
				      struct ripc_request **request)
{
	uint64_t bytes;
	int rc;

	if (!request)
		return ripc__fail(-EINVAL, "nowhere to store the request");
	rc = call_enter(s, dest, items, nitems, options, &bytes);
	if (rc)
		return rc;
	rc = ripc__call_start(s, dest, items, nitems, bytes, options, timeout_ms, request);
	if (!rc)
		ripc__request_publish(*request, options ? options->data : NULL);
	ripc__service_unlock(s, s->ctx);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_call(struct ripc_service *s, uint64_t dest, const struct iovec *items,
				unsigned nitems, const struct ripc_call_options *options,
				struct ripc_message **reply, int timeout_ms)
{
	struct ripc_request *r;
	struct ripc *ctx;
	uint64_t bytes;
	int rc;

	if (!reply)
		return ripc__fail(-EINVAL, "nowhere to store the reply");
	*reply = NULL;
	rc = call_enter(s, dest, items, nitems, options, &bytes);
	if (rc)
		return rc;
	ctx = s->ctx;
	rc = ripc__call_start(s, dest, items, nitems, bytes, options, timeout_ms, &r);
	ripc__service_leave(s);
	/* The call ends at its deadline. */
	if (!rc)
		rc = ripc__call_finish(&r, reply);
	ripc__unlock(ctx);
	return rc;
}

/* Checks and begins a call that answers. Return: 0: lock held; else its result. */
static inline int RIPC__NO_ANALYSIS reply_enter(struct ripc__message *m, const struct iovec *items,
						unsigned nitems,
						const struct ripc_send_options *options,
						uint64_t *bytes)
{
	int rc;

	if (!m)
		return ripc__fail(-EINVAL, "no request");
	rc = ripc__check_owner(m->ctx);
	if (!rc)
		rc = options ? ripc__check_items(items, nitems, options, bytes)
			     : ripc__check_call_items(items, nitems, bytes);
	if (rc)
		return rc;
	ripc__lock(m->ctx);
	rc = m->ctx->closing ? ripc__shut_down() : ripc__request_check(m);
	if (rc)
		ripc__unlock(m->ctx);
	return rc;
}

static inline int RIPC__NO_ANALYSIS reply(struct ripc_message *message, int status,
					  const struct iovec *items, unsigned nitems,
					  int timeout_ms)
{
	struct ripc__message *m = (struct ripc__message *)message;
	struct ripc_request *r;
	uint64_t bytes = 0;
	struct ripc *ctx;
	int rc = reply_enter(m, items, nitems, NULL, &bytes);

	if (rc)
		return rc;
	ctx = m->ctx;
	if (ripc__reply_is_short(m, bytes)) {
		ripc__message_set_role(m, RIPC__CALL_REQUEST_ANSWERED);
		rc = ripc__reply_short(m, status, items, nitems);
		/* The request stays unanswered. */
		if (rc == -ENOMEM)
			ripc__message_set_role(m, RIPC__CALL_REQUEST_TAKEN);
	} else if (!timeout_ms) {
		rc = ripc__fail(-EAGAIN, "a long answer cannot be delivered without waiting: use "
					 "ripc_reply_start()");
	} else {
		rc = ripc__reply_start(m, items, nitems, bytes, &r);
		if (!rc)
			rc = ripc__request_finish_until(&r, ripc__deadline(ctx, timeout_ms),
							timeout_ms);
	}
	ripc__unlock(ctx);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_reply_start(struct ripc_message *message, const struct iovec *items,
				       unsigned nitems, const struct ripc_send_options *options,
				       struct ripc_request **request)
{
	struct ripc__message *m = (struct ripc__message *)message;
	uint64_t bytes = 0;
	int rc;

	if (!request)
		return ripc__fail(-EINVAL, "nowhere to store the request");
	if (options && (options->flags || options->nreturn_buffers))
		return ripc__fail(-EOPNOTSUPP, "an answer has neither flags nor return buffers");
	rc = reply_enter(m, items, nitems, options, &bytes);
	if (rc)
		return rc;
	rc = ripc__reply_start(m, items, nitems, bytes, request);
	if (!rc)
		ripc__request_publish(*request, options ? options->data : NULL);
	ripc__unlock(m->ctx);
	return rc;
}

int ripc_reply(struct ripc_message *request, const struct iovec *items, unsigned nitems,
	       int timeout_ms)
{
	return reply(request, 0, items, nitems, timeout_ms);
}

int ripc_reply_error(struct ripc_message *request, int error)
{
	static const struct iovec nothing;

	if (!error || error < -4095 || error > 4095)
		return ripc__fail(-EINVAL, "%d is no error number", error);
	return reply(request, error > 0 ? -error : error, &nothing, 1, 0);
}

int ripc_message_deadline(const struct ripc_message *message)
{
	struct ripc__message *m = (struct ripc__message *)message;
	uint64_t now, ms;
	struct ripc *ctx;

	if (!m || ripc__check_owner(m->ctx) || !ripc__message_is_request(m) ||
	    m->call_deadline_ns == RIPC__NEVER)
		return -1;
	ctx = m->ctx;
	ripc__lock(ctx);
	now = ripc__now(ctx);
	ripc__unlock(ctx);
	ms = now < m->call_deadline_ns ? (m->call_deadline_ns - now + RIPC__MS - 1) / RIPC__MS : 0;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

int ripc_message_cancelled(const struct ripc_message *message)
{
	struct ripc__message *m = (struct ripc__message *)message;
	struct ripc *ctx;
	int rc;

	if (!m)
		return ripc__fail(-EINVAL, "no request");
	rc = ripc__check_owner(m->ctx);
	if (rc)
		return rc;
	ctx = m->ctx;
	ripc__lock(ctx);
	if (m->call_role == RIPC__CALL_REQUEST_TAKEN && !m->call_cancelled)
		ripc__progress(ctx);
	/* An answer is refused from now on, although the caller's clock may give it some time. */
	if (ripc__message_is_request(m) && ripc__request_expired(m))
		m->call_cancelled = true;
	rc = ripc__message_is_request(m) && m->call_cancelled;
	ripc__unlock(ctx);
	return rc;
}
