/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hashes: a keyed one, whose values others cannot predict, and one without a key. */
#ifndef RIPC_BASE_HASH_H
#define RIPC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4 of one 64-bit number (Aumasson, Bernstein: SipHash, 2012). */
uint64_t ripc__siphash(const uint64_t key[2], uint64_t number);

/* The same of @len bytes, in the byte order of the paper: equal on every machine. */
uint64_t ripc__siphash_bytes(const uint64_t key[2], const void *bytes, size_t len);

#define RIPC__FNV1A_INIT UINT64_C(0xcbf29ce484222325)

/* FNV-1a of bytes, continued from @hash; RIPC__FNV1A_INIT begins one. */
static inline uint64_t ripc__fnv1a(uint64_t hash, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len--)
		hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
	return hash;
}

#endif
