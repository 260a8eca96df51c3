/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies of payload. From 4 KiB on memcpy() of the C library uses one instruction, rep movsb. It is
 * the fastest between two processors, except in two cases. An emulator executes it byte by byte.
 * AMD family 25 takes 30 times as long, 2 GB/s in place of 60 (glibc 2.36), if the target begins 1
 * to 31 bytes behind the source, modulo 4096. Pieces of RIPC__COPY_PIECE are copied by other
 * instructions.
 */
#ifndef RIPC_BASE_COPY_H
#define RIPC_BASE_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RIPC__COPY_PIECE ((size_t)2048)

/* As memcpy(), always in pieces: for memory of devices, which are emulated in the lab. */
static inline void ripc__copy_pieces(void *to, const void *from, size_t len)
{
	uint8_t *out = to;
	const uint8_t *in = from;

	for (size_t at = 0; at < len; at += RIPC__COPY_PIECE) {
		size_t n = len - at < RIPC__COPY_PIECE ? len - at : RIPC__COPY_PIECE;

		/* gcc must not know the bound of n: it would use rep movsq in place of the call. */
		__asm__("" : "+r"(n));
		memcpy(out + at, in + at, n);
	}
}

/* As memcpy(), in pieces only where those are faster. */
static inline void ripc__copy(void *to, const void *from, size_t len)
{
	size_t behind = ((uintptr_t)to - (uintptr_t)from) % 4096;

	if (len > RIPC__COPY_PIECE && behind - 1 < 31)
		ripc__copy_pieces(to, from, len);
	else
		memcpy(to, from, len);
}

/* Brings a cache line to this processor for a store, in the background: no fence waits for it. */
static inline void ripc__prefetch_write(const void *line)
{
#ifdef __x86_64__
	/* gcc emits it only with -mprfchw, but each 64-bit processor executes or ignores it. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

#define RIPC__CACHE_LINE ((size_t)64)

/*
 * As memcpy(), for bytes that another processor reads next: the stores go around the cache. A store
 * into a line that is in the reader's cache would fetch the line first: 64 KiB take 5 us in place
 * of 30 between processors far apart, and of 8 between near ones. len: at least RIPC__CACHE_LINE.
 */
void ripc__copy_streaming(void *to, const void *from, size_t len);
/* The same in whole lines. to: begins a line; the rest of the last line becomes 0. */
void ripc__copy_streaming_lines(void *to, const void *from, size_t len);

/*
 * The faster of ripc__copy() and ripc__copy_streaming(), which depends on the processors: 64 KiB
 * that the reader's cache holds take 30 and 5 us on AMD family 25, 3 and 12 us on an Intel Xeon
 * (Cascade Lake), far apart both. Some copies measure it, by a page of either kind. All 0 at first.
 * Threads may share it.
 */
struct ripc__copy_choice {
	_Atomic(unsigned) copies;
	_Atomic(signed char) score; /* through the cache is faster: above 0 */
};

/* Counts one measurement: times of equal copies around the cache and through it. */
void ripc__copy_measured(struct ripc__copy_choice *c, uint64_t around_ns, uint64_t through_ns);

static inline bool ripc__copy_is_streaming(struct ripc__copy_choice *c)
{
	return atomic_load_explicit(&c->score, memory_order_relaxed) <= 0;
}

/* As memcpy(), for bytes that another processor reads next. len: at least 4 pages. */
void ripc__copy_to_reader(struct ripc__copy_choice *c, void *to, const void *from, size_t len);

#endif
