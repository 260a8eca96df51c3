/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ring engine, inside: slot words, and writes into the peer's segment. */
#ifndef RIPC_RING_INTERNAL_H
#define RIPC_RING_INTERNAL_H

#include "base/copy.h"
#include "transport/ring/ring.h"
#include "wire/bytes.h"

#include <errno.h>

/* Kinds of slot words: numbers of the wire, which the version in the hello covers. */
enum ring_msg_kind {
	RING_MSG_MORE = 1,       /* a further slot of a message */
	RING_MSG_SEND = 2,       /* body: the message */
	RING_MSG_BULK = 3,       /* u32 len in the bulk ring, behind the bytes that follow here */
	RING_MSG_READ = 4,       /* u64 addr, u64 len, u32 key, u16 tag */
	RING_MSG_DATA = 5,       /* u32 len in the bulk ring, u16 tag: the next bytes of a read */
	RING_MSG_READ_ERROR = 6, /* u16 tag: the read is not allowed */
	RING_MSG_WRITE = 7,      /* u64 addr, u32 len in the bulk ring, u32 key */
	RING_MSG_BYE = 8,
};

/* bytes that one DATA or WRITE carries at most, and at most a quarter of the bulk ring */
#define RING_CHUNK_MAX     32768u
#define RING_RESERVE_SLOTS 32u /* slots that stay free for sends while data is moved */

static inline uint64_t ring_slot_word(uint64_t index, uint32_t len, enum ring_msg_kind kind,
				      uint8_t epoch)
{
	return (uint32_t)(index + 1) | (uint64_t)len << 32 | (uint64_t)kind << 48 |
	       (uint64_t)epoch << 56;
}

/* A word of our own segment. */
static inline uint64_t ring_load(const struct ripc__ring *ring, uint64_t at)
{
	return le64toh(__atomic_load_n((const uint64_t *)(const void *)(ring->be.inbox + at),
				       __ATOMIC_ACQUIRE));
}

static inline void ring_copy(struct ripc__ring *ring, uint64_t at, const void *src, size_t len)
{
	if (ring->be.map)
		memcpy(ring->be.map + at, src, len);
	else
		ring->be.ops->copy(ring->be.arg, at, src, len);
}

static inline void ring_fence(struct ripc__ring *ring)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (ring->be.ops->fence)
		ring->be.ops->fence(ring->be.arg);
}

/* Stores one aligned word, whole. */
static inline void ring_store(struct ripc__ring *ring, uint64_t at, uint64_t v)
{
	v = htole64(v);
	if (ring->be.map)
		__atomic_store_n((uint64_t *)(void *)(ring->be.map + at), v, __ATOMIC_RELEASE);
	else
		ring->be.ops->copy(ring->be.arg, at, &v, sizeof(v));
}

static inline uint64_t ring_slot_off(const struct ripc__ring *ring, uint64_t index)
{
	return RIPC__RING_SLOTS_OFF + (index & ring->mask) * RIPC__RING_SLOT_LEN;
}

/* At least the slots of the longest message that is sent in slots; a power of two. */
#define RING_INLINE_SLOTS 4u
/* bytes of a message in the bulk ring that may stand in its slot */
#define RING_BULK_HEAD_MAX (RIPC__RING_SLOT_BODY - 4)

/* Bytes of the bulk ring that a message of len bytes takes. */
static inline uint64_t ring_bulk_len(uint64_t len)
{
	return (len + 63) & ~UINT64_C(63);
}

static inline uint32_t ring_slot_count(uint32_t len)
{
	return len ? (len + RIPC__RING_SLOT_BODY - 1) / RIPC__RING_SLOT_BODY : 1;
}

/* Allocates ring->transfers if there are none. Return: false: out of memory. */
bool ripc__ring_may_transfer(struct ripc__ring *ring);

/* Copies len bytes into the bulk ring, at bytes behind the end of the last message. */
void ripc__ring_copy_to_bulk(struct ripc__ring *ring, uint64_t at, const uint8_t *src,
			     uint64_t len);

/* Kicks the peer if it has requested that. @credit: only credit was written. */
void ripc__ring_kick_if_armed(struct ripc__ring *ring, bool credit);

/* Whether there is room for so much; reads the peer's credit again if necessary. */
bool ripc__ring_has_room(struct ripc__ring *ring, uint32_t slots, uint32_t bulk);

/* Advertises to the peer how much was taken. */
void ripc__ring_return_credit(struct ripc__ring *ring);

#endif
