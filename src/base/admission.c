/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define RESERVE_MIN 4
#define RESERVE_MAX 256
#define PENDING_MIN 8

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Order: by address, then the most valuable entry first. */
static int by_source(const void *pa, const void *pb)
{
	const struct ripc__entry *a = pa, *b = pb;
	int c = compare(a->source, b->source);

	if (!c)
		c = compare(b->rank, a->rank);
	return c ? c : compare(b->since_ns, a->since_ns);
}

/* Order: the first entry to be evicted comes first. */
static int by_depth(const void *pa, const void *pb)
{
	const struct ripc__entry *a = pa, *b = pb;
	int c = (a->rank == RIPC__RANK_NEVER) - (b->rank == RIPC__RANK_NEVER);

	if (!c)
		c = compare(b->depth, a->depth);
	if (!c)
		c = compare(a->rank, b->rank);
	return c ? c : compare(a->since_ns, b->since_ns);
}

size_t ripc__admission_pick(struct ripc__entry *entries, size_t n, size_t want)
{
	size_t victims = 0;

	if (!n)
		return 0;
	qsort(entries, n, sizeof(*entries), by_source);
	entries[0].depth = 0;
	for (size_t i = 1; i < n; i++)
		entries[i].depth =
			entries[i].source == entries[i - 1].source ? entries[i - 1].depth + 1 : 0;
	qsort(entries, n, sizeof(*entries), by_depth);
	while (victims < n && victims < want && entries[victims].rank != RIPC__RANK_NEVER)
		victims++;
	return victims;
}

uint64_t ripc__descriptor_reserve(uint64_t limit)
{
	uint64_t reserve = limit / 8;

	if (reserve > RESERVE_MAX)
		return RESERVE_MAX;
	return reserve < RESERVE_MIN ? RESERVE_MIN : reserve;
}

static bool descriptor_limit(uint64_t *limit)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == RLIM_INFINITY)
		return false;
	*limit = r.rlim_cur;
	return true;
}

bool ripc__descriptors_low(int fd)
{
	uint64_t limit;

	if (fd < 0)
		return true;
	return descriptor_limit(&limit) && (uint64_t)fd + ripc__descriptor_reserve(limit) >= limit;
}

unsigned ripc__pending_max(unsigned most)
{
	uint64_t limit;

	if (!descriptor_limit(&limit) || limit / 16 >= most)
		return most;
	return limit / 16 < PENDING_MIN ? PENDING_MIN : (unsigned)(limit / 16);
}

uint32_t ripc__pending_rank(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN
		       ? 0
		       : RIPC__RANK_NEVER;
}
