/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "histogram.h"

#include <math.h>
#include <stdlib.h>

#define HALF_BITS  10 /* log2 of the buckets per power of two */
#define HALF       (1u << HALF_BITS)
#define VALUE_BITS 40 /* values of more bits share the last bucket */
#define BUCKETS    ((VALUE_BITS - HALF_BITS + 1) * HALF)

struct histogram {
	uint64_t count, min, max;
	double sum; /* a double holds 2^53 ns (104 days) without rounding */
	uint64_t bucket[BUCKETS];
};

/*
 * With s the shift that brings a value into [HALF, 2*HALF), its bucket is s*HALF + (value >> s):
 * the first 2*HALF buckets hold one value each, and every further HALF buckets are twice as wide.
 */
static unsigned bucket_of(uint64_t value)
{
	unsigned shift;

	if (value < 2 * HALF)
		return (unsigned)value;
	if (value >> VALUE_BITS)
		return BUCKETS - 1;
	shift = 63 - (unsigned)__builtin_clzll(value) - HALF_BITS;
	return shift * HALF + (unsigned)(value >> shift);
}

/* The middle of a bucket: it halves the largest error. */
static uint64_t value_of(unsigned bucket)
{
	unsigned shift;

	if (bucket < 2 * HALF)
		return bucket;
	shift = bucket / HALF - 1;
	return ((uint64_t)(bucket - shift * HALF) << shift) + ((uint64_t)1 << shift) / 2;
}

struct histogram *histogram_new(void)
{
	return calloc(1, sizeof(struct histogram));
}

void histogram_free(struct histogram *h)
{
	free(h);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	if (!h->count || ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
	h->count++;
	h->sum += (double)ns;
	h->bucket[bucket_of(ns)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *from)
{
	if (!from->count)
		return;
	if (!h->count || from->min < h->min)
		h->min = from->min;
	if (from->max > h->max)
		h->max = from->max;
	h->count += from->count;
	h->sum += from->sum;
	for (unsigned i = 0; i < BUCKETS; i++)
		h->bucket[i] += from->bucket[i];
}

uint64_t histogram_count(const struct histogram *h)
{
	return h->count;
}

uint64_t histogram_min(const struct histogram *h)
{
	return h->min;
}

uint64_t histogram_max(const struct histogram *h)
{
	return h->max;
}

double histogram_mean(const struct histogram *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
	double exact = ceil(percent / 100 * (double)h->count);
	uint64_t rank = exact < 1 ? 1 : (uint64_t)exact;
	uint64_t seen = 0;

	if (!h->count)
		return 0;
	if (rank >= h->count)
		return h->max;
	for (unsigned i = 0; i < BUCKETS; i++) {
		uint64_t value;

		seen += h->bucket[i];
		if (seen < rank)
			continue;
		value = i == BUCKETS - 1 ? h->max : value_of(i);
		/* The middle of a bucket may lie outside of what was seen. */
		if (value < h->min)
			return h->min;
		return value > h->max ? h->max : value;
	}
	return h->max;
}
