/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The window engine: one end of a connection whose two sides write into each other's memory and read only their own.
 * Pure: it is given mapped memory (backend.h) and gives events; it makes no system call and reads no clock.
 *
 * A segment, written by the peer only, all little-endian:
 *
 *   0      hello   magic, version, size, epoch
 *   128    credit  u64 slots taken, u64 bulk bytes taken: what the peer took of what we sent
 *   256    arm     u64: changes when the peer is about to sleep and wants to be woken; bit 0: by credit, too
 *   4096   valid   u64 per region of the peer that we may read directly: its key while it is there, else 0
 *   8192   slots   64 bytes each: a word and 56 bytes of a message
 *   ...    bulk    a ring of bytes for what does not fit slots
 *
 * The word of a slot is written last, behind a fence: sequence (32 bits), length of the message's body (16), kind (8),
 * epoch (8). A message takes as many slots as its body needs; the words of the others are of kind "more", so that no
 * word is ever made of payload, and one of the lap before never looks like the present one. A message without body takes one
 * slot. What is longer goes into the bulk ring first. All counters are free-running; what has been taken is given
 * back by the credit words when it is worth a write.
 *
 * Short messages go and come by engine_plain.h.
 *
 * All that the peer writes is read once and checked; a connection whose peer breaks the rules fails, nothing more.
 */
#ifndef RIPC_WINDOW_ENGINE_H
#define RIPC_WINDOW_ENGINE_H

#include "transport/ring/backend.h"
#include "transport/ring/region.h"

#include <endian.h>
#include <stdbool.h>
#include <sys/uio.h>

#define RIPC__WIN_MAGIC     UINT64_C(0x31776e6977706972) /* "ripwinw1" */
#define RIPC__WIN_HELLO_AT  0
#define RIPC__WIN_CREDIT_AT 128
#define RIPC__WIN_ARM_AT    256
#define RIPC__WIN_VALID_AT  4096
#define RIPC__WIN_VALID_MAX 512u /* regions that can be read directly */
#define RIPC__WIN_SLOTS_AT  8192
#define RIPC__WIN_SLOT      64u
#define RIPC__WIN_BODY      56u /* bytes of a message in a slot */

#define RIPC__WIN_SEND_MAX   16384u /* bytes of a send at most */
#define RIPC__WIN_INLINE_MAX 448u   /* of these, sent in slots: 8; then the other ring is faster */
#define RIPC__WIN_BUF        (RIPC__WIN_SEND_MAX + 64) /* bytes a receive buffer must have */
#define RIPC__WIN_READS_MAX  16u /* reads outstanding in one direction at most */
#define RIPC__WIN_WRITES_MAX 16u /* writes not yet copied at most */

/* Sizes of the two rings; the same on both sides. */
struct ripc__win_shape {
	uint8_t slot_bits; /* 1 << slot_bits slots, >= 6 */
	uint8_t bulk_bits; /* 1 << bulk_bits bytes, >= 16 */
};

/* Bytes of a segment. */
static inline size_t ripc__win_size(const struct ripc__win_shape *shape)
{
	return RIPC__WIN_SLOTS_AT + ((size_t)RIPC__WIN_SLOT << shape->slot_bits) +
	       ((size_t)1 << shape->bulk_bits);
}

enum ripc__win_event_kind {
	RIPC__WIN_RECV,       /* len bytes of a send stand in the buffer */
	RIPC__WIN_READ_DONE,  /* wr_id, status */
	RIPC__WIN_WRITE_DONE, /* wr_id: the source memory is the caller's again */
	RIPC__WIN_SENDABLE,   /* a post had returned -EAGAIN; now there is room */
};

struct ripc__win_event {
	enum ripc__win_event_kind kind;
	int status;
	uint32_t len;
	uint64_t wr_id;
};

/* A read of ours. */
struct ripc__win_read {
	uint8_t *to;
	uint64_t addr, len, done, wr_id;
	uint32_t key;
	bool used, direct, finished;
	int status;
};

/* A read of the peer's that we serve. */
struct ripc__win_serve {
	uint64_t addr, len, done;
	uint32_t key;
	uint16_t tag;
};

/* A write of ours. */
struct ripc__win_write {
	const uint8_t *from;
	uint64_t addr, len, done, wr_id;
	uint32_t key;
};

struct ripc__win {
	struct ripc__win_backend be;
	struct ripc__win_shape shape;
	uint32_t mask;      /* slots - 1 */
	uint64_t bulk_mask; /* bulk bytes - 1 */
	uint64_t bulk_at;   /* offset of the bulk ring */
	uint8_t epoch;      /* never 0 */
	bool heard;         /* the peer's hello was seen */
	bool open;          /* so it was, and nothing has failed since */
	bool plain; /* plain stores reach the peer's segment, and a release fence orders them */
	int status; /* < 0: failed; why says how */
	const char *why;

	uint64_t tx, tx_taken; /* slots posted; of these, taken by the peer as far as we know */
	uint64_t tx_plain; /* up to here ripc__win_send_plain() may post, and needs to look at nothing else; 0: it must look */
	uint64_t tx_bulk, tx_bulk_taken; /* likewise bytes */
	uint64_t kicked;                 /* the last arm word that we answered with a kick */
	uint64_t send_word, more_word; /* of our slots, and of the peer's, but for number and length */

	uint64_t rx, rx_told;           /* slots taken; as told to the peer */
	uint64_t rx_bulk, rx_bulk_told; /* likewise bytes */
	uint64_t arm;                   /* our arm word as the peer has it */
	bool armed;                     /* it has not been answered yet */

	struct ripc__win_regions regions;
	struct ripc__win_read reads[RIPC__WIN_READS_MAX];
	unsigned nreads;
	unsigned next_direct; /* whose turn it is */
	struct ripc__win_serve serves[RIPC__WIN_READS_MAX];
	unsigned serve_head;
	struct ripc__win_write writes[RIPC__WIN_WRITES_MAX];
	unsigned write_head, nwritten; /* nwritten of the nwrites are copied and to be reported */
	union {
		struct {
			uint8_t nserves, nwrites;
			uint8_t ndirect, nfinished; /* of the nreads */
			uint8_t unsaid; /* messages posted since we last looked whether the peer sleeps */
			bool want_sendable; /* a post was refused */
		};
		uint64_t work; /* 0: none of these */
	};
};

/* @epoch: agreed on with the peer, never 0, another one each time the same memory is used. The segment of ours is zero or left by another epoch. */
void ripc__win_init(struct ripc__win *w, const struct ripc__win_backend *be,
		    const struct ripc__win_shape *shape, uint8_t epoch);
/* Ends it: what the peer may read directly it may no more. Regions stay their owners'. */
void ripc__win_fini(struct ripc__win *w);

/* Tells the peer that nothing more comes. */
void ripc__win_bye(struct ripc__win *w);

/*
 * Exposes memory to the peer. Direct reads go by address; with RIPC__WIN_SERVED there are none.
 * Return: it, or NULL: out of memory or keys.
 * End with ripc__win_conceal(), which also works after ripc__win_fini().
 */
struct ripc__win_region *ripc__win_expose(struct ripc__win *w, void *base, size_t len,
					  unsigned access);
void ripc__win_conceal(struct ripc__win *w, struct ripc__win_region *region);

/*
 * As in transport.h; 0, 2, -EAGAIN, -EMSGSIZE, -ENOTCONN. With more set a peer that is awake sees it at once, one that
 * sleeps is woken by the next send without, by one of the next few, or by ripc__win_flush().
 */
int ripc__win_send(struct ripc__win *w, const struct iovec *iov, unsigned niov, size_t len, bool more);
void ripc__win_flush(struct ripc__win *w);
int ripc__win_read(struct ripc__win *w, void *to, uint64_t len, uint64_t addr, uint32_t key,
		   uint64_t wr_id);
int ripc__win_write(struct ripc__win *w, const void *from, uint64_t len, uint64_t addr,
		    uint32_t key, uint64_t wr_id);

/*
 * Takes what the peer wrote. @buf: RIPC__WIN_BUF bytes for a send. Return: whether there is an event. After false
 * there may be a status; a failed engine reports nothing.
 */
bool ripc__win_next(struct ripc__win *w, uint8_t *buf, struct ripc__win_event *ev);

/* Whether the next slot was written: ripc__win_next() has something to look at. */
static inline bool ripc__win_ready(const struct ripc__win *w)
{
	uint64_t word =
		__atomic_load_n((const uint64_t *)(const void *)(w->be.inbox + RIPC__WIN_SLOTS_AT +
								 (w->rx & w->mask) * RIPC__WIN_SLOT),
				__ATOMIC_ACQUIRE);

	return (uint32_t)le64toh(word) == (uint32_t)(w->rx + 1) && le64toh(word) >> 56 == w->epoch;
}

/* Whether there is work besides what arrives: ripc__win_pump() should be called. */
static inline bool ripc__win_busy(const struct ripc__win *w)
{
	return w->work;
}

/* Moves some of what was posted or is to be served. Return: whether it moved anything, or has events. */
bool ripc__win_pump(struct ripc__win *w);

/* Before sleeping: asks the peer for a kick. After this and a full fence, ripc__win_quiet() must be asked. */
void ripc__win_arm(struct ripc__win *w);
/* Whether there is nothing to do. */
bool ripc__win_quiet(const struct ripc__win *w);
/* A kick came: the next sleep needs a new request. */
static inline void ripc__win_kicked(struct ripc__win *w)
{
	w->armed = false;
}

#endif
