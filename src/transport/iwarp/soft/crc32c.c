/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_HARDWARE
#define CRC_TARGET       __attribute__((target("sse4.2")))
#define CRC_WORD(crc, w) _mm_crc32_u64((crc), (w))
#define CRC_BYTE(crc, b) _mm_crc32_u8((uint32_t)(crc), (b))
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define CRC_HARDWARE
#ifdef __clang__
#define CRC_TARGET __attribute__((target("crc")))
#else
#define CRC_TARGET __attribute__((target("+crc")))
#endif
#define CRC_WORD(crc, w) __crc32cd((uint32_t)(crc), (w))
#define CRC_BYTE(crc, b) __crc32cb((uint32_t)(crc), (b))
#define CRC_HWCAP        (1 << 7) /* HWCAP_CRC32 */
#endif

#define POLY UINT32_C(0x82f63b78) /* bit-reflected 0x1edc6f41 */

/*
 * The instruction has a latency of three cycles and a throughput of one, so three streams keep it
 * busy. Each stream of a round has LONG_BYTES or SHORT_BYTES; shift tables combine the CRCs of the
 * streams.
 */
#define LONG_BYTES  2048
#define SHORT_BYTES 256

static uint32_t slices[8][256]; /* portable: CRC of a byte followed by k zero bytes */
#ifdef CRC_HARDWARE
static uint32_t shift_long[4][256];  /* CRC register advanced over LONG_BYTES zero bytes, by byte */
static uint32_t shift_short[4][256]; /* ... SHORT_BYTES */
static bool hardware;                /* the processor has the instruction */
#endif
static pthread_once_t once = PTHREAD_ONCE_INIT;

#ifdef CRC_HARDWARE
/* A CRC register advanced over zero bytes. */
static uint32_t advance(uint32_t crc, size_t zeros)
{
	while (zeros--)
		crc = (crc >> 8) ^ slices[0][crc & 255];
	return crc;
}

static void make_shift(uint32_t table[4][256], size_t bytes)
{
	/* That of several bits is the sum of those of each. */
	for (unsigned k = 0; k < 4; k++)
		for (uint32_t b = 0; b < 256; b++)
			table[k][b] = b & (b - 1) ? table[k][b & (b - 1)] ^ table[k][b & -b]
						  : advance(b << (8 * k), bytes);
}
#endif

static void prepare(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (unsigned i = 0; i < 8; i++)
			crc = crc & 1 ? (crc >> 1) ^ POLY : crc >> 1;
		slices[0][b] = crc;
	}
	for (uint32_t b = 0; b < 256; b++)
		for (unsigned k = 1; k < 8; k++)
			slices[k][b] = (slices[k - 1][b] >> 8) ^ slices[0][slices[k - 1][b] & 255];
#ifdef CRC_HARDWARE
	make_shift(shift_long, LONG_BYTES);
	make_shift(shift_short, SHORT_BYTES);
#if defined(__x86_64__)
	hardware = __builtin_cpu_supports("sse4.2");
#else
	hardware = getauxval(AT_HWCAP) & CRC_HWCAP;
#endif
#endif
}

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap64(v);
#endif
	return v;
}

static uint32_t portable(uint32_t crc, const uint8_t *p, size_t len)
{
	crc = ~crc;
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v = load64(p) ^ crc;

		crc = slices[7][v & 255] ^ slices[6][v >> 8 & 255] ^ slices[5][v >> 16 & 255] ^
		      slices[4][v >> 24 & 255] ^ slices[3][v >> 32 & 255] ^
		      slices[2][v >> 40 & 255] ^ slices[1][v >> 48 & 255] ^ slices[0][v >> 56];
	}
	while (len--)
		crc = (crc >> 8) ^ slices[0][(crc ^ *p++) & 255];
	return ~crc;
}

#ifdef CRC_HARDWARE
static inline uint32_t shift(uint32_t table[4][256], uint32_t crc)
{
	return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^
	       table[3][crc >> 24];
}

CRC_TARGET static inline uint32_t three_streams(uint32_t crc, const uint8_t *p, size_t bytes,
						uint32_t table[4][256])
{
	uint64_t a = crc, b = 0, c = 0;

	for (const uint8_t *end = p + bytes; p < end; p += 8) {
		a = CRC_WORD(a, load64(p));
		b = CRC_WORD(b, load64(p + bytes));
		c = CRC_WORD(c, load64(p + 2 * bytes));
	}
	return shift(table, shift(table, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

CRC_TARGET static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t word;

	crc = ~crc;
	for (; len >= 3 * LONG_BYTES; p += 3 * LONG_BYTES, len -= 3 * LONG_BYTES)
		crc = three_streams(crc, p, LONG_BYTES, shift_long);
	for (; len >= 3 * SHORT_BYTES; p += 3 * SHORT_BYTES, len -= 3 * SHORT_BYTES)
		crc = three_streams(crc, p, SHORT_BYTES, shift_short);
	for (word = crc; len >= 8; p += 8, len -= 8)
		word = CRC_WORD(word, load64(p));
	for (crc = (uint32_t)word; len; len--)
		crc = CRC_BYTE(crc, *p++);
	return ~crc;
}
#endif

uint32_t ripc__crc32c(uint32_t crc, const void *data, size_t len)
{
	pthread_once(&once, prepare);
#ifdef CRC_HARDWARE
	if (hardware)
		return by_instruction(crc, data, len);
#endif
	return portable(crc, data, len);
}

uint32_t ripc__crc32c_portable(uint32_t crc, const void *data, size_t len)
{
	pthread_once(&once, prepare);
	return portable(crc, data, len);
}
