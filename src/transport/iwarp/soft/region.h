/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of registered memory, by STag. Pure. */
#ifndef RIPC_IWARP_REGION_H
#define RIPC_IWARP_REGION_H

#include "base/list.h"
#include "base/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__REGIONS_MAX (1u << 20) /* most registrations at a time */

/* One registration. */
struct ripc__region {
	struct ripc__node node; /* in the table, by stag, unless that is 0 */
	uint8_t *base;
	size_t len;             /* bytes */
	uint64_t addr;          /* tagged offset of base; random, so that it cannot be guessed */
	uint32_t stag;          /* random, too; 0: it has no rights */
	unsigned access;        /* of enum ripc__access */
	uint32_t users;         /* transfers in progress that read or write the memory */
	uint64_t written;       /* bytes from base that the peer wrote without a gap */
	bool begun;             /* a Write to it has come */
	struct ripc__list link; /* in grants of its endpoint, if it is one; or in local */
};

struct ripc__regions {
	struct ripc__table table;
	struct ripc__list local; /* those without rights: sources of writes */
	uint32_t nlocal;
	uint64_t secret[2]; /* key of the generator of STags and offsets */
	uint64_t drawn;     /* numbers generated so far */
};

/* Starts an empty table. @secret: 16 unpredictable bytes. */
void ripc__regions_init(struct ripc__regions *r, const uint8_t secret[16]);
/* Frees the table and all regions. */
void ripc__regions_fini(struct ripc__regions *r);

/*
 * Adds a region. Without rights it gets no STag. Return: it, or NULL: out of memory, or
 * RIPC__REGIONS_MAX reached.
 */
struct ripc__region *ripc__region_add(struct ripc__regions *r, void *base, size_t len,
				      unsigned access);
/* Removes and frees it. Its STag is invalid afterwards. */
void ripc__region_remove(struct ripc__regions *r, struct ripc__region *region);
/* Return: the region of an STag (any number), or NULL. */
struct ripc__region *ripc__region_find(const struct ripc__regions *r, uint32_t stag);

#endif
