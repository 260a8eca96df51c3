/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The window engine: what goes into the peer's segment. */
#include "transport/ring/fast_path.h"

#define UNSAID_MAX   64u          /* messages posted between two looks whether the peer sleeps */
#define DIRECT_CHUNK (256u << 10) /* bytes of one direct read between two looks at what arrives */

void ripc__win_init(struct ripc__win *w, const struct ripc__win_backend *be,
		    const struct ripc__win_shape *shape, uint8_t epoch)
{
	uint8_t hello[24];

	memset(w, 0, sizeof(*w));
	w->be = *be;
	w->plain = be->map && !be->ops->fence;
	w->shape = *shape;
	w->epoch = epoch;
	w->mask = (1u << shape->slot_bits) - 1;
	w->bulk_mask = ((uint64_t)1 << shape->bulk_bits) - 1;
	w->send_word = win_word(UINT32_MAX, 0, WIN_SEND, epoch);
	w->more_word = win_word(UINT32_MAX, 0, WIN_MORE, epoch);
	w->bulk_at = RIPC__WIN_SLOTS_AT + ((uint64_t)RIPC__WIN_SLOT << shape->slot_bits);
	ripc__win_regions_init(&w->regions);
	ripc__put_le32(hello, shape->slot_bits);
	ripc__put_le32(hello + 4, shape->bulk_bits);
	ripc__put_le64(hello + 8, epoch);
	/* What an earlier epoch left there does not count any more. */
	ripc__put_le64(hello + 16, 0);
	win_copy(w, RIPC__WIN_HELLO_AT + 8, hello, 16);
	win_copy(w, RIPC__WIN_CREDIT_AT, hello + 16, 8);
	win_copy(w, RIPC__WIN_CREDIT_AT + 8, hello + 16, 8);
	win_copy(w, RIPC__WIN_ARM_AT, hello + 16, 8);
	win_fence(w);
	win_store(w, RIPC__WIN_HELLO_AT, RIPC__WIN_MAGIC + ((uint64_t)epoch << 56));
	win_fence(w);
	ripc__win_notify(w, false);
}

void ripc__win_fini(struct ripc__win *w)
{
	for (uint32_t i = 0; i < w->regions.cap && i < RIPC__WIN_VALID_MAX; i++)
		if (w->regions.slots[i])
			win_store(w, RIPC__WIN_VALID_AT + 8ull * i, 0);
	/* A direct reader that has seen anything of what the memory holds from now on sees this, too. */
	win_fence(w);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ripc__win_regions_fini(&w->regions);
}

/* ---- room ---- */

bool ripc__win_room(struct ripc__win *w, uint32_t slots, uint32_t bulk)
{
	uint64_t taken;

	if (w->tx - w->tx_taken + slots <= w->mask + 1u &&
	    w->tx_bulk - w->tx_bulk_taken + bulk <= w->bulk_mask + 1)
		return true;
	taken = win_load(w, RIPC__WIN_CREDIT_AT);
	/* Neither back nor beyond what was sent. */
	if (taken - w->tx_taken > w->tx - w->tx_taken)
		goto bad;
	if (taken != w->tx_taken)
		w->armed = false;
	w->tx_taken = taken;
	taken = win_load(w, RIPC__WIN_CREDIT_AT + 8);
	if (taken - w->tx_bulk_taken > w->tx_bulk - w->tx_bulk_taken)
		goto bad;
	w->tx_bulk_taken = taken;
	return w->tx - w->tx_taken + slots <= w->mask + 1u &&
	       w->tx_bulk - w->tx_bulk_taken + bulk <= w->bulk_mask + 1;
bad:
	win_fail(w, -EPROTO, "the peer took more than was sent");
	return false;
}

static int refuse(struct ripc__win *w)
{
	if (w->status)
		return -ENOTCONN;
	w->want_sendable = true;
	/* The peer must take what fills its rings. */
	ripc__win_flush(w);
	return -EAGAIN;
}

/* ---- writing ---- */

void ripc__win_notify(struct ripc__win *w, bool credit)
{
	uint64_t arm;

	/* Credit goes with what has not been said yet. */
	credit = credit && !w->unsaid;
	w->unsaid = 0;
	/* The peer says that it will sleep, then looks; we write, then look whether it said so. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	arm = win_load(w, RIPC__WIN_ARM_AT);
	if (arm == w->kicked || (credit && !(arm & 1)))
		return;
	w->kicked = arm;
	w->be.ops->kick(w->be.arg);
}

/* The message of one kind with its body. There is room. The peer is not told. */
static inline void post(struct ripc__win *w, enum win_kind kind, const uint8_t *body, uint32_t len)
{
	uint64_t first = w->tx, at = win_slot_at(w, first), index = first, to = at;
	uint32_t left = len;

	/* Whole slots have a length that the compiler knows. */
	for (; left > RIPC__WIN_BODY; left -= RIPC__WIN_BODY, body += RIPC__WIN_BODY) {
		win_copy(w, to + 8, body, RIPC__WIN_BODY);
		to = win_slot_at(w, ++index);
		win_store(w, to, win_word(index, 0, WIN_MORE, w->epoch));
	}
	if (left)
		win_copy(w, to + 8, body, left);
	w->tx = index + 1;
	win_fence(w);
	win_store(w, at, win_word(first, len, kind, w->epoch));
	/* Out of the write-combining buffers, where there are any. */
	if (w->be.ops->fence)
		w->be.ops->fence(w->be.arg);
}

static void post_body(struct ripc__win *w, enum win_kind kind, const uint8_t *body, uint32_t len)
{
	post(w, kind, body, len);
	ripc__win_notify(w, false);
}

int ripc__win_say(struct ripc__win *w, bool more)
{
	if (more && ++w->unsaid < UNSAID_MAX)
		return w->unsaid == 1 ? 2 : 0;
	ripc__win_notify(w, false);
	return 0;
}

void ripc__win_flush(struct ripc__win *w)
{
	if (w->unsaid && !w->status)
		ripc__win_notify(w, false);
}

/* Copies len bytes into the bulk ring, from memory. */
static void bulk(struct ripc__win *w, const uint8_t *src, uint64_t len)
{
	uint64_t off = w->tx_bulk & w->bulk_mask, n = w->bulk_mask + 1 - off;

	if (n > len)
		n = len;
	win_copy(w, w->bulk_at + off, src, n);
	if (len > n)
		win_copy(w, w->bulk_at, src + n, len - n);
	w->tx_bulk += len;
}

/* Most parts are a header or a small payload: for those a call costs as much as the copy. Return: behind it. */
static inline uint8_t *put(uint8_t *to, const uint8_t *from, size_t n)
{
	if (n >= 16 && n <= 64) {
		/* From both ends, which meet in the middle. */
		if (n > 32) {
			memcpy(to + 16, from + 16, 16);
			memcpy(to + n - 32, from + n - 32, 16);
		}
		memcpy(to, from, 16);
		memcpy(to + n - 16, from + n - 16, 16);
	} else if (n) {
		/* A part may be empty, and then be nowhere. */
		memcpy(to, from, n);
	}
	return to + n;
}

/*
 * A send of body, behind which there are RIPC__WIN_BODY bytes more that may be told to anybody, by plain stores: whole slots have a
 * length that the compiler knows.
 */
static inline void post_send(struct ripc__win *w, const uint8_t *body, uint32_t len)
{
	uint8_t *ring = w->be.map + RIPC__WIN_SLOTS_AT,
		*first = ring + (w->tx & w->mask) * RIPC__WIN_SLOT;
	uint64_t index = w->tx, word = win_word(index, len, WIN_SEND, w->epoch);
	const uint8_t *from = body;

	for (index++; len > RIPC__WIN_BODY; index++) {
		uint8_t *to = ring + (index & w->mask) * RIPC__WIN_SLOT;

		len -= RIPC__WIN_BODY;
		from += RIPC__WIN_BODY;
		__atomic_store_n((uint64_t *)(void *)to,
				 htole64(win_word(index, 0, WIN_MORE, w->epoch)), __ATOMIC_RELAXED);
		memcpy(to + 8, from, RIPC__WIN_BODY);
	}
	win_first_last();
	memcpy(first + 8, body, RIPC__WIN_BODY);
	w->tx = index;
	__atomic_store_n((uint64_t *)(void *)first, htole64(word), __ATOMIC_RELEASE);
}

static inline bool room_for(const struct ripc__win *w, uint32_t slots)
{
	return w->tx - w->tx_taken + slots <= w->mask + 1u;
}

static int send_slots(struct ripc__win *w, const struct iovec *iov, unsigned niov, uint32_t len)
{
	uint8_t body[RIPC__WIN_INLINE_MAX + RIPC__WIN_BODY], *to = body;
	uint32_t slots = win_slots(len);

	if (!room_for(w, slots) && !ripc__win_room(w, slots, 0))
		return refuse(w);
	for (unsigned i = 0; i < niov; i++)
		to = put(to, iov[i].iov_base, iov[i].iov_len);
	if (w->plain) {
		memset(to, 0, RIPC__WIN_BODY);
		post_send(w, body, len);
	} else {
		post(w, WIN_SEND, body, len);
	}
	return 0;
}

static int send_bulk(struct ripc__win *w, const struct iovec *iov, unsigned niov, uint32_t len)
{
	uint8_t body[4];

	if (!ripc__win_room(w, 1, len))
		return refuse(w);
	for (unsigned i = 0; i < niov; i++)
		if (iov[i].iov_len)
			bulk(w, iov[i].iov_base, iov[i].iov_len);
	ripc__put_le32(body, len);
	post(w, WIN_BULK, body, 4);
	return 0;
}

int ripc__win_send(struct ripc__win *w, const struct iovec *iov, unsigned niov, size_t len, bool more)
{
	int rc;

	if (w->status)
		return -ENOTCONN;
	if (len > RIPC__WIN_SEND_MAX)
		return -EMSGSIZE;
	/* A send arrives behind the writes that were posted before it. */
	if (w->nwrites > w->nwritten)
		return refuse(w);
	rc = len <= RIPC__WIN_INLINE_MAX ? send_slots(w, iov, niov, (uint32_t)len)
					 : send_bulk(w, iov, niov, (uint32_t)len);
	return rc ? rc : ripc__win_say(w, more);
}

/* There is room. */
static inline void plain_slots(struct ripc__win *w, const uint8_t *head, const uint8_t *payload,
			       uint32_t len)
{
	uint8_t *ring = w->be.map + RIPC__WIN_SLOTS_AT,
		*first = ring + (w->tx & w->mask) * RIPC__WIN_SLOT, *to;
	uint64_t index = w->tx, word = win_word(index, RIPC__HEAD_LEN + len, WIN_SEND, w->epoch);

	if (len > WIN_FIRST) {
		const uint8_t *from = payload + WIN_FIRST;
		uint32_t left = len - WIN_FIRST;

		for (;;) {
			to = ring + (++index & w->mask) * RIPC__WIN_SLOT;
			__atomic_store_n((uint64_t *)(void *)to,
					 htole64(win_word(index, 0, WIN_MORE, w->epoch)),
					 __ATOMIC_RELAXED);
			if (left <= RIPC__WIN_BODY)
				break;
			memcpy(to + 8, from, RIPC__WIN_BODY);
			from += RIPC__WIN_BODY;
			left -= RIPC__WIN_BODY;
		}
		win_put_tail(to + 8, from, left);
		win_first_last();
		len = WIN_FIRST;
	}
	memcpy(first + 8, head, RIPC__HEAD_LEN);
	win_put_tail(first + 8 + RIPC__HEAD_LEN, payload, len);
	w->tx = index + 1;
	__atomic_store_n((uint64_t *)(void *)first, htole64(word), __ATOMIC_RELEASE);
}

/* There is room. */
static void plain_bulk(struct ripc__win *w, const uint8_t *head, const uint8_t *payload, uint32_t len)
{
	uint8_t *slot = w->be.map + RIPC__WIN_SLOTS_AT + (w->tx & w->mask) * RIPC__WIN_SLOT;

	bulk(w, head, RIPC__HEAD_LEN);
	bulk(w, payload, len);
	ripc__put_le32(slot + 8, RIPC__HEAD_LEN + len);
	__atomic_store_n((uint64_t *)(void *)slot, htole64(win_word(w->tx, 4, WIN_BULK, w->epoch)),
			 __ATOMIC_RELEASE);
	w->tx++;
}

/* Whether so much can be posted by plain stores; w->tx_plain says so the next time. */
static inline bool plain_room(struct ripc__win *w, uint32_t slots, uint32_t bulk)
{
	if (!w->plain || w->status || w->nwrites > w->nwritten || !ripc__win_room(w, slots, bulk))
		return false;
	w->tx_plain = w->tx_taken + w->mask + 1;
	return true;
}

int ripc__win_send_any(struct ripc__win *w, const uint8_t *head, const uint8_t *payload, size_t len,
		       bool more)
{
	uint32_t bytes = RIPC__HEAD_LEN + (uint32_t)len;

	if (len > RIPC__WIN_SEND_MAX - RIPC__HEAD_LEN)
		return -EMSGSIZE;
	if (bytes <= RIPC__WIN_INLINE_MAX) {
		if (!plain_room(w, win_slots(bytes), 0))
			return -EAGAIN;
		plain_slots(w, head, payload, (uint32_t)len);
	} else {
		if (!plain_room(w, 1, bytes))
			return -EAGAIN;
		plain_bulk(w, head, payload, (uint32_t)len);
	}
	return ripc__win_say(w, more);
}

void ripc__win_bye(struct ripc__win *w)
{
	if (!w->status && ripc__win_room(w, 1, 0))
		post_body(w, WIN_BYE, NULL, 0);
}

/* ---- memory ---- */

/* Whether the peer is told that it may read a region directly. */
static bool direct(const struct ripc__win *w, const struct ripc__win_region *r)
{
	return (r->key & 0xffff) < RIPC__WIN_VALID_MAX &&
	       (r->access & (RIPC__ACCESS_REMOTE_READ | RIPC__WIN_SERVED)) ==
		       RIPC__ACCESS_REMOTE_READ &&
	       w->be.caps & RIPC__WIN_READ;
}

struct ripc__win_region *ripc__win_expose(struct ripc__win *w, void *base, size_t len, unsigned access)
{
	/* Where the peer cannot read it anyway it is not told where our memory lies. */
	uint64_t addr = w->be.caps & RIPC__WIN_READ ? (uintptr_t)base : 4096;
	struct ripc__win_region *r = ripc__win_region_add(&w->regions, base, len, addr, access);

	if (r && direct(w, r)) {
		win_store(w, RIPC__WIN_VALID_AT + 8ull * (r->key & 0xffff), r->key);
		win_fence(w);
	}
	return r;
}

void ripc__win_conceal(struct ripc__win *w, struct ripc__win_region *region)
{
	if (region->table && direct(w, region)) {
		win_store(w, RIPC__WIN_VALID_AT + 8ull * (region->key & 0xffff), 0);
		win_fence(w);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	ripc__win_region_remove(region);
}

/* Whether the peer's region of this key may be read directly, as far as we know now. */
static bool valid(const struct ripc__win *w, uint32_t key)
{
	return w->be.caps & RIPC__WIN_READ && (key & 0xffff) < RIPC__WIN_VALID_MAX &&
	       win_load(w, RIPC__WIN_VALID_AT + 8ull * (key & 0xffff)) == key;
}

int ripc__win_read(struct ripc__win *w, void *to, uint64_t len, uint64_t addr, uint32_t key,
		   uint64_t wr_id)
{
	struct ripc__win_read *r = w->reads;
	uint8_t body[22];

	if (w->status)
		return -ENOTCONN;
	if (w->nreads == RIPC__WIN_READS_MAX)
		return refuse(w);
	while (r->used)
		r++;
	*r = (struct ripc__win_read){
		.to = to, .addr = addr, .len = len, .key = key, .wr_id = wr_id, .used = true};
	if (!len) {
		r->finished = true;
		w->nfinished++;
	} else if (valid(w, key)) {
		r->direct = true;
		w->ndirect++;
	} else {
		if (!ripc__win_room(w, 1, 0)) {
			r->used = false;
			return refuse(w);
		}
		ripc__put_le64(body, addr);
		ripc__put_le64(body + 8, len);
		ripc__put_le32(body + 16, key);
		ripc__put_le16(body + 20, (uint16_t)(r - w->reads));
		post_body(w, WIN_READ, body, sizeof(body));
	}
	w->nreads++;
	return 0;
}

int ripc__win_write(struct ripc__win *w, const void *from, uint64_t len, uint64_t addr,
		    uint32_t key, uint64_t wr_id)
{
	if (w->status)
		return -ENOTCONN;
	if (w->nwrites == RIPC__WIN_WRITES_MAX)
		return refuse(w);
	/* A send that comes now waits for it. */
	w->tx_plain = 0;
	w->writes[(w->write_head + w->nwrites++) % RIPC__WIN_WRITES_MAX] = (struct ripc__win_write){
		.from = from, .addr = addr, .len = len, .key = key, .wr_id = wr_id};
	return 0;
}

/* ---- pumping ---- */

/* Bytes of the next chunk of len, or 0: no room beside what is kept for sends. */
static uint32_t chunk(struct ripc__win *w, uint64_t len)
{
	uint64_t n = (w->bulk_mask + 1) / 4;

	if (n > WIN_CHUNK)
		n = WIN_CHUNK;
	if (n > len)
		n = len;
	return ripc__win_room(w, WIN_RESERVE_SLOTS, (uint32_t)n + RIPC__WIN_SEND_MAX) ? (uint32_t)n
										      : 0;
}

static bool pump_serves(struct ripc__win *w)
{
	bool moved = false;

	while (w->nserves && !w->status) {
		struct ripc__win_serve *s = &w->serves[w->serve_head];
		uint32_t n = chunk(w, s->len - s->done);
		const uint8_t *from;
		uint8_t body[6];

		if (!n)
			break;
		/* Looked up anew each time: it may have been concealed in between. */
		from = ripc__win_region_find(&w->regions, s->key, s->addr, s->len,
					     RIPC__ACCESS_REMOTE_READ);
		ripc__put_le16(body + 4, s->tag);
		if (from) {
			bulk(w, from + s->done, n);
			ripc__put_le32(body, n);
			post_body(w, WIN_DATA, body, sizeof(body));
			s->done += n;
		} else {
			post_body(w, WIN_FAULT, body + 4, 2);
			s->done = s->len;
		}
		if (s->done == s->len) {
			w->serve_head = (w->serve_head + 1) % RIPC__WIN_READS_MAX;
			w->nserves--;
		}
		moved = true;
	}
	return moved;
}

static bool pump_writes(struct ripc__win *w)
{
	bool moved = false;

	while (w->nwritten < w->nwrites && !w->status) {
		struct ripc__win_write *x =
			&w->writes[(w->write_head + w->nwritten) % RIPC__WIN_WRITES_MAX];
		uint32_t n = x->done < x->len ? chunk(w, x->len - x->done) : 0;
		uint8_t body[16];

		if (!n && x->len)
			break;
		if (n) {
			bulk(w, x->from + x->done, n);
			ripc__put_le64(body, x->addr + x->done);
			ripc__put_le32(body + 8, n);
			ripc__put_le32(body + 12, x->key);
			post_body(w, WIN_WRITE, body, sizeof(body));
			x->done += n;
		}
		if (x->done == x->len)
			w->nwritten++;
		moved = true;
	}
	return moved;
}

/* One piece of one direct read. */
static bool pump_direct(struct ripc__win *w)
{
	struct ripc__win_read *r;
	uint64_t n;

	if (!w->ndirect || w->status)
		return false;
	while (!w->reads[w->next_direct].used || !w->reads[w->next_direct].direct ||
	       w->reads[w->next_direct].finished)
		w->next_direct = (w->next_direct + 1) % RIPC__WIN_READS_MAX;
	r = &w->reads[w->next_direct];
	n = r->len - r->done < DIRECT_CHUNK ? r->len - r->done : DIRECT_CHUNK;
	r->status = w->be.ops->read(w->be.arg, r->to + r->done, r->addr + r->done, n);
	/* Had it been concealed before anything of this was changed, we would see that now. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!r->status && !valid(w, r->key))
		r->status = -EACCES;
	r->done += n;
	if (r->status || r->done == r->len) {
		r->finished = true;
		w->nfinished++;
		w->ndirect--;
		w->next_direct = (w->next_direct + 1) % RIPC__WIN_READS_MAX;
	}
	return true;
}

bool ripc__win_pump(struct ripc__win *w)
{
	bool moved = pump_direct(w);

	ripc__win_flush(w);
	moved |= pump_writes(w);
	moved |= pump_serves(w);
	return moved || w->nfinished || w->nwritten;
}
