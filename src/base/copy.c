/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/copy.h"

#define LINE RIPC__CACHE_LINE

#ifdef __SSE2__
#include <emmintrin.h>

/* Whole lines. to: the begin of one. */
static inline void stream_lines(void *to, const void *from, size_t lines)
{
	const __m128i *in = from;
	__m128i *out = to;

	for (size_t i = 0; i < lines; i++, in += 4, out += 4) {
		__m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
		__m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);

		_mm_stream_si128(out, a);
		_mm_stream_si128(out + 1, b);
		_mm_stream_si128(out + 2, c);
		_mm_stream_si128(out + 3, d);
	}
}

/* Stores of other kinds do not overtake those of stream_lines(). */
static inline void stream_end(void)
{
	_mm_sfence();
}
#else
static inline void stream_lines(void *to, const void *from, size_t lines)
{
	ripc__copy(to, from, lines * LINE);
}

static inline void stream_end(void)
{
}
#endif

void ripc__copy_streaming(void *to, const void *from, size_t len)
{
	size_t head = -(uintptr_t)to % LINE, lines = (len - head) / LINE;
	uint8_t *out = (uint8_t *)to + head;
	const uint8_t *in = (const uint8_t *)from + head;

	memcpy(to, from, head);
	stream_lines(out, in, lines);
	memcpy(out + lines * LINE, in + lines * LINE, len - head - lines * LINE);
	stream_end();
}

void ripc__copy_streaming_lines(void *to, const void *from, size_t len)
{
	uint8_t last[LINE] __attribute__((aligned(LINE)));
	size_t whole = len - len % LINE;

	stream_lines(to, from, whole / LINE);
	if (whole < len) {
		memcpy(last, (const uint8_t *)from + whole, len - whole);
		memset(last + (len - whole), 0, LINE - (len - whole));
		stream_lines((uint8_t *)to + whole, last, 1);
	}
	stream_end();
}
