/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Address vectors. FI_AV_TABLE and FI_AV_MAP are the same: an fi_addr_t is an index. Lock of the
 * domain held.
 */
#ifndef OFI_AV_H
#define OFI_AV_H

#include "ofi/fabric.h"

/* Out of memory, HASH_ADD() leaves hh.tbl NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct ofi_av_entry {
	UT_hash_handle hh; /* of the first entry of a service; of others hh.tbl is NULL */
	uint64_t service;
	size_t index;
};

struct ofi_av {
	struct fid_av fid;
	struct ofi_domain *domain;
	struct ofi_av_entry **entries; /* by index; NULL: removed */
	size_t count, size;
	size_t lowest; /* no index below it is unused */
	struct ofi_av_entry *by_service;
	uint64_t generation; /* of the contents */
	unsigned refs;
};

int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		void *context);
/* The service at an address; 0: none. */
static inline uint64_t ofi_av_service(const struct ofi_av *av, fi_addr_t addr)
{
	return addr < av->count && av->entries[addr] ? av->entries[addr]->service : 0;
}
/* The address of a service, or FI_ADDR_NOTAVAIL. */
fi_addr_t ofi_av_address(const struct ofi_av *av, uint64_t service);

#endif
