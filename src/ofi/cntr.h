/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counters of completed operations. */
#ifndef OFI_CNTR_H
#define OFI_CNTR_H

#include "ofi/wait.h"

struct ofi_cntr {
	struct ofi_sources sources;
	uint64_t value, errors; /* lock of the domain held */
};

int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		  void *context);
/* An operation has ended. cntr may be NULL. Lock held. */
static inline void ofi_cntr_count(struct ofi_cntr *cntr, bool error)
{
	if (!cntr)
		return;
	if (error)
		cntr->errors++;
	else
		cntr->value++;
	ofi_sources_signal(&cntr->sources);
}

#endif
