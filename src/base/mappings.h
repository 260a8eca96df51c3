/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The mappings of this process at one moment, to find out why memory of the application could not
 * be accessed. No page is read, since that may wait: for a userfaultfd handler or a file server.
 */
#ifndef RIPC_BASE_MAPPINGS_H
#define RIPC_BASE_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Zeros: not read yet. One thread at a time. */
struct ripc__mappings {
	struct ripc__mapping *list; /* by address */
	size_t count;
	bool read, unknown; /* unknown: /proc or memory is missing */
};

/*
 * Whether all of a range may be read, or written; also true if that is not known. The first call
 * reads the mappings, which takes a microsecond for each; further calls use the same.
 */
bool ripc__mappings_permit(struct ripc__mappings *maps, const void *base, size_t len, bool write);
void ripc__mappings_free(struct ripc__mappings *maps);

#endif
