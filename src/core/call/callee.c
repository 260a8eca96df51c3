/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/call.h"
#include "core/memory/message.h"
#include "core/memory/remote_returns.h"
#include "core/peer/lane.h"
#include "core/reliable/send_now.h"
#include "wire/bytes.h"

#include <stdlib.h>

/* between two requests in the name of a service that end the record of its holder */
#define CONTEST_NS (10000 * RIPC__MS)

/* The owner of the answers that wait for a lane to a peer, or for room: p->lists->replies. */
struct reply_owner {
	struct ripc__reliable_owner owner;
	struct ripc__peer *peer; /* p->answers counts them, so it is not forgotten */
};

/*
 * Reports to p that a call of its own gets no answer: it may have no deadline. The report may be
 * lost with the lane; then p learns it from the epoch of the next one.
 */
static void answer_lost(struct ripc *ctx, struct ripc__peer *p, uint64_t call)
{
	if (p->lane)
		ripc__lane_notify(p->lane, RIPC__CALL_STATE, 0, 0, call, RIPC__CALL_TAKEN);
	ripc__peer_new_epoch(ctx, p);
}

/* Refuses another peer, which a look-up may have found. */
static int before_waiting_reply(struct ripc__reliable_owner *o, uint64_t *word,
				struct ripc__lane *lane)
{
	return lane->peer == ((struct reply_owner *)o)->peer ? 0 : -EHOSTUNREACH;
}

static void waiting_reply_ended(struct ripc *ctx, struct ripc__reliable_owner *o,
				struct ripc__reliable_msg *m, int status, const char *why)
{
	struct ripc__peer *p = ((struct reply_owner *)o)->peer;

	p->answers--;
	if (status && !ctx->closing)
		answer_lost(ctx, p, m->call.id);
	ripc__reliable_free(ctx, m);
}

/* The owner of one more answer that waits; NULL: out of memory, or there are too many. */
static struct ripc__reliable_owner *waiting_reply(struct ripc__peer *p)
{
	struct ripc__peer_lists *lists = ripc__peer_lists(p);
	struct reply_owner *o = lists ? lists->replies : NULL;

	if (!lists || p->answers == UINT16_MAX || (!o && !(o = malloc(sizeof(*o)))))
		return NULL;
	lists->replies = o;
	*o = (struct reply_owner){
		.owner = {.end = waiting_reply_ended, .before_post = before_waiting_reply},
		.peer = p,
	};
	p->answers++;
	return &o->owner;
}

static void reply_ended(struct ripc *ctx, struct ripc__reliable_owner *o,
			struct ripc__reliable_msg *m, int status, const char *why)
{
	/* Its peer is lost, or closes. */
	ripc__reliable_free(ctx, m);
}

/* Removes a request that is answered, or whose caller is gone. */
static void served_remove(struct ripc__message *m)
{
	ripc__list_del(&m->served);
	m->call_peer = NULL;
}

/* Reports the state of a request over the present lane: with that lane the report may be lost. */
static void notify_state(struct ripc__message *m, enum ripc__call_state state)
{
	struct ripc__peer *p = m->call_peer;

	ripc__remote_returns_drop_call(ripc__dest_find(m->ctx, m->pub.source), m->call);
	if (p && p->lane)
		ripc__lane_notify(p->lane, RIPC__CALL_STATE, 0, 0, m->call, state);
	served_remove(m);
}

/* Reports the state, and again by the epoch as answer_lost(): the caller may have no deadline. */
static void no_answer(struct ripc__message *m, enum ripc__call_state state)
{
	struct ripc__peer *p = m->call_peer;

	notify_state(m, state);
	if (p)
		ripc__peer_new_epoch(m->ctx, p);
}

bool ripc__request_expired(struct ripc__message *m)
{
	return ripc__deadline_passed(m->ctx, m->call_deadline_ns);
}

/* Frees a request that the application has not received. */
static void drop_unseen(struct ripc__message *m, enum ripc__call_state state)
{
	m->ctx->stats.calls_expired += state == RIPC__CALL_NOT_TAKEN;
	/* notify_state() has removed it from the served ones, so its release sends nothing. */
	notify_state(m, state);
	ripc__message_release(m);
}

bool ripc__call_arrived(struct ripc__message *m)
{
	if (!ripc__message_is_request(m)) {
		ripc__message_set_role(m, RIPC__CALL_NONE);
		ripc__call_reply(m, m->call, m->call_word, m->call_peer);
		return false;
	}
	ripc__request_add(m, RIPC__CALL_REQUEST_QUEUED);
	if (m->call_word)
		return true;
	drop_unseen(m, RIPC__CALL_NOT_TAKEN);
	return false;
}

bool ripc__request_taken(struct ripc__message *m)
{
	if (m->call_cancelled || ripc__request_expired(m)) {
		drop_unseen(m, RIPC__CALL_NOT_TAKEN);
		return false;
	}
	ripc__message_set_role(m, RIPC__CALL_REQUEST_TAKEN);
	return true;
}

void ripc__request_cancelled(struct ripc__lane *lane, uint64_t id)
{
	struct ripc_service *s;
	struct ripc__message *m;

	ripc__list_for_each_entry (m, &lane->peer->lists->served, served) {
		if (m->call != id)
			continue;
		m->call_cancelled = true;
		s = ripc__service_find(lane->ctx, m->pub.dest);
		if (m->call_role == RIPC__CALL_REQUEST_QUEUED && s && ripc__service_remove(s, m))
			drop_unseen(m, RIPC__CALL_NOT_TAKEN);
		else
			notify_state(m, m->call_role == RIPC__CALL_REQUEST_QUEUED
						? RIPC__CALL_NOT_TAKEN
						: RIPC__CALL_TAKEN);
		return;
	}
	ripc__lane_notify(lane, RIPC__CALL_STATE, 0, 0, id, RIPC__CALL_UNKNOWN);
}

void ripc__served_peer_lost(struct ripc__peer *p)
{
	struct ripc__message *m;

	while ((m = ripc__list_first_entry(&p->lists->served, struct ripc__message, served))) {
		m->call_cancelled = true;
		served_remove(m);
	}
}

/* ---- answers ---- */

static void replies_delivered(struct ripc *ctx, struct ripc__reliable_owner *o, unsigned n)
{
}

/* The owner of all answers: their delivery is not reported. */
static struct ripc__reliable_owner replies = {
	.end = reply_ended,
	.delivered = replies_delivered,
};

/*
 * Whether an answer to p can go to d: the caller's service is there, or a look-up will find it. If
 * it finds another peer, the caller's service has ended, and its calls with it.
 */
static bool dest_is_of(const struct ripc__dest *d, const struct ripc__peer *p)
{
	return !d->peer || d->peer == p;
}

/*
 * Whether a request of another peer may end the record of d. Its holder may be alive and the
 * request forged: then only from time to time, because messages to d wait for the look-up.
 */
static bool may_contest(struct ripc *ctx, struct ripc__dest *d)
{
	uint64_t now = ripc__now(ctx);

	if (d->peer->lane && now < d->contest_ns)
		return false;
	d->contest_ns = now + CONTEST_NS;
	return true;
}

/*
 * The destination of an answer. A record of another peer is old, if the caller has restarted or has
 * taken the service over: it is looked up again. NULL: out of memory, or the service is here now.
 */
static struct ripc__dest *reply_dest(struct ripc__message *m)
{
	struct ripc *ctx = m->ctx;
	struct ripc__peer *p = m->call_peer;
	struct ripc__dest *d = ripc__dest_get(ctx, m->pub.source);

	if (!d)
		return NULL;
	if (!d->peer)
		ripc__dest_learn(ctx, d, p);
	else if (d->peer != p && memcmp(d->peer->instance, ctx->instance, 16) &&
		 may_contest(ctx, d))
		ripc__dest_invalidate(ctx, d, "another peer has sent a request in its name");
	return dest_is_of(d, p) ? d : NULL;
}

/* A short answer from service source, whose destination is known; NULL: out of memory. */
static struct ripc__reliable_msg *answer_new(struct ripc *ctx, uint64_t source,
					     const struct ripc__call_words *words,
					     const struct iovec *items, unsigned nitems)
{
	struct ripc__reliable_msg *a =
		ripc__reliable_new(ctx, RIPC__F_REPLY, source, words, items, nitems);

	if (a)
		a->owner = &replies;
	return a;
}

/* Sends an answer to d, at p, now or as soon as there is a lane with room. */
static void answer_send(struct ripc *ctx, struct ripc__peer *p, struct ripc__dest *d,
			struct ripc__reliable_msg *a)
{
	uint64_t call = a->call.id;

	if (!ripc__dest_reach(ctx, d) && d->peer == p && !ripc__reliable_post(d, a, false))
		return;
	a->owner = waiting_reply(p);
	if (a->owner) {
		ripc__reliable_queue(ctx, d, a);
		return;
	}
	ripc__reliable_free(ctx, a);
	answer_lost(ctx, p, call);
}

static int caller_gone(const struct ripc__message *m)
{
	return ripc__fail(-ECANCELED, "the calling %s is closed, or another context holds it",
			  ripc__service_text(m->ctx, m->pub.source));
}

/* The slow path of ripc__reply_short(): the answer may wait for its destination. */
static int __attribute__((noinline))
reply_slow(struct ripc__message *m, const struct ripc__call_words *words, const struct iovec *items,
	   unsigned nitems)
{
	struct ripc *ctx = m->ctx;
	struct ripc__peer *p = m->call_peer;
	struct ripc__dest *d = p ? reply_dest(m) : NULL;
	struct ripc__reliable_msg *a;

	if (!d) {
		no_answer(m, RIPC__CALL_UNKNOWN);
		return caller_gone(m);
	}
	a = answer_new(ctx, m->pub.dest, words, items, nitems);
	if (!a)
		return ripc__fail(-ENOMEM, "no memory for an answer to %s",
				  ripc__service_text(ctx, m->pub.source));
	ripc__remote_returns_drop_call(d, m->call);
	served_remove(m);
	answer_send(ctx, p, d, a);
	return 0;
}

int ripc__reply_short(struct ripc__message *m, int status, const struct iovec *items,
		      unsigned nitems)
{
	struct ripc__dest *d = ripc__dest_find(m->ctx, m->pub.source);
	struct ripc__call_words words = {m->call, (uint32_t)status};
	struct ripc__peer *p = m->call_peer;

	if (RIPC__UNLIKELY(nitems != 1 || !ripc__dest_ready(d) || d->peer != p ||
			   !ripc__reliable_send_item(d, &replies, RIPC__F_REPLY, m->pub.dest,
						     &words, items, false)))
		return reply_slow(m, &words, items, nitems);
	if (RIPC__UNLIKELY(d->nremote_returns))
		ripc__remote_returns_drop_call(d, m->call);
	served_remove(m);
	return 0;
}

/* Ends a request without an answer: its caller learns the state, even if lanes are lost. */
static void send_state(struct ripc__message *m, enum ripc__call_state state)
{
	static const struct iovec nothing;

	if (ripc__reply_short(m, ripc__call_state_word(state), &nothing, 1) == -ENOMEM)
		no_answer(m, state);
}

/* Answers in place of the application. queued: the application has not received the request. */
static void refuse(struct ripc__message *m, bool queued)
{
	static const struct iovec nothing;

	if (queued) {
		send_state(m, RIPC__CALL_MOVED);
		return;
	}
	/* The caller's time ends, too, and it asks for the state of the request: -ETIME. */
	if (ripc__request_expired(m)) {
		ripc__remote_returns_drop_call(ripc__dest_find(m->ctx, m->pub.source), m->call);
		served_remove(m);
		return;
	}
	if (ripc__reply_short(m, -ECANCELED, &nothing, 1) == -ENOMEM)
		no_answer(m, RIPC__CALL_UNKNOWN);
}

void ripc__request_dropped(struct ripc__message *m)
{
	bool queued = m->call_role == RIPC__CALL_REQUEST_QUEUED;

	ripc__message_set_role(m, RIPC__CALL_NONE);
	/* The request has not arrived completely, is answered, or its caller is gone. */
	if (ripc__list_empty(&m->served))
		return;
	if (m->ctx->closing)
		served_remove(m);
	else
		refuse(m, queued);
}

void ripc__served_close(struct ripc *ctx)
{
	struct ripc__peer *p, *tmp;
	struct ripc__message *m;

	ripc__list_for_each_entry_safe (p, tmp, &ctx->peers, link)
		while ((m = ripc__list_first_entry(&p->lists->served, struct ripc__message,
						   served)))
			refuse(m, m->call_role == RIPC__CALL_REQUEST_QUEUED);
}

int ripc__request_unanswerable(const struct ripc__message *m)
{
	if (!ripc__message_is_request(m))
		return ripc__fail(-EINVAL, "the message is not the request of a call");
	if (m->call_role == RIPC__CALL_REQUEST_ANSWERED)
		return ripc__fail(-EALREADY, "%s: its request was answered before",
				  ripc__service_text(m->ctx, m->pub.source));
	return ripc__fail(-ECANCELED, "%s does not wait for the answer any more",
			  ripc__service_text(m->ctx, m->pub.source));
}

/* A long answer has ended: its caller learns it if there will be none. */
static void long_answer_ended(struct ripc_request *r, struct ripc__peer *sent_to)
{
	static const struct iovec nothing;
	const struct ripc__call_words words = {r->ext.call,
					       (uint32_t)ripc__call_state_word(RIPC__CALL_TAKEN)};
	struct ripc__peer *p = r->ext.only;
	struct ripc *ctx = r->ctx;
	struct ripc__reliable_msg *a = NULL;
	struct ripc__dest *d;

	p->answers--;
	if (!r->status || ctx->closing)
		return;
	d = ripc__dest_find(ctx, r->dest_id);
	if (d && dest_is_of(d, p))
		a = answer_new(ctx, r->source, &words, &nothing, 1);
	if (a)
		answer_send(ctx, p, d, a);
	else
		answer_lost(ctx, p, words.id);
}

int ripc__reply_start(struct ripc__message *m, const struct iovec *items, unsigned nitems,
		      uint64_t bytes, struct ripc_request **out)
{
	struct ripc__request_ext ext = {
		.flags = RIPC__F_REPLY,
		.call = m->call,
		.ended = long_answer_ended,
	};
	struct ripc__prepared prepared;
	struct ripc *ctx = m->ctx;
	struct ripc__peer *p;
	struct ripc_service *s;
	bool closed;
	int rc;

	ripc__prepare(ctx, m->pub.source, items, nitems, false, &prepared);
	rc = ctx->closing ? ripc__shut_down() : ripc__request_check(m);
	if (rc) {
		ripc__prepared_drop(ctx, &prepared);
		return rc;
	}
	p = m->call_peer;
	HASH_FIND(hh, ctx->services, &m->pub.dest, sizeof(m->pub.dest), s);
	/* A service that was taken over still answers the requests that it has received. */
	closed = !s || !ripc__service_open(s);
	if (closed || !reply_dest(m)) {
		ripc__prepared_drop(ctx, &prepared);
		ripc__message_set_role(m, RIPC__CALL_REQUEST_ANSWERED);
		send_state(m, RIPC__CALL_TAKEN);
		return closed ? ripc__fail(-ESHUTDOWN, "%s, which answers, is closed",
					   ripc__service_text(ctx, m->pub.dest))
			      : caller_gone(m);
	}
	if (p->answers == UINT16_MAX) {
		ripc__prepared_drop(ctx, &prepared);
		return ripc__fail(-ENOMEM, "%u long answers to the caller are under way",
				  p->answers);
	}
	ext.only = p;
	/* The answer may end at once. */
	p->answers++;
	rc = ripc__request_start(s, m->pub.source, &prepared, bytes, NULL, &ext, out);
	if (rc) {
		p->answers--;
		return rc;
	}
	ripc__message_set_role(m, RIPC__CALL_REQUEST_ANSWERED);
	served_remove(m);
	return 0;
}
