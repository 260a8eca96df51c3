/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ring engine: one end of a connection whose two sides write into each other's memory and read
 * only their own. Format: doc/protocol.md, section 6.2. Pure: it takes mapped memory (backend.h)
 * and returns events; it makes no system call. It reads the clock only to measure how far apart the
 * processors are, which decides no event: distance.c. All counters are free-running. fast_path.h
 * has the bodies that write and read messages.
 *
 * The engine reads each word of the peer once and checks it. A peer that breaks the rules fails its
 * connection, and nothing else.
 */
#ifndef RIPC_RING_H
#define RIPC_RING_H

#include "transport/ring/backend.h"
#include "transport/ring/region.h"
#include "transport/transport.h"

#include <endian.h>
#include <stdbool.h>
#include <sys/uio.h>

#define RIPC__RING_MAGIC      UINT64_C(0x32776e6977706972) /* "ripwinw2" */
#define RIPC__RING_HELLO_OFF  0
#define RIPC__RING_CREDIT_OFF 128
#define RIPC__RING_ARM_OFF    256
#define RIPC__RING_KEYS_OFF   4096
#define RIPC__RING_KEYS_MAX   512u /* regions that can be read directly */
#define RIPC__RING_SLOTS_OFF  8192
#define RIPC__RING_SLOT_LEN   64u
#define RIPC__RING_SLOT_BODY  56u /* bytes of a message in a slot */

/*
 * Largest send in bytes: a header and 16 KiB. Up to there two copies take no longer than a read of
 * the sender's memory, between threads of one core and between cores.
 */
#define RIPC__RING_SEND_MAX (17u << 10)
/* Largest send in slots, 4 at most; above, the bulk ring is faster. */
#define RIPC__RING_INLINE_MAX 224u
/* Bytes of a receive buffer, and of these before the payload of the bulk ring. */
#define RIPC__RING_BULK_HEAD    64u
#define RIPC__RING_RECV_BUF_LEN (RIPC__RING_SEND_MAX + RIPC__RING_BULK_HEAD)
#define RIPC__RING_READS_MAX    16u /* outstanding reads in one direction */
#define RIPC__RING_WRITES_MAX   16u /* writes that are not yet copied */

/* Sizes of the two rings; the same on both sides. */
struct ripc__ring_layout {
	uint8_t slot_bits; /* 1 << slot_bits slots, 6 to 20 */
	uint8_t bulk_bits; /* 1 << bulk_bits bytes, 16 to 30 */
};

/* Bytes of a segment. */
static inline size_t ripc__ring_segment_len(const struct ripc__ring_layout *layout)
{
	return RIPC__RING_SLOTS_OFF + ((size_t)RIPC__RING_SLOT_LEN << layout->slot_bits) +
	       ((size_t)1 << layout->bulk_bits);
}

/* A read of ours. */
struct ripc__ring_read {
	uint8_t *to;
	uint64_t addr, len, done, wr_id;
	uint32_t key;
	bool used, direct, finished;
	int status;
};

/* A read of the peer's that we serve through the ring. */
struct ripc__ring_peer_read {
	uint64_t addr, len, done;
	uint32_t key;
	uint16_t tag;
};

/* A write of ours. */
struct ripc__ring_write {
	const uint8_t *from;
	uint64_t addr, len, done, wr_id;
	uint32_t key;
};

/* Reads and writes of both sides that are not done. */
struct ripc__ring_transfers {
	struct ripc__ring_read reads[RIPC__RING_READS_MAX];
	struct ripc__ring_peer_read peer_reads_queue[RIPC__RING_READS_MAX];
	struct ripc__ring_write writes[RIPC__RING_WRITES_MAX];
};

/* A process has one for each connection, so it is small; the rest is allocated on demand. */
struct ripc__ring {
	struct ripc__ring_backend be;
	uint32_t mask;      /* slots - 1 */
	uint32_t bulk_mask; /* bulk bytes - 1 */
	uint32_t bulk_off;  /* offset of the bulk ring */
	int status;         /* < 0: failed, for the reason in why */
	const char *why;    /* status 0: free for the user of the engine */
	struct ripc__ring_layout layout;
	uint8_t epoch;   /* never 0 */
	bool hello_seen; /* the peer's hello has arrived */
	/* plain stores reach the peer's segment, and a release fence orders them */
	bool direct_store;
	bool armed;    /* the peer has not answered our arm word yet */
	bool new_work; /* a read of the peer, or a write, that ripc__ring_progress() has not seen */
	uint8_t far_score; /* of distance.c, 0 to 3; see ripc__ring_is_far() */
	uint8_t nreads;
	uint8_t next_direct; /* index of the direct read that is next in turn */
	uint8_t peer_read_head;
	/* nwrites_copied of the nwrites are copied and to be reported */
	uint8_t write_head, nwrites_copied;
	uint32_t tx_claim;     /* the next ripc__ring_claim(), low bits of tx */
	uint32_t rx_bulk_mark; /* low bits of rx at the last ripc__ring_send_bulk() */
	/*
	 * For the user of the engine: low bits of rx at the last pass or empty poll, and of rx and
	 * tx at the first empty poll after the last send.
	 */
	uint32_t rx_seen, rx_mark, tx_mark;

	uint64_t tx, tx_consumed; /* slots posted; of these, known to be taken by the peer */
	/* ripc__ring_send_fast() may post up to here without any other check; 0: it may not */
	uint64_t tx_fast_end;
	uint64_t tx_bulk, tx_bulk_consumed; /* likewise bytes */
	uint64_t last_kick_arm;             /* the last arm word that we answered with a kick */
	/* slot words of sends and further slots, without number and length */
	uint64_t send_word, more_word;

	uint64_t rx, rx_advertised; /* slots taken; of these, advertised to the peer */
	/* ripc__ring_recv_fast() receives up to here, where credit is due; 0: it may not */
	uint64_t rx_fast_end;
	uint64_t rx_bulk, rx_bulk_advertised; /* likewise bytes */
	uint64_t arm;                         /* our arm word in the peer's segment */

	struct ripc__ring_regions regions; /* memory that is exposed to the peer */
	/* from the first read or write to ripc__ring_trim(); else NULL */
	struct ripc__ring_transfers *transfers;
	union {
		struct {
			uint8_t npeer_reads, nwrites;
			uint8_t ndirect, nfinished; /* of the nreads */
			/* messages posted since the last check for a sleeping peer */
			uint8_t unnotified;
			bool want_sendable; /* a post was refused */
		};
		/* for ripc__ring_progress(), other than arrivals; 0: none of these */
		uint64_t work;
	};
};

/*
 * @epoch: agreed on with the peer, never 0, different each time the same memory is used. Our
 * segment is zero, or left by another epoch.
 */
void ripc__ring_init(struct ripc__ring *ring, const struct ripc__ring_backend *be,
		     const struct ripc__ring_layout *layout, uint8_t epoch);
/*
 * The engine has failed with @status. From now on nothing is written to the peer's segment, which
 * may belong to others, but the end of direct reads.
 */
static inline void ripc__ring_fail(struct ripc__ring *ring, int status, const char *why)
{
	if (ring->status)
		return;
	ring->status = status;
	ring->why = why;
	ring->tx_fast_end = ring->rx_fast_end = 0;
}
/* Frees memory that only transfers need, if there are none. */
void ripc__ring_trim(struct ripc__ring *ring);
/* Ends it, and with it all direct reads of the peer. Regions stay their owners'. */
void ripc__ring_fini(struct ripc__ring *ring);

/* Announces the end of the connection to the peer. */
void ripc__ring_send_bye(struct ripc__ring *ring);

/*
 * Exposes memory to the peer. Direct reads use addresses; RIPC__RING_ACCESS_SERVED forbids them.
 * Return: the region, or NULL: out of memory or keys. End it with ripc__ring_dereg(), which also
 * works after ripc__ring_fini().
 */
struct ripc__ring_region *ripc__ring_reg(struct ripc__ring *ring, void *memory, size_t len,
					 unsigned access);
void ripc__ring_dereg(struct ripc__ring_region *region);

/*
 * As in transport.h; 0, 2, -EAGAIN, -EMSGSIZE, -ENOTCONN. With @more set, a peer that is awake
 * receives it at once. A peer that sleeps is woken by the next send without @more, by one of the
 * next few, or by ripc__ring_flush().
 */
int ripc__ring_send(struct ripc__ring *ring, const struct iovec *items, unsigned nitems, size_t len,
		    bool more);
void ripc__ring_flush(struct ripc__ring *ring);
int ripc__ring_read(struct ripc__ring *ring, void *to, uint64_t len, uint64_t addr, uint32_t key,
		    uint64_t wr_id);
int ripc__ring_write(struct ripc__ring *ring, const void *from, uint64_t len, uint64_t addr,
		     uint32_t key, uint64_t wr_id);

/*
 * Handles what the peer wrote. @buf: RIPC__RING_RECV_BUF_LEN bytes for a send, aligned to 64.
 * Return: whether there is an event: RECV with data in buf and len, READ_DONE or WRITE_DONE with
 * wr_id and status, or SENDABLE; no other field is set. After false there may be a status; a failed
 * engine reports nothing.
 */
bool ripc__ring_poll(struct ripc__ring *ring, uint8_t *buf, struct ripc__event *ev);

/* Whether the next slot was written, for ripc__ring_poll(). */
static inline bool ripc__ring_ready(const struct ripc__ring *ring)
{
	uint64_t word = __atomic_load_n(
		(const uint64_t *)(const void *)(ring->be.inbox + RIPC__RING_SLOTS_OFF +
						 (ring->rx & ring->mask) * RIPC__RING_SLOT_LEN),
		__ATOMIC_ACQUIRE);

	return (uint32_t)le64toh(word) == (uint32_t)(ring->rx + 1) &&
	       le64toh(word) >> 56 == ring->epoch;
}

/* Moves some of the posted and served data. Return: whether it moved anything, or has events. */
bool ripc__ring_progress(struct ripc__ring *ring);

/* Before sleeping: requests a kick. Then a full fence and ripc__ring_idle() must follow. */
void ripc__ring_arm(struct ripc__ring *ring);
/* Whether there is nothing to do. */
bool ripc__ring_idle(const struct ripc__ring *ring);
/* A kick arrived: the next sleep needs a new request. */
static inline void ripc__ring_disarm(struct ripc__ring *ring)
{
	ring->armed = false;
}

#endif
