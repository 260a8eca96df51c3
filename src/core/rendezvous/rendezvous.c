/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/rendezvous.h"
#include "core/memory/mapped.h"
#include "core/peer/lane.h"
#include "core/message/message.h"
#include "core/peer/peer.h"
#include "core/message/service.h"
#include "core/memory/bounce.h"
#include "wire/bytes.h"

#include <stdlib.h>

#define CHUNK_MAX (1u << 20) /* bytes of one read: each that completes is a sign of life */
#define READS_AHEAD \
	8u /* reads with which a lane is busy: no memory is found for another large item yet */

/* ---- finding, freeing ---- */

struct ripc__rndv *ripc__rndv_find(struct ripc__peer *p, uint64_t id)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &p->rndvs) {
		struct ripc__rndv *r = ripc__list_entry(n, struct ripc__rndv, peer_link);

		if (r->id == id)
			return r;
	}
	return NULL;
}

/* Ends remote access to one item's memory and our own reads' registration. */
static void item_unregister(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	struct ripc__tp *tp;

	if (it->own_valid) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): without a lane nothing of it is registered any more */
		tp = &r->ctx->tp[r->lane->tp];
		tp->ops->dereg(tp->t, &it->own);
	}
	if (it->kept)
		ripc__cached_mr_release(r->ctx, it->kept);
	it->kept = NULL;
	it->own_valid = false;
	it->mr = NULL;
}

void ripc__rndv_release(struct ripc__rndv *r)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__rndv_item *it = &r->items[i];

		item_unregister(r, it);
		/* A window of the whole context does not go with one service. */
		if (it->window)
			ripc__recv_window_release(r->ctx, it->window,
						  it->window->service &&
							  r->service->state != RIPC__SERVICE_ACTIVE);
		if (it->ret) {
			it->ret->arriving = false;
			/* Withdrawn in the meantime. */
			if (it->region->free_pending || r->service->state != RIPC__SERVICE_ACTIVE)
				ripc__local_return_revoke(r->ctx, it->ret);
		}
		if (it->pool)
			ripc__pool_put(r->ctx, it->pool);
		if (it->import_ref)
			ripc__import_ref_release(it->import_ref);
		it->window = NULL;
		it->ret = NULL;
		it->pool = NULL;
		it->import_ref = NULL;
		it->base = NULL;
	}
}

static void uncount_bytes(struct ripc__rndv *r)
{
	if (r->in_arriving_bytes)
		r->service->arriving_bytes -= r->bytes;
	r->in_arriving_bytes = false;
}

void ripc__rndv_free(struct ripc__rndv *r)
{
	ripc__list_del(&r->link);
	ripc__list_del(&r->peer_link);
	ripc__list_del(&r->lane_link);
	if (r->message)
		ripc__message_release(r->message);
	r->ctx->long_inflight--;
	free(r);
}

/* ---- delivery ---- */

/* Hands the oldest messages of a peer to the service, as far as they are complete. */
static void deliver_ready(struct ripc_service *s, struct ripc__peer *p)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &s->rndvs_in) {
		struct ripc__rndv *r = ripc__list_entry(n, struct ripc__rndv, link);
		struct ripc__message *m = r->message;

		if (r->peer != p)
			continue;
		if (r->state != RIPC__RNDV_READY)
			return;
		r->message = NULL;
		ripc__rndv_free(r);
		ripc__service_deliver(s, m);
	}
}

void ripc__rndv_drop(struct ripc__rndv *r, int status)
{
	struct ripc_service *s = r->service;
	struct ripc__peer *p = r->peer;

	ripc__rndv_release(r);
	uncount_bytes(r);
	if (status && r->lane)
		ripc__lane_notify(r->lane, RIPC__ACK, 0, 0, r->id, (uint32_t)status);
	ripc__rndv_free(r);
	deliver_ready(s, p);
	ripc__rndv_resume(s);
	ripc__wake(s->ctx, &s->drained);
	if (s->taken_over && ripc__list_empty(&s->rndvs_in))
		ripc__wake(s->ctx, &s->receivers);
}

void ripc__rndv_fail(struct ripc__rndv *r, int status)
{
	ripc__list_del(&r->lane_link);
	r->status = status;
	r->state = RIPC__RNDV_DRAINING;
	if (!r->reads && !r->granted)
		ripc__rndv_drop(r, status);
}

/* One item has arrived: what it means for its memory, and where the application finds it. Return: whether it stays the sender's. */
static bool item_deliver(struct ripc__rndv *r, unsigned i)
{
	struct ripc__rndv_item *it = &r->items[i];
	struct iovec *iov = (struct iovec *)r->message->pub.items;
	uint8_t *placement = (uint8_t *)r->message->pub.placement;
	bool kept = it->import_ref;

	item_unregister(r, it);
	iov[i].iov_base = it->base ? it->base : (void *)"";
	iov[i].iov_len = it->len;
	placement[i] = RIPC_IN_RECEIVE_BUFFER;
	if (it->ret) {
		placement[i] = RIPC_IN_RETURN;
		ripc__local_return_drop(r->ctx, it->ret);
	} else if (it->window) {
		placement[i] = RIPC_IN_WINDOW;
		r->ctx->stats.window_items++;
		ripc__recv_window_release(r->ctx, it->window, true);
	} else if (it->pool) {
		placement[i] = RIPC_IN_POOL;
		r->ctx->stats.pool_items++;
		r->message->pool[i] = it->pool;
	} else if (it->import_ref) {
		placement[i] = RIPC_IN_PLACE;
		r->message->pool[i] = it->import_ref->region;
		it->import_ref->message = r->message;
	}
	it->ret = NULL;
	it->window = NULL;
	it->pool = NULL;
	it->import_ref = NULL;
	return kept;
}

/*
 * The application freed the buffer that a window or return buffer lay in, while the item was on its way there: the
 * message gets a copy, and the buffer goes back. Return: false: no memory.
 */
static bool item_copy_out(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	struct ripc__region *copy;

	if (!it->len || !it->region || !it->region->free_pending)
		return true;
	copy = ripc__pool_get(r->ctx, it->len, RIPC__REGION_MESSAGE);
	if (!copy)
		return false;
	memcpy(copy->base, it->base, it->len);
	item_unregister(r, it);
	if (it->ret)
		ripc__local_return_drop(r->ctx, it->ret);
	if (it->window)
		ripc__recv_window_release(r->ctx, it->window, true);
	it->ret = NULL;
	it->window = NULL;
	it->pool = copy;
	it->region = copy;
	it->base = copy->base;
	return true;
}

void ripc__rndv_ready(struct ripc__rndv *r)
{
	struct ripc_service *s = r->service;
	struct ripc__peer *p = r->peer;
	struct ripc__lane *lane = r->lane;
	uint64_t id = r->id;
	bool kept = false;

	for (unsigned i = 0; i < r->nitems; i++)
		if (!item_copy_out(r, &r->items[i])) {
			ripc__rndv_fail(r, -ENOBUFS);
			return;
		}
	for (unsigned i = 0; i < r->nitems; i++)
		kept |= item_deliver(r, i);
	uncount_bytes(r);
	r->state = RIPC__RNDV_READY;
	/* The bitmap was made when the message arrived. */
	ripc__dedup_mark(p, r->id);
	p->stats.long_received++;
	p->stats.bytes_received += r->bytes;
	if (kept)
		ripc__lane_notify(lane, RIPC__ACK, 0, 0, id, (uint64_t)RIPC__ACK_KEPT << 32);
	r->lane = NULL;
	deliver_ready(s, p);
	if (!kept)
		ripc__delayed_ack_queue(lane, id, s);
}

static void ready_if_complete(struct ripc__rndv *r)
{
	if (r->state == RIPC__RNDV_TRANSFER && !r->reads && !r->granted && r->next == r->nitems)
		ripc__rndv_ready(r);
}

/* ---- moving ---- */

/* Memory that the application has set aside for an item like this one. Return: false: there is none. */
static bool item_claim(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	struct ripc *ctx = r->ctx;

	it->ret = ripc__local_return_claim(ctx, r->service, r->peer, it->len);
	if (it->ret) {
		it->base = it->ret->base;
		it->region = it->ret->region;
		return true;
	}
	it->window = ripc__recv_window_claim(ctx, r->service, it->len);
	if (it->window) {
		it->base = it->window->base;
		it->region = it->window->region;
		return true;
	}
	return false;
}

bool ripc__rndv_item_alloc(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	if (item_claim(r, it))
		return true;
	it->pool = ripc__pool_get(r->ctx, it->len, RIPC__REGION_MESSAGE);
	it->region = it->pool;
	it->base = it->pool ? it->pool->base : NULL;
	return it->pool;
}

/* An item that is read, or that the sender will write. */
static int item_start(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	if (!ripc__rndv_item_alloc(r, it))
		return -ENOBUFS;
	if (it->how == RIPC__HOW_READ) {
		it->mr = ripc__sink_mr(r->ctx, r->lane->tp, it->region, it->base, it->len, &it->own,
				       &it->kept);
		it->own_valid = it->mr == &it->own;
		return it->mr ? 0 : -ENOBUFS;
	}
	if (ripc__reg_with_retry(r->lane, it->base, it->len, RIPC__ACCESS_REMOTE_WRITE, &it->own))
		return -ENOBUFS;
	it->own_valid = true;
	return 0;
}

static void send_grant(struct ripc__rndv *r)
{
	uint8_t buf[RIPC__HEADER_MAX], *p;

	p = ripc__header_put(buf, RIPC__GRANT, 0, (uint16_t)r->nitems, 0, 0, 0);
	ripc__put_le64(p, r->id);
	p += 8;
	for (unsigned i = 0; i < r->nitems; i++) {
		const struct ripc__rndv_item *it = &r->items[i];
		struct ripc__desc d = {.len = it->len, .how = RIPC__HOW_INLINE};

		if (it->how == RIPC__HOW_GRANT) {
			d.how = RIPC__HOW_GRANT;
			d.addr = it->own.addr;
			d.key = it->own.key;
		}
		p = ripc__desc_put(p, &d);
	}
	ripc__lane_control(r->lane, buf, (size_t)(p - buf));
}

/* Whether the service has so much unread that this one must wait. One at a time always goes. */
static bool over_unread_limit(const struct ripc__rndv *r)
{
	const struct ripc_service *s = r->service;
	uint64_t unread = s->queued_bytes + s->queued_long_bytes + s->arriving_bytes;

	return unread && unread + r->bytes > RIPC__UNREAD_MAX;
}

/* An item that lies in the sender's memory: it stays there, unless the application wants it in its own. */
static void item_import(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	const uint8_t *from = it->base;

	if (!item_claim(r, it))
		return;
	memcpy(it->base, from, it->len);
	ripc__import_ref_release(it->import_ref);
	it->import_ref = NULL;
}

/* The end of the message, which is told its sender. r may be gone. */
static void fail_item(struct ripc__rndv *r, const struct ripc__rndv_item *it, const char *what, int rc)
{
	ripc__log(RIPC_LOG_WARN, "service %llu: %s a long item of %llu bytes from peer %s: %s",
		  (unsigned long long)r->service->id, what, (unsigned long long)it->len,
		  ripc__instance_text(r->peer->instance), ripc_error_detail());
	ripc__rndv_fail(r, rc);
}

/* As item_start(). What cannot be started is the end of the message. Return: whether it was started; else r may be gone. */
static bool item_start_or_fail(struct ripc__rndv *r, struct ripc__rndv_item *it)
{
	int rc = item_start(r, it);

	if (!rc)
		return true;
	fail_item(r, it, "no memory for", rc);
	return false;
}

static void start_transfer(struct ripc__rndv *r)
{
	bool reads = false, grants = false;

	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__rndv_item *it = &r->items[i];

		if (it->how == RIPC__HOW_MAPPED)
			item_import(r, it);
		else if (it->how == RIPC__HOW_GRANT && !item_start_or_fail(r, it))
			return;
		reads |= it->how == RIPC__HOW_READ;
		grants |= it->how == RIPC__HOW_GRANT;
	}
	r->state = RIPC__RNDV_TRANSFER;
	r->granted = grants;
	r->service->arriving_bytes += r->bytes;
	r->in_arriving_bytes = true;
	ripc__lane_monitor(r->lane);
	if (grants)
		send_grant(r);
	if (reads) {
		ripc__list_add(&r->lane->rndvs, &r->lane_link);
		if (r->lane->rndvs.next == &r->lane_link)
			ripc__rndv_post(r);
	} else {
		r->next = r->nitems;
		ready_if_complete(r);
	}
}

static struct ripc__rndv *first_waiting(struct ripc_service *s)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &s->rndvs_in) {
		struct ripc__rndv *r = ripc__list_entry(n, struct ripc__rndv, link);

		if (r->state == RIPC__RNDV_WAITING)
			return r;
	}
	return NULL;
}

void ripc__rndv_resume(struct ripc_service *s)
{
	struct ripc__rndv *r;

	/* One that cannot be started is dropped, and that resumes: the loop below goes on with the next. */
	if (s->resuming)
		return;
	s->resuming = true;
	/* Starting one may end others: the list is looked at anew each time. */
	while ((r = first_waiting(s)) && !over_unread_limit(r))
		start_transfer(r);
	s->resuming = false;
}

/*
 * Posts one read. Most often one that cannot be is that of memory which cannot be registered: what is registered and lies idle counts
 * against the same limit, and goes. Return: 0; -EAGAIN: later, or the lane's end is on its way; else it cannot be, explained.
 */
static int post_read(struct ripc__rndv *r, const struct ripc__rndv_item *it, uint64_t len)
{
	struct ripc__lane *lane = r->lane;
	const struct ripc__transport_ops *ops = r->ctx->tp[lane->tp].ops;
	int rc = 0;

	for (unsigned tries = 0; tries < 2; tries++) {
		rc = ops->post_read(lane->ep, it->mr, it->base + it->posted, len,
				    it->raddr + it->posted, it->rkey, (uint64_t)(uintptr_t)r);
		/* A broken lane, or its device, is reported as such: then this is suspended. */
		if (rc == -ENOTCONN || rc == -ENODEV)
			return -EAGAIN;
		if (!rc || rc == -EAGAIN)
			break;
		ripc__idle_mrs_release(r->ctx);
	}
	return rc;
}

/*
 * Memory for an item is found when its first read goes out: had each message on its way memory from the start, new pages would be
 * touched where those of the message before, still warm, are about to be free.
 */
bool ripc__rndv_post(struct ripc__rndv *r)
{
	struct ripc__lane *lane = r->lane;
	struct ripc__tp *tp = &r->ctx->tp[lane->tp];

	for (; r->next < r->nitems; r->next++) {
		struct ripc__rndv_item *it = &r->items[r->next];

		if (it->how == RIPC__HOW_READ && !it->region) {
			if (it->len > CHUNK_MAX && lane->reads > READS_AHEAD)
				return false;
			if (!item_start_or_fail(r, it))
				return true;
		}
		while (it->how == RIPC__HOW_READ && it->posted < it->len) {
			uint64_t n = it->len - it->posted;
			int rc;

			if (lane->reads >= tp->limits.read_depth)
				return false;
			if (n > CHUNK_MAX)
				n = CHUNK_MAX;
			if (n > tp->limits.rdma_max)
				n = tp->limits.rdma_max;
			/* What is left of it, or must wait for room, moves with progress() only. */
			ripc__progress_request(r->ctx);
			rc = post_read(r, it, n);
			if (rc == -EAGAIN)
				return false;
			if (rc) {
				fail_item(r, it, "no way to read", -ENOBUFS);
				return true;
			}
			it->posted += n;
			r->reads++;
			lane->reads++;
		}
	}
	ripc__list_del(&r->lane_link);
	return true;
}

void ripc__rndv_read_done(struct ripc__rndv *r, int status)
{
	struct ripc__lane *lane = r->lane;

	r->reads--;
	if (status) {
		ripc__lane_fail(lane, status, "a read from the peer's memory failed");
		return;
	}
	if (r->state == RIPC__RNDV_DRAINING) {
		if (!r->reads && !r->granted)
			ripc__rndv_drop(r, r->status);
	} else {
		ready_if_complete(r);
	}
	/* Room for the next read. */
	while (!ripc__list_empty(&lane->rndvs) &&
	       ripc__rndv_post(ripc__list_entry(lane->rndvs.next, struct ripc__rndv, lane_link)))
		;
}

void ripc__rndv_fin(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__rndv *r = ripc__rndv_find(lane->peer, id);

	if (!r || r->lane != lane || !r->granted)
		return;
	r->granted = false;
	if (r->state == RIPC__RNDV_DRAINING && !r->reads)
		ripc__rndv_drop(r, r->status);
	else
		ready_if_complete(r);
}

void ripc__rndv_cancel(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__rndv *r = ripc__rndv_find(lane->peer, id);

	/* Not here: its ACK is on its way. */
	if (!r || r->lane != lane) {
		ripc__delayed_ack_flush(lane->ctx);
		return;
	}
	/* Behind the last write that was granted. */
	r->granted = false;
	if (r->state == RIPC__RNDV_WAITING || r->state == RIPC__RNDV_TRANSFER)
		ripc__rndv_fail(r, -ECANCELED);
	else if (r->state == RIPC__RNDV_DRAINING && !r->reads)
		ripc__rndv_drop(r, r->status);
}

/* ---- the end of lanes, peers and services ---- */

/* Drops the first of a peer's that is in this state, without an answer. Return: whether there was one. */
static bool drop_first(struct ripc__peer *peer, enum ripc__rndv_state state,
		       const struct ripc__lane *lane)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &peer->rndvs) {
		struct ripc__rndv *r = ripc__list_entry(n, struct ripc__rndv, peer_link);

		if (r->state == state && r->lane == lane) {
			ripc__rndv_drop(r, 0);
			return true;
		}
	}
	return false;
}

void ripc__rndv_lane_gone(struct ripc *ctx, struct ripc__lane *lane)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &lane->peer->rndvs) {
		struct ripc__rndv *r = ripc__list_entry(n, struct ripc__rndv, peer_link);

		if (r->lane != lane)
			continue;
		/* The endpoint is closed: nothing is read into this memory any more. */
		r->reads = 0;
		ripc__list_del(&r->lane_link);
		if (r->state == RIPC__RNDV_DRAINING)
			continue;
		ripc__rndv_release(r);
		uncount_bytes(r);
		r->lane = NULL;
		r->state = RIPC__RNDV_SUSPENDED;
		r->message->flow = NULL;
	}
	while (drop_first(lane->peer, RIPC__RNDV_DRAINING, lane))
		;
}

void ripc__rndv_peer_gone(struct ripc *ctx, struct ripc__peer *peer)
{
	while (drop_first(peer, RIPC__RNDV_SUSPENDED, NULL))
		;
}

void ripc__rndv_service_gone(struct ripc_service *s)
{
	struct ripc__list *n, *tmp;

	/* From the last to the first: what is dropped must not let a later one be delivered. */
	for (n = s->rndvs_in.prev, tmp = n->prev; n != &s->rndvs_in; n = tmp, tmp = n->prev) {
		struct ripc__rndv *r = ripc__list_entry(n, struct ripc__rndv, link);

		if (r->state == RIPC__RNDV_DRAINING)
			continue;
		if (r->state == RIPC__RNDV_READY) {
			s->ctx->stats.dropped_unread++;
			s->stats.dropped_unread++;
			ripc__rndv_free(r);
		} else if (r->reads || r->granted) {
			/* Revoked under a write, a grant would break the lane for everybody: FIN will come, or its lane goes. */
			ripc__list_del(&r->lane_link);
			r->status = -EHOSTUNREACH;
			r->state = RIPC__RNDV_DRAINING;
		} else {
			ripc__rndv_release(r);
			uncount_bytes(r);
			if (r->lane)
				ripc__lane_notify(r->lane, RIPC__ACK, 0, 0, r->id,
						  (uint32_t)-EHOSTUNREACH);
			ripc__rndv_free(r);
		}
	}
}
