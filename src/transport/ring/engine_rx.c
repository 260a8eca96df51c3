/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The window engine: what is found in our own segment. Every word of it was written by somebody else. */
#include "transport/ring/fast_path.h"

#define QUIET_MAX 64 /* messages without an event, after which a caller gets a look */

/* ---- credit ---- */

void ripc__win_give(struct ripc__win *w)
{
	bool bytes = w->rx_bulk - w->rx_bulk_told > w->bulk_mask / 4;

	/* What was there has been read before it may be written again. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (bytes) {
		win_store(w, RIPC__WIN_CREDIT_AT + 8, w->rx_bulk);
		w->rx_bulk_told = w->rx_bulk;
	}
	win_store(w, RIPC__WIN_CREDIT_AT, w->rx);
	w->rx_told = w->rx;
	if (w->be.ops->fence)
		w->be.ops->fence(w->be.arg);
	ripc__win_notify(w, true);
}

/* ---- taking ---- */

/* The body of the message whose first slot is w->rx, into room for len bytes rounded up to slots. */
static inline void take(struct ripc__win *w, uint8_t *to, uint32_t slots)
{
	const uint8_t *ring = w->be.inbox + RIPC__WIN_SLOTS_AT + 8;
	uint64_t end = w->rx + slots;

	for (uint64_t i = w->rx; i != end; i++, to += RIPC__WIN_BODY)
		memcpy(to, ring + (i & w->mask) * RIPC__WIN_SLOT, RIPC__WIN_BODY);
	w->rx = end;
}

/* The next len bytes of the bulk ring. */
static void take_bulk(struct ripc__win *w, uint8_t *to, uint64_t len)
{
	uint64_t off = w->rx_bulk & w->bulk_mask, n = w->bulk_mask + 1 - off;

	if (n > len)
		n = len;
	memcpy(to, w->be.inbox + w->bulk_at + off, n);
	if (len > n)
		memcpy(to + n, w->be.inbox + w->bulk_at, len - n);
	w->rx_bulk += len;
}

static void read_arrived(struct ripc__win *w, const uint8_t *body)
{
	struct ripc__win_serve *s;

	if (w->nserves == RIPC__WIN_READS_MAX) {
		win_fail(w, -EPROTO, "more reads than may be outstanding");
		return;
	}
	s = &w->serves[(w->serve_head + w->nserves++) % RIPC__WIN_READS_MAX];
	*s = (struct ripc__win_serve){
		.addr = ripc__get_le64(body),
		.len = ripc__get_le64(body + 8),
		.key = ripc__get_le32(body + 16),
		.tag = ripc__get_le16(body + 20),
	};
	if (!s->len)
		win_fail(w, -EPROTO, "a read of nothing");
}

static struct ripc__win_read *read_of(struct ripc__win *w, uint16_t tag)
{
	struct ripc__win_read *r = tag < RIPC__WIN_READS_MAX ? &w->reads[tag] : NULL;

	if (r && r->used && !r->direct && !r->finished)
		return r;
	win_fail(w, -EPROTO, "an answer to a read that is not outstanding");
	return NULL;
}

static void finish(struct ripc__win *w, struct ripc__win_read *r, int status)
{
	r->status = status;
	r->finished = true;
	w->nfinished++;
}

static void data_arrived(struct ripc__win *w, const uint8_t *body)
{
	struct ripc__win_read *r = read_of(w, ripc__get_le16(body + 4));
	uint32_t len = ripc__get_le32(body);

	if (!r)
		return;
	if (!len || len > r->len - r->done || len > w->bulk_mask + 1) {
		win_fail(w, -EPROTO, "more data than was asked for");
		return;
	}
	take_bulk(w, r->to + r->done, len);
	r->done += len;
	if (r->done == r->len)
		finish(w, r, 0);
}

static void write_arrived(struct ripc__win *w, const uint8_t *body)
{
	uint64_t addr = ripc__get_le64(body);
	uint32_t len = ripc__get_le32(body + 8), key = ripc__get_le32(body + 12);
	uint8_t *to = ripc__win_region_find(&w->regions, key, addr, len, RIPC__ACCESS_REMOTE_WRITE);

	if (!to || !len || len > w->bulk_mask + 1) {
		win_fail(w, -EACCES, "a write to where the peer may not write");
		return;
	}
	take_bulk(w, to, len);
}

/* A message of a fixed body in one slot. */
static bool fixed(struct ripc__win *w, uint32_t len, uint32_t want, uint8_t body[RIPC__WIN_BODY])
{
	if (len != want) {
		win_fail(w, -EPROTO, "a message of a wrong length");
		return false;
	}
	take(w, body, 1);
	return true;
}

/* A quarter of a ring: what was taken is given back to the peer. */
static inline bool worth_telling(const struct ripc__win *w)
{
	return w->rx - w->rx_told > w->mask / 4 || w->rx_bulk - w->rx_bulk_told > w->bulk_mask / 4;
}

/* Looks at one message. Return: whether it is a send, whose bytes stand in buf. */
static bool message(struct ripc__win *w, uint64_t word, uint8_t *buf, struct ripc__win_event *ev)
{
	uint32_t len = (uint16_t)(word >> 32), bytes;
	uint8_t body[RIPC__WIN_BODY];
	struct ripc__win_read *r;

	switch ((uint8_t)(word >> 48)) {
	case WIN_SEND:
		if (len > RIPC__WIN_INLINE_MAX) {
			win_fail(w, -EPROTO, "a send longer than allowed");
			return false;
		}
		take(w, buf, win_slots(len));
		*ev = (struct ripc__win_event){.kind = RIPC__WIN_RECV, .len = len};
		return true;
	case WIN_BULK:
		if (!fixed(w, len, 4, body))
			return false;
		bytes = ripc__get_le32(body);
		if (bytes > RIPC__WIN_SEND_MAX) {
			win_fail(w, -EPROTO, "a send longer than allowed");
			return false;
		}
		take_bulk(w, buf, bytes);
		*ev = (struct ripc__win_event){.kind = RIPC__WIN_RECV, .len = bytes};
		return true;
	case WIN_READ:
		if (fixed(w, len, 22, body))
			read_arrived(w, body);
		return false;
	case WIN_DATA:
		if (fixed(w, len, 6, body))
			data_arrived(w, body);
		return false;
	case WIN_FAULT:
		if (fixed(w, len, 2, body) && (r = read_of(w, ripc__get_le16(body))))
			finish(w, r, -EACCES);
		return false;
	case WIN_WRITE:
		if (fixed(w, len, 16, body))
			write_arrived(w, body);
		return false;
	case WIN_BYE:
		win_fail(w, -ECONNRESET, "the peer closed the connection");
		return false;
	default:
		win_fail(w, -EPROTO, "a message of unknown kind");
		return false;
	}
}

/* The peer's hello must be there before anything else is looked at. */
static bool hear(struct ripc__win *w)
{
	uint64_t magic = win_load(w, RIPC__WIN_HELLO_AT), shape;

	if (magic != RIPC__WIN_MAGIC + ((uint64_t)w->epoch << 56))
		return false;
	shape = win_load(w, RIPC__WIN_HELLO_AT + 8);
	if (shape != (w->shape.slot_bits | (uint64_t)w->shape.bulk_bits << 32) ||
	    win_load(w, RIPC__WIN_HELLO_AT + 16) != w->epoch) {
		win_fail(w, -EPROTO, "the peer's rings have another shape");
		return false;
	}
	w->heard = true;
	w->open = true;
	return true;
}

/* Something that needs no look at the rings. */
static bool own_event(struct ripc__win *w, struct ripc__win_event *ev)
{
	if (w->nwritten) {
		*ev = (struct ripc__win_event){.kind = RIPC__WIN_WRITE_DONE,
					       .wr_id = w->writes[w->write_head].wr_id};
		w->write_head = (w->write_head + 1) % RIPC__WIN_WRITES_MAX;
		w->nwrites--;
		w->nwritten--;
		return true;
	}
	if (w->nfinished) {
		struct ripc__win_read *r = w->reads;

		while (!r->used || !r->finished)
			r++;
		*ev = (struct ripc__win_event){
			.kind = RIPC__WIN_READ_DONE, .wr_id = r->wr_id, .status = r->status};
		r->used = false;
		w->nfinished--;
		w->nreads--;
		return true;
	}
	return false;
}

/* Whether a post that was refused would find room now: then it is said, once. */
static bool sendable(struct ripc__win *w, struct ripc__win_event *ev)
{
	if (w->nwrites > w->nwritten || w->nreads == RIPC__WIN_READS_MAX ||
	    !ripc__win_room(w, WIN_RESERVE_SLOTS, RIPC__WIN_SEND_MAX))
		return false;
	w->want_sendable = false;
	*ev = (struct ripc__win_event){.kind = RIPC__WIN_SENDABLE};
	return true;
}

bool ripc__win_next(struct ripc__win *w, uint8_t *buf, struct ripc__win_event *ev)
{
	if (w->status)
		return false;
	for (unsigned i = 0; i < QUIET_MAX; i++) {
		uint64_t word = win_load(w, win_slot_at(w, w->rx));
		bool found;

		if ((uint32_t)word != (uint32_t)(w->rx + 1) || word >> 56 != w->epoch)
			break;
		if (!w->heard && !hear(w))
			break;
		w->armed = false;
		found = message(w, word, buf, ev);
		if (w->status)
			return false;
		if (worth_telling(w))
			ripc__win_give(w);
		if (found)
			return true;
	}
	if (own_event(w, ev))
		return true;
	return w->want_sendable && sendable(w, ev);
}

bool ripc__win_take(struct ripc__win *w, uint8_t *buf, size_t cap, uint32_t *len)
{
	uint64_t at = win_slot_at(w, w->rx), word = win_load(w, at);
	uint32_t bytes = (uint16_t)(word >> 32), slots = win_slots(bytes);

	if ((uint32_t)word != (uint32_t)(w->rx + 1) || !w->open || ripc__win_busy(w))
		return false;
	if (!((word ^ w->send_word) >> 48)) {
		if (bytes > RIPC__WIN_INLINE_MAX || slots * RIPC__WIN_BODY > cap)
			return false;
		take(w, buf, slots);
	} else {
		if ((word ^ w->send_word) >> 48 != (WIN_SEND ^ WIN_BULK) || bytes != 4)
			return false;
		/* Read once: the peer may change it. */
		bytes = (uint32_t)win_load(w, at + 8);
		if (bytes > RIPC__WIN_SEND_MAX || bytes > cap)
			return false;
		take_bulk(w, buf, bytes);
		w->rx++;
	}
	w->armed = false;
	*len = bytes;
	if (worth_telling(w))
		ripc__win_give(w);
	/* What that found wrong, the next look reports. */
	return true;
}

/* ---- sleeping ---- */

/* Whether something of ours cannot go on without credit. */
static bool wants_credit(const struct ripc__win *w)
{
	return w->want_sendable || w->nserves || w->nwrites;
}

void ripc__win_arm(struct ripc__win *w)
{
	bool credit = wants_credit(w);

	/* One request is answered once: until then it stands. */
	if (w->armed && (w->arm & 1) == credit)
		return;
	w->arm = (w->arm | 1) + 1 + credit;
	w->armed = true;
	win_store(w, RIPC__WIN_ARM_AT, w->arm);
	if (w->be.ops->fence)
		w->be.ops->fence(w->be.arg);
}

bool ripc__win_quiet(const struct ripc__win *w)
{
	if (w->status || ripc__win_ready(w) || w->ndirect || w->nfinished || w->nwritten)
		return false;
	/* Room may have come since it was last looked for. */
	return !wants_credit(w) || (w->tx_taken == win_load(w, RIPC__WIN_CREDIT_AT) &&
				    w->tx_bulk_taken == win_load(w, RIPC__WIN_CREDIT_AT + 8));
}
