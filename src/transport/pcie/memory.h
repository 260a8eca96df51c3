/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of a device that several hosts, or guests of one host, see at the same time: entries
 * of contexts, and blocks for segments of connections. Format: doc/protocol.md section 6.3. Pure:
 * it takes mapped memory and the time.
 *
 * Entries and blocks are claimed with atomic compare-and-exchange. That works in memory that all
 * sides share, and not over a bridge between two memories. Everything else has one writer. The
 * owner of a block reads its segment, and its user, the peer, writes into it. A block is free when
 * neither is left.
 *
 * A reference is an entry with the number of its claim: never 0, and never the same again.
 */
#ifndef RIPC_PCIE_MEMORY_H
#define RIPC_PCIE_MEMORY_H

#include "transport/transport.h"
#include "transport/ring/ring.h"

#define RIPC__PCIE_ENTRIES      128u
#define RIPC__PCIE_BLOCKS_MAX   16384u
#define RIPC__PCIE_HEARTBEAT_NS UINT64_C(100000000)
#define RIPC__PCIE_EVICT_NS     UINT64_C(30000000000) /* silence after which an entry is evicted */
#define RIPC__PCIE_SEGMENT_OFF  4096u                 /* offset in a block */
#define RIPC__PCIE_PARAMS_MAX   1024u                 /* bytes of a request or an answer */

static const struct ripc__ring_layout ripc__pcie_layout = {8, 17};

/* The state of a block, set by its owner, in the low byte; a number that is not repeated above. */
enum ripc__pcie_setup_kind {
	RIPC__PCIE_REQUEST = 1, /* a request for a connection, whose peer is to become the user */
	RIPC__PCIE_ACCEPT = 2,  /* the segment of an accepted connection */
};

/* The answer to a request: its kind in the low byte, above it the block of the answering side. */
enum ripc__pcie_answer { RIPC__PCIE_ACCEPTED = 1, RIPC__PCIE_REJECTED = 2 };

struct ripc__pcie_memory {
	uint8_t *base;        /* for loads and atomic words */
	uint8_t *out;         /* the same memory, for bulk stores; may combine writes */
	bool write_combining; /* out does */
	size_t size;          /* bytes */
	uint8_t id[16];
	uint64_t kernel; /* identifies our kernel and PID namespace; 0: not known */
	uint32_t nblocks;
	unsigned entry;
	uint64_t ref;    /* ours; 0: no entry */
	uint64_t serial; /* of requests */
	uint64_t scanned_ns;
	struct {
		uint64_t claim, beat, silent_ns; /* as found last; time without a change */
	} seen[RIPC__PCIE_ENTRIES];
};

/* Bytes of a block. */
static inline size_t ripc__pcie_block_size(void)
{
	return RIPC__PCIE_SEGMENT_OFF + ripc__ring_segment_len(&ripc__pcie_layout);
}

/* Blocks that fit into a memory. */
uint32_t ripc__pcie_blocks(size_t size);

/*
 * Checks the memory. With format, memory that holds only zeros is formatted. Return: 0;
 * -ENODATA: it is not formatted; -EPROTO: it holds something else; -ENOSPC: it is too small; with
 * *why.
 */
int ripc__pcie_join(struct ripc__pcie_memory *m, uint8_t *base, uint8_t *out, size_t size,
		    bool format, const char **why);

/*
 * With kernel set, contexts with the same value are dead when their process has ended. Call it
 * before ripc__pcie_entry_claim().
 */
void ripc__pcie_set_kernel(struct ripc__pcie_memory *m);
/* Claims an entry. Waits up to a second for a dead one if all are taken. Return: 0 or -ENOSPC. */
int ripc__pcie_entry_claim(struct ripc__pcie_memory *m);
/*
 * Claims another entry in place of a lost one, and releases the blocks of that. This context has
 * stopped to use them. Return: false: none is free, or the memory is gone.
 */
bool ripc__pcie_entry_renew(struct ripc__pcie_memory *m);
/* Releases it, with all blocks. */
void ripc__pcie_entry_release(struct ripc__pcie_memory *m);

/* Whether it is still ours. If not, nothing may be written any more. */
bool ripc__pcie_entry_held(const struct ripc__pcie_memory *m);

/*
 * Call it every RIPC__PCIE_HEARTBEAT_NS. Return: false: the memory or our entry is lost, and
 * nothing may be written any more.
 */
bool ripc__pcie_heartbeat(struct ripc__pcie_memory *m, uint64_t now_ns);

/*
 * Whether a context has its entry, its process is not known to have ended, and its heartbeat is not
 * older than silence_ns. Any number.
 */
bool ripc__pcie_alive(const struct ripc__pcie_memory *m, uint64_t ref, uint64_t silence_ns);

/* Notifies a context of a request or an answer. */
void ripc__pcie_notify(struct ripc__pcie_memory *m, uint64_t ref);
/* Changes with each notification for us. */
uint64_t ripc__pcie_notify_count(const struct ripc__pcie_memory *m);

/*
 * Publishes how others can wake us (doorbell.h), and reads it of another context: 0: not at all.
 * Any reference.
 */
void ripc__pcie_set_doorbell(struct ripc__pcie_memory *m, uint64_t word);
uint64_t ripc__pcie_doorbell(const struct ripc__pcie_memory *m, uint64_t ref);

/* Claims a block with an empty segment. Return: its index or -ENOSPC. */
int ripc__pcie_block_get(struct ripc__pcie_memory *m);
void ripc__pcie_block_put(struct ripc__pcie_memory *m, uint32_t block);
/* Publishes a block to its target. Its parameters are complete. */
void ripc__pcie_block_publish(struct ripc__pcie_memory *m, uint32_t block, uint64_t target,
			      enum ripc__pcie_setup_kind kind);

/* A block of another context. */
struct ripc__pcie_setup_msg {
	uint64_t owner, target, call;
};
/* Return: whether it was published. Any index below nblocks. */
bool ripc__pcie_block_read(const struct ripc__pcie_memory *m, uint32_t block,
			   struct ripc__pcie_setup_msg *s);
/* Becomes its user. Return: false: it has changed, or has a user. */
bool ripc__pcie_attach(struct ripc__pcie_memory *m, uint32_t block,
		       const struct ripc__pcie_setup_msg *s);
void ripc__pcie_detach(struct ripc__pcie_memory *m, uint32_t block);
/* Whether its owner still has it. */
bool ripc__pcie_is_owner(const struct ripc__pcie_memory *m, uint32_t block, uint64_t owner);

/* Answers as the user, after the parameters. */
void ripc__pcie_answer(struct ripc__pcie_memory *m, uint32_t block, enum ripc__pcie_answer kind,
		       uint32_t other);
/* Return: of enum ripc__pcie_answer, or 0: none yet; *other may be any number. */
unsigned ripc__pcie_answer_read(const struct ripc__pcie_memory *m, uint32_t block, uint32_t *other);

/* Parameters of the owner (which 0) or the user (which 1) of a block. */
uint8_t *ripc__pcie_params(const struct ripc__pcie_memory *m, uint32_t block, unsigned which);

/* The segment of a block, for reading and for writing. */
const uint8_t *ripc__pcie_inbox(const struct ripc__pcie_memory *m, uint32_t block);
uint8_t *ripc__pcie_outbox(const struct ripc__pcie_memory *m, uint32_t block);

/* Orders everything written before ahead of everything written after, also with write combining. */
void ripc__pcie_fence(const struct ripc__pcie_memory *m);

#endif
