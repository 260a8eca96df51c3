/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/copy.h"
#include "base/clock.h"

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

/* ---- the faster kind ---- */

#define PAGE        4096u
#define SCORE_MAX   3   /* a few measurements in a row that differ change the choice */
#define FIRST       8u  /* copies that all measure, */
#define MEASURE_ONE 64u /* and then one of so many */

void ripc__copy_measured(struct ripc__copy_choice *c, uint64_t around_ns, uint64_t through_ns)
{
	int score = atomic_load_explicit(&c->score, memory_order_relaxed);

	if (through_ns < around_ns)
		score += score < SCORE_MAX;
	else
		score -= score > -SCORE_MAX;
	atomic_store_explicit(&c->score, (signed char)score, memory_order_relaxed);
}

/* Copies a page. Return: the time. */
static uint64_t timed(void (*copy)(void *to, const void *from, size_t len), void *to,
		      const void *from)
{
	uint64_t begin_ns = ripc__clock_ns();

	copy(to, from, PAGE);
	stream_end();
	return ripc__clock_ns() - begin_ns;
}

/* Copies two pages, the first of either kind. */
static void measure(struct ripc__copy_choice *c, uint8_t *to, const uint8_t *from,
		    bool streaming_first)
{
	uint64_t ns[2];

	for (unsigned i = 0; i < 2; i++) {
		bool streaming = streaming_first == !i;

		ns[streaming] = timed(streaming ? ripc__copy_streaming : ripc__copy, to + i * PAGE,
				      from + i * PAGE);
	}
	ripc__copy_measured(c, ns[true], ns[false]);
}

void ripc__copy_to_reader(struct ripc__copy_choice *c, void *to, const void *from, size_t len)
{
	unsigned n = atomic_fetch_add_explicit(&c->copies, 1, memory_order_relaxed);
	size_t done = 0;

	if (n < FIRST || n % MEASURE_ONE == 0) {
		/* The first page may fault. */
		ripc__copy(to, from, PAGE);
		measure(c, (uint8_t *)to + PAGE, (const uint8_t *)from + PAGE,
			(n ^ n / MEASURE_ONE) & 1);
		done = 3 * PAGE;
	}
	(ripc__copy_is_streaming(c) ? ripc__copy_streaming : ripc__copy)(
		(uint8_t *)to + done, (const uint8_t *)from + done, len - done);
}
