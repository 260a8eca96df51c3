/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ring engine: everything in our own segment, written by the peer. */
#include "base/copy.h"
#include "transport/ring/fast_path.h"

#define MSGS_PER_POLL 64 /* messages without an event in one poll */

/* ---- credit ---- */

/* Advertises to the peer how much was taken. */
static void return_credit(struct ripc__ring *ring)
{
	bool bytes = ring->rx_bulk - ring->rx_bulk_advertised > ring->bulk_mask / 4;

	/* All loads of the old bytes come before the store that lets the peer overwrite them. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (bytes) {
		ring_store(ring, RIPC__RING_CREDIT_OFF + 8, ring->rx_bulk);
		ring->rx_bulk_advertised = ring->rx_bulk;
	}
	ring_store(ring, RIPC__RING_CREDIT_OFF, ring->rx);
	ring->rx_advertised = ring->rx;
	ring->rx_fast_end = ring->rx + ring->mask / 4;
	if (ring->be.ops->fence)
		ring->be.ops->fence(ring->be.arg);
	ripc__ring_kick_if_armed(ring, true);
}

/* ---- receiving ---- */

/* Reads the next message of len bytes out of the bulk ring. */
static void copy_bulk(struct ripc__ring *ring, uint8_t *to, uint64_t len)
{
	uint64_t off = ring->rx_bulk & ring->bulk_mask, n = ring->bulk_mask + 1 - off;

	n = MIN(n, len);
	ripc__copy(to, ring->be.inbox + ring->bulk_off + off, n);
	if (len > n)
		ripc__copy(to + n, ring->be.inbox + ring->bulk_off, len - n);
	ring->rx_bulk += ring_bulk_len(len);
}

static void handle_read(struct ripc__ring *ring, const uint8_t *body)
{
	struct ripc__ring_peer_read *s;

	if (ring->npeer_reads == RIPC__RING_READS_MAX) {
		ripc__ring_fail(ring, -EPROTO, "more reads than may be outstanding");
		return;
	}
	if (!ripc__ring_may_transfer(ring)) {
		ripc__ring_fail(ring, -ENOMEM, "out of memory for a read of the peer");
		return;
	}
	s = &ring->transfers->peer_reads_queue[(ring->peer_read_head + ring->npeer_reads++) %
					       RIPC__RING_READS_MAX];
	*s = (struct ripc__ring_peer_read){
		.addr = ripc__get_le64(body),
		.len = ripc__get_le64(body + 8),
		.key = ripc__get_le32(body + 16),
		.tag = ripc__get_le16(body + 20),
	};
	ring->new_work = true;
	if (!s->len)
		ripc__ring_fail(ring, -EPROTO, "a read of nothing");
}

static struct ripc__ring_read *find_read(struct ripc__ring *ring, uint16_t tag)
{
	struct ripc__ring_read *r =
		ring->transfers && tag < RIPC__RING_READS_MAX ? &ring->transfers->reads[tag] : NULL;

	if (r && r->used && !r->direct && !r->finished)
		return r;
	ripc__ring_fail(ring, -EPROTO, "an answer to a read that is not outstanding");
	return NULL;
}

static void complete_read(struct ripc__ring *ring, struct ripc__ring_read *r, int status)
{
	r->status = status;
	r->finished = true;
	ring->nfinished++;
}

static void handle_data(struct ripc__ring *ring, const uint8_t *body)
{
	struct ripc__ring_read *r = find_read(ring, ripc__get_le16(body + 4));
	uint32_t len = ripc__get_le32(body);

	if (!r)
		return;
	if (!len || len > r->len - r->done || len > ring->bulk_mask + 1) {
		ripc__ring_fail(ring, -EPROTO, "more data than was asked for");
		return;
	}
	copy_bulk(ring, r->to + r->done, len);
	r->done += len;
	if (r->done == r->len)
		complete_read(ring, r, 0);
}

static void handle_write(struct ripc__ring *ring, const uint8_t *body)
{
	uint64_t addr = ripc__get_le64(body);
	uint32_t len = ripc__get_le32(body + 8), key = ripc__get_le32(body + 12);
	uint8_t *to;

	to = ripc__ring_region_find(&ring->regions, key, addr, len, RIPC__ACCESS_REMOTE_WRITE);
	if (!to || !len || len > ring->bulk_mask + 1) {
		ripc__ring_fail(ring, -EACCES, "a write to where the peer may not write");
		return;
	}
	copy_bulk(ring, to, len);
}

/* Reads the next message out of its slots, into room for len bytes in whole slots. */
static void take(struct ripc__ring *ring, uint8_t *to, uint32_t len)
{
	ring->rx = ring_take(ring->be.inbox + RIPC__RING_SLOTS_OFF, ring->mask, ring->rx, to, len);
}

/* Reads the body of a message with a fixed length of at most one slot. */
static inline bool check_fixed_len(struct ripc__ring *ring, uint32_t len, uint32_t want,
				   uint8_t body[RIPC__RING_SLOT_BODY])
{
	if (len != want) {
		ripc__ring_fail(ring, -EPROTO, "a message of a wrong length");
		return false;
	}
	take(ring, body, want);
	return true;
}

/* Whether a quarter of a ring is to be returned to the peer. */
static inline bool credit_due(const struct ripc__ring *ring)
{
	return ring->rx - ring->rx_advertised > ring->mask / 4 ||
	       ring->rx_bulk - ring->rx_bulk_advertised > ring->bulk_mask / 4;
}

static bool too_long(struct ripc__ring *ring)
{
	ripc__ring_fail(ring, -EPROTO, "a send longer than allowed");
	return false;
}

/* Return: whether the send is allowed, and now in buf. */
static bool handle_send(struct ripc__ring *ring, uint32_t len, uint8_t *buf, struct ripc__event *ev)
{
	if (len > RIPC__RING_INLINE_MAX)
		return too_long(ring);
	take(ring, buf, len);
	ev->kind = RIPC__EV_RECV;
	ev->data = buf;
	ev->len = len;
	return true;
}

/* The same for one in the bulk ring, with len bytes in its slot. */
static bool handle_bulk(struct ripc__ring *ring, uint32_t len, uint8_t *buf, struct ripc__event *ev)
{
	const uint8_t *slot = ring->be.inbox + ring_slot_off(ring, ring->rx);
	/* Read once: the peer may change it. */
	uint32_t bulk = le32toh(
		__atomic_load_n((const uint32_t *)(const void *)(slot + 8), __ATOMIC_RELAXED));
	uint32_t head = len - 4;

	if (len < 4 || head > RING_BULK_HEAD_MAX || bulk > RIPC__RING_SEND_MAX - head)
		return too_long(ring);
	/* The payload begins at a multiple of 64, as in the ring. */
	ev->kind = RIPC__EV_RECV;
	ev->data = buf + RIPC__RING_BULK_HEAD - head;
	ev->len = head + bulk;
	ring_copy_tail(buf + RIPC__RING_BULK_HEAD - head, slot + 12, head);
	ring->rx++;
	copy_bulk(ring, buf + RIPC__RING_BULK_HEAD, bulk);
	return true;
}

/* Handles one message. Return: whether it is a send, now in buf. */
static bool handle(struct ripc__ring *ring, uint64_t word, uint8_t *buf, struct ripc__event *ev)
{
	uint32_t len = (uint16_t)(word >> 32);
	uint8_t body[RIPC__RING_SLOT_BODY];
	struct ripc__ring_read *r;

	switch ((uint8_t)(word >> 48)) {
	case RING_MSG_SEND:
		return handle_send(ring, len, buf, ev);
	case RING_MSG_BULK:
		return handle_bulk(ring, len, buf, ev);
	case RING_MSG_READ:
		if (check_fixed_len(ring, len, 22, body))
			handle_read(ring, body);
		return false;
	case RING_MSG_DATA:
		if (check_fixed_len(ring, len, 6, body))
			handle_data(ring, body);
		return false;
	case RING_MSG_READ_ERROR:
		if (check_fixed_len(ring, len, 2, body) &&
		    (r = find_read(ring, ripc__get_le16(body))))
			complete_read(ring, r, -EACCES);
		return false;
	case RING_MSG_WRITE:
		if (check_fixed_len(ring, len, 16, body))
			handle_write(ring, body);
		return false;
	case RING_MSG_BYE:
		ripc__ring_fail(ring, -ECONNRESET, "the peer closed the connection");
		return false;
	default:
		ripc__ring_fail(ring, -EPROTO, "a message of unknown kind");
		return false;
	}
}

/* Whether the peer's hello has arrived: nothing is valid before. */
static bool check_hello(struct ripc__ring *ring)
{
	uint64_t magic = ring_load(ring, RIPC__RING_HELLO_OFF), layout;

	if (magic != RIPC__RING_MAGIC + ((uint64_t)ring->epoch << 56))
		return false;
	layout = ring_load(ring, RIPC__RING_HELLO_OFF + 8);
	if (layout != (ring->layout.slot_bits | (uint64_t)ring->layout.bulk_bits << 32) ||
	    ring_load(ring, RIPC__RING_HELLO_OFF + 16) != ring->epoch) {
		ripc__ring_fail(ring, -EPROTO, "the peer's rings have other sizes");
		return false;
	}
	ring->hello_seen = true;
	ring->rx_fast_end = ring->rx_advertised + ring->mask / 4;
	return true;
}

/* An event that needs no poll of the rings. */
static bool completion_event(struct ripc__ring *ring, struct ripc__event *ev)
{
	if (ring->nwrites_copied) {
		ev->kind = RIPC__EV_WRITE_DONE;
		ev->wr_id = ring->transfers->writes[ring->write_head].wr_id;
		ev->status = 0;
		ring->write_head = (ring->write_head + 1) % RIPC__RING_WRITES_MAX;
		ring->nwrites--;
		ring->nwrites_copied--;
		return true;
	}
	if (ring->nfinished) {
		struct ripc__ring_read *r = ring->transfers->reads;

		while (!r->used || !r->finished)
			r++;
		ev->kind = RIPC__EV_READ_DONE;
		ev->wr_id = r->wr_id;
		ev->status = r->status;
		r->used = false;
		ring->nfinished--;
		ring->nreads--;
		return true;
	}
	return false;
}

/* Reports once that a refused post would find room now. */
static bool sendable_event(struct ripc__ring *ring, struct ripc__event *ev)
{
	if (ring->nwrites > ring->nwrites_copied || ring->nreads == RIPC__RING_READS_MAX ||
	    !ripc__ring_has_room(ring, RING_RESERVE_SLOTS, RIPC__RING_SEND_MAX))
		return false;
	ring->want_sendable = false;
	ev->kind = RIPC__EV_SENDABLE;
	return true;
}

bool ripc__ring_recv_bulk(struct ripc__ring *ring, uint8_t *buf, struct ripc__event *ev)
{
	uint64_t word = ring_load(ring, ring_slot_off(ring, ring->rx));

	if ((uint32_t)word != (uint32_t)(ring->rx + 1) || ring->rx >= ring->rx_fast_end ||
	    ring->work || word >> 48 != (RING_MSG_BULK | (uint64_t)ring->epoch << 8) ||
	    !handle_bulk(ring, (uint16_t)(word >> 32), buf, ev))
		return false;
	ring->armed = false;
	if (__builtin_expect(credit_due(ring), 0))
		return_credit(ring);
	return true;
}

bool ripc__ring_poll(struct ripc__ring *ring, uint8_t *buf, struct ripc__event *ev)
{
	if (ring->status)
		return false;
	for (unsigned i = 0; i < MSGS_PER_POLL; i++) {
		uint64_t word = ring_load(ring, ring_slot_off(ring, ring->rx));
		bool found;

		if ((uint32_t)word != (uint32_t)(ring->rx + 1) || word >> 56 != ring->epoch)
			break;
		if (!ring->hello_seen && !check_hello(ring))
			break;
		ring->armed = false;
		found = handle(ring, word, buf, ev);
		if (ring->status)
			return false;
		if (credit_due(ring))
			return_credit(ring);
		if (found)
			return true;
	}
	if (completion_event(ring, ev))
		return true;
	return ring->want_sendable && sendable_event(ring, ev);
}

/* ---- sleeping ---- */

/* Whether some work cannot go on without credit. */
static bool needs_credit(const struct ripc__ring *ring)
{
	return ring->want_sendable || ring->npeer_reads || ring->nwrites;
}

void ripc__ring_arm(struct ripc__ring *ring)
{
	bool credit = needs_credit(ring);

	/* A request is answered once: until then it stands. */
	if (ring->status || (ring->armed && (ring->arm & 1) == credit))
		return;
	ring->arm = (ring->arm | 1) + 1 + credit;
	ring->armed = true;
	ring_store(ring, RIPC__RING_ARM_OFF, ring->arm);
	if (ring->be.ops->fence)
		ring->be.ops->fence(ring->be.arg);
}

bool ripc__ring_idle(const struct ripc__ring *ring)
{
	if (ring->status || ripc__ring_ready(ring) || ring->new_work || ring->ndirect ||
	    ring->nfinished || ring->nwrites_copied)
		return false;
	/* Room may have arrived since the last check. */
	return !needs_credit(ring) ||
	       (ring->tx_consumed == ring_load(ring, RIPC__RING_CREDIT_OFF) &&
		ring->tx_bulk_consumed == ring_load(ring, RIPC__RING_CREDIT_OFF + 8));
}
