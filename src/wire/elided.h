/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Short headers in place of that of a SHORT of one item. Formats: doc/protocol.md, sections 1.1.1
 * and 1.1.2. An UNKNOWN_CONTEXT repeats the header of an ELIDED_DATAGRAM but the first byte.
 */
#ifndef RIPC_WIRE_ELIDED_H
#define RIPC_WIRE_ELIDED_H

#include "wire/header.h"

/*
 * The first byte of an ELIDED_DATAGRAM; that of an UNKNOWN_CONTEXT, the answer if the header
 * context is not known; and the bytes of an ELIDED_DATAGRAM before its payload. The difference to
 * the full header is a multiple of 8, so the payload has the same alignment in both.
 */
#define RIPC__ELIDED_DATAGRAM     0x65
#define RIPC__UNKNOWN_CONTEXT     0x66
#define RIPC__ELIDED_DATAGRAM_LEN 12
/*
 * The first byte of an ELIDED, with which no full header begins, by the flags of the message: none,
 * F_RELIABLE, F_CALL, F_REPLY; and the bytes before its call or payload. The difference to
 * RIPC__FAST_HEADER_LEN is a multiple of 32, so the payload has the same alignment in both.
 */
#define RIPC__ELIDED_MAGIC       0x61 /* "a" */
#define RIPC__ELIDED_RELIABLE    0x62
#define RIPC__ELIDED_CALL        0x63
#define RIPC__ELIDED_REPLY       0x64
#define RIPC__ELIDED_LEN         4
#define RIPC__ELIDED_CREDITS_MAX 255

/*
 * The services of the last SHORT of one item without return buffers and without flags other than
 * F_ELIDABLE, in one direction of a lane. The next one between the same services may be ELIDED.
 * Both ends follow the order of sending, whatever the outcome of a message.
 */
struct ripc__header_context {
	uint64_t dest; /* 0: there was none */
	uint64_t source;
};

static inline bool ripc__header_context_is(const struct ripc__header_context *b, uint64_t dest,
					   uint64_t source)
{
	return b->dest == dest && b->source == source;
}

/* Whether these flags are those of a SHORT whose header may be elided. */
static inline bool ripc__flags_elidable(unsigned flags)
{
	return !flags || flags == RIPC__F_RELIABLE || flags == (RIPC__F_RELIABLE | RIPC__F_CALL) ||
	       flags == (RIPC__F_RELIABLE | RIPC__F_REPLY);
}

/* Whether a message with this first byte is an ELIDED. */
static inline bool ripc__is_elided(uint8_t first)
{
	return first >= RIPC__ELIDED_MAGIC && first <= RIPC__ELIDED_REPLY;
}

/* The flags of the SHORT that an ELIDED with this first byte replaces. */
static inline unsigned ripc__elided_flags(uint8_t first)
{
	return first == RIPC__ELIDED_MAGIC   ? 0
	       : first == RIPC__ELIDED_CALL  ? RIPC__F_RELIABLE | RIPC__F_CALL
	       : first == RIPC__ELIDED_REPLY ? RIPC__F_RELIABLE | RIPC__F_REPLY
					     : RIPC__F_RELIABLE;
}

/* The first byte of an ELIDED for a SHORT with these flags. */
static inline uint8_t ripc__elided_magic(unsigned flags)
{
	return !flags                  ? RIPC__ELIDED_MAGIC
	       : flags & RIPC__F_REPLY ? RIPC__ELIDED_REPLY
	       : flags & RIPC__F_CALL  ? RIPC__ELIDED_CALL
				       : RIPC__ELIDED_RELIABLE;
}

/*
 * Decodes an ELIDED into the SHORT that it replaces, with the services of @last. @seq: the expected
 * number; the message has only its lower half. @lens: room for the length of the item.
 * Return: as ripc__header_decode().
 */
int ripc__elided_decode(struct ripc__header *h, const uint8_t *buf, size_t len,
			const struct ripc__header_context *last, uint32_t seq, uint8_t lens[4],
			const char **why);

/* The word of an ELIDED, with the lower half of its number. */
static inline uint32_t ripc__elided_word(unsigned flags, uint32_t seq, uint32_t credits)
{
	return ripc__elided_magic(flags) | credits << 8 | seq << 16;
}

/* The first 8 bytes of an ELIDED_DATAGRAM; id: 1 to 2^56 - 1. */
static inline uint64_t ripc__datagram_word(uint64_t id)
{
	return RIPC__ELIDED_DATAGRAM | id << 8;
}

/* Whether an id is in range. */
static inline bool ripc__datagram_id_valid(uint64_t id)
{
	return id && !(id >> 56);
}

/* Writes the header of an ELIDED_DATAGRAM. Return: where the payload begins. */
static inline uint8_t *ripc__elided_datagram_put(uint8_t *p, uint64_t word, uint64_t number)
{
	ripc__put_le64(p, word);
	ripc__put_le32(p + 8, (uint32_t)number);
	return p + RIPC__ELIDED_DATAGRAM_LEN;
}

/* The number of an ELIDED_DATAGRAM, whose context begins with the number @first. */
static inline uint64_t ripc__elided_datagram_number(const uint8_t *p, uint64_t first)
{
	return first + (uint32_t)(ripc__get_le32(p + 8) - (uint32_t)first);
}

/*
 * Decodes an ELIDED_DATAGRAM, of at least RIPC__ELIDED_DATAGRAM_LEN bytes, into the SHORT that it
 * replaces, with the services and the first number of its context. @instance: of its sender. @lens:
 * room for the length of the item.
 */
void ripc__elided_datagram_decode(struct ripc__header *h, const uint8_t *buf, size_t len,
				  const struct ripc__header_context *context, uint64_t first,
				  const uint8_t *instance, uint8_t lens[4]);

#endif
