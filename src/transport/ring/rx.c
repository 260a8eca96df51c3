/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ring engine: everything in our own segment, written by the peer. */
#include "base/copy.h"
#include "transport/ring/fast_path.h"

#define MSGS_PER_POLL 64 /* messages without an event in one poll */

/* ---- credit ---- */

void ripc__ring_return_credit(struct ripc__ring *w)
{
	bool bytes = w->rx_bulk - w->rx_bulk_advertised > w->bulk_mask / 4;

	/* All loads of the old bytes come before the store that lets the peer overwrite them. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (bytes) {
		ring_store(w, RIPC__RING_CREDIT_OFF + 8, w->rx_bulk);
		w->rx_bulk_advertised = w->rx_bulk;
	}
	ring_store(w, RIPC__RING_CREDIT_OFF, w->rx);
	w->rx_advertised = w->rx;
	w->rx_fast_end = w->rx + w->mask / 4;
	if (w->be.ops->fence)
		w->be.ops->fence(w->be.arg);
	ripc__ring_kick_if_armed(w, true);
}

/* ---- receiving ---- */

/* Reads the next message of len bytes out of the bulk ring. */
static void copy_bulk(struct ripc__ring *w, uint8_t *to, uint64_t len)
{
	uint64_t off = w->rx_bulk & w->bulk_mask, n = w->bulk_mask + 1 - off;

	n = MIN(n, len);
	ripc__copy(to, w->be.inbox + w->bulk_off + off, n);
	if (len > n)
		ripc__copy(to + n, w->be.inbox + w->bulk_off, len - n);
	w->rx_bulk += ring_bulk_len(len);
}

static void handle_read(struct ripc__ring *w, const uint8_t *body)
{
	struct ripc__ring_peer_read *s;

	if (w->npeer_reads == RIPC__RING_READS_MAX) {
		ripc__ring_fail(w, -EPROTO, "more reads than may be outstanding");
		return;
	}
	if (!ripc__ring_may_transfer(w)) {
		ripc__ring_fail(w, -ENOMEM, "out of memory for a read of the peer");
		return;
	}
	s = &w->transfers->peer_reads_queue[(w->peer_read_head + w->npeer_reads++) %
					    RIPC__RING_READS_MAX];
	*s = (struct ripc__ring_peer_read){
		.addr = ripc__get_le64(body),
		.len = ripc__get_le64(body + 8),
		.key = ripc__get_le32(body + 16),
		.tag = ripc__get_le16(body + 20),
	};
	w->new_work = true;
	if (!s->len)
		ripc__ring_fail(w, -EPROTO, "a read of nothing");
}

static struct ripc__ring_read *find_read(struct ripc__ring *w, uint16_t tag)
{
	struct ripc__ring_read *r =
		w->transfers && tag < RIPC__RING_READS_MAX ? &w->transfers->reads[tag] : NULL;

	if (r && r->used && !r->direct && !r->finished)
		return r;
	ripc__ring_fail(w, -EPROTO, "an answer to a read that is not outstanding");
	return NULL;
}

static void complete_read(struct ripc__ring *w, struct ripc__ring_read *r, int status)
{
	r->status = status;
	r->finished = true;
	w->nfinished++;
}

static void handle_data(struct ripc__ring *w, const uint8_t *body)
{
	struct ripc__ring_read *r = find_read(w, ripc__get_le16(body + 4));
	uint32_t len = ripc__get_le32(body);

	if (!r)
		return;
	if (!len || len > r->len - r->done || len > w->bulk_mask + 1) {
		ripc__ring_fail(w, -EPROTO, "more data than was asked for");
		return;
	}
	copy_bulk(w, r->to + r->done, len);
	r->done += len;
	if (r->done == r->len)
		complete_read(w, r, 0);
}

static void handle_write(struct ripc__ring *w, const uint8_t *body)
{
	uint64_t addr = ripc__get_le64(body);
	uint32_t len = ripc__get_le32(body + 8), key = ripc__get_le32(body + 12);
	uint8_t *to;

	to = ripc__ring_region_find(&w->regions, key, addr, len, RIPC__ACCESS_REMOTE_WRITE);
	if (!to || !len || len > w->bulk_mask + 1) {
		ripc__ring_fail(w, -EACCES, "a write to where the peer may not write");
		return;
	}
	copy_bulk(w, to, len);
}

/* Reads the next message out of its slots, into room for len bytes in whole slots. */
static void take(struct ripc__ring *w, uint8_t *to, uint32_t len)
{
	w->rx = ring_take(w->be.inbox + RIPC__RING_SLOTS_OFF, w->mask, w->rx, to, len);
}

/* Reads the body of a message with a fixed length of at most one slot. */
static inline bool check_fixed_len(struct ripc__ring *w, uint32_t len, uint32_t want,
				   uint8_t body[RIPC__RING_SLOT_BODY])
{
	if (len != want) {
		ripc__ring_fail(w, -EPROTO, "a message of a wrong length");
		return false;
	}
	take(w, body, want);
	return true;
}

/* Whether a quarter of a ring is to be returned to the peer. */
static inline bool credit_due(const struct ripc__ring *w)
{
	return w->rx - w->rx_advertised > w->mask / 4 ||
	       w->rx_bulk - w->rx_bulk_advertised > w->bulk_mask / 4;
}

static bool too_long(struct ripc__ring *w)
{
	ripc__ring_fail(w, -EPROTO, "a send longer than allowed");
	return false;
}

/* Return: whether the send is allowed, and now in buf. */
static bool handle_send(struct ripc__ring *w, uint32_t len, uint8_t *buf, struct ripc__event *ev)
{
	if (len > RIPC__RING_INLINE_MAX)
		return too_long(w);
	take(w, buf, len);
	ev->kind = RIPC__EV_RECV;
	ev->data = buf;
	ev->len = len;
	return true;
}

/* The same for one in the bulk ring, with len bytes in its slot. */
static bool handle_bulk(struct ripc__ring *w, uint32_t len, uint8_t *buf, struct ripc__event *ev)
{
	const uint8_t *slot = w->be.inbox + ring_slot_off(w, w->rx);
	/* Read once: the peer may change it. */
	uint32_t bulk = le32toh(
		__atomic_load_n((const uint32_t *)(const void *)(slot + 8), __ATOMIC_RELAXED));
	uint32_t head = len - 4;

	if (len < 4 || head > RING_BULK_HEAD_MAX || bulk > RIPC__RING_SEND_MAX - head)
		return too_long(w);
	/* The payload begins at a multiple of 64, as in the ring. */
	ev->kind = RIPC__EV_RECV;
	ev->data = buf + RIPC__RING_BULK_HEAD - head;
	ev->len = head + bulk;
	ring_copy_tail(buf + RIPC__RING_BULK_HEAD - head, slot + 12, head);
	w->rx++;
	copy_bulk(w, buf + RIPC__RING_BULK_HEAD, bulk);
	return true;
}

/* Handles one message. Return: whether it is a send, now in buf. */
static bool handle(struct ripc__ring *w, uint64_t word, uint8_t *buf, struct ripc__event *ev)
{
	uint32_t len = (uint16_t)(word >> 32);
	uint8_t body[RIPC__RING_SLOT_BODY];
	struct ripc__ring_read *r;

	switch ((uint8_t)(word >> 48)) {
	case RING_MSG_SEND:
		return handle_send(w, len, buf, ev);
	case RING_MSG_BULK:
		return handle_bulk(w, len, buf, ev);
	case RING_MSG_READ:
		if (check_fixed_len(w, len, 22, body))
			handle_read(w, body);
		return false;
	case RING_MSG_DATA:
		if (check_fixed_len(w, len, 6, body))
			handle_data(w, body);
		return false;
	case RING_MSG_READ_ERROR:
		if (check_fixed_len(w, len, 2, body) && (r = find_read(w, ripc__get_le16(body))))
			complete_read(w, r, -EACCES);
		return false;
	case RING_MSG_WRITE:
		if (check_fixed_len(w, len, 16, body))
			handle_write(w, body);
		return false;
	case RING_MSG_BYE:
		ripc__ring_fail(w, -ECONNRESET, "the peer closed the connection");
		return false;
	default:
		ripc__ring_fail(w, -EPROTO, "a message of unknown kind");
		return false;
	}
}

/* Whether the peer's hello has arrived: nothing is valid before. */
static bool check_hello(struct ripc__ring *w)
{
	uint64_t magic = ring_load(w, RIPC__RING_HELLO_OFF), layout;

	if (magic != RIPC__RING_MAGIC + ((uint64_t)w->epoch << 56))
		return false;
	layout = ring_load(w, RIPC__RING_HELLO_OFF + 8);
	if (layout != (w->layout.slot_bits | (uint64_t)w->layout.bulk_bits << 32) ||
	    ring_load(w, RIPC__RING_HELLO_OFF + 16) != w->epoch) {
		ripc__ring_fail(w, -EPROTO, "the peer's rings have other sizes");
		return false;
	}
	w->hello_seen = true;
	w->rx_fast_end = w->rx_advertised + w->mask / 4;
	return true;
}

/* An event that needs no poll of the rings. */
static bool completion_event(struct ripc__ring *w, struct ripc__event *ev)
{
	if (w->nwrites_copied) {
		ev->kind = RIPC__EV_WRITE_DONE;
		ev->wr_id = w->transfers->writes[w->write_head].wr_id;
		ev->status = 0;
		w->write_head = (w->write_head + 1) % RIPC__RING_WRITES_MAX;
		w->nwrites--;
		w->nwrites_copied--;
		return true;
	}
	if (w->nfinished) {
		struct ripc__ring_read *r = w->transfers->reads;

		while (!r->used || !r->finished)
			r++;
		ev->kind = RIPC__EV_READ_DONE;
		ev->wr_id = r->wr_id;
		ev->status = r->status;
		r->used = false;
		w->nfinished--;
		w->nreads--;
		return true;
	}
	return false;
}

/* Reports once that a refused post would find room now. */
static bool sendable_event(struct ripc__ring *w, struct ripc__event *ev)
{
	if (w->nwrites > w->nwrites_copied || w->nreads == RIPC__RING_READS_MAX ||
	    !ripc__ring_has_room(w, RING_RESERVE_SLOTS, RIPC__RING_SEND_MAX))
		return false;
	w->want_sendable = false;
	ev->kind = RIPC__EV_SENDABLE;
	return true;
}

bool ripc__ring_recv_bulk(struct ripc__ring *w, uint8_t *buf, struct ripc__event *ev)
{
	uint64_t word = ring_load(w, ring_slot_off(w, w->rx));

	if ((uint32_t)word != (uint32_t)(w->rx + 1) || w->rx >= w->rx_fast_end || w->work ||
	    word >> 48 != (RING_MSG_BULK | (uint64_t)w->epoch << 8) ||
	    !handle_bulk(w, (uint16_t)(word >> 32), buf, ev))
		return false;
	w->armed = false;
	if (__builtin_expect(credit_due(w), 0))
		ripc__ring_return_credit(w);
	return true;
}

bool ripc__ring_poll(struct ripc__ring *w, uint8_t *buf, struct ripc__event *ev)
{
	if (w->status)
		return false;
	for (unsigned i = 0; i < MSGS_PER_POLL; i++) {
		uint64_t word = ring_load(w, ring_slot_off(w, w->rx));
		bool found;

		if ((uint32_t)word != (uint32_t)(w->rx + 1) || word >> 56 != w->epoch)
			break;
		if (!w->hello_seen && !check_hello(w))
			break;
		w->armed = false;
		found = handle(w, word, buf, ev);
		if (w->status)
			return false;
		if (credit_due(w))
			ripc__ring_return_credit(w);
		if (found)
			return true;
	}
	if (completion_event(w, ev))
		return true;
	return w->want_sendable && sendable_event(w, ev);
}

/* ---- sleeping ---- */

/* Whether some work cannot go on without credit. */
static bool needs_credit(const struct ripc__ring *w)
{
	return w->want_sendable || w->npeer_reads || w->nwrites;
}

void ripc__ring_arm(struct ripc__ring *w)
{
	bool credit = needs_credit(w);

	/* A request is answered once: until then it stands. */
	if (w->status || (w->armed && (w->arm & 1) == credit))
		return;
	w->arm = (w->arm | 1) + 1 + credit;
	w->armed = true;
	ring_store(w, RIPC__RING_ARM_OFF, w->arm);
	if (w->be.ops->fence)
		w->be.ops->fence(w->be.arg);
}

bool ripc__ring_idle(const struct ripc__ring *w)
{
	if (w->status || ripc__ring_ready(w) || w->new_work || w->ndirect || w->nfinished ||
	    w->nwrites_copied)
		return false;
	/* Room may have arrived since the last check. */
	return !needs_credit(w) || (w->tx_consumed == ring_load(w, RIPC__RING_CREDIT_OFF) &&
				    w->tx_bulk_consumed == ring_load(w, RIPC__RING_CREDIT_OFF + 8));
}
