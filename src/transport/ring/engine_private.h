/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the two halves of the window engine share: slot words, and writing into the peer's segment. */
#ifndef RIPC_WINDOW_ENGINE_PRIV_H
#define RIPC_WINDOW_ENGINE_PRIV_H

#include "transport/ring/engine.h"
#include "wire/bytes.h"

#include <errno.h>

/* Kinds of slot words. Numbers of the wire: a hello of another version changes them. */
enum win_kind {
	WIN_MORE = 1,  /* a further slot of a message */
	WIN_SEND = 2,  /* body: the message */
	WIN_BULK = 3,  /* u32 len: the message is in the bulk ring */
	WIN_READ = 4,  /* u64 addr, u64 len, u32 key, u16 tag */
	WIN_DATA = 5,  /* u32 len in the bulk ring, u16 tag: the next bytes of a read */
	WIN_FAULT = 6, /* u16 tag: the read is not allowed */
	WIN_WRITE = 7, /* u64 addr, u32 len in the bulk ring, u32 key */
	WIN_BYE = 8,
};

#define WIN_CHUNK \
	32768u /* bytes of bulk that one DATA or WRITE carries at most, and never more than a quarter of the ring */
#define WIN_RESERVE_SLOTS 32u /* kept free for sends when data is pumped */

static inline uint64_t win_word(uint64_t index, uint32_t len, enum win_kind kind, uint8_t epoch)
{
	return (uint32_t)(index + 1) | (uint64_t)len << 32 | (uint64_t)kind << 48 |
	       (uint64_t)epoch << 56;
}

/* A word of our own segment. */
static inline uint64_t win_load(const struct ripc__win *w, uint64_t at)
{
	return le64toh(__atomic_load_n((const uint64_t *)(const void *)(w->be.inbox + at),
				       __ATOMIC_ACQUIRE));
}

static inline void win_copy(struct ripc__win *w, uint64_t at, const void *src, size_t len)
{
	if (w->be.map)
		memcpy(w->be.map + at, src, len);
	else
		w->be.ops->copy(w->be.arg, at, src, len);
}

static inline void win_fence(struct ripc__win *w)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (w->be.ops->fence)
		w->be.ops->fence(w->be.arg);
}

/* One aligned word, whole. */
static inline void win_store(struct ripc__win *w, uint64_t at, uint64_t v)
{
	v = htole64(v);
	if (w->be.map)
		__atomic_store_n((uint64_t *)(void *)(w->be.map + at), v, __ATOMIC_RELEASE);
	else
		w->be.ops->copy(w->be.arg, at, &v, sizeof(v));
}

static inline uint64_t win_slot_at(const struct ripc__win *w, uint64_t index)
{
	return RIPC__WIN_SLOTS_AT + (index & w->mask) * RIPC__WIN_SLOT;
}

static inline uint32_t win_slots(uint32_t len)
{
	return len <= RIPC__WIN_BODY ? 1 : (len + RIPC__WIN_BODY - 1) / RIPC__WIN_BODY;
}

static inline void win_fail(struct ripc__win *w, int status, const char *why)
{
	if (w->status)
		return;
	w->status = status;
	w->why = why;
	w->open = false;
	w->tx_plain = 0;
}

/* Something was written that the peer may be sleeping for. */
void ripc__win_notify(struct ripc__win *w, bool credit);

/* Whether so much can be sent; asks for the peer's credit anew if what is known is not enough. */
bool ripc__win_room(struct ripc__win *w, uint32_t slots, uint32_t bulk);

/* Tells the peer what was taken. */
void ripc__win_give(struct ripc__win *w);

#endif
