/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/caller.h"
#include "core/memory/buffer.h"
#include "core/memory/message.h"
#include "core/peer/lane.h"
#include "core/reliable/send_now.h"
#include "wire/bytes.h"

#include <stdio.h>
#include <stdlib.h>

#define STATUS_MIN (-4095) /* lowest status of an answer */

static void send_request(struct ripc__call *call, const struct ripc__prepared *prepared);

static struct ripc__call *call_of(struct ripc__reliable_owner *o)
{
	return ripc__list_entry(o, struct ripc__call, owner);
}

/* Ends a call whose time was up, or that was given up, before the service received the request. */
static void not_executed(struct ripc__call *call)
{
	char text[RIPC__DETAIL_MAX];

	snprintf(text, sizeof(text), "%s did not receive the request %s; it was not executed",
		 ripc__service_text(call->ctx, call->dest),
		 call->abort_status == -ESHUTDOWN ? "before the calling service ended"
		 : call->abort_status             ? "before the call was cancelled"
						  : "before the time was up");
	ripc__call_end(call, call->abort_status ? call->abort_status : -ETIMEDOUT, text);
}

static void __attribute__((noinline)) refused(struct ripc__call *call)
{
	char text[RIPC__DETAIL_MAX];

	snprintf(text, sizeof(text), "%s %s", ripc__service_text(call->ctx, call->dest),
		 call->reply_status == -ECANCELED ? "freed the request without an answer"
						  : "refused the request");
	ripc__call_end(call, call->reply_status, text);
}

/* Ends a call that has its answer. */
static void answered(struct ripc__call *call)
{
	if (call->reply_status)
		refused(call);
	else
		ripc__call_end(call, 0, NULL);
}

/* The request was not executed: sends it again, because its service may have another holder. */
static void send_again(struct ripc__call *call)
{
	ripc__call_set_peer(call, NULL);
	call->early_state = 0;
	/* The peer has received it, but its acknowledgement was lost with a lane. */
	if (call->listed)
		ripc__reliable_withdraw(call->ctx, call->m);
	call->listed = false;
	/* The next holder is offered the buffers again. */
	if (ripc__call_has_buffers(call))
		ripc__local_returns_end_call(call->ctx, call->id, false);
	if (call->state == RIPC__CALL_IS_CANCELLING) {
		not_executed(call);
		return;
	}
	ripc__call_set_state(call, RIPC__CALL_IS_WAITING);
	send_request(call, NULL);
}

/* The result of a call whose time was up, or that was given up, and that may be executed. */
static int late_status(const struct ripc__call *call)
{
	return call->abort_status == -ESHUTDOWN ? -ESHUTDOWN : -ETIME;
}

/* Ends a call whose request may or may not have been executed. */
static void call_unknown(struct ripc__call *call, const char *why)
{
	char text[RIPC__DETAIL_MAX];

	if (call->idempotent && call->state == RIPC__CALL_IS_SENT) {
		call->repeated = true;
		send_again(call);
		return;
	}
	snprintf(text, sizeof(text), "%s: %s; it may have executed the request",
		 ripc__service_text(call->ctx, call->dest), why);
	ripc__call_end(call, call->state == RIPC__CALL_IS_CANCELLING ? late_status(call) : -EPIPE,
		       text);
}

/* ---- the request ---- */

static int before_post(struct ripc__reliable_owner *o, uint64_t *word, struct ripc__lane *lane)
{
	struct ripc__call *call = call_of(o);
	/* The first post needs no clock. */
	uint32_t left =
		call->left_ms ? call->left_ms : ripc__remaining_ms(call->ctx, call->deadline_ns);

	/* The timers end the call. */
	if (!left)
		return -EAGAIN;
	*word = left;
	if (call->peer != lane->peer)
		ripc__call_set_peer(call, lane->peer);
	if (call->state == RIPC__CALL_IS_WAITING)
		ripc__call_set_state(call, RIPC__CALL_IS_SENT);
	return 0;
}

static void short_ended(struct ripc *ctx, struct ripc__reliable_owner *o,
			struct ripc__reliable_msg *m, int status, const char *why)
{
	struct ripc__call *call = call_of(o);

	/* Kept until the request is taken: before that its service may move. */
	call->m = m;
	call->listed = false;
	if (status == -EPIPE)
		call_unknown(call, why);
	else if (status)
		ripc__call_end(call, status, why);
}

/* The peer refused the request or sent BYE: it waits for the next holder. */
static void short_requeued(struct ripc__reliable_owner *o)
{
	struct ripc__call *call = call_of(o);

	ripc__call_set_peer(call, NULL);
	if (call->state == RIPC__CALL_IS_SENT)
		ripc__call_set_state(call, RIPC__CALL_IS_WAITING);
}

/* Ends or repeats a call: the state of its request shows that no answer comes. */
static void no_answer(struct ripc__call *call, unsigned state)
{
	switch (state) {
	case RIPC__CALL_NOT_TAKEN:
		not_executed(call);
		break;
	case RIPC__CALL_MOVED:
		send_again(call);
		break;
	default:
		call_unknown(call, call->state == RIPC__CALL_IS_CANCELLING
					   ? "it had not answered when the call ended"
					   : "it could not send its answer");
		break;
	}
}

static void long_ended(struct ripc_request *r, struct ripc__peer *p)
{
	struct ripc__call *call = r->ext.owner;
	int status = r->status;
	char why[RIPC__DETAIL_MAX];

	call->rndv = NULL;
	ripc__call_free_later(r);
	snprintf(why, sizeof(why), "%s", r->detail ? r->detail : "");
	if (call->reply) {
		answered(call);
	} else if (call->early_state) {
		if (call->state == RIPC__CALL_IS_WAITING)
			ripc__call_set_state(call, RIPC__CALL_IS_SENT);
		no_answer(call, call->early_state - 1u);
	} else if (!status) {
		ripc__call_set_peer(call, p);
		if (call->state == RIPC__CALL_IS_WAITING)
			ripc__call_set_state(call, RIPC__CALL_IS_SENT);
		/* Its deadline passed, or it was cancelled, while it was sent. */
		else if (call->state == RIPC__CALL_IS_CANCELLING)
			ripc__lane_notify(p->lane, RIPC__CALL_CANCEL, 0, 0, call->id, 0);
	} else if (status == -EPIPE) {
		call_unknown(call, why);
	} else if (status == -ECANCELED) {
		not_executed(call);
	} else {
		ripc__call_end(call, status, why);
	}
}

/* prepared: NULL: a pass runs, in which the items cannot be prepared. */
static void send_long_request(struct ripc__call *call, const struct ripc__prepared *prepared)
{
	struct ripc_request *handle = call->handle;
	struct ripc__request_ext ext = {
		.flags = RIPC__F_CALL,
		.call = call->id,
		.deadline_ns = call->deadline_ns,
		.ended = long_ended,
		.owner = call,
	};
	struct ripc__long_request *l = call->long_req;
	struct ripc__prepared given;
	int rc;

	if (!prepared) {
		ripc__prepared_as_given(l->items, l->nitems, &given);
		prepared = &given;
	}
	rc = ripc__request_start(handle->service, call->dest, prepared, l->bytes, &l->options, &ext,
				 &call->rndv);
	if (rc)
		ripc__call_end(call, rc, ripc_error_detail());
}

static void send_request(struct ripc__call *call, const struct ripc__prepared *prepared)
{
	struct ripc *ctx = call->ctx;
	struct ripc__dest *d;

	if (!call->m) {
		send_long_request(call, prepared);
		return;
	}
	d = ripc__dest_get(ctx, call->dest);
	if (!d) {
		ripc__call_end(call, -ENOMEM, "no memory for the destination");
		return;
	}
	call->listed = true;
	if (!ripc__dest_reach(ctx, d) && !ripc__reliable_post(d, call->m, false))
		return;
	ripc__reliable_queue(ctx, d, call->m);
}

/* ---- events ---- */

/* Whether p may have the request. */
static inline bool has_request(const struct ripc__call *call, const struct ripc__peer *p)
{
	return call->peer == p || (call->rndv && call->rndv->peer == p);
}

/* The call that waits for an answer of service dest of p, which has it; NULL: none. */
static inline struct ripc__call *find_waiting(struct ripc *ctx, const struct ripc__peer *p,
					      uint64_t dest, uint64_t id)
{
	struct ripc__call *call = ripc__call_find(ctx, id);

	return call && call->dest == dest && has_request(call, p) && !call->reply ? call : NULL;
}

bool ripc__call_answer_awaited(struct ripc *ctx, const struct ripc__peer *p, uint64_t dest,
			       uint64_t id)
{
	return find_waiting(ctx, p, dest, id);
}

/* The state of a request at p, which has it. */
static void state_received(struct ripc__call *call, const struct ripc__peer *p, unsigned state)
{
	if (state == RIPC__CALL_MOVED)
		ripc__dest_refused(call->ctx, call->dest, p);
	if (!call->rndv) {
		no_answer(call, state);
		return;
	}
	/* The request has arrived: the call goes on when its memory is the caller's again. */
	call->early_state = (uint8_t)ripc__call_state_word(state);
	ripc__request_abort(call->rndv);
}

void ripc__call_reply(struct ripc__message *m, uint64_t id, uint32_t word, struct ripc__peer *p)
{
	struct ripc *ctx = m->ctx;
	struct ripc__call *call = find_waiting(ctx, p, m->pub.source, id);
	int status = (int)word;

	if (!call) {
		ctx->stats.late_replies++;
		ripc__message_release(m);
		return;
	}
	if (ripc__call_word_is_state(word)) {
		ripc__message_release(m);
		state_received(call, p, word - 1);
		return;
	}
	if (m->flow)
		ripc__message_return_credit(m);
	if (status > 0 || status < STATUS_MIN)
		status = -EPROTO;
	/* The memory in which the items of a long answer lie is in use until it is collected. */
	if (m->pub.is_long)
		ripc__list_queue(&ctx->messages, &m->held);
	else
		ripc__message_hand_out(ctx, m);
	call->reply = m;
	call->reply_status = status;
	if (call->rndv) {
		/* The request has arrived: its memory belongs to the caller again. */
		ripc__request_abort(call->rndv);
		return;
	}
	answered(call);
}

void ripc__call_state_received(struct ripc__lane *lane, uint64_t id, uint64_t state)
{
	struct ripc__call *call = ripc__call_find(lane->ctx, id);

	if (call && !call->reply && has_request(call, lane->peer))
		state_received(call, lane->peer,
			       state < RIPC__CALL_STATES ? (unsigned)state : RIPC__CALL_UNKNOWN);
}

void ripc__calls_peer_lost(struct ripc *ctx, struct ripc__peer *p, const char *why)
{
	struct ripc__call *call;
	uint32_t slot = 0;

	if (!p->calls)
		return;
	while ((call = ripc__call_next(ctx, &slot))) {
		/* core/reliable and core/rendezvous report the calls whose requests they hold. */
		if (call->peer == p && !call->listed && !call->rndv)
			call_unknown(call, why);
	}
}

/* Sends CALL_CANCEL, if the peer that has the request has a lane. */
static void notify_cancel(const struct ripc__call *call)
{
	if (call->peer && call->peer->lane)
		ripc__lane_notify(call->peer->lane, RIPC__CALL_CANCEL, 0, 0, call->id, 0);
}

/* Sends CALL_CANCEL, to learn the state of a request. abort_status: see struct ripc__call. */
static void cancel_sent(struct ripc__call *call, int abort_status)
{
	ripc__call_set_state(call, RIPC__CALL_IS_CANCELLING);
	call->abort_status = abort_status;
	ripc__call_set_deadline(call, ripc__now(call->ctx) + RIPC__CALL_CANCEL_NS);
	if (call->rndv)
		ripc__request_abort(call->rndv);
	else
		notify_cancel(call);
}

static void not_sent(struct ripc__call *call, int status)
{
	struct ripc__dest *d = ripc__dest_find(call->ctx, call->dest);
	char why[RIPC__DETAIL_MAX];

	if (status == -ETIMEDOUT && d && !ripc__dest_lane(d)) {
		status = ripc__dest_unreachable(call->ctx, d);
		snprintf(why, sizeof(why), "%s", ripc_error_detail());
	} else {
		snprintf(why, sizeof(why), "the request was not sent: %s",
			 status == -ETIMEDOUT ? "the timeout is 0, or out of credit: the service "
						"has not received the "
						"messages in its queue"
					      : "the call was cancelled");
	}
	ripc__call_end(call, status, why);
}

void ripc__call_abort(struct ripc__call *call)
{
	if (call->state == RIPC__CALL_IS_SENT ||
	    (call->state == RIPC__CALL_IS_WAITING && call->rndv))
		cancel_sent(call, -ECANCELED);
	else if (call->state == RIPC__CALL_IS_WAITING)
		not_sent(call, -ECANCELED);
}

void ripc__call_withdrawn(struct ripc__call *call)
{
	ripc__call_end(call, -ETIME, "the request may have been executed");
	ripc__call_end_withdrawn(call, true);
	if (call->reply && call->handle->status == -ECANCELED)
		call->handle->status = -ETIME;
}

static void call_expired(struct ripc__call *call)
{
	char why[RIPC__DETAIL_MAX];

	switch (call->state) {
	case RIPC__CALL_IS_WAITING:
		/* A peer that was lost may have delivered a long request that is pending again. */
		if (call->rndv && (ripc__request_maybe_delivered(call->rndv) ||
				   call->rndv->state != RIPC__REQUEST_PENDING))
			cancel_sent(call, 0);
		else
			not_sent(call, -ETIMEDOUT);
		break;
	case RIPC__CALL_IS_SENT:
		cancel_sent(call, 0);
		break;
	case RIPC__CALL_IS_CANCELLING:
		snprintf(why, sizeof(why),
			 "%s did not answer in time, and may have executed the request",
			 ripc__service_text(call->ctx, call->dest));
		ripc__call_end(call, late_status(call), why);
		break;
	case RIPC__CALL_IS_WITHDRAWING:
		ripc__call_end_withdrawn(call, true);
		break;
	default:
		break;
	}
}

/* The calls from slot first on: ends those whose deadline has passed, and finds the next one. */
static void group_timers(struct ripc *ctx, uint32_t first)
{
	ctx->call_groups_ns[first / RIPC__CALL_GROUP] = RIPC__NEVER;
	/* Between two steps any call may end, for example when its lane is closed. */
	for (uint32_t i = first; i < first + RIPC__CALL_GROUP && i < ctx->call_slots; i++) {
		struct ripc__call *call = ctx->call_table[i];

		ripc__call_end_withdrawn(call, false);
		if (call->state < RIPC__CALL_IS_DONE && call->deadline_ns <= ctx->now_ns)
			call_expired(call);
		if (call->state < RIPC__CALL_IS_DONE)
			ripc__call_due(call, call->deadline_ns);
	}
}

void ripc__calls_timers(struct ripc *ctx)
{
	ripc__calls_free_ended(ctx);
	if (ctx->now_ns < ctx->calls_next_ns) {
		ripc__timer_at(ctx, ctx->calls_next_ns);
		return;
	}
	ctx->calls_next_ns = RIPC__NEVER;
	for (uint32_t first = 0; first < ctx->call_slots; first += RIPC__CALL_GROUP) {
		uint64_t group_ns = ctx->call_groups_ns[first / RIPC__CALL_GROUP];

		if (group_ns <= ctx->now_ns)
			group_timers(ctx, first);
		else if (group_ns < ctx->calls_next_ns)
			ctx->calls_next_ns = group_ns;
	}
	ripc__timer_at(ctx, ctx->calls_next_ns);
}

void ripc__calls_service_ended(struct ripc_service *s)
{
	struct ripc__call *call;
	uint32_t slot = 0;

	while ((call = ripc__call_next(s->ctx, &slot))) {
		if (call->handle->service != s || call->state == RIPC__CALL_IS_WITHDRAWING)
			continue;
		/*
		 * Its memory belongs to the caller when the peer has acknowledged the cancellation.
		 */
		if (call->rndv) {
			cancel_sent(call, -ESHUTDOWN);
			continue;
		}
		notify_cancel(call);
		ripc__call_end(call, -ESHUTDOWN, "the calling service was closed or taken over");
	}
}

void ripc__calls_close(struct ripc *ctx)
{
	struct ripc__call *call;
	uint32_t slot = 0;

	while ((call = ripc__call_next(ctx, &slot)))
		notify_cancel(call);
}

/* ---- start ---- */

/* Keeps the arguments of a long request. call->long_req: NULL: out of memory. */
static void keep_long_request(struct ripc__call *call, const struct iovec *items, unsigned nitems,
			      uint64_t bytes, const struct ripc_call_options *o)
{
	struct ripc__long_request *l = malloc(sizeof(*l) + nitems * sizeof(*items));

	call->long_req = l;
	if (!l)
		return;
	memcpy(l->items, items, nitems * sizeof(*items));
	l->why = NULL;
	l->nitems = nitems;
	l->bytes = bytes;
	l->options = (struct ripc_send_options){.size = sizeof(l->options)};
	if (o && o->nreply_buffers) {
		memcpy(l->buffers, o->reply_buffers, o->nreply_buffers * sizeof(l->buffers[0]));
		l->options.return_buffers = l->buffers;
		l->options.nreturn_buffers = o->nreply_buffers;
	}
}

const struct ripc__reliable_owner ripc__call_owner = {
	.end = short_ended,
	.before_post = before_post,
	.requeued = short_requeued,
	.waits = true,
};

/*
 * Sends a short request of one item, if it can go at once. The call is set up afterwards, while the
 * peer executes the request. Return: NULL: nothing was done.
 */
static struct ripc__reliable_msg *send_now(struct ripc_service *s, struct ripc__call *call,
					   uint64_t dest, struct ripc__call_words *words,
					   const struct iovec *item)
{
	struct ripc__dest *d = ripc__dest_find(s->ctx, dest);

	if (!ripc__dest_ready(d))
		return NULL;
	return ripc__reliable_send_item(d, &call->owner, RIPC__F_CALL, s->id, words, item, false);
}

/* prepared: or NULL. */
static int no_memory(struct ripc *ctx, uint64_t dest, const struct ripc__prepared *prepared)
{
	if (prepared)
		ripc__prepared_drop(ctx, prepared);
	return ripc__fail(-ENOMEM, "no memory for a call to %s", ripc__service_text(ctx, dest));
}

int ripc__call_start(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		     unsigned nitems, uint64_t bytes, const struct ripc_call_options *o,
		     int timeout_ms, struct ripc_request **out)
{
	struct ripc *ctx = s->ctx;
	struct ripc__call_words words = {
		.word = timeout_ms < 0 ? UINT32_MAX : (uint32_t)timeout_ms,
	};
	struct ripc__prepared prepared;
	struct ripc__call *call;
	bool is_long = (o && o->nreply_buffers) ||
		       (bytes > RIPC_SHORT_GUARANTEED &&
			!ripc__call_fits(ripc__dest_lane(ripc__dest_find(ctx, dest)), bytes));
	struct ripc_request *r;

	if (RIPC__UNLIKELY(is_long))
		ripc__prepare(ctx, dest, items, nitems, false, &prepared);
	call = ripc__call_alloc(ctx);
	if (!call)
		return no_memory(ctx, dest, is_long ? &prepared : NULL);
	words.id = call->id;
	/* The timers end a call without time. */
	if (RIPC__LIKELY(!is_long && nitems == 1 && timeout_ms))
		call->m = send_now(s, call, dest, &words, items);
	call->dest = dest;
	call->deadline_ns = timeout_ms < 0 ? RIPC__NEVER : ripc__deadline_far(ctx, timeout_ms);
	ripc__call_set_state(call, call->m ? RIPC__CALL_IS_SENT : RIPC__CALL_IS_WAITING);
	call->idempotent = o && o->flags & RIPC_IDEMPOTENT;
	call->listed = call->m;
	call->left_ms = (uint32_t)words.word;
	if (call->m)
		ripc__call_set_peer(call, call->m->dest->peer);
	r = call->handle;
	r->service = s;
	r->dest_id = dest;
	r->source = s->id;
	r->state = RIPC__REQUEST_PENDING;
	__atomic_store_n(&r->ctx, ctx, __ATOMIC_RELAXED);
	if (RIPC__UNLIKELY(!ripc__list_empty(&ctx->ended_requests)))
		ripc__calls_free_ended(ctx);
	if (!is_long && !call->m) {
		call->m = ripc__reliable_new(ctx, RIPC__F_CALL, s->id, &words, items, nitems);
		if (call->m)
			call->m->owner = &call->owner;
	} else if (is_long) {
		keep_long_request(call, items, nitems, bytes, o);
	}
	if (!call->m && !call->long_req) {
		ripc__call_release(call);
		return no_memory(ctx, dest, is_long ? &prepared : NULL);
	}
	s->nrequests++;
	ctx->stats.calls++;
	ripc__call_set_deadline(call, call->deadline_ns);
	*out = r;
	if (!call->listed)
		send_request(call, &prepared);
	call->left_ms = 0;
	return 0;
}
