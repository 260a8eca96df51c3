/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/memory_limit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static uint64_t limit_of(const char *root, const char *group)
{
	char path[PATH_MAX + sizeof("/memory.max")];
	uint64_t limit = UINT64_MAX;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s%s/memory.max", root, group) >= (int)sizeof(path))
		return UINT64_MAX;
	f = fopen(path, "re");
	/* "max", which is no number, is no limit. */
	if (f && fscanf(f, "%" SCNu64, &limit) != 1)
		limit = UINT64_MAX;
	if (f)
		fclose(f);
	return limit;
}

uint64_t ripc__memory_limit(const char *of_process, const char *root)
{
	uint64_t least = UINT64_MAX, limit;
	char line[PATH_MAX] = "", *end;
	FILE *f = fopen(of_process, "re");

	/* Other lines name the cgroups of version 1. */
	while (f && fgets(line, sizeof(line), f) && strncmp(line, "0::/", 4))
		*line = 0;
	if (f)
		fclose(f);
	line[strcspn(line, "\n")] = 0;
	while ((end = strrchr(line, '/'))) {
		limit = limit_of(root, line + strlen("0::"));
		least = limit < least ? limit : least;
		*end = 0;
	}
	return least;
}
