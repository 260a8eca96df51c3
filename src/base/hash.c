/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/hash.h"

#include <endian.h>

static uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

uint64_t ripc__siphash_bytes(const uint64_t key[2], const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	uint64_t word = 0, v[4] = {
				   key[0] ^ UINT64_C(0x736f6d6570736575),
				   key[1] ^ UINT64_C(0x646f72616e646f6d),
				   key[0] ^ UINT64_C(0x6c7967656e657261),
				   key[1] ^ UINT64_C(0x7465646279746573),
			   };

	for (size_t i = 0; i < len; i++) {
		word |= (uint64_t)p[i] << 8 * (i & 7);
		if ((i & 7) == 7) {
			sip_word(v, word);
			word = 0;
		}
	}
	sip_word(v, word | (uint64_t)len << 56);
	v[2] ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t ripc__siphash(const uint64_t key[2], uint64_t number)
{
	const uint64_t bytes = htole64(number);

	return ripc__siphash_bytes(key, &bytes, sizeof(bytes));
}
