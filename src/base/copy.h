/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies in pieces of RIPC__COPY_PIECE. From 4 KiB on the C library uses one instruction, rep
 * movsb. AMD family 25 takes 30 times as long for it if the target begins 1 to 31 bytes behind the
 * source, modulo 4096: 2 GB/s in place of 60 (glibc 2.36). An emulator executes it byte by byte. In
 * pieces the copy is as fast at any distance.
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
