/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies in pieces of RIPC__COPY_PIECE. Above some ten kilobytes the C library uses one instruction
 * (rep movsb), which an emulator executes byte by byte, six times slower. A real processor needs
 * the same time for both.
 */
#ifndef RIPC_BASE_COPY_H
#define RIPC_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RIPC__COPY_PIECE ((size_t)2048)

/* As memcpy(). */
static inline void ripc__copy(void *to, const void *from, size_t len)
{
	uint8_t *out = to;
	const uint8_t *in = from;

	for (size_t at = 0; at < len; at += RIPC__COPY_PIECE)
		memcpy(out + at, in + at,
		       len - at < RIPC__COPY_PIECE ? len - at : RIPC__COPY_PIECE);
}

#endif
