/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hashes: a keyed one, whose values others cannot predict, and three without a key. */
#ifndef RIPC_BASE_HASH_H
#define RIPC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* SipHash-2-4 of one 64-bit number (Aumasson, Bernstein: SipHash, 2012). */
uint64_t ripc__siphash(const uint64_t key[2], uint64_t number);

/* The same of @len bytes, in the byte order of the paper: equal on every machine. */
uint64_t ripc__siphash_bytes(const uint64_t key[2], const void *bytes, size_t len);

/* The finalizer of SplitMix64: each bit of @z affects all bits of the result. */
static inline uint64_t ripc__mix64(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

#define RIPC__SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The next random number of SplitMix64. Not for secrets. */
static inline uint64_t ripc__splitmix(uint64_t *state)
{
	return ripc__mix64(*state += RIPC__SPLITMIX_STEP);
}

#define RIPC__FNV1A_INIT UINT64_C(0xcbf29ce484222325)

/* FNV-1a of bytes, continued from @hash; RIPC__FNV1A_INIT begins one. */
static inline uint64_t ripc__fnv1a(uint64_t hash, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len--)
		hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
	return hash;
}

/* A quick hash of bytes: the upper half of the result is well mixed. */
static inline uint64_t ripc__hash_quick(const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	uint64_t hash = len;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, at + i, len - i < 8 ? len - i : 8);
		hash = (hash ^ word) * RIPC__SPLITMIX_STEP;
	}
	return hash;
}

#endif
