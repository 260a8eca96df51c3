/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ring engine: everything that goes into the peer's segment. */
#include "base/list.h"
#include "transport/ring/fast_path.h"

#include <stdlib.h>

#define UNNOTIFIED_MAX 64u          /* messages posted without a check for a sleeping peer */
#define DIRECT_CHUNK   (256u << 10) /* bytes that one pass reads directly */

void ripc__ring_init(struct ripc__ring *ring, const struct ripc__ring_backend *be,
		     const struct ripc__ring_layout *layout, uint8_t epoch)
{
	uint8_t hello[24];

	memset(ring, 0, sizeof(*ring));
	ring->be = *be;
	ring->direct_store = be->map && !be->ops->fence;
	ring->layout = *layout;
	ring->epoch = epoch;
	ring->mask = (1u << layout->slot_bits) - 1;
	ring->bulk_mask = (1u << layout->bulk_bits) - 1;
	ring->send_word = ring_slot_word(UINT32_MAX, 0, RING_MSG_SEND, epoch);
	ring->more_word = ring_slot_word(UINT32_MAX, 0, RING_MSG_MORE, epoch);
	ring->bulk_off = RIPC__RING_SLOTS_OFF + (RIPC__RING_SLOT_LEN << layout->slot_bits);
	ripc__put_le32(hello, layout->slot_bits);
	ripc__put_le32(hello + 4, layout->bulk_bits);
	ripc__put_le64(hello + 8, epoch);
	/* Counters of an earlier epoch are void. */
	ripc__put_le64(hello + 16, 0);
	ring_copy(ring, RIPC__RING_HELLO_OFF + 8, hello, 16);
	ring_copy(ring, RIPC__RING_CREDIT_OFF, hello + 16, 8);
	ring_copy(ring, RIPC__RING_CREDIT_OFF + 8, hello + 16, 8);
	ring_copy(ring, RIPC__RING_ARM_OFF, hello + 16, 8);
	ring_fence(ring);
	ring_store(ring, RIPC__RING_HELLO_OFF, RIPC__RING_MAGIC + ((uint64_t)epoch << 56));
	ring_fence(ring);
	ripc__ring_kick_if_armed(ring, false);
}

bool ripc__ring_may_transfer(struct ripc__ring *ring)
{
	if (!ring->transfers)
		ring->transfers = calloc(1, sizeof(*ring->transfers));
	return ring->transfers;
}

void ripc__ring_trim(struct ripc__ring *ring)
{
	if (ring->nreads || ring->npeer_reads || ring->nwrites)
		return;
	free(ring->transfers);
	ring->transfers = NULL;
}

/* Whether the peer may read a region directly. */
static bool direct(const struct ripc__ring *ring, const struct ripc__ring_region *r)
{
	return (r->key & 0xffff) < RIPC__RING_KEYS_MAX &&
	       (r->access & (RIPC__ACCESS_REMOTE_READ | RIPC__RING_ACCESS_SERVED)) ==
		       RIPC__ACCESS_REMOTE_READ &&
	       ring->be.ops->read;
}

void ripc__ring_fini(struct ripc__ring *ring)
{
	const struct ripc__ring_regions *r = &ring->regions;

	for (uint32_t i = 0; i < r->cap && i < RIPC__RING_KEYS_MAX; i++)
		if (r->slots[i].region && direct(ring, r->slots[i].region))
			ring_store(ring, RIPC__RING_KEYS_OFF + 8ull * i, 0);
	/* A direct reader that sees later contents of the memory sees this, too. */
	ring_fence(ring);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	ripc__ring_regions_fini(&ring->regions);
	free(ring->transfers);
	ring->transfers = NULL;
}

/* ---- room ---- */

bool ripc__ring_has_room(struct ripc__ring *ring, uint32_t slots, uint32_t bulk)
{
	uint64_t taken;

	if (ring->tx - ring->tx_consumed + slots <= ring->mask + 1u &&
	    ring->tx_bulk - ring->tx_bulk_consumed + bulk <= ring->bulk_mask + 1)
		return true;
	taken = ring_load(ring, RIPC__RING_CREDIT_OFF);
	/* The peer has taken no less than before, and no more than was sent. */
	if (taken - ring->tx_consumed > ring->tx - ring->tx_consumed)
		goto bad;
	if (taken != ring->tx_consumed)
		ring->armed = false;
	ring->tx_consumed = taken;
	taken = ring_load(ring, RIPC__RING_CREDIT_OFF + 8);
	if (taken - ring->tx_bulk_consumed > ring->tx_bulk - ring->tx_bulk_consumed)
		goto bad;
	ring->tx_bulk_consumed = taken;
	return ring->tx - ring->tx_consumed + slots <= ring->mask + 1u &&
	       ring->tx_bulk - ring->tx_bulk_consumed + bulk <= ring->bulk_mask + 1;
bad:
	ripc__ring_fail(ring, -EPROTO, "the peer's credit exceeds what was sent");
	return false;
}

static int queue_full(struct ripc__ring *ring)
{
	if (ring->status)
		return -ENOTCONN;
	ring->want_sendable = true;
	/* The peer must be awake to make room. */
	ripc__ring_flush(ring);
	return -EAGAIN;
}

/* ---- writing ---- */

void ripc__ring_kick_if_armed(struct ripc__ring *ring, bool credit)
{
	uint64_t arm;

	/* A kick for a message covers credit, too. */
	credit = credit && !ring->unnotified;
	ring->unnotified = 0;
	/* The peer requests a kick and then polls; we write and then check for its request. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	arm = ring_load(ring, RIPC__RING_ARM_OFF);
	if (arm == ring->last_kick_arm || (credit && !(arm & 1)))
		return;
	ring->last_kick_arm = arm;
	ring->be.ops->kick(ring->be.arg);
}

/*
 * Copies a message of @len bytes from the slots in @image to the peer's, by a back end without
 * plain stores. The first slot's word goes last.
 */
static void copy_out(struct ripc__ring *ring, uint64_t first, const uint8_t *image, uint32_t len)
{
	uint32_t slots = ring_slot_count(len);
	const uint8_t *slot = image;

	for (uint32_t i = slots; i--;) {
		uint32_t n = i + 1 < slots ? RIPC__RING_SLOT_BODY : len - i * RIPC__RING_SLOT_BODY;
		uint64_t at = ring_slot_off(ring, first + i);

		slot = image + ((first + i) % RING_INLINE_SLOTS) * RIPC__RING_SLOT_LEN;
		ring_copy(ring, i ? at : at + 8, i ? slot : slot + 8, i ? 8 + n : n);
	}
	ring_fence(ring);
	ring_store(ring, ring_slot_off(ring, first), ripc__get_le64(slot));
	/* The fence flushes write-combining buffers. */
	if (ring->be.ops->fence)
		ring->be.ops->fence(ring->be.arg);
}

/*
 * Posts a message of @len bytes, for which there is room, without notifying the peer. @body: at
 * least RIPC__RING_SLOT_BODY bytes, of which those of a header are always copied.
 */
static inline void __attribute__((always_inline))
post_message(struct ripc__ring *ring, enum ring_msg_kind kind, uint8_t *body, uint32_t len)
{
	uint8_t image[RING_INLINE_SLOTS * RIPC__RING_SLOT_LEN] __attribute__((aligned(64)));
	bool direct = ring->direct_store;
	uint64_t first = ring->tx;

	if (len < RIPC__POST_HEADER_LEN)
		memset(body + len, 0, RIPC__POST_HEADER_LEN - len);
	ring_put(ring, direct ? ring->be.map + RIPC__RING_SLOTS_OFF : image,
		 direct ? ring->mask : RING_INLINE_SLOTS - 1, body, RIPC__POST_HEADER_LEN,
		 body + RIPC__POST_HEADER_LEN,
		 len > RIPC__POST_HEADER_LEN ? len - RIPC__POST_HEADER_LEN : 0,
		 ring_slot_word(UINT32_MAX, len, kind, ring->epoch));
	if (!direct)
		copy_out(ring, first, image, len);
}

/* Posts a control message, and wakes the peer. */
static void post_control(struct ripc__ring *ring, enum ring_msg_kind kind,
			 uint8_t body[RIPC__RING_SLOT_BODY], uint32_t len)
{
	post_message(ring, kind, body, len);
	ripc__ring_kick_if_armed(ring, false);
}

int ripc__ring_notify(struct ripc__ring *ring, bool more)
{
	if (more && ++ring->unnotified < UNNOTIFIED_MAX)
		return ring->unnotified == 1 ? 2 : 0;
	ripc__ring_kick_if_armed(ring, false);
	return 0;
}

void ripc__ring_flush(struct ripc__ring *ring)
{
	if (ring->unnotified && !ring->status)
		ripc__ring_kick_if_armed(ring, false);
}

/* Copies all of a message into the bulk ring. */
static void put_bulk(struct ripc__ring *ring, const uint8_t *src, uint64_t len)
{
	ripc__ring_copy_to_bulk(ring, 0, src, len);
	ring->tx_bulk += ring_bulk_len(len);
}

static void send_slots(struct ripc__ring *ring, const struct iovec *iov, unsigned niov,
		       uint32_t len)
{
	uint8_t body[RIPC__RING_INLINE_MAX] = {0}, *to = body;

	for (unsigned i = 0; i < niov; to += iov[i++].iov_len)
		if (iov[i].iov_len <= RIPC__RING_SLOT_BODY)
			ring_copy_tail(to, iov[i].iov_base, iov[i].iov_len);
		else
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
	post_message(ring, RING_MSG_SEND, body, len);
}

static void send_bulk(struct ripc__ring *ring, const struct iovec *iov, unsigned niov)
{
	uint8_t body[RIPC__RING_SLOT_BODY];
	uint32_t head = 0, len = 0;

	/* The header stands in the slot: the payload begins at the same place as in the ring. */
	if (iov->iov_len && iov->iov_len <= RING_BULK_HEAD_MAX) {
		head = (uint32_t)iov->iov_len;
		memcpy(body + 4, iov->iov_base, head);
	}
	for (unsigned i = head > 0; i < niov; len += (uint32_t)iov[i++].iov_len)
		if (iov[i].iov_len)
			ripc__ring_copy_to_bulk(ring, len, iov[i].iov_base, iov[i].iov_len);
	ring->tx_bulk += ring_bulk_len(len);
	ripc__put_le32(body, len);
	post_message(ring, RING_MSG_BULK, body, 4 + head);
}

int ripc__ring_send(struct ripc__ring *ring, const struct iovec *items, unsigned nitems, size_t len,
		    bool more)
{
	bool slots = len <= RIPC__RING_INLINE_MAX;
	uint32_t bulk = slots ? 0 : (uint32_t)ring_bulk_len(len);

	if (ring->status)
		return -ENOTCONN;
	if (len > RIPC__RING_SEND_MAX)
		return -EMSGSIZE;
	/* A send arrives behind the writes that were posted before it. */
	if (ring->nwrites > ring->nwrites_copied)
		return queue_full(ring);
	if (ripc__ring_has_room(ring, RING_INLINE_SLOTS, bulk)) {
		if (ring->direct_store)
			ring->tx_fast_end = ring->tx_consumed + ring->mask + 1;
	} else if (!ripc__ring_has_room(ring, slots ? ring_slot_count((uint32_t)len) : 1, bulk)) {
		return queue_full(ring);
	}
	if (slots)
		send_slots(ring, items, nitems, (uint32_t)len);
	else
		send_bulk(ring, items, nitems);
	return ripc__ring_notify(ring, more);
}

void ripc__ring_send_bye(struct ripc__ring *ring)
{
	uint8_t body[RIPC__RING_SLOT_BODY];

	if (!ring->status && ripc__ring_has_room(ring, 1, 0))
		post_control(ring, RING_MSG_BYE, body, 0);
}

/* ---- memory ---- */

struct ripc__ring_region *ripc__ring_reg(struct ripc__ring *ring, void *memory, size_t len,
					 unsigned access)
{
	/* A peer that cannot read directly does not learn our addresses. */
	uint64_t addr = ring->be.ops->read ? (uintptr_t)memory : 4096;
	struct ripc__ring_region *r =
		ripc__ring_region_add(&ring->regions, memory, len, addr, access);

	if (r && direct(ring, r)) {
		ring_store(ring, RIPC__RING_KEYS_OFF + 8ull * (r->key & 0xffff), r->key);
		ring_fence(ring);
	}
	return r;
}

void ripc__ring_dereg(struct ripc__ring_region *region)
{
	struct ripc__ring *ring =
		region->table ? ripc__list_entry(region->table, struct ripc__ring, regions) : NULL;

	if (ring && direct(ring, region)) {
		ring_store(ring, RIPC__RING_KEYS_OFF + 8ull * (region->key & 0xffff), 0);
		ring_fence(ring);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	ripc__ring_region_remove(region);
}

/* Whether the peer's region of this key may be read directly at this moment. */
static bool key_valid(const struct ripc__ring *ring, uint32_t key)
{
	return ring->be.ops->read && (key & 0xffff) < RIPC__RING_KEYS_MAX &&
	       ring_load(ring, RIPC__RING_KEYS_OFF + 8ull * (key & 0xffff)) == key;
}

int ripc__ring_read(struct ripc__ring *ring, void *to, uint64_t len, uint64_t addr, uint32_t key,
		    uint64_t wr_id)
{
	uint8_t body[RIPC__RING_SLOT_BODY];
	struct ripc__ring_read *r;

	if (ring->status)
		return -ENOTCONN;
	if (ring->nreads == RIPC__RING_READS_MAX)
		return queue_full(ring);
	if (!ripc__ring_may_transfer(ring))
		return -ENOMEM;
	r = ring->transfers->reads;
	while (r->used)
		r++;
	*r = (struct ripc__ring_read){
		.to = to, .addr = addr, .len = len, .key = key, .wr_id = wr_id, .used = true};
	if (!len) {
		r->finished = true;
		ring->nfinished++;
	} else if (key_valid(ring, key)) {
		r->direct = true;
		ring->ndirect++;
	} else {
		if (!ripc__ring_has_room(ring, 1, 0)) {
			r->used = false;
			return queue_full(ring);
		}
		ripc__put_le64(body, addr);
		ripc__put_le64(body + 8, len);
		ripc__put_le32(body + 16, key);
		ripc__put_le16(body + 20, (uint16_t)(r - ring->transfers->reads));
		post_control(ring, RING_MSG_READ, body, 22);
	}
	ring->nreads++;
	return 0;
}

int ripc__ring_write(struct ripc__ring *ring, const void *from, uint64_t len, uint64_t addr,
		     uint32_t key, uint64_t wr_id)
{
	struct ripc__ring_write *x;

	if (ring->status)
		return -ENOTCONN;
	if (ring->nwrites == RIPC__RING_WRITES_MAX)
		return queue_full(ring);
	if (!ripc__ring_may_transfer(ring))
		return -ENOMEM;
	/* A later send must wait for it. */
	ring->tx_fast_end = 0;
	ring->new_work = true;
	x = &ring->transfers->writes[(ring->write_head + ring->nwrites++) % RIPC__RING_WRITES_MAX];
	*x = (struct ripc__ring_write){
		.from = from, .addr = addr, .len = len, .key = key, .wr_id = wr_id};
	return 0;
}

/* ---- progress ---- */

/* Bytes of the next chunk, at most len, or 0: no room beside the reserve for sends. */
static uint32_t chunk_len(struct ripc__ring *ring, uint64_t len)
{
	uint64_t n = (ring->bulk_mask + 1) / 4;

	n = MIN(n, RING_CHUNK_MAX);
	n = MIN(n, len);
	return ripc__ring_has_room(ring, RING_RESERVE_SLOTS, (uint32_t)n + RIPC__RING_SEND_MAX)
		       ? (uint32_t)n
		       : 0;
}

static bool progress_peer_reads(struct ripc__ring *ring)
{
	bool moved = false;

	while (ring->npeer_reads && !ring->status) {
		struct ripc__ring_peer_read *s =
			&ring->transfers->peer_reads_queue[ring->peer_read_head];
		uint32_t n = chunk_len(ring, s->len - s->done);
		const uint8_t *from;
		uint8_t body[RIPC__RING_SLOT_BODY];

		if (!n)
			break;
		/* The region may have been removed since the last chunk. */
		from = ripc__ring_region_find(&ring->regions, s->key, s->addr, s->len,
					      RIPC__ACCESS_REMOTE_READ);
		if (from) {
			put_bulk(ring, from + s->done, n);
			ripc__put_le32(body, n);
			ripc__put_le16(body + 4, s->tag);
			post_control(ring, RING_MSG_DATA, body, 6);
			s->done += n;
		} else {
			ripc__put_le16(body, s->tag);
			post_control(ring, RING_MSG_READ_ERROR, body, 2);
			s->done = s->len;
		}
		if (s->done == s->len) {
			ring->peer_read_head = (ring->peer_read_head + 1) % RIPC__RING_READS_MAX;
			ring->npeer_reads--;
		}
		moved = true;
	}
	return moved;
}

static bool progress_writes(struct ripc__ring *ring)
{
	bool moved = false;

	while (ring->nwrites_copied < ring->nwrites && !ring->status) {
		struct ripc__ring_write *x =
			&ring->transfers->writes[(ring->write_head + ring->nwrites_copied) %
						 RIPC__RING_WRITES_MAX];
		uint32_t n = x->done < x->len ? chunk_len(ring, x->len - x->done) : 0;
		uint8_t body[RIPC__RING_SLOT_BODY];

		if (!n && x->len)
			break;
		if (n) {
			put_bulk(ring, x->from + x->done, n);
			ripc__put_le64(body, x->addr + x->done);
			ripc__put_le32(body + 8, n);
			ripc__put_le32(body + 12, x->key);
			post_control(ring, RING_MSG_WRITE, body, 16);
			x->done += n;
		}
		if (x->done == x->len)
			ring->nwrites_copied++;
		moved = true;
	}
	return moved;
}

/* Moves one chunk of one direct read. */
static bool progress_direct_reads(struct ripc__ring *ring)
{
	struct ripc__ring_read *reads, *r;
	uint64_t n;

	if (!ring->ndirect || ring->status)
		return false;
	reads = ring->transfers->reads;
	while (!reads[ring->next_direct].used || !reads[ring->next_direct].direct ||
	       reads[ring->next_direct].finished)
		ring->next_direct = (ring->next_direct + 1) % RIPC__RING_READS_MAX;
	r = &reads[ring->next_direct];
	n = r->len - r->done < DIRECT_CHUNK ? r->len - r->done : DIRECT_CHUNK;
	/* Memory in this process may be gone with its region. */
	r->status = key_valid(ring, r->key) ? ring->be.ops->read(ring->be.arg, r->to + r->done,
								 r->addr + r->done, n)
					    : -EACCES;
	/* If the region was removed before its contents changed, its key is gone now. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!r->status && !key_valid(ring, r->key))
		r->status = -EACCES;
	r->done += n;
	if (r->status || r->done == r->len) {
		r->finished = true;
		ring->nfinished++;
		ring->ndirect--;
		ring->next_direct = (ring->next_direct + 1) % RIPC__RING_READS_MAX;
	}
	return true;
}

bool ripc__ring_progress(struct ripc__ring *ring)
{
	bool moved = progress_direct_reads(ring);

	ring->new_work = false;
	ripc__ring_flush(ring);
	moved |= progress_writes(ring);
	moved |= progress_peer_reads(ring);
	return moved || ring->nfinished || ring->nwrites_copied;
}
