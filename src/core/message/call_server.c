/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/message/call.h"
#include "core/memory/message.h"
#include "core/message/request.h"
#include "core/message/send.h"
#include "core/peer/lane.h"
#include "core/service/items.h"
#include "wire/bytes.h"

#include <limits.h>
#include <stdlib.h>

enum request_state { REQUEST_QUEUED, REQUEST_TAKEN };

/* The owner of all answers: nobody waits for one. */
struct ripc__replies {
	struct ripc__reliable_owner owner;
	struct ripc *ctx;
};

static void reply_ended(struct ripc__reliable_owner *o, struct ripc__reliable_msg *m, int status,
			const char *why)
{
	(void)status;
	(void)why;
	ripc__reliable_free(((struct ripc__replies *)o)->ctx, m);
}

/* The caller is answered, or gone. */
static void served_remove(struct ripc__message *m)
{
	ripc__list_del(&m->served);
	m->call_peer = NULL;
}

static void send_state(struct ripc__message *m, enum ripc__call_state state)
{
	struct ripc__peer *p = m->call_peer;

	if (p && p->lane)
		ripc__lane_notify(p->lane, RIPC__CALL_STATE, 0, 0, m->call, state);
	served_remove(m);
}

static bool expired(struct ripc__message *m)
{
	return m->call_deadline_ns != RIPC__NEVER && ripc__now(m->ctx) >= m->call_deadline_ns;
}

/* Frees a request that the application never has. */
static void drop_unseen(struct ripc__message *m, enum ripc__call_state state)
{
	m->ctx->stats.calls_expired += state == RIPC__CALL_NOT_TAKEN;
	send_state(m, state);
	m->call_kind = RIPC__CALL_NONE;
	ripc__message_release(m);
}

bool ripc__request_arrived(struct ripc_service *s, struct ripc__message *m)
{
	(void)s;
	m->call_state = REQUEST_QUEUED;
	m->pub.call = m->call;
	m->call_deadline_ns =
		m->call_word == UINT32_MAX ? RIPC__NEVER : m->ctx->now_ns + m->call_word * RIPC__MS;
	ripc__list_add(&m->call_peer->served, &m->served);
	if (m->call_word)
		return true;
	drop_unseen(m, RIPC__CALL_NOT_TAKEN);
	return false;
}

bool ripc__call_arrived(struct ripc_service *s, struct ripc__message *m)
{
	if (m->call_kind == RIPC__CALL_REQUEST)
		return ripc__request_arrived(s, m);
	ripc__call_reply(m->ctx, m);
	return false;
}

bool ripc__request_taken(struct ripc__message *m)
{
	if (m->call_cancelled || expired(m)) {
		drop_unseen(m, RIPC__CALL_NOT_TAKEN);
		return false;
	}
	m->call_state = REQUEST_TAKEN;
	return true;
}

void ripc__request_cancelled(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->peer->served) {
		struct ripc__message *m = ripc__list_entry(n, struct ripc__message, served);
		struct ripc_service *s;

		if (m->call != id)
			continue;
		m->call_cancelled = true;
		s = ripc__service_find(lane->ctx, m->pub.dest);
		if (m->call_state == REQUEST_QUEUED && s && ripc__service_remove(s, m))
			drop_unseen(m, RIPC__CALL_NOT_TAKEN);
		else
			send_state(m, m->call_state == REQUEST_QUEUED ? RIPC__CALL_NOT_TAKEN
								      : RIPC__CALL_TAKEN);
		return;
	}
	ripc__lane_notify(lane, RIPC__CALL_STATE, 0, 0, id, RIPC__CALL_UNKNOWN);
}

void ripc__served_peer_lost(struct ripc__peer *p)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&p->served))) {
		struct ripc__message *m = ripc__list_entry(n, struct ripc__message, served);

		m->call_cancelled = true;
		served_remove(m);
	}
}

/* ---- answers ---- */

static struct ripc__reliable_owner *replies(struct ripc *ctx)
{
	if (!ctx->replies && (ctx->replies = calloc(1, sizeof(*ctx->replies)))) {
		ctx->replies->owner.end = reply_ended;
		ctx->replies->ctx = ctx;
	}
	return ctx->replies ? &ctx->replies->owner : NULL;
}

/* The destination of an answer, which is at the caller's peer. NULL: the caller's service moved. */
static struct ripc__dest *reply_dest(struct ripc__message *m)
{
	struct ripc *ctx = m->ctx;
	struct ripc__peer *p = m->call_peer;
	struct ripc__dest *d = ripc__dest_get(ctx, m->pub.source);

	if (!d)
		return NULL;
	if (d->peer != p)
		ripc__dest_learn(ctx, d, p);
	return d->peer == p ? d : NULL;
}

/* Answers with a short message, which is sent at once or when there is credit. */
static int reply_short(struct ripc__message *m, int status, const struct iovec *items, unsigned nitems)
{
	struct ripc *ctx = m->ctx;
	struct ripc__dest *d = reply_dest(m);
	struct ripc__reliable_owner *owner = replies(ctx);
	uint8_t ext[RIPC__CALL_EXT];
	struct ripc__reliable_msg *r;
	uint64_t source = m->pub.dest;

	if (!d) {
		send_state(m, RIPC__CALL_UNKNOWN);
		return ripc__fail(-ECANCELED,
				  "the caller's service %llu is not at its caller any more",
				  (unsigned long long)m->pub.source);
	}
	ripc__put_le64(ext, m->call);
	ripc__put_le64(ext + 8, (uint32_t)status);
	r = owner ? ripc__reliable_new(ctx, RIPC__F_REPLY, m->pub.source, source, ext, items, nitems)
		  : NULL;
	if (!r)
		return ripc__fail(-ENOMEM, "no memory for an answer to service %llu",
				  (unsigned long long)m->pub.source);
	r->owner = owner;
	served_remove(m);
	if (ripc__dest_reach(ctx, d) || ripc__reliable_post(d, r, false))
		ripc__reliable_queue(ctx, d, r);
	return 0;
}

void ripc__request_dropped(struct ripc__message *m)
{
	static const struct iovec nothing;

	m->call_kind = RIPC__CALL_NONE;
	m->pub.call = 0;
	/* It never arrived in full, or is answered, or its caller is gone. */
	if (ripc__list_empty(&m->served))
		return;
	if (m->ctx->closing) {
		served_remove(m);
		return;
	}
	if (m->call_state == REQUEST_QUEUED)
		send_state(m, RIPC__CALL_MOVED);
	else if (reply_short(m, -ECANCELED, &nothing, 1) == -ENOMEM)
		send_state(m, RIPC__CALL_UNKNOWN);
}

void ripc__served_close(struct ripc *ctx)
{
	static const struct iovec nothing;
	struct ripc__peer *p, *tmp;
	struct ripc__list *n;

	HASH_ITER (hh, ctx->peers, p, tmp) {
		while ((n = ripc__list_first(&p->served))) {
			struct ripc__message *m = ripc__list_entry(n, struct ripc__message, served);

			if (m->call_state == REQUEST_QUEUED)
				send_state(m, RIPC__CALL_MOVED);
			else if (reply_short(m, -ECANCELED, &nothing, 1) == -ENOMEM)
				send_state(m, RIPC__CALL_UNKNOWN);
		}
	}
}

/* Whether the message can be answered. Lock held. */
static int check_request(const struct ripc__message *m)
{
	if (m->call_kind != RIPC__CALL_REQUEST)
		return ripc__fail(-EINVAL, "the message is not the request of a call");
	if (m->call_answered)
		return ripc__fail(-EALREADY, "the request was answered before");
	if (m->call_cancelled || !m->call_peer)
		return ripc__fail(-ECANCELED, "the caller does not wait any more");
	return 0;
}

/* Begins a long answer. Return: 0: it is under way, and the caller learns its failure. */
static int reply_start(struct ripc__message *m, const struct iovec *items, unsigned nitems,
		       uint64_t bytes, struct ripc_request **out)
{
	struct ripc__request_ext ext = {.flags = RIPC__F_REPLY, .call = m->call};
	struct ripc *ctx = m->ctx;
	struct ripc_service *s = ripc__service_find(ctx, m->pub.dest);
	int rc;

	if (!s || !reply_dest(m)) {
		send_state(m, RIPC__CALL_TAKEN);
		return ripc__fail(-ECANCELED, "the service of the caller or of the request ended");
	}
	rc = ripc__request_start(s, m->pub.source, items, nitems, bytes, NULL, &ext, out);
	if (rc)
		send_state(m, RIPC__CALL_TAKEN);
	else
		served_remove(m);
	return rc;
}

/* Whether an answer goes as a short message. */
static bool is_short(const struct ripc__message *m, uint64_t bytes)
{
	const struct ripc__lane *lane = m->call_peer->lane;

	if (bytes <= RIPC_SHORT_GUARANTEED)
		return true;
	/* Long items may land in the caller's buffers. */
	return lane && !m->pub.nreturn_buffers && bytes <= RIPC__RELIABLE_WINDOW_BYTES / 4 &&
	       bytes + RIPC__CALL_EXT <= lane->send_max - RIPC__SHORT_FIXED;
}

/* Begins a call that answers. Return: 0: lock held; else its result. */
static int RIPC__NO_ANALYSIS reply_enter(struct ripc__message *m, const struct iovec *items,
					 unsigned nitems, uint64_t *bytes)
{
	int rc;

	if (!m)
		return ripc__fail(-EINVAL, "no request");
	rc = ripc__check_owner(m->ctx);
	if (!rc)
		rc = ripc__check_items(items, nitems, NULL, bytes);
	if (rc)
		return rc;
	ripc__lock(m->ctx);
	rc = m->ctx->closing ? ripc__shut_down() : check_request(m);
	if (rc)
		ripc__unlock(m->ctx);
	return rc;
}

static int RIPC__NO_ANALYSIS reply(struct ripc_message *message, int status,
				   const struct iovec *items, unsigned nitems, int timeout_ms)
{
	struct ripc__message *m = (struct ripc__message *)message;
	struct ripc_request *r;
	struct ripc__peer *p;
	uint8_t instance[16];
	uint64_t bytes = 0;
	struct ripc *ctx;
	int rc = reply_enter(m, items, nitems, &bytes);

	if (rc)
		return rc;
	ctx = m->ctx;
	if (is_short(m, bytes)) {
		m->call_answered = true;
		rc = reply_short(m, status, items, nitems);
	} else if (!timeout_ms) {
		rc = ripc__fail(-EAGAIN, "a long answer cannot be delivered without waiting: use "
					 "ripc_reply_start()");
	} else {
		m->call_answered = true;
		memcpy(instance, m->call_peer->instance, sizeof(instance));
		rc = reply_start(m, items, nitems, bytes, &r);
		if (!rc) {
			rc = ripc__request_finish_in(&r, timeout_ms);
			p = rc ? ripc__peer_find(ctx, instance) : NULL;
			/* The caller waits for nothing else. */
			if (p && p->lane)
				ripc__lane_notify(p->lane, RIPC__CALL_STATE, 0, 0, m->call,
						  RIPC__CALL_TAKEN);
		}
	}
	ripc__unlock(ctx);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_reply_start(struct ripc_message *message, const struct iovec *items,
				       unsigned nitems, struct ripc_request **request)
{
	struct ripc__message *m = (struct ripc__message *)message;
	uint64_t bytes = 0;
	int rc;

	if (!request)
		return ripc__fail(-EINVAL, "nowhere to store the request");
	rc = reply_enter(m, items, nitems, &bytes);
	if (rc)
		return rc;
	m->call_answered = true;
	rc = reply_start(m, items, nitems, bytes, request);
	ripc__unlock(m->ctx);
	return rc;
}

int ripc_reply(struct ripc_message *request, const struct iovec *items, unsigned nitems, int timeout_ms)
{
	return reply(request, 0, items, nitems, timeout_ms);
}

int ripc_reply_error(struct ripc_message *request, int error)
{
	static const struct iovec nothing;

	if (error > 0)
		error = -error;
	if (!error || error < -4095)
		return ripc__fail(-EINVAL, "%d is no error", error);
	return reply(request, error, &nothing, 1, 0);
}

int ripc_message_deadline(const struct ripc_message *message)
{
	struct ripc__message *m = (struct ripc__message *)message;
	uint64_t now, ms;
	struct ripc *ctx;

	if (!m || ripc__check_owner(m->ctx) || m->call_kind != RIPC__CALL_REQUEST ||
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
	if (m->call_kind == RIPC__CALL_REQUEST && !m->call_answered && !m->call_cancelled)
		ripc__progress(ctx);
	rc = m->call_kind == RIPC__CALL_REQUEST && (m->call_cancelled || expired(m));
	ripc__unlock(ctx);
	return rc;
}
