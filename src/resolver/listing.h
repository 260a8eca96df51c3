/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The services found by a list, each of each holder once. Bounded. */
#ifndef RIPC_RESOLVER_LISTING_H
#define RIPC_RESOLVER_LISTING_H

#include "base/table.h"
#include "wire/record.h"

#include <stdbool.h>

#define RIPC__LISTING_MAX       65536       /* services at most; further ones are dropped */
#define RIPC__LISTING_BYTES_MAX (32u << 20) /* of their records */

struct ripc__listing {
	struct ripc__table table;
	size_t bytes;
	/* nothing was dropped for its number or for lack of memory, no announced page is missing */
	bool complete;
};

void ripc__listing_init(struct ripc__listing *listing, uint64_t secret);
void ripc__listing_fini(struct ripc__listing *listing);

/* Adds a service, or replaces what was found before of the same holder. */
void ripc__listing_add(struct ripc__listing *listing, const struct ripc__record *record);

/*
 * Calls @fn for each service, with rising ids; of one id the higher generation first. @fn may not
 * change the listing. Return: 0 or -ENOMEM.
 */
int ripc__listing_each(const struct ripc__listing *listing,
		       void (*fn)(void *arg, const struct ripc__record *record), void *arg);

#endif
