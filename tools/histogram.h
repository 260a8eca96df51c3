/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A log-linear histogram of times in nanoseconds: three significant digits, constant memory.
 *
 * Values below 2048 are counted exactly. Above, each power of two is cut into 1024 equal buckets,
 * so a value read back is off by at most 1/2048 of itself. Values from 2^40 ns (18 minutes) on
 * share the last bucket; minimum, maximum and mean are exact for all.
 */
#ifndef RIPC_TOOLS_HISTOGRAM_H
#define RIPC_TOOLS_HISTOGRAM_H

#include <stdint.h>

struct histogram;

/*
 * An empty histogram (about 250 KiB), to be freed with histogram_free(). Return: NULL when out of
 * memory.
 */
struct histogram *histogram_new(void);

/* NULL does nothing. */
void histogram_free(struct histogram *h);

/* Counts one value. Never fails, takes constant time. */
void histogram_add(struct histogram *h, uint64_t ns);

/* Adds all that was counted in @from. */
void histogram_merge(struct histogram *h, const struct histogram *from);

uint64_t histogram_count(const struct histogram *h);

/* All of these are 0 for an empty histogram. */
uint64_t histogram_min(const struct histogram *h);
uint64_t histogram_max(const struct histogram *h);
double histogram_mean(const struct histogram *h);

/*
 * The smallest value that at least @percent (0 .. 100) of all values do not exceed: the
 * nearest-rank definition, without interpolation.
 */
uint64_t histogram_percentile(const struct histogram *h, double percent);

#endif
