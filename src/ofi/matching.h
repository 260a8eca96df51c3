/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Matching of posted receives and arrived messages. Pure: no I/O, no memory allocation, no lock.
 *
 *   receive:  post --> POSTED -- find --> matched
 *                      POSTED -- cancel --> withdrawn
 *   message:  keep --> ARRIVED -- post --> matched
 *                       ARRIVED -- claim --> CLAIMED -- take_claimed --> matched
 *
 * A receive takes the earliest message that fits, and a message the earliest receive. The caller
 * owns all entries; an entry that a function returns or removes is in no list.
 */
#ifndef OFI_MATCHING_H
#define OFI_MATCHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <utlist.h>

/* A posted receive. */
struct ofi_posted {
	struct ofi_posted *prev, *next;
	uint64_t source; /* 0: any */
	uint64_t tag;
	uint64_t ignore; /* bits of the tag that are not compared */
	void *context;
};

/* A message that has arrived and is not received. */
struct ofi_arrived {
	struct ofi_arrived *prev, *next;
	uint64_t source; /* never 0 */
	uint64_t tag;
	void *claim; /* the context that claimed it */
};

/* One space of tags. All zero: empty. */
struct ofi_matching {
	struct ofi_posted *posted;
	struct ofi_arrived *arrived;
	struct ofi_arrived *claimed;
};

static inline bool ofi_matching_fits(uint64_t want_source, uint64_t want_tag, uint64_t ignore,
				     const struct ofi_arrived *a)
{
	return (!want_source || want_source == a->source) && !((want_tag ^ a->tag) & ~ignore);
}

/* The message that a receive with these values would take, or NULL. It stays queued. */
struct ofi_arrived *ofi_matching_peek(const struct ofi_matching *m, uint64_t source, uint64_t tag,
				      uint64_t ignore);
/* Posts p, or returns the message that it takes. */
static inline struct ofi_arrived *ofi_matching_post(struct ofi_matching *m, struct ofi_posted *p)
{
	struct ofi_arrived *a = NULL;

	if (m->arrived)
		a = ofi_matching_peek(m, p->source, p->tag, p->ignore);
	if (a)
		DL_DELETE(m->arrived, a);
	else
		DL_APPEND(m->posted, p);
	return a;
}
/* Removes and returns the receive that takes a, or NULL: the caller may keep a. */
static inline struct ofi_posted *ofi_matching_find(struct ofi_matching *m,
						   const struct ofi_arrived *a)
{
	struct ofi_posted *p;

	DL_FOREACH (m->posted, p) {
		if (ofi_matching_fits(p->source, p->tag, p->ignore, a)) {
			DL_DELETE(m->posted, p);
			return p;
		}
	}
	return NULL;
}
/* Queues a message for which ofi_matching_find() returned NULL. */
void ofi_matching_keep(struct ofi_matching *m, struct ofi_arrived *a);
/* Removes an ARRIVED message. */
void ofi_matching_remove(struct ofi_matching *m, struct ofi_arrived *a);
/* Sets an ARRIVED message aside for the context. */
void ofi_matching_claim(struct ofi_matching *m, struct ofi_arrived *a, void *context);
/* The message that the context claimed first, or NULL. */
struct ofi_arrived *ofi_matching_take_claimed(struct ofi_matching *m, const void *context);
/* Withdraws the earliest receive with this context. NULL: there is none. */
struct ofi_posted *ofi_matching_cancel(struct ofi_matching *m, const void *context);

#endif
