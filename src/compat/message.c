/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sending and receiving as in 2012. */
#include "compat/lengths.h"
#include "compat/memory.h"
#include "compat/report.h"
#include "compat/services.h"
#include "ripc_compat.h"

/* The functions that the macros call. */
#undef ripc_compat_send_short
#undef ripc_compat_send_long
#undef ripc_compat_receive

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* time for which an id that is no service is tried as a multicast id */
#define REQUEST_TIMEOUT_MS 50
/* time to look for a service that sent messages to this process and cannot be reached now */
#define REPLY_TIMEOUT_MS 2000
/*
 * Short items begin at multiples of this, so that every type can be read from them, and at least
 * one byte of 0 separates them.
 */
#define ITEM_ALIGN 16

/* ---- sending ---- */

struct message_args {
	struct ripc_service *src;
	unsigned dest;
	struct iovec items[RIPC_ITEMS_MAX + 1];
	unsigned nitems;
	size_t bytes;
	struct ripc_send_options options;
	struct iovec returns[RIPC_RETURN_BUFFERS_MAX];
};

static int message_args_fill(struct message_args *l, void **buf, struct compat_lengths length,
			     unsigned n)
{
	if (!n || n > RIPC_ITEMS_MAX || !buf || !compat_lengths_given(&length))
		return -EINVAL;
	compat_lengths_reread(&length, n);
	/* The first item is the mark. */
	l->items[0] = (struct iovec){(void *)ripc__compat_mark, COMPAT_MARK_LEN};
	l->nitems = n;
	l->bytes = 0;
	for (unsigned i = 0; i < n; i++) {
		size_t bytes = compat_length(&length, i);

		if (bytes > UINT32_MAX)
			return -EMSGSIZE;
		l->items[i + 1] = (struct iovec){buf[i], bytes};
		l->bytes += bytes;
	}
	return 0;
}

/*
 * Sends a long message, or a short one that exceeds the short limit of the transport and is sent as
 * a long one.
 */
static int deliver_long(struct message_args *l, bool marked)
{
	struct ripc_request *r;
	int rc;

	if (marked && l->nitems == RIPC_ITEMS_MAX)
		return -EMSGSIZE;
	rc = ripc_send_async(l->src, l->dest, l->items + !marked, l->nitems + marked, &l->options,
			     &r);
	if (rc)
		return rc;
	do {
		rc = ripc_request_wait(&r, REPLY_TIMEOUT_MS);
	} while (r && (!ripc__compat_is_requester(l->dest) ||
		       !ripc_route_lookup(NULL, l->dest, NULL, REPLY_TIMEOUT_MS)));
	if (!r)
		return rc;
	rc = ripc_request_cancel(&r, REPLY_TIMEOUT_MS);
	return rc == -ECANCELED ? -EHOSTUNREACH : rc;
}

/* Sends to all processes that registered the multicast id. */
static int deliver_multicast(struct message_args *l, int timeout_ms)
{
	int rc = ripc_group_send(l->src, ripc__compat_group(l->dest), l->items + 1, l->nitems, NULL,
				 timeout_ms);

	if (!rc)
		ripc__compat_is_multicast(l->dest, true);
	return rc;
}

/*
 * A request waits for its service, because either program may start first. A reply does not wait,
 * because the requester may have ended. An id that is no service may be a multicast id; the sender
 * cannot know that beforehand.
 */
static int deliver_short(struct message_args *l)
{
	bool asker = ripc__compat_is_requester(l->dest);
	int rc;

	do {
		if (ripc__compat_is_multicast(l->dest, false))
			rc = deliver_multicast(l, REPLY_TIMEOUT_MS);
		else
			rc = ripc_send_short(l->src, l->dest, l->items + 1, l->nitems, &l->options,
					     REPLY_TIMEOUT_MS);
		if (rc == -EHOSTUNREACH && !asker && !deliver_multicast(l, REQUEST_TIMEOUT_MS))
			rc = 0;
	} while (rc == -ETIMEDOUT || (rc == -EHOSTUNREACH && !asker));
	return rc == -EMSGSIZE && !ripc__compat_is_multicast(l->dest, false) ? deliver_long(l, true)
									     : rc;
}

static int deliver(struct message_args *l, bool is_long)
{
	return is_long ? deliver_long(l, false) : deliver_short(l);
}

static uint8_t send_message(bool is_long, uint16_t src, uint16_t dest, void **buf,
			    struct compat_lengths length, unsigned num_items, void **return_bufs,
			    struct compat_lengths return_buf_lengths, unsigned num_return_bufs)
{
	enum compat_call call = is_long ? COMPAT_SEND_LONG : COMPAT_SEND_SHORT;
	struct message_args l;
	int rc;

	l.src = ripc__compat_sender(src);
	if (!l.src)
		return ripc__compat_failed(1, -errno, call, "service %u is not registered here",
					   src);
	l.dest = dest;
	rc = message_args_fill(&l, buf, length, num_items);
	if (!rc && !dest)
		rc = -EINVAL;
	if (!rc && !is_long && l.bytes > RECV_BUF_SIZE)
		return ripc__compat_failed(
			1, -EMSGSIZE, call,
			"%zu bytes from service %u to %u, at most %d fit a short "
			"message; it was not sent",
			l.bytes, src, dest, RECV_BUF_SIZE);
	if (rc)
		return ripc__compat_failed(1, rc, call,
					   "from service %u to %u, %u items: %s; it was not sent",
					   src, dest, num_items,
					   rc == -EMSGSIZE ? "one is longer than 4294967295 bytes"
							   : "a message has 1 to 64, and its "
							     "destination is not 0");
	l.options = (struct ripc_send_options){.size = sizeof(l.options)};
	if (return_bufs && compat_lengths_given(&return_buf_lengths))
		l.options.nreturn_buffers = ripc__compat_add_returns(
			return_bufs, &return_buf_lengths, num_return_bufs, l.returns);
	l.options.return_buffers = l.options.nreturn_buffers ? l.returns : NULL;
	rc = deliver(&l, is_long);
	if (rc == -EBUSY && l.options.nreturn_buffers) {
		/*
		 * Another send uses one of the return buffers: they are optional, so send the
		 * message without them.
		 */
		ripc__compat_undo_returns(l.returns, l.options.nreturn_buffers);
		l.options.nreturn_buffers = 0;
		l.options.return_buffers = NULL;
		rc = deliver(&l, is_long);
	}
	if (rc) {
		struct compat_cause cause = ripc__compat_cause(rc);

		ripc__compat_undo_returns(l.returns, l.options.nreturn_buffers);
		return ripc__compat_failed(1, rc, call, "from service %u to %u: %s", src, dest,
					   cause.text);
	}
	/* No receiver got the return buffers. */
	if (l.options.nreturn_buffers && !is_long && ripc__compat_is_multicast(dest, false))
		ripc__compat_undo_returns(l.returns, l.options.nreturn_buffers);
	ripc__compat_exchanged(dest, COMPAT_SENT);
	return 0;
}

uint8_t ripc_compat_send_short(uint16_t src, uint16_t dest, void **buf, ripc_2012_lengths length,
			       uint16_t num_items, void **return_bufs,
			       ripc_2012_lengths return_buf_lengths, uint16_t num_return_bufs)
{
	return send_message(false, src, dest, buf, compat_narrow(length.lengths), num_items,
			    return_bufs, compat_narrow(return_buf_lengths.lengths),
			    num_return_bufs);
}

uint8_t ripc_compat_send_short_size_t(uint16_t src, uint16_t dest, void **buf,
				      ripc_2012_lengths_size_t length, uint32_t num_items,
				      void **return_bufs,
				      ripc_2012_lengths_size_t return_buf_lengths,
				      uint32_t num_return_bufs)
{
	return send_message(false, src, dest, buf, compat_wide(length.lengths), num_items,
			    return_bufs, compat_wide(return_buf_lengths.lengths), num_return_bufs);
}

uint8_t ripc_compat_send_long(uint16_t src, uint16_t dest, void **buf, ripc_2012_lengths length,
			      uint16_t num_items, void **return_bufs,
			      ripc_2012_lengths return_buf_lengths, uint16_t num_return_bufs)
{
	return send_message(true, src, dest, buf, compat_narrow(length.lengths), num_items,
			    return_bufs, compat_narrow(return_buf_lengths.lengths),
			    num_return_bufs);
}

uint8_t ripc_compat_send_long_size_t(uint16_t src, uint16_t dest, void **buf,
				     ripc_2012_lengths_size_t length, uint32_t num_items,
				     void **return_bufs,
				     ripc_2012_lengths_size_t return_buf_lengths,
				     uint32_t num_return_bufs)
{
	return send_message(true, src, dest, buf, compat_wide(length.lengths), num_items,
			    return_bufs, compat_wide(return_buf_lengths.lengths), num_return_bufs);
}

/* ---- receiving ---- */

/* The items of one kind, short or long, that ripc_receive() returns. */
struct arrays {
	void **items;
	uint32_t *sizes;
	uint16_t n;
};

static int arrays_new(struct arrays *a, unsigned n)
{
	a->items = calloc(n, sizeof(*a->items));
	a->sizes = compat_sizes_new(n);
	if (!a->items || !a->sizes)
		return -ENOMEM;
	a->n = (uint16_t)n;
	return 0;
}

/*
 * Copies the items into a buffer of their own. A byte of 0 follows every item, the program may
 * write it, and it does not pin the message.
 */
static int take_short(struct arrays *a, const struct iovec *items, unsigned n)
{
	size_t need = 0;
	uint8_t *to;
	int rc = arrays_new(a, n);

	if (rc)
		return rc;
	for (unsigned i = 0; i < n; i++)
		need += (items[i].iov_len / ITEM_ALIGN + 1) * ITEM_ALIGN;
	need = MAX(need, RECV_BUF_SIZE);
	to = ripc__compat_alloc(need);
	if (!to)
		return -ENOMEM;
	memset(to, 0, need);
	for (unsigned i = 0; i < n; i++) {
		if (items[i].iov_len)
			memcpy(to, items[i].iov_base, items[i].iov_len);
		a->items[i] = to;
		a->sizes[i] = (uint32_t)items[i].iov_len;
		to += (items[i].iov_len / ITEM_ALIGN + 1) * ITEM_ALIGN;
	}
	return 0;
}

/* Whether an item is in a window or return buffer of the program. */
static bool is_claimed(const struct ripc_message *m, unsigned i)
{
	return m->placement[i] == RIPC_IN_WINDOW || m->placement[i] == RIPC_IN_RETURN_BUFFER;
}

static int take_one(struct ripc_message *m, unsigned i, void **item)
{
	const struct iovec *v = &m->items[i];

	if (is_claimed(m, i)) {
		ripc__compat_claim_consume(v->iov_base, false);
		*item = v->iov_base;
		return 0;
	}
	if (m->placement[i] == RIPC_IN_POOL && v->iov_len) {
		void *p = ripc_message_detach(m, i);

		if (p && ripc__compat_adopt(p, v->iov_len)) {
			ripc_buf_free(NULL, p);
			p = NULL;
		}
		*item = p;
		return p ? 0 : -ENOMEM;
	}
	/* An empty item, or one inline in the message: programs free every long item separately. */
	*item = ripc__compat_alloc(v->iov_len);
	if (!*item)
		return -ENOMEM;
	if (v->iov_len)
		memcpy(*item, v->iov_base, v->iov_len);
	else
		memset(*item, 0, 1);
	return 0;
}

static int take_long(struct arrays *a, struct ripc_message *m)
{
	int rc = arrays_new(a, m->nitems), failed = 0;

	/*
	 * Continue after a failure: windows and return buffers become the program's again in any
	 * case.
	 */
	for (unsigned i = 0; !rc && i < m->nitems; i++) {
		int error = take_one(m, i, &a->items[i]);

		/* Only a program with the new interface can send such an item. */
		if (!error && m->items[i].iov_len > UINT32_MAX)
			error = -EMSGSIZE;
		failed = failed ? failed : error;
		a->sizes[i] = (uint32_t)m->items[i].iov_len;
	}
	if (!failed)
		return rc;
	for (unsigned i = 0; i < m->nitems; i++)
		if (!is_claimed(m, i))
			ripc_compat_buf_free(a->items[i]);
	return failed;
}

/*
 * Whether a long message carries a short one. Its items lie in the pool, or in windows that they
 * fit.
 */
static bool is_marked(const struct ripc_message *m)
{
	return m->is_long && m->nitems > 1 && m->items[0].iov_len == COMPAT_MARK_LEN &&
	       !memcmp(m->items[0].iov_base, ripc__compat_mark, COMPAT_MARK_LEN);
}

static int take_marked(struct arrays *a, const struct ripc_message *m)
{
	int rc = take_short(a, m->items + 1, m->nitems - 1);

	for (unsigned i = 0; i < m->nitems; i++)
		if (is_claimed(m, i))
			ripc__compat_claim_consume(m->items[i].iov_base, true);
	return rc;
}

static void return_arrays(struct arrays *a, void ***items, uint32_t **sizes, uint16_t *n)
{
	if (items)
		*items = a->items;
	else
		free(a->items);
	if (sizes)
		*sizes = a->sizes;
	else
		free(a->sizes);
	if (n)
		*n = a->n;
}

uint8_t ripc_compat_receive(uint16_t service_id, uint16_t *from_service_id, void ***short_items,
			    ripc_2012_sizes short_item_sizes, uint16_t *num_short_items,
			    void ***long_items, ripc_2012_sizes long_item_sizes,
			    uint16_t *num_long_items)
{
	struct ripc_service *s = ripc__compat_receiver(service_id);
	struct arrays shorts = {0}, longs = {0};
	struct ripc_message *m;
	int rc;

	if (!s)
		return ripc__compat_failed(255, -errno, COMPAT_RECEIVE,
					   "service %u is not registered here", service_id);
	ripc__compat_receiving(true);
	do {
		rc = ripc_receive(s, &m, -1);
	} while (rc == -ETIMEDOUT || rc == -EAGAIN);
	if (rc) {
		ripc__compat_receiving(false);
		return ripc__compat_failed(255, rc, COMPAT_RECEIVE, "service %u: %s", service_id,
					   ripc__compat_cause(rc).text);
	}
	if (m->source <= UINT16_MAX)
		ripc__compat_exchanged((unsigned)m->source, COMPAT_RECEIVED);
	if (from_service_id)
		*from_service_id = m->source <= UINT16_MAX ? (uint16_t)m->source : 0;
	if (is_marked(m))
		rc = take_marked(&shorts, m);
	else if (m->is_long)
		rc = take_long(&longs, m);
	else
		rc = take_short(&shorts, m->items, m->nitems);
	ripc__compat_receiving(false);
	ripc_message_free(m);
	if (rc) {
		return_arrays(&shorts, NULL, NULL, NULL);
		return_arrays(&longs, NULL, NULL, NULL);
		shorts = longs = (struct arrays){0};
	}
	return_arrays(&shorts, short_items, short_item_sizes.sizes, num_short_items);
	return_arrays(&longs, long_items, long_item_sizes.sizes, num_long_items);
	return rc ? ripc__compat_failed(1, rc, COMPAT_RECEIVE,
					"a message to service %u is lost: %s", service_id,
					ripc_strerror(rc))
		  : 0;
}
