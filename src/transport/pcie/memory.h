/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What stands in the memory of a device that several hosts, or guests of one host, see at the same
 * time: who is there, and which parts of it are the segments of which connection. Format:
 * doc/protocol.md section 6.3. Pure: it is given mapped memory and the time.
 *
 * Places and blocks are taken with atomic compare-and-exchange, which memory that all sides really
 * share can do; a bridge between two memories cannot. Everything else is written by one side and
 * read by others.
 *
 *   place   one context: its claim, a beat that shows that it lives, a bell that others ring when
 *     there is something to set up
 *   block   one segment, and what is needed to set up its connection. Its owner reads it; its user,
 *     the peer, writes into it.
 *           It is free when neither is there any more, so that nobody ever writes into what belongs
 *             to others by now.
 *
 * A reference is a place with the number of its claim: never 0, and never the same again.
 */
#ifndef RIPC_PCIE_MEMORY_H
#define RIPC_PCIE_MEMORY_H

#include "transport/transport.h"
#include "transport/ring/ring.h"

#define RIPC__PCIE_ENTRIES      128u
#define RIPC__PCIE_BLOCKS_MAX   16384u
#define RIPC__PCIE_HEARTBEAT_NS UINT64_C(100000000)
#define RIPC__PCIE_EVICT_NS \
	UINT64_C(30000000000)        /* silence after which a place is given to others */
#define RIPC__PCIE_SEGMENT_OFF 4096u /* in a block */
#define RIPC__PCIE_PARAMS_MAX  1024u /* bytes of a request or of an answer to it */

static const struct ripc__ring_layout ripc__pcie_layout = {8, 17};

/* What a side says about a block, in the low byte; a number that is not repeated above. */
enum ripc__pcie_setup_kind {
	RIPC__PCIE_REQUEST = 1, /* owner: let us connect, here is where you write */
	RIPC__PCIE_ACCEPT = 2,  /* owner: the segment of a connection that was accepted */
};

/* The answer to a request: its kind in the low byte, above the block of the one who answers. */
enum ripc__pcie_answer { RIPC__PCIE_ACCEPTED = 1, RIPC__PCIE_REJECTED = 2 };

struct ripc__pcie_memory {
	uint8_t *base;        /* for loads and atomic words */
	uint8_t *out;         /* the same memory, for what is only written; may combine writes */
	bool write_combining; /* out does */
	size_t size;          /* bytes */
	uint8_t id[16];
	uint64_t kernel; /* ours, and which process ids it means; 0: not known */
	uint32_t nblocks;
	unsigned entry;
	uint64_t ref;    /* ours; 0: no place */
	uint64_t serial; /* of calls */
	uint64_t scanned_ns;
	struct {
		uint64_t claim, beat, silent_ns; /* as last seen; how long nothing changed */
	} seen[RIPC__PCIE_ENTRIES];
};

/* Bytes that a block takes. */
static inline size_t ripc__pcie_block_size(void)
{
	return RIPC__PCIE_SEGMENT_OFF + ripc__ring_segment_len(&ripc__pcie_layout);
}

/* How many blocks fit into a memory. */
uint32_t ripc__pcie_blocks(size_t size);

/*
 * Looks what the memory holds. With format, memory of nothing but zeros becomes ours. Return: 0,
 * -ENODATA: nothing,
 * -EPROTO: something else, -ENOSPC: it is too small; with *why.
 */
int ripc__pcie_join(struct ripc__pcie_memory *m, uint8_t *base, uint8_t *out, size_t size,
		    bool format, const char **why);

/*
 * With kernel set, contexts of the same are dead when their process is gone. To be called before
 * ripc__pcie_entry_claim().
 */
void ripc__pcie_set_kernel(struct ripc__pcie_memory *m);
/*
 * Takes a place. Waits up to a second if all are taken, for one that does not live. Return: 0 or
 * -ENOSPC.
 */
int ripc__pcie_entry_claim(struct ripc__pcie_memory *m);
/* Gives it back, with all blocks. */
void ripc__pcie_entry_release(struct ripc__pcie_memory *m);

/*
 * To be called every RIPC__PCIE_HEARTBEAT_NS. Return: false: the memory or our place is lost, and
 * nothing may be written any more.
 */
bool ripc__pcie_heartbeat(struct ripc__pcie_memory *m, uint64_t now_ns);

/*
 * Whether a context has its place, its process is not known to be gone, and it gave a sign of life
 * in so many nanoseconds. Any number.
 */
bool ripc__pcie_alive(const struct ripc__pcie_memory *m, uint64_t ref, uint64_t silence_ns);

/* Tells a context that there is something to set up. */
void ripc__pcie_notify(struct ripc__pcie_memory *m, uint64_t ref);
/* Changes when somebody rang for us. */
uint64_t ripc__pcie_notify_count(const struct ripc__pcie_memory *m);

/*
 * Tells others how they can wake us (pcie_doorbell.h); and what another one told: 0: not at all.
 * Any reference.
 */
void ripc__pcie_set_doorbell(struct ripc__pcie_memory *m, uint64_t word);
uint64_t ripc__pcie_doorbell(const struct ripc__pcie_memory *m, uint64_t ref);

/* Takes a block, with an empty segment. Return: its index or -ENOSPC. */
int ripc__pcie_block_get(struct ripc__pcie_memory *m);
void ripc__pcie_block_put(struct ripc__pcie_memory *m, uint32_t block);
/* Lets the one it is meant for find it. The notes stand. */
void ripc__pcie_block_publish(struct ripc__pcie_memory *m, uint32_t block, uint64_t target,
			      enum ripc__pcie_setup_kind kind);

/* A block of somebody else. */
struct ripc__pcie_setup_msg {
	uint64_t owner, target, call;
};
/* Return: whether somebody calls with it. Any index below nblocks. */
bool ripc__pcie_block_read(const struct ripc__pcie_memory *m, uint32_t block,
			   struct ripc__pcie_setup_msg *s);
/* Becomes its user. Return: false: it is not what was seen any more, or has a user. */
bool ripc__pcie_attach(struct ripc__pcie_memory *m, uint32_t block,
		       const struct ripc__pcie_setup_msg *s);
void ripc__pcie_detach(struct ripc__pcie_memory *m, uint32_t block);
/* Whether its owner still has it. */
bool ripc__pcie_is_owner(const struct ripc__pcie_memory *m, uint32_t block, uint64_t owner);

/* The user's word for the owner, after its notes. */
void ripc__pcie_answer(struct ripc__pcie_memory *m, uint32_t block, enum ripc__pcie_answer kind,
		       uint32_t other);
/* Return: of enum ripc__pcie_answer, or 0: none yet; *other may be any number. */
unsigned ripc__pcie_answer_read(const struct ripc__pcie_memory *m, uint32_t block, uint32_t *other);

/* Notes of the owner (which 0) or of the user (which 1) of a block. */
void ripc__pcie_params_write(struct ripc__pcie_memory *m, uint32_t block, unsigned which,
			     const void *notes, size_t len);
void ripc__pcie_params_read(const struct ripc__pcie_memory *m, uint32_t block, unsigned which,
			    void *notes, size_t len);

/* The segment of a block: to read it, and to write it. */
const uint8_t *ripc__pcie_inbox(const struct ripc__pcie_memory *m, uint32_t block);
uint8_t *ripc__pcie_outbox(const struct ripc__pcie_memory *m, uint32_t block);

/* All that was written before stands before anything written after, also where writes are combined. */
void ripc__pcie_fence(const struct ripc__pcie_memory *m);

#endif
