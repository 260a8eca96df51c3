/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Admission: which entry of a full table gives way to a new one. One policy for every table that
 * the network or another process of this host can fill: half-open connections, set-ups that are not
 * confirmed, idle lanes, peers without lanes.
 *
 *   1. The source address with the most entries gives first.
 *   2. Among entries of one address the lowest rank gives first, then the oldest.
 *   3. Entries of rank RIPC__RANK_NEVER count for their address, and never give.
 *
 * So one address can only displace its own entries, as long as another holds fewer; a new entry is
 * the last of its address to go. Limits are derived from RLIMIT_NOFILE. Pure, but for
 * ripc__descriptors_low() and ripc__pending_max(), which ask for that limit.
 */
#ifndef RIPC_BASE_ADMISSION_H
#define RIPC_BASE_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__RANK_NEVER UINT32_MAX

struct ripc__entry {
	uint64_t source; /* equal for entries that one address caused */
	uint64_t since_ns;
	uint32_t rank;
	uint32_t depth; /* filled in: entries of this address that are worth more */
	void *object;   /* the caller's */
};

/* A source of its own, for an entry that no address of the network caused. */
static inline uint64_t ripc__source_unique(const void *object)
{
	return (uint64_t)(uintptr_t)object | UINT64_C(1) << 63;
}

/*
 * Puts the entries that give way in front, the first to go first. Return: how many, at most @want.
 */
size_t ripc__admission_pick(struct ripc__entry *entries, size_t n, size_t want);

/* How many descriptors of @limit are kept free for new connections and for the application. */
uint64_t ripc__descriptor_reserve(uint64_t limit);

/*
 * Whether descriptors run low, by the number of one that was just opened: the kernel gives the
 * lowest that is free, so that all below it are in use, whoever of this process has them. -1: there
 * was none.
 */
bool ripc__descriptors_low(int fd);

/* How many set-ups may be under way at once, at most @most: each costs a descriptor. */
unsigned ripc__pending_max(unsigned most);

#endif
