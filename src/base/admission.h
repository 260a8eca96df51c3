/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Admission: selects the entries of a full table that are evicted for a new one. All tables that
 * the network or another process of this host can fill use this policy: half-open connections, set-
 * ups that are not confirmed, idle lanes, peers without lanes.
 *
 *   1. The source address with the most entries loses one first.
 *   2. Among entries of one address the lowest rank is evicted first, then the oldest.
 *   3. Entries of rank RIPC__RANK_NEVER count for their address, and are never evicted.
 *
 * Therefore an address can displace only its own entries while another one holds fewer. A new entry
 * is the last of its address to be evicted. Limits are derived from RLIMIT_NOFILE. Pure, except
 * ripc__descriptors_low() and ripc__pending_max(), which read that limit, and ripc__pending_rank(),
 * which looks into a socket.
 */
#ifndef RIPC_BASE_ADMISSION_H
#define RIPC_BASE_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__RANK_NEVER UINT32_MAX

struct ripc__entry {
	uint64_t source; /* equal for entries of one address */
	uint64_t since_ns;
	uint32_t rank;
	uint32_t depth; /* set here: number of entries of this address with a higher value */
	void *object;   /* the caller's */
};

/* A unique source, for an entry that no address of the network caused. */
static inline uint64_t ripc__source_unique(const void *object)
{
	return (uint64_t)(uintptr_t)object | UINT64_C(1) << 63;
}

/*
 * Moves the entries to evict to the front, the first to evict first. Return: their number, at most
 * @want.
 */
size_t ripc__admission_pick(struct ripc__entry *entries, size_t n, size_t want);

/*
 * The number of descriptors of @limit that stay free for new connections and for the application.
 */
uint64_t ripc__descriptor_reserve(uint64_t limit);

/*
 * Whether descriptors run low. @fd: a descriptor that was just opened, -1: none could be opened.
 * The kernel returns the lowest free number, so all numbers below it are in use in this process.
 */
bool ripc__descriptors_low(int fd);

/* Most set-ups that may be under way at once, at most @most: each needs a descriptor. */
unsigned ripc__pending_max(unsigned most);

/*
 * The rank of a connection without a request: RIPC__RANK_NEVER if there is something to read, the
 * request or the end of the connection; else 0. After a pause of this process most of them have.
 */
uint32_t ripc__pending_rank(int fd);

#endif
