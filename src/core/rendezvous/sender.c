/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/rendezvous/sender.h"
#include "base/copy.h"
#include "core/memory/bounce.h"
#include "core/memory/remote_returns.h"
#include "core/peer/lane.h"
#include "core/peer/lane_post.h"
#include "core/peer/peer.h"
#include "core/rendezvous/ack.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/rendezvous/immediate.h"
#include "core/rendezvous/selection.h"
#include "wire/bytes.h"

#include <stdio.h>
#include <string.h>

#define CHUNK_MAX (1u << 20) /* bytes of one write; each completion shows that the peer is alive */

/* ---- sending ---- */

static void item_fill(struct ripc__request_item *it)
{
	if (!it->bounce || it->filled)
		return;
	ripc__copy_pieces(it->bounce->region->base, it->base, it->len);
	it->filled = true;
}

/*
 * A permanent error ends the request: at once, or when the peer and the posted writes are finished.
 * Return: 0: it is done; -EAGAIN.
 */
static int fail(struct ripc_request *r, int rc, const char *text)
{
	r->error = rc;
	r->detail = strdup(text);
	ripc__request_abort(r);
	return r->state == RIPC__REQUEST_DONE ? 0 : -EAGAIN;
}

/* An item cannot be written. If it cannot be registered, the transport has named the limit. */
static int write_failed(struct ripc_request *r, int rc)
{
	char text[RIPC__DETAIL_MAX];

	snprintf(text, sizeof(text), "%s over %s: item %u of %zu bytes cannot be written: %s",
		 ripc__service_text(r->ctx, r->dest_id), r->ctx->tp[r->lane->tp].ops->name, r->next,
		 r->items[r->next].len,
		 rc == -ENOMEM || rc == -EPERM ? ripc_error_detail() : ripc_strerror(rc));
	return fail(r, rc, text);
}

/* The transport could not read an inlined item. */
static int read_failed(struct ripc_request *r)
{
	struct ripc__mappings maps = {0};
	char text[RIPC__DETAIL_MAX];

	if (!ripc__request_unreadable(r, &maps, text, sizeof(text)))
		snprintf(text, sizeof(text), "%s: an item cannot be read",
			 ripc__service_text(r->ctx, r->dest_id));
	ripc__mappings_free(&maps);
	return fail(r, -EFAULT, text);
}

/* The write of the next len bytes of an item. */
static struct ripc__transfer item_write(struct ripc_request *r, const struct ripc__request_item *it,
					size_t len)
{
	return (struct ripc__transfer){
		.kind = RIPC__WRITE,
		.mr = it->cached_mr ? &it->cached_mr->mr
		      : it->bounce  ? &it->bounce->mr
				    : &it->mr,
		.local = (it->bounce ? it->bounce->region->base : it->base) + it->posted,
		.len = len,
		.raddr = it->raddr + it->posted,
		.rkey = it->rkey,
		.wr_id = (uint64_t)(uintptr_t)r,
	};
}

/*
 * Posts the writes of all items that travel by how. Return: 0: all are posted; -EAGAIN; else the
 * reason.
 */
static int write_items(struct ripc_request *r, unsigned how)
{
	struct ripc__tp *tp = &r->ctx->tp[r->lane->tp];

	for (; r->next < r->nitems; r->next++) {
		struct ripc__request_item *it = &r->items[r->next];

		while (it->how == how && it->posted < it->len) {
			struct ripc__transfer x;
			size_t n = it->len - it->posted;
			int rc;

			if (n > CHUNK_MAX)
				n = CHUNK_MAX;
			if (n > tp->limits.rdma_max)
				n = tp->limits.rdma_max;
			/* The ACK would otherwise arrive after these writes. */
			ripc__delayed_ack_before_copy(r->ctx, it->len);
			item_fill(it);
			x = item_write(r, it, n);
			rc = tp->ops->transfer(r->lane->ep, &x);
			ripc__transfer_posted(r->ctx, r->lane->tp);
			/* The lane or its device failed: the lane's end puts the request back. */
			if (rc == -ENOTCONN || rc == -ENODEV)
				return -EAGAIN;
			if (rc && rc != -EAGAIN && ripc__item_fall_back(r, it))
				continue;
			if (rc)
				return rc;
			it->posted += n;
			r->writes++;
		}
	}
	return 0;
}

/* Upper bound of the length of the LONG message. */
static size_t message_len_max(const struct ripc_request *r)
{
	size_t len = ripc__request_header_len(r);

	for (unsigned i = 0; i < r->nitems; i++)
		if (r->items[i].how == RIPC__HOW_INLINE)
			len += r->items[i].len;
	return len;
}

/* The LONG was posted; len: its bytes for credit. */
static __always_inline void message_sent(struct ripc_request *r, size_t len)
{
	if (r->ctx->delayed_ack.lane == r->lane)
		ripc__delayed_ack_replied(r->lane);
	if (r->nreturns)
		ripc__local_returns_advertised(r->lane, r->returns, r->nreturns);
	if (r->lane->caps & RIPC__CAP_WRITE_IMM)
		ripc__immediate_sent(r);
	/* Returns units that were reserved and not used. */
	r->credit->sent_units -= r->units - ripc__units_for(r->ext.flags, len);
}

static __always_inline int send_message(struct ripc_request *r)
{
	uint8_t buf[RIPC__HEADER_MAX + RIPC__ACK_WORD + RIPC__CALL_EXT], *p, *count;
	struct iovec payload[RIPC_ITEMS_MAX];
	unsigned n = 0, nreturns = r->nreturns;
	bool delayed_ack;
	int rc;

	if (nreturns)
		ripc__local_returns_before_reg(r->lane, r->returns, nreturns);
	delayed_ack = r->ctx->delayed_ack.held &&
		      ripc__delayed_ack_piggybacks(r->lane, message_len_max(r));
	p = ripc__header_put(
		buf, RIPC__LONG,
		(uint16_t)((delayed_ack ? RIPC__F_ACK : 0) | r->ext.flags |
			   (r->free_items || r->copied || r->ext.flags ? RIPC__F_ACK_NOW : 0)),
		(uint16_t)r->nitems, 0, r->dest_id, r->source);
	count = buf + 30;
	if (delayed_ack) {
		ripc__put_le64(p, r->ctx->delayed_ack.word);
		p += RIPC__ACK_WORD;
	}
	if (r->ext.flags) {
		ripc__put_le64(p, r->ext.call);
		ripc__put_le64(p + 8, r->ext.flags & RIPC__F_CALL
					      ? ripc__remaining_ms(r->ctx, r->ext.deadline_ns)
					      : 0);
		p += RIPC__CALL_EXT;
	}
	ripc__put_le64(p, r->id);
	ripc__put_le64(p + 8, ripc__oldest_request(r->peer));
	p += 16;
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];
		struct ripc__desc d = {.len = it->len, .how = it->how};

		switch (it->how) {
		case RIPC__HOW_INLINE:
			if (it->remote_return)
				d.addr = it->remote_return->desc.how;
			if (it->len)
				payload[n++] = (struct iovec){it->base, it->len};
			break;
		case RIPC__HOW_WRITTEN:
			d.addr = it->remote_return->desc.how;
			break;
		case RIPC__HOW_READ:
			d.addr = it->bounce ? it->bounce->mr.addr : it->mr.addr;
			d.key = it->bounce ? it->bounce->mr.key : it->mr.key;
			break;
		case RIPC__HOW_MAPPED:
			d.addr = it->raddr;
			d.key = it->rkey;
			break;
		default:
			break;
		}
		p = ripc__desc_put(p, &d);
	}
	if (nreturns) {
		p = ripc__local_returns_encode(r->lane, r->returns, &nreturns, p);
		ripc__put_le16(count, (uint16_t)nreturns);
	}
	rc = ripc__lane_send(r->lane, buf, (size_t)(p - buf), payload, n, false);
	if (!rc) {
		size_t len = (size_t)(p - buf) - (delayed_ack ? RIPC__ACK_WORD : 0);

		for (unsigned i = 0; i < n; i++)
			len += payload[i].iov_len;
		message_sent(r, len);
	}
	return rc;
}

/*
 * Sends the message as one write with immediate data if that is possible. Return: 0: sent; -EAGAIN;
 * 1: not possible, nothing was posted.
 */
static int send_immediate(struct ripc_request *r)
{
	struct ripc__request_item *it = &r->items[0];
	struct ripc__transfer x;
	uint32_t word;
	int rc;

	if (!(r->lane->caps & RIPC__CAP_WRITE_IMM) || !ripc__lane_can_send(r->lane) ||
	    !ripc__immediate_of(r, &word))
		return 1;
	item_fill(it);
	x = item_write(r, it, it->len);
	rc = ripc__lane_post_write(r->lane, &x, word);
	if (rc == -EAGAIN || rc == -ENOTCONN || rc == -ENODEV)
		return -EAGAIN;
	if (rc)
		return 1;
	it->posted = it->len;
	r->writes++;
	message_sent(r, RIPC__IMM_LONG_LEN);
	return 0;
}

/*
 * The LONG is about to be sent: the references to its mapped items begin. Return: whether there is
 * memory; if not, the caller ends them.
 */
static bool refs_begin(struct ripc_request *r)
{
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		if (it->how == RIPC__HOW_MAPPED &&
		    !ripc__export_ref_begin(&it->ref, &r->refs, r->lane, it->region, r->id, i,
					    it->len))
			return false;
	}
	return true;
}

/*
 * The peer keeps the keys of bounce buffers from earlier messages, and a queued request may be
 * cancelled. So the data is copied right before the LONG is posted, and cleared if the post fails.
 */
static int fill_and_send(struct ripc_request *r)
{
	bool filled = ripc__lane_can_send(r->lane);
	int rc;

	for (unsigned i = 0; filled && i < r->nitems && ripc__request_has(r, RIPC__HOW_READ); i++)
		if (r->items[i].how == RIPC__HOW_READ)
			item_fill(&r->items[i]);
	rc = !filled || refs_begin(r) ? send_message(r) : -EAGAIN;
	if (!rc)
		return 0;
	ripc__request_refs_end(r);
	for (unsigned i = 0; filled && i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		if (it->how != RIPC__HOW_READ || !it->bounce)
			continue;
		memset(it->bounce->region->base, 0, it->len);
		it->filled = false;
	}
	return rc;
}

/* Continues WRITING over the lane that was selected. Return: 0: sent or done; -EAGAIN. */
static int write_and_send(struct ripc_request *r)
{
	int rc;

	if (r->cancelling)
		return -EAGAIN;
	rc = send_immediate(r);
	if (rc > 0) {
		rc = ripc__request_has(r, RIPC__HOW_WRITTEN) ? write_items(r, RIPC__HOW_WRITTEN)
							     : 0;
		if (rc && rc != -EAGAIN)
			return write_failed(r, rc);
		if (!rc)
			rc = fill_and_send(r);
		if (rc == -EFAULT)
			return read_failed(r);
	}
	if (rc) {
		/* No message follows the writes, which the transport may have delayed. */
		ripc__progress_request(r->ctx);
		return -EAGAIN;
	}
	ripc__request_set_state(r, RIPC__REQUEST_SENT);
	r->delivery =
		ripc__request_maybe_delivered(r) ? RIPC__DELIVERY_EARLIER : RIPC__DELIVERY_POSSIBLE;
	ripc__list_del(&r->link);
	if (!(r->ext.flags & RIPC__F_REPLY)) {
		r->unacked = true;
		r->dest->long_unacked++;
		r->dest->long_peer = r->peer;
	}
	if (r->refs.count)
		ripc__request_refs_timer(r);
	return 0;
}

/*
 * Whether the request must wait for earlier requests to the same service, which another holder has.
 * That holder may refuse them; they are then sent to this peer, before this request.
 */
static bool waits_for_earlier(struct ripc_request *r, const struct ripc__peer *peer)
{
	struct ripc__dest *d = r->dest;

	if (!d->long_unacked || d->long_peer == peer || r->ext.flags & RIPC__F_REPLY)
		return false;
	d->long_held = true;
	return true;
}

/* Continues WRITING after it had to wait. Return: as write_and_send(). */
static int retry(struct ripc_request *r)
{
	int rc;

	/* Earlier requests come first: one was refused meanwhile, or another holder has it. */
	if (ripc__list_first(&r->dest->pending) != &r->link || waits_for_earlier(r, r->lane->peer))
		return -EAGAIN;
	rc = r->cancelling ? 0 : ripc__request_reselect(r);
	if (!rc)
		return write_and_send(r);
	return rc == -EAGAIN ? rc : write_failed(r, rc);
}

int ripc__request_issue(struct ripc_request *r)
{
	struct ripc__dest *d = r->dest;
	int rc;

	if (r->state == RIPC__REQUEST_WRITING)
		return retry(r);
	if (r->ext.only && r->ext.only != d->peer) {
		ripc__request_done(r, -EHOSTUNREACH, "the service has moved");
		return 0;
	}
	if (r->peer && r->peer != d->peer) {
		if (ripc__request_maybe_delivered(r)) {
			ripc__request_done(r, -EPIPE,
					   "the service moved while the message was under way");
			return 0;
		}
		ripc__request_unlink(r);
	}
	if (waits_for_earlier(r, d->peer))
		return -EAGAIN;
	rc = ripc__request_select(r, d->peer->lane);
	if (rc || r->state == RIPC__REQUEST_DONE)
		return rc;
	return write_and_send(r);
}

/*
 * The lane's queue has room: GRANTED posts more writes, WRITING continues if its destination has
 * moved. Return: true: the requests behind it at that destination can be flushed.
 */
static bool request_continue(struct ripc_request *r)
{
	int rc;

	if (r->state == RIPC__REQUEST_WRITING && r->dest->peer != r->lane->peer) {
		/*
		 * The destination has moved: flushing its new lane does not reach this request,
		 * which blocks those behind it.
		 */
		return !retry(r);
	}
	if (r->state != RIPC__REQUEST_GRANTED || r->cancelling)
		return false;
	rc = write_items(r, RIPC__HOW_GRANT);
	if (rc && rc != -EAGAIN)
		write_failed(r, rc);
	if (rc)
		return false;
	ripc__request_set_state(r, RIPC__REQUEST_SENT);
	ripc__lane_notify(r->lane, RIPC__FIN, 0, 0, r->id, 0);
	/* FIN may wait for credit, and the transport may have delayed the writes. */
	ripc__progress_request(r->ctx);
	return false;
}

/* ---- end of a request ---- */

/* Ends a request that is not sent over the present lane, if there is one. */
static void withdrawn_unsent(struct ripc_request *r)
{
	if (ripc__request_maybe_delivered(r))
		ripc__request_done(r, -EPIPE,
				   "the lane was lost before the ACK, and there is no other: "
				   "delivery is unknown");
	else
		ripc__request_done(r, -ECANCELED, "withdrawn before it was sent");
}

void ripc__request_write_done(const struct ripc__event *ev)
{
	struct ripc_request *r = (struct ripc_request *)(uintptr_t)ev->wr_id;

	r->writes--;
	if (ev->status) {
		/*
		 * The transport reports the reason when it closes the endpoint, which follows a
		 * failed write.
		 */
		ripc__lane_fail(r->lane, ev->status, "a write into the peer's memory failed");
		return;
	}
	if (r->writes)
		return;
	if (r->acked)
		ripc__request_conclude_if_idle(r);
	else if (r->cancelling && r->state == RIPC__REQUEST_WRITING)
		withdrawn_unsent(r);
}

int ripc__request_grant(struct ripc__lane *lane, const struct ripc__header *h, const char **why)
{
	struct ripc_request *r = ripc__request_find(lane->peer, h->u[0]);
	struct ripc__desc d;

	/* Cancelled or ended: the ACK for CANCEL is on its way. */
	if (!r || r->lane != lane || r->cancelling)
		return 0;
	*why = "GRANT for a message that needs none";
	if (r->state != RIPC__REQUEST_SENT || r->acked || h->nitems != r->nitems)
		return -EPROTO;
	for (unsigned i = 0; i < r->nitems; i++) {
		struct ripc__request_item *it = &r->items[i];

		ripc__desc_get(&d, h->items, i);
		if (it->how != RIPC__HOW_GRANT)
			continue;
		if (d.how != RIPC__HOW_GRANT || d.len != it->len || it->posted)
			return -EPROTO;
		it->raddr = d.addr;
		it->rkey = d.key;
	}
	r->next = 0;
	ripc__request_set_state(r, RIPC__REQUEST_GRANTED);
	request_continue(r);
	return 0;
}

bool ripc__requests_continue(struct ripc__lane *lane)
{
	struct ripc_request *r, *tmp;
	bool flush_others = false;

	ripc__list_for_each_entry_safe (r, tmp, &lane->peer->lists->requests, peer_link) {
		if (r->lane == lane &&
		    (r->state == RIPC__REQUEST_WRITING || r->state == RIPC__REQUEST_GRANTED))
			flush_others |= request_continue(r);
		if (lane->state != RIPC__LANE_UP)
			break;
	}
	return flush_others;
}

void ripc__request_abort(struct ripc_request *r)
{
	if (r->state == RIPC__REQUEST_DONE || r->cancelling)
		return;
	/* The message is delivered; its receiver has not released it yet. */
	if (r->acked && r->refs.count && !r->writes && ripc__request_unexport(r)) {
		ripc__request_conclude(r);
		return;
	}
	if (r->state == RIPC__REQUEST_PENDING ||
	    (r->state == RIPC__REQUEST_WRITING && !r->writes)) {
		withdrawn_unsent(r);
		return;
	}
	r->cancelling = true;
	if (r->state != RIPC__REQUEST_WRITING)
		ripc__lane_notify(r->lane, RIPC__CANCEL, 0, 0, r->id, 0);
	ripc__lane_monitor(r->lane);
}

void ripc__request_withdraw(struct ripc_request *r)
{
	if (r->state != RIPC__REQUEST_SENT || r->acked || r->writes)
		return;
	for (unsigned i = 0; i < r->nitems; i++)
		if (r->items[i].how != RIPC__HOW_INLINE && r->items[i].how != RIPC__HOW_MAPPED)
			return;
	if (ripc__request_unexport(r))
		ripc__request_done(r, -EPIPE, "withdrawn before its ACK: delivery is unknown");
}
