/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The lengths of a program of 2012. Releases of that time took them as uint32_t * or as size_t *,
 * and all of them returned the sizes of received items as uint32_t *. Programs for size_t * echo a
 * message with a cast: (size_t *)sizes. With one item such a program worked on a little-endian host
 * if 4 bytes of 0 followed. Therefore n entries of 0 follow the n sizes. With more than one item
 * the entries cannot be read through the cast. The last entry is then COMPAT_SIZES_MARK: a send
 * that finds it reads the array as uint32_t.
 */
#ifndef RIPC_COMPAT_LENGTHS_H
#define RIPC_COMPAT_LENGTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* As the upper half of a length it means 2^62 bytes, which no item has. */
#define COMPAT_SIZES_MARK 0x45434f48u

/* One of the two is set, or none. */
struct compat_lengths {
	const uint32_t *narrow;
	const size_t *wide;
};

static inline struct compat_lengths compat_narrow(const uint32_t *lengths)
{
	return (struct compat_lengths){.narrow = lengths};
}

static inline struct compat_lengths compat_wide(const size_t *lengths)
{
	return (struct compat_lengths){.wide = lengths};
}

static inline bool compat_lengths_given(const struct compat_lengths *l)
{
	return l->narrow || l->wide;
}

static inline size_t compat_length(const struct compat_lengths *l, unsigned i)
{
	return l->wide ? l->wide[i] : l->narrow[i];
}

/* If the n lengths are sizes of ripc_receive() under a cast, reads them as uint32_t from now on. */
static inline void compat_lengths_reread(struct compat_lengths *l, unsigned n)
{
	if (l->wide && n > 1 && (uint64_t)l->wide[n - 1] >> 32 == COMPAT_SIZES_MARK)
		*l = compat_narrow((const uint32_t *)(const void *)l->wide);
}

/* An array of n sizes, all 0, for ripc_receive(). NULL: no memory. */
static inline uint32_t *compat_sizes_new(unsigned n)
{
	uint32_t *sizes = calloc(n, 2 * sizeof(*sizes));

	if (sizes && n > 1)
		sizes[2 * n - 1] = COMPAT_SIZES_MARK;
	return sizes;
}

#endif
