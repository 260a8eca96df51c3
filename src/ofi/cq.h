/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completion queues. A queue never overruns: an operation reserves its entry when it begins, and
 * ends with ofi_cq_put() or ofi_cq_unreserve(). Lock of the domain held.
 */
#ifndef OFI_CQ_H
#define OFI_CQ_H

#include "ofi/wait.h"

/* A completion, or an error if err is not 0. */
struct ofi_completion {
	/* the other formats are its beginning, and it is that of struct fi_cq_err_entry */
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;
	size_t olen;
	int err; /* positive */
};

struct ofi_cq {
	struct ofi_sources sources;
	size_t entry_len; /* of the format */
	struct ofi_completion *ring;
	unsigned size; /* of the ring, a power of two */
	unsigned head, used, reserved;
	unsigned used_max; /* operations get -FI_EAGAIN from here on */
	bool woken;        /* fi_cq_signal() */
};

int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		void *context);
/* ofi_cq_reserve() of a queue that is full, or whose ring is. */
int ofi_cq_reserve_more(struct ofi_cq *cq);
/* Return: 0; -FI_EAGAIN: too many unread entries; -FI_ENOMEM. */
static inline int ofi_cq_reserve(struct ofi_cq *cq)
{
	if (cq->used >= cq->used_max || cq->used + cq->reserved >= cq->size)
		return ofi_cq_reserve_more(cq);
	cq->reserved++;
	return 0;
}
static inline void ofi_cq_unreserve(struct ofi_cq *cq)
{
	cq->reserved--;
}
/* Uses a reservation. Return: the entry, for the caller to fill before it releases the lock. */
static inline struct ofi_completion *ofi_cq_put(struct ofi_cq *cq)
{
	cq->reserved--;
	ofi_sources_signal(&cq->sources);
	return &cq->ring[(cq->head + cq->used++) & (cq->size - 1)];
}

#endif
