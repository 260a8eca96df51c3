/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages between endpoints. Each endpoint holds two services: `main` receives envelopes, `data`
 * receives the contents of long messages. The address of an endpoint is the id of `main`.
 *
 *   sender                                        receiver
 *   main -- EAGER, contents ------------> main    a short message: matched or kept
 *   main -- PART, contents -------------> main    more contents of the last EAGER message
 *   main -- RTS --------------------------> main    a long message: matched or kept
 *   main <------------------------------ CTS -- data    matched; it may carry a return buffer
 *   main -- contents, at most CTS.len ----> data    in the order in which the CTS were received
 *   main -- ABORT, 4 empty items ---------> data    in place of contents that cannot be sent
 *   main <--------- ABORT, 4 empty items -- main    in place of a CTS: the sender is lost here
 *   main -- CREDIT ----------------------> main    messages taken from the peer were matched
 *
 * All but the contents begin with an envelope. EAGER, PART, RTS and CREDIT are reliable short
 * messages, so they arrive in order. The contents, ABORT, and each CTS that asks for contents, are
 * long messages: short ones could overtake them, and contents are recognized by their order. Such a
 * CTS comes from `data`, because long items for `main` would else land in its return buffers.
 *
 * A send of contents may fail while later ones are under way: its ABORT comes behind these. So each
 * CTS has a mark, the lowest one that no other receive has that waits for contents of the sender.
 * The contents have mark / 4 empty items in front and mark % 4 behind. A receiver waits for the
 * contents of at most OFI_MARKS messages of one sender.
 *
 * Credit: a sender has at most OFI_WINDOW_MESSAGES messages (EAGER, RTS), and at most
 * OFI_WINDOW_BYTES of EAGER contents, at a peer that has not matched them. The counts of both sides
 * begin again when the peer is another process.
 *
 * An envelope has a head of 4 bytes: kind, version, flags, mark (CTS, else 0). A word of 8 bytes
 * follows for each of the flags CREDIT, TAGGED, DATA, LEN and ID, in this order. So an EAGER
 * message with tag and data has 20 bytes of envelope, and with 8 bytes of contents fits into one
 * slot of a ring in shared memory.
 */
#ifndef OFI_WIRE_H
#define OFI_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define OFI_WIRE_VERSION    5
#define OFI_WINDOW_MESSAGES 65536u
#define OFI_WINDOW_BYTES    (1u << 20)
#define OFI_ENVELOPE_MAX    44
#define OFI_MARKS           16u /* of contents */
#define OFI_ABORT_EMPTY     4u  /* empty items behind an ABORT; behind contents there are fewer */
/* Empty items in front of contents, and behind them. */
#define OFI_MARK_FRONT(mark)  ((mark) / 4)
#define OFI_MARK_BEHIND(mark) ((mark) % 4)
#define OFI_MARK_EMPTY_MAX    6

enum ofi_wire_kind {
	OFI_EAGER = 1,
	OFI_RTS = 2,
	OFI_CTS = 3,
	OFI_CREDIT = 4,
	OFI_ABORT = 5,
	OFI_PART = 6,
};

enum ofi_wire_flags {
	OFI_F_CREDIT = 1,
	OFI_F_TAGGED = 2,
	OFI_F_DATA = 4,
	OFI_F_LEN = 8,
	OFI_F_ID = 16,
	OFI_F_WORDS = 31,
	OFI_F_PIECES = 32, /* RTS: the contents will have more than one item */
	OFI_F_ALL = 63,
};

/* Decoded. Members without their flag are 0. */
struct ofi_envelope {
	uint8_t kind;
	uint8_t flags;
	uint8_t mark;              /* CTS; else 0 */
	uint32_t matched_messages; /* CREDIT: of all messages from the receiver, modulo 2^32 */
	uint32_t matched_bytes;    /* CREDIT: of all EAGER contents from it, modulo 2^32 */
	uint64_t tag;              /* TAGGED; CTS: the id of the main service */
	uint64_t data;             /* DATA */
	uint64_t len; /* LEN: bytes of the contents; EAGER: if PART messages follow; CTS: wanted */
	uint64_t id;  /* ID: RTS: chosen by the sender; CTS, ABORT: of the RTS */
};

static inline void ofi_put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint64_t ofi_get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* The same, and moves on. */
static inline void ofi_put_word(uint8_t **p, uint64_t v)
{
	ofi_put64(*p, v);
	*p += 8;
}

static inline uint64_t ofi_get_word(const uint8_t **p)
{
	*p += 8;
	return ofi_get64(*p - 8);
}

/* Return: its length. */
static inline unsigned ofi_envelope_put(uint8_t bytes[OFI_ENVELOPE_MAX],
					const struct ofi_envelope *e)
{
	uint32_t head = htole32(e->kind | OFI_WIRE_VERSION << 8 | (uint32_t)e->flags << 16 |
				(uint32_t)e->mark << 24);
	uint8_t *p = bytes + sizeof(head);

	memcpy(bytes, &head, sizeof(head));
	if (e->flags & OFI_F_CREDIT)
		ofi_put_word(&p, e->matched_messages | (uint64_t)e->matched_bytes << 32);
	if (e->flags & OFI_F_TAGGED)
		ofi_put_word(&p, e->tag);
	if (e->flags & OFI_F_DATA)
		ofi_put_word(&p, e->data);
	if (e->flags & OFI_F_LEN)
		ofi_put_word(&p, e->len);
	if (e->flags & OFI_F_ID)
		ofi_put_word(&p, e->id);
	return (unsigned)(p - bytes);
}

/* ofi_envelope_get() of any envelope. */
static inline unsigned ofi_envelope_get_any(const void *from, size_t len, struct ofi_envelope *e)
{
	static const uint8_t needed[] = {
		[OFI_RTS] = OFI_F_LEN | OFI_F_ID,
		[OFI_CTS] = OFI_F_TAGGED | OFI_F_LEN | OFI_F_ID,
		[OFI_ABORT] = OFI_F_ID,
		[OFI_PART] = 0,
	};
	const uint8_t *p = from, *end;

	if (len < 4 || p[0] < OFI_EAGER || p[0] > OFI_PART || p[1] != OFI_WIRE_VERSION ||
	    p[2] & ~OFI_F_ALL || p[3] >= (p[0] == OFI_CTS ? OFI_MARKS : 1) || needed[p[0]] & ~p[2])
		return 0;
	e->kind = p[0];
	e->flags = p[2];
	e->mark = p[3];
	end = p + 4 + 8 * __builtin_popcount(e->flags & OFI_F_WORDS);
	if (len < (size_t)(end - p))
		return 0;
	p += 4;
	e->matched_messages = e->matched_bytes = 0;
	if (e->flags & OFI_F_CREDIT) {
		uint64_t matched = ofi_get_word(&p);

		e->matched_messages = (uint32_t)matched;
		e->matched_bytes = (uint32_t)(matched >> 32);
	}
	e->tag = e->data = e->len = e->id = 0;
	if (e->flags & OFI_F_TAGGED)
		e->tag = ofi_get_word(&p);
	if (e->flags & OFI_F_DATA)
		e->data = ofi_get_word(&p);
	if (e->flags & OFI_F_LEN)
		e->len = ofi_get_word(&p);
	if (e->flags & OFI_F_ID)
		e->id = ofi_get64(p);
	return (unsigned)(end - (const uint8_t *)from);
}

/* Return: its length; 0: not an envelope of this version. */
static inline unsigned ofi_envelope_get(const void *from, size_t len, struct ofi_envelope *e)
{
	const uint32_t optional = (uint32_t)(OFI_F_TAGGED | OFI_F_DATA) << 16;
	const uint8_t *p = (const uint8_t *)from + 4;
	uint32_t head, flags;

	if (len < sizeof(head) + 2 * 8)
		return ofi_envelope_get_any(from, len, e);
	memcpy(&head, from, sizeof(head));
	head = le32toh(head);
	if ((head & ~optional) != (OFI_EAGER | OFI_WIRE_VERSION << 8))
		return ofi_envelope_get_any(from, len, e);
	/* Most are like this. */
	flags = head >> 16;
	*e = (struct ofi_envelope){.kind = OFI_EAGER, .flags = (uint8_t)flags};
	if (flags & OFI_F_TAGGED)
		e->tag = ofi_get_word(&p);
	if (flags & OFI_F_DATA)
		e->data = ofi_get_word(&p);
	return (unsigned)(p - (const uint8_t *)from);
}

#endif
