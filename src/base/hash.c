/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/hash.h"

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static inline struct sip sip_round(struct sip s)
{
	s.v0 += s.v1;
	s.v1 = rotate(s.v1, 13) ^ s.v0;
	s.v0 = rotate(s.v0, 32);
	s.v2 += s.v3;
	s.v3 = rotate(s.v3, 16) ^ s.v2;
	s.v0 += s.v3;
	s.v3 = rotate(s.v3, 21) ^ s.v0;
	s.v2 += s.v1;
	s.v1 = rotate(s.v1, 17) ^ s.v2;
	s.v2 = rotate(s.v2, 32);
	return s;
}

static inline struct sip sip_word(struct sip s, uint64_t word)
{
	s.v3 ^= word;
	s = sip_round(sip_round(s));
	s.v0 ^= word;
	return s;
}

static inline struct sip sip_begin(const uint64_t key[2])
{
	return (struct sip){
		key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d),
		key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573),
	};
}

/* @word: the last bytes. @len: of all. */
static inline uint64_t sip_end(struct sip s, uint64_t word, size_t len)
{
	s = sip_word(s, word | (uint64_t)len << 56);
	s.v2 ^= 0xff;
	s = sip_round(sip_round(sip_round(sip_round(s))));
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t ripc__siphash_bytes(const uint64_t key[2], const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	struct sip s = sip_begin(key);
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++) {
		word |= (uint64_t)p[i] << 8 * (i & 7);
		if ((i & 7) == 7) {
			s = sip_word(s, word);
			word = 0;
		}
	}
	return sip_end(s, word, len);
}

uint64_t ripc__siphash(const uint64_t key[2], uint64_t number)
{
	return sip_end(sip_word(sip_begin(key), number), 0, sizeof(number));
}
