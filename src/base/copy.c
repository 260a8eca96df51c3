/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/copy.h"

#ifdef __SSE2__
#include <emmintrin.h>

#define LINE ((size_t)64) /* bytes of a cache line */

void ripc__copy_streaming(void *to, const void *from, size_t len)
{
	size_t head = -(uintptr_t)to % LINE, lines;
	const __m128i *in;
	__m128i *out;

	memcpy(to, from, head);
	out = (__m128i *)(void *)((uint8_t *)to + head);
	in = (const __m128i *)(const void *)((const uint8_t *)from + head);
	lines = (len - head) / LINE;
	for (size_t i = 0; i < lines; i++, in += 4, out += 4) {
		__m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
		__m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);

		_mm_stream_si128(out, a);
		_mm_stream_si128(out + 1, b);
		_mm_stream_si128(out + 2, c);
		_mm_stream_si128(out + 3, d);
	}
	memcpy(out, in, len - head - lines * LINE);
	/* Stores of other kinds do not overtake these. */
	_mm_sfence();
}
#else
void ripc__copy_streaming(void *to, const void *from, size_t len)
{
	ripc__copy(to, from, len);
}
#endif
