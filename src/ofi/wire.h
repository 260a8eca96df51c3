/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages between endpoints. Each endpoint holds two services: `main` receives envelopes, `data`
 * receives the contents of long messages. The address of an endpoint is the id of `main`.
 *
 *   sender                                        receiver
 *   main -- EAGER, contents ------------> main    a short message: matched or kept
 *   main -- RTS --------------------------> main    a long message: matched or kept
 *   main <------------------------------ CTS -- data    matched; it may carry a return buffer
 *   main -- contents, at most CTS.len ----> data    in the order in which the CTS were received
 *   main -- CREDIT ----------------------> main    messages taken from the peer were matched
 *   main -- ABORT -----------------------> main    the contents for a CTS cannot be sent
 *
 * All but the contents begin with an envelope. EAGER, RTS, CREDIT and ABORT are reliable short
 * messages, so they arrive in order; a CTS with a return buffer and the contents are long messages.
 * A CTS comes from `data`, because long items for `main` would else land in its return buffers.
 *
 * Credit: a sender has at most OFI_WINDOW_MESSAGES messages (EAGER, RTS), and at most
 * OFI_WINDOW_BYTES of EAGER contents, at a peer that has not matched them.
 */
#ifndef OFI_WIRE_H
#define OFI_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define OFI_WIRE_VERSION    1
#define OFI_WINDOW_MESSAGES 65536u
#define OFI_WINDOW_BYTES    (1u << 20)
#define OFI_ENVELOPE_LEN    48

enum ofi_wire_kind {
	OFI_EAGER = 1,
	OFI_RTS = 2,
	OFI_CTS = 3,
	OFI_CREDIT = 4,
	OFI_ABORT = 5,
};

enum ofi_wire_flags {
	OFI_F_TAGGED = 1, /* EAGER, RTS: tag is valid */
	OFI_F_DATA = 2,   /* EAGER, RTS: data is valid */
	OFI_F_PIECES = 4, /* RTS: the contents will have more than one item */
};

/* Decoded. */
struct ofi_envelope {
	uint8_t kind;
	uint8_t flags;
	uint32_t matched_messages; /* of all messages from the receiver, modulo 2^32 */
	uint32_t matched_bytes;    /* of all EAGER contents from the receiver, modulo 2^32 */
	uint64_t tag;              /* CTS: the id of the main service */
	uint64_t data;
	uint64_t len; /* EAGER, RTS: bytes of the contents; CTS: bytes wanted */
	uint64_t id;  /* RTS: chosen by the sender; CTS, ABORT: of the RTS */
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

static inline void ofi_envelope_put(uint8_t p[OFI_ENVELOPE_LEN], const struct ofi_envelope *e)
{
	ofi_put64(p, e->kind | OFI_WIRE_VERSION << 8 | (uint64_t)e->flags << 16);
	ofi_put64(p + 8, e->matched_messages | (uint64_t)e->matched_bytes << 32);
	ofi_put64(p + 16, e->tag);
	ofi_put64(p + 24, e->data);
	ofi_put64(p + 32, e->len);
	ofi_put64(p + 40, e->id);
}

/* Return: false: not an envelope of this version. */
static inline bool ofi_envelope_get(const void *from, size_t len, struct ofi_envelope *e)
{
	const uint8_t *p = from;

	if (len < OFI_ENVELOPE_LEN || p[0] < OFI_EAGER || p[0] > OFI_ABORT ||
	    p[1] != OFI_WIRE_VERSION)
		return false;
	e->kind = p[0];
	e->flags = p[2];
	e->matched_messages = (uint32_t)ofi_get64(p + 8);
	e->matched_bytes = (uint32_t)(ofi_get64(p + 8) >> 32);
	e->tag = ofi_get64(p + 16);
	e->data = ofi_get64(p + 24);
	e->len = ofi_get64(p + 32);
	e->id = ofi_get64(p + 40);
	return true;
}

#endif
