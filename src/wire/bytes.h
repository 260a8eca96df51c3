/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fixed-width integers to and from unaligned bytes: little-endian for libripc's own formats,
 * big-endian for the RFCs'. The result of a decoder that rejects bytes.
 */
#ifndef RIPC_WIRE_BYTES_H
#define RIPC_WIRE_BYTES_H

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/param.h> /* MIN, MAX */

#define RIPC__BYTES(name, type, to_wire, from_wire)             \
	static inline void ripc__put_##name(uint8_t *p, type v) \
	{                                                       \
		v = to_wire(v);                                 \
		memcpy(p, &v, sizeof(v));                       \
	}                                                       \
	static inline type ripc__get_##name(const uint8_t *p)   \
	{                                                       \
		type v;                                         \
		memcpy(&v, p, sizeof(v));                       \
		return from_wire(v);                            \
	}

RIPC__BYTES(le16, uint16_t, htole16, le16toh)
RIPC__BYTES(le32, uint32_t, htole32, le32toh)
RIPC__BYTES(le64, uint64_t, htole64, le64toh)
RIPC__BYTES(be16, uint16_t, htobe16, be16toh)
RIPC__BYTES(be32, uint32_t, htobe32, be32toh)
RIPC__BYTES(be64, uint64_t, htobe64, be64toh)

/* Return: -EPROTO. @text: a string constant, for *why. */
static inline int ripc__malformed(const char **why, const char *text)
{
	*why = text;
	return -EPROTO;
}

#endif
