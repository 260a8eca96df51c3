/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/mappings.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct ripc__mapping {
	uintptr_t begin, end;
	bool readable, writable;
};

static bool append(struct ripc__mappings *maps, struct ripc__mapping m)
{
	/* A power of two: the list is full. */
	if (!(maps->count & (maps->count - 1))) {
		size_t room = maps->count ? 2 * maps->count : 1;
		struct ripc__mapping *list = realloc(maps->list, room * sizeof(*list));

		if (!list)
			return false;
		maps->list = list;
	}
	maps->list[maps->count++] = m;
	return true;
}

static void read_mappings(struct ripc__mappings *maps)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct ripc__mapping m;
	char *line = NULL, mode[5];
	size_t size = 0;

	maps->read = true;
	while (f && !maps->unknown && getline(&line, &size, f) > 0) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &m.begin, &m.end, mode) != 3)
			continue;
		m.readable = mode[0] == 'r';
		m.writable = mode[1] == 'w';
		maps->unknown = !append(maps, m);
	}
	free(line);
	if (f)
		fclose(f);
	maps->unknown |= !maps->count;
}

/* The first one that ends behind an address, or the end of the list. */
static const struct ripc__mapping *first_behind(const struct ripc__mappings *maps, uintptr_t at)
{
	const struct ripc__mapping *m = maps->list;
	size_t n = maps->count;

	while (n) {
		size_t half = n / 2;

		if (m[half].end > at) {
			n = half;
		} else {
			m += half + 1;
			n -= half + 1;
		}
	}
	return m;
}

bool ripc__mappings_permit(struct ripc__mappings *maps, const void *base, size_t len, bool write)
{
	uintptr_t at = (uintptr_t)base, end = at + len;
	const struct ripc__mapping *m;

	if (!maps->read)
		read_mappings(maps);
	if (maps->unknown)
		return true;
	for (m = first_behind(maps, at); at < end; m++) {
		if (m == maps->list + maps->count || m->begin > at || !m->readable ||
		    (write && !m->writable))
			return false;
		at = m->end;
	}
	return true;
}

void ripc__mappings_free(struct ripc__mappings *maps)
{
	free(maps->list);
	*maps = (struct ripc__mappings){0};
}
