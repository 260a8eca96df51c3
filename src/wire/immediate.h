/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The immediate data of a write, which replaces a LONG with one item in a standing buffer. Format:
 * doc/protocol.md, section 1.1.3.
 */
#ifndef RIPC_WIRE_IMMEDIATE_H
#define RIPC_WIRE_IMMEDIATE_H

#include "wire/header.h"

#define RIPC__IMM_SEQ_MASK    0xfu
#define RIPC__IMM_CREDITS_MAX 0x1fu
#define RIPC__IMM_OLDER_MAX   0xfu
#define RIPC__IMM_ACKED_MASK  0x3ffu
#define RIPC__IMM_BUFFER_MASK 0xffu

/* Bytes of the LONG for credit, as if it had been sent. */
#define RIPC__IMM_LONG_LEN (RIPC__LONG_FIXED + RIPC__DESC_LEN)

/* The last LONG in one direction of a lane, in full or replaced. */
struct ripc__long_context {
	uint64_t dest, source;
	uint64_t request; /* 0: there was none */
};

/* The fields without sequence number and credits. */
struct ripc__immediate {
	uint32_t older;  /* request less dedup_base, at most RIPC__IMM_OLDER_MAX */
	uint64_t acked;  /* request whose ACK is piggybacked, and RIPC__ACK_REUSABLE; 0: none */
	uint32_t buffer; /* id of the standing buffer */
};

/* The word without sequence number and credits. */
uint32_t ripc__immediate_put(const struct ripc__immediate *m);
/* Adds sequence number and credits to the word. */
static inline uint32_t ripc__immediate_stamp(uint32_t word, uint32_t seq, uint32_t credits)
{
	return word | (seq & RIPC__IMM_SEQ_MASK) | credits << 4;
}

/* The lower bits of the id of the buffer. */
static inline uint32_t ripc__immediate_buffer(uint32_t word)
{
	return word >> 24;
}

/*
 * Decodes a word into the LONG that it replaces. len: bytes of the write. last: the LONG before it.
 * buffer: the id with ripc__immediate_buffer(), 0: unknown. seq: the expected number. newest: the
 * highest request sent to the peer, or 0. desc: room for the descriptor of the item. Return: as
 * ripc__header_decode().
 */
int ripc__immediate_decode(struct ripc__header *h, uint32_t word, uint32_t len,
			   const struct ripc__long_context *last, uint32_t buffer, uint32_t seq,
			   uint64_t newest, uint8_t desc[RIPC__DESC_LEN], const char **why);

#endif
