/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/call.h"
#include "core/memory/buffer.h"
#include "core/memory/message.h"
#include "core/peer/lane.h"
#include "wire/bytes.h"

#include <stdio.h>
#include <stdlib.h>

/* Time that a cancelled call waits for the state of its request. */
#define CANCEL_NS (100 * RIPC__MS)
/* Lowest status of an answer. */
#define STATUS_MIN (-4095)

enum call_state { CALL_WAITING, CALL_SENT, CALL_CANCELLING, CALL_DONE };

struct ripc__call {
	struct ripc__reliable_owner owner; /* of the short request */
	struct ripc__list link;            /* in ctx->calls until it is done */
	uint64_t id;
	struct ripc *ctx;
	struct ripc_request *handle; /* handle of the application */
	uint64_t dest;
	uint64_t deadline_ns;
	enum call_state state;
	bool aborted;                 /* CANCELLING: by the application, not by its deadline */
	bool idempotent;              /* it may be executed more than once */
	bool repeated;                /* a lost holder may have executed it */
	bool listed;                  /* m is in a list of core/reliable */
	struct ripc__peer *peer;      /* has the request, or may have it; counted in peer->calls */
	struct ripc__reliable_msg *m; /* short request, or NULL */
	struct ripc_request *rndv;    /* long request under way, or NULL */
	struct ripc__message *reply;
	int reply_status;
	uint32_t left_ms;              /* until the first try to send ends: time left; then 0 */
	struct long_request *long_req; /* NULL: m is the request */
};

/* The arguments of a long request, which may be sent again. */
struct long_request {
	struct ripc_send_options options;
	struct iovec buffers[RIPC_RETURN_BUFFERS_MAX];
	uint64_t bytes;
	unsigned nitems;
	struct iovec items[];
};

static void send_request(struct ripc__call *call);

/* ---- the table of calls ---- */

/*
 * An id has the index of a slot in its low bits, and above it a number that starts at
 * ripc__seq_begin() and grows with each call. So no id is used twice.
 */
#define SLOT_BITS 20

static struct ripc__call *call_find(struct ripc *ctx, uint64_t id)
{
	uint64_t slot = id & ((1u << SLOT_BITS) - 1);
	struct ripc__call *call = slot < ctx->call_slots ? ctx->call_table[slot] : NULL;

	return call && call->id == id && call->state != CALL_DONE ? call : NULL;
}

/* Makes the table larger. Return: 0 or -ENOMEM. */
static int table_grow(struct ripc *ctx)
{
	uint32_t n = ctx->call_slots ? 2 * ctx->call_slots : 64;
	struct ripc__call **table;
	uint32_t *free_slots;

	if (n > 1u << SLOT_BITS)
		return -ENOMEM;
	table = realloc(ctx->call_table, n * sizeof(struct ripc__call *));
	if (!table)
		return -ENOMEM;
	ctx->call_table = table;
	free_slots = realloc(ctx->call_free_slots, n * sizeof(*free_slots));
	if (!free_slots)
		return -ENOMEM;
	ctx->call_free_slots = free_slots;
	for (uint32_t i = ctx->call_slots; i < n; i++) {
		table[i] = NULL;
		free_slots[ctx->call_nfree++] = n - 1 - (i - ctx->call_slots);
	}
	ctx->call_slots = n;
	return 0;
}

static int call_add(struct ripc *ctx, struct ripc__call *call)
{
	uint32_t slot;

	if (!ctx->call_nfree && table_grow(ctx))
		return -ENOMEM;
	if (!ctx->call_next)
		ctx->call_next = ripc__seq_begin(ctx);
	slot = ctx->call_free_slots[--ctx->call_nfree];
	ctx->call_table[slot] = call;
	call->id = ctx->call_next++ << SLOT_BITS | slot;
	ripc__list_add(&ctx->calls, &call->link);
	return 0;
}

/*
 * A loop over ctx->calls. The end of a call may end any other one, for example when its lane is
 * closed; the loop goes on behind it.
 */
struct ripc__call_loop {
	struct ripc__list *next;
	struct ripc__call_loop *outer;
};

static void loop_begin(struct ripc *ctx, struct ripc__call_loop *loop)
{
	loop->next = ctx->calls.next;
	loop->outer = ctx->call_loops;
	ctx->call_loops = loop;
}

/* The next call; NULL: the loop is over. */
static struct ripc__call *loop_next(struct ripc *ctx, struct ripc__call_loop *loop)
{
	struct ripc__list *n = loop->next;

	if (n == &ctx->calls) {
		ctx->call_loops = loop->outer;
		return NULL;
	}
	loop->next = n->next;
	return ripc__list_entry(n, struct ripc__call, link);
}

static void call_remove(struct ripc *ctx, struct ripc__call *call)
{
	uint32_t slot = (uint32_t)call->id & ((1u << SLOT_BITS) - 1);

	for (struct ripc__call_loop *loop = ctx->call_loops; loop; loop = loop->outer)
		if (loop->next == &call->link)
			loop->next = call->link.next;

	ctx->call_table[slot] = NULL;
	ctx->call_free_slots[ctx->call_nfree++] = slot;
	ripc__list_del(&call->link);
}

/* ---- end of a call ---- */

static void set_peer(struct ripc__call *call, struct ripc__peer *p)
{
	if (call->peer)
		call->peer->calls--;
	call->peer = p;
	if (p)
		p->calls++;
}

static void drop_short(struct ripc__call *call)
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

/* Defers the release of a long request that has ended: its callers still use it. */
static void free_later(struct ripc_request *r)
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
	r->ended = NULL;
	ripc__request_abort(r);
	if (r->state != RIPC__REQUEST_DONE && r->lane)
		ripc__lane_fail(r->lane, -ETIMEDOUT,
				"the peer did not let go of a withdrawn request");
	if (r->state != RIPC__REQUEST_DONE)
		ripc__request_done(r, -ECANCELED, "withdrawn");
	free_later(r);
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

void ripc__call_end(struct ripc__call *call, int status, const char *why)
{
	struct ripc_request *r = call->handle;
	struct ripc *ctx = call->ctx;
	struct ripc_service *s = r->service;

	if (call->state == CALL_DONE)
		return;
	if (call->repeated && status != repeated_status(call, status)) {
		status = repeated_status(call, status);
		why = "a holder of the service that was lost may have executed the request";
	}
	call->state = CALL_DONE;
	call_remove(ctx, call);
	set_peer(call, NULL);
	drop_short(call);
	if (call->rndv)
		end_long(call);
	if (status == -ECANCELED)
		ctx->stats.cancelled++;
	r->status = status;
	r->detail = why ? strdup(why) : NULL;
	r->state = RIPC__REQUEST_DONE;
	r->service = NULL;
	s->nrequests--;
	ripc__wake(ctx, &r->waitq);
	ripc__wake(ctx, &s->drained);
	if (r->published)
		ripc__completion_add(ctx, &r->completion);
}

void ripc__call_free(struct ripc__call *call)
{
	if (call->reply)
		ripc__message_release(call->reply);
	free(call->long_req);
	call->handle->call = NULL;
	call->handle = (struct ripc_request *)(void *)call->ctx->call_cache;
	call->ctx->call_cache = call;
}

struct ripc__message *ripc__call_take_reply(struct ripc__call *call)
{
	struct ripc__message *m = call->reply;

	call->reply = NULL;
	return m;
}

/* The request was not executed: sends it again, because its service may have another holder. */
static void send_again(struct ripc__call *call)
{
	set_peer(call, NULL);
	/* The peer has received it, but its acknowledgement was lost with a lane. */
	if (call->listed)
		ripc__reliable_withdraw(call->ctx, call->m);
	call->listed = false;
	if (call->state == CALL_CANCELLING) {
		ripc__call_end(call, call->aborted ? -ECANCELED : -ETIMEDOUT,
			       "the request was not executed");
		return;
	}
	call->state = CALL_WAITING;
	send_request(call);
}

/* Ends a call whose request may or may not have been executed. */
static void call_unknown(struct ripc__call *call, const char *why)
{
	char text[RIPC__DETAIL_MAX];

	if (call->idempotent && call->state == CALL_SENT) {
		call->repeated = true;
		send_again(call);
		return;
	}
	snprintf(text, sizeof(text), "service %llu: %s; it may have executed the request",
		 (unsigned long long)call->dest, why);
	ripc__call_end(call, call->state == CALL_CANCELLING ? -ETIME : -EPIPE, text);
}

/* ---- the request ---- */

static int before_post(struct ripc__reliable_owner *o, struct ripc__reliable_msg *m,
		       struct ripc__lane *lane)
{
	struct ripc__call *call = (struct ripc__call *)o;
	/* The first post needs no clock. */
	uint32_t left =
		call->left_ms ? call->left_ms : ripc__remaining_ms(call->ctx, call->deadline_ns);

	/* The timers end the call. */
	if (!left)
		return -EAGAIN;
	ripc__put_le64(ripc__reliable_ext(m) + 8, left);
	if (call->peer != lane->peer)
		set_peer(call, lane->peer);
	if (call->state == CALL_WAITING)
		call->state = CALL_SENT;
	return 0;
}

static void short_ended(struct ripc__reliable_owner *o, struct ripc__reliable_msg *m, int status,
			const char *why)
{
	struct ripc__call *call = (struct ripc__call *)o;

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
	struct ripc__call *call = (struct ripc__call *)o;

	set_peer(call, NULL);
	if (call->state == CALL_SENT)
		call->state = CALL_WAITING;
}

static void long_ended(struct ripc_request *r, struct ripc__peer *p)
{
	struct ripc__call *call = r->owner;
	int status = r->status;
	char why[RIPC__DETAIL_MAX];

	call->rndv = NULL;
	free_later(r);
	snprintf(why, sizeof(why), "%s", r->detail ? r->detail : "");
	if (call->reply) {
		ripc__call_end(call, call->reply_status, NULL);
	} else if (!status) {
		set_peer(call, p);
		if (call->state == CALL_WAITING)
			call->state = CALL_SENT;
		/* Its deadline passed, or it was cancelled, while it was sent. */
		else if (call->state == CALL_CANCELLING)
			ripc__lane_notify(p->lane, RIPC__CALL_CANCEL, 0, 0, call->id, 0);
	} else if (status == -EPIPE) {
		call_unknown(call, why);
	} else if (status == -ECANCELED) {
		ripc__call_end(call, call->aborted ? -ECANCELED : -ETIMEDOUT,
			       "the request was not executed");
	} else {
		ripc__call_end(call, status, why);
	}
}

static void send_long_request(struct ripc__call *call)
{
	struct ripc_request *handle = call->handle;
	struct ripc__request_ext ext = {
		.flags = RIPC__F_CALL,
		.call = call->id,
		.deadline_ns = call->deadline_ns,
		.ended = long_ended,
		.owner = call,
		.at = &call->rndv,
	};
	struct long_request *l = call->long_req;
	struct ripc_request *r;
	int rc;

	rc = ripc__request_start(handle->service, call->dest, l->items, l->nitems, l->bytes,
				 &l->options, &ext, &r);
	if (rc)
		ripc__call_end(call, rc, ripc_error_detail());
	/* Only once: the buffers stay advertised if the request is sent again. */
	l->options.nreturn_buffers = 0;
}

static void send_request(struct ripc__call *call)
{
	struct ripc *ctx = call->ctx;
	struct ripc__dest *d;

	if (!call->m) {
		send_long_request(call);
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

void ripc__call_reply(struct ripc *ctx, struct ripc__message *m)
{
	struct ripc__call *call = call_find(ctx, m->call);
	int status = (int)(int32_t)m->call_word;

	m->call_kind = RIPC__CALL_NONE;
	/* Only the peer that has the request may answer it. */
	if (!call || call->dest != m->pub.source || (call->peer && call->peer != m->call_peer) ||
	    call->reply) {
		ctx->stats.late_replies++;
		ripc__message_release(m);
		return;
	}
	ripc__message_return_credit(m);
	if (status > 0 || status < STATUS_MIN)
		status = -EPROTO;
	/* So that the end of the lane releases it. */
	ripc__list_add(&ctx->messages, &m->held);
	call->reply = m;
	call->reply_status = status;
	if (call->rndv) {
		/* The request has arrived: its memory belongs to the caller again. */
		ripc__request_abort(call->rndv);
		return;
	}
	ripc__call_end(call, status, status ? "refused by the service" : NULL);
}

void ripc__call_state_received(struct ripc__lane *lane, uint64_t id, uint64_t state)
{
	struct ripc__call *call = call_find(lane->ctx, id);
	struct ripc__dest *d;

	if (!call || call->peer != lane->peer || call->reply)
		return;
	switch (state) {
	case RIPC__CALL_NOT_TAKEN:
		ripc__call_end(call, call->aborted ? -ECANCELED : -ETIMEDOUT,
			       "the request was not executed");
		break;
	case RIPC__CALL_MOVED:
		d = ripc__dest_find(lane->ctx, call->dest);
		if (d && d->peer == lane->peer)
			ripc__dest_invalidate(lane->ctx, d, "its former holder has closed it");
		if (!call->rndv)
			send_again(call);
		break;
	default:
		call_unknown(call, "there is no answer");
		break;
	}
}

void ripc__calls_peer_lost(struct ripc *ctx, struct ripc__peer *p, const char *why)
{
	struct ripc__call_loop loop;
	struct ripc__call *call;

	if (!p->calls)
		return;
	loop_begin(ctx, &loop);
	while ((call = loop_next(ctx, &loop))) {
		/* core/reliable and core/rendezvous report those that they have. */
		if (call->peer == p && !call->listed && !call->rndv)
			call_unknown(call, why);
	}
}

/* Sends CALL_CANCEL, to learn the state of a request. */
static void cancel_sent(struct ripc__call *call, bool aborted)
{
	struct ripc *ctx = call->ctx;

	call->state = CALL_CANCELLING;
	call->aborted = aborted;
	call->deadline_ns = ripc__now(ctx) + CANCEL_NS;
	if (call->deadline_ns < ctx->calls_next_ns)
		ctx->calls_next_ns = call->deadline_ns;
	ripc__timer_at(ctx, call->deadline_ns);
	if (call->rndv) {
		ripc__request_abort(call->rndv);
		return;
	}
	if (call->peer && call->peer->lane)
		ripc__lane_notify(call->peer->lane, RIPC__CALL_CANCEL, 0, 0, call->id, 0);
}

static void not_sent(struct ripc__call *call, int status)
{
	struct ripc__dest *d = ripc__dest_find(call->ctx, call->dest);
	char why[RIPC__DETAIL_MAX];

	if (status == -ETIMEDOUT && d && !(d->peer && d->peer->lane)) {
		status = ripc__dest_unreachable(call->ctx, d);
		snprintf(why, sizeof(why), "%s", ripc_error_detail());
	} else {
		snprintf(why, sizeof(why), "the request was not sent to service %llu: %s",
			 (unsigned long long)call->dest,
			 status == -ETIMEDOUT ? "it takes no more messages" : "cancelled");
	}
	ripc__call_end(call, status, why);
}

void ripc__call_abort(struct ripc__call *call)
{
	if (call->state == CALL_SENT || (call->state == CALL_WAITING && call->rndv))
		cancel_sent(call, true);
	else if (call->state == CALL_WAITING)
		not_sent(call, -ECANCELED);
}

void ripc__call_withdrawn(struct ripc__call *call)
{
	ripc__call_end(call, -ETIME, "the request may have been executed");
	if (call->reply && call->handle->status == -ECANCELED)
		call->handle->status = -ETIME;
}

static void call_expired(struct ripc__call *call)
{
	char why[RIPC__DETAIL_MAX];

	switch (call->state) {
	case CALL_WAITING:
		/* A peer that was lost may have delivered a long request that is pending again. */
		if (call->rndv &&
		    (call->rndv->was_sent || call->rndv->state != RIPC__REQUEST_PENDING))
			cancel_sent(call, false);
		else
			not_sent(call, -ETIMEDOUT);
		break;
	case CALL_SENT:
		cancel_sent(call, false);
		break;
	case CALL_CANCELLING:
		snprintf(why, sizeof(why),
			 "service %llu did not answer in time, and may have executed the request",
			 (unsigned long long)call->dest);
		ripc__call_end(call, -ETIME, why);
		break;
	default:
		break;
	}
}

void ripc__calls_timers(struct ripc *ctx)
{
	struct ripc__call_loop loop;
	struct ripc__call *call;
	struct ripc__list *n;
	uint64_t next = RIPC__NEVER;

	ripc__calls_free_ended(ctx);
	if (ctx->now_ns < ctx->calls_next_ns) {
		ripc__timer_at(ctx, ctx->calls_next_ns);
		return;
	}
	ctx->calls_next_ns = RIPC__NEVER;
	loop_begin(ctx, &loop);
	while ((call = loop_next(ctx, &loop)))
		if (call->deadline_ns <= ctx->now_ns)
			call_expired(call);
	/* Those that ended are not in the list, those that are cancelled have a new deadline. */
	ripc__list_for_each (n, &ctx->calls) {
		call = ripc__list_entry(n, struct ripc__call, link);
		if (call->deadline_ns < next)
			next = call->deadline_ns;
	}
	if (next < ctx->calls_next_ns)
		ctx->calls_next_ns = next;
	ripc__timer_at(ctx, ctx->calls_next_ns);
}

void ripc__calls_service_ended(struct ripc_service *s)
{
	struct ripc__call_loop loop;
	struct ripc__call *call;

	loop_begin(s->ctx, &loop);
	while ((call = loop_next(s->ctx, &loop))) {
		if (call->handle->service != s)
			continue;
		/*
		 * Its memory belongs to the caller when the peer has acknowledged the cancellation.
		 */
		if (call->rndv) {
			cancel_sent(call, true);
			continue;
		}
		if (call->peer && call->peer->lane)
			ripc__lane_notify(call->peer->lane, RIPC__CALL_CANCEL, 0, 0, call->id, 0);
		ripc__call_end(call, -ESHUTDOWN, "the calling service was closed or taken over");
	}
}

void ripc__calls_close(struct ripc *ctx)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &ctx->calls) {
		struct ripc__call *call = ripc__list_entry(n, struct ripc__call, link);

		if (call->peer && call->peer->lane)
			ripc__lane_notify(call->peer->lane, RIPC__CALL_CANCEL, 0, 0, call->id, 0);
	}
}

void ripc__calls_end_all(struct ripc *ctx)
{
	struct ripc__list *n, *tmp;

	while ((n = ripc__list_first(&ctx->calls)))
		ripc__call_end(ripc__list_entry(n, struct ripc__call, link), -ESHUTDOWN, NULL);
	ripc__list_for_each_safe (n, tmp, &ctx->requests) {
		struct ripc_request *r = ripc__list_entry(n, struct ripc_request, ctx_link);

		if (r->call)
			ripc__call_free(r->call);
	}
	ripc__calls_free_ended(ctx);
}

void ripc__calls_free(struct ripc *ctx)
{
	free(ctx->replies);
	while (ctx->call_cache) {
		struct ripc__call *call = ctx->call_cache;

		ctx->call_cache = (struct ripc__call *)(void *)call->handle;
		free(call);
	}
	free(ctx->call_table);
	free(ctx->call_free_slots);
}

/* ---- start ---- */

static struct ripc__call *call_alloc(struct ripc *ctx)
{
	struct ripc__call *call = ctx->call_cache;

	if (!call)
		return malloc(sizeof(*call));
	ctx->call_cache = (struct ripc__call *)(void *)call->handle;
	return call;
}

/* Whether a request fits a short message. */
static bool is_short(struct ripc *ctx, uint64_t dest, uint64_t bytes)
{
	struct ripc__dest *d;

	if (bytes <= RIPC_SHORT_GUARANTEED)
		return true;
	if (bytes > RIPC__RELIABLE_WINDOW_BYTES / 4)
		return false;
	d = ripc__dest_find(ctx, dest);
	return d && d->peer && d->peer->lane &&
	       bytes + RIPC__CALL_EXT <= d->peer->lane->send_max - RIPC__SHORT_FIXED;
}

/* call->long_req stays NULL if there is no memory. */
static void keep_long_request(struct ripc__call *call, const struct iovec *items, unsigned nitems,
			      uint64_t bytes, const struct ripc_call_options *o)
{
	struct long_request *l = malloc(sizeof(*l) + nitems * sizeof(*items));

	call->long_req = l;
	if (!l)
		return;
	memcpy(l->items, items, nitems * sizeof(*items));
	l->nitems = nitems;
	l->bytes = bytes;
	l->options = (struct ripc_send_options){.size = sizeof(l->options)};
	if (o && o->nreply_buffers) {
		memcpy(l->buffers, o->reply_buffers, o->nreply_buffers * sizeof(l->buffers[0]));
		l->options.return_buffers = l->buffers;
		l->options.nreturn_buffers = o->nreply_buffers;
	}
}

/* The handle of a call. It has no items. */
static void handle_init(struct ripc_request *r, struct ripc_service *s, struct ripc__call *call)
{
	memset(r, 0, offsetof(struct ripc_request, returns));
	r->ctx = s->ctx;
	r->service = s;
	r->dest_id = call->dest;
	r->source = s->id;
	r->call = call;
	ripc__waitq_init(&r->waitq);
	ripc__completion_init(&r->completion, RIPC_COMPLETION_REQUEST);
	ripc__list_init(&r->peer_link);
	ripc__list_init(&r->link);
	ripc__list_init(&r->ctx_link);
}

int ripc__call_start(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		     unsigned nitems, uint64_t bytes, const struct ripc_call_options *o,
		     int timeout_ms, struct ripc_request **out)
{
	struct ripc *ctx = s->ctx;
	struct ripc__call *call = call_alloc(ctx);
	struct ripc_request *r = call ? ripc__request_get(ctx, 1) : NULL;
	uint8_t ext[RIPC__CALL_EXT] = {0};

	if (!r)
		goto fail;
	ripc__calls_free_ended(ctx);
	*call = (struct ripc__call){
		.owner = {.end = short_ended,
			  .before_post = before_post,
			  .requeued = short_requeued,
			  .waits = true},
		.ctx = ctx,
		.handle = r,
		.dest = dest,
		.deadline_ns = timeout_ms < 0 ? RIPC__NEVER : ripc__deadline_far(ctx, timeout_ms),
		.idempotent = o && o->flags & RIPC_IDEMPOTENT,
	};
	handle_init(r, s, call);
	if (call_add(ctx, call))
		goto fail;
	if (!(o && o->nreply_buffers) && is_short(ctx, dest, bytes)) {
		ripc__put_le64(ext, call->id);
		call->m = ripc__reliable_new(ctx, RIPC__F_CALL, dest, s->id, ext, items, nitems);
		if (call->m)
			call->m->owner = &call->owner;
	} else {
		keep_long_request(call, items, nitems, bytes, o);
	}
	if (!call->m && !call->long_req) {
		call_remove(ctx, call);
		goto fail;
	}
	ripc__list_add(&ctx->requests, &r->ctx_link);
	s->nrequests++;
	ctx->stats.calls++;
	if (call->deadline_ns < ctx->calls_next_ns) {
		ctx->calls_next_ns = call->deadline_ns;
		ripc__timer_at(ctx, call->deadline_ns);
	}
	*out = r;
	call->left_ms = timeout_ms < 0 ? UINT32_MAX : (uint32_t)timeout_ms;
	send_request(call);
	call->left_ms = 0;
	return 0;
fail:
	if (r)
		ripc__request_put(ctx, r, 1);
	free(call);
	return ripc__fail(-ENOMEM, "no memory for a call to service %llu",
			  (unsigned long long)dest);
}
