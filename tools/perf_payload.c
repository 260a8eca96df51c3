/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "perf.h"

#include <endian.h>
#include <string.h>

/* Word @i of message @number: odd multipliers, so that neighbours in either direction differ. */
static uint64_t word(uint64_t number, uint64_t i)
{
	uint64_t word = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return htole64(word + i * UINT64_C(0xd1b54a32d192ed03));
}

void perf_fill(void *buf, size_t len, uint64_t number)
{
	unsigned char *at = buf;
	uint64_t i = 0;

	for (; len >= 8; len -= 8, at += 8) {
		uint64_t w = word(number, i++);

		memcpy(at, &w, 8);
	}
	if (len) {
		uint64_t w = word(number, i);

		memcpy(at, &w, len);
	}
}

bool perf_check(const void *buf, size_t len, uint64_t number)
{
	const unsigned char *at = buf;
	uint64_t i = 0;

	for (; len >= 8; len -= 8, at += 8) {
		uint64_t w = word(number, i++);

		if (memcmp(at, &w, 8))
			return false;
	}
	if (len) {
		uint64_t w = word(number, i);

		return !memcmp(at, &w, len);
	}
	return true;
}
