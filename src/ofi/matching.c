/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/matching.h"

struct ofi_arrived *ofi_matching_peek(const struct ofi_matching *m, uint64_t source, uint64_t tag,
				      uint64_t ignore)
{
	struct ofi_arrived *a;

	DL_FOREACH (m->arrived, a)
		if (ofi_matching_fits(source, tag, ignore, a))
			return a;
	return NULL;
}

void ofi_matching_keep(struct ofi_matching *m, struct ofi_arrived *a)
{
	DL_APPEND(m->arrived, a);
}

void ofi_matching_remove(struct ofi_matching *m, struct ofi_arrived *a)
{
	DL_DELETE(m->arrived, a);
}

void ofi_matching_claim(struct ofi_matching *m, struct ofi_arrived *a, void *context)
{
	DL_DELETE(m->arrived, a);
	a->claim = context;
	DL_APPEND(m->claimed, a);
}

struct ofi_arrived *ofi_matching_take_claimed(struct ofi_matching *m, const void *context)
{
	struct ofi_arrived *a;

	DL_FOREACH (m->claimed, a) {
		if (a->claim == context) {
			DL_DELETE(m->claimed, a);
			return a;
		}
	}
	return NULL;
}

struct ofi_posted *ofi_matching_cancel(struct ofi_matching *m, const void *context)
{
	struct ofi_posted *p;

	DL_FOREACH (m->posted, p) {
		if (p->context == context) {
			DL_DELETE(m->posted, p);
			return p;
		}
	}
	return NULL;
}
