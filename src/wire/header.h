/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages between contexts: encode and decode. Format, kinds and flags: doc/protocol.md, section
 * 1. elided.h has the short headers that replace one of a SHORT.
 */
#ifndef RIPC_WIRE_HEADER_H
#define RIPC_WIRE_HEADER_H

#include "ripc.h"
#include "wire/bytes.h"

#include <stdbool.h>

#define RIPC__MSG_MAGIC   0x7072 /* "rp" */
#define RIPC__MSG_VERSION 5
#define RIPC__HEADER_LEN  32
#define RIPC__DESC_LEN    24 /* one item or return buffer descriptor */
/*
 * A SHORT of one item and nothing else: its first 8 bytes, and the bytes before its payload. One
 * with F_RELIABLE, F_CALL or F_REPLY has these flags in bits 32-47, and its call between the two.
 */
#define RIPC__FAST_HEADER_WORD                                                     \
	(RIPC__MSG_MAGIC | RIPC__MSG_VERSION << 16 | (uint64_t)RIPC__SHORT << 24 | \
	 UINT64_C(1) << 48)
#define RIPC__FAST_HEADER_LEN (RIPC__HEADER_LEN + 4)
#define RIPC__LONG_FIXED      (RIPC__HEADER_LEN + 16)
#define RIPC__ACK_WORD        8  /* bytes by which F_ACK makes a message longer */
#define RIPC__CALL_EXT        16 /* bytes by which F_CALL or F_REPLY does */
/* Items and return buffers have less than 1 << RIPC__LEN_BITS bytes. */
#define RIPC__LEN_BITS 47
/* The largest message without payload: a transport's send_max must not be below it. */
#define RIPC__MSG_MIN_MAX (RIPC__HEADER_MAX + RIPC__CALL_EXT)
/*
 * The longest header of a short message. That of a datagram has no return buffers, nor has that of
 * a call.
 */
#define RIPC__SHORT_HEADER_MAX                                               \
	(RIPC__FAST_HEADER_LEN + RIPC__ACK_WORD + (RIPC_ITEMS_MAX - 1) * 4 + \
	 RIPC_RETURN_BUFFERS_MAX * RIPC__DESC_LEN)
/*
 * The most bytes of a short message that are not payload: the header, an instance id, 64 lengths. A
 * lane's limit of payload is lower by this.
 */
#define RIPC__SHORT_FIXED (RIPC__HEADER_LEN + 16 + RIPC_ITEMS_MAX * 4)
/* The most bytes that a header with all its descriptors takes, without the words of flags. */
#define RIPC__HEADER_MAX \
	(RIPC__LONG_FIXED + (RIPC_ITEMS_MAX + RIPC_RETURN_BUFFERS_MAX) * RIPC__DESC_LEN)

enum ripc__kind {
	RIPC__SHORT = 1,
	RIPC__LONG = 2,
	RIPC__ACK = 3,
	RIPC__GRANT = 4,
	RIPC__FIN = 5,
	RIPC__CANCEL = 6,
	RIPC__CREDIT = 7,
	RIPC__PING = 8,
	RIPC__PONG = 9,
	RIPC__REVOKE = 10,
	RIPC__REVOKED = 11,
	RIPC__NOSERVICE = 12,
	RIPC__BYE = 13,
	RIPC__RELIABLE_BEGIN = 14,
	RIPC__RELIABLE_ACK = 15,
	RIPC__GROUP = 16,
	RIPC__JOIN = 17,
	RIPC__MEMBER = 18,
	RIPC__COORDINATOR = 19,
	RIPC__MCAST_ACK = 20,
	RIPC__CALL_CANCEL = 21,
	RIPC__CALL_STATE = 22,
	RIPC__GOAWAY = 23,
	RIPC__MAP_ACK = 24,
	RIPC__RELEASE = 25,
	RIPC__UNMAP = 26,
	RIPC__RELIABLE_REFUSED = 27,
	RIPC__WATCH = 28,
	RIPC__WATCH_END = 29,
	RIPC__STANDING_GRANT = 30,
	RIPC__DATAGRAM_CONTEXT = 31,
	RIPC__DATAGRAM_CONTEXT_ACK = 32,
	RIPC__ACK_REQUEST = 33,
	RIPC__FLOW_END = 34,
	RIPC__KIND_END,
};

/* of RELEASE, in item: other processes may go on reading it, so its memory is not used again */
#define RIPC__RELEASE_LOST (UINT64_C(1) << 32)
/* of RELEASE, in item: it is the ACK of the message as well, with status 0 and RIPC__ACK_KEPT */
#define RIPC__RELEASE_ACK (UINT64_C(1) << 33)
/* of ACK and F_ACK, in the request: the standing buffers that it was written into are free again */
#define RIPC__ACK_REUSABLE (UINT64_C(1) << 63)
/* the first 8 bytes of a RELEASE */
#define RIPC__RELEASE_WORD \
	(RIPC__MSG_MAGIC | RIPC__MSG_VERSION << 16 | (uint64_t)RIPC__RELEASE << 24)
#define RIPC__ACK_KEPT 1u /* of ACK: mapped items stay in place, a RELEASE follows for each */

enum ripc__msg_flags {
	RIPC__F_INSTANCE = 1 << 0, /* the sender's instance id follows the header: datagrams */
	RIPC__F_ACK = 1 << 1, /* SHORT, LONG on a lane: carries an ACK with status 0 and no flags */
	RIPC__F_RELIABLE = 1 << 2, /* SHORT on a lane: has the lane's next reliable number */
	RIPC__F_CALL = 1 << 3,     /* SHORT with F_RELIABLE, LONG: request of a call */
	RIPC__F_REPLY = 1 << 4,    /* SHORT with F_RELIABLE, LONG: answer of a call */
	RIPC__F_ACK_NOW = 1 << 5,  /* LONG: its ACK does not wait for the first RELEASE */
	RIPC__F_ALL = RIPC__F_INSTANCE | RIPC__F_ACK | RIPC__F_RELIABLE | RIPC__F_CALL |
		      RIPC__F_REPLY | RIPC__F_ACK_NOW,
	/* of a SHORT whose header may be elided */
	RIPC__F_ELIDABLE = RIPC__F_RELIABLE | RIPC__F_CALL | RIPC__F_REPLY,
};

/*
 * The state of a request that gets no answer: in CALL_STATE, or one more than it as the word of an
 * answer, which is not lost with a lane.
 */
enum ripc__call_state {
	RIPC__CALL_NOT_TAKEN = 0, /* dropped before the application had it: its time was up */
	RIPC__CALL_MOVED = 1,     /* as 0, because the service ended: its next holder may take it */
	RIPC__CALL_TAKEN = 2,     /* the application has it, or had it */
	RIPC__CALL_UNKNOWN = 3,   /* it is not here: it was answered, or never arrived */
	RIPC__CALL_STATES,
};

/* The word of an answer that is such a state. */
static inline int ripc__call_state_word(enum ripc__call_state state)
{
	return 1 + (int)state;
}

static inline bool ripc__call_word_is_state(uint32_t word)
{
	return word && word <= RIPC__CALL_STATES;
}

/* The path of an item of a LONG message. */
enum ripc__how {
	RIPC__HOW_INLINE = 0,  /* its bytes are in this message */
	RIPC__HOW_READ = 1,    /* the receiver reads it from addr/key */
	RIPC__HOW_WRITTEN = 2, /* it was written into a return buffer of the receiver */
	RIPC__HOW_GRANT = 3,   /* the receiver grants memory, the sender writes */
	RIPC__HOW_MAPPED = 4,  /* at addr in the sender's buffer key, which the receiver maps */
};

/* An item, or a return buffer. */
struct ripc__desc {
	uint64_t addr; /* remote address; item HOW_WRITTEN: the id of its return buffer */
	uint64_t len;  /* bytes */
	uint32_t key;  /* remote key */
	uint32_t how;  /* item: enum ripc__how; return buffer: its id; 0: not writable */
};

/* A message header, decoded. */
struct ripc__header {
	uint8_t kind;
	uint16_t flags;
	uint16_t nitems;
	uint16_t nreturns;
	uint16_t credits; /* receive buffers returned to the other side of the lane */
	uint32_t seq;     /* per lane and direction, from 0, wraps */
	uint64_t number;  /* F_INSTANCE: of a SHORT, per sender and receiver; else 0 */
	uint64_t dest;
	uint64_t source;
	uint64_t acked; /* F_ACK: the request that is complete, and RIPC__ACK_REUSABLE */
	uint64_t call;  /* F_CALL, F_REPLY: id of the call, not 0 */
	/* F_CALL: milliseconds left in bits 0-31; F_REPLY: the status, an i32, there */
	uint64_t call_word;
	uint64_t u[2];           /* the kind's fixed words after the header */
	const uint8_t *instance; /* 16 bytes with F_INSTANCE, else NULL */
	const uint8_t *lens;     /* SHORT, GROUP: nitems u32 */
	const uint8_t *items;    /* LONG, GRANT: nitems descriptors, see ripc__desc_get() */
	const uint8_t *returns;  /* nreturns descriptors */
	const uint8_t *payload;  /* the rest of the message */
	uint64_t payload_len;
};

/*
 * Decodes and validates: magic, version, kind, flags, counts, and that the lengths add up to
 * exactly len. Nothing is copied; pointers point into buf. Return: 0, or -EPROTO with *why a
 * constant string.
 */
int ripc__header_decode(struct ripc__header *h, const uint8_t *buf, size_t len, const char **why);

/* Writes the header of 32 bytes. Return: the byte behind it. */
static inline uint8_t *ripc__header_put(uint8_t *p, uint8_t kind, uint16_t flags, uint16_t nitems,
					uint16_t nreturns, uint64_t dest, uint64_t source)
{
	ripc__put_le64(p, RIPC__MSG_MAGIC | (uint64_t)RIPC__MSG_VERSION << 16 |
				  (uint64_t)kind << 24 | (uint64_t)flags << 32 |
				  (uint64_t)nitems << 48);
	ripc__put_le64(p + 8, dest);
	ripc__put_le64(p + 16, source);
	ripc__put_le64(p + 24, (uint64_t)nreturns << 48);
	return p + RIPC__HEADER_LEN;
}

/* Fills in the fields that are known only when the message is sent. */
static inline void ripc__header_stamp(uint8_t *p, uint32_t seq, uint16_t credits)
{
	ripc__put_le32(p + 24, seq);
	ripc__put_le16(p + 28, credits);
}

/* The same for a datagram: its number is in place of sequence number, credits, nreturns. */
static inline void ripc__number_stamp(uint8_t *p, uint64_t number)
{
	ripc__put_le64(p + 24, number);
}

/* The call of a message with F_CALL or F_REPLY. */
struct ripc__call_words {
	uint64_t id;   /* not 0 */
	uint64_t word; /* milliseconds left in bits 0-31; of an answer the status, an i32, there */
};

/* Bytes of the call in a message with these flags. */
static inline uint32_t ripc__call_len(unsigned flags)
{
	return flags & (RIPC__F_CALL | RIPC__F_REPLY) ? RIPC__CALL_EXT : 0;
}

/* Writes the call, if these flags have one. Return: the byte behind it. */
static inline uint8_t *ripc__call_put(uint8_t *p, unsigned flags, const struct ripc__call_words *c)
{
	if (!ripc__call_len(flags))
		return p;
	ripc__put_le64(p, c->id);
	ripc__put_le64(p + 8, c->word);
	return p + RIPC__CALL_EXT;
}

/*
 * Reads the call of a message with these flags, if they have one, into h. *at: moved behind it.
 * Return: as ripc__header_decode().
 */
int ripc__call_get(struct ripc__header *h, const uint8_t **at, const uint8_t *end,
		   const char **why);

static inline uint8_t *ripc__desc_put(uint8_t *p, const struct ripc__desc *d)
{
	ripc__put_le64(p, d->addr);
	ripc__put_le64(p + 8, d->len);
	ripc__put_le32(p + 16, d->key);
	ripc__put_le32(p + 20, d->how);
	return p + RIPC__DESC_LEN;
}

static inline void ripc__desc_get(struct ripc__desc *d, const uint8_t *descs, unsigned index)
{
	const uint8_t *p = descs + (size_t)index * RIPC__DESC_LEN;

	d->addr = ripc__get_le64(p);
	d->len = ripc__get_le64(p + 8);
	d->key = ripc__get_le32(p + 16);
	d->how = ripc__get_le32(p + 20);
}

#define RIPC__CONTROL_MAX (RIPC__HEADER_LEN + 16)

/*
 * Encodes a message of a kind that consists of a header and at most two words. Words that the kind
 * does not have are ignored. Return: its bytes.
 */
size_t ripc__control_put(uint8_t buf[RIPC__CONTROL_MAX], unsigned kind, uint64_t dest,
			 uint64_t source, uint64_t a, uint64_t b);

#endif
